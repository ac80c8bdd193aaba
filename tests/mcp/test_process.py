"""`flowdebate mcp` as a process: its streams, its shutdown, and recovery after a crash."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from typer.testing import CliRunner

from flowdebate._util.importing import load_object
from flowdebate.cli.app import app
from flowdebate.errors import ConfigurationError
from flowdebate.service.service import Service
from flowdebate.store import SqliteStore, close_store
from tests.cases import slow_but_first
from tests.mcp.conftest import ROOT, open_client, parameters, poll_report, structured_output
from tests.mcp.stage import HELD_AFTER, StageModel

if TYPE_CHECKING:
    from asyncio.subprocess import Process

pytestmark = pytest.mark.anyio

CITY = {"question": "What to build?", "pattern": "city", "wait": 0}
CALLS = 5
"""Number of model calls in an undisturbed run."""


async def start_held_run(client: Client, folder: Path) -> str:
    """Start a run whose fourth call is held, and return its id."""
    (folder / "hold").touch()
    run_id: str = structured_output(await client.call_tool("start_debate", CITY))["run_id"]
    while len(StageModel(folder).callers()) <= HELD_AFTER:
        await client.call_tool("wait_for_run", {"run_id": run_id, "seconds": 0.05})
    return run_id


async def test_a_killed_server_resumes_without_paying_twice(tmp_path: Path) -> None:
    """`wait_for_run` reports the crash, and `resume_run` repeats only the call that was in flight."""
    model = StageModel(tmp_path)
    async with open_client(tmp_path) as client:
        run_id = await start_held_run(client, tmp_path)
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    (tmp_path / "hold").unlink()
    async with open_client(tmp_path, mode="legacy") as client:
        final = structured_output(await client.call_tool("wait_for_run", {"run_id": run_id}))
        assert (final["status"], "resume_run" in final["next"]) == ("left_behind", True)
        assert not (await client.call_tool("resume_run", {"run_id": run_id, "wait": 0})).is_error
        report = await poll_report(client, run_id, seconds=0.2)
    assert report["status"] == "complete"
    # each side speaks in two rounds, so any third call is a repetition
    twice = {block for block, times in Counter(model.callers()).items() if times > 2}
    assert (len(model.callers()), twice) == (CALLS + 1, {"city-debater-bob"})


@pytest.mark.parametrize("end", ["SIGTERM", "EOF"])
async def test_calls_in_flight_finish_when_the_server_stops(tmp_path: Path, end: str) -> None:
    """After SIGTERM or the end of stdin, the server waits for the call in flight and records its answer."""
    process = await serve(tmp_path)
    (tmp_path / "hold").touch()
    run_id = (await call(process, "start_debate", CITY))["run_id"]
    while len(StageModel(tmp_path).callers()) <= HELD_AFTER:
        await call(process, "get_run", {"run_id": run_id})
    if end == "SIGTERM":
        process.send_signal(signal.SIGTERM)
    else:
        assert process.stdin is not None
        process.stdin.close()
    await asyncio.sleep(0.1)  # the server waits for the call
    assert process.returncode is None
    (tmp_path / "hold").unlink()
    assert await asyncio.wait_for(process.wait(), 60) == (-signal.SIGTERM if end == "SIGTERM" else 0)
    store = SqliteStore(str(tmp_path / "runs.sqlite3"))
    stored = await store.run(run_id)
    await close_store(store)
    assert (stored.status, stored.steps, len(StageModel(tmp_path).callers())) == ("interrupted", 4, 4)


async def test_a_server_exits_without_a_traceback_if_its_host_stops_reading(tmp_path: Path) -> None:
    process = await serve(tmp_path, stderr=asyncio.subprocess.PIPE)
    (tmp_path / "hold").touch()
    run_id = (await call(process, "start_debate", CITY))["run_id"]
    process._transport.get_pipe_transport(1).close()  # type: ignore[attr-defined]  # its stdout
    params = {"name": "get_run", "arguments": {"run_id": run_id}}
    await send(process, {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params})
    (tmp_path / "hold").unlink()
    assert process.stdin is not None
    process.stdin.close()
    assert await asyncio.wait_for(process.wait(), 60) == 0
    assert process.stderr is not None
    assert b"Traceback" not in await process.stderr.read()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--port", "1"], "--port requires --http, because it sets the HTTP server's port."),
        (["--token-file", "token"], "--token-file requires --http, because it sets the HTTP server's token."),
        (["--new-token"], "--new-token requires --http, because it sets the HTTP server's token."),
        (["--http", "--port", "70000"], "--port must be between 0 and 65535 (got 70000)"),
        (["--app", "nowhere:service"], "--app must be MODULE:OBJECT or FILE.py:OBJECT, where OBJECT is a Service"),
        (
            ["--app", "tests.mcp.stage:FOLDER"],
            "--app must be MODULE:OBJECT or FILE.py:OBJECT, where OBJECT is a Service",
        ),
        (["--app", "tests.mcp.stage:service", "--model", "local"], "--model cannot be combined with --app"),
        (["--max-calls", "0"], "--max-calls must be at least 1 (got 0)"),
    ],
)
def test_conflicting_options_are_rejected(arguments: list[str], sentence: str) -> None:
    result = CliRunner().invoke(app, ["mcp", *arguments])
    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in " ".join(result.stderr.split())


async def test_a_long_run_can_be_followed_in_short_waits(tmp_path: Path) -> None:
    """Each call to `wait_for_run` skips as many parts as `seen` says.

    Joined together, the returned parts form the whole report.
    """
    parts: list[str] = []
    async with open_client(tmp_path, seconds=0.25, read_timeout_seconds=20) as client:
        run = structured_output(await client.call_tool("start_debate", CITY))
        arguments = {"run_id": run["run_id"]}
        while run["status"] == "running":
            offset = 0 if not parts else run["parts"]
            run = structured_output(
                await client.call_tool("wait_for_run", {**arguments, "seconds": 0.1, "seen": offset})
            )
            parts.append(run["said"])
        report = structured_output(await client.call_tool("get_run", arguments))
    assert len(parts) > CALLS
    assert "\n".join(filter(None, parts)) == report["said"]


async def test_only_protocol_messages_go_to_stdout(tmp_path: Path) -> None:
    """Anything printed by the application's module goes to stderr."""
    process = await serve(tmp_path, stderr=asyncio.subprocess.PIPE)
    listed = await request(process, "tools/list", {})
    assert process.stdin is not None
    process.stdin.close()
    assert process.stdout is not None
    assert process.stderr is not None
    assert await process.stdout.read() == b""
    assert b"This line is not of the protocol." in await process.stderr.read()
    assert await asyncio.wait_for(process.wait(), 60) == 0
    assert "start_debate" in [tool["name"] for tool in listed["tools"]]


@pytest.mark.parametrize("number", slow_but_first([0, 1]))
async def test_documented_configurations_start_the_server(tmp_path: Path, number: int) -> None:
    """The documented JSON is used unchanged, with this interpreter's `flowdebate` on the PATH."""
    page = (ROOT / "docs" / "mcp.md").read_text("utf-8")
    fences = [json.loads(body) for body in re.findall(r"^```json\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)]
    servers = [fence["mcpServers"] for fence in fences if "mcpServers" in fence]  # other hosts use a different format
    (name, entry), *rest = servers[number].items()
    assert (name, rest) == ("flowdebate", [])
    (tmp_path / "my_debates.py").write_text("from tests.mcp.stage import service\n")
    scripts = str(Path(sys.executable).parent)
    path = os.pathsep.join([scripts, os.environ["PATH"]])
    python = os.pathsep.join(filter(None, [str(tmp_path), *sys.path]))
    environment = entry.get("env", {}) | {
        "PATH": path,
        "PYTHONPATH": python,
        "FLOWDEBATE_TEST_STAGE": str(tmp_path),
        "HOME": str(tmp_path),
        "XDG_DATA_HOME": str(tmp_path),
    }
    arguments = [argument.replace("/home/ann/debates/", f"{tmp_path}/") for argument in entry["args"]]
    host = StdioServerParameters(command=entry["command"], args=arguments, env=environment, cwd=tmp_path)
    async with Client(stdio_client(host)) as client:
        listed = structured_output(await client.call_tool("list_runs", {}))
        assert listed["runs"] == []
        assert len((await client.list_tools()).tools) == 15


async def test_a_missing_extra_is_reported_with_the_install_command(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as u\nfind = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'mcp' else find(name, *a)\n"
    )
    python = os.pathsep.join(filter(None, [str(tmp_path), *sys.path]))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "flowdebate", "mcp", env=os.environ | {"PYTHONPATH": python}, stderr=-1, stdout=-1
    )
    out, errors = await asyncio.wait_for(process.communicate(), 60)
    assert (process.returncode, out) == (2, b"")
    assert b'pip install "flowdebate[mcp]"' in errors
    assert b"Traceback" not in errors


# a minimal client for a process that the test may kill


async def serve(folder: Path, **options: Any) -> Process:
    """Start the server and complete the handshake."""
    started = parameters(folder)
    process = await asyncio.create_subprocess_exec(
        started.command,
        *started.args,
        env=os.environ | (started.env or {}),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=10_000_000,
        **options,
    )
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    await request(process, "initialize", params)
    await send(process, {"jsonrpc": "2.0", "method": "notifications/initialized"})
    return process


async def send(process: Process, message: dict[str, Any]) -> None:
    """Write one message."""
    assert process.stdin is not None
    process.stdin.write(json.dumps(message).encode() + b"\n")
    await process.stdin.drain()


async def request(process: Process, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Send a request and return its result."""
    assert process.stdout is not None
    await send(process, {"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    answer = json.loads(await process.stdout.readline())
    result: dict[str, Any] = answer["result"]
    return result


async def call(process: Process, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Call a tool and return its structured output."""
    result = await request(process, "tools/call", {"name": tool, "arguments": arguments})
    output: dict[str, Any] = result["structuredContent"]
    return output


def test_an_application_is_found_by_its_path(tmp_path: Path) -> None:
    """The host may start the server in any directory, and the application may import sibling modules."""
    (tmp_path / "sides_of_trams.py").write_text("STANCE = 'build trams'\n")
    (tmp_path / "debates_of_trams.py").write_text(
        "from sides_of_trams import STANCE\nfrom flowdebate.service import Service\n"
        "def service():\n    return Service(store='memory:', model='scripted')\n"
    )
    before = [*sys.path]
    try:
        spec = f"{tmp_path / 'debates_of_trams.py'}:service"
        assert load_object(spec, Service, location="test").model_name == "scripted"
        with pytest.raises(ConfigurationError, match="refers to a file that does not exist"):
            load_object(f"{tmp_path / 'nothing.py'}:service", Service, location="test")
    finally:
        sys.path[:] = before
