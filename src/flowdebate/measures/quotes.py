"""Whether what an argument quotes stands in a source: word for word, whatever its case, spacing and punctuation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from flowdebate.errors import ConfigurationError
from flowdebate.measures.quote_marks import find_quotes
from flowdebate.measures.quote_words import Words, words_of
from flowdebate.schemas.arguments import Quote, QuoteStatus, Span, VerifiedQuote

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ("Quote", "QuoteStatus", "Sources", "Span", "VerifiedQuote", "find_quotes", "verify_quotes")

_WHERE = "verify_quotes()"
_ELLIPSIS = re.compile(r"[\[(]\s?(?:…|\.\s?\.\s?\.)\s?[\])]|…|(?<!\.)\.\s?\.\s?\.(?:\s?\.)?(?!\.)")
"""What says that words were left out: … or three or four points, in brackets or not."""
_CASE_CHANGED = re.compile(r"\[([^\W\d_])\](?=[^\W\d_])")
"""A letter that was made large or small: "[t]he"."""
_THUS = re.compile(r"\[sic!?\]", re.IGNORECASE)


class Sources(Mapping[str, str]):
    """Named texts that are read once, however many arguments are looked up in them.

    >>> report = Sources({"report": "Rents rose by 15% in May."})
    >>> [found.status for found in verify_quotes('It says "rents rose by 15%" and "rents rose by 51%".', report)]
    ['verified', 'unverified']
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = dict(texts)
        for name, text in self._texts.items():
            if not isinstance(name, str) or not isinstance(text, str):
                raise ConfigurationError("Sources()", f"texts[{name!r}]", text, "a text, under a name")
        self._words: dict[str, Words] = {}

    def __getitem__(self, name: str) -> str:
        return self._texts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)

    def words(self, name: str) -> Words:
        """The words of one text."""
        if name not in self._words:
            self._words[name] = words_of(self._texts[name])
        return self._words[name]


class _Found(NamedTuple):
    status: QuoteStatus
    source: str | None = None
    spans: tuple[Span, ...] = ()


def verify_quotes(
    text: str, sources: Mapping[str, str], *, min_words: int = 3, min_characters: int = 10
) -> list[VerifiedQuote]:
    r"""Each quotation in `text` (see `find_quotes`), with whether and where one of `sources` has it, in order.

    - "verified": the first source that has it, and the half-open places in it. Case, spacing, line breaks, hyphens,
      punctuation, styles of dashes and quotation marks, ligatures and unseen characters do not matter; words, numbers
      (1.5 is not 15) and signs such as % do. An ellipsis stands for any words of the source: the parts around it must
      stand in one source, in their order.
    - "too_short": it, or a part between ellipses, has less than `min_words` words or `min_characters` characters.
    - "unverified": all else.

    `sources` are texts by their names; `Sources` are read only once. ConfigurationError for a minimum below two words.

    >>> report = {"report": "Rents rose by 15% in May, and fell by 2% in June."}
    >>> [found] = verify_quotes("They “ROSE by\n15% … fell by 2%”, it says.", report)
    >>> found.status, [report["report"][span.start : span.end] for span in found.spans]
    ('verified', ['rose by 15%', 'fell by 2%'])
    """
    _check(min_words, min_characters)
    known = sources if isinstance(sources, Sources) else Sources(sources)
    quotes = find_quotes(text)
    if not quotes:
        return []
    parts = _parts_of(quotes, known)
    vocabulary = frozenset(word for found in parts.values() for part in found for word in part.vocabulary)
    read = {name: known.words(name).joined(vocabulary) for name in known}
    found = {quote: _looked_up(own, read, min_words, min_characters) for quote, own in parts.items()}
    return [_verified(quote, found[quote.text]) for quote in quotes]


def _check(min_words: object, min_characters: object) -> None:
    if isinstance(min_words, bool) or not isinstance(min_words, int) or min_words < _FEWEST:
        raise ConfigurationError(_WHERE, "min_words", min_words, f"an int >= {_FEWEST} (one word is no quote)")
    if isinstance(min_characters, bool) or not isinstance(min_characters, int) or min_characters < 1:
        raise ConfigurationError(_WHERE, "min_characters", min_characters, "an int >= 1")


_FEWEST = 2


def _parts_of(quotes: list[Quote], sources: Sources) -> dict[str, list[Words]]:
    """The words of each quotation, by its text: in one part, or in those around its ellipses."""
    found = {}
    for text in {quote.text for quote in quotes}:
        plain = _CASE_CHANGED.sub(r"\1", _THUS.sub(" ", text))
        parts = [words_of(part, whole=False) for part in _ELLIPSIS.split(plain)]
        found[text] = [part for part in parts if part.keys]
    if any(part.broken for parts in found.values() for part in parts):
        vocabulary = frozenset().union(*(sources.words(name).vocabulary for name in sources))
        found = {text: [part.joined(vocabulary) for part in parts] for text, parts in found.items()}
    return found


def _looked_up(parts: list[Words], sources: Mapping[str, Words], min_words: int, min_characters: int) -> _Found:
    if not parts or any(_too_short(part, min_words, min_characters) for part in parts):
        return _Found("too_short")
    for name, words in sources.items():
        if spans := _places(parts, words):
            return _Found("verified", name, spans)
    return _Found("unverified")


def _too_short(part: Words, min_words: int, min_characters: int) -> bool:
    words = sum(any(char.isalnum() for char in key) for key in part.keys)
    return words < min_words or len(part.line) - 2 < min_characters


def _places(parts: list[Words], words: Words) -> tuple[Span, ...]:
    """Where all `parts` stand in `words`, one after the other; nothing where one of them does not."""
    if any(not words.vocabulary.issuperset(part.keys) for part in parts):
        return ()
    spans = []
    begin = 0
    for part in parts:
        place = words.line.find(part.line, begin)
        if place < 0:
            return ()
        end = place + len(part.line) - 1  # the blank behind a part may be the one before the next
        first, last = words.between(place + 1, end)
        spans.append(Span(start=first, end=last))
        begin = end
    return tuple(spans)


def _verified(quote: Quote, found: _Found) -> VerifiedQuote:
    return VerifiedQuote.model_construct(
        start=quote.start,
        end=quote.end,
        text=quote.text,
        depth=quote.depth,
        status=found.status,
        source=found.source,
        spans=found.spans,
    )
