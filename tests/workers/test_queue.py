"""The state of a queue in Python, over HTTP, on the command line, and as gauges."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from flowdebate.errors import StoreError
from flowdebate.runs.queue_state import priority_of
from flowdebate.service.service import Service
from flowdebate.telemetry import names
from tests import warm
from tests.cli.stage import COMMAND
from tests.service.test_queued_runs import serve_http
from tests.telemetry.watched import Watched
from tests.workers.conftest import ROOT, poll_until
from tests.workers.test_workers import wait_for_end

if TYPE_CHECKING:
    from tests.store.postgres import Server
    from tests.workers.conftest import Fleet

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]


async def show_queue(fleet: Fleet, *arguments: str) -> str:
    """Return what `flowdebate runs queue` prints."""
    environment = os.environ | {"FLEET": json.dumps(fleet.given)}
    command_line = (COMMAND, "runs", "queue", "tests.workers.fleet:workers", *arguments)
    return (await asyncio.to_thread(warm.run_warm, *command_line, cwd=ROOT, env=environment)).stdout


async def test_operator_sees_the_queue_and_its_workers(fleet: Fleet) -> None:
    watched = Watched()
    workers = fleet.workers(max_concurrency=1, observe=watched.observe)
    empty = await workers.overview()
    assert (empty.waiting, empty.oldest, empty.versions, empty.workers) == (0, None, (), ())
    fleet.models.answering.clear()
    ids = [await workers.submit("city", f"Question {number}?") for number in range(3)]
    await fleet.workers(version="2").submit("city", "How?")
    async with fleet.working(workers):
        await fleet.models.until(1)
        state = await poll_until(wait_for_worker(workers))
        assert (state.queue, state.waiting, state.running, state.rejected) == (workers.name, 3, 1, 0)
        versions = [(version.version, version.waiting, version.running, version.workers) for version in state.versions]
        assert versions == [("1", 2, 1, 1), ("2", 1, 0, 0)]
        assert 0 < (state.oldest or 0) < 60
        assert [(worker.version, worker.running) for worker in state.workers] == [("1", 1)]
        async with serve_http(Service(workers=workers)) as http:
            (overview,) = (await http.get("/queue")).json()
            assert (overview["waiting"], overview["workers"][0]["worker"]) == (3, state.workers[0].worker)
        printed = await show_queue(fleet)
        assert "3 waiting, the oldest for" in printed
        assert state.workers[0].worker in printed
        assert json.loads(await show_queue(fleet, "--json"))["running"] == 1
        gauges = watched.totals()
        attributes = f"queue.name={workers.name}, version"
        assert gauges[names.QUEUED] == {f"{attributes}=1": 2, f"{attributes}=2": 1}
        assert gauges[names.WORKERS] == {f"{attributes}=1": 1, f"{attributes}=2": 0}
        assert set(gauges[names.GIVEN_UP].values()) == {0}
        fleet.models.answering.set()
        for run_id in ids:
            await wait_for_end(workers, run_id)
    assert (await workers.overview()).workers == ()


def wait_for_worker(workers: Any) -> Any:
    """Wait for a worker to register, then return the state of the queue."""

    async def ask() -> Any:
        state = await workers.overview()
        return state if state.workers else None

    return ask


async def test_matching_runs_can_be_resumed_on_the_command_line(fleet: Fleet) -> None:
    workers = fleet.workers()
    run_id = await workers.submit("city", f"{workers.name}?", labels={"team": workers.name})
    other_run = await workers.submit("city", f"{workers.name}!")
    assert "1 run cancelled" in await show_queue(fleet, "cancel", "--label", f"team={workers.name}")
    assert (await workers.status(other_run)).status == "queued"
    assert (await workers.status(run_id)).status == "interrupted"
    assert "1 run resumed" in await show_queue(fleet, "resume", "--status", "interrupted", "--text", workers.name)
    assert (await workers.status(run_id)).delivery == "waiting"


async def test_run_can_be_submitted_on_the_command_line(fleet: Fleet) -> None:
    workers = fleet.workers()
    name = f"{workers.name}-told"
    command_line = ("submit", "How?", "--pattern", "city", "--run-id", name, "--priority", "7", "--label", "owner=ann")
    assert f"Run {name} is queued." in await show_queue(fleet, *command_line)
    assert json.loads(await show_queue(fleet, *command_line, "--json")) == {"runId": name}
    header = (await workers.store.run(name)).header
    assert (header.input, header.labels, priority_of(header)) == ("How?", {"owner": "ann"}, 7)
    assert len(await asyncio.to_thread(workers.queue.of, name)) == 1
    async with fleet.working(workers):
        assert (await wait_for_end(workers, name)).status == "complete"


async def test_version_without_live_workers_is_reported(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting clients get an error, but the run stays in the queue for a worker of its version."""
    monkeypatch.setattr("flowdebate.workers.reaper.STRANDED", 0.5)
    old, new = fleet.workers(), fleet.workers(version="2")
    run_id = await old.submit("city", "How?")
    async with Service(workers=old, poll=0.05) as service:
        async with fleet.working(new):
            ended = await service.wait(run_id, 20)
        assert ended.status == "rejected"
        assert ended.problem == "no worker with version '1' is alive, only workers with '2'"
        assert (await old.overview()).rejected == 1
        async with fleet.working(old):
            assert (await wait_for_end(old, run_id)).status in ("rejected", "complete")
            assert await poll_until(lambda: is_complete(old, run_id))


async def is_complete(workers: Any, run_id: str) -> bool:
    """Return whether the run is complete."""
    return bool((await workers.status(run_id)).status == "complete")


async def test_rejected_run_ends_all_waits(fleet: Fleet) -> None:
    """Lists of runs show the reason.

    Clients that follow the run see it end, even if it was already in progress when it was rejected.
    """
    workers, wrong = fleet.workers(), fleet.workers(patterns={"other": fleet.workers().patterns["city"]})
    fleet.models.answering.clear()
    fleet.models.free = 1
    run_id = await workers.submit("city", "How?", labels={"of": fleet.given["name"]})
    async with fleet.working(workers, patience=0.01):
        await fleet.models.until(2)
    async with Service(workers=workers, poll=0.05) as service:
        async with fleet.working(wrong):
            async for update in service.follow(run_id):
                last = update
        assert last.kind == "end"
        (listed,) = (await service.runs(labels={"of": fleet.given["name"]})).runs
        assert (listed.status, listed.steps) == ("rejected", 1)
        assert "must include city" in (listed.error or "")
        fleet.models.answering.set()
        assert [run.run_id for run in (await service.resume_all(status="rejected")).runs] == [run_id]
        async with fleet.working(workers):
            assert (await wait_for_end(workers, run_id)).status == "complete"


async def test_server_is_ready_while_its_store_responds(fleet: Fleet, postgres_server: Server) -> None:
    async with serve_http(Service(workers=fleet.workers())) as http:
        assert (await http.get("/ready", headers={"authorization": ""})).status_code == 200
        await asyncio.to_thread(postgres_server.stop)
        try:
            async with asyncio.timeout(3):
                assert (await http.get("/ready")).status_code == 503
            assert (await http.get("/health")).status_code == 200
            with pytest.raises(StoreError):
                await fleet.workers(url="postgresql://127.0.0.1:1/nothing").overview()
        finally:
            await asyncio.to_thread(postgres_server.start)

        async def ready() -> bool:
            return (await http.get("/ready")).status_code == 200

        await poll_until(ready)


async def test_worker_waits_for_its_database_and_reports_its_health(
    fleet: Fleet, postgres_server: Server, free_port: int
) -> None:
    run_id = await fleet.workers().submit("city", "How?")
    await asyncio.to_thread(postgres_server.stop)
    process = fleet.process("--log-json", "--health", str(free_port))
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{free_port}", trust_env=False, verify=False) as http:

        async def asked(path: str) -> int:
            try:
                return (await http.get(path)).status_code
            except httpx2.TransportError:
                return 0

        async def ready() -> bool:
            return await asked("/ready") == 200

        try:
            assert await poll_until(lambda: asked("/health")) == 200
            assert await asked("/ready") == 503
        finally:
            await asyncio.to_thread(postgres_server.start)
        await poll_until(ready)
    assert (await wait_for_end(fleet.workers(), run_id)).status == "complete"
    process.terminate()
    assert await asyncio.to_thread(process.wait, 30) == 0
    log = [json.loads(line) for line in fleet.logs(process)]
    assert any("is waiting for its database" in record["message"] for record in log)


async def test_database_that_denies_access_is_not_awaited(fleet: Fleet, postgres_server: Server) -> None:
    with pytest.raises(StoreError, match="nobody"):
        await fleet.workers(url=postgres_server.url.rpartition("/")[0] + "/nobody").work(asyncio.Event())


@pytest.fixture
def free_port() -> int:
    """Return an unused port."""
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        port: int = opened.getsockname()[1]
        return port
