"""PostgreSQL store: one database for runs on any number of machines."""

from __future__ import annotations

import asyncio
import atexit
import secrets
import threading
import time
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar
from weakref import WeakSet

from flowdebate.errors import ConfigurationError, RunConflict, RunExists, RunNotFound, StoreError
from flowdebate.store.base import Store, decode_text, encode_text
from flowdebate.store.postgres.database import Address, prepare
from flowdebate.store.postgres.rows import (
    ADD_STEP,
    COMMIT,
    DELETE,
    FAIL,
    FINISH,
    INSERT,
    INTEND,
    OWNERSHIP,
    PUT,
    PUT_NEW,
    RUN,
    STEPS,
    TAKE,
    folded,
    header_values,
    label_texts,
    outcome_text,
    step_of,
    stored_of,
    was_committed,
)
from flowdebate.store.postgres.sessions import PostgresOwner, SessionPool

__all__ = ("PostgresStore",)


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import psycopg

    from flowdebate.store.base import RunHeader, StepKind, StepRow, StoredRun, StoredStatus

    _Session: TypeAlias = psycopg.Connection[tuple[Any, ...]]


T = TypeVar("T")


class PostgresStore(Store):
    """Store runs in the database at `url`; any number of processes on any number of machines may use it at once.

    Writes are as durable as the server makes them; while it is away they are retried for `patience` seconds. The store
    opens up to `connections` sessions, and one more that shows that its process is alive: a pooler in between must keep
    sessions whole. The tables are in `schema`, created at first use. `timeout`: seconds that a statement may take.
    `grace`: seconds that an owner has to be gone before its runs can be taken.
    Raises ConfigurationError where psycopg is missing: it comes with `flowdebate[postgres]`.
    """

    def __init__(
        self,
        url: str,
        *,
        schema: str = "flowdebate",
        connections: int = 4,
        timeout: float = 30.0,
        patience: float = 10.0,
        grace: float = 0.5,
    ) -> None:
        if isinstance(connections, bool) or not isinstance(connections, int) or connections < 1:
            raise ConfigurationError("PostgresStore", "connections", connections, "an int >= 1")
        for field, value in (("timeout", timeout), ("patience", patience), ("grace", grace)):
            if not 0 <= value < _LONGEST:
                raise ConfigurationError("PostgresStore", field, value, f"seconds >= 0, < {_LONGEST}")
        self._address = Address(url, schema=schema, timeout=timeout, patience=patience)
        self._owner = PostgresOwner(self._address.connect)
        self._sessions = SessionPool(connections, self._address, self._begin)
        self._grace = grace
        self._gone: dict[int, float] = {}
        self._prepared = False
        self._preparing = threading.Lock()
        _OPEN.add(self)

    @property
    def name(self) -> str:
        return self._address.name

    # Runs

    async def create(self, header: RunHeader) -> None:
        now, claim = time.time(), _claim()
        values = header_values(header) | {"status": "running", "updated_at": now, "steps": 0, "recoveries": 0}
        values |= {"owner": self._owner.id, "claim": claim, "outcome": None}

        def work(session: _Session) -> None:
            if not session.execute(INSERT, values).rowcount and self._ownership(session, header.run_id)[1] != claim:
                raise RunExists(self.name, header.run_id)

        await self._do(header.run_id, work)

    async def take(self, run_id: str) -> StoredRun:
        await self._wait_for_owner(run_id)
        claim = _claim()
        taken: list[StoredRun] = []

        def work(session: _Session) -> StoredRun:
            row = self._row(session, run_id)
            if taken and row[-1] == claim:
                return taken[-1]
            before = stored_of(row, self.name)
            if before.owned:
                raise RunConflict(self.name, run_id)
            taken.append(replace(before, recoveries=before.recoveries + (before.status == "running"), owned=True))
            values = {"owner": self._owner.id, "claim": claim, "recoveries": taken[-1].recoveries, "now": time.time()}
            if not session.execute(TAKE, values | {"run": encode_text(run_id), "before": row[-1]}).rowcount:
                raise RunConflict(self.name, run_id)
            return taken[-1]

        return await self._do(run_id, work)

    async def release(self, run_id: str) -> None:
        statement = "UPDATE runs SET owner = NULL, claim = %s WHERE run_id = %s AND owner = %s"
        values = (_claim(), encode_text(run_id), self._owner.id)

        def work(session: _Session) -> None:
            session.execute(statement, values)

        await self._do(run_id, work)

    async def finish(self, run_id: str, status: StoredStatus, outcome: Mapping[str, Any] | None) -> None:
        values = {"run": encode_text(run_id), "owner": self._owner.id, "claim": _claim(), "now": time.time()}
        values |= {"status": status, "outcome": outcome_text(outcome)}

        def work(session: _Session) -> None:
            if session.execute(FINISH, values).rowcount:
                return
            if self._ownership(session, run_id)[1] != values["claim"]:
                self._refuse(run_id)

        await self._do(run_id, work)

    async def run(self, run_id: str) -> StoredRun:
        return await self._do(run_id, lambda session: stored_of(self._row(session, run_id), self.name))

    async def runs(
        self,
        *,
        status: StoredStatus | None = None,
        block: str | None = None,
        text: str | None = None,
        labels: Mapping[str, str] | None = None,
        limit: int | None = None,
    ) -> Sequence[StoredRun]:
        asked: list[tuple[str, object]] = []
        if status is not None:
            asked.append(("status = %s", status))
        if block is not None:
            asked.append(("block = %s", encode_text(block)))
        if text:
            asked.append(("position(%s::bytea in folded) > 0", folded(text)))
        if labels:
            asked.append(("labels @> %s", label_texts(labels)))
        where = " AND ".join(condition for condition, _ in asked) or "true"
        statement = f"{RUN} WHERE {where} ORDER BY created_at DESC, run_id LIMIT %s"
        values = [*(value for _, value in asked), limit]

        def work(session: _Session) -> list[StoredRun]:
            found = session.execute(statement.encode(), values).fetchall()
            return [stored_of(row, self.name) for row in found]

        return await self._do("", work)

    async def delete(self, run_id: str) -> None:
        asked: list[bool] = []

        def work(session: _Session) -> None:
            again = bool(asked)
            asked.append(True)
            row = session.execute(DELETE, {"run": encode_text(run_id)}).fetchone()
            if row is not None and row[0]:
                return
            with suppress(RunNotFound) if again else nullcontext():
                self._ownership(session, run_id)
                raise RunConflict(self.name, run_id)

        await self._do(run_id, work)

    async def add(self, run: StoredRun, steps: Sequence[StepRow]) -> None:
        run_id, claim = run.header.run_id, _claim()
        values = header_values(run.header) | {"status": run.status, "updated_at": run.updated_at, "steps": run.steps}
        values |= {"recoveries": run.recoveries, "owner": None, "claim": claim, "outcome": outcome_text(run.outcome)}
        rows = [_step_values(run_id, row) for row in steps]

        def work(session: _Session) -> None:
            with session.transaction():
                if session.execute(INSERT, values).rowcount:
                    session.cursor().executemany(ADD_STEP, rows)
                elif self._ownership(session, run_id)[1] != claim:
                    raise RunExists(self.name, run_id)

        await self._do(run_id, work)

    # Steps

    async def intend(self, run_id: str, key: str, kind: StepKind, request: str | None) -> int:
        values = self._step(run_id, key) | {"kind": kind, "request": None if request is None else encode_text(request)}

        def work(session: _Session) -> int:
            row = session.execute(INTEND, values).fetchone()
            if row is None:
                self._check_owned(session, run_id)
                self._refuse(run_id)  # it was taken and given back in between
            return int(row[0])

        return await self._do(run_id, work)

    async def commit(self, run_id: str, key: str, kind: StepKind, body: str, at: float) -> None:
        values = self._step(run_id, key) | {"kind": kind, "body": encode_text(body), "at": at, "now": time.time()}

        def work(session: _Session) -> None:
            if not session.execute(COMMIT, values).rowcount:
                self._check_owned(session, run_id)

        await self._do(run_id, work)

    async def fail(self, run_id: str, key: str, failure: str) -> None:
        values = self._step(run_id, key) | {"failure": encode_text(failure)}
        count = "SELECT cardinality(failures) FROM steps WHERE run_id = %(run)s AND key = %(key)s"

        def work(session: _Session) -> None:
            if "before" not in values:  # once: when it is done again, it adds no second failure
                row = session.execute(count, values).fetchone()
                values["before"] = 0 if row is None else row[0]
            if not session.execute(FAIL, values).rowcount:
                self._check_owned(session, run_id)

        await self._do(run_id, work)

    async def steps(self, run_id: str) -> Sequence[StepRow]:
        def work(session: _Session) -> list[StepRow]:
            found = [step_of(row) for row in session.execute(STEPS, (encode_text(run_id),)).fetchall()]
            if not found:
                self._ownership(session, run_id)
            return sorted(found, key=lambda row: (row.seq is None, row.seq or 0, row.key))

        return await self._do(run_id, work)

    # Documents

    async def documents(self, collection: str) -> Mapping[str, str]:
        query = "SELECT key, body FROM documents WHERE collection = %s ORDER BY number"

        def work(session: _Session) -> dict[str, str]:
            return {
                decode_text(key): decode_text(body) for key, body in session.execute(query, (encode_text(collection),))
            }

        return await self._do(collection, work)

    async def put(self, collection: str, key: str, body: str, *, expected: str | None = None) -> bool:
        values = {"collection": encode_text(collection), "key": encode_text(key), "body": encode_text(body)}
        statement = PUT_NEW
        if expected is not None:
            values["expected"] = encode_text(expected)
            statement = PUT
        committed: list[int] = []

        def work(session: _Session) -> bool:
            if committed and was_committed(session, committed[-1]):  # others may have put theirs in its place since
                return True
            with session.transaction():
                transaction = session.execute("SELECT txid_current()").fetchone()
                if transaction is None or not session.execute(statement, values).rowcount:
                    return False
                committed.append(transaction[0])
            return True

        return await self._do(collection, work)

    async def close(self) -> None:
        await asyncio.to_thread(self._end)

    # The database

    async def _do(self, about: str, work: Callable[[_Session], T]) -> T:
        """Execute `work` in a session; jobs about the same thing in order."""
        if self._sessions.closed:
            raise StoreError(self.name, "is closed")

        def owning(session: _Session) -> T:
            self._owner.ensure()
            return work(session)

        try:
            return await self._sessions.do(about, owning)
        except Exception as error:
            if not self._address.is_error(error):
                raise
            shown = self._address.told(error)
            cause = error if self._address.without_secrets(str(error)) == str(error) else None
            raise StoreError(self.name, shown) from cause

    def _begin(self) -> _Session:
        """Open a session of the pool, after preparing the tables."""
        with self._preparing:
            if not self._prepared:
                prepare(self._address)
                self._prepared = True
        return self._address.connect()

    def _end(self) -> None:
        """Finish all jobs, then release the owner's lock."""
        self._sessions.close()
        self._owner.end()

    async def _wait_for_owner(self, run_id: str) -> None:
        """Give an owner that is gone `grace` seconds to come back, as after a restart of the server."""

        def work(session: _Session) -> int | None:
            row = self._row(session, run_id)
            owned, owner = row[-3:-1]
            if owned:
                self._gone.pop(owner, None)
            return None if owned else owner

        owner = await self._do(run_id, work) if self._grace else None
        if owner is not None:
            seen = self._gone.setdefault(owner, time.monotonic())
            await asyncio.sleep(max(0.0, seen + self._grace - time.monotonic()))

    # Rows

    def _step(self, run_id: str, key: str) -> dict[str, Any]:
        return {"run": encode_text(run_id), "key": encode_text(key), "owner": self._owner.id}

    def _row(self, session: _Session, run_id: str) -> tuple[Any, ...]:
        row = session.execute(f"{RUN} WHERE run_id = %s".encode(), (encode_text(run_id),)).fetchone()
        if row is None:
            raise RunNotFound(self.name, run_id)
        return row

    def _ownership(self, session: _Session, run_id: str) -> tuple[int | None, int]:
        """Read the run's owner, and the number of the last change of owner."""
        row = session.execute(OWNERSHIP, {"run": encode_text(run_id)}).fetchone()
        if row is None:
            raise RunNotFound(self.name, run_id)
        return row[0], row[1]

    def _check_owned(self, session: _Session, run_id: str) -> None:
        if self._ownership(session, run_id)[0] != self._owner.id:
            self._refuse(run_id)

    def _refuse(self, run_id: str) -> NoReturn:
        raise RunConflict(self.name, run_id, "is not owned by this process, or was taken over")


_LONGEST = 1_000_000
"""Seconds; the largest timeout that the server takes is not far above."""


def _claim() -> int:
    """Draw the number of one change, by which a repeated request is told from a new one."""
    return secrets.randbits(63)


def _step_values(run_id: str, row: StepRow) -> tuple[Any, ...]:
    """Return the values of ADD_STEP."""
    request = None if row.request is None else encode_text(row.request)
    body = None if row.body is None else encode_text(row.body)
    failures = [encode_text(failure) for failure in row.failures]
    return (encode_text(run_id), encode_text(row.key), row.kind, request, row.attempts, failures, row.seq, row.at, body)


_OPEN: WeakSet[PostgresStore] = WeakSet()


@atexit.register
def _end_all() -> None:
    """Write all submitted jobs before the process ends."""
    for store in list(_OPEN):
        store._end()  # noqa: SLF001 - of this module
