"""The real client on a transport that returns mutated answers, and checks on each outcome."""

from __future__ import annotations

import asyncio
import json
import time
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

import httpx2
from pydantic import BaseModel, ConfigDict, Field

from flowdebate._text import is_blank
from flowdebate.errors import FlowDebateError, ModelError, ModelTimeout, SchemaViolation
from flowdebate.models import ModelRequest, ModelResponse, ModelSettings, OpenAIModel, OutputSchema, ToolCall, Usage
from flowdebate.models.base import FinishReason, Flag, ToolSpec
from flowdebate.models.call import Retry, ask
from flowdebate.models.openai.clients import Clients
from flowdebate.models.providers import STRUCTURED_MODES

from .mutations import CANARY, Answer, draw_mutated_answer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from random import Random
    from typing import Self

    import openai

    from flowdebate.models.openai.endpoint import Endpoint

__all__ = ("MAX_ERROR_LENGTH", "MAX_SECONDS", "Case", "Fuzzed", "check_error", "check_response", "draw_case")

MAX_ERROR_LENGTH = 2_000
"""Maximum length of an error message in characters."""
MAX_SECONDS = 10.0
"""Maximum processor time of a case in seconds, including the first imports; a typical case takes a few milliseconds."""
_MAX_TEXT_LENGTH = 200_000


class Verdict(BaseModel):
    """Schema for structured answers."""

    model_config = ConfigDict(extra="forbid")

    reasoning: str
    winner: str | None
    score: float = Field(ge=0, le=10)


_OUTPUT = OutputSchema.of(Verdict)
_TOOL = ToolSpec(
    name="look_up",
    description="Look something up.",
    parameters={"type": "object", "properties": {"topic": {"type": "string"}}, "required": ["topic"]},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A call, with the answer that the server gives to all of its requests."""

    answer: Answer
    stream: bool = False
    structured: Any = None
    """Structured output mode; None for text."""
    tools: bool = False
    tools_with_schema: bool = True
    repeated: bool = False

    def told(self) -> dict[str, Any]:
        """Return the case as JSON that can be written to a file."""
        answer = self.answer
        return {
            "stream": self.stream,
            "structured": self.structured,
            "tools": self.tools,
            "tools_with_schema": self.tools_with_schema,
            "repeated": self.repeated,
            "status": answer.status,
            "headers": [list(header) for header in answer.headers],
            "breaks": answer.breaks,
            "body": answer.body.decode("latin-1"),
        }


def draw_case(random: Random) -> Case:
    """Draw a random case."""
    stream = random.random() < 0.35
    structured = None if stream or random.random() < 0.5 else random.choice(STRUCTURED_MODES)
    return Case(
        answer=draw_mutated_answer(random, stream=stream, structured=structured is not None),
        stream=stream,
        structured=structured,
        tools=random.random() < 0.25,
        tools_with_schema=random.random() < 0.8,
        repeated=random.random() < 0.15,
    )


class _Body(httpx2.AsyncByteStream):
    """The bytes of an answer, delivered in pieces that end normally or with an error."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        body = self._answer.body
        size = max(len(body) // 3, 7)
        for begin in range(0, len(body), size):
            yield body[begin : begin + size]
        if self._answer.breaks is not None:
            raise _broken(self._answer.breaks)

    async def aclose(self) -> None:
        return


def _broken(name: str) -> Exception:
    if name == "OSError":
        return OSError(5, "Input/output error")
    if name == "ConnectionReset":
        return ConnectionResetError(104, f"reset by {CANARY}")
    error: Exception = getattr(httpx2, name)(f"broken off {CANARY}")
    return error


class _Mocked(Clients):
    """Clients whose connections stay inside this process but are otherwise unchanged."""

    def __init__(self) -> None:
        super().__init__(transport="openai")
        self.answer = Answer()
        self.posts = 0

    def _connect(self, endpoint: Endpoint) -> openai.AsyncOpenAI:
        client: openai.AsyncOpenAI = super()._connect(endpoint)
        client._client._transport = httpx2.MockTransport(self._give)
        return client

    async def _give(self, _: httpx2.Request) -> httpx2.Response:
        self.posts += 1
        answer = self.answer
        if answer.breaks is not None and not answer.body:
            raise _broken(answer.breaks)
        headers = [(name.encode(), value.encode("utf-8", "surrogatepass")) for name, value in answer.headers]
        return httpx2.Response(answer.status, headers=headers, stream=_Body(answer))


async def _at_once(_: float) -> None:
    return


_TWICE = Retry(attempts=2, sleep=_at_once)


class Fuzzed:
    """Client for fuzzing: `async with Fuzzed() as fuzzed: await fuzzed.outcome(case)`."""

    def __init__(self) -> None:
        self._clients = _Mocked()

    async def __aenter__(self) -> Self:
        self._clients.acquire()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._clients.release()

    async def outcome(self, case: Case) -> str:
        """Make the call and check its outcome against the promises."""
        model = OpenAIModel(
            "served",
            base_url="http://127.0.0.1:9/v1",
            api_key=CANARY,
            structured=case.structured or "json_schema",
            tools_with_schema=case.tools_with_schema,
            retry=_TWICE if case.repeated else None,
        )
        model._clients = self._clients
        self._clients.answer, self._clients.posts = case.answer, 0
        pieces: list[str] = []
        request = ModelRequest(
            messages=[{"role": "user", "content": "Who is right?"}],
            block="judge",
            output=None if case.structured is None else _OUTPUT,
            tools=[_TOOL] if case.tools else (),
            settings=ModelSettings(timeout=300.0, max_chars=_MAX_TEXT_LENGTH),
            on_text=pieces.append if case.stream else None,
        )
        start = time.process_time()
        try:
            outcome: object = await ask(model, request)
        except (KeyboardInterrupt, asyncio.CancelledError):
            raise
        except BaseException as error:  # noqa: BLE001 - it is looked at
            outcome = error
        seconds = time.process_time() - start
        assert seconds < MAX_SECONDS, f"took {seconds:.1f} s"
        counted = len(request.attempts.made)
        assert counted == self._clients.posts, f"{self._clients.posts} requests were sent, {counted} counted"
        for piece in pieces:
            _check_text(piece, "a piece of the stream")
        if isinstance(outcome, ModelResponse):
            check_response(outcome, request)
            return "streamed" if case.stream else "structured" if case.structured and outcome.data else "text or calls"
        assert isinstance(outcome, FlowDebateError), f"{type(outcome).__name__} came out"
        assert not isinstance(outcome, ModelTimeout), "it hung until its deadline"
        check_error(outcome)
        return type(outcome).__name__


def _check_text(text: object, label: str) -> None:
    assert type(text) is str, f"{label} is a {type(text).__name__}"
    assert "\x00" not in text, f"{label} holds NUL"
    text.encode()  # raises UnicodeEncodeError for an unpaired surrogate
    assert CANARY not in text, f"{label} shows the key"
    assert len(text) <= _MAX_TEXT_LENGTH, f"{label} has {len(text)} characters"


def check_response(response: ModelResponse, request: ModelRequest) -> None:
    """Raise AssertionError or UnicodeEncodeError for an answer that breaks the call boundary's promises."""
    _check_text(response.text, "the text")
    for call in response.tool_calls:
        assert type(call) is ToolCall
        for value in (call.id, call.name, call.arguments):
            _check_text(value, "a tool call")
    assert response.finish in get_args(FinishReason), "odd finish"
    assert set(response.flags) <= set(get_args(Flag))
    for name in (response.model, response.asked_as):
        assert name is None or type(name) is str
        _check_text(name or "", "the model's name")
        assert len(name or "") <= MAX_ERROR_LENGTH, "the model's name is long"
    _check_usage(response.usage)
    if request.output is None:
        assert response.tool_calls or not is_blank(response.text), "a blank answer"
    elif not response.tool_calls:
        assert type(response.data) is Verdict, f"data is a {type(response.data).__name__}"
        data = response.data
        assert request.output.validate(data.model_dump_json()) == data
        _check_text(data.model_dump_json(), "the data")


def _check_usage(usage: Usage) -> None:
    for count in (usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens):
        assert count is None or (type(count) is int and count >= 0), "odd usage"
        json.dumps(count)


def check_error(error: FlowDebateError) -> None:
    """Raise AssertionError if the error is too long or unreadable, lacks its model or block, or reveals the key."""
    message = str(error)
    assert len(message) <= MAX_ERROR_LENGTH, f"the error has {len(message)} characters"
    message.encode()
    assert message.isprintable(), "the error could steer a terminal"
    if isinstance(error, ModelError):
        assert (error.model, error.block) == ("served", "judge"), "the error is nobody's"
    problems = repr(error.problems) if isinstance(error, SchemaViolation) else ""
    facts = f"{message}{error!r}{problems}{vars(error)!r}"
    assert CANARY not in facts, "the error shows the key"
    assert CANARY not in "".join(_chain(error)), "what led to the error shows the key"


def _chain(error: BaseException) -> list[str]:
    """Return the text that a traceback would print for an error and its causes."""
    lines: list[str] = []
    link: BaseException | None = error
    while link is not None and len(lines) < 50:
        lines.append("".join(traceback.format_exception_only(link)) + repr(link))
        link = link.__cause__ or link.__context__
    return lines
