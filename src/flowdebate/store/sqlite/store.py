"""SQLite store: a single file with group commit, shared by any number of processes."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from flowdebate.errors import RunConflict, RunExists, RunNotFound, StoreError, StoreLost
from flowdebate.store.address import check_path
from flowdebate.store.base import (
    RunFilter,
    RunHeader,
    StepKind,
    StepRow,
    Store,
    StoredRun,
    StoredStatus,
    by_collection,
    check_page,
    ending_run,
    header_of,
    header_text,
    unpack_outcome,
)
from flowdebate.store.sqlite import rows
from flowdebate.store.sqlite.file import check_version, connect, connect_quick
from flowdebate.store.sqlite.owner import OpenSteps, Owner, read_open_steps
from flowdebate.store.sqlite.writer import Writer

T = TypeVar("T")


class SqliteStore(Store):
    """Store that keeps runs in the file `path`, created if missing and usable by several processes at once.

    A committed answer is on disk (WAL, synchronous=FULL). A change to a run's status survives a crash of the process,
    but not necessarily a power failure. For each process with runs, a folder next to the file contains a lock and a log
    of open steps. File systems without working locks, such as many network drives, are not supported. `patience` is the
    time in seconds to wait for another program's lock on the file before StoreError is raised.
    """

    def __init__(self, path: str | Path, *, patience: float = 10.0) -> None:
        check_path(str(path), location="SqliteStore", field="path")
        file_path = Path(path).expanduser()
        self._name = str(file_path)
        self._path = file_path.absolute()  # absolute, because the working directory may change
        self._patience = patience
        self._owner: Owner | None = None
        self._open_steps: OpenSteps
        """The open steps of `_owner`; set together with it."""
        self._latest = 0
        """Number of the last finished step: nanoseconds since the epoch, or more if a clock was set back."""
        self._recovered: set[str] = set()
        """Runs that were resumed after a crash and have not finished a step since."""
        self._ending: set[str] = set()
        """Runs whose end or release has not been written yet: this process owns them but is not executing them."""
        self._writer = Writer(
            lambda: connect(self._path, patience, name=self._name), lambda: connect_quick(self._path), self._path
        )

    @property
    def name(self) -> str:
        return self._name

    @property
    def lost(self) -> bool:
        """True if the store accepts no further writes, because a write failed or the file is gone."""
        return self._writer.lost is not None

    # Runs

    async def create(self, header: RunHeader) -> None:
        run_id, text = header.run_id, header_text(header)

        def work(connection: sqlite3.Connection) -> None:
            self._check_version(connection)
            parameters = (header.question, header.question.casefold())
            values = (run_id, header.block, *parameters, header.created_at, time.time(), self._ensure_owner().id, text)
            try:
                connection.execute(rows.CREATE, values)
            except sqlite3.IntegrityError:
                raise RunExists(self.name, run_id) from None
            self._open_steps.add_run(run_id, {}, ())

        await self._write(work, durably=False)

    async def take(self, run_id: str) -> StoredRun:
        await self._release_ended(run_id)
        # Until the commit, a dead owner's open steps are only in its log, so do not remove it before.
        dead_owners: list[str] = []

        def work(connection: sqlite3.Connection) -> StoredRun:
            self._check_version(connection)
            row = self._row(connection, run_id)
            before = self._stored(row)
            if before.owned:
                raise RunConflict(self.name, run_id)
            recoveries = before.recoveries + (before.status == "running")
            connection.execute(rows.TAKE, (self._ensure_owner().id, recoveries, time.time(), run_id))
            owner = rows.owner_of(row)
            self._track(connection, run_id, owner)
            if owner is not None:
                dead_owners.append(owner)
            latest = connection.execute(rows.LATEST_OF, (run_id,)).fetchone()[0]
            self._latest = max(self._latest, latest)
            if recoveries:
                self._recovered.add(run_id)
            return replace(before, recoveries=recoveries, owned=True)

        taken_run = await self._write(work, durably=False)
        if dead_owners:
            dead = dead_owners[0]
            log = self._ensure_owner().log_of(dead)
            # The dead owner may have owned other runs.
            query = "SELECT 1 FROM runs WHERE owner = ? ORDER BY rowid DESC LIMIT 1"
            if log.exists() and await self._do(lambda opened: opened.execute(query, (dead,)).fetchone()) is None:
                log.unlink(missing_ok=True)
        return taken_run

    async def release(self, run_id: str) -> None:
        await self._end(run_id, lambda connection: connection.execute(rows.RELEASE, (run_id, self._ensure_owner().id)))

    async def finish(self, run_id: str, status: StoredStatus, outcome: Mapping[str, Any] | None) -> None:
        text, brief = rows.outcome_texts(outcome)

        def end(connection: sqlite3.Connection) -> sqlite3.Cursor:
            done = connection.execute(rows.FINISH, (status, text, brief, time.time(), run_id, self._ensure_owner().id))
            self._check_owned(connection, done, run_id)
            return done

        await self._end(run_id, end)

    async def run(self, run_id: str) -> StoredRun:
        return await self._do(lambda connection: self._stored(self._row(connection, run_id)))

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
        filters: RunFilter = {"status": status, "block": block, "text": text, "labels": labels, "prefix": prefix}
        filters |= {"limit": limit, "before": before, "brief": brief}
        return await self._do(lambda connection: [self._stored(row) for row in rows.find_runs(connection, **filters)])

    async def delete(self, run_id: str) -> None:
        def work(connection: sqlite3.Connection) -> None:
            if self._stored(self._row(connection, run_id)).owned:
                raise RunConflict(self.name, run_id)
            connection.execute("DELETE FROM steps WHERE run_id = ?", (run_id,))
            connection.execute("DELETE FROM runs WHERE run_id = ?", (run_id,))

        await self._release_ended(run_id)
        await self._do(work)

    async def add(self, run: StoredRun, steps: Sequence[StepRow]) -> None:
        run_id = run.header.run_id

        def work(connection: sqlite3.Connection) -> None:
            try:
                connection.execute(rows.ADD_RUN, rows.run_values(run))
            except sqlite3.IntegrityError:
                raise RunExists(self.name, run_id) from None
            connection.executemany(rows.ADD_STEP, [rows.step_values(run_id, row) for row in steps])

        await self._do(work)

    # Steps

    async def intend(self, run_id: str, key: str, kind: StepKind, request: str | None) -> int:
        self._check_usable()
        try:
            number = None if self._owner is None else self._open_steps.begin(run_id, key, kind, request)
        except OSError as error:
            raise self._error(error) from error
        if number is not None:  # usually, this writes one line to a file and does not block other processes
            return number

        def work(connection: sqlite3.Connection) -> int:
            """Handle the rare cases: the step is finished, or this owner's run is not tracked yet."""
            self._check_ownership(connection, run_id)
            if not self._open_steps.has_run(run_id):
                self._track(connection, run_id, self._ensure_owner().id)
            number = self._open_steps.begin(run_id, key, kind, request)
            if number is None:
                values = {"run": run_id, "key": key, "kind": kind, "request": request}
                number = connection.execute(rows.AGAIN, values).fetchall()[0][0]
            return number

        return await self._write(work, durably=False)

    async def commit(self, run_id: str, key: str, kind: StepKind, body: str, at: float) -> None:
        attempt = None if self._owner is None else self._open_steps.last(run_id, key)
        values = {"run": run_id, "key": key, "kind": kind, "at": at, "body": body}
        values |= {"request": attempt and attempt.request, "attempts": 1 if attempt is None else attempt.number}

        def work(connection: sqlite3.Connection) -> None:
            # Later than any earlier step, even if the clock was set back.
            self._latest = max(self._latest + 1, time.time_ns())
            done = connection.execute(rows.COMMIT, values | {"seq": self._latest, "owner": self._ensure_owner().id})
            self._check_owned(connection, done, run_id)
            if run_id in self._recovered:
                connection.execute("UPDATE runs SET recoveries = 0 WHERE run_id = ?", (run_id,))

        await self._write(work, single=run_id not in self._recovered)
        self._recovered.discard(run_id)
        self._open_steps.finish(run_id, key)

    async def fail(self, run_id: str, key: str, failure: str) -> None:
        attempts = {} if self._owner is None else self._open_steps.attempts(run_id)

        def work(connection: sqlite3.Connection) -> None:
            if key in attempts:
                self._check_ownership(connection, run_id)
                rows.save_open_steps(connection, run_id, {key: attempts[key]})
            values = {"run": run_id, "key": key, "failure": failure, "owner": self._ensure_owner().id}
            self._check_owned(connection, connection.execute(rows.FAIL, values), run_id)

        await self._write(work, durably=False)

    async def steps(self, run_id: str, *, after: int = 0) -> Sequence[StepRow]:
        def work(connection: sqlite3.Connection) -> list[StepRow]:
            owner = rows.owner_of(self._row(connection, run_id))
            return rows.steps_of(
                connection,
                run_id,
                {} if owner is None else read_open_steps(self._ensure_owner().log_of(owner), run_id),
                after,
            )

        return await self._do(work)

    # Documents

    async def documents_in(
        self, collections: Sequence[str], *, key: str | None = None
    ) -> Mapping[str, Mapping[str, str]]:
        query = (
            "SELECT collection, key, body FROM documents"
            " WHERE collection IN (SELECT value FROM json_each(:collections)) AND (:key IS NULL OR key = :key)"
            " ORDER BY number"
        )
        values = {"collections": json.dumps(list(collections)), "key": key}
        return await self._do(lambda connection: by_collection(connection.execute(query, values).fetchall()))

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
        def save_open_steps(connection: sqlite3.Connection) -> None:
            for run_id in self._open_steps.runs:
                with suppress(RunConflict, RunNotFound):  # the run was taken over or deleted
                    self._check_ownership(connection, run_id)
                    rows.save_open_steps(connection, run_id, self._open_steps.attempts(run_id))

        if self._owner is not None and not (self._writer.closed or self._writer.forked):
            # if saving fails, keep the log: processes that take over the runs need the steps missing from the database
            saved = False
            with suppress(StoreError):
                await self._do(save_open_steps)
                saved = True
            self._open_steps.close(remove=saved)
        await asyncio.to_thread(self._writer.close)
        owner, self._owner = self._owner, None
        if owner is not None and not self._writer.forked:  # a forked process must not release its parent's lock
            owner.end()

    # The file

    async def _do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        self._check_usable()
        try:
            return await self._writer.do(work)
        except (sqlite3.Error, OSError) as error:
            raise self._error(error) from error

    async def _write(self, work: Callable[[sqlite3.Connection], T], *, single: bool = False, durably: bool = True) -> T:
        self._check_usable()
        try:
            return await self._writer.write(work, single=single, durably=durably)
        except (sqlite3.Error, OSError) as error:
            raise self._error(error) from error

    def _check_usable(self) -> None:
        if self._writer.closed:
            raise StoreError(self.name, "is closed")
        if self._writer.forked:
            raise StoreError(self.name, "belongs to the parent process; open the store again after a fork")
        if self._writer.lost is not None:
            raise self._error(self._writer.lost)

    def _error(self, error: Exception) -> StoreError:
        if "locked" in str(error):
            return StoreError(self.name, f"has been locked by another program for {self._patience:g} s")
        if error is self._writer.lost:
            what = str(error) if isinstance(error, FileNotFoundError) else f"could not be written to disk ({error})"
            return StoreLost(self.name, f"{what}, so this store can no longer be used")
        is_refused = getattr(error, "errno", None) in (errno.EROFS, errno.EACCES)
        if is_refused or (isinstance(error, sqlite3.OperationalError) and self._is_read_only()):
            return StoreError(self.name, "is read-only: its file, its folder or its file system cannot be written to")
        return StoreError(self.name, f"cannot be used: {error}")

    def _is_read_only(self) -> bool:
        """Return whether SQLite cannot write to the file, or to the log next to it."""
        effective = os.access in os.supports_effective_ids
        places = [os.path.realpath(place) for place in (self._path.parent, self._path)]
        existing = [place for place in places if os.path.exists(place)]  # noqa: PTH110 - of a name that is too long, too
        return any(not os.access(place, os.W_OK, effective_ids=effective) for place in existing)

    def _ensure_owner(self) -> Owner:
        """Return this process's owner object, creating it on first use."""
        if self._owner is None:
            # the folder is the same no matter which link was used to open the file
            real = Path(os.path.realpath(self._path))
            owner = Owner(real.with_name(f"{real.name}-owners"))
            self._open_steps = OpenSteps(owner.log_of(owner.id))
            self._owner = owner
        return self._owner

    async def _end(self, run_id: str, end: Callable[[sqlite3.Connection], sqlite3.Cursor]) -> None:
        """Execute `end`; if it changed the run's row, save the run's open steps and stop tracking the run."""
        attempts = {} if self._owner is None else self._open_steps.attempts(run_id)

        def work(connection: sqlite3.Connection) -> None:
            if end(connection).rowcount:
                rows.save_open_steps(connection, run_id, attempts)
                self._open_steps.remove_run(run_id)

        with ending_run(run_id, self._ending):
            await self._write(work, single=not attempts, durably=False)

    async def _release_ended(self, run_id: str) -> None:
        """Release a run before it is taken or deleted, in case its end could not be recorded earlier."""
        if run_id in self._ending:
            await self.release(run_id)

    def _track(self, connection: sqlite3.Connection, run_id: str, owner: str | None) -> None:
        """Track a run's open and finished steps, including attempts found only in the log of the last `owner`."""
        if owner is not None:
            rows.save_open_steps(connection, run_id, read_open_steps(self._ensure_owner().log_of(owner), run_id))
        self._open_steps.add_run(run_id, *rows.list_open_steps(connection, run_id))

    def _check_version(self, connection: sqlite3.Connection) -> None:
        """Raise StoreError if another version has changed the file: runs in progress can end, but none may start."""
        check_version(connection.execute("PRAGMA user_version").fetchone()[0], self.name)

    # Rows

    def _row(self, connection: sqlite3.Connection, run_id: str) -> tuple[Any, ...]:
        row: tuple[Any, ...] | None = connection.execute(f"{rows.RUN} WHERE run_id = ?", (run_id,)).fetchone()
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
            owned=owner is not None and self._ensure_owner().is_alive(owner),
            outcome=None if outcome is None else unpack_outcome(json.loads(outcome)),
        )

    def _check_owned(self, connection: sqlite3.Connection, done: sqlite3.Cursor, run_id: str) -> None:
        if not done.rowcount:
            self._check_ownership(connection, run_id)

    def _check_ownership(self, connection: sqlite3.Connection, run_id: str) -> None:
        """Raise RunNotFound or RunConflict if this process does not own the run."""
        row = connection.execute("SELECT owner FROM runs WHERE run_id = ?", (run_id,)).fetchone()
        if row is None:
            raise RunNotFound(self.name, run_id)
        if row[0] != self._ensure_owner().id:
            raise RunConflict(self.name, run_id, "is not owned by this process, or was taken over")
