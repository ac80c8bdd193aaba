"""Search for passages that match a question, and word-for-word verification of quotes against the sources."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from flowdebate._text import fold, origins, with_accents
from flowdebate._util.validation import check_count
from flowdebate._util.wire import WireModel
from flowdebate.errors import ConfigurationError
from flowdebate.prompts import ESCAPE, PAIRS, unescaped
from flowdebate.sources.source import Line, number_lines

if TYPE_CHECKING:
    from flowdebate.sources.source import Source

_MAX_LENGTH = 1_200
"""Maximum length of a passage in characters: about 300 tokens, or a paragraph or two."""


class Passage(WireModel):
    """Passage from a source: its text is the source's `text[start:end]`."""

    source: str
    start: int
    end: int
    page: str | None = None
    """Name of the page containing the passage; None if the source has no pages."""


def find_passages(
    sources: tuple[Source, ...], queries: Sequence[str], characters: int, *, share: tuple[int, int] = (0, 1)
) -> list[Passage]:
    """Find the passages that best match all `queries`, up to `characters` in total, in source order.

    `share` consists of the reader's 0-based index and the number of readers. Half of the space is filled with the same
    passages for all readers; the other half contains different passages for each reader, selected from the next best.
    Adjacent passages in a source are merged.

    Raises ConfigurationError if the `flowdebate[documents]` extra is not installed.
    """
    passages, index = _index(sources)
    scores = [0.0] * len(passages)
    for words in filter(None, _tokens([*queries])):
        weights = index.get_scores(words)
        highest = max(weights) or 1.0  # normalize: a long query scores higher, but must not carry more weight
        scores = [score + float(weight / highest) for score, weight in zip(scores, weights, strict=True)]
    ranked = sorted(range(len(passages)), key=lambda place: (-scores[place], place))
    sizes = [passage.end - passage.start for passage in passages]
    number, readers = share
    best = _fill(ranked, sizes, characters if readers == 1 else characters // 2)
    rest = [place for place in ranked if place not in best]
    for places in (rest[number::readers], rest):  # use other readers' passages only to fill the remaining space
        room = characters - sum(sizes[place] for place in best)
        best |= _fill([place for place in places if place not in best], sizes, room)
    matches: list[Passage] = []
    for place in sorted(best):
        _append(matches, passages[place])
    return matches


def _fill(ranked: Sequence[int], sizes: Sequence[int], room: int) -> set[int]:
    """Choose the best passages in `ranked` that fit into `room`, skipping any that exceed the remaining space."""
    places = set[int]()
    for place in ranked:
        if sizes[place] <= room:
            places.add(place)
            room -= sizes[place]
    return places


def _append(passages: list[Passage], passage: Passage) -> None:
    """Append a passage to a list, or extend the list's last passage if the new one continues it."""
    last = passages[-1] if passages else None
    if last is not None and (last.source, last.page, last.end) == (passage.source, passage.page, passage.start):
        passages[-1] = last.model_copy(update={"end": passage.end})
    else:
        passages.append(passage)


@lru_cache(maxsize=8)
def divide(sources: tuple[Source, ...], characters: int) -> tuple[tuple[Passage, ...], ...]:
    """Divide the text of all sources, in order, into parts of at most `characters` characters.

    A source is split only if it is too long for one part, and then at the end of a paragraph, line, sentence or word.

    >>> from flowdebate.sources.source import Source
    >>> parts = divide((Source.of("a", "x" * 60), Source.of("b", "y" * 60)), 100)
    >>> [[(passage.source, passage.end) for passage in part] for part in parts]
    [[('a', 60)], [('b', 60)]]
    """
    parts: list[list[Passage]] = [[]]
    room = characters
    for source in sources:
        passages = list(cut(source))
        size = sum(passage.end - passage.start for passage in passages)
        if room < min(size, characters) and parts[-1]:
            parts.append([])
            room = characters
        for passage in passages:
            length = passage.end - passage.start
            if length > room and parts[-1]:
                parts.append([])
                room = characters
            room -= length
            _append(parts[-1], passage)
    return tuple(map(tuple, filter(None, parts)))


@lru_cache(maxsize=8)
def _index(sources: tuple[Source, ...]) -> tuple[list[Passage], Any]:
    try:
        from bm25s import BM25
    except ImportError:
        message = (
            "The sources are too long for the prompts. To send the passages that fit each prompt: "
            'pip install "flowdebate[documents]"'
        )
        raise ConfigurationError("prompts", "sources", None, message=message) from None
    passages = [passage for source in sources for passage in cut(source)]
    texts = {source.name: source.text for source in sources}
    index = BM25()
    tokens = _tokens([texts[passage.source][passage.start : passage.end] for passage in passages])
    index.index([words or [""] for words in tokens], show_progress=False)
    return passages, index


def _tokens(texts: list[str]) -> list[list[str]]:
    from bm25s import tokenize

    # index a hyphenated word both as a whole and by its parts
    joined = [re.sub(r"(\w+)-\n(\w+)", r"\1-\n\2 \1\2", text) for text in texts]
    tokens: list[list[str]] = tokenize(joined, stopwords=None, return_ids=False, show_progress=False)
    return tokens


def cut(source: Source) -> Iterator[Passage]:
    """Cut a source's text into passages, at page ends and, if possible, at ends of paragraphs, lines or sentences."""
    begins = [0, *(page.start for page in source.pages if page.start)]
    for begin, stop in zip(begins, [*begins[1:], len(source.text)], strict=True):
        start = begin
        while start < stop:
            end = min(start + _MAX_LENGTH, stop)
            if end < stop:
                # break at the last paragraph end in the second half, or else at a line, sentence or word end
                signs = ("\n\n", "\n", ". ", " ")
                ends = (source.text.rfind(sign, start + _MAX_LENGTH // 2, end) + len(sign) for sign in signs)
                end = next((place for place in ends if place > start + _MAX_LENGTH // 2), end)
            if source.text[start:end].strip():
                yield Passage(source=source.name, start=start, end=end, page=source.page_at(start))
            start = end


QuoteStatus = Literal["verified", "unverified", "too_short"]
"""Status of a quote: found in a source, found in no source, or too short to prove anything."""


class Span(WireModel):
    """Half-open range of character offsets in a string: `text[start:end]`."""

    start: Annotated[int, Field(ge=0)]
    end: Annotated[int, Field(ge=0)]


class Quote(Span):
    """A quotation in an argument, and the offsets of the quoted words without the quotation marks."""

    text: str
    """Quoted words, exactly as written."""
    depth: Annotated[int, Field(ge=0)] = 0
    """Number of quotations in which this one is nested."""


class VerifiedQuote(Quote):
    """A quotation and the result of looking it up in the sources."""

    status: QuoteStatus
    source: str | None = None
    """Name of the source that contains the quote; None if no source does."""
    spans: tuple[Span, ...] = ()
    """Spans of the quote in the source: one for each passage between ellipses, running from its first word
    to its last.
    """
    page: str | None = Field(default=None, exclude_if=lambda page: page is None)
    """Page on which the quote begins, for example "page 12"; None (and omitted from JSON) if the source has
    no pages.
    """


# Quotations in text

_DEEPEST = 2  # maximum nesting depth of quotations; deeper ones are omitted
_MAX_OPEN_MARKS = 16  # maximum number of open marks, because text made up entirely of marks would take quadratic time

# Closing marks, keyed by opening mark.
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
# Compiled on first use, like `_TOKEN`: together they take 11 ms to compile, and most debates have no sources.
_MARK = f"[{''.join(dict.fromkeys([*_CLOSED_BY, *''.join(_CLOSED_BY.values())]))}]"
_OPENS = frozenset("“‟„«\u2039\u201a\u2018「『❝〝")  # these also open a quotation before a space or right after a word
_CLOSES = frozenset("”»\u203a」』❞〞〟")  # these also close a quotation after a space
_SINGLE = frozenset("'\u2018\u2019")
_APOSTROPHE = re.compile(
    r"(?<=[^\W_])['\u2018\u2019](?=[^\W_])"
    r"|['\u2018\u2019](?=(?:\d\ds?|tis|twas|em|til|till|cause|bout|n)\b)"  # apostrophes: the '90s, 'tis
    r"|(?<=[sxz])['\u2019](?= [^'\u2018\u2019]{0,300}['\u2019](?!\w))",  # possessives: 'the workers' rights'
    re.IGNORECASE,
)
_BLOCK = re.compile(r"^[ ]{0,3}>[^\r\n]*(?:\r?\n[ ]{0,3}>[^\r\n]*)*", re.MULTILINE)
_BLOCK_START = re.compile(r"[ >\t]*")
# The last line of a block quote, naming the author.
_BY_WHOM = re.compile(r"\r?\n[ \t>]*(?:[\u2014\u2013\u2015]|--)[^\r\n]*\Z")

# Scripts without spaces between words: each character counts as a word.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_TOKEN = (
    rf"(?P<word>[{_UNSPACED}]|[^\W\d_](?:\^(?=\d)|'(?=[^\W\d_])|(?![{_UNSPACED}])[^\W_]|[\u0900-\u0963\u0966-\u0dff])*)"
    r"|(?:(?<![^\W_])[-+<>±])?(?:\.(?=\d))?\d+(?:[.,:/'\-]\d+)*[a-z]*"  # a number with its sign and unit
    r"|[%‰‱$¢£¤¥\u20a0-\u20cf]"
)
# Omitted words: …, or three or four dots, with or without brackets.
_ELLIPSIS = re.compile(r"[\[(]\s?(?:…|\.\s?\.\s?\.)\s?[\])]|…|(?<!\.)\.\s?\.\s?\.(?:\s?\.)?(?!\.)")
_CASE_CHANGED = r"\[([^\W\d_])\](?=[^\W\d_])"  # "[t]he": a letter whose case was adapted to the sentence
_MIN_WORDS = 2  # minimum number of words, because any single word occurs in most sources


def find_quotes(text: str) -> list[Quote]:
    r"""Find the quotations in `text`, ordered by their start, so that a quotation precedes those nested in it.

    Straight, curly, „German“, «French», »reversed« and 「Japanese」 quotation marks are recognized, as are single
    quotation marks that are not apostrophes. Block quotes are recognized too: lines beginning with ">", except for a
    last line naming the author. A mark without a counterpart does not start a quote. Quotes nested more than two levels
    deep are omitted.

    >>> [quote.text for quote in find_quotes("It said “we don’t «cut» it”.\n> Rents rose.\n> Twice.")]
    ['we don’t «cut» it', 'cut', 'Rents rose.\n> Twice.']
    """
    spans = sorted({*_marked(text), *_blocks(text)}, key=lambda span: (span[0], -span[1]))
    quotes: list[Quote] = []
    around: list[int] = []
    for start, end in spans:
        while around and around[-1] <= start:
            around.pop()
        if around and end > around[-1]:  # a mark inside a block quote cannot pair with a mark outside it
            continue
        if len(around) <= _DEEPEST:
            # skip validation, which rejects lone surrogates, because models do write them
            quotes.append(Quote.model_construct(start=start, end=end, text=text[start:end], depth=len(around)))
        around.append(end)
    return quotes


def _marked(text: str) -> list[tuple[int, int]]:
    """Return the spans of text between quotation marks."""
    opened: list[int] = []
    spans = []
    for match in re.finditer(_MARK, text):
        place = match.start()
        char, before, after = text[place], text[max(0, place - 1) : place], text[place + 1 : place + 2]
        if char in _SINGLE and _APOSTROPHE.match(text, place):
            continue
        partner = None
        # no quotation ends after a space or at the beginning of a word, and none begins before a space or at the end of
        # a word; marks that can only open, or only close, are exempt
        if char in _CLOSES or (before.strip() and (before.isalnum() or not after.isalnum())):
            partner = next((start for start in reversed(opened) if char in _CLOSED_BY[text[start]]), None)
        follows, free = bool(after.strip()), not before.isalnum()
        if partner is not None:
            spans.append((partner + 1, place))
            del opened[opened.index(partner) :]
        elif char in _CLOSED_BY and ((follows or free) if char in _OPENS else (follows and free)):
            opened = [*opened[1 - _MAX_OPEN_MARKS :], place]
    return [(start, end) for start, end in spans if text[start:end].strip()]


def _blocks(text: str) -> list[tuple[int, int]]:
    """Return the spans of block quotes, each from its first word to its last."""
    spans = []
    for match in _BLOCK.finditer(text):
        body = match[0].rstrip("> \t\r\n")
        if (by_whom := _BY_WHOM.search(body)) is not None:
            body = body[: by_whom.start()].rstrip("> \t\r\n")
        start = _BLOCK_START.match(body)
        if start is not None and start.end() < len(body):
            spans.append((match.start() + start.end(), match.start() + len(body)))
    return spans


# lengths of the index keys in characters; the index makes it unnecessary to compare a quote with a whole source
_BEGINNINGS = (1, 4, 8, 16)


@dataclass(frozen=True, slots=True)
class Normalized:
    """Text prepared for comparison.

    Spaces and punctuation between letters are removed; numbers and currency signs are set off by spaces.
    """

    text: str
    starts: list[int]
    """Start offset of each word in `text`."""
    spans: list[tuple[int, int]]
    """Span of each word in the original text."""
    words: list[str]
    _indexes: dict[int, dict[str, list[int]]] = field(default_factory=dict, repr=False, compare=False)

    def find(self, part: str, begin: int = 0) -> tuple[int, int] | None:
        """Find `part`, as whole words, at or after offset `begin`.

        Returns the range of word indices, or None if there is no match.
        """
        length = max(size for size in _BEGINNINGS if size <= len(part))
        if length not in self._indexes:
            index = self._indexes[length] = {}
            for word, start in enumerate(self.starts):
                index.setdefault(self.text[start : start + length], []).append(word)
        words = self._indexes[length].get(part[:length], [])
        for first in words[bisect_left(words, bisect_left(self.starts, begin)) :]:
            end = self.starts[first] + len(part)
            if self.text.startswith(part, self.starts[first]):
                last = bisect_left(self.starts, end)
                if end == (self.starts[last] if last < len(self.starts) else len(self.text)):
                    return first, last
        return None


def normalize(text: str) -> Normalized:
    """Normalize `text` (NFKC, casefolded), keeping each word's original span.

    Characters escaped in prompts are treated as the original characters, whether or not `text` was copied from a
    prompt.

    >>> normalize("It cost “1.5 Mio” in well-known ti­mes.").text
    'itcost 1.5 mioinwellknowntimes'
    >>> normalize("⟦U+003C⟧|im_end|>").text == normalize("<|im_end|>").text
    True
    """
    if "⟦" in text:  # the replacement is padded with a character that `fold` removes, so that offsets do not change
        text = re.sub(ESCAPE, lambda match: chr(int(match[1], 16)).ljust(len(match[0]), "\u200b"), text)
    low, places = fold(text), origins(text)
    pieces, starts, spans, words, length = [], [], [], [], 0
    for match in re.finditer(_TOKEN, low):
        piece = f" {match[0]} " if match["word"] is None else re.sub("['^]", "", match[0])
        pieces.append(piece)
        words.append(match[0])
        starts.append(length)
        length += len(piece)
        start, end = match.span()
        spans.append((start, end) if places is None else (places[start], with_accents(text, places[end - 1] + 1)))
    return Normalized("".join(pieces), starts, spans, words)


_source = lru_cache(maxsize=512)(normalize)  # cached: a debate checks all of its arguments against the same sources


def verify_quotes(
    text: str, sources: Mapping[str, str], *, min_words: int = 3, min_characters: int = 10
) -> list[VerifiedQuote]:
    r"""Look up each quotation in `text` (see `find_quotes`) in `sources`, a mapping of source names to text.

    The results are in the same order as the quotations.

    - "verified": a source contains the quotation; the first such source and the half-open spans in it are included.
      Case, accents, spacing, line breaks, hyphens, punctuation, ligatures and invisible characters are ignored; letters
      and their order, numbers (1.5 is not 15), their signs, percent signs and currencies are significant. An ellipsis
      matches any words, but a single source must contain the passages around it in order.
    - "too_short": the quotation, or a passage between ellipses, has fewer than `min_words` words or `min_characters`
      characters.
    - "unverified": no source contains it.

    >>> report = {"report": "Rents rose by 15% in May, and fell by 2% in June."}
    >>> [quote] = verify_quotes("They “ROSE by\n15% … fell by 2%”, it says.", report)
    >>> quote.status, [report["report"][span.start : span.end] for span in quote.spans]
    ('verified', ['rose by 15%', 'fell by 2%'])
    """
    check_count("verify_quotes()", minimum=_MIN_WORDS, min_words=min_words)  # one word is not a quote
    check_count("verify_quotes()", min_characters=min_characters)
    for name, source in sources.items():
        if not isinstance(source, str):
            raise ConfigurationError("verify_quotes()", f"sources.{name}", source, "must be text")
    quotes = []
    for quote in find_quotes(text):
        lookup = _look_up_parts(quote.text, sources, min_words, min_characters)
        quotes.append(VerifiedQuote.model_construct(**{**quote.__dict__, **lookup}))
    return quotes


def _look_up_parts(quote: str, sources: Mapping[str, str], min_words: int, min_characters: int) -> dict[str, Any]:
    """Look up the parts of `quote` around its ellipses.

    Returns the status and, if the quote is verified, its source and spans. If the lookup fails, it is repeated with
    dots and brackets taken literally, as in code: `<Row {...props} key={key}>`.
    """
    plain = re.sub(_CASE_CHANGED, r"\1", re.sub(r"(?i)\[sic!?\]", " ", quote))
    parts = [part for part in map(normalize, _ELLIPSIS.split(plain)) if part.words]
    status: QuoteStatus = "too_short"
    if parts and not any(_is_short(part, min_words, min_characters) for part in parts):
        status = "unverified"
        for name, source in sources.items():
            if spans := _find_parts(parts, _source(source)):
                return {"status": "verified", "source": name, "spans": spans}
    if (
        len(quote) <= _MAX_VERBATIM_LENGTH
        and (plain != quote or _ELLIPSIS.search(quote))
        and not _is_short(normalize(quote), min_words, min_characters)
    ):
        for verbatim in dict.fromkeys((quote, unescaped(quote))):
            pattern = re.compile(r"\s+".join(map(re.escape, verbatim.split())))
            for name, source in sources.items():
                if match := pattern.search(source):
                    span = Span(start=match.start(), end=match.end())
                    return {"status": "verified", "source": name, "spans": (span,)}
    return {"status": status}


def _is_short(part: Normalized, min_words: int, min_characters: int) -> bool:
    words = sum(any(map(str.isalnum, word)) for word in part.words)
    return words < min_words or len(" ".join(part.words)) < min_characters


def _find_parts(parts: list[Normalized], source: Normalized) -> tuple[Span, ...]:
    """Find all `parts` in `source`, in order; return no spans if any part is missing."""
    spans, begin = [], 0
    for part in parts:
        match = source.find(part.text, begin)
        if match is None:
            return ()
        first, end = match
        spans.append(Span(start=source.spans[first][0], end=source.spans[end - 1][1]))
        begin = source.starts[first] + len(part.text)
    return tuple(spans)


@lru_cache(maxsize=256)  # cached: all of a judge's views contain the same arguments
def look_up(text: str, sources: tuple[Source, ...]) -> tuple[VerifiedQuote, ...]:
    """Look up the quotes in `text`, and add the page on which each begins."""
    return tuple(_with_page(_as_copied(quote, sources), sources) for quote in verify_quotes(text, _texts(sources)))


@lru_cache(maxsize=256)
def look_up_quote(quote: str, sources: tuple[Source, ...]) -> VerifiedQuote:
    """Look up a `quote` passed without its quotation marks.

    If it is not found as written, the decoration that prompts add is stripped, and the lookup is repeated.
    """
    lookup = _look_up_parts(quote, _texts(sources), _MIN_QUOTE_WORDS, _MIN_QUOTE_LENGTH)
    verified = VerifiedQuote.model_construct(start=0, end=len(quote), text=quote, depth=0, **lookup)
    return _with_page(_as_copied(verified, sources), sources)


def copied_forms(quote: str) -> list[tuple[str, frozenset[int] | None]]:
    r"""Return `quote` itself, followed by versions of it with less and less decoration.

    First the code fence or surrounding marks are removed, then the bars, then the line numbers. Each version is paired
    with the line numbers removed from it (except those of blank lines), or with None if none were removed.

    >>> copied_forms("`  | 4 return x`")[1:]
    [('  | 4 return x', None), ('4 return x', None), ('return x', frozenset({4}))]
    """
    text = quote
    forms: dict[str, frozenset[int] | None] = {quote: None}
    lines = text.strip().split("\n")
    if len(lines) > 1 and lines[0].startswith(_FENCES) and lines[-1].strip() in _FENCES:
        text = "\n".join(lines[1:-1])
    elif (mark := text.strip()[:1]) and len(text.strip()) > 1 and text.strip()[-1] == _AROUND_QUOTE.get(mark):
        text = text.strip()[1:-1]
    forms.setdefault(text, None)
    text = _BARS.sub("", text)
    forms.setdefault(text, None)
    if numbers := _LINE_NUMBER.findall(text):
        forms.setdefault(_LINE_NUMBER.sub("", text), frozenset(int(number) for number, words in numbers if words))
    return [(form, numbers) for form, numbers in forms.items() if form.strip()]


def lines_of(quote: VerifiedQuote, sources: tuple[Source, ...]) -> list[Line]:
    """Return the lines of a source that a verified quote spans, from the quote's first word to its last."""
    source = next((entry for entry in sources if entry.name == quote.source), None)
    if source is None:
        return []
    lines, start, end = number_lines(source), quote.spans[0].start, quote.spans[-1].end
    return [*lines[bisect_right(lines, start, key=_start) - 1 : bisect_left(lines, end, key=_start)]]


_MIN_QUOTE_WORDS, _MIN_QUOTE_LENGTH = 3, 10
_MAX_VERBATIM_LENGTH = 4_000
"""Maximum length, in characters, of a quote whose dots may be read literally; about a hundred lines of code."""
_FENCES = ("```", "~~~")
_AROUND_QUOTE = {**PAIRS, "`": "`", '"': '"', "'": "'"}
_BARS = re.compile(r"^ {0,2}\|(?: |$)", re.MULTILINE)
_LINE_NUMBER = re.compile(r"^[ \t]*L?(\d{1,7})(?:[:|]? |[:|]?$)(?=[ \t]*(\S?))", re.MULTILINE)


def _start(line: Line) -> int:
    return line.start


def _texts(sources: tuple[Source, ...]) -> dict[str, str]:
    return {source.name: source.text for source in sources}


def _as_copied(quote: VerifiedQuote, sources: tuple[Source, ...]) -> VerifiedQuote:
    """Look up an unverified quote again after stripping the decoration that prompts add.

    If this removes line numbers, at least one of them must match a line where the quote is found.
    """
    if quote.status == "verified":
        return quote
    for form, numbers in copied_forms(quote.text)[1:]:
        lookup = _look_up_parts(form, _texts(sources), _MIN_QUOTE_WORDS, _MIN_QUOTE_LENGTH)
        if lookup["status"] == "verified":
            verified = quote.model_copy(update=lookup)
            if numbers is None or numbers & {line.number for line in lines_of(verified, sources)}:
                return verified
    return quote


def _with_page(quote: VerifiedQuote, sources: tuple[Source, ...]) -> VerifiedQuote:
    source = next((entry for entry in sources if entry.name == quote.source), None)
    return quote if source is None else quote.model_copy(update={"page": source.page_at(quote.spans[0].start)})
