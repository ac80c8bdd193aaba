"""Elo ratings of agents (Elo 1978), calibration of their confidence (Brier 1950), and vote weights based on both."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from flowdebate._util.validation import check_number
from flowdebate.errors import ConfigurationError

INITIAL_RATING = 1500.0
"""Rating of an agent with no history."""
K_FACTOR = 32.0
"""Elo K-factor: the number of points at stake in a game."""
_SCALE = 400.0  # a lead of this many points means odds of 10 to 1
_NEUTRAL = 10  # number of neutral forecasts mixed into a calibration, to limit the effect of a few outcomes
_FARTHEST = 300.0  # largest exponent; 10.0 ** 309 overflows


def expected(a: float, b: float) -> float:
    """Compute the expected score of a player rated `a` against one rated `b`: 1 / (1 + 10 ** ((b - a) / 400)).

    >>> expected(1500, 1500), round(expected(1400, 1600), 4)
    (0.5, 0.2403)
    """
    exponent = max(-_FARTHEST, min((b - a) / _SCALE, _FARTHEST))
    return 1 / (1 + math.pow(10, exponent))


def elo_changes(
    ratings: Mapping[str, float], *, winner: str | None, consensus: bool, k: float = K_FACTOR
) -> dict[str, float]:
    """Compute the changes in `ratings` after a debate; they add up to zero.

    The winner plays one game against each of the others, who do not play each other. In a game, the winner scores 1,
    and the other scores 0.5 after a `consensus` and 0 otherwise; the scores are normalized to shares (2/3 to 1/3 after
    a consensus, 1 to 0 otherwise). Each player gains `k` times the difference between the actual and the expected
    share. A clear favorite may therefore lose points in a consensus, if its expected share was more than 2/3.

    If there is no winner (`None`), nothing changes.

    >>> changes = elo_changes({"ann": 1500, "bob": 1500, "cy": 1500}, winner="ann", consensus=True)
    >>> {name: round(change, 3) for name, change in changes.items()}
    {'ann': 10.667, 'bob': -5.333, 'cy': -5.333}
    """
    if any(isinstance(rating, bool) or not math.isfinite(rating) for rating in ratings.values()):
        raise ConfigurationError("elo_changes()", "ratings", dict(ratings), "must map names to finite numbers")
    if winner is not None and winner not in ratings:
        raise ConfigurationError("elo_changes()", "winner", winner, choices=ratings)
    check_number("elo_changes()", above=0, k=k)
    changes = dict.fromkeys(ratings, 0.0)
    if winner is None:
        return changes
    share = 1 / 1.5 if consensus else 1.0
    won = {name: k * (share - expected(ratings[winner], rating)) for name, rating in ratings.items() if name != winner}
    changes.update((name, -gain) for name, gain in won.items())
    changes[winner] = math.fsum(won.values())
    return changes


def calibration(forecasts: Iterable[tuple[float, bool]]) -> float | None:
    """Score how well confidences match outcomes, on a scale from 0 to 1.

    `forecasts` are `(confidence, right)` pairs. Return None if there are none.

    The Brier score, the mean of (confidence - right) ** 2, is 0 for a voter who is always certain and right, and 0.25
    for a constant confidence of 0.5. It is converted to max(0, 1 - 2 * Brier): 1 is perfect, 0.5 neutral. The result is
    mixed with ten neutral forecasts, so after only a few outcomes the calibration is near 0.5, for which `vote_weight`
    uses the factor 1.

    >>> [round(calibration(told) or 0, 4) for told in ([(0.9, True)], [(0.9, False)] * 90)]
    [0.5436, 0.05]
    """
    misses = []
    for confidence, right in forecasts:
        if isinstance(confidence, bool) or not 0 <= confidence <= 1:
            raise ConfigurationError("calibration()", "confidence", confidence, "must be a number between 0 and 1")
        misses.append((confidence - bool(right)) ** 2)
    if not misses:
        return None
    score = max(1 - 2 * math.fsum(misses) / len(misses), 0.0)
    return (len(misses) * score + _NEUTRAL * 0.5) / (len(misses) + _NEUTRAL)


def vote_weight(elo: float | None, calibration: float | None) -> float:
    """Compute a vote's weight: clamp(1 + 0.3 (elo - 1500) / 500, 0.5, 2) * (0.5 + calibration), clamped to [0.1, 5].

    `calibration`, from 0 to 1, measures how well the voter's confidence has matched outcomes; 0.5 is neutral. If either
    argument is None because there is no history, its factor is 1.

    >>> vote_weight(None, None), vote_weight(2000, None), vote_weight(1500, 0)
    (1.0, 1.3, 0.5)
    """
    for field, value in (("elo", elo), ("calibration", calibration)):
        if value is not None and (isinstance(value, bool) or not math.isfinite(value)):
            raise ConfigurationError("vote_weight()", field, value, "must be a finite number")
    rated = 1.0 if elo is None else min(max(1 + 0.3 * (elo - 1500) / 500, 0.5), 2.0)
    calibrated = 1.0 if calibration is None else 0.5 + calibration
    return min(max(rated * calibrated, 0.1), 5.0)
