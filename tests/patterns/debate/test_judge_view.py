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
def test_shuffling_permutes_entries_within_each_round(transcript: Entries, seed: int) -> None:
    order = order_for_judge(transcript, random=Random(seed))
    assert sorted(order) == list(range(len(transcript)))
    assert [transcript[index].round for index in order] == sorted(one.round for one in transcript)


@given(entries, st.booleans())
def test_entries_are_sorted_by_round_if_they_are_not_shuffled(transcript: Entries, anonymize: bool) -> None:  # noqa: FBT001
    """The sort is stable, so entries from the same round keep their order."""
    rendered = format_transcript_for_judge(transcript, anonymize=anonymize, shuffle=False)
    assert rendered == render_entries(sorted(transcript, key=lambda one: one.round), names=not anonymize)


@given(entries, st.booleans(), st.integers())
def test_judges_see_each_entry_once(transcript: Entries, anonymize: bool, seed: int) -> None:  # noqa: FBT001
    """Parsing the shuffled view must return all entries. In a view without names, their name fields are blank."""
    rendered = format_transcript_for_judge(transcript, anonymize=anonymize, random=Random(seed))
    parsed = parse_entries(rendered, names=not anonymize)
    assert _sorted_entries(parsed) == _sorted_entries(
        [entry(e.round, "", e.stance, e.text) for e in transcript] if anonymize else transcript
    )


@given(entries, st.integers())
def test_same_seed_shows_the_same_text(transcript: Entries, seed: int) -> None:
    first = format_transcript_for_judge(transcript, random=Random(seed))
    assert format_transcript_for_judge(transcript, random=Random(seed)) == first
    assert format_transcript_for_judge(transcript) == format_transcript_for_judge(transcript, random=Random(0))


@given(entries)
def test_transcript_is_not_modified(transcript: Entries) -> None:
    before = list(transcript)
    format_transcript_for_judge(transcript)
    order_for_judge(transcript)
    assert transcript == before
    assert all(one is other for one, other in zip(transcript, before, strict=True))


def test_all_orders_of_a_round_are_about_equally_frequent() -> None:
    """If some orders were more frequent, they would favor some of the arguments."""
    transcript = [entry(1, name, name, "x") for name in "abc"]
    source = Random(7)
    orders = [tuple(order_for_judge(transcript, random=source)) for _ in range(1200)]
    assert len(set(orders)) == 6
    assert all(150 < orders.count(order) < 250 for order in set(orders))


def test_empty_transcripts_are_rendered_as_empty() -> None:
    """The judge sees "(empty)" instead of a transcript."""
    assert format_transcript_for_judge([]) == "(empty)"
    assert format_transcript_for_judge([], anonymize=False, shuffle=False) == "(empty)"
    assert order_for_judge([]) == []


def _sorted_entries(transcript: Sequence[DebateContributionEntry]) -> list[tuple[int, str, str, str]]:
    return sorted((one.round, one.agent_name, one.stance, one.text) for one in transcript)
