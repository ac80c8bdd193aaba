"""Statements of a SQLite store that several of its operations have in common, or that are long."""

from __future__ import annotations

__all__ = (
    "AGAIN",
    "BEGIN",
    "COMMIT",
    "CREATE",
    "FAIL",
    "FINISH",
    "KNOWN",
    "LATEST_OF",
    "RELEASE",
    "RUN",
    "STEPS",
    "TAKE",
)

_FINISHED = "(SELECT count(*) FROM steps WHERE steps.run_id = runs.run_id AND body IS NOT NULL)"
_LATEST = "(SELECT coalesce(max(seq), 0) FROM steps WHERE steps.run_id = runs.run_id)"
# What is true of a run while it goes on is read from its steps, so that a step writes nothing else.
RUN = (
    f"SELECT header, status, CASE WHEN owner IS NULL THEN updated_at ELSE max(updated_at, {_LATEST} / 1e9) END,"  # noqa: S608 - no value in any of them
    f" CASE WHEN owner IS NULL THEN steps ELSE {_FINISHED} END, recoveries, owner, outcome FROM runs"
)
LATEST_OF = f"SELECT {_LATEST} FROM runs WHERE run_id = ?"  # noqa: S608
RELEASE = (
    f"UPDATE runs SET owner = NULL, steps = {_FINISHED}, updated_at = max(updated_at, {_LATEST} / 1e9)"  # noqa: S608
    " WHERE run_id = ? AND owner = ?"
)
FINISH = (
    f"UPDATE runs SET status = ?, outcome = ?, owner = NULL, updated_at = ?, steps = {_FINISHED}"  # noqa: S608
    " WHERE run_id = ? AND owner = ?"
)
CREATE = (
    "INSERT INTO runs (run_id, block, question, status, created_at, updated_at, owner, header)"
    " VALUES (?, ?, ?, 'running', ?, ?, ?, ?)"
)
TAKE = "UPDATE runs SET owner = ?, status = 'running', recoveries = ?, updated_at = ? WHERE run_id = ?"

_OWNED = "EXISTS (SELECT 1 FROM runs WHERE run_id = :run AND owner = :owner)"
STEPS = "SELECT key, kind, request, attempts, failures, seq, at, body FROM steps WHERE run_id = ?"
KNOWN = "SELECT key, kind, request, attempts, body IS NOT NULL FROM steps WHERE run_id = ?"
BEGIN = (
    "INSERT INTO steps (run_id, key, kind, request, attempts) VALUES (:run, :key, :kind, :request, :attempts)"
    " ON CONFLICT DO UPDATE SET kind = excluded.kind, request = excluded.request, attempts = excluded.attempts"
    " WHERE body IS NULL AND attempts < excluded.attempts"
)
"""An attempt at an open step."""
AGAIN = (
    "UPDATE steps SET attempts = attempts + 1, kind = :kind, request = :request WHERE run_id = :run AND key = :key"
    " RETURNING attempts"
)
"""An attempt at a finished one."""
COMMIT = (
    "INSERT INTO steps (run_id, key, kind, request, attempts, seq, at, body)"
    f" SELECT :run, :key, :kind, :request, :attempts, :seq, :at, :body WHERE {_OWNED}"
    " ON CONFLICT DO UPDATE SET kind = excluded.kind, request = excluded.request, attempts = excluded.attempts,"
    " seq = excluded.seq, at = excluded.at, body = excluded.body WHERE body IS NULL"
)
FAIL = (
    "UPDATE steps SET failures = json_insert(failures, '$[#]', :failure)"  # noqa: S608
    f" WHERE run_id = :run AND key = :key AND {_OWNED}"
)
