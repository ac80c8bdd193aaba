"""Statements that a verdict quotes: sentences of the debate, picked by letter and so verbatim by construction."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from flowdebate.patterns.debate.judging.ballots import Statement
from flowdebate.patterns.debate.judging.letters import MOST_LETTERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.patterns.debate.schemas import DebateContributionEntry
    from flowdebate.patterns.state import TurnOrder


_LONGEST = 300
"""Characters of a statement; a longer sentence is cut before a word."""
_FEWEST_WORDS = 5
"""Words of a sentence that states something; shorter ones are exclamations."""
_END = r"(?:[.!?…]+[\"'”’»)\]]*(?=\s)|[。！？]+|(?=\n))\s*"
_ABBREVIATED = r"(?i)(?:\b(?:\w|Mrs?|Ms|Dr|Prof|St|No|vs|cf|e\.g|i\.e|approx))\.$"
_WORD = re.compile(r"\w+")


def sentences_of(text: str) -> list[str]:
    """The sentences of `text`, each a substring of it.

    >>> sentences_of("Dr. Lee counted 3.5 cases. Nobody replied!")
    ['Dr. Lee counted 3.5 cases.', 'Nobody replied!']
    """
    found, start = [], 0
    for end in re.finditer(_END, text):
        if re.search(_ABBREVIATED, text[start : end.end()].rstrip()) and "\n" not in end[0]:
            continue
        found.append(text[start : end.end()].strip())
        start = end.end()
    found.append(text[start:].strip())
    return [_cut(sentence) for sentence in found if _WORD.search(sentence)]


def _cut(sentence: str) -> str:
    if len(sentence) <= _LONGEST:
        return sentence
    whole = sentence[:_LONGEST].rsplit(None, 1)[0]
    return whole if _WORD.search(whole) else sentence[:_LONGEST]


def statements_of(entries: Sequence[DebateContributionEntry], side: str) -> list[Statement]:
    """The sentences of `side` to choose a quote from, in order.

    Short ones only if there are no others; of more than there are letters, the last ones.
    """
    every = [
        Statement(entry=index, text=sentence)
        for index, entry in enumerate(entries)
        if entry.stance == side
        for sentence in sentences_of(entry.text)
    ]
    long = [statement for statement in every if len(_WORD.findall(statement.text)) >= _FEWEST_WORDS]
    return (long or every)[-MOST_LETTERS:]


def reply_to(
    statement: Statement, entries: Sequence[DebateContributionEntry], *, turn_order: TurnOrder = "declared"
) -> Statement | None:
    """The sentence of another side afterwards that shares most words with `statement`; None if nobody spoke after it.

    Nothing is claimed of it: words in common do not make an answer. Of several, the first. Where the sides of a round
    spoke at once, only later rounds are afterwards.
    """
    said, stated = _words(statement.text), entries[statement.entry]
    later = [
        Statement(entry=index, text=sentence)
        for index, entry in enumerate(entries)
        if index > statement.entry
        and entry.stance != stated.stance
        and (turn_order != "simultaneous" or entry.round > stated.round)
        for sentence in sentences_of(entry.text)
    ]
    return max(later, key=lambda other: len(said & _words(other.text)), default=None)


def _words(text: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(text)}
