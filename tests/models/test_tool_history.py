"""Tool calls in a request's history, which are sent back unchanged over real HTTP."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from openai import AsyncOpenAI

from flowdebate import OpenAIModel, generator
from flowdebate.errors import RequestRejected
from flowdebate.models import Fallback
from flowdebate.models.call import ask
from flowdebate.store import MemoryStore
from tests.cases import slow_but_first

from .server import ChatServer, Exchange, chunk, completion, fine, usage_chunk
from .test_refusals import make_request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.models import Model

pytestmark = pytest.mark.anyio

THOUGHT = "They want the rent. I look it up."
CALL = {
    "id": "call_9",
    "type": "function",
    "function": {"name": "look_up", "arguments": '{"q": "rent"}'},
    "extra_content": {"google": {"thought_signature": "c2ln"}},
}
DETAILS = [{"type": "reasoning.text", "text": THOUGHT, "signature": "c2ln", "index": 0}]
FIELDS: dict[str, Any] = {"reasoning_content": THOUGHT, "reasoning_details": DETAILS, "provider_state": {"v": 1}}
TEXT = "It is high."


def look_up(q: str = "all") -> str:
    """Look up a fact."""
    return f"{q}: 12 %"


async def ask_with_tool(model: Model, *, streamed: bool = False, **options: Any) -> str:
    handle = generator(name="ann", user="How high?", tools=[look_up], model=model).start("x", **options)
    if streamed:
        async for _ in handle:
            pass
    return str((await handle).output)


def calling(call: Any, *, pieces: Sequence[Any] = (), **fields: Any) -> Any:
    async def answer(exchange: Exchange) -> None:
        if any(message["role"] == "tool" for message in exchange.body["messages"]):
            streamed = "stream" in exchange.body
            await (
                exchange.events([chunk(TEXT), chunk(finish="stop")]) if streamed else exchange.json(completion(TEXT))
            )
        elif "stream" in exchange.body:
            await exchange.events([*pieces, chunk(finish="tool_calls"), usage_chunk()])
        else:
            await exchange.json(completion(None, finish="tool_calls", tool_calls=[call], **fields))

    return answer


PIECES = [
    chunk(reasoning_content=THOUGHT[:9], reasoning_details=[{**DETAILS[0], "text": THOUGHT[:9], "signature": None}]),
    chunk(reasoning_content=THOUGHT[9:], reasoning_details=[{**DETAILS[0], "text": THOUGHT[9:]}]),
    chunk(provider_state={"v": 1}),
    chunk(tool_calls=[{**CALL, "index": 0, "function": {"name": "look_up", "arguments": '{"q": '}}]),
    chunk(tool_calls=[{"index": 0, "function": {"arguments": '"rent"}'}}]),
]


@pytest.mark.parametrize("transport", slow_but_first(["aiohttp", "openai"]))
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_extra_fields_in_a_tool_call_are_sent_back(transport: Any, *, streamed: bool) -> None:
    """Reasoning, signatures and unknown fields are sent back.

    If they arrived in several chunks, the chunks are joined.
    """
    async with ChatServer({}, otherwise=calling(CALL, pieces=PIECES, **FIELDS)) as server:
        model = OpenAIModel("m", base_url=server.base_url, api_key="k", transport=transport)
        assert await ask_with_tool(model, streamed=streamed) == TEXT
    messages = server.bodies[-1]["messages"]
    assert messages[-1] == {"role": "tool", "tool_call_id": "call_9", "content": "rent: 12 %"}
    assert messages[-2] == {"role": "assistant", "content": None, "tool_calls": [CALL], **FIELDS}


@pytest.mark.parametrize("arguments", ["", " ", "{}", "null"])
async def test_a_call_without_arguments_is_sent_back_with_an_empty_object(arguments: str) -> None:
    call = {**CALL, "function": {"name": "look_up", "arguments": arguments}}
    async with ChatServer({}, otherwise=calling(call)) as server:
        assert await ask_with_tool(OpenAIModel("m", base_url=server.base_url, api_key="k")) == TEXT
    assert server.bodies[-1]["messages"][-2]["tool_calls"][0]["function"]["arguments"] == "{}"
    assert server.bodies[-1]["messages"][-1]["content"] == "all: 12 %"


async def test_a_resumed_run_sends_back_the_same_fields() -> None:
    """The extra fields are stored together with the answer."""
    store = MemoryStore()
    broken = True

    async def answer(exchange: Exchange) -> None:
        if broken and any(message["role"] == "tool" for message in exchange.body["messages"]):
            await exchange.json({"error": {"message": "gone"}}, status=418)
        else:
            await calling(CALL, **FIELDS)(exchange)

    async with ChatServer({}, otherwise=answer) as server:
        model = OpenAIModel("m", base_url=server.base_url, api_key="k", retry=None)
        with pytest.raises(RequestRejected):
            await ask_with_tool(model, store=store, run_id="r")
        broken, posts = False, server.posts
        block = generator(name="ann", user="How high?", tools=[look_up], model=model)
        assert (await block.resume("r", store=store)).output == TEXT
    assert server.posts == posts + 1
    assert server.bodies[-1]["messages"][-2]["reasoning_details"] == DETAILS


@pytest.mark.parametrize("words", ["property 'reasoning_details' is unsupported", "Bad Request"])
async def test_fields_rejected_by_another_server_are_omitted(words: str) -> None:
    """A fallback may belong to another vendor.

    If its server rejects certain fields, they are also omitted from later requests.
    """

    async def refuse(exchange: Exchange) -> None:
        if any("reasoning_details" in message for message in exchange.body["messages"]):
            await exchange.json({"error": {"message": words}}, status=400)
        else:
            await fine(exchange)

    async def call(exchange: Exchange) -> None:
        if exchange.body["messages"][-1]["role"] == "tool":
            await exchange.json({"error": {"message": "down"}}, status=503)
        else:
            await calling(CALL, **FIELDS)(exchange)

    async with ChatServer({"a": call, "b": refuse}) as server:
        first, second = (OpenAIModel(name, base_url=server.base_url, api_key="k", retry=None) for name in ("a", "b"))
        assert await ask_with_tool(Fallback(first, second)) == "fine"
        sent_message = server.bodies[-1]["messages"][-2]
    assert sent_message["tool_calls"] == [{name: CALL[name] for name in ("id", "type", "function")}]
    assert "reasoning_content" not in sent_message


async def test_an_incompatible_sdk_is_named_in_the_error() -> None:
    """The error explains the incompatibility instead of reporting an unreadable answer."""

    class Completions:
        """An older SDK's completions."""

        async def create(self, *, model: str, messages: object) -> object:
            """Accept fewer arguments than the library sends."""
            raise AssertionError(model, messages)

    class Older(AsyncOpenAI):
        """An older SDK's client."""

        chat: Any = SimpleNamespace(completions=Completions())

    model = OpenAIModel("m", client=Older(base_url="http://127.0.0.1:9/v1", api_key="k"))
    with pytest.raises(RequestRejected, match="unexpected keyword argument 'temperature'") as caught:
        await ask(model, make_request(temperature=0))
    assert not caught.value.providers_fault
