"""PostgreSQL sessions: a pool for statements, and one whose lock shows that its owner is alive."""

from __future__ import annotations

import asyncio
import queue
import secrets
import selectors
import socket
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from flowdebate.store.postgres.database import Address

__all__ = (
    "ALIVE",
    "PostgresOwner",
    "SessionPool",
)

T = TypeVar("T")

_LONGEST_PAUSE = 0.25


class _Job:
    """One piece of work in a session, and the future that waits for it."""

    __slots__ = ("error", "future", "loop", "since", "value", "work")

    def __init__(self, work: Callable[[psycopg.Connection[tuple[Any, ...]]], Any]) -> None:
        self.work = work
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.since = time.monotonic()
        self.value: Any = None
        self.error: BaseException | None = None

    def answer(self) -> None:
        """Settle the future, unless its loop is closed."""
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


class _Worker:
    """One thread with one session, which executes jobs in order."""

    def __init__(self, address: Address, begin: Callable[[], psycopg.Connection[tuple[Any, ...]]]) -> None:
        self._address = address
        self._begin = begin
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None
        self.jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._work, name="flowdebate-store", daemon=True)
        self.thread.start()

    def _work(self) -> None:
        while (job := self.jobs.get()) is not None:
            self._run_job(job)
            job.answer()
        self._drop()

    def _run_job(self, job: _Job) -> None:
        """Execute `job`, retrying while the server is away and patience lasts."""
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


class SessionPool:
    """Pool of up to `number` sessions; jobs about the same thing are executed in order.

    A job is executed again when its session was lost, even if it had succeeded: it has to be idempotent.
    """

    def __init__(self, number: int, address: Address, begin: Callable[[], psycopg.Connection[tuple[Any, ...]]]) -> None:
        self._address = address
        self._begin = begin
        self._workers: list[_Worker | None] = [None] * number
        self._lock = threading.Lock()
        self.closed = False

    async def do(self, about: str, work: Callable[[psycopg.Connection[tuple[Any, ...]]], T]) -> T:
        """Execute `work`, even if the caller is cancelled; raise the driver's error after the last attempt."""
        job = _Job(work)
        index = crc32(about.encode("utf-8", "surrogatepass")) % len(self._workers)
        worker = self._workers[index] or self._start(index)
        worker.jobs.put(job)
        result: T = await job.future
        return result

    def close(self) -> None:
        """Wait until all jobs are done, and end the threads."""
        with self._lock:
            self.closed = True
            workers = [worker for worker in self._workers if worker is not None]
            self._workers = [None] * len(self._workers)
        for worker in workers:
            worker.jobs.put(None)
        for worker in workers:
            worker.thread.join()

    def _start(self, index: int) -> _Worker:
        with self._lock:
            worker = self._workers[index]
            if worker is None:
                worker = self._workers[index] = _Worker(self._address, self._begin)
            return worker


_HELD = """
FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
ALIVE = f"(SELECT (classid::bigint << 32) | objid::bigint {_HELD})"
"""SQL subquery: the ids of the owners that are alive, among other numbers."""

_KEEP = """
SELECT set_config(name, value, false)
FROM (VALUES ('idle_session_timeout', '0'), ('tcp_keepalives_idle', '5'), ('tcp_keepalives_interval', '5'),
             ('tcp_keepalives_count', '3')) AS wanted (name, value)
JOIN pg_settings USING (name)
"""
_END_OLD = f"SELECT pg_terminate_backend(pid) {_HELD} AND (classid::bigint << 32) | objid::bigint = %s"


class PostgresOwner:
    """One owner of runs: alive as long as its session holds an advisory lock; a lost session is replaced at once.

    A thread waits for the loss, so that the runs stay unowned only while a new session is opened. `ensure` checks the
    lock before anything is written.
    """

    def __init__(self, connect: Callable[[], psycopg.Connection[tuple[Any, ...]]]) -> None:
        self.id = secrets.randbits(63)
        self._connect = connect
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None
        self._lock = threading.Lock()
        self._ended = False
        self._thread: threading.Thread | None = None
        self._bell: tuple[socket.socket, socket.socket] | None = None

    def ensure(self) -> None:
        """Acquire the lock unless it is held; raise the driver's error where that fails."""
        with self._lock:
            if self._ended or (self._connection is not None and not self._lost(self._connection)):
                return
            self._drop()
            self._acquire()
            if self._thread is None:
                self._bell = socket.socketpair()
                self._thread = threading.Thread(target=self._watch, name="flowdebate-owner", daemon=True)
                self._thread.start()
            self._ring()

    def end(self) -> None:
        """Release the lock for good."""
        with self._lock:
            self._ended = True
            self._ring()
        if self._thread is not None:
            self._thread.join()
        self._drop()
        bell, self._bell = self._bell, None
        for end in bell or ():
            end.close()

    def _acquire(self) -> None:
        connection = self._connect()
        try:
            connection.execute(_KEEP)
            row = connection.execute("SELECT pg_try_advisory_lock(%s)", (self.id,)).fetchone()
            if row is None or not row[0]:  # the server has not noticed that the old session is lost
                connection.execute(_END_OLD, (self.id,))
                connection.execute("SELECT pg_advisory_lock(%s)", (self.id,))
        except BaseException:
            connection.close()
            raise
        self._connection = connection

    def _lost(self, connection: psycopg.Connection[tuple[Any, ...]]) -> bool:
        """Return whether the session has ended; query the server only if something unsolicited has arrived."""
        if connection.closed:
            return True
        with selectors.DefaultSelector() as selector:
            selector.register(connection.fileno(), selectors.EVENT_READ)
            if not selector.select(0):
                return False
        try:
            connection.execute("SELECT 1")
        except Exception:  # noqa: BLE001 - whatever it is, another session is needed
            return True
        return False

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.close()

    def _ring(self) -> None:
        if self._bell is not None:
            self._bell[1].send(b"!")

    def _watch(self) -> None:
        pause: float | None = None
        while not self._ended:
            self._wait(pause)
            try:
                self.ensure()
            except Exception:  # noqa: BLE001 - who needs the lock is told; here it is only tried again
                pause = min(_LONGEST_PAUSE, 2 * (pause or 0.02))
            else:
                pause = None

    def _wait(self, pause: float | None) -> None:
        """Wait for input from the session, for the bell, or for `pause` seconds."""
        if self._bell is None:
            return
        bell = self._bell[0]
        with selectors.DefaultSelector() as selector:
            selector.register(bell, selectors.EVENT_READ)
            with self._lock:
                if self._connection is not None and not self._connection.closed:
                    selector.register(self._connection.fileno(), selectors.EVENT_READ)
            for key, _ in selector.select(pause):
                if key.fileobj is bell:
                    bell.recv(4096)
