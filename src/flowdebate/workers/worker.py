"""Worker that takes run ids from the queue and resumes the runs with a drainable store."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from random import SystemRandom
from typing import TYPE_CHECKING, Any

from flowdebate._text import error_text
from flowdebate.errors import (
    CircuitOpen,
    ConfigurationError,
    FlowDebateError,
    ModelError,
    ModelTimeout,
    ModelUnavailable,
    ProviderFailed,
    RateLimited,
    RunConflict,
    StoreError,
)
from flowdebate.models.circuit_breaker import Breaker
from flowdebate.runs.durable.resume import load_run
from flowdebate.runs.execute import run_block
from flowdebate.runs.limits import Accounts
from flowdebate.runs.observer import observer_of
from flowdebate.runs.queue_state import DeliveredRun
from flowdebate.runs.run import Run
from flowdebate.store.base import StepKind, Store, StoredRun, StoredStatus
from flowdebate.store.draining import Draining
from flowdebate.store.postgres.database import Address
from flowdebate.store.postgres.rate_counter import PostgresCounter
from flowdebate.store.postgres.sessions import PostgresOwner
from flowdebate.workers.deployment import Workers
from flowdebate.workers.queue import WORKFLOW, History, driver, json_serializer, refuse_pickles, workers_of
from flowdebate.workers.reaper import Reaper, worker_id

if TYPE_CHECKING:
    from dbos import DBOS

_LOGGER = logging.getLogger("flowdebate")
COOLDOWN = 10.0
"""Number of seconds for which each worker waits after a provider outage before trying to start a run."""
_PAUSE, _MAX_PAUSE = 0.1, 5.0
# maximum number of attempts to resume a run while its store is unreachable, spread over at least ten minutes
_TRIES = 100
_SWEEPS_PER_STORE_SWEEP = 3  # number of queue sweeps per store sweep, which reads all runs in progress


class _WorkerStore(Draining):
    """Drainable store that reports answered calls to `provider`.

    If `provider` puts off a failed run, the run goes back to the queue.
    """

    def __init__(self, store: Store, provider: _Provider) -> None:
        super().__init__(store)
        self._provider = provider

    async def commit(self, run_id: str, key: str, kind: StepKind, body: str, at: float) -> None:
        await super().commit(run_id, key, kind, body, at)
        if kind == "call":
            self._provider.circuit.record(succeeded=True)

    async def finish(self, run_id: str, status: StoredStatus, outcome: Mapping[str, Any] | None) -> None:
        if status == "failed" and await self._provider.puts_off(run_id, self):
            status = "queued"  # set before anything else, so that followers do not conclude that the run has failed
        await super().finish(run_id, status, outcome)


class _Provider:
    """Tracker for provider availability; a queue's workers inform each other about outages."""

    def __init__(self, workers: Workers) -> None:
        self._counter = PostgresCounter(workers.url, schema=workers.schema, patience=10.0)
        self._key = f"circuit of {workers.name}"
        self._outage = workers.outage
        self._paused_until = 0.0
        self.circuit = Breaker(failures=3, cooldown=COOLDOWN, successes=1)
        self.runs: dict[str, tuple[Run, History]] = {}
        self.put_off: dict[str, History] = {}

    async def admit(self) -> int:
        """Wait until a run may start; return a ticket to pass to `settle`."""
        while True:
            delay = max(self._paused_until - time.monotonic(), self.circuit.seconds_left)
            if delay <= 0 and (ticket := self.circuit.admit().ticket) is not None:
                return ticket
            await asyncio.sleep(min(max(delay, _PAUSE), 1.0))

    async def settle(self, ticket: int, *, away: bool) -> None:
        """Record how a run ended; if the provider has become unavailable, inform the other workers."""
        step = self.circuit.settle(ticket, succeeded=False if away else None)
        if step.before != step.after == "open":
            _LOGGER.warning("the provider is unavailable: no run starts for %g s", COOLDOWN)
            with suppress(StoreError):
                await self._counter.pause(self._key, COOLDOWN)

    async def look(self) -> None:
        """Check whether another worker has reported an outage of the provider."""
        self._paused_until = time.monotonic() + await self._counter.seconds_left(self._key)

    async def puts_off(self, run_id: str, store: Store) -> bool:
        """Return whether a run failed because its provider recently became unavailable, and should be retried later."""
        run, history = self.runs.get(run_id, (None, History()))
        error = None if run is None else run.failure
        # Errors that indicate an unavailable provider: another call would fail too.
        temporary = (ModelUnavailable, ProviderFailed, RateLimited, ModelTimeout)
        is_away = isinstance(error, CircuitOpen) or (isinstance(error, temporary) and error.transient)
        if not is_away or not self._outage:
            return False
        now = time.time()
        later = history.after_outage((await store.run(run_id)).steps, now)
        if now - later.since > self._outage:
            return False
        self.put_off[run_id] = later
        return True

    def close(self) -> None:
        self._counter.close()


_SESSIONS = 16
"""Number of database sessions that must be available to a worker before it executes any runs."""
_HELD = 2
"""Number of database sessions held by a worker even before it executes any runs: one for its lock and one for its
queue.
"""


class Worker:
    """Worker started by one call to `work()`."""

    def __init__(self, workers: Workers, *, patience: float) -> None:
        self._workers = workers
        self._patience = patience
        self._address = Address(workers.url, schema=workers.schema, timeout=10.0, patience=10.0)
        self._owner = PostgresOwner(self._address.connect)
        self._well = False
        self.id: str = worker_id(socket.gethostname(), os.getpid(), self._owner.id)
        self._reaper = Reaper(workers)
        self._provider = _Provider(workers)
        self._store = _WorkerStore(workers.store, self._provider)
        self._accounts = Accounts(self._store, workers.budget, workers.owner_budget)
        self._running: dict[str, tuple[str, asyncio.Task[Any]]] = {}
        self._places = asyncio.Condition()
        self._executing = self._suspects = 0
        self._delivering: set[asyncio.Task[Any]] = set()
        """Tasks in which DBOS is delivering runs."""

    async def work(self, stop: asyncio.Event) -> None:
        """Take runs until `stop` is set, then release all of them; raise errors that occur at startup."""
        if not await self._reach(stop):
            return

        async def drain() -> None:
            await stop.wait()
            self._store.stop()  # takes effect no matter what the worker is waiting for

        draining = asyncio.ensure_future(drain())
        try:
            workers = self._workers
            bounds = workers.max_concurrency, workers.owner_concurrency
            await asyncio.to_thread(workers.queue.prepare, *bounds, workers.poll)
            engine = self._make_engine()
            try:
                engine.launch()
                presence = {"version": workers.version, "since": time.time()}
                await workers.store.put(workers_of(workers.name), self.id, json.dumps(presence))
                _LOGGER.info("worker %s: takes runs of %r", self.id, self._workers)
                await self._sweep(stop)
            finally:
                await self._stop(engine)
        finally:
            draining.cancel()
            await asyncio.to_thread(self._reaper.close)
            await asyncio.to_thread(self._provider.close)
            await asyncio.to_thread(self._owner.end)

    async def _reach(self, stop: asyncio.Event) -> bool:
        """Wait while the database is down or has too few sessions left; return False if `stop` is set first.

        Raises StoreError if the database refuses access.
        """
        workers, reported = self._workers, ""
        while not stop.is_set():
            try:
                await asyncio.to_thread(self._owner.ensure)
                await asyncio.to_thread(workers.queue.open)
                sessions = _HELD + await asyncio.to_thread(self._address.count_free, _SESSIONS - _HELD)
            except Exception as error:
                full = self._address.is_full(error)
                if not (full or isinstance(error, StoreError) or self._address.is_error(error)):
                    raise
                if not full and not await asyncio.to_thread(self._address.is_away):
                    raise StoreError(self._address.name, self._address.describe(error)) from None
                problem = f"{_SESSIONS} sessions are needed, but none is free" if full else "is away"
            else:
                if sessions >= _SESSIONS:
                    return True
                problem = f"{_SESSIONS} sessions are needed, but only {sessions} are free"
            if problem != reported:
                location = self._address.name
                _LOGGER.warning("worker %s is waiting for its database: %s (%s)", self.id, location, problem)
            reported = problem
            # Wait for a random interval, so that workers started together do not all check at the same time.
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), 1.0 + SystemRandom().random())
        return False

    def _make_engine(self) -> type[DBOS]:
        """Configure DBOS; its workflows run in the event loop from which it is launched."""
        engine: type[DBOS] = driver().DBOS
        refuse_pickles()
        deliveries = self._workers.queue
        engine(
            config={
                "name": deliveries.name,
                "system_database_url": deliveries.url,
                "dbos_system_schema": deliveries.schema,
                # by default, this would be a hash of this library's source code
                "application_version": deliveries.version,
                # By default, DBOS gives all workers the same id, so they would repeat each other's work.
                "executor_id": self.id,
                "sys_db_pool_size": 5,
                "run_migrations": False,
                "serializer": json_serializer(),
                "log_level": "ERROR",
            }
        )
        if engine.executor_id != self.id:
            raise ConfigurationError(
                "Workers.work()", "DBOS", engine.executor_id, "must not already be running in the worker's process"
            )

        async def deliver(run_id: str) -> dict[str, Any]:
            current = asyncio.current_task()
            assert current is not None  # noqa: S101 - DBOS calls it in a task
            self._delivering.add(current)
            current.add_done_callback(self._delivering.discard)
            delivery = engine.workflow_id
            assert delivery is not None  # noqa: S101 - DBOS calls it in a workflow
            return await self._deliver(delivery, run_id)

        engine.workflow(name=WORKFLOW, max_recovery_attempts=None)(deliver)
        engine.listen_queues([deliveries.name])
        return engine

    # Runs

    async def _deliver(self, delivery: str, run_id: str) -> dict[str, Any]:
        """Resume the run and wait for it to end; return its status, or the problem if an error was raised."""
        if self._store.stopping:
            await _forever()  # the delivery goes back to the queue
        task = asyncio.ensure_future(self._resume_in_turn(delivery, run_id))
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

    async def _resume_in_turn(self, delivery: str, run_id: str) -> str:
        """Resume the run; if it is suspected of killing workers, execute no other runs at the same time."""
        delivered, history = await asyncio.to_thread(self._workers.queue.delivery_of, self.id, delivery)
        ticket, suspect = await self._provider.admit(), history.suspect
        self._suspects += suspect
        try:
            async with self._places:
                await self._places.wait_for(lambda: not (self._executing if suspect else self._suspects))
                self._executing += 1
            try:
                return await self._resume(run_id, history, delivered)
            except ModelError as error:
                later = self._provider.put_off.get(run_id)
                if later is None:
                    raise
                _LOGGER.warning("run %s is waiting for its provider: %s", run_id, error_text(error))
                delay = max(later.delay, min(error.retry_after or 0.0, self._workers.outage))
                await asyncio.to_thread(self._workers.queue.redeliver, delivery, run_id, later, delay=delay)
                return "queued"
            except FlowDebateError as error:
                # this has no effect if the run is stored as failed
                await self._workers.reject(run_id, error_text(error))
                raise
            finally:
                self._executing -= 1
        finally:
            self._suspects -= suspect
            await self._provider.settle(ticket, away=self._provider.put_off.pop(run_id, None) is not None)
            async with self._places:
                self._places.notify_all()

    async def _resume(self, run_id: str, history: History, delivered: DeliveredRun) -> str:
        """Resume the run and return its final status; retry while the store is unreachable."""
        pause, away = 0.1, False
        for tries_left in reversed(range(_TRIES)):
            try:
                if away:
                    # this worker may still own the run, and could not take a run that it already owns
                    await self._store.release(run_id)
                return await self._once(run_id, history, delivered, failed=away)
            except RunConflict:
                return "elsewhere"  # another process is executing the run under a different delivery
            except StoreError as error:
                if type(error) is not StoreError or not tries_left:
                    raise
                _LOGGER.warning("run %s: %s", run_id, error_text(error))
            away = True
            await asyncio.sleep(pause)
            pause = min(_MAX_PAUSE, 2 * pause)
        raise AssertionError

    async def _once(self, run_id: str, history: History, delivered: DeliveredRun, *, failed: bool) -> str:
        """Make one attempt to resume the run; if `failed` is set, resume it even if it failed because of its store."""
        workers = self._workers
        stored = await self._store.run(run_id)
        if stored.status not in ("queued", "running", "rejected") and not (failed and stored.status == "failed"):
            return str(stored.status)  # the run has ended, or was cancelled
        header = stored.header
        before = delivered.delivery > 1 or stored.status != "queued" or stored.steps > 0
        delivered = delivered.model_copy(update={"resumed": before})
        with observer_of(workers.observe).deliver(header.block, run_id, dict(header.labels), delivered):
            return await self._execute(stored, history)

    async def _execute(self, stored: StoredRun, history: History) -> str:
        workers, run_id = self._workers, stored.header.run_id
        workers.check_accepted(stored.header)
        name = (stored.header.plan or {}).get("pattern")
        pattern = workers.patterns.get(str(name))
        if pattern is None:
            raise ConfigurationError(f"worker {self.id}", "patterns", sorted(workers.patterns), f"must include {name}")
        limits = workers.limits_of(stored.header)
        run, value = await load_run(
            run_id,
            block=pattern.name,
            outline=pattern.outline(),
            store=self._store,
            model=workers.model,
            limits=limits,
            observe=workers.observe,
            retry_dead_letter=True,  # safe, because the reaper never delivers a run that it has abandoned
        )
        run.accounts = self._accounts.of(stored.header.labels)
        self._provider.runs[run_id] = (run, history)
        try:
            return str((await run_block(pattern, value, run)).status)
        finally:
            del self._provider.runs[run_id]

    # Maintenance

    async def answer_health(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer an HTTP request: report that the worker is running or, for /ready, whether its database answers."""
        with suppress(OSError, TimeoutError, ValueError):
            request = await asyncio.wait_for(reader.readline(), 5.0)
            well = self._well or b"/ready" not in request
            body = json.dumps({"status": "ok" if well else "away", "worker": self.id, "running": self._executing})
            head = f"HTTP/1.1 {'200 OK' if well else '503 Service Unavailable'}\r\nContent-Type: application/json"
            writer.write(f"{head}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode())
            await writer.drain()
        writer.close()

    async def _sweep(self, stop: asyncio.Event) -> None:
        """Recover the runs of dead workers, and stop cancelled runs, until `stop` is set."""
        number, failing = 0, False
        while not stop.is_set():
            try:
                await self._provider.look()
                await self._reaper.sweep()
                if number % _SWEEPS_PER_STORE_SWEEP == 0:
                    await self._reaper.redeliver_lost()
                await self._give_up()
            except Exception as error:  # noqa: BLE001 - the server may be unreachable until the next sweep
                if not failing:
                    _LOGGER.warning("worker %s: cannot sweep the queue: %s", self.id, error_text(error))
                failing = True
            else:
                failing = False
            self._well = not failing
            number += 1
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), 2 * self._workers.poll)

    async def _give_up(self) -> None:
        """Interrupt any of this worker's runs that have been cancelled."""
        if not self._running:
            return
        for delivery in await asyncio.to_thread(self._workers.queue.cancelled, tuple(self._running)):
            run_id, task = self._running.get(delivery, ("", None))
            if task is not None:
                self._store.given_up.add(run_id)
                task.cancel()

    async def _stop(self, engine: type[DBOS]) -> None:
        """Stop taking runs, wait for calls in flight, interrupt the runs, and return them to the queue."""
        self._store.stop()
        ending = asyncio.ensure_future(asyncio.to_thread(engine.destroy, destroy_registry=True))
        with suppress(TimeoutError):
            await asyncio.wait_for(self._store.quiet(), self._patience)
        tasks = [task for _, task in self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await ending
        unfinished = tuple(self._delivering)
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)
        deliveries = self._workers.queue
        with suppress(Exception):  # if this fails, another worker's reaper puts the runs back on the queue
            await asyncio.to_thread(
                lambda: deliveries.hand_back(
                    [delivery.workflow_id for delivery in deliveries.executing_deliveries(self.id)]
                )
            )


async def _forever() -> None:
    """Wait until the event loop is closed, so that DBOS does not record the delivery as completed."""
    await asyncio.Event().wait()
