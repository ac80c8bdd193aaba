"""A key is in no sink: not in errors, tracebacks, events, results, logs or recordings, whoever says it."""

from __future__ import annotations

import io
import json
import logging
import traceback
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import Debater, OpenAIModel, debate
from flowdebate.errors import FlowDebateError
from tests.models.server import ChatServer, chunk, completion, usage_chunk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.models.server import Exchange

pytestmark = pytest.mark.anyio

KEY = "canary-7f3a9c21d4e8b605"
VERDICT = {"reasoning": f"My key is {KEY}.", "winner": "cap rents", "verdict": f"{KEY} wins"}
SIDES = [Debater("tenant", "cap rents"), Debater("owner", "free rents")]


async def _tells_it(exchange: Exchange) -> None:
    """A server that says the key in every answer."""
    if "response_format" in exchange.body:
        await exchange.json(completion(json.dumps(VERDICT)))
    elif exchange.body.get("stream"):
        await exchange.events([chunk(f"I was called with {KEY}."), chunk(finish="stop"), usage_chunk()])
    else:
        await exchange.json(completion(f"I was called with {exchange.headers['authorization']}."))


async def _refuses_with_it(exchange: Exchange) -> None:
    """A server that echoes the key in its refusal, in the body and in a header."""
    error = {"error": {"message": f"the key {KEY} is unknown", "code": KEY, "headers": exchange.headers}}
    await exchange.json(error, status=401, headers={"x-echo": KEY, "www-authenticate": f"Bearer {KEY}"})


async def _breaks_with_it(exchange: Exchange) -> None:
    """A server whose answer is the key and nothing else."""
    await exchange.answer(KEY.encode(), kind="application/json")


async def _declines_with_it(exchange: Exchange) -> None:
    """A model that declines to tell its key, and tells it."""
    await exchange.json(completion(None, refusal=f"I will not tell {KEY}"))


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    """All that any library logs, at the level of DEBUG."""
    written = io.StringIO()
    sink = logging.StreamHandler(written)
    sink.setLevel(logging.DEBUG)
    root = logging.getLogger()
    before = root.level
    levels = {name: logging.getLogger(name).level for name in ("openai", "httpx2", "aiohttp", "instructor")}
    root.addHandler(sink)
    root.setLevel(logging.DEBUG)
    for name in levels:
        logging.getLogger(name).setLevel(logging.DEBUG)
    try:
        yield written
    finally:
        root.removeHandler(sink)
        root.setLevel(before)
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


def _all_of(run: Any) -> str:
    """Everything that a run leaves."""
    raw = run.raw
    parts = [repr(event) for event in run.events]
    parts += [repr(run), repr(raw), "" if raw is None else raw.model_dump_json(by_alias=True)]
    parts += [repr(task) for task in run.tasks.list()]
    parts += [repr(run.session.history), repr(run.session.resources)]
    return "\n".join(parts)


@pytest.mark.parametrize("transport", ["aiohttp", "httpx2"])
async def test_a_key_that_a_model_says_is_taken_out_of_what_it_says(transport: Any, logged: io.StringIO) -> None:
    """Before it can reach a transcript, and with it every other model, event, file and screen."""
    async with ChatServer({"telling": _tells_it}) as server:
        model = OpenAIModel("telling", base_url=server.base_url, api_key=KEY, transport=transport)
        result = await debate(name="rent", debaters=SIDES, synthesizer=False, max_rounds=1).run("Cap?", model=model)
        prompts = json.dumps(server.bodies)
    assert "[redacted]" in result.output.transcript[0].text
    assert result.raw.verdict.winner == "cap rents"
    assert KEY not in _all_of(result)
    assert KEY not in prompts
    assert KEY not in logged.getvalue()
    assert KEY not in repr(model)


@pytest.mark.parametrize("scenario", [_refuses_with_it, _breaks_with_it, _declines_with_it])
@pytest.mark.parametrize("transport", ["aiohttp", "httpx2"])
async def test_a_key_that_a_server_says_is_in_no_error(scenario: Any, transport: Any, logged: io.StringIO) -> None:
    """Nor in the traceback of it, nor in what the run leaves."""
    async with ChatServer({"failing": scenario}) as server:
        model = OpenAIModel("failing", base_url=server.base_url, api_key=KEY, transport=transport, retry=None)
        with pytest.raises(FlowDebateError) as caught:
            await debate(name="rent", debaters=SIDES).run("Cap?", model=model)
    error = caught.value
    shown = "".join(traceback.format_exception(error))
    assert KEY not in f"{shown}{error!r}{error}{vars(error)!r}"
    assert error.run is not None
    assert KEY not in _all_of(error.run)
    assert KEY not in logged.getvalue()


async def test_a_key_in_the_address_is_shown_nowhere(logged: io.StringIO) -> None:
    """User, password and query of a base URL."""
    async with ChatServer({"failing": _refuses_with_it}) as server:
        for address in (
            server.base_url.replace("127.0.0.1", f"user:{KEY}@127.0.0.1"),
            f"http://user:{KEY}@127.0.0.1:9/v1",
        ):
            model = OpenAIModel("failing", base_url=address, api_key="no", retry=None)
            with pytest.raises(FlowDebateError) as caught:
                await debate(name="rent", debaters=SIDES).run("Cap?", model=model)
            error = caught.value
            shown = "".join(traceback.format_exception(error))
            assert KEY not in f"{shown}{error!r}{error}"
            assert KEY not in repr(model)
            assert error.run is not None
            assert KEY not in _all_of(error.run)
    assert KEY not in logged.getvalue()
