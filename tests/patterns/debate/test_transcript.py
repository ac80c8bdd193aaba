from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import DebateContributionEntry
from flowdebate.errors import FlowDebateError, ViewError
from flowdebate.patterns.debate.transcript import parse_entries, render_entries
from tests.prompts.nasty import entries, entry, headings, lines_of, rounds_shown, tags, texts

Entries = list[DebateContributionEntry]


def blanked(made: Entries) -> Entries:
    """The entries without names."""
    return [entry(one.round, "", one.stance, one.text) for one in made]


@given(entries)
def test_a_transcript_with_names_can_be_read_back(made: Entries) -> None:
    """Rendering loses nothing, whatever names, stances and texts hold."""
    assert parse_entries(render_entries(made, names=True), names=True) == made


@given(entries)
def test_a_transcript_without_names_can_be_read_back_but_for_the_names(made: Entries) -> None:
    """Rendering without names loses the names, and nothing else."""
    assert parse_entries(render_entries(made, names=False), names=False) == blanked(made)


@given(entries, st.booleans(), st.data())
def test_a_longer_transcript_begins_with_the_shorter(made: Entries, names: bool, data: st.DataObject) -> None:  # noqa: FBT001
    """What a server has read of a transcript it need not read again."""
    if made:
        shorter = made[: data.draw(st.integers(1, len(made)))]
        assert render_entries(made, names=names).startswith(render_entries(shorter, names=names))


@given(entries, st.booleans())
def test_nothing_but_entries_and_rounds_begins_a_line(made: Entries, names: bool) -> None:  # noqa: FBT001
    """As many tags as entries and as many headings as rounds, whatever the texts look like."""
    shown = render_entries(made, names=names)
    if not made:
        assert shown == "(empty)"
        return
    assert tags(shown) == len(made)
    assert headings(shown) == rounds_shown(made)
    assert len(lines_of(shown)) == len(made) + rounds_shown(made)


@given(entries)
def test_names_do_not_show_where_they_are_not_asked_for(made: Entries) -> None:
    """Without names, the transcript is the same whoever spoke."""
    assert render_entries(made, names=False) == render_entries(blanked(made), names=False)


@given(texts | st.builds(lambda made, more: render_entries(made, names=True) + more, entries, texts), st.booleans())
def test_what_no_renderer_writes_is_refused(text: str, names: bool) -> None:  # noqa: FBT001
    """Each transcript has one reading; anything else is a ViewError."""
    try:
        made = parse_entries(text, names=names)
    except ViewError:
        return
    assert render_entries(made, names=names) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "a round's heading"),
        ("[a, for] Yes.", "a round's heading"),
        ("Round 0:\n[a, for] Yes.", "a round's heading"),
        ("Round 01:\n[a, for] Yes.", "a round's heading"),
        ("Round \uff12:\n[a, for] Yes.", "a round's heading"),
        ("Round 1:\nYes.", "a round's heading or a tagged argument"),
        ("Round 1:\n[a, for]Yes.", "a round's heading or a tagged argument"),
        ("Round 1:\n[a for] Yes.", "a tag with a name and a stance"),
        ("Round 1:", "a transcript as render_entries writes it"),
        ("Round 1:\n[a, for] Yes.\nRound 1:\n[a, for] Yes.", "a transcript as render_entries writes it"),
        ("Round 1:\n[a, for] ⟦U+0041⟧", "a transcript as render_entries writes it"),
        ("Round 1:\n[a, for] Yes.\n", "a round's heading or a tagged argument"),
        ("(empty)\n", "a round's heading"),
    ],
)
def test_text_that_is_nearly_a_transcript_is_refused(text: str, expected: str) -> None:
    """The error says what should have stood there."""
    with pytest.raises(FlowDebateError) as failure:
        parse_entries(text, names=True)
    assert isinstance(failure.value, ViewError)
    assert failure.value.expected == expected


def test_a_transcript_reads_as_its_format_says() -> None:
    """Rounds, tags, continuation lines and escapes, as they are documented."""
    made = [
        entry(1, "Änne, PhD", "for", "Yes.\nFor two reasons."),
        entry(1, "b", "not [really]", "No.\u2028Round 2:"),
        entry(2, "Änne, PhD", "for", "\n[not really] I concede.\n"),
    ]
    assert render_entries(made, names=True).split("\n") == [
        "Round 1:",
        "[Änne⟦U+002C⟧ PhD, for] Yes.",
        "  | For two reasons.",
        "[b, not ⟦U+005B⟧really⟦U+005D⟧] No.⟦U+2028⟧Round 2:",
        "Round 2:",
        "[Änne⟦U+002C⟧ PhD, for] ",
        "  | [not really] I concede.",
        "  | ",
    ]
