"""Options of `round_robin()` reach the default blocks that it makes, and only those."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import Capability, Persona, Session, Visibility, generator, round_robin
from flowdebate.models import ModelSettings
from flowdebate.runs.events import BlockAnswered, ModelCalled
from flowdebate.testing import FunctionModel, ScriptedModel
from tests.patterns.debates import events, system_of

from .panels import PANEL, QUESTION, REPORT, bridge, by_role, refereed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.runs.context import Context
    from flowdebate.testing import ModelRequest, RecordedCall


def search(query: str) -> str:
    """Search the web."""
    return f"found {query}"


def calls(**options: Any) -> Sequence[RecordedCall]:
    """What two panelists and the synthesizer were asked."""
    model = ScriptedModel("A", "B", "The answer.")
    round_robin(**{"name": "bridge", "debaters": PANEL, "max_rounds": 1, **options}).run_sync(QUESTION, model=model)
    return model.calls


def test_instructions_tools_uses_and_context_reach_the_default_blocks() -> None:
    """All of them, for panelists and synthesizer."""

    def instruct(_: object, ctx: Context) -> str:
        return f"You are {ctx.block}."

    research = Capability(name="research", tools=[search], instructions="Look it up.", context=["Today is Monday."])
    for call in calls(instructions=instruct, uses=[research], context=["It rains."]):
        assert f"You are {call.block}." in system_of(call)
        assert "Look it up." in system_of(call)
        assert [message["content"] for message in call.messages[1:3]] == ["It rains.", "Today is Monday."]
        assert list(call.tools) == ["search"]
    assert [list(call.tools) for call in calls(tools=[search])] == [["search"]] * 3


def test_settings_reach_the_default_blocks() -> None:
    """Temperature, room, deadline."""
    seen: list[float | None] = []

    def answer(request: ModelRequest) -> str:
        seen.append(request.settings.temperature)
        return "said"

    round_robin(name="bridge", debaters=PANEL, settings=ModelSettings(temperature=0.3)).run_sync(
        QUESTION, model=FunctionModel(answer)
    )
    assert seen == [0.3] * 5


def test_a_referee_has_its_own_options() -> None:
    """`create_referee(instructions=…)` reaches the referee, and the panel's instructions do not."""
    model = ScriptedModel("A", "B", REPORT)
    bridge(max_rounds=1, instructions="Be brief.", **refereed(instructions="Be fair.")).run_sync(QUESTION, model=model)
    assert ["Be brief." in system_of(call) for call in model.calls] == [True, True, False]
    assert ["Be fair." in system_of(call) for call in model.calls] == [False, False, True]


def test_options_do_not_reach_blocks_of_ones_own() -> None:
    """A panelist, a referee and a synthesizer of the application's own keep their prompts and tools."""
    own = [generator(name=f"own-{role}", prompt="Mine.") for role in ("panelist", "synthesizer")]
    referee = generator(name="own-referee", prompt="Mine.", output_schema=dict[str, Any])
    model = ScriptedModel("A", "B", {"notes": "-"}, "The answer.")
    round_robin(
        name="bridge",
        debaters=[Persona("ada", block=own[0]), PANEL[1]],
        referee=referee,
        synthesizer=own[1],
        max_rounds=1,
        instructions="Be brief.",
        tools=[search],
        context=["It rains."],
    ).run_sync(QUESTION, model=model)
    assert [len(call.messages) for call in model.calls] == [2, 3, 2, 2]
    assert [list(call.tools) for call in model.calls] == [[], ["search"], [], []]
    assert [system_of(call) == "Mine." for call in model.calls] == [True, False, True, True]


def test_a_panelist_may_have_a_model_of_its_own() -> None:
    """`Persona(model=…)` beats the panel's; the run's beats both."""
    named = {name: FunctionModel(lambda _: "said", name=name) for name in ("hers", "panels", "runs")}
    panelists = [Persona("ada", model=named["hers"]), PANEL[1]]
    panel = bridge(debaters=panelists, max_rounds=1, model=named["panels"])
    assert [event.model for event in events(panel.run_sync(QUESTION), ModelCalled)] == ["hers", "panels"]
    result = panel.run_sync(QUESTION, model=named["runs"])
    assert [event.model for event in events(result, ModelCalled)] == ["runs", "runs"]


def test_intents_are_resolved_by_the_run() -> None:
    """Panelists ask "intent/chat", referee and synthesizer "intent/synthesize"."""
    inner = by_role()
    models = {name: FunctionModel(inner._function, name=name) for name in ("chat", "synthesize")}
    result = bridge(synthesizer=None, max_rounds=1, **refereed()).run_sync(QUESTION, model=models)
    assert [event.model for event in events(result, ModelCalled)] == ["chat", "chat", "synthesize", "synthesize"]


ROLES = ["bridge-panelist-ada", "bridge-panelist-ben", "bridge-synthesizer"]


@pytest.mark.parametrize(
    ("visibility", "shown", "kept"),
    [
        ({}, ROLES, ROLES[2:]),
        ({"debater_visibility": {"client": False}}, ROLES[2:], ROLES[2:]),
        ({"debater_visibility": Visibility()}, ROLES, ROLES),
        ({"synthesizer_visibility": {"client": False, "history": False}}, ROLES[:2], []),
    ],
    ids=["default", "panelists hidden", "panelists kept", "synthesizer neither"],
)
def test_visibilities_say_what_is_shown_and_kept(visibility: dict[str, Any], shown: list[str], kept: list[str]) -> None:
    """By default all items are shown, and those of panelists are not kept in the session's history."""
    session = Session()
    pattern = round_robin(name="bridge", debaters=PANEL, max_rounds=1, **visibility)
    result = pattern.run_sync(QUESTION, model=by_role(), session=session)
    assert [event.block for event in events(result, BlockAnswered)] == shown
    assert [message["name"] for message in session.history] == kept


def test_a_panelists_system_prompt_is_its_own() -> None:
    """It stands at the end of its system message, and in nobody else's."""
    first, second, _ = (system_of(call) for call in calls())
    assert first.endswith("You are ada, economist.\nYou count what it costs.")
    assert second.endswith("You are ben, engineer.\nYou ask whether it holds.")
    assert "holds" not in first


def test_the_trail_has_the_id_that_it_is_given() -> None:
    """`collection_id` replaces the pattern's name; each turn is a task with its round, completed with its text."""
    trail = bridge(collection_id="trail-7", max_rounds=1).run_sync(QUESTION, model=ScriptedModel("A", "B")).tasks
    assert trail.collection_id == "trail-7"
    assert [(task.goal, task.assignee, task.metadata, task.status, task.output) for task in trail.list()] == [
        ("Speak in round 1", "ada", {"round": 1}, "completed", "A"),
        ("Speak in round 1", "ben", {"round": 1}, "completed", "B"),
    ]
    assert bridge(max_rounds=1).run_sync(QUESTION, model=by_role()).tasks.collection_id == "bridge"
