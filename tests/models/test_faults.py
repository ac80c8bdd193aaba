"""Server and network faults, and the error that each raises after a single request."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import traceback
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate.errors import (
    AuthenticationFailed,
    ConfigurationError,
    ConnectionLost,
    ContextTooLong,
    FlowDebateError,
    MalformedResponse,
    ModelError,
    ModelNotFound,
    ModelUnavailable,
    OutputTruncated,
    ProviderFailed,
    RateLimited,
    RealModelForbidden,
    RequestRejected,
)
from flowdebate.models import (
    ModelRequest,
    ModelSettings,
    OpenAIModel,
    OutputSchema,
    allow_real_models,
    forbid_real_models,
)
from flowdebate.models.call import ask
from flowdebate.models.openai.clients import Clients
from flowdebate.models.openai.endpoint import Endpoint
from flowdebate.models.openai.error_mapping import map_error, retry_after

from .server import ChatServer, chunk, completion

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .server import Exchange, Handler

pytestmark = pytest.mark.anyio

KEY = "sk-canary-0123456789abcdef"


def question(**options: Any) -> ModelRequest:
    options.setdefault("messages", [{"role": "user", "content": "hello"}])
    return ModelRequest(block="judge", settings=ModelSettings(timeout=20), **options)


@dataclass(frozen=True)
class Refusal:
    """A response with an HTTP status, and the expected error."""

    id: str
    status: int
    error: type[ModelError]
    body: Any = field(default_factory=lambda: {"error": {"message": "no"}})
    headers: Mapping[str, str] = field(default_factory=dict)
    message: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)


def error_body(message: str, **more: Any) -> dict[str, Any]:
    """Return an error response's body."""
    return {"error": {"message": message, **more}}


CONTEXT = error_body("maximum context length is 8192", code="context_length_exceeded")
LLAMA = error_body("request exceeds the available context size", type="exceed_context_size_error", code=400)

REFUSALS = [
    Refusal("400", 400, RequestRejected, facts={"status": 400}),
    Refusal("a prompt that is too long", 400, ContextTooLong, CONTEXT),
    Refusal("a prompt that is too long for llama.cpp", 400, ContextTooLong, LLAMA),
    Refusal("a body that is too large", 413, ContextTooLong),
    Refusal("an empty balance, as 400", 400, RateLimited, error_body("your credit balance is too low")),
    Refusal("401", 401, AuthenticationFailed, message="Check the API key"),
    Refusal("402", 402, RateLimited, facts={"quota_exhausted": True}),
    Refusal("403", 403, RequestRejected),
    Refusal("403 for want of rights", 403, AuthenticationFailed, error_body("you have no permission for this")),
    Refusal("404", 404, ModelNotFound, error_body("no such model"), message="no such model"),
    Refusal("408", 408, ProviderFailed),
    Refusal("409", 409, ProviderFailed),
    Refusal("418", 418, RequestRejected),
    Refusal("422", 422, RequestRejected),
    Refusal("429", 429, RateLimited, facts={"retry_after": None, "quota_exhausted": False}),
    Refusal("429 with seconds", 429, RateLimited, headers={"Retry-After": "1.5"}, facts={"retry_after": 1.5}),
    Refusal("429 with milliseconds", 429, RateLimited, headers={"retry-after-ms": "250"}, facts={"retry_after": 0.25}),
    Refusal("429 with nonsense", 429, RateLimited, headers={"Retry-After": "soon"}, facts={"retry_after": None}),
    Refusal("429 for ever", 429, RateLimited, headers={"Retry-After": "1e308"}, facts={"retry_after": None}),
    Refusal(
        "a quota that is used up",
        429,
        RateLimited,
        error_body("You exceeded your current quota", code="insufficient_quota"),
        message="waiting does not help",
        facts={"quota_exhausted": True},
    ),
    Refusal("500", 500, ProviderFailed, facts={"status": 500}),
    Refusal("503", 503, ProviderFailed),
    Refusal("529", 529, RateLimited),
    Refusal(
        "a redirect", 307, RequestRejected, headers={"Location": "/elsewhere"}, message="Redirects are not followed"
    ),
    Refusal("an error that is text", 500, ProviderFailed, {"error": "it broke"}, message="it broke"),
    Refusal("an error under detail", 422, RequestRejected, {"detail": "field required"}, message="field required"),
    Refusal("an error that is a list", 500, ProviderFailed, [1, 2], message="[1, 2]"),
    Refusal("an error without a body", 500, ProviderFailed, None),
    Refusal("a message that is no text", 500, ProviderFailed, error_body([1]), message="[1]"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("case", REFUSALS, ids=lambda case: case.id)
async def test_each_status_raises_the_matching_error(case: Refusal, *, stream: bool) -> None:
    async def refuse(exchange: Exchange) -> None:
        await exchange.json(case.body, status=case.status, headers=case.headers)

    async with ChatServer({"m": refuse}) as server:
        request = question(on_text=(lambda _: None) if stream else None)
        with pytest.raises(ModelError) as caught:
            await ask(OpenAIModel("m", base_url=server.base_url, retry=None), request)
    assert type(caught.value) is case.error
    assert case.message in str(caught.value)
    assert {name: getattr(caught.value, name) for name in case.facts} == case.facts
    assert (caught.value.model, caught.value.block) == ("m", "judge")
    # the request is repeated without stream options, without streaming, and without both
    uncertain = isinstance(caught.value, RequestRejected) and not caught.value.certain
    assert server.posts == (4 if stream and uncertain else 1)


async def raw_body(exchange: Exchange, body: bytes, kind: str = "application/json") -> None:
    """Answer 200 with these bytes."""
    await exchange.answer(body, kind=kind)


def answer_with_body(data: bytes, kind: str = "application/json") -> Handler:
    """Return a scenario that answers 200 with the given bytes."""
    return lambda exchange: raw_body(exchange, data, kind)


async def reset_at_once(exchange: Exchange) -> None:
    """Reset the connection before anything is sent."""
    exchange.reset()


async def reset_in_the_body(exchange: Exchange) -> None:
    """Reset the connection in the middle of a body."""
    await exchange.raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{")
    exchange.reset()


async def end_in_the_body(exchange: Exchange) -> None:
    """Close the connection in the middle of a body."""
    await exchange.raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{")
    exchange.close = True


async def no_http(exchange: Exchange) -> None:
    """Answer with something other than HTTP."""
    await exchange.raw(b"220 mail.example ESMTP\r\n\r\n")
    exchange.close = True


async def empty_204(exchange: Exchange) -> None:
    """Answer 204 without a body."""
    await exchange.raw(b"HTTP/1.1 204 No Content\r\n\r\n")


@dataclass(frozen=True)
class Fault:
    """Another fault, with the expected error."""

    id: str
    handler: Handler
    error: type[ModelError]
    message: str = ""


FAULTS = [
    Fault("an HTML page", answer_with_body(b"<html>log in</html>", "text/html"), MalformedResponse, "Check base_url"),
    Fault("an empty body", answer_with_body(b""), MalformedResponse),
    Fault("204", empty_204, MalformedResponse),
    Fault("half a JSON", answer_with_body(b'{"choices": ['), MalformedResponse, "JSONDecodeError"),
    Fault("bytes that are no text", answer_with_body(b'{"a": "\xff\xfe"}'), MalformedResponse),
    Fault("JSON a hundred thousand deep", answer_with_body(b"[" * 100_000), MalformedResponse, "RecursionError"),
    Fault("a number too long for Python", answer_with_body(b"1" * 5_000), MalformedResponse),
    Fault("a reset at once", reset_at_once, ConnectionLost, "broke"),
    Fault("a reset in the body", reset_in_the_body, ConnectionLost),
    Fault("an end in the body", end_in_the_body, ConnectionLost),
    Fault("something that is not HTTP", no_http, MalformedResponse),
]


@pytest.mark.parametrize("structured", [False, True], ids=["text", "structured"])
@pytest.mark.parametrize("case", FAULTS, ids=lambda case: case.id)
async def test_each_fault_raises_one_typed_error_after_one_request(case: Fault, *, structured: bool) -> None:
    async with ChatServer({"m": case.handler}) as server:
        output = OutputSchema.of(list[int]) if structured else None
        with pytest.raises(ModelError) as caught:
            await ask(OpenAIModel("m", base_url=server.base_url, retry=None), question(output=output))
    assert type(caught.value) is case.error
    assert case.message in str(caught.value)
    assert server.posts == 1


async def reset_in_the_stream(exchange: Exchange) -> None:
    """Begin a stream and reset the connection."""
    await exchange.begin_events()
    await exchange.event(chunk("half"))
    exchange.reset()


async def nonsense_in_the_stream(exchange: Exchange) -> None:
    """Start a stream and continue with invalid JSON."""
    await exchange.begin_events()
    await exchange.event(chunk("half"))
    await exchange.raw(b"data: {nonsense\n\n")
    exchange.close = True


async def end_in_the_stream(exchange: Exchange) -> None:
    """Begin a chunked stream and close without its last chunk."""
    await exchange.raw(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    event = f"data: {json.dumps(chunk('half'))}\n\n".encode()
    await exchange.raw(f"{len(event):x}\r\n".encode() + event + b"\r\n")
    exchange.close = True


@pytest.mark.parametrize(
    ("handler", "errors"),
    [
        (reset_in_the_stream, (ConnectionLost, OutputTruncated)),  # the reset may overtake data sent before it
        (nonsense_in_the_stream, (MalformedResponse,)),
        (end_in_the_stream, (ConnectionLost,)),
    ],
)
async def test_a_broken_stream_raises_an_error(handler: Handler, errors: tuple[type[ModelError], ...]) -> None:
    """The listener has already received the beginning of the text, but partial text does not count as an answer."""
    async with ChatServer({"m": handler}) as server:
        with pytest.raises(errors):
            await ask(OpenAIModel("m", base_url=server.base_url, retry=None), question(on_text=lambda _: None))
    assert server.posts == 1


async def test_the_error_for_an_unreachable_endpoint_names_its_address() -> None:
    async with ChatServer() as server:
        base_url = server.base_url
    with pytest.raises(ModelUnavailable, match=base_url) as caught:
        await ask(OpenAIModel("m", base_url=base_url), question())
    assert type(caught.value) is ModelUnavailable


@pytest.mark.parametrize("base_url", ["http://", "http://[bad", "http://[::1/v1", "http://host.invalid:99999/v1"])
async def test_an_invalid_address_is_rejected(base_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An address passed in code is checked when the model is created.

    An address from the environment is checked when the model is called.
    """
    with pytest.raises(ConfigurationError, match="`base_url` must begin with http"):
        OpenAIModel("m", base_url=base_url)
    monkeypatch.setenv("OPENAI_BASE_URL", base_url)
    with pytest.raises(ConfigurationError, match="`OPENAI_BASE_URL` must begin with http"):
        await ask(OpenAIModel("m"), question())


@given(st.text(max_size=30).map("http://".__add__) | st.from_regex(r"http://[\[\]:@.a-z0-9?#/%]{0,20}", fullmatch=True))
def test_arbitrary_addresses_cause_no_unexpected_error(address: str) -> None:
    async def connect() -> None:
        clients = Clients()
        async with clients.keep_open():
            await clients.client(Endpoint.of(address))

    try:
        OpenAIModel("m", base_url=address)
        asyncio.run(connect())
    except ConfigurationError as error:
        assert error.field == "base_url"  # noqa: PT017 - most addresses are refused


async def test_a_nonexistent_host_is_reported_as_unavailable() -> None:
    with pytest.raises(ModelUnavailable, match=r"http://host\.invalid/v1"):
        await ask(OpenAIModel("m", base_url="http://host.invalid/v1", retry=None), question())


async def test_a_server_without_tls_is_reported_as_unavailable() -> None:
    async with ChatServer() as server:
        with pytest.raises(ModelUnavailable):
            await ask(OpenAIModel("m", base_url=server.base_url.replace("http:", "https:"), retry=None), question())


async def test_a_prompt_with_invalid_unicode_is_rejected() -> None:
    """A lone surrogate cannot be sent. The error refers to the prompt and not to an answer."""
    async with ChatServer() as server:
        with pytest.raises(RequestRejected, match="Unicode"):
            await ask(
                OpenAIModel("m", base_url=server.base_url, retry=None),
                question(messages=[{"role": "user", "content": "\ud800"}]),
            )
    assert server.posts == 0


async def test_a_huge_error_page_is_truncated_and_escaped() -> None:
    """The error shows 500 characters of the page on a single printable line."""

    async def page(exchange: Exchange) -> None:
        await exchange.answer(b"\x1b[2J" + b"x" * 2_000_000, status=502, kind="text/plain")

    async with ChatServer({"m": page}) as server:
        with pytest.raises(ProviderFailed) as caught:
            await ask(OpenAIModel("m", base_url=server.base_url, retry=None), question())
    assert len(str(caught.value)) < 700
    assert str(caught.value).isprintable()


async def echo_key_in_error(exchange: Exchange) -> None:
    """Echo the client's own key in an error."""
    await exchange.json(error_body(f"Incorrect API key provided: {KEY}."), status=401)


async def echo_key_in_page(exchange: Exchange) -> None:
    """Echo the client's own key on a page."""
    await exchange.answer(f"<html>{KEY}".encode(), kind="text/html")


async def echo_key_in_choices(exchange: Exchange) -> None:
    """Echo the client's own key inside a response with status 200."""
    await exchange.json({"error": {"message": f"bad key {KEY}", "code": 401}})


async def echo_key_in_stream(exchange: Exchange) -> None:
    """Echo the client's own key in an event."""
    await exchange.events([{"error": {"message": f"bad key {KEY}", "code": 401}}])


async def echo_key_in_json(exchange: Exchange) -> None:
    """Echo the client's own key in an invalid completion."""
    await exchange.json({"choices": [], "note": KEY})


@pytest.mark.parametrize(
    "handler",
    [echo_key_in_error, echo_key_in_page, echo_key_in_choices, echo_key_in_stream, echo_key_in_json, reset_at_once],
)
@pytest.mark.parametrize("kind", ["text", "stream", "structured"])
async def test_the_key_does_not_leak_through_errors_or_logs(
    handler: Handler, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The server may echo the key anywhere. Tracebacks, logs and `repr` must not contain the key."""
    caplog.set_level(logging.DEBUG)
    async with ChatServer({"m": handler}) as server:
        model = OpenAIModel("m", base_url=server.base_url, retry=None, api_key=KEY)
        output = OutputSchema.of(list[int]) if kind == "structured" else None
        request = question(output=output, on_text=(lambda _: None) if kind == "stream" else None)
        with pytest.raises(ModelError) as caught:
            await ask(model, request)
        authorization = server.headers[0]["authorization"]
    texts = "".join(traceback.format_exception(caught.value))
    texts += repr(caught.value) + repr(vars(caught.value)) + repr(model) + repr(model._clients)
    texts += "".join(f"{record.getMessage()} {record.args}" for record in caplog.records if record.name != "openai")
    assert "canary" in authorization
    assert "canary" not in texts


async def test_the_key_is_read_when_a_call_is_made() -> None:
    async with ChatServer() as server:
        model = OpenAIModel("m", base_url=server.base_url, retry=None, api_key_env="FLOWDEBATE_TEST_KEY")
        async with model.open_connections():
            with pytest.raises(AuthenticationFailed, match="FLOWDEBATE_TEST_KEY"):
                await ask(model, question())
            try:
                for key in ("first-key", "second-key"):
                    os.environ["FLOWDEBATE_TEST_KEY"] = key
                    await ask(model, question())
            finally:
                del os.environ["FLOWDEBATE_TEST_KEY"]
        await server.wait_until_left()
    assert [headers["authorization"] for headers in server.headers] == ["Bearer first-key", "Bearer second-key"]


async def test_a_server_without_authentication_gets_a_placeholder_key() -> None:
    """The OpenAI SDK does not work without a key."""
    async with ChatServer() as server:
        await ask(OpenAIModel("m", base_url=server.base_url, retry=None, api_key_env=None), question())
    assert server.headers[0]["authorization"] == "Bearer no-key"


async def test_a_forbidden_call_does_not_reach_the_network() -> None:
    """Calls to a server on the same machine can still be allowed."""
    async with ChatServer() as server:
        model = OpenAIModel("m", base_url=server.base_url, retry=None)
        with forbid_real_models():
            with pytest.raises(RealModelForbidden):
                await ask(model, question())
            with allow_real_models():
                await ask(model, question())
        with forbid_real_models(allow_local=True):
            await ask(model, question())
            with pytest.raises(RealModelForbidden):
                await ask(OpenAIModel("m", base_url="https://api.example.com/v1", api_key="x"), question())
    assert server.posts == 2


@given(st.dictionaries(st.sampled_from(["retry-after", "retry-after-ms"]), st.text() | st.floats().map(str)))
def test_an_implausible_retry_after_is_ignored(headers: dict[str, str]) -> None:
    """A server may send any value in this header, even one that makes no sense."""
    wait = retry_after(headers)
    assert wait is None or 0 <= wait <= 7 * 24 * 3600


def test_only_a_future_retry_after_date_causes_a_wait() -> None:
    import time

    ahead = retry_after({"retry-after": formatdate(time.time() + 60, usegmt=True)})
    assert ahead is not None
    assert 55 < ahead <= 60
    assert retry_after({"retry-after": formatdate(time.time() - 60, usegmt=True)}) is None


@given(
    st.sampled_from(
        [TypeError, IndexError, AttributeError, KeyError, ValueError, OSError, RuntimeError, RecursionError]
    ),
    st.text(),
)
def test_every_foreign_exception_is_classified(kind: type[Exception], message: str) -> None:
    """An exception from another library may contain control characters, which must not reach the terminal."""
    error = map_error(kind(message))
    assert isinstance(error, FlowDebateError)
    assert str(error).isprintable()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["stop", "length"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
PLACES: list[tuple[Any, ...]] = [
    (),
    ("choices",),
    ("choices", 0),
    ("choices", 0, "message"),
    ("choices", 0, "message", "content"),
    ("choices", 0, "message", "tool_calls"),
    ("choices", 0, "message", "refusal"),
    ("choices", 0, "finish_reason"),
    ("usage",),
    ("usage", "prompt_tokens_details"),
    ("model",),
]


def replace_at(value: Any, place: tuple[Any, ...], replacement: Any) -> Any:
    """Return a copy of `value` with `replacement` at `place`."""
    if not place:
        return replacement
    copy = list(value) if isinstance(value, list) else dict(value)
    inner = value[place[0]] if len(place) > 1 else None
    copy[place[0]] = replace_at(inner, place[1:], replacement)
    return copy


@given(changes=st.lists(st.tuples(st.sampled_from(PLACES), JSON), min_size=20, max_size=20), structured=st.booleans())
def test_arbitrary_answers_cause_no_unexpected_error(
    *, changes: list[tuple[tuple[Any, ...], Any]], structured: bool
) -> None:
    answers = [replace_at(completion("[1]"), place, replacement) for place, replacement in changes]

    async def run() -> None:
        async def reply(exchange: Exchange) -> None:
            await exchange.json(answers[exchange.body["number"]])

        async with ChatServer({"m": reply}) as server, OpenAIModel("m", base_url=server.base_url, retry=None) as model:
            output = OutputSchema.of({"type": "object"}) if structured else None
            for number in range(len(answers)):
                request = ModelRequest(
                    messages=[], block="b", output=output, settings=ModelSettings(timeout=20, extra={"number": number})
                )
                try:
                    (await ask(model, request)).text.encode()
                except ModelError as error:
                    assert str(error).isprintable()  # noqa: PT017 - either outcome is right, each has its own law

    asyncio.run(run())
