"""Significance and power of judge audits: p-values, intervals and sample sizes, by scipy.

Verdicts of one item are not independent: a consistent judge that sees an item in both orders gives each slot a win, by
design. So items are counted, resampled and permuted, never verdicts. Sample sizes are those of the exact two-sided test
at 5% that is used for two sides, each item counted once.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from flowdebate.errors import ConfigurationError
from flowdebate.evaluation.judges.audit import FIGURES, audit, count, families, models_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flowdebate.evaluation.judges.audit import ItemCounts, PlaceWins
    from flowdebate.evaluation.judges.schemas import JudgeAudit, JudgeFigures, Places
    from flowdebate.patterns.debate.judging.schemas import JudgeBallot

__all__ = (
    "ALPHA",
    "NEEDED",
    "POWER",
    "SOUGHT",
    "check_installed",
    "full_audit",
    "power",
    "smallest_n",
    "smallest_rate",
    "sought",
)

_F = TypeVar("_F", bound="JudgeFigures")
_CONFIDENCE = 0.95
ALPHA = 0.05
"""The share of fair judges that a test may find biased."""
POWER = 0.8
"""The share of judges with the bias sought that a test has to find."""
SOUGHT = 0.7
"""The win rate of one of two slots that an audit has to be able to find."""
_TWO = 2
"""Sides for which the test is exact."""
NEEDED: Mapping[int, int] = {2: 54, 3: 55, 4: 65, 5: 77, 6: 90, 7: 104, 8: 119}
"""`smallest_n(sought(sides), sides=sides)`, so that saying "too small" takes no library."""


def full_audit(
    items: Sequence[Sequence[JudgeBallot]],
    *,
    truth: Sequence[str | None] | None = None,
    seed: int = 0,
    resamples: int = 2_000,
) -> JudgeAudit:
    """`audit(items, truth=truth)` with p-values and 95% intervals; the same for the same `seed`. Needs scipy.

    Two places: the exact sign test over the items in which one has won more often than the other (with one ballot an
    item, the exact binomial test). More: a permutation test that rotates the wins of each item by a random number of
    places, drawn `resamples` times. Intervals are percentiles of `resamples` bootstrap samples of items; where items
    do not differ, which leaves a bootstrap without a width, they are Clopper and Pearson's. With 0 resamples there are
    no intervals, and p-values for two places only.
    """
    check_installed("full_audit()")
    for name, value in (("seed", seed), ("resamples", resamples)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ConfigurationError("full_audit()", name, value, "an int >= 0")
    audited = audit(items, truth=truth)
    resampling = _Resampling(seed, resamples)
    own = models_of(items) if audited.models else {}
    models = {name: resampling.tested(each, own[name]) for name, each in audited.models.items()}
    return resampling.tested(audited, items).model_copy(update={"models": models, "seed": seed})


class _Resampling:
    """Tests and intervals from one seed; each starts from it anew, so that none depends on which others there are."""

    def __init__(self, seed: int, resamples: int) -> None:
        self._seed = seed
        self._resamples = resamples

    def tested(self, figures: _F, items: Sequence[Sequence[JudgeBallot]]) -> _F:
        """`figures`, which are those of `items`, with p-values and intervals."""
        counts = [count(ballots) for ballots in items]
        update: dict[str, Any] = {
            "slots": self._families(figures.slots, counts, "slots"),
            "labels": self._families(figures.labels, counts, "labels"),
        }
        for name in FIGURES:
            figure = getattr(figures, name)
            terms = [item.figures[name] for item in counts if name in item.figures]
            if figure is not None and self._resamples:
                least = -1.0 if name == "preference_fairness" else 0.0
                low, high = self._interval(terms, least=least)
                update[name] = figure.model_copy(update={"low": low, "high": high})
        return figures.model_copy(update=update)

    def _families(
        self, every: Sequence[Places], counts: Sequence[ItemCounts], kind: Literal["slots", "labels"]
    ) -> list[Places]:
        grouped = families(counts, kind)
        return [self._places(places, grouped[tuple(place.place for place in places.places)]) for places in every]

    def _places(self, places: Places, items: Sequence[PlaceWins]) -> Places:
        update: dict[str, Any] = {}
        if places.sides == 2:  # noqa: PLR2004 - there is an exact test for two
            update = {"test": "sign", "p": _sign_test(places.first, places.leaning)}
        elif self._resamples:
            update = {"test": "permutation", "p": self._permutation_test(items, mirror=places.kind == "slot")}
        if self._resamples:
            rates = []
            for at, place in enumerate(places.places):
                low, high = self._interval([(item.wins[at], sum(item.wins)) for item in items])
                rates.append(place.model_copy(update={"low": low, "high": high}))
            update["places"] = rates
        return places.model_copy(update=update)

    def _interval(self, terms: Sequence[tuple[float, int]], *, least: float = 0.0) -> tuple[float, float]:
        """The interval of the ratio of two sums over items."""
        import numpy as np
        from scipy import stats  # type: ignore[import-untyped,unused-ignore]

        value, n = (np.asarray(column, dtype=float) for column in zip(*sorted(terms), strict=True))
        centre = float(value.sum() / n.sum())
        if np.allclose(value, centre * n):  # all alike: a bootstrap would say that it is certain
            share = (centre - least) / (1 - least)
            exact = stats.binomtest(round(share * len(n)), len(n)).proportion_ci(_CONFIDENCE, method="exact")
            return min(centre, least + exact.low * (1 - least)), max(centre, least + exact.high * (1 - least))
        interval = stats.bootstrap(
            (value, n),
            lambda value, n, axis: value.sum(axis=axis) / n.sum(axis=axis),
            paired=True,
            vectorized=True,
            n_resamples=self._resamples,
            batch=max(1, 2_000_000 // len(n)),
            confidence_level=_CONFIDENCE,
            method="percentile",
            rng=np.random.default_rng(self._seed),
        ).confidence_interval
        return float(interval.low), float(interval.high)

    def _permutation_test(self, items: Sequence[PlaceWins], *, mirror: bool) -> float:
        """The share of draws, with each item's wins rotated, in which places are as uneven as observed, or more."""
        import numpy as np

        source = np.random.default_rng(self._seed)
        drawn = np.zeros((self._resamples, len(items[0].wins)))
        for wins, mirrored in sorted((item.wins, mirror and _is_mirrored(item)) for item in items):
            moved = np.array([wins, wins[::-1]] if mirrored else [wins[at:] + wins[:at] for at in range(len(wins))])
            drawn += moved[source.integers(len(moved), size=self._resamples)]
        seen = np.sum([item.wins for item in items], axis=0)
        as_far = _unevenness(drawn) >= _unevenness(seen) - 1e-9
        return float((1 + as_far.sum()) / (1 + self._resamples))


def _sign_test(first: int, leaning: int) -> float:
    from scipy import stats  # type: ignore[import-untyped,unused-ignore]

    return float(stats.binomtest(first, leaning).pvalue) if leaning else 1.0


def _is_mirrored(item: PlaceWins) -> bool:
    """Whether it was judged in one order and its reverse: then only a reversal is fair."""
    orders = list(item.arrangements)
    return len(orders) == 2 and orders[0] == orders[1][::-1]  # noqa: PLR2004 - an order and another


def _unevenness(wins: Any) -> Any:  # noqa: ANN401 - arrays of a library that may be missing
    """The sum of squared distances from even, for each row."""
    return ((wins - wins.mean(axis=-1, keepdims=True)) ** 2).sum(axis=-1)


def sought(sides: int) -> float:
    """The win rate of one of `sides` places that an audit has to be able to find: odds of 7 to 3 against each other.

    >>> [round(sought(sides), 2) for sides in (2, 3, 4)]
    [0.7, 0.54, 0.44]
    """
    odds = SOUGHT / (1 - SOUGHT)
    return odds / (odds + _checked_sides(sides, "sought()") - 1)


def power(n: int, rate: float, *, sides: int = 2, alpha: float = ALPHA) -> float:
    """The probability that `n` items reveal a place that wins `rate` of them.

    For two sides the power of the exact two-sided binomial test against 1/2. For more, where all other places win
    alike, that of the test that none wins more: wins of the one are binomial, the scatter of the others chi-square.
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
    """The number of items from which on, however many more, a place that wins `rate` is found with this `power`.

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
    """The smallest win rate, in whole percents, that `n` items reveal with this `power`; None: not even a rate of 1.

    >>> smallest_rate(54), smallest_rate(5)
    (0.7, None)
    """
    check_installed("smallest_rate()")
    _check(n, "n", isinstance(n, int) and not isinstance(n, bool) and n >= 1, "an int >= 1", "smallest_rate()")
    _check_share(power, "power", "smallest_rate()")
    _check_share(alpha, "alpha", "smallest_rate()")
    return _smallest_rate(n, _checked_sides(sides, "smallest_rate()"), power, alpha)


def check_installed(where: str) -> Any:  # noqa: ANN401 - numpy, which may be missing
    """Import numpy, which comes with scipy; ConfigurationError where scipy is missing."""
    if not find_spec("scipy"):
        hint = 'pip install "flowdebate[audit]"'
        raise ConfigurationError(where, "library", "no scipy", "scipy, installed", hint=hint)
    import numpy as np

    return np


@lru_cache(maxsize=64)  # many audits have one size
def _smallest_rate(n: int, sides: int, power: float, alpha: float) -> float | None:
    rates = [percent / 100 for percent in range(100 // sides + 1, 101)]
    return next((rate for rate in rates if _power(n, rate, sides, alpha) >= power), None)


def _after_the_last_tooth(rate: float, sides: int, power: float, alpha: float) -> int:  # noqa: ARG001 - see _halved
    """For two sides: one more than the last number without the power."""
    import numpy as np

    size = 64
    while True:
        short = _powers_of_two(np.arange(1, size + 1), rate, alpha) < power
        if not short[size // 2 :].any():
            return int(np.flatnonzero(short)[-1]) + 2 if short.any() else 1
        size *= 2


def _halved(rate: float, sides: int, power: float, alpha: float) -> int:
    """For more sides, where the power grows with the number."""
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
