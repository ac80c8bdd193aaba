"""Similarity of texts in words or meaning: embeddings, TF-IDF, or shared words, behind one protocol.

Similarity is not agreement: opposite stances on one subject share most of their words, and so do their embeddings.
"""

from __future__ import annotations

import logging
import re
import unicodedata
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, runtime_checkable

from flowdebate._util.validation import check_library

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


Matrix: TypeAlias = list[list[float]]
"""A row for each text, with a number from 0 to 1 for each text."""


@runtime_checkable
class Similarity(Protocol):
    """A measure of similarity: a call with texts returns a square matrix.

    The matrix is symmetric, from 0 to 1, with 1.0 for identical texts, and does not depend on the order of the texts.
    No string is an error.
    """

    @property
    def name(self) -> str:
        """Its name in results."""

    def __call__(self, texts: Sequence[str], /) -> Matrix:
        """The similarity of each of `texts` with each."""


@dataclass(frozen=True)
class Jaccard:
    """The shared words of two texts as a share of all their words (Jaccard 1912); needs no library.

    >>> Jaccard()(["Cap the rents!", "cap rents", "Build flats"])[0]
    [1.0, 0.6666666666666666, 0.0]
    """

    name: ClassVar[str] = "jaccard"

    def __call__(self, texts: Sequence[str], /) -> Matrix:
        return _matrix(texts, _shared_words)


@dataclass(frozen=True)
class TfIdf:
    """The cosine of the texts' words, weighted by their rarity among the texts (Spärck Jones 1972).

    Needs scikit-learn (`pip install "flowdebate[similarity]"`), which takes a second to import, at the first call.
    """

    name: ClassVar[str] = "tf-idf"

    def __post_init__(self) -> None:
        check_library("TfIdf()", "sklearn", library="scikit-learn", extra="similarity")

    def __call__(self, texts: Sequence[str], /) -> Matrix:
        return _matrix(texts, _rare_words)


@dataclass(frozen=True)
class Embeddings:
    """The cosine of the texts' embeddings by WordLlama, whose weights are in its wheel: nothing is downloaded.

    Needs wordllama (`pip install "flowdebate[similarity]"`). Its first call in a process takes about a second, to
    import it and to read the weights; a text takes a fraction of a millisecond from then on.
    """

    name: ClassVar[str] = "embeddings"

    def __post_init__(self) -> None:
        check_library("Embeddings()", "wordllama", library="wordllama", extra="similarity")

    def __call__(self, texts: Sequence[str], /) -> Matrix:
        return _matrix(texts, _meanings)


def best_similarity() -> Similarity:
    """The best measure whose library is installed: Embeddings, else TfIdf, else Jaccard. Imports none of them."""
    if find_spec("wordllama"):
        return Embeddings()
    return TfIdf() if find_spec("sklearn") else Jaccard()


def text_words(text: str) -> list[str]:
    """The words of a text in any script, without case; pairs of characters where a script has no blanks.

    A text without words has its signs instead, so that only blank texts have nothing.

    >>> text_words("Cap RENTS at 3.5%"), text_words("家賃に上限"), text_words("?!")
    (['cap', 'rents', 'at', '3.5'], ['家賃', '賃に', 'に上', '上限'], ['?', '!'])
    """
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    words = [part for word in _WORD.findall(plain) for part in _parts(word)]
    return words or [char for char in plain if not char.isspace()]


def copied_run(text: str, source: str) -> int:
    """The length of the longest run of words of `text` that is in `source`, without case and punctuation.

    >>> copied_run("But trams are quiet, and clean.", "I say: trams are quiet and fast.")
    4
    """
    numbers: dict[str, int] = {}
    runs = [[numbers.setdefault(word, len(numbers)) for word in text_words(each)] for each in (text, source)]
    powers: list[list[list[int]]] = []  # the runs of 1, 2, 4, … words, as far as some are shared
    while not set(runs[0]).isdisjoint(runs[1]):
        powers.append(runs)
        runs = _longer_runs(runs, runs, 1 << len(powers) - 1)
    if not powers:
        return 0
    runs = powers.pop()
    longest = 1 << len(powers)
    while powers:
        longer = _longer_runs(runs, powers.pop(), longest)
        if not set(longer[0]).isdisjoint(longer[1]):
            runs, longest = longer, longest + (1 << len(powers))
    return longest


def copied_share(text: str, source: str) -> float:
    """The share of the distinct pairs of neighbouring words of `text` that are in `source`; 0.0 if it has no pair.

    >>> copied_share("But trams are quiet, and clean.", "I say: trams are quiet and fast.")
    0.6
    """
    pairs, others = ({*pairwise(text_words(each))} for each in (text, source))
    return len(pairs & others) / (len(pairs) or 1)


def _longer_runs(runs: list[list[int]], following: list[list[int]], length: int) -> list[list[int]]:
    """The numbers of runs that consist of one of `runs`, `length` words long, and the one of `following` behind it."""
    numbers: dict[tuple[int, int], int] = {}
    return [
        [numbers.setdefault(pair, len(numbers)) for pair in zip(first, second[length:], strict=False)]
        for first, second in zip(runs, following, strict=True)
    ]


_WORD = re.compile(r"\d+(?:[.,]\d+)+|[^\W_]+(?:['’][^\W_]+)*")
_NO_BLANKS = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+"  # kana and Han
)


def _parts(word: str) -> Iterator[str]:
    """`word`, with runs of a script without blanks as pairs of characters."""
    end = 0
    for run in _NO_BLANKS.finditer(word):
        if run.start() > end:
            yield word[end : run.start()]
        signs = run.group()
        yield from (signs[place : place + 2] for place in range(max(1, len(signs) - 1)))
        end = run.end()
    if end < len(word):
        yield word[end:]


def _matrix(texts: Sequence[str], scores: Callable[[list[str]], Sequence[Sequence[float]]]) -> Matrix:
    """Apply `scores` to the distinct texts in sorted order, so that the laws of a `Similarity` hold to the last bit."""
    distinct = sorted(set(texts))
    scored = scores(distinct) if len(distinct) > 1 else [[1.0]]
    place = {text: index for index, text in enumerate(distinct)}
    return [[_score(scored, place[one], place[other]) for other in texts] for one in texts]


def _score(scored: Sequence[Sequence[float]], one: int, other: int) -> float:
    """A score clipped to 0 to 1: cosines can be negative, or a bit above 1."""
    if one == other:
        return 1.0
    return min(max(float(scored[min(one, other)][max(one, other)]), 0.0), 1.0)


def _shared_words(texts: list[str]) -> Matrix:
    sets = [_word_set(text) for text in texts]
    return [[len(one & other) / (len(one | other) or 1) for other in sets] for one in sets]


@lru_cache(maxsize=256)  # a round compares each text with several others, and with the next round's
def _word_set(text: str) -> frozenset[str]:
    return frozenset(text_words(text))


def _rare_words(texts: list[str]) -> Any:  # noqa: ANN401 - an array of a library that may be missing
    from sklearn.feature_extraction.text import TfidfVectorizer

    if not any(map(text_words, texts)):
        return [[0.0] * len(texts) for _ in texts]  # scikit-learn refuses an empty vocabulary
    counted = TfidfVectorizer(analyzer=text_words).fit_transform(texts)
    return (counted @ counted.T).toarray()


def _meanings(texts: list[str]) -> Any:  # noqa: ANN401 - an array of a library that may be missing
    import numpy as np

    # Its tokenizer takes no halves of surrogate pairs, and gives blanks a meaning.
    clean = [" ".join(text.encode("utf-8", "replace").decode().split()) for text in texts]
    vectors = np.asarray(_wordllama().embed(clean, norm=False), dtype=np.float64)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    directions = vectors / np.where(lengths > 0, lengths, 1.0)
    return directions @ directions.T


@cache
def _wordllama() -> Any:  # noqa: ANN401 - a class of a library that may be missing, without types
    """The model, read once in a process."""
    from pathlib import Path

    with _logging_left_alone():
        import wordllama

    folder = Path(wordllama.__file__).parent
    return wordllama.WordLlama.load(cache_dir=folder, disable_download=True)


@contextmanager
def _logging_left_alone() -> Iterator[None]:
    """Disable `logging.basicConfig`: an imported library must not configure an application's logging."""
    root, handler = logging.getLogger(), logging.NullHandler()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
