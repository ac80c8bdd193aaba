"""One thread that owns a SQLite connection; what many tasks write at the same time goes into one transaction."""

from __future__ import annotations

import asyncio
import atexit
import os
import queue
import threading
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

__all__ = ("Writer",)

T = TypeVar("T")

_MOST = 500
"""Jobs of one transaction."""


class _Job:
    """Something to do with the connection, and who waits for it."""

    __slots__ = ("error", "future", "loop", "single", "value", "work")

    def __init__(
        self, work: Callable[[sqlite3.Connection], Any], loop: asyncio.AbstractEventLoop, *, single: bool
    ) -> None:
        self.work = work
        self.single = single
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()
        self.value: Any = None
        self.error: BaseException | None = None


class Writer:
    """Does jobs in the order in which they come, each whole or not at all; they are durable when they are answered.

    `connect` opens the thread's connection, and `connect_quick` one that neither waits for locks nor for the disk.
    """

    def __init__(
        self, connect: Callable[[], sqlite3.Connection], connect_quick: Callable[[], sqlite3.Connection]
    ) -> None:
        self._connect = connect
        self._connect_quick = connect_quick
        self._quick: sqlite3.Connection | None = None
        self._quick_lock = threading.Lock()
        self._connected = False
        """Whether the thread has found the file fit for use."""
        self._begun = 0
        self._done = 0
        """Jobs that the thread was given, and those of them that it has done."""
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._process: int | None = None
        _OPEN.add(self)

    async def do(self, work: Callable[[sqlite3.Connection], T], *, single: bool = False) -> T:
        """What `work` gives, once its transaction is on the disk; done also if the caller is cancelled.

        With `single` it is one statement that writes, and is read to its end: that needs no transaction around it.
        """
        job = _Job(work, asyncio.get_running_loop(), single=single)
        self._start()
        self._begun += 1
        self._jobs.put(job)
        result: T = await job.future
        return result

    async def do_quickly(self, work: Callable[[sqlite3.Connection], T], *, single: bool = False) -> T:
        """What `work` gives, once it outlives this process; the next `do` puts it on the disk, too.

        Nothing but the page cache is written to, which is quicker than to wake the thread. Where the thread has
        something to do, or the file is locked or cannot be opened again, `work` waits in its queue.
        """
        if self._connected and self._begun == self._done and self._quick_lock.acquire(blocking=False):
            try:
                if self._quick is None:
                    self._quick = self._connect_quick()
                return work(self._quick) if single else _in_transaction(work, self._quick)
            except Exception as error:
                if not (_is_lock(error) or self._quick is None):
                    raise
            finally:
                self._quick_lock.release()
        return await self.do(work, single=single)

    def close(self) -> None:
        """End the thread when all jobs are done, and wait for it."""
        with self._lock:
            self._closed = True
            thread, self._thread = self._thread, None
        if thread is not None:
            self._jobs.put(None)
            thread.join()
        with self._quick_lock:
            if self._quick is not None:
                self._quick.close()
                self._quick = None

    @property
    def closed(self) -> bool:
        """Whether it takes no jobs any more."""
        return self._closed

    @property
    def strayed(self) -> bool:
        """Whether its thread is in the process that this one was forked from: nobody does its jobs here."""
        return self._process is not None and self._process != os.getpid()

    def _start(self) -> None:
        if self._thread is None:
            with self._lock:
                if self._thread is None and not self._closed:
                    self._thread = threading.Thread(target=self._work, name="flowdebate-store", daemon=True)
                    self._process = os.getpid()
                    self._thread.start()

    def _work(self) -> None:
        connection: sqlite3.Connection | None = None
        ended = False
        while not ended:
            jobs, ended = self._next()
            try:
                if connection is None and jobs:
                    connection = self._connect()
                    self._connected = True
            except BaseException as error:  # noqa: BLE001 - those who wait are told
                for job in jobs:
                    job.error = error
            else:
                _carry_out(jobs, connection)
            self._done += len(jobs)
            _answer(jobs)
        if connection is not None:
            connection.close()

    def _next(self) -> tuple[list[_Job], bool]:
        """The jobs that wait, at least one; and whether there will be none after them."""
        jobs: list[_Job] = []
        item = self._jobs.get()
        while item is not None:
            jobs.append(item)
            if len(jobs) == _MOST:
                return jobs, False
            try:
                item = self._jobs.get_nowait()
            except queue.Empty:
                return jobs, False
        return jobs, True


def _carry_out(jobs: list[_Job], connection: sqlite3.Connection | None) -> None:
    """All `jobs` in one transaction; where it fails, each in one of its own."""
    if connection is None:
        return

    def work(connection: sqlite3.Connection) -> None:
        for job in jobs:
            job.value = job.work(connection)

    try:
        if len(jobs) == 1 and jobs[0].single:
            work(connection)
        else:
            _in_transaction(work, connection)
    except BaseException as error:  # noqa: BLE001 - those who wait are told
        if len(jobs) == 1 or _is_lock(error):  # each of them would wait as long once more
            for job in jobs:
                job.error = error
            return
        for job in jobs:
            try:
                job.value = _in_transaction(job.work, connection)
            except BaseException as failure:  # noqa: BLE001 - as above
                job.error = failure


def _is_lock(error: BaseException) -> bool:
    return getattr(error, "sqlite_errorname", "").startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))


def _in_transaction(work: Callable[[sqlite3.Connection], T], connection: sqlite3.Connection) -> T:
    connection.execute("BEGIN IMMEDIATE")
    try:
        value = work(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return value


def _answer(jobs: list[_Job]) -> None:
    """Tell those who wait, each loop once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
    for job in jobs:
        by_loop.setdefault(job.loop, []).append(job)
    for loop, group in by_loop.items():
        try:
            loop.call_soon_threadsafe(_settle, group)
        except RuntimeError:  # the loop is closed: nobody waits any more
            continue


def _settle(jobs: list[_Job]) -> None:
    for job in jobs:
        if job.future.done():
            continue
        if job.error is None:
            job.future.set_result(job.value)
        else:
            job.future.set_exception(job.error)


_OPEN: WeakSet[Writer] = WeakSet()


@atexit.register
def _close_all() -> None:
    """What was handed over is written before the process ends."""
    for writer in list(_OPEN):
        writer.close()
