"""Output of a consensus debate, and the lifecycle that ends in it."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, get_args

from flowdebate._util.text import one_line
from flowdebate.blocks.base import Block
from flowdebate.errors import error_text
from flowdebate.patterns.consensus.archive import give_feedback
from flowdebate.patterns.consensus.events import DebateEnded, DebateStarted
from flowdebate.patterns.consensus.relations import analyse
from flowdebate.patterns.consensus.rounds import end_early, find_early_end
from flowdebate.patterns.consensus.schemas import AgentFailure, AgentPhase, ConsensusInput, ConsensusOutput, Feedback
from flowdebate.patterns.consensus.vote import confidence_heard, strength_heard
from flowdebate.patterns.output import publish

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.blocks.outline import Outline
    from flowdebate.patterns.consensus.factory import ConsensusOptions
    from flowdebate.patterns.consensus.schemas import ConsensusRound, ConsensusState
    from flowdebate.runs.context import Context
    from flowdebate.runs.events import RunStatus


class ConsensusLifecycle(Block[ConsensusInput, ConsensusOutput]):
    """Runs the phases within the debate's time; then builds the output, with analytics and feedback."""

    def __init__(self, options: ConsensusOptions, phases: Block[Any, Any]) -> None:
        super().__init__(phases.name, resources=phases.resources, hidden=phases.hidden)
        self._options = options
        self._phases = phases

    async def act(self, value: ConsensusInput, ctx: Context, /) -> ConsensusOutput:
        began, options, path = time.perf_counter(), self._options, ctx.scope.handle.path
        started = DebateStarted(task=value.task, agents=tuple(options.names), max_rounds=options.max_rounds, path=path)
        ctx.emit(started)
        error: str | None = None
        try:
            await self._run_phases(value, ctx)
            return await self._finish(ctx, began)
        except BaseException as failure:
            error = error_text(failure)
            raise
        finally:
            state: ConsensusState = ctx.scope.handle.state
            ctx.emit(DebateEnded(outcome=state.outcome, rounds=len(state.rounds), error=error, path=path))

    async def _run_phases(self, value: ConsensusInput, ctx: Context) -> None:
        """Run the phases; if the debate's time is up first, the output contains what was done by then."""
        time_limit = asyncio.timeout(self._options.timeout)
        try:
            async with time_limit:
                await self._phases.act(value, ctx)
        except Exception:
            if not time_limit.expired():
                raise
            state: ConsensusState = ctx.scope.handle.state
            if state.tally is None:
                if find_early_end(state) is None:
                    ctx.scope.handle.update(early_end=None, stop_reason="timeout")
                    end_early(ctx, "timeout", f"the debate may take {self._options.timeout:g} s")
                ctx.run.degrade("limit")

    async def _finish(self, ctx: Context, began: float) -> ConsensusOutput:
        """Publish the output; a failure of the analytics or of the archive does not change the answer."""
        state: ConsensusState = ctx.scope.handle.state
        status: RunStatus = "degraded" if state.losses or state.problems else "complete"
        if state.tally is None or not state.tally.valid:
            status = "limit" if state.tally is None else "no_verdict"
        output = build_output(self._options, ctx, status)
        if output.tally is not None:
            problems = list(state.problems)
            try:
                output = output.model_copy(update={"analytics": analyse(output, time.perf_counter() - began)})
            except Exception as error:  # noqa: BLE001 - the answer is there already
                problems.append(f"analytics: {one_line(error_text(error))}")
            try:
                feedback = await give_feedback(self._options, output, ctx)
            except Exception as error:  # noqa: BLE001 - the answer is there already
                feedback = Feedback(problems=[f"feedback: {one_line(error_text(error))}"])
            feedback = feedback.model_copy(update={"problems": [*problems, *feedback.problems]})
            output = output.model_copy(update={"feedback": feedback})
        return publish(output, ctx)

    def outline(self) -> Outline:
        return self._phases.outline()


def build_output(options: ConsensusOptions, ctx: Context, status: RunStatus) -> ConsensusOutput:
    """The output of the debate around a step as it is now; lists are in declared order, not in order of arrival."""
    state: ConsensusState = ctx.scope.handle.state
    names, counted, heard = options.names, state.tally, len(state.proposals)
    winner = None if counted is None else counted.winner

    def when(failure: AgentFailure) -> tuple[int, int, int, int]:
        target = -1 if failure.target is None else names.index(failure.target)
        round_ = failure.round + (failure.phase == "vote")  # votes come after the last round
        return round_, get_args(AgentPhase).index(failure.phase), names.index(failure.agent), target

    return ConsensusOutput(
        task=state.question,
        outcome=state.outcome,
        answer=None if winner is None else state.proposals[winner].text,
        winner=winner,
        strength=None if counted is None else strength_heard(counted, heard=heard),
        confidence=0.0 if counted is None else confidence_heard(counted, heard=heard),
        context=state.context,
        proposals=[state.first[name] for name in names if name in state.first],
        rounds=[_sort_round(one, names) for one in state.rounds],
        final_proposals=[state.proposals[name] for name in names if name in state.proposals],
        ballots=[state.ballots[name] for name in names if name in state.ballots],
        tally=counted,
        early_end=find_early_end(state),
        failures=sorted(state.failures, key=when),
        judge_losses=[loss for loss in state.losses if not isinstance(loss, AgentFailure)],
        stages=list(state.stages),
        status=status,
        seed=ctx.seed,
    )


def _sort_round(one: ConsensusRound, names: Sequence[str]) -> ConsensusRound:
    order = {edge: index for index, edge in enumerate(one.edges)}
    place = {name: index for index, name in enumerate(names)}
    return one.model_copy(
        update={
            "critiques": sorted(one.critiques, key=lambda critique: order[critique.critic, critique.target]),
            "revisions": sorted(one.revisions, key=lambda revised: place[revised.agent]),
            "enough": sorted(one.enough, key=place.__getitem__),
            "poll": sorted(one.poll, key=lambda ballot: place[ballot.voter]),
        }
    )
