"""Functions for loading a stored run in order to resume or fork it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from flowdebate._util.cancellation import wait_uncancelled
from flowdebate.errors import ConfigurationError, DeadLetter, RunConflict
from flowdebate.models.resolve import ModelChoice, ModelResolver, choose_model
from flowdebate.runs.durable.fork import fork_header, journal_of
from flowdebate.runs.durable.replay import check_edits
from flowdebate.runs.header import (
    StoreOptions,
    changes_of,
    check_labels,
    check_unchanged,
    fingerprint_of,
    limit_numbers,
    limits_of,
    models_of,
    name_models,
    session_of,
)
from flowdebate.runs.journal import Journal, has_unanswered
from flowdebate.runs.limits import Limits
from flowdebate.runs.observer import Observer, observing
from flowdebate.runs.run import Run
from flowdebate.runs.session import SessionLike, as_session
from flowdebate.store.base import COMPLETE, RunHeader, Store, StoredRun
from flowdebate.store.open import StoreChoice, open_store

if TYPE_CHECKING:
    from flowdebate.models.base import Model
    from flowdebate.runs.execute import ResumeOptions, Runnable, SessionOptions
    from flowdebate.runs.journal import OnUncertain


MAX_RECOVERIES = 25
"""Number of consecutive crashes without progress after which a run is abandoned."""


async def load_run(
    run_id: str,
    *,
    block: str,
    outline: object,
    store: StoreChoice = None,
    on_uncertain: OnUncertain = "retry",
    allow_changes: bool = False,
    retry_dead_letter: bool = False,
    asks_again: bool = True,
    **common: Unpack[SessionOptions],
) -> tuple[Run, Any]:
    """Load a stored run and its input, and take ownership of the run.

    This process takes ownership of a complete run only when another step has to be executed. If `asks_again` is set and
    a complete run lacks an answer from its judge, chair or synthesizer, that role is called again; an interrupted run
    must first be continued to its end. Raises RunNotFound, RunConflict, RunChanged, DeadLetter or ConfigurationError.
    After DeadLetter, the stored run has the status "dead_letter"; after any other error, its status and steps are
    unchanged.
    """
    location = f"{block}.resume()"
    model = choose_model(common.get("model"), common.get("override_model"))
    opened = open_store(store, location=location)
    if opened is None:
        raise ConfigurationError(location, "store", store, "must be the run's store")
    if on_uncertain not in ("retry", "raise"):
        raise ConfigurationError(location, "on_uncertain", on_uncertain, choices=("retry", "raise"))
    stored = await opened.run(run_id)
    # Anyone may read a complete run; `take` rejects a run that still has an owner.
    unanswered = asks_again and stored.status in COMPLETE and has_unanswered(await opened.steps(run_id))
    owned = stored.owned or stored.status not in COMPLETE or unanswered
    if owned:
        stored = await _take(opened, run_id)
    try:
        header = stored.header
        if not allow_changes:
            now = fingerprint_of(block, outline, model)
            if model is None and header.model is not None:  # resume with the models the run started with
                now["model"] = header.fingerprint.get("model", "")
            then = header.fingerprint
            check_unchanged(opened, run_id, {name: (then.get(name, ""), text) for name, text in now.items()})
        if not retry_dead_letter:
            _check_alive(opened, stored)
        journal = await journal_of(
            opened,
            header,
            rows=await opened.steps(run_id),
            owned=owned,
            on_uncertain=on_uncertain,
            # A complete run makes no further calls, so its answers are valid even if the prompts have changed.
            accepts_changes=allow_changes or stored.status in COMPLETE,
        )
        journal.reopens = unanswered
        spent = (stored.outcome or {}).get("seconds")
        journal.spent = spent if isinstance(spent, (int, float)) else 0.0
        run = _restore_run(
            journal,
            location,
            session=common.get("session"),
            model=model,
            limits=common.get("limits"),
            observe=common.get("observe"),
        )
    except BaseException as error:
        if owned:  # released unchanged, so that a failed attempt does not block the next one
            status = "dead_letter" if isinstance(error, DeadLetter) else stored.status
            await opened.finish(run_id, status, stored.outcome)
        raise
    return run, header.input


async def load_fork(  # noqa: PLR0913 - the options of fork
    run_id: str,
    *,
    block: Runnable[Any],
    store: StoreChoice | StoreOptions = None,
    model: ModelChoice = None,
    override_model: Model | str | None = None,
    limits: Limits | None = None,
    session: SessionLike = None,
    observe: Observer | None = None,
    seed: int | None = None,
    fork_id: str | None = None,
    edits: Mapping[str, Any] | None = None,
    at: str | None = None,
) -> tuple[Run, Any]:
    """Create an unstarted fork of the stored run, and return it with its input.

    Raises the same errors as `prepare_fork`.
    """
    location = f"{block.name}.fork()"
    model = choose_model(model, override_model)
    stored = store if isinstance(store, StoreOptions) else StoreOptions(store=store)
    opened = open_store(stored.store, location=location)
    if opened is None:
        raise ConfigurationError(location, "store", store, "must be the run's store")
    header = await prepare_fork(
        opened,
        run_id,
        block=block,
        fork_id=fork_id,
        edits=edits,
        at=at,
        seed=seed,
        model=model,
        limits=limits,
        labels=stored.labels,
        plan=stored.plan,
    )
    journal = await journal_of(opened, header)
    return _restore_run(journal, location, session=session, model=model, limits=limits, observe=observe), header.input


def _restore_run(
    journal: Journal,
    location: str,
    *,
    session: SessionLike = None,
    model: ModelChoice = None,
    limits: Limits | None = None,
    observe: Observer | None = None,
) -> Run:
    """Restore a run from a stored header; arguments take precedence over the header."""
    store, header = journal.store, journal.header
    return Run(
        run_id=header.run_id,
        session=session_of(store, header, location) if session is None else as_session(session),
        seed=header.seed,
        models=models_of(store, header) if model is None else ModelResolver(model),
        limits=limits_of(store, header) if limits is None else limits,
        journal=journal,
        observe=observing(observe),
    )


async def prepare_fork(  # noqa: PLR0913 - the options of fork
    store: Store,
    run_id: str,
    *,
    block: Runnable[Any],
    fork_id: str | None = None,
    edits: Mapping[str, Any] | None = None,
    at: str | None = None,
    seed: int | None = None,
    model: ModelChoice = None,
    limits: Limits | None = None,
    labels: Mapping[str, str] | None = None,
    plan: Mapping[str, Any] | None = None,
) -> RunHeader:
    """Create the header for a fork of the stored run; raise RunNotFound, or ConfigurationError for an invalid edit."""
    parent, rows = await store.run(run_id), await store.steps(run_id)
    fingerprint = fingerprint_of(block.name, block.outline(), model)
    if model is None:
        fingerprint["model"] = parent.header.fingerprint.get("model", "")
    header = fork_header(
        parent,
        rows,
        block=block.name,
        fingerprint=fingerprint,
        fork_id=fork_id,
        edits=edits,
        at=at,
        prefix=getattr(block, "keeps", None),
    )
    header = replace(
        header,
        seed=parent.header.seed if seed is None else seed,
        model=parent.header.model if model is None else name_models(model),
        limits=parent.header.limits if limits is None else limit_numbers(limits),
        labels=check_labels(labels or {}),
        plan=parent.header.plan if plan is None else plan,
    )
    if edits:
        await check_edits(block, parent, rows, edits, model=model)
    return header


_MAX_PAUSE = 1.0
"""Maximum pause, in seconds, between checks on a run in another process; a turn takes seconds anyway, and each check is
a single small query.
"""


async def load_existing(
    run: Run,
    *,
    seed: int | None,
    model: ModelChoice,
    session: SessionLike,
    limits: Limits | None,
    observe: Observer | None,
    wait: bool = False,
) -> Run:
    """Load the stored run with the same id as `run`, an unstarted durable run.

    If `wait` is set, wait until the process executing the run has finished it or has exited. Raises RunNotFound,
    RunChanged if the stored run was started with a different question, pattern, model or seed, and the errors raised by
    `load_run`.
    """
    assert run.journal is not None  # noqa: S101 - `run` is durable
    store, now = run.journal.store, run.journal.header
    then = (await store.run(run.run_id)).header
    pairs = changes_of(then, now)
    if seed is None:
        del pairs["seed"]
    check_unchanged(store, run.run_id, pairs)
    options: ResumeOptions = {"store": store, "model": model, "limits": limits}
    options |= {"session": session, "observe": observe}
    pause = _MAX_PAUSE / 20
    while True:
        try:
            outline = now.fingerprint["outline"]
            return (await load_run(run.run_id, block=now.block, outline=outline, asks_again=not wait, **options))[0]
        except RunConflict:
            if not wait:
                raise
        await asyncio.sleep(pause)
        pause = min(2 * pause, _MAX_PAUSE)


async def _take(store: Store, run_id: str) -> StoredRun:
    """Take ownership of the run, releasing it again if the caller is cancelled in the meantime."""
    # The write completes even if its caller is cancelled, in which case this process would own the run without knowing
    # it.
    taking = asyncio.ensure_future(store.take(run_id))
    cancelled = await wait_uncancelled(taking)
    if cancelled is not None and taking.exception() is None:
        await store.finish(run_id, taking.result().status, taking.result().outcome)
    if cancelled is not None:
        raise cancelled
    return taking.result()


def _check_alive(store: Store, stored: StoredRun) -> None:
    # Otherwise, a run that kills its process would bring down one worker after another.
    if stored.status == "dead_letter" or stored.recoveries > MAX_RECOVERIES:
        raise DeadLetter(store.name, stored.header.run_id, stored.recoveries)
