"""Throughput of workers against the ideal, with and without 10,000 waiting runs (PostgreSQL: scripts/postgres install).

Each debate makes five calls, which a server answers after half a second, and a worker executes eight debates at once.
If only the model took time, a worker could make 16 calls per second. Each row counts the calls between the first and
the last of its debates; CPU time is that of the worker processes, and of PostgreSQL with all its processes.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import psycopg
from postgres_server import Server, Unavailable

from report import print_table
from tests.workers.fleet import make_workers, model_server

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.workers.fleet import ModelServer

_ROOT = Path(__file__).resolve().parents[2]
_CALLS, _SECONDS, _PLACES, _BACKLOG, _AT_ONCE = 5, 0.5, 8, 10_000, 16
_TICKS = os.sysconf("SC_CLK_TCK")


async def measured(server: Server, models: ModelServer, *, workers: int, debates: int, waiting: int = 0) -> list[str]:
    """Measure a row: `debates` runs by one owner, then `waiting` more of them, then one run by another owner."""
    options: dict[str, Any] = {"url": server.url, "schema": f"fleet_{workers}_{waiting}", "port": models.port}
    options |= {"name": f"fleet-{workers}-{waiting}", "max_concurrency": _PLACES, "poll": 0.3}
    fleet = make_workers(**options)
    for number in range(debates):
        await fleet.submit("city", f"Question {number}?", run_id=f"ann-{number}", labels={"owner": "ann"})
    for first in range(0, waiting, _AT_ONCE):
        rest = range(first, min(first + _AT_ONCE, waiting))
        await asyncio.gather(
            *(fleet.submit("city", f"Later {question}?", labels={"owner": "ann"}) for question in rest)
        )
    start = time.perf_counter()
    await fleet.submit("city", "And mine?", run_id="bob", labels={"owner": "bob"})
    submitted = time.perf_counter() - start
    postmaster = _postmaster(server.url, analyze=waiting > 0)
    models.requests.clear()
    processes = _started(workers, options)
    try:
        await _asked(models, 1)
        used = _cpu(worker.pid for worker in processes), _cpu_of_tree(postmaster)
        await _asked(models, _CALLS * (debates + 1))
        calls, last = len(models.requests), models.requests[-1].at
        now = _cpu(worker.pid for worker in processes), _cpu_of_tree(postmaster)
        await asyncio.sleep(2 * _SECONDS)
        ended = sorted(await fleet.store.runs(status="complete", brief=True), key=lambda run: run.updated_at)
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            await asyncio.to_thread(process.wait)  # in a thread, because calls in flight still have to be answered
        await fleet.close()
    rate, ideal = calls / (last - models.requests[0].at + _SECONDS), workers * _PLACES / _SECONDS
    place = [run.header.run_id for run in ended].index("bob") + 1
    spent = [f"{1_000 * (after - before) / calls:.1f} ms" for before, after in zip(used, now, strict=True)]
    head = [str(workers), f"{debates + waiting:,}", f"{rate:.1f}", f"{ideal:.0f}", f"{rate / ideal:.2f}"]
    return [*head, *spent, f"{1_000 * submitted:.0f} ms", str(place)]


def _started(number: int, options: dict[str, Any]) -> list[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "flowdebate.workers", "tests.workers.fleet:workers"]
    env = os.environ | {"FLEET": json.dumps(options)}
    return [subprocess.Popen(command, cwd=_ROOT, env=env, stderr=subprocess.DEVNULL) for _ in range(number)]  # noqa: S603


def _postmaster(url: str, *, analyze: bool) -> int:
    """Return PostgreSQL's parent process; `analyze` does what autovacuum would do within a minute."""
    with psycopg.connect(url, autocommit=True) as connection:
        if analyze:
            connection.execute("ANALYZE")
        ((folder,),) = connection.execute("SHOW data_directory").fetchall()
    return int(Path(folder, "postmaster.pid").read_text().splitlines()[0])


async def _asked(models: ModelServer, number: int) -> None:
    async with models.changed:
        await models.changed.wait_for(lambda: len(models.requests) >= number)


def _cpu(pids: Iterable[int]) -> float:
    return sum(sum(map(int, _stat(pid)[11:13])) / _TICKS for pid in pids)


def _cpu_of_tree(pid: int) -> float:
    """Return the CPU time of a process and its children, whether running or ended."""
    alive = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    children = [entry for entry in alive if (stat := _stat(entry)) and int(stat[1]) == pid]
    return sum(map(int, _stat(pid)[11:15])) / _TICKS + _cpu(children)


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # the process has just ended
        return []


async def _rows() -> list[list[str]]:
    async with model_server(_SECONDS) as models:
        with Server() as server:
            rows = [await measured(server, models, workers=workers, debates=48 * workers - 1) for workers in (1, 2, 4)]
            return [*rows, await measured(server, models, workers=1, debates=95, waiting=_BACKLOG)]


def main() -> None:
    """Print the table."""
    try:
        rows = asyncio.run(_rows())
    except Unavailable as error:
        print(f"Workers are not measured: {error}")
        return
    print_table(
        "Debates of five calls of half a second on workers with eight places each",
        [
            "workers",
            "runs before",
            "calls a second",
            "ideal",
            "ratio",
            "CPU a call",
            "PostgreSQL",
            "submit",
            "bob ends as",
        ],
        rows,
        note="The last columns: one more run of another owner, submitted behind all others.",
    )


if __name__ == "__main__":
    main()
