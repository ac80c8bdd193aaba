"""Decision rules as a table of functions of a set of ballots.

A ballot ranks the sides by its numbers; equal numbers are a tie, and no rule breaks ties. No rule depends on the order
of ballots, or on the names of sides.
"""

from __future__ import annotations

from fractions import Fraction
from statistics import median
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, TypeAlias

from pydantic import Field

from flowdebate._util.text import counted
from flowdebate._util.wire import WireModel
from flowdebate.errors import shown
from flowdebate.measures.votes import exact, leaders, split, tally, total

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from flowdebate.evaluation.decision_rules.ballots import BallotSet
    from flowdebate.measures.votes import VotingRule


DecisionRule = Literal[
    "mean",
    "median",
    "plurality",
    "majority",
    "supermajority",
    "unanimous",
    "approval",
    "borda",
    "condorcet",
    "instant_runoff",
    "weighted",
]
RuleEnd = Literal["winner", "tie", "short"]
"""A winner; several in the lead; or a leader with less than the rule asks for."""
Ranking: TypeAlias = "Mapping[str, Fraction]"
_HALF = Fraction(1, 2)
_PAIR = 2
# Sets of one size that an instant runoff follows where sides tie for the last place: with n sides there can be 2 ** n.
_MOST_SETS = 1_000


class RuleResult(WireModel):
    """The outcome of one rule."""

    rule: DecisionRule
    end: RuleEnd
    winner: str | None = None
    """None for every end but "winner"."""
    why: str
    """The numbers that decided, in words."""
    tied: list[str] = Field(default_factory=list)
    """The sides that share the lead, in the order of the sides."""
    scores: dict[str, float]
    """The count of each side, in the order of the sides and in units of the rule."""
    ballots: Annotated[int, Field(ge=0)]
    """The number of ballots that were counted."""


class Runoff(NamedTuple):
    """An instant runoff: its winners, and its last count that did not depend on a choice."""

    scores: dict[str, Fraction]
    """The votes of the sides that remain in that count; 0 for the others."""
    lead: list[str]
    """The winner; several for a tie, or where the winner depends on which of the tied last sides goes first."""
    rounds: int
    """The number of that count."""
    disputed: bool = False
    """Whether sides tied for the last place after it, so that more than one continuation was followed."""


def borda(rankings: Sequence[Ranking], sides: Sequence[str]) -> dict[str, Fraction]:
    """Borda points: one for each side that a ballot ranks lower, and half a point for each tie.

    >>> points = borda([{"a": Fraction(3), "b": Fraction(2), "c": Fraction(2)}], ["a", "b", "c"])
    >>> {side: float(has) for side, has in points.items()}
    {'a': 2.0, 'b': 0.5, 'c': 0.5}
    """
    return total(
        (
            {side: _HALF * sum(1 + _sign(own[side] - own[other]) for other in sides if other != side) for side in sides}
            for own in rankings
        ),
        sides,
    )


def beaten(rankings: Sequence[Ranking], sides: Sequence[str]) -> dict[str, dict[str, int]]:
    """Pairwise duels: 1 where more ballots rank the one side higher than the other, -1 for fewer, 0 for a draw."""
    return {
        side: {other: _sign(sum(_sign(own[side] - own[other]) for own in rankings)) for other in sides if other != side}
        for side in sides
    }


def copeland(rankings: Sequence[Ranking], sides: Sequence[str]) -> dict[str, Fraction]:
    """Copeland points: one for each duel won, and half a point for each draw."""
    return {side: _HALF * sum(1 + duel for duel in duels.values()) for side, duels in beaten(rankings, sides).items()}


def instant_runoff(rankings: Sequence[Ranking], sides: Sequence[str]) -> Runoff:
    """Eliminate the side with the fewest first places until one has more than half of them.

    A ballot counts in equal parts for the sides that it ranks first. Last sides whose votes together are fewer than
    those of the next one are eliminated together, which changes no winner. Where sides tie for the last place nothing
    is drawn by lot: every choice of the one that goes first is followed, and all winners that come out of it lead.

    >>> order = {side: Fraction(-place) for place, side in enumerate("abc")}
    >>> instant_runoff([order, order], ["a", "b", "c"]).lead
    ['a']
    """
    rest, rounds = frozenset(sides), 1
    counts, leading, outs = _runoff_count(rankings, rest, sides)
    while leading is None and len(outs) == 1:
        rest, rounds = rest - outs[0], rounds + 1
        counts, leading, outs = _runoff_count(rankings, rest, sides)
    if leading is not None:
        return Runoff(counts, [leading], rounds)
    winners = _runoff_winners(rankings, [rest - out for out in outs], sides)
    return Runoff(counts, [side for side in sides if side in winners], rounds, disputed=len(rest) > _PAIR)


def _runoff_count(
    rankings: Sequence[Ranking], rest: frozenset[str], sides: Sequence[str]
) -> tuple[dict[str, Fraction], str | None, list[frozenset[str]]]:
    """The votes of the sides in `rest`, the one with more than half, and the sets that may be eliminated next."""
    left = [side for side in sides if side in rest]
    counts = total((split(leaders({side: own[side] for side in left}), left) for own in rankings), sides)
    ordered = sorted(left, key=counts.__getitem__)
    best = ordered[-1]
    if len(left) == 1 or 2 * counts[best] > len(rankings):
        return counts, best, []
    below = Fraction(0)
    together: list[str] = []
    for place, side in enumerate(ordered[:-1]):
        below += counts[side]
        if below < counts[ordered[place + 1]]:
            together = ordered[: place + 1]
    if together:
        return counts, None, [frozenset(together)]
    return counts, None, [frozenset([side]) for side in left if counts[side] == counts[ordered[0]]]


def _runoff_winners(rankings: Sequence[Ranking], begin: Sequence[frozenset[str]], sides: Sequence[str]) -> set[str]:
    """All winners of runoffs that continue with one of the sets `begin`; each set of sides is counted once.

    Should there be too many to follow, whoever is left in one of them may win.
    """
    pending, winners = set(begin), set[str]()
    while pending:
        largest = max(map(len, pending))
        now = {rest for rest in pending if len(rest) == largest}
        if len(now) > _MOST_SETS:
            return winners.union(*pending)
        pending -= now
        for rest in now:
            _, leading, outs = _runoff_count(rankings, rest, sides)
            if leading is not None:
                winners.add(leading)
            pending.update(rest - out for out in outs)
    return winners


def _mean(cast: BallotSet) -> RuleResult:
    shares = cast.shares or []
    means = {side: amount / len(shares) for side, amount in total(shares, cast.sides).items()}
    return _most(cast, "mean", means, "a mean share of {}")


def _median(cast: BallotSet) -> RuleResult:
    shares = cast.shares or []
    medians = {side: Fraction(median(own[side] for own in shares)) for side in cast.sides}
    return _most(cast, "median", medians, "a median share of {}")


def _plurality(cast: BallotSet) -> RuleResult:
    places = f"{{}} of {counted(len(cast.usable), 'first place')}"
    return _most(cast, "plurality", total(cast.firsts, cast.sides), places)


def _approval(cast: BallotSet) -> RuleResult:
    shares = cast.shares or []
    counts = {side: Fraction(sum(own[side] >= cast.threshold for own in shares)) for side in cast.sides}
    asked = f"{{}} of {counted(len(shares), 'ballot')} with a share of {_number(cast.threshold)} or more"
    return _most(cast, "approval", counts, asked)


def _borda(cast: BallotSet) -> RuleResult:
    most = len(cast.usable) * (len(cast.sides) - 1)
    return _most(cast, "borda", borda(cast.rankings or [], cast.sides), f"{{}} of {most} points")


def _condorcet(cast: BallotSet) -> RuleResult:
    duels = beaten(cast.rankings or [], cast.sides)
    best = next((side for side, own in duels.items() if all(duel > 0 for duel in own.values())), None)
    points = f"{{}} of {len(cast.sides) - 1} points of duels"
    result = _most(cast, "condorcet", copeland(cast.rankings or [], cast.sides), points)
    why = f"no side beats all others; {result.why}" if best is None else f"{shown(best)} beats all others in duels"
    return result.model_copy(update={"why": why})


def _instant_runoff(cast: BallotSet) -> RuleResult:
    runoff = instant_runoff(cast.rankings or [], cast.sides)
    votes = f"{{}} of {counted(len(cast.usable), 'vote')} in count {runoff.rounds}"
    result = _most(cast, "instant_runoff", runoff.scores, votes)
    if not runoff.disputed:
        return result  # a majority, or the last two sides tie
    won, names = len(runoff.lead) == 1, " or ".join(map(shown, runoff.lead))
    depends = "whichever side goes first" if won else "depending on which side goes first"
    return result.model_copy(
        update={
            "end": "winner" if won else "tie",
            "winner": runoff.lead[0] if won else None,
            "tied": [] if won else runoff.lead,
            "scores": {side: float(runoff.scores[side]) for side in cast.sides},
            "why": f"{names} wins, {depends} of those that tie for the last place after count {runoff.rounds}",
        }
    )


def _weighted(cast: BallotSet) -> RuleResult:
    if cast.data == "votes":
        return _of_tally(cast, "weighted")
    weights = [exact((cast.weights or {}).get(ballot.model or "", 1.0)) for ballot in cast.usable]
    parts = zip(cast.shares or cast.firsts, weights, strict=True)
    heavy = total(({side: part[side] * weight for side in cast.sides} for part, weight in parts), cast.sides)
    means = {side: amount / sum(weights) for side, amount in heavy.items()}
    return _most(cast, "weighted", means, "{} of the weight")


def _of_tally(cast: BallotSet, rule: VotingRule) -> RuleResult:
    """Count by a rule about all eligible voters: a missing or spoiled ballot has not agreed."""
    stored = cast.tally
    if stored is not None and stored.rule == rule == "weighted" and cast.weights is None:
        count = stored  # the weights themselves are not stored
    else:
        count = tally(
            cast.votes,
            choices=cast.sides,
            eligible=cast.eligible,
            rule=rule,
            weights=cast.weights if rule == "weighted" else None,
            quorum=None if stored is None else stored.quorum,
        )
    tied = bool(count.tied) and count.quorum_met
    return RuleResult(
        rule=rule,
        end="winner" if count.reached else "tie" if tied else "short",
        winner=count.winner if count.reached else None,
        why=count.reason,
        tied=count.tied if tied else [],
        scores=dict(count.weights) if rule == "weighted" else {side: float(n) for side, n in count.counts.items()},
        ballots=count.valid,
    )


# For ballots that pass `reason_to_skip`.
RULES: Mapping[DecisionRule, Callable[[BallotSet], RuleResult]] = {
    "mean": _mean,
    "median": _median,
    "plurality": _plurality,
    "majority": lambda cast: _of_tally(cast, "majority"),
    "supermajority": lambda cast: _of_tally(cast, "supermajority"),
    "unanimous": lambda cast: _of_tally(cast, "unanimous"),
    "approval": _approval,
    "borda": _borda,
    "condorcet": _condorcet,
    "instant_runoff": _instant_runoff,
    "weighted": _weighted,
}
_BY_SCORES = ("mean", "median", "approval")
_BY_RANKING = ("borda", "condorcet", "instant_runoff")


def reason_to_skip(rule: DecisionRule, cast: BallotSet, *, asked: bool) -> str | None:
    """The reason why `rule` cannot count these ballots, or (unless it was `asked` for) repeats another; else None."""
    kind = "a vote" if cast.data == "votes" else "a ballot with a winner only"
    unweighted = cast.weights is None and (cast.tally is None or cast.tally.rule != "weighted")
    two_sides, two_ballots = len(cast.sides) <= _PAIR, len(cast.usable) <= _PAIR
    even = rule == "approval" and cast.threshold == Fraction(1, len(cast.sides))
    reasons = {
        "there is no ballot that could be used": not cast.usable,
        f"not every ballot has scores: {kind} says who is first, and not by how much": (
            rule in _BY_SCORES and cast.shares is None
        ),
        f"not every ballot ranks all sides: {kind} says who is first, and not how the other sides stand": (
            rule in _BY_RANKING and cast.rankings is None
        ),
        "there are no weights": rule == "weighted" and unweighted,
        "with two sides it is plurality": not asked and two_sides and (rule in _BY_RANKING or even),
        "with two ballots it is the mean": not asked and two_ballots and rule == "median",
    }
    return next((reason for reason, applies in reasons.items() if applies), None)


def _most(cast: BallotSet, rule: DecisionRule, totals: Mapping[str, Fraction], has: str) -> RuleResult:
    """The side with most of `totals` wins; `has` says what they are."""
    lead = leaders(totals)
    won = len(lead) == 1
    amount = has.format(_number(totals[lead[0]]))
    names = ", ".join(map(shown, lead[:-1])) + f" and {shown(lead[-1])}"
    return RuleResult(
        rule=rule,
        end="winner" if won else "tie",
        winner=lead[0] if won else None,
        why=f"{shown(lead[0])} has {amount}" if won else f"{names} have {amount} each",
        tied=[] if won else lead,
        scores={side: float(totals[side]) for side in cast.sides},
        ballots=len(cast.usable),
    )


def _sign(number: Fraction | int) -> int:
    return (number > 0) - (number < 0)


def _number(number: Fraction) -> str:
    return f"{float(number):.4g}"
