"""Phase 1: every agent proposes, all at once; each proposal is kept and told as soon as it is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowdebate._util.text import is_blank
from flowdebate.blocks.handler import Handler, handler
from flowdebate.errors import NoProposals, OutputError
from flowdebate.patterns.consensus.agent_calls import Phase
from flowdebate.patterns.consensus.events import AgentMessage, announce
from flowdebate.patterns.consensus.schemas import ConsensusStage, Proposal, ProposalAsked
from flowdebate.patterns.consensus.stages import enter
from flowdebate.patterns.recording import text_said

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.patterns.consensus.schemas import ConsensusState
    from flowdebate.runs.context import Context

__all__ = (
    "PROPOSING",
    "ask_for_proposals",
    "check_proposals",
)


def ask_for_proposals(names: list[str]) -> Callable[[object, Context], list[ProposalAsked]]:
    """What the phase asks: each agent for a proposal."""

    def asks(_: object, ctx: Context) -> list[ProposalAsked]:
        task = ctx.sequencer.state.question
        return [ProposalAsked(task=task, agent=agent) for agent in names]

    return asks


def check_proposals(name: str, agents: list[str]) -> Handler[Any, None]:
    """A tap that closes the phase; NoProposals where nobody has proposed anything."""

    @handler(name=f"{name}-check-proposals")
    def check(_: object, ctx: Context) -> None:
        state = ctx.sequencer.state
        if not state.proposals:
            errors = {failure.agent: failure.error for failure in state.failures}
            raise NoProposals(name, {agent: errors[agent] for agent in agents})
        enter(ConsensusStage.PROPOSALS_COMPLETE, ctx)

    return check


def _read(answer: object, block: str, asked: ProposalAsked, ctx: Context) -> str:
    text = text_said(answer, asked.agent, ctx)
    if is_blank(text):
        raise OutputError(block, "a proposal", [("", "got blank text")])
    return text


def _keep(text: str, asked: ProposalAsked, ctx: Context) -> str:
    state: ConsensusState = ctx.sequencer.state
    proposal = Proposal.model_construct(agent=asked.agent, text=text, round=0, position=None)
    state.first[asked.agent] = state.proposals[asked.agent] = proposal
    announce(ctx, AgentMessage, agent=asked.agent, phase="proposal", round=0, text=text)
    return text


PROPOSING = Phase(name="proposal", read=_read, keep=_keep)
