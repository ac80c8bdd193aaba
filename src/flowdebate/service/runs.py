"""Runs of plans: begun, resumed and followed to their end, which always leaves a document."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from flowdebate.errors import FlowDebateError, StoreError
from flowdebate.service.documents import Tokens
from flowdebate.service.plan import plan_of, stored_plan
from flowdebate.service.policies import with_models

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from flowdebate.models.base import ModelRequest
    from flowdebate.runs.durable.journal import OnUncertain
    from flowdebate.runs.result import RunHandle
    from flowdebate.service.documents import Document
    from flowdebate.service.plan import Plan
    from flowdebate.store.base import StepRow, Store, StoredRun

__all__ = ("Ended", "begin", "document_of_handle", "ended", "replayed", "resume")


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A run that is over, one way or another."""

    document: Document
    failure: FlowDebateError | None = None
    limit: str | None = None
    """The field of `Limits` that ended it."""


async def begin(plan: Plan, store: Store | None) -> RunHandle[Any]:
    """Start a run of `plan`, which has begun when this returns; StoreError if `store` cannot take it."""
    from flowdebate.runs.durable.resume import StoreOptions

    handle = plan.pattern().start(
        plan.subject,
        model=plan.models,
        seed=plan.seed,
        limits=plan.limits,
        store=False if store is None else StoreOptions(store=store, plan=stored_plan(plan)),
    )
    try:
        await handle.begun()
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
    """Wait for the end of a run; CancelledError only where the caller was cancelled."""
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
    """The document of a run that is over."""
    from flowdebate.runs.events import RunFinished

    end = next((event for event in reversed(handle.events) if isinstance(event, RunFinished)), None)
    reached = end.error if end is not None and handle.status == "limit" else None
    usage = handle.usage
    return plan.document(
        handle.raw,
        output,
        status="interrupted" if handle.status == "running" else handle.status,
        error=reached if failure is None else str(failure),
        usage=Tokens(
            calls=usage.calls,
            prompt_tokens=usage.prompt_tokens,
            cached_tokens=usage.cached_tokens,
            completion_tokens=usage.completion_tokens,
        ),
        seconds=None if end is None else round(end.seconds, 3),
        seed=handle.seed,
        run_id=handle.run_id if stored else None,
    )


async def replayed(run: StoredRun, steps: Sequence[StepRow]) -> Document:
    """The document of a stored run as far as it came: no model is asked, and nothing of it changes."""
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
    """A model that ends the run which asks it."""

    name = "nobody"
    tells_attempts = True

    def __init__(self) -> None:
        self.stop: Callable[[], object] = bool

    async def request(self, _: ModelRequest, /) -> NoReturn:
        self.stop()
        await asyncio.Event().wait()
        raise AssertionError
