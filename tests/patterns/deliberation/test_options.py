"""Options of `deliberation()` reach the default blocks, and only those; visibilities keep items back."""

from __future__ import annotations

from typing import Any

import pytest

from flowdebate import Capability, Persona, Session, Visibility, generator
from flowdebate.models import ModelSettings
from flowdebate.patterns.deliberation import create_deliberation_transcript, create_moderator, create_persona_debater
from flowdebate.patterns.roles import INSTRUCTIONS
from flowdebate.runs.events import BlockAnswered, ModelCalled
from flowdebate.testing import FunctionModel, ModelRequest, ScriptedModel, ToolCall
from tests.patterns.debates import events, system_of

from .deliberations import PERSONAS, SETTLED, TOPIC, by_role, deal

ROLES = ["deal-debater-bull", "deal-debater-bear", "deal-moderator"]


def calls(**options: Any) -> list[Any]:
    """What the models were asked."""
    model = ScriptedModel("A", "B", SETTLED)
    deal(**options).run_sync(TOPIC, model=model)
    assert [call.block for call in model.calls] == ROLES
    return model.calls


def search(query: str) -> str:
    """Search the web."""
    return f"found {query}"


def test_prompt_options_reach_every_default_block() -> None:
    """Instructions, tools, capabilities and context, as for a debate."""
    assert all("Be polite." in system_of(call) for call in calls(instructions="Be polite."))
    assert [list(call.tools) for call in calls(tools=[search])] == [["search"]] * 3
    research = Capability(name="research", tools=[search], instructions="Look it up.", context=["Today is Monday."])
    for call in calls(uses=[research], context=["Rents rose."]):
        assert list(call.tools) == ["search"]
        assert "Look it up." in system_of(call)
        assert [message["content"] for message in call.messages[1:3]] == ["Rents rose.", "Today is Monday."]


def test_instructions_stand_behind_the_persona_in_the_system_message() -> None:
    """They are the application's own text, as the system prompt is, and take precedence over all rules."""
    assert system_of(calls(instructions="Be polite.")[0]).endswith(f"others see risk.\n\n{INSTRUCTIONS}\nBe polite.")


def test_settings_reach_every_default_block() -> None:
    """Of personas and moderator."""
    seen: list[float | None] = []

    def answer(request: ModelRequest) -> Any:
        seen.append(request.settings.temperature)
        return SETTLED if request.block == "deal-moderator" else "said"

    deal(settings=ModelSettings(temperature=0.5)).run_sync(TOPIC, model=FunctionModel(answer))
    assert seen == [0.5] * 3


def test_a_tool_is_answered_before_the_persona_speaks() -> None:
    """The function is called with the model's arguments."""

    def answer(request: ModelRequest) -> Any:
        if request.block == "deal-debater-bull" and request.messages[-1]["role"] != "tool":
            return ToolCall(id="1", name="search", arguments='{"query": "burn rate"}')
        return SETTLED if request.block == "deal-moderator" else str(request.messages[-1]["content"])[:15]

    output = deal(tools=[search]).run_sync(TOPIC, model=FunctionModel(answer)).output
    assert output.history[0].text == "found burn rate"


@pytest.mark.parametrize("role", ["debater", "moderator"])
def test_options_do_not_reach_blocks_of_ones_own(role: str) -> None:
    """An override's prompt, tools and messages are its own."""
    seen: list[ModelRequest] = []

    def answer(request: ModelRequest) -> Any:
        if request.block == "own":
            seen.append(request)
        return "SUMMARY: x\nSTATUS: SETTLED" if request.output is None else SETTLED

    own = generator(name="own", prompt="Mine.")
    taken: dict[str, Any] = {"moderator": own}
    if role == "debater":
        taken = {"debaters": [Persona("owl", block=own), PERSONAS[0]]}
    pattern = deal(**taken, instructions="Be polite.", tools=[search], context=["Today is Monday."])
    assert pattern.run_sync(TOPIC, model=FunctionModel(answer)).output.is_settled
    (request,) = seen
    assert request.messages[0] == {"role": "system", "content": "Mine."}
    assert len(request.messages) == 2
    assert request.tools == ()


def named(name: str) -> FunctionModel:
    """A model for all roles."""
    return FunctionModel(by_role()._function, name=name)


def test_models_are_those_of_the_persona_the_pattern_and_the_run() -> None:
    """The run's replaces all; intents are the run's, then the pattern's."""

    def models(pattern: Any, **options: Any) -> list[str]:
        return [event.model for event in events(pattern.run_sync(TOPIC, **options), ModelCalled)]

    assert models(deal(), model={"chat": named("talker"), "synthesize": named("thinker")}) == [
        "talker",
        "talker",
        "thinker",
    ]
    assert models(deal(model=named("ours")), model=named("runs")) == ["runs"] * 3
    assert models(deal(model={"synthesize": named("ours")}), model={"chat": named("runs")}) == ["runs", "runs", "ours"]
    own = [Persona("bull", model=named("bulls")), PERSONAS[1]]
    assert models(deal(debaters=own, model=named("ours"))) == ["bulls", "ours", "ours"]
    assert models(deal(debaters=own, model=named("ours")), model=named("runs")) == ["runs"] * 3


def answered(**visibility: Any) -> tuple[list[str], list[str]]:
    """Whose items the client saw, and whose the history has."""
    session = Session()
    result = deal(**visibility).run_sync(TOPIC, model=by_role(), session=session)
    return [event.block for event in events(result, BlockAnswered)], [item["name"] for item in session.history]


def test_visibilities_say_whose_items_are_shown_and_kept() -> None:
    """By default all are shown, and the moderator's are kept."""
    assert answered() == (ROLES, ["deal-moderator"])
    assert answered(debater_visibility={"client": False, "history": True}) == (["deal-moderator"], ROLES)
    assert answered(moderator_visibility=Visibility(client=False, history=False)) == (ROLES[:2], [])


def test_default_blocks_can_be_made_by_hand() -> None:
    """With names, models and templates of their own, around the same transcript."""
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


def test_default_blocks_work_by_themselves() -> None:
    """Without a deliberation around them, on what they are given."""
    transcript = create_deliberation_transcript()
    owl = create_persona_debater(name="x", agent_name="owl", transcript=transcript)
    model = ScriptedModel("Hoot.")
    assert owl.run_sync(TOPIC, model=model).output == "Hoot."
    assert f"Topic: {TOPIC}" in system_of(model.calls[0])
    reporter = create_moderator(name="x", transcript=transcript, participants={"owl": None})
    assert reporter.run_sync(TOPIC, model=ScriptedModel(SETTLED)).output.settled
