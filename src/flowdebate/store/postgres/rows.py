"""SQL statements for the PostgreSQL store, and functions for converting its rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack

from flowdebate.store.base import (
    NEWEST_SEARCHED,
    RunFilter,
    RunHeader,
    StepRow,
    StoredRun,
    brief_of,
    header_of,
    header_text,
    pack_outcome,
    prefix_end,
    unpack_outcome,
)
from flowdebate.store.postgres.sessions import ALIVE

if TYPE_CHECKING:
    from flowdebate.store.postgres.database import Session

RUN = (
    "SELECT header, status, updated_at, steps, recoveries, outcome,"  # noqa: S608 - a constant
    f" owner IS NOT NULL AND owner IN {ALIVE}, owner, claim FROM runs"
)
_BRIEF = RUN.replace(" outcome,", " brief,")
"""Columns to select when listing runs, with abbreviated outcomes."""
_LABEL = 200
"""Maximum length of an indexed label, in characters."""
_CONDITIONS = {
    "status": "status = %(status)s",
    "block": "block = %(block)s",
    "text": "position(%(text)s::bytea in folded) > 0",
    "newest": (
        "{created} >= coalesce((SELECT newest.created_at FROM runs AS newest"  # noqa: S608 - a constant
        f" ORDER BY newest.created_at DESC, newest.run_id LIMIT 1 OFFSET {NEWEST_SEARCHED - 1}), '-infinity')"
    ),
    "grams": "grams(folded) @> grams(%(grams)s::bytea)",
    "labels": "labels @> %(labels)s",
    "label": f"label = left(%(label)s, {_LABEL})",
    "prefix": "starts_with(run_id, %(prefix)s)",
    "end": "run_id >= %(prefix)s AND run_id < %(end)s",
    "at": "{created} <= %(at)s AND ({created} < %(at)s OR run_id > %(id)s)",
}
"""SQL conditions for listing runs, keyed by parameter; each is backed by an index sorted in listing order."""
_MIN_GRAM_LENGTH, _GRAMS = 3, 64
"""Minimum length of a search string to be looked up in the index, and maximum length of the prefix that is looked up;
both in bytes.
"""
OWNERSHIP = "SELECT owner, claim FROM runs WHERE run_id = %(run)s"
INSERT = """
INSERT INTO runs (run_id, block, folded, labels, status, created_at, updated_at, steps, recoveries, owner, claim,
                  header, outcome, brief)
VALUES (%(run)s, %(block)s, %(folded)s, %(labels)s, %(status)s, %(created_at)s, %(updated_at)s, %(steps)s,
        %(recoveries)s, %(owner)s, %(claim)s, %(header)s, %(outcome)s, %(brief)s)
ON CONFLICT DO NOTHING
"""
TAKE = """
UPDATE runs SET owner = %(owner)s, claim = %(claim)s, status = 'running', recoveries = %(recoveries)s,
                updated_at = %(now)s
WHERE run_id = %(run)s AND claim = %(before)s
"""
"""Statement to take a run. Every change of owner changes the claim, so an unchanged claim means that no other process
took the run first.
"""
FINISH = """
UPDATE runs SET status = %(status)s, outcome = %(outcome)s, brief = %(brief)s, owner = NULL, claim = %(claim)s,
                updated_at = %(now)s
WHERE run_id = %(run)s AND owner = %(owner)s
"""
_MINE = "WITH mine AS (SELECT FROM runs WHERE run_id = %(run)s AND owner = %(owner)s FOR NO KEY UPDATE)"
"""Subquery to lock the run's row until the statement ends; it selects no row unless this process owns the run."""
INTEND = f"""
{_MINE}
INSERT INTO steps AS known (run_id, key, kind, request, attempts)
SELECT %(run)s, %(key)s, %(kind)s, %(request)s, 1 FROM mine
ON CONFLICT (run_id, key) DO UPDATE
SET attempts = known.attempts + 1, kind = excluded.kind, request = excluded.request
RETURNING attempts
"""  # noqa: S608 - a constant
COMMIT = """
WITH moved AS (
    UPDATE runs SET steps = steps + 1, recoveries = 0, updated_at = %(now)s
    WHERE run_id = %(run)s AND owner = %(owner)s AND NOT EXISTS (
        SELECT FROM steps WHERE run_id = %(run)s AND key = %(key)s AND body IS NOT NULL
    )
    RETURNING steps
)
INSERT INTO steps (run_id, key, kind, attempts, seq, at, body)
SELECT %(run)s, %(key)s, %(kind)s, 1, steps, %(at)s, %(body)s FROM moved
ON CONFLICT (run_id, key) DO UPDATE
    SET kind = excluded.kind, seq = excluded.seq, at = excluded.at, body = excluded.body
"""
FAIL = f"""
{_MINE}
UPDATE steps SET failures = failures[1:%(before)s] || %(failure)s::text FROM mine
WHERE run_id = %(run)s AND key = %(key)s
"""  # noqa: S608 - a constant
DELETE = f"""
WITH gone AS (
    DELETE FROM runs WHERE run_id = %(run)s AND (owner IS NULL OR owner NOT IN {ALIVE}) RETURNING run_id
), swept AS (
    DELETE FROM steps USING gone WHERE steps.run_id = gone.run_id
)
SELECT count(*) FROM gone
"""  # noqa: S608 - a constant
STEPS = (
    "SELECT key, kind, request, attempts, failures, seq, at, body FROM steps"
    " WHERE run_id = %s AND (seq IS NULL OR seq > %s)"
)
ADD_STEP = """
INSERT INTO steps (run_id, key, kind, request, attempts, failures, seq, at, body)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)
"""
PUT_NEW = """
INSERT INTO documents (collection, key, body) VALUES (%(collection)s, %(key)s, %(body)s) ON CONFLICT DO NOTHING
"""
PUT = """
UPDATE documents SET body = %(body)s WHERE collection = %(collection)s AND key = %(key)s AND body = %(expected)s
"""


def build_query(**filters: Unpack[RunFilter]) -> tuple[bytes, dict[str, Any]]:
    """Build the SQL statement for listing runs, together with its parameters."""
    text, labels = filters.get("text"), filters.get("labels")
    parameters: dict[str, Any] = {"status": filters.get("status"), "block": filters.get("block")}
    parameters |= {"prefix": filters.get("prefix") or None, "text": fold_case(text) if text else None}
    if text and len(parameters["text"]) >= _MIN_GRAM_LENGTH:
        parameters["grams"] = parameters["text"][:_GRAMS]
    elif text:
        parameters["newest"] = True
    if parameters["prefix"]:
        parameters["end"] = prefix_end(parameters["prefix"])
    source = RUN if not filters.get("brief") else _BRIEF
    if labels:
        texts = label_texts(labels)
        parameters["label"] = texts[0]
        # If the index is sufficient, add no other condition, because the planner would treat it as an independent
        # filter.
        parameters["labels"] = texts if len(texts) > 1 or len(texts[0]) > _LABEL else None
        source += " JOIN run_labels USING (run_id)"
    if (before := filters.get("before")) is not None:
        parameters |= {"at": float(before[0]), "id": before[1]}
    values = {name: value for name, value in parameters.items() if value is not None}
    location = " AND ".join(_CONDITIONS[name] for name in values if name in _CONDITIONS) or "true"
    # Use the column of the index being read, so that the rows need no sorting.
    created = "run_labels.created_at" if labels else "created_at"
    location = location.replace("{created}", created)
    statement = f"{source} WHERE {location} ORDER BY {created} DESC, run_id LIMIT %(limit)s"
    return statement.encode(), values | {"limit": filters.get("limit")}


def fold_case(text: str) -> bytes:
    """Case-fold `text` for searches; the result is bytes, because PostgreSQL text cannot hold every character."""
    return text.casefold().encode("utf-8", "surrogatepass")


def label_texts(labels: Mapping[str, str]) -> list[str]:
    """Format each label as a single ASCII string."""
    return [json.dumps(pair) for pair in labels.items()]


def outcome_texts(outcome: Mapping[str, Any] | None) -> dict[str, str | None]:
    """Format `outcome` for storage, both in full and abbreviated."""
    values = {"outcome": pack_outcome(outcome), "brief": brief_of(outcome)}
    return {name: None if value is None else json.dumps(value, ensure_ascii=False) for name, value in values.items()}


def header_values(header: RunHeader) -> dict[str, Any]:
    """Return the values of the INSERT parameters taken from the run's header."""
    return {
        "run": header.run_id,
        "block": header.block,
        "folded": fold_case(header.question),
        "labels": label_texts(header.labels),
        "created_at": header.created_at,
        "header": header_text(header),
    }


def stored_of(row: tuple[Any, ...], store: str) -> StoredRun:
    """Build a stored run from a row selected by RUN."""
    header, status, updated_at, steps, recoveries, outcome, owned, *_ = row
    return StoredRun(
        header=header_of(header, store),
        status=status,
        updated_at=updated_at,
        steps=steps,
        recoveries=recoveries,
        owned=owned,
        outcome=None if outcome is None else unpack_outcome(json.loads(outcome)),
    )


def step_of(row: tuple[Any, ...]) -> StepRow:
    """Build a step from a row selected by STEPS."""
    key, kind, request, attempts, failures, seq, at, body = row
    return StepRow(
        key=key, kind=kind, request=request, attempts=attempts, failures=tuple(failures), seq=seq, at=at, body=body
    )


def step_values(run_id: str, row: StepRow) -> tuple[Any, ...]:
    """Return the parameter values for the ADD_STEP statement."""
    failures = list(row.failures)
    return (run_id, row.key, row.kind, row.request, row.attempts, failures, row.seq, row.at, row.body)


def delete_deliveries(session: Session, schema: str, run_id: str) -> None:
    """Delete a run from the workers' queue, whose tables are in `{schema}_queue`."""
    from psycopg import sql

    queue = f"{schema}_queue"
    exists = session.execute("SELECT to_regclass(format('%%I.workflow_input', %s::text))", (queue,)).fetchone()
    if exists is None or exists[0] is None:
        return
    tables = {name: sql.Identifier(queue, name) for name in (*_OF_DELIVERIES, "workflow_status")}
    ids = sql.SQL("SELECT workflow_uuid FROM {} WHERE attributes @> jsonb_build_object('run', {}::text)").format(
        tables["workflow_status"], run_id
    )
    for table in tables.values():  # the table that the others refer to comes last
        session.execute(sql.SQL("DELETE FROM {} WHERE workflow_uuid IN ({})").format(table, ids))


_OF_DELIVERIES = ("workflow_input", "workflow_output", "operation_outputs")
"""DBOS tables to delete rows from in addition to the workflow table. Calling `DBOSClient.delete_workflows` instead
would mean importing DBOS, and that takes two seconds.
"""


def was_committed(session: Session, transaction: int) -> bool:
    """Return whether an interrupted transaction was committed; raise a transient error if it is still in progress."""
    from psycopg.errors import SerializationFailure

    row = session.execute("SELECT txid_status(%s)", (transaction,)).fetchone()
    if row is not None and row[0] == "in progress":
        raise SerializationFailure(f"transaction {transaction}, whose session was lost, has not ended yet")
    return row is not None and row[0] == "committed"
