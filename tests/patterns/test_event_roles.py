"""Roles of default and custom blocks, and of the events they emit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import Debater, council, debate, generator, human, sequencer
from flowdebate.events import BlockAnswered, HumanAsked, ModelCalled, TurnStarted
from flowdebate.runs.suspend import request_of, role_in_name
from flowdebate.testing import FunctionModel

from .every import PATTERNS, VERDICT, make_pattern

if TYPE_CHECKING:
    from flowdebate.runs.result import RunResult
    from flowdebate.testing import ModelRequest

SIDES = [Debater("ann", "for"), Debater("bob", "against")]


def answer(request: ModelRequest) -> Any:
    """Answer as required by the request's schema or the block's role."""
    fields = (request.output_schema or {}).get("properties", {})
    if "ranking" in fields:
        letter = "A" if "[Answer A]" in str(request.messages[-1]["content"]) else "B"
        return {"ranking": [{"answer": letter, "reason": "Sound."}]}
    if "nextSpeakers" in fields:
        return {"nextSpeakers": ["ann", "bob"], "briefing": "-", "newAngle": None, "done": False}
    return VERDICT if "verdict" in fields else {"answer": "Wait."} if "answer" in fields else "I say so."


def roles(result: RunResult[Any]) -> dict[str, str | None]:
    """Return the role of each block that was called or answered."""
    kinds = (ModelCalled, BlockAnswered, HumanAsked)
    return {event.block: event.role for event in result.events if isinstance(event, kinds)}


def test_default_blocks_have_their_roles() -> None:
    built = debate(name="rent", debaters=SIDES, moderator=True, max_rounds=1)
    assert roles(built.run_sync("Cap rents?", model=FunctionModel(answer))) == {
        "rent-moderator": "moderator",
        "rent-debater-ann": "debater",
        "rent-debater-bob": "debater",
        "rent-judge": "judge",
        "rent-synthesizer": "synthesizer",
    }
    pattern = council(name="c", members=[{"name": "ann"}, {"name": "bob"}])
    assert roles(pattern.run_sync("Cap rents?", model=FunctionModel(answer))) == {
        "c-member-ann": "debater",
        "c-member-bob": "debater",
        "c-reviewer-ann": "reviewer",
        "c-reviewer-bob": "reviewer",
        "c-chair": "chair",
    }


def test_custom_blocks_take_on_the_role_they_fill() -> None:
    solomon = generator(name="solomon", output_schema=None)
    inner = sequencer(name="own").then(generator(name="draft")).then(generator(name="polish"))
    sides = [Debater("ann", "for", block=inner), Debater("bob", "against", block=solomon)]
    built = debate(
        name="rent", debaters=sides, judge=human(name="eve", ask=lambda _: VERDICT), synthesizer=solomon, max_rounds=1
    )
    result = built.run_sync("Cap rents?", model=FunctionModel(answer))
    roles_by_block = [(event.block, event.role) for event in result.events if isinstance(event, ModelCalled)]
    assert roles_by_block == [
        ("draft", "debater"),
        ("polish", "debater"),
        ("solomon", "debater"),
        ("solomon", "synthesizer"),
    ]
    assert roles(result)["eve"] == "judge"
    assert solomon.role is None
    assert roles(solomon.run_sync("Who?", model=FunctionModel(answer))) == {"solomon": None}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_turns_have_the_role_of_their_speaker(pattern: str) -> None:
    result = make_pattern(pattern, lambda *_: None).run_sync("Cap rents?")
    started = [event for event in result.events if isinstance(event, TurnStarted)]
    assert {event.role for event in started} <= {"debater", "reviewer", "author", "critic"}
    assert all(event.to_wire()["role"] == event.role for event in started)


def test_role_of_stored_requests_is_derived_from_the_block_name() -> None:
    """Resuming a run must not change a stored request, so the role cannot be added to the request itself."""
    text = '{"block": "rent-judge", "shown": "", "expects": "", "schema": null, "problem": null}'
    assert request_of("rent/rent-judge", text).role == "judge"
    assert role_in_name("a/b-stand-in-member-x-judge", "a%2Fb/round[1]") == "debater"
    assert role_in_name("rents-judge", "rent/rents-judge") is None
