"""Rate counter in a PostgreSQL database, shared by all processes and based on the server's clock."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING
from weakref import finalize

from flowdebate.errors import StoreError
from flowdebate.store.postgres.database import Address, make_schema
from flowdebate.store.postgres.sessions import SessionPool

if TYPE_CHECKING:
    from flowdebate.store.postgres.database import Session


_ONE_AT_A_TIME = 0x464C4443
"""Key of the advisory lock held while the table is created: "FLDC" in ASCII."""
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
"""  # noqa: S608 - a constant
"""Statement to claim a slot: each slot lasts `each` seconds, and can be used as early as `burst` seconds before its
end.
"""
_CHARGE = f"""
WITH clock AS MATERIALIZED (SELECT {_NOW} AS now)
UPDATE rates SET spent_until = greatest(spent_until, now) + %(seconds)s FROM clock WHERE key = %(key)s
"""  # noqa: S608
_PAUSE = f"""
WITH clock AS MATERIALIZED (SELECT {_NOW} AS now)
UPDATE rates SET free_at = greatest(free_at, now + %(seconds)s) FROM clock WHERE key = %(key)s
"""  # noqa: S608
_LEFT = f"SELECT greatest(0, free_at - {_NOW}) FROM rates WHERE key = %(key)s"  # noqa: S608


class PostgresCounter:
    """Queues of time slots in the database at `url`; all of them use one session, opened on demand.

    Raises ConfigurationError if psycopg is missing or `url` is not an address, and StoreError if the database is still
    unusable after `patience` seconds.
    """

    def __init__(self, url: str, *, schema: str, patience: float) -> None:
        self._address = Address(url, schema=schema, timeout=30.0, patience=patience)
        self._sessions = SessionPool(1, self._address, partial(_open_prepared, self._address))
        self._end = finalize(self, self._sessions.close)

    async def take(self, key: str, *, interval: float, burst: float, brim: float, longest: float) -> tuple[float, bool]:
        """Return the number of seconds until the next slot, and whether the slot was claimed.

        Slots more than `longest` seconds away are not claimed.
        """
        values = {"key": key, "each": interval, "burst": burst, "brim": brim, "longest": longest}

        def work(session: Session) -> tuple[float, bool]:
            row = session.execute(_TAKE.encode(), values).fetchone()
            if row is None:
                session.execute(_ROW, values)
                row = session.execute(_TAKE.encode(), values).fetchone()
            if row is None:
                raise StoreError(self._address.name, f"has no rate count for {key!r}, although it was just added")
            return float(row[0]), bool(row[1])

        return await self._sessions.do("", work)

    async def charge(self, key: str, seconds: float) -> None:
        values = {"key": key, "seconds": seconds}
        await self._sessions.do("", lambda session: session.execute(_CHARGE.encode(), values))

    async def pause(self, key: str, seconds: float) -> None:
        """Let the next slot for `key` start no earlier than `seconds` from now.

        If a burst lets slots be used before they start, the caller must add that time to `seconds`.
        """
        values = {"key": key, "seconds": seconds}

        def work(session: Session) -> None:
            session.execute(_ROW, values)
            session.execute(_PAUSE.encode(), values)

        await self._sessions.do("", work)

    async def seconds_left(self, key: str) -> float:
        """Return the number of seconds left in the pause for `key`."""

        def work(session: Session) -> float:
            row = session.execute(_LEFT.encode(), {"key": key}).fetchone()
            return 0.0 if row is None else float(row[0])

        return await self._sessions.do("", work)

    def close(self) -> None:
        """Finish all pending jobs, then close the session."""
        self._end()


def _open_prepared(address: Address) -> Session:
    """Open a session, creating the table first if it does not exist."""
    session = address.connect()
    try:
        row = session.execute(_THERE, (address.schema,)).fetchone()
        if row is None or not row[0]:
            with session.transaction():
                session.execute("SELECT pg_advisory_xact_lock(%s)", (_ONE_AT_A_TIME,))
                make_schema(session, address.schema)
                session.execute(_TABLE)
    except BaseException:
        session.close()
        raise
    return session
