"""Exact counting of votes and scores, independent of the order of the ballots.

Numbers are added as fractions; a float is read as the simplest fraction that rounds to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Annotated, Literal, TypeVar, get_args

from pydantic import Field

from flowdebate._text import join_choices, short_repr
from flowdebate._util.validation import check_choice, check_count, check_weight
from flowdebate._util.wire import WireModel
from flowdebate.errors import ConfigurationError

_K = TypeVar("_K")
Strength = Literal["unanimous", "strong", "moderate", "weak", "split", "contested"]
"""Strength of agreement, from unanimity down to one vote per choice; "split" and "contested" mean no majority."""
VotingRule = Literal["majority", "supermajority", "unanimous", "weighted"]
"""Support required for a consensus: more than half of the voters, at least two thirds, all voters, or more than half of
the weight.
"""

_STRONG = Fraction(4, 5)
_MODERATE = Fraction(3, 5)
_HALF = Fraction(1, 2)
_ZERO, _ONE = Fraction(0), Fraction(1)
_SIMPLE = 1_000_000  # largest denominator of a fraction that someone might have written as a float
_WHERE = "tally()"
_ASKED: dict[VotingRule, str] = {
    "majority": "more than half of the eligible voters",
    "supermajority": "two thirds of the eligible voters or more",
    "unanimous": "all eligible voters",
    "weighted": "more than half of the weight of the eligible voters",
}


class Ballot(WireModel):
    """One voter's vote."""

    voter: str
    """Name of the voter."""
    choice: str | None
    """Author of the chosen proposal; the ballot is spoiled if the author is None or not one of the choices."""
    confidence: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 1.0
    """The voter's confidence, from 0 to 1."""
    reasoning: str = ""
    """The voter's stated reason for the vote."""


class Tally(WireModel):
    """Result of a vote; `valid + spoiled + failed == eligible`."""

    rule: VotingRule
    """Voting rule applied to the ballots."""
    eligible: int
    """Number of eligible voters, including abstainers."""
    valid: int
    """Number of ballots cast for one of the choices."""
    spoiled: int
    """Number of ballots cast for none of the choices."""
    failed: int
    """Number of eligible voters without a ballot."""
    counts: dict[str, int]
    """Number of valid votes for each choice, in the order of the choices; 0 for a choice without votes."""
    weights: dict[str, float]
    """Total weight of the valid votes for each choice."""
    winner: str | None
    """Choice with the most votes (in a weighted vote, the most weight); None if the quorum is missed or a tie is not
    broken.
    """
    tied: list[str]
    """Choices tied for first place, in the order of the choices; empty if there is no tie."""
    quorum: int
    """Number of valid votes required to determine a winner."""
    quorum_met: bool
    """True if there were enough valid votes."""
    confidence: float
    """Share of the vote won by the winner, from 0 to 1; 0 if there is no winner.

    The winner's votes are multiplied by their confidence, added up, and divided by the number of eligible voters (or by
    the total weight in a weighted vote).
    """
    reached: bool
    """True if the winner meets the voting rule's requirement."""
    reason: str
    """One-sentence explanation of the outcome."""


def exact(number: float) -> Fraction:
    """Return the simple fraction that rounds to the float `number`; if there is none, return its decimal value.

    No float is exactly 1/3 or 0.1, but if floats are read this way, three times one third is 1, and 0.1 + 0.2 is 0.3.

    >>> exact(1 / 3) * 3, exact(0.1) + exact(0.2)
    (Fraction(1, 1), Fraction(3, 10))
    """
    simple = Fraction(number).limit_denominator(_SIMPLE)
    return simple if float(simple) == number else Fraction(repr(float(number)))


def portions(scores: Mapping[str, float], sides: Sequence[str]) -> dict[str, Fraction]:
    """Compute each side's exact share of `scores`; the shares add up to 1, and are equal if all scores are zero.

    >>> portions({"a": 0.75, "b": 0.25}, ["a", "b"])
    {'a': Fraction(3, 4), 'b': Fraction(1, 4)}
    """
    exact_scores = {side: exact(scores.get(side, 0.0)) for side in sides}
    score_sum = sum(exact_scores.values(), _ZERO)
    return {side: share / score_sum if score_sum else Fraction(1, len(sides)) for side, share in exact_scores.items()}


def split(firsts: Sequence[str], sides: Sequence[str]) -> dict[str, Fraction]:
    """Split one vote equally among the sides in `firsts`."""
    return {side: Fraction(side in firsts, len(firsts)) for side in sides}


def total(parts: Iterable[Mapping[str, Fraction]], sides: Sequence[str]) -> dict[str, Fraction]:
    """Compute the total of each side's `parts`, in the order of `sides`."""
    totals = dict.fromkeys(sides, _ZERO)
    for part in parts:
        for side, amount in part.items():
            totals[side] += amount
    return totals


def leaders(totals: Mapping[_K, Fraction] | Mapping[_K, float]) -> list[_K]:
    """Return the keys with the highest value in `totals`, in their original order.

    >>> leaders({"a": Fraction(1), "b": Fraction(2), "c": Fraction(2)})
    ['b', 'c']
    """
    highest = max(totals.values())
    return [key for key, amount in totals.items() if amount == highest]


def margin(totals: Mapping[str, Fraction]) -> Fraction:
    """Compute the difference between the highest and the second-highest value in `totals`.

    >>> margin({"a": Fraction(1), "b": Fraction(3)})
    Fraction(2, 1)
    """
    first, second, *_ = [*sorted(totals.values(), reverse=True), _ZERO]
    return first - second


def agreement(counts: Mapping[str, int], eligible: int) -> Fraction:
    """Compute the share, from 0 to 1, of all `eligible` voters who agree on the most frequent choice.

    Voters without a valid vote agree with nobody.

    >>> agreement({"ann": 2, "bob": 1}, eligible=4)
    Fraction(1, 2)
    """
    check_count("agreement()", eligible=eligible)
    is_whole = all(isinstance(count, int) and count >= 0 for count in counts.values())
    if not is_whole or sum(counts.values()) > eligible:
        problem = f"must be whole numbers of at least 0 with a sum of at most {eligible}, the eligible voters"
        raise ConfigurationError("agreement()", "counts", dict(counts), problem)
    return Fraction(max(counts.values(), default=0), eligible)


def strength(counts: Mapping[str, int], *, eligible: int) -> Strength:
    """Classify the agreement r: unanimous = 1, strong > 4/5, moderate >= 3/5, weak > 1/2, otherwise split.

    A split is "contested" if no choice has more than one vote.

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
    if share > _HALF:
        return "weak"
    positive = [count for count in counts.values() if count]
    return "contested" if len(positive) > 1 and max(positive) == 1 else "split"


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
    """Count the `ballots` of the `eligible` voters for the `choices`, which are the names of the proposals' authors.

    Every rule counts all eligible voters: a voter without a valid vote has not agreed, so missing votes never create a
    consensus. `winner` is the leader; `reached` says whether it meets the rule's requirement.

    - `weights`: a positive number per voter; voters without a weight count as 1, as do all voters if `weights` is None.
      The numbers are added exactly: 0.1 + 0.2 is 0.3.
    - `quorum`: the number of valid votes required for a winner; None means half of the eligible voters, rounded up,
      and at least two (one for a single voter).
    - `tie_break`: the tied choice that wins; ignored if there is no tie. It never creates a consensus.

    Raise ConfigurationError if the same voter casts a second ballot, or if an ineligible voter casts one.

    >>> votes = [Ballot(voter="ann", choice="bob"), Ballot(voter="bob", choice="bob"), Ballot(voter="cy", choice="ann")]
    >>> result = tally(votes, choices=["ann", "bob"], eligible=["ann", "bob", "cy"], rule="supermajority")
    >>> result.winner, result.reached, result.reason
    ('bob', True, "'bob' has 2 of 3 votes; supermajority asks for two thirds of the eligible voters or more")
    """
    _check_tally(ballots, choices=choices, eligible=eligible, rule=rule, weights=weights, quorum=quorum)
    needed = min(len(eligible), max(2, -(-len(eligible) // 2))) if quorum is None else quorum
    valid = [ballot for ballot in ballots if ballot.choice in choices]
    heavy = {voter: exact((weights or {}).get(voter, 1.0)) for voter in eligible}
    counted = heavy if rule == "weighted" else dict.fromkeys(eligible, _ONE)
    total_weight = sum(counted.values(), _ZERO)
    heads = Counter(str(ballot.choice) for ballot in valid)
    weight = _sum(valid, choices, heavy)
    shares = {choice: amount / total_weight for choice, amount in _sum(valid, choices, counted).items()}
    first = leaders(shares) if any(shares.values()) else []
    tied = first if len(first) > 1 else []
    if tied and tie_break is not None and tie_break not in tied:
        raise ConfigurationError(
            _WHERE, "tie_break", tie_break, f"must be one of the tied choices: {join_choices(tied)}"
        )
    met = len(valid) >= needed
    leader = tie_break if tied else next(iter(first), None)
    winner = leader if met else None
    sure = [ballot for ballot in valid if ballot.choice == winner]
    confidence = sum((exact(ballot.confidence) * counted[ballot.voter] for ballot in sure), _ZERO) / total_weight
    return Tally(
        rule=rule,
        eligible=len(eligible),
        valid=len(valid),
        spoiled=len(ballots) - len(valid),
        failed=len(eligible) - len(ballots),
        counts={choice: heads[choice] for choice in choices},
        weights={choice: float(amount) for choice, amount in weight.items()},
        winner=winner,
        tied=tied,
        quorum=needed,
        quorum_met=met,
        confidence=float(confidence),
        reached=winner is not None
        and {
            "supermajority": shares[winner] >= Fraction(2, 3),
            "unanimous": shares[winner] == 1,
        }.get(rule, shares[winner] > _HALF),
        reason=_reason(
            heads, shares, rule, winner=winner, tied=tied, voters=len(eligible), quorum=None if met else needed
        ),
    )


def _sum(valid: Sequence[Ballot], choices: Sequence[str], counted: Mapping[str, Fraction]) -> dict[str, Fraction]:
    """Add up the votes for each choice, weighted by voter."""
    return total(({str(ballot.choice): counted[ballot.voter]} for ballot in valid), choices)


def _reason(
    heads: Mapping[str, int],
    shares: Mapping[str, Fraction],
    rule: VotingRule,
    *,
    winner: str | None,
    tied: Sequence[str],
    voters: int,
    quorum: int | None,
) -> str:
    """Describe the reason for the outcome; `quorum` is the missed quorum, or None if enough valid votes were cast."""
    if quorum is not None:
        return f"{sum(heads.values())} of {voters} eligible voters cast a valid vote; the quorum is {quorum}"
    if tied:
        names = " and ".join(map(short_repr, tied))
        return f"{names} share the lead; " + ("there is no tie break" if winner is None else f"{winner!r} was chosen")
    share = shares[str(winner)]
    had = f"{float(share):.1%} of the weight" if rule == "weighted" else f"{heads[str(winner)]} of {voters} votes"
    return f"{short_repr(winner)} has {had}; {rule} asks for {_ASKED[rule]}"


def _check_tally(
    ballots: Sequence[Ballot],
    *,
    choices: Collection[str],
    eligible: Collection[str],
    rule: object,
    weights: Mapping[str, float] | None,
    quorum: object,
) -> None:
    """Raise ConfigurationError if an argument is invalid."""
    check_choice(_WHERE, get_args(VotingRule), rule=rule)
    for field, names in (("choices", choices), ("eligible", eligible)):
        if isinstance(names, str) or len(set(names)) != len(names):
            raise ConfigurationError(_WHERE, field, names, "must be a sequence without duplicates")
    if not eligible:
        raise ConfigurationError(_WHERE, "eligible", None, "must not be empty")
    check_count(_WHERE, optional=True, quorum=quorum)
    for voter, weight in (weights or {}).items():
        check_weight(_WHERE, voter, weight)
    for voter, times in Counter(ballot.voter for ballot in ballots).items():
        if voter not in eligible:
            raise ConfigurationError(
                _WHERE,
                "ballots",
                voter,
                f"must all be cast by eligible voters: {join_choices(eligible)}",
                choices=eligible,
            )
        if times > 1:
            raise ConfigurationError(
                _WHERE, "ballots", None, f"must have one ballot per voter, but {voter} has {times}"
            )
