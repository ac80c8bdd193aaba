"""Excerpts: the sections of a page within a size that a notebook can hold."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, assert_never

from flowdebate._util.text import counted
from flowdebate.service.documents.sections import Card, Entry, Fact, Group, Heading, Output, Remark
from flowdebate.service.documents.text import as_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from flowdebate.service.documents.sections import Section


_LONGEST = 20_000
"""Characters of one text."""
_MOST = 300_000
"""Characters of all contributions."""


def excerpt(sections: Iterable[Section], *, most: int = _MOST, longest: int = _LONGEST) -> list[Section]:
    """The sections with long texts cut, and without the contributions in the middle that are too many.

    The first and the last ones and everything else stay; a remark says how many are missing.
    """
    cut = [_cut(section, longest) for section in sections]
    said = [place for place, section in enumerate(cut) if isinstance(section, (Entry, Group))]
    first, last = _middle([_size(cut[place]) for place in said], most)
    if first > last:
        return cut
    start, end = said[first], said[last] + 1
    remark = Remark(text=f"{counted(last + 1 - first, 'contribution')} left out here: the run has all of them")
    headings = [section for section in cut[start:end] if isinstance(section, Heading)]
    goes_on = headings[-1:] if end < len(cut) and not isinstance(cut[end], Heading) else []
    results = [section for section in cut[start:end] if isinstance(section, (Card, Output))]
    return [*cut[:start], remark, *goes_on, *results, *cut[end:]]


def shortened(text: str, longest: int) -> str:
    """`text`, cut to a length, which is then said.

    >>> shortened("a" * 2_000, 5)
    'aaaa… (2,000 characters)'
    """
    return text if len(text) <= longest else f"{text[: longest - 1]}… ({len(text):,} characters)"


def _middle(sizes: Sequence[int], most: int) -> tuple[int, int]:
    """The first and the last place of those in the middle without which the others have at most `most` characters."""
    first, last, used, at_front = 0, len(sizes) - 1, 0, True
    while first <= last:
        used += sizes[first if at_front else last]
        if used > most:
            break
        first, last = (first + 1, last) if at_front else (first, last - 1)
        at_front = not at_front
    return first, last


def _size(section: Section) -> int:
    """Characters, with some for what is around them on a page."""
    if not isinstance(section, (Entry, Group)):
        return 0
    facts = section.facts if isinstance(section, Group) else ()
    return len(section.text) + sum(len(fact.text) for fact in facts) + 500 * (1 + len(facts))


def _cut(section: Section, longest: int) -> Section:  # noqa: PLR0911 - one case for each kind
    match section:
        case Entry():
            if len(section.text) <= longest:
                return section
            text = shortened(section.text, longest)
            return replace(section, text=text, quotes=tuple(each for each in section.quotes if each.end < longest))
        case Fact():
            return replace(section, text=shortened(section.text, longest))
        case Group():
            facts = tuple(replace(fact, text=shortened(fact.text, longest)) for fact in section.facts[:_FACTS])
            return replace(section, text=shortened(section.text, longest), facts=facts)
        case Card():
            facts = tuple(replace(fact, text=shortened(fact.text, longest)) for fact in section.facts)
            return replace(section, facts=facts)
        case Output():
            text = section.value if isinstance(section.value, str) else as_json(section.value)
            return section if len(text) <= longest else Output(value=shortened(text, longest))
        case Heading() | Remark():
            return section
        case _:
            assert_never(section)


_FACTS = 200
"""Of one statement."""
