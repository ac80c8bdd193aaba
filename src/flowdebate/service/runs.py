"""Runs of plans: started, resumed, replayed, and found in a store."""

from __future__ import annotations

import asyncio
import os
import shlex
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, get_args

from flowdebate.errors import ConfigurationError, FlowDebateError, RunNotFound, StoreError
from flowdebate.runs.batch.batch import BATCH_LABEL
from flowdebate.service.documents import Tokens
from flowdebate.service.options import COMMAND, State, is_text, misuse
from flowdebate.service.plan import plan_of, stored_plan
from flowdebate.service.policies import with_models
from flowdebate.store.base import StoredStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from flowdebate.models.base import ModelRequest
    from flowdebate.runs.durable.journal import OnUncertain
    from flowdebate.runs.result import RunHandle
    from flowdebate.service.documents import Document
    from flowdebate.service.plan import Plan
    from flowdebate.store.base import StepRow, Store, StoredRun

__all__ = (
    "WORDS",
    "Ended",
    "Place",
    "State",
    "ago",
    "document_of_handle",
    "ended",
    "find_run",
    "last_resumable",
    "last_run",
    "list_runs",
    "opened",
    "replayed",
    "resume",
    "short_id",
    "start",
    "state_of",
)


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A run that ended."""

    document: Document
    failure: FlowDebateError | None = None
    limit: str | None = None
    """The field of `Limits` that was reached."""


async def start(plan: Plan, store: Store | None) -> RunHandle[Any]:
    """Start a run of `plan` and wait until it is stored; StoreError if `store` fails."""
    from flowdebate.runs.durable.resume import StoreOptions

    handle = plan.pattern().start(
        plan.subject,
        model=plan.models,
        seed=plan.seed,
        limits=plan.limits,
        store=False if store is None else StoreOptions(store=store, plan=stored_plan(plan)),
    )
    try:
        await handle.started()
    except StoreError:
        with suppress(FlowDebateError):
            await handle
        raise
    return handle


async def resume(
    plan: Plan,
    store: Store,
    run_id: str,
    *,
    on_uncertain: OnUncertain = "retry",
    allow_changes: bool = False,
    retry_dead_letter: bool = False,
) -> RunHandle[Any]:
    """Resume the run `run_id` of `plan`; with the errors of `Block.resume`."""
    return await plan.pattern().start_resume(
        run_id,
        store=store,
        model=plan.models,
        limits=plan.limits,
        on_uncertain=on_uncertain,
        allow_changes=allow_changes,
        retry_dead_letter=retry_dead_letter,
    )


async def ended(plan: Plan, handle: RunHandle[Any], *, stored: bool) -> Ended:
    """Await the end of a run; CancelledError only if the caller was cancelled."""
    failure: FlowDebateError | None = None
    output: Any = None
    try:
        output = (await handle).output
    except FlowDebateError as error:
        failure = error
    except asyncio.CancelledError:
        if not handle.done():
            raise
    document = document_of_handle(plan, handle, failure, output, stored=stored)
    return Ended(document=document, failure=failure, limit=handle.limit)


def document_of_handle(
    plan: Plan, handle: RunHandle[Any], failure: FlowDebateError | None, output: object, *, stored: bool
) -> Document:
    """The document of a run that ended."""
    from flowdebate.runs.events import RunFinished

    end = next((event for event in reversed(handle.events) if isinstance(event, RunFinished)), None)
    reached = end.error if end is not None and handle.status == "limit" else None
    return plan.document(
        handle.raw,
        output,
        status="interrupted" if handle.status == "running" else handle.status,
        error=reached if failure is None else str(failure),
        usage=Tokens.of(handle.usage),
        cost=handle.cost,
        seconds=None if end is None else round(end.seconds, 3),
        seed=handle.seed,
        run_id=handle.run_id if stored else None,
    )


async def replayed(run: StoredRun, steps: Sequence[StepRow]) -> Document:
    """The document of a stored run as far as it came; calls no model and changes nothing."""
    from flowdebate.store.memory import MemoryStore

    silent = _Silent()
    plan = with_models(plan_of(run, {}, to_ask=False), lambda _: silent)
    store = MemoryStore()
    await store.add(run, steps)
    handle = await resume(plan, store, run.header.run_id, allow_changes=True, retry_dead_letter=True)
    silent.stop = handle.cancel
    end = await ended(plan, handle, stored=True)
    return end.document.model_copy(update={"seconds": None})


class _Silent:
    """Model that cancels the run at its first call."""

    name = "nobody"
    tells_attempts = True

    def __init__(self) -> None:
        self.stop: Callable[[], object] = bool

    async def request(self, _: ModelRequest, /) -> NoReturn:
        self.stop()
        await asyncio.Event().wait()
        raise AssertionError


# Store


@dataclass(frozen=True, kw_only=True)
class Place:
    """An open store."""

    store: Store
    named: bool
    """Whether the user named the store."""
    option: str = ""
    """Option for other commands: "", or " --store WHERE"."""


@contextmanager
def opened(where: str | None) -> Iterator[Place]:
    """Open the store `where` (a file, an address); None: FLOWDEBATE_STORE, or the user's data directory.

    ConfigurationError for an invalid address. Nothing is read or created yet.
    """
    from flowdebate.store.open import STORE_VARIABLE, close_store, default_store_path, open_store

    if where is not None and not is_text(where):
        raise ConfigurationError(COMMAND, "--store", where, "the path of a file, or postgresql://…")
    named = where or os.environ.get(STORE_VARIABLE) or None
    store = open_store(named or default_store_path(), where=COMMAND)
    assert store is not None  # noqa: S101 - only False means none
    try:
        yield Place(store=store, named=named is not None, option=_option(where, store))
    finally:
        asyncio.run(close_store(store))


def _option(where: str | None, store: Store) -> str:
    if where is None:
        return ""
    is_address = where.startswith(("postgresql:", "postgres:"))
    return f" --store {shlex.quote(store.name if is_address else where)}"


# Stored runs


WORDS: Mapping[str, str] = {
    "queued": "queued",
    "running": "running",
    "left_behind": "left behind",
    "complete": "complete",
    "degraded": "complete, with something missing",
    "no_verdict": "no verdict",
    "interrupted": "interrupted",
    "limit": "limit reached",
    "failed": "failed",
    "awaiting": "awaits an answer",
    "dead_letter": "given up",
}
"""Statuses in words."""
_SHORT, _GENERATED = 8, 32
_SHORTEST = 4
"""Minimum number of characters that name a run."""
_NAMED = 5
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_MONTH = 30 * _DAY


def state_of(run: StoredRun) -> str:
    """The status of `run`; a running one that no process owns was left behind."""
    return "left_behind" if run.status == "running" and not run.owned else run.status


def _is_resumable(run: StoredRun) -> bool:
    """Whether this command can resume `run`."""
    return run.header.plan is not None and state_of(run) in ("left_behind", "interrupted", "limit", "failed")


async def find_run(store: Store, name: str) -> StoredRun:
    """The run with this id, or the one whose id begins so; ConfigurationError where those are several."""
    if not is_text(name):
        raise ConfigurationError(COMMAND, "RUN", name, "the id of a run")
    try:
        return await store.run(name)
    except RunNotFound:
        if len(name) < _SHORTEST:
            sentence = f"There is no run {name!r}. Type at least {_SHORTEST} characters that its id begins with."
            raise misuse("RUN", name, sentence) from None
        runs = [run for run in await store.runs() if run.header.run_id.startswith(name)]
        if not runs:
            raise
    if len(runs) > 1:
        ids = ", ".join(run.header.run_id for run in runs[:_NAMED]) + (", …" if len(runs) > _NAMED else "")
        raise misuse("RUN", name, f"{len(runs)} runs begin with {name!r}: {ids}. Type more characters of the id.")
    return runs[0]


async def last_resumable(store: Store) -> StoredRun:
    """The newest run that can be resumed; ConfigurationError if there is none."""
    for run in await store.runs():
        if _is_resumable(run):
            return run
    raise misuse("--last", True, f"No interrupted run to resume in {store.name}.")  # noqa: FBT003 - what was given


async def last_run(store: Store) -> StoredRun:
    """The newest run; ConfigurationError if there is none."""
    for run in await store.runs(limit=1):
        return run
    raise misuse("--last", True, f"There is no run in {store.name}.")  # noqa: FBT003 - what was given


async def list_runs(
    store: Store,
    *,
    state: str | None = None,
    block: str | None = None,
    search: str | None = None,
    batch: str | None = None,
    limit: int | None = None,
) -> Sequence[StoredRun]:
    """The runs that match all filters, the newest first."""
    labels = None if batch is None else {BATCH_LABEL: batch}
    if state not in ("running", "left_behind"):
        status = next((each for each in get_args(StoredStatus) if each == state), None)
        return await store.runs(status=status, block=block, text=search, labels=labels, limit=limit)
    runs = await store.runs(status="running", block=block, text=search, labels=labels)
    return [run for run in runs if state_of(run) == state][:limit]


def short_id(run_id: str) -> str:
    """The first characters of a generated run id; any other id as it is.

    >>> short_id("0123456789abcdef0123456789abcdef"), short_id("rents-2")
    ('01234567', 'rents-2')
    """
    generated = len(run_id) == _GENERATED and set(run_id) <= set("0123456789abcdef")
    return run_id[:_SHORT] if generated else run_id


def ago(seconds: float) -> str | None:
    """A duration in words; None if a date says more.

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
