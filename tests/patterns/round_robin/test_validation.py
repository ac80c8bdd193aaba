"""What `round_robin()` refuses, and what it warns of."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from flowdebate import Debater, FlowDebateWarning, Persona, StandIn, create_debate_transcript, round_robin
from flowdebate.errors import ConfigurationError
from flowdebate.testing import ScriptedModel
from tests.patterns.policies import with_policy

from .panels import PANEL, QUESTION

REFUSED: list[tuple[str, dict[str, Any], str, str]] = [
    ("one panelist", {"debaters": [PANEL[0]]}, "debaters", "at least two debaters"),
    ("no list", {"debaters": "ab"}, "debaters", "a list of Persona or dicts"),
    ("a debater", {"debaters": [Debater("a", "x"), PANEL[1]]}, "debaters[0]", "a Persona, or a dict with name"),
    ("a stance", {"debaters": [{"name": "a", "stance": "x"}, PANEL[1]]}, "debaters[0]", "a dict with name"),
    ("a blank name", {"debaters": [Persona(" "), PANEL[1]]}, "debaters[0].name", "not blank"),
    ("the same name", {"debaters": [Persona("A"), Persona("a")]}, "debaters[1].name", "different from"),
    ("a role", {"debaters": [Persona("a", 3), PANEL[1]]}, "debaters[0].role", "a string or None"),  # type: ignore[arg-type]
    ("a block", {"debaters": [Persona("a", block=3), PANEL[1]]}, "debaters[0].block", "a block or a function"),
    ("no rounds", {"max_rounds": 0}, "max_rounds", "an int >= 1"),
    ("a bool of rounds", {"max_rounds": True}, "max_rounds", "an int >= 1"),
    ("referee=0 is not False", {"referee": 0}, "referee", "None or False, which leave it out, True, the default one"),
    ("referee=a name", {"referee": "gpt"}, "referee", "None or False, which leave it out, True, the default one"),
    ("no schema", {"output_schema": 3}, "output_schema", "a pydantic model"),
    ("no predicate", {"terminate_when": 3}, "terminate_when", "a sync or async function"),
    ("no transcript", {"transcript": 3}, "transcript", "create_round_robin_transcript()"),
    (
        "a debate's transcript",
        {"transcript": create_debate_transcript()},
        "transcript",
        "create_round_robin_transcript()",
    ),
    ("on_failure", {"on_failure": "ignore"}, "on_failure", "'fail', 'skip' or StandIn(model)"),
    ("a stand-in", {"on_failure": StandIn("nobody/knows")}, "on_failure", "nobody"),
    ("no quorum", {"quorum": 0}, "quorum", "an int >= 1"),
    ("no time", {"turn_timeout": 0}, "turn_timeout", ""),
    ("not a time", {"round_timeout": float("nan")}, "round_timeout", ""),
    ("a blank id", {"collection_id": ""}, "collection_id", "not blank"),
    ("a visibility", {"debater_visibility": {"public": True}}, "debater_visibility", ""),
    ("another visibility", {"synthesizer_visibility": 1}, "synthesizer_visibility", ""),
]


@pytest.mark.parametrize(("options", "field", "allowed"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_what_cannot_be_a_panel_is_refused(options: dict[str, Any], field: str, allowed: str) -> None:
    """A ConfigurationError, which is a ValueError, names the pattern, the field, what was given and what is allowed."""
    with pytest.raises(ConfigurationError) as caught:
        round_robin(**with_policy({"name": "bridge", "debaters": PANEL, **options}))
    assert isinstance(caught.value, ValueError)
    assert (caught.value.where, caught.value.field) == ("round_robin 'bridge'", field)
    assert allowed in str(caught.value)


@pytest.mark.parametrize("name", ["", " ", None, 3])
def test_a_panel_has_a_name(name: Any) -> None:
    """A string that is not blank."""
    with pytest.raises(ConfigurationError, match="round_robin: `name` must be"):
        round_robin(name=name, debaters=PANEL)


@pytest.mark.parametrize("value", [None, 3, {"topic": "x"}, {"question": 3}, ["?"]], ids=repr)
def test_what_is_no_question_is_refused(value: object) -> None:
    """Before any model is asked."""
    model = ScriptedModel()
    with pytest.raises(ConfigurationError, match=r"round_robin 'bridge': `input` must be a question"):
        round_robin(name="bridge", debaters=PANEL).run_sync(value, model=model)
    assert model.calls == []


def test_more_than_four_rounds_are_warned_of() -> None:
    """Once per call, in the project's category, at the caller's line; four are not."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        round_robin(name="bridge", debaters=PANEL, max_rounds=4)
        assert caught == []
        pattern = round_robin(name="bridge", debaters=PANEL, max_rounds=5)
        pattern.run_sync(QUESTION, model=ScriptedModel(*"abcdefghij", "The answer."))
    (warning,) = caught
    assert (warning.category, warning.filename) == (FlowDebateWarning, __file__)
    assert "max_rounds=5: debaters tend to agree" in str(warning.message)
