"""Effects of a fault on later calls and on resources that stay open."""

from __future__ import annotations

import asyncio
import json
import os
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import Debater, debate
from flowdebate.errors import MalformedResponse, ModelUnavailable, SchemaViolation
from flowdebate.models import ModelRequest, OpenAIModel, OutputSchema, Retry
from flowdebate.models.call import ask
from flowdebate.runs.events import ModelCalled
from tests.cases import slow_but_first
from tests.models.server import ChatServer, completion, tool_call
from tests.runs.durable.patterns import fill_schema

from .fault import VERDICT, Verdict
from .handlers import answer, error_body
from .stage import self_signed

if TYPE_CHECKING:
    from flowdebate.models.openai.clients import Transport
    from tests.models.server import Exchange, Handler

pytestmark = [pytest.mark.anyio, pytest.mark.fault]


AT_ONCE = Retry(first_wait=0)


def make_request(**options: Any) -> ModelRequest:
    """Return a request."""
    options.setdefault("messages", [{"role": "user", "content": "x"}])
    return ModelRequest(block="b", **options)


def output_modes(request: ModelRequest) -> list[str | None]:
    """Return the output mode of each attempt."""
    return [attempt.asked_as for attempt in request.attempts.made]


async def test_later_calls_skip_only_the_rejected_mode() -> None:
    """The server supports response formats but not tools, so later calls must not try tools again."""
    right = False

    async def serve(exchange: Exchange) -> None:
        if "tools" in exchange.body:
            await exchange.json(error_body("tools are not supported"), status=400)
        else:
            await exchange.json(completion(VERDICT if right else "{}"))

    async with ChatServer({"m": serve}) as server:
        model = OpenAIModel("m", base_url=server.base_url, retry=Retry(first_wait=0, attempts=4))
        first = make_request(output=OutputSchema.of(Verdict))
        with pytest.raises(SchemaViolation):
            await ask(model, first)
        assert output_modes(first) == ["json_schema", "json_schema", "tools", "json", "json"]
        right = True
        second = make_request(output=OutputSchema.of(Verdict))
        await ask(model, second)
        assert output_modes(second) == ["json_schema"]


def server_with_modes(*modes: str, refuses: bool = False) -> Handler:
    """Return a server that supports the given modes. It ignores all others, or rejects them if `refuses` is set."""

    async def serve(exchange: Exchange) -> None:
        body = exchange.body
        form = body.get("response_format", {})
        way = (
            "tools" if "tools" in body else {"json_schema": "json_schema", "json_object": "json"}.get(form.get("type"))
        )
        if way is not None and way not in modes and refuses:
            await exchange.json(error_body("response_format and tools are not supported"), status=400)
        elif way == "tools" and way in modes:
            tool = body["tools"][0]["function"]
            call = tool_call(tool["name"], json.dumps(build_answer(tool["parameters"])))
            await exchange.json(completion(None, finish="tool_calls", tool_calls=[call]))
        elif way in modes:
            schema = form["json_schema"]["schema"] if way == "json_schema" else {}
            await exchange.json(completion(json.dumps(build_answer(schema)) if schema else VERDICT))
        else:
            await exchange.json(completion("I think that both have a point."))

    return serve


def build_answer(schema: dict[str, Any]) -> Any:
    """Return an answer that fits `schema`."""
    return fill_schema(schema, schema.get("$defs", {}), Random(3))


@pytest.mark.parametrize("refuses", [False, True])
async def test_only_the_first_structured_call_tries_an_unsupported_mode(*, refuses: bool) -> None:
    async with ChatServer({"m": server_with_modes("tools", refuses=refuses)}) as server:
        for wasted in (1 if refuses else 2, 0):
            sides = [Debater("ann", "for"), Debater("bob", "against")]
            pattern = debate(name="rent", debaters=sides, moderator=True, max_rounds=3, judge="swap")
            posts = server.posts
            result = await pattern.run("Why?", model=OpenAIModel("m", base_url=server.base_url, retry=AT_ONCE), seed=1)
            called = [event for event in result.events if isinstance(event, ModelCalled)]
            structured = [event for event in called if event.asked_as is not None]
            assert len(structured) >= 4
            assert {event.asked_as for event in structured} == {"tools"}
            assert server.posts - posts == result.usage.calls == len(called) + wasted


@pytest.mark.parametrize("refuses", [False, True])
async def test_modes_adapt_when_a_server_changes(*, refuses: bool) -> None:
    """Later calls always use the mode that worked most recently, and a mode that failed earlier may be tried again."""
    modes = ["tools"]

    async def serve(exchange: Exchange) -> None:
        await server_with_modes(*modes, refuses=refuses)(exchange)

    async def modes_used() -> list[str | None]:
        request = make_request(output=OutputSchema.of(Verdict))
        model = OpenAIModel("m", base_url=server.base_url, retry=Retry(first_wait=0, attempts=9))
        assert isinstance((await ask(model, request)).data, Verdict)
        return output_modes(request)

    async with ChatServer({"m": serve}) as server:
        times = 1 if refuses else 2
        assert await modes_used() == ["json_schema"] * times + ["tools"]
        assert await modes_used() == ["tools"]
        modes[:] = ["json"]
        assert await modes_used() == ["tools"] * times + ["json"]
        assert await modes_used() == ["json"]
        modes[:] = ["json_schema"]
        # no server rejects malformed text, so the second malformed answer in a call triggers the next mode
        assert await modes_used() == ["json"] * times + ["md_json"] * (3 - times) + ["json_schema"]
        assert await modes_used() == ["json_schema"]


async def test_one_answer_without_json_changes_nothing() -> None:
    """Neither a single answer without JSON nor two answers with the wrong fields may disable a supported mode."""
    texts = ["I refuse to choose.", VERDICT, "{}", "{}", VERDICT, "Never.", VERDICT, VERDICT]

    async def serve(exchange: Exchange) -> None:
        text = texts.pop(0)
        tools = [tool_call("Verdict", text)] if "tools" in exchange.body else None
        await exchange.json(completion(None, finish="tool_calls", tool_calls=tools) if tools else completion(text))

    async with ChatServer({"m": serve}) as server:
        model = OpenAIModel("m", base_url=server.base_url, retry=AT_ONCE)
        tried = []
        while texts:
            request = make_request(output=OutputSchema.of(Verdict))
            await ask(model, request)
            tried.append(output_modes(request))
    first = "json_schema"
    assert tried == [[first, first], [first, first, "tools"], [first, first], [first]]


async def test_a_rejected_mode_is_not_tried_again() -> None:
    async def serve(exchange: Exchange) -> None:
        if "response_format" in exchange.body:
            await exchange.json(error_body("response_format is not supported"), status=400)
        else:
            await exchange.json(completion(None, finish="tool_calls", tool_calls=[tool_call("Verdict", VERDICT)]))

    async with ChatServer({"m": serve}) as server:
        model = OpenAIModel("m", base_url=server.base_url)
        for expected in (["json_schema", "tools"], ["tools"], ["tools"]):
            request = make_request(output=OutputSchema.of(Verdict))
            await ask(model, request)
            assert output_modes(request) == expected


async def test_model_errors_have_no_unrelated_context() -> None:
    """A model error raised inside an `except` block must not be chained to the exception being handled there."""
    async with ChatServer({"m": answer(b"{oops")}) as server:
        model = OpenAIModel("m", base_url=server.base_url, retry=None)
        for on_text in (None, lambda _: None):
            try:
                os.stat("/no/such/file")  # noqa: PTH116 - an OSError, which those of connections are, too
            except FileNotFoundError:
                with pytest.raises(MalformedResponse, match="JSONDecodeError"):
                    await ask(model, make_request(on_text=on_text))


@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
@pytest.mark.parametrize("transport", slow_but_first(["aiohttp", "openai"]))
async def test_an_unread_prompt_leaks_no_descriptor(transport: Transport) -> None:
    """An abandoned connection must be closed even if the server has not read the whole prompt."""
    came, leave = asyncio.Event(), asyncio.Event()

    async def never_read(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> bool:
        came.set()
        await leave.wait()
        return True

    async with ChatServer(greet=never_read) as server:
        model = OpenAIModel("m", base_url=server.base_url, retry=None, transport=transport)
        request = make_request(messages=[{"role": "user", "content": "x" * 12_000_000}])
        async with model.open_connections():
            before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a count of entries that come and go
            call = asyncio.create_task(ask(model, request))
            await came.wait()
            await asyncio.sleep(0.1)  # the prompt is sent until the buffers are full
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
        assert server.open_connections == 1
        assert len(os.listdir("/proc/self/fd")) == before + 1  # noqa: PTH208 - the server's side
        leave.set()
        await server.wait_until_left()


@pytest.mark.parametrize("transport", slow_but_first(["aiohttp", "openai"]))
async def test_certificates_are_verified_after_a_redirect_to_https(transport: Transport) -> None:
    """A model that was first used over plain HTTP must still verify certificates."""
    async with ChatServer() as plain, ChatServer(tls=self_signed()) as secure:
        model = OpenAIModel("m", retry=None, transport=transport, api_key="none")
        before = os.environ.get("OPENAI_BASE_URL")
        try:
            async with model.open_connections():
                os.environ["OPENAI_BASE_URL"] = plain.base_url
                assert (await ask(model, make_request())).text == "fine"
                os.environ["OPENAI_BASE_URL"] = secure.base_url
                with pytest.raises(ModelUnavailable, match="certificate"):
                    await ask(model, make_request())
        finally:
            if before is None:
                del os.environ["OPENAI_BASE_URL"]
            else:
                os.environ["OPENAI_BASE_URL"] = before
        assert secure.posts == 0
