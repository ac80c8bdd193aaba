"""Tools: what models may call, and the replies to invalid calls."""

from __future__ import annotations

import asyncio
import enum
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from pydantic import BaseModel

from flowdebate import Capability, generator, handler
from flowdebate.blocks.functions import function_schema, tool
from flowdebate.errors import ConfigurationError, ToolLoopExceeded
from flowdebate.runs.events import ToolCalled
from flowdebate.testing import ModelResponse, ScriptedModel, ToolCall
from tests.ids import case_id

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from flowdebate.runs.context import Context
    from flowdebate.runs.result import RunResult


def call(name: str, arguments: object = None, *, id: str = "1") -> ToolCall:  # noqa: A002 - the field's name
    """Create a model's tool call; `arguments` are encoded as JSON unless they are a string."""
    return ToolCall(
        id=id, name=name, arguments=arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    )


def run_with_tools(*replies: Any, **options: Any) -> tuple[list[str], RunResult[Any]]:
    """Run a block whose model gives `replies` and then finishes; return the tool messages and the run's result."""
    model = ScriptedModel(*replies, "done")
    result = generator(name="ask", **options).run_sync("?", model=model)
    model.assert_complete()
    return [m["content"] for m in model.calls[-1].messages if m["role"] == "tool"], result


def add(a: int, b: int = 1) -> int:
    """Add two numbers.

    Args:
        a: The first.
        b: The second.
    """
    return a + b


async def later(word: str) -> str:
    """Say it later."""
    await asyncio.sleep(0)
    return f"{word}!"


def test_functions_and_blocks_can_be_tools() -> None:
    def seen(value: str, ctx: Context) -> str:
        return f"{value} by {ctx.block}"

    answers, result = run_with_tools(
        [call("add", {"a": 1}), call("add", {"a": 1, "b": 5}), call("later", {"word": "now"})],
        [call("look", {"input": "it"})],
        tools=[add, later, handler(seen, name="look")],
    )
    assert answers == ["2", "6", "now!", "it by look"]
    assert result.output == "done"
    assert [(e.tool, e.result) for e in result.events if isinstance(e, ToolCalled)] == [
        ("add", "2"),
        ("add", "6"),
        ("later", "now!"),
        ("look", "it by look"),
    ]


def test_models_see_their_calls_and_the_results_in_order() -> None:
    """Messages use the Chat Completions format, in which each result has the id of its call."""
    model = ScriptedModel(
        ModelResponse(text="let me see", tool_calls=[call("add", {"a": 1}, id="x")], finish="tool_calls"), "done"
    )
    generator(name="ask", prompt="p", tools=[add]).run_sync("?", model=model)
    assert list(model.calls[1].messages) == snapshot(
        [
            {"role": "system", "content": "p"},
            {"role": "user", "content": "?"},
            {
                "role": "assistant",
                "content": "let me see",
                "tool_calls": [{"id": "x", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}],
            },
            {"role": "tool", "tool_call_id": "x", "content": "2"},
        ]
    )
    assert model.calls[0].tools == ["add"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("{", "`arguments` is not JSON"),
        ("[1]", "`arguments` must be an object (got [1])"),
        ("null", "`a` is missing"),
        ("", "`a` is missing"),
        ("{}", "`a` is missing"),
        ('{"a": "x"}', "`a` must be a whole number (got x)"),
        ('{"a": 1, "c": 2}', "`c` is not a known field"),
        ('{"a": 1, "b": null}', "`b` must be a whole number (got null)"),
        ('{"argument_0": 1}', "`a` is missing"),
        ("[" * 5_000, "`arguments` is not JSON"),
        ('{"a": 1\ud800}', "`arguments` is not JSON"),
    ],
)
def test_invalid_arguments_are_returned_to_the_model(arguments: str, message: str) -> None:
    called: list[object] = []

    def add(a: int, b: int = 1) -> None:
        called.append((a, b))

    (answer,), _ = run_with_tools(call("add", arguments), tools=[add])
    assert answer.startswith("Error: the arguments of add are not valid: ")
    assert message in answer
    assert called == []


@given(st.text(max_size=30) | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_every_tool_call_gets_a_reply_whatever_its_arguments(arguments: str) -> None:
    answers, result = run_with_tools(call("add", arguments), call(arguments, arguments), tools=[add])
    assert len(answers) == 2
    assert result.output == "done"


def test_calls_to_unknown_tools_are_reported_to_the_model() -> None:
    answers, _ = run_with_tools(call("divide"), tools=[add, later])
    assert answers == ["Error: there is no tool 'divide'; available: add, later"]
    assert run_with_tools(call("divide"))[0] == ["Error: there is no tool 'divide'; available: none"]


@pytest.mark.parametrize("as_block", [False, True])
def test_exceptions_in_a_tool_are_raised_unchanged(as_block: bool) -> None:  # noqa: FBT001
    error = RuntimeError("boom")

    def fail(input: str) -> None:  # noqa: A002 - what block tools take
        raise error

    offered: Any = handler(fail, name="fail") if as_block else fail
    with pytest.raises(RuntimeError, match="boom") as caught:
        generator(name="ask", tools=[offered]).run_sync("?", model=ScriptedModel(call("fail", {"input": "x"})))
    assert caught.value is error
    inner = ["in block 'fail' (at ask/fail[1.1])"] if as_block else []
    outer = [] if as_block else ["in block 'ask' (at ask)"]
    assert error.__notes__ == [*inner, "in tool 'fail', called by block 'ask'", *outer]


@given(st.integers(1, 4), st.integers(0, 6), st.integers(1, 3))
def test_number_of_tool_call_rounds_is_limited(bound: int, requested: int, max_concurrency: int) -> None:
    """`ToolLoopExceeded` is raised if the model requests too many rounds, and no tool is called beyond the limit."""
    called: list[int] = []

    def look() -> None:
        called.append(1)

    replies: list[Any] = [[call("look")] * max_concurrency] * requested
    model = ScriptedModel(*replies, "done")
    block = generator(name="ask", tools=[look], max_tool_rounds=bound)
    if requested <= bound:
        assert block.run_sync("?", model=model).output == "done"
    else:
        with pytest.raises(ToolLoopExceeded) as caught:
            block.run_sync("?", model=model)
        assert (caught.value.rounds, caught.value.block) == (bound, "ask")
    assert len(called) == min(requested, bound) * max_concurrency
    assert len(model.calls) == min(requested, bound) + 1


class Color(enum.Enum):
    """An enum, rendered by value."""

    RED = "red"


class Model(BaseModel):
    """A model, rendered as JSON."""

    n: int


@dataclass
class Data:
    """A dataclass, rendered as JSON."""

    n: int


RING: list[Any] = []
RING.append(RING)


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ("plain", "plain"),
        ("", ""),
        (None, "null"),
        (True, "true"),
        (1.5, "1.5"),
        ([1, "é"], '[1,"é"]'),
        ({"a": {"b": (1, 2)}}, '{"a":{"b":[1,2]}}'),
        (Model(n=1), '{"n":1}'),
        ([Model(n=1), Data(2)], '[{"n":1},{"n":2}]'),
        (Data(2), '{"n":2}'),
        ({datetime(2026, 1, 1, tzinfo=UTC): Color.RED}, '{"2026-01-01T00:00:00Z":"red"}'),
        (Color.RED, "Color.RED"),
        ("a\ud800b\0", "a\ufffdb"),
        (RING, "[[...]]"),
    ],
    ids=case_id,
)
def test_tool_results_are_sent_as_text_or_json(result: object, text: str) -> None:
    """Whatever a tool returns, the text sent to the model must be valid Unicode."""

    def give() -> object:
        return result

    assert run_with_tools(call("give"), tools=[give])[0] == [text]


def awkward(json: str, schema: int, model_config: bool, copy: str = "x", _x: int = 0) -> str:  # noqa: FBT001
    """Take parameters that cannot be fields of a pydantic model."""
    return f"{json} {schema} {model_config} {copy} {_x}"


def test_parameters_can_have_any_name() -> None:
    spec = function_schema(awkward)
    assert list(spec.parameters["properties"]) == ["json", "schema", "model_config", "copy", "_x"]
    arguments = {"json": "{}", "schema": 1, "model_config": True, "_x": 3}
    assert run_with_tools(call("awkward", arguments), tools=[awkward])[0] == ["{} 1 True x 3"]


def search(query: str, *, limit: int = 5, order: Literal["old", "new"] = "new", tags: list[str] | None = None) -> None:
    """Search the archive.

    It holds all debates.

    Args:
        query: What to look for.
        limit: How many to give.
        order: Which come first.
        tags: None for all.
    """


def test_tool_schemas_follow_the_signature_and_docstring() -> None:
    spec = function_schema(search)
    assert spec.name == "search"
    assert spec.description == "Search the archive.\nIt holds all debates."
    assert spec.parameters == snapshot(
        {
            "additionalProperties": False,
            "properties": {
                "query": {"description": "What to look for.", "title": "Query", "type": "string"},
                "limit": {"default": 5, "description": "How many to give.", "title": "Limit", "type": "integer"},
                "order": {
                    "default": "new",
                    "description": "Which come first.",
                    "enum": ["old", "new"],
                    "title": "Order",
                    "type": "string",
                },
                "tags": {
                    "anyOf": [{"items": {"type": "string"}, "type": "array"}, {"type": "null"}],
                    "default": None,
                    "description": "None for all.",
                    "title": "Tags",
                },
            },
            "required": ["query"],
            "type": "object",
        }
    )


def variadic(*args: int) -> None:
    """Take only arguments that cannot be passed by name."""


def by_position(a: int, /) -> None:
    """Take a positional-only argument."""


def with_context(query: str, ctx: Context) -> None:
    """Take the context, which the model does not see as an argument."""


def unknown(query: Mystery) -> None:  # type: ignore[name-defined]  # noqa: F821
    """Take an argument with an unknown annotation."""


def überall() -> None:  # noqa: PLC2401 - that is what it is for
    """Have a name that providers do not accept."""


@pytest.mark.parametrize(
    "offered",
    [lambda x: x, variadic, by_position, with_context, unknown, len, str, 5, None, "search", überall,
     handler(str, name="two words"), handler(str, name="x" * 65)],
    ids=case_id,
)  # fmt: skip
def test_invalid_tools_are_rejected_when_the_block_is_built(offered: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        generator(name="ask", tools=[offered])
    assert caught.value.location == "generator 'ask'"
    assert caught.value.field.startswith("tools")


def test_duplicate_tool_names_are_rejected() -> None:
    for options in ({"tools": [add, add]}, {"tools": [add], "uses": [Capability(name="c", tools=[add])]}):
        with pytest.raises(ConfigurationError, match="`tools` must have unique names"):
            generator(name="ask", **options)


def test_capability_tools_are_offered_alongside_other_tools() -> None:
    model = ScriptedModel("done")
    uses = [Capability(name="c", tools=[later])]
    generator(name="ask", tools=[tool(add)], uses=uses).run_sync("?", model=model)
    assert model.calls[0].tools == ["add", "later"]


async def gives_a_coroutine_later() -> Callable[[], Mapping[str, int]]:
    """Return a callable, which is neither called nor awaited."""
    return dict


def test_callables_returned_by_a_tool_are_neither_called_nor_awaited() -> None:
    assert run_with_tools(call("gives_a_coroutine_later"), tools=[gives_a_coroutine_later])[0] == ["<class 'dict'>"]
