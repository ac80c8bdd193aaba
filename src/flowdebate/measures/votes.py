"""How votes are counted: ballots in, one tally out, the same in whatever order the ballots arrive."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple, get_args

from flowdebate.errors import ConfigurationError, shown
from flowdebate.measures.schemas import Ballot, Strength, Tally, VotingRule
from flowdebate.measures.short_answers import match_choice

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

__all__ = (
    "Ballot",
    "Strength",
    "Tally",
    "VotingRule",
    "agreement",
    "match_choice",
    "strength",
    "tally",
    "vote_weight",
)

_STRONG = Fraction(4, 5)
_MODERATE = Fraction(3, 5)
_WEAK = Fraction(1, 2)


def agreement(counts: Mapping[str, int], eligible: int) -> Fraction:
    """The share of all `eligible` voters who chose what most chose, from 0 to 1; exact.

    Who did not vote, or spoiled the vote, agreed with nobody.

    >>> agreement({"ann": 2, "bob": 1}, eligible=4)
    Fraction(1, 2)
    """
    _check_heads(counts, eligible)
    return Fraction(max(counts.values(), default=0), eligible)


def strength(counts: Mapping[str, int], *, eligible: int) -> Strength:
    """The word for the agreement r: unanimous 1, strong > 4/5, moderate >= 3/5, weak > 1/2, else split.

    Contested is a split in which there are several choices and none has a second vote.

    >>> strength({"ann": 3, "bob": 2}, eligible=5), strength({"ann": 1, "bob": 1}, eligible=3)
    ('moderate', 'contested')
    """
    share = agreement(counts, eligible)
    if share == 1:
        return "unanimous"
    if share > _STRONG:
        return "strong"
    if share >= _MODERATE:
        return "moderate"
    if share > _WEAK:
        return "weak"
    chosen = [count for count in counts.values() if count]
    return "contested" if len(chosen) > 1 and max(chosen) == 1 else "split"


def _check_heads(counts: Mapping[str, int], eligible: object) -> None:
    if isinstance(eligible, bool) or not isinstance(eligible, int) or eligible < 1:
        raise ConfigurationError("agreement()", "eligible", eligible, "an int >= 1")
    whole = all(isinstance(count, int) and count >= 0 for count in counts.values())
    if not whole or sum(counts.values()) > eligible:
        allowed = f"ints >= 0, in all no more than the {eligible} eligible voters"
        raise ConfigurationError("agreement()", "counts", dict(counts), allowed)


_WHERE = "tally()"
_ONE = Fraction(1)
_ASKED: dict[VotingRule, str] = {
    "majority": "more than half of the eligible voters",
    "supermajority": "two thirds of the eligible voters or more",
    "unanimous": "all eligible voters",
    "weighted": "more than half of the weight of the eligible voters",
}


class _Sums(NamedTuple):
    """What is added up for a choice: exact, so that the order of the ballots changes nothing."""

    heads: int
    weight: Fraction
    share: Fraction
    """Of all eligible voters, or of all weight where the rule goes by weight."""
    confidence: Fraction
    """The same, each vote counted by its confidence."""


def tally(
    ballots: Sequence[Ballot],
    *,
    choices: Sequence[str],
    eligible: Sequence[str],
    rule: VotingRule = "majority",
    weights: Mapping[str, float] | None = None,
    quorum: int | None = None,
    tie_break: str | None = None,
) -> Tally:
    """Count the `ballots` of the `eligible` voters for the `choices`, which are the authors of proposals.

    Every rule is about all eligible voters: who did not vote, or spoiled the vote, has not agreed, so that a vote that
    gets lost can never make a consensus. `winner` is who leads; `reached` says whether that is enough.

    - `weights`: a positive number for each voter; 1 for those without, and for all where it is None. The numbers are
      added as they are written: 0.1 + 0.2 is 0.3.
    - `quorum`: how many valid votes it takes for there to be a winner; None is half of the eligible voters, rounded up,
      and two at least (one for a single voter).
    - `tie_break`: who wins a tie, one of the tied; not looked at where there is none. It makes a winner, and never a
      consensus: no more voters agree than did before.

    ConfigurationError for a second ballot of a voter, and for one of somebody who is not eligible.

    >>> votes = [Ballot(voter="ann", choice="bob"), Ballot(voter="bob", choice="bob"), Ballot(voter="cy", choice="ann")]
    >>> result = tally(votes, choices=["ann", "bob"], eligible=["ann", "bob", "cy"], rule="supermajority")
    >>> result.winner, result.reached, result.reason
    ('bob', True, "'bob' has 2 of 3 votes; supermajority asks for two thirds of the eligible voters or more")
    """
    _check(ballots, choices=choices, eligible=eligible, rule=rule, weights=weights, quorum=quorum)
    needed = min(len(eligible), max(2, -(-len(eligible) // 2))) if quorum is None else quorum
    valid = [ballot for ballot in ballots if ballot.choice in choices]
    sums = _sums(valid, choices, _heavy(eligible, weights or {}), rule)
    leaders = _leaders(sums)
    tied = leaders if len(leaders) > 1 else []
    if tied and tie_break is not None and tie_break not in tied:
        raise ConfigurationError(_WHERE, "tie_break", tie_break, f"None or one of the tied {tied}")
    met = len(valid) >= needed
    leader = tie_break if tied else next(iter(leaders), None)
    winner = leader if met else None
    return Tally(
        rule=rule,
        eligible=len(eligible),
        valid=len(valid),
        spoiled=len(ballots) - len(valid),
        failed=len(eligible) - len(ballots),
        counts={choice: found.heads for choice, found in sums.items()},
        weights={choice: float(found.weight) for choice, found in sums.items()},
        winner=winner,
        tied=tied,
        quorum=needed,
        quorum_met=met,
        confidence=0.0 if winner is None else float(sums[winner].confidence),
        reached=winner is not None and _enough(sums[winner].share, rule),
        reason=_reason(sums, rule, winner=winner, tied=tied, total=len(eligible), quorum=None if met else needed),
    )


def vote_weight(elo: float | None, calibration: float | None) -> float:
    """What a vote weighs: clamp(1 + 0.3 (elo - 1500) / 500, 0.5, 2) * (0.5 + calibration), clamped to [0.1, 5].

    `calibration` is from 0 to 1, how well the confidences of the voter were borne out, 0.5 for as well as not. A part
    of the history that there is none of (None) counts as 1.

    >>> vote_weight(None, None), vote_weight(2000, None), vote_weight(1500, 0)
    (1.0, 1.3, 0.5)
    """
    for field, value in (("elo", elo), ("calibration", calibration)):
        if value is not None and (isinstance(value, bool) or not math.isfinite(value)):
            raise ConfigurationError("vote_weight()", field, value, "a finite number or None")
    rated = 1.0 if elo is None else min(max(1 + 0.3 * (elo - 1500) / 500, 0.5), 2.0)
    calibrated = 1.0 if calibration is None else 0.5 + calibration
    return min(max(rated * calibrated, 0.1), 5.0)


def _heavy(eligible: Sequence[str], weights: Mapping[str, float]) -> dict[str, Fraction]:
    """What each voter weighs."""
    return {voter: _exact(weights[voter]) if voter in weights else _ONE for voter in eligible}


def _sums(
    valid: Sequence[Ballot], choices: Sequence[str], heavy: Mapping[str, Fraction], rule: VotingRule
) -> dict[str, _Sums]:
    """What each choice has, in the order of the choices."""
    by_weight = rule == "weighted"
    whole = sum(heavy.values(), Fraction(0)) if by_weight else Fraction(len(heavy))
    found = {}
    for choice in choices:
        own = [(ballot, heavy[ballot.voter]) for ballot in valid if ballot.choice == choice]
        weight = sum((pounds for _, pounds in own), Fraction(0))
        counted = [(ballot.confidence, pounds if by_weight else Fraction(1)) for ballot, pounds in own]
        found[choice] = _Sums(
            heads=len(own),
            weight=weight,
            share=(weight if by_weight else Fraction(len(own))) / whole,
            confidence=sum((_exact(sure) * pounds for sure, pounds in counted), Fraction(0)) / whole,
        )
    return found


def _exact(number: float) -> Fraction:
    """`number` as it is written."""
    return Fraction(repr(float(number)))


def _leaders(sums: Mapping[str, _Sums]) -> list[str]:
    """Who has the most; nobody where nobody has any."""
    most = max((found.share for found in sums.values()), default=Fraction(0))
    return [choice for choice, found in sums.items() if found.share == most] if most else []


def _enough(share: Fraction, rule: VotingRule) -> bool:
    enough: dict[VotingRule, bool] = {
        "majority": share > Fraction(1, 2),
        "supermajority": share >= Fraction(2, 3),
        "unanimous": share == 1,
        "weighted": share > Fraction(1, 2),
    }
    return enough[rule]


def _reason(
    sums: Mapping[str, _Sums],
    rule: VotingRule,
    *,
    winner: str | None,
    tied: Sequence[str],
    total: int,
    quorum: int | None,
) -> str:
    """Why it ended so; `quorum` is the one that was missed."""
    if quorum is not None:
        votes = sum(found.heads for found in sums.values())
        return f"{votes} of {total} eligible voters cast a valid vote; the quorum is {quorum}"
    if tied:
        names = " and ".join(map(shown, tied))
        return f"{names} share the lead; " + ("there is no tie break" if winner is None else f"{winner!r} was chosen")
    found = sums[str(winner)]
    had = f"{float(found.share):.1%} of the weight" if rule == "weighted" else f"{found.heads} of {total} votes"
    return f"{shown(winner)} has {had}; {rule} asks for {_ASKED[rule]}"


def _check(
    ballots: Sequence[Ballot],
    *,
    choices: Collection[str],
    eligible: Collection[str],
    rule: object,
    weights: Mapping[str, float] | None,
    quorum: object,
) -> None:
    """ConfigurationError for what cannot be counted."""
    if rule not in get_args(VotingRule):
        raise ConfigurationError(_WHERE, "rule", rule, f"one of {', '.join(map(repr, get_args(VotingRule)))}")
    for field, names in (("choices", choices), ("eligible", eligible)):
        if isinstance(names, str) or len(set(names)) != len(names):
            raise ConfigurationError(_WHERE, field, names, "different names")
    if not eligible:
        raise ConfigurationError(_WHERE, "eligible", eligible, "at least one voter")
    if quorum is not None and (isinstance(quorum, bool) or not isinstance(quorum, int) or quorum < 1):
        raise ConfigurationError(_WHERE, "quorum", quorum, "None or an int >= 1")
    for voter, weight in (weights or {}).items():
        if isinstance(weight, bool) or not (math.isfinite(weight) and weight > 0):
            raise ConfigurationError(_WHERE, f"weights[{voter!r}]", weight, "a finite number > 0")
    _check_voters(ballots, eligible)


def _check_voters(ballots: Sequence[Ballot], eligible: Collection[str]) -> None:
    for voter, times in Counter(ballot.voter for ballot in ballots).items():
        if voter not in eligible:
            raise ConfigurationError(_WHERE, "ballots", voter, f"ballots of the eligible voters {list(eligible)}")
        if times > 1:
            raise ConfigurationError(_WHERE, "ballots", f"{times} of {voter!r}", "one of each voter")
