"""Debates on several worker processes that crash, stop or run another version."""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import pickle
import re
import signal
import time
from collections import Counter
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import Debater, debate
from flowdebate.errors import ConfigurationError, DeadLetter, RunExists, RunNotFound, StoreError
from flowdebate.service.service import Service
from flowdebate.store.export import export_run, import_runs
from flowdebate.store.postgres.rate_counter import PostgresCounter
from flowdebate.store.postgres.store import PostgresStore
from flowdebate.workers import Workers
from flowdebate.workers.__main__ import load, main
from flowdebate.workers.queue import DELAYS, History
from flowdebate.workers.reaper import number_of, worker_id
from tests.service.test_queued_runs import serve_http
from tests.workers.conftest import ROOT, poll_until

if TYPE_CHECKING:
    from pathlib import Path

    from flowdebate.store.base import StepKind
    from flowdebate.workers import QueuedRunStatus
    from tests.store.postgres import Server
    from tests.workers.conftest import Fleet

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

CALLS = 5
"""Number of calls per debate on the fleet."""


async def wait_for_end(workers: Workers, run_id: str) -> QueuedRunStatus:
    """Return the run's status once the run has ended."""

    async def ended() -> Any:
        standing = await workers.status(run_id)
        return standing if standing.over and not standing.owned and standing.delivery != "taken" else None

    status: QueuedRunStatus = await poll_until(ended)
    return status


# Crashes


async def test_runs_of_a_killed_worker_are_resumed_by_another(fleet: Fleet) -> None:
    """All 20 debates are completed, and only calls in flight are repeated."""
    workers, fleet.models.seconds = fleet.workers(), 0.1
    ids = [await workers.submit("city", f"Question {number}?", run_id=f"it-{number}") for number in range(20)]
    processes = {process.pid: process for process in (fleet.process(), fleet.process())}
    await fleet.models.until(40)
    victim = processes[fleet.models.requests[-1].process]
    victim.kill()
    killed = time.time()

    async def all_done() -> bool:
        runs = await workers.store.runs(status="complete", labels={})
        return {run.header.run_id for run in runs} >= set(ids)

    await poll_until(all_done, within=40)
    seconds = time.time() - killed
    for run_id in ids:
        assert (await wait_for_end(workers, run_id)).delivery == "done"
    (survivor,) = (process for process in processes.values() if process is not victim)
    survivor.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(survivor.wait, 30) == 0

    counts = Counter(request.digest for request in fleet.models.requests)
    kept_at: dict[str | None, float] = {}
    for run_id in ids:
        rows = await workers.store.steps(run_id)
        assert len(rows) == CALLS
        assert all(row.attempts >= counts[row.request or ""] for row in rows)
        kept_at |= {row.request: row.at or 0.0 for row in rows}
    assert [request for request in fleet.models.requests if request.at > kept_at[request.digest]] == []
    repeated = len(fleet.models.requests) - len(ids) * CALLS
    assert repeated <= workers.max_concurrency
    logging.getLogger("flowdebate").info("%d calls repeated, all done after %.1f s", repeated, seconds)


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_only_the_run_that_kills_its_workers_is_abandoned(fleet: Fleet) -> None:
    """One run crashes its worker five times: twice while other runs are in progress, and three times on its own.

    The other runs are completed, with few of their calls repeated.
    """
    workers, fleet.models.seconds = fleet.workers(), 0.5
    poison = await workers.submit("poison", "How?")
    neighbours = [await workers.submit("city", f"Question {number}?") for number in range(3)]
    process = fleet.process()

    async def given_up() -> bool:
        nonlocal process
        if process.poll() is not None:
            process = fleet.process()
        return (await workers.status(poison)).status == "dead_letter"

    await poll_until(given_up, within=150)
    for run_id in neighbours:
        assert (await wait_for_end(workers, run_id)).status == "complete"
    standing = await workers.status(poison)
    assert standing.over
    assert "5 workers in a row died" in (standing.problem or "")
    assert "the last 3 of them while executing nothing else" in (standing.problem or "")
    counts = Counter(request.block.partition("-")[0] for request in fleet.models.requests)
    assert counts["poison"] == 5
    assert counts["city"] <= CALLS * len(neighbours) + 2 * len(neighbours)
    with pytest.raises(DeadLetter):
        await workers.resume(poison)
    fleet.models.poison = False
    async with serve_http(Service(workers=workers)) as http:
        assert (await http.get(f"/runs/{poison}")).json()["problem"] == standing.problem
        assert (await http.post(f"/runs/{poison}/resume")).status_code == 409
        revived = await http.post(f"/runs/{poison}/resume", json={"retryDeadLetter": True})
        assert revived.json()["status"] in ("queued", "running")
        assert (await http.get(f"/runs/{poison}?wait=30")).json()["status"] == "complete"


@pytest.mark.parametrize("operation", ["submit", "resume"])
async def test_stored_run_is_executed_if_its_client_died_before_queueing(fleet: Fleet, operation: str) -> None:
    """The client dies between the two writes. The next worker finds the run and completes it."""
    workers, left_out = fleet.workers(), f"left-{operation}-{fleet.given['name']}"
    if operation == "resume":
        await workers.submit("city", "How?", run_id=left_out)
        async with fleet.working(workers):
            assert (await wait_for_end(workers, left_out)).status == "complete"
        await workers.store.take(left_out)
        await workers.store.finish(left_out, "failed", None)
    call = f"submit('city', 'How?', run_id={left_out!r})" if operation == "submit" else f"resume({left_out!r})"
    program = f"""
import asyncio, os, signal
from tests.workers.fleet import workers
made = workers()
made.queue.send = lambda run_id, **_: os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(made.{call})
"""
    assert await fleet.client(program) == -signal.SIGKILL
    status = await workers.status(left_out)
    assert (status.status, status.delivery) == ("queued", None if operation == "submit" else "done")
    async with fleet.working(workers):
        assert (await wait_for_end(workers, left_out)).status == "complete"


async def test_runs_without_a_delivery_are_found_page_by_page(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several clients may have died after storing a run but before queueing it.

    Such runs are found even if they span several pages, with runs of other queues in between.
    """
    monkeypatch.setattr("flowdebate.workers.reaper._PAGE", 2)
    workers, other_workers, name = fleet.workers(), fleet.workers(name="another-queue"), fleet.given["name"]
    for client in (workers, other_workers):
        with monkeypatch.context() as dead:
            dead.setattr(client.queue, "send", lambda *_, **__: True)
            for number in range(5):
                await client.submit("city", "How?", run_id=f"{name}-{number}-{client.name}")
    async with fleet.working(workers):
        for number in range(5):
            assert (await wait_for_end(workers, f"{name}-{number}-{name}")).status == "complete"
    for number in range(5):
        status = await other_workers.status(f"{name}-{number}-another-queue")
        assert (status.status, status.delivery) == ("queued", None)


async def test_nothing_is_stored_while_dbos_is_unavailable(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """DBOS is imported and its tables are created before the first write."""
    workers = fleet.workers()

    def fail() -> None:
        raise ConfigurationError("Workers", "url", "…", "requires dbos, which is not installed")

    monkeypatch.setattr(workers.queue, "open", fail)
    with pytest.raises(ConfigurationError):
        await workers.submit("city", "How?", run_id=f"early-{workers.name}")
    with pytest.raises(RunNotFound):
        await workers.store.run(f"early-{workers.name}")


async def test_runs_survive_a_provider_outage(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs wait in the queue while their worker retries one of them at intervals, and all of them are completed."""
    monkeypatch.setitem(DELAYS, "outage", (0.1, 0.2))
    monkeypatch.setattr("flowdebate.workers.worker.COOLDOWN", 0.5)
    workers, fleet.models.away = fleet.workers(), True
    ids = [await workers.submit("city", f"Question {number}?") for number in range(12)]
    async with fleet.working(workers):
        await fleet.models.until(5)
        tried = len(fleet.models.requests)
        async with asyncio.timeout(20):
            while len(fleet.models.requests) < tried + 2:
                assert {(await workers.status(run_id)).status for run_id in ids} <= {"queued", "running"}
                await asyncio.sleep(0.05)
        fleet.models.away = False
        for run_id in ids:
            assert (await wait_for_end(workers, run_id)).status == "complete"
    assert len(fleet.models.requests) <= len(ids) * CALLS + 4 + 4


async def test_run_is_not_postponed_forever(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run fails once the provider has been unavailable for `outage` seconds, or at once if that option is not set."""
    monkeypatch.setitem(DELAYS, "outage", (0.1, 0.1))
    monkeypatch.setattr("flowdebate.workers.worker.COOLDOWN", 0.1)
    fleet.models.away = True
    for outage, tries in ((0.5, 2), (0.0, 1)):
        workers = fleet.workers(outage=outage)
        fleet.models.requests.clear()
        run_id = await workers.submit("city", "How?")
        async with fleet.working(workers):
            assert (await wait_for_end(workers, run_id)).status == "failed"
        assert len(fleet.models.requests) >= tries


async def test_provider_outage_detected_by_one_worker_is_respected_by_all(fleet: Fleet) -> None:
    """Once one worker has detected the outage, no worker makes a call until the pause is over."""
    workers = fleet.workers()
    await workers.submit("city", "How?")
    counter = PostgresCounter(workers.url, schema=workers.schema, patience=10.0)
    await counter.pause(f"circuit of {workers.name}", 2.0)
    paused = time.monotonic()
    async with fleet.working(workers):
        await fleet.models.until(1)
    counter.close()
    assert time.monotonic() - paused >= 1.9


# Stopping


async def test_stopping_worker_loses_no_call(fleet: Fleet) -> None:
    """The call in flight is answered and recorded.

    The run returns to the queue, and another worker makes the remaining calls.
    """
    workers = fleet.workers()
    fleet.models.answering.clear()
    run_id = await workers.submit("city", "How?")
    async with fleet.working(workers) as stop:
        await fleet.models.until(1)
        stop.set()
        await asyncio.sleep(0)
        fleet.models.answering.set()
    status = await workers.status(run_id)
    assert (status.status, status.steps, status.owned, status.delivery) == ("queued", 1, False, "waiting")
    async with fleet.working(workers):
        assert (await wait_for_end(workers, run_id)).status == "complete"
    assert len(fleet.models.requests) == CALLS


async def test_number_of_database_sessions_is_bounded(fleet: Fleet, postgres_server: Server) -> None:
    """The documented limits hold while a client submits many runs and while a worker executes as many as it can."""
    text = (ROOT / "docs" / "workers.md").read_text("utf-8")
    match = re.search(r"A worker opens up to (\d+) PostgreSQL sessions, a client up to (\d+)", text)
    assert match is not None
    workers, peak = fleet.workers(), 0
    with psycopg.connect(postgres_server.url, autocommit=True) as watching:

        def count() -> int:
            row = watching.execute("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'")
            return int((row.fetchone() or (0,))[0]) - 1

        def watch(seconds: float) -> int:
            ends, peak = time.monotonic() + seconds, 0
            while time.monotonic() < ends:
                peak = max(peak, count())
                time.sleep(0.01)
            return peak

        baseline = count()
        await workers.overview()  # importing DBOS takes seconds
        watched = asyncio.ensure_future(asyncio.to_thread(watch, 2.0))
        await asyncio.gather(*(workers.submit("city", f"Question {number}?") for number in range(16)))
        await workers.overview()
        peak = await watched - baseline
        assert 0 < peak <= int(match[2])
        fleet.models.answering.clear()
        await workers.close()

        async def closed() -> bool:
            return count() <= baseline

        await poll_until(closed)
        fleet.process(max_concurrency=8)
        await fleet.models.until(8)
        peak = await asyncio.to_thread(watch, 3.0) - baseline
        assert 0 < peak <= int(match[1])


async def test_worker_takes_no_run_without_enough_sessions(fleet: Fleet, postgres_server: Server) -> None:
    """The worker reports how many sessions it requires and how many there are, and continues once there are more."""
    workers = fleet.workers()
    run_id = await workers.submit("city", "How?")
    await workers.close()
    with ExitStack() as stack:
        with suppress(psycopg.OperationalError):
            while True:
                stack.enter_context(closing(psycopg.connect(postgres_server.url, autocommit=True)))
        process = fleet.process()

        async def told() -> bool:
            return any("16 sessions are needed, but none is free" in line for line in fleet.logs(process))

        await poll_until(told)
        assert process.poll() is None
        assert not fleet.models.requests
    workers = fleet.workers()
    assert (await wait_for_end(workers, run_id)).status == "complete"


async def test_worker_does_not_wait_forever(fleet: Fleet) -> None:
    """At shutdown, a worker abandons a call that does not end within its `patience`.

    The next worker repeats that call.
    """
    workers = fleet.workers()
    fleet.models.answering.clear()
    run_id = await workers.submit("city", "How?")
    async with fleet.working(workers, patience=0.01):
        await fleet.models.until(1)
    assert (await workers.status(run_id)).status == "queued"
    fleet.models.answering.set()
    async with fleet.working(workers):
        assert (await wait_for_end(workers, run_id)).status == "complete"
    assert len(fleet.models.requests) == CALLS + 1


@pytest.mark.filterwarnings("ignore:run .* could not be recorded")
async def test_long_database_outage_does_not_end_a_run(fleet: Fleet, postgres_server: Server) -> None:
    """Only the answer that could not be stored is requested again, and the run is completed."""
    workers = fleet.workers()
    workers._store = PostgresStore(postgres_server.url, schema="fleet", patience=0.1)
    fleet.models.answering.clear()
    run_id = await workers.submit("city", "How?")
    async with fleet.working(workers):
        await fleet.models.until(1)
        await asyncio.to_thread(postgres_server.stop)
        fleet.models.answering.set()
        await fleet.models.answered()
        await asyncio.to_thread(postgres_server.start)

        async def complete() -> bool:
            try:
                return (await workers.status(run_id)).status == "complete"
            except StoreError:
                return False

        await poll_until(complete)
    assert CALLS <= len(fleet.models.requests) <= CALLS + 1


class FailingStore(PostgresStore):
    """Store that fails when an answer is recorded, and once more when the run is released."""

    def __init__(self, url: str) -> None:
        super().__init__(url, schema="fleet")
        self.faults = Counter(commit=1, release=2)

    def _fail(self, operation: str) -> None:
        if self.faults[operation]:
            self.faults[operation] -= 1
            raise StoreError(self.name, f"cannot be used: no {operation} now")

    async def commit(self, run_id: str, key: str, kind: StepKind, body: str, at: float) -> None:
        self._fail("commit")
        await super().commit(run_id, key, kind, body, at)

    async def release(self, run_id: str) -> None:
        self._fail("release")
        await super().release(run_id)


@pytest.mark.filterwarnings("ignore:run .* could not be recorded")
async def test_worker_recognizes_its_own_lock(fleet: Fleet, postgres_server: Server) -> None:
    """If a worker fails to release a run, its lock shuts out all other workers.

    The worker therefore takes the run again itself and completes it.
    """
    workers = fleet.workers()
    workers._store = store = FailingStore(postgres_server.url)
    run_id = await workers.submit("city", "How?")
    async with fleet.working(workers):
        assert (await wait_for_end(workers, run_id)).status == "complete"
    assert len(fleet.models.requests) == CALLS + 1
    assert not store.faults.total()


# Submitting and cancelling


async def test_submitting_a_run_twice_creates_one_run(fleet: Fleet) -> None:
    """Submitting the same id, question and pattern again adds nothing. A different question or seed is rejected."""
    workers = fleet.workers()
    name = f"{fleet.given['name']}/a%b_"
    for _ in range(3):
        assert await workers.submit("city", "How?", run_id=name, seed=7, labels={"for": "tests"}) == name
    assert len(await asyncio.to_thread(workers.queue.of, name)) == 1
    for question, seed in (("Why?", 7), ("How?", 8)):
        with pytest.raises(RunExists):
            await workers.submit("city", question, run_id=name, seed=seed)
    async with fleet.working(workers):
        assert (await wait_for_end(workers, name)).status == "complete"
    assert await workers.submit("city", "How?", run_id=name) == name
    await workers.resume(name)
    standing = await workers.status(name)
    assert (standing.delivery, standing.steps, standing.problem) == ("done", CALLS, None)
    assert standing.outcome is not None
    assert len(fleet.models.requests) == CALLS
    assert len(await asyncio.to_thread(workers.queue.of, name)) == 1


async def test_run_can_be_cancelled_before_it_starts(fleet: Fleet) -> None:
    workers = fleet.workers()
    run_id = await workers.submit("city", "How?")
    assert (await workers.status(run_id)).delivery == "waiting"
    await workers.cancel(run_id)
    await workers.cancel(run_id)
    standing = await workers.status(run_id)
    assert (standing.status, standing.delivery, standing.over) == ("interrupted", "cancelled", True)
    await workers.resume(run_id)
    async with fleet.working(workers):
        assert (await wait_for_end(workers, run_id)).status == "complete"
        await workers.cancel(run_id)
    assert (await workers.status(run_id)).status == "complete"


async def test_run_can_be_cancelled_while_it_runs(fleet: Fleet) -> None:
    """The worker abandons the call in flight. Recorded answers are kept and not requested again."""
    workers = fleet.workers()
    fleet.models.answering.clear()
    run_id = await workers.submit("city", "How?")
    async with fleet.working(workers):
        await fleet.models.until(1)
        await fleet.workers().cancel(run_id)
        standing = await wait_for_end(workers, run_id)
        assert (standing.status, standing.delivery) == ("interrupted", "cancelled")
        fleet.models.answering.set()
        await workers.resume(run_id)
        assert (await wait_for_end(workers, run_id)).status == "complete"
    assert len(fleet.models.requests) == CALLS + 1


async def test_deleted_run_leaves_nothing_in_the_queue(fleet: Fleet, postgres_server: Server) -> None:
    """Finished and waiting runs are both removed. A run whose id has the same prefix is unaffected."""
    workers = fleet.workers()
    ids = [await workers.submit("city", "How?", run_id=f"{fleet.given['name']}-{name}") for name in ("a", "a/b", "c")]
    async with fleet.working(workers):
        for run_id in ids[:2]:
            assert (await wait_for_end(workers, run_id)).status == "complete"
        await poll_until(lambda: has_ended(workers, ids[0]))
    await workers.submit("city", "How?", run_id=f"{ids[2]}-waits")
    for run_id in (ids[0], f"{ids[2]}-waits"):
        await workers.store.delete(run_id)
        assert await asyncio.to_thread(workers.queue.of, run_id) == []
    assert await asyncio.to_thread(workers.queue.of, ids[1]) != []
    tables = ("workflow_input", "workflow_output", "operation_outputs", "workflow_status")
    with psycopg.connect(postgres_server.url) as session:
        for table in tables:
            query = f"SELECT count(*) FROM fleet_queue.{table} WHERE workflow_uuid ~ %s"  # noqa: S608
            row = session.execute(query.encode(), (f"^{ids[0]}/[0-9a-f]+$",)).fetchone()
            assert row == (0,), table


class Program:
    """Object that runs a program when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("mark", ["py_pickle", None, "custom_serializer"])
async def test_queue_row_cannot_run_code(
    fleet: Fleet, postgres_server: Server, tmp_path: Path, mark: str | None
) -> None:
    """A run whose queue row was forged becomes a dead letter with the reason, and other runs are executed as usual."""
    workers = fleet.workers()
    changed, unchanged = [await workers.submit("city", "How?", run_id=f"{fleet.given['name']}-{end}") for end in "ab"]
    worker_path, client_path = tmp_path / "worker", tmp_path / "client"
    programs = [pickle.dumps({"args": (Program(str(path)),), "kwargs": {}}) for path in (worker_path, client_path)]
    payloads = [base64.b64encode(program).decode() for program in programs]

    def change(end: str, column: str, payload: str) -> None:
        with psycopg.connect(postgres_server.url) as session:
            session.execute("SET search_path = fleet_queue")
            which = (f"{changed}/%",)
            session.execute("UPDATE workflow_status SET serialization = %s WHERE workflow_uuid LIKE %s", (mark, *which))
            query = f"UPDATE {end} SET {column} = %s WHERE workflow_uuid LIKE %s"  # noqa: S608
            session.execute(query.encode(), (payload, *which))

    change("workflow_input", "inputs", payloads[0])
    change("workflow_status", "output", payloads[1])
    assert "not written by this library" in ((await workers.status(changed)).problem or "")
    fleet.process()
    assert (await wait_for_end(workers, unchanged)).status == "complete"
    await poll_until(lambda: is_dead_letter(workers, changed))
    assert "not written by this library" in ((await workers.status(changed)).problem or "")
    assert not worker_path.exists()
    assert not client_path.exists()
    assert len(fleet.models.requests) == CALLS
    await workers.resume(changed, retry_dead_letter=True)
    assert (await wait_for_end(workers, changed)).status == "complete"


async def test_forged_output_with_our_marker_is_reported(fleet: Fleet, postgres_server: Server) -> None:
    """A forged output does not prevent the status of the run from being read."""
    workers = fleet.workers()
    run_id = await workers.submit("city", "How?", run_id=f"{fleet.given['name']}-c")
    with psycopg.connect(postgres_server.url) as session:
        session.execute("SET search_path = fleet_queue")
        query = (
            "UPDATE workflow_status SET serialization = 'portable_json', output = 'gASV' WHERE workflow_uuid LIKE %s"
        )
        session.execute(query, (f"{run_id}/%",))
    assert "not written by this library" in ((await workers.status(run_id)).problem or "")


async def is_dead_letter(workers: Workers, run_id: str) -> bool:
    """Return whether the run was abandoned."""
    return (await workers.status(run_id)).status == "dead_letter"


async def has_ended(workers: Workers, run_id: str) -> bool:
    """Return whether the run's last delivery has ended."""
    return (await workers.status(run_id)).delivery == "done"


async def test_runs_with_a_lower_priority_value_are_executed_first(fleet: Fleet) -> None:
    """The time of submission matters only among runs of equal priority."""
    workers, name = fleet.workers(max_concurrency=1), fleet.given["name"]
    for number, priority in enumerate((7, 0, 7, 2)):
        await workers.submit("city", "How?", run_id=f"{name}-{number}", priority=priority)
    with pytest.raises(ConfigurationError, match=r"`priority` must be between 0 and 100 \(got -1\)"):
        await workers.submit("city", "How?", priority=-1)
    with pytest.raises(ConfigurationError, match=r"`priority` must be between 0 and 100 \(got 101\)"):
        await workers.submit("city", "How?", priority=101)
    async with fleet.working(workers):
        for number in range(4):
            await wait_for_end(workers, f"{name}-{number}")
    ended = sorted(await workers.store.runs(prefix=f"{name}-"), key=lambda run: run.updated_at)
    assert [run.header.run_id[-1] for run in ended] == ["1", "3", "0", "2"]


async def test_owners_take_turns(fleet: Fleet) -> None:
    """However long one owner's backlog is, the second run to start belongs to another owner.

    Runs with a higher priority value wait for all others.
    """
    workers, name = fleet.workers(max_concurrency=1), fleet.given["name"]
    for owner, numbers, priority in (("late", range(2), 1), ("ann", range(6), 0), ("bob", range(2), 0), ("", (0,), 0)):
        labels = {"owner": owner} if owner else {}
        for number in numbers:
            await workers.submit("city", "How?", run_id=f"{name}-{owner}{number}", labels=labels, priority=priority)
    async with fleet.working(workers):
        for number in (0, 1):
            await wait_for_end(workers, f"{name}-late{number}")
    ended = sorted(await workers.store.runs(prefix=f"{name}-"), key=lambda run: run.updated_at)
    expected = ["ann0", "bob0", "0", "ann1", "bob1", *(f"ann{number}" for number in range(2, 6)), "late0", "late1"]
    assert [run.header.run_id.removeprefix(f"{name}-") for run in ended] == expected


async def test_new_owner_gets_no_extra_turns(fleet: Fleet) -> None:
    """Owners cannot save up turns while they have no runs, so the new owner simply alternates with the old one."""
    workers, name = fleet.workers(max_concurrency=1), fleet.given["name"]
    submit = partial(workers.submit, "city", "How?")
    for number in range(8):
        await submit(run_id=f"{name}-ann{number}", labels={"owner": "ann"})
    fleet.models.answering.clear()
    fleet.models.free = 3 * CALLS
    async with fleet.working(workers):
        await fleet.models.until(3 * CALLS + 1)
        for number in range(3):
            await submit(run_id=f"{name}-bob{number}", labels={"owner": "bob"})
        fleet.models.answering.set()
        await wait_for_end(workers, f"{name}-ann7")
    ended = sorted(await workers.store.runs(prefix=f"{name}-"), key=lambda run: run.updated_at)
    order = "".join(run.header.run_id[-4] for run in ended)
    assert order == "aaaaababab" + "a"


async def test_concurrent_runs_per_owner_are_limited(fleet: Fleet) -> None:
    """The limit holds across all workers, which leaves capacity for other owners. In the end, all runs are complete."""
    workers, name = fleet.workers(max_concurrency=4, owner_concurrency=1), fleet.given["name"]
    owners = {f"{name}-{number}": "ann" if number < 4 else "bob" for number in range(6)}
    for run_id, owner in owners.items():
        await workers.submit("city", f"{run_id}?", run_id=run_id, labels={"owner": owner})
    fleet.models.answering.clear()
    async with fleet.working(workers):
        fleet.process(owner_concurrency=1)
        await fleet.models.until(2)

        async def both() -> bool:
            return len((await workers.overview()).workers) == 2

        await poll_until(both)
        await asyncio.sleep(0.5)  # several polls by both workers: no further run may start
        assert len(fleet.models.requests) == 2
        running = [run.header.run_id for run in await workers.store.runs(status="running") if run.owned]
        assert sorted(owners[run_id] for run_id in running if run_id in owners) == ["ann", "bob"]
        fleet.models.answering.set()
        for run_id in owners:
            assert (await wait_for_end(workers, run_id)).status == "complete"


@pytest.mark.slow
async def test_run_of_a_dead_worker_skips_the_backlog(fleet: Fleet) -> None:
    """A run that has already been started continues before any new run, whatever the priorities."""
    workers, name = fleet.workers(max_concurrency=1), fleet.given["name"]
    fleet.models.answering.clear()
    await workers.submit("city", "First?", run_id=f"{name}-first", priority=100)
    victim = fleet.process(max_concurrency=1)
    await fleet.models.until(1)
    victim.kill()
    await asyncio.to_thread(victim.wait, 30)
    for number in range(20):
        await workers.submit("city", f"Question {number}?", run_id=f"{name}-{number}")
    fleet.models.seconds = 0.05
    fleet.models.answering.set()
    async with fleet.working(workers):
        for number in range(20):
            await wait_for_end(workers, f"{name}-{number}")
    ended = sorted(await workers.store.runs(prefix=f"{name}-"), key=lambda run: run.updated_at)
    assert [run.header.run_id for run in ended].index(f"{name}-first") < 18


async def test_concurrent_submissions_deliver_a_run_once(fleet: Fleet) -> None:
    """Four clients submit the same run at the same time, but only one of them adds it to the queue."""
    clients, name = [fleet.workers() for _ in range(4)], fleet.given["name"]
    for _ in range(3):
        await asyncio.gather(*(client.submit("city", "How?", run_id=name, seed=1) for client in clients))
        assert len(await asyncio.to_thread(clients[0].queue.active, name)) == 1
        await clients[0].cancel(name)
        await clients[0].resume(name)
    assert len(await asyncio.to_thread(clients[0].queue.of, name)) == 4


async def test_unknown_run_raises_run_not_found(fleet: Fleet) -> None:
    """Asking for the status of an unknown run, cancelling it and resuming it all raise RunNotFound.

    Submitting a run of an unknown pattern raises a ConfigurationError.
    """
    workers = fleet.workers()
    for method in (workers.status, workers.cancel, workers.resume):
        with pytest.raises(RunNotFound):
            await method("nowhere")
    with pytest.raises(ConfigurationError, match="`pattern` must be city"):
        await workers.submit("country", "How?")


# Workers with other versions


async def test_worker_ignores_runs_of_another_version(fleet: Fleet) -> None:
    """A worker of version 2 executes the run submitted with version 2.

    A run submitted earlier with another version waits for a worker of that version.
    """
    old, new = fleet.workers(), fleet.workers(version="2")
    first = await old.submit("city", "How?")
    second = await new.submit("city", "Why?")
    async with fleet.working(new):
        assert (await wait_for_end(new, second)).status == "complete"
    standing = await old.status(first)
    assert (standing.status, standing.delivery, standing.worker) == ("queued", "waiting", None)
    with pytest.raises(ConfigurationError, match="version 2"):
        await new.resume(first)
    async with fleet.working(old):
        assert (await wait_for_end(old, first)).status == "complete"


@pytest.mark.parametrize("difference", ["name", "outline"])
async def test_worker_without_the_pattern_reports_it(fleet: Fleet, difference: str) -> None:
    """The run is rejected without a call. After it is resumed, a worker with the right pattern executes it."""
    pattern = debate(name="city", debaters=[Debater("ann", "trams"), Debater("cy", "bikes")], synthesizer=False)
    name = "country" if difference == "name" else "city"
    workers, wrong = fleet.workers(), fleet.workers(patterns={name: pattern})
    run_id = await workers.submit("city", "How?")
    async with fleet.working(wrong):
        standing = await wait_for_end(wrong, run_id)
    assert (standing.status, standing.delivery, standing.steps) == ("rejected", "failed", 0)
    assert ("must include city" if difference == "name" else "RunChanged") in (standing.problem or "")
    assert fleet.models.requests == []
    await workers.resume(run_id)
    assert (await workers.status(run_id)).delivery == "waiting"
    if difference == "name":
        async with fleet.working(workers):
            assert (await wait_for_end(workers, run_id)).status == "complete"


async def test_duplicate_deliveries_are_ignored_and_abandoned_runs_are_found(fleet: Fleet) -> None:
    """A worker leaves a run alone while another worker is executing it, and takes over once that worker is gone."""
    workers, second_store = fleet.workers(), PostgresStore(fleet.given["url"], schema="fleet")
    run_id = await workers.submit("city", "How?")
    await second_store.take(run_id)
    async with fleet.working(workers):

        async def let_be() -> bool:
            return (await workers.status(run_id)).delivery == "done"

        await poll_until(let_be)
        assert fleet.models.requests == []
        await second_store.close()

        async def complete() -> bool:
            return (await workers.status(run_id)).status == "complete"

        await poll_until(complete)
    assert len(fleet.models.requests) == CALLS


async def test_process_can_have_only_one_worker(fleet: Fleet) -> None:
    """A second worker in the process is rejected without disturbing the first."""
    workers = fleet.workers()
    run_id = await workers.submit("city", "How?")
    async with fleet.working(workers):
        await fleet.models.until(1)
        with pytest.raises(ConfigurationError, match="must not already be running"):
            await fleet.workers().work(asyncio.Event())
        assert (await wait_for_end(workers, run_id)).status == "complete"


# Delays and options


@given(st.integers(1, 200), st.integers(0, 9))
def test_redelivery_delays_double(deaths: int, steps: int) -> None:
    """The delay grows from half a second to a minute, however many steps were completed before.

    A newly completed step resets the delay.
    """
    history = History().after_death(steps)
    for number in range(1, deaths):
        assert history.delay == min(0.5 * 2 ** (number - 1), 60.0)
        assert (history.suspect, history.deaths_alone) == (number >= 2, max(0, number - 2))
        history = history.after_death(steps)
    assert history.after_death(steps + 1) == replace(History(), deaths=1, steps=steps + 1)
    away = History().after_outage(steps, 7.5).after_outage(steps, 99.0)
    assert (away.delay, away.since, away.suspect) == (10.0, 8, False)


@given(st.text(), st.integers(1, 10**6), st.integers(0, 2**63 - 1))
def test_worker_id_identifies_its_lock(machine: str, process: int, number: int) -> None:
    assert number_of(worker_id(machine, process, number)) == number


@pytest.mark.parametrize("worker", [None, "", "local", "a:b:c", "a:1:"])
def test_invalid_worker_id_has_no_lock(worker: str | None) -> None:
    assert number_of(worker) is None


@pytest.mark.parametrize(
    "options",
    [
        {"url": "runs.sqlite3"},
        {"url": 5},
        {"patterns": {}},
        {"version": " "},
        {"name": "no"},
        {"name": "My runs"},
        {"name": "_dbos_x"},
        {"schema": None},
        {"max_concurrency": 0},
        {"owner_concurrency": 0},
        {"poll": 0},
        {"poll": float("nan")},
    ],
    ids=str,
)
def test_invalid_worker_options_are_rejected(options: dict[str, Any]) -> None:
    pattern = debate(name="city", debaters=[Debater("ann", "trams"), Debater("bob", "roads")])
    settings = {"url": "postgresql://127.0.0.1/runs", "patterns": {"city": pattern}, **options}
    with pytest.raises(ConfigurationError) as caught:
        Workers(**settings)
    assert caught.value.field in options
    assert "runs.sqlite3" not in str(caught.value)


@pytest.mark.parametrize("spec", ["", "nothing", "no.such.module:x", "tests.workers.fleet:nothing", "json:dumps.x"])
def test_worker_without_patterns_does_not_start(spec: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigurationError):
        load(spec)
    assert main([spec or ":"]) == 2
    assert "MODULE:OBJECT" in capsys.readouterr().err


# Imported runs


async def test_workers_reject_imported_runs(fleet: Fleet) -> None:
    """An imported run is rejected by the client and by any worker that receives it, unless `allow_imported` is set."""
    workers, lenient = fleet.workers(), fleet.workers(allow_imported=True)
    run_id = await workers.submit("city", "How?")
    lines = [line async for line in export_run(workers.store, run_id)]
    await workers.store.delete(run_id)
    await import_runs(workers.store, lines)
    assert (await workers.store.run(run_id)).header.foreign
    for ask in (lambda: workers.resume(run_id), lambda: workers.submit("city", "How?", run_id=run_id)):
        with pytest.raises(ConfigurationError, match="not imported"):
            await ask()
    async with fleet.working(workers):
        await poll_until(lambda: is_rejected(workers, run_id))
    assert not fleet.models.requests
    await lenient.resume(run_id)
    async with fleet.working(lenient):
        assert (await wait_for_end(lenient, run_id)).status == "complete"


async def is_rejected(workers: Workers, run_id: str) -> bool:
    """Return whether the run's delivery was rejected."""
    return "not imported" in ((await workers.status(run_id)).problem or "")
