"""Statistics of evaluations: intervals, exact and permutation tests, and adjustment for several tests."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist, fmean
from typing import TYPE_CHECKING, Any

from flowdebate._util.validation import check_library

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = (
    "ALPHA",
    "Resampling",
    "check_scipy",
    "holm",
    "newcombe",
    "sign_test",
    "two_sided_z",
    "wilson",
)

ALPHA = 0.05
"""The level of a test: the share of fair judges that it may find biased."""


def check_scipy(where: str) -> None:
    """ConfigurationError where scipy is missing."""
    check_library(where, "scipy", library="scipy", extra="audit")


def wilson(share: float, n: int, *, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval (1927) of a `share` of `n` items, which need not be a whole number of them.

    >>> tuple(round(end, 3) for end in wilson(0.61, 100))
    (0.512, 0.7)
    """
    z = two_sided_z(1 - confidence)
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
    below, above = _added(one - low_one, high - other, phi), _added(high_one - one, other - low, phi)
    return one - other - below, one - other + above


def sign_test(better: int, worse: int) -> float:
    """The two-sided p-value of `better` against `worse`: of pairs that differ, McNemar's exact test. Needs scipy.

    >>> round(sign_test(8, 1), 4)
    0.0391
    """
    check_scipy("sign_test()")
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


@dataclass(frozen=True, slots=True)
class Resampling:
    """Bootstrap intervals and permutation tests by numpy and scipy, from one seed.

    Each starts from the seed anew, so that none depends on which others there are.
    """

    seed: int
    resamples: int

    def interval(self, terms: Sequence[tuple[float, int]], *, least: float = 0.0) -> tuple[float, float]:
        """The 95% interval of a ratio: the sum of all first numbers of `terms` by that of all second ones.

        Percentiles of bootstrap samples of `terms`. Where terms do not differ, which leaves a bootstrap without a
        width, it is Clopper and Pearson's for a share from `least` to 1.
        """
        import numpy as np
        from scipy import stats  # type: ignore[import-untyped,unused-ignore]

        value, n = (np.asarray(column, dtype=float) for column in zip(*sorted(terms), strict=True))
        centre = float(value.sum() / n.sum())
        if np.allclose(value, centre * n):
            share = (centre - least) / (1 - least)
            exact = stats.binomtest(round(share * len(n)), len(n)).proportion_ci(1 - ALPHA, method="exact")
            return min(centre, least + exact.low * (1 - least)), max(centre, least + exact.high * (1 - least))
        interval = stats.bootstrap(
            (value, n),
            lambda value, n, axis: value.sum(axis=axis) / n.sum(axis=axis),
            paired=True,
            vectorized=True,
            n_resamples=self.resamples,
            batch=max(1, 2_000_000 // len(n)),
            confidence_level=1 - ALPHA,
            method="percentile",
            rng=np.random.default_rng(self.seed),
        ).confidence_interval
        return float(interval.low), float(interval.high)

    def permutation_test(self, items: Sequence[tuple[Sequence[int], bool]]) -> float:
        """The share of draws in which places are as uneven as observed, or more.

        An item has the wins of its places, which a draw rotates by a random number of places; or, where it is mirrored,
        reverses or leaves.
        """
        import numpy as np

        source = np.random.default_rng(self.seed)
        drawn = np.zeros((self.resamples, len(items[0][0])))
        for wins, mirrored in sorted((list(wins), mirrored) for wins, mirrored in items):
            moved = np.array([wins, wins[::-1]] if mirrored else [wins[at:] + wins[:at] for at in range(len(wins))])
            drawn += moved[source.integers(len(moved), size=self.resamples)]
        seen = np.sum([wins for wins, _ in items], axis=0)
        as_far = _unevenness(drawn) >= _unevenness(seen) - 1e-9
        return float((1 + as_far.sum()) / (1 + self.resamples))


def two_sided_z(alpha: float) -> float:
    """The number of standard deviations that a two-sided test at `alpha` asks for."""
    return NormalDist().inv_cdf(1 - alpha / 2)


def _added(one: float, other: float, phi: float) -> float:
    """The distance of a difference, from the distances of two correlated shares."""
    return math.sqrt(max(one * one - 2 * phi * one * other + other * other, 0.0))


def _unevenness(wins: Any) -> Any:  # noqa: ANN401 - arrays of a library that may be missing
    """The sum of squared distances from even, for each row."""
    return ((wins - wins.mean(axis=-1, keepdims=True)) ** 2).sum(axis=-1)
