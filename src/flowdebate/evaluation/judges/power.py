"""How many items it takes to see a judge's preference for a slot, and what so many could have shown.

The numbers are for the exact two-sided test at 5% that is used on two sides, each item counted once.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from flowdebate.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = (
    "ALPHA",
    "NEEDED",
    "POWER",
    "SOUGHT",
    "check_installed",
    "power",
    "smallest_n",
    "smallest_rate",
    "sought",
)

ALPHA = 0.05
"""How often a fair judge may be found to have a preference."""
POWER = 0.8
"""How often a judge with the preference that is sought has to be found."""
SOUGHT = 0.7
"""The win rate of a slot, of two, that an audit has to be able to find."""
_TWO = 2
"""Sides for which the test is exact."""
NEEDED: Mapping[int, int] = {2: 54, 3: 55, 4: 65, 5: 77, 6: 90, 7: 104, 8: 119}
"""`smallest_n(sought(sides), sides=sides)`, so that saying "too small" takes no library."""


def sought(sides: int) -> float:
    """The win rate of one place of `sides` that an audit has to be able to find: odds of 7 to 3 against each other.

    >>> [round(sought(sides), 2) for sides in (2, 3, 4)]
    [0.7, 0.54, 0.44]
    """
    odds = SOUGHT / (1 - SOUGHT)
    return odds / (odds + _checked_sides(sides, "sought()") - 1)


def power(n: int, rate: float, *, sides: int = 2, alpha: float = ALPHA) -> float:
    """How often `n` items would show a place that wins `rate` of them.

    For two sides that of the exact two-sided binomial test against 1/2. For more, where all other places win alike,
    that of the test that none wins more: how often the one wins is binomial, how the others scatter about chi-square.
    Needs scipy.

    >>> round(power(54, 0.7), 3)
    0.837
    """
    _check(n, "n", isinstance(n, int) and not isinstance(n, bool) and n >= 1, "an int >= 1", "power()")
    _check_rate(rate, sides, "power()")
    _check_share(alpha, "alpha", "power()")
    check_installed("power()")
    return _power(n, rate, sides, alpha)


def smallest_n(rate: float, *, sides: int = 2, power: float = POWER, alpha: float = ALPHA) -> int:
    """From how many items on, however many more, a place that wins `rate` of them is seen with this `power`.

    The exact test is a saw: some smaller numbers have the power too (49 items for .70), and larger ones (53) lose it
    again. `rate` is at least .01 above even. Needs scipy.

    >>> smallest_n(0.6), smallest_n(0.7), smallest_n(0.8)
    (210, 54, 23)
    """
    check_installed("smallest_n()")
    _check_rate(rate, sides, "smallest_n()")
    _check_share(power, "power", "smallest_n()")
    _check_share(alpha, "alpha", "smallest_n()")
    return (_after_the_last_tooth if sides == _TWO else _halved)(rate, sides, power, alpha)


def smallest_rate(n: int, *, sides: int = 2, power: float = POWER, alpha: float = ALPHA) -> float | None:
    """The smallest win rate, in whole percents, that `n` items show with this `power`; None: not even a rate of 1.

    >>> smallest_rate(54), smallest_rate(5)
    (0.7, None)
    """
    check_installed("smallest_rate()")
    _check(n, "n", isinstance(n, int) and not isinstance(n, bool) and n >= 1, "an int >= 1", "smallest_rate()")
    _check_share(power, "power", "smallest_rate()")
    _check_share(alpha, "alpha", "smallest_rate()")
    return _smallest_rate(n, _checked_sides(sides, "smallest_rate()"), power, alpha)


def check_installed(where: str) -> Any:  # noqa: ANN401 - numpy, which may be missing
    """numpy, which comes with scipy; ConfigurationError where that is missing."""
    if not find_spec("scipy"):
        hint = 'pip install "flowdebate[audit]"'
        raise ConfigurationError(where, "library", "no scipy", "scipy, installed", hint=hint)
    import numpy as np

    return np


@lru_cache(maxsize=64)  # what many audits of one size are told
def _smallest_rate(n: int, sides: int, power: float, alpha: float) -> float | None:
    rates = [percent / 100 for percent in range(100 // sides + 1, 101)]
    return next((rate for rate in rates if _power(n, rate, sides, alpha) >= power), None)


def _after_the_last_tooth(rate: float, sides: int, power: float, alpha: float) -> int:  # noqa: ARG001 - see _halved
    """For two: one more than the last number without the power."""
    import numpy as np

    size = 64
    while True:
        short = _powers_of_two(np.arange(1, size + 1), rate, alpha) < power
        if not short[size // 2 :].any():
            return int(np.flatnonzero(short)[-1]) + 2 if short.any() else 1
        size *= 2


def _halved(rate: float, sides: int, power: float, alpha: float) -> int:
    """For more, where the power grows with the number."""
    low, high = 0, 64
    while _power(high, rate, sides, alpha) < power:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _power(middle, rate, sides, alpha) >= power else (middle, high)
    return high


def _power(n: int, rate: float, sides: int, alpha: float) -> float:
    if sides == _TWO:
        return float(_powers_of_two(n, rate, alpha))
    import numpy as np
    from scipy import stats  # type: ignore[import-untyped,unused-ignore]

    wins = np.arange(n + 1)
    own = (wins - n / sides) ** 2 * sides / (sides - 1)  # its part of the sum of squared distances from even
    left = stats.chi2.isf(alpha, sides - 1) * n / sides - own
    others = stats.chi2.sf(left * (sides - 1) / np.maximum(n - wins, 1e-9), sides - 2)
    return float(stats.binom.pmf(wins, n, rate) @ others)


def _powers_of_two(n: Any, rate: float, alpha: float) -> Any:  # noqa: ANN401 - a number or an array of them
    from scipy import stats  # type: ignore[import-untyped,unused-ignore]

    critical = stats.binom.isf(alpha / 2, n, 0.5) + 1
    return stats.binom.sf(critical - 1, n, rate) + stats.binom.cdf(n - critical, n, rate)


def _check_rate(rate: float, sides: int, where: str) -> None:
    even = 1 / _checked_sides(sides, where)
    fits = isinstance(rate, (int, float)) and not isinstance(rate, bool) and even + 0.0099 <= rate <= 1
    _check(rate, "rate", fits, f"a number from {even + 0.01:.2f} to 1", where)


def _check_share(value: float, field: str, where: str) -> None:
    fits = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1
    _check(value, field, fits, "a number between 0 and 1", where)


def _checked_sides(sides: int, where: str) -> int:
    _check(sides, "sides", isinstance(sides, int) and not isinstance(sides, bool) and sides > 1, "an int >= 2", where)
    return sides


def _check(value: object, field: str, fits: bool, allowed: str, where: str) -> None:  # noqa: FBT001 - of a condition
    if not fits:
        raise ConfigurationError(where, field, value, allowed)
