"""Ballots of any kind as exact papers: what a voting rule may read of a ballot, and nothing that it does not say."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from flowdebate.errors import ConfigurationError, shown
from flowdebate.schemas.judging import JudgeBallot

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flowdebate.schemas.measures import Ballot

__all__ = ("Paper", "exact", "leaders", "papers_of", "portions", "ranked", "split")

_WHERE = "redecide()"
_SIMPLE = 1_000_000
_TWO = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
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


def papers_of(ballots: Sequence[JudgeBallot | Ballot], sides: Sequence[str]) -> list[Paper]:
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


def ranked(papers: Sequence[Paper], sides: Sequence[str]) -> list[Mapping[str, Fraction]] | None:
    """Numbers by which each paper ranks all `sides`; None where one says who is first, and not how the rest stand."""
    if len(sides) <= _TWO:
        return [split(paper.first, sides) if paper.shares is None else paper.shares for paper in papers]
    known = [paper.shares for paper in papers if paper.shares is not None]
    return list(known) if len(known) == len(papers) else None


def _judged(ballot: JudgeBallot, number: int, sides: Sequence[str]) -> Paper | None:
    if ballot.problem is not None:
        return None
    if ballot.scores is None:
        if ballot.winner is not None and ballot.winner not in sides:
            raise ConfigurationError(_WHERE, f"ballots[{number - 1}].winner", ballot.winner, _one_of(sides))
        first = tuple(sides) if ballot.winner is None else (ballot.winner,)
        return Paper(number=number, voter=ballot.model, view=ballot.view, shares=None, first=first)
    for side in ballot.scores:
        if side not in sides:
            raise ConfigurationError(_WHERE, f"ballots[{number - 1}].scores", side, _one_of(sides))
    shares = portions(ballot.scores, sides)
    return Paper(number=number, voter=ballot.model, view=ballot.view, shares=shares, first=tuple(leaders(shares)))


def _voted(ballot: Ballot, number: int, sides: Sequence[str]) -> Paper | None:
    if ballot.choice is None or ballot.choice not in sides:
        return None
    sure = exact(ballot.confidence)
    return Paper(number=number, voter=ballot.voter, shares=None, first=(ballot.choice,), confidence=sure)


def _one_of(sides: Sequence[str]) -> str:
    return f"one of the sides {shown(list(sides))}"
