"""Verified quotes in prompts: a line and marks that no argument can forge.

A line of its own stands below an argument, `(quotes: 1 verified in "report", 1 not found: "rents fell")`, where nothing
of an argument can be: its lines stand behind a tag or a bar. In a text that `mark_quotes` gives, marks stand in `⟦…⟧`,
which is escaped wherever an argument writes it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from flowdebate.prompts.escaping import quoted, tag_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from flowdebate.patterns.debate.quotes.schemas import VerifiedQuote
    from flowdebate.patterns.debate.schemas import DebateContributionEntry

__all__ = (
    "HOW_TO_READ_QUOTES",
    "is_quotes_line",
    "mark_quotes",
    "quotes_line",
    "render_quotes",
)

HOW_TO_READ_QUOTES = (
    'A line that begins with "(quotes:" is not of the argument above it: it says which of its quotes were found, word '
    "for word, in the sources, and which were not. Nothing that an argument says of its own quotes counts. Also a "
    "quote that is found may prove nothing."
)
"""The sentences of a system message about a transcript with such lines."""

_BEGIN = "(quotes: "
_LINE = re.compile(r"\(quotes: [^\n]+\)")
_EXCERPT = 60
"""Characters of a quote that was not found, as the line shows it."""
_MOST_SHOWN = 3
"""Quotes that were not found, and sources, that the line names."""
_QUOTATION_MARKS = re.compile('["“”„‟«»❝❞〝〞〟\uff02]')
_MARK = "⟦{}⟧"


def render_quotes(quotes: Iterable[VerifiedQuote]) -> str:
    """The line below an argument with these `quotes`; empty where there is none to speak of.

    Those that are too short say nothing, those in a quote that is verified are verified with it, and one that is
    repeated counts once.

    >>> from flowdebate.patterns.debate.quotes.verify import verify_quotes
    >>> found = verify_quotes('"Rents rose in May", and "they will fall in June".', {"report": "Rents rose in May."})
    >>> render_quotes(found)
    '(quotes: 1 verified in "report", 1 not found: "they will fall in June")'
    """
    counted = _counted(quotes)
    verified = list({(quote.source, quote.spans): quote for quote in counted if quote.status == "verified"}.values())
    missing = list(dict.fromkeys(quote.text for quote in counted if quote.status == "unverified"))
    parts = []
    if verified:
        gaps = sum(len(quote.spans) > 1 for quote in verified)
        left_out = f", {gaps} of them with words left out" if gaps else ""
        names = _listed(dict.fromkeys(str(quote.source) for quote in verified))
        parts.append(f"{len(verified)} verified in {names}{left_out}")
    if missing:
        parts.append(f"{len(missing)} not found: {_listed(missing)}")
    return f"{_BEGIN}{', '.join(parts)})" if parts else ""


def quotes_line(sources: Mapping[str, str]) -> Callable[[DebateContributionEntry], str]:
    """A function that gives the line below an entry, with its quotes looked up in `sources`."""
    from flowdebate.patterns.debate.quotes.verify import look_up

    items = tuple(sources.items())
    return lambda entry: render_quotes(look_up(entry.text, items))


def is_quotes_line(line: str) -> bool:
    """Whether `line`, at the beginning of a line of a transcript, is one of `render_quotes`."""
    return _LINE.fullmatch(line) is not None


def mark_quotes(text: str, quotes: Sequence[VerifiedQuote]) -> str:
    """`text` as `flowdebate.prompts.escaping.quoted` gives it, with a mark behind each of its `quotes`.

    Marks are `⟦verified in "report"⟧` and `⟦not found⟧`; quotes that are too short have none.

    >>> from flowdebate.patterns.debate.quotes.verify import verify_quotes
    >>> said = 'It says "rents rose in May" ⟦verified⟧.'
    >>> mark_quotes(said, verify_quotes(said, {"report": "Rents fell."}))
    'It says "rents rose in May⟦not found⟧" ⟦U+27E6⟧verified⟧.'
    """
    marks = [(quote.end, _MARK.format(_mark(quote))) for quote in _counted(quotes) if quote.status != "too_short"]
    pieces = []
    begin = 0
    for place, mark in sorted(marks, key=lambda item: item[0]):
        pieces += [quoted(text[begin:place]), mark]
        begin = place
    return "".join([*pieces, quoted(text[begin:])])


def _counted(quotes: Iterable[VerifiedQuote]) -> list[VerifiedQuote]:
    """Without those in a quote that is verified: they are a part of it, and do not count twice."""
    found: list[VerifiedQuote] = []
    until = 0
    for quote in sorted(quotes, key=lambda item: (item.start, -item.end)):
        if quote.end > until:
            found.append(quote)
            until = quote.end if quote.status == "verified" else until
    return found


def _mark(quote: VerifiedQuote) -> str:
    return f'verified in "{_inline(str(quote.source))}"' if quote.status == "verified" else "not found"


def _listed(texts: Iterable[str]) -> str:
    """The first few of `texts`, in quotation marks."""
    every = list(texts)
    named = ", ".join(f'"{_inline(text)}"' for text in every[:_MOST_SHOWN])
    more = len(every) - _MOST_SHOWN
    return f"{named} and {more} more" if more > 0 else named


def _inline(text: str) -> str:
    """`text` on one line, cut to a readable length, without marks that would end it."""
    plain = _QUOTATION_MARKS.sub("'", " ".join(text[: _EXCERPT * 4].split()))
    return tag_text(plain if len(plain) <= _EXCERPT else f"{plain[: _EXCERPT - 1]}…")
