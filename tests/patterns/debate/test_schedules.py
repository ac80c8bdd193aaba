"""Schedules of views in which every side occupies every slot."""

from __future__ import annotations

from collections import Counter
from itertools import permutations
from random import Random
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import DebateContributionEntry
from flowdebate.errors import ConfigurationError
from flowdebate.patterns.debate.judging.views import JudgeView, Schedule, as_schedule, in_view, render_view, sampled
from flowdebate.patterns.debate.transcript import parse_entries

sides = st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=6, unique=True)
few = st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=4, unique=True)
seeds = st.integers(0, 2**32)
schedules = st.one_of(
    st.sampled_from([Schedule(kind=kind) for kind in ("single", "swap", "cyclic", "full")]),
    st.integers(1, 9).map(sampled),
)
LABELS = tuple("ABCDEF")


@given(schedule=schedules, names=few, seed=seeds, shuffle=st.booleans(), labeled=st.booleans())
def test_every_view_contains_each_side_once(
    schedule: Schedule, names: list[str], seed: int, *, shuffle: bool, labeled: bool
) -> None:
    labels = LABELS[: len(names)] if labeled else None
    views = schedule.views(names, random=Random(seed), shuffle=shuffle, labels=labels)
    assert len(views) == schedule.calls(len(names))
    for view in views:
        assert Counter(view.order) == Counter(names)
        assert (view.labels is None) == (labels is None)
        assert {view.named(side) for side in names} == set(labels or names)
    assert views == schedule.views(names, random=Random(seed), shuffle=shuffle, labels=labels)


@given(names=sides, seed=seeds, shuffle=st.booleans())
def test_cyclic_views_put_each_side_in_each_slot_once(names: list[str], seed: int, *, shuffle: bool) -> None:
    labels = LABELS[: len(names)]
    views = Schedule(kind="cyclic").views(names, random=Random(seed), shuffle=shuffle, labels=labels)
    for slot in range(len(names)):
        assert Counter(view.order[slot] for view in views) == Counter(names)
    for side in names:
        assert Counter(view.named(side) for view in views) == Counter(labels)


@given(sides, seeds)
def test_swap_schedule_is_an_order_and_its_reverse(names: list[str], seed: int) -> None:
    """Two sides have no other orders, and a single side has only one."""
    views = Schedule(kind="swap").views(names, random=Random(seed))
    assert len(views) == min(2, len(names))
    if len(names) > 1:
        assert views[1].order == views[0].order[::-1]


@given(st.integers(1, 4), seeds)
def test_full_schedule_contains_every_order(count: int, seed: int) -> None:
    names = [str(number) for number in range(count)]
    views = Schedule(kind="full").views(names, random=Random(seed))
    assert sorted(view.order for view in views) == sorted(permutations(names))


@given(st.integers(0, 40))
def test_sampled_orders_are_drawn_evenly(seed: int) -> None:
    """In 600 draws, each of the six orders of three sides should occur about 100 times."""
    frequencies = Counter(view.order for view in sampled(600).views(["a", "b", "c"], random=Random(seed)))
    assert len(frequencies) == 6
    assert all(55 <= count <= 150 for count in frequencies.values())


@given(sides, seeds)
def test_first_view_keeps_the_order_unless_it_is_shuffled(names: list[str], seed: int) -> None:
    """Without shuffling, the random source is not used at all."""
    for kind in ("single", "swap", "cyclic"):
        source = Random(seed)
        first, *_ = Schedule(kind=kind).views(names, random=source, shuffle=False)
        assert first.order == tuple(names)
        assert source.getstate() == Random(seed).getstate()


def test_default_random_source_is_deterministic() -> None:
    """Each call creates a new `Random(0)`."""
    plan = sampled(4)
    assert plan.views("abcd") == plan.views("abcd") == plan.views("abcd", random=Random(0))


@given(schedules)
def test_schedules_are_parsed_from_their_name(schedule: Schedule) -> None:
    assert as_schedule(str(schedule), location="x") == schedule
    assert as_schedule(schedule, location="x") is schedule


@pytest.mark.parametrize(
    "value", ["", "sampled", "sampled()", "sampled(-1)", "sampled(0)", "sampled(1) ", "Swap", None, 2, "sampled(٣)"]
)
def test_invalid_schedules_are_rejected(value: Any) -> None:
    with pytest.raises(ConfigurationError):
        as_schedule(value, location="debate")


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Schedule(kind=cast("Any", "swop")), "kind"),
        (lambda: Schedule(kind="swap", size=2), "size"),
        (lambda: Schedule(kind="sampled"), "size"),
        (lambda: Schedule(kind="sampled", size=True), "size"),
        (lambda: Schedule(kind="full").views("abcde"), "sides"),
        (lambda: Schedule().views([]), "sides"),
        (lambda: Schedule().views(["a", "a"]), "sides"),
        (lambda: Schedule().views(["a", "b"], labels=["A"]), "labels"),
        (lambda: Schedule().views(["a", "b"], labels=["A", "A"]), "labels"),
    ],
)
def test_invalid_sides_and_labels_are_rejected(make: Any, field: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        make()
    assert caught.value.field == field


def test_schedules_require_the_documented_number_of_calls() -> None:
    """The documentation gives the number of calls for two, three and four sides."""
    plans = [Schedule(kind="single"), Schedule(kind="swap"), Schedule(kind="cyclic"), Schedule(kind="full"), sampled(7)]
    assert [[plan.calls(count) for count in (2, 3, 4)] for plan in plans] == [
        [1, 1, 1],
        [2, 2, 2],
        [2, 3, 4],
        [2, 6, 24],
        [7, 7, 7],
    ]


entries = st.lists(
    st.builds(
        lambda number, stance, text: DebateContributionEntry(round=number, agent_name="x", stance=stance, text=text),
        st.integers(1, 3),
        st.sampled_from(["for", "against", "neither"]),
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12),
    ),
    max_size=8,
)


@given(entries_=entries, seed=seeds, schedule=schedules, labeled=st.booleans())
def test_no_entry_is_lost_in_any_view(
    entries_: list[DebateContributionEntry], seed: int, schedule: Schedule, *, labeled: bool
) -> None:
    stances = ["for", "against", "neither"]
    for view in schedule.views(stances, random=Random(seed), labels="ABC" if labeled else None):
        places = in_view(entries_, view)
        assert sorted(places) == list(range(len(entries_)))
        keys = [(entries_[place].round, view.order.index(entries_[place].stance)) for place in places]
        assert keys == sorted(keys)
        parsed = parse_entries(render_view(entries_, view))
        sides_by_label = {view.named(side): side for side in stances}
        assert [(entry.round, sides_by_label[entry.stance], entry.text) for entry in parsed] == [
            (entries_[place].round, entries_[place].stance, entries_[place].text) for place in places
        ]


def test_entries_from_an_unknown_side_are_rejected() -> None:
    """A view cannot display an entry from a side that it does not know."""
    entries_ = [DebateContributionEntry(round=1, agent_name="x", stance="perhaps", text="Hm.")]
    with pytest.raises(ConfigurationError, match="perhaps"):
        in_view(entries_, JudgeView(order=("for", "against")))
