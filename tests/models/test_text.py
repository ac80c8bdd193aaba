"""Untrusted text: made harmless, but otherwise left unchanged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate._text import clean_text, is_blank, one_line

HOSTILE = st.text(st.characters() | st.sampled_from("\x00\ud800\udfff\u200b\u2028\x1b🙂"))


@given(HOSTILE)
def test_clean_text_is_always_valid_unicode_without_nul(text: str) -> None:
    """Cleaned text can be stored, sent and encoded."""
    cleaned = clean_text(text)
    assert "\x00" not in cleaned
    assert cleaned.encode().decode() == cleaned


@given(st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"])))
def test_valid_text_is_unchanged(text: str) -> None:
    """The same object is returned, so cleaning makes no copy in the common case."""
    assert clean_text(text) is text


def test_split_surrogates_are_joined() -> None:
    """Two adjacent halves of a surrogate pair become one character, and an unpaired half becomes U+FFFD."""
    assert clean_text("a\ud83d\ude42b\ude42") == "a🙂b\ufffd"


@pytest.mark.parametrize("text", ["", " \n", "\u200b\ufeff", " \u200b "])
def test_invisible_text_is_blank(text: str) -> None:
    """Zero-width characters alone do not count as an answer."""
    assert is_blank(text)


@given(HOSTILE, st.sampled_from("aé🙂."))
def test_text_with_a_visible_character_is_not_blank(text: str, character: str) -> None:
    assert not is_blank(text + character)


@given(HOSTILE, HOSTILE)
def test_text_reduced_to_one_line_is_printable_and_hides_the_secret(before: str, after: str) -> None:
    """The API key is removed wherever it occurs, and no control character reaches a terminal."""
    line = one_line(f"{before} canary-123456 {after}", secrets=["canary-123456"])
    assert "canary" not in line
    assert line.isprintable()


@pytest.mark.parametrize(
    "text",
    [
        "key: sk-abcdef1234567890",
        "Authorization: Bearer zzzzzzzzzzz.yyy",
        "sk-proj-ab*****yz",
        "AIzaSyA1234567890abcdefg",
    ],
)
def test_apparent_keys_are_redacted(text: str) -> None:
    """A server may echo any key, even that of another user."""
    assert "[redacted]" in one_line(text)


def test_a_huge_error_page_is_truncated() -> None:
    """An error quotes at most 500 characters of what the server sent."""
    assert len(one_line("x" * 2_000_000)) == 500
