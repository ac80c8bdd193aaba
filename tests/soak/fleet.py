"""Chaos testing of a fleet: debates of two owners, started over HTTP and executed by workers while everything crashes.

    python -m tests.soak.fleet [--runs 500] [--workers 3] [--seed N]

Workers and servers are killed or stopped with SIGTERM and replaced, PostgreSQL is restarted, the provider is
unavailable for a minute, the version is upgraded, and one run kills each worker that executes it. In the end, every
accepted run must be complete, except the poison run, which must be a dead letter. No recorded answer may have been
requested again, and no other run may have been abandoned. The table is always printed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from random import Random
from typing import Any

import httpx2

from tests.store.postgres import Server
from tests.workers.conftest import ROOT
from tests.workers.fleet import make_workers, model_server

__all__ = ("main", "service")

TOKEN = "a-token-of-this-soak-test"  # noqa: S105 - it opens nothing else
OWNERS = ("ann", "bob")
LATER = 2 * 10**6
"""Index of the only run whose owner arrives once the others have a backlog."""
CALLS = 5


def service() -> Any:
    """Return the service of a server process, which submits its runs to the workers."""
    from flowdebate.service.service import Service

    return Service(workers=make_workers(**json.loads(os.environ["FLEET"])), poll=0.5)


class Chaos:
    """The processes of a fleet and the faults injected into them."""

    def __init__(self, database: Server, port: int, *, workers: int, seed: int) -> None:
        self.random = Random(seed)
        self.given: dict[str, Any] = {
            "url": database.url,
            "schema": "soak",
            "port": port,
            "name": "soak-fleet",
            "poll": 0.3,
        }
        self.database = database
        self.version = "1"
        self.wanted = {"1": workers}
        """How many workers of each version there are to be."""
        self.alive: dict[str, list[subprocess.Popen[bytes]]] = {}
        self.server: subprocess.Popen[bytes] | None = None
        self.url = ""
        self.counts: Counter[str] = Counter()
        self.killed: list[tuple[float, int]] = []
        """When a worker was killed, and its process."""
        self.log: list[tuple[float, str]] = []
        self.ended = False
        self.backlog = 0
        """How many runs waited when the last owner came."""

    @property
    def workers(self) -> list[subprocess.Popen[bytes]]:
        """Return a workers object connected to the fleet's queue."""
        return [worker for group in self.alive.values() for worker in group]

    def supervise(self) -> None:
        """Replace workers that have exited, as an orchestrator would."""
        command = [sys.executable, "-m", "flowdebate.workers", "tests.workers.fleet:workers", "--patience", "10"]
        for version, number in self.wanted.items():
            before = self.alive.get(version, [])
            after = [worker for worker in before if worker.poll() is None]
            self.counts["workers that died of SIGKILL"] += sum(
                worker.returncode == -signal.SIGKILL for worker in before
            )
            environment = os.environ | {"FLEET": json.dumps(self.given | {"version": version})}
            while len(after) < number and not self.ended:
                after.append(subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.DEVNULL))  # noqa: S603
            self.alive[version] = after

    async def start_server(self) -> None:
        """Start the current version of the server, on the port of the previous one."""
        token = ROOT / "build" / "soak-fleet-token"
        token.parent.mkdir(exist_ok=True)
        token.write_text(TOKEN)
        port = self.url.rpartition(":")[2] or "0"
        environment = os.environ | {"FLEET": json.dumps(self.given | {"version": self.version})}
        command = [sys.executable, "-m", "flowdebate", "serve", "--app", "tests.soak.fleet:service", "--port", port]
        self.server = subprocess.Popen(  # noqa: ASYNC220, S603
            [*command, "--token-file", str(token)], cwd=ROOT, env=environment, stderr=subprocess.PIPE
        )
        assert self.server.stderr is not None
        while not self.url:
            line = (await asyncio.to_thread(self.server.stderr.readline)).decode()
            assert line, "the server has ended"
            if line.startswith("Serving "):
                self.url = line.split()[1].rstrip("/")

    def kill_worker(self) -> None:
        """Kill a random worker with SIGKILL."""
        victim = self.random.choice(self.workers)
        victim.kill()
        self.log.append((time.time(), f"worker {victim.pid} killed"))
        self.killed.append((time.time(), victim.pid))
        self.counts["workers killed"] += 1

    def stop_worker(self) -> None:
        """Stop a random worker with SIGTERM."""
        self.random.choice(self.workers).terminate()
        self.counts["SIGTERMs"] += 1

    async def kill_server(self) -> None:
        """Kill the server with SIGKILL and start a new one."""
        assert self.server is not None
        self.server.kill()
        await asyncio.to_thread(self.server.wait)
        await self.start_server()
        self.counts["servers killed"] += 1

    async def stop_database(self) -> None:
        """Take PostgreSQL down for two seconds."""
        mode = self.random.choice(("fast", "immediate"))
        self.log.append((time.time(), f"PostgreSQL stopped ({mode})"))
        await asyncio.to_thread(self.database.stop, mode)
        await asyncio.sleep(2)
        await asyncio.to_thread(self.database.start)
        self.log.append((time.time(), "PostgreSQL started"))
        self.counts["PostgreSQL stopped"] += 1

    def end(self) -> None:
        """End all processes."""
        self.ended = True
        for worker in (*self.workers, *([] if self.server is None else [self.server])):
            if worker.poll() is None:
                worker.kill()
            worker.wait()


async def begin_run(chaos: Chaos, number: int, accepted: dict[str, str], pattern: str = "city") -> None:
    """Start a run, retrying until a server accepts it. The run id makes retries safe."""
    owner, run_id = "eve" if number == LATER else OWNERS[number % 2], f"{pattern}-{number}"
    body = {"pattern": pattern, "question": f"Question {number}?", "runId": run_id, "labels": {"owner": owner}}
    while True:
        with suppress(httpx2.TransportError):
            async with httpx2.AsyncClient(trust_env=False, verify=False, timeout=30) as http:
                headers = {"authorization": f"Bearer {TOKEN}"}
                answer = await http.post(f"{chaos.url}/api/v1/runs", json=body, headers=headers)
                if answer.is_success:
                    accepted[run_id] = answer.json()["status"]
                    return
                assert answer.status_code in (429, 503), answer.text
        await asyncio.sleep(0.3)


async def soak(runs: int, workers: int, seed: int) -> bool:
    """Run the chaos, print its table, and return whether all promises were kept."""
    async with model_server(0.2) as models:
        with Server() as database:
            chaos = Chaos(database, models.port, workers=workers, seed=seed)
            try:
                return await _soak(chaos, models, runs)
            finally:
                chaos.end()


async def _soak(chaos: Chaos, models: Any, runs: int) -> bool:  # noqa: C901 - one scene after the other
    start, accepted = time.time(), dict[str, str]()
    await chaos.start_server()
    chaos.supervise()

    async def supervise() -> None:
        while True:
            await asyncio.to_thread(chaos.supervise)
            await asyncio.sleep(0.5)

    async def begin_all() -> None:
        limit = asyncio.Semaphore(6)

        async def one(number: int) -> None:
            async with limit:
                await begin_run(chaos, number, accepted)

        await asyncio.gather(*(one(number) for number in range(runs)))

    supervising, beginning = asyncio.ensure_future(supervise()), asyncio.ensure_future(begin_all())
    await begin_run(chaos, 10**6, accepted, "poison")  # no other run has this question
    while len(accepted) < runs // 2:  # noqa: ASYNC110 - other tasks add to it
        await asyncio.sleep(0.1)
    async with httpx2.AsyncClient(trust_env=False, verify=False, timeout=30) as http:
        headers = {"authorization": f"Bearer {TOKEN}"}
        chaos.backlog = (await http.get(f"{chaos.url}/api/v1/queue", headers=headers)).json()[0]["waiting"]
    await begin_run(chaos, LATER, accepted)
    for step in range(12):
        await asyncio.sleep(8)
        chaos.kill_worker()
        if step % 4 == 1:
            await chaos.kill_server()
        if step % 4 == 2:
            await chaos.stop_database()
        if step % 4 == 3:
            chaos.stop_worker()
    models.away = True
    await asyncio.sleep(60)
    models.away = False
    chaos.counts["outages of the provider, 60 s"] += 1
    await beginning
    # The upgrade: new runs use another version, and the old version's workers are drained once its runs have ended.
    old = chaos.version
    chaos.version = "2"
    await chaos.kill_server()
    chaos.wanted["2"] = 1
    for number in range(runs, runs + 20):
        await begin_run(chaos, number, accepted)
    chaos.counts["upgrades"] += 1
    store = {version: make_workers(**chaos.given, version=version) for version in (old, "2")}
    try:
        return await _judge(chaos, models, accepted, store[old], start, supervising)
    finally:
        supervising.cancel()
        for row in store.values():
            await row.close()


async def _judge(  # noqa: C901 - one line of the table after the other
    chaos: Chaos, models: Any, accepted: dict[str, str], workers: Any, start: float, supervising: asyncio.Task[None]
) -> bool:
    ends = time.time() + 240 + len(accepted) * 0.5
    stored: dict[str, Any] = {}
    while time.time() < ends:
        runs = await workers.store.runs(labels={}, brief=True)
        stored = {run.header.run_id: run for run in runs}
        states = Counter(run.status for run in stored.values())
        print(f"{time.time() - start:4.0f} s", dict(states), flush=True)  # noqa: T201
        if all(stored[run_name].status in ("complete", "dead_letter") for run_name in accepted if run_name in stored):
            break
        await asyncio.sleep(5)
    supervising.cancel()
    lost = [run_name for run_name in accepted if run_name not in stored]
    poison = [run_name for run_name in accepted if run_name.startswith("poison")]
    stuck = [
        run_name
        for run_name in accepted
        if run_name in stored and stored[run_name].status != "complete" and run_name not in poison
    ]
    counted = [run_name for run_name in stuck if stored[run_name].status == "dead_letter"]
    recorded: dict[str, float] = {}
    for run_id in accepted:
        for row in await workers.store.steps(run_id):
            if row.request is not None and row.at is not None:
                recorded[row.request] = row.at
    paid_twice = [call for call in models.requests if call.at > recorded.get(call.digest, float("inf")) + 0.6]
    call_count = len([call for call in models.requests if not call.block.startswith("poison")])
    taken_over = []
    for call in paid_twice:
        times = [
            f"{repetition.at - start:.1f} ({repetition.process})"
            for repetition in models.requests
            if repetition.digest == call.digest
        ]
        print(call.block, f"recorded {recorded[call.digest] - start:.1f}, asked", *times)  # noqa: T201
    print("\n".join(f"{at - start:.1f} {action}" for at, action in chaos.log))  # noqa: T201
    for at, process in chaos.killed:
        last = {call.digest for call in models.requests if call.process == process and at - 2 < call.at <= at}
        repeats = [
            call.at - at for call in models.requests if call.digest in last and call.at > at and call.process != process
        ]
        if repeats:
            taken_over.append(min(repeats))
    later = stored[f"city-{LATER}"]
    before = [run for run in stored.values() if later.header.created_at < run.updated_at < later.updated_at]
    given_up = stored[poison[0]].status if poison[0] in stored else "lost"
    table = {
        "debates accepted": len(accepted),
        **chaos.counts,
        "lost": len(lost),
        "stuck": len(stuck),
        "paid twice (asked again 0.6 s after the answer was recorded)": len(paid_twice),
        "neighbours counted as dead letters": len(counted),
        "poison run": given_up,
        "the one run of an owner who came later": f"behind {chaos.backlog} that waited; {len(before)} ended before it",
        "calls repeated": call_count - CALLS * (len(accepted) - len(poison)),
        "first repeated call after a kill, seconds": ", ".join(f"{seconds:.1f}" for seconds in sorted(taken_over))
        or "-",
        "seconds": round(time.time() - start),
    }
    print("\n| | |\n|---|---|")  # noqa: T201
    for name, value in table.items():
        print(f"| {name} | {value} |")  # noqa: T201
    for run_name in stuck[:10]:
        print(run_name, stored[run_name].status, (stored[run_name].outcome or {}).get("error"))  # noqa: T201
    return not (lost or stuck or paid_twice or counted) and given_up == "dead_letter"


def main() -> int:
    """Run the soak, and return exit status 0 if all promises were kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    return 0 if asyncio.run(soak(options.runs, options.workers, options.seed)) else 1


if __name__ == "__main__":
    sys.exit(main())
