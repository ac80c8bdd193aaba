"""Answers to suspended runs: list the open requests of a run, and submit answers to them."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from flowdebate.blocks.human.parsing import checked_against, parse_text
from flowdebate.errors import ConfigurationError, NotAwaited, RunConflict, StoreError, error_text
from flowdebate.runs.durable.journal import wait_uncancelled
from flowdebate.runs.durable.suspend import HumanRequest, answer_text, read_answer, request_of
from flowdebate.runs.execute import run_sync
from flowdebate.store.open import open_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from flowdebate.store.base import StepRow, Store, StoredRun, StoredStatus
    from flowdebate.store.open import StoreChoice


_TRIES, _PAUSE = 20, 0.05
"""Attempts to take a run that others answer at the same moment, and the seconds between them."""


async def open_requests(store: StoreChoice, run_id: str, /) -> list[HumanRequest]:
    """The requests that the run waits for, by place; empty for a run that is not suspended. Raises RunNotFound."""
    opened = _store(store)
    return open_requests_in(await opened.steps(run_id), run_id, store=opened.name)


def open_requests_in(steps: Iterable[StepRow], run_id: str, /, *, store: str) -> list[HumanRequest]:
    """The requests among the steps of a run that wait for an answer; `store` is a name for errors."""
    return [_request(store, run_id, row) for row in steps if _is_open(row)]


def asked_in(steps: Iterable[StepRow], run_id: str, /, *, store: str) -> list[tuple[HumanRequest, Any]]:
    """All requests among the steps of a run, each with its answer; None for one that waits."""
    return [
        (_request(store, run_id, row), None if row.body is None else read_answer(row.body)[0])
        for row in steps
        if row.kind == "human"
    ]


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
    """Record a human's answer, so that `resume(run_id)` can continue the run; returns the request that it answers.

    `answer` is text or, where the request has a schema, data or its JSON. If the run waits for several answers,
    `block` (a name) or `place` says which one this is. The first answer stands. The journal says `by` whom it was given
    where that was not a person.
    Errors: OutputError, which names each invalid field; NotAwaited if the run waits for no such answer, or has it
    already; RunNotFound; RunConflict while somebody runs it.
    """
    recording = asyncio.ensure_future(_record(_store(store), run_id, answer, block, place, by))
    cancelled = await wait_uncancelled(recording)
    if cancelled is not None and recording.exception() is None:
        raise cancelled
    return recording.result()


async def _record(
    store: Store, run_id: str, answer: object, block: str | None, place: str | None, by: str | None
) -> HumanRequest:
    checked(_chosen(store, run_id, await store.steps(run_id), block, place), answer)  # before the run is touched
    stored = await _take(store, run_id)
    after: StoredStatus = stored.status
    try:
        rows = await store.steps(run_id)
        request = _chosen(store, run_id, rows, block, place)
        data = checked(request, answer)
        await store.commit(run_id, request.place, "human", answer_text(data, suspended=True, by=by), time.time())
        if after in ("awaiting", "running"):
            after = "awaiting" if sum(map(_is_open, rows)) > 1 else "interrupted"
    finally:
        await store.finish(run_id, after, stored.outcome)
    return request


def submit_answer_sync(
    store: StoreChoice, run_id: str, answer: object, /, *, block: str | None = None, place: str | None = None
) -> HumanRequest:
    """`submit_answer`, for scripts and notebooks."""
    return run_sync(lambda: submit_answer(store, run_id, answer, block=block, place=place))


def _store(choice: StoreChoice) -> Store:
    opened = open_store(choice, where="submit_answer()")
    if opened is None:
        raise ConfigurationError("submit_answer()", "store", choice, "the store of the run")
    return opened


async def _take(store: Store, run_id: str) -> StoredRun:
    """Take ownership of the run; retried, since others who answer own it only for a moment."""
    for _ in range(_TRIES):
        try:
            return await store.take(run_id)
        except RunConflict:
            await asyncio.sleep(_PAUSE)
    return await store.take(run_id)


def _is_open(row: StepRow) -> bool:
    return row.kind == "human" and row.body is None


def _request(store: str, run_id: str, row: StepRow) -> HumanRequest:
    try:
        return request_of(row.key, row.request or "")
    except (ValueError, KeyError, TypeError) as error:
        problem = f"run {run_id}: the request at {row.key} cannot be read: {error_text(error)}"
        raise StoreError(store, problem) from error


def _chosen(store: Store, run_id: str, rows: Sequence[StepRow], block: str | None, place: str | None) -> HumanRequest:
    """The request that the answer is for."""
    asked = [row for row in rows if row.kind == "human"]
    at_place = [(row, _request(store.name, run_id, row)) for row in asked if place in (None, row.key)]
    matching = [(row, request) for row, request in at_place if block in (None, request.block)]
    waiting = [request for row, request in matching if _is_open(row)]
    open_places = [row.key for row in asked if _is_open(row)]
    if len(waiting) == 1:
        return waiting[0]
    if waiting:
        raise NotAwaited(store.name, run_id, "waits for several answers, say which one this is", open_places)
    raise NotAwaited(store.name, run_id, _why_not([request for _, request in matching], block, place), open_places)


def _why_not(answered: Iterable[HumanRequest], block: str | None, place: str | None) -> str:
    places = [request.place for request in answered]
    if places:
        return f"has an answer already at {', '.join(places)}, and the first one stands"
    which = " and ".join(f"{name} {value!r}" for name, value in (("block", block), ("place", place)) if value)
    return f"waits for no answer of {which}" if which else "waits for no answer"


def checked(request: HumanRequest, answer: object) -> Any:  # noqa: ANN401 - JSON data
    """`answer` as data for a stored request; OutputError if it is invalid."""
    if request.schema is None:
        return parse_text(answer, block=request.block)
    return checked_against(request.schema, answer, block=request.block)
