"""Quotes in arguments and the sources they are looked up in, as data."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from flowdebate._util.wire import WireModel
from flowdebate.errors import ConfigurationError

__all__ = (
    "Quote",
    "QuoteStatus",
    "Span",
    "VerifiedQuote",
    "check_sources",
)

QuoteStatus = Literal["verified", "unverified", "too_short"]
"""The words stand in a source; they stand in none; they are too few to tell anything."""


class Span(WireModel):
    """A place in a text: half-open offsets in characters, so that `text[start:end]` is what stands there."""

    start: Annotated[int, Field(ge=0)]
    end: Annotated[int, Field(ge=0)]


class Quote(Span):
    """A quotation in an argument; its offsets are those of the quoted words, without the marks around them."""

    text: str
    """The quoted words, as the argument has them."""
    depth: Annotated[int, Field(ge=0)] = 0
    """How many quotations it stands in."""


class VerifiedQuote(Quote):
    """A quotation, and the result of looking it up."""

    status: QuoteStatus
    source: str | None = None
    """The name of the source that has it; None where none does."""
    spans: tuple[Span, ...] = ()
    """Where it stands in the source, from its first to its last word: one place, or one for each part between
    ellipses; empty where no source has it."""


def check_sources(sources: object, *, where: str) -> dict[str, str] | None:
    """`sources` as a dict, or None; ConfigurationError unless they are texts by name."""
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
