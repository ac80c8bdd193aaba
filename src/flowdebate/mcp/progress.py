"""Progress notifications for a run: the current speaker, the round, and the number of calls made."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from flowdebate.chassis.state import RoundStarted, TurnStarted
from flowdebate.prompts import tag_name
from flowdebate.runs.events import CallStarted, HumanAsked, ModelCalled
from flowdebate.ui.live import Live

if TYPE_CHECKING:
    from mcp.server.mcpserver import Context

    from flowdebate.service.service import Service
    from flowdebate.service.state import RunDetails
    from flowdebate.ui.document import Document


async def wait_with_progress(service: Service, run_id: str, seconds: float, ctx: Context[Any, Any]) -> RunDetails:
    """Wait up to `seconds` for the run to end or to need a person's input, reporting progress to the client.

    Raise RunNotFound for an unknown run. Cancelling the call does not cancel the run.
    """
    before = await service.run(run_id)
    if seconds <= 0 or before.status not in ("queued", "running"):
        return before
    telling = asyncio.create_task(_report_progress(service, before, ctx))
    try:
        after = await service.wait(run_id, seconds)
        if after.status != "running":
            await asyncio.wait({telling}, timeout=_LAST)
        return after
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)


_LAST = 1.0
"""Time, in seconds, to wait for the last messages of a run that has ended."""


async def _report_progress(service: Service, run: RunDetails, ctx: Context[Any, Any]) -> None:
    progress = Progress(_usual_calls(run.document))
    usage = None if run.document is None else run.document.usage
    reported, last = 0 if usage is None else usage.calls, -1.0
    async with aclosing(service.follow(run.run_id)) as updates:
        async for update in updates:
            if update.kind == "reset":
                progress = Progress(progress.usual)
            # The stream starts at the beginning of the run, so skip calls that have already been reported: progress may
            # only increase.
            elif update.kind == "event" and progress.follow(update.event) and progress.calls >= reported:
                # When a new speaker begins between two calls, report a fraction of the next call.
                value = float(progress.calls) if progress.calls > last else (last + progress.calls + 1) / 2
                if value > last:
                    await ctx.report_progress(value, progress.total_for(value), progress.message)
                    last = value


class Progress:
    """A run's progress, derived from its events."""

    def __init__(self, usual: int | None) -> None:
        self.usual = usual
        """Estimated number of calls in the run; None if unknown."""
        self.calls: int = 0
        self._live = Live()
        self._who = ""

    def follow(self, event: object) -> bool:
        """Process `event`, and return whether there is progress to report."""
        self._live.take(event)
        match event:
            # a phase may have a different number of turns, so the estimate no longer holds
            case RoundStarted() if event.phase is not None:
                self.usual = None
                return False
            case TurnStarted():
                self._who = f"{tag_name(event.agent_name)} speaks"
            case CallStarted() if not self._live.has_spoken(event.block):
                self._who = f"{tag_name(event.role or event.block)} is asked"
            case ModelCalled():
                self.calls += 1
            case HumanAsked():
                self._who = "a person is asked"
            case _:
                return False
        return True

    def total_for(self, value: float) -> int | None:
        """Return the expected number of calls, or None once `value` exceeds it, so that no progress bar passes 100%."""
        return self.usual if self.usual is not None and value <= self.usual else None

    @property
    def message(self) -> str:
        """Message naming the current speakers and their round.

        >>> from flowdebate.chassis.state import RoundStarted
        >>> progress = Progress(5)
        >>> _ = progress.follow(RoundStarted(round=2, max_rounds=2))
        >>> _ = progress.follow(TurnStarted(block="debate-debater-ben", round=2, agent_name="ben"))
        >>> progress.message
        'ben speaks, round 2 of 2'
        """
        current = self._live.round
        of = f"round {current.round} of {current.max_rounds}" if current is not None else ""
        return ", ".join(part for part in (self._who, of) if part)


def _usual_calls(document: Document | None) -> int | None:
    """Estimate how many calls a run makes: one per speaker in each round, plus those for the result."""
    if document is None or not (speakers := getattr(document, document.ROSTER, None)):
        return None
    last = document.last_calls
    if turns := getattr(document, "max_turns", None):
        return int(turns) + last
    rounds = getattr(document, "max_rounds", None)
    return len(speakers) * rounds + last if rounds else None
