"""Helpers for testing `debate()`: two sides, a verdict, and models that identify themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from flowdebate import Debater, create_debate_transcript, create_moderator
from flowdebate.testing import FunctionModel, ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from flowdebate.runs.result import RunView
    from flowdebate.testing import ModelRequest, RecordedCall

SIDES = (Debater("anna", "for"), Debater("ben", "against"))
QUESTION = "Should rents be capped?"
VERDICT = {"verdict": "Cap them.", "winner": "for", "reasoning": "It was not answered."}

EventT = TypeVar("EventT")


def events(run: RunView, kind: type[EventT]) -> list[EventT]:
    """Return the run's events of one type, in order."""
    return [event for event in run.events if isinstance(event, kind)]


def script(*arguments: str, verdict: Any = VERDICT, after: tuple[Any, ...] = ()) -> ScriptedModel:
    """Create a model that returns an unmoderated debate's turns, the verdict, and any further replies."""
    return ScriptedModel(*arguments, verdict, *after)


def by_role(
    *, verdict: Any = VERDICT, decide: Callable[[ModelRequest], Any] | None = None, last: Any = "The end."
) -> FunctionModel:
    """Create a model that answers every default block; a debater's answer is the name of its block."""

    def answer(request: ModelRequest) -> Any:
        if request.block.endswith("-judge"):
            return verdict
        if request.block.endswith("-moderator"):
            assert decide is not None
            return decide(request)
        return last if request.block.endswith("-synthesizer") else f"said by {request.block}"

    return FunctionModel(answer)


def decision(*speakers: str, done: bool = False, **words: str | None) -> dict[str, Any]:
    """Create a moderator's answer as a model would write it."""
    return {"nextSpeakers": list(speakers), "briefing": None, "newAngle": None, "done": done, **words}


def moderated(name: str = "rent", **options: Any) -> dict[str, Any]:
    """Return the `debate()` options for the default moderator."""
    transcript = create_debate_transcript()
    roster = [debater.name for debater in SIDES]
    return {
        "moderator": create_moderator(name=name, roster_names=roster, transcript=transcript, **options),
        "transcript": transcript,
    }


def blocks_asked(model: ScriptedModel) -> list[str]:
    """Return the names of the blocks that called the model, in order."""
    return [call.block for call in model.calls]


def turn_of(call: RecordedCall) -> str:
    """Return the last message of a call, which differs from turn to turn."""
    return str(call.messages[-1]["content"])


def system_of(call: RecordedCall) -> str:
    """Return the system message of a call."""
    first: Mapping[str, Any] = call.messages[0]
    assert first["role"] == "system"
    return str(first["content"])
