"""What is done with a SQLite file, and in which thread; what many tasks write at the same time is one transaction."""

from __future__ import annotations

import asyncio
import atexit
import os
import queue
import sqlite3
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast
from weakref import WeakSet

from flowdebate.store.sqlite.file import Disk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

__all__ = ("Writer",)

T = TypeVar("T")

_MOST = 500
"""Jobs of one transaction."""
_LOG_JOBS = 2000
"""After how many jobs the write-ahead log is shortened: some 16 MB, unless they are large."""


class _Job:
    """Something to do with the connection, and who waits for it."""

    __slots__ = ("durably", "error", "future", "loop", "single", "value", "work")

    def __init__(
        self, work: Callable[[sqlite3.Connection], Any], *, single: bool = False, durably: bool = True
    ) -> None:
        self.work = work
        self.single = single
        self.durably = durably
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.value: Any = None
        self.error: BaseException | None = None


class Writer:
    """Does jobs in the order in which they come, each whole or not at all, also if their caller is cancelled.

    To write is to write to the page cache, and quick; to wait for locks, or for the disk, is not. So what many tasks
    write in one turn of their loop is one transaction of the next turn, and a thread waits for the disk once for all of
    it. Another thread does what may take long, what finds the file locked, and what one task writes alone. `connect`
    opens its connection, and `connect_quick` one that waits for nothing.
    """

    def __init__(
        self,
        connect: Callable[[], sqlite3.Connection],
        connect_quick: Callable[[], sqlite3.Connection],
        path: Path,
    ) -> None:
        self._connect = connect
        self._connect_quick = connect_quick
        self._quick: sqlite3.Connection | None = None
        self._quick_lock = threading.Lock()
        self._connected = False
        """Whether the thread has found the file fit for use."""
        self._together: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
        """What each loop does in its next turn."""
        self._crowd = 0
        """How many jobs the last turn had that had any."""
        self._given = 0
        self._done = 0
        """How many jobs the thread was given, and how many of them it has done."""
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._process: int | None = None
        self._unmoved = 0
        """How many jobs were done together since the log was shortened."""
        self._disk = Disk(path)
        _OPEN.add(self)

    async def do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What `work` gives, which may take long; what it writes is on the disk then."""
        self._take_over_stranded()
        self._do_together(asyncio.get_running_loop())  # that comes before it
        return cast("T", await self._handed_over(_Job(work)))

    async def write(self, work: Callable[[sqlite3.Connection], T], *, single: bool = False, durably: bool = True) -> T:
        """What `work` gives, once it is on the disk; without `durably`, once it outlives this process.

        With `single` it is one statement that writes, and is read to its end: that needs no transaction around it.
        """
        job = _Job(work, single=single, durably=durably)
        together = self._together.get(job.loop)
        if together is not None:
            together.append(job)
        elif durably and self._crowd <= 1 and self._given == self._done:
            self._handed_over(job)  # somebody has to wait for the disk, and nobody else writes
        else:
            self._together[job.loop] = [job]
            job.loop.call_soon(self._do_together, job.loop)
        return cast("T", await job.future)

    def close(self) -> None:
        """End the thread when all jobs are done, and wait for it."""
        self._take_over_stranded(closing=True)
        with self._lock:
            self._closed = True
            thread, self._thread = self._thread, None
        if thread is not None:
            self._jobs.put(None)
            thread.join()
        self._disk.close()
        with self._quick_lock:
            if self._quick is not None:
                self._quick.close()
                self._quick = None

    @property
    def closed(self) -> bool:
        """Whether it takes no jobs any more."""
        return self._closed

    @property
    def lost(self) -> OSError | None:
        """Why the disk did not take what was written; nothing is done any more then."""
        return self._disk.lost

    @property
    def strayed(self) -> bool:
        """Whether its thread is in the process that this one was forked from: nobody does its jobs here."""
        return self._process is not None and self._process != os.getpid()

    def _do_together(self, loop: asyncio.AbstractEventLoop) -> None:
        """Do what this turn of the loop is to do: here, or in the thread, if that has not done yet what came before."""
        jobs = self._together.pop(loop, [])
        if not jobs:
            return
        self._crowd = len(jobs)
        if not self._carried_out(jobs):
            self._leave_to_thread(jobs)
            return
        locked = dict.fromkeys(job for job in jobs if job.error is not None and _is_lock(job.error))
        self._leave_to_thread(locked)
        jobs = [job for job in jobs if job not in locked]
        self._unmoved += len(jobs)
        waiting = [job for job in jobs if job.durably]
        if waiting:
            told = partial(_answer, waiting)
            self._disk.sync(told if self._unmoved < _LOG_JOBS else partial(self._shorten_log, told))
        _settle([job for job in jobs if not job.durably])

    def _take_over_stranded(self, *, closing: bool = False) -> None:
        """Let the thread do what a loop was to do that has ended before its next turn."""
        for loop in list(self._together):
            if closing or loop.is_closed():
                self._leave_to_thread(self._together.pop(loop, []))

    def _leave_to_thread(self, jobs: Iterable[_Job]) -> None:
        for job in jobs:
            job.error = None
            self._handed_over(job)

    def _carried_out(self, jobs: list[_Job]) -> bool:
        """Do `jobs` here and now; False, and nothing done, where that is not possible."""
        idle = self._connected and self._given == self._done
        if not idle or not self._quick_lock.acquire(blocking=False):
            return False
        try:
            if self._quick is None:
                self._quick = self._connect_quick()
            _carry_out(jobs, self._quick)
        except (sqlite3.Error, OSError):  # it cannot be opened a second time
            return False
        finally:
            self._quick_lock.release()
        return True

    def _shorten_log(self, told: Callable[[OSError | None], None], lost: OSError | None) -> None:
        """Put the log's pages into the database before those who wait are `told`: what they write next begins it anew.

        Where others are writing or reading just then, it goes on, and this is tried again after what is written next.
        """
        with self._quick_lock, suppress(sqlite3.Error):
            if self._quick is not None and lost is None:
                busy = self._quick.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()[0]
                self._unmoved = _LOG_JOBS if busy else 0
        told(lost)

    def _handed_over(self, job: _Job) -> asyncio.Future[Any]:
        """What comes of `job`, which the thread does."""
        self._start()
        self._given += 1
        self._jobs.put(job)
        return job.future

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
            if not jobs:
                continue
            try:
                if connection is None:
                    connection = self._connect()
                    self._connected = True
            except BaseException as error:  # noqa: BLE001 - those who wait are told
                for job in jobs:
                    job.error = error
            else:
                _carry_out(jobs, connection)
            self._done += len(jobs)
            _answer(jobs, self.lost)
        if connection is not None:
            connection.close()

    def _next(self) -> tuple[list[_Job], bool]:
        """The jobs that wait, at least one; and whether there will be none after them."""
        jobs: list[_Job] = []
        item = self._jobs.get()
        while item is not None:
            jobs.append(item)
            if len(jobs) == _MOST or self._jobs.empty():
                return jobs, False
            item = self._jobs.get()
        return jobs, True


def _carry_out(jobs: list[_Job], connection: sqlite3.Connection) -> None:
    """All `jobs` in one transaction; where it fails, each in one of its own."""

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


def _answer(jobs: list[_Job], lost: OSError | None = None) -> None:
    """Tell those who wait, each loop once; with what was `lost`, that theirs is."""
    if lost is not None:
        for job in jobs:
            job.error = job.error or lost
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
