"""Tests for `generator`: the model's input and how its answer is used."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from typing_extensions import TypedDict

from flowdebate import Capability, Session, Visibility, generator, sequencer
from flowdebate.errors import ConfigurationError, OutputTruncated, SchemaViolation
from flowdebate.models.base import ModelSettings
from flowdebate.runs.events import BlockAnswered, TextDelta
from flowdebate.testing import FunctionModel, ModelResponse, ScriptedModel
from tests.ids import case_id

if TYPE_CHECKING:
    from flowdebate.runs.context import Context
    from flowdebate.testing import ModelRequest

pytestmark = pytest.mark.anyio


def messages_of(value: object = "input", *, session: Session | None = None, **slots: Any) -> list[tuple[str, str]]:
    """Return the model's messages as (role, content) pairs."""
    model = ScriptedModel("answer")
    generator(name="ask", **slots).run_sync(value, model=model, session=session)
    return [(message["role"], message["content"]) for message in model.calls[0].messages]


def test_slots_are_ordered_by_stability() -> None:
    """A provider caches the beginning of a prompt, so whatever changes least comes first."""
    session = Session(history=[{"role": "assistant", "name": "judge", "content": "earlier"}])
    assert messages_of(
        "input",
        session=session,
        user="now",
        history=True,
        context=["background", {"role": "assistant", "content": "noted"}],
        uses=[Capability(name="search", instructions="search first", context=["how to search"])],
        instructions="be brief",
        prompt="you argue",
    ) == [
        ("system", "you argue\n\nsearch first\n\nbe brief"),
        ("user", "background"),
        ("assistant", "noted"),
        ("user", "how to search"),
        ("assistant", "earlier"),
        ("user", "now"),
    ]


TEXTS = st.text(max_size=5)


@given(st.fixed_dictionaries({"prompt": TEXTS, "instructions": TEXTS, "user": TEXTS}), st.lists(TEXTS, max_size=2))
def test_slots_can_be_values_or_functions(texts: dict[str, str], context: list[str]) -> None:
    def function(value: Any, shape: int) -> Any:
        async def later(_: object, __: Context) -> Any:
            return value

        return [value, lambda _: value, lambda _, ctx: value, later][shape]

    values: dict[str, Any] = dict(texts)
    expected = messages_of(context=context, **values)
    for shape in (1, 2, 3):
        slots = {field: function(value, shape) for field, value in texts.items()}
        assert messages_of(context=function(context, shape), **slots) == expected
    system = "\n\n".join(text for text in (texts["prompt"], texts["instructions"]) if text)
    contents = [*([system] if system else []), *context, *([texts["user"]] if texts["user"] else [])]
    assert [content for _, content in expected] == contents


def test_functions_receive_the_block_input_and_context() -> None:
    messages = messages_of(5, prompt=lambda value, ctx: f"{value} {ctx.block} {ctx.path}", user=lambda value: value + 1)
    assert messages == [("system", "5 ask ask"), ("user", "6")]


@pytest.mark.parametrize("slot", ["context", "history"])
@pytest.mark.parametrize("as_function", [False, True])
def test_single_messages_are_not_split(slot: str, as_function: bool) -> None:  # noqa: FBT001
    """A string must not be split into characters, nor a message into its keys."""
    ones: list[Any] = ["abc", {"role": "user", "content": "abc"}]
    for one in ones:
        slots: dict[str, Any] = {slot: (lambda _, one=one: one) if as_function else one}
        assert messages_of(**slots)[0] == ("user", "abc")
    assert messages_of(uses=[Capability(name="c", context="abc")])[0] == ("user", "abc")


class Point(BaseModel):
    """A structured answer."""

    x: int
    y: int = 0


@pytest.mark.parametrize(
    ("value", "text"), [("plain", "plain"), (5, "5"), (Point(x=1), '{"x":1,"y":0}'), ({"a": 1}, "{'a': 1}")]
)
def test_input_becomes_the_user_message_if_no_slot_sets_one(value: object, text: str) -> None:
    assert messages_of(value) == [("user", text)]


@dataclass
class Place:
    """A structured answer."""

    x: int
    y: int = 0


class Spot(TypedDict):
    """A structured answer."""

    x: int


JSON_SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}


@pytest.mark.parametrize(
    ("schema", "answer", "output"),
    [
        (Point, {"x": 1}, Point(x=1)),
        (Place, {"x": 1, "y": 2}, Place(1, 2)),
        (Spot, {"x": 1}, {"x": 1}),
        (list[int], {"value": [1, 2]}, [1, 2]),
        (JSON_SCHEMA, {"x": 1}, {"x": 1}),
    ],
    ids=["pydantic", "dataclass", "TypedDict", "list", "JSON Schema"],
)
@pytest.mark.parametrize("as_text", [False, True])
def test_structured_answers_match_the_schema(schema: Any, answer: Any, output: object, as_text: bool) -> None:  # noqa: FBT001
    model = ScriptedModel(json.dumps(answer) if as_text else answer)
    assert generator(name="ask", output_schema=schema).run_sync("?", model=model).output == output
    assert model.calls[0].output_schema is not None
    assert model.calls[0].output_schema["type"] == "object"


@pytest.mark.parametrize(
    "schema", [Point, Place, Spot, JSON_SCHEMA], ids=["pydantic", "dataclass", "TypedDict", "JSON Schema"]
)
def test_invalid_answers_raise_an_error_naming_the_field(schema: Any) -> None:
    block = generator(name="ask", output_schema=schema)
    with pytest.raises(SchemaViolation) as caught:
        block.run_sync("?", model=ScriptedModel({"x": "one"}, name="small"))
    assert "x" in str(caught.value.problems)
    assert (caught.value.block, caught.value.model) == ("ask", "small")


def test_truncated_answers_are_flagged() -> None:
    """Truncated text is marked and used, whereas a truncated structured answer raises an error."""
    cut = ModelResponse(text='{"x": ', finish="length")
    block = generator(name="ask")
    result = block.run_sync("?", model=ScriptedModel(cut))
    (answered,) = [event for event in result.events if isinstance(event, BlockAnswered)]
    assert answered.truncated
    with pytest.raises(OutputTruncated):
        generator(name="ask", output_schema=Point).run_sync("?", model=ScriptedModel(cut))


@pytest.mark.parametrize("schema", [object(), {"type": "nonsense"}, {"type": "array"}, 5, lambda: 1], ids=case_id)
def test_invalid_schemas_are_rejected(schema: Any) -> None:
    with pytest.raises(ConfigurationError, match="generator 'ask': `output_schema` must be"):
        generator(name="ask", output_schema=schema)


async def pieces_of(**options: Any) -> tuple[list[str], Any, list[bool]]:
    """Return the streamed pieces of text, the result, and whether each call was streamed."""
    streamed: list[bool] = []

    def answer(request: ModelRequest) -> str:
        streamed.append(request.on_text is not None)
        return "one\ntwo\n"

    model = FunctionModel(answer)
    handle = generator(name="ask", **options).start("?", model=model)
    pieces = [event.text async for event in handle if isinstance(event, TextDelta)]
    return pieces, await handle, streamed


async def test_text_is_streamed_to_listeners() -> None:
    pieces, result, streamed = await pieces_of()
    assert (pieces, streamed) == (["one\n", "two\n"], [True])
    assert not [event for event in result.events if isinstance(event, TextDelta)]
    assert result.output == "one\ntwo\n"


async def test_text_is_not_streamed_without_listeners() -> None:
    streamed: list[bool] = []

    def answer(request: ModelRequest) -> str:
        streamed.append(request.on_text is not None)
        return "text"

    await generator(name="ask").run("?", model=FunctionModel(answer))
    assert streamed == [False]
    pieces, result, streamed_flags = await pieces_of(visibility={"client": False})
    assert (pieces, streamed_flags) == ([], [False])
    assert not [event for event in result.events if isinstance(event, BlockAnswered)]


@given(st.booleans(), st.booleans(), st.booleans())
def test_visibility_controls_stream_and_history(client: bool, history: bool, as_dict: bool) -> None:  # noqa: FBT001
    visibility = {"client": client, "history": history} if as_dict else Visibility(client=client, history=history)
    session = Session()
    block = generator(name="ask", visibility=visibility)
    result = block.run_sync("?", model=ScriptedModel("for"), session=session)
    outputs = [event.output for event in result.events if isinstance(event, BlockAnswered)]
    assert outputs == (["for"] if client else [])
    assert session.history == ([{"role": "assistant", "name": "ask", "content": "for"}] if history else [])


def test_history_is_optional() -> None:
    model = ScriptedModel("one", "two", "three")
    talk = sequencer(name="talk").tap(generator(name="a")).tap(generator(name="b", history=True))
    session = Session()
    talk.run_sync("?", model=model, session=session)
    generator(name="c", history=True).run_sync("?", model=model, session=session)
    contents = [[message["content"] for message in call.messages] for call in model.calls]
    assert contents == [["?"], ["one", "?"], ["one", "two", "?"]]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_transform_produces_the_output(asynchronous: bool) -> None:  # noqa: FBT001
    def shout(output: str, response: ModelResponse, ctx: Context) -> str:
        return f"{output.upper()} {response.finish} {ctx.block}"

    async def later(output: str, response: ModelResponse, ctx: Context) -> str:
        return shout(output, response, ctx)

    session = Session()
    block = generator(name="ask", transform=later if asynchronous else shout)
    result = block.run_sync("?", model=ScriptedModel("for"), session=session)
    assert result.output == "FOR stop ask"
    assert session.history[0]["content"] == "FOR stop ask"


def test_settings_are_passed_to_the_model() -> None:
    received: list[ModelSettings] = []
    settings = ModelSettings(temperature=0.5, max_tokens=7, extra={"top_p": 0.9})

    def answer(request: ModelRequest) -> str:
        received.append(request.settings)
        return "text"

    generator(name="ask", settings=settings).run_sync("?", model=FunctionModel(answer))
    assert received == [settings]


def test_block_model_overrides_the_run_model() -> None:
    own_model, chat, synthesize = ScriptedModel("own"), ScriptedModel("chat"), ScriptedModel("synthesize")
    run_models: Any = {"chat": chat, "synthesize": synthesize}
    assert generator(name="a", model=own_model).run_sync("?", model=run_models).output == "own"
    assert generator(name="a").run_sync("?", model=run_models).output == "chat"
    assert generator(name="a", model="intent/synthesize").run_sync("?", model=run_models).output == "synthesize"


def test_choices_come_with_log_probabilities() -> None:
    received = []

    def likely(request: ModelRequest) -> Any:
        received.append((tuple(request.choices), request.tools, request.on_text))
        return {"A": -0.1, "B": -2.5}

    def look_up(topic: str) -> str:
        """Look up a topic."""
        return topic

    uses = [Capability(name="books", tools=[look_up])]
    block = generator(
        name="ask", choices=["A", "B"], uses=uses, transform=lambda text, response, _: (text, response.logprobs)
    )
    assert block.run_sync("Which?", model=FunctionModel(likely)).output == ("A", {"A": -0.1, "B": -2.5})
    assert received == [(("A", "B"), (), None)]


@pytest.mark.parametrize(
    ("options", "allowed"),
    [
        ({"choices": "AB"}, "short answers"),
        ({"choices": ["A", ""]}, "short answers"),
        ({"choices": ["A", " B"]}, "short answers"),
        ({"choices": ["A", 7]}, "short answers"),
        ({"choices": ["a", "A"]}, "must be unique"),
        ({"choices": ["A", "B"], "output_schema": bool}, "cannot be combined with `output_schema`"),
    ],
    ids=str,
)
def test_invalid_choices_are_rejected(options: dict[str, Any], allowed: str) -> None:
    with pytest.raises(ConfigurationError, match=f"generator 'ask': `choices` .*{allowed}"):
        generator(name="ask", **options)
