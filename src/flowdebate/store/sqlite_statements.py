"""Statements of a SQLite store that several of its operations have in common, or that are long."""

from __future__ import annotations

__all__ = ("FINISH", "LATEST_OF", "OWNED", "RELEASE", "RUN")

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
OWNED = "EXISTS (SELECT 1 FROM runs WHERE run_id = :run AND owner = :owner)"
