"""Chat completions of one server: request parameters, streaming, and mapping of errors."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from flowdebate._util.text import is_blank
from flowdebate.errors import MalformedResponse, ResponseTooLarge
from flowdebate.models.openai.clients import load
from flowdebate.models.openai.error_mapping import map_error
from flowdebate.models.openai.responses import Reader, logprobs_of, usage_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    import httpx2
    from openai import AsyncOpenAI

    from flowdebate.errors import FlowDebateError
    from flowdebate.models.base import ModelRequest, ModelResponse, ModelSettings, ToolSpec
    from flowdebate.models.openai.endpoint import Endpoint
    from flowdebate.models.usage import Attempt, Usage


StructuredMode = Literal["json_schema", "tools", "json", "md_json"]
"""Structured mode: a response format, a tool call, JSON, or JSON in a code block."""

TOP_LOGPROBS = 20  # tokens whose log-probabilities are requested: the most that OpenAI allows

Parameters = dict[str, Any]
"""Request parameters, named as in the chat completions API."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """Peculiarities of one server and model."""

    model: str
    label: str
    """Name in attempts and errors."""
    echoes_name: bool = True
    """Whether the server answers under the requested model name."""
    settings: ModelSettings
    structured: Sequence[StructuredMode]
    """Structured modes in order: the next one is used where one is refused or yields no fitting answer."""
    tools_with_schema: bool
    room: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """Name of the parameter that limits an answer's length."""
    strict_model: bool = False
    """Whether the answer of a model by another name is rejected."""
    amend: Callable[[Parameters], Parameters] | None = None
    """Hook that may change the parameters of each request."""
    reread: Callable[[ModelResponse, ModelRequest], ModelResponse] | None = None
    """Hook that finds tool calls written as text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """Client with a dialect; raises FlowDebateError, and exceptions of `on_text`."""

    dialect: Dialect
    client: AsyncOpenAI
    endpoint: Endpoint

    async def answer(self, request: ModelRequest) -> ModelResponse:
        """Answer a request; a structured answer is JSON in `text`, cut off where `finish` is "length"."""
        if request.choices:
            return await self._choice(request)
        if request.output is None:
            return await self._text(request)
        if not request.tools or self.dialect.tools_with_schema:
            return await self._structured(request, request.tools)
        offered = await self._text(replace(request, output=None, on_text=None))
        if offered.tool_calls:
            return offered
        answered = await self._structured(request, ())
        return replace(answered, usage=offered.usage + answered.usage)

    async def _text(self, request: ModelRequest) -> ModelResponse:
        parameters = self._parameters(request)
        parameters["messages"] = list(request.messages)
        if request.tools:
            parameters["tools"] = _as_tools(request.tools)
        if request.on_text is None:
            _, response = await self._send(parameters, request)
        else:
            parameters |= {"stream": True, "stream_options": {"include_usage": True}}
            with request.attempts.sending(self.dialect.label, request) as attempt:
                response = await self._streamed(parameters, request, request.on_text, attempt)
        if self.dialect.reread is not None:
            response = self.dialect.reread(response, request)
        if response.tool_calls and not request.tools:  # models call tools that they were never offered
            if is_blank(response.text):
                raise MalformedResponse("a tool was called, and none was offered")
            return replace(response, tool_calls=(), finish="stop")
        return response

    async def _choice(self, request: ModelRequest) -> ModelResponse:
        """Request one token with the log-probabilities of the likeliest ones."""
        parameters = self._parameters(request) | {"temperature": 0, self.dialect.room: 1}
        parameters |= {"messages": list(request.messages), "logprobs": True, "top_logprobs": TOP_LOGPROBS}
        completion, response = await self._send(parameters, request)
        logprobs = logprobs_of(completion, request.choices)
        return replace(response, logprobs=logprobs, tool_calls=(), finish="stop")

    async def _structured(self, request: ModelRequest, tools: Sequence[ToolSpec]) -> ModelResponse:
        assert request.output is not None  # noqa: S101 - checked by `answer`
        if "flowdebate.models.openai.structured" not in sys.modules:

            def import_structured() -> None:  # for a second: in a thread, so that other debates go on
                from flowdebate.models.openai import structured

                structured.prepare()

            await load(import_structured)
        from flowdebate.models.openai.structured import ask_structured

        mode = self.dialect.structured[min(request.skipped_modes, len(self.dialect.structured) - 1)]

        async def send(parameters: Parameters) -> tuple[Any, ModelResponse]:
            return await self._send(parameters, request, asked_as=mode)

        response = await ask_structured(
            send,
            request.output,
            mode=mode,
            messages=request.messages,
            tools=_as_tools(tools),
            parameters=self._parameters(request),
            secrets=self._secrets,
        )
        return replace(response, asked_as=mode)

    def _parameters(self, request: ModelRequest) -> Parameters:
        mine, theirs = self.dialect.settings, request.settings
        parameters: Parameters = {"model": self.dialect.model}
        temperature = mine.temperature if theirs.temperature is None else theirs.temperature
        if temperature is not None:
            parameters["temperature"] = temperature
        room = theirs.max_tokens or mine.max_tokens
        if room is not None:
            parameters[self.dialect.room] = room
        if mine.extra or theirs.extra:
            parameters["extra_body"] = {**mine.extra, **theirs.extra}
        return parameters

    async def _send(
        self, parameters: Parameters, request: ModelRequest, *, asked_as: str | None = None
    ) -> tuple[Any, ModelResponse]:
        """Request one whole answer: openai's completion, and the response read from it."""
        with request.attempts.sending(self.dialect.label, request, asked_as=asked_as) as attempt:
            during = sys.exception()
            try:
                completion = await self.client.chat.completions.create(**self._amend(parameters))
                attempt.usage = usage_of(completion)  # an unusable answer is billed, too
                return completion, self._read(completion, request)
            except Exception as error:  # noqa: BLE001 - all exceptions of libraries are mapped here
                failure = self._map(error, during)
            raise failure  # out here, since Python would chain it to `error`, which may show a key

    def _read(self, completion: Any, request: ModelRequest) -> ModelResponse:  # noqa: ANN401 - openai's own
        response = self._reader.completion(completion)
        max_chars = request.settings.max_chars  # checked here as well, before the answer is validated
        if len(response.text) > max_chars or any(len(call.arguments) > max_chars for call in response.tool_calls):
            raise ResponseTooLarge(max_chars, "characters")
        return response

    async def _streamed(
        self, parameters: Parameters, request: ModelRequest, on_text: Callable[[str], None], attempt: Attempt
    ) -> ModelResponse:
        """Request a streamed answer; a server that sends it whole is read as such."""

        def on_usage(usage: Usage) -> None:
            attempt.usage = usage

        try:
            return await self._reader.stream(
                self._chunks(parameters), on_text, on_usage=on_usage, max_chars=request.settings.max_chars
            )
        except _Whole as whole:
            completion = whole.completion
        attempt.usage = usage_of(completion)
        response = self._read(completion, request)
        if response.text:
            on_text(response.text)
        return response

    async def _chunks(self, parameters: Parameters) -> AsyncIterator[Any]:
        """Yield the chunks of a streamed answer; the connection is released however the iteration ends."""
        stream: Any = None
        during = sys.exception()
        try:
            stream = await self.client.chat.completions.create(**self._amend(parameters))
            await _check_stream(stream.response)
            async for chunk in stream:
                yield chunk
        except _Whole:
            raise
        except Exception as error:  # noqa: BLE001 - see _send
            failure = self._map(error, during)
        else:
            return
        finally:
            if stream is not None:
                await stream.close()
        raise failure

    def _amend(self, parameters: Parameters) -> Parameters:
        return parameters if self.dialect.amend is None else self.dialect.amend(parameters)

    def _map(self, error: Exception, during: BaseException | None) -> FlowDebateError:
        return map_error(error, base_url=self.endpoint.base_url, secrets=self._secrets, during=during)

    @property
    def _reader(self) -> Reader:
        asked = self.dialect.model if self.dialect.echoes_name else None
        return Reader(asked=asked, strict=self.dialect.strict_model, secrets=self._secrets)

    @property
    def _secrets(self) -> tuple[str, ...]:
        return self.endpoint.secrets


class _Whole(Exception):
    """Carries a whole answer to the reader of a stream."""

    def __init__(self, completion: Any) -> None:  # noqa: ANN401 - the object that openai built
        self.completion = completion
        super().__init__()


async def _check_stream(response: httpx2.Response) -> None:
    """Check that `response` is a stream: _Whole for a server that does not stream, MalformedResponse for a page."""
    kind = response.headers.get("content-type", "").lower()
    if "json" in kind:
        from openai.types.chat import ChatCompletion

        value = json.loads(await response.aread())
        raise _Whole(ChatCompletion.construct(**value) if isinstance(value, dict) else None)
    if "html" in kind:
        raise MalformedResponse("the response is a page, not a stream: is base_url an API?", transient=False)


def _as_tools(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    return [tool.to_openai() for tool in tools]
