"""From the first event to the last: the phases within their time, then the output, analytics and feedback."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from flowdebate._util.text import one_line
from flowdebate.blocks.base import Block
from flowdebate.errors import told
from flowdebate.patterns.consensus.events import DebateEnded, DebateStarted, announce
from flowdebate.patterns.consensus.output import output_of
from flowdebate.patterns.consensus.phases.analytics import analysed
from flowdebate.patterns.consensus.phases.ending import end_early
from flowdebate.patterns.consensus.phases.feedback import give_feedback
from flowdebate.patterns.consensus.schemas import ConsensusInput, ConsensusOutput, Feedback
from flowdebate.patterns.rounds import finish

if TYPE_CHECKING:
    from flowdebate.blocks.outline import Outline
    from flowdebate.patterns.consensus.options import Options
    from flowdebate.patterns.consensus.schemas import ConsensusState
    from flowdebate.runs.context import Context
    from flowdebate.runs.events import RunStatus

__all__ = ("ConsensusLifecycle",)


class ConsensusLifecycle(Block[ConsensusInput, ConsensusOutput]):
    """Holds `phases`, and gives what they came to: also when the debate's time is up before they are over."""

    def __init__(self, options: Options, phases: Block[Any, Any]) -> None:
        super().__init__(phases.name, resources=phases.resources, hidden=phases.hidden)
        self._options = options
        self._phases = phases

    async def act(self, value: ConsensusInput, ctx: Context, /) -> ConsensusOutput:
        began = time.perf_counter()
        announce(ctx, DebateStarted, task=value.task, agents=tuple(self._options.names))
        error: str | None = None
        try:
            await self._hold(value, ctx)
            return await self._wind_up(ctx, began)
        except BaseException as failure:
            error = told(failure)
            raise
        finally:
            state: ConsensusState = ctx.sequencer.state
            counted = state.tally
            outcome = None if counted is None else "consensus" if counted.reached else "no_consensus"
            announce(ctx, DebateEnded, outcome=outcome, rounds=len(state.rounds), error=error)

    async def _hold(self, value: ConsensusInput, ctx: Context) -> None:
        """The phases, for as long as the debate may take; what was done until then stays done."""
        time_limit = asyncio.timeout(self._options.timeout)
        try:
            async with time_limit:
                await self._phases.act(value, ctx)
        except Exception:
            if not time_limit.expired():
                raise
            if ctx.sequencer.state.tally is None:
                end_early(ctx, "timeout", f"the debate may take {self._options.timeout:g} s")
                ctx.run.degrade("limit")

    async def _wind_up(self, ctx: Context, began: float) -> ConsensusOutput:
        """The output; what comes after it adds to it, and can neither change nor lose it."""
        state: ConsensusState = ctx.sequencer.state
        missing = bool(state.failures or state.losses or state.problems)
        status: RunStatus = "limit" if state.tally is None else "degraded" if missing else "complete"
        output = output_of(self._options, ctx, status)
        if output.tally is None:
            finish(ctx, output)
            return output
        problems = list(state.problems)
        try:
            output = output.model_copy(update={"analytics": analysed(output, time.perf_counter() - began)})
        except Exception as error:  # noqa: BLE001 - the answer stands
            problems.append(f"analytics: {one_line(told(error))}")
        try:
            feedback = await give_feedback(self._options, output, ctx)
        except Exception as error:  # noqa: BLE001 - the answer stands
            feedback = Feedback(problems=[f"feedback: {one_line(told(error))}"])
        feedback = feedback.model_copy(update={"problems": [*problems, *feedback.problems]})
        output = output.model_copy(update={"feedback": feedback})
        finish(ctx, output)
        return output

    def outline(self) -> Outline:
        return self._phases.outline()
