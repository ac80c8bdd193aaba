"""`OpenAIModel`, a model on any OpenAI-compatible server, and `Chat`, a client for one such server."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Literal, get_args
from urllib.parse import urlsplit

from flowdebate._text import is_blank
from flowdebate._util.validation import check_choice
from flowdebate.errors import (
    AuthenticationFailed,
    ConfigurationError,
    FlowDebateError,
    LostToThinking,
    MalformedResponse,
    RequestRejected,
    ResponseTooLarge,
    SchemaViolation,
)
from flowdebate.models.base import Attempt, Effort, ModelRequest, ModelResponse, ModelSettings, ToolSpec, Usage
from flowdebate.models.call import Retry
from flowdebate.models.openai.clients import Clients, PooledModel, Transport, load
from flowdebate.models.openai.endpoint import NO_KEY, Endpoint, address_of, check_address, check_headers, clean_key
from flowdebate.models.openai.error_mapping import find_unsendable, map_error
from flowdebate.models.openai.optional import (
    PARTS,
    Form,
    Learned,
    Negotiation,
    Parameters,
    Part,
    effort_part,
    is_open,
    learned_of,
)
from flowdebate.models.openai.responses import Reader, instruction, logprobs_of, parameters_of, read, usage_of
from flowdebate.models.providers import PROVIDERS, STRUCTURED_MODES, StructuredMode
from flowdebate.models.reading import find_object

if TYPE_CHECKING:
    from openai import AsyncOpenAI


_OPENAI = "https://api.openai.com"
_KEY_ENV = "OPENAI_API_KEY"
_URL_ENV = "OPENAI_BASE_URL"

# Common models that cannot read images; for any other model, the server reports an error.
_BLIND = re.compile(
    r"gpt-(3|4(-\d{4})?$|oss)|o[13]-mini|deepseek|codestral|devstral|mistral-(7b|nemo)|llama-?3([.:]|$)|glm-\d[^v]*$",
    re.IGNORECASE,
)

_RETRY = Retry()


class OpenAIModel(PooledModel):
    """The model `name` on an OpenAI-compatible server.

    - `base_url`: the endpoint, up to and including `/v1`; None for the address in OPENAI_BASE_URL or, if that is unset,
      OpenAI itself. A user and password in the address are sent as basic authentication, and a query is sent with each
      request. None of these is ever shown.
    - `api_key`: the key, which is never shown; None to read the environment variable `api_key_env` at each call. If the
      address belongs to another provider, that provider's variable is read instead.
    - `default_headers`: additional headers for each request. Keys and tokens in them are never shown.
    - `settings`: defaults for settings that the request does not set; if both set a timeout, the shorter one applies.
    - `structured`: the first structured mode to try; "json_schema" constrains the model on capable servers. If the
      server rejects a mode, or two answers do not fit the schema, the next of `STRUCTURED_MODES` is used. The mode used
      is reported in the answer's `asked_as`. All later calls in this process to the same model at this address try a
      rejected or ignored mode last. Other rejected parts of a request are omitted in the same way.
    - `tools_with_schema`: False for servers that do not support tools and a response format in one request. The tools
      are then offered first, and once the model stops calling them, the structured answer is requested.
    - `effort`: the parameter for the amount of thinking, such as "reasoning_effort" or "reasoning.effort"; None for
      servers that have no such parameter.
    - `images`: whether the model can read images; None means yes, unless the model's name marks it as text-only.
    - `logprobs`: False for servers that do not return log-probabilities, which `JudgeOptions(answer_form="letter")`
      needs.
    - `retry`: the retry policy; None to disable retries.
    - `transport`: "aiohttp" to use aiohttp directly, which starts up one second faster; or "openai" to use the SDK on
      top of aiohttp, as is always done behind proxies.
    - `client`: your own `AsyncOpenAI` or subclass, such as `AsyncAzureOpenAI`, with its own address, key, headers and
      connections; you must close it yourself. Its own retries are turned off in favor of `retry`. It does not limit the
      size of response bodies.
    - `strict`: True to raise an error if the server rejects a temperature, a limit, an effort or tools. Otherwise
      whatever it rejects is omitted, and the answer has a flag such as `without_temperature`.
    - `strict_model`: True to raise MalformedResponse if a model with a different name answers; otherwise, the answer
      has the flag `other_model`. Names count as equal if one contains the other: "gpt-4o" and "gpt-4o-2024-08-06".
    - `label`: the model's name in errors and events; None for `name`.

    Connections stay open inside `open_connections()`, which a run enters for its models; `async with model:` keeps them
    open across runs. One object serves any number of runs, event loops and threads.

    >>> OpenAIModel("gemma3", base_url="http://127.0.0.1:11434/v1", retry=Retry(attempts=5))
    OpenAIModel('gemma3', base_url='http://127.0.0.1:11434/v1')
    """

    def __init__(  # noqa: PLR0913 - keyword-only options with defaults
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        api_key_env: str | None = _KEY_ENV,
        settings: ModelSettings | None = None,
        structured: StructuredMode = "json_schema",
        tools_with_schema: bool = True,
        effort: str | None = "reasoning_effort",
        images: bool | None = None,
        logprobs: bool = True,
        default_headers: Mapping[str, str] | None = None,
        retry: Retry | None = _RETRY,
        transport: Transport = "aiohttp",
        client: AsyncOpenAI | None = None,
        strict: bool = False,
        strict_model: bool = False,
        label: str | None = None,
    ) -> None:
        if not isinstance(name, str) or not name.strip():
            raise ConfigurationError("OpenAIModel", "name", name, "must be a model name")
        if base_url is not None:
            check_address("OpenAIModel", "base_url", base_url)
        check_choice("OpenAIModel", get_args(StructuredMode), structured=structured)
        if retry is not None and not isinstance(retry, Retry):
            raise ConfigurationError("OpenAIModel", "retry", retry, "must be a Retry")
        check_choice("OpenAIModel", get_args(Transport), transport=transport)
        if client is not None:
            _check_client(client, base_url=base_url, api_key=api_key, default_headers=default_headers)
            client = client.with_options(max_retries=0)
        self._client = client
        self.retry = retry
        self._name = name
        self._label = label or name
        self._base_url = base_url
        self._api_key = api_key
        self._api_key_env = api_key_env
        self._settings = settings or ModelSettings()
        self._modes = STRUCTURED_MODES[STRUCTURED_MODES.index(structured) :]
        self._tools_with_schema = tools_with_schema
        self._effort = effort
        self.takes_effort: bool = effort is not None
        self.takes_images: bool = _BLIND.search(name) is None if images is None else images
        self.gives_logprobs = logprobs
        self._strict = strict
        self._strict_model = strict_model
        self._headers = check_headers("OpenAIModel", default_headers)
        self._clients = Clients(transport=transport)

    @property
    def _address(self) -> str:
        if self._client is not None:
            return str(self._client.base_url)
        return self._base_url or os.environ.get(_URL_ENV) or f"{_OPENAI}/v1"

    def __repr__(self) -> str:
        base_url = self._address if self._client is not None else self._base_url
        location = "" if base_url is None else f", base_url={address_of(base_url)!r}"
        return f"OpenAIModel({self._name!r}{location})"

    async def _answer(self, request: ModelRequest) -> ModelResponse:
        endpoint = self._endpoint()
        async with self._clients.keep_open():
            client = self._client or await self._clients.client(endpoint)

            dialect = Dialect(
                model=self._name,
                label=self._label,
                settings=self._settings,
                structured=self._modes,
                tools_with_schema=self._tools_with_schema,
                effort=self._effort,
                strict=self._strict,
                strict_model=self._strict_model,
                # OpenAI's reasoning models accept only the newer name, and most other servers only the older one
                room="max_completion_tokens" if endpoint.base_url.startswith(_OPENAI) else "max_tokens",
                amend=_with_cache_key if endpoint.base_url.startswith(_OPENAI) else None,
            )
            return await Chat(dialect=dialect, client=client, endpoint=endpoint).answer(request)

    def _endpoint(self) -> Endpoint:
        url = self._address
        if self._client is not None:
            headers = tuple((name, value) for name, value in self._client.default_headers.items() if value)
            return Endpoint.of(url, self._client.api_key or NO_KEY, headers)
        if self._base_url is None:
            check_address("OpenAIModel", _URL_ENV, url)
        variable = key_variable(self._api_key_env, url, paired=self._base_url is None)
        environment_key = os.environ.get(variable) if variable else None
        key = clean_key(self._api_key or environment_key, "in api_key" if self._api_key else f"in {variable}")
        if not key and variable and (url.startswith(_OPENAI) or variable != _KEY_ENV):
            raise AuthenticationFailed(f"there is no API key: set {variable}, or pass api_key")
        return Endpoint.of(url, key or NO_KEY, self._headers)


def key_variable(variable: str | None, url: str, *, paired: bool) -> str | None:
    """Return the environment variable holding the key for `url`, so that no key is sent to another provider.

    If `paired` is set, the address comes from a variable as well, such as OPENAI_BASE_URL, so the key in `variable` may
    belong to the provider at this address.
    """
    hosted_variable = _HOSTED.get(_host_of(url))
    if variable not in _HOSTED.values() or hosted_variable is None:
        return variable
    return variable if paired and not os.environ.get(hosted_variable) else hosted_variable


def _host_of(url: str) -> str:
    return (urlsplit(url).hostname or "").rstrip(".")


# Environment variables that contain API keys, keyed by provider host.
_HOSTED = {
    _host_of(provider.base_url or _OPENAI): provider.key_env for provider in PROVIDERS.values() if provider.key_env
}


def _with_cache_key(parameters: Parameters) -> Parameters:
    """Add a cache key so that OpenAI routes requests with the same system message to a machine that has cached it."""
    first = parameters["messages"][0] if parameters["messages"] else {}
    if first.get("role") != "system" or "prompt_cache_key" in parameters.get("extra_body", ()):
        return parameters
    key = blake2b(str(first.get("content")).encode(errors="replace"), digest_size=16).hexdigest()
    return {**parameters, "prompt_cache_key": key}


def _check_client(client: object, **options: object) -> None:
    openai = sys.modules.get("openai")
    if openai is None or not isinstance(client, openai.AsyncOpenAI):
        raise ConfigurationError("OpenAIModel", "client", type(client), "must be an openai.AsyncOpenAI")
    for name, value in options.items():
        if value is not None:
            raise ConfigurationError("OpenAIModel", name, None, "cannot be combined with `client`, which has its own")


# Chat completions

TOP_LOGPROBS = 20  # number of log-probabilities to request, the maximum allowed by OpenAI


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """Settings and quirks specific to a model or server."""

    model: str
    label: str
    """Name of the model in attempts and errors."""
    echoes_name: bool = True
    """True if the server's answers contain the name of the requested model."""
    settings: ModelSettings
    structured: Sequence[StructuredMode]
    """Structured modes in order of preference; the next one is used if a mode is rejected or yields no valid answer."""
    tools_with_schema: bool
    room: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """Name of the parameter for the maximum length of an answer."""
    unset_room: int | None = None
    """Token limit that the client sends by default; None if it sends none."""
    effort: str | None = None
    """Name of the parameter for the amount of thinking; a dot separates nested names.

    None if there is no such parameter.
    """
    parts: Sequence[Part] = PARTS
    """Optional parts of a request; they are omitted if the server rejects them."""
    strict: bool = False
    """True to raise an error if the server rejects one of the user's settings."""
    strict_model: bool = False
    """True to reject an answer from a model with a different name."""
    amend: Callable[[Parameters], Parameters] | None = None
    """Hook for changing the parameters of each request."""
    reread: Callable[[ModelResponse, ModelRequest], ModelResponse] | None = None
    """Hook for finding tool calls written as plain text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """Client for chat completions, adapted to a model and server by its `dialect`.

    Raises only FlowDebateErrors and exceptions from `on_text`.
    """

    dialect: Dialect
    client: AsyncOpenAI | Any
    """An openai client, or an object that implements the part of its interface used here."""
    endpoint: Endpoint

    async def answer(self, request: ModelRequest) -> ModelResponse:
        """Answer a request; a structured answer is JSON in `text`, truncated if `finish` is "length"."""
        if request.choices:
            return await self._choice(request)
        if request.output is None:
            return await self._text(request)
        refusal = None
        if not request.tools or (self.dialect.tools_with_schema and not self._learned.tools_apart):
            try:
                return await self._structured(request, request.tools)
            except RequestRejected as error:
                if not request.tools or not is_open(error):
                    raise
                refusal = error
        try:
            answered = await self._tools_first(request)
        except RequestRejected as error:
            raise refusal or error from None
        self._learned.tools_apart = True
        return answered

    async def _tools_first(self, request: ModelRequest) -> ModelResponse:
        """Offer the tools; once the model stops calling them, request the structured answer."""
        offered = await self._text(replace(request, output=None, on_text=None))
        if offered.tool_calls:
            return offered
        answered = await self._structured(request, ())
        return replace(answered, usage=offered.usage + answered.usage)

    async def _choice(self, request: ModelRequest) -> ModelResponse:
        """Request a single token, and the log-probabilities of the most likely tokens if the server returns them."""
        if "logprobs" in self._learned.dropped:
            return ModelResponse(finish="stop", usage=Usage.zero())
        parameters = self._parameters(request) | {"temperature": 0, self.dialect.room: 1}
        parameters |= {"messages": list(request.messages), "logprobs": True, "top_logprobs": TOP_LOGPROBS}
        _, completion, response = await self._ask(lambda _: parameters, request)
        logprobs = logprobs_of(completion, request.choices)
        return replace(response, logprobs=logprobs, tool_calls=(), finish="stop")

    async def _text(self, request: ModelRequest) -> ModelResponse:
        parameters = self._parameters(request)
        parameters["messages"] = list(request.messages)
        if request.tools:
            parameters["tools"] = _as_tools(request.tools)
        if request.on_text is not None:
            parameters |= {"stream": True, "stream_options": {"include_usage": True}}
        _, _, response = await self._ask(lambda _: parameters, request)
        if self.dialect.reread is not None:
            response = self.dialect.reread(response, request)
        if response.tool_calls and not request.tools:  # models sometimes call tools that were never offered
            if is_blank(response.text):
                raise MalformedResponse("the model called a tool, but none was offered")
            return replace(response, tool_calls=(), finish="stop")
        return response

    async def _structured(self, request: ModelRequest, tools: Sequence[ToolSpec]) -> ModelResponse:
        output = request.output
        assert output is not None  # noqa: S101 - checked by `answer`
        learned, common, offered = self._learned, self._parameters(request), _as_tools(tools)

        def write(mode: StructuredMode | None) -> Parameters:
            output_parameters = parameters_of(output, mode=mode or "md_json", messages=request.messages, tools=offered)
            return common | output_parameters

        modes = learned.order(self.dialect.structured, request)
        form, _, response = await self._ask(write, request, modes=modes)
        mode = form.mode or "md_json"
        request.attempts.modes_left -= modes.index(mode)  # the preceding modes were rejected
        try:
            answered = read(response, output, mode=mode, offered=bool(tools))
        except SchemaViolation as error:
            if error.answer and find_object(error.answer) is None:
                learned.prose[mode] += 1
            raise
        if answered.finish == "stop":
            learned.prose[mode] = 0
            # this call tried each of the other modes only once, so a single answer without JSON moves a mode to the end
            skipped = min(request.skipped_modes, len(modes) - 1)
            for other in reversed(modes[len(modes) - skipped : -1]):
                if learned.prose[other]:
                    learned.try_last(other)
        return replace(answered, asked_as=mode)

    def _parameters(self, request: ModelRequest) -> Parameters:
        dialect_settings, request_settings = self.dialect.settings, request.settings
        parameters: Parameters = {"model": self.dialect.model}
        temperature = (
            dialect_settings.temperature if request_settings.temperature is None else request_settings.temperature
        )
        if temperature is not None:
            parameters["temperature"] = temperature
        room = request_settings.max_tokens or dialect_settings.max_tokens
        if room is not None:
            parameters[self.dialect.room] = room
        extra = {
            **self._effort(request_settings.effort or dialect_settings.effort),
            **dialect_settings.extra,
            **request_settings.extra,
        }
        if extra:
            parameters["extra_body"] = extra
        return parameters

    def _effort(self, effort: Effort | None) -> Parameters:
        if effort is None:
            return {}
        if self.dialect.effort is None:
            raise ConfigurationError(self.dialect.label, "effort", effort, "is not supported by this model")
        name, _, inner = self.dialect.effort.partition(".")
        return {name: {inner: effort} if inner else effort}

    async def _ask(
        self,
        write: Callable[[StructuredMode | None], Parameters],
        request: ModelRequest,
        *,
        modes: Sequence[StructuredMode] = (),
    ) -> tuple[Form, Any, ModelResponse]:
        """Request an answer in a form the server accepts; return the form, openai's completion and the response.

        The completion is None for a streamed answer.
        """
        parts = [part for part in self._parts if not (self.dialect.strict and part.flag)]

        def amend(mode: StructuredMode | None) -> Parameters:
            parameters = write(mode)
            return parameters if self.dialect.amend is None else self.dialect.amend(parameters)

        async def send(form: Form) -> tuple[Form, Any, ModelResponse]:
            if form.mode in ("json", "md_json"):
                await load(instruction, request.output, form.mode)
            all_parameters = amend(form.mode)
            parameters = form.write(all_parameters, parts)
            request.attempts.room = _room_of(parameters) or self.dialect.unset_room
            with request.attempts.sending(self.dialect.label, request, asked_as=form.mode) as attempt:
                completion, response = await self._send(parameters, request, attempt)
            flags = () if request.choices else form.flags(all_parameters, parts)
            return form, completion, replace(response, flags=(*response.flags, *flags)) if flags else response

        negotiation = Negotiation(amend, modes=modes, parts=parts, learned=self._learned, model=self.dialect.model)
        return await negotiation.settle(send)

    async def _send(self, parameters: Parameters, request: ModelRequest, attempt: Attempt) -> tuple[Any, ModelResponse]:
        """Request one answer, either streamed or all at once."""
        listen = request.on_text
        if "stream" in parameters:
            response = await self._streamed(parameters, request, listen or _ignore, attempt)
            attempt.usage = response.usage
            self._check_room(response, parameters)
            return None, response
        during = sys.exception()
        try:
            completion = await self.client.chat.completions.create(**parameters)
            attempt.usage = usage_of(completion)  # set early, because even an unusable answer is billed
            response = self._read(completion, request, parameters)
        except Exception as error:  # noqa: BLE001 - all exceptions of libraries are mapped here
            failure = self._map(error, during, parameters)
        else:
            attempt.usage = response.usage  # now including any thinking that the server did not count
            if listen is not None and response.text:  # the server sent the answer all at once
                listen(response.text)
            return completion, response
        raise failure  # raised outside the block; otherwise, Python would chain it to `error`, which may reveal a key

    def _check_room(self, response: ModelResponse, parameters: Parameters) -> None:
        """Raise LostToThinking for an answer consisting only of thinking."""
        is_thought = response.finish == "length" or "thought_aloud" in response.flags
        if is_thought and is_blank(response.text) and not response.tool_calls:
            thought, stopped = response.usage.reasoning_tokens, response.finish != "length"
            raise LostToThinking(room=_room_of(parameters), thought=thought, stopped=stopped)

    def _read(self, completion: object, request: ModelRequest, parameters: Parameters) -> ModelResponse:
        response = self._reader(request, parameters).completion(completion)
        max_chars = request.settings.max_chars  # check the size here as well, before the answer is validated
        if len(response.text) > max_chars or any(len(call.arguments) > max_chars for call in response.tool_calls):
            raise ResponseTooLarge(max_chars, "characters")
        if not request.choices:  # a choice needs only one token
            self._check_room(response, parameters)
        return response

    async def _streamed(
        self, parameters: Parameters, request: ModelRequest, on_text: Callable[[str], None], attempt: Attempt
    ) -> ModelResponse:
        """Request a streamed answer, but also accept an answer that the server sends all at once."""
        heard = False
        ends: list[bool] = []

        def listen(piece: str) -> None:
            nonlocal heard
            heard = True
            on_text(piece)

        def on_usage(usage: Usage) -> None:
            attempt.usage = usage

        try:
            return await self._reader(request, parameters).stream(
                self._chunks(parameters, ends),
                listen,
                on_usage=on_usage,
                has_ended=lambda: any(ends),
                max_chars=request.settings.max_chars,
            )
        except RequestRejected as error:
            # do not try another form once text has been streamed, because it cannot be withdrawn
            error.certain = error.certain or heard
            raise
        except _Whole as complete:
            completion = complete.completion
        attempt.usage = usage_of(completion)
        response = self._read(completion, request, parameters)
        if response.text:
            on_text(response.text)
        return response

    async def _chunks(self, parameters: Parameters, ends: list[bool]) -> AsyncIterator[Any]:
        """Yield the chunks of a streamed answer, and append to `ends` whether the server ended it properly."""
        stream: Any = None
        during = sys.exception()
        try:
            stream = await self.client.chat.completions.create(**parameters)
            await _check_stream(stream)
            async for chunk in stream:
                yield chunk
            ends.append(_has_ended(stream))
        except _Whole:
            raise
        except Exception as error:  # noqa: BLE001 - see _send
            failure = self._map(error, during, parameters)
        else:
            return
        finally:
            if stream is not None:
                await stream.close()
        raise failure

    @property
    def _learned(self) -> Learned:
        return learned_of(self.endpoint.base_url, self.dialect.model)

    @property
    def _parts(self) -> Sequence[Part]:
        effort = self.dialect.effort
        return self.dialect.parts if effort is None else (*self.dialect.parts, effort_part(effort))

    def _map(self, error: Exception, during: BaseException | None, parameters: Parameters) -> FlowDebateError:
        unsendable = find_unsendable(error, self.client.chat.completions.create, parameters)
        return unsendable or map_error(
            error, base_url=self.endpoint.base_url, secrets=self.endpoint.secrets, during=during
        )

    def _reader(self, request: ModelRequest, parameters: Parameters) -> Reader:
        return Reader(
            requested_model=self.dialect.model if self.dialect.echoes_name else None,
            strict=self.dialect.strict_model,
            secrets=self.endpoint.secrets,
            room=_room_of(parameters),
            blank=bool(request.choices),
        )


class _Whole(Exception):
    """Raised to pass a complete answer to code that expects a stream."""

    def __init__(self, completion: object) -> None:
        self.completion = completion
        super().__init__()


async def _check_stream(stream: Any) -> None:  # noqa: ANN401 - openai's own
    """Check that `stream` is a stream: raise _Whole if the server does not stream, and MalformedResponse for HTML."""
    response = stream.response
    kind = response.headers.get("content-type", "").lower()
    if "json" in kind:
        body = await response.aread()
        if hasattr(stream, "whole"):
            raise _Whole(stream.whole(body))
        from openai.types.chat import ChatCompletion

        value = json.loads(body)
        raise _Whole(ChatCompletion.construct(**value) if isinstance(value, dict) else None)
    if "html" in kind:
        raise MalformedResponse(
            "the response is a web page, not a stream. Check base_url: most API addresses end in /v1", transient=False
        )


def _has_ended(stream: Any) -> bool:  # noqa: ANN401 - openai's own
    """Return whether the server ended a stream properly; openai's client hides this, but the response body shows it."""
    body = getattr(stream.response, "stream", None)
    return bool(getattr(stream, "ended", False) or getattr(body, "ended", False))


def _ignore(_: str) -> None:
    """Ignore streamed text; used with servers that only support streaming."""


def _room_of(parameters: Parameters) -> int | None:
    room: int | None = parameters.get("max_tokens", parameters.get("max_completion_tokens"))
    return room


def _as_tools(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    return [tool.to_openai() for tool in tools]
