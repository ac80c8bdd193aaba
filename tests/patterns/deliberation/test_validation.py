"""What `deliberation()` refuses before anything is built."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from flowdebate import Persona, StandIn, create_debate_transcript, deliberation
from flowdebate.errors import ConfigurationError, ResourceConflict
from flowdebate.patterns.deliberation import create_deliberation_transcript, create_moderator

from .deliberations import PERSONAS, deal


@dataclass(frozen=True)
class Case:
    """Options that cannot be, and what the error says of them."""

    id: str
    options: dict[str, Any]
    field: str
    allowed: str


REJECTED = [
    Case("one persona", {"debaters": PERSONAS[:1]}, "debaters", "at least two debaters"),
    Case("no list", {"debaters": "ab"}, "debaters", "a list of Persona or dicts"),
    Case("a stance", {"debaters": [{"name": "a", "stance": "x"}, PERSONAS[0]]}, "debaters[0]", "role, system_prompt"),
    Case("a blank name", {"debaters": [Persona(" "), PERSONAS[0]]}, "debaters[0].name", "not blank"),
    Case("the same name", {"debaters": [PERSONAS[0], Persona("BULL")]}, "debaters[1].name", "by case"),
    Case(
        "a role that is none",
        {"debaters": [Persona("a", role=3), PERSONAS[0]]},  # type: ignore[arg-type]
        "debaters[0].role",
        "a string or None",
    ),
    Case("a block that is none", {"debaters": [Persona("a", block=3), PERSONAS[0]]}, "debaters[0].block", "a block"),
    Case("no rounds", {"max_rounds": 0}, "max_rounds", "an int >= 1"),
    Case("a bool of rounds", {"max_rounds": True}, "max_rounds", "an int >= 1"),
    Case(
        "moderator=0 is not False", {"moderator": 0}, "moderator", "default block, False, which leaves it out, a block"
    ),
    Case("a moderator that is none", {"moderator": "x"}, "moderator", "a block, or a function"),
    Case("a form that is none", {"report": "json"}, "report", "one of 'structured', 'text'"),
    Case("a predicate that is none", {"terminate_when": True}, "terminate_when", "a sync or async function"),
    Case("a transcript that is none", {"transcript": []}, "transcript", "create_deliberation_transcript"),
    Case(
        "another pattern's transcript",
        {"transcript": create_debate_transcript()},
        "transcript",
        "create_deliberation_transcript",
    ),
    Case("an unknown way to fail", {"on_failure": "ignore"}, "on_failure", "'fail', 'skip' or StandIn"),
    Case("an unknown stand-in", {"on_failure": StandIn("nobody/knows")}, "on_failure", "model"),
    Case("no quorum", {"quorum": 0}, "quorum", "an int >= 1"),
    Case("no time for a turn", {"turn_timeout": 0}, "turn_timeout", "seconds"),
    Case("no time for a round", {"round_timeout": -1}, "round_timeout", "seconds"),
    Case("a blank name of the trail", {"collection_id": " "}, "collection_id", "not blank"),
    Case("an unknown visibility", {"debater_visibility": {"x": True}}, "debater_visibility", "client and history"),
    Case("a visibility that is none", {"moderator_visibility": 3}, "moderator_visibility", "a Visibility"),
]


@pytest.mark.parametrize("case", REJECTED, ids=lambda case: case.id)
def test_what_cannot_be_a_deliberation_is_refused(case: Case) -> None:
    """With the pattern, the field and what is allowed."""
    with pytest.raises(ConfigurationError) as caught:
        deal(**case.options)
    assert caught.value.where == "deliberation 'deal'"
    assert caught.value.field == case.field
    assert case.allowed in str(caught.value)


def test_a_name_is_needed() -> None:
    """Its blocks are called after it."""
    with pytest.raises(ConfigurationError, match="deliberation: `name` must be"):
        deliberation(name="", debaters=PERSONAS)


def test_a_reporter_is_told_how_to_ask() -> None:
    """By a schema or for text."""
    with pytest.raises(ConfigurationError, match="moderator 'x': `report` must be one of 'structured', 'text'"):
        create_moderator(name="x", transcript=create_deliberation_transcript(), participants={}, report="no")


def test_another_transcript_in_a_role_is_refused() -> None:
    """Two of them in one deliberation: the error says to share the reference."""
    own = create_moderator(name="own", transcript=create_deliberation_transcript(), participants={})
    with pytest.raises(ResourceConflict, match="same reference"):
        deal(moderator=own)
