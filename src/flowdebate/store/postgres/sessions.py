"""Threads with a session each, for a store that is used from any number of event loops."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from typing import TYPE_CHECKING, Any, TypeVar
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from flowdebate.store.postgres.address import Address

__all__ = ("Lanes",)

T = TypeVar("T")

_LONGEST_PAUSE = 0.25


class _Job:
    """Something to do in a session, and who waits for it."""

    __slots__ = ("error", "future", "loop", "since", "value", "work")

    def __init__(self, work: Callable[[psycopg.Connection[tuple[Any, ...]]], Any]) -> None:
        self.work = work
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.since = time.monotonic()
        self.value: Any = None
        self.error: BaseException | None = None

    def answer(self) -> None:
        """Tell who waits, if anybody does."""
        try:
            self.loop.call_soon_threadsafe(self._settle)
        except RuntimeError:  # the loop is closed
            return

    def _settle(self) -> None:
        if self.future.done():
            return
        if self.error is None:
            self.future.set_result(self.value)
        else:
            self.future.set_exception(self.error)


class _Lane:
    """One thread with one session: its jobs are done in the order in which they come."""

    def __init__(self, address: Address, begin: Callable[[], psycopg.Connection[tuple[Any, ...]]]) -> None:
        self._address = address
        self._begin = begin
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None
        self.jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._work, name="flowdebate-store", daemon=True)
        self.thread.start()

    def _work(self) -> None:
        while (job := self.jobs.get()) is not None:
            self._carry_out(job)
            job.answer()
        self._drop()

    def _carry_out(self, job: _Job) -> None:
        """Do `job`, again and again while the server is away, as long as patience lasts."""
        pause = 0.0
        while True:
            try:
                if self._connection is None or self._connection.closed:
                    self._connection = self._begin()
                job.value = job.work(self._connection)
            except BaseException as error:  # noqa: BLE001 - who waits is told
                if self._connection is not None and self._connection.info.transaction_status:
                    self._drop()  # it is not idle, but lost or in the middle of something
                left = job.since + self._address.patience - time.monotonic()
                if left <= 0 or not self._address.may_pass(error):
                    job.error = error
                    return
                time.sleep(min(pause, left))
                pause = min(_LONGEST_PAUSE, 2 * pause + 0.01)
            else:
                return

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class Lanes:
    """Does jobs in up to `number` sessions; those about the same thing in the order in which they come.

    A job may be done again after its session was lost, even if it was done: it has to come to the same.
    """

    def __init__(self, number: int, address: Address, begin: Callable[[], psycopg.Connection[tuple[Any, ...]]]) -> None:
        self._address = address
        self._begin = begin
        self._lanes: list[_Lane | None] = [None] * number
        self._lock = threading.Lock()
        self.closed = False

    async def do(self, about: str, work: Callable[[psycopg.Connection[tuple[Any, ...]]], T]) -> T:
        """What `work` gives; done also if the caller is cancelled. The driver's error after the last try."""
        job = _Job(work)
        index = crc32(about.encode("utf-8", "surrogatepass")) % len(self._lanes)
        lane = self._lanes[index] or self._lane(index)
        lane.jobs.put(job)
        result: T = await job.future
        return result

    def close(self) -> None:
        """End the threads when all jobs are done, and wait for them."""
        with self._lock:
            self.closed = True
            lanes = [lane for lane in self._lanes if lane is not None]
            self._lanes = [None] * len(self._lanes)
        for lane in lanes:
            lane.jobs.put(None)
        for lane in lanes:
            lane.thread.join()

    def _lane(self, index: int) -> _Lane:
        with self._lock:
            lane = self._lanes[index]
            if lane is None:
                lane = self._lanes[index] = _Lane(self._address, self._begin)
            return lane
