"""Stub servers that behave like the endpoints of OpenAI, Anthropic, Gemini and Ollama, as far as debates can tell.

`with vendors() as stubs:` runs all four on the loopback interface in a separate thread, and points names such as
"gemini/…" and the environment's keys to them. Each stub rejects a wrong key with its vendor's message, supports text,
streams, tools and structured answers in its vendor's format, and counts cached prompt prefixes as its vendor does.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from os.path import commonprefix  # works for all strings
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import pytest

import flowdebate.models.openai.model
import flowdebate.models.resolve
from flowdebate.models.output import inline_definitions
from flowdebate.models.providers import PROVIDERS
from tests.models.server import ChatServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.models.server import Exchange

Json: TypeAlias = Any
VendorName: TypeAlias = Literal["openai", "anthropic", "gemini", "ollama"]

THOUGHT = {"low": 64, "medium": 256, "high": 1024}
"""Number of thinking tokens per effort."""
_CHARACTERS = 4  # characters per token
_LOOKBACK = 20  # blocks before a mark in which Anthropic looks for cached content
_MARKS = 4  # maximum number of marks per request


@dataclass(frozen=True, kw_only=True)
class VendorRequest:
    """An answered request, as parsed and counted by its vendor."""

    path: str
    body: dict[str, Json]
    headers: dict[str, str]
    prompt: str
    """Everything that the model reads, with tools first."""
    prompt_tokens: int
    """Number of prompt tokens, including cached ones."""
    cached_tokens: int
    written_tokens: int = 0
    """Number of tokens written to the cache; only Anthropic charges for them."""
    reasoning_tokens: int = 0
    schema: dict[str, Json] | None = None
    """Schema of a structured answer, in any output mode."""
    effort: str | None = None

    @property
    def model(self) -> str:
        """Name of the model."""
        return str(self.body["model"])


class _Refusal(Exception):
    """Status of a rejected request, and the body in the vendor's format."""

    def __init__(self, status: int, body: Json) -> None:
        self.status, self.body = status, body
        super().__init__(body)


def _say(exchange: VendorRequest) -> str:
    return f"{exchange.model} has thought about it, and says what speaks for it in a sentence of its own."


@dataclass(eq=False)
class Vendor:
    """A stub vendor; `asked` contains the answered requests."""

    name: VendorName
    key: str | None
    models: tuple[str, ...]
    say: Callable[[VendorRequest], Json] = _say
    """Text of an answer, or data of a structured answer; None for data that fits the schema."""
    cache_from: int = 1024
    """Minimum number of tokens for a prompt to be cached."""
    refused: int = 0
    """Requests without the right key."""
    asked: list[VendorRequest] = field(default_factory=list)
    port: int = 0
    _prompts: dict[str, list[str]] = field(default_factory=dict)
    _blocks: set[tuple[Json, ...]] = field(default_factory=set)

    @property
    def base_url(self) -> str:
        """Return the endpoint in the form used by `PROVIDERS`."""
        return f"http://127.0.0.1:{self.port}{_PATHS[self.name]}"

    @property
    def tokens(self) -> tuple[int, int, int]:
        """Return the prompt tokens of all requests: uncached, cached, and written to the cache."""
        fresh = sum(
            exchange.prompt_tokens - exchange.cached_tokens - exchange.written_tokens for exchange in self.asked
        )
        return (
            fresh,
            sum(exchange.cached_tokens for exchange in self.asked),
            sum(exchange.written_tokens for exchange in self.asked),
        )

    async def serve(self, exchange: Exchange) -> None:
        """Answer one request as the vendor would."""
        path = exchange.path.partition("?")[0]
        native = path == "/v1/messages" and self.name == "anthropic"
        try:
            self._check_key(exchange, native=native)
            if path == f"{_PATHS[self.name]}/models":
                listed = [{"id": name, "object": "model", "owned_by": self.name} for name in self.models]
                await exchange.json({"object": "list", "data": listed})
            elif native:
                await self._messages(exchange)
            elif path == f"{_PATHS[self.name]}/chat/completions":
                await self._completions(exchange)
            else:
                raise self._refusal(404, f"There is nothing at {path}.", "not_found_error")
        except _Refusal as refusal:
            await exchange.json(refusal.body, status=refusal.status)

    def _refusal(self, status: int, message: str, kind: str = "invalid_request_error") -> _Refusal:
        if self.name == "anthropic":
            error = {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_stub"}
        elif self.name == "gemini":  # Gemini sends a list in Google's own format
            word = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 404: "NOT_FOUND"}[status]
            return _Refusal(status, [{"error": {"code": status, "message": message, "status": word}}])
        else:
            error = {"error": {"message": message, "type": kind, "param": None, "code": None}}
        return _Refusal(status, error)

    def _check_key(self, exchange: Exchange, *, native: bool) -> None:
        if self.key is None:
            return
        sent = exchange.headers.get("authorization", "").removeprefix("Bearer ")
        if self.key not in (sent, exchange.headers.get("x-api-key") if native else None):
            self.refused += 1
            if self.name == "gemini":
                raise self._refusal(400, "API key not valid. Please pass a valid API key.")
            if self.name == "anthropic":
                raise self._refusal(401, "invalid x-api-key", "authentication_error")
            raise _Refusal(401, {"error": {"message": "Incorrect API key provided.", "code": "invalid_api_key"}})
        if native and "anthropic-version" not in exchange.headers:
            raise self._refusal(400, "anthropic-version: header is required")

    def _check_model(self, name: object) -> None:
        if name not in self.models:
            kind = "not_found_error" if self.name == "anthropic" else "invalid_request_error"
            raise self._refusal(404, f"model: {name}", kind)

    # Chat completions

    async def _completions(self, exchange: Exchange) -> None:
        body = exchange.body
        self._check_model(body.get("model"))
        effort = body.get("reasoning_effort")
        if self.name == "openai":
            if "max_tokens" in body and not body["model"].startswith("gpt-4"):
                raise self._refusal(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
            if effort is not None and body["model"].startswith("gpt-4"):
                raise self._refusal(400, "Unrecognized request argument supplied: reasoning_effort")
        elif "prompt_cache_key" in body:
            raise self._refusal(400, "Unknown parameter: prompt_cache_key")
        form = body.get("response_format") or {}
        if self.name == "anthropic" and form.get("type") == "json_object":
            raise self._refusal(400, "response_format: only json_schema is supported")
        tools = {tool["function"]["name"]: tool["function"]["parameters"] for tool in body.get("tools", ())}
        choice = (
            (body.get("tool_choice") or {}).get("function", {}) if isinstance(body.get("tool_choice"), dict) else {}
        )
        schema = form["json_schema"]["schema"] if form.get("type") == "json_schema" else tools.get(choice.get("name"))
        prompt = json.dumps(body.get("tools", [])) + "".join(
            f"<{entry['role']}>{entry.get('content') or json.dumps(entry.get('tool_calls'))}"
            for entry in body["messages"]
        )
        prompt_tokens = _tokens(prompt)
        recorded = VendorRequest(
            path=exchange.path,
            body=body,
            headers=exchange.headers,
            prompt=prompt,
            prompt_tokens=prompt_tokens,
            cached_tokens=self._cached_prefix(prompt, f"{body['model']} {body.get('prompt_cache_key')}"),
            reasoning_tokens=THOUGHT.get(str(effort), 0),
            schema=schema,
            effort=effort,
        )
        self.asked.append(recorded)
        text = self._answer(recorded)
        room = body.get("max_completion_tokens", body.get("max_tokens"))
        thought, reply, finish = _within(recorded.reasoning_tokens, text, room)
        details = {"completion_tokens_details": {"reasoning_tokens": thought}} if self.name != "ollama" else {}
        cached = {"prompt_tokens_details": {"cached_tokens": recorded.cached_tokens}} if self.name != "ollama" else {}
        used = thought + _tokens(reply)
        usage = {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": used,
            "total_tokens": prompt_tokens + used,
            **cached,
            **details,
        }
        called = {"id": "call_1", "type": "function", "function": {"name": choice.get("name"), "arguments": reply}}
        common = {"id": "chatcmpl-stub", "created": 1, "model": body["model"]}
        if body.get("stream"):
            pieces = [reply[at : at + 20] for at in range(0, len(reply), 20)]
            choices: list[Json] = [{"delta": {"content": piece}, "finish_reason": None} for piece in pieces]
            choices.append({"delta": {}, "finish_reason": finish})
            common["object"] = "chat.completion.chunk"
            events: list[Json] = [{**common, "choices": [{"index": 0, **choice_}]} for choice_ in choices]
            await exchange.events([*events, {**common, "choices": [], "usage": usage}])
            return
        message: Json = {"role": "assistant", "content": None if choice else reply}
        if choice:
            message["tool_calls"] = [called]
        reason = "tool_calls" if choice and finish == "stop" else finish
        answer = {"index": 0, "finish_reason": reason, "message": message}
        await exchange.json({**common, "object": "chat.completion", "choices": [answer], "usage": usage})

    def _cached_prefix(self, prompt: str, bucket: str) -> int:
        """Return the token count of the longest prefix shared with an earlier prompt; OpenAI counts in steps of 128."""
        earlier = self._prompts.setdefault(bucket, [])
        shared = max((len(commonprefix([prompt, prefix])) for prefix in earlier), default=0) // _CHARACTERS  # noqa: RUF071
        earlier.append(prompt)
        step = 128 if self.name == "openai" else 1
        return shared // step * step if shared >= self.cache_from and self.name in ("openai", "gemini") else 0

    # Anthropic's messages API

    async def _messages(self, exchange: Exchange) -> None:
        body = exchange.body
        self._check_message(body)
        config, thinking = body.get("output_config") or {}, body.get("thinking") or {}
        effort = config.get("effort")
        thought = THOUGHT[effort or "high"] if thinking.get("type") in ("adaptive", "enabled") else 0
        choice = body.get("tool_choice") or {}
        tools = {tool["name"]: tool["input_schema"] for tool in body.get("tools", ())}
        prompt, prompt_tokens, cached, written = self._count_blocks(body)
        recorded = VendorRequest(
            path=exchange.path,
            body=body,
            headers=exchange.headers,
            prompt=prompt,
            prompt_tokens=prompt_tokens,
            cached_tokens=cached,
            written_tokens=written,
            reasoning_tokens=thought,
            schema=config.get("format", {}).get("schema") or tools.get(choice.get("name")),
            effort=effort,
        )
        self.asked.append(recorded)
        text = self._answer(recorded)
        thought, reply, finish = _within(recorded.reasoning_tokens, text, body["max_tokens"])
        reason = {"stop": "end_turn", "length": "max_tokens"}[finish]
        content: list[Json] = []
        if thought:
            content.append({"type": "thinking", "thinking": "Let me see.", "signature": "c2lnbmVk"})
        if choice.get("type") == "tool":
            content.append({"type": "tool_use", "id": "toolu_1", "name": choice["name"], "input": json.loads(reply)})
            reason = "tool_use"
        elif reply:
            content.append({"type": "text", "text": reply})
        usage = {
            "input_tokens": prompt_tokens - cached - written,
            "cache_read_input_tokens": cached,
            "cache_creation_input_tokens": written,
            "cache_creation": {"ephemeral_5m_input_tokens": written, "ephemeral_1h_input_tokens": 0},
            "output_tokens": thought + _tokens(reply),
            "output_tokens_details": {"thinking_tokens": thought},
        }
        message: Json = {
            "id": "msg_stub",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": content,
            "stop_reason": reason,
            "stop_sequence": None,
            "usage": usage,
        }
        if not body.get("stream"):
            await exchange.json(message)
            return
        await exchange.begin_events()
        for event in message_events(message):
            await exchange.raw(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        exchange.close = True

    def _check_message(self, body: dict[str, Json]) -> None:
        for unknown in body.keys() - _FIELDS:
            raise self._refusal(400, f"{unknown}: Extra inputs are not permitted")
        if not isinstance(body.get("max_tokens"), int):
            raise self._refusal(400, "max_tokens: Field required")
        self._check_model(body.get("model"))
        if any(message["role"] not in ("user", "assistant") for message in body["messages"]):
            raise self._refusal(400, "messages: Input should be 'user' or 'assistant'")
        thinking = body.get("thinking") or {}
        if thinking.get("type") == "enabled" and not 1024 <= thinking["budget_tokens"] < body["max_tokens"]:
            raise self._refusal(400, "max_tokens must be greater than thinking.budget_tokens")
        if form := (body.get("output_config") or {}).get("format"):
            self._check_schema(form["schema"])

    def _check_schema(self, schema: Json) -> None:
        """Check Anthropic's limits on schemas: every object is closed, and few keywords are supported."""
        if isinstance(schema, dict):
            if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
                raise self._refusal(400, "output_config.format.schema: 'additionalProperties' must be false")
            for unknown in schema.keys() & {"minimum", "maximum", "minLength", "maxLength", "maxItems"}:
                if not isinstance(schema[unknown], dict):
                    raise self._refusal(400, f"output_config.format.schema: '{unknown}' is not supported")
            for part in schema.values():
                self._check_schema(part)
        elif isinstance(schema, list):
            for part in schema:
                self._check_schema(part)

    def _count_blocks(self, body: dict[str, Json]) -> tuple[str, int, int, int]:
        """Return the prompt and the number of tokens in total, read from the cache, and written to it."""
        blocks = [("tools", json.dumps(tool), tool.get("cache_control")) for tool in body.get("tools", ())]
        system = body.get("system") or []
        for block_ in [{"type": "text", "text": system}] if isinstance(system, str) else system:
            blocks += [("system", block_["text"], block_.get("cache_control"))]
        for message in body["messages"]:
            content = message["content"]
            for block_ in [{"type": "text", "text": content}] if isinstance(content, str) else content:
                text = block_["text"] if block_["type"] == "text" else json.dumps(block_)
                if not text.strip():
                    raise self._refusal(400, "messages: text content blocks must be non-empty")
                blocks.append((message["role"], text, block_.get("cache_control")))
        prompt = "".join(text for _, text, _ in blocks)
        marks = [index for index, (_, _, mark) in enumerate(blocks) if mark]
        if len(marks) > _MARKS:
            raise self._refusal(400, f"A maximum of {_MARKS} blocks with cache_control may be provided.")
        keys = [(role, text) for role, text, _ in blocks]
        ends = [_tokens("".join(text for _, text in keys[: index + 1])) for index in range(len(keys))]

        def key(index: int) -> tuple[Json, ...]:
            return (body["model"], json.dumps(body.get("thinking")), *keys[: index + 1])

        read = -1
        for mark in marks:
            looked = range(mark, max(mark - _LOOKBACK, -1), -1)
            read = max(read, next((index for index in looked if key(index) in self._blocks), -1))
        written = -1
        for mark in marks:
            if ends[mark] >= self.cache_from:
                self._blocks.add(key(mark))
                written = max(written, mark)
        cached = ends[read] if read >= 0 else 0
        return prompt, _tokens(prompt), cached, max(ends[written] - cached, 0) if written >= 0 else 0

    def _answer(self, exchange: VendorRequest) -> str:
        reply = self.say(exchange) if exchange.schema is None or self.say is not _say else None
        if exchange.schema is None:
            return str(reply)
        return json.dumps(build_instance(inline_definitions(exchange.schema)) if reply is None else reply)


_PATHS = {"openai": "/v1", "anthropic": "/v1", "gemini": "/v1beta/openai", "ollama": "/v1"}
_FIELDS = {
    "model", "messages", "max_tokens", "system", "tools", "tool_choice", "stream", "temperature", "top_p", "top_k",
    "stop_sequences", "metadata", "thinking", "output_config", "service_tier", "cache_control",
}  # fmt: skip


def message_events(message: dict[str, Json]) -> Iterator[dict[str, Json]]:
    """Return Anthropic's stream events for `message`."""
    usage = message["usage"]
    yield {
        "type": "message_start",
        "message": {**message, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}},
    }
    yield {"type": "ping"}
    for index, block in enumerate(message["content"]):
        kind = block["type"]
        begun: Json = {"thinking": {"thinking": "", "signature": ""}, "text": {"text": ""}, "tool_use": {"input": {}}}[
            kind
        ]
        yield {"type": "content_block_start", "index": index, "content_block": {**block, **begun}}
        if kind == "thinking":
            deltas = [
                {"type": "thinking_delta", "thinking": block["thinking"]},
                {"type": "signature_delta", "signature": block["signature"]},
            ]
        elif kind == "text":
            text = block["text"]
            deltas = [{"type": "text_delta", "text": text[at : at + 20]} for at in range(0, len(text), 20)]
        else:
            deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ends = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ends, "usage": usage}
    yield {"type": "message_stop"}


def build_instance(schema: Json) -> Json:  # noqa: PLR0911 - JSON, kind by kind
    """Return data that fits `schema`, choosing the first option; the schema must have no references."""
    if "enum" in schema:
        return schema["enum"][0]
    if options := schema.get("anyOf") or schema.get("oneOf"):
        return build_instance(options[0])
    match schema.get("type"):
        case "object":
            return {name: build_instance(part) for name, part in schema.get("properties", {}).items()}
        case "array":
            return [build_instance(schema.get("items", {})) for _ in range(max(1, schema.get("minItems", 1)))]
        case "integer" | "number":
            return max(schema.get("minimum", 0), min(schema.get("maximum", 50), 50))
        case "boolean":
            return False
        case "null":
            return None
        case _:
            return "Said in a sentence."


def _tokens(text: str) -> int:
    return len(text) // _CHARACTERS


def _within(thought: int, text: str, room: int | None) -> tuple[int, str, Literal["stop", "length"]]:
    """Return the thinking tokens, the text and the finish reason of an answer limited to `room` tokens."""
    if room is None or thought + _tokens(text) <= room:
        return thought, text, "stop"
    return min(thought, room), text[: max(room - thought, 0) * _CHARACTERS], "length"


@contextmanager
def vendors() -> Iterator[dict[VendorName, Vendor]]:  # noqa: C901 - one thing after the other
    """Start all four vendors and point names and the environment to them; the environment contains only their keys."""
    stubs: dict[VendorName, Vendor] = {
        "openai": Vendor("openai", "sk-stub-openai-0001", ("gpt-5.6-luna", "gpt-5-mini", "gpt-4o")),
        "anthropic": Vendor("anthropic", "sk-ant-stub-0002", ("claude-haiku-5-5", "claude-sonnet-4-6")),
        "gemini": Vendor("gemini", "AIza-stub-0003", ("gemini-flash-latest", "gemini-3-pro")),
        "ollama": Vendor("ollama", None, ("gemma3", "llama4")),
    }
    with _running(stubs), pytest.MonkeyPatch.context() as patch:
        for name in ("FLOWDEBATE_MODEL", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "ANTHROPIC_AUTH_TOKEN"):
            patch.delenv(name, raising=False)
        table = dict(PROVIDERS)
        for name, provider in PROVIDERS.items():
            if provider.key_env is not None:
                patch.delenv(provider.key_env, raising=False)
            if name in stubs and name != "openai":
                table[name] = replace(provider, base_url=stubs[name].base_url)
        for name, vendor in stubs.items():
            if vendor.key is not None:
                patch.setenv(str(PROVIDERS[name].key_env), vendor.key)
        # make the stub count as OpenAI itself, which is used without a base URL and with all its features
        patch.setattr(flowdebate.models.openai.model, "_OPENAI", stubs["openai"].base_url.removesuffix("/v1"))
        # forget the servers found on this machine
        patch.setattr(flowdebate.models.resolve, "_seen", (float("-inf"), {}))
        moved = MappingProxyType(table)
        for module in list(sys.modules.values()):
            if getattr(module, "__name__", "").startswith("flowdebate") and vars(module).get("PROVIDERS") is PROVIDERS:
                patch.setattr(module, "PROVIDERS", moved)
        yield stubs
        # modules imported in the meantime still refer to the stubs' table
        for module in list(sys.modules.values()):
            if getattr(module, "__name__", "").startswith("flowdebate") and vars(module).get("PROVIDERS") is moved:
                vars(module)["PROVIDERS"] = PROVIDERS


@contextmanager
def _running(stubs: dict[VendorName, Vendor]) -> Iterator[None]:
    """Serve all vendors in a thread, so that blocking tests can call them too."""
    ready, loop = threading.Event(), asyncio.new_event_loop()
    ending = asyncio.Event()

    async def serve() -> None:
        servers = {name: ChatServer(otherwise=vendor.serve) for name, vendor in stubs.items()}
        for name, server in servers.items():
            await server.__aenter__()
            stubs[name].port = server.port
        ready.set()
        await ending.wait()
        for server in servers.values():
            await server.__aexit__()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield
    finally:
        loop.call_soon_threadsafe(ending.set)
        thread.join(10)
        loop.close()
