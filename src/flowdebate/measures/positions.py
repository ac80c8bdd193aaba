"""Stated positions: comparison of short answers, and flips of agents between rounds."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from flowdebate._util.wire import WireModel
from flowdebate.measures.similarity import Jaccard

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from flowdebate.measures.similarity import Similarity

__all__ = (
    "Flip",
    "FlipKind",
    "Position",
    "answer_words",
    "flips",
    "is_negative",
    "match_choice",
    "numbers_of",
    "same_answer",
)

FlipKind = Literal["retraction", "contradiction", "refinement"]
"""The answer is taken back; negated or replaced by another; kept, with something added to it."""

_UNSEEN = {"Cc", "Cf"}
"""Categories of invisible characters: controls, zero-width ones, changes of direction."""
_SELECTORS = {"\ufe0e", "\ufe0f"}
"""They choose between a character's looks."""
_KEPT = set("#%&@")
"""Punctuation that belongs to a word at whose edge it stands: C#, 5%."""
_DROPPED = set("`~^|")
"""Symbols that do not: a model's Markdown."""
_SAME = str.maketrans("\u2212\u2010\u2011\u2019\u02bc\u2018", "---'''")
"""Signs for minus, hyphen and apostrophe."""
_NUMBER = re.compile(r"-?\d+(?:[.,]\d+)*")
_NEGATIONS = {"against", "cannot", "neither", "never", "no", "nobody", "none", "nor", "not", "nothing", "without"}
_LONGEST = 200
"""The length from which on a text names nobody: it is an essay."""
_LABELS = {"a", "agent", "an", "answer", "by", "candidate", "choice", "choose", "for", "from", "i", "is", "my"} | {
    *("of", "option", "proposal", "support", "the", "to", "vote"),
}
"""Words that models write around a name that they choose."""
_SENTENCE = 8
"""Words from which an answer is so long that it can be worded anew; a shorter one with another word is another one."""
_ALIKE = 0.6
"""The similarity from which a long answer is the same one, worded anew."""
_TAKEN_BACK = ("i retract", "i take back", "i take it back", "i take that back", "i withdraw")
_NOTHING = {"", "i don't know", "n/a", "no answer", "no position", "none", "retracted", "undecided", "withdrawn"}
_QUALIFIERS = {"although", "but", "except", "if", "only", "provided", "though", "unless", "when", "where", "while"}
"""The words after one of them limit those before; a negation among them is none of the answer."""


class Position(WireModel):
    """An agent's position on a claim in a round."""

    agent: str
    claim: str = ""
    """The subject; positions are compared where agent and claim are the same."""
    answer: str | None
    """The stance or short answer; None for none, or for none any more."""
    confidence: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 1.0
    round: Annotated[int, Field(ge=1)]


class Flip(WireModel):
    """A change of mind."""

    agent: str
    kind: FlipKind
    before: Position
    after: Position


@lru_cache(maxsize=1024)
def answer_words(text: str) -> tuple[str, ...]:
    """The words of a short answer as they are compared: without case, unseen characters, and punctuation at edges.

    >>> answer_words(" **Yes**, “C++”: -5.5!")
    ('yes', 'c++', '-5.5')
    """
    seen = "".join(map(_visible, unicodedata.normalize("NFKC", text)))
    plain = unicodedata.normalize("NFKC", seen.casefold()).translate(_SAME)
    return tuple(word for piece in plain.split() if (word := _without_edges(piece)))


def same_answer(one: str, other: str) -> bool:
    """Whether two short answers are the same, or one only continues the other.

    "Yes" is the same as "yes, in cities", and not as "yes, but not in cities": what follows must not bring in a
    negation (English), nor go on after a number. It sees words, not meanings: "rent caps" and "caps on rents" differ.

    >>> same_answer("Yes.", "yes, in cities"), same_answer("Yes", "No"), same_answer("5", "5 million")
    (True, False, False)
    """
    shorter, longer = sorted((answer_words(one), answer_words(other)), key=len)
    if shorter == longer:
        return bool(shorter) or one == other
    begins = bool(shorter) and longer[: len(shorter)] == shorter
    return begins and not _NUMBER.fullmatch(shorter[-1]) and is_negative(shorter) == is_negative(longer)


def is_negative(words: Sequence[str]) -> bool:
    """Whether a negation is among `words`; English only.

    >>> is_negative(answer_words("They shouldn’t.")), is_negative(answer_words("They should."))
    (True, False)
    """
    return any(word in _NEGATIONS or word.endswith("n't") for word in words)


def numbers_of(words: Sequence[str]) -> set[str]:
    """The numbers that are written in `words` with digits.

    >>> sorted(numbers_of(answer_words("from 3% to 4.5")))
    ['3', '4.5']
    """
    return {number for word in words for number in _NUMBER.findall(word)}


def match_choice(text: str, choices: Sequence[str]) -> str | None:
    """The one of `choices` that `text` names; None if it names none, or it is not clear which.

    Case, quotes, Markdown, unseen characters, blanks and hyphens do not matter, nor do the words around a name in "I
    vote for the proposal of Ann". What is written exactly as a choice is that choice.

    >>> match_choice(" **Agent-1** ", ["agent 1", "agent 2"])
    'agent 1'
    >>> match_choice("Ann or Bob", ["Ann", "Bob"]) is None
    True
    """
    if text in choices:
        return text
    if len(text) > _LONGEST:
        return None
    written = {choice: answer_words(choice) for choice in choices}
    named = [choice for choice, words in written.items() if words and words == answer_words(text)]
    readings = _readings(answer_words(text))
    while not named and (reading := next(readings, None)) is not None:
        named = [choice for choice, words in written.items() if _joined(words) in reading]
    return named[0] if len(named) == 1 else None


def _readings(words: tuple[str, ...]) -> Iterator[set[str]]:
    """Names that a text may mean, from all of its words to fewer, with labels at the edges left out."""
    for left_out in range(len(words)):
        names = set()
        for start in range(left_out + 1):
            end = len(words) - left_out + start
            if _LABELS.issuperset(words[:start]) and _LABELS.issuperset(words[end:]):
                names |= {_joined(words[start:end]), _joined(words[start:end]).removesuffix("'s")}
        yield names - {""}


def _joined(words: Sequence[str]) -> str:
    """`words` as one, without hyphens, underscores and dots."""
    return re.sub("[-_.]", "", "".join(words))


def _visible(char: str) -> str:
    """`char`; a blank for what breaks a line, nothing for what nobody sees."""
    if char.isspace():
        return " "
    return "" if char in _SELECTORS or unicodedata.category(char) in _UNSEEN else char


def _without_edges(piece: str) -> str:
    """`piece` without the punctuation around it; the minus of a number stays."""
    start, end = 0, len(piece)
    while start < end and _is_edge(piece[start]) and not _NUMBER.match(piece, start):
        start += 1
    while end > start and _is_edge(piece[end - 1]):
        end -= 1
    return piece[start:end]


def _is_edge(char: str) -> bool:
    return char in _DROPPED or (char not in _KEPT and unicodedata.category(char).startswith("P"))


def flips(history: Sequence[Position], *, similarity: Similarity | None = None) -> list[Flip]:
    """The changes of mind in `history`, in order of round: each position against the agent's last on the same claim.

    - retraction: an answer was there, and is None, blank, or says that it is taken back ("I withdraw that").
    - contradiction: one of the two is negated, or the answer is another one.
    - refinement: the answer goes on from the same words ("yes" to "yes, but not in cities"); or it is of eight words or
      more, and by `similarity` (None is `Jaccard()`) still the same, with the same numbers.

    Repeating an answer, or shortening it, is no flip, nor is silence: an agent who states nothing in a round keeps its
    last position.

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
        kind = before and _kind(before.answer, position.answer, measure)
        if before and kind:
            changes.append(Flip(agent=position.agent, kind=kind, before=before, after=position))
    return changes


def _kind(before: str | None, after: str | None, measure: Similarity) -> FlipKind | None:
    """The kind of change between two answers; None if it stays, or was none."""
    if before is None or _is_nothing(before):
        return None
    if after is None or _is_nothing(after):
        return "retraction"
    old, new = answer_words(before), answer_words(after)
    if is_negative(_unqualified(old)) != is_negative(_unqualified(new)):
        return "contradiction"
    if set(new) <= set(old):
        return None
    long = min(len(old), len(new)) >= _SENTENCE and numbers_of(old) == numbers_of(new)
    same = set(old) <= set(new) or (long and measure([before, after])[0][1] >= _ALIKE)
    return "refinement" if same else "contradiction"


def _is_nothing(answer: str) -> bool:
    words = " ".join(answer_words(answer))
    return words in _NOTHING or words.startswith(_TAKEN_BACK)


def _unqualified(words: Sequence[str]) -> Sequence[str]:
    """`words` up to the first qualifier."""
    return next((words[:place] for place, word in enumerate(words) if place and word in _QUALIFIERS), words)
