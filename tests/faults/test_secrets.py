"""A key that a server repeats must not appear in errors, tracebacks, events, results, logs or recordings."""

from __future__ import annotations

import io
import json
import logging
import traceback
from base64 import b64encode
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import Debater, OpenAIModel, debate, generator
from flowdebate.errors import ConfigurationError, FlowDebateError
from flowdebate.store import SqliteStore, export_run
from tests.models.server import ChatServer, chunk, completion, usage_chunk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.models.server import Exchange

pytestmark = pytest.mark.anyio

KEY = "canary-7f3a9c21d4e8b605"
VERDICT = {"reasoning": f"My key is {KEY}.", "winner": "cap rents", "verdict": f"{KEY} wins"}
SIDES = [Debater("tenant", "cap rents"), Debater("owner", "free rents")]


async def _tells_it(exchange: Exchange) -> None:
    """Repeat the key in every answer."""
    if "response_format" in exchange.body:
        await exchange.json(completion(json.dumps(VERDICT)))
    elif exchange.body.get("stream"):
        await exchange.events([chunk(f"I was called with {KEY}."), chunk(finish="stop"), usage_chunk()])
    else:
        await exchange.json(completion(f"I was called with {exchange.headers['authorization']}."))


async def _refuses_with_it(exchange: Exchange) -> None:
    """Repeat the key in the body and in a header of the error response."""
    error = {"error": {"message": f"the key {KEY} is unknown", "code": KEY, "headers": exchange.headers}}
    await exchange.json(error, status=401, headers={"x-echo": KEY, "www-authenticate": f"Bearer {KEY}"})


async def _breaks_with_it(exchange: Exchange) -> None:
    """Answer with nothing but the key."""
    await exchange.answer(KEY.encode(), kind="application/json")


async def _declines_with_it(exchange: Exchange) -> None:
    """Refuse to reveal the key while revealing it."""
    await exchange.json(completion(None, refusal=f"I will not tell {KEY}"))


@pytest.fixture
def debug_logs() -> Iterator[io.StringIO]:
    """Capture all libraries' logs at the DEBUG level."""
    written = io.StringIO()
    sink = logging.StreamHandler(written)
    sink.setLevel(logging.DEBUG)
    root = logging.getLogger()
    before = root.level
    names = ("flowdebate", "openai", "httpx2", "aiohttp", "instructor")
    levels = {name: logging.getLogger(name).level for name in names}
    root.addHandler(sink)
    root.setLevel(logging.DEBUG)
    for name in names:
        logging.getLogger(name).setLevel(logging.DEBUG)
    try:
        yield written
    finally:
        root.removeHandler(sink)
        root.setLevel(before)
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


def _collect_output(run: Any) -> str:
    """Return everything that a run leaves behind."""
    raw = run.raw
    parts = [repr(event) for event in run.events]
    parts += [repr(run), repr(raw), "" if raw is None else raw.model_dump_json(by_alias=True)]
    parts += [repr(task) for task in run.tasks.list()]
    parts += [repr(run.session.history), repr(run.session.resources)]
    return "\n".join(parts)


@pytest.mark.parametrize("transport", ["aiohttp", "openai"])
async def test_a_key_in_a_model_answer_is_redacted(transport: Any, debug_logs: io.StringIO) -> None:
    """The key is redacted before the answer is recorded.

    It never reaches another model, an event, a file or the screen.
    """
    async with ChatServer({"telling": _tells_it}) as server:
        model = OpenAIModel("telling", base_url=server.base_url, api_key=KEY, transport=transport)
        result = await debate(name="rent", debaters=SIDES, synthesizer=False, max_rounds=1).run("Cap?", model=model)
        prompts = json.dumps(server.bodies)
    assert "[redacted]" in result.output.transcript[0].text
    assert result.raw.verdict is not None
    assert result.raw.verdict.winner == "cap rents"
    assert KEY not in _collect_output(result)
    assert KEY not in prompts
    assert KEY not in debug_logs.getvalue()
    assert KEY not in repr(model)


@pytest.mark.parametrize("scenario", [_refuses_with_it, _breaks_with_it, _declines_with_it])
@pytest.mark.parametrize("transport", ["aiohttp", "openai"])
async def test_keys_echoed_by_a_server_do_not_appear_in_errors(
    scenario: Any, transport: Any, debug_logs: io.StringIO
) -> None:
    """A key echoed by the server must not appear in the traceback or in the stored run."""
    async with ChatServer({"failing": scenario}) as server:
        model = OpenAIModel("failing", base_url=server.base_url, api_key=KEY, transport=transport, retry=None)
        with pytest.raises(FlowDebateError) as caught:
            await debate(name="rent", debaters=SIDES).run("Cap?", model=model)
    error = caught.value
    traceback_text = "".join(traceback.format_exception(error))
    assert KEY not in f"{traceback_text}{error!r}{error}{vars(error)!r}"
    assert error.run is not None
    assert KEY not in _collect_output(error.run)
    assert KEY not in debug_logs.getvalue()


def _with(server: ChatServer, place: str) -> dict[str, Any]:
    """Return model options with the secret in the given place."""
    host, address = f"127.0.0.1:{server.port}", server.base_url
    options: dict[str, dict[str, Any]] = {
        "a password": {"base_url": address.replace(host, f"user:{KEY}@{host}")},
        "an escaped password": {"base_url": address.replace(host, f"user:%63{KEY[1:]}@{host}")},
        "a user": {"base_url": address.replace(host, f"{KEY}@{host}")},
        "a query": {"base_url": f"{address}?api-version=1&key={KEY}"},
        "an escaped query": {"base_url": f"{address}?key=%63{KEY[1:]}"},
        "a query of any name": {"base_url": f"{address}?x={KEY}"},
        "a header": {"default_headers": {"X-Api-Key": KEY}},
        "a header of any name": {"default_headers": {"X-Team": f"debates {KEY}"}},
        "an Authorization header": {"default_headers": {"authorization": f"Bearer {KEY}"}},
    }
    return options[place]


PLACES = [
    "a password", "an escaped password", "a user", "a query", "an escaped query", "a query of any name",
    "a header", "a header of any name", "an Authorization header",
]  # fmt: skip


async def _echoes(exchange: Exchange) -> None:
    """Repeat the whole request in the answer or in an error."""
    echo = f"{KEY} {exchange.path} {json.dumps(exchange.headers)}"
    if exchange.body["model"] == "failing":
        await exchange.json({"error": {"message": echo, "code": KEY}}, status=400, headers={"x-echo": KEY})
    elif "response_format" in exchange.body:
        await exchange.json(completion(json.dumps({**VERDICT, "reasoning": echo})))
    elif exchange.body.get("stream"):
        await exchange.events([chunk(echo), chunk(finish="stop"), usage_chunk()])
    else:
        await exchange.json(completion(echo))


async def _read_stored(store: Path) -> str:
    """Return the contents of a store's files and the run's export."""
    opened = SqliteStore(store)
    lines = [line async for line in export_run(opened, "the-run")]
    await opened.close()
    files = [path.read_bytes() for path in store.parent.rglob("*") if path.is_file()]
    return b"".join(files).decode("utf-8", "replace") + "".join(lines)


def _assert_hidden(text: str, server: ChatServer) -> None:
    """Check that some form of the secret was sent, and that `text` contains no form of it."""
    forms = [KEY, f"%63{KEY[1:]}", *(b64encode(user.encode()).decode() for user in (f"user:{KEY}", f"{KEY}:"))]
    request_text = server.paths[0] + json.dumps(server.headers[0])
    assert any(form in request_text for form in forms)
    for form in forms:
        assert form not in text
    assert KEY[1:] not in text


@pytest.mark.parametrize("transport", ["aiohttp", "openai"])
@pytest.mark.parametrize("place", PLACES)
async def test_secrets_echoed_by_a_server_appear_nowhere_in_a_run(
    place: str, transport: Any, debug_logs: io.StringIO, tmp_path: Path
) -> None:
    """Results, events, logs, `repr`, stores and exports are searched for the secrets."""
    store = tmp_path / "runs.sqlite3"
    async with ChatServer({"telling": _echoes}) as server:
        model = OpenAIModel("telling", transport=transport, **{"base_url": server.base_url, **_with(server, place)})
        pattern = debate(name="rent", debaters=SIDES, synthesizer=False, max_rounds=1)
        result = await pattern.run("Cap?", model=model, store=str(store), run_id="the-run")
    assert "[redacted]" in result.output.transcript[0].text
    text = f"{model!r}{model.base_url}{_collect_output(result)}{await _read_stored(store)}{debug_logs.getvalue()}"
    _assert_hidden(text, server)


@pytest.mark.parametrize("transport", ["aiohttp", "openai"])
@pytest.mark.parametrize("place", PLACES)
async def test_secrets_echoed_by_a_server_do_not_appear_in_errors(
    place: str, transport: Any, debug_logs: io.StringIO, tmp_path: Path
) -> None:
    """Echoed secrets must not appear in the traceback or in the stored run."""
    store = tmp_path / "runs.sqlite3"
    async with ChatServer({"failing": _echoes}) as server:
        model = OpenAIModel("failing", transport=transport, **{"base_url": server.base_url, **_with(server, place)})
        pattern = debate(name="rent", debaters=SIDES, synthesizer=False, max_rounds=1)
        with pytest.raises(FlowDebateError, match="redacted") as caught:
            await pattern.run("Cap?", model=model, store=str(store), run_id="the-run")
    error = caught.value
    text = "".join(traceback.format_exception(error)) + f"{error!r}{vars(error)!r}"
    _assert_hidden(f"{text}{_collect_output(error.run)}{await _read_stored(store)}{debug_logs.getvalue()}", server)


@pytest.mark.parametrize("transport", ["aiohttp", "openai"])
async def test_a_short_secret_in_a_query_does_not_appear_in_logs(transport: Any, debug_logs: io.StringIO) -> None:
    """The HTTP library httpx2 logs the URL of every request, so the secret must be removed from its query."""
    async with ChatServer() as server:
        model = OpenAIModel("m", base_url=f"{server.base_url}?key=42", transport=transport)
        await generator(name="tenant").run("Cap?", model=model)
    assert server.paths == ["/v1/chat/completions?key=42"]
    assert "/v1/chat/completions" in debug_logs.getvalue()
    assert "key=42" not in debug_logs.getvalue()


@pytest.mark.parametrize(
    "address",
    [
        "htp://me:hunter2@127.0.0.1/v1",
        "me:hunter2@127.0.0.1/v1?key=hunter2",
        "http//me:hunter2@127.0.0.1/v1",
        "http://me:hunter2@[::1/v1#hunter2",
        "http://me:hunter2@127.0.0.1:99999/v1",
        "http://me:hunter2/@127.0.0.1/v1",
        "http://me:?hunter2@127.0.0.1/v1",
        "http://me:12#hunter2@127.0.0.1/v1",
        "http://me:hunter2@",
        "http://127.0.0.1/v 1?key=hunter2",
    ],
)
def test_the_error_for_an_invalid_address_hides_its_secrets(address: str) -> None:
    with pytest.raises(ConfigurationError, match="`base_url` must begin with http") as caught:
        OpenAIModel("m", base_url=address)
    assert "hunter2" not in f"{caught.value}{vars(caught.value)}{caught.value!r}"


def test_the_error_for_an_invalid_header_hides_its_value() -> None:
    with pytest.raises(ConfigurationError, match=r"`default_headers.X-Key` must be printable") as caught:
        OpenAIModel("m", default_headers={"X-Key": "hunter2\n"})
    assert "hunter2" not in f"{caught.value}{vars(caught.value)}"
