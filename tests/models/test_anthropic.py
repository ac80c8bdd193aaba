"""`AnthropicModel` with the real SDK: requests, responses, and cache marks."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from importlib.util import find_spec
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel, Field

import flowdebate.models.resolve
from flowdebate import Debater, debate
from flowdebate.blocks.generator import generator
from flowdebate.errors import (
    AuthenticationFailed,
    ConfigurationError,
    ContextTooLong,
    FlowDebateWarning,
    LostToThinking,
    RateLimited,
    Refused,
)
from flowdebate.models import (
    AnthropicModel,
    Fallback,
    ModelRequest,
    ModelSettings,
    OpenAIModel,
    OutputSchema,
    Retry,
    resolve_model,
)
from flowdebate.models.call import ask
from flowdebate.prompts import split_entries
from tests.vendors import THOUGHT, message_events, vendors

from .server import ChatServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flowdebate.models.base import Effort
    from tests.vendors import Vendor

    from .server import Exchange, Handler

pytestmark = [  # look up the SDK without importing it in every process that collects tests
    pytest.mark.anyio,
    pytest.mark.skipif(find_spec("anthropic") is None, reason="anthropic is not installed"),
]

SONNET = "anthropic/claude-sonnet-4-6"


class Verdict(BaseModel):
    """A judge's answer, with a bound that the API does not support."""

    reasoning: str
    score: float = Field(ge=0, le=100)


@pytest.fixture
def anthropic() -> Iterator[Vendor]:
    """Start the stub server."""
    with vendors() as servers:
        yield servers["anthropic"]


def make_request(**options: Any) -> ModelRequest:
    """Return a request from a debater."""
    output = options.pop("output", None)
    options.setdefault("messages", [{"role": "system", "content": "Debate."}, {"role": "user", "content": "Why?"}])
    options.setdefault("role", "debater")
    return ModelRequest(block="b", output=None if output is None else OutputSchema.of(output), **options)


def message(**parts: Any) -> dict[str, Any]:
    """Return a message in the API's format."""
    usage = {"input_tokens": 5, "output_tokens": 2}
    body = {"id": "m", "type": "message", "role": "assistant", "model": "served", "stop_reason": "end_turn"}
    return {**body, "content": [{"type": "text", "text": "fine"}], "usage": usage, **parts}


def reply_with(value: Any, status: int = 200, **headers: str) -> Handler:
    """Return a handler that answers with the given JSON."""

    async def reply(exchange: Exchange) -> None:
        await exchange.json(value, status=status, headers={k.replace("_", "-"): v for k, v in headers.items()})

    return reply


async def send_request(handler: Handler, request: ModelRequest | None = None, **options: Any) -> Any:
    async with ChatServer({"m": handler}) as server:
        options.setdefault("retry", None)
        model = AnthropicModel("m", base_url=server.base_url, api_key="k", **options)
        return await ask(model, request or make_request())


async def test_the_anthropic_prefix_selects_the_native_api(anthropic: Vendor) -> None:
    """Streamed and complete answers have the same text and token counts, including cached tokens.

    The listener receives the whole text.
    """
    pieces: list[str] = []
    response = await ask(resolve_model(SONNET), make_request())
    streamed = await ask(resolve_model(SONNET), make_request(on_text=pieces.append))
    assert isinstance(resolve_model(SONNET), AnthropicModel)
    assert response.text == streamed.text == "".join(pieces)
    assert len(pieces) > 1
    assert response.usage == streamed.usage
    assert (response.usage.cached_tokens, response.usage.cache_written_tokens, response.flags) == (0, 0, ())
    assert [request.path for request in anthropic.asked] == ["/v1/messages"] * 2
    assert anthropic.asked[0].body["system"][0]["text"] == "Debate."
    assert anthropic.asked[0].body["messages"] == [{"role": "user", "content": [{"type": "text", "text": "Why?"}]}]


def test_the_compatible_endpoint_is_used_without_the_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flowdebate.models.resolve, "find_spec", lambda _: None)
    monkeypatch.setattr("flowdebate._util.validation.find_spec", lambda _: None)
    flowdebate.models.resolve._recommend_sdk.cache_clear()
    with pytest.warns(FlowDebateWarning, match=r"flowdebate\[anthropic\]"):
        assert isinstance(resolve_model(SONNET), OpenAIModel)
    resolve_model(SONNET)
    with pytest.raises(ConfigurationError, match=r"flowdebate\[anthropic\]"):
        AnthropicModel("claude")


@pytest.mark.parametrize("mode", ["json_schema", "tools", "md_json"])
async def test_a_structured_answer_becomes_an_application_object(mode: Any, anthropic: Vendor) -> None:
    """The API supports only a few JSON Schema keywords, so the library itself checks the others."""
    anthropic.say = lambda request: (
        {"reasoning": "r", "score": 7} if request.schema else '{"reasoning": "r", "score": 7}'
    )
    model = AnthropicModel("claude-sonnet-4-6", base_url=anthropic.base_url, structured=mode, retry=None)
    answered = await ask(model, make_request(output=Verdict))
    assert answered.data == Verdict(reasoning="r", score=7)
    assert answered.asked_as == mode


async def test_the_next_mode_is_used_if_one_is_rejected() -> None:
    """Older models, for example, reject structured answers and are given a tool instead."""

    async def old(exchange: Exchange) -> None:
        if "output_config" in exchange.body:
            error = {"type": "invalid_request_error", "message": "output_config.format is not supported"}
            await exchange.json({"type": "error", "error": error}, status=400)
        else:
            called = {"type": "tool_use", "id": "t", "name": "Verdict", "input": {"reasoning": "r", "score": 1}}
            await exchange.json(message(content=[called], stop_reason="tool_use"))

    assert (await send_request(old, make_request(output=Verdict))).asked_as == "tools"


@pytest.mark.filterwarnings("ignore:The model:DeprecationWarning")
@pytest.mark.parametrize(
    ("model", "effort", "config", "thinking"),
    [
        ("claude-sonnet-4-6", "low", {"effort": "low"}, {"type": "adaptive"}),
        ("claude-haiku-5-5", "high", {"effort": "high"}, {"type": "adaptive"}),
        ("claude-sonnet-4-5-20250929", "medium", None, {"type": "enabled", "budget_tokens": 8192}),
        ("claude-3-7-sonnet-latest", "low", None, {"type": "enabled", "budget_tokens": 2048}),
    ],
)
async def test_effort_is_sent_in_the_format_the_model_expects(
    model: str, effort: Effort, config: Any, thinking: Any, anthropic: Vendor
) -> None:
    """For older models, the effort becomes a number of thinking tokens that is added to the answer's token limit."""
    anthropic.models = (model,)
    response = await ask(resolve_model(f"anthropic/{model}"), make_request(settings=ModelSettings(effort=effort)))
    body = anthropic.asked[-1].body
    assert (body.get("output_config"), body["thinking"]) == (config, thinking)
    assert body["max_tokens"] > 8_192
    assert (response.usage.reasoning_tokens or 0) >= THOUGHT["low"]
    assert "Let me see" not in response.text


async def test_an_answer_lost_to_thinking_is_reported(anthropic: Vendor) -> None:
    settings = ModelSettings(effort="high", max_tokens=300)
    with pytest.raises(LostToThinking, match=r"max_tokens \(600\)"):
        await ask(resolve_model(SONNET), make_request(settings=settings))
    assert [request.body["max_tokens"] for request in anthropic.asked] == [300, 600]


async def test_thinking_blocks_are_sent_back_with_tool_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """The API requires thinking blocks to precede the tool calls that they led to."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    thought = {"type": "thinking", "thinking": "Look it up.", "signature": "c2ln"}
    called = {"type": "tool_use", "id": "toolu_1", "name": "look_up", "input": {"q": "rent"}}

    def look_up(q: str) -> str:
        return f"{q}: 12 %"

    async def serve(exchange: Exchange) -> None:
        if len(exchange.body["messages"]) == 1:
            await exchange.begin_events()
            for event in message_events(message(content=[thought, called], stop_reason="tool_use")):
                await exchange.raw(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
            exchange.close = True
        else:
            await exchange.json(message())

    async with ChatServer({"m": serve}) as server:
        block = generator(
            name="ann", user="How much?", tools=[look_up], model=AnthropicModel("m", base_url=server.base_url)
        )
        handle = block.start("x")
        async for _ in handle:
            pass
        assert (await handle).output == "fine"
    first, second = server.bodies
    assert first["tool_choice"] == {"type": "auto"}
    assert first["tools"][0]["input_schema"]["properties"]["q"]["type"] == "string"
    assert [block["type"] for block in second["messages"][1]["content"]] == ["thinking", "tool_use"]
    assert second["messages"][1]["content"][0] == thought
    assert second["messages"][2]["content"][0]["content"] == "rent: 12 %"


async def test_stop_reasons_and_refusals_are_recognized() -> None:
    refused = {"type": "refusal", "category": "bio", "explanation": "against policy"}
    with pytest.raises(Refused, match="policy"):
        await send_request(reply_with(message(content=[], stop_reason="refusal", stop_details=refused)))
    full = await send_request(reply_with(message(stop_reason="model_context_window_exceeded")))
    assert (full.finish, full.text) == ("length", "fine")


@pytest.mark.parametrize(
    ("status", "kind", "error_text", "error", "facts"),
    [
        (401, "authentication_error", "invalid x-api-key", AuthenticationFailed, {"transient": False}),
        (429, "rate_limit_error", "slow down", RateLimited, {"retry_after": 7.0, "transient": True}),
        (529, "overloaded_error", "Overloaded", RateLimited, {"transient": True}),
        (400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000", ContextTooLong, {}),
        (400, "invalid_request_error", "Your credit balance is too low", RateLimited, {"quota_exhausted": True}),
    ],
)
async def test_vendor_errors_become_library_errors(
    status: int, kind: str, error_text: str, error: Any, facts: Any
) -> None:
    body = {"type": "error", "error": {"type": kind, "message": error_text}, "request_id": "r"}
    with pytest.raises(error, match=error_text.partition(":")[0]) as caught:
        await send_request(reply_with(body, status, retry_after="7"))
    assert {name: getattr(caught.value, name) for name in facts} == facts

    async def stream(exchange: Exchange) -> None:
        await exchange.begin_events()
        await exchange.raw(f"event: error\ndata: {json.dumps(body)}\n\n".encode())
        exchange.close = True

    if status != 400:
        with pytest.raises(error, match=error_text):
            await send_request(stream, make_request(on_text=lambda _: None))


async def test_a_cancelled_call_closes_its_stream() -> None:
    received = asyncio.Event()

    async def endless(exchange: Exchange) -> None:
        await exchange.begin_events()
        for event in list(message_events(message()))[:4]:
            await exchange.raw(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        await exchange.until_gone()

    async with ChatServer({"m": endless}) as server:
        model = AnthropicModel("m", base_url=server.base_url, api_key="k")
        call = asyncio.create_task(ask(model, make_request(on_text=lambda _: received.set())))
        await received.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await server.wait_until_left()


async def test_anthropic_works_alongside_other_models(anthropic: Vendor) -> None:
    """Policies and fallbacks wrap an Anthropic model as they wrap any other."""
    model = Fallback(AnthropicModel("none", base_url=anthropic.base_url, retry=Retry(attempts=1)), "ollama/gemma3")
    assert (await ask(model, make_request())).model == "gemma3"


def test_a_debate_reads_its_transcript_from_the_cache(anthropic: Vendor) -> None:
    """Each turn is charged the full price only for new text.

    The judge reads the cached transcript once and writes nothing to the cache.
    """
    anthropic.say = lambda request: None if request.schema else "A reason that takes some room to be told. " * 40
    sides = [Debater(name, f"{name} is right") for name in ("ann", "ben", "cleo")]
    pattern = debate(name="rent", debaters=sides, max_rounds=3, synthesizer=False)
    result = pattern.run_sync("Should rents be capped?", model=SONNET)
    assert result.status == "complete"
    turns, judge = anthropic.asked[:-1], anthropic.asked[-1]
    assert len(turns) == 9
    # each turn reads from the cache everything that the previous turn read or wrote
    for earlier, later in pairwise(turns[3:]):
        assert later.cached_tokens == earlier.cached_tokens + earlier.written_tokens > 1_000
    assert judge.written_tokens == 0
    assert max(str(sent_request.body).count("cache_control") for sent_request in anthropic.asked) == 2
    fresh, cached, written = anthropic.tokens
    usage = result.usage
    assert (usage.prompt_tokens, usage.cached_tokens, usage.cache_written_tokens) == (
        fresh + cached + written, cached, written,
    )  # fmt: skip
    assert cached > fresh + written


def test_prompts_with_the_same_prefix_share_an_openai_cache_key() -> None:
    """All turns of a debate send the same cache key, whereas a debate on another question sends a different one."""
    with vendors() as servers:
        sides = [Debater(name, f"{name} is right") for name in ("ann", "ben")]
        pattern = debate(name="rent", debaters=sides, max_rounds=2, synthesizer=False)
        for asked_for in ("Should rents be capped?", "Should rents be free?"):
            pattern.run_sync(asked_for, model={"chat": "openai/gpt-5-mini", "synthesize": "ollama/gemma3"})
        keys = [request.body["prompt_cache_key"] for request in servers["openai"].asked]
        assert len(set(keys[:4])) == len(set(keys[4:])) == 1
        assert keys[0] != keys[4]
        assert all("prompt_cache_key" not in request.body for request in servers["ollama"].asked)


@pytest.mark.parametrize("text", ["", "No tags.", "[a]", "A:\n[a] x\n  | y\n\n[b] z\nEnd", "[a] x\n[b] y"])
def test_a_prompt_is_split_without_loss(text: str) -> None:
    """Joining the pieces restores the prompt.

    When the transcript grows, all pieces but the last stay the same.
    """
    assert "".join(split_entries(text)) == text
    longer = text.replace("\nEnd", "\n[c] w\nEnd")
    assert split_entries(longer)[: len(split_entries(text)) - 1] == split_entries(text)[:-1]


def test_the_sdk_is_imported_when_a_model_is_called() -> None:
    code = (
        "import sys; from flowdebate import AnthropicModel; AnthropicModel('m'); sys.exit('anthropic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0  # noqa: S603 - our own
