from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate.measures import Embeddings, Flip, Position, flips
from tests.ids import case_id
from tests.measures.drawn import texts

if TYPE_CHECKING:
    from flowdebate.measures import FlipKind

LONG = "We should cap rents at 3% a year in all big cities because wages lag behind"

positions = st.builds(
    Position,
    agent=st.sampled_from(["ann", "bob"]),
    claim=st.sampled_from(["", "caps", "taxes"]) | texts,
    answer=st.none() | texts,
    confidence=st.floats(0, 1),
    round=st.integers(1, 5),
)
histories = st.lists(positions, max_size=12)


def flip_kinds(*answers: str | None) -> list[FlipKind]:
    """Return the kind of each flip that an agent makes by giving these answers, one per round."""
    history = [Position(agent="ann", answer=answer, round=number) for number, answer in enumerate(answers, 1)]
    return [flip.kind for flip in flips(history)]


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        ("yes", "yes", None),
        ("yes", " **Yes**. ", None),
        ("yes, in cities", "yes", None),
        (None, "yes", None),
        (None, None, None),
        ("undecided", "yes", None),
        ("yes", None, "retraction"),
        ("yes", " ", "retraction"),
        ("yes", "Undecided.", "retraction"),
        ("Cap rents", "I withdraw my proposal", "retraction"),
        ("yes", "no", "contradiction"),
        ("we should cap rents", "We should not cap rents", "contradiction"),
        ("they shouldn't", "they should", "contradiction"),
        ("Paris", "London", "contradiction"),
        ("for a cap", "against a cap", "contradiction"),
        ("raise taxes", "lower taxes", "contradiction"),
        ("cap at 3%", "cap at 5%", "contradiction"),
        ("yes", "yes, but not in cities", "refinement"),
        ("yes", "Yes, if wages lag", "refinement"),
        ("cap rents", "cap rents at 3%", "refinement"),
        (LONG, LONG.replace("all", "most"), "refinement"),
        (LONG, LONG.replace("3%", "9%"), "contradiction"),
        (LONG, "Bananas at 3% of the market are a fruit that nobody here has talked of", "contradiction"),
        (LONG, "Bananas make up 3% of all the fruit that people in this town buy", "contradiction"),
        ("家賃に上限を", "上限は要らない", "contradiction"),
    ],
    ids=case_id,
)
def test_wording_determines_the_kind_of_flip(before: str | None, after: str | None, kind: FlipKind | None) -> None:
    """An answer may be retracted, reversed or qualified. Repeating or shortening it does not count as a flip."""
    assert flip_kinds(before, after) == [kind] * (kind is not None)


def test_each_position_is_compared_with_the_previous_one() -> None:
    """A flip and its reversal count as two flips, but an answer given after a retraction does not count as one."""
    assert flip_kinds("yes", "no", "yes", None, "no") == ["contradiction", "contradiction", "retraction"]


def test_long_answers_are_compared_by_the_similarity_measure() -> None:
    """If the measure is an embedding, two answers are compared by meaning rather than by wording."""
    reworded = "In every large city rents should rise by no more than 3% each year since wages do not keep up"
    before, after = (
        Position(agent="ann", answer=text, round=number)
        for number, text in enumerate(["They ought to " + LONG[10:] + ", not only in one", reworded], 1)
    )
    assert [flip.kind for flip in flips([before, after])] == ["contradiction"]
    assert [flip.kind for flip in flips([before, after], similarity=Embeddings())] == ["refinement"]


def test_claims_match_regardless_of_spelling() -> None:
    """Two positions are compared only if the same agent took them on the same claim, however the claim is spelled."""
    history = [
        Position(agent="ann", claim="Rent caps", answer="yes", round=1),
        Position(agent="ann", claim="Taxes", answer="no", round=2),
        Position(agent="bob", claim="rent caps", answer="no", round=2),
        Position(agent="ann", claim=" rent caps.", answer="no", round=3),
    ]
    assert flips(history) == [Flip(agent="ann", kind="contradiction", before=history[0], after=history[3])]


@given(histories)
def test_each_flip_is_between_two_positions_of_the_same_agent(history: list[Position]) -> None:
    detected = flips(history)
    assert [flip.after.round for flip in detected] == sorted(flip.after.round for flip in detected)
    for flip in detected:
        assert flip.before in history
        assert flip.after in history
        assert flip.before.agent == flip.after.agent == flip.agent
        assert flip.before.round <= flip.after.round
        assert flip.before.answer is not None
        assert flip.before.answer != flip.after.answer


@given(histories)
def test_repeated_answers_never_count_as_flips(history: list[Position]) -> None:
    repeated = [position.model_copy(update={"answer": history[0].answer}) for position in history]
    assert flips(repeated) == []


@given(st.lists(texts, max_size=6), st.data())
def test_flips_are_sorted_by_round(answers: list[str], data: st.DataObject) -> None:
    history = [Position(agent="ann", answer=answer, round=number) for number, answer in enumerate(answers, 1)]
    assert flips(data.draw(st.permutations(history))) == flips(history)
