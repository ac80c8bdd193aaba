"""Voting rules over exact ballots: what each side has under approval, Borda, Copeland, instant runoff and the median.

A ballot gives each side a number, and is for the side with the larger one; equal numbers are a tie, and no rule breaks
it. No rule looks at the order of the ballots, or at what sides are called.
"""

from __future__ import annotations

from fractions import Fraction
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from flowdebate.patterns.debate.judging.ballots import leaders, split

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = (
    "Runoff",
    "approvals",
    "beaten",
    "borda",
    "copeland",
    "instant_runoff",
    "medians",
)

_ZERO, _HALF = Fraction(0), Fraction(1, 2)


class Runoff(NamedTuple):
    """How an instant runoff ended."""

    scores: dict[str, Fraction]
    """The votes of the last count for those that were still in; 0 for the others."""
    lead: list[str]
    """The winner; several where the last of them had the same."""
    rounds: int
    """How many counts it took."""


def approvals(
    ballots: Sequence[Mapping[str, Fraction]], sides: Sequence[str], *, threshold: Fraction
) -> dict[str, Fraction]:
    """How many ballots give each side `threshold` or more."""
    return {side: Fraction(sum(ballot[side] >= threshold for ballot in ballots)) for side in sides}


def medians(ballots: Sequence[Mapping[str, Fraction]], sides: Sequence[str]) -> dict[str, Fraction]:
    """Each side's middle number; of two middle ones the mean."""
    return {side: Fraction(median(ballot[side] for ballot in ballots)) for side in sides}


def borda(ballots: Sequence[Mapping[str, Fraction]], sides: Sequence[str]) -> dict[str, Fraction]:
    """A point for each side that a ballot has behind one, and half a point for each that it has level.

    >>> points = borda([{"a": Fraction(3), "b": Fraction(2), "c": Fraction(2)}], ["a", "b", "c"])
    >>> {side: float(has) for side, has in points.items()}
    {'a': 2.0, 'b': 0.5, 'c': 0.5}
    """
    return {
        side: sum(
            (_point(ballot[side], ballot[other]) for ballot in ballots for other in sides if other != side), _ZERO
        )
        for side in sides
    }


def beaten(ballots: Sequence[Mapping[str, Fraction]], sides: Sequence[str]) -> dict[str, dict[str, int]]:
    """For each side and each other: 1 where more ballots have it in front than behind, -1 for fewer, 0 for as many."""
    return {
        side: {
            other: _sign(sum(_sign(ballot[side] - ballot[other]) for ballot in ballots))
            for other in sides
            if other != side
        }
        for side in sides
    }


def copeland(ballots: Sequence[Mapping[str, Fraction]], sides: Sequence[str]) -> dict[str, Fraction]:
    """A point for each side that one beats in a duel, and half a point for each draw."""
    return {
        side: sum((_HALF * (1 + duel) for duel in duels.values()), _ZERO)
        for side, duels in beaten(ballots, sides).items()
    }


def instant_runoff(ballots: Sequence[Mapping[str, Fraction]], sides: Sequence[str]) -> Runoff:
    """Whoever has the fewest first places goes, until one has more than half, or all that are left have the same.

    A ballot counts in equal parts for those of the rest that it has first. Those that share the last place go together,
    so that no lot is drawn.
    """
    rest, rounds = list(sides), 0
    while True:
        rounds += 1
        counts = dict.fromkeys(sides, _ZERO)
        for ballot in ballots:
            for side, part in split(leaders({side: ballot[side] for side in rest}), rest).items():
                counts[side] += part
        lead = leaders({side: counts[side] for side in rest})
        if len(lead) == len(rest) or 2 * counts[lead[0]] > len(ballots):
            return Runoff(counts, lead, rounds)
        fewest = min(counts[side] for side in rest)
        rest = [side for side in rest if counts[side] > fewest]


def _point(own: Fraction, other: Fraction) -> Fraction:
    return _HALF * (1 + _sign(own - other))


def _sign(number: Fraction | int) -> int:
    return (number > 0) - (number < 0)
