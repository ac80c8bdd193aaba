"""Where an argument quotes: what stands between quotation marks of any style, and in block quotes."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from flowdebate.patterns.debate.quotes.schemas import Quote

__all__ = (
    "DEEPEST",
    "find_quotes",
)

DEEPEST = 2
"""Quotes in quotes in quotes are looked at, and nothing further in."""

_CLOSED_BY = {
    '"': '"”',
    "“": '”"',
    "‟": "”",
    "„": '“”"',
    "”": "”",
    "«": "»",
    "»": "«»",
    "\u2039": "\u203a",
    "\u203a": "\u2039\u203a",
    "\u2018": "\u2019'",
    "\u201a": "\u2018\u2019'",
    "'": "'\u2019",
    "「": "」",
    "『": "』",
    "❝": "❞",
    "〝": "〞〟",
    "\uff02": "\uff02",
}
_OPENED_BY = {
    closer: {opener for opener, closers in _CLOSED_BY.items() if closer in closers}
    for closer in "".join(_CLOSED_BY.values())
}
_ALWAYS_OPEN = frozenset("„‟\u201a「『❝〝")
_ALWAYS_CLOSE = frozenset("」』❞〞〟")
_SINGLE = frozenset("'\u2018\u2019\u201a")
_MARK = re.compile(f"[{''.join(dict.fromkeys([*_CLOSED_BY, *_OPENED_BY]))}]")
_ELISION = re.compile(r"['\u2018\u2019](?:\d\ds?\b|(?:tis|twas|em|til|till|cause|bout|n)\b)", re.IGNORECASE)
"""Words that begin with an apostrophe: the '90s, 'tis."""
_BLOCK = re.compile(r"^[ ]{0,3}>[^\r\n]*(?:\r?\n[ ]{0,3}>[^\r\n]*)*", re.MULTILINE)
_BLOCK_START = re.compile(r"[ >\t]*")
_BY_WHOM = re.compile(r"\r?\n[ \t>]*(?:[\u2014\u2013\u2015]|--)[^\r\n]*\Z")
"""The last line of a block quote that says who said it."""


class _Mark(NamedTuple):
    place: int
    opens: bool
    closes: bool


def find_quotes(text: str) -> list[Quote]:
    r"""The quotations in `text`, by where they begin, each before those that stand in it.

    Quotation marks: straight, curly, „German“, «French», »reversed«, 「Japanese」, and single ones of these styles,
    where they are no apostrophes; and block quotes, lines that begin with ">", without a last line that names their
    author. A mark without its other half begins nothing. Quotes more than two deep in others are left out.

    >>> [quote.text for quote in find_quotes("It said “we don’t «cut» it”.\n> Rents rose.\n> Twice.")]
    ['we don’t «cut» it', 'cut', 'Rents rose.\n> Twice.']
    """
    spans = sorted({*_marked(text), *_blocks(text)}, key=lambda span: (span[0], -span[1]))
    found: list[Quote] = []
    around: list[int] = []
    for start, end in spans:
        while around and around[-1] <= start:
            around.pop()
        if around and end > around[-1]:  # it crosses a border: marks in and out of a block quote are no pair
            continue
        if len(around) <= DEEPEST:
            # model_construct: what a model wrote may hold halves of surrogate pairs, which validation refuses.
            found.append(Quote.model_construct(start=start, end=end, text=text[start:end], depth=len(around)))
        around.append(end)
    return found


def _marked(text: str) -> list[tuple[int, int]]:
    """What stands between quotation marks."""
    opened: list[int] = []
    still_open: Counter[str] = Counter()
    found = []
    for mark in _marks(text):
        char = text[mark.place]
        matching = _OPENED_BY.get(char, set())
        if mark.closes and any(still_open[opener] for opener in matching):
            while text[start := opened.pop()] not in matching:
                still_open[text[start]] -= 1
            still_open[text[start]] -= 1
            found.append((start + 1, mark.place))
        elif mark.opens:
            opened.append(mark.place)
            still_open[char] += 1
    return [(start, end) for start, end in found if text[start:end].strip()]


def _marks(text: str) -> list[_Mark]:
    """The quotation marks of `text`: no apostrophes, and no signs for inches."""
    marks = [mark for match in _MARK.finditer(text) if (mark := _mark(text, match.start())) is not None]
    single = [place for place, mark in enumerate(marks) if text[mark.place] in _SINGLE]
    possessive = set()
    for place, following in pairwise(single):
        one, other = marks[place], marks[following]
        # "the workers' rights'": the first only ends a word, since a second one closes with nothing opened between.
        if _ends_plural(text, one) and other.closes and not other.opens:
            possessive.add(place)
    return [mark for place, mark in enumerate(marks) if place not in possessive]


def _ends_plural(text: str, mark: _Mark) -> bool:
    before, after = text[mark.place - 1 : mark.place], text[mark.place + 1 : mark.place + 2]
    return mark.closes and not mark.opens and before in {"s", "x", "z"} and after == " "


def _mark(text: str, place: int) -> _Mark | None:
    """What the mark at `place` can do; None for an apostrophe."""
    before, char, after = text[place - 1 : place] if place else "", text[place], text[place + 1 : place + 2]
    if char in _SINGLE and after.isalnum() and _ELISION.match(text, place):
        return None
    opens, closes = _roles(before, char, after)
    return _Mark(place, opens, closes) if opens or closes else None


@lru_cache(maxsize=1024)
def _roles(before: str, char: str, after: str) -> tuple[bool, bool]:
    """Whether `char` between these two can open, and close; neither for an apostrophe and for inches."""
    if char in _SINGLE and before.isalnum() and after.isalnum():
        return False, False
    opens = char in _CLOSED_BY and (char in _ALWAYS_OPEN or _may_open(char, before, after))
    closes = char in _OPENED_BY and (char in _ALWAYS_CLOSE or _may_close(char, before, after))
    return opens, closes


def _may_open(char: str, before: str, after: str) -> bool:
    """Whether a quotation can begin here: nothing of a word stands before it."""
    if char in "“«\u2039":
        return not (before.isalnum() and (not after or after.isspace()))
    return not before.isalnum() and bool(after) and not after.isspace()


def _may_close(char: str, before: str, after: str) -> bool:
    """Whether a quotation can end here: something stands right before it, and no word right behind it."""
    if char in "»\u203a":
        return not (after.isalnum() and (not before or before.isspace()))
    if char == "”":
        return True
    return bool(before) and not before.isspace() and not (after.isalnum() and not before.isalnum())


def _blocks(text: str) -> list[tuple[int, int]]:
    """Block quotes, from their first word to their last."""
    found = []
    for match in _BLOCK.finditer(text):
        body = match[0].rstrip("> \t\r\n")
        if (by_whom := _BY_WHOM.search(body)) is not None:
            body = body[: by_whom.start()].rstrip("> \t\r\n")
        start = _BLOCK_START.match(body)
        if start is not None and start.end() < len(body):
            found.append((match.start() + start.end(), match.start() + len(body)))
    return found
