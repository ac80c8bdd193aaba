"""Durable runs: storing the header of a new run, and loading a stored run to resume it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from difflib import unified_diff
from typing import TYPE_CHECKING, Any

from pydantic_core import PydanticSerializationError, from_json, to_json

from flowdebate._util.text import clean_text, one_line
from flowdebate.errors import ConfigurationError, DeadLetter, RunChanged, StoreError, shown
from flowdebate.models.resolve import ModelResolver, model_of_environment
from flowdebate.runs.context import Session, as_session
from flowdebate.runs.durable.journal import Journal, plain, wait_uncancelled
from flowdebate.runs.limits import Limits
from flowdebate.runs.run import Run
from flowdebate.store.base import RunHeader
from flowdebate.store.open import open_store

if TYPE_CHECKING:
    from flowdebate.models.resolve import ModelChoice
    from flowdebate.runs.context import SessionLike
    from flowdebate.runs.durable.journal import OnUncertain
    from flowdebate.store.base import Store, StoredRun
    from flowdebate.store.open import StoreChoice

__all__ = (
    "StoreOptions",
    "attach_journal",
    "changes_of",
    "check_unchanged",
    "load_run",
    "load_same",
    "outcome_of",
)

_ALL = "all"
"""Where a header names the model that replaces all others."""

_COMPLETE = ("complete", "degraded", "no_verdict")
"""Statuses of runs in which nothing is left to be asked: their answers count whatever a prompt would be now."""

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
    given = _plain(value, f"{block}.run()", "value")
    header = RunHeader(
        run_id=run.run_id,
        block=block,
        seed=run.seed,
        created_at=run.now(),
        question=_question(given),
        input=given,
        fingerprint=_fingerprint(block, outline, model_of_environment() if model is None else model),
        model=model_of_environment() if model is None else _named(model),
        limits=_numbers(limits),
        session=_session(run.session),
        labels=_labels(options.labels),
        plan=options.plan,
    )
    run.journal = Journal(opened, header)
    run.now = run.records.now = run.journal.now


def _fingerprint(block: str, outline: object, model: ModelChoice) -> dict[str, str]:
    return {"block": block, "outline": str(getattr(outline, "structure", outline)), "model": _names(model)}


async def load_run(  # noqa: PLR0913 - the options of resume
    run_id: str,
    *,
    block: str,
    outline: object,
    store: StoreChoice = None,
    session: SessionLike = None,
    model: ModelChoice = None,
    limits: Limits | None = None,
    on_uncertain: OnUncertain = "retry",
    allow_changes: bool = False,
    retry_dead_letter: bool = False,
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
    owned = stored.owned or stored.status not in _COMPLETE  # anybody may read a complete run at any time
    if owned:
        stored = await _take(opened, run_id)
    try:
        header = stored.header
        if not allow_changes:
            now = _fingerprint(block, outline, model)
            if model is None and header.model is not None:
                now["model"] = header.fingerprint.get("model", "")
            then = header.fingerprint
            check_unchanged(opened, run_id, {name: (then.get(name, ""), text) for name, text in now.items()})
        if not retry_dead_letter:
            _check_alive(opened, stored)
        journal = Journal(
            opened,
            header,
            rows=await opened.steps(run_id),
            owned=owned,
            on_uncertain=on_uncertain,
            accepts_changes=allow_changes or stored.status in _COMPLETE,
        )
        run = Run(
            run_id=run_id,
            session=_session_of(opened, header, where) if session is None else as_session(session),
            seed=header.seed,
            models=_models_of(opened, header) if model is None else ModelResolver(model),
            limits=_limits_of(opened, header) if limits is None else limits,
            journal=journal,
        )
    except BaseException as error:
        if owned:
            status = "dead_letter" if isinstance(error, DeadLetter) else stored.status
            await opened.finish(run_id, status, stored.outcome)
        raise
    return run, header.input


async def load_same(
    run: Run, *, seed: int | None, model: ModelChoice, session: SessionLike, limits: Limits | None
) -> Run:
    """Load the stored run that has the id of `run`, a durable run that has not started.

    Errors: RunNotFound; RunChanged if it was started with another question, pattern, model or seed; as `load_run`.
    """
    assert run.journal is not None  # noqa: S101 - `run` is durable
    store, now = run.journal.store, run.journal.header
    then = (await store.run(run.run_id)).header
    pairs = changes_of(then, now)
    if seed is None:
        del pairs["seed"]
    check_unchanged(store, run.run_id, pairs)
    stored, _ = await load_run(
        run.run_id,
        block=now.block,
        outline=now.fingerprint["outline"],
        store=store,
        model=model,
        session=session,
        limits=limits,
    )
    return stored


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
    taking = asyncio.ensure_future(store.take(run_id))
    cancelled = await wait_uncancelled(taking)
    if cancelled is not None and taking.exception() is None:
        await store.finish(run_id, taking.result().status, taking.result().outcome)
    if cancelled is not None:
        raise cancelled
    return taking.result()


def outcome_of(run: Run, output: object, error: str | None) -> dict[str, Any]:
    """Return the outcome of `run` as JSON data."""
    raw = run.raw_output
    told = _json_or_text(raw)
    usage = {item.name: getattr(run.usage, item.name) for item in fields(run.usage)}
    return {
        "output": told if output is raw else _json_or_text(output),
        "raw": told,
        "usage": usage,
        "seconds": round(run.seconds, 3),
        "error": error,
    }


def _check_alive(store: Store, stored: StoredRun) -> None:
    if stored.status == "dead_letter" or stored.recoveries > MAX_RECOVERIES:
        raise DeadLetter(store.name, stored.header.run_id, stored.recoveries)


def check_unchanged(store: Store, run_id: str, pairs: Mapping[str, tuple[str, str]]) -> None:
    """Raise RunChanged with the lines that differ, if `pairs` of a stored and a present text do."""
    changes = {name: _changed_lines(then, now) for name, (then, now) in pairs.items() if then != now}
    if changes:
        raise RunChanged(store.name, run_id, changes)


def _changed_lines(then: str, now: str) -> tuple[str, ...]:
    lines = unified_diff(then.splitlines(), now.splitlines(), n=0, lineterm="")
    return tuple(line for line in lines if not line.startswith(("---", "+++", "@@")))


def _plain(value: object, where: str, what: str) -> Any:  # noqa: ANN401 - JSON data
    try:
        return plain(value)
    except (ValueError, TypeError, RecursionError):
        raise ConfigurationError(
            where, what, value, "JSON data, or values that pydantic turns into JSON data, for a run with a store"
        ) from None


def _json_or_text(value: object) -> Any:  # noqa: ANN401 - JSON data
    """Convert `value` to JSON data, or to text where it is none."""
    try:
        return from_json(to_json(value, fallback=shown, inf_nan_mode="strings"))
    except (PydanticSerializationError, ValueError, RecursionError):
        return shown(value)


def _question(given: object) -> str:
    if isinstance(given, dict):
        texts = [text for text in given.values() if isinstance(text, str)]
        given = texts[0] if texts else json.dumps(given)
    text = given if isinstance(given, str) else json.dumps(given)
    return one_line(" ".join(clean_text(text).split()))


def _names(model: ModelChoice) -> str:
    """Return the models' names as text, for the fingerprint."""
    if model is None:
        return "the default"
    if isinstance(model, str):
        return model
    if isinstance(model, Mapping):
        return "\n".join(f"{intent}: {_names(chosen)}" for intent, chosen in sorted(model.items()))
    return str(getattr(model, "name", type(model).__name__))


def _named(model: ModelChoice) -> Any:  # noqa: ANN401 - names
    """Return the names of the run's models for its header; None if one is an object."""
    if isinstance(model, Mapping):
        named = {intent: chosen for intent, chosen in model.items() if isinstance(chosen, str)}
        return named if len(named) == len(model) else None
    return {_ALL: model} if isinstance(model, str) else None


def _models_of(store: Store, header: RunHeader) -> ModelResolver:
    """Return the models a run was started with; a lone name is the environment's, or of a run of the first edition."""
    named = header.model
    if isinstance(named, str):
        return ModelResolver(environment=named)
    is_names = isinstance(named, Mapping) and all(isinstance(name, str) for name in named.values())
    if named is not None and not is_names:
        raise _unusable(store, header, "model", named, "names of models, by intent")
    return ModelResolver(named[_ALL] if isinstance(named, Mapping) and _ALL in named else named)


def _numbers(limits: Limits | None) -> dict[str, float] | None:
    if limits is None:
        return None
    numbers = {item.name: getattr(limits, item.name) for item in fields(limits) if item.name not in ("prices", "cost")}
    return {name: value for name, value in numbers.items() if value is not None} or None


def _limits_of(store: Store, header: RunHeader) -> Limits | None:
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


def _session(session: Session) -> dict[str, Any] | None:
    """Return the session at the start of the run as JSON data, or the names of its parts that are none."""
    if not (session.state or session.history or session.resources):
        return None
    try:
        if session.resources:
            return {"unkept": sorted(session.resources)}
        return {"state": plain(session.state), "history": plain(session.history)}
    except (ValueError, TypeError, RecursionError):
        return {"unkept": ["state"]}


def _session_of(store: Store, header: RunHeader, where: str) -> Session:
    stored = header.session or {}
    state, history, lost = (stored.get(name, empty) for name, empty in (("state", {}), ("history", []), ("unkept", [])))
    if not isinstance(state, Mapping) or not _is_history(history) or not isinstance(lost, list):
        raise _unusable(store, header, "session", stored, "an object `state` and `history`, a list of messages")
    if lost:
        allowed = f"the session as it was when the run started: its {', '.join(map(str, lost))} could not be stored"
        raise ConfigurationError(where, "session", None, allowed)
    return Session(state=dict(state), history=list(history))


def _is_history(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, dict) and isinstance(one.get("role"), str) for one in value)


def _labels(labels: Mapping[str, str]) -> dict[str, str]:
    for name, text in labels.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise ConfigurationError("run", "labels", {name: text}, "a dict of str to str")
    return dict(labels)
