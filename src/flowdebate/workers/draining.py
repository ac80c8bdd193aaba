"""Draining store: lets a worker stop without losing a call in flight."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flowdebate.store.base import StepKind, Store, StoredStatus

__all__ = ("Draining",)


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
