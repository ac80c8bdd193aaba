"""Chance: p-values of a judge's preferences, and intervals of its figures, by scipy.

Verdicts of one item are not independent: an item that is judged in both orders by a judge that knows what it wants has
a win for each slot, by design. So items are what is counted, drawn and turned round, never verdicts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeVar

from flowdebate.errors import ConfigurationError
from flowdebate.evaluation.judges.audit import audit, families, models_of
from flowdebate.evaluation.judges.counts import FIGURES, count
from flowdebate.evaluation.judges.power import check_installed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.evaluation.judges.counts import ItemCounts, PlaceWins
    from flowdebate.evaluation.judges.schemas import JudgeAudit, JudgeFigures, Places
    from flowdebate.patterns.debate.judging.schemas import JudgeBallot

__all__ = ("full_audit",)

_F = TypeVar("_F", bound="JudgeFigures")
_CONFIDENCE = 0.95


def full_audit(
    items: Sequence[Sequence[JudgeBallot]],
    *,
    truth: Sequence[str | None] | None = None,
    seed: int = 0,
    resamples: int = 2_000,
) -> JudgeAudit:
    """`audit(items, truth=truth)` with p-values and 95% intervals; the same for the same `seed`. Needs scipy.

    Two places: the exact sign test over items, of those in which one has won more often than the other (with one ballot
    an item it is the exact binomial test). More: a permutation test that moves all wins of an item on by the same
    number of places, drawn `resamples` times. Intervals are percentiles of `resamples` bootstrap samples of items;
    where items do not differ, which leaves a bootstrap without a width, they are Clopper and Pearson's. With 0
    resamples there are no intervals, and p-values for two places only.
    """
    check_installed("full_audit()")
    for name, value in (("seed", seed), ("resamples", resamples)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ConfigurationError("full_audit()", name, value, "an int >= 0")
    found = audit(items, truth=truth)
    chance = _Chance(seed, resamples)
    own = models_of(items) if found.models else {}
    models = {name: chance.tested(each, own[name]) for name, each in found.models.items()}
    return chance.tested(found, items).model_copy(update={"models": models, "seed": seed})


class _Chance:
    """Draws from a seed: each figure from the beginning, so that none depends on which others there are."""

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
        self, found: Sequence[Places], counts: Sequence[ItemCounts], kind: Literal["slots", "labels"]
    ) -> list[Places]:
        grouped = families(counts, kind)
        return [self._places(places, grouped[tuple(place.place for place in places.places)]) for places in found]

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
        """The ends of the interval of the sum of the first by the sum of the second, over items."""
        import numpy as np
        from scipy import stats  # type: ignore[import-untyped,unused-ignore]

        value, n = (np.asarray(column, dtype=float) for column in zip(*sorted(terms), strict=True))
        centre = float(value.sum() / n.sum())
        if np.allclose(value, centre * n):  # all alike: a bootstrap would say that it is certain
            share = (centre - least) / (1 - least)
            exact = stats.binomtest(round(share * len(n)), len(n)).proportion_ci(_CONFIDENCE, method="exact")
            return min(centre, least + exact.low * (1 - least)), max(centre, least + exact.high * (1 - least))
        found = stats.bootstrap(
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
        return float(found.low), float(found.high)

    def _permutation_test(self, items: Sequence[PlaceWins], *, mirror: bool) -> float:
        """How often, with the wins of each item moved on, places are as uneven as they are, or more."""
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
    """Whether it was judged in one order and its reverse: then only first and last are alike to a fair judge."""
    orders = list(item.ways)
    return len(orders) == 2 and orders[0] == orders[1][::-1]  # noqa: PLR2004 - an order and another


def _unevenness(wins: Any) -> Any:  # noqa: ANN401 - arrays of a library that may be missing
    """The sum of squared distances from even, for each row."""
    return ((wins - wins.mean(axis=-1, keepdims=True)) ** 2).sum(axis=-1)
