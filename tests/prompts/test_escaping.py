from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate.errors import FlowDebateError, ViewError
from flowdebate.prompts import quoted, tag_name, tag_text, unescaped, unquoted
from tests.prompts.nasty import texts


@given(texts)
def test_quoted_text_can_be_parsed(text: str) -> None:
    assert unquoted(quoted(text)) == text


@given(texts)
def test_continuation_lines_in_quoted_text_begin_with_a_bar(text: str) -> None:
    first, *further = ("label: " + quoted(text)).splitlines()
    assert first.startswith("label: ")
    assert all(line.startswith("  | ") for line in further)
    assert len(further) == text.count("\n")


@given(texts)
def test_quoted_text_can_be_encoded(text: str) -> None:
    """Lone surrogates are escaped, because a prompt that contained one could not be sent."""
    for escaped in (quoted(text), tag_text(text), tag_name(text)):
        assert escaped.encode().decode() == escaped


@given(texts | texts.map(quoted))
def test_invalid_quotations_are_rejected(text: str) -> None:
    """Every valid quotation stands for exactly one string, and anything else raises a `ViewError`."""
    try:
        plain = unquoted(text)
    except ViewError:
        return
    assert quoted(plain) == text


@pytest.mark.parametrize(
    "text", ["⟦", "⟦U+000A⟧", "⟦U+0041⟧", "⟦U+110000⟧", "⟦U+2028", "a\nb", "a\rb", "a\n b", "\ud800"]
)
def test_text_resembling_a_quotation_is_rejected(text: str) -> None:
    with pytest.raises(FlowDebateError, match="expected quoted text"):
        unquoted(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Plain words, with [brackets], {braces}, and a tab:\t.",
        "Änne naïvely ate crème brûlée, “for” 3 €…",
        "人们应该限制租金吗？ 家賃に上限を 임대료",
        "שלום עולם, مرحبا‎ بالعالم",
        "👩‍👩‍👧 👍🏽 🏴󠁧󠁢󠁥󠁮󠁧󠁿 ❤️",
        "\\frac{1}{2} \\[x\\] $HOME %s C:\\Users",
        "for (i = 0; i < n; i++) { a[i] |= b; }",
        "no-break\u00a0space, soft\u00adhyphen, zero\u200bwidth",
    ],
)
def test_ordinary_text_is_unchanged(text: str) -> None:
    assert quoted(text) == text
    assert quoted(f"{text}\n{text}") == f"{text}\n  | {text}"


def test_characters_that_break_lines_or_cannot_be_sent_are_escaped() -> None:
    """The test covers every line break, control character, bidirectional control and lone surrogate in Unicode."""
    turning = set(range(0x202A, 0x202F)) | set(range(0x2066, 0x206A))
    controls = (set(range(0x20)) | set(range(0x7F, 0xA0))) - {0x09, 0x0A}
    halves = set(range(0xD800, 0xE000))
    breaking = {code for code in range(sys.maxunicode + 1) if len(f"a{chr(code)}b".splitlines()) > 1} - {0x0A}
    escaped = {code for code in range(sys.maxunicode + 1) if quoted(chr(code)) != chr(code)} - {0x0A}
    assert escaped == turning | controls | halves | breaking | {ord("⟦")}


@given(texts)
def test_tags_fit_on_one_line_and_contain_no_brackets(text: str) -> None:
    assert not set(tag_text(text)) & set("[]\n")
    assert not set(tag_name(text)) & set("[],\n")
    assert len(f"x{tag_text(text)}x".splitlines()) == 1
    assert unescaped(tag_text(text)) == text
    assert unescaped(tag_name(text)) == text


@given(st.text(st.characters(categories=["L", "N", "Zs"])))
def test_plain_stances_equal_their_tag(stance: str) -> None:
    assert tag_text(stance) == stance
