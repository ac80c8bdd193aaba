"""The HTTP application: access checks and shutdown."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from typing import TYPE_CHECKING

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from flowdebate.errors import ConfigurationError
from flowdebate.mcp import create_server, http_app, serve_http
from flowdebate.mcp.server import with_token
from tests.mcp.conftest import ROOT, parameters, serve_on_socket, structured_output
from tests.mcp.stage import HELD_AFTER, StageModel, make_service

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

PING = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"content-type": "text/plain"}, 400),
    ],
    ids=["another host", "another origin", "no origin", "a form"],
)
async def test_requests_from_other_sites_are_rejected(tmp_path: Path, headers: dict[str, str], status: int) -> None:
    """A web page can trick a browser into sending requests to a local server."""
    service, _ = make_service(tmp_path)
    async with service, serve_on_socket(service) as url, httpx2.AsyncClient() as client:
        accepted = {"accept": "application/json, text/event-stream"}
        response = await client.post(url, json=PING, headers=accepted | headers)
    assert response.status_code == status


async def test_a_client_discovers_the_server_through_its_card(tmp_path: Path) -> None:
    service, _ = make_service(tmp_path)
    async with service, serve_on_socket(service) as url, httpx2.AsyncClient() as client:
        response = await client.get(f"{url}/server-card")
        evil = await client.get(f"{url}/server-card", headers={"host": "evil.example"})
        guarded = with_token(http_app(create_server(service)), "0123456789abcdef")
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(guarded), base_url="http://localhost") as inside:
            codes = [(await inside.get(path)).status_code for path in ("/mcp/server-card", "/mcp")]
    card = response.json()
    registered = json.loads((ROOT / "server.json").read_text())
    assert response.headers["content-type"] == "application/mcp-server-card+json"
    assert {key: card[key] for key in ("name", "title", "description", "version")}.items() <= registered.items()
    assert card["remotes"][0]["url"] == url
    assert (evil.status_code, codes) == (421, [200, 401])


async def test_an_enclosing_application_can_allow_more_hosts(tmp_path: Path) -> None:
    """`allow_hosts` adds host names, while `guarded` leaves all checks to the enclosing application."""
    service, _ = make_service(tmp_path)
    for options, status in (({"allow_hosts": ["debates.example"]}, 200), ({"guarded": True}, 200), ({}, 421)):
        async with serve_on_socket(service, **options) as url, httpx2.AsyncClient() as client:
            headers = {"accept": "application/json, text/event-stream", "host": "debates.example"}
            params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
            hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
            assert (await client.post(url, json=hello, headers=headers)).status_code == status
    await service.close()


async def test_the_command_serves_over_http_until_a_signal(tmp_path: Path) -> None:
    started = parameters(tmp_path, "--http", "--port", "0")
    process = await asyncio.create_subprocess_exec(
        started.command,
        *started.args,
        env=os.environ | (started.env or {}) | {"XDG_DATA_HOME": str(tmp_path)},
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    while not (line := (await process.stderr.readline()).decode()).startswith("Serving "):
        assert line
    url, bind, token = line.removeprefix("Serving ").strip().partition(" with the header Authorization: Bearer ")
    assert bind
    assert (tmp_path / "flowdebate" / "token").read_text().strip() == token  # the token is the same after a restart
    async with httpx2.AsyncClient() as stranger:  # any other user of this machine
        for headers in ({}, {"authorization": "Bearer nothing"}, {"authorization": f"Basic {token}"}):
            assert (await stranger.post(url, json=PING, headers=headers)).status_code == 401
    (tmp_path / "hold").touch()
    http = httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}, timeout=60)
    async with http, Client(streamable_http_client(url, http_client=http)) as client:
        arguments = {"question": "What to build?", "pattern": "city", "wait": 0}
        run_id = structured_output(await client.call_tool("start_debate", arguments))["run_id"]
        while len(StageModel(tmp_path).callers()) <= HELD_AFTER:
            await client.call_tool("wait_for_run", {"run_id": run_id, "seconds": 0.05})
    process.send_signal(signal.SIGTERM)
    (tmp_path / "hold").unlink()
    assert await asyncio.wait_for(process.wait(), 60) == -signal.SIGTERM
    service, model = make_service(tmp_path)
    async with service:
        run = await service.run(run_id)
    # the run continues until the connections are closed, so it may have finished
    assert run.status in ("interrupted", "complete")
    assert run.steps == len(model.callers()) > HELD_AFTER


async def test_a_port_in_use_is_rejected(tmp_path: Path) -> None:
    service, _ = make_service(tmp_path)
    with (
        socket.create_server(("127.0.0.1", 0)) as occupied,
        pytest.raises(ConfigurationError, match="`port` must be a free port"),
    ):
        await serve_http(service, port=occupied.getsockname()[1])
    await service.close()


def test_importing_the_library_does_not_import_the_sdk() -> None:
    import subprocess

    code = "import sys, flowdebate.cli.app, flowdebate.mcp; print('mcp' in sys.modules, 'uvicorn' in sys.modules)"
    completed = subprocess.run([sys.executable, "-c", code], timeout=60, capture_output=True, text=True, check=True)  # noqa: S603
    assert completed.stdout.split() == ["False", "False"]
