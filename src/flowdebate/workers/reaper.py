"""Reaper: puts the runs of dead workers back on the queue."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from flowdebate.store.postgres.database import Address
from flowdebate.store.postgres.sessions import ALIVE

if TYPE_CHECKING:
    import psycopg

    from flowdebate.workers.deployment import Workers

__all__ = (
    "Reaper",
    "number_of",
    "worker_id",
)

GRACE = 1.0
"""Seconds for which a worker has to be gone: after a restart of the server all are, for a moment."""

_ONE_AT_A_TIME = 0x464C4452
"""The first half of the number of the lock under which a queue is swept: "FLDR"."""

_ALIVE = f"SELECT number FROM {ALIVE} AS held (number)".encode()  # noqa: S608 - no value stands in it


def worker_id(machine: str, process: int, number: int) -> str:
    """How a worker is called in DBOS: unique, and it says which lock shows that it lives."""
    return f"{machine}:{process}:{number}"


def number_of(worker: str | None) -> int | None:
    """The number of a worker's lock; None for what is no worker's id."""
    text = (worker or "").rpartition(":")[2]
    return int(text) if text.isdecimal() else None


class Reaper:
    """Looks for deliveries that a dead worker has, and for runs that nobody carries out and nobody will.

    A worker is dead when the advisory lock of its number is free. One process at a time sweeps a queue.
    """

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._address = Address(workers.url, schema=workers.schema, timeout=10.0, patience=2.0)
        self._session: psycopg.Connection[tuple[Any, ...]] | None = None
        self._gone: dict[str, float] = {}

    def sweep(self) -> None:
        """Put on the queue again what dead workers have; raises the driver's error. Blocks."""
        if self._session is None or self._session.closed:
            self._session = self._address.connect()
        name = self._workers.name
        lock = (_ONE_AT_A_TIME, name)
        row = self._session.execute("SELECT pg_try_advisory_lock(%s, hashtext(%s))", lock).fetchone()
        if row is None or not row[0]:
            return
        try:
            dead = self._dead(self._session)
            self._workers.queue.hand_back(dead)
        finally:
            self._session.execute("SELECT pg_advisory_unlock(%s, hashtext(%s))", lock)

    async def sweep_left(self) -> None:
        """Deliver runs again whose deliveries are over though they are not, as where a worker was cut off and died."""
        workers = self._workers
        left = [
            stored.header.run_id
            for stored in await workers.store.runs(status="running")
            if not stored.owned and workers.is_ours(stored.header)
        ]
        for run_id in self._long_enough("run", left):
            await asyncio.to_thread(self._send_if_done, run_id)

    def close(self) -> None:
        """Let go of the session."""
        session, self._session = self._session, None
        if session is not None:
            with suppress(Exception):
                session.close()

    def _dead(self, session: psycopg.Connection[tuple[Any, ...]]) -> list[str]:
        taken = {each.workflow_id: number_of(each.executor_id) for each in self._workers.queue.taken()}
        alive = {row[0] for row in session.execute(_ALIVE)}
        return self._long_enough("delivery", [each for each, number in taken.items() if number not in alive])

    def _long_enough(self, kind: str, ids: list[str]) -> list[str]:
        """Those of `ids` that have been seen for long enough; all others of their kind are forgotten."""
        now, names = time.monotonic(), {f"{kind} {each}" for each in ids}
        self._gone = {
            name: since for name, since in self._gone.items() if name in names or not name.startswith(f"{kind} ")
        }
        return [each for each in ids if now - self._gone.setdefault(f"{kind} {each}", now) >= GRACE]

    def _send_if_done(self, run_id: str) -> None:
        found = self._workers.queue.of(run_id)
        if found and found[0].status == "SUCCESS" and not (found[0].output or {}).get("problem"):
            self._workers.queue.send(run_id)
