"""Text as any database can hold it: without U+0000 and halves of surrogate pairs; and back."""

from __future__ import annotations

import re

__all__ = ("given", "kept")

_MARK = "\x1a"
"""The control character "substitute"; what follows it is a character's number, in four digits."""
_UNFIT = re.compile("[\x00\x1a\ud800-\udfff]")
_MARKED = re.compile("\x1a([0-9a-f]{4})")


def kept(text: str) -> str:
    r"""`text` as it is written; different texts stay different, and most are written as they are.

    >>> kept("no\x00 end")
    'no\x1a0000 end'
    """
    if "\x00" not in text and _MARK not in text:
        try:
            text.encode()
        except UnicodeEncodeError:
            pass
        else:
            return text
    return _UNFIT.sub(lambda found: f"{_MARK}{ord(found[0]):04x}", text)


def given(text: str) -> str:
    r"""The text that `kept` made into `text`.

    >>> given(kept("a\x00\x1a\ud800"))
    'a\x00\x1a\ud800'
    """
    return _MARKED.sub(lambda found: chr(int(found[1], 16)), text) if _MARK in text else text
