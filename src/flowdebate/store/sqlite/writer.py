"""SQLite writer: group commit on the event loop, and one writer thread for everything else."""

from __future__ import annotations

import asyncio
import atexit
import os
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast
from weakref import WeakSet

from flowdebate.store.jobs import Job, settle, settle_from_thread
from flowdebate.store.sqlite.file import Disk

T = TypeVar("T")

_MAX_JOBS = 500
"""Maximum number of jobs in a transaction."""
_LOG_JOBS = 2000
"""Number of jobs between checkpoints; their log entries usually take up about 16 MB."""


class _Job(Job):
    """Job for the writer.

    `single`: the job is a single write statement whose result is read to the end, so it needs no transaction.
    `durably`: the job is done only once its writes are on disk, rather than as soon as they would survive this process.
    """

    __slots__ = ("durably", "single")

    def __init__(
        self, work: Callable[[sqlite3.Connection], Any], *, single: bool = False, durably: bool = True
    ) -> None:
        super().__init__(work)
        self.single = single
        self.durably = durably


class Writer:
    """Executor that runs jobs in order, each completely or not at all, even if its caller is cancelled.

    Writing to the page cache is quick, but waiting for locks or the disk is not. For this reason, all writes from one
    iteration of an event loop form one transaction in the next iteration, and a thread syncs the disk once for all of
    them. Another thread handles potentially slow jobs, jobs blocked by a lock on the file, and writes made while no
    other task is writing. `connect` opens the connection for that thread, and `connect_quick` opens a connection that
    never waits.
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
        """True once the thread has opened the file."""
        self._batches: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
        """Jobs to be executed in each event loop's next turn."""
        self._last_batch = 0
        self._submitted = 0
        self._done = 0
        """Number of submitted jobs that the thread has finished."""
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._process: int | None = None
        self._since_checkpoint = 0
        """Number of jobs executed in batches since the last checkpoint."""
        self._disk = Disk(path)
        _OPEN.add(self)

    async def do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Execute potentially slow `work` in the writer thread; on return, its writes are on disk."""
        self._submit_stranded()
        # writes made earlier in this iteration of the event loop come first
        self._run_batch(asyncio.get_running_loop())
        return cast("T", await self._submit(_Job(work)))

    async def write(self, work: Callable[[sqlite3.Connection], T], *, single: bool = False, durably: bool = True) -> T:
        """Execute `work` in this event loop iteration's batch; return once the writes are on disk (see `_Job`)."""
        job = _Job(work, single=single, durably=durably)
        together = self._batches.get(job.loop)
        if together is not None:
            together.append(job)
        elif durably and self._last_batch <= 1 and self._submitted == self._done:
            self._submit(job)  # the caller has to wait for the disk anyway, and nobody else is writing
        else:
            self._batches[job.loop] = [job]
            job.loop.call_soon(self._run_batch, job.loop)
        return cast("T", await job.future)

    def close(self) -> None:
        """Wait until all jobs are done, then end the threads."""
        self._submit_stranded(closing=True)
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
        """True if the writer accepts no more jobs."""
        return self._closed

    @property
    def lost(self) -> OSError | None:
        """Error from a failed sync, or FileNotFoundError if the file is gone; once this is set, no more jobs run."""
        return self._disk.lost

    @property
    def forked(self) -> bool:
        """True in a process forked from the one that runs the writer thread; no thread executes jobs there."""
        return self._process is not None and self._process != os.getpid()

    def _run_batch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run this event loop iteration's batch here, or hand it to the writer thread if that thread is still busy."""
        jobs = self._batches.pop(loop, [])
        if not jobs:
            return
        self._last_batch = len(jobs)
        if not self._run_inline(jobs):
            self._submit_all(jobs)
            return
        # Another process is writing: let the thread, not the event loop, wait for it, for as long as the store's
        # patience allows.
        locked = dict.fromkeys(job for job in jobs if job.error is not None and _is_lock(job.error))
        self._submit_all(locked)
        jobs = [job for job in jobs if job not in locked]
        self._since_checkpoint += len(jobs)
        waiting = [job for job in jobs if job.durably]
        if waiting:
            finish = partial(_finish, waiting)
            self._disk.sync(finish if self._since_checkpoint < _LOG_JOBS else partial(self._checkpoint, finish))
        # these jobs need no sync, because their writes are in the page cache, which outlives the process
        settle([job for job in jobs if not job.durably])

    def _submit_stranded(self, *, closing: bool = False) -> None:
        """Submit the batches of event loops that were closed before running their next iteration."""
        for loop in list(self._batches):
            if closing or loop.is_closed():
                self._submit_all(self._batches.pop(loop, []))

    def _submit_all(self, jobs: Iterable[_Job]) -> None:
        for job in jobs:
            job.error = None
            self._submit(job)

    def _run_inline(self, jobs: list[_Job]) -> bool:
        """Execute `jobs` immediately; if that is impossible, do nothing and return False."""
        idle = self._connected and self._submitted == self._done
        if not idle or self._disk.check() or not self._quick_lock.acquire(blocking=False):
            return False
        try:
            if self._quick is None:
                self._quick = self._connect_quick()
            _run_jobs(jobs, self._quick)
        except (sqlite3.Error, OSError):  # the file could not be opened a second time
            return False
        finally:
            self._quick_lock.release()
        return True

    def _checkpoint(self, finish: Callable[[OSError | None], None], lost: OSError | None) -> None:
        """Checkpoint the write-ahead log before `finish`, so that the callers' next write reuses it from the start.

        If other connections are reading or writing at that moment, the log keeps growing, and the next batch tries
        again.
        """
        with self._quick_lock, suppress(sqlite3.Error):
            if self._quick is not None and lost is None:
                busy = self._quick.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()[0]
                self._since_checkpoint = _LOG_JOBS if busy else 0
        finish(lost)

    def _submit(self, job: _Job) -> asyncio.Future[Any]:
        """Submit `job` to the thread, and return a future for its result."""
        if self._thread is None:
            with self._lock:  # event loops in several threads may get here at the same time
                if self._thread is None and not self._closed:
                    self._thread = threading.Thread(target=self._work, name="flowdebate-store", daemon=True)
                    self._process = os.getpid()
                    self._thread.start()
        self._submitted += 1
        self._jobs.put(job)
        return job.future

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
                lost = self._disk.check()
                self._connected = True
            except BaseException as error:  # noqa: BLE001 - raised where the jobs are awaited
                for job in jobs:
                    job.error = error
            else:
                if lost is None:
                    _run_jobs(jobs, connection)
            self._done += len(jobs)
            _finish(jobs, self.lost)
            del jobs  # free the results, which may be large, before waiting for more jobs
        if connection is not None:
            connection.close()

    def _next(self) -> tuple[list[_Job], bool]:
        """Wait for jobs; return all queued jobs, and whether they are the last ones."""
        jobs: list[_Job] = []
        item = self._jobs.get()
        while item is not None:
            jobs.append(item)
            if len(jobs) == _MAX_JOBS or self._jobs.empty():
                return jobs, False
            item = self._jobs.get()
        return jobs, True


def _run_jobs(jobs: list[_Job], connection: sqlite3.Connection) -> None:
    """Execute `jobs` in one transaction; if that fails, execute each in its own transaction."""

    def work(connection: sqlite3.Connection) -> None:
        for job in jobs:
            job.value = job.work(connection)

    try:
        if len(jobs) == 1 and jobs[0].single:
            work(connection)
        else:
            _in_transaction(work, connection)
    except BaseException as error:  # noqa: BLE001 - raised where the jobs are awaited
        if len(jobs) == 1 or _is_lock(error):  # retrying the jobs one by one would mean waiting just as long again
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
    # take the lock now, because taking it at the first write may fail after some reads
    connection.execute("BEGIN IMMEDIATE")
    try:
        value = work(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return value


def _finish(jobs: list[_Job], lost: OSError | None) -> None:
    """Settle the futures of `jobs` from the current thread; if `lost` is an error, fail all of them with that error."""
    if lost is not None:
        for job in jobs:
            job.error = job.error or lost
    settle_from_thread(jobs)


_OPEN: WeakSet[Writer] = WeakSet()


@atexit.register
def _close_all() -> None:
    """Write all submitted jobs before the process exits, because exiting stops the daemon thread mid-job."""
    for writer in list(_OPEN):
        writer.close()
