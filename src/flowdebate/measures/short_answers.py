"""Short answers that agents state: whether two are the same, and whose proposal one names."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = (
    "answer_words",
    "is_negative",
    "match_choice",
    "numbers_of",
    "same_answer",
)

_UNSEEN = {"Cc", "Cf"}
"""Categories of what nobody sees: control characters, zero-width ones, changes of direction."""
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
"""Characters of what may name somebody, however it is written; what is longer is an essay."""
_LABELS = {"a", "agent", "an", "answer", "by", "candidate", "choice", "choose", "for", "from", "i", "is", "my"} | {
    *("of", "option", "proposal", "support", "the", "to", "vote"),
}
"""Words that models write around a name that they choose."""


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
    """Whether two short answers are the same, or one only goes on where the other ends.

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
    """What a text may name, from all of its words to fewer, those around a name left out; never nothing."""
    for left_out in range(len(words)):
        found = set()
        for start in range(left_out + 1):
            end = len(words) - left_out + start
            if _LABELS.issuperset(words[:start]) and _LABELS.issuperset(words[end:]):
                found |= {_joined(words[start:end]), _joined(words[start:end]).removesuffix("'s")}
        yield found - {""}


def _joined(words: Sequence[str]) -> str:
    """`words` as one, without what may or may not stand between the parts of a name."""
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
