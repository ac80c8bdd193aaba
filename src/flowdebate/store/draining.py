"""Draining store: lets a process end its runs without losing the calls in flight."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flowdebate.store.base import RunHeader, StepKind, StepRow, Store, StoredRun, StoredStatus


class _Asked(TypedDict, total=False):
    status: StoredStatus | None
    block: str | None
    text: str | None
    labels: Mapping[str, str] | None
    prefix: str | None
    limit: int | None
    before: tuple[float, str] | None


class Draining:
    """A store in front of `store` that can be drained: after `stop()` no new step starts, `intend` never returns.

    Calls in flight finish and are recorded; then their runs can be interrupted without losing anything. An interrupted
    run goes back to the queue, unless it was `given_up` before.
    """

    def __init__(self, store: Store, *, requeue: bool = True) -> None:
        self._store = store
        self._requeue = requeue
        self.name: str = store.name
        self._open: set[tuple[str, str]] = set()
        self._quiet = asyncio.Event()
        self._quiet.set()
        self.stopping: bool = False
        self.given_up: set[str] = set()

    def stop(self) -> None:
        """Start no more steps."""
        self.stopping = True

    async def quiet(self) -> None:
        """Return once no step that was started here is open."""
        await self._quiet.wait()

    async def intend(self, run_id: str, key: str, kind: StepKind, request: str | None) -> int:
        """Like the store's; never returns after `stop()`."""
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
        """Like the store's."""
        try:
            await self._store.commit(run_id, key, kind, body, at)
        finally:
            self._ended(run_id, key)

    async def fail(self, run_id: str, key: str, failure: str) -> None:
        """Like the store's."""
        try:
            await self._store.fail(run_id, key, failure)
        finally:
            self._ended(run_id, key)

    async def finish(self, run_id: str, status: StoredStatus, outcome: Mapping[str, Any] | None) -> None:
        """Like the store's; a run that is interrupted because of `stop()` is queued."""
        if self._requeue and self.stopping and status == "interrupted" and run_id not in self.given_up:
            status = "queued"
        try:
            await self._store.finish(run_id, status, outcome)
        finally:
            for open_run, key in tuple(self._open):
                if open_run == run_id:
                    self._ended(run_id, key)

    async def create(self, header: RunHeader) -> None:
        """Like the store's."""
        await self._store.create(header)

    async def take(self, run_id: str) -> StoredRun:
        """Like the store's."""
        return await self._store.take(run_id)

    async def release(self, run_id: str) -> None:
        """Like the store's."""
        await self._store.release(run_id)

    async def run(self, run_id: str) -> StoredRun:
        """Like the store's."""
        return await self._store.run(run_id)

    async def steps(self, run_id: str) -> Sequence[StepRow]:
        """Like the store's."""
        return await self._store.steps(run_id)

    async def runs(self, **asked: Unpack[_Asked]) -> Sequence[StoredRun]:
        """Like the store's."""
        return await self._store.runs(**asked)

    async def delete(self, run_id: str) -> None:
        """Like the store's."""
        await self._store.delete(run_id)

    async def add(self, run: StoredRun, steps: Sequence[StepRow]) -> None:
        """Like the store's."""
        await self._store.add(run, steps)

    async def documents(self, collection: str) -> Mapping[str, str]:
        """Like the store's."""
        return await self._store.documents(collection)

    async def put(self, collection: str, key: str, body: str, *, expected: str | None = None) -> bool:
        """Like the store's."""
        return await self._store.put(collection, key, body, expected=expected)

    async def close(self) -> None:
        """Like the store's."""
        await self._store.close()

    def _ended(self, run_id: str, key: str) -> None:
        self._open.discard((run_id, key))
        if not self._open:
            self._quiet.set()
