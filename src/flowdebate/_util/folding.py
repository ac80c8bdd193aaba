"""Text folding: the form in which texts are compared, with the place of each character in the original."""

from __future__ import annotations

import re
from unicodedata import category, combining, normalize

__all__ = (
    "fold",
    "origins",
    "with_accents",
)

_UNSEEN = re.compile(
    "[\u034f\u0640\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Characters that show nothing by themselves, though they are letters or marks."""
_SAME = (
    dict.fromkeys("\u2018\u2019\u201b\u02bc\u00b4\u2032", "'")
    | dict.fromkeys("\u2010\u2011\u2012\u2013\u2212\ufe63\uff0d", "-")
    | dict.fromkeys("\x85\u2028\u2029", "\n")
)


def _is_accent(char: str) -> bool:
    """Whether `char` is an accent, or a vowel sign that Hebrew and Arabic seldom write."""
    kind = combining(char)
    return 10 <= kind <= 35 or kind >= 200  # noqa: PLR2004 - canonical combining classes


class _Folds(dict[int, str]):
    """The folded form of each character, computed when the character first occurs."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        if char in _SAME:
            folded = _SAME[char]
        elif category(char) == "Cf" or _UNSEEN.match(char):
            folded = ""
        else:
            apart = normalize("NFKD", normalize("NFKD", char).casefold())
            folded = normalize("NFC", "".join(part for part in apart if not _is_accent(part))).replace("\u2044", "/")
            if category(char) == "No":  # 10² is not 102
                folded = f"^{folded}"
        self[code] = folded
        return folded


_FOLDS = _Folds()
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")


def fold(text: str) -> str:
    r"""`text` in lower case, in compatibility form (NFKC), without accents and invisible characters.

    >>> fold("\uff2ao\u200bsé’s")
    "jose's"
    """
    return text.lower() if text.isascii() else _NOT_ASCII.sub(_translated, text.lower())


def _translated(match: re.Match[str]) -> str:
    return match[0].translate(_FOLDS)


def origins(text: str) -> list[int] | None:
    """The place in `text` of each character of `fold(text)`; None where each has kept its own."""
    return None if text.isascii() else [place for place, char in enumerate(text) for _ in _FOLDS[ord(char)]]


def with_accents(text: str, end: int) -> int:
    """The end of a span that ends at `end`, with the accents that follow there as characters of their own."""
    while end < len(text) and _is_accent(text[end]):
        end += 1
    return end
