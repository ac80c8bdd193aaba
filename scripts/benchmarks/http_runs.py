"""Overhead of the HTTP server: 1,000 debates at once, the time to the first event, and readers of one run.

Server and client are separate processes on a real socket. Each debate makes 7 calls to a model that answers after 50
milliseconds with 640 characters.
"""

from __future__ import annotations

import asyncio
import os
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2

from flowdebate import Debater, debate
from flowdebate.server import create_app
from flowdebate.server.app import serve
from flowdebate.service import Service
from flowdebate.testing import FunctionModel
from overhead import NAMES, QUESTION, STANCES, VERDICT, distinct
from report import print_table

if TYPE_CHECKING:
    from typing import Self

    from flowdebate.testing import ModelRequest

DEBATES = 1_000
READERS = (0, 1, 64)
WAIT = 0.05
TOKEN = "a-token-for-one-benchmark"  # noqa: S105 - of this process
HEADERS = {"authorization": f"Bearer {TOKEN}"}


async def _serve(store: str) -> None:
    replies = distinct()

    async def answer(request: ModelRequest) -> Any:  # noqa: ANN401 - text or data
        await asyncio.sleep(WAIT)
        return VERDICT if request.output is not None else next(replies)

    sides = [Debater(name, STANCES[name]) for name in NAMES]
    power = debate(name="power", debaters=sides, max_rounds=2, synthesizer=False)
    service = Service({"power": power}, store=store, model=FunctionModel(answer), max_concurrency=DEBATES)
    app = create_app(service, token=TOKEN)
    await serve(app, port=0, started=lambda url, _: print(url, flush=True))


class Served:
    """Server in a separate process, with a new store."""

    async def __aenter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory()
        store = str(Path(self._folder.name) / "runs.sqlite3")
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, __file__, "serve", store, stdout=asyncio.subprocess.PIPE
        )
        assert self._process.stdout is not None  # noqa: S101 - asked for
        url = (await self._process.stdout.readline()).decode().strip()
        limits = httpx2.Limits(max_connections=DEBATES)
        self.http = httpx2.AsyncClient(base_url=f"{url}api/v1", headers=HEADERS, timeout=300, limits=limits)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.http.aclose()
        self._process.terminate()
        await self._process.wait()
        self._folder.cleanup()

    def cpu(self) -> float:
        """Return the CPU seconds used by the server."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    async def begin(self) -> str:
        """Begin a debate."""
        answer = await self.http.post("/runs", json={"pattern": "power", "question": QUESTION})
        answer.raise_for_status()
        run_id: str = answer.json()["runId"]
        return run_id

    async def read(self, run_id: str) -> tuple[float, int]:
        """Follow a debate to its end; return the time of the first event and the number of events."""
        first, events = 0.0, 0
        async with self.http.stream("GET", f"/runs/{run_id}/events") as response:
            async for line in response.aiter_lines():
                if line.startswith("event:"):
                    first, events = first or time.perf_counter(), events + 1
        return first, events

    async def end(self, run_id: str) -> str:
        """Wait for a debate to end, and return its status."""
        while True:
            run = (await self.http.get(f"/runs/{run_id}", params={"wait": 60})).json()
            if run["status"] != "running":
                return str(run["status"])


def allow_connections() -> None:
    """Raise the limit on file descriptors for client and server, because 1,024 are too few for 1,000 sockets."""
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))


async def many() -> list[object]:
    """Measure 1,000 debates that are in progress at the same time."""
    async with Served() as server:
        start = time.perf_counter()
        ids = await asyncio.gather(*(server.begin() for _ in range(DEBATES)))
        started = time.perf_counter() - start
        statuses = await asyncio.gather(*map(server.end, ids))
        elapsed = time.perf_counter() - start
        assert set(statuses) == {"complete"}, set(statuses)  # noqa: S101 - what the figure is for
        return [DEBATES, f"{started:.1f} s", f"{elapsed:.1f} s", f"{1000 * server.cpu() / DEBATES:.1f} ms"]


async def first_events() -> list[str]:
    """Measure the milliseconds from the request that starts a debate to its first event at the client."""
    async with Served() as server:
        latencies = []
        for _ in range(30):
            start = time.perf_counter()
            run_id = await server.begin()
            latencies.append(1000 * ((await server.read(run_id))[0] - start))
        return [f"{statistics.median(latencies):.1f} ms", f"{max(latencies):.1f} ms"]


async def followed() -> list[list[object]]:
    """Measure the server's CPU time for a debate with this many readers."""
    rows: dict[int, list[float]] = {readers: [] for readers in READERS}
    async with Served() as server:
        for _ in range(5):
            for readers in READERS:
                before = server.cpu()
                run_id = await server.begin()
                await asyncio.gather(*(server.read(run_id) for _ in range(readers)))
                await server.end(run_id)
                rows[readers].append(server.cpu() - before)
    medians = {readers: statistics.median(latencies) for readers, latencies in rows.items()}
    return [[readers, f"{1000 * cpu:.0f} ms", f"{cpu / medians[1]:.2f}"] for readers, cpu in medians.items()]


def main() -> None:
    """Print the tables."""
    allow_connections()
    print_table(
        "Debates at once over HTTP",
        ["debates", "all begun after", "all over after", "CPU of the server for each"],
        [asyncio.run(many())],
        note="7 calls of 50 ms each: without any cost a debate takes 0.35 s.",
    )
    print_table("Time to the first event", ["median of 30", "longest"], [asyncio.run(first_events())])
    print_table("Readers over HTTP", ["readers", "CPU of the server", "of one reader"], asyncio.run(followed()))


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        asyncio.run(_serve(sys.argv[2]))
    else:
        main()
