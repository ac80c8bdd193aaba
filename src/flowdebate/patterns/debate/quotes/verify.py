"""Texts as words that can be compared, each with its place: without case, spacing, punctuation and unseen characters.

What tells numbers and words apart is kept: the signs inside a number (1.5, 15-20, 10^6) and before it (-5), and what is
no punctuation (%, $, +, <). A hyphen parts two words, as a blank does.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from flowdebate.errors import ConfigurationError
from flowdebate.patterns.debate.quotes.find import find_quotes
from flowdebate.patterns.debate.quotes.schemas import Quote, QuoteStatus, Span, VerifiedQuote

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

__all__ = (
    "Quote",
    "QuoteStatus",
    "Sources",
    "Span",
    "VerifiedQuote",
    "Words",
    "find_quotes",
    "verify_quotes",
    "words_of",
)

_LETTER, _DIGIT, _MARK, _SINGLE, _OWN, _SIGN, _UNSEEN = "a0mcfsz"
_HYPHENS = "-\u2010\u2011\u2012\u2013\u2212\u00ad\ufe63\uff0d"
_APOSTROPHES = "'\u2019\u2018\u02bc\u00b4\uff07"
_STOPS = ".\u2024\ufe52\uff0e"
_LEADING = "#>+="
"""What begins a line in Markdown; elsewhere a sign like others."""
_NO_SIGNS = "`^~|\u00a8\u00af\u00b8"
"""Symbols that say nothing between words."""
_SPECIAL = (
    {" ": " ", "\n": "\n", "\r": "\n"}
    | dict.fromkeys(_HYPHENS, "-")
    | dict.fromkeys(_APOSTROPHES, "'")
    | dict.fromkeys(_STOPS, ".")
    | dict.fromkeys(_LEADING, "g")
    | dict.fromkeys(_NO_SIGNS, "p")
    | dict.fromkeys("%‰‱&@§\uff05", _SIGN)
)
_NOBODY_SEES = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
"""Letters and marks that are not seen; what is in the categories of `_UNSEEN_CATEGORIES` is not seen either."""
_UNSEEN_CATEGORIES = {"Cc", "Cf"}
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff"
    "\uff66-\uff9f\U00020000-\U0003ffff]"
)
"""Scripts that part no words by blanks: each character is a word."""
_FIGURES = re.compile("[\u25a0-\u25ff]")
"""Squares and triangles: they begin the points of a list."""
_LINE_BREAKS = "\v\f\x1c\x1d\x1e\x85\u2028\u2029"

_TOKEN = re.compile(
    r"(?:(?<![a0mcf.\-])-?\.?(?=0))?"  # the sign of a number, and a point that begins one
    r"[a0](?:[a0m]|(?<=[amf])f)*+(?:'(?=a)[a0m]++|(?<=0)(?:[p.'\-]|-[ ]*+\n[ \ng]*+)(?=0)[a0m]++)*+"
    r"|[cm]m*+|[fsg]"
)
_LINE_START = re.compile(r"(?<=\n)[ g]*g(?!0)")
_TEXT_START = re.compile(r"[ g]*g(?!0)")
_LINE_HYPHEN = re.compile(r"(?<=[am])-[ ]*+\n[ \ng]*+(?=a)")
_SOFT_HYPHEN = re.compile(r"\u00ad(?![ \t]*[\r\n])")
_DASHES = re.compile(f"[{_HYPHENS}]\\s*")
_SAME = str.maketrans(dict.fromkeys(_APOSTROPHES, "'") | dict.fromkeys(_STOPS, ".") | {"\u2044": "/"})


@dataclass(frozen=True, kw_only=True)
class Words:
    """The words of a text, each with the half-open place at which it stands."""

    keys: list[str]
    """What is compared."""
    starts: list[int]
    ends: list[int]
    broken: list[int]
    """Those that a hyphen at the end of a line parts from the next word: they may be one."""

    def joined(self, known: Collection[str]) -> Words:
        """The same, with words that a line's end breaks made one where that one is among `known`."""
        keys: list[str] = []
        starts: list[int] = []
        ends: list[int] = []
        joining = {place + 1 for place in self.broken if self.keys[place] + self.keys[place + 1] in known}
        if not joining:
            return self
        for place, key in enumerate(self.keys):
            if place in joining:
                keys[-1] += key
                ends[-1] = self.ends[place]
            else:
                keys.append(key)
                starts.append(self.starts[place])
                ends.append(self.ends[place])
        return Words(keys=keys, starts=starts, ends=ends, broken=[])

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """All words, also those that may be one."""
        return frozenset(self.keys).union(self.keys[place] + self.keys[place + 1] for place in self.broken)

    @cached_property
    def line(self) -> str:
        """All words, each between blanks, as a text that can be searched."""
        return f" {' '.join(self.keys)} " if self.keys else " "

    @cached_property
    def places(self) -> list[int]:
        """Where in `line` each word begins."""
        return list(accumulate((len(key) + 1 for key in self.keys), initial=1))[:-1]

    def between(self, start: int, end: int) -> tuple[int, int]:
        """Where in the text the words stand that are `line[start:end]`."""
        first = bisect_right(self.places, start) - 1
        last = bisect_right(self.places, end - 1) - 1
        return self.starts[first], self.ends[last]


def words_of(text: str, *, whole: bool = True) -> Words:
    """The words of `text`; a text that is not `whole` is a piece of another, and need not begin a line.

    >>> words_of("It cost “1.5\u00a0Mio”, didn’t it?").keys
    ['it', 'cost', '1.5', 'mio', "didn't", 'it']
    """
    seen, shape, offsets = _visible(text)
    shape = _LINE_START.sub(_blanks, shape)
    if whole:
        shape = _TEXT_START.sub(_blanks, shape, count=1) if _TEXT_START.match(shape) else shape
    keys: list[str] = []
    spans: list[tuple[int, int]] = []
    for match in _TOKEN.finditer(shape):
        for key in _keys(seen[match.start() : match.end()], shape[match.start()]):
            keys.append(key)
            spans.append(match.span())
    ends = [end for _, end in spans]
    after = [bisect_right(ends, match.start()) - 1 for match in _LINE_HYPHEN.finditer(shape)]
    return Words(
        keys=keys,
        starts=[start if offsets is None else offsets[start] for start, _ in spans],
        ends=[end if offsets is None else offsets[end - 1] + 1 for end in ends],
        broken=[place for place in after if place + 1 < len(keys)],
    )


def _visible(text: str) -> tuple[str, str, list[int] | None]:
    """What is seen of `text`, the kind of each of its characters, and where they stand; None where all are seen."""
    shape = text.translate({ord(char): _kind(char) for char in set(text)})
    if "\u00ad" in text:
        kinds = list(shape)
        for match in _SOFT_HYPHEN.finditer(text):
            kinds[match.start()] = _UNSEEN
        shape = "".join(kinds)
    if _UNSEEN not in shape:
        return text, shape, None
    offsets = [place for place, kind in enumerate(shape) if kind != _UNSEEN]
    return "".join(text[place] for place in offsets), shape.replace(_UNSEEN, ""), offsets


@lru_cache(maxsize=4096)  # the same letters stand in every text
def _kind(char: str) -> str:  # noqa: PLR0911 - a table of what characters are
    """What `char` is to `_TOKEN`."""
    if char in _SPECIAL:
        return _SPECIAL[char]
    if char.isspace():
        return "\n" if char in _LINE_BREAKS else " "
    category = unicodedata.category(char)
    if category in _UNSEEN_CATEGORIES or _NOBODY_SEES.match(char):
        return _UNSEEN
    match category[0]:
        case "L":
            return _SINGLE if _UNSPACED.match(char) else _LETTER
        case "M":
            return _MARK
        case "N":
            return {"Nd": _DIGIT, "No": _OWN}.get(category, _LETTER)
        case "P":
            return "p"
        case _:
            return "p" if _FIGURES.match(char) else _SIGN


def _blanks(match: re.Match[str]) -> str:
    return " " * len(match[0])


def _keys(piece: str, kind: str) -> list[str]:
    """What a word is compared by; a single character may stand for several words."""
    if piece.isascii():
        key = piece.lower()
    else:
        folded = unicodedata.normalize("NFKC", piece.translate(_SAME)).casefold()
        key = unicodedata.normalize("NFKC", folded).translate(_SAME)
    if kind == _OWN and key.isdigit():
        return [f"^{key}"]  # 10² is not 102
    return (_DASHES.sub("-", key) if len(key) > 1 else key).split()


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
