"""Options for `deliberation()`, which affect only the default blocks, and visibility settings, which hide items."""

from __future__ import annotations

from typing import Any

import pytest

from flowdebate import Persona
from flowdebate.chassis.roles import INSTRUCTIONS
from flowdebate.errors import ConfigurationError, ResourceConflict
from flowdebate.patterns.deliberation import create_deliberation_transcript, create_moderator, create_persona_debater
from flowdebate.testing import ScriptedModel
from tests.patterns.debates import system_of

from .deliberations import PERSONAS, SETTLED, TOPIC, deal

ROLES = ["deal-debater-bull", "deal-debater-bear", "deal-moderator"]


def run_and_record_calls(**options: Any) -> list[Any]:
    """Run a deliberation and return the requests sent to its models."""
    model = ScriptedModel("A", "B", SETTLED)
    deal(**options).run_sync(TOPIC, model=model)
    assert [call.block for call in model.calls] == ROLES
    return model.calls


def test_instructions_follow_the_persona_in_the_system_message() -> None:
    """The instructions come from the application, like the system prompt, so they may override any rule."""
    assert system_of(run_and_record_calls(instructions="Be polite.")[0]).endswith(
        f"others see risk.\n\n{INSTRUCTIONS}\nBe polite."
    )


def test_default_blocks_can_be_created_separately() -> None:
    transcript = create_deliberation_transcript()
    participants = {"bull": "investor", "owl": None}
    owl = create_persona_debater(
        name="mine", agent_name="owl", transcript=transcript, participants=participants, system_prompt="You are wise."
    )
    moderator = create_moderator(name="mine", transcript=transcript, participants=participants, report="text")
    model = ScriptedModel("A", "B", "STATUS: settled\nDECISION: Wait.")
    pattern = deal(debaters=[PERSONAS[0], Persona("owl", block=owl)], transcript=transcript, moderator=moderator)
    output = pattern.run_sync(TOPIC, model=model).output
    assert [call.block for call in model.calls] == ["deal-debater-bull", "mine-debater-owl", "mine-moderator"]
    assert output.final_decision == "Wait."
    assert system_of(model.calls[1]).endswith("You are owl.\nYou are wise.")


def test_default_blocks_work_outside_a_deliberation() -> None:
    transcript = create_deliberation_transcript()
    owl = create_persona_debater(name="x", agent_name="owl", transcript=transcript)
    model = ScriptedModel("Hoot.")
    assert owl.run_sync(TOPIC, model=model).output == "Hoot."
    assert f"Topic: {TOPIC}" in system_of(model.calls[0])
    reporter = create_moderator(name="x", transcript=transcript, participants={"owl": None})
    assert reporter.run_sync(TOPIC, model=ScriptedModel(SETTLED)).output.settled


def test_invalid_report_forms_are_rejected() -> None:
    with pytest.raises(ConfigurationError, match="deliberation 'deal': `report` must be structured or text"):
        deal(report="json")


def test_report_form_is_configurable() -> None:
    with pytest.raises(ConfigurationError, match="moderator 'x': `report` must be structured or text"):
        create_moderator(name="x", transcript=create_deliberation_transcript(), participants={}, report="no")


def test_roles_with_a_different_transcript_are_rejected() -> None:
    custom = create_moderator(name="own", transcript=create_deliberation_transcript(), participants={})
    with pytest.raises(ResourceConflict, match="same reference"):
        deal(moderator=custom)
