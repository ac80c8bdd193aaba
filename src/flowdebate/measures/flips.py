"""Changes of mind: what agents take back, turn round, or qualify, by the positions that they state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate.measures.schemas import Flip, FlipKind, Position
from flowdebate.measures.short_answers import answer_words, is_negative, numbers_of
from flowdebate.measures.similarity import Jaccard

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.measures.similarity import Similarity

__all__ = (
    "Flip",
    "FlipKind",
    "Position",
    "flips",
)

_SENTENCE = 8
"""Words from which an answer is so long that it can be worded anew; a shorter one with another word is another one."""
_ALIKE = 0.6
"""The similarity from which a long answer is the same one, worded anew."""
_TAKEN_BACK = ("i retract", "i take back", "i take it back", "i take that back", "i withdraw")
_NOTHING = {"", "i don't know", "n/a", "no answer", "no position", "none", "retracted", "undecided", "withdrawn"}
_QUALIFIERS = {"although", "but", "except", "if", "only", "provided", "though", "unless", "when", "where", "while"}
"""What follows one of them limits what stands before; a negation in it turns nothing round."""


def flips(history: Sequence[Position], *, similarity: Similarity | None = None) -> list[Flip]:
    """The changes of mind in `history`, in order of round: each position against the agent's last on the same claim.

    - retraction: an answer was there, and is None, blank, or says that it is taken back ("I withdraw that").
    - contradiction: one of the two is negated, or the answer is another one.
    - refinement: the answer goes on from the same words ("yes" to "yes, but not in cities"); or it is of eight words or
      more, and by `similarity` (None is `Jaccard()`) still the same, with the same numbers.

    What is said again, or only shorter, is no flip, nor is silence: an agent who states nothing in a round holds on to
    what it stated last.

    >>> said = ["yes", "Yes, but not in cities", "no", None]
    >>> found = flips([Position(agent="ann", answer=text, round=n) for n, text in enumerate(said, 1)])
    >>> [flip.kind for flip in found]
    ['refinement', 'contradiction', 'retraction']
    """
    measure = Jaccard() if similarity is None else similarity
    last: dict[tuple[str, tuple[str, ...] | str], Position] = {}
    found = []
    for position in sorted(history, key=lambda item: item.round):
        held = position.agent, answer_words(position.claim) or position.claim
        before = last.get(held)
        last[held] = position
        kind = before and _kind(before.answer, position.answer, measure)
        if before and kind:
            found.append(Flip(agent=position.agent, kind=kind, before=before, after=position))
    return found


def _kind(before: str | None, after: str | None, measure: Similarity) -> FlipKind | None:
    """What becomes of an answer; None if it stays, or was none."""
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
    """`words` up to what limits them."""
    return next((words[:place] for place, word in enumerate(words) if place and word in _QUALIFIERS), words)
