"""Text as a reader takes it in, to look for names: plain letters, nothing unseen, one kind of dash and apostrophe."""

from __future__ import annotations

import re
from unicodedata import category, normalize

__all__ = ("fold", "origins")

_SIGNS = {
    **dict.fromkeys("\u2018\u2019\u201b\u02bc\u00b4\u2032", "'"),
    **dict.fromkeys("“”„‟«»", '"'),
    **dict.fromkeys("\u2010\u2011\u2012\u2212", "-"),
    **dict.fromkeys("\u2013\u2014\u2015", "—"),
    **dict.fromkeys("\x85\u2028\u2029", "\n"),
}
_VOWEL_SIGNS = re.compile("[\u034f\u0591-\u05c7\u0640\u064b-\u065f\u0670\ufe00-\ufe0f]")
"""Of Hebrew and Arabic, where they are seldom written; and what only changes how a character looks."""
_FIRST_MARK, _LAST_MARK = "\u0300", "\u036f"


class _Folds(dict[int, str]):
    """What each character becomes, worked out when it is first met."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        folded = _SIGNS.get(char)
        if folded is None:
            folded = _folded(char)
        self[code] = folded
        return folded


def _folded(char: str) -> str:
    kind = category(char)
    if kind == "Cf" or _VOWEL_SIGNS.match(char):
        return ""
    if kind == "Zs":
        return " "
    if "\uac00" <= char <= "\ud7a3":
        return char  # a syllable: its letters are none that other words are made of
    apart = normalize("NFD", normalize("NFKC", char))
    plain = "".join(part for part in apart if not _FIRST_MARK <= part <= _LAST_MARK)
    return normalize("NFC", plain)


_FOLDS = _Folds()
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")


def _translated(match: re.Match[str]) -> str:
    return match[0].translate(_FOLDS)


def fold(text: str) -> str:
    r"""`text` with letters in their plain form, case kept, without accents and without what is not seen.

    >>> fold("\uff2ao\u200bsé’s")
    "Jose's"
    """
    return text if text.isascii() else _NOT_ASCII.sub(_translated, text)


def origins(text: str) -> list[tuple[int, int]]:
    """For each character of `fold(text)` the start and end in `text` of what it came from, its accents included."""
    found: list[tuple[int, int]] = []
    for place, char in enumerate(text):
        folded = _FOLDS[ord(char)]
        if folded:
            found.extend([(place, place + 1)] * len(folded))
        elif found and category(char) == "Mn" and found[-1][1] == place:
            found[-1] = (found[-1][0], place + 1)
    return found
