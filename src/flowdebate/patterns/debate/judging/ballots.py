"""Counting of a judge's ballots: exact, and independent of their order."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from flowdebate.errors import ConfigurationError
from flowdebate.measures.votes import leaders, margin, portions, split, total

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flowdebate.patterns.debate.judging.schemas import DecidedBy, JudgeBallot

__all__ = (
    "PUBLISHED_CORRELATION",
    "Decision",
    "decide",
    "effective_n",
    "firsts_of",
    "is_settled",
    "leader_of",
)

PUBLISHED_CORRELATION = 0.4375
"""Nine judges were seen to act like two: 9 / (1 + 8 rho) = 2."""


class Decision(NamedTuple):
    """The decision of several ballots."""

    scores: dict[str, float]
    """The share of each side, in the order of the sides; 1 in all."""
    winner: str | None
    """The side with the largest share; None where several have it."""
    flipped: bool
    """Whether one model found for different winners in different views."""


def decide(ballots: Sequence[JudgeBallot], *, sides: Sequence[str], by: DecidedBy = "mean") -> Decision:
    """Sum up the usable `ballots`: the mean of their scores, or the share of votes for each side.

    A vote for no side, or one whose scores tie, counts for all that tie in equal parts. Sums are exact, so that the
    order of the ballots changes nothing. Without a usable ballot all sides have the same.

    >>> from flowdebate.patterns.debate.judging.schemas import JudgeBallot
    >>> first = JudgeBallot(view=0, order=["yes", "no"], scores={"yes": 0.75, "no": 0.25}, winner="yes")
    >>> second = JudgeBallot(view=1, order=["no", "yes"], scores={"yes": 0.5, "no": 0.5})
    >>> decide([first, second], sides=["yes", "no"])
    Decision(scores={'yes': 0.625, 'no': 0.375}, winner='yes', flipped=True)
    """
    if not sides:
        raise ConfigurationError("decide()", "sides", sides, "at least one side")
    used = [ballot for ballot in ballots if ballot.problem is None]
    totals = _totals(used, sides, by)
    whole = sum(totals.values(), Fraction(0))
    scores = {side: float(total / whole) if whole else 1 / len(sides) for side, total in totals.items()}
    return Decision(scores, _only(leaders(totals)), _flipped(used, sides))


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
    return len(sides) == 1 or margin(totals) > left


def effective_n(n: int, correlation: float = PUBLISHED_CORRELATION) -> float:
    """The number of independent judges that `n` correlated ones are worth: n / (1 + (n - 1) correlation).

    >>> effective_n(9), effective_n(9, 0), effective_n(9, 1)
    (2.0, 9.0, 1.0)
    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ConfigurationError("effective_n()", "n", n, "an int >= 1")
    if isinstance(correlation, bool) or not (math.isfinite(correlation) and 0 <= correlation <= 1):
        raise ConfigurationError("effective_n()", "correlation", correlation, "a number from 0 to 1")
    return n / (1 + (n - 1) * correlation)


def firsts_of(ballot: JudgeBallot, *, sides: Sequence[str]) -> list[str]:
    """The sides in the first place of a ballot: several for a tie, all where it is for none of them."""
    return leaders(portions(ballot.shares, sides))


def leader_of(scores: Mapping[str, float]) -> str | None:
    """The side with the most of `scores`; None for a tie.

    >>> leader_of({"yes": 0.7, "no": 0.3}), leader_of({"yes": 0.5, "no": 0.5})
    ('yes', None)
    """
    return _only(leaders(scores))


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
    """The sum of the ballots for each side, at most 1 a ballot."""
    if by == "vote":
        return total((split(firsts_of(ballot, sides=sides), sides) for ballot in ballots), sides)
    return total((portions(ballot.shares, sides) for ballot in ballots), sides)
