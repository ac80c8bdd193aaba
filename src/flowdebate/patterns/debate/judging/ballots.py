"""What a judge's ballots come to: the same in whatever order they are cast."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from flowdebate.errors import ConfigurationError, shown
from flowdebate.patterns.debate.judging.schemas import JudgeBallot

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flowdebate.measures.schemas import Ballot
    from flowdebate.patterns.debate.judging.schemas import DecidedBy

__all__ = (
    "PUBLISHED_CORRELATION",
    "ExactBallot",
    "Found",
    "decide",
    "effective_n",
    "exact",
    "exact_ballots",
    "firsts_of",
    "is_settled",
    "leader_of",
    "leaders",
    "portions",
    "ranked",
    "split",
)


_WHERE = "recount()"


_SIMPLE = 1_000_000
_TWO = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactBallot:
    """One ballot that could be used."""

    number: int
    """Its place in the stored order, from 1."""
    voter: str | None
    """The model, or the agent; None where it is not known."""
    view: int | None = None
    shares: Mapping[str, Fraction] | None
    """What each side has, 1 in all; None where only who is first is known."""
    first: tuple[str, ...]
    """The side that it has first; several where they tie, all where it is for nobody."""
    confidence: Fraction = Fraction(1)


def exact_ballots(ballots: Sequence[JudgeBallot | Ballot], sides: Sequence[str]) -> list[ExactBallot]:
    """Those of `ballots` that could be used; ConfigurationError for one of a judge that is about other sides."""
    found = []
    for number, ballot in enumerate(ballots, 1):
        paper = _judged(ballot, number, sides) if isinstance(ballot, JudgeBallot) else _voted(ballot, number, sides)
        if paper is not None:
            found.append(paper)
    return found


def exact(number: float) -> Fraction:
    """The simplest fraction that `number` is the nearest float of; else the number as it is written.

    A share of 1/3 or of 0.1 is no float: read so, three of them are 1, and a tie is a tie.

    >>> exact(1 / 3) * 3, exact(0.1) + exact(0.2)
    (Fraction(1, 1), Fraction(3, 10))
    """
    simple = Fraction(number).limit_denominator(_SIMPLE)
    return simple if float(simple) == number else Fraction(repr(float(number)))


def portions(scores: Mapping[str, float], sides: Sequence[str]) -> dict[str, Fraction]:
    """What each of `sides` has of `scores`, exact, 1 in all; the same for each where they have nothing for any of them.

    >>> portions({"a": 0.75, "b": 0.25}, ["a", "b"])
    {'a': Fraction(3, 4), 'b': Fraction(1, 4)}
    """
    given = {side: exact(scores.get(side, 0.0)) for side in sides}
    whole = sum(given.values(), Fraction(0))
    return {side: share / whole if whole else Fraction(1, len(sides)) for side, share in given.items()}


def leaders(totals: Mapping[str, Fraction]) -> list[str]:
    """The sides that have the most of `totals`, in their order.

    >>> leaders({"a": Fraction(1), "b": Fraction(2), "c": Fraction(2)})
    ['b', 'c']
    """
    most = max(totals.values())
    return [side for side, total in totals.items() if total == most]


def split(firsts: Sequence[str], sides: Sequence[str]) -> dict[str, Fraction]:
    """A vote that is for each of `firsts` in equal parts."""
    return {side: Fraction(side in firsts, len(firsts)) for side in sides}


def ranked(papers: Sequence[ExactBallot], sides: Sequence[str]) -> list[Mapping[str, Fraction]] | None:
    """Numbers by which each paper ranks all `sides`; None where one says who is first, and not how the rest stand."""
    if len(sides) <= _TWO:
        return [split(paper.first, sides) if paper.shares is None else paper.shares for paper in papers]
    known = [paper.shares for paper in papers if paper.shares is not None]
    return list(known) if len(known) == len(papers) else None


def _judged(ballot: JudgeBallot, number: int, sides: Sequence[str]) -> ExactBallot | None:
    if ballot.problem is not None:
        return None
    if ballot.scores is None:
        if ballot.winner is not None and ballot.winner not in sides:
            raise ConfigurationError(_WHERE, f"ballots[{number - 1}].winner", ballot.winner, _one_of(sides))
        first = tuple(sides) if ballot.winner is None else (ballot.winner,)
        return ExactBallot(number=number, voter=ballot.model, view=ballot.view, shares=None, first=first)
    for side in ballot.scores:
        if side not in sides:
            raise ConfigurationError(_WHERE, f"ballots[{number - 1}].scores", side, _one_of(sides))
    shares = portions(ballot.scores, sides)
    return ExactBallot(number=number, voter=ballot.model, view=ballot.view, shares=shares, first=tuple(leaders(shares)))


def _voted(ballot: Ballot, number: int, sides: Sequence[str]) -> ExactBallot | None:
    if ballot.choice is None or ballot.choice not in sides:
        return None
    sure = exact(ballot.confidence)
    return ExactBallot(number=number, voter=ballot.voter, shares=None, first=(ballot.choice,), confidence=sure)


def _one_of(sides: Sequence[str]) -> str:
    return f"one of the sides {shown(list(sides))}"


PUBLISHED_CORRELATION = 0.4375
"""Nine judges were seen to act like two: 9 / (1 + 8 rho) = 2."""


class Found(NamedTuple):
    """What ballots say together."""

    scores: dict[str, float]
    """The share of each side, in the order of the sides; 1 in all."""
    winner: str | None
    """The side with the largest share; None where several have it."""
    flipped: bool
    """Whether one and the same model found for different winners in different views."""


def decide(ballots: Sequence[JudgeBallot], *, sides: Sequence[str], by: DecidedBy = "mean") -> Found:
    """The sum of `ballots`, those that could be used: the mean of their scores, or the share of votes for each side.

    A vote for no side, or one whose scores tie, counts for all that tie in equal parts. Sums are exact, so that the
    order of the ballots changes nothing. Without a ballot that could be used all sides have the same.

    >>> from flowdebate.patterns.debate.judging.schemas import JudgeBallot
    >>> first = JudgeBallot(view=0, order=["yes", "no"], scores={"yes": 0.75, "no": 0.25}, winner="yes")
    >>> second = JudgeBallot(view=1, order=["no", "yes"], scores={"yes": 0.5, "no": 0.5})
    >>> decide([first, second], sides=["yes", "no"])
    Found(scores={'yes': 0.625, 'no': 0.375}, winner='yes', flipped=True)
    """
    if not sides:
        raise ConfigurationError("decide()", "sides", sides, "at least one side")
    used = [ballot for ballot in ballots if ballot.problem is None]
    totals = _totals(used, sides, by)
    whole = sum(totals.values(), Fraction(0))
    scores = {side: float(total / whole) if whole else 1 / len(sides) for side, total in totals.items()}
    return Found(scores, _only(leaders(totals)), _flipped(used, sides))


def is_settled(ballots: Sequence[JudgeBallot], *, left: int, sides: Sequence[str], by: DecidedBy = "mean") -> bool:
    """Whether no `left` further ballots, whatever they say, could change who wins, or that somebody does.

    >>> from flowdebate.patterns.debate.judging.schemas import JudgeBallot
    >>> yes = JudgeBallot(order=["yes", "no"], winner="yes")
    >>> is_settled([yes, yes], left=1, sides=["yes", "no"], by="vote"), is_settled([yes], left=1, sides=["yes", "no"])
    (True, False)
    """
    if left <= 0:
        return True
    totals = _totals([ballot for ballot in ballots if ballot.problem is None], sides, by)
    first, second, *_ = [*sorted(totals.values(), reverse=True), Fraction(0), Fraction(0)]
    return len(sides) == 1 or first - second > left


def effective_n(n: int, correlation: float = PUBLISHED_CORRELATION) -> float:
    """How many independent judges `n` judges are worth whose errors correlate so: n / (1 + (n - 1) correlation).

    >>> effective_n(9), effective_n(9, 0), effective_n(9, 1)
    (2.0, 9.0, 1.0)
    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ConfigurationError("effective_n()", "n", n, "an int >= 1")
    if isinstance(correlation, bool) or not (math.isfinite(correlation) and 0 <= correlation <= 1):
        raise ConfigurationError("effective_n()", "correlation", correlation, "a number from 0 to 1")
    return n / (1 + (n - 1) * correlation)


def firsts_of(ballot: JudgeBallot, *, sides: Sequence[str]) -> list[str]:
    """The sides that a ballot has first: several where they tie, all where it is for none of them."""
    return leaders(portions(ballot.shares, sides))


def leader_of(scores: Mapping[str, float]) -> str | None:
    """The side that has the most of `scores`; None where several have it.

    >>> leader_of({"yes": 0.7, "no": 0.3}), leader_of({"yes": 0.5, "no": 0.5})
    ('yes', None)
    """
    return _only(leaders(portions(scores, list(scores))))


def _only(sides: Sequence[str]) -> str | None:
    return sides[0] if len(sides) == 1 else None


def _flipped(ballots: Sequence[JudgeBallot], sides: Sequence[str]) -> bool:
    """Whether a model's ballots of two views have different winners; of one view, that is noise."""
    winners: dict[str | None, dict[int, set[str | None]]] = {}
    for ballot in ballots:
        views = winners.setdefault(ballot.model, {})
        views.setdefault(ballot.view, set()).add(_only(firsts_of(ballot, sides=sides)))
    return any(len(views) > 1 and len(set().union(*views.values())) > 1 for views in winners.values())


def _totals(ballots: Sequence[JudgeBallot], sides: Sequence[str], by: DecidedBy) -> dict[str, Fraction]:
    """What each side has, at most 1 a ballot."""
    totals = dict.fromkeys(sides, Fraction(0))
    for ballot in ballots:
        shares = split(firsts_of(ballot, sides=sides), sides) if by == "vote" else portions(ballot.shares, sides)
        for side, share in shares.items():
            totals[side] += share
    return totals
