"""Vectorized simulated judgements: the sums of `decide()` for a million ballots a second.

Shares are [items, ballots, sides]; needs numpy (`flowdebate[audit]`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from flowdebate.patterns.debate.judging.schedules import Schedule, as_schedule

if TYPE_CHECKING:
    from random import Random

    from flowdebate.patterns.debate.judging.schedules import ScheduleLike

__all__ = (
    "Decided",
    "decide_all",
    "is_right",
    "orders_of",
    "shares_of",
    "votes_of",
)

_SAME = 1e-12
"""Sums of floats that are as near as this are a tie: `decide()` sums exactly."""


class Decided(NamedTuple):
    """What the ballots of each item say together."""

    scores: Any
    """[items, sides]: the share of each side."""
    leaders: Any
    """[items, sides]: whether a side has the most, alone or with others."""


def orders_of(schedule: ScheduleLike, sides: int, *, random: Random | None = None, shuffle: bool = False) -> Any:  # noqa: ANN401
    """The views of a schedule as numbers of sides, [views, sides].

    >>> orders_of("cyclic", 3).tolist()
    [[0, 1, 2], [1, 2, 0], [2, 0, 1]]
    """
    import numpy as np

    plan = schedule if isinstance(schedule, Schedule) else as_schedule(schedule, where="orders_of()")
    views = plan.views([str(side) for side in range(sides)], random=random, shuffle=shuffle)
    return np.array([[int(side) for side in view.order] for view in views])


def shares_of(log_odds: Any) -> Any:  # noqa: ANN401 - an array
    """The softmax over sides."""
    import numpy as np

    weights = np.exp(log_odds - log_odds.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def votes_of(shares: Any) -> Any:  # noqa: ANN401 - an array
    """All for the side that a ballot has first; in equal parts for those that tie."""
    first = shares >= shares.max(axis=-1, keepdims=True)
    return first / first.sum(axis=-1, keepdims=True)


def decide_all(shares: Any, *, by: str = "mean") -> Decided:  # noqa: ANN401 - an array
    """What `decide()` finds for each item, of ballots that can all be used."""
    scores = (votes_of(shares) if by == "vote" else shares).mean(axis=1)
    return Decided(scores, scores >= scores.max(axis=-1, keepdims=True) - _SAME)


def is_right(decided: Decided, best: Any) -> Any:  # noqa: ANN401 - an array
    """For each item how far the verdict is right: 1, 0, or for a tie that the right side is in, its part of the tie."""
    import numpy as np

    found = np.take_along_axis(decided.leaders, np.asarray(best)[:, None], axis=1)[:, 0]
    return found / decided.leaders.sum(axis=-1)
