"""Judge audits: bias and consistency of judges, computed from their stored ballots.

The figures follow Shi et al. 2024 (arXiv 2406.07791): repetition stability, position consistency and preference
fairness, plus the win rates of slots and labels. They need no extra library; `full_audit()` adds p-values and
intervals.

Verdicts on the same item are not independent: a consistent judge who reads an item in both orders gives each slot one
win by design. The audit therefore counts, resamples and permutes items instead of verdicts.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from os import PathLike
from typing import Any, Literal, TypeAlias, TypeVar

from flowdebate._util.validation import check_count
from flowdebate.chassis.anonymity.names import kin_among
from flowdebate.chassis.state import TurnStarted
from flowdebate.errors import ConfigurationError
from flowdebate.evaluation.audit_report import (
    SATURATED,
    Figure,
    JudgeAudit,
    JudgeFigures,
    LastWord,
    PlaceKind,
    PlaceRate,
    Places,
    RunAudit,
)
from flowdebate.evaluation.statistics import ALPHA, Resampling, check_scipy, holm, place_test, sign_flip_test
from flowdebate.measures.votes import leaders
from flowdebate.patterns.debate.events import JudgeViewMade
from flowdebate.patterns.debate.judging.ballots import JudgeBallot, effective_n, leader_of
from flowdebate.patterns.debate.mirror import speaking_order
from flowdebate.runs.events import ModelCalled
from flowdebate.runs.result import RunView

# Figures that are ratios of two sums over items.
FIGURES = (
    "repetition_stability",
    "position_consistency",
    "preference_fairness",
    "flip_probability",
    "saturation",
    "slot_log_odds",
)
MAX_ARRANGEMENTS = 1_000
"""Number of arrangements at which counting stops; the tests only need to know whether there are at least two."""
_LOG_ODDS = "slot_log_odds"
_JudgeView: TypeAlias = tuple[tuple[str, ...], tuple[tuple[str, str], ...]]


@dataclass(slots=True)
class PlaceWins:
    """Number of wins for each place (slot, label or turn) on one item."""

    wins: list[int]
    arrangements: frozenset[tuple[str, ...]] = frozenset()
    """Arrangements shown to the judge: orders of the sides, or assignments of labels to sides."""
    label_orders: frozenset[tuple[str, ...]] = frozenset()
    is_mirrored: bool = False
    """True if the item was judged in one order and its reverse; reversal is then the only valid permutation."""

    def add(self, place: int, arrangement: tuple[str, ...]) -> None:
        """Add a win for a place in the given arrangement."""
        self.wins[place] += 1
        self.arrangements |= {arrangement}
        orders = list(self.arrangements)
        self.is_mirrored = len(orders) == 2 and orders[0] == orders[1][::-1]  # noqa: PLR2004 - an order and another

    @property
    def key(self) -> Hashable:
        """Hashable key for the wins, independent of the sides' names."""
        return tuple(self.wins), self.label_orders, self.is_mirrored


Names: TypeAlias = tuple[str, ...]


@dataclass(slots=True)
class ItemCounts:
    """Counts from one item's ballots; the counts from several items can be added up."""

    ballots: int = 0
    unparsed: int = 0
    unusable: int = 0
    undecided: int = 0
    slots: dict[Names, PlaceWins] = field(default_factory=dict)
    """Wins for each slot; the key is a tuple of all the slots."""
    labels: dict[Names, PlaceWins] = field(default_factory=dict)
    """Wins for each label; the key is a sorted tuple of all the labels."""
    turns: dict[Names, PlaceWins] = field(default_factory=dict)
    """Wins for each turn; the key is a tuple of all the turns, in speaking order."""
    figures: dict[str, tuple[float, int]] = field(default_factory=dict)
    """Sum and number of terms for each figure in FIGURES."""

    @property
    def key(self) -> Hashable:
        """Hashable key for the counts, independent of the sides' names."""
        families = [(kind, names, wins.key) for kind, by_names in self.families for names, wins in by_names.items()]
        totals = (self.ballots, self.unparsed, self.unusable, self.undecided)
        return totals, tuple(families), tuple(self.figures.items())

    @property
    def families(self) -> tuple[tuple[PlaceKind, dict[Names, PlaceWins]], ...]:
        """Each kind of place, paired with the wins for places of that kind."""
        return ("slot", self.slots), ("label", self.labels), ("turn", self.turns)


class CountedItems:
    """Running counts over items, so that their ballots need not all be in memory at once.

    Items that differ only in their log-odds or in the names of their sides, as most do, share one entry.
    """

    def __init__(self, by_item: dict[Hashable, ItemCounts]) -> None:
        self._distinct_counts = by_item
        self._times = Counter[Hashable]()
        self.log_odds: array[float] = array("d")
        """Sum of each item's log-odds."""
        self.numbers: array[int] = array("i")
        """Number of terms in each sum of `log_odds`."""
        self.arrangements: dict[tuple[PlaceKind, Names], set[int]] = {}
        """Hashes of the arrangements shown to judges, limited to about `MAX_ARRANGEMENTS`."""

    def add(self, counts: ItemCounts) -> None:
        """Add the counts of one item."""
        for kind, group in counts.families:
            for names, wins in group.items():
                arrangements = self.arrangements.setdefault((kind, names), set())
                if len(arrangements) < MAX_ARRANGEMENTS:
                    arrangements.update(map(hash, wins.arrangements))
                wins.arrangements = frozenset()
        value, number = counts.figures.pop(_LOG_ODDS, (0.0, 0))
        if number:
            self.log_odds.append(value)
            self.numbers.append(number)
        self._distinct_counts.setdefault(counts.key, counts)
        self._times[counts.key] += 1

    @property
    def counts(self) -> list[tuple[ItemCounts, int]]:
        """Distinct counts of items, not including log-odds, each paired with the number of items that share it."""
        return [(self._distinct_counts[key], times) for key, times in self._times.items()]

    def terms(self, figure: str) -> tuple[Sequence[float], Sequence[int]]:
        """Return one figure's sum and number of terms for each item, as two sequences; omit items without terms."""
        if figure == _LOG_ODDS:
            return self.log_odds, self.numbers
        terms = [(item.figures[figure], times) for item, times in self.counts if figure in item.figures]
        values = _repeated((value, times) for (value, _), times in terms)
        return values, _repeated((number, times) for (_, number), times in terms)


@dataclass(slots=True)
class PairSums:
    """Sums (n, x, y, xx, yy, xy) over two models' data points (x, y), for each item that both models judged."""

    items: array[int] = field(default_factory=lambda: array("q"))
    sums: array[float] = field(default_factory=lambda: array("d"))

    def add(self, item: int, points: Iterable[tuple[float, float]]) -> None:
        """Add the data points from one item."""
        self.items.append(item)
        self.sums.extend(map(math.fsum, zip(*((1.0, x, y, x * x, y * y, x * y) for x, y in points), strict=True)))

    @property
    def total(self) -> _Sums:
        """Sums over all items, regardless of the order in which the items were added."""
        n, x, y, xx, yy, xy = (math.fsum(self.sums[column::_COLUMNS]) for column in range(_COLUMNS))
        return n, x, y, xx, yy, xy


_Sums: TypeAlias = tuple[float, float, float, float, float, float]
_COLUMNS = 6


@dataclass(slots=True)
class CountedJudges:
    """Counts over all judges together, for each judge, and for each pair of judges on a panel."""

    all: CountedItems
    models: dict[str, CountedItems] = field(default_factory=dict)
    """Counts keyed by model; the key "" collects ballots by unknown models."""
    scores: dict[tuple[str, str], PairSums] = field(default_factory=dict)
    """Sums for each pair of models, computed from each side's share of the points minus an even share."""
    errors: dict[tuple[str, str], PairSums] = field(default_factory=dict)
    """Sums for each pair of models, computed from 1 minus the correct side's share, for items whose correct side is
    known.
    """
    is_known: bool = False
    """True if the correct side is known for at least one item."""
    items: int = 0
    distinct_counts: dict[Hashable, ItemCounts] = field(default_factory=dict)

    @classmethod
    def of(cls, items: Iterable[tuple[Sequence[JudgeBallot], Sequence[str] | None, str | None]]) -> CountedJudges:
        """Build the counts from items, each given as its ballots, its sides in speaking order, and its correct side."""
        by_item: dict[Hashable, ItemCounts] = {}
        judges = cls(all=CountedItems(by_item), distinct_counts=by_item)
        for ballots, spoke, right in items:
            judges.add(ballots, spoke, right)
        judges.models = dict(sorted(judges.models.items()))
        return judges

    def add(self, ballots: Sequence[JudgeBallot], spoke: Sequence[str] | None, right: str | None) -> None:
        """Add the ballots of an item."""
        by_model: dict[str, list[JudgeBallot]] = {}
        for ballot in ballots:
            by_model.setdefault(ballot.model or "", []).append(ballot)
        self.items += 1
        self.all.add(count(ballots, spoke))
        for name, counts_of_model in by_model.items():
            self.models.setdefault(name, CountedItems(self.distinct_counts)).add(count(counts_of_model, spoke))
        self.is_known |= right is not None
        shares = _shares(ballots) if len(by_model) > 1 else {}
        for pair in combinations(sorted(shares), 2):
            one, other = (shares[name] for name in pair)
            sides = sorted(one.keys() | other.keys())
            if sides:
                even = 1 / len(sides)
                points = [(one.get(side, 0.0) - even, other.get(side, 0.0) - even) for side in sides]
                self.scores.setdefault(pair, PairSums()).add(self.items, points)
            if right in one and right in other:
                self.errors.setdefault(pair, PairSums()).add(self.items, [(1 - one[right], 1 - other[right])])


def count(ballots: Iterable[JudgeBallot], spoke: Sequence[str] | None = None) -> ItemCounts:
    """Compute the counts for one item's `ballots`, in any order; `spoke` lists the item's sides in speaking order."""
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
            design = ballot.model, frozenset(ballot.order), tuple(ballot.spoken or ())
            if ballot.log_odds is not None and design[1] == ballot.log_odds.keys():
                by_letter.setdefault(design, []).append(ballot)
            elif ballot.scores:
                terms.setdefault("saturation", []).append(float(max(ballot.scores.values()) >= SATURATED))
            views = alike.setdefault(design, {})
            views.setdefault((tuple(ballot.order), labels), []).append(choice)
    for letters in by_letter.values():
        # The first slot's lead over the last one. If the orders are unbalanced, the sides themselves might account for
        # it.
        if Counter(ballot.order[0] for ballot in letters) == Counter(ballot.order[-1] for ballot in letters):
            odds = [(ballot.log_odds or {}, ballot.order) for ballot in letters]
            terms.setdefault("slot_log_odds", []).extend(
                odds_of_order[order[0]] - odds_of_order[order[-1]] for odds_of_order, order in odds
            )
    for views in alike.values():
        if len(views) > 1 or any(len(choices) > 1 for choices in views.values()):
            _compare_views(terms, views)
    counts.figures = {name: (math.fsum(values), len(values)) for name, values in terms.items() if values}
    return counts


def is_usable(ballot: JudgeBallot) -> bool:
    """Return whether a ballot has two or more sides, no duplicates, and a winner (if any) among its sides."""
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
        shown_sides = tuple(sides[letter] for letter in labels)
        wins = _count_win(counts.labels, labels, labels.index(ballot.labels[choice]), shown_sides)
        wins.label_orders |= {tuple(ballot.labels[side] for side in order)}


def _count_win(places: dict[Names, PlaceWins], names: Names, place: int, arrangement: tuple[str, ...]) -> PlaceWins:
    wins = places.setdefault(names, PlaceWins([0] * len(names)))
    wins.add(place, arrangement)
    return wins


def _compare_views(terms: dict[str, list[float]], views: Mapping[_JudgeView, Sequence[str | None]]) -> None:
    """Add the terms for figures that compare one model's verdicts on the same set of sides."""
    for choices in views.values():
        if len(choices) > 1:
            terms.setdefault("repetition_stability", []).append(max(Counter(choices).values()) / len(choices))
    orders: dict[tuple[str, ...], list[str | None]] = {}
    for (order, _), choices in views.items():
        orders.setdefault(order, []).extend(choices)
    if len(orders) == 1:
        return
    leads = [leaders(Counter(choices)) for choices in orders.values()]
    verdicts = [lead[0] if len(lead) == 1 else None for lead in leads]  # a tie is not a verdict
    pairs = [one != other for one, other in combinations(verdicts, 2)]
    lean = 0
    if any(pairs):
        lean = sum((c == order[-1]) - (c == order[0]) for order, choices in orders.items() for c in choices)
    terms.setdefault("position_consistency", []).append(float(not any(pairs)))
    terms.setdefault("preference_fairness", []).append(float((lean > 0) - (lean < 0)))
    terms.setdefault("flip_probability", []).append(sum(pairs) / len(pairs))


# Lower bound of each figure that can be negative; None if there is no bound.
_MINIMA: dict[str, float | None] = {"preference_fairness": -1.0, "slot_log_odds": None}
_ENOUGH = 50  # minimum number of items for a correlation between models
_FLAT = 1e-12  # maximum spread that may be due to rounding
Spoken: TypeAlias = "Sequence[Sequence[str] | None] | None"


def audit(
    items: Sequence[Sequence[JudgeBallot]] | str | PathLike[str],
    *,
    truth: Sequence[str | None] | None = None,
    spoken: Spoken = None,
) -> JudgeAudit:
    """Audit the judges in a ballot file or in `items`, each of which consists of all ballots on one transcript.

    - `truth`: the correct side of each item, or None; only used for the correlation between models.
    - `spoken`: the sides of each item in the last round's speaking order, or None. This order is the same in every
      view; the last speaker was able to respond to everyone else.

    The order of items, and of ballots within an item, does not matter. Contradictory ballots are counted as `unusable`
    and otherwise ignored. Raise ConfigurationError if `truth` or `spoken` differs in length from `items`.

    >>> from flowdebate.patterns.debate.judging.ballots import JudgeBallot
    >>> first = JudgeBallot(order=["yes", "no"], winner="yes")
    >>> second = JudgeBallot(order=["no", "yes"], winner="no")
    >>> audited = audit([[first, second]])
    >>> audited.position_consistency.value, audited.preference_fairness.value, audited.slots[0].favored.rate
    (0.0, -1.0, 1.0)
    """
    if isinstance(items, (str, PathLike)):
        items, truth = _read(items, truth)
    return _audit(items, truth, spoken, None)


def full_audit(
    items: Sequence[Sequence[JudgeBallot]] | str | PathLike[str],
    *,
    truth: Sequence[str | None] | None = None,
    spoken: Spoken = None,
    seed: int = 0,
    resamples: int = 2_000,
) -> JudgeAudit:
    """Run `audit(items, …)` with p-values and 95% intervals, which are reproducible for the same `seed`. Needs scipy.

    Two places are compared by an exact sign-flip test over items, applied to the difference between their wins on each
    item (with one ballot per item, this is the exact binomial test). Three or more places are compared by a permutation
    test that rotates each item's wins by a random number of places, in `resamples` draws. P-values are adjusted by
    Holm's method for the number of tests in the audit. Confidence intervals are Clopper-Pearson intervals if each item
    is a single yes or no; otherwise they are BCa intervals from `resamples` bootstrap samples of items. If `resamples`
    is 0, there are no intervals, and comparisons of three or more places have no p-values.
    """
    check_scipy("full_audit()")
    check_count("full_audit()", minimum=0, seed=seed, resamples=resamples)
    if isinstance(items, (str, PathLike)):
        items, truth = _read(items, truth)
    return _adjust(_audit(items, truth, spoken, Resampling(seed, resamples))).model_copy(update={"seed": seed})


def _read(
    path: str | PathLike[str], truth: Sequence[str | None] | None
) -> tuple[list[list[JudgeBallot]], Sequence[str | None]]:
    """Read ballots from a file, grouped by item, along with each item's truth."""
    from flowdebate.evaluation.ballot_file import read_ballots

    items = read_ballots(path).items
    return [item.ballots for item in items], [item.truth for item in items] if truth is None else truth


def audit_run(run: RunView) -> RunAudit:
    """Audit the judge of `run`, even if the run is not finished."""
    raw: object = run.raw
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
        judge=audit([ballots], spoken=[None if raw is None else spoken_of(raw)]),
        leaks=getattr(raw, "leaks", None),
        same_family=kin_among(
            [model for block, model in called if block in judges],
            [model for block, model in called if block in debaters],
        ),
    )


def spoken_of(raw: object) -> list[str] | None:
    """Return the `speaking_order()` of a raw output's transcript.

    Return None if the turns are simultaneous, because nobody has the last word in that case.
    """
    at_once = getattr(raw, "turn_order", "declared") == "simultaneous"
    return None if at_once else speaking_order(getattr(raw, "transcript", None) or ())


def _audit(
    items: Sequence[Sequence[JudgeBallot]],
    truth: Sequence[str | None] | None,
    spoken: Spoken,
    resampling: Resampling | None,
) -> JudgeAudit:
    for name, values in (("truth", truth), ("spoken", spoken)):
        if values is not None and len(values) != len(items):
            raise ConfigurationError(
                "audit()", name, len(values), f"must have one entry per item, {len(items)} in total"
            )
    nothing = [None] * len(items)
    return _audit_counted(CountedJudges.of(zip(items, spoken or nothing, truth or nothing, strict=True)), resampling)


def audit_counted(judges: CountedJudges, *, seed: int = 0, resamples: int | None = 2_000) -> JudgeAudit:
    """Audit judges from their counts, like `full_audit()` or, if `resamples` is None, like `audit()`."""
    if resamples is None:
        return _audit_counted(judges, None)
    check_scipy("full_audit()")
    return _adjust(_audit_counted(judges, Resampling(seed, resamples))).model_copy(update={"seed": seed})


def _audit_counted(judges: CountedJudges, resampling: Resampling | None) -> JudgeAudit:
    figures = _figures(judges.all, resampling)
    if len(judges.models) < 2:  # noqa: PLR2004 - one judge is no panel
        return JudgeAudit(**figures)
    models = {name: JudgeFigures(**_figures(items, resampling)) for name, items in judges.models.items()}
    return JudgeAudit(**figures, models=models, **_panel(judges, resampling))


def _adjust(audited: JudgeAudit) -> JudgeAudit:
    """Adjust all p-values in an audit for the number of tests."""
    every = [places for figures in (audited, *audited.models.values()) for places in figures.tested]
    adjusted = dict(zip(map(id, every), holm([places.p or 0.0 for places in every]), strict=True))

    def of(figures: JudgeFigures) -> dict[str, Any]:
        kinds = {"slots": figures.slots, "labels": figures.labels, "turns": figures.turns}
        values: dict[str, Any] = {
            kind: [place.model_copy(update={"p_holm": adjusted.get(id(place), place.p)}) for place in places]
            for kind, places in kinds.items()
        }
        if (last := figures.last_word) is not None:
            same = values["turns"][0].p_holm  # with two sides, the two tests are the same
            values["last_word"] = last.model_copy(
                update={"p_holm": adjusted.get(id(last), same if len(values["turns"]) == 1 else last.p)}
            )
        return values

    models = {name: figures.model_copy(update=of(figures)) for name, figures in audited.models.items()}
    return audited.model_copy(update={**of(audited), "models": models, "tests": len(every)})


def _figures(items: CountedItems, resampling: Resampling | None) -> dict[str, Any]:
    counts = items.counts
    figures: dict[str, Figure] = {}
    for name in FIGURES:
        values, numbers = items.terms(name)
        if numbers:
            n, minimum = sum(numbers), _MINIMA.get(name, 0.0)
            alone = minimum is None and len(values) == 1  # no interval: a single item says nothing about others
            low, high = _interval(values, numbers, None if alone else resampling, minimum=minimum)
            figures[name] = Figure(value=math.fsum(values) / n, n=n, low=low, high=high)
    return {
        "items": sum(times for item, times in counts if item.ballots),
        "ballots": sum(times * item.ballots for item, times in counts),
        "unparsed": sum(times * item.unparsed for item, times in counts),
        "unusable": sum(times * item.unusable for item, times in counts),
        "undecided": sum(times * item.undecided for item, times in counts),
        "slots": _families("slot", [(item.slots, times) for item, times in counts], items, resampling),
        "labels": _families("label", [(item.labels, times) for item, times in counts], items, resampling),
        "turns": _families("turn", [(item.turns, times) for item, times in counts], items, resampling),
        "last_word": _last_word(items, resampling),
        **figures,
    }


def _families(
    kind: PlaceKind,
    wins: Iterable[tuple[dict[Names, PlaceWins], int]],
    items: CountedItems,
    resampling: Resampling | None,
) -> list[Places]:
    grouped: dict[Names, list[tuple[PlaceWins, int]]] = {}
    for item, times in wins:
        for names, place_wins in item.items():
            grouped.setdefault(names, []).append((place_wins, times))
    return [
        _places(kind, names, grouped[names], len(items.arrangements[kind, names]), resampling)
        for names in sorted(grouped, key=lambda names: (len(names), names))
    ]


def _last_word(counted: CountedItems, resampling: Resampling | None) -> LastWord | None:
    """Count how often the last speaker won, over items with any number of sides."""
    items = [(turns.wins, times) for item, times in counted.counts for turns in item.turns.values()]
    if not items:
        return None
    orders = set[int]().union(*(orders for (kind, _), orders in counted.arrangements.items() if kind == "turn"))
    won, n = sum(times * wins[-1] for wins, times in items), sum(times * sum(wins) for wins, times in items)
    even = math.fsum(times * sum(wins) / len(wins) for wins, times in items) / n
    p = None if resampling is None else place_test(_repeated(((wins, len(wins) - 1), times) for wins, times in items))
    low, high = _interval(
        _repeated((wins[-1], times) for wins, times in items),
        _repeated((sum(wins), times) for wins, times in items),
        resampling,
    )
    if p is not None and p > ALPHA:  # an interval must include every value that its test does not reject
        low, high = low and min(low, even), high and max(high, even)
    return LastWord(
        wins=won,
        n=n,
        rate=won / n,
        even=even,
        low=low,
        high=high,
        items=sum(times for _, times in items),
        orders=len(orders),
        p=p,
    )


def _places(
    kind: PlaceKind,
    names: Names,
    items: Sequence[tuple[PlaceWins, int]],
    arrangements: int,
    resampling: Resampling | None,
) -> Places:
    wins = [sum(times * item.wins[place] for item, times in items) for place in range(len(names))]
    n = sum(wins)
    numbers = _repeated((sum(item.wins), times) for item, times in items)
    ends = [
        _interval(_repeated((item.wins[place], times) for item, times in items), numbers, resampling)
        for place in range(len(names))
    ]
    leans = _repeated((item.wins[0] - item.wins[-1], times) for item, times in items)
    first, leaning = sum(lean > 0 for lean in leans), sum(lean != 0 for lean in leans)
    test: Literal["sign_flip", "permutation"] | None = None
    p = None
    if resampling is not None and len(names) == 2:  # noqa: PLR2004 - there is an exact test for two
        test, p = "sign_flip", sign_flip_test(leans)
    elif resampling is not None and resampling.resamples:
        test, p = (
            "permutation",
            resampling.permutation_test(
                _repeated(((item.wins, kind == "slot" and item.is_mirrored), times) for item, times in items)
            ),
        )
    if p is not None and p > ALPHA:  # an interval must include every value that its test does not reject
        even = 1 / len(names)
        ends = [(low and min(low, even), high and max(high, even)) for low, high in ends]
    return Places(
        kind=kind,
        places=[
            PlaceRate(place=name, wins=won, rate=won / n, low=low, high=high)
            for name, won, (low, high) in zip(names, wins, ends, strict=True)
        ],
        n=n,
        items=len(numbers),
        leaning=leaning,
        first=first,
        arrangements=arrangements,
        apart=kind != "label" or len(set[object]().union(*(item.label_orders for item, _ in items))) > 1,
        p=p,
        test=test,
    )


_Repeated = TypeVar("_Repeated")


def _repeated(values: Iterable[tuple[_Repeated, int]]) -> list[_Repeated]:
    """Repeat each value the number of times given by its count."""
    return [value for value, times in values for _ in range(times)]


def _interval(
    values: Sequence[float], numbers: Sequence[int], resampling: Resampling | None, *, minimum: float | None = 0.0
) -> tuple[float | None, float | None]:
    """Compute the 95% confidence interval for a ratio of two sums over items.

    Return (None, None) if there is no resampling.
    """
    if resampling is None or not resampling.resamples:
        return None, None
    return resampling.interval(values, numbers, minimum=minimum)


def _panel(judges: CountedJudges, resampling: Resampling | None) -> dict[str, Any]:
    """Compute the mean correlation between the models' errors or scores, and the effective number of models."""
    of: Literal["errors", "scores"] = "errors" if judges.is_known else "scores"
    by_pair, centered, count = (judges.errors if of == "errors" else judges.scores), of == "scores", len(judges.models)
    pairs, correlations = list[PairSums](), list[float]()
    for _, pair in sorted(by_pair.items()):
        if len(pair.items) >= _ENOUGH and (rho := _correlation(pair.total, centered=centered)) is not None:
            pairs.append(pair)
            correlations.append(rho)
    if not pairs:
        return {}
    n = len(set[int]().union(*(pair.items for pair in pairs)))
    value = math.fsum(sorted(correlations)) / len(correlations)
    low = high = None
    if resampling is not None and resampling.resamples:
        low, high = _correlation_interval(pairs, resampling, centered=centered)
        low, high = min(low, value), max(high, value)
    # A higher correlation means fewer effective models, so the upper end of one interval is the lower end of the other.
    worth = [None if rho is None else effective_n(count, min(max(rho, 0.0), 1.0)) for rho in (value, high, low)]
    return {
        "rho": Figure(value=value, n=n, low=low, high=high),
        "rho_of": of,
        "effective_n": worth[0],
        "effective_n_low": worth[1],
        "effective_n_high": worth[2],
    }


def _correlation_interval(pairs: Sequence[PairSums], resampling: Resampling, *, centered: bool) -> tuple[float, float]:
    """Compute the 95% confidence interval for the mean correlation, using the percentile bootstrap over items."""
    import numpy as np

    # Resample items rather than verdicts, because verdicts on the same item are not independent.
    at = np.unique(np.concatenate([np.asarray(pair.items) for pair in pairs]))
    rows = np.zeros((len(at), len(pairs), _COLUMNS))
    for place, pair in enumerate(pairs):
        rows[np.searchsorted(at, pair.items), place] = np.asarray(pair.sums).reshape(-1, _COLUMNS)
    table = rows.reshape(len(at), -1)
    table = table[np.lexsort(table.T[::-1])]
    n, x, y, xx, yy, xy = np.moveaxis(resampling.sums(table).reshape(-1, len(pairs), _COLUMNS), -1, 0)
    with np.errstate(all="ignore"):
        means = (0.0, 0.0) if centered else (x / n, y / n)
        spread = np.sqrt(np.maximum(xx / n - means[0] ** 2, 0) * np.maximum(yy / n - means[1] ** 2, 0))
        correlation = np.where(spread > _FLAT, (xy / n - means[0] * means[1]) / spread, np.nan)
        drawn = np.nansum(correlation, axis=1) / (~np.isnan(correlation)).sum(axis=1)
    low, high = np.quantile(drawn[~np.isnan(drawn)], [0.025, 0.975])
    return float(low), float(high)


def _shares(ballots: Iterable[JudgeBallot]) -> dict[str, dict[str, float]]:
    shares_by_model: dict[str, list[dict[str, float]]] = {}
    for ballot in ballots:
        if ballot.problem is None and is_usable(ballot):
            shares_by_model.setdefault(ballot.model or "", []).append(ballot.shares)
    return {
        model: {
            side: math.fsum(share.get(side, 0.0) for share in model_shares) / len(model_shares)
            for side in sorted({side for share in model_shares for side in share})
        }
        for model, model_shares in shares_by_model.items()
    }


def _correlation(sums: _Sums, *, centered: bool) -> float | None:
    """Return Pearson's correlation, or None if a variable is constant; if `centered`, both means are known to be 0."""
    n, x, y, xx, yy, xy = sums
    mean_x, mean_y = (0.0, 0.0) if centered else (x / n, y / n)
    spread = math.sqrt(max(xx / n - mean_x**2, 0.0) * max(yy / n - mean_y**2, 0.0))
    return (xy / n - mean_x * mean_y) / spread if spread > _FLAT else None
