"""Quotes in arguments: their data, and the check of a debate's sources."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from flowdebate._util.wire import WireModel
from flowdebate.errors import ConfigurationError

QuoteStatus = Literal["verified", "unverified", "too_short"]
"""A source contains the words; no source does; they are too few to prove anything."""


class Span(WireModel):
    """A place in a text, `text[start:end]`: half-open offsets in characters."""

    start: Annotated[int, Field(ge=0)]
    end: Annotated[int, Field(ge=0)]


class Quote(Span):
    """A quotation in an argument, with the offsets of its words, without the quotation marks."""

    text: str
    """The quoted words as written."""
    depth: Annotated[int, Field(ge=0)] = 0
    """The number of quotes around it."""


class VerifiedQuote(Quote):
    """A quotation with the result of its lookup."""

    status: QuoteStatus
    source: str | None = None
    """The name of the source that contains it; None without one."""
    spans: tuple[Span, ...] = ()
    """Its places in the source, from the first word to the last: one for each part between ellipses."""


def check_sources(sources: object, *, where: str) -> dict[str, str] | None:
    """Return `sources` as a dict, or None; ConfigurationError unless they are texts by name."""
    if sources is None:
        return None
    items = getattr(sources, "items", None)
    allowed = "texts by name: a dict of str to str, neither blank; or None"
    if items is None:
        raise ConfigurationError(where, "sources", sources, allowed)
    found = dict(items())
    for name, text in found.items():
        if not isinstance(name, str) or not name.strip() or not isinstance(text, str) or not text.strip():
            raise ConfigurationError(where, f"sources[{name!r}]", text, allowed)
    return found
