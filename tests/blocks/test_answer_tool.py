"""`generator(answer_tool=…)`: a tool whose call is the answer."""

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
from tests.ids import shown
from tests.patterns.debates import events


def call(name: str, **arguments: object) -> ToolCall:
    """A model's wish."""
    return ToolCall(id=name, name=name, arguments=json.dumps(arguments))


def rate(score: int, why: str = "") -> dict[str, object]:
    """Rate it."""
    return {"score": score, "why": why}


def asked(*replies: Any, **options: Any) -> tuple[Any, ScriptedModel]:
    """The result of a generator with the tool `rate`, and its model."""
    model = ScriptedModel(*replies)
    result = generator(**{"name": "ask", "answer_tool": rate, **options}).run_sync("?", model=model)
    model.assert_complete()
    return result, model


def test_its_call_is_the_answer() -> None:
    """What the tool gives for the arguments is the output, and the model is not asked again."""
    result, model = asked(call("rate", score=3))
    assert result.output == {"score": 3, "why": ""}
    assert model.calls[0].tools == ["rate"]
    (answered,) = events(result, BlockAnswered)
    assert answered.output == result.output
    assert events(result, ToolCalled) == []


def test_text_is_an_answer_too() -> None:
    """Nobody can make a model call anything; `transform` tells the two apart."""
    assert asked("three")[0].output == "three"
    result, _ = asked(call("rate", score=3), transform=lambda output, response, _: (output, response.finish))
    assert result.output == ({"score": 3, "why": ""}, "tool_calls")


@given(st.lists(st.sampled_from(["look", "rate", "nothing"]), min_size=1, max_size=5).filter(lambda n: "rate" in n))
def test_calls_before_it_are_made_and_those_behind_it_are_not(names: list[str]) -> None:
    """In the order in which they stand in the answer."""
    looked: list[int] = []

    def look() -> None:
        looked.append(1)

    result, _ = asked([call(name, **({"score": 1} if name == "rate" else {})) for name in names], tools=[look])
    assert result.output["score"] == 1
    assert len(looked) == names[: names.index("rate")].count("look")


def test_it_may_come_after_rounds_of_other_tools() -> None:
    """Also in the last answer that the rounds allow; other calls are one too many there."""

    def look() -> str:
        return "seen"

    replies = [call("look"), [call("look"), call("rate", score=2)]]
    assert asked(*replies, tools=[look], max_tool_rounds=1)[0].output["score"] == 2
    with pytest.raises(ToolLoopExceeded):
        asked(call("look"), call("look"), tools=[look], max_tool_rounds=1)


@pytest.mark.parametrize("arguments", ["{", "[]", '{"score": "high"}', "{}", '{"score": 1, "mood": 2}'])
def test_arguments_that_do_not_fit_are_a_schema_violation(arguments: str) -> None:
    """It names the block, and holds what the model wrote."""
    with pytest.raises(SchemaViolation) as caught:
        asked(ToolCall(id="1", name="rate", arguments=arguments))
    assert (caught.value.block, caught.value.answer) == ("ask", arguments)


def test_a_block_may_be_the_tool() -> None:
    """It acts on the input that the model wrote, at a place of its own."""
    paths: list[str] = []

    def shout(value: str, ctx: Any) -> str:
        paths.append(ctx.path)
        return value.upper()

    result, _ = asked(call("shout", input="yes"), answer_tool=handler(shout, name="shout"))
    assert (result.output, paths) == ("YES", ["ask/shout"])


def test_what_the_tool_raises_is_the_application_s_error() -> None:
    """With a note that names it."""
    error = RuntimeError("boom")

    def rate(score: int) -> None:
        raise error

    with pytest.raises(RuntimeError, match="boom") as caught:
        asked(call("rate", score=1), answer_tool=rate)
    assert "in tool 'rate', called by block 'ask'" in caught.value.__notes__


def test_text_beside_the_call_is_in_the_response() -> None:
    """For a `transform` that wants it."""
    said = ModelResponse(text="well", tool_calls=[call("rate", score=1)], finish="tool_calls")
    assert asked(said, transform=lambda _, response, __: response.text)[0].output == "well"


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
    ids=shown,
)
def test_what_cannot_be_is_refused(options: dict[str, Any], field: str) -> None:
    """There is one way to answer, and one tool of a name."""
    with pytest.raises(ConfigurationError) as caught:
        generator(**{"name": "ask", "answer_tool": rate, **options})
    assert caught.value.field.startswith(field)
