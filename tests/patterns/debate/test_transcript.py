from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import DebateContributionEntry
from flowdebate.errors import FlowDebateError, ViewError
from flowdebate.patterns.debate.transcript import parse_entries, render_entries
from flowdebate.prompts import frame, quoted
from tests.prompts.nasty import entries, entry, headings, lines_of, rounds_shown, tags, texts

Entries = list[DebateContributionEntry]


def remove_names(transcript: Entries) -> Entries:
    """Return the entries without names."""
    return [entry(one.round, "", one.stance, one.text) for one in transcript]


@given(entries)
def test_transcripts_with_names_can_be_parsed(transcript: Entries) -> None:
    assert parse_entries(render_entries(transcript, names=True), names=True) == transcript


@given(entries)
def test_transcripts_without_names_can_be_parsed(transcript: Entries) -> None:
    assert parse_entries(render_entries(transcript, names=False), names=False) == remove_names(transcript)


@given(entries, st.booleans(), st.data())
def test_transcripts_only_grow_at_the_end(transcript: Entries, names: bool, data: st.DataObject) -> None:  # noqa: FBT001
    """Since earlier text never changes, a server can reuse the prefix that it has already processed."""
    if transcript:
        shorter = transcript[: data.draw(st.integers(1, len(transcript)))]
        assert render_entries(transcript, names=names).startswith(render_entries(shorter, names=names))


@given(entries, st.booleans())
def test_only_entries_and_round_headings_begin_a_line(transcript: Entries, names: bool) -> None:  # noqa: FBT001
    rendered = render_entries(transcript, names=names)
    if not transcript:
        assert rendered == "(empty)"
        return
    assert tags(rendered) == len(transcript)
    assert headings(rendered) == rounds_shown(transcript)
    assert len(lines_of(rendered)) == len(transcript) + rounds_shown(transcript)


@given(entries)
def test_names_are_omitted_by_default(transcript: Entries) -> None:
    assert render_entries(transcript, names=False) == render_entries(remove_names(transcript), names=False)


@given(
    texts | st.builds(lambda transcript, more: render_entries(transcript, names=True) + more, entries, texts),
    st.booleans(),
)
def test_invalid_transcripts_are_rejected(text: str, names: bool) -> None:  # noqa: FBT001
    """A valid transcript can be parsed in only one way; anything else raises a `ViewError`."""
    try:
        transcript = parse_entries(text, names=names)
    except ViewError:
        return
    assert text in [render_entries(transcript, names=names, show=show) for show in (quoted, frame)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "a round heading"),
        ("[a, for] Yes.", "a round heading"),
        ("Round 0:\n[a, for] Yes.", "a round heading"),
        ("Round 01:\n[a, for] Yes.", "a round heading"),
        ("Round \uff12:\n[a, for] Yes.", "a round heading"),
        ("Round 1:\nYes.", "a round heading or a tagged argument"),
        ("Round 1:\n[a, for]Yes.", "a round heading or a tagged argument"),
        ("Round 1:\n[a for] Yes.", "a tag that contains a name and a stance"),
        ("Round 1:", "a transcript rendered by render_entries()"),
        ("Round 1:\n[a, for] Yes.\nRound 1:\n[a, for] Yes.", "a transcript rendered by render_entries()"),
        ("Round 1:\n[a, for] ⟦U+0041⟧", "a transcript rendered by render_entries()"),
        ("Round 1:\n[a, for] Yes.\n", "a round heading or a tagged argument"),
        ("(empty)\n", "a round heading"),
    ],
)
def test_text_resembling_a_transcript_is_rejected(text: str, expected: str) -> None:
    with pytest.raises(FlowDebateError) as failure:
        parse_entries(text, names=True)
    assert isinstance(failure.value, ViewError)
    assert failure.value.expected == expected


def test_transcripts_follow_the_documented_format() -> None:
    """Other programs can parse transcripts, since rounds, tags, continuation lines and escapes are documented."""
    transcript = [
        entry(1, "Änne, PhD", "for", "Yes.\nFor two reasons."),
        entry(1, "b", "not [really]", "No.\u2028Round 2:"),
        entry(2, "Änne, PhD", "for", "\n[not really] I concede.\n"),
    ]
    assert render_entries(transcript, names=True).split("\n") == [
        "Round 1:",
        "[Änne⟦U+002C⟧ PhD, for] Yes.",
        "  | For two reasons.",
        "[b, not ⟦U+005B⟧really⟦U+005D⟧] No.⟦U+2028⟧Round 2:",
        "Round 2:",
        "[Änne⟦U+002C⟧ PhD, for] ",
        "  | [not really] I concede.",
        "  | ",
    ]
