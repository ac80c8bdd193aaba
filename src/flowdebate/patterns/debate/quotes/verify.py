"""Verification of quotes: look up what an argument quotes in the sources of a debate, word for word."""

from __future__ import annotations

import re
from bisect import bisect_left
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from flowdebate._util.text import fold, origins, with_accents
from flowdebate.errors import ConfigurationError
from flowdebate.patterns.debate.quotes.find import find_quotes
from flowdebate.patterns.debate.quotes.schemas import Quote, QuoteStatus, Span, VerifiedQuote

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from flowdebate.patterns.debate.schemas import DebateContributionEntry

__all__ = (
    "Normalised",
    "Quote",
    "QuoteStatus",
    "Span",
    "VerifiedQuote",
    "find_quotes",
    "look_up",
    "normalised",
    "quotes_in",
    "verify_quotes",
)

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Scripts without spaces between words: each character counts as a word."""
_TOKEN = re.compile(
    rf"(?P<word>[{_UNSPACED}]|[^\W\d_](?:\^(?=\d)|'(?=[^\W\d_])|(?![{_UNSPACED}])[^\W_]|[\u0900-\u0963\u0966-\u0dff])*)"
    r"|(?:(?<![^\W_])[-+<>±])?(?:\.(?=\d))?\d+(?:[.,:/'\-]\d+)*[a-z]*"  # a number, with its sign and unit
    r"|[%‰‱$¢£¤¥\u20a0-\u20cf]"
)
_JOINTS = re.compile("['^]")
_ELLIPSIS = re.compile(r"[\[(]\s?(?:…|\.\s?\.\s?\.)\s?[\])]|…|(?<!\.)\.\s?\.\s?\.(?:\s?\.)?(?!\.)")
"""A sign that words were left out: … or three or four points, in brackets or not."""
_CASE_CHANGED = re.compile(r"\[([^\W\d_])\](?=[^\W\d_])")
"""A letter whose case was changed: "[t]he"."""
_THUS = re.compile(r"\[sic!?\]", re.IGNORECASE)
_WHERE = "verify_quotes()"
_FEWEST = 2


class Normalised(NamedTuple):
    """A text as it is compared: letters without spaces and punctuation, numbers and currency signs between spaces."""

    text: str
    starts: list[int]
    """Where each word begins in `text`."""
    spans: list[tuple[int, int]]
    """The place of each word in the original."""
    words: list[str]

    def find(self, part: str, begin: int = 0) -> tuple[int, int] | None:
        """The first and the end of the words that are `part`, not before `begin` in `text`; None where none are."""
        while (place := self.text.find(part, begin)) >= 0:
            first, last = bisect_left(self.starts, place), bisect_left(self.starts, place + len(part))
            end = self.starts[last] if last < len(self.starts) else len(self.text)
            if self.starts[first] == place and end == place + len(part):
                return first, last
            begin = max(self.starts[first], place + 1)
        return None


def normalised(text: str) -> Normalised:
    """Normalise `text` (NFKC, casefolded), with the place of each of its words.

    >>> normalised("It cost “1.5\u00a0Mio” in well-known ti\u00admes.").text
    'itcost 1.5 mioinwellknowntimes'
    """
    low, places = fold(text), origins(text)
    pieces, starts, spans, words, length = [], [], [], [], 0
    for match in _TOKEN.finditer(low):
        piece = f" {match[0]} " if match["word"] is None else _JOINTS.sub("", match[0])
        pieces.append(piece)
        words.append(match[0])
        starts.append(length)
        length += len(piece)
        start, end = match.span()
        spans.append((start, end) if places is None else (places[start], with_accents(text, places[end - 1] + 1)))
    return Normalised("".join(pieces), starts, spans, words)


_source = lru_cache(maxsize=32)(normalised)  # a debate looks up every argument in the same few


def verify_quotes(
    text: str, sources: Mapping[str, str], *, min_words: int = 3, min_characters: int = 10
) -> list[VerifiedQuote]:
    r"""Look up each quotation in `text` (see `find_quotes`) in `sources`, texts by name; in order.

    - "verified": the first source that has it, and the half-open places in it. Case, accents, spacing, line breaks,
      hyphens, punctuation, ligatures and invisible characters do not matter; letters and their order, numbers (1.5 is
      not 15), their signs, per cent and currencies do. An ellipsis stands for any words of the source: the parts
      around it must stand in one source, in their order.
    - "too_short": it, or a part between ellipses, has less than `min_words` words or `min_characters` characters.
    - "unverified": all else.

    ConfigurationError for a minimum below two words.

    >>> report = {"report": "Rents rose by 15% in May, and fell by 2% in June."}
    >>> [found] = verify_quotes("They “ROSE by\n15% … fell by 2%”, it says.", report)
    >>> found.status, [report["report"][span.start : span.end] for span in found.spans]
    ('verified', ['rose by 15%', 'fell by 2%'])
    """
    if isinstance(min_words, bool) or not isinstance(min_words, int) or min_words < _FEWEST:
        raise ConfigurationError(_WHERE, "min_words", min_words, f"an int >= {_FEWEST} (one word is no quote)")
    if isinstance(min_characters, bool) or not isinstance(min_characters, int) or min_characters < 1:
        raise ConfigurationError(_WHERE, "min_characters", min_characters, "an int >= 1")
    for name, source in sources.items():
        if not isinstance(source, str):
            raise ConfigurationError(_WHERE, f"sources[{name!r}]", source, "text")
    verified = []
    for quote in find_quotes(text):
        parts = _parts(quote.text)
        if not parts or any(_is_short(part, min_words, min_characters) for part in parts):
            verified.append(_verified(quote, "too_short"))
            continue
        places = ((name, _spans(parts, _source(source))) for name, source in sources.items())
        first = next(((name, spans) for name, spans in places if spans), None)
        verified.append(_verified(quote, "unverified") if first is None else _verified(quote, "verified", *first))
    return verified


def _parts(quote: str) -> list[Normalised]:
    """The quoted words: in one part, or in those around its ellipses."""
    plain = _CASE_CHANGED.sub(r"\1", _THUS.sub(" ", quote))
    return [part for part in map(normalised, _ELLIPSIS.split(plain)) if part.words]


def _is_short(part: Normalised, min_words: int, min_characters: int) -> bool:
    words = sum(any(map(str.isalnum, word)) for word in part.words)
    return words < min_words or len(" ".join(part.words)) < min_characters


def _spans(parts: list[Normalised], source: Normalised) -> tuple[Span, ...]:
    """The places of all `parts` in `source`, one after the other; nothing where one of them is missing."""
    spans = []
    begin = 0
    for part in parts:
        found = source.find(part.text, begin)
        if found is None:
            return ()
        first, end = found
        spans.append(Span(start=source.spans[first][0], end=source.spans[end - 1][1]))
        begin = source.starts[first] + len(part.text)
    return tuple(spans)


def _verified(
    quote: Quote, status: QuoteStatus, source: str | None = None, spans: tuple[Span, ...] = ()
) -> VerifiedQuote:
    return VerifiedQuote.model_construct(  # as in `find_quotes`
        start=quote.start,
        end=quote.end,
        text=quote.text,
        depth=quote.depth,
        status=status,
        source=source,
        spans=spans,
    )


def quotes_in(entries: Iterable[DebateContributionEntry], sources: Mapping[str, str]) -> list[list[VerifiedQuote]]:
    """The quotes of each entry, looked up in `sources`."""
    return [list(look_up(entry.text, tuple(sources.items()))) for entry in entries]


@lru_cache(maxsize=256)
def look_up(text: str, sources: tuple[tuple[str, str], ...]) -> tuple[VerifiedQuote, ...]:
    """The quotes of one argument, cached: each judge view shows it again."""
    return tuple(verify_quotes(text, dict(sources)))
