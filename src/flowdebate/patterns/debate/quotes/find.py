"""Quotations in a text: what stands between quotation marks of any style, and block quotes."""

from __future__ import annotations

import re

from flowdebate.patterns.debate.quotes.schemas import Quote

__all__ = (
    "DEEPEST",
    "find_quotes",
)

DEEPEST = 2
"""The depth down to which quotations inside others are found."""
_MOST_OPEN = 16
"""Marks that can be open at the same time; with more, the first ones are given up."""

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
"""Opening marks, each with those that close it."""
_MARK = re.compile(f"[{''.join(dict.fromkeys([*_CLOSED_BY, *''.join(_CLOSED_BY.values())]))}]")
_OPENS = frozenset("“‟„«\u2039\u201a\u2018「『❝〝")
"""Marks that open also before a space, and behind a word that they follow at once."""
_CLOSES = frozenset("”»\u203a」』❞〞〟")
"""Marks that close also behind a space."""
_SINGLE = frozenset("'\u2018\u2019")
_APOSTROPHE = re.compile(
    r"(?<=[^\W_])['\u2018\u2019](?=[^\W_])"
    r"|['\u2018\u2019](?=(?:\d\ds?|tis|twas|em|til|till|cause|bout|n)\b)"  # the '90s, 'tis
    r"|(?<=[sxz])['\u2019](?= [^'\u2018\u2019]{0,300}['\u2019](?!\w))",  # 'the workers' rights'
    re.IGNORECASE,
)
_BLOCK = re.compile(r"^[ ]{0,3}>[^\r\n]*(?:\r?\n[ ]{0,3}>[^\r\n]*)*", re.MULTILINE)
_BLOCK_START = re.compile(r"[ >\t]*")
_BY_WHOM = re.compile(r"\r?\n[ \t>]*(?:[\u2014\u2013\u2015]|--)[^\r\n]*\Z")
"""The last line of a block quote that names its author."""


def find_quotes(text: str) -> list[Quote]:
    r"""Find the quotations in `text`, by where they begin, each before those inside it.

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
    """The places of what stands between quotation marks."""
    opened: list[int] = []
    found = []
    for match in _MARK.finditer(text):
        place = match.start()
        char, before, after = text[place], text[max(0, place - 1) : place], text[place + 1 : place + 2]
        if char in _SINGLE and _APOSTROPHE.match(text, place):
            continue
        pairs = (
            [start for start in opened if char in _CLOSED_BY[text[start]]] if _may_close(char, before, after) else []
        )
        if pairs:
            found.append((pairs[-1] + 1, place))
            del opened[opened.index(pairs[-1]) :]
        elif char in _CLOSED_BY and _may_open(char, before, after):
            opened = [*opened[1 - _MOST_OPEN :], place]
    return [(start, end) for start, end in found if text[start:end].strip()]


def _may_open(char: str, before: str, after: str) -> bool:
    """Whether a quotation can begin here: it does not end a word, and something stands right behind it."""
    if char in _OPENS:
        return bool(after.strip()) or not before.isalnum()
    return bool(after.strip()) and not before.isalnum()


def _may_close(char: str, before: str, after: str) -> bool:
    """Whether a quotation can end here: something stands right before it, and no word begins right behind it."""
    return char in _CLOSES or (bool(before.strip()) and (before.isalnum() or not after.isalnum()))


def _blocks(text: str) -> list[tuple[int, int]]:
    """The places of block quotes, from their first word to their last."""
    found = []
    for match in _BLOCK.finditer(text):
        body = match[0].rstrip("> \t\r\n")
        if (by_whom := _BY_WHOM.search(body)) is not None:
            body = body[: by_whom.start()].rstrip("> \t\r\n")
        start = _BLOCK_START.match(body)
        if start is not None and start.end() < len(body):
            found.append((match.start() + start.end(), match.start() + len(body)))
    return found
