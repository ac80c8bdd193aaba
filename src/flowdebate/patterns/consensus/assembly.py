"""How a consensus debate is put together from its phases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowdebate.blocks.handler import as_block
from flowdebate.blocks.human.prompt import render_who
from flowdebate.blocks.human.roles import seated
from flowdebate.blocks.sequencer import Sequencer, sequencer
from flowdebate.patterns.consensus.agent_calls import AgentSeats, Phase, circuits
from flowdebate.patterns.consensus.agents import Who, create_critic, create_proposer, create_reviser, create_voter
from flowdebate.patterns.consensus.events import numbers
from flowdebate.patterns.consensus.lifecycle import ConsensusLifecycle
from flowdebate.patterns.consensus.output import output_of
from flowdebate.patterns.consensus.phases.context import gather_context
from flowdebate.patterns.consensus.phases.ending import another_round, check_convergence, judge_seat
from flowdebate.patterns.consensus.phases.proposals import PROPOSING, ask_for_proposals, check_proposals
from flowdebate.patterns.consensus.phases.rounds import (
    CRITICISING,
    REVISING,
    ask_for_critiques,
    ask_for_revisions,
    open_round,
)
from flowdebate.patterns.consensus.phases.vote import VOTING, ask_for_votes, count_votes
from flowdebate.patterns.consensus.schemas import ConsensusInput, ConsensusStage, ConsensusState
from flowdebate.patterns.consensus.stages import stage_block
from flowdebate.patterns.recording import AUDIT
from flowdebate.patterns.rounds import accept, begin
from flowdebate.resources.tasks.collection import create_task_collection

if TYPE_CHECKING:
    from flowdebate.blocks.base import Block
    from flowdebate.patterns.consensus.options import Options
    from flowdebate.patterns.roster import Persona
    from flowdebate.resources.resource import Resource

__all__ = ("assemble",)

_S = ConsensusStage


def assemble(options: Options) -> Sequencer[Any, Any]:
    """The debate as a block."""
    owned: list[Resource] = [
        create_task_collection(options.collection_id, key=AUDIT),
        numbers(),
        circuits(options.breakers),
    ]
    return (
        sequencer(
            name=options.name,
            state=ConsensusState,
            owns=owned,
            accepts=accept(options.where, ConsensusInput),
            model=options.model,
        )
        .tap(begin(options.name, lambda ctx, status: output_of(options, ctx, status)))
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
        .tap_each(_seats(options, PROPOSING, create_proposer), over=ask_for_proposals(names))
        .tap(check_proposals(name, names))
        .tap(opening)
        .tap_each(_seats(options, CRITICISING, create_critic), over=ask_for_critiques)
        .tap(stage_block(name, _S.ROUND_N_REVISION))
        .tap_each(_seats(options, REVISING, create_reviser), over=ask_for_revisions(names))
        .tap(check_convergence(options))
    )
    if options.judge is not None:
        pipeline = pipeline.tap(judge_seat(options, options.judge))
    return (
        pipeline.loop_back(opening.name, when=another_round(options), max_iterations=options.max_rounds, label="round")
        .tap(stage_block(name, _S.ROUNDS_COMPLETE, _S.VOTING))
        .tap_each(_seats(options, VOTING, create_voter), over=ask_for_votes(names))
        .tap(count_votes(options))
    )


def _seats(options: Options, phase: Phase, create: Any) -> AgentSeats:  # noqa: ANN401 - one of the factories
    """A phase's seats: the agents' own blocks, the default ones for the others."""
    agents = {agent.name: _block(options, agent, phase, create) for agent in options.roster}
    return AgentSeats(f"{options.name}-{phase.name}", phase=phase, agents=agents, timeout=options.turn_timeout)


def _block(options: Options, agent: Persona, phase: Phase, create: Any) -> Block[Any, Any]:  # noqa: ANN401 - see _seats
    if agent.block is not None:
        name = f"{options.name}-agent-{agent.name}"
        block = as_block(agent.block, name=name, where=options.where, field=f"block of {agent.name!r}")
        return seated(block, who=render_who(agent.name, role=agent.role))
    given = dict(options.defaults) if agent.model is None else {**options.defaults, "model": agent.model}
    if phase.name == "vote":
        given |= {"choices": options.names, "shuffle": options.shuffle}
    who = Who(name=agent.name, role=agent.role, system_prompt=agent.system_prompt)
    return create(name=options.name, agent=who, **given)  # type: ignore[no-any-return]  # all of them make generators
