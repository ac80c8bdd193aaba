"""Power and sample sizes for judge audits and paired comparisons.

Sample sizes for slot biases assume the exact two-sided test at 5%, as in audits with two sides; each item counts once.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING

from flowdebate._util.validation import check_count, check_number, check_share
from flowdebate.evaluation.statistics import ALPHA, binomial_chances, check_scipy, two_sided_z

if TYPE_CHECKING:
    from flowdebate.evaluation.statistics import Floats, Integers

POWER = 0.8  # share of biased judges that a test should detect
SOUGHT = 0.7  # win rate of one of two slots that an audit should detect
_TWO = 2  # number of sides for which the test is exact
# Precomputed `smallest_n(sought(sides), sides=sides)`, so "too few to tell" can be reported without scipy.
NEEDED: Mapping[int, int] = {2: 54, 3: 55, 4: 65, 5: 77, 6: 90, 7: 104, 8: 119}


def sought(sides: int) -> float:
    """Return the win rate of a place favored 7 to 3 over each other place; audits should detect a bias of this size.

    >>> [round(sought(sides), 2) for sides in (2, 3, 4)]
    [0.7, 0.54, 0.44]
    """
    check_count("sought()", minimum=2, sides=sides)
    odds = SOUGHT / (1 - SOUGHT)
    return odds / (odds + sides - 1)


def power(n: int, rate: float, *, sides: int = 2, alpha: float = ALPHA) -> float:
    """Compute the probability of detecting a bias from `n` items if one place has the win rate `rate`.

    For two sides, this is the power of the exact two-sided binomial test against 1/2. For more sides, it is the power
    of the test against equal wins, assuming that all other places win equally often: the place's wins follow a binomial
    distribution, and the spread of the other places' wins follows a chi-square distribution. Needs scipy.

    >>> round(power(54, 0.7), 3)
    0.837
    """
    _check("power()", sides, rate, alpha=alpha)
    check_count("power()", n=n)
    return _power(n, rate, sides, alpha)


def smallest_n(rate: float, *, sides: int = 2, power: float = POWER, alpha: float = ALPHA) -> int:
    """Find the smallest `n` for which all samples of at least `n` items detect `rate` with at least this `power`.

    The power of the exact test follows a sawtooth: some smaller samples also reach the required power (49 items for
    .70), but slightly larger ones (53) fall below it again. The win rate `rate` must be at least .01 above an even
    rate. Needs scipy.

    >>> smallest_n(0.6), smallest_n(0.7), smallest_n(0.8)
    (210, 54, 23)
    """
    _check("smallest_n()", sides, rate, power=power, alpha=alpha)
    enough = 64
    if sides == _TWO:
        import numpy as np

        # double the range until all sizes in its upper half suffice; the result is one more than the last size that
        # does not
        while True:
            short = _powers_of_two(np.arange(1, enough + 1), rate, alpha) < power
            if not short[enough // 2 :].any():
                return int(np.flatnonzero(short)[-1]) + 2 if short.any() else 1
            enough *= 2
    # With more than two sides, power grows with the number of items.
    while _power(enough, rate, sides, alpha) < power:
        enough *= 2
    return 1 + bisect_left(range(1, enough), power, key=lambda n: _power(n, rate, sides, alpha))


def smallest_rate(n: int, *, sides: int = 2, power: float = POWER, alpha: float = ALPHA) -> float | None:
    """Find the smallest win rate, in whole percent, that `n` items detect with this `power`, or None if there is none.

    >>> smallest_rate(54), smallest_rate(5)
    (0.7, None)
    """
    _check("smallest_rate()", sides, power=power, alpha=alpha)
    check_count("smallest_rate()", n=n)
    return _smallest_rate(n, sides, power, alpha)


@lru_cache(maxsize=64)
def required_n(gain: float, *, differing: float, tests: int = 1, alpha: float = ALPHA) -> int:
    """Compute the number of items needed to detect a `gain` in accuracy with 80% power.

    `differing` is the share of pairs that differ; it cannot be less than `gain`. The result uses the exact power of
    McNemar's exact test at the significance level `alpha` / `tests`. Needs scipy.

    >>> required_n(0.1, differing=0.3), required_n(0.2, differing=0.3)
    (249, 61)
    """
    location = "required_n()"
    check_share(location, ends=False, gain=gain, alpha=alpha)
    check_share(location, differing=differing)
    check_count(location, tests=tests)
    check_scipy(location)
    share, level = max(differing, gain), alpha / tests
    z_test, z_power = two_sided_z(level), NormalDist().inv_cdf(POWER)
    spread = math.sqrt(max(share - gain * gain, 0.0))
    # Start from Connor's (1987) approximation, which treats the test as continuous.
    connor = math.ceil((z_test * math.sqrt(share) + z_power * spread) ** 2 / gain**2)
    step = math.ceil(1 / gain)
    enough = connor + step
    while _paired_power(enough, gain, share, level) < POWER:
        enough += step
    short = enough - step
    return short + bisect_left(range(short, enough), POWER, key=lambda n: _paired_power(n, gain, share, level))


def _paired_power(n: int, gain: float, share: float, alpha: float) -> float:
    """Compute the power of McNemar's exact test: the sign test's power, averaged over the number of differing pairs."""
    import numpy as np

    center, width = n * share, 9 * math.sqrt(n * share * (1 - share)) + 1
    differ = np.arange(max(1, math.floor(center - width)), min(n, math.ceil(center + width)) + 1)
    rate = min((share + gain) / (2 * share), 1.0)
    return float(binomial_chances(n, share)[differ] @ _powers_of_two(differ, rate, alpha))


@lru_cache(maxsize=64)  # cached, because many audits have the same size
def _smallest_rate(n: int, sides: int, power: float, alpha: float) -> float | None:
    rates = [percent / 100 for percent in range(100 // sides + 1, 101)]
    return next((rate for rate in rates if _power(n, rate, sides, alpha) >= power), None)


def _power(n: int, rate: float, sides: int, alpha: float) -> float:
    if sides == _TWO:
        return float(_powers_of_two(n, rate, alpha))
    import numpy as np
    from scipy.special import chdtrc, chdtri  # type: ignore[import-untyped,unused-ignore]

    wins = np.arange(n + 1)
    distance = (wins - n / sides) ** 2 * sides / (sides - 1)  # contribution to the sum of squared distances
    remaining = chdtri(sides - 1, alpha) * n / sides - distance
    tail = chdtrc(sides - 2, np.maximum(remaining, 0) * (sides - 1) / np.maximum(n - wins, 1e-9))
    return float(binomial_chances(n, rate) @ tail)


def _powers_of_two(n: int | Integers, rate: float, alpha: float) -> Floats:
    import numpy as np
    from scipy.special import bdtr, bdtrc, bdtrik  # type: ignore[import-untyped,unused-ignore]

    # Find the smallest number of wins that a fair coin reaches with a probability of at most half of `alpha`. The
    # inverse may be rounded up or down, so its result is checked.
    near = np.floor(bdtrik(1 - alpha / 2, n, 0.5))
    critical = near + 1 + (bdtrc(near, n, 0.5) > alpha / 2)
    tails: Floats = bdtrc(critical - 1, n, rate) + bdtr(np.maximum(n - critical, 0), n, rate)
    return np.where(critical <= n, tails, 0.0)


def _check(location: str, sides: int, rate: float | None = None, **shares: float) -> None:
    """Raise ConfigurationError if an option is out of range, or if scipy is missing."""
    check_count(location, minimum=2, sides=sides)
    even = 1 / sides  # a rate only .01 above an even one already requires about 20,000 items
    check_number(location, minimum=round(even + 0.0099, 2), maximum=1, optional=True, rate=rate)
    check_share(location, ends=False, **shares)
    check_scipy(location)
