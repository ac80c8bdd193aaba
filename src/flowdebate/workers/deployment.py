"""Deployment of workers: their shared configuration, and the client that submits runs to them."""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flowdebate._util.validation import check_count, check_seconds
from flowdebate.errors import ConfigurationError, RunConflict, RunExists
from flowdebate.runs.durable.resume import StoreOptions
from flowdebate.runs.execute import make_run
from flowdebate.store.base import StoredRun
from flowdebate.workers.queue import DELIVERIES, QueuedRunStatus, RunQueue

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flowdebate.blocks.base import Block
    from flowdebate.models.resolve import ModelChoice
    from flowdebate.runs.limits import Limits
    from flowdebate.store.base import RunHeader, Store, StoredStatus

__all__ = ("Workers",)

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{2,199}")


class Workers:
    """A queue of runs, shared by any number of clients and worker processes on any number of machines.

    Clients and workers create the same object from the same module: the PostgreSQL database at `url`, the `patterns` by
    name, and the `model` and `limits` of their runs. Turns are stored in a PostgresStore in `schema`; DBOS, with its
    tables in `{schema}_queue`, distributes run ids only. `name` is the name of the queue. Only workers of the same
    `version` execute a run: change it whenever a pattern or a model changes. Each worker executes up to
    `max_concurrency` runs at once, and polls the queue every `poll` seconds. Imported runs are refused, since whoever
    wrote the file chose their models, limits and recorded answers, unless with `allow_imported`.

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
        version: str = "1",
        max_concurrency: int = 8,
        name: str = "flowdebate",
        schema: str = "flowdebate",
        poll: float = 0.5,
        allow_imported: bool = False,
    ) -> None:
        if not isinstance(url, str) or not url.startswith(("postgresql://", "postgres://")):
            raise ConfigurationError("Workers", "url", "…", "postgresql://user:password@host:port/database")
        if not patterns:
            raise ConfigurationError("Workers", "patterns", dict(patterns), "patterns by name, at least one")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            allowed = "3 to 200 small letters, digits, - and _, the first of them a letter or a digit"
            raise ConfigurationError("Workers", "name", name, allowed)
        for field, text in (("version", version), ("schema", schema)):
            if not isinstance(text, str) or not text.strip():
                raise ConfigurationError("Workers", field, text, "a text that is not blank")
        check_count("Workers", max_concurrency=max_concurrency)
        check_seconds("Workers", poll=poll)
        self.url = url
        self.patterns: Mapping[str, Block[Any, Any]] = dict(patterns)
        self.model = model
        self.limits = limits
        self.version = version
        self.max_concurrency = max_concurrency
        self.name = name
        self.schema = schema
        self.poll = poll
        self.allow_imported = allow_imported
        self.queue = RunQueue(url, name=name, version=version, schema=f"{schema}_queue")
        self._store: Store | None = None

    @property
    def store(self) -> Store:
        """The store of the runs."""
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
    ) -> str:
        """Store a run, put it on the queue, and return its id.

        Safe to repeat with the same `run_id`: the run is stored once, and delivered at most once more. Errors:
        ConfigurationError for an unknown pattern or a question that cannot be stored; RunExists if another run has the
        id; StoreError.
        """
        stored = StoredRun(
            header=self._header(pattern, question, run_id, seed, labels),
            status="queued",
            updated_at=time.time(),
            steps=0,
        )
        stored_id = stored.header.run_id
        try:
            await self.store.add(stored, ())
        except RunExists:
            stored = await self._same(stored.header, seeded=seed is not None)
        if stored.status in ("queued", "running"):
            await asyncio.to_thread(self._send, stored_id)
        return stored_id

    async def resume(self, run_id: str) -> None:
        """Put an ended run back on the queue, whatever ended it; a complete run is left unchanged.

        RunNotFound; RunConflict while a process executes it.
        """
        stored = await self.store.run(run_id)
        self.check_accepted(stored.header)
        if stored.status in ("complete", "degraded", "no_verdict"):
            return
        if not stored.owned and stored.status != "queued":
            await self._set(run_id, "queued")
        await asyncio.to_thread(self._send, run_id)

    async def cancel(self, run_id: str) -> None:
        """Cancel the run: it ends as "interrupted", with what was recorded; its worker stops within seconds.

        Has no effect on a run that has ended. RunNotFound.
        """
        stored = await self.store.run(run_id)
        await asyncio.to_thread(lambda: self.queue.cancel(self.queue.active(run_id)))
        if stored.status in ("queued", "running") and not stored.owned:
            try:
                await self._set(run_id, "interrupted", only=("queued", "running"))
            except RunConflict:  # a worker has taken it meanwhile, and notices the cancellation
                return

    async def status(self, run_id: str) -> QueuedRunStatus:
        """The status of the run; RunNotFound."""
        stored = await self.store.run(run_id)
        found = await asyncio.to_thread(self.queue.of, run_id)
        last = found[0] if found else None
        result = last.output if last is not None and isinstance(last.output, dict) else {}
        problem = result.get("problem") or (None if last is None or last.error is None else str(last.error))
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

    async def work(self, stop: asyncio.Event | None = None, *, patience: float = 30.0) -> None:
        """Run a worker until `stop` is set: one at a time per process, which must not use DBOS otherwise.

        After `stop` no new call starts. Calls in flight have `patience` seconds to finish; unfinished runs go back to
        the queue.
        """
        from flowdebate.workers.worker import Worker

        await Worker(self, patience=patience).work(stop or asyncio.Event())

    async def close(self) -> None:
        """Close all connections; the object may be used again."""
        store, self._store = self._store, None
        if store is not None:
            await store.close()
        await asyncio.to_thread(self.queue.close)

    def is_ours(self, header: RunHeader) -> bool:
        """Whether the run was submitted to this queue, for workers of this version."""
        plan = header.plan or {}
        return plan.get("workers") == self.name and plan.get("version") == self.version

    def check_accepted(self, header: RunHeader) -> None:
        """Raise ConfigurationError for a run of another queue or version, or one that was imported."""
        hint = ""
        allowed = f"a run that was submitted to {self.name!r}, version {self.version}"
        if header.foreign and not self.allow_imported:
            allowed += ", and not imported"
            hint = "Check its models, limits and recorded answers, then use Workers(…, allow_imported=True)"
        elif self.is_ours(header):
            return
        raise ConfigurationError("Workers", "run_id", header.run_id, allowed, hint=hint)

    def _header(
        self, pattern: str, question: object, run_id: str | None, seed: int | None, labels: Mapping[str, str] | None
    ) -> RunHeader:
        block = self.patterns.get(pattern)
        if block is None:
            raise ConfigurationError(
                "Workers.submit()", "pattern", pattern, f"one of {', '.join(sorted(self.patterns))}"
            )
        plan = {"workers": self.name, "version": self.version, "pattern": pattern}
        options = StoreOptions(store=self.store, labels=labels or {}, plan=plan)
        run = make_run(
            block, question, session=None, model=self.model, seed=seed, limits=self.limits, store=options, run_id=run_id
        )
        assert run.journal is not None  # noqa: S101 - the run has a store
        return run.journal.header

    async def _same(self, header: RunHeader, *, seeded: bool) -> StoredRun:
        """The stored run with this id; RunExists if it is a different one."""
        known = await self.store.run(header.run_id)
        then = known.header
        as_then = replace(header, created_at=then.created_at, seed=header.seed if seeded else then.seed)
        if (as_then.input, as_then.seed, as_then.plan) != (then.input, then.seed, then.plan):
            raise RunExists(self.store.name, header.run_id)
        self.check_accepted(then)
        return known

    def _send(self, run_id: str) -> None:
        if not self.queue.active(run_id):
            self.queue.send(run_id)

    async def _set(self, run_id: str, status: StoredStatus, *, only: tuple[str, ...] = ()) -> None:
        """Set the stored status; with `only`, only if it was one of these."""
        before = await self.store.take(run_id)
        unchanged = bool(only) and before.status not in only
        await self.store.finish(run_id, before.status if unchanged else status, before.outcome)

    def __repr__(self) -> str:
        return f"<Workers {self.name!r} {self.version}: {', '.join(sorted(self.patterns))}>"
