"""Proposals, then rounds of critique and revision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowdebate._util.text import clean_data, is_blank
from flowdebate.blocks.handler import Handler, handler
from flowdebate.errors import NoProposals, OutputError
from flowdebate.measures.topologies import edges
from flowdebate.patterns.consensus.agent_calls import Phase, breakers_of
from flowdebate.patterns.consensus.events import AgentMessage, CritiqueMade
from flowdebate.patterns.consensus.schemas import (
    ConsensusRound,
    CriticAnswer,
    Critique,
    CritiqueAsked,
    Proposal,
    ProposalAsked,
    RevisionAnswer,
    RevisionAsked,
)
from flowdebate.patterns.consensus.stages import ConsensusStage, enter
from flowdebate.patterns.events import RoundStarted
from flowdebate.patterns.recording import text_said
from flowdebate.patterns.state import as_model

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.patterns.consensus.options import Options
    from flowdebate.patterns.consensus.schemas import ConsensusState
    from flowdebate.runs.context import Context

__all__ = (
    "CRITICISING",
    "PROPOSING",
    "REVISING",
    "ask_for_critiques",
    "ask_for_proposals",
    "ask_for_revisions",
    "check_proposals",
    "critiques_made",
    "current_round",
    "open_round",
)


def ask_for_proposals(names: list[str]) -> Callable[[object, Context], list[ProposalAsked]]:
    """The questions of the phase: each agent is asked for a proposal."""

    def asks(_: object, ctx: Context) -> list[ProposalAsked]:
        task = ctx.sequencer.state.question
        return [ProposalAsked(task=task, agent=agent) for agent in names]

    return asks


def check_proposals(name: str, agents: list[str]) -> Handler[Any, None]:
    """A tap that ends the phase; NoProposals if nobody has proposed anything."""

    @handler(name=f"{name}-check-proposals")
    def check(_: object, ctx: Context) -> None:
        state = ctx.sequencer.state
        if not state.proposals:
            errors = {failure.agent: failure.error for failure in state.failures}
            raise NoProposals(name, {agent: errors[agent] for agent in agents})
        enter(ConsensusStage.PROPOSALS_COMPLETE, ctx)

    return check


def _read_proposal(answer: object, block: str, asked: ProposalAsked, ctx: Context) -> str:
    text = text_said(answer, asked.agent, ctx)
    if is_blank(text):
        raise OutputError(block, "a proposal", [("", "got blank text")])
    return text


def _keep_proposal(text: str, asked: ProposalAsked, ctx: Context) -> str:
    state: ConsensusState = ctx.sequencer.state
    proposal = Proposal.model_construct(agent=asked.agent, text=text, round=0, position=None)
    state.first[asked.agent] = state.proposals[asked.agent] = proposal
    ctx.emit(AgentMessage(agent=asked.agent, phase="proposal", round=0, text=text, path=ctx.path))
    return text


PROPOSING = Phase(name="proposal", read=_read_proposal, keep=_keep_proposal)


def open_round(options: Options) -> Handler[Any, None]:
    """A tap that opens the next round, and decides who criticises whom."""

    @handler(name=f"{options.name}-open-round")
    def opening(_: object, ctx: Context) -> None:
        state: ConsensusState = ctx.sequencer.state
        number = state.round + 1
        available = set(breakers_of(ctx).available(options.names))
        names = [name for name in options.names if name in available or name in state.proposals]
        chosen = edges(
            options.topology,
            names,
            round=number,
            random=ctx.random,
            hub=options.hub if options.hub in names else None,
            sparsity=options.sparsity,
            targets=state.proposals,
            critics=available,
        )
        opened = ConsensusRound.model_construct(
            round=number, edges=chosen, critiques=[], revisions=[], enough=[], convergence=None
        )
        state.rounds.append(opened)
        ctx.sequencer.update(round=number)
        ctx.emit(RoundStarted(round=number, max_rounds=options.max_rounds, path=ctx.path))
        enter(ConsensusStage.ROUND_N_CRITIQUE, ctx)

    return opening


def current_round(ctx: Context) -> ConsensusRound:
    """The round in progress."""
    latest: ConsensusRound = ctx.sequencer.state.rounds[-1]
    return latest


def critiques_made(ctx: Context) -> list[Critique]:
    """This round's critiques in the order of its edges, whatever order they came in."""
    latest = current_round(ctx)
    order = {edge: index for index, edge in enumerate(latest.edges)}
    return sorted(latest.critiques, key=lambda critique: order[critique.critic, critique.target])


def ask_for_critiques(_: object, ctx: Context) -> list[CritiqueAsked]:
    """The questions of the phase: each critic is asked about each of its targets."""
    state: ConsensusState = ctx.sequencer.state
    return [
        CritiqueAsked(task=state.question, agent=critic, proposal=state.proposals[target], round=state.round)
        for critic, target in current_round(ctx).edges
    ]


def ask_for_revisions(names: list[str]) -> Callable[[object, Context], list[RevisionAsked]]:
    """The questions of the phase: each author whose proposal was criticised is asked to revise it."""

    def asks(_: object, ctx: Context) -> list[RevisionAsked]:
        state: ConsensusState = ctx.sequencer.state
        made = critiques_made(ctx)
        about = {name: [item for item in made if item.target == name] for name in names}
        return [
            RevisionAsked(
                task=state.question,
                agent=name,
                proposal=state.proposals[name],
                critiques=about[name],
                round=state.round,
            )
            for name in names
            if about[name]
        ]

    return asks


def _read_critique(answer: object, block: str, asked: CritiqueAsked, _: Context) -> Critique:
    said = as_model(answer, CriticAnswer, block=block)
    return Critique.model_construct(
        critic=asked.agent,
        target=asked.proposal.agent,
        round=asked.round,
        **clean_data({key: getattr(said, key) for key in CriticAnswer.model_fields}),
    )


def _keep_critique(critique: Critique, _: CritiqueAsked, ctx: Context) -> Critique:
    current_round(ctx).critiques.append(critique)
    ctx.emit(CritiqueMade(critique=critique, path=ctx.path))
    return critique


def _read_revision(answer: object, block: str, asked: RevisionAsked, _: Context) -> tuple[Proposal, bool]:
    said = as_model({"proposal": answer} if isinstance(answer, str) else answer, RevisionAnswer, block=block)
    if is_blank(said.proposal):
        raise OutputError(block, "a revised proposal", [("proposal", "got blank text")])
    revised = Proposal.model_construct(
        agent=asked.agent,
        round=asked.round,
        **clean_data({"text": said.proposal, "position": said.position.strip() or None}),
    )
    return revised, said.enough


def _keep_revision(revised: tuple[Proposal, bool], asked: RevisionAsked, ctx: Context) -> str:
    proposal, enough = revised
    latest = current_round(ctx)
    latest.revisions.append(proposal)
    if enough:
        latest.enough.append(asked.agent)
    ctx.sequencer.state.proposals[asked.agent] = proposal
    said = AgentMessage(agent=asked.agent, phase="revision", round=asked.round, text=proposal.text, path=ctx.path)
    ctx.emit(said)
    return proposal.text


CRITICISING = Phase(name="critique", read=_read_critique, keep=_keep_critique)
REVISING = Phase(name="revision", read=_read_revision, keep=_keep_revision)
