"""Passages: sources cut into pieces of a paragraph or two, and those that fit a question best."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from flowdebate._util.wire import WireModel
from flowdebate.errors import ConfigurationError

if TYPE_CHECKING:
    from flowdebate.sources.source import Source


_LONGEST = 1_200
"""Characters of a passage: 300 tokens, a paragraph or two."""
_MOST = 20
"""Passages in a prompt: what is further down the list hardly fits the question."""


class Passage(WireModel):
    """A place in a source: `text[start:end]`."""

    source: str
    start: int
    end: int
    page: str | None = None
    """Its page; None in a source without pages."""


def find_passages(sources: tuple[Source, ...], queries: Sequence[str], characters: int) -> list[Passage]:
    """The passages that fit all `queries` best, of that many `characters` at most, in the order of the sources.

    ConfigurationError where the extra `flowdebate[documents]` is not installed, which searches.
    """
    passages, index = _index(sources)
    scores = [0.0] * len(passages)
    for words in filter(None, _tokens([*queries])):
        found = index.get_scores(words)
        most = max(found) or 1.0  # a long query has higher scores, and counts no more for that
        scores = [score + float(each / most) for score, each in zip(scores, found, strict=True)]
    best: list[int] = []
    room = characters
    for place in sorted(range(len(passages)), key=lambda each: (-scores[each], each)):
        size = passages[place].end - passages[place].start
        if size <= room and len(best) < _MOST:
            best.append(place)
            room -= size
    return [passages[place] for place in sorted(best)]


@lru_cache(maxsize=8)
def _index(sources: tuple[Source, ...]) -> tuple[list[Passage], Any]:
    try:
        from bm25s import BM25
    except ImportError:
        allowed = "short enough for the prompts, or searched: pip install 'flowdebate[documents]'"
        raise ConfigurationError("sources", "source_tokens", "longer sources", allowed) from None
    passages = [passage for source in sources for passage in cut(source)]
    texts = {source.name: source.text for source in sources}
    index = BM25()
    tokens = _tokens([texts[each.source][each.start : each.end] for each in passages])
    index.index([each or [""] for each in tokens], show_progress=False)
    return passages, index


def _tokens(texts: list[str]) -> list[list[str]]:
    from bm25s import tokenize

    found: list[list[str]] = tokenize(texts, stopwords=None, return_ids=False, show_progress=False)
    return found


def cut(source: Source) -> Iterator[Passage]:
    """The passages of a source: all of its text, cut at paragraphs, lines or sentences, and at pages."""
    begins = [0, *(page.start for page in source.pages if page.start)]
    for begin, stop in zip(begins, [*begins[1:], len(source.text)], strict=True):
        start = begin
        while start < stop:
            end = min(start + _LONGEST, stop)
            if end < stop:
                # the last end of a paragraph, else of a line, else of a sentence, else of a word, in its second half
                signs = ("\n\n", "\n", ". ", " ")
                ends = (source.text.rfind(sign, start + _LONGEST // 2, end) + len(sign) for sign in signs)
                end = next((each for each in ends if each > start + _LONGEST // 2), end)
            if source.text[start:end].strip():
                yield Passage(source=source.name, start=start, end=end, page=source.page_at(start))
            start = end
