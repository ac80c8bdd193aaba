"""Tests for `generator(answer_tool=…)`, where a call to the tool is the answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import Capability, generator, handler
from flowdebate.errors import ConfigurationError, SchemaViolation, ToolLoopExceeded
from flowdebate.runs.events import BlockAnswered, ToolCalled
from flowdebate.testing import ModelResponse, ScriptedModel, ToolCall
from tests.ids import case_id
from tests.patterns.debates import events


def call(name: str, **arguments: object) -> ToolCall:
    """Create a model's tool call."""
    return ToolCall(id=name, name=name, arguments=json.dumps(arguments))


def rate(score: int, why: str = "") -> dict[str, object]:
    """Rate it."""
    return {"score": score, "why": why}


def run_with_tool(*replies: Any, **options: Any) -> tuple[Any, ScriptedModel]:
    """Run a generator with the tool `rate`, and return the result and the model."""
    model = ScriptedModel(*replies)
    result = generator(**{"name": "ask", "answer_tool": rate, **options}).run_sync("?", model=model)
    model.assert_complete()
    return result, model


def test_call_to_the_answer_tool_becomes_the_answer() -> None:
    result, model = run_with_tool(call("rate", score=3))
    assert result.output == {"score": 3, "why": ""}
    assert model.calls[0].tools == ["rate"]
    (answered,) = events(result, BlockAnswered)
    assert answered.output == result.output
    assert events(result, ToolCalled) == []


def test_plain_text_is_also_accepted_as_an_answer() -> None:
    """A model cannot be forced to call a tool, so `transform` must handle both a tool call and plain text."""
    assert run_with_tool("three")[0].output == "three"
    result, _ = run_with_tool(call("rate", score=3), transform=lambda output, response, _: (output, response.finish))
    assert result.output == ({"score": 3, "why": ""}, "tool_calls")


@given(st.lists(st.sampled_from(["look", "rate", "nothing"]), min_size=1, max_size=5).filter(lambda n: "rate" in n))
def test_calls_after_the_answer_tool_are_ignored(names: list[str]) -> None:
    """Calls listed before the answer tool in the same response are still made, in order."""
    looked: list[int] = []

    def look() -> None:
        looked.append(1)

    result, _ = run_with_tool([call(name, **({"score": 1} if name == "rate" else {})) for name in names], tools=[look])
    assert result.output["score"] == 1
    assert len(looked) == names[: names.index("rate")].count("look")


def test_answer_tool_can_follow_rounds_of_other_tools() -> None:
    """The answer tool may even be called in the last allowed response, where any other call would exceed the limit."""

    def look() -> str:
        return "seen"

    replies = [call("look"), [call("look"), call("rate", score=2)]]
    assert run_with_tool(*replies, tools=[look], max_tool_rounds=1)[0].output["score"] == 2
    with pytest.raises(ToolLoopExceeded):
        run_with_tool(call("look"), call("look"), tools=[look], max_tool_rounds=1)


@pytest.mark.parametrize("arguments", ["{", "[]", '{"score": "high"}', "{}", '{"score": 1, "mood": 2}'])
def test_arguments_that_violate_the_schema_raise_an_error(arguments: str) -> None:
    with pytest.raises(SchemaViolation) as caught:
        run_with_tool(ToolCall(id="1", name="rate", arguments=arguments))
    assert (caught.value.block, caught.value.answer) == ("ask", arguments)


def test_blocks_can_be_answer_tools() -> None:
    paths: list[str] = []

    def shout(value: str, ctx: Any) -> str:
        paths.append(ctx.path)
        return value.upper()

    result, _ = run_with_tool(call("shout", input="yes"), answer_tool=handler(shout, name="shout"))
    assert (result.output, paths) == ("YES", ["ask/shout"])


def test_exceptions_in_the_tool_are_raised_unchanged() -> None:
    error = RuntimeError("boom")

    def rate(score: int) -> None:
        raise error

    with pytest.raises(RuntimeError, match="boom") as caught:
        run_with_tool(call("rate", score=1), answer_tool=rate)
    assert "in tool 'rate', called by block 'ask'" in caught.value.__notes__


def test_text_alongside_the_call_is_kept_in_the_response() -> None:
    response_ = ModelResponse(text="well", tool_calls=[call("rate", score=1)], finish="tool_calls")
    assert run_with_tool(response_, transform=lambda _, response, __: response.text)[0].output == "well"


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"output_schema": int}, "answer_tool"),
        ({"tools": [rate]}, "tools"),
        ({"uses": [Capability(name="c", tools=[rate])]}, "tools"),
        ({"tools": "rate"}, "tools"),
        ({"answer_tool": 5}, "tools"),
        ({"answer_tool": lambda x: x}, "tools"),
    ],
    ids=case_id,
)
def test_invalid_answer_tools_are_rejected(options: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        generator(**{"name": "ask", "answer_tool": rate, **options})
    assert caught.value.field.startswith(field)
