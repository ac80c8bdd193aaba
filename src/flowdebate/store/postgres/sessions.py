"""PostgreSQL sessions: a pool for statements, and a session whose lock shows that its owner is alive."""

from __future__ import annotations

import queue
import secrets
import selectors
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar, cast
from zlib import crc32

from flowdebate.errors import StoreError
from flowdebate.store.jobs import Job, settle_from_thread

if TYPE_CHECKING:
    from flowdebate.store.postgres.database import Address, Session


T = TypeVar("T")

_MAX_PAUSE = 0.25


class _Worker:
    """Thread that executes jobs in order, using one session."""

    def __init__(self, address: Address, begin: Callable[[], Session]) -> None:
        self._address = address
        self._begin = begin
        self._session: Session | None = None
        self.jobs: queue.SimpleQueue[tuple[Job, float] | None] = queue.SimpleQueue()
        """Jobs waiting to be executed, with their submission times."""
        self.thread = threading.Thread(target=self._work, name="flowdebate-store", daemon=True)
        self.thread.start()

    def _work(self) -> None:
        while (submitted := self.jobs.get()) is not None:
            self._execute(*submitted)
            settle_from_thread(submitted[:1])
        self._drop()

    def _execute(self, job: Job, since: float) -> None:
        """Execute `job`, retrying while the server is unreachable, until `patience` runs out."""
        pause = 0.0
        while True:
            try:
                if self._session is None or self._session.closed:
                    self._session = self._begin()
                job.value = job.work(self._session)
            except BaseException as error:  # noqa: BLE001 - raised where the job is awaited
                if self._session is not None and self._session.info.transaction_status:
                    self._drop()  # the session is not idle, so it is either lost or busy
                # Time spent in the queue counts toward the limit.
                remaining = since + self._address.patience - time.monotonic()
                if remaining <= 0 or not self._address.is_transient(error):
                    job.error = error
                    return
                time.sleep(min(pause, remaining))
                pause = min(_MAX_PAUSE, 2 * pause + 0.01)
            else:
                return

    def _drop(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()


class SessionPool:
    """Pool of up to `number` sessions, opened by `begin`; jobs with the same key are executed in order.

    If a job's session is lost, the job is executed again, even if it had already succeeded, so jobs must be idempotent.
    """

    def __init__(self, number: int, address: Address, begin: Callable[[], Session]) -> None:
        self._address = address
        self._begin = begin
        self._workers: list[_Worker | None] = [None] * number
        self._lock = threading.Lock()
        self._closed = False

    async def do(self, purpose: str, work: Callable[[Session], T]) -> T:
        """Execute `work` to completion, even if the caller is cancelled.

        Raises StoreError if the pool is closed or `patience` runs out.
        """
        # Use one thread for all of a run's jobs: a write continues if its caller is cancelled, and the run's end must
        # not overtake it.
        index = crc32(purpose.encode("utf-8", "surrogatepass")) % len(self._workers)
        worker = self._workers[index]
        if worker is None:
            with self._lock:
                if self._closed:
                    raise StoreError(self._address.name, "is closed")
                # Another thread may have started the worker in the meantime.
                worker = self._workers[index] = self._workers[index] or _Worker(self._address, self._begin)
        job = Job(work)
        worker.jobs.put((job, time.monotonic()))
        try:
            return cast("T", await job.future)
        except Exception as error:
            if not self._address.is_error(error):
                raise
            # Omit the cause if it contains secrets, because tracebacks display causes.
            cause = error if self._address.without_secrets(str(error)) == str(error) else None
            raise StoreError(self._address.name, self._address.describe(error)) from cause

    def close(self) -> None:
        """Wait until all jobs are done, then stop the threads."""
        with self._lock:
            self._closed = True
            workers = [worker for worker in self._workers if worker is not None]
            self._workers = [None] * len(self._workers)
        for worker in workers:
            worker.jobs.put(None)
        for worker in workers:
            worker.thread.join()


_HELD = """
FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
ALIVE = f"(SELECT (classid::bigint << 32) | objid::bigint {_HELD})"
"""SQL subquery for the ids of all live owners; the result may also include the numbers of unrelated locks."""

_KEEP = """
SELECT set_config(name, value, false)
FROM (VALUES ('idle_session_timeout', '0'), ('tcp_keepalives_idle', '5'), ('tcp_keepalives_interval', '5'),
             ('tcp_keepalives_count', '3')) AS wanted (name, value)
JOIN pg_settings USING (name)
"""
_END_OLD = f"SELECT pg_terminate_backend(pid) {_HELD} AND (classid::bigint << 32) | objid::bigint = %s"


class PostgresOwner:
    """Owner of runs, alive as long as its session holds an advisory lock.

    A thread watches for the loss of the session and replaces it immediately, so that the runs are without an owner only
    while a new session is being opened. `ensure` checks the lock before anything is written.
    """

    def __init__(self, connect: Callable[[], Session]) -> None:
        self.id: int = secrets.randbits(63)
        self._connect = connect
        self._connection: Session | None = None
        self._lock = threading.Lock()
        self._ended = False
        self._thread: threading.Thread | None = None
        # Wakes the thread while it is waiting for input, so that it starts watching a new session, or ends.
        self._bell: tuple[socket.socket, socket.socket] | None = None

    def ensure(self) -> None:
        """Acquire the lock if it is not held; raise the driver's error if that fails."""
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
        """Release the lock permanently."""
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
            if row is None or not row[0]:  # the server has not yet noticed that the old session is lost
                connection.execute(_END_OLD, (self.id,))
                connection.execute("SELECT pg_advisory_lock(%s)", (self.id,))
        except BaseException:
            connection.close()
            raise
        self._connection = connection

    def _lost(self, connection: Session) -> bool:
        """Return whether the session has ended; query the server only after it has sent an unsolicited message."""
        if connection.closed:
            return True
        with selectors.DefaultSelector() as selector:
            selector.register(connection.fileno(), selectors.EVENT_READ)
            if not selector.select(0):
                return False
        try:
            # an error means that the session has ended; otherwise, the input was just a notice
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
            except Exception:  # noqa: BLE001 - raised by `ensure` where the lock is needed; here it is only retried
                pause = min(_MAX_PAUSE, 2 * (pause or 0.02))
            else:
                pause = None

    def _wait(self, pause: float | None) -> None:
        """Wait until the session has input or a wake-up signal arrives, for at most `pause` seconds."""
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
