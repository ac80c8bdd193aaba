"""Matching names in answers, such as the candidate that a voter chooses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate.measures.statements import answer_words
from flowdebate.models.reading import find_name
from tests.ids import case_id
from tests.measures.drawn import names, texts


@given(names, texts)
def test_a_match_is_always_one_of_the_choices(agents: list[str], text: str) -> None:
    """There may be no match at all. It does not matter in which order the choices are listed."""
    match = find_name(text, agents)
    assert match is None or match in agents
    assert match == find_name(text, agents[::-1])


@given(names, st.data())
def test_an_exact_name_always_matches(agents: list[str], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(agents))
    assert find_name(name, agents) == name


@given(names, st.data(), st.sampled_from([" {}\n", '"{}"', "**{}**", "({}).", "\u200b{}\ufeff"]))
def test_punctuation_around_a_name_is_ignored(agents: list[str], data: st.DataObject, frame: str) -> None:
    """Punctuation is ignored unless it distinguishes two names or makes the text match another name."""
    name = data.draw(st.sampled_from(agents))
    alike = [agent for agent in agents if answer_words(agent) == answer_words(name)]
    if len(alike) == 1 and answer_words(name) and frame.format(name) not in agents:
        assert find_name(frame.format(name), agents) == name


@pytest.mark.parametrize(
    ("text", "choices", "choice"),
    [
        ("ann", ["Ann", "Bob"], "Ann"),
        ("'Ann'", ["Ann", "Bob"], "Ann"),
        ("ann", ["Ann", "ANN"], None),
        ("Ann", ["Ann", "ANN"], "Ann"),
        ("agent 1", ["agent-1", "agent-2"], "agent-1"),
        ("Agent_1", ["agent-1", "agent-2"], "agent-1"),
        ("agent1", ["agent-1", "agent_1"], None),
        ("I vote for Bob.", ["Ann", "Bob"], "Bob"),
        ("the proposal of Ann", ["Ann", "Bob"], "Ann"),
        ("Ann's proposal", ["Ann", "Bob"], "Ann"),
        ("proposal by agent 1", ["agent 1", "1"], "agent 1"),
        ("Ann or Bob", ["Ann", "Bob"], None),
        ("not Bob", ["Ann", "Bob"], None),
        ("anyone but Bob", ["Ann", "Bob"], None),
        ("An", ["Ann", "Bob"], None),
        ("", ["Ann", "Bob"], None),
        ("?", ["Ann", "!"], None),
        ("Ann", [], None),
        ("\u200bA\u00adnn\ufe0f", ["Ann"], "Ann"),
        ("\uff21\uff2e\uff2e", ["Ann"], "Ann"),
        ("for", ["For", "Against"], "For"),
        ("A", ["A", "B"], "A"),
        ("option A", ["A", "B"], "A"),
    ],
    ids=case_id,
)
def test_a_choice_is_never_misread(text: str, choices: list[str], choice: str | None) -> None:
    """Differences in case, quotes, hyphens and surrounding words are tolerated. An ambiguous name matches nothing."""
    assert find_name(text, choices) == choice
