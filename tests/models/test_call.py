"""Whatever a model returns or does, `ask` returns a usable answer or raises a library error before the deadline."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from flowdebate.errors import (
    ConfigurationError,
    EmptyResponse,
    MalformedResponse,
    ModelError,
    ModelTimeout,
    OutputTruncated,
    Refused,
    SchemaViolation,
)
from flowdebate.models import ModelRequest, ModelResponse, ModelSettings, OutputSchema, Retry, Retrying, ToolCall, Usage
from flowdebate.models.call import ask, in_queue, within
from flowdebate.testing import ScriptedModel

pytestmark = pytest.mark.anyio


class Verdict(BaseModel):
    """A small structured answer."""

    winner: str


@dataclass
class Returning:
    """A model that returns or raises a given value."""

    outcome: Any
    name: str = "scripted"

    async def request(self, _: ModelRequest, /) -> ModelResponse:
        """Return or raise the value."""
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        response: ModelResponse = self.outcome
        return response


def question(*, output: Any = None, timeout: float | None = 5.0) -> ModelRequest:
    schema = None if output is None else OutputSchema.of(output)
    return ModelRequest(messages=[], block="judge", output=schema, settings=ModelSettings(timeout=timeout))


CALL = ToolCall(id="1", name="never_offered", arguments="not json")


@dataclass(frozen=True)
class Case:
    """A model's answer to a text request."""

    id: str
    returned: Any
    error: type[ModelError]
    message: str = ""


CASES = [
    Case("None", None, MalformedResponse, "must be a ModelResponse, got None"),
    Case("a plain str", "text", MalformedResponse, "must be a ModelResponse"),
    Case("text that is bytes", ModelResponse(text=b"x"), MalformedResponse, "text returned by a model must be a str"),  # type: ignore[arg-type]
    Case("text that is None", ModelResponse(text=None), MalformedResponse, "must be a str, got None"),  # type: ignore[arg-type]
    Case("usage that is a dict", ModelResponse(text="x", usage={}), MalformedResponse, "a Usage"),  # type: ignore[arg-type]
    Case("an unknown finish", ModelResponse(text="x", finish="eos"), MalformedResponse, "'length'"),  # type: ignore[arg-type]
    Case("an unhashable name", ModelResponse(tool_calls=[ToolCall(id="1", name=[], arguments="")]), MalformedResponse),  # type: ignore[arg-type]
    Case("no str", ModelResponse(tool_calls=[ToolCall(id="1", name="f", arguments={})]), MalformedResponse),  # type: ignore[arg-type]
    Case("tool calls as a str", ModelResponse(tool_calls="f()"), MalformedResponse),  # type: ignore[arg-type]
    Case("tool calls as dicts", ModelResponse(tool_calls=[{"name": "f"}]), MalformedResponse, "ToolCall objects"),  # type: ignore[list-item]
    Case("no text", ModelResponse(text=""), EmptyResponse),
    Case("white space", ModelResponse(text=" \n\u200b"), EmptyResponse),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_an_unusable_answer_raises_an_error_naming_model_and_block(case: Case) -> None:
    with pytest.raises(case.error) as caught:
        await ask(Returning(case.returned), question())
    assert (caught.value.model, caught.value.block) == ("scripted", "judge")
    assert case.message in str(caught.value)


@pytest.mark.parametrize(
    "logprobs",
    [
        [],
        {},
        {"A": -1.0},
        {"A": -1.0, "B": -1.0, "C": -1.0},
        {"A": math.nan, "B": -1.0},
        {"A": -math.inf, "B": -1.0},
        {"A": 0.5, "B": -1.0},
        {"A": True, "B": -1.0},
        {"A": "-1", "B": -1.0},
    ],
    ids=str,
)
async def test_invalid_log_probabilities_count_as_malformed(logprobs: Any) -> None:
    """Each choice needs a finite log-probability, and no other keys are allowed."""
    request = replace(question(), choices=("A", "B"))
    with pytest.raises(MalformedResponse, match="log-probability for each of"):
        await ask(Returning(ModelResponse(text="A", logprobs=logprobs)), request)
    for usable in (None, {"A": -0.5, "B": -1.0}):
        response = ModelResponse(logprobs=usable)
        assert await ask(Returning(response), request) is response


async def test_a_clean_answer_is_returned_unchanged() -> None:
    """Nothing is copied if an answer needs no cleaning, which is the common case."""
    response = ModelResponse(text="fine")
    assert await ask(Returning(response), question()) is response


async def test_an_answer_is_cleaned_in_a_copy() -> None:
    """A model may return the same object twice, so the original answer must not be modified."""
    response = ModelResponse(text="a\ud800\x00b", usage=Usage.zero(), model="m")
    answered = await ask(Returning(response), question())
    assert answered.text == "a\ufffdb"
    assert (answered.usage, answered.model) == (Usage.zero(), "m")
    assert response.text == "a\ud800\x00b"


async def test_a_str_subclass_becomes_plain_text() -> None:
    """A subclass may override methods in ways that could otherwise affect prompts and transcripts."""

    class Sly(str):
        __slots__ = ()

        def __str__(self) -> str:
            return "something else"

    answered = await ask(Returning(ModelResponse(text=Sly("plain"))), question())
    assert type(answered.text) is str
    assert answered.text == "plain"


async def test_calls_to_unknown_tools_are_preserved() -> None:
    """The caller has to respond to a tool call.

    An answer with a tool call is complete, even if it contains neither text nor structured data.
    """
    answered = await ask(Returning(ModelResponse(tool_calls=[CALL], finish="tool_calls")), question(output=Verdict))
    assert answered.tool_calls == [CALL]
    assert answered.data is None


@pytest.mark.parametrize(
    "response",
    [
        ModelResponse(text='{"winner": "for"}'),
        ModelResponse(data={"winner": "for"}),
        ModelResponse(data=Verdict(winner="for"), text="ignored"),
        ModelResponse(text='{"winner": "for"}', finish="length"),
    ],
    ids=["JSON text", "plain data", "an instance", "whole though out of room"],
)
async def test_structured_data_becomes_the_validated_object(response: ModelResponse) -> None:
    """Text, plain data and instances are all converted to the application's own type."""
    answered = await ask(Returning(response), question(output=Verdict))
    assert answered.data == Verdict(winner="for")


@pytest.mark.parametrize(
    ("response", "error"),
    [
        (ModelResponse(text="{}"), SchemaViolation),
        (ModelResponse(text="not json"), SchemaViolation),
        (ModelResponse(text='{"winner": "\ud800'), SchemaViolation),
        (ModelResponse(data={"loser": "for"}), SchemaViolation),
        (ModelResponse(text='{"winner": "fo', finish="length"), OutputTruncated),
        (ModelResponse(text=" "), EmptyResponse),
        (ModelResponse(text="[" * 100_000), SchemaViolation),
    ],
    ids=["a field is missing", "no JSON", "a lone surrogate", "wrong data", "cut off", "blank", "deep nesting"],
)
async def test_invalid_structured_answers_raise_errors(response: ModelResponse, error: type[ModelError]) -> None:
    with pytest.raises(error) as caught:
        await ask(Returning(response), question(output=Verdict))
    assert (caught.value.model, caught.value.block) == ("scripted", "judge")


@given(
    outcome=st.one_of(
        st.none(),
        st.integers(),
        st.text(),
        st.builds(
            ModelResponse,
            text=st.one_of(st.text(st.characters()), st.none(), st.binary()),
            data=st.one_of(st.none(), st.dictionaries(st.text(), st.integers() | st.text())),
            tool_calls=st.one_of(st.none(), st.lists(st.one_of(st.none(), st.just(CALL)), max_size=2)),
            finish=st.sampled_from(["stop", "length", "tool_calls", "", None, 3]),
            usage=st.one_of(st.just(Usage.unknown()), st.none()),
        ),
    ),
    output=st.sampled_from([None, Verdict]),
)
def test_any_return_value_is_an_answer_or_a_model_error(outcome: Any, output: Any) -> None:
    """Whatever a model returns, exceptions from other libraries never reach the caller."""
    try:
        answered = asyncio.run(ask(Returning(outcome), question(output=output)))
    except ModelError as error:
        assert error.model == "scripted"  # noqa: PT017 - either outcome is right, each has its own law
    else:
        answered.text.encode()
        if output is not None and not answered.tool_calls:
            assert isinstance(answered.data, Verdict)


async def test_a_model_error_preserves_its_model_and_block() -> None:
    with pytest.raises(Refused) as caught:
        await ask(Returning(Refused("no", model="inner")), question())
    assert (caught.value.model, caught.value.block) == ("inner", "judge")


@pytest.mark.parametrize(
    "error", [ZeroDivisionError("mine"), TimeoutError("mine"), ConfigurationError("a", "b", 1, "c")]
)
async def test_application_exceptions_pass_through(error: Exception) -> None:
    """A custom model can raise anything.

    A `TimeoutError` from the model must not be mistaken for the call's deadline.
    """
    with pytest.raises(type(error)) as caught:
        await ask(Returning(error), question())
    assert caught.value is error


class Stubborn:
    """Model that never answers and records how its call ended."""

    name = "stubborn"

    def __init__(self, reaction: Exception | None = None) -> None:
        self.reaction = reaction
        self.cancelled = 0

    async def request(self, _: ModelRequest, /) -> ModelResponse:
        """Wait forever."""
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            if self.reaction is not None:
                raise self.reaction from None
            raise
        raise AssertionError


@pytest.mark.parametrize("reaction", [None, RuntimeError("closing")], ids=["cancelled", "with an error of its own"])
async def test_the_deadline_ends_the_call_whatever_the_model_does(reaction: Exception | None) -> None:
    """`ModelTimeout` states the deadline in seconds, and the call to the model is cancelled."""
    model = Stubborn(reaction)
    with pytest.raises(ModelTimeout) as caught:
        await ask(model, question(timeout=0.01))
    assert (caught.value.seconds, caught.value.model, caught.value.block) == (0.01, "stubborn", "judge")
    assert model.cancelled == 1


class OneSlot:
    """Model that answers one call at a time, like a local engine; calls from the block "long" take longer."""

    name = "engine"

    def __init__(self) -> None:
        self.slot = asyncio.Lock()
        self.deadlines: list[float | None] = []
        self.queued: list[float] = []

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Wait for this call's turn and answer, or wait forever."""
        time = asyncio.get_running_loop().time
        with in_queue(request):
            since = time()
            await self.slot.acquire()
            self.queued.append(time() - since)
        try:
            self.deadlines.append(request.deadline)
            if request.block == "long":
                await asyncio.Event().wait()
            return ModelResponse(text="said")
        finally:
            self.slot.release()


async def test_queue_time_does_not_count_toward_the_deadline() -> None:
    """Calls queued behind one that misses its deadline are still answered, and so are their retries."""
    model = OneSlot()
    calls = [replace(question(timeout=0.1), block="long"), *(question(timeout=0.1) for _ in range(3))]
    start = asyncio.get_running_loop().time()
    late, *answered = await asyncio.gather(*(within(0.1, ask(model, call)) for call in calls), return_exceptions=True)
    assert isinstance(late, ModelTimeout)
    assert [outcome.text if isinstance(outcome, ModelResponse) else outcome for outcome in answered] == ["said"] * 3
    assert all(deadline is not None and deadline >= start + 0.2 for deadline in model.deadlines[1:])


async def test_the_deadline_starts_when_the_engine_starts_the_call() -> None:
    """A call that takes too long misses its deadline, no matter how long it was queued before."""
    model = OneSlot()
    calls = [replace(question(timeout=0.05), block="long") for _ in range(3)]
    durations = []

    async def is_late(call: ModelRequest) -> None:
        start = asyncio.get_running_loop().time()
        with pytest.raises(ModelTimeout) as caught:
            await ask(model, call)
        durations.append(asyncio.get_running_loop().time() - start)
        assert caught.value.seconds == 0.05

    await asyncio.gather(*map(is_late, calls))
    assert [total - queued >= 0.05 for total, queued in zip(durations, model.queued, strict=True)] == [True] * 3


async def test_a_queue_wait_ends_at_the_deadline_or_on_cancellation() -> None:
    """The deadline may apply to the call or to the whole round.

    If a queued call is cancelled, the next one is not delayed.
    """
    model = OneSlot()
    first = asyncio.create_task(ask(model, replace(question(timeout=None), block="long")))
    await asyncio.sleep(0)
    with pytest.raises(ModelTimeout):
        await within(60, ask(model, question()), latest=asyncio.get_running_loop().time() + 0.05)
    given_up, last = (asyncio.create_task(ask(model, question())) for _ in range(2))
    await asyncio.sleep(0)
    given_up.cancel()
    first.cancel()
    assert (await last).text == "said"


async def test_cancelling_the_caller_is_not_a_timeout() -> None:
    task = asyncio.create_task(ask(Stubborn(), question(timeout=60)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_call_without_a_deadline_is_not_limited() -> None:
    assert (await ask(Returning(ModelResponse(text="fine")), question(timeout=None))).text == "fine"


async def test_plain_data_is_cleaned_like_text() -> None:
    """An unpaired surrogate in a structured answer would break every later request and every file."""
    answered = await ask(Returning(ModelResponse(data={"winner": "for\ud800\x00"})), question(output=Verdict))
    assert answered.data == Verdict(winner="for\ufffd")


async def test_recursive_data_counts_as_malformed() -> None:
    """A dict that contains itself cannot be an answer."""
    data: dict[str, Any] = {}
    data["winner"] = data
    with pytest.raises(MalformedResponse, match="nested too deeply"):
        await ask(Returning(ModelResponse(data=data)), question(output=Verdict))


@pytest.mark.parametrize("text", ['{"winner": "for", "winner": "against"}', '{"winner": "for", "winner": "for"}'])
async def test_an_answer_with_a_duplicate_field_is_requested_again(text: str) -> None:
    """The library cannot know which value was intended. Custom models are treated the same way."""

    class Answer(BaseModel):
        """Schema of the requested answer."""

        winner: str

    model = ScriptedModel(text, '{"winner": "for"}')
    answered = await ask(Retrying(model, Retry(first_wait=0)), question(output=OutputSchema.of(Answer)))
    assert answered.data == Answer(winner="for")
    assert "duplicate field" in model.calls[-1].prompt
