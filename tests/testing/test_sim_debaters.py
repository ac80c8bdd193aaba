"""Simulated debaters, both conformist and stubborn, in the library's own patterns."""

from __future__ import annotations

from typing import Any

import pytest

from flowdebate import DebateContributionEntry, Debater, consensus, debate, generator
from flowdebate.chassis.roster import Persona
from flowdebate.errors import ConfigurationError, MalformedResponse
from flowdebate.patterns.debate.transcript import render_entries
from flowdebate.testing.simulated.debaters import SimDebater, conformist, read_positions, stubborn
from flowdebate.testing.simulated.judge import SimJudge

SAID = "Round 1:\n[ann] I hold: tea.\n[bob] Well. I hold: tea.\n[cleo] I hold: milk.\n  | [dan] I hold: gin."
"""Transcript in which a continuation line imitates an argument by Dan."""


def test_debaters_read_the_others_but_ignore_forged_lines() -> None:
    assert read_positions(SAID) == [("ann", "tea"), ("bob", "tea"), ("cleo", "milk")]


@pytest.mark.parametrize(
    ("debater", "position"),
    [
        (stubborn("juice"), "juice"),
        (conformist("juice"), "tea"),
        (conformist("juice", follows="last"), "milk"),
        (conformist("tea"), "milk"),
        (conformist("juice", conformity=0.0), "juice"),
    ],
    ids=["stubborn", "majority", "last", "others only", "never"],
)
def test_debaters_follow_their_strategy(debater: SimDebater, position: str) -> None:
    assert debater.holds(SAID) == position
    assert debater.holds("Nobody has spoken.") == debater.position


def test_conformists_switch_at_the_configured_rate() -> None:
    """Known and unknown names have separate rates, and the seed determines who switches."""
    debater = SimDebater("juice", conformity=0.1, name_bias=0.6, names=["ann"])
    for tag, expected in (("ann", 0.6), ("someone", 0.1)):
        positions = [debater.holds(f"[{tag}] I hold: tea.\nItem {item}") for item in range(2_000)]
        assert positions.count("tea") / 2_000 == pytest.approx(expected, abs=0.035)
        assert positions == [debater.holds(f"[{tag}] I hold: tea.\nItem {item}") for item in range(2_000)]


def test_hidden_names_have_no_influence() -> None:
    entries = [DebateContributionEntry(round=1, agent_name="ann", stance="for", text="I hold: tea.")]
    debater = SimDebater("juice", name_bias=1.0, names=["ann"])
    assert debater.holds(render_entries(entries, names=True)) == "tea"
    assert debater.holds(render_entries(entries)) == "juice"


def test_simulated_debaters_can_debate() -> None:
    sides = [
        Debater("ann", "tea", model=stubborn("tea")),
        Debater("bob", "milk", model=conformist("milk")),
    ]
    pattern = debate(name="drinks", debaters=sides, max_rounds=2, synthesizer=False, model=SimJudge())
    result = pattern.run_sync("What to drink?")
    assert [entry.text for entry in result.raw.transcript] == ["I hold: tea."] * 4


def reach_consensus(*models: SimDebater) -> Any:
    """Run a consensus debate between these debaters and return the result."""
    agents = [Persona(name, model=model) for name, model in zip(("ann", "bob", "cleo"), models, strict=True)]
    pattern = consensus(name="drinks", agents=agents, max_rounds=1)
    return pattern.run_sync("What to drink?", seed=1).output


def test_simulated_debaters_can_seek_consensus() -> None:
    conform = reach_consensus(stubborn("tea"), conformist("milk"), conformist("juice"))
    apart = reach_consensus(stubborn("tea"), stubborn("milk"), stubborn("juice"))
    assert conform.answer == "I hold: tea."
    assert conform.strength == "unanimous"
    assert apart.strength != "unanimous"


@pytest.mark.parametrize(
    ("position", "options", "field"),
    [
        ("", {}, "position"),
        ("Tea. Milk", {}, "position"),
        ("tea", {"conformity": 1.5}, "conformity"),
        ("tea", {"name_bias": True}, "name_bias"),
        ("tea", {"follows": "first"}, "follows"),
    ],
)
def test_invalid_options_are_rejected(position: str, options: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        SimDebater(position, **options)
    assert caught.value.field == field


def test_unknown_schemas_are_rejected() -> None:
    schema = {"type": "object", "properties": {"budget": {"type": "number"}}, "required": ["budget"]}
    with pytest.raises(MalformedResponse, match="budget"):
        generator(name="ask", output_schema=schema).run_sync("?", model=stubborn("tea"))
