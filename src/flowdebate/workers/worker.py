"""Worker: takes run ids from the queue, and resumes their runs until they end."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from flowdebate.errors import ConfigurationError, RunConflict, StoreError, error_text
from flowdebate.store.postgres.database import Address
from flowdebate.store.postgres.sessions import PostgresOwner
from flowdebate.workers.queue import WORKFLOW, driver
from flowdebate.workers.reaper import Reaper, worker_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flowdebate.store.base import StepKind, Store, StoredStatus
    from flowdebate.workers.deployment import Workers

__all__ = ("Draining", "Worker")

_LONGEST_PAUSE = 5.0
_TRIES = 100
"""How often a run is resumed while its store is unreachable: for ten minutes at least."""
_LEFT_EVERY = 3
"""Every so many sweeps the store is looked through as well."""


class Worker:
    """One worker, for one `work()`."""

    def __init__(self, workers: Workers, *, patience: float) -> None:
        self._workers = workers
        self._patience = patience
        address = Address(workers.url, schema=workers.schema, timeout=10.0, patience=10.0)
        self._owner = PostgresOwner(address.connect)
        self.id = worker_id(socket.gethostname(), os.getpid(), self._owner.id)
        self._reaper = Reaper(workers)
        self._store = Draining(workers.store)
        self._running: dict[str, tuple[str, asyncio.Task[Any]]] = {}
        self._delivering: set[asyncio.Task[Any]] = set()
        """The engine's tasks."""

    async def work(self, stop: asyncio.Event) -> None:
        """Take runs until `stop` is set, then let go of all; raises what makes a start impossible."""
        await asyncio.to_thread(self._owner.ensure)
        draining = asyncio.ensure_future(self._drain(stop))
        try:
            await asyncio.to_thread(self._prepare)
            engine = self._made()
            try:
                engine.launch()
                _LOGGER.info("worker %s: takes runs of %r", self.id, self._workers)
                await self._sweep(stop)
            finally:
                await self._stop(engine)
        finally:
            draining.cancel()
            await asyncio.to_thread(self._reaper.close)
            await asyncio.to_thread(self._owner.end)

    def _made(self) -> Any:  # noqa: ANN401 - the class DBOS
        """The engine; it runs its workflows on the loop in which it is launched."""
        engine, deliveries = driver().DBOS, self._workers.queue
        engine(
            config={
                "name": deliveries.name,
                "system_database_url": deliveries.url,
                "dbos_system_schema": deliveries.schema,
                "application_version": deliveries.version,
                "executor_id": self.id,
                "sys_db_pool_size": 5,
                "run_migrations": False,
                "log_level": "ERROR",
            }
        )
        if engine.executor_id != self.id:
            raise ConfigurationError("Workers.work()", "DBOS", engine.executor_id, "unused in the process of a worker")

        async def deliver(run_id: str) -> dict[str, Any]:
            current = asyncio.current_task()
            assert current is not None  # noqa: S101 - it is the engine's
            self._delivering.add(current)
            current.add_done_callback(self._delivering.discard)
            return await self._deliver(engine.workflow_id, run_id)

        engine.workflow(name=WORKFLOW, max_recovery_attempts=None)(deliver)
        engine.listen_queues([deliveries.name])
        return engine

    def _prepare(self) -> None:
        workers = self._workers
        workers.queue.prepare(max_concurrency=workers.max_concurrency, poll=workers.poll)

    # Runs

    async def _deliver(self, delivery: str, run_id: str) -> dict[str, Any]:
        """Carry the run on until it ends: how it did, or why it was left alone."""
        if self._store.stopping:
            await _forever()  # it is handed back
        task = asyncio.ensure_future(self._carried_on(run_id))
        self._running[delivery] = (run_id, task)
        try:
            await asyncio.wait({task})
        finally:
            self._running.pop(delivery, None)
        if self._store.stopping:
            await _forever()
        if task.cancelled():
            return {"status": "interrupted"}
        error = task.exception()
        if error is None:
            return {"status": task.result()}
        _LOGGER.warning("run %s: %s", run_id, error_text(error))
        return {"status": None, "problem": f"{type(error).__name__}: {error_text(error)}"}

    async def _carried_on(self, run_id: str) -> str:
        """The run's status at its end; raises why it was left as it was."""
        pause, away = 0.1, False
        for left in reversed(range(_TRIES)):
            try:
                if away:
                    await self._store.release(run_id)  # else it could not be taken: this very worker may have it
                return await self._once(run_id, failed=away)
            except RunConflict:
                return "elsewhere"  # who carries it out has a delivery of its own
            except StoreError as error:
                if type(error) is not StoreError or not left:
                    raise
                _LOGGER.warning("run %s: %s", run_id, error_text(error))
            away = True
            await asyncio.sleep(pause)
            pause = min(_LONGEST_PAUSE, 2 * pause)
        raise AssertionError

    async def _once(self, run_id: str, *, failed: bool) -> str:
        """The same, tried once; what has `failed` goes on as well where it has because the store was away."""
        workers = self._workers
        stored = await self._store.run(run_id)
        if stored.status not in ("queued", "running") and not (failed and stored.status == "failed"):
            return str(stored.status)  # it has ended, or was called off
        name = (stored.header.plan or {}).get("pattern")
        pattern = workers.patterns.get(str(name))
        if pattern is None:
            raise ConfigurationError(
                f"worker {self.id}", "patterns", sorted(workers.patterns), f"such that {name!r} is among them"
            )
        result = await pattern.resume(
            run_id, store=cast("Store", self._store), model=workers.model, limits=workers.limits
        )
        return str(result.status)

    # Others

    async def _sweep(self, stop: asyncio.Event) -> None:
        """Until `stop` is set: see to what dead workers have left, and to what was called off."""
        number, failing = 0, False
        while not stop.is_set():
            try:
                await asyncio.to_thread(self._reaper.sweep)
                if number % _LEFT_EVERY == 0:
                    await self._reaper.sweep_left()
                await self._give_up()
            except Exception as error:  # noqa: BLE001 - the server may be away; the next sweep comes
                if not failing:
                    _LOGGER.warning("worker %s: cannot look after the queue: %s", self.id, error_text(error))
                failing = True
            else:
                failing = False
            number += 1
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), 2 * self._workers.poll)

    async def _give_up(self) -> None:
        """Interrupt those runs here that were called off."""
        if not self._running:
            return
        for delivery in await asyncio.to_thread(self._workers.queue.cancelled, tuple(self._running)):
            run_id, task = self._running.get(delivery, ("", None))
            if task is not None:
                self._store.given_up.add(run_id)
                task.cancel()

    async def _drain(self, stop: asyncio.Event) -> None:
        """Begin no step any more from when `stop` is set, whatever the queue keeps the worker waiting for."""
        await stop.wait()
        self._store.stop()

    async def _stop(self, engine: Any) -> None:  # noqa: ANN401
        """Take nothing more, let calls in flight end, interrupt the runs, and hand them back."""
        self._store.stop()
        ending = asyncio.ensure_future(asyncio.to_thread(engine.destroy, destroy_registry=True))
        with suppress(TimeoutError):
            await asyncio.wait_for(self._store.quiet(), self._patience)
        tasks = [task for _, task in self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await ending
        left = tuple(self._delivering)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        deliveries = self._workers.queue
        with suppress(Exception):  # else another worker's reaper does it
            await asyncio.to_thread(
                lambda: deliveries.hand_back([each.workflow_id for each in deliveries.taken(self.id)])
            )


async def _forever() -> None:
    """Until the loop ends: whoever waits here is not to say that it is done."""
    await asyncio.Event().wait()


_LOGGER = logging.getLogger("flowdebate")


class Draining:
    """Everything is done by `store`; from `stop()` on no step is begun any more: whoever wants to waits for ever.

    So the calls that are in flight end, and are kept; then their runs can be interrupted, and nothing is lost. Such a
    run goes back to the queue, unless it was `given_up` before.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._open: set[tuple[str, str]] = set()
        self._quiet = asyncio.Event()
        self._quiet.set()
        self.stopping = False
        self.given_up: set[str] = set()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - what the store has
        return getattr(self._store, name)

    def stop(self) -> None:
        """Begin no step any more."""
        self.stopping = True

    async def quiet(self) -> None:
        """Return when no step is open that was begun here."""
        await self._quiet.wait()

    async def intend(self, run_id: str, key: str, kind: StepKind, request: str | None) -> int:
        """As of the store; does not return once it stops."""
        if self.stopping:
            await asyncio.Event().wait()
        if kind != "human":
            self._open.add((run_id, key))
            self._quiet.clear()
        try:
            return await self._store.intend(run_id, key, kind, request)
        except BaseException:
            self._ended(run_id, key)
            raise

    async def commit(self, run_id: str, key: str, kind: StepKind, body: str, at: float) -> None:
        """As of the store."""
        try:
            await self._store.commit(run_id, key, kind, body, at)
        finally:
            self._ended(run_id, key)

    async def fail(self, run_id: str, key: str, failure: str) -> None:
        """As of the store."""
        try:
            await self._store.fail(run_id, key, failure)
        finally:
            self._ended(run_id, key)

    async def finish(self, run_id: str, status: StoredStatus, outcome: Mapping[str, Any] | None) -> None:
        """As of the store; what is interrupted since the worker stops is queued again."""
        if self.stopping and status == "interrupted" and run_id not in self.given_up:
            status = "queued"
        try:
            await self._store.finish(run_id, status, outcome)
        finally:
            for open_run, key in tuple(self._open):
                if open_run == run_id:
                    self._ended(run_id, key)

    def _ended(self, run_id: str, key: str) -> None:
        self._open.discard((run_id, key))
        if not self._open:
            self._quiet.set()
