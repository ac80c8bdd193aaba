"""Fixtures for the MCP tests: a server for each transport, and clients for both protocol eras."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn
from jsonschema import Draft202012Validator
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.server.mcpserver.utilities.func_metadata import func_metadata
from mcp_types import TextContent

from flowdebate.mcp import create_server, http_app
from tests.cli.stage import COMMAND
from tests.mcp.stage import FOLDER, StageModel, make_service
from tests.warm import stub_command

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from contextlib import AbstractAsyncContextManager

    from mcp_types import CallToolResult

    from flowdebate.service.service import Service

ROOT = Path(__file__).resolve().parents[2]
ERAS = ("2026-07-28", "legacy")


@pytest.fixture(scope="module", autouse=True)
def cached_schemas() -> Iterator[None]:
    """Cache the schemas that the SDK reads and checks for each tool.

    A process that runs one server does this only once. Repeating it for each test would take 0.2 seconds per test.
    """
    check = Draft202012Validator.check_schema
    metadata: dict[Any, Any] = {}
    valid: set[str] = set()

    def read_once(tool: Any, **options: Any) -> Any:
        key = tool.__code__, repr(options)  # each server has separate functions with the same code
        if key not in metadata:
            metadata[key] = func_metadata(tool, **options)
        return metadata[key]

    def check_once(schema: Any) -> None:
        if (text := json.dumps(schema, sort_keys=True)) not in valid:
            check(schema)
            valid.add(text)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mcp.server.mcpserver.tools.base.func_metadata", read_once)
        patch.setattr(Draft202012Validator, "check_schema", check_once)
        yield


@dataclass(frozen=True)
class Stage:
    """Server with its own folder, and the clients connected to it."""

    folder: Path
    model: StageModel
    connect: Callable[..., AbstractAsyncContextManager[Client]]
    """Function that connects a client; it takes the SDK client's options."""


def parameters(folder: Path, *args: str, **environment: str) -> StdioServerParameters:
    """Return the command that serves the stage over stdio."""
    command, *arguments = stub_command(COMMAND, "mcp", "--app", "tests.mcp.stage:service", *args)
    return StdioServerParameters(command=command, args=arguments, env={FOLDER: str(folder), **environment}, cwd=ROOT)


def structured_output(result: CallToolResult) -> dict[str, Any]:
    """Return the structured output from a successful tool call."""
    assert not result.is_error, result.content
    output: dict[str, Any] = result.structured_content or {}
    return output


def error_text(result: CallToolResult) -> str:
    """Return the error text from a failed tool call."""
    assert result.is_error, result.content
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


async def poll_report(client: Client, run_id: str, *, seconds: float = 1) -> dict[str, Any]:
    """Poll until a run has ended and return its report."""
    while True:
        report = structured_output(await client.call_tool("wait_for_run", {"run_id": run_id, "seconds": seconds}))
        if report["status"] != "running":
            return report
        assert "wait_for_run" in report["next"]


@asynccontextmanager
async def open_client(
    folder: Path, *, mode: str = ERAS[0], seconds: float = 0.03, **options: Any
) -> AsyncIterator[Client]:
    """Connect a client to a stage in a separate process, with a model that takes `seconds` per call."""
    started = parameters(folder, FLOWDEBATE_TEST_SECONDS=str(seconds))
    with (folder / "stderr").open("a") as errors:
        async with Client(stdio_client(started, errlog=errors), mode=mode, **options) as client:
            yield client


@asynccontextmanager
async def serve_in_memory(folder: Path, mode: str) -> AsyncIterator[Stage]:
    """Run a server in this process, with clients that use the protocol of one era."""
    service, model = make_service(folder)
    server = create_server(service)
    async with service:
        yield Stage(folder, model, lambda **options: Client(server, mode=mode, **options))


@asynccontextmanager
async def _over_stdio(folder: Path, mode: str) -> AsyncIterator[Stage]:
    yield Stage(folder, StageModel(folder), lambda **options: open_client(folder, mode=mode, **options))


@asynccontextmanager
async def serve_on_socket(service: Service, **options: Any) -> AsyncIterator[str]:
    """Serve `service` on a real socket and yield its address."""
    bound = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        http_app(create_server(service), **options), log_config=None, timeout_graceful_shutdown=1, lifespan="on"
    )
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined] # of old versions
    with bound, _no_signals():
        serving = asyncio.create_task(server.serve(sockets=[bound]))
        try:
            yield f"http://127.0.0.1:{bound.getsockname()[1]}/mcp"
        finally:
            server.should_exit = True
            await serving


@contextlib.contextmanager
def _no_signals() -> Any:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@asynccontextmanager
async def _over_http(folder: Path, mode: str) -> AsyncIterator[Stage]:
    service, model = make_service(folder)
    async with service, serve_on_socket(service) as url:
        yield Stage(folder, model, lambda **options: Client(url, mode=mode, **options))


TRANSPORTS = {"memory": serve_in_memory, "stdio": _over_stdio, "http": _over_http}


@pytest.fixture(params=[f"{transport} {era}" for transport in TRANSPORTS for era in ERAS])
async def stage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stage]:
    """Provide a server for each transport and era."""
    transport, era = request.param.split()
    async with TRANSPORTS[transport](tmp_path, era) as server:
        yield server


@pytest.fixture(params=ERAS)
async def local_stage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stage]:
    """Provide an in-process server for each era."""
    async with serve_in_memory(tmp_path, request.param) as server:
        yield server
