"""Holding a planned debate: it is followed while it goes on, can be interrupted, and always leaves a document."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flowdebate.cli.document import DebateDocument, Side, Tokens
from flowdebate.cli.interrupt import Interrupts
from flowdebate.cli.policies import with_policies
from flowdebate.cli.streams import WriteFailed, writing
from flowdebate.errors import FlowDebateError
from flowdebate.schemas import DebateRawOutput

if TYPE_CHECKING:
    import signal

    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.cli.live import LiveView
    from flowdebate.cli.plan import Plan
    from flowdebate.runs.result import RunHandle

__all__ = ("NAME", "Held", "hold", "sides_of")

NAME = "debate"
"""What the debate is called in errors and events."""


@dataclass(frozen=True, kw_only=True)
class Held:
    """A debate that is over, one way or another."""

    document: DebateDocument
    failure: FlowDebateError | None = None
    unwritten: WriteFailed | None = None
    """Why it could not be shown, in which case it was ended."""
    signal: signal.Signals | None = None
    """What interrupted it."""


def hold(plan: Plan, view: LiveView | None) -> Held:
    """Hold the debate to its end; ConfigurationError, before it begins, for what cannot be debated."""
    plan = with_policies(plan, name=NAME)
    return asyncio.run(_hold(plan, _debate(plan), view))


def sides_of(plan: Plan) -> list[Side]:
    """The debaters, as they are shown and saved."""
    return [Side(name=debater.name, stance=debater.stance, role=debater.role) for debater in plan.debaters]


def _debate(plan: Plan) -> Sequencer[Any, Any]:
    from flowdebate.blocks.moderator import create_moderator
    from flowdebate.patterns.debate import debate
    from flowdebate.resources.transcript import create_debate_transcript

    transcript = create_debate_transcript()
    moderator = None
    if plan.moderator:
        moderator = create_moderator(
            name=NAME,
            roster_names=[debater.name for debater in plan.debaters],
            transcript=transcript,
            max_rounds=plan.rounds,
            instructions=plan.instructions,
        )
    return debate(
        name=NAME,
        debaters=plan.debaters,
        max_rounds=plan.rounds,
        moderator=moderator,
        synthesizer=None if plan.synthesize else False,
        transcript=transcript,
        output_schema=plan.schema,
        instructions=plan.instructions,
        on_failure="skip" if plan.skips else "fail",
    )


async def _hold(plan: Plan, pattern: Sequencer[Any, Any], view: LiveView | None) -> Held:
    loop = asyncio.get_running_loop()
    handle = pattern.start(plan.question, model=plan.models, seed=plan.seed, limits=plan.limits)
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
        document=_document(plan, handle, failure, output if plan.synthesize else None),
        failure=failure,
        unwritten=unwritten,
        signal=interrupts.received if handle.status == "interrupted" else None,
    )


async def _follow(handle: RunHandle[Any], view: LiveView | None) -> None:
    if view is None:
        return
    async for event in handle:
        with writing():
            view.show(event)


def _document(plan: Plan, handle: RunHandle[Any], failure: FlowDebateError | None, output: object) -> DebateDocument:
    usage = handle.usage
    nothing = DebateRawOutput(
        rounds=0, question=plan.question, transcript=[], verdict=None, stop_reason=None, status="interrupted"
    )
    raw: DebateRawOutput = handle.raw or nothing.model_copy(update={"seed": handle.seed})  # ended before it began
    return DebateDocument(
        status="interrupted" if handle.status == "running" else handle.status,
        error=_why(handle) if failure is None else str(failure),
        debaters=sides_of(plan),
        max_rounds=plan.rounds,
        raw=raw,
        output=output,
        usage=Tokens(
            calls=usage.calls,
            prompt_tokens=usage.prompt_tokens,
            cached_tokens=usage.cached_tokens,
            completion_tokens=usage.completion_tokens,
        ),
        seconds=_seconds(handle),
        seed=handle.seed,
    )


def _why(handle: RunHandle[Any]) -> str | None:
    """Which limit ended it, where one did."""
    from flowdebate.runs.events import RunFinished

    told = (event.error for event in handle.events if isinstance(event, RunFinished))
    return next(told, None) if handle.status == "limit" else None


def _seconds(handle: RunHandle[Any]) -> float | None:
    from flowdebate.runs.events import RunFinished

    return next((round(event.seconds, 3) for event in handle.events if isinstance(event, RunFinished)), None)
