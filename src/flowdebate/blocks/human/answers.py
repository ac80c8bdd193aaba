"""Answering for a human: what a run that came to a stand waits for, and the answers that let it go on."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from flowdebate.blocks.human.data import as_said, checked_against
from flowdebate.errors import ConfigurationError, NotAwaited, RunConflict, StoreError, told
from flowdebate.runs.durable.journal import waited
from flowdebate.runs.durable.suspend import HumanRequest, answer_text, request_of
from flowdebate.runs.execute import run_sync
from flowdebate.store.open import open_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from flowdebate.store.base import StepRow, Store, StoredRun, StoredStatus
    from flowdebate.store.open import StoreChoice

__all__ = (
    "answer",
    "checked",
    "open_requests",
    "submit_answer_sync",
)

_TRIES, _PAUSE = 20, 0.05
"""How often, and with how many seconds between, a run is tried for that others answer in the same moment."""


async def open_requests(store: StoreChoice, run_id: str) -> list[HumanRequest]:
    """What the run waits for, by place; empty for one that waits for nobody. Raises RunNotFound."""
    found = _store(store)
    return [_request(found, run_id, row) for row in await found.steps(run_id) if _is_open(row)]


async def answer(
    store: StoreChoice,
    run_id: str,
    given: object,
    /,
    *,
    block: str | None = None,
    place: str | None = None,
) -> HumanRequest:
    """Record what a human answered, so that `resume(run_id)` can go on; gives the request that it was for.

    `given` is text or, where there is a schema, data or its JSON. Where the run waits for several answers, `block` (a
    name) or `place` says which one it is. The first answer stands.
    OutputError that names each field that does not fit; NotAwaited where the run waits for no such answer, or has it
    already; RunNotFound; RunConflict while somebody carries the run out.
    """
    recording = asyncio.ensure_future(_recorded(_store(store), run_id, given, block, place))
    cancelled = await waited(recording)
    if cancelled is not None and recording.exception() is None:
        raise cancelled
    return recording.result()


async def _recorded(found: Store, run_id: str, given: object, block: str | None, place: str | None) -> HumanRequest:
    checked(_chosen(found, run_id, await found.steps(run_id), block, place), given)  # before the run is touched
    stored = await _taken(found, run_id)
    after: StoredStatus = stored.status
    try:
        rows = await found.steps(run_id)
        request = _chosen(found, run_id, rows, block, place)
        data = checked(request, given)
        await found.commit(run_id, request.place, "human", answer_text(data, parked=True), time.time())
        if after in ("awaiting", "running"):
            after = "awaiting" if sum(map(_is_open, rows)) > 1 else "interrupted"
    finally:
        await found.finish(run_id, after, stored.outcome)
    return request


def submit_answer_sync(
    store: StoreChoice, run_id: str, given: object, /, *, block: str | None = None, place: str | None = None
) -> HumanRequest:
    """`answer`, for scripts and notebooks."""
    return run_sync(lambda: answer(store, run_id, given, block=block, place=place))


def _store(choice: StoreChoice) -> Store:
    found = open_store(choice, where="answer()")
    if found is None:
        raise ConfigurationError("answer()", "store", choice, "a store: the one in which the run is kept")
    return found


async def _taken(store: Store, run_id: str) -> StoredRun:
    """The run, owned: whoever answers in the same moment needs it for no more than that."""
    for _ in range(_TRIES):
        try:
            return await store.take(run_id)
        except RunConflict:
            await asyncio.sleep(_PAUSE)
    return await store.take(run_id)


def _is_open(row: StepRow) -> bool:
    return row.kind == "human" and row.body is None


def _request(store: Store, run_id: str, row: StepRow) -> HumanRequest:
    try:
        return request_of(row.key, row.request or "")
    except (ValueError, KeyError, TypeError) as error:
        problem = f"run {run_id}: what is asked at {row.key} cannot be read: {told(error)}"
        raise StoreError(store.name, problem) from error


def _chosen(store: Store, run_id: str, rows: Sequence[StepRow], block: str | None, place: str | None) -> HumanRequest:
    """The one request that is meant."""
    asked = [row for row in rows if row.kind == "human"]
    meant = [(row, _request(store, run_id, row)) for row in asked if place in (None, row.key)]
    meant = [(row, request) for row, request in meant if block in (None, request.block)]
    waiting = [request for row, request in meant if _is_open(row)]
    open_places = [row.key for row in asked if _is_open(row)]
    if len(waiting) == 1:
        return waiting[0]
    if waiting:
        raise NotAwaited(store.name, run_id, "waits for several answers, say which one this is", open_places)
    raise NotAwaited(store.name, run_id, _why_not([request for _, request in meant], block, place), open_places)


def _why_not(answered: Iterable[HumanRequest], block: str | None, place: str | None) -> str:
    places = [request.place for request in answered]
    if places:
        return f"has an answer already at {', '.join(places)}, and the first one stands"
    which = " and ".join(f"{name} {value!r}" for name, value in (("block", block), ("place", place)) if value)
    return f"waits for no answer of {which}" if which else "waits for no answer"


def checked(request: HumanRequest, given: object) -> Any:  # noqa: ANN401 - JSON data
    """`given` as an answer to a request of which there is only what a store keeps; OutputError if it does not fit."""
    if request.schema is None:
        return as_said(given, block=request.block)
    return checked_against(request.schema, given, block=request.block)
