"""Statistics of paired shares: intervals, McNemar's exact test, Holm's adjustment and sample size."""

from __future__ import annotations

import math
from statistics import NormalDist, fmean
from typing import TYPE_CHECKING

from flowdebate.evaluation.judges.significance import check_installed

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = (
    "holm",
    "newcombe",
    "required_n",
    "sign_test",
    "wilson",
)

_NORMAL = NormalDist()
POWER = 0.8


def wilson(share: float, n: int, *, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval (1927) of a `share` of `n` items, which need not be a whole number of them.

    >>> tuple(round(end, 3) for end in wilson(0.61, 100))
    (0.512, 0.7)
    """
    z = _two_sided(1 - confidence)
    middle = share + z * z / (2 * n)
    half = z * math.sqrt(max(share * (1 - share), 0.0) / n + (z / (2 * n)) ** 2)
    whole = 1 + z * z / n
    low, high = (middle - half) / whole, (middle + half) / whole
    return max(min(low, share), 0.0), min(max(high, share), 1.0)  # at the ends rounding may leave the share outside


def newcombe(ones: Sequence[float], others: Sequence[float], *, confidence: float = 0.95) -> tuple[float, float]:
    """The interval of `mean(ones) - mean(others)`, which are pairs of numbers from 0 to 1 of the same items.

    Newcombe's method 10 (1998) for paired shares: Wilson's intervals, combined by the correlation of the pairs. It has
    a width even where all items agree.

    >>> tuple(round(end, 3) for end in newcombe([1] * 2 + [0] * 19, [1] + [0] + [1] * 7 + [0] * 12))
    (-0.507, -0.026)
    """
    n = len(ones)
    one, other = fmean(ones), fmean(others)
    (low_one, high_one), (low, high) = wilson(one, n, confidence=confidence), wilson(other, n, confidence=confidence)
    together = fmean(a * b for a, b in zip(ones, others, strict=True)) - one * other
    spread = math.sqrt(max(one * (1 - one) * other * (1 - other), 0.0))
    phi = 0.0 if spread <= 0 else (max(together - 1 / (2 * n), 0.0) if together > 0 else together) / spread
    return one - other - _added(one - low_one, high - other, phi), one - other + _added(
        high_one - one, other - low, phi
    )


def sign_test(better: int, worse: int) -> float:
    """The two-sided p-value of `better` against `worse`: of pairs that differ, McNemar's exact test. Needs scipy.

    >>> round(sign_test(8, 1), 4)
    0.0391
    """
    check_installed("sign_test()")
    from scipy import stats  # type: ignore[import-untyped,unused-ignore]

    return float(stats.binomtest(better, better + worse).pvalue) if better + worse else 1.0


def holm(ps: Sequence[float]) -> list[float]:
    """Adjust `ps` for their number by Holm's method (1979); in their order.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted = [0.0] * len(ps)
    least = 0.0
    for rank, index in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        least = max(least, min(ps[index] * (len(ps) - rank), 1.0))
        adjusted[index] = least
    return adjusted


def required_n(gain: float, *, differing: float, tests: int = 1, alpha: float = 0.05) -> int:
    """The number of items that show a `gain` in accuracy with a power of 80%, if a share `differing` of pairs differ.

    Connor's sample size for McNemar's test (1987), at `alpha` over `tests`.

    >>> required_n(0.1, differing=0.3), required_n(0.05, differing=0.3)
    (234, 940)
    """
    share = max(differing, gain)
    z_test, z_power = _two_sided(alpha / tests), _NORMAL.inv_cdf(POWER)
    return math.ceil((z_test * math.sqrt(share) + z_power * math.sqrt(max(share - gain * gain, 0.0))) ** 2 / gain**2)


def _two_sided(alpha: float) -> float:
    return _NORMAL.inv_cdf(1 - alpha / 2)


def _added(one: float, other: float, phi: float) -> float:
    """The distance of a difference, from the distances of two correlated shares."""
    return math.sqrt(max(one * one - 2 * phi * one * other + other * other, 0.0))
