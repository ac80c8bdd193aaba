"""Requests over real HTTP, with each client: the data sent, the fields returned to servers, and token counts."""

from __future__ import annotations

import json
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import AnthropicModel, Debater, OpenAIModel, debate
from flowdebate.blocks.generator import generator
from flowdebate.errors import (
    FlowDebateWarning,
    LostToThinking,
    Refused,
    RequestRejected,
)
from flowdebate.models import ModelRequest, ModelSettings, OutputSchema
from flowdebate.models.base import ToolSpec
from flowdebate.models.call import ask
from flowdebate.models.codec import Answer, call_row, json_text, read_record
from flowdebate.models.openai.error_mapping import find_unsendable
from tests.faults.as_messages import MessagesExchange
from tests.patterns.debates import QUESTION, VERDICT

from .server import ChatServer, Exchange, chunk, completion, tool_call, usage_chunk

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from flowdebate.models import Model, ModelResponse

pytestmark = pytest.mark.anyio

CLIENTS = [
    "aiohttp",
    pytest.param("openai", marks=pytest.mark.skipif(find_spec("openai") is None, reason="openai is not installed")),
    pytest.param(
        "anthropic", marks=pytest.mark.skipif(find_spec("anthropic") is None, reason="anthropic is not installed")
    ),
]
OPENAI = CLIENTS[:2]


def make_model(client: str, server: ChatServer, **options: Any) -> Model:
    """Return a model that uses one of the clients."""
    options = {"base_url": server.base_url, "api_key": "secret-key-1", "retry": None, **options}
    return AnthropicModel("m", **options) if client == "anthropic" else OpenAIModel("m", transport=client, **options)  # type: ignore[arg-type]


def serving(client: str, handler: Callable[[Exchange], Awaitable[None]]) -> ChatServer:
    return ChatServer({}, otherwise=handler, exchange=MessagesExchange if client == "anthropic" else Exchange)


def question(*, output: Any = None, on_text: Any = None, prompt: str = "Cap rents?", **settings: Any) -> ModelRequest:
    return ModelRequest(
        messages=[{"role": "system", "content": "You debate."}, {"role": "user", "content": prompt}],
        block="b",
        output=None if output is None else OutputSchema.of(output),
        on_text=on_text,
        settings=ModelSettings(**settings),
    )


async def ask_model(client: str, value: Any, *, stream: bool = False, **options: Any) -> ModelResponse:
    """Return the model's answer if a server sends a completion as a whole or in a stream."""

    async def serve(exchange: Exchange) -> None:
        if not stream:
            await exchange.json(value)
            return
        choice = value["choices"][0]
        message = {name: part for name, part in choice["message"].items() if name != "role"}
        calls = [{**call, "index": index} for index, call in enumerate(message.pop("tool_calls", ()))]
        delta = {**message, "tool_calls": calls} if calls else message
        await exchange.events([chunk(**delta), chunk(finish=choice["finish_reason"]), usage_chunk()])

    async with serving(client, serve) as server:
        return await ask(make_model(client, server), question(on_text=(lambda _: None) if stream else None, **options))


# Sent arguments and the SDKs


async def answer_any(exchange: Exchange) -> None:
    """Answer any request."""
    written = json.dumps(exchange.body)
    if exchange.body.get("stream"):
        await exchange.events([chunk("Rents rise."), chunk(finish="stop"), usage_chunk()])
    else:
        await exchange.json(completion(json.dumps(VERDICT) if "winner" in written else "Rents rise."))


TOOL = ToolSpec(name="look_up", description="Look up.", parameters={"type": "object", "properties": {}})


@pytest.mark.filterwarnings("ignore:The model:DeprecationWarning")
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("mode", ["json_schema", "tools", "md_json"])
@pytest.mark.parametrize("stream", [False, True])
async def test_the_installed_sdk_accepts_all_arguments(client: str, mode: str, stream: bool) -> None:  # noqa: FBT001
    settings: dict[str, Any] = {"temperature": 0.3, "max_tokens": 500, "effort": "low", "extra": {"seed": 7}}
    async with serving(client, answer_any) as server:
        model = make_model(client, server, structured=mode)
        text = question(on_text=(lambda _: None) if stream else None, **settings)
        text.tools = [TOOL]
        assert (await ask(model, text)).text == "Rents rise."
        structured = question(output=dict[str, str | None], prompt="winner", **settings)
        structured.tools = [TOOL]
        assert (await ask(model, structured)).data == VERDICT
    for body in server.bodies:
        assert (body["temperature"], body["seed"]) == (0.3, 7)
        assert "tools" in body
        assert body["max_tokens"] == 500
        assert "low" in json.dumps([body.get("reasoning_effort"), body.get("output_config")])


@pytest.mark.parametrize("client", CLIENTS)
async def test_an_unsendable_request_is_not_a_server_failure(client: str) -> None:
    """The error is raised at once, without sending a request."""
    async with serving(client, answer_any) as server:
        model = make_model(client, server)
        request = question(extra={"stop": object()})
        with pytest.raises(RequestRejected, match="was not sent: a parameter of the request cannot be encoded as JSON"):
            await ask(model, request)
    assert server.posts == 0
    assert len(request.attempts.made) == 1


@pytest.mark.skipif(find_spec("anthropic") is None, reason="anthropic is not installed")
def test_the_error_names_an_argument_unknown_to_the_sdk() -> None:
    """An incompatible SDK version must be reported as such rather than as an unreadable answer."""
    from anthropic import AsyncAnthropic

    create = AsyncAnthropic(api_key="k").messages.create
    arguments = {"model": "m", "messages": [], "max_tokens": 1}
    rejected = find_unsendable(TypeError("create() got an unexpected keyword"), create, {**arguments, "tempo": 1})
    assert rejected is not None
    assert "is incompatible with the installed SDK" in str(rejected)
    assert "'tempo'" in str(rejected)
    assert find_unsendable(TypeError("an answer of another type"), create, arguments) is None
    assert find_unsendable(OSError("gone"), create, {**arguments, "tempo": 1}) is None


# History with tools


def look_up(q: str = "rent") -> str:
    """Look up a fact."""
    return f"{q}: 12 %"


CALLED: dict[str, Any] = {
    "reasoning_content": "Let me look it up.",
    "reasoning_details": [{"type": "reasoning.encrypted", "data": "ZW5j", "index": 0}],
    "tool_calls": [
        {**tool_call("look_up", '{"q": "rent"}'), "extra_content": {"google": {"thought_signature": "c2ln"}}},
        tool_call("look_up", "", "call_b"),
    ],
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("client", OPENAI)
async def test_tool_messages_are_sent_back_unchanged(client: str, stream: bool) -> None:  # noqa: FBT001 - a case
    """Reasoning, signatures and unknown fields are sent back as well. Empty arguments become an empty object."""

    async def serve(exchange: Exchange) -> None:
        if len(exchange.body["messages"]) > 1:
            await exchange.json(completion("Rents rise."))
        elif not exchange.body.get("stream"):
            await exchange.json(completion(None, finish="tool_calls", **CALLED))
        else:
            first, second = ({**call, "index": index} for index, call in enumerate(CALLED["tool_calls"]))
            await exchange.events([
                chunk(reasoning_content="Let me "),
                chunk(reasoning_content="look it up."),
                chunk(reasoning_details=CALLED["reasoning_details"]),
                chunk(tool_calls=[{**first, "function": {"name": "look_up", "arguments": '{"q": '}}]),
                chunk(tool_calls=[{"index": 0, "function": {"arguments": '"rent"}'}}]),
                chunk(tool_calls=[second]),
                chunk(finish="tool_calls"),
            ])  # fmt: skip

    async with ChatServer({}, otherwise=serve) as server:
        block = generator(name="ann", user="How much?", tools=[look_up])
        handle = block.start("x", model=make_model(client, server))
        if stream:
            async for _ in handle:
                pass
        assert (await handle).output == "Rents rise."
    first, second = server.bodies[:2]
    assert bool(first.get("stream")) == stream
    message = second["messages"][1]
    assert {name: message[name] for name in CALLED if name != "tool_calls"} == {
        name: value for name, value in CALLED.items() if name != "tool_calls"
    }
    assert message["role"] == "assistant"
    assert message["tool_calls"][0] == CALLED["tool_calls"][0]
    assert message["tool_calls"][1]["function"] == {"name": "look_up", "arguments": "{}"}
    assert [entry["content"] for entry in second["messages"][2:]] == ["rent: 12 %"] * 2


@pytest.mark.parametrize("client", OPENAI)
async def test_tool_history_is_stored_with_the_run(client: str) -> None:
    plain = completion("", finish="tool_calls", tool_calls=[tool_call("look_up", "{}")], annotations=[], audio=None)
    request = question()
    request.tools = [ToolSpec(name="look_up", description="Look up.", parameters={"type": "object"})]
    secret = {**CALLED, "reasoning_content": "My key is secret-key-1."}

    async def serve(exchange: Exchange) -> None:
        await exchange.json(plain if server.posts == 1 else completion(None, finish="tool_calls", **secret))

    async with ChatServer({}, otherwise=serve) as server:
        model = make_model(client, server)
        assert (await ask(model, request)).history is None
        request.attempts = type(request.attempts)()
        answered = await ask(model, request)
    assert answered.history is not None
    assert "secret-key-1" not in json.dumps(answered.history)
    row = call_row(answered, (), seconds=0.0, output=None)
    stored = read_record(Answer, json_text(row)).response(None)
    assert stored.message() == answered.message()
    assert stored.message()["reasoning_details"] == CALLED["reasoning_details"]


async def test_a_server_that_rejects_extra_fields_gets_a_plain_history() -> None:
    """If a fallback takes over in the middle of a tool exchange, the history may contain another vendor's fields.

    The fallback's server may reject these fields, so they are removed.
    """

    async def serve(exchange: Exchange) -> None:
        if "reasoning_content" in json.dumps(exchange.body):
            await exchange.json({"error": {"message": "Extra inputs are not permitted"}}, status=422)
        else:
            await exchange.json(completion("Rents rise."))

    async with ChatServer({}, otherwise=serve) as server:
        request = question()
        request.messages = [
            *request.messages,
            {"role": "assistant", "content": None, **CALLED},
            {"role": "tool", "tool_call_id": "call_a", "content": "12 %"},
            {"role": "tool", "tool_call_id": "call_b", "content": "12 %"},
        ]
        assert (await ask(make_model("aiohttp", server), request)).text == "Rents rise."
    assert server.bodies[-1]["messages"][2]["tool_calls"][0].keys() == {"id", "type", "function"}


# Truncated prompts

LONG = "It was counted: commuting costs an hour a day. " * 1_000


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("client", OPENAI)
async def test_a_truncated_prompt_is_detected(client: str, stream: bool) -> None:  # noqa: FBT001 - a case
    """A call is flagged if the server reports far fewer tokens than were sent.

    A warning is emitted only for the first such call.
    """
    few = {**completion("Rents rise."), "usage": {"prompt_tokens": 2_050, "completion_tokens": 20}}

    async def serve(exchange: Exchange) -> None:
        if exchange.body.get("stream"):
            await exchange.events(
                [chunk("Rents rise."), chunk(finish="stop"), {**usage_chunk(), "usage": few["usage"]}]
            )
        else:
            await exchange.json(few)

    async with ChatServer({}, otherwise=serve) as server:
        listen = (lambda _: None) if stream else None
        with pytest.warns(FlowDebateWarning, match="far fewer tokens"):
            answered = await ask(make_model(client, server), question(prompt=LONG, on_text=listen))
        assert answered.flags[-1] == "prompt_cut"
        # another warning would raise an error
        answered = await ask(make_model(client, server), question(prompt=LONG, on_text=listen))
        assert answered.flags[-1] == "prompt_cut"
        assert "prompt_cut" not in (await ask(make_model(client, server), question(on_text=listen))).flags


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": 10_100, "completion_tokens": 3},
        {"prompt_tokens": 6_200, "completion_tokens": 3},
        {"prompt_tokens": 40, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 10_000}},
        {"completion_tokens": 3},
    ],
    ids=["as many", "a tokenizer of long words", "cached, and counted apart", "unknown"],
)
async def test_a_complete_prompt_is_not_reported_as_truncated(usage: Any) -> None:
    """Token estimates are rough, and some servers count cached tokens differently.

    A low token count is therefore not always a sign of truncation.
    """
    answered = await ask_model("aiohttp", {**completion(), "usage": usage}, prompt=LONG)
    assert "prompt_cut" not in answered.flags


async def test_the_result_reports_a_truncated_prompt() -> None:
    async def serve(exchange: Exchange) -> None:
        verdict = "winner" in json.dumps(exchange.body.get("response_format", ""))
        body = completion(json.dumps(VERDICT) if verdict else LONG[:30_000])
        await exchange.json({**body, "usage": {"prompt_tokens": 2_050, "completion_tokens": 20}})

    async with ChatServer({}, otherwise=serve) as server:
        sides = [Debater("anna", "for"), Debater("ben", "against")]
        block = debate(name="rent", debaters=sides, max_rounds=1, synthesizer=False)
        with pytest.warns(FlowDebateWarning, match="far fewer tokens"):
            result = await block.run(QUESTION, model=make_model("aiohttp", server))
    warning = (
        "m answered 2 calls after a prompt that the server probably truncated: "
        "it counted far fewer tokens than were sent"
    )
    assert warning in result.remarks


# Thinking next to the answer


@pytest.mark.parametrize("client", OPENAI)
async def test_thinking_in_a_separate_field_is_counted(client: str) -> None:
    thought = "I doubt it. " * 100
    for stream in (False, True):
        answered = await ask_model(client, completion("Rents rise.", reasoning_content=thought), stream=stream)
        assert (answered.text, answered.usage.reasoning_tokens, answered.usage.completion_tokens) == (
            "Rents rise.", 3, 3,
        )  # fmt: skip
    with pytest.raises(LostToThinking, match="raise max_tokens"):
        await ask_model(client, completion(None, reasoning_content=thought, finish="length"), max_tokens=50)


async def test_an_answer_that_stops_during_thinking_is_reported() -> None:
    """The token limit was not reached, so the error must not suggest raising it."""
    with pytest.raises(LostToThinking, match="stopped after thinking") as caught:
        await ask_model("aiohttp", completion("<think>I doubt it."))
    assert caught.value.stopped


@pytest.mark.parametrize("client", OPENAI)
async def test_an_answer_with_a_refusal_part_counts_as_a_refusal(client: str) -> None:
    with pytest.raises(Refused, match="I would rather not"):
        await ask_model(client, completion([{"type": "refusal", "refusal": "I would rather not."}]))
