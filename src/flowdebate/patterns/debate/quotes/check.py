"""Quotes in arguments, looked up in the sources of a debate."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from flowdebate.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from flowdebate.patterns.debate.quotes.schemas import VerifiedQuote
    from flowdebate.patterns.debate.schemas import DebateContributionEntry

__all__ = (
    "check_sources",
    "quotes_in",
    "quotes_line",
)


def check_sources(sources: object, *, where: str) -> dict[str, str] | None:
    """`sources` as a dict; ConfigurationError for what are no texts by name. None for none."""
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


def quotes_in(entries: Iterable[DebateContributionEntry], sources: Mapping[str, str]) -> list[list[VerifiedQuote]]:
    """The quotes of each entry, looked up in `sources`."""
    look_up = _look_up(tuple(sources.items()))
    return [list(look_up(entry.text)) for entry in entries]


def quotes_line(sources: Mapping[str, str]) -> Callable[[DebateContributionEntry], str]:
    """What gives the line below an entry that says which of its quotes were found."""
    from flowdebate.patterns.debate.quotes.prompt import render_quotes

    items = tuple(sources.items())
    return lambda entry: render_quotes(_look_up(items)(entry.text))


@lru_cache(maxsize=16)  # read once for all runs of a debate
def _look_up(sources: tuple[tuple[str, str], ...]) -> Callable[[str], tuple[VerifiedQuote, ...]]:
    from flowdebate.patterns.debate.quotes.verify import Sources, verify_quotes

    read = Sources(dict(sources))
    return lru_cache(maxsize=256)(lambda text: tuple(verify_quotes(text, read)))
