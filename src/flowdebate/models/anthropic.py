"""`AnthropicModel`: an Anthropic model, called through Anthropic's own SDK, with answers in openai's format.

`models/openai` builds the requests and parses the answers; `MessagesClient` accepts the same calls as an openai client
and returns answers in openai's format.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, get_args

from flowdebate._text import is_blank
from flowdebate._util.validation import check_choice, check_library
from flowdebate.errors import AuthenticationFailed, ConfigurationError
from flowdebate.models.base import Message, ModelRequest, ModelResponse, ModelSettings, Usage
from flowdebate.models.call import Retry
from flowdebate.models.openai.clients import Clients, PooledModel, Transport
from flowdebate.models.openai.endpoint import Endpoint, address_of, check_address, check_headers, clean_key
from flowdebate.models.openai.error_mapping import find_unsendable, inner_error
from flowdebate.models.openai.model import Chat, Dialect, key_variable
from flowdebate.models.openai.optional import HISTORY, LIMIT, STREAM, SYSTEM, TEMPERATURE, TOOLS, Parameters, Part
from flowdebate.models.providers import PROVIDERS, StructuredMode
from flowdebate.prompts import split_entries

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic


_KEY_ENV = "ANTHROPIC_API_KEY"
_URL_ENV = "ANTHROPIC_BASE_URL"
_MODES: tuple[StructuredMode, ...] = ("json_schema", "tools", "md_json")
_EFFORT = "output_config.effort"
# these roles read a transcript only once, so caching it would cost more than it saves
_ONCE = ("judge", "synthesizer", "chair")
_RETRY = Retry()


class AnthropicModel(PooledModel):
    """The Anthropic model `name`, called through the Messages API; needs `pip install "flowdebate[anthropic]"`.

    - `base_url`: another endpoint that serves this API, up to and including `/v1`; None for the address in
      ANTHROPIC_BASE_URL or, if that is unset, Anthropic itself.
    - `api_key`: the key, which is never shown; None to read the environment variable `api_key_env` at each call.
    - `cache`: whether to mark the part of a prompt that later turns repeat, so that the provider caches it. Reading
      cached tokens costs a tenth of the normal price; writing them costs a quarter more than normal.
    - `settings`, `structured`, `default_headers`, `retry`, `transport`, `strict`, `strict_model`, `label`: see
      `OpenAIModel`. `settings.effort` makes the model think; `max_tokens` defaults to 8,192 plus an allowance for the
      effort.

    Raises ConfigurationError if the SDK is not installed.

    >>> AnthropicModel("claude-haiku-5-5", settings=ModelSettings(effort="low"))
    AnthropicModel('claude-haiku-5-5')
    """

    gives_logprobs: bool = False
    takes_effort: bool = True
    takes_images: bool = True

    def __init__(  # noqa: PLR0913 - keyword-only options with defaults
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        api_key_env: str | None = _KEY_ENV,
        cache: bool = True,
        settings: ModelSettings | None = None,
        structured: StructuredMode = "json_schema",
        default_headers: Mapping[str, str] | None = None,
        retry: Retry | None = _RETRY,
        transport: Transport = "aiohttp",
        strict: bool = False,
        strict_model: bool = False,
        label: str | None = None,
    ) -> None:
        location = "AnthropicModel"
        if not isinstance(name, str) or not name.strip():
            raise ConfigurationError(location, "name", name, "must be a model name")
        check_library(location, "anthropic", library="Anthropic's SDK", extra="anthropic")
        if base_url is not None:
            check_address(location, "base_url", base_url)
        if retry is not None and not isinstance(retry, Retry):
            raise ConfigurationError(location, "retry", retry, "must be a Retry")
        check_choice(location, _MODES, structured=structured)
        check_choice(location, get_args(Transport), transport=transport)
        self.retry = retry
        self._name = name
        self._label = label or name
        self._base_url = base_url
        self._api_key = api_key
        self._api_key_env = api_key_env
        self._cache = cache
        self._settings = settings or ModelSettings()
        self._modes = _MODES[_MODES.index(structured) :]
        self._strict = strict
        self._strict_model = strict_model
        self._headers = check_headers(location, default_headers)
        self._clients = Clients(transport=transport, sdk="anthropic", connect=_connect)

    @property
    def _address(self) -> str:
        return self._base_url or os.environ.get(_URL_ENV) or str(PROVIDERS["anthropic"].base_url)

    def __repr__(self) -> str:
        location = "" if self._base_url is None else f", base_url={address_of(self._base_url)!r}"
        return f"AnthropicModel({self._name!r}{location})"

    async def _answer(self, request: ModelRequest) -> ModelResponse:
        if request.choices:  # the API does not report log-probabilities
            return ModelResponse(finish="stop", usage=Usage.zero())
        endpoint = self._endpoint()
        effort = request.settings.effort or self._settings.effort
        marks = None if not self._cache else "system" if request.role in _ONCE else "transcript"

        def amend(parameters: Parameters) -> Parameters:
            return {**parameters, "marks": marks}

        async with self._clients.keep_open():
            client = await self._clients.client(endpoint)
            dialect = Dialect(
                model=self._name,
                label=self._label,
                settings=self._settings,
                structured=self._modes,
                tools_with_schema=True,
                unset_room=_ROOM + (_THINKING[effort] if effort else 0),
                effort=_EFFORT,
                parts=_PARTS,
                strict=self._strict,
                strict_model=self._strict_model,
                amend=amend,
            )
            return await Chat(dialect=dialect, client=client, endpoint=endpoint).answer(request)

    def _endpoint(self) -> Endpoint:
        url = self._address
        if self._base_url is None:
            check_address("AnthropicModel", _URL_ENV, url)
        variable = key_variable(self._api_key_env, url, paired=self._base_url is None)
        environment_key = os.environ.get(variable) if variable else None
        key = clean_key(self._api_key or environment_key, "in api_key" if self._api_key else f"in {variable}")
        if not key:
            raise AuthenticationFailed(f"there is no API key: set {variable or _KEY_ENV}, or pass api_key")
        return Endpoint.of(url, key, self._headers)


def _by_budget(parameters: Parameters) -> Parameters:
    """Replace an effort level with a token budget for thinking."""
    extra = parameters.get("extra_body", {})
    if "by_budget" in parameters or "thinking" in extra or "effort" not in extra.get("output_config", {}):
        return parameters
    return {**parameters, "by_budget": True}


def _unmark(parameters: Parameters) -> Parameters:
    marked = parameters["marks"] and ("tools" in parameters or parameters["messages"][0]["role"] == "system")
    return {**parameters, "marks": None} if marked else parameters


# Parts of a request to omit if the server rejects them.
_PARTS = (
    STREAM,
    Part("cache_control", re.compile("cache", re.IGNORECASE), _unmark),
    Part("adaptive thinking", re.compile("adaptive|thinking|effort|output_config", re.IGNORECASE), _by_budget),
    HISTORY,
    SYSTEM,
    TEMPERATURE,
    LIMIT,
    TOOLS,
)


def _connect(endpoint: Endpoint, options: dict[str, Any]) -> MessagesClient:
    from anthropic import AsyncAnthropic

    # the SDK adds /v1 itself, and its OpenTelemetry spans would duplicate the run's
    base_url = endpoint.base_url.rstrip("/").removesuffix("/v1")
    return MessagesClient(AsyncAnthropic(**{**options, "base_url": base_url}, open_telemetry=False))


Json = dict[str, Any]

_MARK = {"cache_control": {"type": "ephemeral"}}
_ROOM = 8_192  # default maximum number of tokens in an answer; the API requires a limit
_THINKING = {"low": 2_048, "medium": 8_192, "high": 24_576}  # additional tokens by effort level
# Models that predate the effort setting and think only when given a token budget.
_BY_BUDGET = re.compile(r"claude-(3|(haiku|sonnet|opus)-4-5|(opus|sonnet)-4(-[01])?(-\d{8})?$)")
_MIN_BUDGET = 1_024


class MessagesClient:
    """Adapter that gives an `AsyncAnthropic` client the part of openai's client interface used by `Chat`."""

    def __init__(self, client: AsyncAnthropic) -> None:
        self._client = client
        self.chat: Any = SimpleNamespace(completions=self)

    async def close(self) -> None:
        await self._client.close()

    async def create(self, *, stream: bool = False, **parameters: object) -> object:
        """Send a chat completion request, with cache markers if `marks` is set; return a completion or a stream."""
        sent = self._request(parameters)
        create: Any = self._client.messages.create
        try:
            answered = await create(**sent, stream=stream)
        except Exception as error:
            unsendable = find_unsendable(error, create, sent)
            if unsendable is not None:
                raise unsendable from error
            raise
        return _MessageStream(answered, self) if stream else self.completion(answered)

    def _request(self, parameters: Json) -> Json:
        extra = dict(parameters.get("extra_body", ()))
        tools = [
            {
                "name": function["name"],
                "description": function["description"],
                "input_schema": {"type": "object", **function["parameters"]},
            }
            for function in (tool["function"] for tool in parameters.get("tools", ()))
        ]
        system, messages = self._messages(parameters["messages"], rereads=parameters["marks"] == "transcript")
        config, thinking = _thinking(
            parameters["model"], extra, parameters.get("max_tokens"), by_budget=parameters.get("by_budget")
        )
        sent: Json = {"model": parameters["model"], "messages": messages, "extra_body": extra, **thinking}
        # the SDK no longer accepts a temperature, so it is sent as an extra field, except to models that reject it
        if "temperature" in parameters:
            extra["temperature"] = parameters["temperature"]
        if (form := parameters.get("response_format", {})).get("type") == "json_schema":
            from anthropic import transform_schema

            schema = transform_schema(form["json_schema"]["schema"])
            config = {**config, "format": {"type": "json_schema", "schema": schema}}
        if config:
            sent["output_config"] = config
        if tools:
            sent["tools"] = tools
            choice = parameters.get("tool_choice", "auto")
            tool_name = choice["function"]["name"] if isinstance(choice, dict) else None
            sent["tool_choice"] = {"type": {"required": "any"}.get(str(choice), "auto")}
            if tool_name is not None:
                sent["tool_choice"] = {"type": "tool", "name": tool_name}
        if system:
            sent["system"] = system
        if parameters["marks"] is not None:
            (system or tools or [{}])[-1].update(_MARK)
            # mark the whole request: the next one repeats it in full and appends a tool result
            if tools and sent["tool_choice"]["type"] != "tool":
                messages[-1]["content"][-1].update(_MARK)
        return sent

    def _messages(self, messages: Sequence[Message], *, rereads: bool) -> tuple[list[Json], list[Json]]:
        """Convert messages to system blocks and turns; if `rereads` is set, mark the transcript for caching."""
        system: list[Json] = []
        turns: list[Json] = []
        for message in messages:
            role, content = message["role"], message.get("content")
            if role == "system":
                system += _blocks(content)
                continue
            blocks = _blocks(content)
            if role == "tool":
                answer = {"type": "tool_result", "tool_use_id": message["tool_call_id"]}
                blocks = [{**answer, "content": str(content)} if content else answer]
            # the API requires thinking to precede the tool call it led to
            blocks = [*map(_without_index, message.get(_THOUGHTS) or ()), *blocks]
            blocks += map(_tool_use, message.get("tool_calls") or ())
            role = "assistant" if role == "assistant" else "user"
            if turns and turns[-1]["role"] == role:
                turns[-1]["content"] += blocks
            elif blocks:
                turns.append({"role": role, "content": blocks})
        if not turns:  # the API requires at least one turn
            system, turns = [], [{"role": "user", "content": system}]
        last = turns[-1]["content"][-1]
        if rereads and last["type"] == "text":
            *entries, rest = split_entries(last["text"])
            if entries:
                turns[-1]["content"][-1:] = [{"type": "text", "text": text} for text in entries]
                turns[-1]["content"][-1].update(_MARK)
                turns[-1]["content"].append({"type": "text", "text": rest})
        return system, turns

    def completion(self, message: object) -> object:
        """Convert an answer to a chat completion.

        If an answer has no content blocks, a string is returned unchanged, and anything else is reduced to its `error`.
        """
        content = getattr(message, "content", None)
        if not isinstance(content, list):
            return message if isinstance(message, str) else SimpleNamespace(error=getattr(message, "error", None))
        texts = [block.text for block in content if _kind(block) == "text"]
        calls = [
            SimpleNamespace(id=block.id, function=SimpleNamespace(name=block.name, arguments=json.dumps(block.input)))
            for block in content
            if _kind(block) == "tool_use"
        ]
        text: object = "".join(texts) if all(isinstance(piece, str) for piece in texts) else texts[0]
        answer = SimpleNamespace(content=text, tool_calls=calls, refusal=_refusal(message))
        setattr(answer, _THOUGHTS, [_as_json(block) for block in content if _kind(block) in _THINKING_BLOCKS])
        choice = SimpleNamespace(message=answer, finish_reason=getattr(message, "stop_reason", None))
        usage = _usage(getattr(message, "usage", None))
        return SimpleNamespace(
            choices=[choice], model=getattr(message, "model", None), id=getattr(message, "id", None), usage=usage
        )


class _MessageStream:
    """Stream that converts message events to chat completion chunks."""

    def __init__(self, stream: Any, client: MessagesClient) -> None:  # noqa: ANN401 - anthropic's own
        self._stream = stream
        self._client = client
        self.response: Any = stream.response
        self.ended = False
        """True once the server has ended the message."""

    async def close(self) -> None:
        await self._stream.close()

    def whole(self, body: bytes) -> object:
        """Parse a complete answer from a server that ignored the request to stream."""
        from anthropic.types import Message as Whole

        value = json.loads(body)
        return self._client.completion(Whole.construct(**value) if isinstance(value, dict) else None)

    async def __aiter__(self) -> AsyncIterator[Any]:
        message: Any = None
        async for event in self._stream:
            kind = _kind(event)
            if kind == "message_start":
                message = event.message
            elif kind == "message_stop":
                self.ended = True
            elif kind == "error":
                raise inner_error(getattr(event, "error", None) or {})
            delta, reason = SimpleNamespace(), None
            if kind == "content_block_delta":
                delta = _delta(event.index, event.delta)
            elif kind == "content_block_start":
                delta = _begin(event.index, event.content_block)
            elif kind == "message_delta":
                reason = getattr(event.delta, "stop_reason", None)
                delta.refusal = _refusal(event.delta)
            chunk = SimpleNamespace(choices=[SimpleNamespace(index=0, delta=delta, finish_reason=reason)])
            chunk.model, chunk.id = getattr(message, "model", None), getattr(message, "id", None)
            if kind == "message_delta":  # the counts in this event, where known, cover the entire message
                chunk.usage = _usage(getattr(message, "usage", None), getattr(event, "usage", None))
            yield chunk


def _begin(index: object, block: Any) -> SimpleNamespace:  # noqa: ANN401 - anthropic's own
    """Convert the start of a content block to the delta of a chat completion chunk."""
    if _kind(block) == "tool_use":
        function = SimpleNamespace(name=block.name)
        return SimpleNamespace(tool_calls=[SimpleNamespace(index=index, id=block.id, function=function)])
    if _kind(block) in _THINKING_BLOCKS:
        return SimpleNamespace(**{_THOUGHTS: [{**_as_json(block), "index": index}]})
    return SimpleNamespace()


def _delta(index: object, delta: Any) -> SimpleNamespace:  # noqa: ANN401 - anthropic's own
    """Convert a content block delta to the delta of a chat completion chunk."""
    match _kind(delta):
        case "text_delta":
            return SimpleNamespace(content=delta.text)
        case "input_json_delta":
            function = SimpleNamespace(arguments=delta.partial_json)
            return SimpleNamespace(tool_calls=[SimpleNamespace(index=index, function=function)])
        case "thinking_delta":
            return SimpleNamespace(**{_THOUGHTS: [{"index": index, "thinking": delta.thinking}]})
        case "signature_delta":
            return SimpleNamespace(**{_THOUGHTS: [{"index": index, "signature": delta.signature}]})
    return SimpleNamespace()


# The assistant message field and the content block types used to return thinking to the server.
_THOUGHTS = "thinking_blocks"
_THINKING_BLOCKS = ("thinking", "redacted_thinking")


def _as_json(block: Any) -> Json:  # noqa: ANN401 - anthropic's own
    fields: Json = block.to_dict(mode="json", warnings=False)
    return fields


def _without_index(block: Mapping[str, Any]) -> Json:
    return {name: value for name, value in block.items() if name != "index"}


def _kind(part: object) -> object:
    return getattr(part, "type", None)


def _refusal(message: object) -> str | None:
    """Return the provider's reason for refusing to answer, or None if no reason was given."""
    details = getattr(message, "stop_details", None)
    explanation = getattr(details, "explanation", None) or getattr(details, "category", None)
    return explanation if getattr(message, "stop_reason", None) == "refusal" and isinstance(explanation, str) else None


def _usage(*reported: object) -> object:
    """Convert token counts to openai's format, counting tokens read from or written to a cache as prompt tokens."""

    def count(name: str) -> int | None:
        counts = [getattr(usage, name, None) for usage in reported]
        return next(
            (number for number in reversed(counts) if isinstance(number, int) and not isinstance(number, bool)), None
        )

    fresh = count("input_tokens")
    read, written = count("cache_read_input_tokens"), count("cache_creation_input_tokens")
    thought = SimpleNamespace()
    for usage in reported:
        thought = getattr(usage, "output_tokens_details", None) or thought
    return SimpleNamespace(
        prompt_tokens=None if fresh is None else fresh + (read or 0) + (written or 0),
        completion_tokens=count("output_tokens"),
        prompt_tokens_details=SimpleNamespace(cached_tokens=read, cache_write_tokens=written),
        completion_tokens_details=SimpleNamespace(reasoning_tokens=getattr(thought, "thinking_tokens", None)),
    )


def _thinking(model: str, extra: Json, room: int | None, *, by_budget: bool | None) -> tuple[Json, Json]:
    """Configure thinking and output so that there are enough tokens for both; remove the output settings from `extra`.

    Models without an effort setting get a token budget for thinking; if `by_budget` is set, all models do.
    """
    config = dict(extra.pop("output_config", ()))
    effort = config.get("effort")
    if effort is None or "thinking" in extra:
        return config, {"max_tokens": room or _ROOM}
    if not (by_budget or _BY_BUDGET.match(model)):
        return config, {"thinking": {"type": "adaptive"}, "max_tokens": room or _ROOM + _THINKING[effort]}
    del config["effort"]
    budget = _THINKING[effort] if room is None else min(_THINKING[effort], room // 2)
    sent: Json = {"max_tokens": room or _ROOM + budget}
    if budget >= _MIN_BUDGET:
        sent["thinking"] = {"type": "enabled", "budget_tokens": budget}
    return config, sent


def _blocks(content: object) -> list[Json]:
    """Convert content to blocks, omitting blank text because the API rejects it."""
    if isinstance(content, str):
        return [] if is_blank(content) else [{"type": "text", "text": content}]
    blocks: list[Json] = []
    parts: Any = content or ()
    for part in parts:
        if part.get("type") == "image_url":
            url = str(part["image_url"]["url"])
            kind, _, data = url.removeprefix("data:").partition(";base64,")
            inline = {"type": "base64", "media_type": kind, "data": data}
            blocks.append({"type": "image", "source": inline if data else {"type": "url", "url": url}})
        else:
            blocks.append(dict(part))
    return blocks


def _tool_use(call: Mapping[str, Any]) -> Json:
    try:
        arguments = json.loads(call["function"]["arguments"])
    except ValueError:
        arguments = {}
    # if the model wrote invalid arguments, the tool's result says so
    arguments = arguments if isinstance(arguments, dict) else {}
    return {"type": "tool_use", "id": call["id"], "name": call["function"]["name"], "input": arguments}
