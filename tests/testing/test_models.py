"""Test doubles: a scripted model, and one backed by a function."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel

from flowdebate import generator
from flowdebate.errors import MalformedResponse, ModelError, SchemaViolation, ScriptError
from flowdebate.models.base import Model, Usage
from flowdebate.testing import FunctionModel, ModelRequest, ModelResponse, ScriptedModel, ToolCall
from flowdebate.testing.strategies import _construct


class Answer(BaseModel):
    """A structured answer."""

    n: int


ASK = generator(name="ask")
ASK_FOR = generator(name="ask-for", output_schema=Answer)


def test_replies_are_returned_in_order() -> None:
    model = ScriptedModel("one", "two")
    assert [ASK.run_sync(text, model=model).output for text in ("a", "b")] == ["one", "two"]
    assert [(call.block, call.prompt) for call in model.calls] == [("ask", "a"), ("ask", "b")]
    assert model.remaining == 0
    model.assert_complete()


def test_calls_beyond_the_script_are_an_error() -> None:
    """`ScriptError` is an `AssertionError` that reports who made the call and which call it was."""
    with pytest.raises(ScriptError, match="call 1 is not in the script, which has 0 replies") as caught:
        ASK.run_sync("a", model=ScriptedModel())
    assert isinstance(caught.value, AssertionError)
    assert isinstance(caught.value, ModelError)
    assert caught.value.block == "ask"


def test_assert_complete_fails_if_replies_are_unused() -> None:
    model = ScriptedModel("one", "two", "three")
    ASK.run_sync("a", model=model)
    with pytest.raises(ScriptError, match="2 of 3 replies of the script were not used; the next is 'two'"):
        model.assert_complete()


@pytest.mark.parametrize("reply", [{"n": 7}, Answer(n=7), '{"n": 7}', ModelResponse(text='{"n": 7}')], ids=repr)
def test_structured_replies_can_have_several_forms(reply: Any) -> None:
    assert ASK_FOR.run_sync("?", model=ScriptedModel(reply)).output == Answer(n=7)


@pytest.mark.parametrize("reply", [{"n": "x"}, "{}", _construct(Answer, n="x")], ids=repr)
def test_invalid_structured_replies_are_rejected(reply: Any) -> None:
    with pytest.raises(SchemaViolation):
        ASK_FOR.run_sync("?", model=FunctionModel(lambda _: reply))


@pytest.mark.parametrize("reply", [None, 7, {"n": 7}, [], ["x"]], ids=repr)
def test_non_text_replies_to_text_requests_are_rejected(reply: Any) -> None:
    with pytest.raises(MalformedResponse, match="the reply must be text, tool calls or a ModelResponse"):
        ASK.run_sync("?", model=ScriptedModel(reply))


def test_replies_to_letter_requests_need_log_probabilities() -> None:
    vote = generator(name="vote", choices=["A", "B"])
    with pytest.raises(MalformedResponse, match="the reply must be one of 'A', 'B', a dict of their log-probabilities"):
        vote.run_sync("?", model=ScriptedModel({"A": None, "B": "1"}))


def test_exceptions_used_as_replies_are_raised_unchanged() -> None:
    failure = OSError("down")

    def fail(_: ModelRequest) -> str:
        raise failure

    for model in (ScriptedModel(failure), FunctionModel(fail)):
        with pytest.raises(OSError, match="down") as caught:
            ASK.run_sync("?", model=model)
        assert caught.value is failure


def test_tool_calls_can_be_replies() -> None:
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    calls = [ToolCall(id="1", name="add", arguments='{"a": 1, "b": 2}'), ToolCall(id="2", name="sub", arguments="{}")]
    model = ScriptedModel(calls, calls[0], "done")
    assert generator(name="sum", tools=[add]).run_sync("?", model=model).output == "done"
    contents = [message["content"] for message in model.calls[2].messages if message["role"] == "tool"]
    assert contents[0] == contents[2] == "3"
    assert "there is no tool 'sub'" in contents[1]
    assert [call.tools for call in model.calls] == [["add"]] * 3


def test_recorded_requests_are_snapshots() -> None:
    messages = [{"role": "user", "content": "then"}]
    model = ScriptedModel("x")
    asyncio.run(model.request(ModelRequest(messages=messages, block="b")))
    messages[0]["content"] = "now"
    assert model.calls[0].prompt == "then"


def test_functions_may_be_async() -> None:
    async def answer(request: ModelRequest) -> str:
        await asyncio.sleep(0)
        return str(request.messages[-1]["content"]).upper()

    assert ASK.run_sync("a", model=FunctionModel(answer)).output == "A"


def test_functions_see_the_schema_and_the_block() -> None:
    """`output_schema` is the JSON Schema of a structured answer, or `None` for text."""
    requests: list[tuple[str, Any]] = []

    def answer(request: ModelRequest) -> Any:
        requests.append((request.block, request.output_schema))
        return "x" if request.output_schema is None else {"n": 1}

    model = FunctionModel(answer)
    ASK.run_sync("?", model=model)
    ASK_FOR.run_sync("?", model=model)
    assert requests[0] == ("ask", None)
    assert requests[1][1]["properties"]["n"]["type"] == "integer"


def test_usage_counts_calls_with_unknown_tokens() -> None:
    """A test double does not invent token counts, but it does count calls."""
    assert ASK.run_sync("?", model=ScriptedModel("x")).usage == Usage(calls=1)


@pytest.mark.parametrize("model", [ScriptedModel("x"), FunctionModel(lambda _: "x")], ids=["scripted", "function"])
def test_test_doubles_have_a_readable_repr(model: Any) -> None:
    assert isinstance(model, Model)
    assert model.name in repr(model) or "replies" in repr(model)
