"""A store in one SQLite file."""

from __future__ import annotations

import json
import sqlite3
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from flowdebate.errors import RunConflict, RunExists, RunNotFound, StoreError
from flowdebate.store.owners import Owner
from flowdebate.store.port import StepRow, Store, StoredRun
from flowdebate.store.rows import header_of, header_text
from flowdebate.store.sqlite_file import connect, connect_quick
from flowdebate.store.sqlite_statements import FINISH, LATEST_OF, OWNED, RELEASE, RUN
from flowdebate.store.texts import given, kept
from flowdebate.store.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from flowdebate.store.port import RunHeader, StepKind, StoredStatus

__all__ = ("SqliteStore",)

T = TypeVar("T")


class SqliteStore(Store):
    """Keeps runs in the file `path`, which is made where there is none; several processes may use it at once.

    Answers are on the disk when they are written (WAL, synchronous=FULL), with all that was written before them; what
    only says where a run stands outlives the process, and a power cut with the next answer. Many writes at once are one
    transaction. Beside the file there is a folder with a lock file for each process that carries out runs. A file
    system without locks that work, as many network drives are, will not do.
    `patience` is how many seconds another program may keep the file locked; StoreError then.
    """

    def __init__(self, path: str | Path, *, patience: float = 10.0) -> None:
        self._path = Path(path).expanduser()
        self._patience = patience
        self._owner: Owner | None = None
        self._latest = 0
        """The number of the step that was finished last: nanoseconds since the epoch; more where a clock went back."""
        self._recovered: set[str] = set()
        """Runs that were carried on after their process had died, and got no further yet."""
        self._writer = Writer(lambda: connect(self._path, patience), lambda: connect_quick(self._path))

    @property
    def name(self) -> str:
        return str(self._path)

    # Runs

    async def create(self, header: RunHeader) -> None:
        text = header_text(header)

        def work(connection: sqlite3.Connection) -> None:
            try:
                connection.execute(
                    "INSERT INTO runs (run_id, block, question, status, created_at, updated_at, owner, header)"
                    " VALUES (?, ?, ?, 'running', ?, ?, ?, ?)",
                    (
                        header.run_id,
                        header.block,
                        header.question,
                        header.created_at,
                        time.time(),
                        self._own().id,
                        text,
                    ),
                )
            except sqlite3.IntegrityError:
                raise RunExists(self.name, header.run_id) from None

        await self._do(work, quickly=True, single=True)

    async def take(self, run_id: str) -> StoredRun:
        def work(connection: sqlite3.Connection) -> StoredRun:
            before = self._run(connection, run_id)
            if before.owned:
                raise RunConflict(self.name, run_id)
            recoveries = before.recoveries + (before.status == "running")
            connection.execute(
                "UPDATE runs SET owner = ?, status = 'running', recoveries = ?, updated_at = ? WHERE run_id = ?",
                (self._own().id, recoveries, time.time(), run_id),
            )
            latest = connection.execute(LATEST_OF, (run_id,)).fetchone()[0]
            self._latest = max(self._latest, latest)
            if recoveries:
                self._recovered.add(run_id)
            return replace(before, recoveries=recoveries, owned=True)

        return await self._do(work, quickly=True)

    async def release(self, run_id: str) -> None:
        def work(connection: sqlite3.Connection) -> None:
            connection.execute(RELEASE, (run_id, self._own().id))

        await self._do(work, quickly=True, single=True)

    async def finish(self, run_id: str, status: StoredStatus, outcome: Mapping[str, Any] | None) -> None:
        text = None if outcome is None else json.dumps(outcome, ensure_ascii=False)

        def work(connection: sqlite3.Connection) -> None:
            done = connection.execute(FINISH, (status, text, time.time(), run_id, self._own().id))
            self._check_owned(connection, done, run_id)

        await self._do(work, quickly=True, single=True)

    async def run(self, run_id: str) -> StoredRun:
        return await self._do(lambda connection: self._run(connection, run_id))

    async def runs(
        self,
        *,
        status: StoredStatus | None = None,
        block: str | None = None,
        text: str | None = None,
        labels: Mapping[str, str] | None = None,
        limit: int | None = None,
    ) -> Sequence[StoredRun]:
        def work(connection: sqlite3.Connection) -> list[StoredRun]:
            found = connection.execute(
                f"{RUN} WHERE (:status IS NULL OR status = :status) AND (:block IS NULL OR block = :block)"
                " AND (:text IS NULL OR flowdebate_found(question, :text))"
                " AND flowdebate_labelled(header, :labels)"
                " ORDER BY created_at DESC, run_id LIMIT :limit",
                {
                    "status": status,
                    "block": block,
                    "text": text or None,
                    "labels": json.dumps(dict(labels)) if labels else None,
                    "limit": -1 if limit is None else limit,
                },
            )
            return [self._stored(row) for row in found]

        return await self._do(work)

    async def delete(self, run_id: str) -> None:
        def work(connection: sqlite3.Connection) -> None:
            if self._run(connection, run_id).owned:
                raise RunConflict(self.name, run_id)
            connection.execute("DELETE FROM steps WHERE run_id = ?", (run_id,))
            connection.execute("DELETE FROM runs WHERE run_id = ?", (run_id,))

        await self._do(work)

    async def add(self, run: StoredRun, steps: Sequence[StepRow]) -> None:
        header = run.header

        def work(connection: sqlite3.Connection) -> None:
            values = (
                header.run_id,
                header.block,
                header.question,
                run.status,
                header.created_at,
                run.updated_at,
                run.steps,
                run.recoveries,
                header_text(header),
                None if run.outcome is None else json.dumps(run.outcome, ensure_ascii=False),
            )
            try:
                connection.execute(
                    "INSERT INTO runs (run_id, block, question, status, created_at, updated_at, steps, recoveries,"
                    " header, outcome) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    values,
                )
            except sqlite3.IntegrityError:
                raise RunExists(self.name, header.run_id) from None
            connection.executemany(
                "INSERT INTO steps VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (
                        header.run_id,
                        row.key,
                        row.kind,
                        row.request,
                        row.attempts,
                        json.dumps([kept(failure) for failure in row.failures], ensure_ascii=False),
                        row.seq,
                        row.at,
                        row.body,
                    )
                    for row in steps
                ],
            )

        await self._do(work)

    # Steps

    async def intend(self, run_id: str, key: str, kind: StepKind, request: str | None) -> int:
        def work(connection: sqlite3.Connection) -> int:
            rows = connection.execute(
                "INSERT INTO steps (run_id, key, kind, request, attempts)"
                f" SELECT :run, :key, :kind, :request, 1 WHERE {OWNED}"
                " ON CONFLICT DO UPDATE SET attempts = attempts + 1, kind = :kind, request = :request"
                " RETURNING attempts",
                {"run": run_id, "key": key, "kind": kind, "request": request, "owner": self._own().id},
            ).fetchall()
            if not rows:
                self._not_owned(connection, run_id)
            return int(rows[0][0])

        return await self._do(work, quickly=True, single=True)

    async def commit(self, run_id: str, key: str, kind: StepKind, body: str, at: float) -> None:
        def work(connection: sqlite3.Connection) -> None:
            self._latest = max(self._latest + 1, time.time_ns())
            done = connection.execute(
                "INSERT INTO steps (run_id, key, kind, attempts, seq, at, body)"
                f" SELECT :run, :key, :kind, 1, :seq, :at, :body WHERE {OWNED}"
                " ON CONFLICT DO UPDATE SET kind = excluded.kind, seq = excluded.seq, at = excluded.at,"
                " body = excluded.body WHERE body IS NULL",
                {
                    "run": run_id,
                    "key": key,
                    "kind": kind,
                    "seq": self._latest,
                    "at": at,
                    "body": body,
                    "owner": self._own().id,
                },
            )
            self._check_owned(connection, done, run_id)
            if run_id in self._recovered:
                connection.execute("UPDATE runs SET recoveries = 0 WHERE run_id = ?", (run_id,))

        await self._do(work, single=run_id not in self._recovered)
        self._recovered.discard(run_id)

    async def fail(self, run_id: str, key: str, failure: str) -> None:
        def work(connection: sqlite3.Connection) -> None:
            done = connection.execute(
                "UPDATE steps SET failures = json_insert(failures, '$[#]', :failure)"  # noqa: S608 - no value in it
                f" WHERE run_id = :run AND key = :key AND {OWNED}",
                {"run": run_id, "key": key, "failure": failure, "owner": self._own().id},
            )
            self._check_owned(connection, done, run_id)

        await self._do(work, quickly=True, single=True)

    async def steps(self, run_id: str) -> Sequence[StepRow]:
        def work(connection: sqlite3.Connection) -> list[StepRow]:
            found = connection.execute(
                "SELECT key, kind, request, attempts, failures, seq, at, body FROM steps WHERE run_id = ?",
                (run_id,),
            ).fetchall()
            if not found:
                self._run(connection, run_id)
            rows = sorted(map(_step, found), key=lambda row: (row.seq is None, row.seq or 0, row.key))
            return [replace(row, seq=place) if row.seq else row for place, row in enumerate(rows, start=1)]

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

        await asyncio.to_thread(self._writer.close)
        owner, self._owner = self._owner, None
        if owner is not None and not self._writer.strayed:
            owner.end()

    # The file

    async def _do(self, work: Callable[[sqlite3.Connection], T], *, quickly: bool = False, single: bool = False) -> T:
        if self._writer.closed:
            raise StoreError(self.name, "is closed")
        if self._writer.strayed:
            raise StoreError(self.name, "belongs to the process that this one was forked from; make another here")
        try:
            do = self._writer.do_quickly if quickly else self._writer.do
            return await do(work, single=single)
        except (sqlite3.Error, OSError) as error:
            raise StoreError(self.name, self._told(error)) from error

    def _told(self, error: Exception) -> str:
        if "locked" in str(error):
            return f"is locked by another program, and was for {self._patience:g} s"
        return f"cannot be used: {error}"

    def _own(self) -> Owner:
        """This process among the owners."""
        if self._owner is None:
            self._owner = Owner(self._path.with_name(f"{self._path.name}-owners"))
        return self._owner

    # Rows

    def _run(self, connection: sqlite3.Connection, run_id: str) -> StoredRun:
        row = connection.execute(f"{RUN} WHERE run_id = ?", (run_id,)).fetchone()
        if row is None:
            raise RunNotFound(self.name, run_id)
        return self._stored(row)

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
            self._not_owned(connection, run_id)

    def _not_owned(self, connection: sqlite3.Connection, run_id: str) -> None:
        """RunNotFound or RunConflict, if this process does not own the run."""
        row = connection.execute("SELECT owner FROM runs WHERE run_id = ?", (run_id,)).fetchone()
        if row is None:
            raise RunNotFound(self.name, run_id)
        if row[0] != self._own().id:
            raise RunConflict(self.name, run_id, "is not carried out here, or was taken over")


def _step(row: tuple[Any, ...]) -> StepRow:
    key, kind, request, attempts, failures, seq, at, body = row
    return StepRow(
        key=key,
        kind=kind,
        request=request,
        attempts=attempts,
        failures=tuple(map(given, json.loads(failures))),
        seq=seq,
        at=at,
        body=body,
    )
