"""Helpers for testing `handoff()`: three speakers, and models that hand over well or badly in each form."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, get_args

from flowdebate import Persona, handoff
from flowdebate.models.base import ModelResponse
from flowdebate.patterns.handoff.schemas import TransitionForm
from flowdebate.testing import FunctionModel, ScriptedModel, ToolCall
from tests.patterns.policies import with_policy

if TYPE_CHECKING:
    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.patterns.handoff.schemas import HandoffOutput
    from flowdebate.testing import ModelRequest

FORMS: tuple[TransitionForm, ...] = get_args(TransitionForm)
SPEAKERS = (
    Persona("Pro", "programmer", "You agree: {proposition}"),
    Persona("Con", system_prompt="You disagree."),
    Persona("Neutral"),
)
NAMES = [speaker.name for speaker in SPEAKERS]
PROPOSITION = "AI may decide."


def morals(**options: Any) -> Sequencer[Any, Any]:
    """Build a handoff between the three speakers, with three turns by default."""
    return handoff(**with_policy({"name": "morals", "debaters": SPEAKERS, "max_turns": 3, **options}))


def over(text: str, to: Any, form: TransitionForm = "structured") -> Any:
    """Create a reply that says `text` and hands over to `to` in the given form."""
    if form == "text":
        return f"{text}\nTransition to {to}"
    fields = {"response": text, "next_agent_name": to}
    return fields if form == "structured" else call(fields)


def call(arguments: object, *, id: str = "1") -> ToolCall:  # noqa: A002 - the field's name
    """Create a `handoff` call, encoding `arguments` as JSON unless they are a string."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return ToolCall(id=id, name="handoff", arguments=text)


def script(*turns: tuple[str, str], form: TransitionForm = "structured") -> ScriptedModel:
    """Create a model that replies with one `(text, next speaker)` pair per turn."""
    return ScriptedModel(*(over(text, to, form) for text, to in turns))


def in_turn(form: TransitionForm = "structured") -> FunctionModel:
    """Create a model that states its name and hands over to the next speaker in declared order."""

    def answer(request: ModelRequest) -> Any:
        name = request.block.rsplit("-", 1)[1]
        return over(f"I am {name}.", NAMES[(NAMES.index(name) + 1) % len(NAMES)], form)

    return FunctionModel(answer)


def turns(output: HandoffOutput) -> list[tuple[str, str, str | None, str | None]]:
    """Return each turn's speaker, text and next speaker, and who chose the next speaker."""
    return [(entry.agent_name, entry.text, entry.next_agent_name, entry.chosen_by) for entry in output.transcript]


def calls(*tool_calls: ToolCall, text: str = "") -> ModelResponse:
    """Create a response with several calls, and optionally text."""
    return ModelResponse(text=text, tool_calls=tool_calls, finish="tool_calls")
