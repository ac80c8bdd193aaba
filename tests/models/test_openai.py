"""Requests and responses of `OpenAIModel`, using the real openai client against a real server."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from flowdebate.errors import (
    BadAnswer,
    ConfigurationError,
    EmptyResponse,
    MalformedResponse,
    OutputTruncated,
    ProviderFailed,
    RateLimited,
    Refused,
    RequestRejected,
    SchemaViolation,
)
from flowdebate.models import ModelRequest, ModelSettings, OpenAIModel, OutputSchema, ToolCall, ToolSpec, Usage
from flowdebate.models.call import ask
from flowdebate.models.openai.responses import instruction, logprobs_of

from .server import ChatServer, Exchange, chunk, completion, fine, tool_call, usage_chunk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flowdebate.models.providers import StructuredMode

    from .server import Handler

pytestmark = pytest.mark.anyio

MODES: list[StructuredMode] = ["json_schema", "tools", "json", "md_json"]
LOOKUP = ToolSpec(
    name="lookup", description="Look a fact up", parameters={"type": "object", "properties": {"q": {"type": "string"}}}
)
HOSTILE = "{{7*7}} {% for x in y %} \u2028 é 🙂  \n```json\n{}\n```"


class Verdict(BaseModel):
    """A judge's answer."""

    reasoning: str
    winner: Literal["for", "against"]


VERDICT = '{"reasoning": "r", "winner": "for"}'


def make_request(**options: Any) -> ModelRequest:
    """Return a request for text, or for `output`."""
    output = options.pop("output", None)
    options.setdefault("messages", [{"role": "system", "content": "Debate."}, {"role": "user", "content": HOSTILE}])
    options.setdefault("settings", ModelSettings(timeout=20))
    return ModelRequest(block="judge", output=None if output is None else OutputSchema.of(output), **options)


def reply_with(value: Any, *, status: int = 200) -> Handler:
    async def reply(exchange: Exchange) -> None:
        await exchange.json(value, status=status)

    return reply


def stream_events(*events: Any, done: bool = True) -> Handler:
    """Return a scenario that answers with the given events."""

    async def stream(exchange: Exchange) -> None:
        await exchange.events(events, done=done)

    return stream


# Text


async def test_a_text_call_sends_messages_unchanged() -> None:
    async with ChatServer() as server:
        model = OpenAIModel("gpt", base_url=server.base_url, retry=None, api_key="sk-1")
        answered = await ask(
            model, make_request(settings=ModelSettings(temperature=0.5, max_tokens=9, extra={"seed": 7}))
        )
    assert answered.text == "fine"
    assert answered.model == "served"
    assert answered.usage == Usage(calls=1, prompt_tokens=10, cached_tokens=4, completion_tokens=3)
    body = server.bodies[0]
    assert body.pop("messages")[1]["content"] == HOSTILE
    assert body == {"model": "gpt", "temperature": 0.5, "max_tokens": 9, "seed": 7}
    assert server.headers[0]["authorization"] == "Bearer sk-1"
    assert server.headers[0]["accept-encoding"] == "identity"
    assert server.paths == ["/v1/chat/completions"]


async def test_model_settings_are_defaults_for_requests() -> None:
    async with ChatServer() as server:
        settings = ModelSettings(temperature=0.1, max_tokens=5, extra={"seed": 1, "top_p": 0.9})
        model = OpenAIModel("gpt", base_url=server.base_url, retry=None, settings=settings)
        await ask(model, make_request(settings=ModelSettings(max_tokens=7, extra={"seed": 2})))
    body = server.bodies[0]
    assert (body["temperature"], body["max_tokens"], body["seed"], body["top_p"]) == (0.1, 7, 2, 0.9)


async def test_text_is_streamed_to_a_listener() -> None:
    events = [chunk("Tr"), chunk("ams\x00 \ud83d"), {**chunk(), "choices": []}, chunk("\ude42"), chunk(finish="stop")]
    pieces: list[str] = []
    async with ChatServer({"s": stream_events(*events, usage_chunk())}) as server:
        answered = await ask(
            OpenAIModel("s", base_url=server.base_url, retry=None), make_request(on_text=pieces.append)
        )
    assert server.bodies[0]["stream_options"] == {"include_usage": True}
    assert pieces == ["Tr", "ams \ufffd", "\ufffd"]
    assert answered.text == "Trams 🙂"
    assert answered.usage == Usage(calls=1, prompt_tokens=10, cached_tokens=4, completion_tokens=3)


async def test_a_stream_can_be_split_anywhere() -> None:
    """Multi-byte characters and line separators are preserved even if each chunk is a single byte."""
    text = "é🙂\u2028x"

    async def drip(exchange: Exchange) -> None:
        await exchange.begin_events()
        for event in (chunk(text), chunk(finish="stop")):
            for byte in f"data: {json.dumps(event, ensure_ascii=False)}\n\n".encode():
                await exchange.raw(bytes([byte]))
        exchange.close = True

    async with ChatServer({"drip": drip}) as server:
        answered = await ask(
            OpenAIModel("drip", base_url=server.base_url, retry=None), make_request(on_text=lambda _: None)
        )
    assert answered.text == text
    assert answered.usage == Usage.unknown()


async def test_an_exception_in_a_listener_propagates_and_frees_the_connection() -> None:
    """An error in a listener must not be mistaken for one from the provider."""

    def listen(_: str) -> None:
        raise ZeroDivisionError

    async def endless(exchange: Exchange) -> None:
        await exchange.begin_events()
        await exchange.event(chunk("a"))
        await exchange.until_gone()

    async with ChatServer({"endless": endless}) as server:
        with pytest.raises(ZeroDivisionError):
            await ask(OpenAIModel("endless", base_url=server.base_url, retry=None), make_request(on_text=listen))
        await server.wait_until_left()


async def test_tool_calls_are_read_completely() -> None:
    calls = [tool_call("lookup", '{"q": "x"}'), tool_call("other", "not json", "call_b")]
    async with ChatServer({"t": reply_with(completion(None, finish="tool_calls", tool_calls=calls))}) as server:
        answered = await ask(OpenAIModel("t", base_url=server.base_url, retry=None), make_request(tools=[LOOKUP]))
    assert server.bodies[0]["tools"][0]["function"]["name"] == "lookup"
    assert answered.finish == "tool_calls"
    assert answered.tool_calls == (
        ToolCall(id="call_a", name="lookup", arguments='{"q": "x"}'),
        ToolCall(id="call_b", name="other", arguments="not json"),
    )


async def test_streamed_tool_calls_are_assembled() -> None:
    def piece(index: int, **call: Any) -> Any:
        return chunk(tool_calls=[{"index": index, **call}])

    events = [
        piece(0, id="a", type="function", function={"name": "lookup", "arguments": '{"q"'}),
        piece(1, id="b", type="function", function={"name": "lookup", "arguments": "{"}),
        piece(0, function={"arguments": ': "x"}'}),
        piece(1, function={"arguments": "}"}),
        chunk(finish="tool_calls"),
    ]
    async with ChatServer({"t": stream_events(*events)}) as server:
        request = make_request(tools=[LOOKUP], on_text=lambda _: None)
        answered = await ask(OpenAIModel("t", base_url=server.base_url, retry=None), request)
    assert answered.tool_calls == (
        ToolCall(id="a", name="lookup", arguments='{"q": "x"}'),
        ToolCall(id="b", name="lookup", arguments="{}"),
    )


async def test_tool_exchange_messages_are_passed_on() -> None:
    call = tool_call("lookup", "{}")
    messages = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_a", "content": "42"},
    ]
    reply = reply_with(completion(VERDICT, tool_calls=[]))
    async with ChatServer(dict.fromkeys(["m", *MODES], reply)) as server:
        await ask(OpenAIModel("m", base_url=server.base_url, retry=None), make_request(messages=messages))
        await ask(
            OpenAIModel("json_schema", base_url=server.base_url, retry=None),
            make_request(messages=messages, output=Verdict),
        )
        for mode in ("json", "md_json"):
            model = OpenAIModel(mode, base_url=server.base_url, retry=None, structured=mode)
            await ask(model, make_request(messages=messages, output=Verdict))
    assert server.bodies[0]["messages"] == messages
    assert server.bodies[1]["messages"] == messages
    for body in server.bodies[2:]:
        assert body["messages"][:-1] == messages
        assert body["messages"][-1]["role"] == "user"


@dataclass(frozen=True)
class Odd:
    """An unusual but complete answer, and the text that is read from it."""

    id: str
    body: Any
    text: str = "fine"


ODD = [
    Odd("a reason for the end in other words", completion(finish="eos")),
    Odd("an unknown reason for the end", completion(finish="sparkle")),
    Odd("a reason that is a number", completion(finish=3)),
    Odd("no reason for the end", completion(finish=None)),
    Odd("several choices", {**completion(), "choices": completion()["choices"] + completion("other")["choices"]}),
    Odd("text in parts", completion([{"type": "text", "text": "fi"}, {"type": "text", "text": "ne"}])),
    Odd("a lone surrogate", completion("a\ud800b"), "a\ufffdb"),
    Odd("no model's name", {**completion(), "model": 5}),
    Odd("an empty refusal", completion(refusal="")),
]


@pytest.mark.parametrize("case", ODD, ids=lambda case: case.id)
async def test_unusual_complete_answers_are_read(case: Odd) -> None:
    async with ChatServer({"odd": reply_with(case.body)}) as server:
        assert (await ask(OpenAIModel("odd", base_url=server.base_url, retry=None), make_request())).text == case.text


@pytest.mark.parametrize(
    "usage",
    [
        None,
        {},
        {"prompt_tokens": -1, "completion_tokens": [3], "prompt_tokens_details": {"cached_tokens": -4}},
        {"prompt_tokens": None, "completion_tokens": 1.5, "prompt_tokens_details": None},
        "lots",
    ],
    ids=["none", "empty", "nonsense", "null", "a str"],
)
async def test_missing_or_invalid_usage_is_unknown(usage: Any) -> None:
    """Unknown usage must not be counted as 0."""
    async with ChatServer({"u": reply_with({**completion(), "usage": usage})}) as server:
        assert (
            await ask(OpenAIModel("u", base_url=server.base_url, retry=None), make_request())
        ).usage == Usage.unknown()


async def test_truncated_text_is_flagged() -> None:
    """Only the caller can decide whether partial text is useful."""
    async with ChatServer({"l": reply_with(completion("half", finish="length"))}) as server:
        answered = await ask(OpenAIModel("l", base_url=server.base_url, retry=None), make_request())
    assert (answered.text, answered.finish) == ("half", "length")


@dataclass(frozen=True)
class Bad:
    """An unusable answer, with the expected error."""

    id: str
    body: Any
    error: type[Exception]
    message: str = ""


BAD = [
    Bad("null", None, MalformedResponse, "no choices"),
    Bad("a list", [], MalformedResponse),
    Bad("an empty object", {}, MalformedResponse),
    Bad("a str", "x", MalformedResponse),
    Bad("no choices", {**completion(), "choices": []}, MalformedResponse, "no choices"),
    Bad("choices that are text", {**completion(), "choices": "x"}, MalformedResponse),
    Bad("a choice that is null", {**completion(), "choices": [None]}, MalformedResponse, "no message"),
    Bad("no message", {**completion(), "choices": [{"index": 0, "message": None}]}, MalformedResponse, "no message"),
    Bad("content that is a number", completion(5), MalformedResponse, "must be text, got 5"),
    Bad("content in unknown parts", completion([{"type": "image"}]), MalformedResponse),
    Bad("tool calls that are text", completion("x", tool_calls="f()"), MalformedResponse),
    Bad("a tool's name that is a number", completion("x", tool_calls=[tool_call(5, "{}")]), MalformedResponse),  # type: ignore[arg-type]
    Bad("no content", completion(None), EmptyResponse),
    Bad("blank content", completion(" \u200b\n"), EmptyResponse),
    Bad("a refusal", completion(None, refusal="I would rather not"), Refused, "I would rather not"),
    Bad("a content filter", completion("", finish="content_filter"), Refused, "content filter"),
    Bad("an error while answering", completion(finish="error"), ProviderFailed),
    Bad("an error inside a 200", {"error": {"message": "slow down", "code": 429}}, RateLimited, "slow down"),
    Bad("an error without a code inside a 200", {"error": {"message": "oops"}}, ProviderFailed, "oops"),
]


@pytest.mark.parametrize("case", BAD, ids=lambda case: case.id)
async def test_an_unusable_answer_raises_a_specific_error(case: Bad) -> None:
    async with ChatServer({"bad": reply_with(case.body)}) as server:
        with pytest.raises(case.error) as caught:
            await ask(OpenAIModel("bad", base_url=server.base_url, retry=None), make_request())
    assert case.message in str(caught.value)
    assert server.posts == 1


BAD_STREAMS = [
    Bad("nothing but the end", [], MalformedResponse),
    Bad("a content filter", [chunk("ha"), chunk(finish="content_filter")], Refused),
    Bad("a refusal", [chunk(refusal="I will "), chunk(refusal="not"), chunk(finish="stop")], Refused, "I will not"),
    Bad("an error event", [chunk("ha"), {"error": {"message": "overloaded", "code": 503}}], ProviderFailed, "503"),
    Bad("choices that are text", [{**chunk(), "choices": "x"}], MalformedResponse),
    Bad("blank", [chunk(" "), chunk(finish="stop")], EmptyResponse),
]


@pytest.mark.parametrize("case", BAD_STREAMS, ids=lambda case: case.id)
async def test_an_unusable_stream_raises_a_specific_error(case: Bad) -> None:
    """Partial text never counts as an answer."""
    async with ChatServer({"bad": stream_events(*case.body)}) as server:
        with pytest.raises(case.error) as caught:
            await ask(OpenAIModel("bad", base_url=server.base_url, retry=None), make_request(on_text=lambda _: None))
        await server.wait_until_left()
    assert case.message in str(caught.value)


async def test_a_complete_answer_is_accepted_in_place_of_a_stream() -> None:
    pieces: list[str] = []
    async with ChatServer({"w": reply_with(completion())}) as server:
        answered = await ask(
            OpenAIModel("w", base_url=server.base_url, retry=None), make_request(on_text=pieces.append)
        )
    assert (answered.text, pieces) == ("fine", ["fine"])
    assert answered.usage.prompt_tokens == 10


async def test_a_web_page_is_not_a_stream() -> None:
    """A web page counts as a malformed response, not as an empty answer."""

    async def page(exchange: Exchange) -> None:
        await exchange.answer(json.dumps(completion()).encode(), kind="text/html")

    async with ChatServer({"w": page}) as server:
        with pytest.raises(MalformedResponse, match="base_url"):
            await ask(OpenAIModel("w", base_url=server.base_url, retry=None), make_request(on_text=lambda _: None))


# Structured answers


@pytest.fixture(params=[True, False], ids=["instructor's words", "ours"])
def has_instructor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[bool]:
    """Make instructor available or unavailable, and return whether it is available."""
    if request.param:
        pytest.importorskip("instructor")
    else:
        monkeypatch.setitem(sys.modules, "instructor", None)
    instruction.cache_clear()
    yield request.param
    instruction.cache_clear()


def structured_reply(mode: StructuredMode, text: str = VERDICT, **options: Any) -> Any:
    """Return a completion in the format of `mode`."""
    if mode == "tools":
        return completion(None, finish=options.get("finish", "tool_calls"), tool_calls=[tool_call("Verdict", text)])
    return completion(f"Here:\n```json\n{text}\n```" if mode == "md_json" else text, **options)


@pytest.mark.parametrize("mode", MODES)
async def test_a_structured_answer_becomes_an_application_object(mode: StructuredMode, *, has_instructor: bool) -> None:
    async with ChatServer({"v": reply_with(structured_reply(mode))}) as server:
        model = OpenAIModel("v", base_url=server.base_url, retry=None, structured=mode)
        answered = await ask(model, make_request(output=Verdict))
    assert answered.data == Verdict(reasoning="r", winner="for")
    assert type(answered.data) is Verdict
    assert answered.tool_calls == ()
    assert answered.usage.prompt_tokens == 10
    body = server.bodies[0]
    assert server.posts == 1
    assert HOSTILE in body["messages"][1]["content"]
    if mode == "json_schema":
        assert body["response_format"]["json_schema"]["schema"] == Verdict.model_json_schema()
        assert body["messages"][1]["content"] == HOSTILE
    if mode in ("json", "md_json"):
        prompt = body["messages"][1]["content"].removeprefix(HOSTILE)
        assert "JSON" in prompt
        assert '"winner"' in prompt
        assert ("genius" in prompt) is has_instructor
        assert ("```json" in prompt) is (mode == "md_json")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("output", "text", "expected"),
    [
        (list[int], '{"value": [1, 2]}', [1, 2]),
        ({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}, '{"n": 1}', {"n": 1}),
    ],
    ids=["a list", "a JSON Schema"],
)
async def test_any_output_schema_works_in_every_mode(
    mode: StructuredMode, output: Any, text: str, expected: Any, *, has_instructor: bool
) -> None:
    """Python types and JSON Schemas are supported in the same way as pydantic models."""
    name = OutputSchema.of(output).name
    reply = completion(None, finish="tool_calls", tool_calls=[tool_call(name, text)]) if mode == "tools" else None
    async with ChatServer({"v": reply_with(reply or structured_reply(mode, text))}) as server:
        answered = await ask(
            OpenAIModel("v", base_url=server.base_url, retry=None, structured=mode), make_request(output=output)
        )
    assert answered.data == expected


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("text", "field"),
    [('{"reasoning": "r"}', "winner"), ('{"reasoning": "r", "winner": "both"}', "winner"), ("no JSON at all", "")],
    ids=["a field is missing", "not in the enum", "no JSON"],
)
async def test_an_invalid_answer_is_not_requested_again_and_its_error_names_the_field(
    mode: StructuredMode, text: str, field: str, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """`SchemaViolation` is raised after a single request. No part of the answer is logged or printed."""
    async with ChatServer({"v": reply_with(structured_reply(mode, text))}) as server:
        with pytest.raises(SchemaViolation) as caught:
            await ask(
                OpenAIModel("v", base_url=server.base_url, retry=None, structured=mode), make_request(output=Verdict)
            )
    assert server.posts == 1
    assert caught.value.problems[0][0] == field
    assert (caught.value.model, caught.value.block) == ("v", "judge")
    assert caught.value.__cause__ is None
    assert [record for record in caplog.records if not record.name.startswith("asyncio")] == []
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("mode", MODES)
async def test_a_truncated_structured_answer_raises_an_error(mode: StructuredMode) -> None:
    async with ChatServer({"v": reply_with(structured_reply(mode, '{"reas', finish="length"))}) as server:
        with pytest.raises(OutputTruncated, match="max_tokens"):
            await OpenAIModel("v", base_url=server.base_url, retry=None, structured=mode).request(
                make_request(output=Verdict)
            )


@pytest.mark.parametrize("mode", MODES)
async def test_a_refused_structured_answer_is_reported_as_a_refusal(mode: StructuredMode) -> None:
    async with ChatServer({"v": reply_with(completion(None, refusal="no"))}) as server:
        with pytest.raises(Refused):
            await ask(
                OpenAIModel("v", base_url=server.base_url, retry=None, structured=mode), make_request(output=Verdict)
            )


@pytest.mark.parametrize("mode", MODES)
async def test_tools_and_a_schema_are_sent_together(mode: StructuredMode) -> None:
    """The model may have to look something up before it can give a structured answer."""
    reply = completion(None, finish="tool_calls", tool_calls=[tool_call("lookup", "{}")])
    async with ChatServer({"v": reply_with(reply)}) as server:
        model = OpenAIModel("v", base_url=server.base_url, retry=None, structured=mode)
        answered = await ask(model, make_request(output=Verdict, tools=[LOOKUP]))
    assert [call.name for call in answered.tool_calls] == ["lookup"]
    assert answered.data is None
    assert server.bodies[0]["tools"][0]["function"]["name"] == "lookup"
    assert "response_format" in server.bodies[0] or mode in ("tools", "md_json")


async def test_tool_calls_precede_an_answer_in_tools_mode() -> None:
    """An answer that arrives together with tool calls was written before the model saw the results."""
    calls = [tool_call("Verdict", VERDICT), tool_call("lookup", "{}", "b")]
    async with ChatServer({"v": reply_with(completion(None, finish="tool_calls", tool_calls=calls))}) as server:
        model = OpenAIModel("v", base_url=server.base_url, retry=None, structured="tools")
        answered = await ask(model, make_request(output=Verdict, tools=[LOOKUP]))
    assert [call.name for call in answered.tool_calls] == ["lookup"]


async def test_json_in_the_text_is_accepted_in_tools_mode() -> None:
    """A server that does not enforce the tool call may return the answer as text."""
    async with ChatServer({"v": reply_with(completion(VERDICT))}) as server:
        answered = await ask(
            OpenAIModel("v", base_url=server.base_url, retry=None, structured="tools"), make_request(output=Verdict)
        )
    assert answered.data == Verdict(reasoning="r", winner="for")


async def test_two_answers_are_ambiguous_in_tools_mode() -> None:
    calls = [tool_call("Verdict", VERDICT), tool_call("Verdict", VERDICT.replace("for", "against"), "b")]
    async with ChatServer({"v": reply_with(completion(None, finish="tool_calls", tool_calls=calls))}) as server:
        with pytest.raises(SchemaViolation, match="2 answers"):
            await ask(
                OpenAIModel("v", base_url=server.base_url, retry=None, structured="tools"), make_request(output=Verdict)
            )


async def test_a_call_to_an_unknown_tool_is_not_an_answer_in_tools_mode() -> None:
    calls = [tool_call("lookup", VERDICT)]
    async with ChatServer({"v": reply_with(completion(None, finish="tool_calls", tool_calls=calls))}) as server:
        model = OpenAIModel("v", base_url=server.base_url, retry=None, structured="tools")
        with pytest.raises(SchemaViolation, match="none was offered"):
            await ask(model, make_request(output=Verdict))


async def test_tools_are_offered_first_if_they_exclude_a_schema() -> None:
    """If the model calls no tool, a second request is made with the schema. The usage includes both requests."""

    async def separate(exchange: Exchange) -> None:
        await exchange.json(completion("thinking" if "tools" in exchange.body else VERDICT))

    async with ChatServer({"v": separate}) as server:
        model = OpenAIModel("v", base_url=server.base_url, retry=None, tools_with_schema=False)
        answered = await ask(model, make_request(output=Verdict, tools=[LOOKUP]))
    assert answered.data == Verdict(reasoning="r", winner="for")
    assert answered.usage == Usage(calls=2, prompt_tokens=20, cached_tokens=8, completion_tokens=6)
    assert ["tools" in body for body in server.bodies] == [True, False]
    assert ["response_format" in body for body in server.bodies] == [False, True]


async def test_a_tool_call_ends_the_request_if_tools_exclude_a_schema() -> None:
    """The schema is sent only after the tools have returned their results."""
    reply = completion(None, finish="tool_calls", tool_calls=[tool_call("lookup", "{}")])
    async with ChatServer({"v": reply_with(reply)}) as server:
        model = OpenAIModel("v", base_url=server.base_url, retry=None, tools_with_schema=False)
        answered = await ask(model, make_request(output=Verdict, tools=[LOOKUP]))
    assert [call.name for call in answered.tool_calls] == ["lookup"]
    assert answered.usage.calls == server.posts == 1


@pytest.mark.parametrize("case", [case for case in BAD if case.error is MalformedResponse], ids=lambda case: case.id)
@pytest.mark.parametrize("mode", MODES)
async def test_malformed_answers_to_structured_requests_are_reported_as_such(mode: StructuredMode, case: Bad) -> None:
    """A malformed answer must never raise an exception from another library."""
    async with ChatServer({"bad": reply_with(case.body)}) as server:
        with pytest.raises(BadAnswer):
            await ask(
                OpenAIModel("bad", base_url=server.base_url, retry=None, structured=mode), make_request(output=Verdict)
            )


RECORDED = {
    "token": "A",
    "logprob": -0.62,
    "bytes": [65],
    "top_logprobs": [
        {"token": "A", "logprob": -0.62, "bytes": [65]},
        {"token": " A", "logprob": -2.5, "bytes": [32, 65]},
        {"token": "B", "logprob": -1.5, "bytes": [66]},
        {"token": "The", "logprob": -3.0, "bytes": [84, 104, 101]},
        {"token": "b", "logprob": -4.0, "bytes": [98]},
        {"token": "**", "logprob": -9999.0, "bytes": [42, 42]},
    ],
}
"""Log-probabilities of an answer in the format used by OpenAI's server."""


def choice_completion(logprobs: Any, text: str = "A") -> dict[str, Any]:
    """Return a completion that consists of one token with its log-probabilities."""
    answer = completion(text, finish="length")
    answer["choices"][0]["logprobs"] = logprobs
    return answer


async def test_each_choice_gets_a_log_probability() -> None:
    """The probabilities of a choice's different spellings are added together.

    If a choice is not reported, an upper bound for it is derived from the reported tokens.
    """
    reply = reply_with(choice_completion({"content": [RECORDED], "refusal": None}))
    async with ChatServer({"gpt": reply}) as server:
        model = OpenAIModel("gpt", base_url=server.base_url, retry=None)
        settings = ModelSettings(temperature=0.9, max_tokens=500, timeout=20)
        answered = await ask(model, make_request(choices=("A", "B", "C"), settings=settings))
    logprobs = answered.logprobs or {}
    assert logprobs["A"] == pytest.approx(math.log(math.exp(-0.62) + math.exp(-2.5)), abs=1e-12)
    assert logprobs["B"] == pytest.approx(math.log(math.exp(-1.5) + math.exp(-4.0)), abs=1e-12)
    assert logprobs["C"] == -4.0
    assert (answered.text, answered.finish, answered.usage.completion_tokens) == ("A", "stop", 3)
    body = server.bodies[0]
    assert body.pop("messages")[1]["content"] == HOSTILE
    assert body == {"model": "gpt", "temperature": 0, "max_tokens": 1, "logprobs": True, "top_logprobs": 20}


@given(st.lists(st.floats(0.001, 1), min_size=1, max_size=20), st.integers(0, 20))
def test_unreported_choices_are_bounded_by_the_remaining_probability(weights: list[float], unlisted: int) -> None:
    """The bound is no higher than the lowest reported probability.

    It is also no higher than the probability that remains after all reported ones are subtracted from 1.
    """
    from openai.types.chat import ChatCompletion

    total = sum(weights) + unlisted / 100
    tokens: list[dict[str, Any]] = [
        {"token": f"t{at}", "logprob": math.log(weight / total)} for at, weight in enumerate(weights)
    ]
    first = {**tokens[0], "top_logprobs": tokens}
    logprobs = logprobs_of(ChatCompletion.construct(**choice_completion({"content": [first]})), ("A", "t0"))
    assert logprobs is not None
    assert logprobs["t0"] == pytest.approx(min(math.log(weights[0] / total), 0), abs=1e-9)
    minimum = min(token["logprob"] for token in tokens)
    assert logprobs["A"] <= min(minimum, math.log(max(unlisted / 100 / total, 1e-9))) + 1e-6


@pytest.mark.parametrize(
    "logprobs",
    [
        None,
        {},
        {"content": None},
        {"content": []},
        {"content": [{}]},
        {"content": [{"token": 7, "logprob": -1.0}]},
        {"content": [{"token": "A", "logprob": "NaN", "top_logprobs": [None]}]},
    ],
    ids=str,
)
async def test_placeholder_log_probabilities_are_ignored(logprobs: Any) -> None:
    async with ChatServer({"gpt": reply_with(choice_completion(logprobs))}) as server:
        model = OpenAIModel("gpt", base_url=server.base_url, retry=None)
        answered = await ask(model, make_request(choices=("A", "B")))
    assert answered.logprobs is None


async def test_rejected_log_probabilities_are_omitted() -> None:
    """OpenAI rejects log-probabilities for reasoning models, with error messages that vary.

    After a rejection, log-probabilities are not requested again.
    """
    refusal = {"error": {"message": "Quux is not for you.", "code": None}}

    async def answer(exchange: Any) -> None:
        if "logprobs" in exchange.body:
            await exchange.json(refusal, status=400)
        else:
            await fine(exchange)

    async with ChatServer({"gpt": answer}) as server:
        model = OpenAIModel("gpt", base_url=server.base_url, retry=None)
        for _ in range(2):
            assert (await ask(model, make_request(choices=("A", "B")))).logprobs is None
    assert ["logprobs" in body for body in server.bodies] == [True, False]


async def test_an_unrelated_refusal_is_raised() -> None:
    refusal = {"error": {"message": "The messages are invalid.", "code": None}}
    async with ChatServer({"fails": reply_with(refusal, status=400)}) as server:
        with pytest.raises(RequestRejected, match="messages are invalid"):
            await ask(OpenAIModel("fails", base_url=server.base_url, retry=None), make_request(choices=("A", "B")))


@pytest.mark.parametrize("transport", ["aiohttp", "openai"])
async def test_url_credentials_become_basic_authentication(transport: Any) -> None:
    """As in httpx, the user name and password in a URL take precedence over an API key, and escapes are decoded."""
    async with ChatServer() as server:
        address = server.base_url.replace("127.0.0.1", "me:p%40ss@127.0.0.1")
        model = OpenAIModel("m", base_url=address, api_key="sk-1", transport=transport)
        assert (await ask(model, make_request())).text == "fine"
    assert server.headers[0]["authorization"] == "Basic bWU6cEBzcw=="
    assert server.paths == ["/v1/chat/completions"]


@pytest.mark.parametrize("transport", ["aiohttp", "openai"])
async def test_a_url_query_is_sent_with_each_request(transport: Any) -> None:
    """The base URL's query is appended to the path unchanged."""
    async with ChatServer() as server:
        address = f"{server.base_url}/?api-version=2024-10-21&tag=a%20b&tag=c"
        model = OpenAIModel("m", base_url=address, transport=transport)
        for _ in range(2):
            assert (await ask(model, make_request())).text == "fine"
    assert len(server.paths) == 2
    for path in server.paths:
        before, _, query = path.partition("?")
        assert before == "/v1/chat/completions"
        assert parse_qsl(query) == [("api-version", "2024-10-21"), ("tag", "a b"), ("tag", "c")]


@pytest.mark.parametrize("name", ["Authorization", "authorization"])
async def test_an_authorization_header_overrides_key_and_password(name: str) -> None:
    async with ChatServer() as server:
        address = server.base_url.replace("127.0.0.1", "me:pass@127.0.0.1")
        model = OpenAIModel("m", base_url=address, api_key="sk-1", default_headers={name: "Bearer mine"})
        await ask(model, make_request())
    assert server.headers[0]["authorization"] == "Bearer mine"


# Construction


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"name": " "}, "name"),
        ({"name": 5}, "name"),
        ({"name": "m", "base_url": "localhost:8080"}, "base_url"),
        ({"name": "m", "structured": "xml"}, "structured"),
    ],
)
def test_invalid_model_options_are_rejected_at_construction(options: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        OpenAIModel(options.pop("name"), **options)
    assert caught.value.field == field
