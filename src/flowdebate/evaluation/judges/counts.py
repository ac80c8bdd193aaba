"""Counts of the ballots of one item: wins of slots and labels, and agreement between judge views."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, TypeAlias

from flowdebate.measures.votes import leaders
from flowdebate.patterns.debate.judging.ballots import leader_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from flowdebate.patterns.debate.judging.ballots import JudgeBallot


# Figures that are a sum over items, divided by another one.
FIGURES = (
    "repetition_stability",
    "position_consistency",
    "preference_fairness",
    "flip_probability",
    "saturation",
    "slot_log_odds",
)
SATURATED = 0.99  # the share from which on a ballot gives a side everything
_JudgeView: TypeAlias = tuple[tuple[str, ...], tuple[tuple[str, str], ...]]


@dataclass(slots=True)
class PlaceWins:
    """Wins of each place in one item."""

    wins: list[int]
    arrangements: set[tuple[str, ...]] = field(default_factory=set)
    """The arrangements that were shown: orders of sides, or the sides that had the labels."""
    label_orders: set[tuple[str, ...]] = field(default_factory=set)
    """The orders of labels that were shown."""

    @property
    def is_mirrored(self) -> bool:
        """Whether the item was judged in one order and its reverse: then only a reversal is fair."""
        orders = list(self.arrangements)
        return len(orders) == 2 and orders[0] == orders[1][::-1]  # noqa: PLR2004 - an order and another


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
    turns: dict[tuple[str, ...], PlaceWins] = field(default_factory=dict)
    """By the places in the speaking order."""
    figures: dict[str, tuple[float, int]] = field(default_factory=dict)
    """A sum, and the number of its terms, for each of FIGURES."""


def count(ballots: Iterable[JudgeBallot], spoke: Sequence[str] | None = None) -> ItemCounts:
    """Count the `ballots` of one item, whose sides `spoke` in this order; the order of ballots changes nothing."""
    counts = ItemCounts()
    alike: dict[tuple[str | None, frozenset[str], tuple[str, ...]], dict[_JudgeView, list[str | None]]] = {}
    by_letter: dict[tuple[str | None, frozenset[str], tuple[str, ...]], list[JudgeBallot]] = {}
    terms: dict[str, list[float]] = {}
    for ballot in ballots:
        counts.ballots += 1
        if ballot.problem is not None:
            counts.unparsed += 1
        elif not is_usable(ballot):
            counts.unusable += 1
        else:
            choice = leader_of(ballot.scores) if ballot.scores else ballot.winner
            _count_place(counts, ballot, choice, ballot.spoken or spoke)
            labels = tuple(sorted(ballot.labels.items())) if ballot.labels else ()
            about = ballot.model, frozenset(ballot.order), tuple(ballot.spoken or ())
            if ballot.log_odds is not None and about[1] == ballot.log_odds.keys():
                by_letter.setdefault(about, []).append(ballot)
            elif ballot.scores:
                terms.setdefault("saturation", []).append(float(max(ballot.scores.values()) >= SATURATED))
            views = alike.setdefault(about, {})
            views.setdefault((tuple(ballot.order), labels), []).append(choice)
    for letters in by_letter.values():
        # how far the first slot is ahead of the last one; in unbalanced orders that may be the sides
        if Counter(ballot.order[0] for ballot in letters) == Counter(ballot.order[-1] for ballot in letters):
            odds = [(ballot.log_odds or {}, ballot.order) for ballot in letters]
            terms.setdefault("slot_log_odds", []).extend(each[order[0]] - each[order[-1]] for each, order in odds)
    for views in alike.values():
        if len(views) > 1 or any(len(choices) > 1 for choices in views.values()):
            _compare_views(terms, views)
    counts.figures = {name: (math.fsum(values), len(values)) for name, values in terms.items() if values}
    return counts


def is_usable(ballot: JudgeBallot) -> bool:
    """Whether it has two sides or more, each once, with a different label for each or none, and is for one of them."""
    sides = set(ballot.order)
    if len(sides) < 2 or len(sides) != len(ballot.order):  # noqa: PLR2004 - a choice takes two
        return False
    if ballot.labels is not None and (sides != ballot.labels.keys() or len(set(ballot.labels.values())) != len(sides)):
        return False
    return (ballot.winner is None or ballot.winner in sides) and (
        ballot.scores is None or sides >= ballot.scores.keys()
    )


def _count_place(counts: ItemCounts, ballot: JudgeBallot, choice: str | None, spoke: Sequence[str] | None) -> None:
    if choice is None:
        counts.undecided += 1
        return
    order = tuple(ballot.order)
    slots = tuple(str(number) for number in range(1, len(order) + 1))
    _count_win(counts.slots, slots, order.index(choice), order)
    if spoke is not None and len(spoke) == len(order) and set(spoke) == set(order):
        _count_win(counts.turns, slots, spoke.index(choice), tuple(spoke))
    if ballot.labels is not None:
        sides = {label: side for side, label in ballot.labels.items()}
        labels = tuple(sorted(sides))
        wins = _count_win(
            counts.labels, labels, labels.index(ballot.labels[choice]), tuple(sides[each] for each in labels)
        )
        wins.label_orders.add(tuple(ballot.labels[side] for side in order))


def _count_win(
    places: dict[tuple[str, ...], PlaceWins], names: tuple[str, ...], place: int, arrangement: tuple[str, ...]
) -> PlaceWins:
    wins = places.setdefault(names, PlaceWins([0] * len(names)))
    wins.wins[place] += 1
    wins.arrangements.add(arrangement)
    return wins


def _compare_views(terms: dict[str, list[float]], views: Mapping[_JudgeView, Sequence[str | None]]) -> None:
    """Add the terms of one model's verdicts on one set of sides."""
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
    lead = leaders(Counter(choices))
    return lead[0] if len(lead) == 1 else None
