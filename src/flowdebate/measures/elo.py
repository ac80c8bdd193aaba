"""Ratings by results (Elo 1978): what a debate changes in the ratings of those who took part."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from flowdebate.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = (
    "INITIAL",
    "K",
    "elo_changes",
    "expected",
)

INITIAL = 1500.0
"""The rating of an agent without history."""

K = 32.0
"""The points that a pair plays for."""

_SCALE = 400.0
"""So many points more are ten times the chance."""
_FARTHEST = 300.0
"""Powers of ten beyond this are taken for infinite: 10.0 ** 309 overflows."""


def expected(a: float, b: float) -> float:
    """The score that a rating of `a` can expect against `b`: 1 / (1 + 10 ** ((b - a) / 400)).

    >>> expected(1500, 1500), round(expected(1400, 1600), 4)
    (0.5, 0.2403)
    """
    exponent = max(-_FARTHEST, min((b - a) / _SCALE, _FARTHEST))
    return 1 / (1 + math.pow(10, exponent))


def elo_changes(ratings: Mapping[str, float], *, winner: str | None, consensus: bool, k: float = K) -> dict[str, float]:
    """What to add to each of `ratings` after one debate; the changes add up to zero.

    The winner plays one game against each of the others, who do not play each other. In a game the winner scores 1 and
    the other 0.5 with `consensus`, 0 without; scores are shares of what the two have together (2/3 to 1/3 with
    consensus, 1 to 0 without). Each gains `k` times its share less the one that was to be expected. So a clear
    favourite whom all followed may lose points: more was expected of it than 2/3.

    Without a winner (`None`) nobody has beaten anybody, and nothing changes.

    >>> changes = elo_changes({"ann": 1500, "bob": 1500, "cy": 1500}, winner="ann", consensus=True)
    >>> {name: round(change, 3) for name, change in changes.items()}
    {'ann': 10.667, 'bob': -5.333, 'cy': -5.333}
    """
    _check(ratings, winner, k)
    changes = dict.fromkeys(ratings, 0.0)
    if winner is None:
        return changes
    share = 1 / 1.5 if consensus else 1.0
    won = {name: k * (share - expected(ratings[winner], rating)) for name, rating in ratings.items() if name != winner}
    changes.update((name, -gain) for name, gain in won.items())
    changes[winner] = math.fsum(won.values())
    return changes


def _check(ratings: Mapping[str, float], winner: object, k: float) -> None:
    if any(isinstance(rating, bool) or not math.isfinite(rating) for rating in ratings.values()):
        raise ConfigurationError("elo_changes()", "ratings", dict(ratings), "finite numbers")
    if winner is not None and winner not in ratings:
        raise ConfigurationError("elo_changes()", "winner", winner, f"None or one of {list(ratings)}")
    if isinstance(k, bool) or not (math.isfinite(k) and k > 0):
        raise ConfigurationError("elo_changes()", "k", k, "a finite number > 0")
