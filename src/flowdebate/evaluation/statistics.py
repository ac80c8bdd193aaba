"""Statistics for evaluations: intervals, exact and permutation tests, and adjustment for multiple tests."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist, fmean
from typing import TYPE_CHECKING, TypeAlias

from flowdebate._util.validation import check_count, check_library, check_number, check_share
from flowdebate.errors import ConfigurationError

if TYPE_CHECKING:  # numpy is an optional dependency
    from numpy import float64, int64
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[float64]
    Integers: TypeAlias = NDArray[int64]

ALPHA = 0.05  # significance level: the share of fair judges that a test may call biased
_ROUNDED = 1e-12
_MANY = 5_000
"""Number of items above which the confidence interval of a ratio is based on the normal approximation."""
_DIRECT = 500
"""Maximum length of the shorter factor in a convolution computed directly, as a sum of products; above it, the FFT is
used.
"""
_GRID = 60  # denominator for the sign-flip test, exact for halves, thirds, quarters, fifths and sixths of a win


def check_scipy(location: str) -> None:
    """Raise ConfigurationError if scipy is missing."""
    check_library(location, "scipy", library="scipy", extra="audit")


def share_interval(share: float, n: float, *, confidence: float = 0.95) -> tuple[float, float]:
    """Compute the Wilson score interval (Wilson 1927) for a `share` of `n` items; `n` may be fractional.

    >>> tuple(round(end, 3) for end in share_interval(0.61, 100))
    (0.512, 0.7)
    """
    check_share("share_interval()", ends=False, confidence=confidence)
    check_share("share_interval()", share=share)
    check_number("share_interval()", above=0, n=n)
    z = two_sided_z(1 - confidence)
    middle = share + z * z / (2 * n)
    half = z * math.sqrt(max(share * (1 - share), 0.0) / n + (z / (2 * n)) ** 2)
    denominator = 1 + z * z / n
    low, high = (middle - half) / denominator, (middle + half) / denominator
    return max(min(low, share), 0.0), min(max(high, share), 1.0)  # near 0 or 1, rounding might exclude the share itself


def newcombe(
    ones: Sequence[float], other_values: Sequence[float], *, confidence: float = 0.95, size: float | None = None
) -> tuple[float, float]:
    """Compute the interval for `mean(ones) - mean(others)`, given paired values from 0 to 1 for the same items.

    This is Newcombe's method 10 (1998) for paired proportions, which combines Wilson intervals with the correlation
    of the pairs. The interval has a positive width even if all items agree. `size` is the effective number of
    independent pairs (`effective_size`); None means all pairs.

    >>> tuple(round(end, 3) for end in newcombe([1] * 2 + [0] * 19, [1] + [0] + [1] * 7 + [0] * 12))
    (-0.507, -0.026)
    """
    if len(ones) != len(other_values):
        raise ConfigurationError(
            "newcombe()", "others", len(other_values), f"must have as many entries as `ones` ({len(ones)})"
        )
    check_count("newcombe()", ones=len(ones))
    n = len(ones) if size is None else size
    one, other = fmean(ones), fmean(other_values)
    (low_one, high_one), (low, high) = (share_interval(share, n, confidence=confidence) for share in (one, other))
    together = fmean(a * b for a, b in zip(ones, other_values, strict=True)) - one * other
    spread = math.sqrt(max(one * (1 - one) * other * (1 - other), 0.0))
    phi = 0.0 if spread <= 0 else (max(together - 1 / (2 * n), 0.0) if together > 0 else together) / spread

    def added(one: float, other: float) -> float:
        """Combine the distances for two correlated proportions into the distance for their difference."""
        return math.sqrt(max(one * one - 2 * phi * one * other + other * other, 0.0))

    below, above = added(one - low_one, high - other), added(high_one - one, other - low)
    return max(one - other - below, -1.0), min(one - other + above, 1.0)


def effective_size(differences: Sequence[float], clusters: Sequence[Hashable]) -> float:
    """Compute the effective number of independent `differences`, given each item's cluster. Needs scipy.

    The effective number is the number of items divided by the design effect: the ratio of the cluster-robust variance
    of the mean to the variance for independent items, with a correction for the wider quantiles of Student's t when
    there are few clusters. It never exceeds the number of items.

    >>> effective_size([1, 0, -1, 1], ["q1", "q2", "q3", "q4"])
    4.0
    >>> round(effective_size([1, 1, 1, 0, 0, 0, 0, 0, 0], ["q1"] * 3 + ["q2"] * 3 + ["q3"] * 3), 1)
    0.4
    """
    check_scipy("effective_size()")

    n, groups = len(differences), Counter(clusters)
    if len(groups) == n:
        return float(n)
    if len(groups) == 1:
        return 1.0  # a single cluster says nothing about differences between clusters
    mean, sums = fmean(differences), dict.fromkeys(groups, 0.0)
    for difference, cluster in zip(differences, clusters, strict=True):
        sums[cluster] += difference - mean
    alone = math.fsum((difference - mean) ** 2 for difference in differences)
    count = len(groups)
    if not alone:
        return float(count)  # if nothing differs, each cluster counts as one observation
    together = math.fsum(sum_ * sum_ for sum_ in sums.values()) * count / (count - 1)
    student = student_t(ALPHA, count - 1) / two_sided_z(ALPHA)
    return min(n / (together / alone * student**2), float(n)) if together else float(n)


def sign_flip_test(leans: Sequence[float]) -> float:
    """Compute the two-sided p-value for the sum of `leans` under random signs. Needs scipy.

    This is the exact permutation test: the share of all sign assignments whose sum is at least as far from 0 as the
    observed one. With leans of 1 and -1 it is the sign test, which equals McNemar's exact test on the discordant pairs.

    >>> round(sign_flip_test([1] * 8 + [-1]), 4)
    0.0391
    >>> sign_flip_test([3, 1, 1])
    0.25
    """
    check_scipy("sign_flip_test()")
    import numpy as np

    units = Counter(round(_GRID * lean) for lean in leans)
    unit = math.gcd(*units)
    if not unit:
        return 1.0
    seen = abs(sum(step * times for step, times in units.items())) // unit
    sizes = Counter[int]()
    for step, times in units.items():
        if step:
            sizes[abs(step) // unit] += times
    total = sum(size * times for size, times in sizes.items())
    chances = np.ones(1)  # probability of each sum, from -total to total
    for size, times in sorted(sizes.items()):
        coin = np.zeros(2 * size + 1)
        coin[[0, -1]] = 0.5
        chances = _convolve(chances, _power(coin, times))
    tails = float(chances[: total - seen + 1].sum() + chances[total + seen :].sum())
    return _clip(tails) if seen else 1.0


def sign_test(ones: int, other_wins: int) -> float:
    """Compute the exact two-sided p-value of `ones` wins against `other_wins`, assuming a fair coin.

    >>> sign_test(4, 0), sign_test(6, 0), sign_test(0, 0)
    (0.125, 0.03125, 1.0)
    """
    check_count("sign_test()", minimum=0, ones=ones, others=other_wins)
    n = ones + other_wins
    return min(2 * sum(math.comb(n, wins) for wins in range(min(ones, other_wins) + 1)) / (1 << n), 1.0)


def place_test(items: Sequence[tuple[Sequence[int], int]]) -> float:
    """Compute the two-sided p-value for one place's number of wins under random exchanges of places. Needs scipy.

    Each item consists of the wins of its places and the index of the tested place. This is the exact permutation test:
    among all choices of one place per item, the share whose wins are at least as far from the mean as the observed
    wins. With one win per item and two places, it equals the exact binomial test; with more places, it equals the
    binomial test in which each place has the same chance.

    >>> round(place_test([((0, 1), 1)] * 6), 5), round(place_test([((0, 0, 1), 2)] * 4), 4)
    (0.03125, 0.0123)
    """
    check_scipy("place_test()")
    import numpy as np

    chances = np.ones(1)  # probability of each number of wins
    mean = Fraction(0)
    for wins, times in sorted(Counter(tuple(sorted(wins)) for wins, _ in items).items()):
        chances = _convolve(chances, _power(np.bincount(np.asarray(wins)) / len(wins), times))
        mean += Fraction(sum(wins), len(wins)) * times
    far = abs(sum(wins[place] for wins, place in items) - mean)
    # integers, because with a hundred thousand items, fractions would take seconds
    numerator, part = mean.numerator, mean.denominator
    minimum = far.numerator * part
    as_far = (won for won in range(len(chances)) if abs(won * part - numerator) * far.denominator >= minimum)
    return _clip(math.fsum(float(chances[won]) for won in as_far))


def _clip(chance: float) -> float:
    """Clip a probability to the range 0 to 1; values just below 1 result from rounding errors and become 1."""
    return 1.0 if chance > 1 - _ROUNDED else max(chance, 0.0)


def _power(chances: Floats, times: int) -> Floats:
    """Return the distribution of the sum of `times` independent draws."""
    import numpy as np

    low, *between, high = 0, *chances.nonzero()[0].tolist()
    if len(between) < 2:  # noqa: PLR2004 - of two numbers of wins, a binomial distribution: exact, however many draws
        low = between[0] if between else high
        won = np.arange(times + 1)
        powers = np.zeros(high * times + 1)
        np.add.at(powers, low * times + (high - low) * won, binomial_chances(times, float(chances[high])))
        return powers
    result, square = np.ones(1), chances
    while times:
        if times & 1:
            result = _convolve(result, square)
        times >>= 1
        square = _convolve(square, square) if times else square
    return result


def _convolve(chances: Floats, other_chances: Floats) -> Floats:
    """Return the distribution of the sum of two independent draws."""
    import numpy as np

    if min(len(chances), len(other_chances)) <= _DIRECT:
        return np.convolve(chances, other_chances)
    size = len(chances) + len(other_chances) - 1
    spectrum = np.fft.rfft(chances, size) * np.fft.rfft(other_chances, size)
    sums: Floats = np.fft.irfft(spectrum, size)
    return sums


def binomial_chances(n: int, chance: float) -> Floats:
    """Return the probabilities of 0 to `n` wins in `n` draws.

    >>> binomial_chances(2, 0.5).tolist()
    [0.25, 0.5, 0.25]
    """
    import numpy as np

    if chance in (0, 1):
        certain = np.zeros(n + 1)
        certain[n * round(chance)] = 1
        return certain
    # Each probability is computed from its neighbor, starting at the most likely one, so none overflows and the
    # smallest ones are exact.
    wins = np.arange(1, n + 1)
    steps = (n - wins + 1) / wins * (chance / (1 - chance))
    likeliest = min(int((n + 1) * chance), n)
    below, above = np.cumprod(1 / steps[:likeliest][::-1])[::-1], np.cumprod(steps[likeliest:])
    chances: Floats = np.concatenate([below, [1.0], above])
    chances /= chances.sum()
    return chances


def holm(ps: Sequence[float]) -> list[float]:
    """Adjust the p-values `ps` for multiple testing by Holm's method (1979), preserving their order.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted = [0.0] * len(ps)
    lowest = 0.0
    for rank, index in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        lowest = max(lowest, min(ps[index] * (len(ps) - rank), 1.0))
        adjusted[index] = lowest
    return adjusted


@dataclass(frozen=True, slots=True)
class Resampling:
    """Bootstrap intervals and permutation tests based on a single seed, computed with numpy and scipy.

    Each computation restarts from the seed, so its results do not depend on other computations.
    """

    seed: int
    resamples: int

    def interval(
        self, values: Sequence[float], numbers: Sequence[float], *, minimum: float | None = 0.0
    ) -> tuple[float, float]:
        """Compute the 95% confidence interval for the ratio of the sum of `values` to the sum of `numbers`.

        Each item has a value and a number. A share between `minimum` and 1 gets the Clopper-Pearson interval if all
        items have the same share or, if `minimum` is 0, if every number is 1 and every value is 0 or 1. Any other
        share, or an unbounded ratio (if `minimum` is None), gets a bias-corrected and accelerated (BCa) bootstrap
        interval over items. Above 5,000 items, the normal approximation is used instead, because its error is then
        smaller than the difference between two bootstrap intervals.
        """
        import numpy as np

        value, n = np.asarray(values, dtype=float), np.asarray(numbers, dtype=float)
        order = np.lexsort((n, value))
        value, n = value[order], n[order]
        center = float(value.sum() / n.sum())
        counted = minimum == 0 and bool(np.all(n == 1)) and bool(np.all((value == 0) | (value == 1)))
        if minimum is not None and (counted or np.allclose(value, center * n)):
            share = (center - minimum) / (1 - minimum)
            low, high = exact_interval(round(share * len(n)), len(n))
            return min(center, minimum + low * (1 - minimum)), max(center, minimum + high * (1 - minimum))
        if len(n) > _MANY:
            spread = math.sqrt(float(((value - center * n) ** 2).sum()) * len(n) / (len(n) - 1)) / float(n.sum())
            return center - two_sided_z(ALPHA) * spread, center + two_sided_z(ALPHA) * spread
        low, high = self._bootstrap(value, n)
        return min(low, center), max(high, center)

    def _bootstrap(self, value: Floats, n: Floats) -> tuple[float, float]:
        """Compute the BCa interval (Efron 1987) for `value.sum() / n.sum()`.

        If the correction is undefined, for example because all samples lie on one side of the ratio, the result is the
        percentile interval. The results match those of `scipy.stats.bootstrap`, which is not used because importing it
        takes 25 MB of memory.
        """
        import numpy as np
        from scipy.special import ndtr, ndtri  # type: ignore[import-untyped,unused-ignore]

        source, size, batch = np.random.default_rng(self.seed), len(n), max(1, 500_000 // len(n))
        drawn = np.empty(self.resamples)
        for start in range(0, self.resamples, batch):
            items = source.integers(0, size, (min(batch, self.resamples - start), size))
            drawn[start : start + batch] = value[items].sum(axis=-1) / n[items].sum(axis=-1)
        center = value.sum() / n.sum()
        ends = np.array([ALPHA / 2, 1 - ALPHA / 2])
        below = ((drawn < center).mean() + (drawn <= center).mean()) / 2
        without = (value.sum() - value) / (n.sum() - n)  # jackknife: leaves out one item at a time
        if 0 < below < 1 and np.isfinite(without).all() and np.ptp(without):
            pull = without.mean() - without
            skew = (pull**3).sum() / (6 * (pull**2).sum() ** 1.5)
            shifted = ndtri(below) + ndtri(ends)
            ends = ndtr(ndtri(below) + shifted / (1 - skew * shifted))
        low, high = np.quantile(drawn, ends)
        return float(low), float(high)

    def sums(self, rows: Floats) -> Floats:
        """Return the sums of the items' rows in each bootstrap sample."""
        import numpy as np

        source, items = np.random.default_rng(self.seed), len(rows)
        even = np.full(items, 1 / items)
        # Each sample is a row of counts: how often each item was drawn. Holding all samples in memory could take
        # gigabytes.
        batch = max(1, 500_000 // items)
        sizes = [min(batch, self.resamples - start) for start in range(0, self.resamples, batch)]
        return np.concatenate([source.multinomial(items, even, size=size) @ rows for size in sizes])

    def permutation_test(self, items: Sequence[tuple[Sequence[int], bool]]) -> float:
        """Compute the share of draws in which wins are distributed at least as unevenly as observed.

        A draw rotates each item's wins by a random number of places or, for a mirrored item, randomly keeps or reverses
        them.
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


def exact_interval(wins: int, n: int) -> tuple[float, float]:
    """Compute the 95% Clopper-Pearson (1934) confidence interval for a share. Needs scipy.

    >>> tuple(round(end, 3) for end in exact_interval(7, 10))
    (0.348, 0.933)
    """
    from scipy.special import betaincinv  # type: ignore[import-untyped,unused-ignore]

    low = float(betaincinv(wins, n - wins + 1, ALPHA / 2)) if wins else 0.0
    high = float(betaincinv(wins + 1, n - wins, 1 - ALPHA / 2)) if wins < n else 1.0
    return low, high


def student_t(alpha: float, freedom: float) -> float:
    """Return the critical value of a two-sided t test at `alpha`. Needs scipy."""
    from scipy.special import stdtrit  # type: ignore[import-untyped,unused-ignore]

    return -float(stdtrit(freedom, alpha / 2))


def two_sided_z(alpha: float) -> float:
    """Return the number of standard deviations required by a two-sided test at `alpha`."""
    return NormalDist().inv_cdf(1 - alpha / 2)


def _unevenness(wins: Floats) -> Floats:
    """Return each row's sum of squared deviations from an even distribution."""
    distances: Floats = ((wins - wins.mean(axis=-1, keepdims=True)) ** 2).sum(axis=-1)
    return distances
