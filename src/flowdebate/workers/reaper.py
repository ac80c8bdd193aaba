"""Reaper: puts the runs of dead workers back on the queue."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from flowdebate.errors import RunConflict, RunNotFound
from flowdebate.runs.observer import observer_of
from flowdebate.store.base import StoredRun, decode_text
from flowdebate.store.postgres.database import Address
from flowdebate.store.postgres.sessions import ALIVE
from flowdebate.workers.queue import ACTIVE, FOREIGN, FORGET, History, workers_of

if TYPE_CHECKING:
    import psycopg
    from dbos import WorkflowStatus
    from psycopg.abc import Params
    from psycopg.sql import Composed

    from flowdebate.runs.queue_state import QueueState
    from flowdebate.workers.deployment import Workers


# number of worker deaths after which a run is abandoned; a death counts only if the worker was executing no other run
DEATHS_ALONE = 3
STRANDED = 60.0  # number of seconds for which a run waits for a worker with its version before it is rejected
# Time in seconds that a worker must be missing before it counts as dead, because a restart of the database server
# briefly affects all workers.
GRACE = 1.0
_PAGE = 500
_ONE_AT_A_TIME = 0x464C4452  # first half of the key of the advisory lock for sweeps: "FLDR"
_UNDELIVERED = """
WITH left_out AS MATERIALIZED (
    SELECT run_id, header FROM runs WHERE status = 'queued' AND run_id > %(after)s AND NOT EXISTS (
        SELECT FROM {deliveries} WHERE queue_name = %(queue)s AND status = ANY(%(active)s)
        AND attributes->>'run' = run_id
    )
)
SELECT run_id FROM left_out WHERE header::jsonb->'plan' @> %(plan)s::jsonb ORDER BY run_id LIMIT %(page)s
"""
_LOGGER = logging.getLogger("flowdebate")
_STRANDED = """
SELECT run_id FROM runs JOIN {deliveries} AS delivery ON attributes->>'run' = run_id
WHERE queue_name = %(queue)s AND delivery.status = 'ENQUEUED' AND application_version = %(version)s
AND delivery.created_at < (extract(epoch FROM clock_timestamp()) - %(seconds)s) * 1000 AND runs.status = 'queued'
LIMIT 100
"""
_ALIVE = f"SELECT number FROM {ALIVE} AS held (number)".encode()  # noqa: S608 - contains no value


def worker_id(machine: str, process: int, number: int) -> str:
    """Return a worker's unique id in DBOS, including the number of the lock that the worker holds while it is alive."""
    return f"{machine}:{process}:{number}"


def number_of(worker: str | None) -> int | None:
    """Return the number of the lock held by a worker, or None if the id is not a worker's."""
    text = (worker or "").rpartition(":")[2]
    return int(text) if text.isdecimal() else None


class Reaper:
    """Maintenance task for a queue. It redelivers runs that have lost their worker or their delivery.

    The reaper looks for dead workers' deliveries, runs in progress without a worker, and queued runs without a
    delivery. A worker is dead if nobody holds the advisory lock with its number. Only one process sweeps a queue at a
    time.
    """

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._address = Address(workers.url, schema=workers.schema, timeout=10.0, patience=2.0)
        self._session: psycopg.Connection[tuple[Any, ...]] | None = None
        self._gone: dict[str, float] = {}

    async def sweep(self) -> None:
        """Redeliver the runs of dead workers; let the driver's errors propagate."""
        lock = (_ONE_AT_A_TIME, self._workers.name)
        if not (await self._ask(b"SELECT pg_try_advisory_lock(%s, hashtext(%s))", lock))[0]:
            return
        try:
            for delivery in await asyncio.to_thread(self._workers.queue.foreign):
                await self._give_up(delivery)
            taken_deliveries = {
                workflow.workflow_id: workflow
                for workflow in await asyncio.to_thread(self._workers.queue.executing_deliveries)
            }
            alive = set(await self._ask(_ALIVE))
            dead = [name for name, workflow in taken_deliveries.items() if number_of(workflow.executor_id) not in alive]
            # Do this concurrently, because each take may have to wait and see whether the owner comes back.
            await asyncio.gather(
                *(self._redeliver(taken_deliveries[name]) for name in self._long_enough("delivery", dead))
            )
        finally:
            await self._ask(b"SELECT pg_advisory_unlock(%s, hashtext(%s))", lock)

    async def _give_up(self, delivery: str) -> None:
        """Delete a delivery written by other software, and turn its run into a dead letter."""
        run_id, store = decode_text(delivery.rpartition("/")[0]), self._workers.store
        _LOGGER.error("delivery %s: %s", delivery, FOREIGN)
        with suppress(RunNotFound, RunConflict):
            stored = await store.run(run_id)
            if stored.status in ("queued", "running") and not stored.owned:
                stored = await store.take(run_id)
                await store.finish(run_id, "dead_letter", {**(stored.outcome or {}), "error": f"given up: {FOREIGN}"})
        await asyncio.to_thread(self._workers.queue.drop, delivery)

    async def _redeliver(self, delivery: WorkflowStatus) -> None:
        """Redeliver a dead worker's run, after a delay if the worker had already started it."""
        queue, store = self._workers.queue, self._workers.store
        run_id = decode_text((delivery.attributes or {}).get("run", ""))
        with suppress(RunNotFound, RunConflict):  # the run was deleted, or is being executed
            stored = await store.run(run_id)
            if stored.status == "running" and not stored.owned:
                stored = await store.take(run_id)
                history = History.of(delivery).after_death(stored.steps)
                if history.deaths_alone >= DEATHS_ALONE:
                    reason = (
                        f"given up: {history.deaths} workers in a row died while executing it, "
                        f"the last {history.deaths_alone} of them while executing nothing else"
                    )
                    await store.finish(run_id, "dead_letter", {**(stored.outcome or {}), "error": reason})
                else:
                    # Set the status to "queued", so that the next take does not count as a recovery.
                    await store.finish(run_id, "queued", stored.outcome)
                    name = delivery.workflow_id
                    await asyncio.to_thread(queue.redeliver, name, run_id, history, delay=history.delay)
                    await asyncio.to_thread(queue.drop, name)
                    return
        await asyncio.to_thread(queue.hand_back, [delivery.workflow_id])

    async def redeliver_lost(self) -> None:
        """Redeliver runs in progress whose deliveries have ended, and queued runs without a delivery.

        This happens if a worker loses its connection and dies, or if a client dies between storing a run and queueing
        it.
        """
        workers, unowned, before = self._workers, list[str](), None
        while page := await workers.store.runs(status="running", brief=True, limit=_PAGE, before=before):
            unowned += [
                stored_run.header.run_id
                for stored_run in page
                if not stored_run.owned and workers.owns_run(stored_run.header)
            ]
            before = page[-1].position
        unowned += await self._undelivered()

        def send_if_done(stored: StoredRun) -> None:
            # A delivery in progress belongs to its worker, and a run abandoned by a worker needs human attention.
            last = next(iter(workers.queue.of(stored.header.run_id)), None)
            if last is None or (last.status == "SUCCESS" and not workers.queue.problem_of(last.workflow_id)):
                workers.send(stored.header, first=stored.status == "running")

        for run_id in self._long_enough("run", unowned):
            with suppress(RunNotFound):  # the run was deleted
                await asyncio.to_thread(send_if_done, await workers.store.run(run_id))
        await self._ask(FORGET, (workers_of(workers.name),))
        state = await workers.overview()
        observer_of(workers.observe).queue(state)
        await self._reject_stranded(state)

    async def _reject_stranded(self, state: QueueState) -> None:
        """Reject runs that have waited too long for a worker with their version.

        If such a worker appears later, it may still start them.
        """
        from psycopg import sql

        workers, versions = self._workers, ", ".join(sorted({repr(worker.version) for worker in state.workers}))
        for version in state.versions:
            if version.workers or (version.oldest or 0.0) < STRANDED:
                continue
            query = sql.SQL(_STRANDED).format(deliveries=sql.Identifier(workers.queue.schema, "workflow_status"))
            values = {"queue": workers.name, "version": f"{workers.name}/{version.version}", "seconds": STRANDED}
            for run_id in await self._ask(query, values):
                await workers.reject(
                    run_id, f"no worker with version {version.version!r} is alive, only workers with {versions}"
                )

    async def _undelivered(self) -> list[str]:
        from psycopg import sql

        workers = self._workers
        query = sql.SQL(_UNDELIVERED).format(deliveries=sql.Identifier(workers.queue.schema, "workflow_status"))
        plan = json.dumps({"workers": workers.name, "version": workers.version})
        values = {"queue": workers.name, "active": list(ACTIVE), "plan": plan, "page": _PAGE}
        undelivered: list[str] = []
        while page := await self._ask(query, values | {"after": undelivered[-1] if undelivered else ""}):
            undelivered += page
        return undelivered

    async def _ask(self, query: bytes | Composed, values: Params = ()) -> list[Any]:
        """Execute a query and return the first column of its result."""

        def ask() -> list[Any]:
            if self._session is None or self._session.closed:
                self._session = self._address.connect()
            return [row[0] for row in self._session.execute(query, values)]

        return await asyncio.to_thread(ask)

    def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            with suppress(Exception):
                session.close()

    def _long_enough(self, kind: str, ids: list[str]) -> list[str]:
        """Return the `ids` first seen at least GRACE seconds ago; forget ids of this `kind` that are not in `ids`."""
        now, names = time.monotonic(), {f"{kind} {run_id}" for run_id in ids}
        self._gone = {
            name: since for name, since in self._gone.items() if name in names or not name.startswith(f"{kind} ")
        }
        return [run_id for run_id in ids if now - self._gone.setdefault(f"{kind} {run_id}", now) >= GRACE]
