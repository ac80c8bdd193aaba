"""Rate counter in a PostgreSQL database, shared by all processes, by the clock of the server."""

from __future__ import annotations

import atexit
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakSet

from flowdebate.errors import StoreError
from flowdebate.store.base import encode_text
from flowdebate.store.postgres.database import Address
from flowdebate.store.postgres.sessions import SessionPool

__all__ = ("PostgresCounter",)


if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    _Session: TypeAlias = psycopg.Connection[tuple[Any, ...]]


_ONE_AT_A_TIME = 0x464C4443
"""The number of the lock under which the table is created: "FLDC"."""
_THERE = "SELECT to_regclass(format('%%I.rates', %s::text)) IS NOT NULL"
_TABLE = """
CREATE TABLE IF NOT EXISTS rates (
    key text PRIMARY KEY,
    free_at double precision NOT NULL DEFAULT 0,
    spent_until double precision NOT NULL DEFAULT 0,
    wait double precision NOT NULL DEFAULT 0,
    granted boolean NOT NULL DEFAULT true
)
"""
_NOW = "extract(epoch FROM clock_timestamp())::double precision"
_ROW = "INSERT INTO rates (key) VALUES (%(key)s) ON CONFLICT DO NOTHING"
_TAKE = f"""
WITH clock AS MATERIALIZED (SELECT {_NOW} AS now)
UPDATE rates
SET free_at = CASE WHEN spent_until - now <= %(brim)s
                    AND greatest(free_at, now) + %(each)s - %(burst)s - now <= %(longest)s
              THEN greatest(free_at, now) + %(each)s ELSE free_at END,
    granted = spent_until - now <= %(brim)s
              AND greatest(free_at, now) + %(each)s - %(burst)s - now <= %(longest)s,
    wait = greatest(0, spent_until - now - %(brim)s, greatest(free_at, now) + %(each)s - %(burst)s - now)
FROM clock WHERE key = %(key)s
RETURNING wait, granted
"""  # noqa: S608 - no value stands in it
"""Once a place is taken the next is free `each` later; it may be used up to `burst` before it is due."""
_CHARGE = f"""
WITH clock AS MATERIALIZED (SELECT {_NOW} AS now)
UPDATE rates SET spent_until = greatest(spent_until, now) + %(seconds)s FROM clock WHERE key = %(key)s
"""  # noqa: S608


class PostgresCounter:
    """Queues of time slots in the database at `url`; one session, opened when it is needed.

    Raises ConfigurationError where psycopg is missing or `url` is no address; StoreError, after `patience` seconds,
    where the database cannot be used.
    """

    def __init__(self, url: str, *, schema: str, patience: float) -> None:
        self._address = Address(url, schema=schema, timeout=30.0, patience=patience)
        self._sessions = SessionPool(1, self._address, self._begin)
        _OPEN.add(self)

    async def take(self, key: str, *, each: float, burst: float, brim: float, longest: float) -> tuple[float, bool]:
        """Return the seconds until the next slot, and whether it was taken: not if more than `longest` away."""
        values = {"key": encode_text(key), "each": each, "burst": burst, "brim": brim, "longest": longest}

        def work(session: _Session) -> tuple[float, bool]:
            row = session.execute(_TAKE.encode(), values).fetchone()
            if row is None:
                session.execute(_ROW, values)
                row = session.execute(_TAKE.encode(), values).fetchone()
            if row is None:
                raise StoreError(self._address.name, f"lost the count {key!r}")
            return float(row[0]), bool(row[1])

        taken: tuple[float, bool] = await self._do(work)
        return taken

    async def charge(self, key: str, seconds: float) -> None:
        """Charge `seconds` of the budget of `key`."""
        await self._do(lambda session: session.execute(_CHARGE.encode(), {"key": encode_text(key), "seconds": seconds}))

    def close(self) -> None:
        """Let go of the session; blocks until what was asked for is done."""
        self._sessions.close()

    async def _do(self, work: Callable[[_Session], Any]) -> Any:  # noqa: ANN401 - what `work` gives
        try:
            return await self._sessions.do("", work)
        except Exception as error:
            if not self._address.is_error(error):
                raise
            raise StoreError(self._address.name, self._address.told(error)) from None

    def _begin(self) -> _Session:
        session = self._address.connect()
        try:
            row = session.execute(_THERE, (self._address.schema,)).fetchone()
            if row is None or not row[0]:
                self._make(session)
        except BaseException:
            session.close()
            raise
        return session

    def _make(self, session: _Session) -> None:
        from psycopg import sql

        with session.transaction():
            session.execute("SELECT pg_advisory_xact_lock(%s)", (_ONE_AT_A_TIME,))
            there = session.execute("SELECT to_regnamespace(quote_ident(%s))", (self._address.schema,)).fetchone()
            if there is None or there[0] is None:
                session.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(self._address.schema)))
            session.execute(_TABLE)


_OPEN: WeakSet[PostgresCounter] = WeakSet()


@atexit.register
def _end_all() -> None:
    for counter in list(_OPEN):
        counter.close()
