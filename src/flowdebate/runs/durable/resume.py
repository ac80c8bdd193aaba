"""Durable runs: storing the header of a new run, and loading a stored run to resume it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from difflib import unified_diff
from typing import TYPE_CHECKING, Any, Unpack

from pydantic_core import PydanticSerializationError, from_json, to_json

from flowdebate._text import clean_text, one_line, shown
from flowdebate.errors import ConfigurationError, DeadLetter, RunChanged, RunConflict, StoreError
from flowdebate.models.resolve import ModelChoice, ModelResolver, model_of_environment
from flowdebate.runs.context import Session, SessionLike, as_session
from flowdebate.runs.durable.fork import fork_header, journal_of
from flowdebate.runs.durable.journal import Journal, plain, wait_uncancelled
from flowdebate.runs.limits import Limits
from flowdebate.runs.observer import Observer, observer_of
from flowdebate.runs.result import models_by_seat
from flowdebate.runs.run import Run
from flowdebate.store.base import COMPLETE, RunHeader, Store, StoredRun
from flowdebate.store.open import StoreChoice, open_store

if TYPE_CHECKING:
    from flowdebate.runs.execute import OnUncertain, ResumeOptions, Runnable, SessionOptions


_ALL = "all"
"""Where a header names the model that replaces all others."""

DEFAULT_MODEL = "the default"
"""How the fingerprint of a run names the model of the environment."""

MAX_RECOVERIES = 25
"""How often in a row a run may crash its process without progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """A store with options for the run in it: `run(…, store=StoreOptions(store="runs.db", labels={…}))`."""

    store: StoreChoice = None
    labels: Mapping[str, str] = field(default_factory=dict)
    """The application's own labels, to find the run by."""
    plan: Mapping[str, Any] | None = None
    """JSON data from which the application can rebuild its block."""


def attach_journal(
    run: Run,
    block: str,
    outline: object,
    value: object,
    *,
    model: ModelChoice,
    limits: Limits | None,
    store: StoreChoice | StoreOptions,
) -> None:
    """Make `run`, which has not started, durable; ConfigurationError for input that cannot be stored."""
    options = store if isinstance(store, StoreOptions) else StoreOptions(store=store)
    opened = open_store(options.store)
    if opened is None:
        return
    try:
        given = plain(value)
    except (ValueError, TypeError, RecursionError):
        allowed = "JSON data, or values that pydantic turns into JSON data, for a run with a store"
        raise ConfigurationError(f"{block}.run()", "value", value, allowed) from None
    header = RunHeader(
        run_id=run.run_id,
        block=block,
        seed=run.seed,
        created_at=run.now(),
        question=_summarise_question(given),
        input=given,
        fingerprint=_fingerprint(block, outline, model_of_environment() if model is None else model),
        model=model_of_environment() if model is None else _name_models(model),
        limits=limit_numbers(limits),
        session=_dump_session(run.session),
        labels=_check_labels(options.labels),
        plan=options.plan,
    )
    run.journal = Journal(opened, header)
    run.now = run.records.now = run.journal.now


def _fingerprint(block: str, outline: object, model: ModelChoice) -> dict[str, str]:
    return {"block": block, "outline": str(getattr(outline, "structure", outline)), "model": list_model_names(model)}


async def load_run(
    run_id: str,
    *,
    block: str,
    outline: object,
    store: StoreChoice = None,
    on_uncertain: OnUncertain = "retry",
    allow_changes: bool = False,
    retry_dead_letter: bool = False,
    **common: Unpack[SessionOptions],
) -> tuple[Run, Any]:
    """Load the stored run and its input. This process then owns it; a complete one only once it needs another step.

    Errors: RunNotFound, RunConflict, RunChanged, DeadLetter, ConfigurationError; the stored run is then unchanged.
    """
    where = f"{block}.resume()"
    opened = open_store(store, where=where)
    if opened is None:
        raise ConfigurationError(where, "store", store, "the store of the run")
    if on_uncertain not in ("retry", "raise"):
        raise ConfigurationError(where, "on_uncertain", on_uncertain, "'retry' or 'raise'")
    stored = await opened.run(run_id)
    # Anybody may read a complete run at any time; one that still has an owner is refused by `take`.
    owned = stored.owned or stored.status not in COMPLETE
    if owned:
        stored = await _take(opened, run_id)
    try:
        header = stored.header
        if not allow_changes:
            model = common.get("model")
            now = _fingerprint(block, outline, model)
            if model is None and header.model is not None:  # it is resumed with the models that it was started with
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
            # In a complete run nothing is left to ask: its answers count, whatever a prompt would be now.
            accepts_changes=allow_changes or stored.status in COMPLETE,
        )
        spent = (stored.outcome or {}).get("seconds")
        journal.spent = spent if isinstance(spent, (int, float)) else 0.0
        run = _restore_run(journal, where, **common)
    except BaseException as error:
        if owned:  # given back as it was: a refused resumption must not block the next one
            status = "dead_letter" if isinstance(error, DeadLetter) else stored.status
            await opened.finish(run_id, status, stored.outcome)
        raise
    return run, header.input


async def load_fork(
    run_id: str,
    *,
    block: Runnable[Any],
    store: StoreChoice | StoreOptions = None,
    model: ModelChoice = None,
    limits: Limits | None = None,
    session: SessionLike = None,
    observe: Observer | None = None,
    **options: Any,  # noqa: ANN401 - those of `prepare_fork`
) -> tuple[Run, Any]:
    """Create a fork of the stored run, which has not started; gives its input too. Errors: those of `prepare_fork`."""
    where = f"{block.name}.fork()"
    stored = store if isinstance(store, StoreOptions) else StoreOptions(store=store)
    opened = open_store(stored.store, where=where)
    if opened is None:
        raise ConfigurationError(where, "store", store, "the store of the run")
    options |= {"labels": stored.labels, "plan": stored.plan}
    header = await prepare_fork(opened, run_id, block=block, model=model, limits=limits, **options)
    journal = await journal_of(opened, header)
    return _restore_run(journal, where, session=session, model=model, limits=limits, observe=observe), header.input


def _restore_run(
    journal: Journal,
    where: str,
    *,
    session: SessionLike = None,
    model: ModelChoice = None,
    limits: Limits | None = None,
    observe: Observer | None = None,
) -> Run:
    """The run of a stored header, with what the header says where nothing else is given."""
    store, header = journal.store, journal.header
    return Run(
        run_id=header.run_id,
        session=session_of(store, header, where) if session is None else as_session(session),
        seed=header.seed,
        models=models_of(store, header) if model is None else ModelResolver(model),
        limits=limits_of(store, header) if limits is None else limits,
        journal=journal,
        observer=observer_of(observe),
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
    """The header of a fork of the stored run; RunNotFound, and ConfigurationError for edits that do not fit it."""
    parent, rows = await store.run(run_id), await store.steps(run_id)
    fingerprint = _fingerprint(block.name, block.outline(), model)
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
        kept=getattr(block, "keeps", None),
        seed=parent.header.seed if seed is None else seed,
        model=parent.header.model if model is None else _name_models(model),
        limits=parent.header.limits if limits is None else limit_numbers(limits),
        labels=_check_labels(labels or {}),
        plan=parent.header.plan if plan is None else plan,
    )
    if edits:
        from flowdebate.runs.durable.replay import check_edits

        await check_edits(block, parent, rows, edits, model=model)
    return header


_LONGEST_PAUSE = 1.0
"""Seconds between two looks at a run of another process: a turn takes seconds, and a look is one small query."""


async def load_same(
    run: Run, *, seed: int | None, model: ModelChoice, session: SessionLike, limits: Limits | None, wait: bool = False
) -> Run:
    """Load the stored run that has the id of `run`, a durable run that has not started.

    With `wait`, not before the process that runs it has ended, or ended the run.
    Errors: RunNotFound; RunChanged if it was started with another question, pattern, model or seed; as `load_run`.
    """
    assert run.journal is not None  # noqa: S101 - `run` is durable
    store, now = run.journal.store, run.journal.header
    then = (await store.run(run.run_id)).header
    pairs = changes_of(then, now)
    if seed is None:
        del pairs["seed"]
    check_unchanged(store, run.run_id, pairs)
    options: ResumeOptions = {"store": store, "model": model, "limits": limits}
    options |= {"session": session, "observe": run.observer}
    pause = _LONGEST_PAUSE / 20
    while True:
        try:
            return (await load_run(run.run_id, block=now.block, outline=now.fingerprint["outline"], **options))[0]
        except RunConflict:
            if not wait:
                raise
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def changes_of(then: RunHeader, now: RunHeader) -> dict[str, tuple[str, str]]:
    """Pair the parts of two headers that have to be the same for a run to be resumed as the other."""
    return {
        "question": (_input_text(then), _input_text(now)),
        "seed": (str(then.seed), str(now.seed)),
        **{name: (then.fingerprint.get(name, ""), text) for name, text in now.fingerprint.items()},
    }


def _input_text(header: RunHeader) -> str:
    return header.input if isinstance(header.input, str) else json.dumps(header.input, sort_keys=True)


async def _take(store: Store, run_id: str) -> StoredRun:
    """Take ownership of the run; if the caller is cancelled meanwhile, it is given back."""
    # A write completes even if its caller is cancelled: the run would stay owned by a process that does not know it.
    taking = asyncio.ensure_future(store.take(run_id))
    cancelled = await wait_uncancelled(taking)
    if cancelled is not None and taking.exception() is None:
        await store.finish(run_id, taking.result().status, taking.result().outcome)
    if cancelled is not None:
        raise cancelled
    return taking.result()


def outcome_of(run: Run, output: object, error: str | None) -> dict[str, Any]:
    """Return the outcome of `run` as JSON data."""
    usage = {item.name: getattr(run.usage, item.name) for item in fields(run.usage)}
    in_short = getattr(run.raw_output, "in_short", None)  # of a pattern's output, not of whatever a block gives
    models = dict.fromkeys(getattr(event, "model", None) for event in run.records.events)
    return {
        **result_of(run.raw_output, output),
        "usage": usage,
        "models": models_by_seat(run.records.events),
        "seconds": round(run.seconds + (0.0 if run.journal is None else run.journal.spent), 3),
        "error": error,
        "summary": {
            **(in_short() if callable(in_short) else {}),
            "models": [model for model in models if isinstance(model, str)],
            "cost": None if run.budget is None else run.budget.cost,
            "prices": None if run.budget is None else run.budget.prices,
        },
    }


def result_of(raw: object, output: object) -> dict[str, Any]:
    """Return the raw output and the output of a run as an outcome has them."""
    told = _json_or_text(raw)
    return {"output": told if output is raw else _json_or_text(output), "raw": told}


def _check_alive(store: Store, stored: StoredRun) -> None:
    # A run that kills its process would else take down one worker after another, for ever.
    if stored.status == "dead_letter" or stored.recoveries > MAX_RECOVERIES:
        raise DeadLetter(store.name, stored.header.run_id, stored.recoveries)


def check_unchanged(store: Store, run_id: str, pairs: Mapping[str, tuple[str, str]]) -> None:
    """Raise RunChanged with the lines that differ, if `pairs` of a stored and a present text do."""
    changes: dict[str, tuple[str, ...]] = {}
    for name, (then, now) in pairs.items():
        if then != now:
            lines = unified_diff(then.splitlines(), now.splitlines(), n=0, lineterm="")
            changes[name] = tuple(line for line in lines if not line.startswith(("---", "+++", "@@")))
    if changes:
        raise RunChanged(store.name, run_id, changes)


def _json_or_text(value: object) -> Any:  # noqa: ANN401 - JSON data
    """Convert `value` to JSON data, or to text where it is none: no output may keep a run's end from being recorded."""
    try:
        return from_json(to_json(value, fallback=shown, inf_nan_mode="strings"))
    except (PydanticSerializationError, ValueError, RecursionError):
        return shown(value)


def _summarise_question(given: object) -> str:
    if isinstance(given, dict):
        texts = [text for text in given.values() if isinstance(text, str)]
        given = texts[0] if texts else json.dumps(given)
    text = given if isinstance(given, str) else json.dumps(given)
    return one_line(" ".join(clean_text(text).split()))


def list_model_names(model: ModelChoice) -> str:
    """Return the models' names as text, for the fingerprint."""
    if model is None:  # the environment names it, and may name another on the machine that resumes
        return DEFAULT_MODEL
    if isinstance(model, str):
        return model
    if isinstance(model, Mapping):
        return "\n".join(f"{intent}: {list_model_names(chosen)}" for intent, chosen in sorted(model.items()))
    return str(getattr(model, "name", type(model).__name__))


def _name_models(model: ModelChoice) -> Any:  # noqa: ANN401 - names
    """Return the names of the run's models for its header; None if one is an object."""
    if isinstance(model, Mapping):
        named = {intent: chosen for intent, chosen in model.items() if isinstance(chosen, str)}
        return named if len(named) == len(model) else None
    return {_ALL: model} if isinstance(model, str) else None


def models_of(store: Store, header: RunHeader) -> ModelResolver:
    """Return the models a run was started with; a lone name is the environment's, or of a run of the first edition."""
    named = header.model
    if isinstance(named, str):
        return ModelResolver(environment=named)
    is_names = isinstance(named, Mapping) and all(isinstance(name, str) for name in named.values())
    if named is not None and not is_names:
        raise _unusable(store, header, "model", named, "names of models, by intent")
    return ModelResolver(named[_ALL] if isinstance(named, Mapping) and _ALL in named else named)


def limit_numbers(limits: Limits | None) -> dict[str, float] | None:
    """Return the limits that are stored with a run: all but that of its cost, whose prices are not data."""
    if limits is None:
        return None
    numbers = {item.name: getattr(limits, item.name) for item in fields(limits) if item.name not in ("prices", "cost")}
    return {name: value for name, value in numbers.items() if value is not None} or None


def limits_of(store: Store, header: RunHeader) -> Limits | None:
    """Return the limits that a run was started with; StoreError for a header with others."""
    limits: Any = header.limits
    if not limits:
        return None
    try:
        return Limits(**limits)
    except (TypeError, ConfigurationError):
        allowed = f"positive numbers of {', '.join(item.name for item in fields(Limits) if item.name != 'prices')}"
        raise _unusable(store, header, "limits", limits, allowed) from None


def _unusable(store: Store, header: RunHeader, field: str, got: object, allowed: str) -> StoreError:
    """Return the error of a stored run, imported perhaps, whose header does not fit."""
    return StoreError(store.name, f"run {header.run_id}: `{field}` of its header must be {allowed}, got {shown(got)}")


def _dump_session(session: Session) -> dict[str, Any] | None:
    """Return the session at the start of the run as JSON data, or the names of its parts that are none."""
    if not (session.state or session.history or session.resources):
        return None
    try:
        if session.resources:
            return {"unkept": sorted(session.resources)}
        return {"state": plain(session.state), "history": plain(session.history)}
    except (ValueError, TypeError, RecursionError):
        return {"unkept": ["state"]}


def session_of(store: Store, header: RunHeader, where: str) -> Session:
    """Return the session with which a run began."""
    stored = header.session or {}
    state, history, lost = (stored.get(name, empty) for name, empty in (("state", {}), ("history", []), ("unkept", [])))
    messages = history if isinstance(history, list) else [None]
    are_messages = all(isinstance(one, dict) and isinstance(one.get("role"), str) for one in messages)
    if not isinstance(state, Mapping) or not are_messages or not isinstance(lost, list):
        raise _unusable(store, header, "session", stored, "an object `state` and `history`, a list of messages")
    if lost:
        allowed = f"the session as it was when the run started: its {', '.join(map(str, lost))} could not be stored"
        raise ConfigurationError(where, "session", None, allowed)
    return Session(state=dict(state), history=list(history))


def _check_labels(labels: Mapping[str, str]) -> dict[str, str]:
    for name, text in labels.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise ConfigurationError("run", "labels", {name: text}, "a dict of str to str")
    return dict(labels)
