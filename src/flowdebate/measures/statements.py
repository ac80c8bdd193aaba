"""Heuristics for agents' statements in English: comparing short answers, and finding changes of mind between rounds."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Literal

from pydantic import Field

from flowdebate._util.wire import WireModel
from flowdebate.measures.similarity import Jaccard, Similarity

FlipKind = Literal["retraction", "contradiction", "refinement"]
"""Kind of change of mind: withdrawing an answer, replacing or negating it, or extending it."""

# Answers

# Categories of invisible characters, such as control characters, zero-width characters and directional marks
_UNSEEN = {"Cc", "Cf"}
_SELECTORS = {"\ufe0e", "\ufe0f"}  # variation selectors, which determine the form of the preceding character
_PART_OF_WORD = set("#%&@")  # punctuation that belongs to the adjacent word, as in C# and 5%
_MARKDOWN = set("`~^|")  # symbols that do not belong to the adjacent word
# variants of the minus sign, hyphen and apostrophe
_SAME = str.maketrans("\u2212\u2010\u2011\u2019\u02bc\u2018", "---'''")
_NUMBER = re.compile(r"-?\d+(?:[.,]\d+)*")
_NEGATIONS = {"against", "cannot", "neither", "never", "no", "nobody", "none", "nor", "not", "nothing", "without"}

# Flips
_SENTENCE = 8  # minimum number of words in a paraphrase; a shorter answer must match word for word
_ALIKE = 0.6  # minimum similarity of a paraphrase
_TAKEN_BACK = ("i retract", "i take back", "i take it back", "i take that back", "i withdraw")
_NOTHING = {"", "i don't know", "n/a", "no answer", "no position", "none", "retracted", "undecided", "withdrawn"}
# A negation after one of these does not negate the answer.
_QUALIFIERS = {"although", "but", "except", "if", "only", "provided", "though", "unless", "when", "where", "while"}


class Position(WireModel):
    """An agent's position on a claim in one round."""

    agent: str
    claim: str = ""
    """Subject of the position; two positions are compared only if both agent and claim match."""
    answer: str | None
    """Stance or short answer; None if missing or retracted."""
    confidence: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 1.0
    round: Annotated[int, Field(ge=0)]
    """Round number; 0 for a first proposal."""


class Flip(WireModel):
    """An agent's change of mind."""

    agent: str
    kind: FlipKind
    before: Position
    after: Position


@lru_cache(maxsize=1024)
def answer_words(text: str) -> tuple[str, ...]:
    """Split a short answer into words for comparison, ignoring case, invisible characters, and surrounding punctuation.

    >>> answer_words(" **Yes**, “C++”: -5.5!")
    ('yes', 'c++', '-5.5')
    """
    seen = "".join(
        " " if char.isspace() else "" if char in _SELECTORS or unicodedata.category(char) in _UNSEEN else char
        for char in unicodedata.normalize("NFKC", text)
    )
    plain = unicodedata.normalize("NFKC", seen.casefold()).translate(_SAME)
    return tuple(word for piece in plain.split() if (word := _trim_edges(piece)))


def same_answer(one: str, other: str) -> bool:
    """Return whether two short answers are equal, or one merely continues the other.

    "Yes" is the same as "yes, in cities", but not as "yes, but not in cities": the continuation must not contain a
    negation (in English) or follow a number. Words are compared, not meanings: "rent caps" and "caps on rents" differ.

    >>> same_answer("Yes.", "yes, in cities"), same_answer("Yes", "No"), same_answer("5", "5 million")
    (True, False, False)
    """
    shorter, longer = sorted((answer_words(one), answer_words(other)), key=len)
    if shorter == longer:
        return bool(shorter) or one == other
    begins = bool(shorter) and longer[: len(shorter)] == shorter
    return begins and not _NUMBER.fullmatch(shorter[-1]) and is_negative(shorter) == is_negative(longer)


def is_negative(words: Sequence[str]) -> bool:
    """Return whether `words` contain a negation; only English negations are recognized.

    >>> is_negative(answer_words("They shouldn’t.")), is_negative(answer_words("They should."))
    (True, False)
    """
    return any(word in _NEGATIONS or word.endswith("n't") for word in words)


def numbers_of(words: Sequence[str]) -> set[str]:
    """Return the numbers written as digits in `words`.

    >>> sorted(numbers_of(answer_words("from 3% to 4.5")))
    ['3', '4.5']
    """
    return {number for word in words for number in _NUMBER.findall(word)}


def _trim_edges(piece: str) -> str:
    """Strip the punctuation around `piece`, but keep a number's minus sign."""
    start, end = 0, len(piece)
    while start < end and _is_edge(piece[start]) and not _NUMBER.match(piece, start):
        start += 1
    while end > start and _is_edge(piece[end - 1]):
        end -= 1
    return piece[start:end]


def _is_edge(char: str) -> bool:
    return char in _MARKDOWN or (char not in _PART_OF_WORD and unicodedata.category(char).startswith("P"))


def flips(history: Sequence[Position], *, similarity: Similarity | None = None) -> list[Flip]:
    """List the changes of mind in `history` by round, comparing each position with the agent's last one on that claim.

    - retraction: an answer becomes None, blank, or a withdrawal ("I withdraw that").
    - contradiction: exactly one of the answers is negated, or the answers differ.
    - refinement: the answer extends the previous words ("yes" to "yes, but not in cities"); or both have at least eight
      words and the same numbers, and are similar by `similarity` (None means `Jaccard()`).

    Repeating or shortening an answer is not a flip. An agent that states nothing in a round keeps its last position.

    >>> answers = ["yes", "Yes, but not in cities", "no", None]
    >>> changes = flips([Position(agent="ann", answer=text, round=n) for n, text in enumerate(answers, 1)])
    >>> [flip.kind for flip in changes]
    ['refinement', 'contradiction', 'retraction']
    """
    measure = Jaccard() if similarity is None else similarity
    last: dict[tuple[str, tuple[str, ...] | str], Position] = {}
    changes = []
    for position in sorted(history, key=lambda item: item.round):
        subject = position.agent, answer_words(position.claim) or position.claim
        before = last.get(subject)
        last[subject] = position
        kind = before and _flip_kind(before.answer, position.answer, measure)
        if before and kind:
            changes.append(Flip(agent=position.agent, kind=kind, before=before, after=position))
    return changes


def _flip_kind(before: str | None, after: str | None, measure: Similarity) -> FlipKind | None:
    """Return the kind of change between two answers, or None if nothing changed or there is no previous answer."""
    if before is None or _is_empty_answer(before):
        return None
    if after is None or _is_empty_answer(after):
        return "retraction"
    old, new = answer_words(before), answer_words(after)
    if is_negative(_unqualified(old)) != is_negative(_unqualified(new)):
        return "contradiction"
    if set(new) <= set(old):
        return None
    long = min(len(old), len(new)) >= _SENTENCE and numbers_of(old) == numbers_of(new)
    same = set(old) <= set(new) or (long and measure([before, after])[0][1] >= _ALIKE)
    return "refinement" if same else "contradiction"


def _is_empty_answer(answer: str) -> bool:
    words = " ".join(answer_words(answer))
    return words in _NOTHING or words.startswith(_TAKEN_BACK)


def _unqualified(words: Sequence[str]) -> Sequence[str]:
    """Return the `words` before the first qualifier."""
    return next((words[:place] for place, word in enumerate(words) if place and word in _QUALIFIERS), words)
