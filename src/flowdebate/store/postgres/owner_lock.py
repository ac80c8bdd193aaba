"""Who carries out runs in a PostgreSQL store: a session shows that it lives by an advisory lock, which dies with it."""

from __future__ import annotations

import secrets
import selectors
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

__all__ = (
    "ALIVE",
    "PostgresOwner",
)

_HELD = """
FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted
AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
ALIVE = f"(SELECT (classid::bigint << 32) | objid::bigint {_HELD})"
"""The ids of the owners that are alive, among other numbers, as SQL."""

_KEEP = """
SELECT set_config(name, value, false)
FROM (VALUES ('idle_session_timeout', '0'), ('tcp_keepalives_idle', '5'), ('tcp_keepalives_interval', '5'),
             ('tcp_keepalives_count', '3')) AS wanted (name, value)
JOIN pg_settings USING (name)
"""
_END_OLD = f"SELECT pg_terminate_backend(pid) {_HELD} AND (classid::bigint << 32) | objid::bigint = %s"
_LONGEST_PAUSE = 0.25


class PostgresOwner:
    """One owner of runs, alive as long as its session is; a session that was lost is replaced at once.

    A thread waits for the loss, so that the runs are not free for as long as a call takes, but for as long as it takes
    to begin a session. `ensure` makes sure of it before anything is written.
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
        """Have the lock; raises the driver's error where that cannot be had."""
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
        """Be no owner any more."""
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
        """Whether the session has ended; nothing is sent unless something has come, which nobody asked for."""
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
        """Until something comes from the session, or the bell rings, or `pause` seconds are over."""
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
