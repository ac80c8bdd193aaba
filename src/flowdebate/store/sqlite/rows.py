"""SQL statements for the SQLite store, and conversion of its rows."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, Unpack

from flowdebate.store.base import (
    NEWEST_SEARCHED,
    RunFilter,
    StepRow,
    StoredRun,
    brief_of,
    decode_text,
    encode_text,
    header_text,
    pack_outcome,
    prefix_end,
)
from flowdebate.store.sqlite.owner import Attempt

_FINISHED = "(SELECT count(*) FROM steps WHERE steps.run_id = runs.run_id AND body IS NOT NULL)"
_LATEST = "(SELECT coalesce(max(seq), 0) FROM steps WHERE steps.run_id = runs.run_id)"
# The state of a run in progress is derived from its steps, so recording a step takes only one write.
RUN = (
    f"SELECT header, status, CASE WHEN owner IS NULL THEN updated_at ELSE max(updated_at, {_LATEST} / 1e9) END,"  # noqa: S608 - constants
    f" CASE WHEN owner IS NULL THEN steps ELSE {_FINISHED} END, recoveries, owner, outcome FROM runs"
)
BRIEF = RUN.replace("owner, outcome FROM", "owner, brief FROM")
"""Columns to select when listing runs, with abbreviated outcomes."""
_CONDITIONS = {
    "status": "status = :status",
    "block": "block = :block",
    # LIKE ignores case only for ASCII letters. The index usually suffices, but escaped text is checked again.
    "text": "instr(folded, :folded) AND flowdebate_found(question, :text)",
    "labels": "flowdebate_labeled(header, :labels)",
    "label": "label = (SELECT key || '=' || atom FROM json_each(:label))",
    "parts": "run_texts MATCH :parts",
    "prefix": "run_id >= :prefix AND instr(run_id, :prefix) = 1",
    "end": "run_id < :end",
    "since": "{created} >= :since",
    "at": "{created} <= :at AND ({created} < :at OR run_id > :id)",
}
"""SQL conditions for filtering runs, keyed by parameter; all except "labels" and "text" can use an index."""
_TRIGRAM = 3
_OLDEST_SEARCHED = f"SELECT created_at FROM runs ORDER BY created_at DESC LIMIT 1 OFFSET {NEWEST_SEARCHED - 1}"  # noqa: S608
_MANY, _MAX_PARTS = 1_000, 32
_HAVE_PARTS = f"SELECT count(*) FROM (SELECT 1 FROM run_texts WHERE run_texts MATCH ? LIMIT {_MANY})"  # noqa: S608
_FEW = ("running", "queued", "awaiting")
"""Rare statuses; for these, the status index is the most selective."""
LATEST_OF = f"SELECT {_LATEST} FROM runs WHERE run_id = ?"  # noqa: S608
RELEASE = (
    f"UPDATE runs SET owner = NULL, steps = {_FINISHED}, updated_at = max(updated_at, {_LATEST} / 1e9)"  # noqa: S608
    " WHERE run_id = ? AND owner = ?"
)
FINISH = (
    f"UPDATE runs SET status = ?, outcome = ?, brief = ?, owner = NULL, updated_at = ?, steps = {_FINISHED}"  # noqa: S608
    " WHERE run_id = ? AND owner = ?"
)
CREATE = (
    "INSERT INTO runs (run_id, block, question, folded, status, created_at, updated_at, owner, header)"
    " VALUES (?, ?, ?, ?, 'running', ?, ?, ?, ?)"
)
TAKE = "UPDATE runs SET owner = ?, status = 'running', recoveries = ?, updated_at = ? WHERE run_id = ?"

_OWNED = "EXISTS (SELECT 1 FROM runs WHERE run_id = :run AND owner = :owner)"
_STEPS = (
    "SELECT key, kind, request, attempts, failures, seq, at, body FROM steps WHERE run_id = ?1 AND (seq IS NULL"
    " OR key IN (SELECT key FROM steps WHERE run_id = ?1 AND seq IS NOT NULL ORDER BY seq LIMIT -1 OFFSET ?2))"
)
_IS_DONE = "SELECT 1 FROM steps WHERE run_id = ? AND key = ? AND seq IS NOT NULL"
_KNOWN = "SELECT key, kind, request, attempts, body IS NOT NULL FROM steps WHERE run_id = ?"
_SAVE_ATTEMPT = (
    "INSERT INTO steps (run_id, key, kind, request, attempts) VALUES (:run, :key, :kind, :request, :attempts)"
    " ON CONFLICT DO UPDATE SET kind = excluded.kind, request = excluded.request, attempts = excluded.attempts"
    " WHERE body IS NULL AND attempts < excluded.attempts"
)
"""Statement for saving an attempt at an open step."""
AGAIN = (
    "UPDATE steps SET attempts = attempts + 1, kind = :kind, request = :request WHERE run_id = :run AND key = :key"
    " RETURNING attempts"
)
"""Statement for saving another attempt at a finished step."""
COMMIT = (
    "INSERT INTO steps (run_id, key, kind, request, attempts, seq, at, body)"
    f" SELECT :run, :key, :kind, :request, :attempts, :seq, :at, :body WHERE {_OWNED}"
    " ON CONFLICT DO UPDATE SET kind = excluded.kind, request = coalesce(excluded.request, request),"
    " attempts = max(attempts, excluded.attempts), seq = excluded.seq, at = excluded.at, body = excluded.body"
    " WHERE body IS NULL"
)
FAIL = (
    "UPDATE steps SET failures = json_insert(failures, '$[#]', :failure)"  # noqa: S608
    f" WHERE run_id = :run AND key = :key AND {_OWNED}"
)
ADD_RUN = (
    "INSERT INTO runs (run_id, block, question, folded, status, created_at, updated_at, steps, recoveries, header,"
    " outcome, brief) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
ADD_STEP = "INSERT INTO steps VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"


def find_runs(connection: sqlite3.Connection, **filters: Unpack[RunFilter]) -> sqlite3.Cursor:
    """List runs, using the index if the search text is rare and otherwise scanning the runs, newest first."""
    folded, parts = (filters.get("text") or "").casefold(), None
    # almost always true; otherwise, the connection would alter the trigrams by encoding them
    if encode_text(folded) == folded:
        trigrams = islice(dict.fromkeys(folded[at : at + 3] for at in range(len(folded) - 2)), _MAX_PARTS)
        # This is FTS5 query syntax.
        parts = " AND ".join('"{}"'.format(part.replace('"', '""')) for part in trigrams) or None
    if parts is not None and connection.execute(_HAVE_PARTS, (parts,)).fetchone()[0] == _MANY:
        parts = None
    since = None
    if 0 < len(folded) < _TRIGRAM and (oldest := connection.execute(_OLDEST_SEARCHED).fetchone()) is not None:
        since = float(oldest[0])
    return connection.execute(*build_query(parts, since, **filters))


def build_query(
    parts: str | None = None, since: float | None = None, /, **filters: Unpack[RunFilter]
) -> tuple[str, dict[str, Any]]:
    """Build the SQL statement for listing runs; with `parts`, the statement starts from the trigram index.

    Runs created before `since` are excluded.
    """
    labels, limit, prefix = filters.get("labels"), filters.get("limit"), filters.get("prefix") or None
    parameters: dict[str, Any] = {"status": filters.get("status"), "block": filters.get("block")}
    parameters |= {"text": filters.get("text") or None, "prefix": prefix, "end": prefix and prefix_end(prefix)}
    if (before := filters.get("before")) is not None:
        parameters |= {"at": float(before[0]), "id": before[1]}
    few = parameters["status"] in _FEW
    parameters |= {"parts": parts, "since": since}
    if labels:
        parameters["labels"] = json.dumps(dict(labels))
        if not few and parts is None:
            parameters["label"] = json.dumps(dict([next(iter(labels.items()))]))
    values = {name: value for name, value in parameters.items() if value is not None}
    location = " AND ".join(_CONDITIONS[name] for name in values if name in _CONDITIONS) or "true"
    if not few and labels:
        location = location.replace("status =", "+status =")  # "+" keeps the planner from using the status index
    if "text" in values:
        values["folded"] = values["text"].casefold()
    values["limit"] = -1 if limit is None else limit
    source, created = BRIEF if filters.get("brief") else RUN, "created_at"
    if parts is not None:
        source = source.replace(
            "FROM runs",
            "FROM run_texts CROSS JOIN run_numbers ON number = run_texts.rowid CROSS JOIN runs USING (run_id)",
        )
    if "label" in values:  # CROSS makes SQLite read in label-index order
        source = source.replace("FROM runs", "FROM run_labels CROSS JOIN runs USING (run_id)")
        created = "run_labels.created_at"
    location = location.replace("{created}", created)
    return f"{source} WHERE {location} ORDER BY {created} DESC, run_id LIMIT :limit", values


def outcome_texts(outcome: Mapping[str, Any] | None) -> list[str | None]:
    """Format an outcome for storage, both in full and abbreviated."""
    forms = pack_outcome(outcome), brief_of(outcome)
    return [None if form is None else json.dumps(form, ensure_ascii=False) for form in forms]


def owner_of(row: tuple[Any, ...]) -> str | None:
    """Return the owner (dead or alive) in a row selected by RUN, or None for a run without an owner."""
    owner: str | None = row[-2]
    return owner


def run_values(run: StoredRun) -> tuple[Any, ...]:
    """Return the parameter values for the ADD_RUN statement."""
    header = run.header
    outcomes = outcome_texts(run.outcome)
    folded = header.question.casefold()
    values = (header.run_id, header.block, header.question, folded, run.status, header.created_at)
    return (*values, run.updated_at, run.steps, run.recoveries, header_text(header), *outcomes)


def step_values(run_id: str, row: StepRow) -> tuple[Any, ...]:
    """Return the parameter values for the ADD_STEP statement."""
    failures = json.dumps([encode_text(failure) for failure in row.failures], ensure_ascii=False)
    return (run_id, row.key, row.kind, row.request, row.attempts, failures, row.seq, row.at, row.body)


def save_open_steps(connection: sqlite3.Connection, run_id: str, attempts: Mapping[str, Attempt]) -> None:
    """Copy the logged attempts at a run's steps to the database, skipping any that are already there."""
    for key, (kind, request, number) in attempts.items():
        values = {"run": run_id, "key": key, "kind": kind, "request": request, "attempts": number}
        connection.execute(_SAVE_ATTEMPT, values)


def list_open_steps(connection: sqlite3.Connection, run_id: str) -> tuple[dict[str, Attempt], list[str]]:
    """Read the latest attempts at a run's open steps, and the keys of its finished steps."""
    rows = connection.execute(_KNOWN, (run_id,)).fetchall()
    attempts = {key: Attempt(kind, request, number) for key, kind, request, number, done in rows if not done}
    return attempts, [key for key, *_, done in rows if done]


def steps_of(connection: sqlite3.Connection, run_id: str, logged: Mapping[str, Attempt], after: int) -> list[StepRow]:
    """Read a run's steps in order, adding any `logged` attempts missing from the database."""
    rows: dict[str, StepRow] = {}
    for key, kind, request, attempts, failures, seq, at, body in connection.execute(_STEPS, (run_id, after)):
        failed = tuple(map(decode_text, json.loads(failures)))
        rows[key] = StepRow(
            key=key, kind=kind, request=request, attempts=attempts, failures=failed, seq=seq, at=at, body=body
        )
    for key, (kind, request, number) in logged.items():
        if after and key not in rows and connection.execute(_IS_DONE, (run_id, key)).fetchone():
            continue
        row = rows.get(key) or StepRow(key=key, kind=kind, attempts=0)
        if row.body is None and row.attempts < number:
            rows[key] = replace(row, kind=kind, request=request, attempts=number)
    ordered = sorted(rows.values(), key=lambda row: (row.seq is None, row.seq or 0, row.key))
    # Sequence numbers are stored as times, so that a commit needs no counter; readers of a run see 1, 2, 3 instead.
    return [replace(row, seq=place) if row.seq else row for place, row in enumerate(ordered, start=after + 1)]
