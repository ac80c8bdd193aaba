"""Send hostile documents to a server, an MCP server and the command line: `python -m tests.soak.documents`.

All documents are sent concurrently in random order while a simulated user opens pages and starts runs with plain-text
and document sources. No request may be delayed for long, no process may exceed its memory limit, every rejection must
be a sentence about the file, and no child process may be left behind. The summary goes to stdout; the exit code is 1 if
a promise was broken.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from tests.cli.stage import COMMAND
from tests.processes import start_process
from tests.server.stage import BRIEF
from tests.server.test_serve import make_client
from tests.sources.hostile import cases, docx, html, paragraph

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ("MAX_WAIT", "Attack", "main")

FLOWDEBATE = (sys.executable, "-c", COMMAND)
"""Command line that starts flowdebate in a separate process."""
APPLICATION = """
from flowdebate.service.service import Service
from flowdebate.testing import FunctionModel


async def answer(request):
    if request.output_schema is not None:
        return {"reasoning": "Both have a point.", "winner": None, "verdict": "Wait a week."}
    return f"{request.block} is sure."


def service():
    return Service(store="memory:", model=FunctionModel(answer))
"""
MAX_WAIT = 1.0
"""Maximum time in seconds that a user may wait for a page, or for a run with a plain-text source to start."""
MAX_SERVER_MEGABYTES = 500
"""Maximum memory of a server, in megabytes."""
MAX_CHILD_MEGABYTES = 400
"""Maximum memory of a child process, in megabytes."""
_TAKEN_BY_MCP = 2_000_000
"""Minimum document size in bytes that the MCP server must accept in a request."""
_JSON = {"content-type": "application/json"}
_PATIENCE = 200.0
"""Timeout in seconds for the answer to a hostile document, including its time in the queue."""


def url(data: bytes) -> str:
    """Encode a file as a data URL for a request."""
    return f"data:application/octet-stream;base64,{base64.b64encode(data).decode()}"


def read_field(pid: int, name: str) -> int:
    """Return a field of a process's status, or 0 if the process has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text("ascii", errors="replace")
    except OSError:
        return 0
    match = re.search(rf"^{name}:\s+(\d+)", status, re.MULTILINE)
    return 0 if match is None else int(match[1])


def list_descendants(pid: int) -> set[int]:
    """Return all descendants of a process."""
    parents = {
        int(entry.name): read_field(int(entry.name), "PPid")
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit()
    }
    pids = {pid}
    while more := {child for child, parent in parents.items() if parent in pids} - pids:
        pids |= more
    return pids - {pid}


@dataclass
class Attack:
    """Results of an attack."""

    documents: list[tuple[str, bytes]]
    """Corpus of documents."""
    random: Random
    bodies: dict[str, bytes] = field(default_factory=dict)
    """Request bodies with the documents, built in advance because the simulated user shares this process."""
    answers: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    waits: dict[str, float] = field(default_factory=dict)
    """Longest wait per user action."""
    memory: dict[str, int] = field(default_factory=dict)
    """Peak memory in megabytes of each server and of the child processes."""
    children: set[int] = field(default_factory=set)
    """All child processes seen."""
    over: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        for name, data in self.documents:
            body = {**BRIEF, "options": {"max_rounds": 1, "sources": {name: url(data)}}}
            self.bodies[name] = json.dumps(body).encode()

    def shuffled(self) -> list[tuple[str, bytes]]:
        """Return the corpus in random order."""
        return self.random.sample(self.documents, len(self.documents))

    def took(self, action: str, start: float) -> None:
        """Record a duration."""
        self.waits[action] = max(self.waits.get(action, 0.0), round(time.monotonic() - start, 3))

    def judge(self, door: str, name: str, text: str, *, refused: bool) -> None:
        """Count an answer, and check that a rejection is a sentence about the file."""
        self.answers[f"{door}: {'refused' if refused else 'read'}"] += 1
        if refused and name not in text:
            self.problems.append(f"{door}, {name}: {text[:300]}")
        if "Traceback" in text:
            self.problems.append(f"{door}, {name}: a traceback: {text[-600:]}")

    def run(self, call: Callable[..., None], *arguments: Any) -> threading.Thread:
        """Run a function in a separate thread and record any exception as a problem."""

        def guarded() -> None:
            try:
                call(*arguments)
            except Exception:  # noqa: BLE001 - it is what is looked for
                self.problems.append(traceback.format_exc(limit=-3))

        thread = threading.Thread(target=guarded, daemon=True)
        thread.start()
        return thread

    # Interfaces under attack

    def by_http(self, http: httpx2.Client, names: Sequence[str]) -> None:
        """Send documents to the server."""
        for name in names:
            answer = http.post("/api/v1/runs", content=self.bodies[name], headers=_JSON, timeout=_PATIENCE)
            if answer.status_code not in (201, 422):
                self.problems.append(f"HTTP, {name}: {answer.status_code} {answer.text[:200]}")
            self.judge("HTTP", name, answer.text, refused=answer.status_code != 201)

    def by_mcp(self, address: str, token: str) -> None:
        """Send documents to the MCP server."""

        async def bring() -> None:
            http = httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}, timeout=_PATIENCE)
            async with http, Client(streamable_http_client(address, http_client=http)) as host:
                for name, data in self.shuffled():
                    brief = {"question": "Should we ship?", "max_rounds": 1, "sources": {name: url(data)}, "wait": 0}
                    try:
                        answer = await host.call_tool("start_debate", brief)
                    except MCPError as error:  # a transport error: the server did not accept the request
                        self.answers["MCP: not taken"] += 1
                        if len(data) < _TAKEN_BY_MCP:
                            self.problems.append(f"MCP, {name}: {error}")
                        continue
                    self.judge("MCP", name, str(answer.content), refused=bool(answer.is_error))

        asyncio.run(bring())

    def by_command(self, folder: Path) -> None:
        """Pass documents on the command line. Readable ones are sent to an unreachable model."""
        for name, data in self.shuffled():
            (folder / name).write_bytes(data)
            nowhere = ["--model", "nobody", "--base-url", "http://127.0.0.1:9/v1", "--attempts", "1", "--no-store"]
            command = [*FLOWDEBATE, "debate", "Should we ship?", "--source", name, *nowhere]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_PATIENCE, check=False)  # noqa: S603
            self.judge("command", name, " ".join(done.stderr.split()), refused=done.returncode == 2)
            (folder / name).unlink()

    # Simulated user and monitoring

    def as_user(self, http: httpx2.Client, pages: str) -> None:
        """Repeat the actions of a user."""
        good = docx("".join(paragraph(f"In district {number} rents rose.") for number in range(200)))

        def begin(sources: dict[str, str]) -> httpx2.Response:
            return http.post("/api/v1/runs", json={**BRIEF, "options": {"max_rounds": 1, "sources": sources}})

        doings: dict[str, Callable[[], httpx2.Response]] = {
            "health": lambda: http.get("/api/v1/health"),
            "models": lambda: http.get("/api/v1/models"),
            "runs": lambda: http.get("/api/v1/runs"),
            "page": lambda: http.get(f"{pages}/"),
            "form": lambda: http.get(f"{pages}/new"),
            "run with a text": lambda: begin({"memo": "Rents rose."}),
            "run with a document": lambda: begin({"report.docx": url(good)}),
        }
        warm = False
        while not self.over.is_set():
            for action, do in doings.items():
                start = time.monotonic()
                answer = do()
                if warm:
                    self.took(action, start)
                if answer.status_code >= 300:
                    self.problems.append(f"the user: {action}: {answer.status_code} {answer.text[:200]}")
            warm = True
            self.over.wait(0.1)

    def watch(self, servers: dict[str, int]) -> None:
        """Monitor the memory of all processes."""
        while not self.over.wait(0.25):
            for name, pid in servers.items():
                self.memory[name] = max(self.memory.get(name, 0), read_field(pid, "VmHWM") // 1_000)
            for child in list_descendants(os.getpid()) - set(servers.values()):
                if b"flowdebate.sources.documents" in _command_of(child):
                    self.children.add(child)
                    self.memory["a child"] = max(self.memory.get("a child", 0), read_field(child, "VmHWM") // 1_000)

    def check(self) -> None:
        """Return the broken promises."""
        self.problems += [
            f"{action} took {wait} s" for action, wait in self.waits.items() if wait > _BOUNDS.get(action, MAX_WAIT)
        ]
        for name, megabytes in self.memory.items():
            if megabytes > (MAX_CHILD_MEGABYTES if name == "a child" else MAX_SERVER_MEGABYTES):
                self.problems.append(f"{name} took {megabytes} MB")
        ends = time.monotonic() + 5
        while (survivors := {child for child in self.children if _command_of(child)}) and time.monotonic() < ends:
            time.sleep(0.05)
        if survivors:
            self.problems.append(f"{len(survivors)} processes were left behind")


_BOUNDS = {"run with a document": 20.0}
"""Maximum time in seconds for actions that queue behind documents; each document occupies a slot for at
most a second.
"""


def _command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@contextmanager
def server(folder: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """Start a server from the command line and yield its address and token."""
    environment = {**os.environ, "XDG_DATA_HOME": str(folder)}
    pipes: dict[str, Any] = {"stderr": subprocess.PIPE, "stdout": subprocess.DEVNULL, "text": True}
    with start_process(
        [*FLOWDEBATE, *arguments, "--app", "application:service"], cwd=folder, env=environment, **pipes
    ) as process:
        assert process.stderr is not None
        match = None
        while match is None:
            line = process.stderr.readline()
            assert line, "the server has ended"
            match = re.search(r"Serving (http://\S+?)(?:/\?token=| with the header Authorization: Bearer )(\S+)", line)
        threading.Thread(target=process.stderr.read, daemon=True).start()
        yield process, match[1], match[2]
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


def run_attack(documents: list[tuple[str, bytes]], *, seed: int, clients: int) -> Attack:
    """Send all documents to all interfaces concurrently while a user is active."""
    from flowdebate.server.guard import browser_root

    run = Attack(documents, Random(seed))
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        (folder / "application.py").write_text(APPLICATION)
        web, address, token = stack.enter_context(server(folder, "serve", "--port", "0"))
        mcp, mcp_address, mcp_token = stack.enter_context(server(folder, "mcp", "--http", "--port", "0"))
        clients_of = [stack.enter_context(make_client(address, token)) for _ in range(clients + 1)]
        order = [name for name, _ in run.shuffled()]
        threads = [
            run.run(run.as_user, clients_of[0], address + browser_root(token)),
            run.run(run.watch, {"the server": web.pid, "the MCP server": mcp.pid}),
        ]
        attackers = [
            *(run.run(run.by_http, http, order[number::clients]) for number, http in enumerate(clients_of[1:])),
            run.run(run.by_mcp, mcp_address, mcp_token),
            run.run(run.by_command, folder),
        ]
        for thread in attackers:
            thread.join()
        run.over.set()
        for thread in threads:
            thread.join()
        for process in (web, mcp):
            if process.poll() is not None:
                run.problems.append(f"a server ended with {process.returncode}")
    run.check()
    return run


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.documents", description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="only each nth document")
    parser.add_argument("--clients", type=int, default=8, help="requests to the server at once")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    # the name serves as a file name and a source name, so it must not contain the spaces in `kind`
    documents = [(f"{kind.replace(' ', '-')}-{name}", make()) for kind, name, make in cases()[:: options.every]]
    documents.append(("harmless.html", html("<p>Trams are quiet.</p>")))
    start = time.monotonic()
    run = run_attack(documents, seed=options.seed, clients=options.clients)
    summary = {
        **run.answers,
        "longest waits": run.waits,
        "memory in MB": run.memory,
        "children": len(run.children),
    }
    sys.stdout.write(
        json.dumps({**summary, "seconds": round(time.monotonic() - start), "problems": run.problems}, indent=1)
    )
    return 1 if run.problems else 0


if __name__ == "__main__":
    sys.exit(main())
