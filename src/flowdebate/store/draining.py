"""A store that can be drained, so that a process can end its runs without losing in-flight calls."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from flowdebate.store.base import RunFilter, RunHeader, StepKind, StepRow, Store, StoredRun, StoredStatus


class Draining(Store):
    """Wrapper around `store` that can be drained: after `stop()` no new step starts, because `intend` blocks forever.

    Calls already in flight finish and are recorded; after that, their runs can be interrupted without losing anything.
    An interrupted run goes back to the queue, unless it was already `given_up`. All other methods behave like those of
    `store`.
    """

    def __init__(self, store: Store, *, requeue: bool = True) -> None:
        self._store = store
        self._requeue = requeue
        self._open: set[tuple[str, str]] = set()
        self._quiet = asyncio.Event()
        self._quiet.set()
        self.stopping: bool = False
        self.given_up: set[str] = set()

    @property
    def name(self) -> str:
        return self._store.name

    def stop(self) -> None:
        """Prevent any new step from starting."""
        self.stopping = True

    async def quiet(self) -> None:
        """Wait until no step started through this object is in progress, apart from steps for humans."""
        await self._quiet.wait()

    async def intend(self, run_id: str, key: str, kind: StepKind, request: str | None) -> int:
        if self.stopping:
            # Never return: an error would mark the run as failed, although it is only about to be interrupted.
            await asyncio.Event().wait()
        # a human's answer may take days, so a run that waits for one is suspended, with nothing in flight
        if kind != "human":
            self._open.add((run_id, key))
            self._quiet.clear()
        try:
            return await self._store.intend(run_id, key, kind, request)
        except BaseException:
            self._close_step(run_id, key)
            raise

    async def commit(self, run_id: str, key: str, kind: StepKind, body: str, at: float) -> None:
        try:
            await self._store.commit(run_id, key, kind, body, at)
        finally:
            self._close_step(run_id, key)

    async def fail(self, run_id: str, key: str, failure: str) -> None:
        try:
            await self._store.fail(run_id, key, failure)
        finally:
            self._close_step(run_id, key)

    async def finish(self, run_id: str, status: StoredStatus, outcome: Mapping[str, Any] | None) -> None:
        if self._requeue and self.stopping and status == "interrupted" and run_id not in self.given_up:
            status = "queued"
        try:
            await self._store.finish(run_id, status, outcome)
        finally:
            # steps still open here were cancelled: they are neither committed nor recorded as failed
            for open_run, key in tuple(self._open):
                if open_run == run_id:
                    self._close_step(run_id, key)

    def _close_step(self, run_id: str, key: str) -> None:
        self._open.discard((run_id, key))
        if not self._open:
            self._quiet.set()

    async def create(self, header: RunHeader) -> None:
        await self._store.create(header)

    async def take(self, run_id: str) -> StoredRun:
        return await self._store.take(run_id)

    async def release(self, run_id: str) -> None:
        await self._store.release(run_id)

    async def run(self, run_id: str) -> StoredRun:
        return await self._store.run(run_id)

    async def steps(self, run_id: str, *, after: int = 0) -> Sequence[StepRow]:
        return await self._store.steps(run_id, after=after)

    async def runs(self, **filters: Unpack[RunFilter]) -> Sequence[StoredRun]:
        return await self._store.runs(**filters)

    async def delete(self, run_id: str) -> None:
        await self._store.delete(run_id)

    async def add(self, run: StoredRun, steps: Sequence[StepRow]) -> None:
        await self._store.add(run, steps)

    async def documents_in(
        self, collections: Sequence[str], *, key: str | None = None
    ) -> Mapping[str, Mapping[str, str]]:
        return await self._store.documents_in(collections, key=key)

    async def documents(self, collection: str) -> Mapping[str, str]:
        return await self._store.documents(collection)

    async def put(self, collection: str, key: str, body: str, *, expected: str | None = None) -> bool:
        return await self._store.put(collection, key, body, expected=expected)

    async def close(self) -> None:
        await self._store.close()
