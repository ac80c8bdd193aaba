from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from flowdebate import DebateContributionEntry, format_transcript_for_judge
from flowdebate.patterns.debate.judging.views import order_for_judge
from flowdebate.patterns.debate.transcript import parse_entries, render_entries
from tests.prompts.nasty import entries, entry

if TYPE_CHECKING:
    from collections.abc import Sequence

Entries = list[DebateContributionEntry]


@given(entries, st.integers())
def test_the_order_is_a_permutation_within_each_round(made: Entries, seed: int) -> None:
    """Nothing is lost or repeated, and each round keeps its entries."""
    order = order_for_judge(made, random=Random(seed))
    assert sorted(order) == list(range(len(made)))
    assert [made[index].round for index in order] == sorted(one.round for one in made)


@given(entries, st.booleans())
def test_without_shuffling_the_order_is_by_round_and_else_as_it_was_said(made: Entries, anonymize: bool) -> None:  # noqa: FBT001
    """Rounds ascend, and the sort is stable."""
    shown = format_transcript_for_judge(made, anonymize=anonymize, shuffle=False)
    assert shown == render_entries(sorted(made, key=lambda one: one.round), names=not anonymize)


@given(entries, st.booleans(), st.integers())
def test_a_judge_is_shown_each_entry_once(made: Entries, anonymize: bool, seed: int) -> None:  # noqa: FBT001
    """Read back, the shuffled view has the entries that there are; without names, the names are blank."""
    shown = format_transcript_for_judge(made, anonymize=anonymize, random=Random(seed))
    read = parse_entries(shown, names=not anonymize)
    assert _counted(read) == _counted([entry(e.round, "", e.stance, e.text) for e in made] if anonymize else made)


@given(entries, st.integers())
def test_the_same_seed_shows_the_same_text(made: Entries, seed: int) -> None:
    """The shuffle is drawn from the random source that is given, and from nothing else."""
    first = format_transcript_for_judge(made, random=Random(seed))
    assert format_transcript_for_judge(made, random=Random(seed)) == first
    assert format_transcript_for_judge(made) == format_transcript_for_judge(made, random=Random(0))


@given(entries)
def test_the_transcript_itself_is_left_as_it_is(made: Entries) -> None:
    """Shuffling is for the view alone."""
    before = list(made)
    format_transcript_for_judge(made)
    order_for_judge(made)
    assert made == before
    assert all(one is other for one, other in zip(made, before, strict=True))


def test_every_order_of_a_round_comes_up_about_equally_often() -> None:
    """The shuffle is fair: no argument has a place of its own."""
    made = [entry(1, name, name, "x") for name in "abc"]
    source = Random(7)
    seen = [tuple(order_for_judge(made, random=source)) for _ in range(1200)]
    assert len(set(seen)) == 6
    assert all(150 < seen.count(order) < 250 for order in set(seen))


def test_no_entries_are_shown_as_empty() -> None:
    """A judge without a transcript reads "(empty)"."""
    assert format_transcript_for_judge([]) == "(empty)"
    assert format_transcript_for_judge([], anonymize=False, shuffle=False) == "(empty)"
    assert order_for_judge([]) == []


def _counted(made: Sequence[DebateContributionEntry]) -> list[tuple[int, str, str, str]]:
    return sorted((one.round, one.agent_name, one.stance, one.text) for one in made)
