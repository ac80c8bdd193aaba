from __future__ import annotations

import pytest
from hypothesis import given

from flowdebate.measures import same_answer
from flowdebate.measures.statements import answer_words
from tests.ids import case_id
from tests.measures.drawn import texts


@given(texts)
def test_every_answer_equals_itself(text: str) -> None:
    """Differences in case, quotes and spaces are ignored."""
    assert same_answer(text, text)
    if text.isascii() and answer_words(text):
        assert same_answer(text, f'  "{text.upper()}"\n')


@given(texts, texts)
def test_answer_equality_is_symmetric(one: str, other: str) -> None:
    assert same_answer(one, other) is same_answer(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Yes", "yes."),
        ("**Yes**", "“yes”"),
        ("yes", "Yes, in big cities"),
        ("No", "No, they should not"),
        ("\uff23\uff41\uff50 rents", "cap\u200b  rents!"),
        ("42%", "42% of wages"),
        ("-5", "\u22125"),
        ("don't", "don’t"),
        ("STRASSE", "straße"),
        ("家賃", "家賃。"),
        ("👍", "👍"),
    ],
    ids=case_id,
)
def test_answers_that_differ_in_spelling_or_detail_are_equal(one: str, other: str) -> None:
    assert same_answer(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Yes", "No"),
        ("yes", "yes, but not in cities"),
        ("we should", "we should not"),
        ("they should", "they shouldn't"),
        ("5", "-5"),
        ("5", "5.5"),
        ("5", "5 million"),
        ("C", "C++"),
        ("C++", "C#"),
        ("👍", "👎"),
        ("a < b", "a > b"),
        ("caps", "capsule"),
        ("", "yes"),
        ("", "?"),
        ("ann", "anne"),
    ],
    ids=case_id,
)
def test_answers_that_differ_in_meaning_are_not_equal(one: str, other: str) -> None:
    """Answers with different negations, signs or numbers differ, as do words that merely begin alike."""
    assert not same_answer(one, other)
