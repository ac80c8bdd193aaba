"""Judge audits: bias and consistency of judges, counted from their stored ballots.

The figures are those of Shi et al. 2024 (arXiv 2406.07791), repetition stability, position consistency and preference
fairness, and the win rates of slots and labels. They need no library; `full_audit()` adds p-values and intervals.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from itertools import combinations
from statistics import StatisticsError, correlation
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from flowdebate.errors import ConfigurationError
from flowdebate.evaluation.judges.schemas import Figure, JudgeAudit, JudgeFigures, PlaceRate, Places
from flowdebate.patterns.debate.judging.ballots import effective_n

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from flowdebate.patterns.debate.judging.schemas import JudgeBallot

__all__ = (
    "FIGURES",
    "ItemCounts",
    "PlaceWins",
    "audit",
    "count",
    "families",
    "models_of",
)

_ENOUGH = 10
"""The number of items from which on models are correlated."""
FIGURES = ("repetition_stability", "position_consistency", "preference_fairness", "flip_probability")
"""Figures that are a sum over items, divided by another one."""
_JudgeView: TypeAlias = tuple[tuple[str, ...], tuple[tuple[str, str], ...]]
_NUMBERS = ("1", "2", "3", "4", "5", "6", "7", "8")


def audit(items: Sequence[Sequence[JudgeBallot]], *, truth: Sequence[str | None] | None = None) -> JudgeAudit:
    """Audit the judges of `items`; an item is one transcript with all its ballots.

    `truth` has the right side of each item, or None; only the correlation of several models uses it. The order of
    items, and of ballots in an item, changes nothing. Contradictory ballots are counted as `unusable`, and left out.
    ConfigurationError for a `truth` of another length.

    >>> from flowdebate.patterns.debate.judging.schemas import JudgeBallot
    >>> first = JudgeBallot(order=["yes", "no"], winner="yes")
    >>> second = JudgeBallot(order=["no", "yes"], winner="no")
    >>> audited = audit([[first, second]])
    >>> audited.position_consistency.value, audited.preference_fairness.value, audited.slots[0].favoured.rate
    (0.0, -1.0, 1.0)
    """
    if truth is not None and len(truth) != len(items):
        raise ConfigurationError("audit()", "truth", truth, f"{len(items)} of them, one for each item")
    figures = _figures([count(ballots) for ballots in items])
    names = {ballot.model for ballots in items for ballot in ballots}
    if len(names) < 2:  # noqa: PLR2004 - one judge is no panel
        return JudgeAudit(**figures)
    by_model = models_of(items)
    rho, rho_of = _rho(items, truth, sorted(by_model))
    return JudgeAudit(
        **figures,
        models={name: JudgeFigures(**_figures([count(each) for each in own])) for name, own in by_model.items()},
        rho=rho,
        rho_of=rho_of,
        effective_n=None if rho is None else effective_n(len(by_model), min(max(rho.value, 0.0), 1.0)),
    )


def models_of(items: Iterable[Sequence[JudgeBallot]]) -> dict[str, list[list[JudgeBallot]]]:
    """The items of each model with only its own ballots; "" is the unknown model."""
    grouped: dict[str, list[list[JudgeBallot]]] = {}
    for ballots in items:
        own: dict[str, list[JudgeBallot]] = {}
        for ballot in ballots:
            own.setdefault(ballot.model or "", []).append(ballot)
        for name, each in own.items():
            grouped.setdefault(name, []).append(each)
    return dict(sorted(grouped.items()))


def families(counts: Iterable[ItemCounts], kind: Literal["slots", "labels"]) -> dict[tuple[str, ...], list[PlaceWins]]:
    """The wins in each item, grouped by the set of places it has."""
    grouped: dict[tuple[str, ...], list[PlaceWins]] = {}
    for item in counts:
        for names, wins in (item.slots if kind == "slots" else item.labels).items():
            grouped.setdefault(names, []).append(wins)
    return {names: grouped[names] for names in sorted(grouped, key=lambda names: (len(names), names))}


def _figures(counts: Sequence[ItemCounts]) -> dict[str, Any]:
    """The fields of a `JudgeFigures`."""
    return {
        "items": sum(item.ballots > 0 for item in counts),
        "ballots": sum(item.ballots for item in counts),
        "unparsed": sum(item.unparsed for item in counts),
        "unusable": sum(item.unusable for item in counts),
        "undecided": sum(item.undecided for item in counts),
        "slots": [_places("slot", names, wins) for names, wins in families(counts, "slots").items()],
        "labels": [_places("label", names, wins) for names, wins in families(counts, "labels").items()],
        **{name: figure for name in FIGURES if (figure := _figure(counts, name)) is not None},
    }


def _figure(counts: Sequence[ItemCounts], name: str) -> Figure | None:
    terms = [item.figures[name] for item in counts if name in item.figures]
    if not terms:
        return None
    n = sum(counted for _, counted in terms)
    return Figure(value=math.fsum(value for value, _ in terms) / n, n=n)


def _places(kind: Literal["slot", "label"], names: tuple[str, ...], items: Sequence[PlaceWins]) -> Places:
    wins = [sum(place) for place in zip(*(item.wins for item in items), strict=True)]
    n = sum(wins)
    leans = [item.wins[0] - item.wins[-1] for item in items]
    return Places(
        kind=kind,
        places=[PlaceRate(place=name, wins=won, rate=won / n) for name, won in zip(names, wins, strict=True)],
        n=n,
        items=len(items),
        leaning=sum(lean != 0 for lean in leans),
        first=sum(lean > 0 for lean in leans),
        arrangements=len(set[object]().union(*(item.arrangements for item in items))),
        apart=kind == "slot" or len(set[object]().union(*(item.label_orders for item in items))) > 1,
    )


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
        if ballot.problem is None and _is_usable(ballot):
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


@dataclass(slots=True)
class PlaceWins:
    """Wins of each place in one item."""

    wins: list[int]
    arrangements: set[tuple[str, ...]] = field(default_factory=set)
    """The arrangements that were shown: orders of sides, or the sides that had the labels."""
    label_orders: set[tuple[str, ...]] = field(default_factory=set)
    """Of labels: the orders in which they stood."""


@dataclass(slots=True)
class ItemCounts:
    """Counts of one item's ballots; they can be added up over items."""

    ballots: int = 0
    unparsed: int = 0
    unusable: int = 0
    undecided: int = 0
    slots: dict[tuple[str, ...], PlaceWins] = field(default_factory=dict)
    """By the names of the slots."""
    labels: dict[tuple[str, ...], PlaceWins] = field(default_factory=dict)
    """By the labels, sorted."""
    figures: dict[str, tuple[float, int]] = field(default_factory=dict)
    """For each of FIGURES a sum, and the number of terms in it."""


def count(ballots: Iterable[JudgeBallot]) -> ItemCounts:
    """Count the `ballots` of one item; their order changes nothing."""
    counts = ItemCounts()
    alike: dict[tuple[str | None, frozenset[str]], dict[_JudgeView, list[str | None]]] = {}
    for ballot in ballots:
        counts.ballots += 1
        if ballot.problem is not None:
            counts.unparsed += 1
        elif not _is_usable(ballot):
            counts.unusable += 1
        else:
            choice = _choice(ballot)
            _place(counts, ballot, choice)
            labels = tuple(sorted(ballot.labels.items())) if ballot.labels else ()
            views = alike.setdefault((ballot.model, frozenset(ballot.order)), {})
            views.setdefault((tuple(ballot.order), labels), []).append(choice)
    terms: dict[str, list[float]] = {}
    for views in alike.values():
        if len(views) > 1 or any(len(choices) > 1 for choices in views.values()):
            _compare(terms, views)
    counts.figures = {name: (math.fsum(values), len(values)) for name, values in terms.items()}
    return counts


def _is_usable(ballot: JudgeBallot) -> bool:
    """Whether it is about two different sides or more, all with different labels or none with any, and for no other."""
    sides = set(ballot.order)
    if len(sides) < 2 or len(sides) != len(ballot.order):  # noqa: PLR2004 - there is nothing to choose from one
        return False
    if ballot.labels is not None and (sides != ballot.labels.keys() or len(set(ballot.labels.values())) != len(sides)):
        return False
    return (ballot.winner is None or ballot.winner in sides) and (
        ballot.scores is None or sides >= ballot.scores.keys()
    )


def _choice(ballot: JudgeBallot) -> str | None:
    """The side with the highest score, or else the winner; None for neither, and for a tie."""
    if not ballot.scores:
        return ballot.winner
    most = max(ballot.scores.values())
    first = [side for side, share in ballot.scores.items() if share == most]
    return first[0] if len(first) == 1 else None


def _place(counts: ItemCounts, ballot: JudgeBallot, choice: str | None) -> None:
    if choice is None:
        counts.undecided += 1
        return
    order = ballot.order
    names = _NUMBERS[: len(order)] if len(order) <= len(_NUMBERS) else tuple(map(str, range(1, len(order) + 1)))
    _add(counts.slots, names, order.index(choice), tuple(order))
    if ballot.labels is not None:
        labels = tuple(sorted(ballot.labels.values()))
        called = {label: side for side, label in ballot.labels.items()}
        wins = _add(
            counts.labels, labels, labels.index(ballot.labels[choice]), tuple(called[label] for label in labels)
        )
        wins.label_orders.add(tuple(ballot.labels[side] for side in order))


def _add(
    places: dict[tuple[str, ...], PlaceWins], names: tuple[str, ...], place: int, arrangement: tuple[str, ...]
) -> PlaceWins:
    wins = places.get(names)
    if wins is None:
        wins = places[names] = PlaceWins([0] * len(names))
    wins.wins[place] += 1
    wins.arrangements.add(arrangement)
    return wins


def _compare(terms: dict[str, list[float]], views: Mapping[_JudgeView, Sequence[str | None]]) -> None:
    """Add the terms of one model's verdicts on the same sides."""
    for choices in views.values():
        if len(choices) > 1:
            terms.setdefault("repetition_stability", []).append(max(Counter(choices).values()) / len(choices))
    orders: dict[tuple[str, ...], list[str | None]] = {}
    for (order, _), choices in views.items():
        orders.setdefault(order, []).extend(choices)
    if len(orders) == 1:
        return
    verdicts = [_most(choices) for choices in orders.values()]
    pairs = [one != other for one, other in combinations(verdicts, 2)]
    lean = 0
    if any(pairs):
        lean = sum((c == order[-1]) - (c == order[0]) for order, choices in orders.items() for c in choices)
    terms.setdefault("position_consistency", []).append(float(not any(pairs)))
    terms.setdefault("preference_fairness", []).append(float((lean > 0) - (lean < 0)))
    terms.setdefault("flip_probability", []).append(sum(pairs) / len(pairs))


def _most(choices: Sequence[str | None]) -> str | None:
    """The most frequent choice; None for a tie."""
    if len(choices) == 1:
        return choices[0]
    (first, most), *others = Counter(choices).most_common(2)
    return None if others and others[0][1] == most else first
