"""A store in one SQLite file."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from flowdebate.errors import RunConflict, RunExists, RunNotFound, StoreError
from flowdebate.store.base import Store, StoredRun, header_of, header_text
from flowdebate.store.sqlite.file import connect, connect_quick
from flowdebate.store.sqlite.open_steps import Begun, begun_in
from flowdebate.store.sqlite.owner_lock import Owner
from flowdebate.store.sqlite.rows import (
    ADD_RUN,
    ADD_STEP,
    AGAIN,
    COMMIT,
    CREATE,
    FAIL,
    FIND,
    FINISH,
    LATEST_OF,
    RELEASE,
    RUN,
    TAKE,
    keep_begun,
    known_steps,
    owner_of,
    run_values,
    step_values,
    steps_of,
)
from flowdebate.store.sqlite.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from flowdebate.store.base import RunHeader, StepKind, StepRow, StoredStatus

__all__ = ("SqliteStore",)

T = TypeVar("T")


class SqliteStore(Store):
    """Keeps runs in the file `path`, which is made where there is none; several processes may use it at once.

    Answers are on the disk when they are written (WAL, synchronous=FULL); what only says where a run stands outlives
    the process, but maybe not a power cut. Beside the file there is a folder, with a lock for each process that carries
    out runs, and what it has begun and not finished. A file system without locks that work, as many network drives are,
    will not do.
    `patience` is how many seconds another program may keep the file locked; StoreError then.
    """

    def __init__(self, path: str | Path, *, patience: float = 10.0) -> None:
        self._path = Path(path).expanduser()
        self._patience = patience
        self._owner: Owner | None = None
        self._begun: Begun
        """What `_owner` has begun; there once that is."""
        self._latest = 0
        """The number of the step that was finished last: nanoseconds since the epoch; more where a clock went back."""
        self._recovered: set[str] = set()
        """Runs that were carried on after their process had died, and got no further yet."""
        self._writer = Writer(lambda: connect(self._path, patience), lambda: connect_quick(self._path), self._path)

    @property
    def name(self) -> str:
        return str(self._path)

    # Runs

    async def create(self, header: RunHeader) -> None:
        run_id, text = header.run_id, header_text(header)

        def work(connection: sqlite3.Connection) -> None:
            owner = self._own().id
            values = (run_id, header.block, header.question, header.created_at, time.time(), owner, text)
            try:
                connection.execute(CREATE, values)
            except sqlite3.IntegrityError:
                raise RunExists(self.name, run_id) from None
            self._begun.carry_out(run_id, {}, ())

        await self._write(work, durably=False)

    async def take(self, run_id: str) -> StoredRun:
        left: list[str] = []

        def work(connection: sqlite3.Connection) -> StoredRun:
            row = self._row(connection, run_id)
            before = self._stored(row)
            if before.owned:
                raise RunConflict(self.name, run_id)
            recoveries = before.recoveries + (before.status == "running")
            connection.execute(TAKE, (self._own().id, recoveries, time.time(), run_id))
            owner = owner_of(row)
            self._carry_out(connection, run_id, owner)
            if owner is not None:
                left.append(owner)
            latest = connection.execute(LATEST_OF, (run_id,)).fetchone()[0]
            self._latest = max(self._latest, latest)
            if recoveries:
                self._recovered.add(run_id)
            return replace(before, recoveries=recoveries, owned=True)

        taken = await self._write(work, durably=False)
        for owner in left:
            await self._clear_away(owner)
        return taken

    async def release(self, run_id: str) -> None:
        await self._leave(run_id, lambda connection: connection.execute(RELEASE, (run_id, self._own().id)))

    async def finish(self, run_id: str, status: StoredStatus, outcome: Mapping[str, Any] | None) -> None:
        text = None if outcome is None else json.dumps(outcome, ensure_ascii=False)

        def end(connection: sqlite3.Connection) -> sqlite3.Cursor:
            done = connection.execute(FINISH, (status, text, time.time(), run_id, self._own().id))
            self._check_owned(connection, done, run_id)
            return done

        await self._leave(run_id, end)

    async def run(self, run_id: str) -> StoredRun:
        return await self._do(lambda connection: self._stored(self._row(connection, run_id)))

    async def runs(
        self,
        *,
        status: StoredStatus | None = None,
        block: str | None = None,
        text: str | None = None,
        labels: Mapping[str, str] | None = None,
        limit: int | None = None,
    ) -> Sequence[StoredRun]:
        values = {"status": status, "block": block, "text": text or None}
        values |= {"labels": json.dumps(dict(labels)) if labels else None}

        def work(connection: sqlite3.Connection) -> list[StoredRun]:
            found = connection.execute(FIND, values | {"limit": -1 if limit is None else limit})
            return [self._stored(row) for row in found]

        return await self._do(work)

    async def delete(self, run_id: str) -> None:
        def work(connection: sqlite3.Connection) -> None:
            if self._stored(self._row(connection, run_id)).owned:
                raise RunConflict(self.name, run_id)
            connection.execute("DELETE FROM steps WHERE run_id = ?", (run_id,))
            connection.execute("DELETE FROM runs WHERE run_id = ?", (run_id,))

        await self._do(work)

    async def add(self, run: StoredRun, steps: Sequence[StepRow]) -> None:
        run_id = run.header.run_id

        def work(connection: sqlite3.Connection) -> None:
            try:
                connection.execute(ADD_RUN, run_values(run))
            except sqlite3.IntegrityError:
                raise RunExists(self.name, run_id) from None
            connection.executemany(ADD_STEP, [step_values(run_id, row) for row in steps])

        await self._do(work)

    # Steps

    async def intend(self, run_id: str, key: str, kind: StepKind, request: str | None) -> int:
        self._check_usable()
        try:
            number = None if self._owner is None else self._begun.attempt(run_id, key, kind, request)
        except OSError as error:
            raise StoreError(self.name, self._told(error)) from error
        if number is not None:
            return number

        def work(connection: sqlite3.Connection) -> int:
            """For a step that is finished, or a run of which it was not known that it is carried out here."""
            self._check_own(connection, run_id)
            if not self._begun.carries_out(run_id):
                self._carry_out(connection, run_id, self._own().id)
            number = self._begun.attempt(run_id, key, kind, request)
            if number is None:
                values = {"run": run_id, "key": key, "kind": kind, "request": request}
                number = connection.execute(AGAIN, values).fetchall()[0][0]
            return number

        return await self._write(work, durably=False)

    async def commit(self, run_id: str, key: str, kind: StepKind, body: str, at: float) -> None:
        attempt = None if self._owner is None else self._begun.last(run_id, key)
        values = {"run": run_id, "key": key, "kind": kind, "at": at, "body": body}
        values |= {"request": attempt and attempt.request, "attempts": 1 if attempt is None else attempt.number}

        def work(connection: sqlite3.Connection) -> None:
            self._latest = max(self._latest + 1, time.time_ns())
            done = connection.execute(COMMIT, values | {"seq": self._latest, "owner": self._own().id})
            self._check_owned(connection, done, run_id)
            if run_id in self._recovered:
                connection.execute("UPDATE runs SET recoveries = 0 WHERE run_id = ?", (run_id,))

        await self._write(work, single=run_id not in self._recovered)
        self._recovered.discard(run_id)
        self._begun.finish(run_id, key)

    async def fail(self, run_id: str, key: str, failure: str) -> None:
        attempts = {} if self._owner is None else self._begun.attempts(run_id)

        def work(connection: sqlite3.Connection) -> None:
            if key in attempts:
                self._check_own(connection, run_id)
                keep_begun(connection, run_id, {key: attempts[key]})
            values = {"run": run_id, "key": key, "failure": failure, "owner": self._own().id}
            self._check_owned(connection, connection.execute(FAIL, values), run_id)

        await self._write(work, durably=False)

    async def steps(self, run_id: str) -> Sequence[StepRow]:
        def work(connection: sqlite3.Connection) -> list[StepRow]:
            owner = owner_of(self._row(connection, run_id))
            return steps_of(connection, run_id, {} if owner is None else begun_in(self._own().begun(owner), run_id))

        return await self._do(work)

    # Documents

    async def documents(self, collection: str) -> Mapping[str, str]:
        query = "SELECT key, body FROM documents WHERE collection = ? ORDER BY number"
        return await self._do(lambda connection: dict(connection.execute(query, (collection,)).fetchall()))

    async def put(self, collection: str, key: str, body: str, *, expected: str | None = None) -> bool:
        def work(connection: sqlite3.Connection) -> bool:
            if expected is None:
                statement = "INSERT INTO documents (body, collection, key) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
                done = connection.execute(statement, (body, collection, key))
            else:
                statement = "UPDATE documents SET body = ? WHERE collection = ? AND key = ? AND body = ?"
                done = connection.execute(statement, (body, collection, key, expected))
            return done.rowcount == 1

        return await self._do(work)

    async def close(self) -> None:
        import asyncio

        if self._owner is not None and not (self._writer.closed or self._writer.strayed):
            kept = False
            with suppress(StoreError):
                await self._do(self._leave_all)
                kept = True
            self._begun.close(remove=kept)
        await asyncio.to_thread(self._writer.close)
        owner, self._owner = self._owner, None
        if owner is not None and not self._writer.strayed:
            owner.end()

    # The file

    async def _do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        self._check_usable()
        try:
            return await self._writer.do(work)
        except (sqlite3.Error, OSError) as error:
            raise StoreError(self.name, self._told(error)) from error

    async def _write(self, work: Callable[[sqlite3.Connection], T], *, single: bool = False, durably: bool = True) -> T:
        self._check_usable()
        try:
            return await self._writer.write(work, single=single, durably=durably)
        except (sqlite3.Error, OSError) as error:
            raise StoreError(self.name, self._told(error)) from error

    def _check_usable(self) -> None:
        if self._writer.closed:
            raise StoreError(self.name, "is closed")
        if self._writer.strayed:
            raise StoreError(self.name, "belongs to the process that this one was forked from; make another here")
        if self._writer.lost is not None:
            raise StoreError(self.name, self._told(self._writer.lost))

    def _told(self, error: Exception) -> str:
        if "locked" in str(error):
            return f"is locked by another program, and was for {self._patience:g} s"
        if error is self._writer.lost:
            return f"was not put on the disk ({error}), and takes nothing more from this store object"
        return f"cannot be used: {error}"

    def _own(self) -> Owner:
        """This process among the owners."""
        if self._owner is None:
            owner = Owner(self._path.with_name(f"{self._path.name}-owners"))
            self._begun = Begun(owner.begun(owner.id))
            self._owner = owner
        return self._owner

    async def _leave(self, run_id: str, end: Callable[[sqlite3.Connection], sqlite3.Cursor]) -> None:
        """Carry it out no more, if `end` has changed anything; what is open is in the database then."""
        attempts = {} if self._owner is None else self._begun.attempts(run_id)

        def work(connection: sqlite3.Connection) -> None:
            if end(connection).rowcount:
                keep_begun(connection, run_id, attempts)
                self._begun.leave(run_id)

        await self._write(work, single=not attempts, durably=False)

    def _leave_all(self, connection: sqlite3.Connection) -> None:
        for run_id in self._begun.runs:
            with suppress(RunConflict, RunNotFound):
                self._check_own(connection, run_id)
                keep_begun(connection, run_id, self._begun.attempts(run_id))

    def _carry_out(self, connection: sqlite3.Connection, run_id: str, owner: str | None) -> None:
        """Know what is open and what is finished of a run, of which `owner` has begun what the database has not yet."""
        if owner is not None:
            keep_begun(connection, run_id, begun_in(self._own().begun(owner), run_id))
        self._begun.carry_out(run_id, *known_steps(connection, run_id))

    async def _clear_away(self, owner: str) -> None:
        """Remove what a dead owner has begun, once nothing is left of which that says anything."""
        path = self._own().begun(owner)
        query = "SELECT 1 FROM runs WHERE owner = ? ORDER BY rowid DESC LIMIT 1"
        if path.exists() and await self._do(lambda connection: connection.execute(query, (owner,)).fetchone()) is None:
            path.unlink(missing_ok=True)

    # Rows

    def _row(self, connection: sqlite3.Connection, run_id: str) -> tuple[Any, ...]:
        row: tuple[Any, ...] | None = connection.execute(f"{RUN} WHERE run_id = ?", (run_id,)).fetchone()
        if row is None:
            raise RunNotFound(self.name, run_id)
        return row

    def _stored(self, row: tuple[Any, ...]) -> StoredRun:
        header, status, updated_at, steps, recoveries, owner, outcome = row
        return StoredRun(
            header=header_of(header, self.name),
            status=status,
            updated_at=updated_at,
            steps=steps,
            recoveries=recoveries,
            owned=owner is not None and self._own().lives(owner),
            outcome=None if outcome is None else json.loads(outcome),
        )

    def _check_owned(self, connection: sqlite3.Connection, done: sqlite3.Cursor, run_id: str) -> None:
        if not done.rowcount:
            self._check_own(connection, run_id)

    def _check_own(self, connection: sqlite3.Connection, run_id: str) -> None:
        """RunNotFound or RunConflict, if this process does not own the run."""
        row = connection.execute("SELECT owner FROM runs WHERE run_id = ?", (run_id,)).fetchone()
        if row is None:
            raise RunNotFound(self.name, run_id)
        if row[0] != self._own().id:
            raise RunConflict(self.name, run_id, "is not carried out here, or was taken over")
