"""Judge audits: bias and consistency of judges, counted from their stored ballots.

The figures are those of Shi et al. 2024 (arXiv 2406.07791), repetition stability, position consistency and preference
fairness, and the win rates of slots and labels. They need no library; `full_audit()` adds p-values and intervals.

Verdicts of one item are not independent: a consistent judge that sees an item in both orders gives each slot a win, by
design. So items are counted, resampled and permuted, never verdicts.
"""

from __future__ import annotations

import math
from itertools import combinations
from statistics import StatisticsError, correlation
from typing import TYPE_CHECKING, Any, Literal

from flowdebate._util.validation import check_count
from flowdebate.errors import ConfigurationError
from flowdebate.evaluation.judges.counts import FIGURES, count, is_usable
from flowdebate.evaluation.judges.report import Figure, JudgeAudit, JudgeFigures, PlaceRate, Places, RunAudit
from flowdebate.evaluation.statistics import Resampling, check_scipy, sign_test
from flowdebate.patterns.anonymity.model_families import kin_among
from flowdebate.patterns.debate.judging.ballots import effective_n
from flowdebate.patterns.debate.schemas import JudgeViewMade
from flowdebate.patterns.events import TurnStarted
from flowdebate.runs.events import ModelCalled

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from flowdebate.evaluation.judges.counts import ItemCounts, PlaceWins
    from flowdebate.patterns.debate.judging.ballots import JudgeBallot
    from flowdebate.runs.result import RunView

__all__ = (
    "audit",
    "audit_run",
    "full_audit",
)

_ENOUGH = 10
"""The number of items from which on models are correlated."""


def audit(items: Sequence[Sequence[JudgeBallot]], *, truth: Sequence[str | None] | None = None) -> JudgeAudit:
    """Audit the judges of `items`; an item is one transcript with all its ballots.

    `truth` has the right side of each item, or None; only the correlation of several models uses it. The order of
    items, and of ballots in an item, changes nothing. Contradictory ballots are counted as `unusable`, and left out.
    ConfigurationError for a `truth` of another length.

    >>> from flowdebate.patterns.debate.judging.ballots import JudgeBallot
    >>> first = JudgeBallot(order=["yes", "no"], winner="yes")
    >>> second = JudgeBallot(order=["no", "yes"], winner="no")
    >>> audited = audit([[first, second]])
    >>> audited.position_consistency.value, audited.preference_fairness.value, audited.slots[0].favoured.rate
    (0.0, -1.0, 1.0)
    """
    if truth is not None and len(truth) != len(items):
        raise ConfigurationError("audit()", "truth", truth, f"{len(items)} of them, one for each item")
    return _audit(items, truth, None)


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
    check_scipy("full_audit()")
    check_count("full_audit()", least=0, seed=seed, resamples=resamples)
    return _audit(items, truth, Resampling(seed, resamples)).model_copy(update={"seed": seed})


def audit_run(run: RunView) -> RunAudit:
    """Audit the judge of `run`, which may still be running."""
    raw: Any = run.raw
    judging = getattr(getattr(raw, "verdict", None), "judging", None)
    ballots = [] if judging is None else judging.ballots
    judges, debaters, called = set(), set(), []
    for event in run.events:
        match event:
            case JudgeViewMade():
                judges.add(event.block)
            case TurnStarted():
                debaters.add(event.block)
            case ModelCalled():
                called.append((event.block, event.model))
    return RunAudit(
        judge=audit([ballots]),
        leaks=getattr(raw, "leaks", None),
        same_family=kin_among(
            [model for block, model in called if block in judges],
            [model for block, model in called if block in debaters],
        ),
    )


def _audit(
    items: Sequence[Sequence[JudgeBallot]], truth: Sequence[str | None] | None, resampling: Resampling | None
) -> JudgeAudit:
    if truth is not None and len(truth) != len(items):
        raise ConfigurationError("audit()", "truth", truth, f"{len(items)} of them, one for each item")
    figures = _figures(items, resampling)
    by_model = _models_of(items)
    if len(by_model) < 2:  # noqa: PLR2004 - one judge is no panel
        return JudgeAudit(**figures)
    rho, rho_of = _rho(items, truth, sorted(by_model))
    return JudgeAudit(
        **figures,
        models={name: JudgeFigures(**_figures(own, resampling)) for name, own in by_model.items()},
        rho=rho,
        rho_of=rho_of,
        effective_n=None if rho is None else effective_n(len(by_model), min(max(rho.value, 0.0), 1.0)),
    )


def _models_of(items: Iterable[Sequence[JudgeBallot]]) -> dict[str, list[list[JudgeBallot]]]:
    """The items of each model, with its ballots only; "" is the unknown model."""
    grouped: dict[str, list[list[JudgeBallot]]] = {}
    for ballots in items:
        own: dict[str, list[JudgeBallot]] = {}
        for ballot in ballots:
            own.setdefault(ballot.model or "", []).append(ballot)
        for name, each in own.items():
            grouped.setdefault(name, []).append(each)
    return dict(sorted(grouped.items()))


def _figures(items: Sequence[Sequence[JudgeBallot]], resampling: Resampling | None) -> dict[str, Any]:
    """The fields of a `JudgeFigures`."""
    counts = [count(ballots) for ballots in items]
    figures = {name: _figure(counts, name, resampling) for name in FIGURES}
    return {
        "items": sum(item.ballots > 0 for item in counts),
        "ballots": sum(item.ballots for item in counts),
        "unparsed": sum(item.unparsed for item in counts),
        "unusable": sum(item.unusable for item in counts),
        "undecided": sum(item.undecided for item in counts),
        "slots": _families("slot", [item.slots for item in counts], resampling),
        "labels": _families("label", [item.labels for item in counts], resampling),
        **{name: figure for name, figure in figures.items() if figure is not None},
    }


def _figure(counts: Sequence[ItemCounts], name: str, resampling: Resampling | None) -> Figure | None:
    terms = [item.figures[name] for item in counts if name in item.figures]
    if not terms:
        return None
    n = sum(counted for _, counted in terms)
    low, high = _interval(terms, resampling, least=-1.0 if name == "preference_fairness" else 0.0)
    return Figure(value=math.fsum(value for value, _ in terms) / n, n=n, low=low, high=high)


def _families(
    kind: Literal["slot", "label"],
    wins: Iterable[dict[tuple[str, ...], PlaceWins]],
    resampling: Resampling | None,
) -> list[Places]:
    """The wins of all items, by their set of places."""
    grouped: dict[tuple[str, ...], list[PlaceWins]] = {}
    for item in wins:
        for names, each in item.items():
            grouped.setdefault(names, []).append(each)
    return [
        _places(kind, names, grouped[names], resampling)
        for names in sorted(grouped, key=lambda names: (len(names), names))
    ]


def _places(
    kind: Literal["slot", "label"], names: tuple[str, ...], items: Sequence[PlaceWins], resampling: Resampling | None
) -> Places:
    wins = [sum(place) for place in zip(*(item.wins for item in items), strict=True)]
    n = sum(wins)
    ends = [_interval([(item.wins[at], sum(item.wins)) for item in items], resampling) for at in range(len(names))]
    leans = [item.wins[0] - item.wins[-1] for item in items]
    first, leaning = sum(lean > 0 for lean in leans), sum(lean != 0 for lean in leans)
    test: Literal["sign", "permutation"] | None = None
    p = None
    if resampling is not None and len(names) == 2:  # noqa: PLR2004 - there is an exact test for two
        test, p = "sign", sign_test(first, leaning - first)
    elif resampling is not None and resampling.resamples:
        test, p = (
            "permutation",
            resampling.permutation_test([(item.wins, kind == "slot" and item.is_mirrored) for item in items]),
        )
    return Places(
        kind=kind,
        places=[
            PlaceRate(place=name, wins=won, rate=won / n, low=low, high=high)
            for name, won, (low, high) in zip(names, wins, ends, strict=True)
        ],
        n=n,
        items=len(items),
        leaning=leaning,
        first=first,
        arrangements=len(set[object]().union(*(item.arrangements for item in items))),
        apart=kind == "slot" or len(set[object]().union(*(item.label_orders for item in items))) > 1,
        p=p,
        test=test,
    )


def _interval(
    terms: Sequence[tuple[float, int]], resampling: Resampling | None, *, least: float = 0.0
) -> tuple[float | None, float | None]:
    """The 95% interval of a ratio of two sums over items; none without resamples."""
    return resampling.interval(terms, least=least) if resampling and resampling.resamples else (None, None)


def _rho(
    items: Sequence[Sequence[JudgeBallot]], truth: Sequence[str | None] | None, names: Sequence[str]
) -> tuple[Figure | None, Literal["errors", "scores"] | None]:
    """The mean correlation of two of `names`, and the quantity that is correlated."""
    shares = [_shares(ballots) for ballots in items]
    known = truth or [None] * len(items)
    of: Literal["errors", "scores"] = "errors" if any(right is not None for right in known) else "scores"
    correlations, counted = [], set[int]()
    for one, other in combinations(names, 2):
        both = [at for at, share in enumerate(shares) if one in share and other in share]
        if of == "errors":
            both = [at for at in both if known[at] in shares[at][one] and known[at] in shares[at][other]]
        if len(both) < _ENOUGH:
            continue
        if of == "errors":
            pairs = sorted((1 - shares[at][one][known[at]], 1 - shares[at][other][known[at]]) for at in both)  # type: ignore[index] # it is in there
        else:
            pairs = sorted(pair for at in both for pair in _from_even(shares[at][one], shares[at][other]))
        value = _correlation(pairs, centred=of == "scores")
        if value is not None:
            correlations.append(value)
            counted.update(both)
    return (
        (Figure(value=math.fsum(sorted(correlations)) / len(correlations), n=len(counted)), of)
        if correlations
        else (None, None)
    )


def _shares(ballots: Iterable[JudgeBallot]) -> dict[str, dict[str, float]]:
    """The mean share of each side, by model."""
    own: dict[str, list[dict[str, float]]] = {}
    for ballot in ballots:
        if ballot.problem is None and is_usable(ballot):
            own.setdefault(ballot.model or "", []).append(ballot.shares)
    return {
        model: {
            side: math.fsum(share.get(side, 0.0) for share in given) / len(given)
            for side in sorted({side for share in given for side in share})
        }
        for model, given in own.items()
    }


def _from_even(one: dict[str, float], other: dict[str, float]) -> Iterable[tuple[float, float]]:
    """Each side's shares less 1 / the number of sides; the names of sides do not matter."""
    sides = sorted(one.keys() | other.keys())
    return [(one.get(side, 0.0) - 1 / len(sides), other.get(side, 0.0) - 1 / len(sides)) for side in sides]


def _correlation(pairs: Sequence[tuple[float, float]], *, centred: bool) -> float | None:
    """Pearson's correlation, about 0 where pairs are `centred`; None where one of the two is constant."""
    if not centred:
        try:
            return correlation(*zip(*pairs, strict=True))
        except StatisticsError:
            return None
    squares = math.fsum(x * x for x, _ in pairs), math.fsum(y * y for _, y in pairs)
    return math.fsum(x * y for x, y in pairs) / math.sqrt(squares[0] * squares[1]) if all(squares) else None
