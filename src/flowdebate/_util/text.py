"""Cleaning of outside text: valid Unicode without NUL, and one readable line of it in error messages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from unicodedata import category

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = (
    "clean_data",
    "clean_text",
    "counted",
    "is_blank",
    "one_line",
    "redacted",
    "without_keys",
)

_SHOWN = 500
"""Characters of a server's own text that an error shows."""

_LOOKED_AT = 20_000
"""Characters of a server's own text that are looked at at all: error pages can have megabytes."""

_SHORTEST_SECRET = 6
"""What is shorter is a placeholder rather than a key, and stands in ordinary words."""

_REDACTED = "[redacted]"

_KEYS = re.compile(
    r"\bBearer\s+[^\s'\"]+"
    r"|\b(?:sk|pk|rk|gsk|xai|csk|fw|tgp|hf|AIza)[-_][A-Za-z0-9*._-]{6,}"
    r"|\bAIza[A-Za-z0-9*_-]{16,}"
)
"""What looks like a key, also where servers have starred out its middle."""


def counted(number: int, one: str) -> str:
    """A number of things in words.

    >>> counted(1, "ballot"), counted(1200, "ballot")
    ('1 ballot', '1,200 ballots')
    """
    return f"{number:,} {one}" if number == 1 else f"{number:,} {one}s"


def clean_text(text: str) -> str:
    r"""`text` as valid Unicode without NUL: lone surrogates become U+FFFD, split pairs become their character.

    >>> clean_text("a\ud800b\x00c")
    'a\ufffdbc'
    >>> clean_text("\ud83d\ude42")
    '🙂'
    """
    if "\x00" in text:
        text = text.replace("\x00", "")
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def is_blank(text: str) -> bool:
    r"""Whether `text` shows nothing: no characters, or only white space and zero-width ones.

    >>> is_blank(" \u200b\n"), is_blank(".")
    (True, False)
    """
    if not text or text.isspace():
        return True
    if text.isascii() or text[0].isalnum():
        return False
    return all(c.isspace() or category(c) == "Cf" for c in text)


def clean_data(value: Any) -> Any:  # noqa: ANN401 - plain data of any shape
    r"""Plain data with every text in it as `clean_text` makes it; what is no plain data stays as it is.

    >>> clean_data({"briefing": ["a\ud800"], "done": True})
    {'briefing': ['a\ufffd'], 'done': True}
    """
    if type(value) is str:
        return clean_text(value)
    if type(value) is dict:
        return {clean_data(key): clean_data(inner) for key, inner in value.items()}
    if type(value) in (list, tuple):
        return type(value)(clean_data(inner) for inner in value)
    return value


def redacted(text: str, secrets: Iterable[str]) -> str:
    """`text` without `secrets`.

    >>> redacted("the key is hunter2", ["hunter2"])
    'the key is [redacted]'
    """
    for secret in secrets:
        if len(secret) >= _SHORTEST_SECRET and secret in text:
            text = text.replace(secret, _REDACTED)
    return text


def without_keys(text: str) -> str:
    """`text` without what looks like a key, of whomever.

    >>> without_keys("bad key sk-abcdef123456")
    'bad key [redacted]'
    """
    return _KEYS.sub(_REDACTED, text)


def one_line(text: str, *, secrets: Iterable[str] = ()) -> str:
    r"""A server's own `text` as an error may show it: no keys, one printable line, at most 500 characters.

    >>> one_line("bad key sk-abcdef123456\x1b[2J")
    'bad key [redacted]\\x1b[2J'
    """
    text = without_keys(redacted(text[:_LOOKED_AT], secrets))
    shown = text[: _SHOWN + 1]
    if not shown.isprintable():  # an escape is longer than what it stands for
        shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown)
    return shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 1]}…"


LONGEST_ARGUMENT = 1_000_000
"""Characters: every later turn is shown every argument."""
