"""Functions for finding and listing stored runs, and for reading them as documents."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Self, get_args

from flowdebate._util.option_types import is_text
from flowdebate.blocks.human.answers import open_requests_in
from flowdebate.errors import BadFile, ConfigurationError, FlowDebateError, RunConflict, RunNotFound
from flowdebate.evaluation.readers import end_shares
from flowdebate.prompts import Profile
from flowdebate.runs.durable.replay import OnRequest, Replay
from flowdebate.runs.header import result_of
from flowdebate.runs.limits import OWNER
from flowdebate.runs.result import RunView
from flowdebate.runs.suspend import HumanRequest
from flowdebate.store.archive import StoredArchive, stored_archive
from flowdebate.store.base import StepRow, Store, StoredRun, StoredStatus, documents_of, list_order
from flowdebate.store.export import GONE
from flowdebate.ui.document import Document, Tokens, document_of, read_models, read_remarks
from flowdebate.ui.options import COMMAND, misuse
from flowdebate.ui.page import document_of_plan
from flowdebate.ui.plan import Plan, pattern_of_run, plan_of
from flowdebate.ui.statuses import RESUMABLE
from flowdebate.ui.steps import Fork


def archive_of(store: Store, labels: Mapping[str, str]) -> StoredArchive:
    """Return the archive for runs with these labels: the owner's or, if there is no owner, the shared one."""
    if OWNER not in labels:
        return stored_archive(store)
    # Names in a store must be short and printable, but user names may be neither.
    digest = sha256(labels[OWNER].encode(errors="surrogatepass")).hexdigest()
    return stored_archive(store, name=f"{OWNER} {digest}")


@dataclass(frozen=True, slots=True)
class UnfinishedRun:
    """State of a run without an outcome, either in progress in this process or replayed."""

    view: RunView
    output: object = None

    @classmethod
    def of(cls, replay: Replay) -> Self:
        """Create the state from a replay up to the end of the run's journal."""
        return cls(replay.handle, result_of(None, replay.output)["output"])


async def document_of_run(run: StoredRun, steps: Sequence[StepRow], *, so_far: UnfinishedRun | None = None) -> Document:
    """Build the current document of a stored run, without calling a model or changing anything.

    If the run has a plan but no outcome, it is replayed unless `so_far` is passed. `steps` are needed only for replays
    and forks. Raises BadFile if there is nothing to show.
    """
    if not outcome_of(run) and so_far is None and pattern_of_run(run) is not None:
        so_far = UnfinishedRun.of(await replayed(plan_of(run, {}, to_ask=False), run, steps))
    return read_document(run, steps, so_far=so_far)


def read_document(run: StoredRun, steps: Sequence[StepRow], *, so_far: UnfinishedRun | None) -> Document:
    """Read a stored run's document from its outcome or, if it has none, from `so_far`.

    Raises BadFile if there is nothing to show.
    """
    outcome = outcome_of(run) or {}
    plan = None if pattern_of_run(run) is None else plan_of(run, {}, to_ask=False)
    raw = outcome.get("raw")
    facts = _facts(run, steps, so_far)
    if not outcome and so_far is not None:
        reached = so_far.view.raw_so_far
        if plan is not None:
            return document_of_plan(plan, reached, so_far.output, **facts)
        raw = None if reached is None else reached.to_wire()
    if plan is not None and raw is None:  # the run failed before it started
        return document_of_plan(plan, None, None, **facts)
    if not isinstance(raw, dict):
        why = f": {outcome['error']}" if outcome.get("error") else ""
        raise BadFile(f"run {run.header.run_id}", f"has no output to show{why}")
    bare = document_of(raw, location=f"run {run.header.run_id}")
    if plan is None:
        if "registered" in (run.header.plan or {}) and "output" in type(bare).model_fields:
            output = outcome.get("output")
            facts["output"] = None if output == raw else output
        return bare.model_copy(update=facts)
    return document_of_plan(plan, bare.raw, outcome.get("output"), **facts)


def requests_in(run: StoredRun, steps: Sequence[StepRow], *, store: str) -> list[HumanRequest]:
    """Return a run's pending requests for human input; if the run has a plan, the plan's sources are included."""
    requests = open_requests_in(steps, run.header.run_id, store=store)
    if requests and pattern_of_run(run) is not None:
        with suppress(FlowDebateError):  # an unreadable plan is reported elsewhere
            sources = plan_of(run, {}, to_ask=False).sources
            return [replace(request, sources=tuple(s for s in sources if s.left_out is None)) for request in requests]
    return requests


def outcome_of(run: StoredRun) -> Mapping[str, Any] | None:
    """Return the run's outcome; return None while it is in progress, even if an earlier outcome is stored."""
    return None if run.status in ("running", "queued") else run.outcome


def _facts(run: StoredRun, steps: Sequence[StepRow], so_far: UnfinishedRun | None) -> dict[str, Any]:
    """Collect the document fields common to all patterns."""
    outcome = outcome_of(run) or {}
    tokens, summary = Tokens.read(outcome.get("usage")), outcome.get("summary")
    cost, prices = map(summary.get, ("cost", "prices")) if isinstance(summary, dict) else (None, None)
    status = run.status if outcome else "running" if run.owned else "interrupted"
    return {
        "status": status,
        "error": outcome.get("error") if run.status in ("failed", "limit") else None,
        "models": read_models(outcome.get("models") if so_far is None else so_far.view.models),
        "remarks": read_remarks(outcome.get("remarks") if so_far is None else so_far.view.remarks),
        "usage": Tokens.of(so_far.view.usage) if tokens is None and so_far is not None else tokens,
        "cost": cost if isinstance(cost, (int, float)) else None,
        "prices": prices if isinstance(prices, str) else None,
        "seconds": outcome.get("seconds"),
        "seed": run.header.seed,
        "run_id": run.header.run_id,
        "fork": Fork.of(run, steps),
    }


async def replayed(
    plan: Plan,
    run: StoredRun,
    steps: Sequence[StepRow],
    *,
    profile: Profile = "full",
    on_request: OnRequest | None = None,
) -> Replay:
    """Replay a stored run to the end of its journal, building its block from `plan`.

    No model is called, and no data is changed. If the run's model was a model object, `profile` is its prompt profile.
    """
    from flowdebate.runs.durable.replay import replay

    return await replay(
        plan.pattern(), run, steps, model=plan.models, limits=plan.limits, profile=profile, on_request=on_request
    )


# Store


@dataclass(frozen=True, kw_only=True)
class OpenStore:
    """An open store."""

    store: Store
    is_explicit: bool
    """True if the user specified the store explicitly."""
    option: str = ""
    """Option that makes other commands use this store: "" or " --store WHERE"."""


@contextmanager
def opened(location: str | None, *, new: bool = False) -> Iterator[OpenStore]:
    """Open the store at `location`, a file or a URL; None means FLOWDEBATE_STORE, or the user's data directory.

    Raises ConfigurationError for an invalid location, and for a missing file unless `new` is set. Nothing is read or
    created until the store is used.
    """
    from flowdebate.store.address import parse_address
    from flowdebate.store.open import STORE_VARIABLE, close_store, default_store_path, open_store
    from flowdebate.store.sqlite.store import SqliteStore

    if location is not None and not is_text(location):
        raise ConfigurationError(COMMAND, "--store", location, "must be a file path or a postgresql:// URL")
    if location is not None:
        parse_address(location, location=COMMAND, field="--store")
    store_location = location or os.environ.get(STORE_VARIABLE) or None
    store = open_store(location or (None if store_location else default_store_path()), location=COMMAND)
    assert store is not None  # noqa: S101 - only False means none
    option = ""
    if location is not None:  # `store.name` omits the password from a URL
        is_file = isinstance(store, SqliteStore)
        option = f" --store {shlex.quote(location if is_file else store.name)}"
        if is_file and not (new or Path(store.name).exists()):
            raise ConfigurationError(COMMAND, "--store", location, "does not exist")
    try:
        yield OpenStore(store=store, is_explicit=store_location is not None, option=option)
    finally:
        asyncio.run(close_store(store))


# Stored runs


_SHORT, _GENERATED = 8, 32
_MIN_PREFIX_LENGTH = 4
"""Minimum length of a run id prefix, in characters."""
_NAMED = 5
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_MONTH = 30 * _DAY
_PAGE = 50
"""Number of runs to read at once."""
_FIRST, _LAST = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)
"""Earliest and latest times that are valid in every time zone."""


def state_of(run: StoredRun) -> str:
    """Return the status of `run`; a run in progress counts as abandoned if its process is gone."""
    return "left_behind" if run.status == "running" and not run.owned else run.status


async def find_run(store: Store, name: str) -> StoredRun:
    """Find the run with this id or unique id prefix; raise ConfigurationError if the prefix is ambiguous."""
    if not is_text(name):
        raise ConfigurationError(COMMAND, "RUN", name, "must be the ID of a run")
    try:
        return await store.run(name)
    except RunNotFound:
        if len(name) < _MIN_PREFIX_LENGTH:
            sentence = f"There is no run {name}. Type at least the first {_MIN_PREFIX_LENGTH} characters of its ID."
            raise misuse("RUN", name, sentence) from None
        runs = await store.runs(prefix=name, limit=_NAMED + 1, brief=True)
        if not runs:
            raise
    if len(runs) > 1:
        count = f"{len(runs)}" if len(runs) <= _NAMED else f"More than {_NAMED}"
        ids = ", ".join(run.header.run_id for run in runs[:_NAMED]) + (", …" if len(runs) > _NAMED else "")
        raise misuse("RUN", name, f"{count} run IDs begin with {name}: {ids}. Type more characters of the ID.")
    return await store.run(runs[0].header.run_id)


async def chosen_run(store: Store, name: str | None, *, last: bool, verb: str) -> StoredRun:
    """Return the run with this id or id prefix or, if `last` is True, the newest run.

    Raises ConfigurationError if both a name and `last` are passed, or neither.
    """
    if last == (name is not None):
        which = (
            "A run ID cannot be combined with --last." if last else f"Say which run: flowdebate {verb} RUN, or --last."
        )
        raise misuse("RUN", name, f"{which} To list stored runs: flowdebate runs")
    if name is not None:
        return await find_run(store, name)
    for run in await store.runs(limit=1):
        return run
    raise misuse("--last", True, f"There is no run in {store.name}.")  # noqa: FBT003 - what was given


async def last_resumable(store: Store) -> StoredRun:
    """Return the newest resumable run; raise ConfigurationError if there is none."""
    newest: list[StoredRun] = []
    for state in RESUMABLE:
        async for run in each_run(store, state=state, brief=True):
            if run.header.plan is not None:  # a run without a plan can be resumed only by the program that started it
                newest.append(run)
                break
    if newest:
        return await store.run(min(newest, key=lambda run: list_order(run.position)).header.run_id)
    raise misuse("--last", True, f"There is no interrupted run to resume in {store.name}.")  # noqa: FBT003 - what was given


async def list_runs(
    store: Store,
    *,
    state: str | None = None,
    block: str | None = None,
    search: str | None = None,
    labels: Mapping[str, str] | None = None,
    limit: int | None = None,
    before: tuple[float, str] | None = None,
    brief: bool = False,
) -> Sequence[StoredRun]:
    """List at most `limit` runs that match all filters, newest first, starting after the position `before`."""
    runs = each_run(
        store, state=state, block=block, search=search, labels=labels, limit=limit, before=before, brief=brief
    )
    return [run async for run in runs]


async def each_run(
    store: Store,
    *,
    state: str | None = None,
    block: str | None = None,
    search: str | None = None,
    labels: Mapping[str, str] | None = None,
    limit: int | None = None,
    before: tuple[float, str] | None = None,
    brief: bool = False,
) -> AsyncIterator[StoredRun]:
    """Yield the runs listed by `list_runs`, reading pages from the store as needed."""
    status = next((arg for arg in get_args(StoredStatus) if arg == state), None)
    if state == "left_behind":  # no store uses this status, which denotes a run in progress whose owner is gone
        status = "running"
    remaining = sys.maxsize if limit is None else limit
    while remaining > 0:
        page = await store.runs(
            status=status, block=block, text=search, labels=labels, limit=_PAGE, before=before, brief=brief
        )
        for run in page:
            if state in (None, state_of(run)):
                yield run
                remaining -= 1
                if not remaining:
                    return
        if len(page) < _PAGE:
            return
        before = page[-1].position


async def delete_run(store: Store, run_id: str) -> None:
    """Delete a run and everything that belongs to it, including its entry in the owner's archive.

    Raises RunNotFound if the run does not exist, and RunConflict if a live process is executing the run.
    """
    header = (await store.run(run_id)).header
    await store.delete(run_id)
    options = (header.plan or {}).get("options")
    if isinstance(options, dict) and options.get("archive") and not header.foreign:
        await archive_of(store, header.labels).forget(f"{run_id}:{header.block}")
    await end_shares(store, run_id)
    # Stores cannot delete documents, so overwrite them unless somebody has replaced them in the meantime.
    for key, body in (await store.documents(documents_of(run_id))).items():
        await store.put(documents_of(run_id), key, GONE, expected=body)


async def delete_old_runs(store: Store, before: float) -> int:
    """Delete runs that are not in progress and have not changed since `before`; return the number deleted."""
    number = 0
    # A run cannot have changed before it was created, so this finds every old run.
    async for run in each_run(store, before=(before, ""), brief=True):
        if not run.owned and run.updated_at < before:
            with suppress(RunNotFound, RunConflict):  # another process has deleted or resumed the run
                await delete_run(store, run.header.run_id)
                number += 1
    return number


def short_id(run_id: str) -> str:
    """Shorten a generated run id to its first characters; return any other id unchanged.

    >>> short_id("0123456789abcdef0123456789abcdef"), short_id("rents-2")
    ('01234567', 'rents-2')
    """
    generated = len(run_id) == _GENERATED and set(run_id) <= set("0123456789abcdef")
    return run_id[:_SHORT] if generated else run_id


def ago(seconds: float) -> str | None:
    """Describe how long ago something happened; return None if the date would be more informative.

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


def to_datetime(seconds: float) -> datetime:
    """Convert seconds since the epoch to a datetime; times out of range become the first or last valid datetime.

    >>> to_datetime(0).isoformat(), to_datetime(1e18).year, to_datetime(-1e18).year
    ('1970-01-01T00:00:00+00:00', 9999, 1)
    """
    return datetime.fromtimestamp(min(max(seconds, _FIRST.timestamp()), _LAST.timestamp()), UTC)
