"""Proposals, rounds of critique and revision, and the end of the rounds."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from typing import TYPE_CHECKING, Any

from flowdebate._util.frozen import frozen
from flowdebate._util.text import CutOff, clean_data, clean_text, is_blank, one_line
from flowdebate.blocks.handler import Handler, handler
from flowdebate.errors import NoProposals, OutputError, OutputTruncated, error_text
from flowdebate.measures import Convergence, Jaccard, convergence
from flowdebate.measures.topologies import Edge, edges
from flowdebate.patterns.consensus.agent_calls import Phase, breakers_of
from flowdebate.patterns.consensus.events import AgentMessage, ConsensusStage, CritiqueMade, enter
from flowdebate.patterns.consensus.schemas import (
    LONGEST_POSITION,
    AgentFailure,
    ConsensusRound,
    CriticAnswer,
    Critique,
    CritiqueAsked,
    EarlyEnd,
    JudgeAnswer,
    Proposal,
    ProposalAsked,
    RevisionAnswer,
    RevisionAsked,
    RoundsAsked,
)
from flowdebate.patterns.events import RoundStarted
from flowdebate.patterns.roster import is_own
from flowdebate.patterns.rounds import AnotherRound, check_quorum
from flowdebate.patterns.state import accepted, as_model
from flowdebate.patterns.turn import guarded, record_failure, record_loss, start_clock, text_said

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.blocks.base import Block
    from flowdebate.blocks.handler import Function
    from flowdebate.patterns.consensus.assembly import ConsensusOptions
    from flowdebate.patterns.consensus.schemas import AgentPhase, ConsensusState
    from flowdebate.patterns.state import Flag, Recovery
    from flowdebate.runs.context import Context


def ask_for_proposals(options: ConsensusOptions) -> Callable[[object, Context], list[ProposalAsked]]:
    """The questions of the phase: each agent is asked for a proposal."""

    def asks(_: object, ctx: Context) -> list[ProposalAsked]:
        start_clock(options.failures, ctx)
        state: ConsensusState = ctx.scope.handle.state
        stated = not state.first_edition
        return [ProposalAsked(task=state.question, agent=agent, with_position=stated) for agent in options.names]

    return asks


def check_proposals(options: ConsensusOptions) -> Handler[Any, None]:
    """A tap that ends the phase; NoProposals if nobody has proposed anything, QuorumLost if too few have."""

    @handler(name=f"{options.name}-check-proposals")
    def check(_: object, ctx: Context) -> None:
        ctx.scope.handle.deadline = None
        state: ConsensusState = ctx.scope.handle.state
        if not state.proposals:
            errors = {failure.agent: failure.error for failure in state.failures}
            raise NoProposals(options.name, {agent: errors[agent] for agent in options.names})
        check_quorum(state, list(state.proposals), quorum=options.failures.quorum, block=ctx.block)
        enter(ConsensusStage.PROPOSALS_COMPLETE, ctx)

    return check


def _read_proposal(answer: object, block: str, asked: ProposalAsked, ctx: Context) -> Proposal:
    said = text_said(answer, asked.agent, ctx)
    text, position = split_position(said)
    if is_blank(text):
        raise OutputError(block, "a proposal", [("", "got blank text")])
    flag: Flag | None = "cut_off" if isinstance(said, CutOff) else None
    return Proposal.model_construct(agent=asked.agent, text=str(text), round=0, position=position, flag=flag)


_POSITION = re.compile(r"[\s>*_#-]*position[*_ \t]*:[*_ \t]*(.*)", re.IGNORECASE)


def split_position(text: str) -> tuple[str, str | None]:
    r"""`text` without its last line "Position: …", and that position; the whole text and None without such a line.

    >>> split_position("Cap rents at 3%.\n\n**Position:** a cap of 3%")
    ('Cap rents at 3%.', 'a cap of 3%')
    """
    said, _, last = text.rstrip().rpartition("\n")
    found = _POSITION.fullmatch(last) if len(last) <= LONGEST_POSITION else None
    position = "" if found is None else found[1].strip(" \t*_")
    return (text, None) if is_blank(position) or is_blank(said) else (said.rstrip(), position)


def lose_part(error: Exception, agent: str, ctx: Context, *, phase: AgentPhase, instead: Recovery) -> None:
    """Record an answer of `agent` that is there, and cut off or not counted."""
    failure = AgentFailure(
        name=agent,
        phase=phase,
        round=ctx.scope.handle.state.round,
        kind=type(error).__name__,
        error=one_line(error_text(error)),
        instead=instead,
    )
    record_loss(failure, error, ctx, block=ctx.block, phase=phase)


def _record_proposal(proposal: Proposal, asked: ProposalAsked, ctx: Context) -> str:
    state: ConsensusState = ctx.scope.handle.state
    state.first[asked.agent] = state.proposals[asked.agent] = proposal
    if proposal.flag is not None:
        error = OutputTruncated("the proposal was cut off before its end: give it more room (max_tokens)")
        lose_part(error, asked.agent, ctx, phase="proposal", instead=proposal.flag)
    ctx.emit(AgentMessage(agent=asked.agent, phase="proposal", round=0, text=proposal.text))
    return proposal.text


PROPOSING = Phase(name="proposal", read=_read_proposal, returns=Proposal, record=_record_proposal)


def open_round(options: ConsensusOptions) -> Handler[Any, None]:
    """A tap that opens the next round, and decides who criticises whom."""

    @handler(name=f"{options.name}-open-round")
    async def opening(_: object, ctx: Context) -> None:
        state: ConsensusState = ctx.scope.handle.state
        number = state.round + 1

        async def choose() -> list[Edge]:
            available = set(breakers_of(ctx).available(options.names))
            names = [name for name in options.names if name in available or name in state.proposals]
            return edges(
                options.topology,
                names,
                round=number,
                random=ctx.random,
                hub=options.hub if options.hub in names else None,
                sparsity=options.sparsity,
                targets=state.proposals,
                critics=available,
            )

        chosen = await (ctx.decide(choose, returns=list[Edge]) if callable(options.topology) else choose())
        opened = ConsensusRound.model_construct(
            round=number, edges=chosen, critiques=[], revisions=[], enough=[], convergence=None
        )
        state.rounds.append(opened)
        ctx.scope.handle.update(round=number)
        start_clock(options.failures, ctx)
        ctx.emit(RoundStarted(round=number, max_rounds=options.max_rounds))
        enter(ConsensusStage.ROUND_N_CRITIQUE, ctx)

    return opening


def current_round(ctx: Context) -> ConsensusRound:
    """The round in progress."""
    latest: ConsensusRound = ctx.scope.handle.state.rounds[-1]
    return latest


def _critiques_made(ctx: Context) -> list[Critique]:
    """This round's critiques in the order of its edges, not in order of arrival."""
    latest = current_round(ctx)
    order = {edge: index for index, edge in enumerate(latest.edges)}
    return sorted(latest.critiques, key=lambda critique: order[critique.critic, critique.target])


def ask_for_critiques(_: object, ctx: Context) -> list[CritiqueAsked]:
    """The questions of the phase: each critic is asked about each of its targets."""
    state: ConsensusState = ctx.scope.handle.state
    return [
        CritiqueAsked(task=state.question, agent=critic, proposal=state.proposals[target], round=state.round)
        for critic, target in current_round(ctx).edges
    ]


def ask_for_revisions(options: ConsensusOptions) -> Callable[[object, Context], list[RevisionAsked]]:
    """The questions of the phase: each author whose proposal was criticised is asked to revise it."""

    def asks(_: object, ctx: Context) -> list[RevisionAsked]:
        state: ConsensusState = ctx.scope.handle.state
        made = _critiques_made(ctx)
        about = {name: [item for item in made if item.target == name] for name in options.names}
        return [
            RevisionAsked(
                task=state.question,
                agent=name,
                proposal=state.proposals[name],
                critiques=frozen(about[name]),
                round=state.round,
            )
            for name in options.names
            if about[name]
        ]

    return asks


def _read_critique(answer: object, block: str, asked: CritiqueAsked, _: Context) -> Critique:
    said = as_model(answer, CriticAnswer, block=block)
    return Critique.model_construct(
        critic=asked.agent,
        target=asked.proposal.agent,
        round=asked.round,
        **frozen(clean_data({key: getattr(said, key) for key in CriticAnswer.model_fields})),
    )


def _record_critique(critique: Critique, _: CritiqueAsked, ctx: Context) -> Critique:
    current_round(ctx).critiques.append(critique)
    ctx.emit(CritiqueMade(critique=critique))
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


def _record_revision(revised: tuple[Proposal, bool], asked: RevisionAsked, ctx: Context) -> str:
    proposal, enough = revised
    latest = current_round(ctx)
    latest.revisions.append(proposal)
    if enough:
        latest.enough.append(asked.agent)
    ctx.scope.handle.state.proposals[asked.agent] = proposal
    said = AgentMessage(agent=asked.agent, phase="revision", round=asked.round, text=proposal.text)
    ctx.emit(said)
    return proposal.text


CRITICISING = Phase(name="critique", read=_read_critique, returns=Critique, record=_record_critique)
REVISING = Phase(name="revision", read=_read_revision, returns=tuple[Proposal, bool], record=_record_revision)


def check_convergence(options: ConsensusOptions) -> Handler[Any, None]:
    """A tap that measures how similar the proposals are; convergence, the agents or the budget may end the rounds."""

    @handler(name=f"{options.name}-convergence")
    async def check(_: object, ctx: Context) -> None:
        ctx.scope.handle.deadline = None
        enter(ConsensusStage.CONVERGENCE_CHECK, ctx)
        state: ConsensusState = ctx.scope.handle.state
        live = [name for name in options.names if name in state.proposals]
        measure = partial(_measured, options, state, live)
        own = not type(options.similarity).__module__.startswith("flowdebate.")
        found = await ctx.decide(measure, returns=Convergence) if own else await measure()
        latest = state.rounds[-1] = current_round(ctx).model_copy(update={"convergence": found})
        if found.status == "converged" and options.convergence is not None:
            end_early(ctx, "convergence", f"similarity {found.similarity:.2f} ({found.backend})")
        elif len(latest.enough) * 2 > len(live):
            reason = f"{len(latest.enough)} of {len(live)} think that another round would change nothing"
            end_early(ctx, "agents", reason)
        elif options.budget is not None and state.round < options.max_rounds:
            _check_budget(options, options.budget, ctx)

    return check


async def _measured(options: ConsensusOptions, state: ConsensusState, live: list[str]) -> Convergence:
    now = {name: state.proposals[name].text for name in live}
    before = {name: _before(name, state) for name in live}

    def measure() -> Convergence:
        return convergence(
            now,
            before,
            positions=state.positions or None,
            similarity=options.similarity,
            converged=1.0 if options.convergence is None else options.convergence,
            diverging=options.diverging,
        )

    # other measures load libraries and models: they must not block the event loop
    return measure() if isinstance(options.similarity, Jaccard) else await asyncio.to_thread(measure)


def _before(name: str, state: ConsensusState) -> str:
    """The agent's proposal before the round in progress."""
    for earlier in reversed(state.rounds[:-1]):
        for revised in earlier.revisions:
            if revised.agent == name:
                return revised.text
    return state.first[name].text


def conclusive_judge(options: ConsensusOptions, judge: Block[Any, Any]) -> Handler[Any, None]:
    """A tap that asks `judge` whether the discussion is conclusive, unless the rounds end anyway."""

    @handler(name=f"{options.name}-conclusive")
    async def ask(_: object, ctx: Context) -> None:
        state: ConsensusState = ctx.scope.handle.state
        if state.early_end is not None or state.round >= options.max_rounds:
            return
        asked = RoundsAsked(
            task=state.question,
            round=state.round,
            proposals=frozen([state.proposals[name] for name in options.names if name in state.proposals]),
            critiques=frozen(_critiques_made(ctx)),
        )
        answer = await ask_judge(judge, asked, options, ctx)
        if answer is None:
            return
        plain = {"conclusive": answer} if isinstance(answer, bool) else answer
        read = partial(as_model, plain, JudgeAnswer, block=judge.name)
        said = await accepted(read, ctx, returns=JudgeAnswer, own=is_own(judge))
        if said.conclusive:
            end_early(ctx, "judge", clean_text(said.reasoning))

    return ask


async def ask_judge(judge: Block[Any, Any], asked: object, options: ConsensusOptions, ctx: Context) -> Any:  # noqa: ANN401 - what it gives
    """The judge's answer, in time; None if its provider failed and failures are tolerated."""

    def recover(error: Exception, _: object, inside: Context) -> None:
        lose_judge(error, judge, inside)

    call = guarded(judge, options.failures, recover)
    return await call(asked, ctx.below(judge))


def lose_judge(error: Exception, judge: Block[Any, Any], ctx: Context) -> None:
    """Record that the debate goes on without the judge's answer."""
    record_failure(error, ctx, block=judge.name, role="judge", name=judge.name, instead="no_report")


def rounds_go_on(options: ConsensusOptions) -> Function:
    """The condition of the loop: whether there is another round."""

    def stops(state: ConsensusState) -> str | None:
        if state.round >= options.max_rounds:
            return "max_rounds"
        return None if state.early_end is None else state.early_end.source

    return AnotherRound(stop_reason=stops, terminate_when=options.terminate_when)


def early_end(state: ConsensusState) -> EarlyEnd | None:
    """The reason for which the rounds ended before `max_rounds`; None if they did not."""
    if state.stop_reason == "max_rounds":
        return None
    if state.stop_reason is None or state.early_end is not None:
        return state.early_end
    reason = "terminate_when" if state.stop_reason == "predicate" else state.stop_reason
    return EarlyEnd(source="predicate", reason=reason, round=state.round)


def time_is_up(ctx: Context, timeout: float | None) -> None:
    """Record that the debate took longer than `timeout`, unless its rounds ended early for another reason."""
    if early_end(ctx.scope.handle.state) is None:
        ctx.scope.handle.update(early_end=None, stop_reason="timeout")
        end_early(ctx, "timeout", f"the debate may take {timeout:g} s")


def end_early(ctx: Context, source: Any, reason: str) -> None:  # noqa: ANN401 - one of EarlyEnd's
    """Let the rounds end before `max_rounds`; the first reason counts."""
    state: ConsensusState = ctx.scope.handle.state
    if state.early_end is None:
        ctx.scope.handle.update(early_end=EarlyEnd(source=source, reason=reason, round=state.round))


def _check_budget(options: ConsensusOptions, budget: int, ctx: Context) -> None:
    """End the rounds if the judge, the poll, another round like the last one and the vote would exceed the budget."""
    state: ConsensusState = ctx.scope.handle.state
    voters = len(options.names)
    after = (options.judge is not None) + (options.confidence is not None) * voters
    calls = [len(one.edges) + len({target for _, target in one.edges}) for one in state.rounds]
    used = voters + sum(calls) + after * (len(calls) - 1)
    more = after + calls[-1] + voters + (options.tie_break is not None)
    if used + more > budget:
        end_early(ctx, "budget", f"{used} calls made; a round more and the vote would take {more} of {budget}")
