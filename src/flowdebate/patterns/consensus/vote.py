"""The vote, and the poll after a round: every agent casts a ballot, all at once, and the ballots are counted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, get_args

from flowdebate._text import clean_data, shown
from flowdebate._util.wire import freeze
from flowdebate.errors import OutputError
from flowdebate.measures import Ballot, Strength, strength, tally
from flowdebate.patterns.consensus.agents import Phase, create_vote_form, find_agent, lose_answer
from flowdebate.patterns.consensus.archive import weigh_votes
from flowdebate.patterns.consensus.events import ConsensusDecided, PollVoteCast, VoteCast, enter
from flowdebate.patterns.consensus.rounds import ask_judge, current_round, end_early, lose_judge, rounds_are_over
from flowdebate.patterns.consensus.schemas import (
    AgentPhase,
    ConsensusStage,
    ConsensusState,
    TieAsked,
    VoteAnswer,
    VoteAsked,
)
from flowdebate.patterns.roster import is_own
from flowdebate.patterns.state import accepted, as_model
from flowdebate.patterns.turn import start_clock

if TYPE_CHECKING:
    from flowdebate.measures import Tally
    from flowdebate.patterns.consensus.factory import ConsensusOptions
    from flowdebate.runs.context import Context


class Voting(Phase):
    """Every agent is asked for the best proposal, also one without a proposal of its own.

    After a poll that has ended the rounds nobody is asked again: its ballots count.
    """

    name: ClassVar[AgentPhase] = "vote"
    verb: ClassVar[str] = "vote"
    returns: ClassVar[Any] = Ballot

    def answer(self) -> dict[str, Any]:
        # all who may have a proposal, not those who have one: the form is the same whoever fails
        return {"output_schema": create_vote_form(self.options.names), "shuffle": self.options.shuffle}

    def ask(self, _: object, ctx: Context) -> list[VoteAsked]:
        state: ConsensusState = ctx.scope.handle.state
        if state.early_end is None or state.early_end.source != "confidence":
            return self.ask_all(ctx)
        for ballot in state.rounds[-1].poll:  # the same question about the same proposals
            state.ballots[ballot.voter] = ballot
            ctx.emit(VoteCast(ballot=ballot))
        return []

    def ask_all(self, ctx: Context) -> list[VoteAsked]:
        """The question to every agent, about all proposals as they are now."""
        names, state = self.options.names, ctx.scope.handle.state
        start_clock(self.options.failures, ctx)  # all votes have the time of a round
        proposals = freeze([state.proposals[name] for name in names if name in state.proposals])
        return [VoteAsked(task=state.question, agent=name, proposals=proposals) for name in names]

    def read(self, answer: object, block: str, asked: VoteAsked, ctx: Context) -> Ballot:  # noqa: ARG002
        said = as_model({"choice": answer} if isinstance(answer, str) else answer, VoteAnswer, block=block)
        words = clean_data({"reasoning": said.reasoning, "choice": said.choice})
        known = find_agent(words["choice"], [proposal.agent for proposal in asked.proposals])
        return Ballot(
            voter=asked.agent,
            choice=words["choice"] if known is None else known,
            confidence=said.confidence,
            reasoning=words["reasoning"],
        )

    def record(self, answer: Ballot, asked: VoteAsked, ctx: Context) -> Ballot:
        ctx.scope.handle.state.ballots[asked.agent] = answer
        ctx.emit(VoteCast(ballot=answer))
        return answer


class Polling(Voting):
    """Every agent is asked the question of the vote after a round; nobody, if the rounds end anyway."""

    name: ClassVar[AgentPhase] = "poll"

    def ask(self, _: object, ctx: Context) -> list[VoteAsked]:
        return [] if rounds_are_over(self.options, ctx) else self.ask_all(ctx)

    def record(self, answer: Ballot, asked: VoteAsked, ctx: Context) -> Ballot:  # noqa: ARG002
        latest = current_round(ctx)
        latest.poll.append(answer)
        ctx.emit(PollVoteCast(round=latest.round, ballot=answer))
        return answer


async def count_poll(options: ConsensusOptions, ctx: Context) -> None:
    """End the rounds if the poll has a consensus that is as sure as `confidence` asks for."""
    ctx.scope.handle.deadline = None  # that of the poll's calls
    ballots = {ballot.voter: ballot for ballot in current_round(ctx).poll}
    if not ballots or options.confidence is None:
        return
    counted = _count(options, ballots, await _find_weights(options, ctx), ctx)
    sure = bound_confidence(counted, heard=len(ctx.scope.handle.state.proposals))
    if counted.reached and sure >= options.confidence:
        end_early(ctx, "confidence", f"the agents agree on {counted.winner!r} with a confidence of {sure:.2f}")


async def count_votes(options: ConsensusOptions, ctx: Context) -> None:
    """Count the ballots, ask `tie_break` about a tie, and find the outcome."""
    ctx.scope.handle.deadline = None
    enter(ConsensusStage.VOTE_AGGREGATION, ctx)
    state: ConsensusState = ctx.scope.handle.state
    weights = await _find_weights(options, ctx)
    counted = _count(options, state.ballots, weights, ctx)
    if counted.tied and counted.quorum_met:  # no judge makes up for votes that are missing
        counted = _count(options, state.ballots, weights, ctx, await _break_tie(options, counted, ctx))
    authors = [name for name in options.names if name in state.proposals]
    for voter in () if state.first_edition else options.names:  # the first edition passed over spoiled votes in silence
        ballot = state.ballots.get(voter)
        if ballot is not None and ballot.choice not in authors:
            problem = f"chose {shown(ballot.choice)}; authors: {', '.join(map(repr, authors))}"
            error = OutputError(ctx.block, "the author of a proposal", [("choice", problem)])
            lose_answer(error, "not_counted", agent=voter, ctx=ctx, phase="vote")
    ctx.scope.handle.update(tally=counted)
    if not counted.valid:  # all votes failed, or were spoiled: nobody knows whether the agents agree
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
    """The confidence of the vote; no more than the share of the agents whose proposals were `heard`."""
    return min(counted.confidence, heard / counted.eligible)


def bound_strength(counted: Tally, *, heard: int) -> Strength:
    """The strength of the agreement; no more than the share of the agents whose proposals were `heard` allows.

    Agents who agree on the one proposal that was not lost had nothing else to choose: that is weak.
    """
    grades = get_args(Strength)
    found = strength(counted.counts, eligible=counted.eligible)
    most = strength({"heard": heard}, eligible=counted.eligible)
    return max(found, min(most, "weak", key=grades.index), key=grades.index)


def _count(
    options: ConsensusOptions,
    ballots: Mapping[str, Ballot],
    weights: Mapping[str, float] | None,
    ctx: Context,
    tie_break: str | None = None,
) -> Tally:
    return tally(
        [ballots[name] for name in options.names if name in ballots],
        choices=[name for name in options.names if name in ctx.scope.handle.state.proposals],
        eligible=options.names,
        rule=options.voting,
        weights=weights,
        quorum=options.quorum,
        tie_break=tie_break,
    )


async def _find_weights(options: ConsensusOptions, ctx: Context) -> Mapping[str, float] | None:
    known: Mapping[str, float] | None = ctx.scope.handle.state.weights
    return await weigh_votes(options, ctx) if known is None else known  # editions before the fourth weigh here


async def _break_tie(options: ConsensusOptions, counted: Tally, ctx: Context) -> str | None:
    """The author that `tie_break` chooses among those tied; None if it gave no answer, or named nobody of them."""
    state, judge = ctx.scope.handle.state, options.tie_break
    if judge is None:
        return None
    asked = TieAsked(task=state.question, proposals=freeze([state.proposals[name] for name in counted.tied]))
    answer = await ask_judge(judge, asked, options, ctx)
    if answer is None:
        return None
    # an application's judge may answer as voters do, or with the name alone
    choice = answer.get("choice") if isinstance(answer, dict) else getattr(answer, "choice", answer)

    def read() -> str | None:
        return find_agent(choice, counted.tied) if isinstance(choice, str) else None

    chosen = await accepted(read, ctx, returns=str | None, own=is_own(judge))
    if chosen is None:
        problem = f"chose {shown(choice)}; tied: {', '.join(map(repr, counted.tied))}"
        lose_judge(OutputError(judge.name, "one of the tied agents", [("", problem)]), judge, ctx)
    return chosen
