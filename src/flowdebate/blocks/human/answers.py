"""Answers from humans: parsing, validation of each field, and submission to suspended runs."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from os.path import commonpath
from typing import Any, NoReturn

from pydantic import TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from flowdebate._text import MAX_ARGUMENT_LENGTH, clean_data, clean_text, error_text, is_blank, typed
from flowdebate._util.cancellation import wait_uncancelled
from flowdebate.blocks.human.prompt import kind_of
from flowdebate.errors import ConfigurationError, NotAwaited, OutputError, RunConflict, StoreError
from flowdebate.models.json_schema import find_errors
from flowdebate.runs.execute import run_sync
from flowdebate.runs.journal import DECISION
from flowdebate.runs.suspend import HumanRequest, answer_text, read_answer, request_of
from flowdebate.sources.source import Source
from flowdebate.store.base import StepRow, Store, StoredStatus
from flowdebate.store.open import StoreChoice, open_store


def parse_text(answer: object, *, block: str) -> str:
    """Convert an answer to valid Unicode; raise OutputError if it is blank, not text, or over `MAX_ARGUMENT_LENGTH`."""
    if not isinstance(answer, str):
        raise _misfit(block, f"must be text (got {typed(answer)})")
    text = clean_text(str(answer))
    if is_blank(text):
        raise _misfit(block, "is blank")
    if len(text) > MAX_ARGUMENT_LENGTH:
        raise _misfit(block, f"has {len(text):,} characters, but at most {MAX_ARGUMENT_LENGTH:,} are allowed")
    return text


def parse_data(answer: object, schema: Mapping[str, Any], *, block: str) -> object:
    """Parse `answer` as data for `schema`; a bare value is assigned to the only required field.

    Text is parsed as JSON, and keys may be in snake_case or camelCase. Raises OutputError if the text is not JSON,
    unless exactly one field is required and that field is text.

    >>> parse_data("ann", {"properties": {"choice": {"type": "string"}}, "required": ["choice"]}, block="vote")
    {'choice': 'ann'}
    """
    data = _read(answer, schema, block) if isinstance(answer, str) else answer
    only = only_field(schema)
    if only is not None and isinstance(data, (str, int, float, list)):
        data = {only: data}
    if isinstance(data, dict):
        data = _rename_keys(data, set(_names(schema)))
    return clean_data(data)


def only_field(schema: Mapping[str, Any]) -> str | None:
    """Return the required field in `schema` if there is exactly one; otherwise, return None."""
    required = schema.get("required", ())
    return required[0] if len(required) == 1 else None


def check_answer(schema: Mapping[str, Any], answer: object, *, block: str) -> object:
    """Check `answer` against `schema` and return it as data; raise an OutputError naming each invalid field."""
    validator = _create_validator(json.dumps(dict(schema)), block)
    data = parse_data(answer, schema, block=block)
    definitions = schema.get("$defs", {})
    errors = find_errors(validator, data)
    problems = dict.fromkeys(problem for error in errors for problem in _field_problems(error, definitions))
    if problems:
        raise OutputError(block, f"a {schema.get('title', 'value')}", problems, by_person=True)
    return data


@lru_cache(maxsize=32)  # cached: checking a schema takes longer than checking many answers
def _create_validator(schema: str, block: str) -> Any:  # noqa: ANN401 - jsonschema's own
    from flowdebate.models.output import validator_of

    return validator_of(json.loads(schema), location=block, field="schema of the answer")


def _field_problems(error: Any, definitions: Mapping[str, Any]) -> list[tuple[str, str]]:  # noqa: ANN401 - jsonschema's own
    """List the invalid fields, each with a description of the problem."""
    path = [str(part) for part in error.absolute_path]
    if error.validator == "required":
        return [(".".join([*path, name]), "is missing") for name in error.validator_value if name not in error.instance]
    if error.validator in ("anyOf", "oneOf", "enum", "const", "type"):
        return [(".".join(path), f"must be {kind_of(error.schema, definitions)} (got {typed(error.instance)})")]
    return [(".".join(path), error.message)]


def _misfit(block: str, problem: str) -> OutputError:
    return OutputError(block, "an answer", [("", problem)], by_person=True)


def _read(text: str, schema: Mapping[str, Any], block: str) -> object:
    if len(text) > MAX_ARGUMENT_LENGTH:
        raise _misfit(block, f"has {len(text):,} characters, but at most {MAX_ARGUMENT_LENGTH:,} are allowed")
    only = only_field(schema)
    is_text = only is not None and _is_text(schema["properties"][only], schema.get("$defs", {}))
    try:
        data = json.loads(text, parse_constant=_refuse_constant)  # reject NaN, which journals cannot store
    except (ValueError, RecursionError):
        if is_text:
            return parse_text(text, block=block)
        fields = ", ".join(schema.get("properties", {}))
        raise _misfit(block, f"must be JSON with the fields {fields}") from None
    return data if isinstance(data, dict) or not is_text else text


def _refuse_constant(name: str) -> NoReturn:
    message = f"{name} is not a valid JSON number"
    raise ValueError(message)


def _is_text(part: Mapping[str, Any], definitions: Mapping[str, Any]) -> bool:
    if "$ref" in part:
        return _is_text(definitions.get(part["$ref"].rpartition("/")[2], {}), definitions)
    return part.get("type") == "string" or all(isinstance(choice, str) for choice in part.get("enum", (None,)))


def _rename_keys(data: object, names: set[str]) -> object:
    """Rename the keys in `data` to camelCase where the schema has camelCase names."""
    if isinstance(data, dict):
        renames = {key: to_camel(key) for key in data if isinstance(key, str) and key not in names}
        return {
            renames[key] if renames.get(key) in names else key: _rename_keys(value, names)
            for key, value in data.items()
        }
    return [_rename_keys(item, names) for item in data] if isinstance(data, list) else data


def _names(part: object) -> Iterator[str]:
    """Yield the names of all fields in a schema, at any depth."""
    if isinstance(part, dict):
        properties = part.get("properties")
        if isinstance(properties, dict):
            yield from properties
        for inner in part.values():
            yield from _names(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from _names(inner)


# Answers to suspended runs

# number of attempts to acquire a run while others are answering, and the pause between attempts in seconds
_TRIES, _PAUSE = 20, 0.05


async def open_requests(store: StoreChoice, run_id: str, /) -> list[HumanRequest]:
    """List a run's open requests, sorted by path; the list is empty if the run is not suspended. Raises RunNotFound."""
    opened = _store(store)
    return open_requests_in(await opened.steps(run_id), run_id, store=opened.name)


def open_requests_in(steps: Iterable[StepRow], run_id: str, /, *, store: str) -> list[HumanRequest]:
    """List the unanswered requests among a run's steps; error messages refer to the store as `store`."""
    rows = [*steps]
    return [replace(_request(store, run_id, row), sources=_sources_in(rows, row.key)) for row in rows if _is_open(row)]


def _sources_in(rows: Iterable[StepRow], place: str) -> tuple[Source, ...]:
    """Return the sources recorded for the pattern enclosing `place`, without their text if the run has a plan."""
    sources: dict[str, list[Source]] = {"": []}
    for row in rows:
        if row.key.endswith(DECISION) and row.body is not None:
            with suppress(ValidationError):  # raised if the row records another kind of decision
                sources[row.key] = TypeAdapter(list[Source]).validate_json(row.body)
    nearest = max(sources, key=lambda key: (len(commonpath([key, place])), bool(sources[key])))
    return tuple(source for source in sources[nearest] if source.left_out is None)


def list_requests(steps: Iterable[StepRow], run_id: str, /, *, store: str) -> list[tuple[HumanRequest, Any]]:
    """List all human requests among a run's steps, each paired with its answer (None if it is still open)."""
    return [
        (_request(store, run_id, row), None if row.body is None else read_answer(row.body)[0])
        for row in steps
        if row.kind == "human"
    ]


def check_not_repeated(steps: Iterable[StepRow], run_id: str, answer: object, /, *, store: str) -> None:
    """Raise NotAwaited if the previous answer is resubmitted to a block that is waiting for a new one."""
    requests = list_requests(steps, run_id, store=store)
    waiting = {request.block: request.place for request, reply in requests if reply is None}
    for request, last_reply in [pair for pair in requests if pair[1] is not None][-1:]:
        if last_reply == answer and request.block in waiting:
            problem = "already has this answer: to submit it again, specify its place"
            raise NotAwaited(store, run_id, problem, list(waiting.values()))


async def submit_answer(
    store: StoreChoice,
    run_id: str,
    answer: object,
    /,
    *,
    block: str | None = None,
    place: str | None = None,
    by: str | None = None,
) -> HumanRequest:
    """Record a human's answer, so that `resume(run_id)` can continue the run; return the answered request.

    `answer` is text or, if the request has a schema, data as an object or as JSON. If the run is waiting for several
    answers, `block` (a name) or `place` selects the request. Only the first answer to a request counts. `by` is
    recorded as the answer's author, and is meant for answers that do not come from a person. Raises OutputError, naming
    each invalid field; NotAwaited if the run is not waiting for such an answer, or already has it; RunNotFound; or
    RunConflict if another process is executing the run.
    """
    recording = asyncio.ensure_future(_record(_store(store), run_id, answer, block, place, by))
    cancelled = await wait_uncancelled(recording)  # otherwise, the run would stay locked until this process exits
    if cancelled is not None and recording.exception() is None:
        raise cancelled
    return recording.result()


async def _record(
    store: Store, run_id: str, answer: object, block: str | None, place: str | None, by: str | None
) -> HumanRequest:
    pending = _find_request(store, run_id, await store.steps(run_id), block, place)
    check_submission(pending, answer)  # check the answer before modifying the run
    for _ in range(_TRIES):
        with suppress(RunConflict):  # another person's answer locks the run only briefly, so try again
            stored = await store.take(run_id)
            break
        await asyncio.sleep(_PAUSE)
    else:
        stored = await store.take(run_id)
    after: StoredStatus = stored.status
    try:
        rows = await store.steps(run_id)
        # check again: others may have answered in the meantime
        request = _find_request(store, run_id, rows, block, place)
        data = check_submission(request, answer)
        await store.commit(run_id, request.place, "human", answer_text(data, suspended=True, by=by), time.time())
        if after in ("awaiting", "running"):
            after = "awaiting" if sum(map(_is_open, rows)) > 1 else "interrupted"
    finally:
        await store.finish(run_id, after, stored.outcome)
    return request


def submit_answer_sync(
    store: StoreChoice, run_id: str, answer: object, /, *, block: str | None = None, place: str | None = None
) -> HumanRequest:
    """Call `submit_answer` synchronously, for example in scripts and notebooks."""
    return run_sync(lambda: submit_answer(store, run_id, answer, block=block, place=place))


def _store(choice: StoreChoice) -> Store:
    opened = open_store(choice, location="submit_answer()")
    if opened is None:
        raise ConfigurationError("submit_answer()", "store", choice, "must be the run's store")
    return opened


def _is_open(row: StepRow) -> bool:
    return row.kind == "human" and row.body is None


def _request(store: str, run_id: str, row: StepRow) -> HumanRequest:
    try:
        return request_of(row.key, row.request or "")
    except (ValueError, KeyError, TypeError) as error:
        problem = f"run {run_id}: the request at {row.key} cannot be read: {error_text(error)}"
        raise StoreError(store, problem) from error


def _find_request(
    store: Store, run_id: str, rows: Sequence[StepRow], block: str | None, place: str | None
) -> HumanRequest:
    requests = [row for row in rows if row.kind == "human"]
    at_place = [(row, _request(store.name, run_id, row)) for row in requests if place in (None, row.key)]
    matching = [(row, request) for row, request in at_place if block in (None, request.block)]
    waiting = [request for row, request in matching if _is_open(row)]
    open_places = [row.key for row in requests if _is_open(row)]
    if len(waiting) == 1:
        return waiting[0]
    if waiting:
        raise NotAwaited(store.name, run_id, "is waiting for several answers: specify which one this is", open_places)
    if matching:
        places = ", ".join(request.place for _, request in matching)
        why = f"already has an answer at {places}, and the first answer is final"
    else:
        which = " and ".join(f"{name} {value}" for name, value in (("block", block), ("place", place)) if value)
        why = f"is not waiting for an answer from {which}" if which else "is not waiting for an answer"
    raise NotAwaited(store.name, run_id, why, open_places)


def check_submission(request: HumanRequest, answer: object) -> object:
    """Convert `answer` to data for a stored request; raise OutputError if it is invalid."""
    if request.schema is None:
        return parse_text(answer, block=request.block)
    return check_answer(request.schema, answer, block=request.block)
