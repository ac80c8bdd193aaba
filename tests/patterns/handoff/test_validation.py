"""What `handoff()` refuses before anything runs."""

from __future__ import annotations

from typing import Any

import pytest

from flowdebate import Debater, Persona, StandIn, create_debate_transcript, handoff
from flowdebate.errors import ConfigurationError
from flowdebate.patterns.handoff import create_handoff_transcript, create_speaker
from flowdebate.testing import ScriptedModel
from tests.ids import shown

from .speakers import SPEAKERS, morals

REFUSED: list[tuple[str, dict[str, Any], str, str]] = [
    ("one debater", {"debaters": [SPEAKERS[0]]}, "debaters", "at least two debaters"),
    ("no list", {"debaters": "ab"}, "debaters", "a list of Persona or dicts"),
    ("a debate's debater", {"debaters": [Debater("a", "x"), SPEAKERS[0]]}, "debaters[0]", "a Persona"),
    ("a blank name", {"debaters": [Persona(" "), SPEAKERS[0]]}, "debaters[0].name", "not blank"),
    ("the same name", {"debaters": [Persona("A"), Persona("a")]}, "debaters[1].name", "different from"),
    ("a first that is nobody", {"first": "Bob"}, "first", "None, or one of 'Pro', 'Con', 'Neutral'"),
    ("a first in another case", {"first": "pro"}, "first", "one of"),
    ("a first of another type", {"first": 0}, "first", "one of"),
    ("a first that is a list", {"first": ["Pro"]}, "first", "one of"),
    ("a transition", {"transition": "json"}, "transition", "one of 'text', 'tool', 'structured'"),
    ("no transition", {"transition": None}, "transition", "one of"),
    ("on_invalid", {"on_invalid": "ignore"}, "on_invalid", "one of 'retry', 'random', 'error'"),
    ("no turns", {"max_turns": 0}, "max_turns", "an int >= 1"),
    ("a bool of turns", {"max_turns": True}, "max_turns", "an int >= 1"),
    ("no predicate", {"terminate_when": 3}, "terminate_when", "a sync or async function"),
    ("no transcript", {"transcript": 3}, "transcript", "create_handoff_transcript()"),
    ("a debate's transcript", {"transcript": create_debate_transcript()}, "transcript", "create_handoff_transcript()"),
    ("on_failure", {"on_failure": "ignore"}, "on_failure", "'fail', 'skip' or StandIn(model)"),
    ("a stand-in", {"on_failure": StandIn("nobody/knows")}, "on_failure", "nobody"),
    ("no time", {"turn_timeout": 0}, "turn_timeout", ""),
    ("a blank id", {"collection_id": ""}, "collection_id", "not blank"),
    ("a visibility", {"debater_visibility": {"public": True}}, "debater_visibility", ""),
]


@pytest.mark.parametrize(("options", "field", "allowed"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_what_cannot_be_a_handoff_is_refused(options: dict[str, Any], field: str, allowed: str) -> None:
    """A ConfigurationError, which is a ValueError, names the pattern, the field, what was given and what is allowed."""
    with pytest.raises(ConfigurationError) as caught:
        morals(**options)
    assert isinstance(caught.value, ValueError)
    assert (caught.value.where, caught.value.field) == ("handoff 'morals'", field)
    assert allowed in str(caught.value)


@pytest.mark.parametrize("name", ["", " ", None, 3])
def test_a_handoff_has_a_name(name: Any) -> None:
    """A string that is not blank."""
    with pytest.raises(ConfigurationError, match="handoff: `name` must be"):
        handoff(name=name, debaters=SPEAKERS)


@pytest.mark.parametrize("value", [None, 3, {"topic": "x"}, {"proposition": 3}, ["?"]], ids=shown)
def test_what_is_no_proposition_is_refused(value: object) -> None:
    """Before any model is asked."""
    model = ScriptedModel()
    with pytest.raises(ConfigurationError, match=r"handoff 'morals': `input` must be a proposition"):
        morals().run_sync(value, model=model)
    assert model.calls == []


def test_a_tool_of_the_application_may_not_be_called_handoff() -> None:
    """With "tool" that name is taken; in the other forms it is free."""

    def handoff(x: str) -> str:
        """Another one."""
        return x

    with pytest.raises(ConfigurationError, match="tools with different names"):
        morals(tools=[handoff], transition="tool")
    morals(tools=[handoff])


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"speakers": {"Con": None, "Neutral": None}}, "speakers"),
        ({"speakers": {"Pro": None}}, "speakers"),
        ({"transition": "json"}, "transition"),
    ],
    ids=shown,
)
def test_a_speaker_needs_itself_and_another(options: dict[str, Any], field: str) -> None:
    """Made by itself, it is checked too."""
    about: dict[str, Any] = {"name": "m", "agent_name": "Pro", "speakers": {"Pro": None, "Con": None}}
    with pytest.raises(ConfigurationError) as caught:
        create_speaker(**{**about, "transcript": create_handoff_transcript(), **options})
    assert caught.value.field == field
