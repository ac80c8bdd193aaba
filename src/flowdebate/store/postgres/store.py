"""PostgreSQL store: one database for runs on any number of machines."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar
from weakref import finalize

from flowdebate._util.validation import check_count, check_number
from flowdebate.errors import RunConflict, RunExists, RunNotFound
from flowdebate.store.base import (
    RunHeader,
    StepKind,
    StepRow,
    Store,
    StoredRun,
    StoredStatus,
    by_collection,
    check_page,
    ending_run,
)
from flowdebate.store.postgres import rows
from flowdebate.store.postgres.database import Address, open_prepared, read_version
from flowdebate.store.postgres.sessions import PostgresOwner, SessionPool

if TYPE_CHECKING:
    from flowdebate.store.postgres.database import Session


T = TypeVar("T")


class PostgresStore(Store):
    """Store that keeps runs in the database at `url`; any number of processes on any number of machines may share it.

    Writes are as durable as the server makes them; while it is unreachable, they are retried for `patience` seconds.
    The store opens up to `connections` sessions, plus one to show that its process is alive, so a connection pooler
    must be in session mode. The tables are in `schema`, created on first use. `timeout` is the time limit per
    statement, and `grace` is the time for which an owner must be gone before its runs can be taken over, both in
    seconds. Raises ConfigurationError if psycopg, part of `flowdebate[postgres]`, is missing.
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
        check_count("PostgresStore", connections=connections)
        times = {"timeout": timeout, "patience": patience, "grace": grace}
        check_number("PostgresStore", times, minimum=0, below=_MAX_SECONDS)
        self._address = Address(url, schema=schema, timeout=timeout, patience=patience)
        self._owner = PostgresOwner(self._address.connect)
        self._sessions = SessionPool(connections, self._address, partial(open_prepared, self._address))
        self._grace = grace
        self._checked = -_CHECKED
        """Time of the last schema check, on the process's monotonic clock."""
        self._gone: dict[int, float] = {}
        """Time at which each lost owner was first found missing, on the process's monotonic clock."""
        self._ending: set[str] = set()
        """Runs whose end or release has not been written yet: this process owns them but is not executing them."""
        # Ends the threads and sessions of a store that has been garbage-collected.
        self._end = finalize(self, _end, self._sessions, self._owner)

    @property
    def name(self) -> str:
        return self._address.name

    # Runs

    async def create(self, header: RunHeader) -> None:
        now, claim = time.time(), _claim()
        values = rows.header_values(header) | {"status": "running", "updated_at": now, "steps": 0, "recoveries": 0}
        values |= {"owner": self._owner.id, "claim": claim, **rows.outcome_texts(None)}

        def work(session: Session) -> None:
            added = session.execute(rows.INSERT, values).rowcount
            # A matching claim means that an earlier attempt created the run, but its confirmation was lost with the
            # session.
            if not added and self._ownership(session, header.run_id)[1] != claim:
                raise RunExists(self.name, header.run_id)

        await self._do(header.run_id, work)

    async def take(self, run_id: str) -> StoredRun:
        await self._release_ended(run_id)
        await self._wait_for_owner(run_id)
        claim = _claim()
        taken_runs: list[StoredRun] = []

        def work(session: Session) -> StoredRun:
            row = self._row(session, run_id)
            if taken_runs and row[-1] == claim:  # as in `create`, an earlier attempt has already taken the run
                return taken_runs[-1]
            before = rows.stored_of(row, self.name)
            if before.owned:
                raise RunConflict(self.name, run_id)
            taken_runs.append(replace(before, recoveries=before.recoveries + (before.status == "running"), owned=True))
            values = {
                "owner": self._owner.id,
                "claim": claim,
                "recoveries": taken_runs[-1].recoveries,
                "now": time.time(),
            }
            if not session.execute(rows.TAKE, values | {"run": run_id, "before": row[-1]}).rowcount:
                raise RunConflict(self.name, run_id)
            return taken_runs[-1]

        return await self._do(run_id, work)

    async def release(self, run_id: str) -> None:
        statement = "UPDATE runs SET owner = NULL, claim = %s WHERE run_id = %s AND owner = %s"
        values = (_claim(), run_id, self._owner.id)

        def work(session: Session) -> None:
            session.execute(statement, values)

        with ending_run(run_id, self._ending):
            await self._do(run_id, work)

    async def finish(self, run_id: str, status: StoredStatus, outcome: Mapping[str, Any] | None) -> None:
        values = {"run": run_id, "owner": self._owner.id, "claim": _claim(), "now": time.time()}
        values |= {"status": status, **rows.outcome_texts(outcome)}

        def work(session: Session) -> None:
            if session.execute(rows.FINISH, values).rowcount:
                return
            if self._ownership(session, run_id)[1] != values["claim"]:
                self._refuse(run_id)

        with ending_run(run_id, self._ending):
            await self._do(run_id, work)

    async def run(self, run_id: str) -> StoredRun:
        return await self._do(run_id, lambda session: rows.stored_of(self._row(session, run_id), self.name))

    async def runs(
        self,
        *,
        status: StoredStatus | None = None,
        block: str | None = None,
        text: str | None = None,
        labels: Mapping[str, str] | None = None,
        prefix: str | None = None,
        limit: int | None = None,
        before: tuple[float, str] | None = None,
        brief: bool = False,
    ) -> Sequence[StoredRun]:
        check_page(limit, before)
        matches = rows.build_query(
            status=status, block=block, text=text, labels=labels, prefix=prefix, limit=limit, before=before, brief=brief
        )

        def work(session: Session) -> list[StoredRun]:
            # Let the server plan the query for these values, because the number of matching runs varies by a factor of
            # a thousand.
            return [rows.stored_of(row, self.name) for row in session.execute(*matches, prepare=False).fetchall()]

        return await self._do("", work)

    async def delete(self, run_id: str) -> None:
        await self._release_ended(run_id)
        results: list[bool] = []

        def work(session: Session) -> None:
            again = bool(results)
            results.append(True)
            with session.transaction():
                row = session.execute(rows.DELETE, {"run": run_id}).fetchone()
                if row is not None and row[0]:
                    rows.delete_deliveries(session, self._address.schema, run_id)
                    return
            with suppress(RunNotFound) if again else nullcontext():  # an earlier attempt may have deleted the run
                self._ownership(session, run_id)
                raise RunConflict(self.name, run_id)

        await self._do(run_id, work)

    async def add(self, run: StoredRun, steps: Sequence[StepRow]) -> None:
        run_id, claim = run.header.run_id, _claim()
        values = rows.header_values(run.header) | {"status": run.status, "updated_at": run.updated_at}
        values |= {"steps": run.steps, "recoveries": run.recoveries, **rows.outcome_texts(run.outcome)}
        values |= {"owner": None, "claim": claim}

        def work(session: Session) -> None:
            with session.transaction():
                if session.execute(rows.INSERT, values).rowcount:
                    session.cursor().executemany(rows.ADD_STEP, [rows.step_values(run_id, row) for row in steps])
                elif self._ownership(session, run_id)[1] != claim:
                    raise RunExists(self.name, run_id)

        await self._do(run_id, work)

    # Steps

    async def intend(self, run_id: str, key: str, kind: StepKind, request: str | None) -> int:
        values = self._step(run_id, key) | {"kind": kind, "request": request}

        def work(session: Session) -> int:
            row = session.execute(rows.INTEND, values).fetchone()
            if row is None:
                self._check_owned(session, run_id)
                self._refuse(run_id)  # the run was taken and released in between
            return int(row[0])

        return await self._do(run_id, work)

    async def commit(self, run_id: str, key: str, kind: StepKind, body: str, at: float) -> None:
        values = self._step(run_id, key) | {"kind": kind, "body": body, "at": at, "now": time.time()}

        def work(session: Session) -> None:
            if not session.execute(rows.COMMIT, values).rowcount:
                self._check_owned(session, run_id)

        await self._do(run_id, work)

    async def fail(self, run_id: str, key: str, failure: str) -> None:
        values = self._step(run_id, key) | {"failure": failure}
        count = "SELECT cardinality(failures) FROM steps WHERE run_id = %(run)s AND key = %(key)s"

        def work(session: Session) -> None:
            if "before" not in values:  # read only once, so that a retry does not record a second failure
                row = session.execute(count, values).fetchone()
                values["before"] = 0 if row is None else row[0]
            if not session.execute(rows.FAIL, values).rowcount:
                self._check_owned(session, run_id)

        await self._do(run_id, work)

    async def steps(self, run_id: str, *, after: int = 0) -> Sequence[StepRow]:
        def work(session: Session) -> list[StepRow]:
            steps = [rows.step_of(row) for row in session.execute(rows.STEPS, (run_id, after)).fetchall()]
            if not steps:
                self._ownership(session, run_id)
            return sorted(steps, key=lambda row: (row.seq is None, row.seq or 0, row.key))

        return await self._do(run_id, work)

    # Documents

    async def documents_in(
        self, collections: Sequence[str], *, key: str | None = None
    ) -> Mapping[str, Mapping[str, str]]:
        query = "SELECT collection, key, body FROM documents WHERE collection = ANY(%(collections)s)"
        if key is not None:
            query += " AND key = %(key)s"
        values = {"collections": list(collections), "key": key}

        def work(session: Session) -> dict[str, dict[str, str]]:
            return by_collection(session.execute(f"{query} ORDER BY number", values).fetchall())

        return await self._do("documents", work)

    async def documents(self, collection: str) -> Mapping[str, str]:
        query = "SELECT key, body FROM documents WHERE collection = %s ORDER BY number"

        def work(session: Session) -> dict[str, str]:
            return dict(session.execute(query, (collection,)).fetchall())

        return await self._do(collection, work)

    async def put(self, collection: str, key: str, body: str, *, expected: str | None = None) -> bool:
        values = {"collection": collection, "key": key, "body": body}
        statement = rows.PUT_NEW
        if expected is not None:
            values["expected"] = expected
            statement = rows.PUT
        committed: list[int] = []

        def work(session: Session) -> bool:
            if committed and rows.was_committed(session, committed[-1]):
                return True  # the write succeeded, even if other processes have since replaced the document
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

    async def _do(self, purpose: str, work: Callable[[Session], T]) -> T:
        """Execute `work` in a session on behalf of the owner; jobs with the same `purpose` are executed in order."""

        def owning(session: Session) -> T:
            if time.monotonic() > self._checked + _CHECKED:
                read_version(session, self._address)
                self._checked = time.monotonic()
            self._owner.ensure()
            return work(session)

        return await self._sessions.do(purpose, owning)

    async def _release_ended(self, run_id: str) -> None:
        """Release a run whose end could not be recorded, before the run is taken or deleted."""
        if run_id in self._ending:
            await self.release(run_id)

    async def _wait_for_owner(self, run_id: str) -> None:
        """Give a lost owner `grace` seconds to come back, for example after a server restart."""

        def work(session: Session) -> int | None:
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
        return {"run": run_id, "key": key, "owner": self._owner.id}

    def _row(self, session: Session, run_id: str) -> tuple[Any, ...]:
        # Passed as bytes, because psycopg's type hints accept only literal strings as statements.
        row = session.execute(f"{rows.RUN} WHERE run_id = %s".encode(), (run_id,)).fetchone()
        if row is None:
            raise RunNotFound(self.name, run_id)
        return row

    def _ownership(self, session: Session, run_id: str) -> tuple[int | None, int]:
        """Read the run's owner and the claim number set when the owner last changed."""
        row = session.execute(rows.OWNERSHIP, {"run": run_id}).fetchone()
        if row is None:
            raise RunNotFound(self.name, run_id)
        return row[0], row[1]

    def _check_owned(self, session: Session, run_id: str) -> None:
        if self._ownership(session, run_id)[0] != self._owner.id:
            self._refuse(run_id)

    def _refuse(self, run_id: str) -> NoReturn:
        raise RunConflict(self.name, run_id, "is not owned by this process, or was taken over")


_CHECKED = 30.0
"""Time in seconds after which the schema is checked again, because another process may have migrated it."""
_MAX_SECONDS = 1_000_000
"""Maximum timeout in seconds, slightly below the server's maximum."""


def _claim() -> int:
    """Generate a random number to identify a change, so that a retry is recognized.

    The number fits in a signed bigint.
    """
    return secrets.randbits(63)


def _end(sessions: SessionPool, owner: PostgresOwner) -> None:
    """Finish all pending jobs, then release the owner's lock."""
    sessions.close()
    owner.end()
