"""Markdown in a terminal: however the text is split, styles replace the marks and no word is lost."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from flowdebate.cli.terminal.marks import Marks

PIECES = st.lists(
    st.sampled_from([*"ab *`#_\n", "**", "## ", "```\n", "\n\n", "- ", "word ", "| a | *b* |\n", "|---|--:|\n", "|"]),
    max_size=30,
)


def style_characters(pieces: list[str]) -> list[tuple[str, str]]:
    """Return each character with its style."""
    marks = Marks()
    parts = [part for piece in pieces for part in marks.feed(piece)] + list(marks.feed("", last=True))
    return [(char, style) for part, style in parts for char in part]


@given(PIECES)
def test_rendering_is_independent_of_chunk_boundaries(pieces: list[str]) -> None:
    text = "".join(pieces)
    assert style_characters(pieces) == style_characters([text]) == style_characters(list(text))
    marks = r"[-*`#|:─\s]"
    assert re.sub(marks, "", "".join(char for char, _ in style_characters(pieces))) == re.sub(marks, "", text)


def test_markdown_syntax_becomes_styling() -> None:
    text = "## Head\nA **b c** *d* `e*f` 2 * 3 ** 4\n* item\n```\n**x**\n```\n**open\n\nafter"
    styles = style_characters([text])
    assert "".join(char for char, _ in styles) == "Head\nA b c d e*f 2 * 3 ** 4\n* item\n\n**x**\n\nopen\n\nafter"
    text_by_style = {
        style: "".join(char for char, mark in styles if mark == style) for style in ("bold", "italic", "cyan")
    }
    assert text_by_style == {"bold": "Headb copen\n", "italic": "d", "cyan": "e*f\n**x**\n"}


def test_table_is_aligned_in_columns() -> None:
    text = "| Option | Cost |\n|---|---:|\n| **Postgres** | $5 |\n| `a\\|b` | $1,200 |\n\nSo: wait."
    rows = ["Option      Cost", "────────  ──────", "Postgres      $5", "a|b       $1,200", "", "So: wait."]
    lines = style_characters([text])
    assert "".join(char for char, _ in lines).split("\n") == rows
    assert "".join(char for char, style in lines if style == "bold") == "OptionCostPostgres"
    narrow = "".join(part for part, _ in Marks(10).feed(text, last=True))
    assert narrow.split("\n")[:3] == ["| Option | Cost |", "|---|---:|", "| Postgres | $5 |"]
