"""The vote, and the poll after a round: every agent casts a ballot, all at once, and the ballots are counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from flowdebate._util.frozen import frozen
from flowdebate._util.text import clean_data, one_line
from flowdebate.blocks.handler import Handler, handler
from flowdebate.errors import OutputError, error_text, shown
from flowdebate.measures import Ballot, Strength, strength, tally, vote_weight
from flowdebate.patterns.consensus.agent_calls import Phase
from flowdebate.patterns.consensus.agents import named_agent
from flowdebate.patterns.consensus.archive import read_ratings
from flowdebate.patterns.consensus.events import ConsensusDecided, ConsensusStage, PollVoteCast, VoteCast, enter
from flowdebate.patterns.consensus.rounds import ask_judge, current_round, end_early, lose_judge, lose_part
from flowdebate.patterns.consensus.schemas import TieAsked, VoteAnswer, VoteAsked
from flowdebate.patterns.roster import is_own
from flowdebate.patterns.state import accepted, as_model
from flowdebate.patterns.turn import start_clock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from flowdebate.blocks.base import Block
    from flowdebate.measures import Tally
    from flowdebate.patterns.consensus.assembly import ConsensusOptions
    from flowdebate.patterns.consensus.schemas import ConsensusState
    from flowdebate.runs.context import Context


def ask_in_poll(options: ConsensusOptions) -> Callable[[object, Context], list[VoteAsked]]:
    """The questions of the poll after a round; none if the rounds end anyway."""

    def asks(_: object, ctx: Context) -> list[VoteAsked]:
        state: ConsensusState = ctx.scope.handle.state
        over = state.early_end is not None or state.round >= options.max_rounds
        return [] if over else _asked(options, ctx)

    return asks


def ask_for_votes(options: ConsensusOptions) -> Callable[[object, Context], list[VoteAsked]]:
    """The questions of the phase: every agent is asked, also one without a proposal of its own.

    After a poll that has ended the rounds nobody is asked again: its ballots count.
    """

    def asks(_: object, ctx: Context) -> list[VoteAsked]:
        state: ConsensusState = ctx.scope.handle.state
        if state.early_end is None or state.early_end.source != "confidence":
            return _asked(options, ctx)
        for ballot in state.rounds[-1].poll:
            state.ballots[ballot.voter] = ballot
            ctx.emit(VoteCast(ballot=ballot))
        return []

    return asks


def _asked(options: ConsensusOptions, ctx: Context) -> list[VoteAsked]:
    start_clock(options.failures, ctx)
    state: ConsensusState = ctx.scope.handle.state
    proposals = frozen([state.proposals[name] for name in options.names if name in state.proposals])
    return [VoteAsked(task=state.question, agent=name, proposals=proposals) for name in options.names]


def _read(answer: object, block: str, asked: VoteAsked, _: Context) -> Ballot:
    said = as_model({"choice": answer} if isinstance(answer, str) else answer, VoteAnswer, block=block)
    words = clean_data({"reasoning": said.reasoning, "choice": said.choice})
    known = named_agent(words["choice"], [proposal.agent for proposal in asked.proposals])
    return Ballot(
        voter=asked.agent,
        choice=words["choice"] if known is None else known,
        confidence=said.confidence,
        reasoning=words["reasoning"],
    )


def _record(ballot: Ballot, asked: VoteAsked, ctx: Context) -> Ballot:
    ctx.scope.handle.state.ballots[asked.agent] = ballot
    ctx.emit(VoteCast(ballot=ballot))
    return ballot


def _record_in_poll(ballot: Ballot, _: VoteAsked, ctx: Context) -> Ballot:
    latest = current_round(ctx)
    latest.poll.append(ballot)
    ctx.emit(PollVoteCast(round=latest.round, ballot=ballot))
    return ballot


VOTING = Phase(name="vote", read=_read, returns=Ballot, record=_record)
POLLING = Phase(name="poll", read=_read, returns=Ballot, record=_record_in_poll)


def count_poll(options: ConsensusOptions, enough: float) -> Handler[Any, None]:
    """A tap that ends the rounds if the poll has a consensus whose confidence is `enough`."""

    @handler(name=f"{options.name}-count-poll")
    async def count(_: object, ctx: Context) -> None:
        ctx.scope.handle.deadline = None
        state: ConsensusState = ctx.scope.handle.state
        ballots = {ballot.voter: ballot for ballot in current_round(ctx).poll}
        if not ballots:
            return
        weights = await _weights(options, ctx) if options.voting == "weighted" else None
        counted = _tally(options, state, ballots, weights)
        sure = confidence_heard(counted, heard=len(state.proposals))
        if counted.reached and sure >= enough:
            end_early(ctx, "confidence", f"the agents agree on {counted.winner!r} with a confidence of {sure:.2f}")

    return count


def count_votes(options: ConsensusOptions) -> Handler[Any, None]:
    """A tap that counts the ballots, asks `tie_break` about a tie, and finds the outcome."""

    @handler(name=f"{options.name}-count-votes")
    async def count(_: object, ctx: Context) -> None:
        ctx.scope.handle.deadline = None
        enter(ConsensusStage.VOTE_AGGREGATION, ctx)
        state: ConsensusState = ctx.scope.handle.state
        weights = await _weights(options, ctx) if options.voting == "weighted" else None
        counted = _tally(options, state, state.ballots, weights)
        if counted.tied and counted.quorum_met and options.tie_break is not None:
            broken = await _broken(options, options.tie_break, counted, ctx)
            counted = _tally(options, state, state.ballots, weights, broken)
        for name in () if state.first_edition else options.names:
            _check_counted(name, [other for other in options.names if other in state.proposals], state, ctx)
        ctx.scope.handle.update(tally=counted)
        if not counted.valid:
            ctx.run.degrade("no_verdict")
        enter(ConsensusStage.CONSENSUS_REACHED if counted.reached else ConsensusStage.NO_CONSENSUS, ctx)
        decided = ConsensusDecided(
            outcome="consensus" if counted.reached else "no_consensus",
            winner=counted.winner,
            strength=strength_heard(counted, heard=len(state.proposals)),
            tally=counted,
        )
        ctx.emit(decided)

    return count


def _check_counted(voter: str, authors: list[str], state: ConsensusState, ctx: Context) -> None:
    """Record a vote for nobody's proposal, which is not counted."""
    ballot = state.ballots.get(voter)
    if ballot is not None and ballot.choice not in authors:
        problem = f"chose {shown(ballot.choice)}; authors: {', '.join(map(repr, authors))}"
        error = OutputError(ctx.block, "the author of a proposal", [("choice", problem)])
        lose_part(error, voter, ctx, phase="vote", instead="not_counted")


def confidence_heard(counted: Tally, *, heard: int) -> float:
    """The confidence of the vote; no more than the share of the agents whose proposals were `heard`."""
    return min(counted.confidence, heard / counted.eligible)


def strength_heard(counted: Tally, *, heard: int) -> Strength:
    """The strength of the agreement; no more than the share of the agents whose proposals were `heard` allows.

    Agents who agree on the one proposal that was not lost had nothing else to choose: that is weak.
    """
    grades = get_args(Strength)
    found = strength(counted.counts, eligible=counted.eligible)
    most = strength({"heard": heard}, eligible=counted.eligible)
    return max(found, min(most, "weak", key=grades.index), key=grades.index)


def _tally(
    options: ConsensusOptions,
    state: ConsensusState,
    ballots: Mapping[str, Ballot],
    weights: Mapping[str, float] | None,
    tie_break: str | None = None,
) -> Tally:
    return tally(
        [ballots[name] for name in options.names if name in ballots],
        choices=[name for name in options.names if name in state.proposals],
        eligible=options.names,
        rule=options.voting,
        weights=weights,
        quorum=options.quorum,
        tie_break=tie_break,
    )


async def _weights(options: ConsensusOptions, ctx: Context) -> dict[str, float]:
    """The weights of the votes: those of the application, then those by the archive's ratings; 1 without either."""
    own = dict(options.weights or {})
    archive, unknown = options.archive, [name for name in options.names if name not in own]
    if archive is None or not unknown:
        return own
    try:
        ratings = await read_ratings(archive, unknown, ctx)
        rated = {name: vote_weight(rating.elo, rating.calibration) for name, rating in ratings.items()}
    except Exception as error:  # noqa: BLE001 - a store may raise anything, and the votes are there
        ctx.scope.handle.state.problems.append(f"weights: {one_line(error_text(error))}; unrated votes weigh 1")
        ctx.run.degrade("degraded")
        return own
    return rated | own


async def _broken(options: ConsensusOptions, judge: Block[Any, Any], counted: Tally, ctx: Context) -> str | None:
    """The author that `judge` has chosen among those tied; None if it gave no answer, or named nobody of them."""
    state: ConsensusState = ctx.scope.handle.state
    asked = TieAsked(task=state.question, proposals=frozen([state.proposals[name] for name in counted.tied]))
    answer = await ask_judge(judge, asked, options, ctx)
    if answer is None:
        return None
    choice = answer.get("choice") if isinstance(answer, dict) else getattr(answer, "choice", answer)

    def read() -> str | None:
        return named_agent(choice, counted.tied) if isinstance(choice, str) else None

    chosen = await accepted(read, ctx, returns=str | None, own=is_own(judge))
    if chosen is None:
        problem = f"chose {shown(choice)}; tied: {', '.join(map(repr, counted.tied))}"
        lose_judge(OutputError(judge.name, "one of the tied agents", [("", problem)]), judge, ctx)
    return chosen
