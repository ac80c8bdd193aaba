"""Headers and outcomes of durable runs, both stored alongside the runs' steps."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from difflib import unified_diff
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json

from flowdebate._text import clean_text, cut, short_repr, typed, without_keys
from flowdebate.errors import ConfigurationError, RunChanged, StoreError
from flowdebate.models.resolve import ModelChoice, ModelResolver, Override, model_of_environment
from flowdebate.runs.events import models_by_seat, remarks_on
from flowdebate.runs.journal import Journal, plain
from flowdebate.runs.limits import Limits
from flowdebate.runs.run import Run
from flowdebate.runs.session import Session
from flowdebate.store.base import RunHeader, Store
from flowdebate.store.open import StoreChoice, open_store

_ALL, _OVERRIDE = "all", "override"
"""Header keys for the default model and for the model that overrides all others."""
_MAX_LINE_LENGTH = 500
"""Maximum length of a question in a list of runs, in characters."""


DEFAULT_MODEL = "the default"
"""Name used in a run's fingerprint for the model provided by the environment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """A run's store and related options, as in `run(…, store=StoreOptions(store="runs.db", labels={…}))`."""

    store: StoreChoice = None
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels by which the run can be found later."""
    plan: Mapping[str, Any] | None = None
    """JSON data that lets the application rebuild its block."""


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
    """Make `run` durable before it starts; raise ConfigurationError for input that cannot be stored."""
    options = store if isinstance(store, StoreOptions) else StoreOptions(store=store)
    opened = open_store(options.store)
    if opened is None:
        return
    try:
        plan = plain(value)
    except (ValueError, TypeError, RecursionError):
        problem = "must be JSON data, or convertible to JSON by pydantic, if the run has a store"
        raise ConfigurationError(f"{block}.run()", "value", value, problem) from None
    header = RunHeader(
        run_id=run.run_id,
        block=block,
        seed=run.seed,
        created_at=run.now(),
        question=_summarize_question(plan),
        input=plan,
        fingerprint=fingerprint_of(block, outline, model_of_environment() if model is None else model),
        model=model_of_environment() if model is None else name_models(model),
        limits=limit_numbers(limits),
        session=_dump_session(run.session),
        labels=check_labels(options.labels),
        plan=options.plan,
    )
    run.journal = Journal(opened, header)
    run.now = run.records.now = run.journal.now


def fingerprint_of(block: str, outline: object, model: ModelChoice) -> dict[str, str]:
    """Return the parts of a run that must not change if the run is to be resumed, as text keyed by part name."""
    return {"block": block, "outline": str(getattr(outline, "structure", outline)), "model": list_model_names(model)}


def changes_of(then: RunHeader, now: RunHeader) -> dict[str, tuple[str, str]]:
    """Return the earlier and current text of each header field that must not change if the run is to be resumed."""
    return {
        "question": (_input_text(then), _input_text(now)),
        "seed": (str(then.seed), str(now.seed)),
        **{name: (then.fingerprint.get(name, ""), text) for name, text in now.fingerprint.items()},
    }


def _input_text(header: RunHeader) -> str:
    return header.input if isinstance(header.input, str) else json.dumps(header.input, sort_keys=True)


def outcome_of(run: Run, output: object, error: str | None) -> dict[str, Any]:
    """Return the outcome of `run` as JSON data."""
    usage = {item.name: getattr(run.usage, item.name) for item in fields(run.usage)}
    in_short = getattr(run.raw_output, "in_short", None)  # only the outputs of patterns have this method
    models = dict.fromkeys(getattr(event, "model", None) for event in run.records.events)
    return {
        **result_of(run.raw_output, output),
        "usage": usage,
        "models": models_by_seat(run.records.events),
        **({"remarks": remarks} if (remarks := remarks_on(run.records.events, run.raw_output)) else {}),
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
    """Return a run's raw output and final output, as stored in the outcome."""
    result = _json_or_text(raw)
    return {"output": result if output is raw else _json_or_text(output), "raw": result}


def check_unchanged(store: Store, run_id: str, pairs: Mapping[str, tuple[str, str]]) -> None:
    """Raise RunChanged, listing the changed lines, if the stored text in any pair differs from the current text."""
    changes: dict[str, tuple[str, ...]] = {}
    for name, (then, now) in pairs.items():
        if then != now:
            lines = unified_diff(then.splitlines(), now.splitlines(), n=0, lineterm="")
            changes[name] = tuple(line for line in lines if not line.startswith(("---", "+++", "@@")))
    if changes:
        raise RunChanged(store.name, run_id, changes)


def _json_or_text(value: object) -> object:
    """Convert `value` to JSON data, or to text if that fails, so that the end of a run can always be recorded."""
    try:
        return from_json(to_json(value, fallback=short_repr, inf_nan_mode="strings"))
    except (PydanticSerializationError, ValueError, RecursionError):
        return short_repr(value)


def read_question(value: object) -> str:
    """Return the complete question in a run's input, with any API keys masked."""
    if isinstance(value, dict):
        texts = [text for text in value.values() if isinstance(text, str)]
        value = texts[0] if texts else json.dumps(value)
    return without_keys(clean_text(value if isinstance(value, str) else json.dumps(value)))


def _summarize_question(value: object) -> str:
    """Return the question on one line, for lists and searches."""
    return cut(" ".join(read_question(value).split()), _MAX_LINE_LENGTH)


def list_model_names(model: ModelChoice) -> str:
    """Return the models' names as text for the fingerprint."""
    if model is None:  # the model comes from the environment, which may differ on the machine that resumes the run
        return DEFAULT_MODEL
    if isinstance(model, str):
        return model
    if isinstance(model, Mapping):
        return "\n".join(f"{intent}: {list_model_names(spec)}" for intent, spec in sorted(model.items()))
    name = str(getattr(model, "name", type(model).__name__))
    return f"{_OVERRIDE}: {name}" if isinstance(model, Override) else name


def name_models(model: ModelChoice) -> dict[str, str] | None:
    """Return the model names to store in the run's header; return None if any of the models is a model object."""
    if isinstance(model, Mapping):
        names = {intent: spec for intent, spec in model.items() if isinstance(spec, str)}
        return names if len(names) == len(model) else None
    if isinstance(model, Override):
        return {_OVERRIDE: model.spec} if isinstance(model.spec, str) else None
    return {_ALL: model} if isinstance(model, str) else None


def models_of(store: Store, header: RunHeader) -> ModelResolver:
    """Return the models that a run was started with.

    If the header contains a single name instead of a mapping, it is the name of the environment's model.
    """
    names = header.model
    if isinstance(names, str):
        return ModelResolver(environment=names)
    is_names = isinstance(names, Mapping) and all(isinstance(name, str) for name in names.values())
    if names is not None and not is_names:
        raise _unusable(store, header, "model", names, "must be a model name, or a mapping of intents to model names")
    if isinstance(names, Mapping) and _OVERRIDE in names:
        return ModelResolver(Override(names[_OVERRIDE]))
    return ModelResolver(names[_ALL] if isinstance(names, Mapping) and _ALL in names else names)


def limit_numbers(limits: Limits | None) -> dict[str, float] | None:
    """Return the run's limits in a form that can be stored.

    The cost limit is omitted, because prices cannot be stored.
    """
    if limits is None:
        return None
    numbers = {item.name: getattr(limits, item.name) for item in fields(limits) if item.name not in ("prices", "cost")}
    return {name: value for name, value in numbers.items() if value is not None} or None


def limits_of(store: Store, header: RunHeader) -> Limits | None:
    """Return the limits set when a run was started; raise StoreError if the header contains invalid limits."""
    limits: Any = header.limits
    if not limits:
        return None
    try:
        return Limits(**limits)
    except (TypeError, ConfigurationError):
        names = ", ".join(item.name for item in fields(Limits) if item.name != "prices")
        raise _unusable(
            store, header, "limits", limits, f"must map one or more of {names} to positive numbers"
        ) from None


def _unusable(store: Store, header: RunHeader, field: str, got: object, problem: str) -> StoreError:
    """Return the error to raise if a stored run, which may have been imported, has an unusable header."""
    return StoreError(store.name, f"run {header.run_id}: `{field}` of its header {problem} (got {typed(got)})")


def _dump_session(session: Session) -> dict[str, Any] | None:
    """Return a run's initial session as JSON data, or the names of the parts that cannot be converted to JSON."""
    if not (session.state or session.history or session.resources):
        return None
    try:
        if session.resources:
            return {"unkept": sorted(session.resources)}
        return {"state": plain(session.state), "history": plain(session.history)}
    except (ValueError, TypeError, RecursionError):
        return {"unkept": ["state"]}


def session_of(store: Store, header: RunHeader, location: str) -> Session:
    """Return the session as it was when the run started."""
    stored = header.session or {}
    state, history, lost = (stored.get(name, empty) for name, empty in (("state", {}), ("history", []), ("unkept", [])))
    messages = history if isinstance(history, list) else [None]
    are_messages = all(isinstance(one, dict) and isinstance(one.get("role"), str) for one in messages)
    if not isinstance(state, Mapping) or not are_messages or not isinstance(lost, list):
        raise _unusable(
            store, header, "session", stored, "must contain a `state` object and a `history` list of messages"
        )
    if lost:
        problem = f"cannot be restored: its {', '.join(map(str, lost))} could not be stored"
        raise ConfigurationError(location, "session", None, problem)
    return Session(state=dict(state), history=list(history))


def check_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return `labels` as a dict; raise ConfigurationError unless all names and values are strings."""
    for name, text in labels.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise ConfigurationError("run", "labels", {name: text}, "must be a dict of str to str")
    return dict(labels)
