"""Conformance tests for adapters: the guarantees required of a model based on a third-party framework."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import update_wrapper
from typing import Any, ClassVar, Concatenate, ParamSpec, TypeAlias, TypeVar

from flowdebate.blocks.generator import generator
from flowdebate.blocks.sequencer import sequencer
from flowdebate.chassis.roster import Debater
from flowdebate.errors import ConfigurationError, LimitReached, ModelError, ModelTimeout, SchemaViolation
from flowdebate.models import call
from flowdebate.models.base import Model, ModelRequest, ModelSettings, ToolSpec
from flowdebate.models.output import OutputSchema
from flowdebate.patterns.debate.factory import debate
from flowdebate.runs.limits import Limits
from flowdebate.store.memory import MemoryStore

P = ParamSpec("P")
S = TypeVar("S", bound="AdapterConformance")
ErrorT = TypeVar("ErrorT", bound=Exception)

# Seconds until a test fails; large, because a framework's first call may spend several seconds on imports.
_PATIENCE = 20.0
_AT_ONCE = 4
# A listener makes the adapter call a different method of the framework, which may count tokens and report failures in
# its own way.
_LISTENERS: tuple[Callable[[str], None] | None, ...] = (None, lambda _: None)
_SCHEMA = {
    "title": "Ruling",
    "type": "object",
    "properties": {"winner": {"type": "string", "enum": ["pro", "con"]}, "points": {"type": "integer"}},
    "required": ["winner", "points"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeAnswer:
    """Answer for a framework's fake model to return, after converting it to the framework's own type."""

    pieces: tuple[str, ...] = ()
    """The answer's text, split into chunks for streaming."""
    data: Mapping[str, Any] | None = None
    """Structured answer, used in place of text."""
    usage: tuple[int, int] | None = None
    """Token counts for the prompt and the answer; None if the model does not report usage."""

    @property
    def text(self) -> str:
        """The answer's complete text."""
        return "".join(self.pieces)


Script: TypeAlias = Callable[[str], Awaitable[FakeAnswer]]
"""Script for the fake model: given the prompt (all text sent to the fake model), it returns an answer or raises one of
the framework's exceptions.
"""
MakeAdapter: TypeAlias = "Callable[[Script], Model]"
"""Factory that wraps the framework's fake model in an adapter; the fake model awaits the script on each request."""


@dataclass(slots=True)
class _Answers:
    """Script that returns the listed answers in order, raising any exceptions among them.

    `prompts` records the prompts.
    """

    answers: list[FakeAnswer | Exception]
    prompts: list[str] = field(default_factory=list)

    async def __call__(self, prompt: str) -> FakeAnswer:
        self.prompts.append(prompt)
        answer = self.answers[min(len(self.prompts), len(self.answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer


class _Endless:
    """Script that never answers and ends only when cancelled."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def __call__(self, _: str) -> FakeAnswer:
        self.asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        raise AssertionError


class _FrameworkFailure(Exception):
    """Exception defined by the framework."""


def _promise(
    check: Callable[Concatenate[S, P], Coroutine[Any, Any, None]],
) -> Callable[Concatenate[S, P], None]:
    """Create a test that runs `check` in a new event loop; no pytest plugin is needed.

    The test is skipped if it is named in `lacks`.
    """

    def test(self: S, /, *args: P.args, **kwargs: P.kwargs) -> None:
        reason = self.lacks.get(check.__name__)
        if reason is not None:
            import pytest

            pytest.skip(reason)
        asyncio.run(asyncio.wait_for(check(self, *args, **kwargs), _PATIENCE))

    update_wrapper(test, check)
    return test


def _request(
    text: str = "May cars go?",
    *,
    output: OutputSchema | None = None,
    tools: Sequence[ToolSpec] = (),
    settings: ModelSettings | None = None,
    on_text: Callable[[str], None] | None = None,
) -> ModelRequest:
    messages = [{"role": "system", "content": "You argue for the city."}, {"role": "user", "content": text}]
    return ModelRequest(
        messages=messages,
        block="mayor",
        output=output,
        tools=tools,
        settings=settings or ModelSettings(),
        on_text=on_text,
    )


async def _raised(expected: type[ErrorT], asking: Coroutine[Any, Any, object]) -> ErrorT:
    try:
        await asking
    except expected as error:
        return error
    raise AssertionError(f"expected {expected.__name__}, but nothing was raised")


class AdapterConformance:
    """Conformance tests for a model based on a third-party framework; subclass this and define a fixture `make`.

        class TestMyModel(AdapterConformance):
            @pytest.fixture
            def make(self):
                return lambda script: MyModel(their_fake_model(script))

    `make(script)` returns an adapter around the framework's fake model. On each request the fake model awaits
    `script(prompt)`, where `prompt` is the entire text sent to it, and returns the `FakeAnswer` as the framework's own
    type.
    """

    lacks: ClassVar[Mapping[str, str]] = {}
    """Reasons why the framework's fake model cannot support a test, keyed by test name."""
    takes_tools: ClassVar[bool] = False
    """True if the model calls the tools in a request; False if it rejects such requests."""

    @_promise
    async def test_text(self, make: MakeAdapter) -> None:
        """Check that a text answer arrives, and all messages reach the framework in order."""
        script = _Answers([FakeAnswer(pieces=("Cars ", "out."))])
        response = await call.ask(make(script), _request())
        assert response.text == "Cars out."
        assert script.prompts[0].index("You argue for the city.") < script.prompts[0].index("May cars go?")

    @_promise
    async def test_conversation(self, make: MakeAdapter) -> None:
        """Check that earlier questions and answers in a conversation also reach the framework."""
        script = _Answers([FakeAnswer(pieces=("No.",))])
        request = _request("First question")
        turns = [{"role": "assistant", "content": "Old answer"}, {"role": "user", "content": "Second question"}]
        request.messages = [*request.messages, *turns]
        await call.ask(make(script), request)
        # A framework may receive one string or several messages, but all parts must be present and in order.
        places = [script.prompts[0].index(text) for text in ("First question", "Old answer", "Second question")]
        assert places == sorted(places)

    @_promise
    async def test_schema(self, make: MakeAdapter) -> None:
        """Check that a structured answer is returned as validated data."""
        script = _Answers([FakeAnswer(data={"winner": "pro", "points": 3})])
        response = await call.ask(make(script), _request(output=OutputSchema.of(_SCHEMA)))
        assert response.data == {"winner": "pro", "points": 3}
        assert len(script.prompts) == 1

    @_promise
    async def test_schema_that_does_not_fit(self, make: MakeAdapter) -> None:
        """Check that an answer violating its schema is requested again with the reason, or raises SchemaViolation."""
        wrong, right = FakeAnswer(data={"winner": "both", "points": 3}), FakeAnswer(data={"winner": "con", "points": 1})
        script = _Answers([wrong, right])
        model = make(script)
        # Otherwise, either the framework retries the request itself or nobody does.
        if getattr(model, "retry", None) is not None:
            response = await call.ask(model, _request(output=OutputSchema.of(_SCHEMA)))
            assert response.data == {"winner": "con", "points": 1}
            assert "winner" in script.prompts[1]
            assert len(script.prompts[1]) > len(script.prompts[0])
        asking = call.ask(make(_Answers([wrong])), _request(output=OutputSchema.of(_SCHEMA)))
        assert "winner" in (await _raised(SchemaViolation, asking)).message

    @_promise
    async def test_stream(self, make: MakeAdapter) -> None:
        """Check that a listener receives the text in chunks that together make up the whole text."""
        heard: list[str] = []
        script = _Answers([FakeAnswer(pieces=("Cars ", "are ", "out."))])
        response = await call.ask(make(script), _request(on_text=heard.append))
        assert "".join(heard) == response.text == "Cars are out."
        assert len([piece for piece in heard if piece]) > 1  # the text must not arrive all at once at the end

    @_promise
    async def test_usage(self, make: MakeAdapter) -> None:
        """Check that tokens are counted whether or not the answer is streamed."""
        for listener in _LISTENERS:
            script = _Answers([FakeAnswer(pieces=("Cars ", "out."), usage=(120, 7))])
            usage = (await call.ask(make(script), _request(on_text=listener))).usage
            assert (usage.calls, usage.prompt_tokens, usage.completion_tokens) == (1, 120, 7), listener

    @_promise
    async def test_usage_of_a_structured_answer(self, make: MakeAdapter) -> None:
        """Check that the tokens of a structured answer are counted."""
        script = _Answers([FakeAnswer(data={"winner": "pro", "points": 3}, usage=(80, 9))])
        response = await call.ask(make(script), _request(output=OutputSchema.of(_SCHEMA)))
        assert (response.usage.prompt_tokens, response.usage.completion_tokens) == (80, 9)

    @_promise
    async def test_unknown_usage(self, make: MakeAdapter) -> None:
        """Check that token counts are unknown, rather than zero, if the framework does not report usage."""
        response = await call.ask(make(_Answers([FakeAnswer(pieces=("Out.",))])), _request())
        assert response.usage.calls == 1
        assert response.usage.total_tokens is None

    @_promise
    async def test_cancellation(self, make: MakeAdapter) -> None:
        """Check that cancelling a call cancels the framework's request."""
        for listener in _LISTENERS:
            script = _Endless()
            asking = asyncio.ensure_future(call.ask(make(script), _request(on_text=listener)))
            await script.asked.wait()
            asking.cancel()
            await asyncio.wait({asking})  # use `wait`, because awaiting the task would raise its CancelledError here
            assert asking.cancelled(), listener
            await script.cancelled.wait()

    @_promise
    async def test_deadline(self, make: MakeAdapter) -> None:
        """Check that both a call and the framework's request end when the call's deadline expires."""
        script = _Endless()
        model = make(script)
        # Warm up, because the first calls import a lot of code.
        warm = await call.ask(make(_Answers([FakeAnswer(pieces=("Out.",))])), _request())
        assert warm.text
        error = await _raised(ModelTimeout, call.ask(model, _request(settings=ModelSettings(timeout=0.2))))
        assert error.seconds == 0.2
        await script.cancelled.wait()

    @_promise
    async def test_exception(self, make: MakeAdapter) -> None:
        """Check that an exception raised by the framework becomes a ModelError that names its class."""
        for listener in _LISTENERS:
            model = make(_Answers([_FrameworkFailure("no engine")]))
            error = await _raised(ModelError, call.ask(model, _request(on_text=listener)))
            assert "_FrameworkFailure" in error.message, error
            assert (error.model, error.block) == (model.name, "mayor")

    @_promise
    async def test_resume(self, make: MakeAdapter) -> None:
        """Check that a resumed run requests only the missing answers from the framework."""
        prompts: list[str] = []
        broken = True

        async def script(_: str) -> FakeAnswer:
            prompts.append("second" if prompts else "first")
            if broken and len(prompts) > 1:
                raise _FrameworkFailure("no engine")
            return FakeAnswer(pieces=("Two." if len(prompts) > 1 else "One.",))

        model, store = make(script), MemoryStore()
        two = sequencer(name="two").then(generator(name="first")).then(generator(name="second"))
        handle = two.start("May cars go?", model=model, store=store)
        with suppress(ModelError):
            await handle
        assert handle.status == "failed"
        broken, before = False, len(prompts)
        for _ in range(2):  # in the second pass, every request has already been answered
            result = await two.resume(handle.run_id, model=model, store=store)
            assert result.output == "Two."
            assert len(prompts) == before + 1

    @_promise
    async def test_limits(self, make: MakeAdapter) -> None:
        """Check that no request reaches the framework once a limit on the run is reached."""
        script = _Answers([FakeAnswer(pieces=("One.",))])
        two = sequencer(name="two").then(generator(name="first")).then(generator(name="second"))
        error = await _raised(LimitReached, two.run("May cars go?", model=make(script), limits=Limits(calls=1)))
        assert error.kind == "calls"
        assert len(script.prompts) == 1

    @_promise
    async def test_concurrency(self, make: MakeAdapter) -> None:
        """Check that one model can handle several calls at once, giving each its own answer."""
        barrier = asyncio.Barrier(_AT_ONCE)

        async def script(prompt: str) -> FakeAnswer:
            await barrier.wait()
            return FakeAnswer(pieces=(next(word for word in prompt.split() if word.startswith("question-")),))

        model = make(script)
        questions = [f"question-{number}" for number in range(_AT_ONCE)]
        responses = await asyncio.gather(*(call.ask(model, _request(text)) for text in questions))
        assert [response.text for response in responses] == questions

    @_promise
    async def test_tools(self, make: MakeAdapter) -> None:
        """Check that the tools in a request are either called or refused, but never ignored."""
        tool = ToolSpec(name="look_up", description="Look it up.", parameters={"type": "object", "properties": {}})
        script = _Answers([FakeAnswer(pieces=("Out.",))])
        if self.takes_tools:
            assert (await call.ask(make(script), _request(tools=[tool]))).text == "Out."
            return
        error = await _raised(ConfigurationError, call.ask(make(script), _request(tools=[tool])))
        assert error.field == "tools"
        assert not script.prompts

    @_promise
    async def test_debate(self, make: MakeAdapter) -> None:
        """Check that the model can play every role in a debate, including the judge."""
        verdict = FakeAnswer(data={"reasoning": "The air.", "winner": "cars out", "verdict": "Close the center."})
        script = _Answers([FakeAnswer(pieces=("Clean air.",)), FakeAnswer(pieces=("Shops die.",)), verdict])
        city = debate(
            name="city",
            debaters=[Debater("ann", "cars out"), Debater("bob", "cars in")],
            max_rounds=1,
            synthesizer=False,
        )
        result = await city.run("May cars go?", model=make(script))
        assert [entry.text for entry in result.raw.transcript] == ["Clean air.", "Shops die."]
        assert result.raw.verdict is not None
        assert result.raw.verdict.winner == "cars out"
        assert len(script.prompts) == 3
