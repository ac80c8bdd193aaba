"""How answers end and what they contain, in the formats of many vendors, over real HTTP."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import AnthropicModel, OpenAIModel
from flowdebate.errors import (
    ContentFiltered,
    EmptyResponse,
    MalformedResponse,
    ModelError,
    OutputTruncated,
    ProviderFailed,
)
from flowdebate.models.call import ask
from flowdebate.models.endings import ending_of
from tests.cases import slow_but_first
from tests.faults.as_messages import MessagesExchange
from tests.faults.fault import Verdict

from .server import ChatServer, Exchange, chunk, completion, usage_chunk
from .test_refusals import answer_well, make_request, run_debate

if TYPE_CHECKING:
    from flowdebate.models import Model, ModelResponse

pytestmark = pytest.mark.anyio

TEXT = "It was counted: commuting costs an hour a day."
CLIENTS = ["aiohttp", "openai", "anthropic"]

WORDS = {
    "stop": (
        "stop STOP end_turn stop_sequence eos eos_token COMPLETE endoftext end_of_text eosFound stopStringFound "
        "REASON_STOP ALTERNATIVE_STATUS_FINAL FinishReason.STOP stop_token completed STOP_REASON_END_TURN"
    ),
    "length": (
        "length MAX_TOKENS model_length max_output_tokens maxPredictedTokensReached contextLengthReached "
        "REASON_MAX_LEN limit ERROR_LIMIT TIME_LIMIT model_context_window_exceeded maximum_tokens truncated "
        "ALTERNATIVE_STATUS_TRUNCATED_FINAL FINISH_REASON_MAX_TOKENS max_new_tokens NOT_FINISHED timeout"
    ),
    "filtered": (
        "content_filter SAFETY RECITATION BLOCKLIST PROHIBITED_CONTENT SPII IMAGE_SAFETY MODEL_ARMOR "
        "guardrail_intervened content_filtered refusal sensitive blacklist ERROR_TOXIC moderation "
        "ALTERNATIVE_STATUS_CONTENT_FILTER content_policy_violation flagged"
    ),
    "failed": "error abort CANCELLED USER_CANCEL network_error insufficient_system_resource modelUnloaded rate_limit",
    "tool_calls": "tool_calls function_call tool_use TOOL_CALL toolCalls",
    "missing": "null FINISH_REASON_UNSPECIFIED none",
    "unknown": "OTHER LANGUAGE pause_turn sparkle malformed_function_call",
}


@pytest.mark.parametrize(("ending", "reason"), [(name, word) for name in WORDS for word in WORDS[name].split()])
def test_finish_reasons_from_all_vendors_are_read(ending: str, reason: str) -> None:
    """Finish reasons are matched regardless of case."""
    assert ending_of(reason) == ending
    if reason == reason.lower():
        assert ending_of(reason.upper()) == ending


@given(st.one_of(st.none(), st.text(), st.integers(), st.dictionaries(st.text(), st.text())))
def test_any_finish_reason_is_handled(reason: object) -> None:
    assert ending_of(reason) in {*WORDS}


def make_model(client: Any, server: ChatServer, **options: Any) -> Model:
    """Return a model that calls `server` and uses one of the clients."""
    options = {"base_url": server.base_url, "api_key": "k", "retry": None, **options}
    if client == "anthropic":
        return AnthropicModel("claude-haiku-5-5", **options)
    return OpenAIModel("m", transport=client, **options)


def serve_answer(client: str, answer: Any) -> ChatServer:
    """Return a server that answers every request with `answer`."""
    return ChatServer({}, otherwise=answer, exchange=MessagesExchange if client == "anthropic" else Exchange)


async def ask_server(
    client: str, *, body: Any = None, stream: Any = None, structured: bool = False, room: int | None = None
) -> ModelResponse:
    """Return the model's answer; the server sends `body`, or the events in `stream` if a stream is requested."""

    async def answer(exchange: Exchange) -> None:
        if exchange.body.get("stream"):
            await exchange.events(stream)
        else:
            await exchange.json(body)

    async with serve_answer(client, answer) as server:
        listen: Any = None if stream is None else [].append
        output = Verdict if structured else None
        return await ask(make_model(client, server), make_request(on_text=listen, output=output, max_tokens=room))


def text_ending_for(reason: Any, text: str = TEXT, **more: Any) -> dict[str, Any]:
    """Return text that ends with the finish reason `reason`, both as a completion and as a stream."""
    return {
        "whole": completion(text, finish=reason, **more),
        "stream": [chunk(text[:9]), chunk(text[9:]), chunk(finish=reason), usage_chunk()],
    }


@pytest.mark.parametrize("client", slow_but_first(CLIENTS))
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_all_clients_agree_on_endings(client: str, *, streamed: bool) -> None:
    async def asked(reason: Any) -> ModelResponse:
        replies = text_ending_for(reason)
        return await ask_server(client, body=replies["whole"], stream=replies["stream"] if streamed else None)

    answers = {reason: await asked(reason) for reason in ("COMPLETE", "MAX_TOKENS", "sparkle", None)}
    assert {answer.text for answer in answers.values()} == {TEXT}
    assert [answer.finish for answer in answers.values()] == ["stop", "length", "stop", "stop"]
    flagged = [reason for reason, answer in answers.items() if "unknown_finish" in answer.flags]
    assert flagged == ["sparkle"]
    with pytest.raises(ContentFiltered, match="PROHIBITED_CONTENT"):
        await asked("PROHIBITED_CONTENT")
    with pytest.raises(ProviderFailed, match="insufficient_system_resource"):
        await asked("insufficient_system_resource")


@pytest.mark.parametrize("client", slow_but_first(CLIENTS))
async def test_an_answer_at_its_token_limit_is_truncated(client: str) -> None:
    """The usage reports exactly as many tokens as the limit allows. Complete JSON is never considered truncated."""
    for reason in ("sparkle", None):
        answered = await ask_server(client, body=text_ending_for(reason)["whole"], room=3)
        assert answered.finish == "length"
        assert (await ask_server(client, body=text_ending_for(reason)["whole"], room=4)).finish == "stop"
    with pytest.raises(OutputTruncated):
        await ask_server(client, body=completion('{"reasoning": "half', finish="maxTokens"), structured=True)


@pytest.mark.parametrize("client", slow_but_first(CLIENTS))
async def test_a_stream_without_a_finish_reason_is_truncated(client: str) -> None:
    """The same text would count as a complete answer if the server had ended the stream properly."""

    async def answer(exchange: Exchange) -> None:
        await exchange.events([chunk("It was "), chunk("coun")], done=False)

    async with serve_answer(client, answer) as server:
        with pytest.raises(OutputTruncated, match="broke off"):
            await ask(make_model(client, server), make_request(on_text=[].append))


async def test_a_routers_native_reason_is_used_as_a_fallback() -> None:
    """A router such as OpenRouter may report its reason as an object instead of a string."""
    body = text_ending_for("unknown")["whole"]
    body["choices"][0]["native_finish_reason"] = "MAX_TOKENS"
    assert (await ask_server("aiohttp", body=body)).finish == "length"
    body["choices"][0] |= {"native_finish_reason": "sparkle", "finish_reason": {"type": "length", "length": 40}}
    assert (await ask_server("aiohttp", body=body)).finish == "length"


async def test_a_result_mentions_an_unknown_finish_reason() -> None:
    async def answer(exchange: Exchange) -> None:
        if exchange.body.get("stream"):
            await exchange.events(text_ending_for("sparkle")["stream"])
        else:
            await answer_well(exchange)

    async with ChatServer({}, otherwise=answer) as server:
        result = await run_debate(make_model("aiohttp", server))
    assert [entry.text for entry in result.output.transcript] == [TEXT] * 2
    assert result.remarks[:1] == ("m answered 2 calls with an unknown finish reason, so the answer may be incomplete",)


@pytest.mark.parametrize("reason", ["length", "MAX_TOKENS", "model_length", "contextLengthReached"])
async def test_a_truncated_argument_is_marked_for_the_judge(reason: str) -> None:
    """The transcript flags the argument, and the judge's prompt says that it was cut off."""

    async def answer(exchange: Exchange) -> None:
        if exchange.body.get("stream"):
            await exchange.events(text_ending_for(reason)["stream"])
        else:
            await answer_well(exchange)

    async with ChatServer({}, otherwise=answer) as server:
        result = await run_debate(make_model("aiohttp", server))
    assert [entry.flag for entry in result.output.transcript] == ["cut_off"] * 2
    assert "cut off" in json.dumps(server.bodies[-1]["messages"])


# Content in parts and in other fields

PARTS = {
    "text and output_text": ([{"type": "text", "text": TEXT[:9]}, {"type": "output_text", "text": TEXT[9:]}], 0),
    "thinking beside it": ([{"type": "thinking", "thinking": [{"text": "I doubt it."}]}, {"text": TEXT}], 11),
    "reasoning beside it": ([{"type": "reasoning", "text": "I doubt it."}, {"type": "TEXT", "text": TEXT}], 11),
    "a thought by its mark": ([{"text": "I doubt it.", "thought": True}, {"text": TEXT}], 11),
    "unknown parts beside it": ([{"type": "citation", "url": "x"}, {"type": "text", "text": TEXT}], 0),
    "strings": ([TEXT[:9], TEXT[9:]], 0),
    "one part": ({"type": "text", "text": TEXT}, 0),
    "a text in an object": ([{"type": "text", "text": {"value": TEXT, "annotations": []}}], 0),
}


@pytest.mark.parametrize("transport", slow_but_first(["aiohttp", "openai"]))
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("content", "thought"), PARTS.values(), ids=PARTS)
async def test_text_parts_are_joined_and_thinking_is_counted(
    content: Any, thought: int, transport: Any, *, streamed: bool
) -> None:
    """Parts of any other kind are ignored, provided that there is some text."""
    pieces = content if isinstance(content, list) else [content]
    stream = [chunk(content=[piece]) for piece in pieces] + [chunk(finish="stop"), usage_chunk()]
    answered = await ask_server(transport, body=completion(content), stream=stream if streamed else None)
    assert answered.text == TEXT
    assert bool(answered.usage.reasoning_tokens) == bool(thought)


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_content_without_a_known_part_is_rejected(*, streamed: bool) -> None:
    """The error names the unknown kind of content."""
    stream = [chunk(content=[{"type": "hologram", "data": "x"}]), chunk(finish="stop")]
    with pytest.raises(MalformedResponse, match="a part of type 'hologram'"):
        await ask_server("aiohttp", body=completion([{"type": "hologram"}]), stream=stream if streamed else None)


@pytest.mark.parametrize("transport", slow_but_first(["aiohttp", "openai"]))
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "thinking", "output"])
async def test_an_answer_in_another_field_is_retried_at_most_once(
    field: str, transport: Any, *, streamed: bool
) -> None:
    """The error names the field that contains the text."""

    async def answer(exchange: Exchange) -> None:
        if streamed:
            await exchange.events([chunk(**{field: TEXT[:9]}), chunk(**{field: TEXT[9:]}), chunk(finish="stop")])
        else:
            await exchange.json(completion(None, **{field: TEXT}))

    async with ChatServer({}, otherwise=answer) as server:
        model = OpenAIModel("m", base_url=server.base_url, api_key="k", transport=transport)
        with pytest.raises(EmptyResponse, match=f"'{field}'"):
            await ask(model, make_request(on_text=[].append if streamed else None))
        assert server.posts == 2


async def test_thinking_in_another_field_is_counted_but_not_answered() -> None:
    """Thinking tokens that the server does not count are estimated from the thinking's share of all characters."""
    answered = await ask_server("aiohttp", body=completion("x" * 30, reasoning="y" * 60, reasoning_content="y" * 60))
    assert (answered.text, answered.usage.reasoning_tokens) == ("x" * 30, 2)


@pytest.mark.parametrize("transport", ["aiohttp", "openai"])
@pytest.mark.parametrize(
    "comment", [": OPENROUTER PROCESSING", ":", ": keep-alive", "[ping]", "heartbeat", "PROCESSING", "<keepalive>"]
)
async def test_a_comment_sent_as_data_is_not_an_event(comment: str, transport: Any) -> None:
    """Some servers send keep-alive comments as data. The answer must still be read without a retry."""

    async def answer(exchange: Exchange) -> None:
        await exchange.begin_events()
        await exchange.raw(f"data: {comment}\n\n".encode())
        await exchange.event(chunk(TEXT))
        await exchange.raw(f"data: {comment}\n\n".encode())
        await exchange.event(chunk(finish="stop"))
        await exchange.raw(b"data: [DONE]\n\n")
        exchange.close = True

    async with ChatServer({}, otherwise=answer) as server:
        model = OpenAIModel("m", base_url=server.base_url, api_key="k", transport=transport)
        assert (await ask(model, make_request(on_text=[].append))).text == TEXT
        assert server.posts == 1


async def test_a_plain_text_error_inside_a_stream_is_not_a_comment() -> None:
    """The text that precedes the error does not count as an answer."""

    async def answer(exchange: Exchange) -> None:
        await exchange.begin_events()
        await exchange.event(chunk("It was "))
        await exchange.raw(b"data: Internal Server Error\n\ndata: [DONE]\n\n")
        exchange.close = True

    async with ChatServer({}, otherwise=answer) as server:
        with pytest.raises(ModelError):
            await ask(make_model("aiohttp", server), make_request(on_text=[].append))
