"""Clients that send chat completion requests: how they are selected, and an application's own client."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import openai
import pytest

from flowdebate.errors import ConfigurationError, ProviderFailed, SchemaViolation
from flowdebate.models import ModelRequest, OpenAIModel, OutputSchema, Retry
from flowdebate.models.call import ask
from flowdebate.models.openai.clients import Clients
from flowdebate.models.openai.endpoint import Endpoint
from flowdebate.models.openai.http import HttpClient

from .server import ChatServer, completion

if TYPE_CHECKING:
    from .server import Exchange

pytestmark = pytest.mark.anyio


def question(**options: Any) -> ModelRequest:
    return ModelRequest(messages=[{"role": "user", "content": "hello"}], block="b", **options)


@pytest.fixture
async def server() -> Any:
    async with ChatServer() as running:
        yield running


async def test_a_debate_over_http_imports_no_sdk(server: ChatServer) -> None:
    """Importing openai or httpx2 would take longer than everything else in a first debate."""
    script = (
        "import asyncio, sys\n"
        "from flowdebate import OpenAIModel, generator\n"
        "print(generator(name='ann').run_sync('How?', model=OpenAIModel('m', base_url=sys.argv[1])).usage.calls)\n"
        "print(*{'openai', 'httpx2', 'instructor'} & set(sys.modules))\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, server.base_url, stdout=subprocess.PIPE
    )
    output, _ = await asyncio.wait_for(process.communicate(), 60)
    assert output.decode().split() == ["1"]


@pytest.mark.parametrize(
    ("transport", "url", "proxy", "lean"),
    [
        ("aiohttp", "http://127.0.0.1:1/v1", None, True),
        ("aiohttp", "http://127.0.0.1:1/v1", "http_proxy", True),
        ("aiohttp", "https://models.example/v1", None, True),
        ("aiohttp", "https://models.example/v1", "https_proxy", False),
        ("aiohttp", "https://models.example/v1", "all_proxy", False),
        ("aiohttp", "https://models.example/v1", "http_proxy", True),
        ("openai", "http://127.0.0.1:1/v1", None, False),
    ],
)
async def test_the_sdk_is_used_on_request_and_behind_proxies(
    transport: Any, url: str, proxy: str | None, lean: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    if proxy is not None:
        monkeypatch.setenv(proxy, "http://127.0.0.1:9")
    clients = Clients(transport=transport)
    async with clients.keep_open():
        assert isinstance(await clients.client(Endpoint.of(url)), HttpClient if lean else openai.AsyncOpenAI)


async def test_both_transports_send_the_same_request(server: ChatServer) -> None:
    """The request bodies are equal, as are all headers except those that identify the client library."""
    headers: list[list[Any]] = []
    for transport in ("aiohttp", "openai"):
        model = OpenAIModel(
            "m", base_url=f"{server.base_url}/?v=1%202", api_key="k", transport=transport, default_headers={"X-A": "b"}
        )
        await ask(model, question())
        await ask(model, question(on_text=lambda _: None))
        alone = OpenAIModel("m", base_url=server.base_url, retry=None, transport=transport)
        with pytest.raises(SchemaViolation):
            await ask(alone, question(output=OutputSchema.of(dict)))
        names = {"accept", "accept-encoding", "authorization", "content-type", "x-a"}
        headers.append([{name: headers.get(name) for name in names} for headers in server.headers])
        headers[-1] += [*server.bodies, *server.paths]
        server.headers, server.bodies, server.paths = [], [], []
    assert headers[0] == headers[1]


async def test_a_custom_client_is_used_and_stays_open(server: ChatServer) -> None:
    failures = 1

    async def flaky(exchange: Exchange) -> None:
        nonlocal failures
        failures -= 1
        if failures >= 0:
            await exchange.json({"error": {"message": "no"}}, status=500)
        else:
            await exchange.json(completion())

    async def at_once(_: float) -> None:
        pass

    server.otherwise = flaky
    async with openai.AsyncOpenAI(
        base_url=server.base_url, api_key="sk-mine", default_headers={"X-Mine": "1"}, max_retries=5
    ) as client:
        model = OpenAIModel("m", client=client, retry=Retry(sleep=at_once))
        request = question()
        assert (await ask(model, request)).text == "fine"
        assert [attempt.error for attempt in request.attempts.made] == ["ProviderFailed", None]
        assert {(headers["authorization"], headers["x-mine"]) for headers in server.headers} == {
            ("Bearer sk-mine", "1")
        }
        assert not client.is_closed()
        failures = 1
        with pytest.raises(ProviderFailed):
            await ask(OpenAIModel("m", client=client, retry=None), question())
        assert server.posts == 3
    assert repr(model) == f"OpenAIModel('m', base_url='{server.base_url}/')"


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"client": openai.OpenAI(api_key="k")}, "client"),
        ({"client": "gpt"}, "client"),
        ({"client": openai.AsyncOpenAI(api_key="k"), "base_url": "http://127.0.0.1/v1"}, "base_url"),
        ({"client": openai.AsyncOpenAI(api_key="k"), "api_key": "k"}, "api_key"),
        ({"client": openai.AsyncOpenAI(api_key="k"), "default_headers": {"X": "y"}}, "default_headers"),
    ],
)
def test_an_unusable_client_is_rejected(options: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        OpenAIModel("m", **options)
    assert caught.value.field == field
