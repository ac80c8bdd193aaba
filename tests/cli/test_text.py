"""Untrusted text on a terminal: none of it is executed or hidden."""

from __future__ import annotations

from itertools import pairwise
from unicodedata import category

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import get_character_cell_size

from flowdebate.cli.terminal.screen import TextFlow
from flowdebate.ui.text import PrintableStream, in_line, printable

JOINERS = "\u200c\u200d"
ODD = st.sampled_from(
    ["\x1b[2J", "\x1b]0;x\x07", "\u202e", "\u200d", "\u200c", "👩", "क", "ष", "می", "\ud83d", "\r", "\n", "\t"]
)
FOREIGN = st.lists(st.text(st.characters()) | ODD | st.text(max_size=3)).map("".join)
WIDTHS = st.integers(20, 120)


def split_text(text: str, places: list[int]) -> list[str]:
    """Split `text` at the given places."""
    ends = sorted({place % (len(text) + 1) for place in places} | {0, len(text)})
    return [text[start:end] for start, end in pairwise(ends)]


def flow_text(pieces: list[str], *, width: int | None, first: str = "  ") -> str:
    """Return the output of a flow for `pieces`."""
    words: list[str] = []
    columns = None if width is None else lambda: width
    flow = TextFlow(lambda text, _: words.append(text), indent="  ", width=columns, first=first)
    for piece in pieces:
        flow.feed(piece)
    flow.end()
    return "".join(words)


def test_long_text_is_written_at_once() -> None:
    """Each write passes through all layers of the terminal, so writing long text word by word would be slow."""
    pieces: list[str] = []
    flow = TextFlow(lambda text, _: pieces.append(text), indent="  ", width=None)
    flow.feed("one two three\n" * 1_000)
    flow.end()
    assert len(pieces) <= 2
    assert "".join(pieces) == "  one two three\n" * 1_000


@given(FOREIGN)
@example("\x1b[31m\x9b2J\x07\u202e\u2066\U000e0041\u2028\ud800\x7f\x00\r\ufeff\xad")
def test_printable_text_has_no_control_or_hidden_characters(text: str) -> None:
    """The only control characters are line feed and tab, and the only format characters are joiners.

    Surrogates and line separators never occur.
    """
    remaining = {char for char in printable(text) if category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"}}
    assert remaining <= {"\n", "\t", *JOINERS}


def test_only_control_and_hidden_characters_are_escaped() -> None:
    """Each code point in the planes of letters, emoji and tags is either kept or replaced by its escape."""
    chars = [chr(code) for code in (*range(0x20000), *range(0xE0000, 0xE1000)) if code != 0x0A]
    for char, escaped in zip(chars, printable("\n".join(chars)).split("\n"), strict=True):
        if category(char) in {"Cf", "Cs", "Zl", "Zp"} or (category(char) == "Cc" and char != "\t"):
            assert escaped == char.encode("unicode_escape").decode()
        else:
            assert escaped == char or (category(char) == "Cn" and escaped.startswith("\\"))


@given(FOREIGN)
def test_escaping_is_idempotent(text: str) -> None:
    assert printable(printable(text)) == printable(text)


@given(FOREIGN, st.lists(st.integers(0, 1000)))
@example("👩\u200d👩", [1])
@example("क\u200d", [1])
def test_streaming_does_not_change_the_escaped_text(text: str, places: list[int]) -> None:
    stream = PrintableStream()
    assert "".join(map(stream.feed, split_text(text, places))) + stream.end() == printable(text)


@pytest.mark.parametrize(
    "text", ["👩\u200d👩\u200d👧", "🏳️\u200d🌈", "می\u200cشود", "क्\u200dष", "naïve „ok“\u00a0!", "日本語"]
)
def test_characters_needed_by_scripts_and_emoji_are_kept(text: str) -> None:
    """Joiners are kept between characters that can be joined. All visible characters are kept as well."""
    assert printable(text) == text


@pytest.mark.parametrize("text", ["a\u200db", "\u200d", "👩\u200d", "👩\u200d\u200d👩", "\u200c👩", "pay\u200cpal"])
def test_isolated_joiners_are_escaped(text: str) -> None:
    """An isolated joiner could only serve to hide something."""
    assert not set(printable(text)) & set(JOINERS)


@given(FOREIGN)
def test_inline_text_has_no_line_breaks(text: str) -> None:
    """Text shown inline, such as a name, cannot break onto a new line."""
    assert len(in_line(text).splitlines()) <= 1


@given(FOREIGN, st.none() | WIDTHS, st.sampled_from(["", "  ", "      "]))
@example("x" * 200 + "日本語" * 40 + " y", 20, "")
def test_every_line_of_a_flow_is_indented(text: str, width: int | None, first: str) -> None:
    """Text from a model never starts at the left edge, except on the first line, where it follows a label."""
    begin, *lines = flow_text([text], width=width, first=first).split("\n")
    assert not begin.strip() or begin.startswith(first)
    assert all(line.startswith("  ") or not line for line in lines)


@given(st.lists(st.text("abcäßж", min_size=1, max_size=18), min_size=1), WIDTHS)
def test_words_that_fit_are_not_split(words: list[str], width: int) -> None:
    """Lines wrap between words and contain as many words as fit."""
    lines = flow_text([" ".join(words)], width=width).removesuffix("\n").split("\n")
    assert [word for line in lines for word in line.split()] == words
    assert all(len(line) + 1 + len(after.split()[0]) > width for line, after in pairwise(lines))


@given(st.lists(st.tuples(FOREIGN, st.sampled_from(["", "bold"])), max_size=5), WIDTHS)
def test_styles_do_not_change_the_layout(parts: list[tuple[str, str]], width: int) -> None:
    pieces: list[tuple[str, str]] = []
    flow = TextFlow(lambda *piece: pieces.append(piece), indent="  ", width=lambda: width)
    for text, style in parts:
        flow.feed(f" {text} ", style)
    flow.end()
    assert "".join(text for text, _ in pieces) == flow_text([f" {text} " for text, _ in parts], width=width)
    for style in ("", "bold"):
        visible = "".join("".join(text.split()) for text, its in pieces if its == style)
        assert visible == "".join("".join(printable(text).split()) for text, its in parts if its == style)


@given(FOREIGN, WIDTHS)
@example("x" * 200 + "日本語" * 40 + " y", 20)
@example("👩\u200d" * 60, 30)
def test_no_line_of_a_flow_is_wider_than_the_terminal(text: str, width: int) -> None:
    """The terminal would wrap a longer line without indenting the rest.

    The width of a line is the sum of the widths of its characters.
    """
    for line in flow_text([text], width=width).split("\n"):
        assert sum(map(get_character_cell_size, line)) <= width


@given(FOREIGN, st.none() | WIDTHS, st.lists(st.integers(0, 1000)))
def test_flow_is_independent_of_chunk_boundaries(text: str, width: int | None, places: list[int]) -> None:
    assert flow_text(split_text(text, places), width=width) == flow_text([text], width=width)


@given(FOREIGN, st.none() | WIDTHS)
def test_flow_loses_no_text(text: str, width: int | None) -> None:
    assert "".join(flow_text([text], width=width).split()) == "".join(printable(text).split())


def test_words_are_written_when_complete() -> None:
    """Every word received so far is visible except the last one, which may be incomplete."""
    pieces: list[str] = []
    flow = TextFlow(lambda text, _: pieces.append(text), indent="  ", width=lambda: 40)
    flow.feed("alpha beta gam")
    assert "".join(pieces) == "  alpha beta"
    flow.feed("ma")
    flow.end()
    assert "".join(pieces) == "  alpha beta gamma\n"


def test_blank_lines_are_collapsed() -> None:
    """A model could otherwise use blank lines to push the rest of the page out of view."""
    assert flow_text(["\n\n\na\n\n\n\n\n\nb\n\n"], width=None) == "  a\n\n  b\n"


def test_lines_keep_their_indent_up_to_a_limit() -> None:
    """Lists and JSON stay legible, but a model cannot indent its text so far that it disappears from view."""
    assert flow_text(["a\n  b\n" + " " * 999 + "c"], width=None) == f"  a\n    b\n{' ' * 26}c\n"
