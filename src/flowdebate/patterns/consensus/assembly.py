"""Assembly of a consensus debate: its phases from top to bottom, and the lifecycle around them."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from flowdebate._util.text import one_line
from flowdebate.blocks.base import Block
from flowdebate.blocks.handler import as_block
from flowdebate.blocks.human.prompt import render_who, with_answer_schema
from flowdebate.blocks.sequencer import Sequencer, sequencer
from flowdebate.errors import error_text
from flowdebate.patterns.consensus.agent_calls import AgentCalls, Phase, circuits
from flowdebate.patterns.consensus.agents import Who, create_critic, create_proposer, create_reviser, create_voter
from flowdebate.patterns.consensus.events import DebateEnded, DebateStarted
from flowdebate.patterns.consensus.output import analyse, build_output
from flowdebate.patterns.consensus.phases.archive import gather_context, give_feedback
from flowdebate.patterns.consensus.phases.ending import check_convergence, conclusive_judge, rounds_go_on, time_is_up
from flowdebate.patterns.consensus.phases.rounds import (
    CRITICISING,
    PROPOSING,
    REVISING,
    ask_for_critiques,
    ask_for_proposals,
    ask_for_revisions,
    check_proposals,
    open_round,
)
from flowdebate.patterns.consensus.phases.vote import VOTING, ask_for_votes, count_votes
from flowdebate.patterns.consensus.schemas import ConsensusInput, ConsensusOutput, ConsensusState, Feedback
from flowdebate.patterns.consensus.stages import ConsensusStage, stage_block
from flowdebate.patterns.loop import input_validator
from flowdebate.patterns.output import publish, stamp_subject
from flowdebate.patterns.recording import AUDIT
from flowdebate.resources.tasks.collection import create_task_collection

if TYPE_CHECKING:
    from flowdebate.blocks.outline import Outline
    from flowdebate.patterns.consensus.options import Options
    from flowdebate.patterns.roster import Persona
    from flowdebate.runs.context import Context
    from flowdebate.runs.events import RunStatus

__all__ = ("assemble",)

_S = ConsensusStage


def assemble(options: Options) -> Sequencer[Any, ConsensusOutput]:
    """The debate as a block."""
    return (
        sequencer(
            name=options.name,
            state=ConsensusState,
            owns=[create_task_collection(options.collection_id, key=AUDIT), circuits(options.breakers)],
            accepts=input_validator(options.where, ConsensusInput),
            model=options.model,
        )
        .tap(stamp_subject(options.name, lambda ctx, status: build_output(options, ctx, status)))
        .then(ConsensusLifecycle(options, _phases(options)))
    )


def _phases(options: Options) -> Sequencer[Any, Any]:
    name, names = options.name, options.names
    opening = open_round(options)
    pipeline = (
        sequencer(name=f"{name}-phases")
        .tap(stage_block(name, _S.START, _S.INITIALIZING))
        .tap(gather_context(options))
        .tap(stage_block(name, _S.CONTEXT_READY, _S.GENERATING_PROPOSALS))
        .tap_each(_calls(options, PROPOSING, create_proposer), over=ask_for_proposals(names))
        .tap(check_proposals(name, names))
        .tap(opening)
        .tap_each(_calls(options, CRITICISING, create_critic), over=ask_for_critiques)
        .tap(stage_block(name, _S.ROUND_N_REVISION))
        .tap_each(_calls(options, REVISING, create_reviser), over=ask_for_revisions(names))
        .tap(check_convergence(options))
    )
    if options.judge is not None:
        pipeline = pipeline.tap(conclusive_judge(options, options.judge))
    return (
        pipeline.loop_back(opening.name, when=rounds_go_on(options), max_iterations=options.max_rounds, label="round")
        .tap(stage_block(name, _S.ROUNDS_COMPLETE, _S.VOTING))
        .tap_each(_calls(options, VOTING, create_voter), over=ask_for_votes(names))
        .tap(count_votes(options))
    )


def _calls(options: Options, phase: Phase, create: Any) -> AgentCalls:  # noqa: ANN401 - one of the factories
    """The calls of a phase: of the agents' own blocks, or of default ones."""
    agents = {agent.name: _block(options, agent, phase, create) for agent in options.roster}
    return AgentCalls(f"{options.name}-{phase.name}", phase=phase, agents=agents, timeout=options.turn_timeout)


def _block(options: Options, agent: Persona, phase: Phase, create: Any) -> Block[Any, Any]:  # noqa: ANN401 - see _calls
    if agent.block is not None:
        name = f"{options.name}-agent-{agent.name}"
        block = as_block(agent.block, name=name, where=options.where, field=f"block of {agent.name!r}")
        return with_answer_schema(block, who=render_who(agent.name, role=agent.role))
    given = dict(options.defaults) if agent.model is None else {**options.defaults, "model": agent.model}
    if phase.name == "vote":
        given |= {"choices": options.names, "shuffle": options.shuffle}
    who = Who(name=agent.name, role=agent.role, system_prompt=agent.system_prompt)
    return create(name=options.name, agent=who, **given)  # type: ignore[no-any-return]  # all of them make generators


class ConsensusLifecycle(Block[ConsensusInput, ConsensusOutput]):
    """Runs the phases within the debate's time; makes the output, of what was done by then, with its feedback."""

    def __init__(self, options: Options, phases: Block[Any, Any]) -> None:
        super().__init__(phases.name, resources=phases.resources, hidden=phases.hidden)
        self._options = options
        self._phases = phases

    async def act(self, value: ConsensusInput, ctx: Context, /) -> ConsensusOutput:
        began = time.perf_counter()
        names, path = tuple(self._options.names), ctx.sequencer.path
        ctx.emit(DebateStarted(task=value.task, agents=names, max_rounds=self._options.max_rounds, path=path))
        error: str | None = None
        try:
            await self._run_phases(value, ctx)
            return await self._finished(ctx, began)
        except BaseException as failure:
            error = error_text(failure)
            raise
        finally:
            state: ConsensusState = ctx.sequencer.state
            ctx.emit(DebateEnded(outcome=state.outcome, rounds=len(state.rounds), error=error, path=path))

    async def _run_phases(self, value: ConsensusInput, ctx: Context) -> None:
        """Run the phases; if the debate's time is up first, what was done until then stays done."""
        time_limit = asyncio.timeout(self._options.timeout)
        try:
            async with time_limit:
                await self._phases.act(value, ctx)
        except Exception:
            if not time_limit.expired():
                raise
            if ctx.sequencer.state.tally is None:
                time_is_up(ctx, self._options.timeout)
                ctx.run.degrade("limit")

    async def _finished(self, ctx: Context, began: float) -> ConsensusOutput:
        state: ConsensusState = ctx.sequencer.state
        status: RunStatus = "degraded" if state.losses or state.problems else "complete"
        output = build_output(self._options, ctx, "limit" if state.tally is None else status)
        if output.tally is not None:
            output = await self._with_aftermath(output, ctx, began)
        publish(output, ctx)
        return output

    async def _with_aftermath(self, output: ConsensusOutput, ctx: Context, began: float) -> ConsensusOutput:
        """`output` with analytics and feedback; a failure of either neither changes nor loses the answer."""
        problems = list(ctx.sequencer.state.problems)
        try:
            output = output.model_copy(update={"analytics": analyse(output, time.perf_counter() - began)})
        except Exception as error:  # noqa: BLE001 - the answer stands
            problems.append(f"analytics: {one_line(error_text(error))}")
        try:
            feedback = await give_feedback(self._options, output, ctx)
        except Exception as error:  # noqa: BLE001 - the answer stands
            feedback = Feedback(problems=[f"feedback: {one_line(error_text(error))}"])
        feedback = feedback.model_copy(update={"problems": [*problems, *feedback.problems]})
        return output.model_copy(update={"feedback": feedback})

    def outline(self) -> Outline:
        return self._phases.outline()
