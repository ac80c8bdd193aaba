"""Similarity of texts by words or meaning: interchangeable measures, convergence of proposals, and copied text.

Similarity is not agreement: opposite stances on a subject share most of their words and have similar embeddings.
"""

from __future__ import annotations

import logging
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from flowdebate._text import short_repr
from flowdebate._util.validation import check_library, check_share
from flowdebate._util.wire import WireModel
from flowdebate.errors import ConfigurationError, OutputError

if TYPE_CHECKING:
    from wordllama import WordLlamaInference

Matrix: TypeAlias = list[list[float]]
"""Square matrix of numbers from 0 to 1, with one row and one column per text."""


@runtime_checkable
class Similarity(Protocol):
    """Measure of similarity; called with texts, it computes a square matrix.

    The matrix is symmetric, with values from 0 to 1 and 1.0 for identical texts, and does not depend on the order of
    the texts. Any string is a valid text.
    """

    @property
    def name(self) -> str:
        """Name of the measure as shown in results."""

    def __call__(self, texts: Sequence[str], /) -> Matrix:
        """Compute the similarity between each pair of `texts`."""


@dataclass(frozen=True)
class Jaccard:
    """Share of the words in two texts that occur in both (Jaccard 1912). Needs no extra library.

    >>> Jaccard()(["Cap the rents!", "cap rents", "Build flats"])[0]
    [1.0, 0.6666666666666666, 0.0]
    """

    name: ClassVar[str] = "jaccard"

    def __call__(self, texts: Sequence[str], /) -> Matrix:
        return _matrix(texts, _word_overlaps)


@dataclass(frozen=True)
class TfIdf:
    """Cosine similarity of words, weighted by how rare they are among the texts (Spärck Jones 1972).

    Needs scikit-learn (`pip install "flowdebate[similarity]"`); importing it on the first call takes about a second.
    """

    name: ClassVar[str] = "tf-idf"

    def __post_init__(self) -> None:
        check_library("TfIdf()", "sklearn", library="scikit-learn", extra="similarity")

    def __call__(self, texts: Sequence[str], /) -> Matrix:
        return _matrix(texts, _tfidf_similarities)


@dataclass(frozen=True)
class Embeddings:
    """Cosine similarity of WordLlama embeddings; the wheel contains the weights, so nothing is downloaded.

    Needs wordllama (`pip install "flowdebate[similarity]"`). The first call in a process takes about a second to import
    it and load the weights; after that, a text takes a fraction of a millisecond.
    """

    name: ClassVar[str] = "embeddings"

    def __post_init__(self) -> None:
        check_library("Embeddings()", "wordllama", library="wordllama", extra="similarity")

    def __call__(self, texts: Sequence[str], /) -> Matrix:
        return _matrix(texts, _meanings)


def best_similarity() -> Similarity:
    """Return the best measure whose library is installed (Embeddings, TfIdf, or Jaccard), without importing it."""
    if find_spec("wordllama"):
        return Embeddings()
    return TfIdf() if find_spec("sklearn") else Jaccard()


def text_words(text: str) -> list[str]:
    """Split text in any script into case-folded words, or into pairs of characters if the script has no spaces.

    Text without words is split into its symbols, so the result is empty only for blank text.

    >>> text_words("Cap RENTS at 3.5%"), text_words("家賃に上限"), text_words("?!")
    (['cap', 'rents', 'at', '3.5'], ['家賃', '賃に', 'に上', '上限'], ['?', '!'])
    """
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    words = [part for word in _WORD.findall(plain) for part in _split_by_script(word)]
    return words or [char for char in plain if not char.isspace()]


def copied_run(text: str, source: str) -> int:
    """Return the length of the longest run of words in `text` that also occurs in `source`.

    Case and punctuation are ignored.

    >>> copied_run("But trams are quiet, and clean.", "I say: trams are quiet and fast.")
    4
    """
    numbers: dict[str, int] = {}
    runs = [[numbers.setdefault(word, len(numbers)) for word in text_words(document)] for document in (text, source)]
    # ids of all runs of 1, 2, 4, … words, for as long as the texts share a run of that length
    powers: list[list[list[int]]] = []
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
    """Compute the share of distinct word pairs in `text` that also occur in `source`; 0.0 if there are no pairs.

    >>> copied_share("But trams are quiet, and clean.", "I say: trams are quiet and fast.")
    0.6
    """
    pairs, source_pairs = ({*pairwise(text_words(document))} for document in (text, source))
    return len(pairs & source_pairs) / (len(pairs) or 1)


def _longer_runs(runs: list[list[int]], following: list[list[int]], length: int) -> list[list[int]]:
    """Join each run of `length` words in `runs` to the run in `following` that begins right after it.

    Returns the longer runs' ids.
    """
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


def _split_by_script(word: str) -> Iterator[str]:
    """Split `word`, breaking up text in scripts without spaces into pairs of characters."""
    end = 0
    for run in _NO_BLANKS.finditer(word):
        if run.start() > end:
            yield word[end : run.start()]
        signs = run.group()
        yield from (signs[place : place + 2] for place in range(max(1, len(signs) - 1)))
        end = run.end()
    if end < len(word):
        yield word[end:]


# Limits on the similarity between a turn and an earlier one. The debates they are based on are in
# evidence/records/local-model.md.
MAX_COPIED_WORDS = 12  # maximum consecutive words
MAX_COPIED_SHARE = 0.3  # share of word pairs


class Copy(NamedTuple):
    """Measurement of how much a turn copies from an earlier turn."""

    excess: float
    """Amount copied, as a multiple of the allowed maximum; a turn with a value above 1 counts as a copy."""
    message: str


NOT_COPIED = Copy(0.0, "")


def measure_copy(text: str, earlier: str) -> Copy:
    """Measure how much of `text` is copied from `earlier`; in short texts, only the longest run of words counts.

    Word pairs are ignored in short texts, because they may match by chance.

    >>> measure_copy("Trams are quiet.", "They are loud.").excess < 1
    True
    """
    run = copied_run(text, earlier)
    share = copied_share(text, earlier) if len(text_words(text)) > MAX_COPIED_WORDS else 0.0
    message = (
        f"it copies {run} words in a row from the transcript"
        if run > MAX_COPIED_WORDS
        else f"it shares {share:.0%} of its word pairs with an earlier turn"
    )
    return Copy(max(run / MAX_COPIED_WORDS, share / MAX_COPIED_SHARE), message)


ConvergenceStatus = Literal["converged", "refining", "diverging", "stagnant"]
"""Convergence status: in agreement, approaching agreement, far apart, or repeating without agreement."""


class Convergence(WireModel):
    """Convergence of the proposals in a round."""

    similarity: float
    """Mean similarity over all pairs of proposals, from 0 to 1; 1 for a single proposal."""
    stability: float | None = None
    """Mean similarity between each agent's current and previous text; None if there are no previous texts."""
    status: ConvergenceStatus
    backend: str
    """Name of the similarity measure."""


def convergence(
    now: Mapping[str, str],
    before: Mapping[str, str] | None = None,
    *,
    positions: Mapping[str, str] | None = None,
    similarity: Similarity | None = None,
    converged: float = 0.85,
    diverging: float = 0.40,
) -> Convergence:
    """Compare the proposals `now` with each other, and with those from the round `before`; both are keyed by agent.

    - `positions`: each agent's short answer. Similarity is not agreement, so proposals with different positions
      (`same_answer`) have not converged, even if their texts are similar. An agent whose position is missing or
      contains no words does not contradict anyone.
    - `similarity`: the measure; None means `best_similarity()`.

    The status is "converged" at a similarity of `converged` or more, unless positions differ or a proposal stands apart
    (its mean similarity to the others is below `diverging`). It is "stagnant" if positions differ and the stability is
    `converged` or more. Otherwise it is "diverging" at a similarity below `diverging`, and "refining" in all other
    cases. A single proposal is always "refining", because there is no other to compare it with.

    >>> from flowdebate.measures import Jaccard
    >>> texts = {"ann": "We should cap rents now", "bob": "We should not cap rents now"}
    >>> convergence(texts, texts, positions={"ann": "yes", "bob": "no"}, similarity=Jaccard()).status
    'stagnant'
    """
    from flowdebate.measures.statements import answer_words, same_answer

    if not now:
        raise ConfigurationError("convergence()", "now", now, "must contain at least one proposal")
    check_share("convergence()", converged=converged, diverging=diverging)
    if diverging > converged:
        raise ConfigurationError("convergence()", "diverging", diverging, f"must be at most `converged` ({converged})")
    measure = best_similarity() if similarity is None else similarity
    matrix = _measure(measure, list(now.values()))
    alike = _mean(matrix[one][other] for one, other in combinations(range(len(now)), 2))
    before = before or {}
    again = [text for agent in now if agent in before for text in (now[agent], before[agent])]
    then = _measure(measure, again) if again else []
    stability = _mean(then[place][place + 1] for place in range(0, len(again), 2)) if again else None
    stated = [position for agent, position in (positions or {}).items() if agent in now and answer_words(position)]
    differ = any(not same_answer(one, other) for one, other in combinations(stated, 2))
    alone = [_mean(row[:at] + row[at + 1 :]) for at, row in enumerate(map(list, matrix))]
    together = len(now) > 1 and min(alone) >= diverging
    status: ConvergenceStatus
    if alike >= converged and together and not differ:
        status = "converged"
    elif differ and stability is not None and stability >= converged:
        status = "stagnant"
    else:
        status = "diverging" if alike < diverging else "refining"
    return Convergence(similarity=alike, stability=stability, status=status, backend=measure.name)


def _mean(numbers: Iterable[float]) -> float:
    """Compute a mean that does not depend on the order of the numbers.

    If all numbers are equal, the result is exactly that number; if there are none, it is 1.
    """
    every = list(numbers) or [1.0]
    return every[0] if every.count(every[0]) == len(every) else math.fsum(every) / len(every)


def _measure(measure: Similarity, texts: Sequence[str]) -> Matrix:
    """Compute the matrix of `measure`; raise OutputError if a custom measure returns anything but a matrix."""
    matrix = measure(texts)
    count = len(texts)
    square = len(matrix) == count and all(len(row) == count for row in matrix)
    if not square or not all(0 <= score <= 1 for row in matrix for score in row):
        expected = f"{count} rows of {count} numbers from 0 to 1"
        raise OutputError(measure.name, expected, [("", f"got {short_repr(matrix)}")])
    return matrix


# Measures


def _matrix(texts: Sequence[str], scores: Callable[[list[str]], Sequence[Sequence[float]]]) -> Matrix:
    """Apply `scores` to the distinct texts in sorted order, so that the guarantees of `Similarity` hold exactly."""
    distinct = sorted(set(texts))
    scored = scores(distinct) if len(distinct) > 1 else [[1.0]]
    place = {text: index for index, text in enumerate(distinct)}

    def score(one: int, other: int) -> float:
        if one == other:
            return 1.0
        # A cosine may be negative or slightly above 1, and an array may be asymmetric in its last bit.
        return min(max(float(scored[min(one, other)][max(one, other)]), 0.0), 1.0)

    return [[score(place[one], place[other]) for other in texts] for one in texts]


# Cached, because a round compares each text repeatedly.
_word_set = lru_cache(maxsize=256)(lambda text: frozenset(text_words(text)))


def _word_overlaps(texts: list[str]) -> Matrix:
    sets = [_word_set(text) for text in texts]
    return [[len(one & other) / (len(one | other) or 1) for other in sets] for one in sets]


def _tfidf_similarities(texts: list[str]) -> Matrix:
    from sklearn.feature_extraction.text import TfidfVectorizer

    if not any(map(text_words, texts)):
        return [[0.0] * len(texts) for _ in texts]  # scikit-learn rejects an empty vocabulary
    counted = TfidfVectorizer(analyzer=text_words).fit_transform(texts)
    cosines: Matrix = (counted @ counted.T).toarray().tolist()
    return cosines


def _meanings(texts: list[str]) -> Matrix:
    import numpy as np

    # WordLlama's tokenizer rejects lone surrogates, and its output depends on whitespace.
    clean = [" ".join(text.encode("utf-8", "replace").decode().split()) for text in texts]
    vectors = np.asarray(_wordllama().embed(clean, norm=False), dtype=np.float64)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    directions = vectors / np.where(lengths > 0, lengths, 1.0)
    cosines: Matrix = (directions @ directions.T).tolist()
    return cosines


@cache
def _wordllama() -> WordLlamaInference:
    """Return the WordLlama model, loaded once per process."""
    from pathlib import Path

    # wordllama calls `logging.basicConfig`, which does nothing if a handler exists. Importing a library must not
    # configure an application's logging.
    root, handler = logging.getLogger(), logging.NullHandler()
    root.addHandler(handler)
    try:
        import wordllama
    finally:
        root.removeHandler(handler)

    folder = Path(wordllama.__file__).parent
    model: WordLlamaInference = wordllama.WordLlama.load(cache_dir=folder, disable_download=True)
    return model
