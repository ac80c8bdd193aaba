"""What the ballots of one item say: counts that can be added up over items."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from flowdebate.patterns.debate.judging.schemas import JudgeBallot

__all__ = (
    "FIGURES",
    "ItemCounts",
    "PlaceWins",
    "choice_of",
    "count",
    "is_sensible",
)

FIGURES = ("repetition_stability", "position_consistency", "preference_fairness", "flip_probability")
"""What is a sum over items by another one."""
_View: TypeAlias = tuple[tuple[str, ...], tuple[tuple[str, str], ...]]


@dataclass(slots=True)
class PlaceWins:
    """How often each place has won in one item."""

    wins: list[int]
    ways: set[tuple[str, ...]] = field(default_factory=set)
    """The arrangements that were shown: orders of sides, or the sides that had the labels."""
    rows: set[tuple[str, ...]] = field(default_factory=set)
    """Of labels: in which order they stood."""


@dataclass(slots=True)
class ItemCounts:
    """What the ballots of one item come to."""

    ballots: int = 0
    unparsed: int = 0
    unusable: int = 0
    undecided: int = 0
    slots: dict[tuple[str, ...], PlaceWins] = field(default_factory=dict)
    """By the names of the slots."""
    labels: dict[tuple[str, ...], PlaceWins] = field(default_factory=dict)
    """By the labels, sorted."""
    figures: dict[str, tuple[float, int]] = field(default_factory=dict)
    """For each of FIGURES a sum, and the number of things that it was summed over."""


def count(ballots: Iterable[JudgeBallot]) -> ItemCounts:
    """The counts of `ballots`, which are all of one item; the same in whatever order they are."""
    found = ItemCounts()
    alike: dict[tuple[str | None, frozenset[str]], dict[_View, list[str | None]]] = {}
    for ballot in ballots:
        found.ballots += 1
        if ballot.problem is not None:
            found.unparsed += 1
        elif not is_sensible(ballot):
            found.unusable += 1
        else:
            choice = choice_of(ballot)
            _place(found, ballot, choice)
            labels = tuple(sorted(ballot.labels.items())) if ballot.labels else ()
            views = alike.setdefault((ballot.model, frozenset(ballot.order)), {})
            views.setdefault((tuple(ballot.order), labels), []).append(choice)
    terms: dict[str, list[float]] = {}
    for views in alike.values():
        if len(views) > 1 or any(len(choices) > 1 for choices in views.values()):
            _compare(terms, views)
    found.figures = {name: (math.fsum(values), len(values)) for name, values in terms.items()}
    return found


def is_sensible(ballot: JudgeBallot) -> bool:
    """Whether it is of two sides or more, each with a label of its own (or none with any), and for none but them."""
    sides = set(ballot.order)
    if len(sides) < 2 or len(sides) != len(ballot.order):  # noqa: PLR2004 - there is nothing to choose from one
        return False
    if ballot.labels is not None and (sides != ballot.labels.keys() or len(set(ballot.labels.values())) != len(sides)):
        return False
    return (ballot.winner is None or ballot.winner in sides) and (
        ballot.scores is None or sides >= ballot.scores.keys()
    )


def choice_of(ballot: JudgeBallot) -> str | None:
    """The side that it has first, by its scores where it has any; None for none, and where several have most."""
    if not ballot.scores:
        return ballot.winner
    most = max(ballot.scores.values())
    first = [side for side, share in ballot.scores.items() if share == most]
    return first[0] if len(first) == 1 else None


def _place(found: ItemCounts, ballot: JudgeBallot, choice: str | None) -> None:
    if choice is None:
        found.undecided += 1
        return
    order = ballot.order
    names = _NUMBERS[: len(order)] if len(order) <= len(_NUMBERS) else tuple(map(str, range(1, len(order) + 1)))
    _add(found.slots, names, order.index(choice), tuple(order))
    if ballot.labels is not None:
        labels = tuple(sorted(ballot.labels.values()))
        called = {label: side for side, label in ballot.labels.items()}
        wins = _add(found.labels, labels, labels.index(ballot.labels[choice]), tuple(called[label] for label in labels))
        wins.rows.add(tuple(ballot.labels[side] for side in order))


_NUMBERS = ("1", "2", "3", "4", "5", "6", "7", "8")


def _add(
    places: dict[tuple[str, ...], PlaceWins], names: tuple[str, ...], place: int, way: tuple[str, ...]
) -> PlaceWins:
    found = places.get(names)
    if found is None:
        found = places[names] = PlaceWins([0] * len(names))
    found.wins[place] += 1
    found.ways.add(way)
    return found


def _compare(terms: dict[str, list[float]], views: Mapping[_View, Sequence[str | None]]) -> None:
    """Add what one model's verdicts on the same sides say of each other."""
    for choices in views.values():
        if len(choices) > 1:
            terms.setdefault("repetition_stability", []).append(max(Counter(choices).values()) / len(choices))
    orders: dict[tuple[str, ...], list[str | None]] = {}
    for (order, _), choices in views.items():
        orders.setdefault(order, []).extend(choices)
    if len(orders) == 1:
        return
    found = [_most(choices) for choices in orders.values()]
    pairs = [one != other for one, other in combinations(found, 2)]
    lean = 0
    if any(pairs):
        lean = sum((c == order[-1]) - (c == order[0]) for order, choices in orders.items() for c in choices)
    terms.setdefault("position_consistency", []).append(float(not any(pairs)))
    terms.setdefault("preference_fairness", []).append(float((lean > 0) - (lean < 0)))
    terms.setdefault("flip_probability", []).append(sum(pairs) / len(pairs))


def _most(choices: Sequence[str | None]) -> str | None:
    """What most of them are; None where that is not one."""
    if len(choices) == 1:
        return choices[0]
    (first, most), *others = Counter(choices).most_common(2)
    return None if others and others[0][1] == most else first
