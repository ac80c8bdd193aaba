"""Texts as words that can be compared, each with its place: without case, spacing, punctuation and unseen characters.

What tells numbers and words apart is kept: the signs inside a number (1.5, 15-20, 10^6) and before it (-5), and what is
no punctuation (%, $, +, <). A hyphen parts two words, as a blank does.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ("Words", "words_of")

_LETTER, _DIGIT, _MARK, _SINGLE, _OWN, _SIGN, _UNSEEN = "a0mcfsz"
_HYPHENS = "-\u2010\u2011\u2012\u2013\u2212\u00ad\ufe63\uff0d"
_APOSTROPHES = "'\u2019\u2018\u02bc\u00b4\uff07"
_STOPS = ".\u2024\ufe52\uff0e"
_LEADING = "#>+="
"""What begins a line in Markdown; elsewhere a sign like others."""
_NO_SIGNS = "`^~|\u00a8\u00af\u00b8"
"""Symbols that say nothing between words."""
_SPECIAL = (
    {" ": " ", "\n": "\n", "\r": "\n"}
    | dict.fromkeys(_HYPHENS, "-")
    | dict.fromkeys(_APOSTROPHES, "'")
    | dict.fromkeys(_STOPS, ".")
    | dict.fromkeys(_LEADING, "g")
    | dict.fromkeys(_NO_SIGNS, "p")
    | dict.fromkeys("%‰‱&@§\uff05", _SIGN)
)
_NOBODY_SEES = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
"""Letters and marks that are not seen; what is in the categories of `_UNSEEN_CATEGORIES` is not seen either."""
_UNSEEN_CATEGORIES = {"Cc", "Cf"}
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff"
    "\uff66-\uff9f\U00020000-\U0003ffff]"
)
"""Scripts that part no words by blanks: each character is a word."""
_FIGURES = re.compile("[\u25a0-\u25ff]")
"""Squares and triangles: they begin the points of a list."""
_LINE_BREAKS = "\v\f\x1c\x1d\x1e\x85\u2028\u2029"

_TOKEN = re.compile(
    r"(?:(?<![a0mcf.\-])-?\.?(?=0))?"  # the sign of a number, and a point that begins one
    r"[a0](?:[a0m]|(?<=[amf])f)*+(?:'(?=a)[a0m]++|(?<=0)(?:[p.'\-]|-[ ]*+\n[ \ng]*+)(?=0)[a0m]++)*+"
    r"|[cm]m*+|[fsg]"
)
_LINE_START = re.compile(r"(?<=\n)[ g]*g(?!0)")
_TEXT_START = re.compile(r"[ g]*g(?!0)")
_LINE_HYPHEN = re.compile(r"(?<=[am])-[ ]*+\n[ \ng]*+(?=a)")
_SOFT_HYPHEN = re.compile(r"\u00ad(?![ \t]*[\r\n])")
_DASHES = re.compile(f"[{_HYPHENS}]\\s*")
_SAME = str.maketrans(dict.fromkeys(_APOSTROPHES, "'") | dict.fromkeys(_STOPS, ".") | {"\u2044": "/"})


@dataclass(frozen=True, kw_only=True)
class Words:
    """The words of a text, each with the half-open place at which it stands."""

    keys: list[str]
    """What is compared."""
    starts: list[int]
    ends: list[int]
    broken: list[int]
    """Those that a hyphen at the end of a line parts from the next word: they may be one."""

    def joined(self, known: Collection[str]) -> Words:
        """The same, with words that a line's end breaks made one where that one is among `known`."""
        keys: list[str] = []
        starts: list[int] = []
        ends: list[int] = []
        joining = {place + 1 for place in self.broken if self.keys[place] + self.keys[place + 1] in known}
        if not joining:
            return self
        for place, key in enumerate(self.keys):
            if place in joining:
                keys[-1] += key
                ends[-1] = self.ends[place]
            else:
                keys.append(key)
                starts.append(self.starts[place])
                ends.append(self.ends[place])
        return Words(keys=keys, starts=starts, ends=ends, broken=[])

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """All words, also those that may be one."""
        return frozenset(self.keys).union(self.keys[place] + self.keys[place + 1] for place in self.broken)

    @cached_property
    def line(self) -> str:
        """All words, each between blanks, as a text that can be searched."""
        return f" {' '.join(self.keys)} " if self.keys else " "

    @cached_property
    def places(self) -> list[int]:
        """Where in `line` each word begins."""
        return list(accumulate((len(key) + 1 for key in self.keys), initial=1))[:-1]

    def between(self, start: int, end: int) -> tuple[int, int]:
        """Where in the text the words stand that are `line[start:end]`."""
        first = bisect_right(self.places, start) - 1
        last = bisect_right(self.places, end - 1) - 1
        return self.starts[first], self.ends[last]


def words_of(text: str, *, whole: bool = True) -> Words:
    """The words of `text`; a text that is not `whole` is a piece of another, and need not begin a line.

    >>> words_of("It cost “1.5\u00a0Mio”, didn’t it?").keys
    ['it', 'cost', '1.5', 'mio', "didn't", 'it']
    """
    seen, shape, offsets = _visible(text)
    shape = _LINE_START.sub(_blanks, shape)
    if whole:
        shape = _TEXT_START.sub(_blanks, shape, count=1) if _TEXT_START.match(shape) else shape
    keys: list[str] = []
    spans: list[tuple[int, int]] = []
    for match in _TOKEN.finditer(shape):
        for key in _keys(seen[match.start() : match.end()], shape[match.start()]):
            keys.append(key)
            spans.append(match.span())
    ends = [end for _, end in spans]
    after = [bisect_right(ends, match.start()) - 1 for match in _LINE_HYPHEN.finditer(shape)]
    return Words(
        keys=keys,
        starts=[start if offsets is None else offsets[start] for start, _ in spans],
        ends=[end if offsets is None else offsets[end - 1] + 1 for end in ends],
        broken=[place for place in after if place + 1 < len(keys)],
    )


def _visible(text: str) -> tuple[str, str, list[int] | None]:
    """What is seen of `text`, the kind of each of its characters, and where they stand; None where all are seen."""
    shape = text.translate({ord(char): _kind(char) for char in set(text)})
    if "\u00ad" in text:
        kinds = list(shape)
        for match in _SOFT_HYPHEN.finditer(text):
            kinds[match.start()] = _UNSEEN
        shape = "".join(kinds)
    if _UNSEEN not in shape:
        return text, shape, None
    offsets = [place for place, kind in enumerate(shape) if kind != _UNSEEN]
    return "".join(text[place] for place in offsets), shape.replace(_UNSEEN, ""), offsets


@lru_cache(maxsize=4096)  # the same letters stand in every text
def _kind(char: str) -> str:  # noqa: PLR0911 - a table of what characters are
    """What `char` is to `_TOKEN`."""
    if char in _SPECIAL:
        return _SPECIAL[char]
    if char.isspace():
        return "\n" if char in _LINE_BREAKS else " "
    category = unicodedata.category(char)
    if category in _UNSEEN_CATEGORIES or _NOBODY_SEES.match(char):
        return _UNSEEN
    match category[0]:
        case "L":
            return _SINGLE if _UNSPACED.match(char) else _LETTER
        case "M":
            return _MARK
        case "N":
            return {"Nd": _DIGIT, "No": _OWN}.get(category, _LETTER)
        case "P":
            return "p"
        case _:
            return "p" if _FIGURES.match(char) else _SIGN


def _blanks(match: re.Match[str]) -> str:
    return " " * len(match[0])


def _keys(piece: str, kind: str) -> list[str]:
    """What a word is compared by; a single character may stand for several words."""
    if piece.isascii():
        key = piece.lower()
    else:
        folded = unicodedata.normalize("NFKC", piece.translate(_SAME)).casefold()
        key = unicodedata.normalize("NFKC", folded).translate(_SAME)
    if kind == _OWN and key.isdigit():
        return [f"^{key}"]  # 10² is not 102
    return (_DASHES.sub("-", key) if len(key) > 1 else key).split()
