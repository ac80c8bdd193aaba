"""Server refusals over real HTTP: either the request is repeated in another form, or an error is raised."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowdebate import AnthropicModel, Debater, FailurePolicy, OpenAIModel, debate
from flowdebate.errors import (
    AuthenticationFailed,
    ContentFiltered,
    ContextTooLong,
    FlowDebateWarning,
    ModelError,
    ModelNotFound,
    RateLimited,
    RequestRejected,
)
from flowdebate.models import Fallback, ModelRequest, ModelSettings, OutputSchema, Retry
from flowdebate.models.call import ask
from flowdebate.models.openai.optional import learned_of
from flowdebate.runs.events import ModelCalled
from tests.cases import slow_but_first
from tests.faults.as_messages import MessagesExchange
from tests.faults.fault import VERDICT as VERDICT_TEXT
from tests.faults.fault import Verdict
from tests.patterns.debates import QUESTION, SIDES, VERDICT, events
from tests.profiles import example_count

from .server import ChatServer, Exchange, chunk, completion, usage_chunk

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.models import Model

pytestmark = pytest.mark.anyio

Body = dict[str, Any]


async def answer_well(exchange: Exchange) -> None:
    """Answer as a debater, or as a judge in any mode."""
    body = exchange.body
    written = json.dumps([body.get(name) for name in ("response_format", "output_config", "tools", "messages")])
    if '"winner"' in written or '\\"winner\\"' in written:
        verdict = {**VERDICT, "score": 7} if '"score"' in written or '\\"score\\"' in written else VERDICT
        await exchange.json(completion(json.dumps(verdict)))
    elif body.get("stream"):
        await exchange.events([chunk("Homes "), chunk("first."), chunk(finish="stop"), usage_chunk()])
    else:
        await exchange.json(completion("Homes first."))


@dataclass
class PickyServer:
    """Server that answers well, except that it rejects the requests selected by `refuses`."""

    refuses: Callable[[Body], bool]
    status: int
    body: Any
    headers: dict[str, str] = field(default_factory=dict)
    refused: int = 0

    async def __call__(self, exchange: Exchange) -> None:
        """Answer one request."""
        if not self.refuses(exchange.body):
            await answer_well(exchange)
            return
        self.refused += 1
        if isinstance(self.body, str):
            await exchange.answer(self.body.encode(), kind="text/plain", status=self.status, headers=self.headers)
        else:
            await exchange.json(self.body, status=self.status, headers=self.headers)

    def server(self, *, anthropic: bool = False) -> ChatServer:
        """Return the server, which accepts any model name."""
        return ChatServer({}, otherwise=self, exchange=MessagesExchange if anthropic else Exchange)


def message_roles(body: Body) -> list[str]:
    """Return the roles of a request's messages."""
    return [message["role"] for message in body["messages"]]


def has_consecutive_roles(body: Body) -> bool:
    """Return whether two neighboring messages have the same role."""
    sequence = message_roles(body)
    return any(one == two for one, two in itertools.pairwise(sequence))


def error(message: str, **more: Any) -> Body:
    return {"error": {"message": message, **more}}


async def run_debate(model: Model, **options: Any) -> Any:
    """Run a debate with two sides, one round and a judge, and stream it as front ends do."""
    options = {"debaters": SIDES, **options}
    handle = debate(name="rent", max_rounds=1, synthesizer=False, **options).start(QUESTION, model=model)
    async for _ in handle:
        pass
    return await handle


def make_request(*, output: Any = None, on_text: Any = None, **options: Any) -> ModelRequest:
    """Return a request with a system message."""
    messages = [{"role": "system", "content": "You debate."}, {"role": "user", "content": "Cap rents?"}]
    output = None if output is None else OutputSchema.of(output)
    return ModelRequest(
        messages=messages, block="judge", output=output, on_text=on_text, settings=ModelSettings(**options)
    )


# An accepted form of the request


@dataclass(frozen=True)
class OptionalPart:
    """A part of a request that different servers reject with different wording."""

    id: str
    refuses: Callable[[Body], bool]
    status: int
    body: Any
    settings: ModelSettings = field(default_factory=ModelSettings)
    warns: str = ""
    """Name that the warning uses for the omitted part; blank if the library emits no warning."""


UNSUPPORTED = (
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
)
DEFAULT_ONLY = (
    "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is supported."
)
ALTERNATE = "Conversation roles must alternate user/assistant/user/assistant/..."
VERIFIED = error("Your organization must be verified to stream this model.", param="stream", code="unsupported_value")
WRAPPED = error("Provider returned error", code=400, metadata={"raw": json.dumps(VERIFIED), "provider_name": "OpenAI"})

OPTIONAL = [
    OptionalPart(
        "a08: the older name of the limit",
        lambda body: "max_tokens" in body,
        400,
        error(UNSUPPORTED, type="invalid_request_error", param="max_tokens", code="unsupported_parameter"),
        ModelSettings(max_tokens=800),
    ),
    OptionalPart(
        "a09: a temperature",
        lambda body: "temperature" in body,
        400,
        error(DEFAULT_ONLY, type="invalid_request_error", param="temperature", code="unsupported_value"),
        ModelSettings(temperature=0),
        warns="temperature",
    ),
    OptionalPart(
        "a limit beyond the model's",
        lambda body: "max_tokens" in body or "max_completion_tokens" in body,
        422,
        {"detail": [{"loc": ["body", "max_tokens"], "msg": "Input should be less than or equal to 4096"}]},
        ModelSettings(max_tokens=800_000),
        warns="max_tokens",
    ),
    OptionalPart(
        "a11: streaming, as a 403",
        lambda body: "stream" in body,
        403,
        {"message": "Streaming requests are not yet allowed."},
    ),
    OptionalPart("a17: streaming, behind another vendor", lambda body: "stream" in body, 400, WRAPPED),
    OptionalPart("stream_options", lambda body: "stream_options" in body, 400, error("extra fields not permitted")),
    OptionalPart(
        "a12: a system message",
        lambda body: "system" in message_roles(body),
        400,
        {"object": "error", "message": ALTERNATE, "type": "BadRequestError", "code": 400},
    ),
    OptionalPart(
        "a13: a system message, as a 500",
        lambda body: "system" in message_roles(body),
        500,
        error(f"Error: Jinja Exception: {ALTERNATE}", code=500, type="server_error"),
    ),
    OptionalPart(
        "a template that the server does not find, as a 500",
        lambda body: "stream" in body,
        501,
        error("Streaming is not implemented for this backend"),
    ),
    OptionalPart(
        "a response format, as a 404 of a router",
        lambda body: "response_format" in body,
        404,
        error("No endpoints found that support response_format", code=404),
    ),
]


@pytest.mark.parametrize("transport", slow_but_first(["aiohttp", "openai"]))
@pytest.mark.parametrize("case", OPTIONAL, ids=lambda case: case.id)
async def test_a_debate_continues_without_a_rejected_part(case: OptionalPart, transport: Any) -> None:
    """A rejected request does not count as an attempt, and later debates omit the rejected part."""
    picky = PickyServer(case.refuses, case.status, case.body)
    async with picky.server() as server:
        for number in range(2):
            model = OpenAIModel(
                "m", base_url=server.base_url, api_key="k", transport=transport, settings=case.settings, retry=None
            )
            if case.warns and number == 0:
                with pytest.warns(FlowDebateWarning, match=f"'m' rejects {case.warns}") as warned:
                    result = await run_debate(model)
                assert len(warned) == 1
            else:
                result = await run_debate(model)
            assert result.output.verdict.winner == "for"
            assert [entry.text for entry in result.output.transcript] == ["Homes first."] * 2
            if number == 0:
                assert picky.refused >= 1
                picky.refused = 0
    assert picky.refused == 0
    flags = {flag for call in events(result, ModelCalled) for flag in call.flags if flag.startswith("without_")}
    assert flags == ({f"without_{case.warns}"} if case.warns else set())


async def test_a_streaming_only_server_gets_a_streaming_request() -> None:
    """Requests for structured answers are streamed too, even though nobody reads the stream."""
    words = "This model only supports stream mode, please enable the stream parameter to access the model."

    async def serve(exchange: Exchange) -> None:
        if "stream" not in exchange.body:
            await exchange.json(error(words), status=400)
        elif "response_format" in exchange.body:
            await exchange.events([chunk(json.dumps(VERDICT)), chunk(finish="stop"), usage_chunk()])
        else:
            await answer_well(exchange)

    async with ChatServer({}, otherwise=serve) as server:
        for refused in (1, 0):
            result = await run_debate(OpenAIModel("m", base_url=server.base_url, api_key="k"))
            assert result.output.verdict.winner == "for"
            assert sum("stream" not in body for body in server.bodies) == refused
            server.bodies.clear()


async def test_only_the_rejected_part_is_omitted() -> None:
    """If omitting a part does not help, the part is restored.

    In this test, the server rejects only the temperature, so streaming stays on.
    """
    picky = PickyServer(lambda body: "temperature" in body, 400, error("Nope."))
    async with picky.server() as server:
        model = OpenAIModel("m", base_url=server.base_url, api_key="k", settings=ModelSettings(temperature=0.3))
        with pytest.warns(FlowDebateWarning, match="temperature"):
            await ask(model, make_request(on_text=lambda _: None))
    assert server.bodies[-1] == {
        "model": "m",
        "messages": server.bodies[0]["messages"],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


async def test_two_rejected_parts_are_both_omitted() -> None:
    """Each rejection names one of the parts.

    If all rejections read the same, the request is sent without any optional part.
    """

    def reason(body: Body) -> str | None:
        return next((name for name in ("system", "temperature") if name in message_roles(body) or name in body), None)

    for words in ("{}", "Bad Request"):

        async def refuse(exchange: Exchange, words: str = words) -> None:
            refused = reason(exchange.body)
            if refused is None:
                await answer_well(exchange)
            else:
                await exchange.json(error(words.format(refused)), status=400)

        async with ChatServer({}, otherwise=refuse) as server:
            model = OpenAIModel("m", base_url=server.base_url, api_key="k", settings=ModelSettings(temperature=0.3))
            with pytest.warns(FlowDebateWarning, match="temperature"):
                answered = await ask(model, make_request())
        assert answered.text == "Homes first."
        assert server.bodies[-1]["messages"] == [{"role": "user", "content": "You debate.\n\nCap rents?"}]


async def test_the_first_refusal_is_raised_if_all_forms_are_rejected() -> None:
    """Later rejections concern requests that the library has modified, so they would confuse the user."""
    refusals = iter(range(100))

    async def refuse(exchange: Exchange) -> None:
        await exchange.json(error(f"Refusal {next(refusals)}."), status=418)

    async with ChatServer({}, otherwise=refuse) as server:
        with pytest.raises(RequestRejected, match="Refusal 0"):
            await ask(OpenAIModel("m", base_url=server.base_url, api_key="k"), make_request(on_text=lambda _: None))
        assert learned_of(server.base_url, "m").dropped == frozenset()


async def test_a_strict_model_raises_an_error_if_a_user_setting_is_refused() -> None:
    """Parts that were added by the library rather than the user are still omitted."""
    picky = PickyServer(lambda body: not {"temperature", "stream"}.isdisjoint(body), 400, error(DEFAULT_ONLY))
    async with picky.server() as server:
        model = OpenAIModel(
            "m", base_url=server.base_url, api_key="k", settings=ModelSettings(temperature=0), strict=True
        )
        with pytest.raises(RequestRejected, match="temperature"):
            await ask(model, make_request(on_text=lambda _: None))
        relaxed = OpenAIModel("m", base_url=server.base_url, api_key="k", strict=True)
        assert (await ask(relaxed, make_request(on_text=lambda _: None))).text == "Homes first."


async def test_adjacent_messages_with_the_same_role_are_joined() -> None:
    """Servers may require alternating roles. One of the joined messages explains why an empty answer cannot be used."""
    picky = PickyServer(
        has_consecutive_roles, 400, {"object": "error", "message": f"After the optional system message, {ALTERNATE}"}
    )
    messages = [{"role": "user", "content": "Cap rents?"}, {"role": "user", "content": "That cannot be used."}]
    async with picky.server() as server:
        model = OpenAIModel("m", base_url=server.base_url, api_key="k")
        answered = await ask(model, ModelRequest(messages=messages, block="b"))
    assert answered.text == "Homes first."
    assert server.bodies[-1]["messages"] == [{"role": "user", "content": "Cap rents?\n\nThat cannot be used."}]


async def test_another_mode_is_tried_after_some_are_ignored_or_rejected() -> None:
    """The model answers in prose in two modes, and the server rejects JSON mode.

    The debate still succeeds with JSON in a code block.
    """

    async def ignore(exchange: Exchange) -> None:
        body = exchange.body
        form = body.get("response_format", {}).get("type")
        if form == "json_object":
            await exchange.json({"error": "'response_format.type' must be 'json_schema' or 'text'"}, status=400)
        elif form or "tools" in body:
            await exchange.json(completion("Certainly! The first side was stronger."))
        else:
            await answer_well(exchange)

    async with ChatServer({}, otherwise=ignore) as server:
        result = await run_debate(OpenAIModel("m", base_url=server.base_url, api_key="k"))
    assert result.output.verdict.winner == "for"
    assert events(result, ModelCalled)[-1].asked_as == "md_json"


async def test_tools_are_offered_first_if_a_server_rejects_both() -> None:
    """The server's error message mentions neither tools nor the schema."""
    from flowdebate.models import ToolSpec

    tool = ToolSpec(name="look_up", description="Look it up.", parameters={"type": "object", "properties": {}})
    picky = PickyServer(
        lambda body: (
            any(definition["function"]["name"] == "look_up" for definition in body.get("tools", ()))
            and (
                "response_format" in body
                or "tool_choice" in body
                or "md_json" in json.dumps(body)
                or "Schema" in str(body)
            )
        ),
        400,
        error("Foo and bar exclude each other."),
    )
    async with picky.server() as server:
        model = OpenAIModel("m", base_url=server.base_url, api_key="k")
        for _ in range(2):
            request = make_request(output=Verdict)
            request.tools = [tool]
            answered = await ask(model, request)
            assert isinstance(answered.data, Verdict)
        assert learned_of(server.base_url, "m").tools_apart


@pytest.mark.filterwarnings("ignore:The model .* is deprecated")
@pytest.mark.parametrize("name", ["claude-opus-4-5", "claude-opus-4-5-20251101", "claude-sonnet-4-0", "claude-opus-9"])
async def test_claude_without_adaptive_thinking_gets_a_budget(name: str) -> None:
    """Known models get a thinking budget at once, and other models get one when the server requires it."""
    refusal = {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": "adaptive thinking is not supported on this model"},
    }
    picky = PickyServer(lambda body: body.get("thinking", {}).get("type") == "adaptive", 400, refusal)
    async with picky.server(anthropic=True) as server:
        model = AnthropicModel(name, base_url=server.base_url, api_key="k", settings=ModelSettings(effort="high"))
        for _ in range(2):
            assert (await ask(model, make_request())).text == "Homes first."
    assert server.bodies[-1]["thinking"]["type"] == "enabled"
    assert picky.refused == (1 if name == "claude-opus-9" else 0)


# Refusals that end the call


@dataclass(frozen=True)
class FinalRefusal:
    """A refusal that no other form of the request would avoid."""

    id: str
    status: int
    body: Any
    error: type[ModelError]
    says: str = ""
    silent: str = ""
    """Text that the error message does not contain."""
    requests: int = 1


TPM = "Request too large for m on tokens per min (TPM): Limit 30000, Requested 36278. The input must be reduced."
FINAL = [
    FinalRefusal(
        "a21: a wrong key as a 400",
        400,
        {"code": "Client specified an invalid argument", "error": "Incorrect API key provided: na***ys."},
        AuthenticationFailed,
    ),
    FinalRefusal(
        "a22: a request that can never fit",
        429,
        error(TPM, type="tokens", code="rate_limit_exceeded"),
        ContextTooLong,
        "larger than the account's limit",
    ),
    FinalRefusal(
        "the same, as a 413",
        413,
        error(TPM, code="rate_limit_exceeded"),
        ContextTooLong,
        "larger than the account's limit",
    ),
    FinalRefusal(
        "a23: a context limit",
        400,
        error(
            "input length and `max_tokens` exceed context limit: 199759 + 8192 > 200000, "
            "decrease input length or `max_tokens` and try again"
        ),
        ContextTooLong,
    ),
    FinalRefusal("a24: a long input", 400, error("Input is too long for requested model."), ContextTooLong),
    FinalRefusal(
        "a25: a long prompt",
        400,
        error("The decoder prompt (length 10127) is longer than the maximum model length of 8192."),
        ContextTooLong,
    ),
    FinalRefusal(
        "a18: a filter",
        400,
        error(
            "The response was filtered due to the prompt triggering the content management policy.",
            code="content_filter",
        ),
        ContentFiltered,
    ),
    FinalRefusal(
        "a19: a filter as a 403",
        403,
        {
            "code": "The caller does not have permission to execute the specified operation",
            "error": "Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_BIO",
        },
        ContentFiltered,
        silent="key",
    ),
    FinalRefusal(
        "a20: a blocked prompt",
        200,
        {"choices": [], "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}},
        ContentFiltered,
        "PROHIBITED_CONTENT",
    ),
    FinalRefusal(
        "a key without rights",
        403,
        error("This API key has no access to the project."),
        AuthenticationFailed,
        "Check the API key",
    ),
    FinalRefusal("a country", 403, error("Country, region, or territory not supported"), AuthenticationFailed),
    FinalRefusal(
        "an unknown model",
        404,
        error("The model `m` does not exist or you do not have access to it."),
        ModelNotFound,
        "Check the model's name",
    ),
    FinalRefusal("a model that a router has not", 404, error("No endpoints found for vendor/m."), ModelNotFound),
    FinalRefusal(
        "a policy of a router",
        404,
        error("No endpoints found matching your data policy."),
        ModelNotFound,
        "data policy",
    ),
    FinalRefusal(
        "a28: an unexpected endpoint in a 200",
        200,
        {"error": "Unexpected endpoint or method. (POST /chat/completions)"},
        RequestRejected,
        "base_url",
    ),
    FinalRefusal("a27: no such page", 404, "404 page not found", RequestRejected, "base_url"),
    FinalRefusal("no such route", 404, {"detail": "Not Found"}, RequestRejected, "base_url"),
    FinalRefusal(
        "a limit for a day",
        429,
        [
            {
                "error": {
                    "code": 429,
                    "message": "You exceeded your current quota, please check your plan and billing details.",
                    "status": "RESOURCE_EXHAUSTED",
                    "details": [
                        {"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]},
                        {"retryDelay": "20s"},
                    ],
                }
            }
        ],
        RateLimited,
        "quota is used up",
    ),
]


@pytest.mark.parametrize("on_text", [None, lambda _: None], ids=["whole", "streamed"])
@pytest.mark.parametrize("transport", slow_but_first(["aiohttp", "openai"]))
@pytest.mark.parametrize("case", FINAL, ids=lambda case: case.id)
async def test_a_refusal_for_another_reason_ends_the_call_at_once(
    case: FinalRefusal, transport: Any, on_text: Any
) -> None:
    picky = PickyServer(lambda _: True, case.status, case.body)
    async with picky.server() as server:
        model = OpenAIModel(
            "m", base_url=server.base_url, api_key="sk-none", transport=transport, retry=Retry(first_wait=0)
        )
        request = make_request(on_text=on_text)
        with pytest.raises(ModelError) as caught:
            await ask(model, request)
    assert case.status == 200 or request.attempts.usage.total_tokens == 0
    assert type(caught.value) is case.error, repr(caught.value)
    assert case.says in str(caught.value)
    assert not case.silent or case.silent not in str(caught.value).lower()
    assert picky.refused == case.requests


@pytest.mark.parametrize(
    "case", [case for case in FINAL if case.id.startswith(("a18", "a19"))], ids=lambda case: case.id
)
async def test_other_debaters_continue_when_a_filter_stops_one(case: FinalRefusal) -> None:
    """A content filter is not an application error, so a policy may skip the turn or a fallback may take over."""
    sides = [*SIDES, Debater("cleo", "later")]
    picky = PickyServer(lambda _: picky.refused < 1, case.status, case.body)
    async with picky.server() as server:
        model = OpenAIModel("m", base_url=server.base_url, api_key="k")
        result = await run_debate(model, debaters=sides, failures=FailurePolicy(on_failure="skip"))
        assert [entry.speaker for entry in result.output.transcript] == ["ben", "cleo"]
        assert result.output.verdict is not None
        picky.refused = 0
        spare = OpenAIModel("spare", base_url=server.base_url, api_key="k")
        assert (await ask(Fallback(model, spare), make_request())).text == "Homes first."
        assert server.bodies[-1]["model"] == "spare"


@pytest.mark.parametrize(
    ("body", "wait"),
    [
        (
            FINAL[-1].body[0]["error"]
            | {
                "details": [{"violations": [{"quotaId": "GenerateRequestsPerMinutePerProject"}]}, {"retryDelay": "23s"}]
            },
            23.0,
        ),
        (
            {
                "message": "You exceeded your current quota, please check your plan and billing details. "
                "Please retry in 36.5s."
            },
            36.5,
        ),
        (
            {
                "message": "Provider returned error",
                "code": 429,
                "metadata": {
                    "raw": "m is temporarily rate-limited upstream. Please retry shortly.",
                    "provider_name": "BaseTen",
                },
            },
            None,
        ),
    ],
    ids=["a detail", "a sentence", "a16: behind another vendor"],
)
async def test_a_call_waits_for_a_per_minute_limit(body: Any, wait: float | None) -> None:
    """A per-minute limit is not the same as an exhausted quota.

    Without a retry, the error names the vendor behind the endpoint.
    """
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    picky = PickyServer(lambda _: picky.refused < 1, 429, {"error": body})
    async with picky.server() as server:
        model = OpenAIModel("m", base_url=server.base_url, api_key="k", retry=Retry(sleep=sleep))
        assert (await ask(model, make_request())).text == "Homes first."
    assert len(waits) == 1
    assert wait is None or waits[0] == pytest.approx(wait, rel=0.01)
    if wait is None:
        picky = PickyServer(lambda _: True, 429, {"error": body})
        async with picky.server() as server:
            with pytest.raises(RateLimited, match=r"BaseTen: m is temporarily rate-limited upstream"):
                await ask(OpenAIModel("m", base_url=server.base_url, api_key="k", retry=None), make_request())


@pytest.mark.parametrize(
    ("path", "hint"), [("", "/v1"), ("/api", "/api/v1"), ("/v1/chat", "it must be the address to which")]
)
@pytest.mark.parametrize("kind", ["text/plain", "text/html"])
async def test_a_wrong_address_is_explained(path: str, hint: str, kind: str) -> None:
    """The error suggests what to change. A web page in place of an answer is explained in the same way."""

    async def serve(exchange: Exchange) -> None:
        if exchange.path == "/v1/chat/completions":
            await answer_well(exchange)
        else:
            await exchange.answer(b"404 page not found", kind=kind, status=404)

    async with ChatServer({}, otherwise=serve) as server:
        address = server.base_url.removesuffix("/v1") + path
        with pytest.raises(RequestRejected, match="base_url") as caught:
            await ask(OpenAIModel("m", base_url=address, api_key="k"), make_request(on_text=lambda _: None))
        assert hint in str(caught.value)
    assert server.posts == 1


@pytest.mark.parametrize("kind", [OpenAIModel, AnthropicModel])
@pytest.mark.parametrize("limits", [(None, None), (100, None), (None, 100), (300, 100)], ids=str)
async def test_retry_doubles_the_token_limit(kind: Any, limits: tuple[int | None, int | None]) -> None:
    """The limit may be set in the model's settings, in the request, or not at all."""
    model_limit, settings_limit = limits

    async def serve(exchange: Exchange) -> None:
        cut = len(server.bodies) == 1
        await exchange.json(completion('{"reasoning": "r' if cut else VERDICT_TEXT, finish="length" if cut else "stop"))

    async with ChatServer(
        {}, otherwise=serve, exchange=Exchange if kind is OpenAIModel else MessagesExchange
    ) as server:
        model = kind("m", base_url=server.base_url, api_key="k", settings=ModelSettings(max_tokens=model_limit))
        await ask(model, make_request(output=Verdict, max_tokens=settings_limit))
    first, second = (body.get("max_tokens") for body in server.bodies)
    first_limit = settings_limit or model_limit or (None if kind is OpenAIModel else 8_192)
    assert (first, second) == (first_limit, 2 * (first_limit or 4_096))


@pytest.mark.parametrize("kind", [OpenAIModel, AnthropicModel])
async def test_a_key_is_sent_without_its_newline(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that are read from a file or pasted often end in a newline.

    Other invalid characters are reported without revealing the key.
    """
    variable = "OPENAI_API_KEY" if kind is OpenAIModel else "ANTHROPIC_API_KEY"
    async with ChatServer(
        {}, otherwise=answer_well, exchange=Exchange if kind is OpenAIModel else MessagesExchange
    ) as server:
        for key in ("sk-canary-1\n", "\ufeffsk-canary-1\r\n"):
            monkeypatch.setenv(variable, key)
            await ask(kind("m", base_url=server.base_url), make_request())
            await ask(kind("m", base_url=server.base_url, api_key=key), make_request())
        for key in ("sk-canary\n1", "sk-canary\u2011"):
            monkeypatch.setenv(variable, key)
            with pytest.raises(AuthenticationFailed, match=f"the API key in {variable} has a line break") as caught:
                await ask(kind("m", base_url=server.base_url), make_request())
            assert "canary" not in str(caught.value)
    keys = [headers.get("x-api-key") or headers["authorization"].removeprefix("Bearer ") for headers in server.headers]
    assert keys == ["sk-canary-1"] * 4


# General property


@dataclass(frozen=True)
class Piece:
    """An optional part of a request, recognized in the request's body."""

    name: str
    matches: Callable[[Body], bool]
    anthropic: bool = True
    """True if Anthropic's API has this part."""


PIECES = [
    Piece("stream", lambda body: bool(body.get("stream"))),
    Piece("stream_options", lambda body: "stream_options" in body, anthropic=False),
    Piece("system", lambda body: "system" in body or "system" in message_roles(body)),
    Piece("temperature", lambda body: "temperature" in body),
    Piece("max_tokens", lambda body: body.get("max_tokens") == ROOM),
    Piece("both names of the limit", lambda body: ROOM in (body.get("max_tokens"), body.get("max_completion_tokens"))),
    Piece("effort", lambda body: "reasoning_effort" in body or "output_config" in body or "thinking" in body),
    Piece("cache_control", lambda body: "cache_control" in json.dumps(body)),
    Piece("tool_choice", lambda body: "tool_choice" in body),
    Piece("response_format", lambda body: "response_format" in body or "format" in body.get("output_config", {})),
    Piece(
        "any form but text",
        lambda body: not {"response_format", "tools"}.isdisjoint(body) or "format" in body.get("output_config", {}),
    ),
]
ROOM = 777
CODES = sorted(set(range(400, 500)) - {401, 402, 408, 409, 429})
WORDS = st.lists(st.text("bdfghjklqvwxz", min_size=3, max_size=9), min_size=1, max_size=8).map(" ".join)
BODIES = st.one_of(
    WORDS,
    WORDS.map(error),
    WORDS.map(lambda words: {"message": words}),
    WORDS.map(lambda words: {"detail": [{"msg": words}]}),
    WORDS.map(lambda words: [{"error": {"message": words, "code": 4711}}]),
    WORDS.map(lambda words: {"error": words}),
    st.just(""),
)


@pytest.mark.filterwarnings("ignore:model 'm' rejects")
@pytest.mark.parametrize("way", slow_but_first(["aiohttp", "openai", "anthropic"]))
@settings(max_examples=example_count(10))
@given(piece=st.sampled_from(PIECES), code=st.sampled_from(CODES), body=BODIES)
async def test_a_debate_completes_whichever_part_is_rejected(way: Any, piece: Piece, code: int, body: Any) -> None:
    """The server may reject the part with a generic status and an error message that the library does not know."""
    learned_of.cache_clear()  # an earlier example's server may have used this port
    picky = PickyServer(piece.matches, code, body)
    async with picky.server(anthropic=way == "anthropic") as server:
        model_settings = ModelSettings(temperature=0.5, max_tokens=ROOM, effort="high")
        model = (
            AnthropicModel("m", base_url=server.base_url, api_key="k", settings=model_settings, retry=None)
            if way == "anthropic"
            else OpenAIModel(
                "m", base_url=server.base_url, api_key="k", settings=model_settings, retry=None, transport=way
            )
        )
        result = await run_debate(model)
    assert result.output.verdict.winner == "for"
    assert [entry.text for entry in result.output.transcript] == ["Homes first."] * 2
