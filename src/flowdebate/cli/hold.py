"""Holding what was planned: it is followed while it goes on, can be interrupted, and always leaves a document."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flowdebate.cli.document import Tokens
from flowdebate.cli.interrupt import Interrupts
from flowdebate.cli.streams import WriteFailed, writing
from flowdebate.errors import FlowDebateError

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable

    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.cli.begin import Begin
    from flowdebate.cli.document import Document
    from flowdebate.cli.live import LiveView
    from flowdebate.cli.plan import Plan
    from flowdebate.runs.result import RunHandle
    from flowdebate.runs.run import Run

__all__ = ("Held", "document_of_run", "hold")


@dataclass(frozen=True, kw_only=True)
class Held:
    """A run that is over, one way or another."""

    document: Document
    failure: FlowDebateError | None = None
    unwritten: WriteFailed | None = None
    """Why it could not be shown, in which case it was ended."""
    signal: signal.Signals | None = None
    """What interrupted it."""
    limit: str | None = None
    """Which limit ended it: a field of `Limits`."""
    view: LiveView | None = None
    """What it was shown on."""


def hold(plan: Plan, pattern: Sequencer[Any, Any], begin: Begin, make_view: Callable[[Plan], LiveView | None]) -> Held:
    """Run the `pattern` of `plan` to its end, on what `make_view` makes once it has begun."""
    return asyncio.run(_hold(plan, pattern, begin, make_view))


async def _hold(
    plan: Plan, pattern: Sequencer[Any, Any], begin: Begin, make_view: Callable[[Plan], LiveView | None]
) -> Held:
    from flowdebate.runs.execute import start_block

    run, value = await begin(plan, pattern)
    try:
        view = make_view(plan)
    except WriteFailed:
        if run.journal is not None:
            await run.journal.store.release(run.run_id)
        raise
    return await _attend(plan, run, start_block(pattern, value, run), view)


async def _attend(plan: Plan, run: Run, handle: RunHandle[Any], view: LiveView | None) -> Held:
    loop = asyncio.get_running_loop()
    failure: FlowDebateError | None = None
    unwritten: WriteFailed | None = None
    output: Any = None
    with Interrupts(lambda: loop.call_soon_threadsafe(handle.cancel)) as interrupts:
        try:
            await _follow(handle, view)
        except WriteFailed as error:
            unwritten = error
            handle.cancel()
        try:
            output = (await handle).output
        except FlowDebateError as error:
            failure = error
        except asyncio.CancelledError:
            if interrupts.received is None and unwritten is None:
                raise
    return Held(
        document=document_of_run(plan, run, handle, failure, output),
        failure=failure,
        unwritten=unwritten,
        signal=interrupts.received if handle.status == "interrupted" else None,
        limit=run.budget.raised[-1].kind if run.budget is not None and run.budget.raised else None,
        view=view,
    )


async def _follow(handle: RunHandle[Any], view: LiveView | None) -> None:
    if view is None:
        return
    view.attend(handle)
    async for event in handle:
        with writing():
            view.show(event)


def document_of_run(
    plan: Plan, run: Run, handle: RunHandle[Any], failure: FlowDebateError | None, output: object
) -> Document:
    """What is saved of a run that is over."""
    usage = handle.usage
    return plan.document(
        handle.raw,
        output,
        status="interrupted" if handle.status == "running" else handle.status,
        error=_why(handle) if failure is None else str(failure),
        usage=Tokens(
            calls=usage.calls,
            prompt_tokens=usage.prompt_tokens,
            cached_tokens=usage.cached_tokens,
            completion_tokens=usage.completion_tokens,
        ),
        seconds=_seconds(handle),
        seed=handle.seed,
        run_id=None if run.journal is None else run.run_id,
    )


def _why(handle: RunHandle[Any]) -> str | None:
    """Which limit ended it, where one did."""
    from flowdebate.runs.events import RunFinished

    told = (event.error for event in handle.events if isinstance(event, RunFinished))
    return next(told, None) if handle.status == "limit" else None


def _seconds(handle: RunHandle[Any]) -> float | None:
    from flowdebate.runs.events import RunFinished

    return next((round(event.seconds, 3) for event in handle.events if isinstance(event, RunFinished)), None)
