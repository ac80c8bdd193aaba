"""Phases of a consensus debate: proposals, rounds of critique and revision, checks for an early end, and the vote."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, get_args

from flowdebate._text import CutOff, clean_data, clean_text, is_blank, join_choices, typed
from flowdebate._util.wire import WireModel, freeze
from flowdebate.chassis.roster import is_custom_code
from flowdebate.chassis.rounds import check_quorum
from flowdebate.chassis.state import Flag, accepted, as_model
from flowdebate.chassis.turn import MISSING, record_failure, speech_text, start_clock
from flowdebate.errors import NoProposals, OutputError, OutputTruncated
from flowdebate.measures import Ballot, Convergence, Jaccard, Strength, Tally, convergence, strength, tally
from flowdebate.measures.topologies import Edge, edges
from flowdebate.models.reading import find_name

from .agents import (
    JUDGE,
    TIE_BREAK,
    CritiqueForm,
    Phase,
    RevisionForm,
    create_vote_form,
    find_breakers,
)
from .events import AgentMessage, ConsensusDecided, CritiqueMade, PollVoteCast, VoteCast, enter
from .questions import CritiqueRequest, ProposalRequest, RevisionRequest, StopRequest, TieBreakRequest, VoteRequest
from .schemas import (
    MAX_POSITION_LENGTH,
    AgentPhase,
    ConsensusRound,
    ConsensusStage,
    ConsensusState,
    CriticAnswer,
    Critique,
    EarlyEnd,
    EndSource,
    JudgeAnswer,
    Proposal,
    RevisionAnswer,
    VoteAnswer,
)

if TYPE_CHECKING:
    from flowdebate.blocks.base import Block
    from flowdebate.chassis.spec import Loop
    from flowdebate.runs.context import Context

    from .options import ConsensusOptions

# Proposals


class Proposing(Phase[ProposalRequest, Proposal]):
    """Phase in which each agent makes a proposal; truncated proposals are cut after their last full sentence."""

    name: ClassVar[AgentPhase] = "proposal"
    verb: ClassVar[str] = "propose"
    returns: ClassVar[object] = Proposal
    has_length: ClassVar[bool] = True

    def ask(self, _: object, ctx: Context) -> list[ProposalRequest]:
        start_clock(self.loop.failures, ctx)
        state: ConsensusState = ctx.scope.handle.state
        return [ProposalRequest(task=state.question, agent=name) for name in self.loop.names]

    def read(self, answer: object, block: str, request: ProposalRequest, ctx: Context) -> Proposal:
        full_text = speech_text(answer, request.agent, ctx)
        text, position = split_position(full_text)
        if is_blank(text):
            raise OutputError(block, "a proposal", [("", "got blank text")])
        # flag truncated proposals, since critics would otherwise judge half a proposal without knowing it
        flag: Flag | None = "cut_off" if isinstance(full_text, CutOff) else None
        return Proposal.model_construct(agent=request.agent, text=str(text), round=0, position=position, flag=flag)

    def record(self, answer: Proposal, request: ProposalRequest, ctx: Context) -> str:
        state: ConsensusState = ctx.scope.handle.state
        state.first[request.agent] = state.proposals[request.agent] = answer
        if answer.flag is not None:
            error = OutputTruncated("the proposal was cut off: raise max_tokens")
            name, flag = request.agent, answer.flag
            record_failure(error, ctx, block=ctx.block, role="debater", name=name, instead=flag, phase="proposal")
        ctx.emit(AgentMessage(agent=request.agent, phase="proposal", round=0, text=answer.text))
        return answer.text


# models may write the word in bold, as a list item, or as a quotation
_POSITION = re.compile(r"[\s>*_#-]*position[*_ \t]*:[*_ \t]*(.*)", re.IGNORECASE)


def split_position(text: str) -> tuple[str, str | None]:
    r"""Split off the last line of `text` if it begins with "Position:"; otherwise return the whole text and None.

    >>> split_position("Cap rents at 3%.\n\n**Position:** a cap of 3%")
    ('Cap rents at 3%.', 'a cap of 3%')
    """
    body, _, last = text.rstrip().rpartition("\n")
    match = _POSITION.fullmatch(last) if len(last) <= MAX_POSITION_LENGTH else None
    position = "" if match is None else match[1].strip(" \t*_")
    return (text, None) if is_blank(position) or is_blank(body) else (body.rstrip(), position)


def check_proposals(loop: Loop[ConsensusOptions], ctx: Context) -> None:
    """Close the proposal phase; raise NoProposals if there are none, or QuorumLost if there are too few."""
    ctx.scope.handle.deadline = None
    state: ConsensusState = ctx.scope.handle.state
    if not state.proposals:  # every agent has failed: any other error would have ended the phase
        errors = {loss.name: loss.error for loss in state.losses}
        raise NoProposals(loop.name, {agent: errors[agent] for agent in loop.names})
    check_quorum(state, list(state.proposals), quorum=loop.failures.least, block=ctx.block)
    enter(ConsensusStage.PROPOSALS_COMPLETE, ctx)


# Critique and revision


async def open_round(loop: Loop[ConsensusOptions], ctx: Context) -> None:
    """Open the next round and pair critics with targets."""
    state: ConsensusState = ctx.scope.handle.state
    number, options = state.round + 1, loop.options.topology

    async def choose() -> list[Edge]:
        # an agent with an open circuit does not criticize, but its proposal can still be criticized
        available = set(find_breakers(ctx).available(loop.names))
        names = [name for name in loop.names if name in available or name in state.proposals]
        return edges(
            options.topology,
            names,
            round=number,
            random=ctx.random,
            # if the hub is unavailable, the first of the other agents takes its place
            hub=options.hub if options.hub in names else None,
            sparsity=options.sparsity,
            targets=state.proposals,
            critics=available,
        )

    # recorded because a custom function could choose differently when the run is resumed
    chosen_edges = await (ctx.decide(choose, returns=list[Edge]) if callable(options.topology) else choose())
    # skip validation: it would copy the lists, which have to grow in place with each answer
    opened = ConsensusRound.model_construct(
        round=number, edges=chosen_edges, critiques=[], revisions=[], enough=[], convergence=None
    )
    state.rounds.append(opened)
    loop.open_round(ctx, number)
    enter(ConsensusStage.ROUND_N_CRITIQUE, ctx)


def current_round(ctx: Context) -> ConsensusRound:
    """Return the current round."""
    latest: ConsensusRound = ctx.scope.handle.state.rounds[-1]
    return latest


class Criticizing(Phase[CritiqueRequest, Critique]):
    """Phase in which each critic criticizes the proposals assigned to it."""

    name: ClassVar[AgentPhase] = "critique"
    verb: ClassVar[str] = "criticize"
    returns: ClassVar[object] = Critique
    form: ClassVar[type[WireModel] | None] = CritiqueForm

    def ask(self, _: object, ctx: Context) -> list[CritiqueRequest]:
        state: ConsensusState = ctx.scope.handle.state
        return [
            CritiqueRequest(task=state.question, agent=critic, proposal=state.proposals[target], round=state.round)
            for critic, target in current_round(ctx).edges
        ]

    def read(self, answer: object, block: str, request: CritiqueRequest, ctx: Context) -> Critique:  # noqa: ARG002
        reply = as_model(answer, CriticAnswer, block=block)
        return Critique.model_construct(
            critic=request.agent,
            target=request.proposal.agent,
            round=request.round,
            **freeze(clean_data({key: getattr(reply, key) for key in CriticAnswer.model_fields})),
        )

    def record(self, answer: Critique, request: CritiqueRequest, ctx: Context) -> Critique:  # noqa: ARG002
        current_round(ctx).critiques.append(answer)
        ctx.emit(CritiqueMade(critique=answer))
        return answer


class Revising(Phase[RevisionRequest, tuple[Proposal, bool]]):
    """Phase in which the authors of criticized proposals revise them.

    If a call fails, the proposal and its position stay as they were.
    """

    name: ClassVar[AgentPhase] = "revision"
    verb: ClassVar[str] = "revise"
    returns: ClassVar[object] = tuple[Proposal, bool]
    form: ClassVar[type[WireModel] | None] = RevisionForm
    has_length: ClassVar[bool] = True

    def ask(self, _: object, ctx: Context) -> list[RevisionRequest]:
        state: ConsensusState = ctx.scope.handle.state
        round_critiques = _sort_critiques(ctx)
        critiques_by_target = {
            name: [item for item in round_critiques if item.target == name] for name in self.loop.names
        }
        return [
            RevisionRequest(
                task=state.question,
                agent=name,
                proposal=state.proposals[name],
                critiques=freeze(critiques),
                round=state.round,
            )
            for name, critiques in critiques_by_target.items()
            if critiques
        ]

    def read(self, answer: object, block: str, request: RevisionRequest, ctx: Context) -> tuple[Proposal, bool]:  # noqa: ARG002
        reply = as_model({"proposal": answer} if isinstance(answer, str) else answer, RevisionAnswer, block=block)
        if is_blank(reply.proposal):
            raise OutputError(block, "a revised proposal", [("proposal", "got blank text")])
        words = clean_data({"text": reply.proposal, "position": reply.position.strip() or None})
        return Proposal.model_construct(agent=request.agent, round=request.round, **words), reply.enough

    def record(self, answer: tuple[Proposal, bool], request: RevisionRequest, ctx: Context) -> str:
        proposal, enough = answer
        latest = current_round(ctx)
        latest.revisions.append(proposal)
        if enough:
            latest.enough.append(request.agent)
        ctx.scope.handle.state.proposals[request.agent] = proposal
        ctx.emit(AgentMessage(agent=request.agent, phase="revision", round=request.round, text=proposal.text))
        return proposal.text


def _sort_critiques(ctx: Context) -> list[Critique]:
    """Return this round's critiques, sorted to match the round's (critic, target) pairs.

    If critiques stayed in order of arrival, prompts would differ between runs.
    """
    latest = current_round(ctx)
    order = {edge: index for index, edge in enumerate(latest.edges)}
    return sorted(latest.critiques, key=lambda critique: order[critique.critic, critique.target])


# The end of the rounds


async def check_convergence(loop: Loop[ConsensusOptions], ctx: Context) -> None:
    """Measure the similarity of the proposals and decide whether to end the rounds.

    The rounds end if the proposals have converged, if most agents expect no further change, or if the budget does not
    allow another round.
    """
    ctx.scope.handle.deadline = None
    enter(ConsensusStage.CONVERGENCE_CHECK, ctx)
    state: ConsensusState = ctx.scope.handle.state
    latest, versions = current_round(ctx), state.texts_by_speaker(ctx)
    options, bounds = loop.options, loop.options.convergence
    similarity = bounds.measure
    live = [name for name in loop.names if name in state.proposals]
    revised = {proposal.agent for proposal in latest.revisions}

    def measure() -> Convergence:
        return convergence(
            {name: versions[name][-1] for name in live},
            {name: versions[name][-2 if name in revised else -1] for name in live},
            positions=state.positions or None,
            similarity=similarity,
            # if `bounds.convergence` is None, similarity is measured but does not end the rounds
            converged=1.0 if bounds.convergence is None else bounds.convergence,
            diverging=bounds.lower_bound,
        )

    async def measured() -> Convergence:
        # all other measures load libraries and models, which would block the event loop
        return measure() if isinstance(similarity, Jaccard) else await asyncio.to_thread(measure)

    # only the result of a custom measure must be recorded for resumed runs; built-in measures are deterministic
    is_custom = not type(similarity).__module__.startswith("flowdebate.")
    measurement = await ctx.decide(measured, returns=Convergence) if is_custom else await measured()
    state.rounds[-1] = latest.model_copy(update={"convergence": measurement})
    # only the first reason is recorded, so check the conditions that need no calls before calling the judge or taking
    # the poll
    if measurement.status == "converged" and bounds.convergence is not None:
        end_early(ctx, "convergence", f"similarity {measurement.similarity:.2f} ({measurement.backend})")
    elif len(latest.enough) * 2 > len(live):
        reason = f"{len(latest.enough)} of {len(live)} think that another round would change nothing"
        end_early(ctx, "agents", reason)
    elif options.budget is not None and state.round < loop.max_rounds:
        # count failed and skipped calls too, so that the decision does not depend on which calls fail
        voters = len(loop.roster)
        after = loop.has(JUDGE) + (options.confidence is not None) * voters
        calls = [len(one.edges) + len({target for _, target in one.edges}) for one in state.rounds]
        used = voters + sum(calls) + after * (len(calls) - 1)
        more = after + calls[-1] + voters + loop.has(TIE_BREAK)
        if used + more > options.budget:
            reason = f"{used} calls made; a round more and the vote would take {more} of {options.budget}"
            end_early(ctx, "budget", reason)


async def ask_conclusive_judge(judge: Block[Any, Any], loop: Loop[ConsensusOptions], ctx: Context) -> None:
    """Ask the judge whether the discussion is conclusive, unless the rounds are already over."""
    state: ConsensusState = ctx.scope.handle.state
    if rounds_are_over(loop, ctx):  # the answer would make no difference, so skip the call
        return
    question = StopRequest(
        task=state.question,
        round=state.round,
        proposals=freeze([state.proposals[name] for name in loop.names if name in state.proposals]),
        critiques=freeze(_sort_critiques(ctx)),
    )
    answer = await judge(question, ctx.below(judge))
    if answer is MISSING:
        return
    plain = {"conclusive": answer} if isinstance(answer, bool) else answer
    read = partial(as_model, plain, JudgeAnswer, block=judge.name)
    reply = await accepted(read, ctx, returns=JudgeAnswer, custom=is_custom_code(loop.choice(JUDGE)))
    if reply.conclusive:
        end_early(ctx, "judge", clean_text(reply.reasoning))


def rounds_are_over(loop: Loop[ConsensusOptions], ctx: Context) -> bool:
    """Check whether the rounds are already over, in which case no more agents or judges need to be called."""
    state: ConsensusState = ctx.scope.handle.state
    return state.early_end is not None or state.round >= loop.max_rounds


def end_early(ctx: Context, source: EndSource, reason: str) -> None:
    """End the rounds before `max_rounds`; only the first reason is recorded."""
    state: ConsensusState = ctx.scope.handle.state
    if state.early_end is None:
        ctx.scope.handle.update(early_end=EarlyEnd(source=source, reason=reason, round=state.round))


def stop_reason(state: ConsensusState, max_rounds: int) -> str | None:
    """Return the pattern's own reason for ending the rounds, or None if they should continue."""
    if state.round >= max_rounds:
        return "max_rounds"
    return None if state.early_end is None else state.early_end.source


def find_early_end(state: ConsensusState) -> EarlyEnd | None:
    """Return the reason why the rounds ended before `max_rounds`, or None if they did not."""
    if state.stop_reason == "max_rounds":
        return None
    if state.stop_reason is None or state.early_end is not None:
        return state.early_end
    # the loop evaluates `terminate_when` itself and stores the reason in the state, leaving `early_end` unset
    reason = "terminate_when" if state.stop_reason == "predicate" else state.stop_reason
    return EarlyEnd(source="predicate", reason=reason, round=state.round)


class Voting(Phase[VoteRequest, Ballot]):
    """Phase in which every agent, with or without a proposal of its own, votes for the best one.

    If a poll ended the rounds, its ballots are used, and no agent is called again.
    """

    name: ClassVar[AgentPhase] = "vote"
    verb: ClassVar[str] = "vote"
    returns: ClassVar[object] = Ballot

    def answer(self) -> dict[str, Any]:
        # include agents without a proposal, so that the schema does not depend on failures
        return {"output_schema": create_vote_form(tuple(self.loop.names)), "shuffle": self.loop.options.voting.shuffle}

    def ask(self, _: object, ctx: Context) -> list[VoteRequest]:
        state: ConsensusState = ctx.scope.handle.state
        if state.early_end is None or state.early_end.source != "confidence":
            return self.ask_all(ctx)
        for ballot in state.rounds[-1].poll:  # the poll was already a vote on the same proposals
            state.ballots[ballot.voter] = ballot
            ctx.emit(VoteCast(ballot=ballot))
        return []

    def ask_all(self, ctx: Context) -> list[VoteRequest]:
        """Build a request for each agent to vote on all current proposals."""
        names, state = self.loop.names, ctx.scope.handle.state
        start_clock(self.loop.failures, ctx)  # the entire vote gets the time limit of a single round
        proposals = freeze([state.proposals[name] for name in names if name in state.proposals])
        return [VoteRequest(task=state.question, agent=name, proposals=proposals) for name in names]

    def read(self, answer: object, block: str, request: VoteRequest, ctx: Context) -> Ballot:  # noqa: ARG002
        vote = as_model({"choice": answer} if isinstance(answer, str) else answer, VoteAnswer, block=block)
        words = clean_data({"reasoning": vote.reasoning, "choice": vote.choice})
        match = find_name(words["choice"], [proposal.agent for proposal in request.proposals])
        return Ballot(
            voter=request.agent,
            choice=words["choice"] if match is None else match,
            confidence=vote.confidence,
            reasoning=words["reasoning"],
        )

    def record(self, answer: Ballot, request: VoteRequest, ctx: Context) -> Ballot:
        ctx.scope.handle.state.ballots[request.agent] = answer
        ctx.emit(VoteCast(ballot=answer))
        return answer


class Polling(Voting):
    """Phase in which every agent votes after a round, unless the rounds are already over."""

    name: ClassVar[AgentPhase] = "poll"

    def ask(self, _: object, ctx: Context) -> list[VoteRequest]:
        return [] if rounds_are_over(self.loop, ctx) else self.ask_all(ctx)

    def record(self, answer: Ballot, request: VoteRequest, ctx: Context) -> Ballot:  # noqa: ARG002
        latest = current_round(ctx)
        latest.poll.append(answer)
        ctx.emit(PollVoteCast(round=latest.round, ballot=answer))
        return answer


async def count_poll(loop: Loop[ConsensusOptions], ctx: Context) -> None:
    """End the rounds if the poll reached a consensus with at least the required `confidence`."""
    ctx.scope.handle.deadline = None  # the poll's time limit no longer applies
    ballots = {ballot.voter: ballot for ballot in current_round(ctx).poll}
    confidence = loop.options.confidence
    if not ballots or confidence is None:
        return
    counted = _count(loop, ballots, ctx)
    sure = bound_confidence(counted, heard=len(ctx.scope.handle.state.proposals))
    if counted.reached and sure >= confidence:
        end_early(ctx, "confidence", f"the agents agree on {counted.winner!r} with a confidence of {sure:.2f}")


async def count_votes(judge: Block[Any, Any] | None, loop: Loop[ConsensusOptions], ctx: Context) -> None:
    """Count the ballots, let `tie_break` resolve any tie, and determine the outcome."""
    ctx.scope.handle.deadline = None
    enter(ConsensusStage.VOTE_AGGREGATION, ctx)
    state: ConsensusState = ctx.scope.handle.state
    counted = _count(loop, state.ballots, ctx)
    if judge is not None and counted.tied and counted.quorum_met:  # a judge cannot make up for missing votes
        counted = _count(loop, state.ballots, ctx, await _break_tie(judge, counted, loop, ctx))
    authors = [name for name in loop.names if name in state.proposals]
    for voter in loop.names:
        ballot = state.ballots.get(voter)
        if ballot is not None and ballot.choice not in authors:
            problem = f"must be {join_choices(authors)} (got {typed(ballot.choice)})"
            error = OutputError(ctx.block, "the author of a proposal", [("choice", problem)])
            block = ctx.block
            record_failure(error, ctx, block=block, role="debater", name=voter, instead="not_counted", phase="vote")
    ctx.scope.handle.update(tally=counted)
    if not counted.valid:  # every vote failed or was spoiled, so the level of agreement is unknown
        ctx.run.degrade("no_verdict")
    enter(ConsensusStage.CONSENSUS_REACHED if counted.reached else ConsensusStage.NO_CONSENSUS, ctx)
    decided = ConsensusDecided(
        outcome="consensus" if counted.reached else "no_consensus",
        winner=counted.winner,
        strength=bound_strength(counted, heard=len(state.proposals)),
        tally=counted,
    )
    ctx.emit(decided)


def bound_confidence(counted: Tally, *, heard: int) -> float:
    """Cap the vote's confidence at the share of agents that made a proposal; `heard` is the number of such agents."""
    return min(counted.confidence, heard / counted.eligible)


def bound_strength(counted: Tally, *, heard: int) -> Strength:
    """Cap the strength of the agreement according to the share of agents that made a proposal.

    `heard` is the number of such agents. Agreement on the only remaining proposal is weak, because there was no other
    choice.
    """
    grades = get_args(Strength)
    bound = strength(counted.counts, eligible=counted.eligible)
    highest = strength({"heard": heard}, eligible=counted.eligible)
    return max(bound, min(highest, "weak", key=grades.index), key=grades.index)


def _count(
    loop: Loop[ConsensusOptions],
    ballots: Mapping[str, Ballot],
    ctx: Context,
    tie_break: str | None = None,
) -> Tally:
    names, voting = loop.names, loop.options.voting
    return tally(
        [ballots[name] for name in names if name in ballots],
        choices=[name for name in names if name in ctx.scope.handle.state.proposals],
        eligible=names,
        rule=voting.voting,
        weights=ctx.scope.handle.state.weights,
        quorum=voting.min_votes,
        tie_break=tie_break,
    )


async def _break_tie(judge: Block[Any, Any], counted: Tally, loop: Loop[ConsensusOptions], ctx: Context) -> str | None:
    """Return the author picked by `judge`, or None if the judge does not answer or picks someone who is not tied."""
    state: ConsensusState = ctx.scope.handle.state
    question = TieBreakRequest(task=state.question, proposals=freeze([state.proposals[name] for name in counted.tied]))
    answer = await judge(question, ctx.below(judge))
    if answer is MISSING:
        return None
    # a custom judge may answer as voters do, or with just a name
    choice = answer.get("choice") if isinstance(answer, dict) else getattr(answer, "choice", answer)

    def read() -> str | None:
        return find_name(choice, counted.tied) if isinstance(choice, str) else None

    winner = await accepted(read, ctx, returns=str | None, custom=is_custom_code(loop.choice(TIE_BREAK)))
    if winner is None:
        problem = f"must be {join_choices(counted.tied)} (got {typed(choice)})"
        name, error = judge.name, OutputError(judge.name, "one of the tied agents", [("", problem)])
        record_failure(error, ctx, block=name, role="judge", name=name, instead=TIE_BREAK.instead)
    return winner
