"""In-memory store, for tests and for runs resumed within one process."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from flowdebate.errors import RunConflict, RunExists, RunNotFound, StoreError
from flowdebate.store.base import (
    RunHeader,
    StepKind,
    StepRow,
    Store,
    StoredRun,
    StoredStatus,
    brief_of,
    check_page,
    list_order,
)


@dataclass(slots=True)
class _Record:
    run: StoredRun
    steps: dict[str, StepRow] = field(default_factory=dict)


class MemoryStore(Store):
    """Store that keeps runs in memory; they are lost when the process exits.

    >>> MemoryStore().name
    'memory'
    """

    name = "memory"

    def __init__(self) -> None:
        self._runs: dict[str, _Record] = {}
        self._documents: dict[str, dict[str, str]] = {}
        self._closed = False

    async def create(self, header: RunHeader) -> None:
        if header.run_id in self._open():
            raise RunExists(self.name, header.run_id)
        run = StoredRun(header=header, status="running", updated_at=time.time(), steps=0, owned=True)
        self._runs[header.run_id] = _Record(run)

    async def take(self, run_id: str) -> StoredRun:
        record = self._record(run_id)
        before = record.run
        if before.owned:
            raise RunConflict(self.name, run_id)
        taken_run = replace(before, owned=True, recoveries=before.recoveries + (before.status == "running"))
        record.run = replace(taken_run, status="running", updated_at=time.time())
        return taken_run

    async def release(self, run_id: str) -> None:
        record = self._open().get(run_id)
        if record is not None:
            record.run = replace(record.run, owned=False)

    async def intend(self, run_id: str, key: str, kind: StepKind, request: str | None) -> int:
        record = self._owned(run_id)
        earlier = record.steps.get(key)
        row = StepRow(key=key, kind=kind, request=request)
        if earlier is not None:
            row = replace(earlier, kind=kind, request=request, attempts=earlier.attempts + 1)
        record.steps[key] = row
        return row.attempts

    async def commit(self, run_id: str, key: str, kind: StepKind, body: str, at: float) -> None:
        record = self._owned(run_id)
        row = record.steps.get(key) or StepRow(key=key, kind=kind)
        if row.body is None:
            record.steps[key] = replace(row, kind=kind, body=body, at=at, seq=record.run.steps + 1)
            record.run = replace(record.run, steps=record.run.steps + 1, recoveries=0, updated_at=time.time())

    async def fail(self, run_id: str, key: str, failure: str) -> None:
        record = self._owned(run_id)
        row = record.steps.get(key)
        if row is not None:
            record.steps[key] = replace(row, failures=(*row.failures, failure))

    async def finish(self, run_id: str, status: StoredStatus, outcome: Mapping[str, Any] | None) -> None:
        record = self._owned(run_id)
        record.run = replace(record.run, status=status, outcome=outcome, owned=False, updated_at=time.time())

    async def run(self, run_id: str) -> StoredRun:
        return self._record(run_id).run

    async def steps(self, run_id: str, *, after: int = 0) -> Sequence[StepRow]:
        rows = self._record(run_id).steps.values()
        done = sorted((row for row in rows if row.seq is not None and row.seq > after), key=lambda row: row.seq or 0)
        return [*done, *sorted((row for row in rows if row.seq is None), key=lambda row: row.key)]

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
        matches = [
            record.run
            for record in self._open().values()
            if status in (None, record.run.status)
            and block in (None, record.run.header.block)
            and (text or "").casefold() in record.run.header.question.casefold()
            and (labels or {}).items() <= record.run.header.labels.items()
            and record.run.header.run_id.startswith(prefix or "")
            and (before is None or list_order(before) < list_order(record.run.position))
        ]
        matches.sort(key=lambda run: list_order(run.position))
        return [replace(run, outcome=brief_of(run.outcome)) if brief else run for run in matches[:limit]]

    async def delete(self, run_id: str) -> None:
        if self._record(run_id).run.owned:
            raise RunConflict(self.name, run_id)
        del self._runs[run_id]

    async def add(self, run: StoredRun, steps: Sequence[StepRow]) -> None:
        if run.header.run_id in self._open():
            raise RunExists(self.name, run.header.run_id)
        # An owner recorded in another store is meaningless here.
        self._runs[run.header.run_id] = _Record(replace(run, owned=False), {row.key: row for row in steps})

    async def documents_in(
        self, collections: Sequence[str], *, key: str | None = None
    ) -> Mapping[str, Mapping[str, str]]:
        self._open()
        documents = {name: self._documents.get(name, {}) for name in collections}
        selected = {
            name: {document: body for document, body in bodies.items() if key in (None, document)}
            for name, bodies in documents.items()
        }
        return {name: bodies for name, bodies in selected.items() if bodies}

    async def documents(self, collection: str) -> Mapping[str, str]:
        self._open()
        return dict(self._documents.get(collection, {}))

    async def put(self, collection: str, key: str, body: str, *, expected: str | None = None) -> bool:
        self._open()
        documents = self._documents.setdefault(collection, {})
        if documents.get(key) != expected:
            return False
        documents[key] = body
        return True

    async def close(self) -> None:
        self._closed = True

    def _open(self) -> dict[str, _Record]:
        if self._closed:
            raise StoreError(self.name, "is closed")
        return self._runs

    def _record(self, run_id: str) -> _Record:
        record = self._open().get(run_id)
        if record is None:
            raise RunNotFound(self.name, run_id)
        return record

    def _owned(self, run_id: str) -> _Record:
        record = self._record(run_id)
        if not record.run.owned:
            raise RunConflict(self.name, run_id, "is not owned by this process")
        return record
