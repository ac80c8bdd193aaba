"""Verification of quotes: find the quotations in an argument, and look them up in sources, word for word."""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from flowdebate._util.text import fold, origins, with_accents
from flowdebate._util.validation import check_count
from flowdebate.errors import ConfigurationError
from flowdebate.patterns.debate.quotes.quotes import Quote, Span, VerifiedQuote

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from flowdebate.patterns.debate.schemas import DebateContributionEntry


_DEEPEST = 2
"""The depth down to which nested quotations are found."""
_MOST_OPEN = 16
"""Marks that can be open at the same time; the oldest ones are dropped."""

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
"""Marks that may also open before a space or right after a word."""
_CLOSES = frozenset("”»\u203a」』❞〞〟")
"""Marks that may also close after a space."""
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
"""The last line of a block quote, if it names the author."""

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
"""Omitted words: … or three or four points, in brackets or not."""
_CASE_CHANGED = re.compile(r"\[([^\W\d_])\](?=[^\W\d_])")
"""A letter in changed case: "[t]he"."""
_THUS = re.compile(r"\[sic!?\]", re.IGNORECASE)
_WHERE = "verify_quotes()"
_FEWEST = 2


def find_quotes(text: str) -> list[Quote]:
    r"""Find the quotations in `text` in the order in which they begin, each before those nested in it.

    Recognized are straight, curly, „German“, «French», »reversed« and 「Japanese」 marks, single ones of these styles
    unless they are apostrophes, and block quotes: lines that begin with ">", without a last line that names the author.
    A mark without a counterpart starts no quote. Quotes nested more than two deep are left out.

    >>> [quote.text for quote in find_quotes("It said “we don’t «cut» it”.\n> Rents rose.\n> Twice.")]
    ['we don’t «cut» it', 'cut', 'Rents rose.\n> Twice.']
    """
    spans = sorted({*_marked(text), *_blocks(text)}, key=lambda span: (span[0], -span[1]))
    found: list[Quote] = []
    around: list[int] = []
    for start, end in spans:
        while around and around[-1] <= start:
            around.pop()
        if around and end > around[-1]:  # a mark inside and one outside of a block quote are no pair
            continue
        if len(around) <= _DEEPEST:
            # model_construct: validation refuses texts with half a surrogate pair, which models do write
            found.append(Quote.model_construct(start=start, end=end, text=text[start:end], depth=len(around)))
        around.append(end)
    return found


def _marked(text: str) -> list[tuple[int, int]]:
    """The places of the texts between quotation marks."""
    opened: list[int] = []
    found = []
    for match in _MARK.finditer(text):
        place = match.start()
        char, before, after = text[place], text[max(0, place - 1) : place], text[place + 1 : place + 2]
        if char in _SINGLE and _APOSTROPHE.match(text, place):
            continue
        partner = None
        if _may_close(char, before, after):
            partner = next((start for start in reversed(opened) if char in _CLOSED_BY[text[start]]), None)
        if partner is not None:
            found.append((partner + 1, place))
            del opened[opened.index(partner) :]
        elif char in _CLOSED_BY and _may_open(char, before, after):
            opened = [*opened[1 - _MOST_OPEN :], place]
    return [(start, end) for start, end in found if text[start:end].strip()]


def _may_open(char: str, before: str, after: str) -> bool:
    """Whether a quotation can begin at `char`: not at the end of a word, and not before a space."""
    follows, free = bool(after.strip()), not before.isalnum()
    return (follows or free) if char in _OPENS else (follows and free)


def _may_close(char: str, before: str, after: str) -> bool:
    """Whether a quotation can end at `char`: not after a space, and not at the beginning of a word."""
    return char in _CLOSES or (bool(before.strip()) and (before.isalnum() or not after.isalnum()))


def _blocks(text: str) -> list[tuple[int, int]]:
    """The places of block quotes, from the first word to the last."""
    found = []
    for match in _BLOCK.finditer(text):
        body = match[0].rstrip("> \t\r\n")
        if (by_whom := _BY_WHOM.search(body)) is not None:
            body = body[: by_whom.start()].rstrip("> \t\r\n")
        start = _BLOCK_START.match(body)
        if start is not None and start.end() < len(body):
            found.append((match.start() + start.end(), match.start() + len(body)))
    return found


_BEGINNINGS = (1, 4, 8, 16)
"""Lengths of the beginnings by which a quote's places in a source are found."""


@dataclass(frozen=True, slots=True)
class Normalised:
    """A text for comparison: letters without spaces and punctuation, numbers and currency signs between spaces."""

    text: str
    starts: list[int]
    """The place of each word in `text`."""
    spans: list[tuple[int, int]]
    """The place of each word in the original."""
    words: list[str]
    _indexes: dict[int, dict[str, list[int]]] = field(default_factory=dict, repr=False, compare=False)

    def find(self, part: str, begin: int = 0) -> tuple[int, int] | None:
        """The first and the end of the words that equal `part`, at or after `begin` in `text`; None without any."""
        length = max(one for one in _BEGINNINGS if one <= len(part))
        words = self._words_by_beginning(length).get(part[:length], [])
        for first in words[bisect_left(words, bisect_left(self.starts, begin)) :]:
            end = self.starts[first] + len(part)
            if self.text.startswith(part, self.starts[first]):
                last = bisect_left(self.starts, end)
                if end == (self.starts[last] if last < len(self.starts) else len(self.text)):
                    return first, last
        return None

    def _words_by_beginning(self, length: int) -> dict[str, list[int]]:
        """The words by the characters that begin there: a quote is not compared with the whole text."""
        if length not in self._indexes:
            index: dict[str, list[int]] = {}
            for word, start in enumerate(self.starts):
                index.setdefault(self.text[start : start + length], []).append(word)
            self._indexes[length] = index
        return self._indexes[length]


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


_source = lru_cache(maxsize=32)(normalised)  # a debate looks up all arguments in the same sources


def verify_quotes(
    text: str, sources: Mapping[str, str], *, min_words: int = 3, min_characters: int = 10
) -> list[VerifiedQuote]:
    r"""Look up each quotation in `text` (see `find_quotes`) in `sources`, texts by name; in order.

    - "verified": with the first source that contains it, and its half-open places there. Case, accents, spacing, line
      breaks, hyphens, punctuation, ligatures and invisible characters are ignored; letters and their order, numbers
      (1.5 is not 15), their signs, per cent and currencies are significant. An ellipsis replaces any words: one source
      must contain the parts around it in order.
    - "too_short": it, or a part between ellipses, has fewer than `min_words` words or `min_characters` characters.
    - "unverified": no source contains it.

    >>> report = {"report": "Rents rose by 15% in May, and fell by 2% in June."}
    >>> [found] = verify_quotes("They “ROSE by\n15% … fell by 2%”, it says.", report)
    >>> found.status, [report["report"][span.start : span.end] for span in found.spans]
    ('verified', ['rose by 15%', 'fell by 2%'])
    """
    if isinstance(min_words, bool) or not isinstance(min_words, int) or min_words < _FEWEST:
        raise ConfigurationError(_WHERE, "min_words", min_words, f"an int >= {_FEWEST} (one word is no quote)")
    check_count(_WHERE, min_characters=min_characters)
    for name, source in sources.items():
        if not isinstance(source, str):
            raise ConfigurationError(_WHERE, f"sources[{name!r}]", source, "text")
    return [
        VerifiedQuote.model_construct(**{**quote.__dict__, **_found(quote.text, sources, min_words, min_characters)})
        for quote in find_quotes(text)
    ]


def _found(quote: str, sources: Mapping[str, str], min_words: int, min_characters: int) -> dict[str, Any]:
    """The status of `quote`; if it is verified, also its source and the places there."""
    parts = _parts(quote)
    if not parts or any(_is_short(part, min_words, min_characters) for part in parts):
        return {"status": "too_short"}
    for name, source in sources.items():
        if spans := _spans(parts, _source(source)):
            return {"status": "verified", "source": name, "spans": spans}
    return {"status": "unverified"}


def _parts(quote: str) -> list[Normalised]:
    """The parts of a quote around its ellipses."""
    plain = _CASE_CHANGED.sub(r"\1", _THUS.sub(" ", quote))
    return [part for part in map(normalised, _ELLIPSIS.split(plain)) if part.words]


def _is_short(part: Normalised, min_words: int, min_characters: int) -> bool:
    words = sum(any(map(str.isalnum, word)) for word in part.words)
    return words < min_words or len(" ".join(part.words)) < min_characters


def _spans(parts: list[Normalised], source: Normalised) -> tuple[Span, ...]:
    """The places of all `parts` in `source`, in order; empty if one is missing."""
    spans, begin = [], 0
    for part in parts:
        found = source.find(part.text, begin)
        if found is None:
            return ()
        first, end = found
        spans.append(Span(start=source.spans[first][0], end=source.spans[end - 1][1]))
        begin = source.starts[first] + len(part.text)
    return tuple(spans)


def quotes_in(entries: Iterable[DebateContributionEntry], sources: Mapping[str, str]) -> list[list[VerifiedQuote]]:
    """The verified quotes of each entry."""
    return [list(look_up(entry.text, tuple(sources.items()))) for entry in entries]


@lru_cache(maxsize=256)
def look_up(text: str, sources: tuple[tuple[str, str], ...]) -> tuple[VerifiedQuote, ...]:
    """The verified quotes of one argument, cached for the judge's other views."""
    return tuple(verify_quotes(text, dict(sources)))
