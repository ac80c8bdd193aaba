"""Worker deployment: the workers' shared configuration, and the client for submitting runs."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from flowdebate._util.validation import check_count, check_seconds, check_text
from flowdebate.blocks.base import Block
from flowdebate.errors import ConfigurationError, DeadLetter, RunConflict, RunExists, StoreError
from flowdebate.models.resolve import ModelChoice
from flowdebate.runs.durable.resume import prepare_fork
from flowdebate.runs.execute import make_run
from flowdebate.runs.header import StoreOptions, limit_numbers, limits_of
from flowdebate.runs.journal import has_unanswered
from flowdebate.runs.limits import OWNER, Limits
from flowdebate.runs.observer import Observer, observer_of
from flowdebate.runs.queue_state import LOWEST, QueueState, priority_of
from flowdebate.store.address import POSTGRES, read_postgres_address
from flowdebate.store.base import COMPLETE, GIVEN_UP, RunHeader, Store, StoredRun, StoredStatus
from flowdebate.workers.queue import DELIVERIES, QueuedRunStatus, RunQueue, read_queue

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{2,199}")
# Maximum time to wait for a delivery to end, and the interval between checks, both in seconds.
_PATIENCE, _PAUSE = 10.0, 0.05


class Workers:
    """A queue of runs, shared by any number of clients and workers on any number of machines.

    Clients and workers import the object from the same module. It specifies the `url` of the PostgreSQL database, the
    `patterns` by name, the `model` and `limits` for each run, the `budget` for all runs together, and the
    `owner_budget` for each owner's runs per day (UTC). Turns are stored in a PostgresStore in `schema`; DBOS, with its
    tables in `{schema}_queue`, only distributes run ids. `name` is the queue's name. A run is executed only by workers
    of the same `version`, so change it whenever a pattern or a model changes. Each worker executes up to
    `max_concurrency` runs at once and polls the queue every `poll` seconds; all workers together execute up to
    `owner_concurrency` runs per owner. A run whose provider is unavailable goes back to the queue; it fails after
    `outage` seconds without progress (immediately if this is 0). Imported runs are rejected unless `allow_imported` is
    set, because their models, limits and recorded answers were chosen by the author of the imported file. `observe`
    traces the runs submitted and executed by this process.

    >>> from flowdebate import Debater, debate
    >>> city = debate(name="city", debaters=[Debater("ann", "trams"), Debater("bob", "roads")])
    >>> Workers("postgresql://localhost/runs", {"city": city}, model="openai/gpt-5-mini", version="7")
    <Workers 'flowdebate' 7: city>
    """

    def __init__(  # noqa: PLR0913 - keyword-only options with defaults
        self,
        url: str,
        patterns: Mapping[str, Block[Any, Any]],
        *,
        model: ModelChoice = None,
        limits: Limits | None = None,
        budget: Limits | None = None,
        owner_budget: Limits | None = None,
        version: str = "1",
        max_concurrency: int = 8,
        owner_concurrency: int | None = None,
        name: str = "flowdebate",
        schema: str = "flowdebate",
        poll: float = 0.5,
        allow_imported: bool = False,
        outage: float = 3600.0,
        observe: Observer | None = None,
    ) -> None:
        if not isinstance(url, str):
            raise ConfigurationError("Workers", "url", type(url), POSTGRES)
        url = read_postgres_address(url, location="Workers")
        if not patterns:
            raise ConfigurationError("Workers", "patterns", dict(patterns), "must map at least one name to a pattern")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            problem = "must be 3 to 200 lowercase letters, digits, - and _, beginning with a letter or digit"
            raise ConfigurationError("Workers", "name", name, problem)
        check_text("Workers", version=version, schema=schema)
        check_count(
            "Workers",
            max_concurrency=max_concurrency,
            owner_concurrency=1 if owner_concurrency is None else owner_concurrency,
        )
        check_seconds("Workers", poll=poll)
        if outage != 0:
            check_seconds("Workers", outage=outage)
        self.url = url
        self.patterns: Mapping[str, Block[Any, Any]] = dict(patterns)
        self.model = model
        self.limits = limits
        self.budget = budget
        self.owner_budget = owner_budget
        self.version = version
        self.max_concurrency = max_concurrency
        self.owner_concurrency = owner_concurrency
        self.name = name
        self.schema = schema
        self.poll = poll
        self.allow_imported = allow_imported
        self.outage = outage
        self.observe = observe
        self.queue: RunQueue = RunQueue(url, name=name, version=version, schema=f"{schema}_queue")
        self._store: Store | None = None

    @property
    def store(self) -> Store:
        """Store in which the runs are kept."""
        if self._store is None:
            from flowdebate.store.postgres.store import PostgresStore

            self._store = PostgresStore(self.url, schema=self.schema)
        return self._store

    async def submit(
        self,
        pattern: str,
        question: object,
        *,
        run_id: str | None = None,
        seed: int | None = None,
        labels: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        priority: int = 0,
    ) -> str:
        """Store a run, put it on the queue, and return its id; `limits` are capped at the workers' own.

        Workers take runs with a lower `priority` value first. Within a priority, owners (identified by the label
        `owner`) take turns, and each owner's runs start in the order of submission. A run that has already started goes
        to the front of the queue when it is redelivered.

        Calling this again with the same `run_id` is safe: the run is stored only once, and redelivered at most once.
        Raises ConfigurationError for an unknown pattern, and for a question or limit that cannot be stored; RunExists
        if a different run already has the id; and StoreError.
        """
        check_count("Workers.submit()", minimum=0, maximum=LOWEST, priority=priority)
        block, bounded = self._pattern("submit", pattern), self._bounded("submit", limits)
        options = StoreOptions(store=self.store, labels=labels or {}, plan=self._plan(pattern, limits, priority))
        run = make_run(block, question, model=self.model, seed=seed, limits=bounded, store=options, run_id=run_id)
        assert run.journal is not None  # noqa: S101 - the run has a store
        await asyncio.to_thread(self.queue.open)
        with self._submitted(run.journal.header) as queued:
            stored = queued
            try:
                await self.store.add(queued, ())
            except RunExists:
                stored = await self._find_existing(queued.header, seeded=seed is not None)
            # Deliver existing runs too, because the client that stored the run may have died before queueing it.
            if stored.status in ("queued", "running"):
                await self._deliver(stored.header)
        return stored.header.run_id

    @contextmanager
    def _submitted(self, header: RunHeader) -> Iterator[StoredRun]:
        """Enter the observer's context for submissions, and yield the queued run with the observer's labels."""
        labels = dict(header.labels)
        with observer_of(self.observe).submit(header.block, header.run_id, labels):
            yield StoredRun(header=replace(header, labels=labels), status="queued", updated_at=time.time(), steps=0)

    async def fork(
        self,
        run_id: str,
        *,
        pattern: str,
        fork_id: str | None = None,
        edits: Mapping[str, Any] | None = None,
        at: str | None = None,
        seed: int | None = None,
        labels: Mapping[str, str] | None = None,
        limits: Limits | None = None,
    ) -> str:
        """Create a fork of a stored run as `Block.fork` does, but queue it instead of executing it, and return its id.

        Raises the same errors as the pattern's `Block.fork` does before a fork starts, and RunExists if `fork_id` is
        taken.
        """
        block = self._pattern("fork", pattern)
        header = await prepare_fork(
            self.store,
            run_id,
            block=block,
            fork_id=fork_id,
            edits=edits,
            at=at,
            seed=seed,
            model=self.model,
            limits=self._bounded("fork", limits),
            labels=labels,
            plan=self._plan(pattern, limits),
        )
        self.check_accepted(header)
        await asyncio.to_thread(self.queue.open)
        with self._submitted(header) as queued:
            await self.store.add(queued, ())
            await self._deliver(header)
        return header.run_id

    async def resume(self, run_id: str, *, retry_dead_letter: bool = False) -> None:
        """Requeue a finished run, however it ended.

        A complete run is left unchanged unless its judge, chair or synthesizer failed; in that case, the role is called
        again.

        Raises RunNotFound; RunConflict if something other than a worker is executing the run, or a worker is about to
        abandon it; and DeadLetter for a run abandoned because it killed its workers, unless `retry_dead_letter` is set.
        """
        stored = await self.store.run(run_id)
        self.check_accepted(stored.header)
        if stored.status in COMPLETE and not has_unanswered(await self.store.steps(run_id)):
            return
        if stored.status == "dead_letter" and not retry_dead_letter:
            raise DeadLetter(self.store.name, run_id, stored.recoveries)
        if stored.owned and not await asyncio.to_thread(self.queue.active, run_id):
            # Either the worker is abandoning the run, or the run does not belong to a worker.
            raise RunConflict(self.store.name, run_id)
        if not stored.owned and stored.status != "queued":
            await self._set(run_id, "queued")
        # A human who has just answered is waiting for the result.
        await self._deliver(stored.header, first=stored.status == "awaiting")

    async def cancel(self, run_id: str) -> None:
        """Cancel the run: it ends as "interrupted", keeping all recorded steps, and its worker drops it within seconds.

        A finished run is left unchanged. Raises RunNotFound if the run does not exist.
        """
        stored = await self.store.run(run_id)
        await asyncio.to_thread(lambda: self.queue.cancel(self.queue.active(run_id)))
        if stored.status in ("queued", "running") and not stored.owned:
            try:
                await self._set(run_id, "interrupted", only=("queued", "running"))
            except RunConflict:  # a worker took the run in the meantime, and will notice the cancellation
                return

    async def status(self, run_id: str) -> QueuedRunStatus:
        """Return the run's status; raise RunNotFound if the run does not exist."""
        # Read the run last: a worker that abandons a run stores the reason with it before ending the delivery.
        deliveries = await asyncio.to_thread(self.queue.of, run_id)
        last = deliveries[0] if deliveries else None
        problem = None if last is None else await asyncio.to_thread(self.queue.problem_of, last.workflow_id)
        stored = await self.store.run(run_id)
        if stored.status in GIVEN_UP:
            problem = (stored.outcome or {}).get("error")
        return QueuedRunStatus(
            run_id=run_id,
            status=stored.status,
            owned=stored.owned,
            steps=stored.steps,
            outcome=stored.outcome,
            delivery=None if last is None else ("failed" if problem else DELIVERIES.get(last.status)),
            worker=None if last is None else last.executor_id,
            problem=problem,
        )

    async def overview(self) -> QueueState:
        """Return a summary of waiting runs and live workers; raise StoreError if the database does not answer."""
        await asyncio.to_thread(self.queue.open)
        return await asyncio.to_thread(read_queue, self)

    async def work(
        self, stop: asyncio.Event | None = None, *, patience: float = 30.0, health: int | None = None
    ) -> None:
        """Run a worker until `stop` is set. A process can run only one worker, and must not use DBOS for anything else.

        Once `stop` is set, no new calls start. Calls in flight have `patience` seconds to finish, and unfinished runs
        go back to the queue. The worker waits while the database is unreachable, but raises StoreError if the database
        rejects the user. If a `health` port is set, GET /health reports that the worker is running, and GET /ready
        reports whether its database answers.
        """
        from flowdebate.workers.worker import Worker

        worker = Worker(self, patience=patience)
        server = None if health is None else await asyncio.start_server(worker.answer_health, None, health)
        try:
            await worker.work(stop or asyncio.Event())
        finally:
            if server is not None:
                server.close()

    async def close(self) -> None:
        """Close all connections; the object can be used again afterwards."""
        store, self._store = self._store, None
        if store is not None:
            await store.close()
        await asyncio.to_thread(self.queue.close)

    def owns_run(self, header: RunHeader) -> bool:
        """Return whether the run was submitted to this queue and for this version of the workers."""
        plan = header.plan or {}
        return plan.get("workers") == self.name and plan.get("version") == self.version

    def limits_of(self, header: RunHeader) -> Limits | None:
        """Return the limits that apply when workers execute the run: its own limits, capped at those of the workers."""
        return self._within(limits_of(self.store, replace(header, limits=(header.plan or {}).get("limits"))))

    def check_accepted(self, header: RunHeader) -> None:
        """Raise ConfigurationError for a run from another queue or version.

        The error is also raised for an imported run, unless imported runs are allowed.
        """
        hint = ""
        problem = f"must be a run submitted to {self.name}, version {self.version}"
        if header.foreign and not self.allow_imported:
            problem += ", and not imported"
            hint = "Check its models, limits and recorded answers, then use Workers(…, allow_imported=True)"
        elif self.owns_run(header):
            return
        raise ConfigurationError("Workers", "run_id", header.run_id, problem, hint=hint)

    def _pattern(self, location: str, name: str) -> Block[Any, Any]:
        block = self.patterns.get(name)
        if block is None:
            raise ConfigurationError(f"Workers.{location}()", "pattern", name, choices=sorted(self.patterns))
        return block

    def _plan(self, pattern: str, limits: Limits | None, priority: int = 0) -> dict[str, Any]:
        settings = {"limits": limit_numbers(limits), "priority": priority}
        options = {name: value for name, value in settings.items() if value}
        return {"workers": self.name, "version": self.version, "pattern": pattern, **options}

    def _within(self, limits: Limits | None) -> Limits | None:
        return limits.within(self.limits) if limits is not None and self.limits is not None else limits or self.limits

    def _bounded(self, location: str, limits: Limits | None) -> Limits | None:
        """Cap a run's limits at the workers' own; raise ConfigurationError if the cost limits still differ."""
        bounded = self._within(limits)
        maximum_cost = None if self.limits is None else self.limits.cost
        if bounded is not None and bounded.cost != maximum_cost:
            problem = f"must equal the workers' limit, {maximum_cost}, because prices are not stored with a run"
            raise ConfigurationError(f"Workers.{location}()", "limits.cost", bounded.cost, problem)
        return bounded

    async def _find_existing(self, header: RunHeader, *, seeded: bool) -> StoredRun:
        """Return the stored run with this id; raise RunExists if it differs from the submitted one."""
        existing = await self.store.run(header.run_id)
        then = existing.header
        # A submission without a seed draws a new seed each time it is repeated.
        as_then = replace(header, created_at=then.created_at, seed=header.seed if seeded else then.seed)
        if (as_then.input, as_then.seed, _request(as_then)) != (then.input, then.seed, _request(then)):
            raise RunExists(self.store.name, header.run_id)
        self.check_accepted(then)
        return existing

    async def _deliver(self, header: RunHeader, *, first: bool = False) -> None:
        """Put the run on the queue, retrying for a limited time if an earlier delivery has not finished yet."""
        ends = time.monotonic() + _PATIENCE
        while not await asyncio.to_thread(self.send, header, first=first) and time.monotonic() < ends:
            stored = await self.store.run(header.run_id)
            if (
                stored.owned or stored.status != "queued"
            ):  # the delivery that was ending has picked up the run after all
                return
            await asyncio.sleep(_PAUSE)

    def send(self, header: RunHeader, *, first: bool = False) -> bool:
        """Put the run on the queue to wait for its owner's turn or, if `first` is set, ahead of all other runs.

        This call blocks. Returns False if a worker has already taken the run, as `RunQueue.send` does.
        """
        priority = None if first else priority_of(header)
        return self.queue.send(header.run_id, owner=header.labels.get(OWNER, ""), priority=priority)

    async def reject(self, run_id: str, problem: str) -> None:
        """Record why no worker can execute a queued run, so that everyone waiting for the run learns the reason."""
        with suppress(StoreError):  # the run was deleted, is being executed elsewhere, or its store is down
            if (await self.store.run(run_id)).status in ("queued", "running"):
                await self._set(run_id, "rejected", only=("queued", "running"), error=problem)

    async def _set(
        self, run_id: str, status: StoredStatus, *, only: tuple[str, ...] = (), error: str | None = None
    ) -> None:
        """Set the stored status, but only if the current status is in `only` (any status if `only` is empty)."""
        before = await self.store.take(run_id)  # raises RunConflict if a worker got there first
        unchanged = bool(only) and before.status not in only
        outcome = before.outcome if unchanged or error is None else {**(before.outcome or {}), "error": error}
        await self.store.finish(run_id, before.status if unchanged else status, outcome)

    def __repr__(self) -> str:
        return f"<Workers {self.name!r} {self.version}: {', '.join(sorted(self.patterns))}>"


def _request(header: RunHeader) -> dict[str, Any]:
    """Return the run's plan without its limits and priority, which may differ when the run is submitted again."""
    return {name: value for name, value in (header.plan or {}).items() if name not in ("limits", "priority")}
