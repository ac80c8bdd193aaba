"""Quotes in what was said: where they stand, and whether the sources have them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from unicodedata import category

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from flowdebate.service.documents.sections import Entry, Quoted
    from flowdebate.web.run.sheet import Party


_MARKS = frozenset({"Pi", "Pf", "Ps", "Pe"})
"""Categories of characters that open or close a quotation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
    """A quote that was looked up."""

    number: int
    """Its place among all quotes, from 1."""
    name: str
    party: Party | None
    """Who quotes."""
    start: int
    end: int
    """Its place in what was said, with its quotation marks."""
    text: str
    source: str | None
    """The source that has it; None for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A part of a paragraph: a quote, or what stands between quotes."""

    text: str
    citation: Citation | None = None
    ends: bool = False
    """Whether the quote ends here, and not in a later paragraph."""


def citations_in(entry: Entry, party: Party | None, *, after: int) -> tuple[Citation, ...]:
    """The quotes of a contribution, which go on from number `after`; those inside others are left out."""
    found: list[Citation] = []
    for quote in sorted(entry.quotes, key=lambda each: (each.start, -each.end)):
        start, end = _with_marks(entry.text, quote)
        if 0 <= start < end <= len(entry.text) and (not found or start >= found[-1].end):
            found.append(
                Citation(
                    number=after + len(found) + 1,
                    name=entry.name,
                    party=party,
                    start=start,
                    end=end,
                    text=entry.text[quote.start : quote.end],
                    source=quote.source,
                )
            )
    return tuple(found)


def _with_marks(text: str, quote: Quoted) -> tuple[int, int]:
    before, after = text[quote.start - 1 : quote.start], text[quote.end : quote.end + 1]
    marked = all(char and (category(char) in _MARKS or char in "\"'\uff02") for char in (before, after))
    return (quote.start - 1, quote.end + 1) if marked else (quote.start, quote.end)


def passages_of(text: str, citations: Sequence[Citation]) -> list[list[Passage]]:
    r"""The paragraphs of a text, cut where its quotes begin and end.

    >>> quote = Citation(number=1, name="a", party=None, start=3, end=8, text="Yes", source=None)
    >>> [[each.text for each in line] for line in passages_of("So “Yes”.\nWell.", [quote])]
    [['So ', '“Yes”', '.'], ['Well.']]
    """
    return [list(_cut(text, start, end, citations)) for start, end in lines_of(text)]


def _cut(text: str, start: int, end: int, citations: Sequence[Citation]) -> Iterator[Passage]:
    for each in citations:
        if each.end <= start or each.start >= end:
            continue
        if start < each.start:
            yield Passage(text=text[start : each.start])
        start, before = min(each.end, end), max(each.start, start)
        yield Passage(text=text[before:start], citation=each, ends=each.end <= end)
    if start < end:
        yield Passage(text=text[start:end])


def lines_of(text: str) -> list[tuple[int, int]]:
    r"""Where the lines of a text begin and end that have something in them, without the spaces around them.

    >>> lines_of(" One.\nTwo. \n\n\nThree.")
    [(1, 5), (6, 10), (14, 20)]
    """
    found, at = list[tuple[int, int]](), 0
    for line in text.splitlines(keepends=True):
        if inside := line.strip():
            start = at + len(line) - len(line.lstrip())
            found.append((start, start + len(inside)))
        at += len(line)
    return found
