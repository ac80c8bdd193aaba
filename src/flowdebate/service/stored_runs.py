"""Stored runs: found by id, listed, and where they stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from flowdebate.errors import ConfigurationError, RunNotFound
from flowdebate.service.options import COMMAND, is_text
from flowdebate.store.base import StoredStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.store.base import Store, StoredRun

__all__ = ("STATES", "WORDS", "ago", "find_run", "is_resumable", "last_resumable", "list_runs", "state_of")

WORDS = {
    "queued": "queued",
    "running": "running",
    "left_behind": "left behind",
    "complete": "complete",
    "degraded": "complete, with losses",
    "no_verdict": "no verdict",
    "interrupted": "interrupted",
    "limit": "limit reached",
    "failed": "failed",
    "awaiting": "awaits an answer",
    "dead_letter": "given up",
}
"""Where runs stand."""
STATES = tuple(WORDS)
_SHORTEST = 4
"""Characters of an id by which a run may be named."""
_NAMED = 5
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_MONTH = 30 * _DAY


def state_of(run: StoredRun) -> str:
    """Where `run` stands: one that is under way and that nobody carries out was left behind."""
    return "left_behind" if run.status == "running" and not run.owned else run.status


def is_resumable(run: StoredRun) -> bool:
    """Whether there is more to come, and this command can see to it."""
    return run.header.plan is not None and state_of(run) in ("left_behind", "interrupted", "limit", "failed")


async def find_run(store: Store, name: str) -> StoredRun:
    """The run with this id, or the one whose id begins so; ConfigurationError where those are several."""
    if not is_text(name):
        raise ConfigurationError(COMMAND, "RUN", name, "the id of a run")
    try:
        return await store.run(name)
    except RunNotFound:
        if len(name) < _SHORTEST:
            allowed = f"the id of a run, or at least {_SHORTEST} characters that it begins with"
            raise ConfigurationError(COMMAND, "RUN", name, allowed) from None
        runs = [run for run in await store.runs() if run.header.run_id.startswith(name)]
        if not runs:
            raise
    if len(runs) > 1:
        ids = ", ".join(run.header.run_id for run in runs[:_NAMED]) + (", …" if len(runs) > _NAMED else "")
        raise ConfigurationError(COMMAND, "RUN", name, f"what one id begins with; {len(runs)} do: {ids}")
    return runs[0]


async def last_resumable(store: Store) -> StoredRun:
    """The run that was begun last of those that go on."""
    for run in await store.runs():
        if is_resumable(run):
            return run
    raise ConfigurationError(COMMAND, "--last", True, f"left out: no run in {store.name} waits to be carried on")  # noqa: FBT003


async def list_runs(
    store: Store,
    *,
    state: str | None = None,
    block: str | None = None,
    search: str | None = None,
    limit: int | None = None,
) -> Sequence[StoredRun]:
    """Those runs that are all that is asked for, the newest first."""
    if state not in ("running", "left_behind"):
        status = next((each for each in get_args(StoredStatus) if each == state), None)
        return await store.runs(status=status, block=block, text=search, limit=limit)
    runs = await store.runs(status="running", block=block, text=search)
    return [run for run in runs if state_of(run) == state][:limit]


def ago(seconds: float) -> str | None:
    """How long ago something was, in words; None for what has a date rather.

    >>> ago(3), ago(150), ago(7300), ago(200_000), ago(1e8)
    ('just now', '2 min ago', '2 h ago', '2 days ago', None)
    """
    if seconds < _MINUTE:
        return "just now"
    if seconds < _HOUR:
        return f"{seconds // _MINUTE:.0f} min ago"
    if seconds < _DAY:
        return f"{seconds // _HOUR:.0f} h ago"
    if seconds < _MONTH:
        days = int(seconds // _DAY)
        return "1 day ago" if days == 1 else f"{days} days ago"
    return None
