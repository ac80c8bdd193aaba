"""Runs that are kept: what they are begun with, and how they are carried on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from difflib import unified_diff
from typing import TYPE_CHECKING, Any

from pydantic_core import PydanticSerializationError, from_json, to_json

from flowdebate._util.text import clean_text, one_line
from flowdebate.errors import ConfigurationError, DeadLetter, RunChanged, shown
from flowdebate.models.resolve import ModelResolver, model_of_environment
from flowdebate.runs.durable.codec import plain
from flowdebate.runs.durable.journal import Journal, waited
from flowdebate.runs.limits import Limits
from flowdebate.runs.run import Run
from flowdebate.runs.session import Session, as_session
from flowdebate.store.base import RunHeader
from flowdebate.store.open import open_store

if TYPE_CHECKING:
    from flowdebate.models.resolve import ModelChoice
    from flowdebate.runs.durable.journal import Uncertain
    from flowdebate.runs.session import SessionLike
    from flowdebate.store.base import Store, StoredRun
    from flowdebate.store.open import StoreChoice

__all__ = (
    "Durability",
    "keep",
    "load_run",
    "outcome_of",
)

_ALL = "all"
"""Where a header names the model that replaces all others."""

MAX_RECOVERIES = 25
"""How often in a row a run may end its process without getting any further."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Durability:
    """How a run is kept, where there is more to say of it than in which store: `run(…, store=Durability(…))`."""

    store: StoreChoice = None
    labels: Mapping[str, str] = field(default_factory=dict)
    """The application's own words about the run, to find it by."""
    plan: Mapping[str, Any] | None = None
    """How the application builds its block again, as JSON data."""


def keep(
    run: Run,
    block: str,
    outline: object,
    value: object,
    *,
    model: ModelChoice,
    limits: Limits | None,
    store: StoreChoice | Durability,
) -> None:
    """Let `run`, which has not begun, be kept; ConfigurationError for what cannot be."""
    keeping = store if isinstance(store, Durability) else Durability(store=store)
    found = open_store(keeping.store)
    if found is None:
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
        labels=_labels(keeping.labels),
        plan=keeping.plan,
    )
    run.journal = Journal(found, header)
    run.now = run.records.now = run.journal.now


def _fingerprint(block: str, outline: object, model: ModelChoice) -> dict[str, str]:
    return {"block": block, "outline": str(outline), "model": _told(model)}


async def load_run(  # noqa: PLR0913 - what a run may be carried on with
    store: StoreChoice,
    run_id: str,
    *,
    block: str,
    outline: object,
    session: SessionLike,
    model: ModelChoice,
    limits: Limits | None,
    uncertain: Uncertain,
    allow_changes: bool,
    revive: bool,
) -> tuple[Run, Any]:
    """The run with this id, owned by this process, and what it was begun with.

    Errors: RunNotFound, RunConflict, RunChanged, DeadLetter, ConfigurationError; the run is then as it was.
    """
    where = f"{block}.resume()"
    found = open_store(store, where=where)
    if found is None:
        raise ConfigurationError(where, "store", store, "a store: the one in which the run is kept")
    if uncertain not in ("retry", "raise"):
        raise ConfigurationError(where, "uncertain", uncertain, "'retry' or 'raise'")
    taking = asyncio.ensure_future(found.take(run_id))
    cancelled = await waited(taking)
    if cancelled is not None and taking.exception() is not None:
        raise cancelled
    stored = taking.result()
    try:
        if cancelled is not None:
            raise cancelled  # noqa: TRY301 - it is let go of below
        header = stored.header
        if not allow_changes:
            now = _fingerprint(block, outline, model)
            if model is None and header.model is not None:
                now["model"] = header.fingerprint.get("model", "")
            _check_same(found, header, now)
        if not revive:
            _check_alive(found, stored)
        journal = Journal(found, header, rows=await found.steps(run_id), uncertain=uncertain)
        journal.owned = True
        run = Run(
            run_id=run_id,
            session=_session_of(header, session, where),
            seed=header.seed,
            models=_models_of(header) if model is None else ModelResolver(model),
            limits=_limits_of(header) if limits is None else limits,
            journal=journal,
        )
    except BaseException as error:
        status = "dead_letter" if isinstance(error, DeadLetter) else stored.status
        await found.finish(run_id, status, stored.outcome)
        raise
    return run, header.input


def outcome_of(run: Run, output: object, error: str | None) -> dict[str, Any]:
    """How `run` ended, as JSON data."""
    raw = run.artifacts.get("raw")
    told = _told_of(raw)
    usage = {item.name: getattr(run.usage, item.name) for item in fields(run.usage)}
    return {
        "output": told if output is raw else _told_of(output),
        "raw": told,
        "usage": usage,
        "seconds": round(run.seconds, 3),
        "error": error,
    }


def _check_alive(store: Store, stored: StoredRun) -> None:
    if stored.status == "dead_letter" or stored.recoveries > MAX_RECOVERIES:
        raise DeadLetter(store.name, stored.header.run_id, stored.recoveries)


def _check_same(store: Store, header: RunHeader, now: Mapping[str, str]) -> None:
    then = header.fingerprint
    changes = {
        name: tuple(line for line in unified_diff(then.get(name, "").splitlines(), text.splitlines(), n=0, lineterm="")
                    if not line.startswith(("---", "+++", "@@")))
        for name, text in now.items()
        if then.get(name, "") != text
    }  # fmt: skip
    if changes:
        raise RunChanged(store.name, header.run_id, changes)


def _plain(value: object, where: str, what: str) -> Any:  # noqa: ANN401 - JSON data
    try:
        return plain(value)
    except (ValueError, TypeError, RecursionError):
        raise ConfigurationError(
            where, what, value, "JSON data (or what pydantic makes it of) in a run that is kept"
        ) from None


def _told_of(value: object) -> Any:  # noqa: ANN401 - JSON data
    """`value` as JSON data, as far as it can be told."""
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


def _told(model: ModelChoice) -> str:
    """The models as a fingerprint has them: names, or what objects call themselves."""
    if model is None:
        return "the default"
    if isinstance(model, str):
        return model
    if isinstance(model, Mapping):
        return "\n".join(f"{intent}: {_told(chosen)}" for intent, chosen in sorted(model.items()))
    return str(getattr(model, "name", type(model).__name__))


def _named(model: ModelChoice) -> Any:  # noqa: ANN401 - names
    """The names of the run's models, as its header has them; None where one is an object."""
    if isinstance(model, Mapping):
        named = {intent: chosen for intent, chosen in model.items() if isinstance(chosen, str)}
        return named if len(named) == len(model) else None
    return {_ALL: model} if isinstance(model, str) else None


def _models_of(header: RunHeader) -> ModelResolver:
    """The models that a run was begun with; a name by itself is the environment's, or a run's of the first edition."""
    named = header.model
    if isinstance(named, str):
        return ModelResolver(environment=named)
    return ModelResolver(named[_ALL] if isinstance(named, Mapping) and _ALL in named else named)


def _numbers(limits: Limits | None) -> dict[str, float] | None:
    if limits is None:
        return None
    kept = {item.name: getattr(limits, item.name) for item in fields(limits) if item.name not in ("prices", "cost")}
    return {name: value for name, value in kept.items() if value is not None} or None


def _limits_of(header: RunHeader) -> Limits | None:
    limits: Any = header.limits
    return None if not limits else Limits(**limits)


def _session(session: Session) -> dict[str, Any] | None:
    """What a session holds when a run begins; where that is no JSON data, only that it cannot be kept."""
    if not (session.state or session.history or session.resources):
        return None
    try:
        if session.resources:
            return {"unkept": sorted(session.resources)}
        return {"state": plain(session.state), "history": plain(session.history)}
    except (ValueError, TypeError, RecursionError):
        return {"unkept": ["state"]}


def _session_of(header: RunHeader, session: SessionLike, where: str) -> Session:
    if session is not None:
        return as_session(session)
    kept = header.session or {}
    if "unkept" in kept:
        allowed = f"the session as it was when the run began: its {', '.join(kept['unkept'])} could not be kept"
        raise ConfigurationError(where, "session", None, allowed)
    return Session(state=dict(kept.get("state", {})), history=list(kept.get("history", ())))


def _labels(labels: Mapping[str, str]) -> dict[str, str]:
    for name, text in labels.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise ConfigurationError("run", "labels", {name: text}, "a dict of str to str")
    return dict(labels)
