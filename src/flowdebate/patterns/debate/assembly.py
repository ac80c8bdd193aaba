"""Assembly of a debate: its steps, from the first to the last."""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from flowdebate._util.frozen import frozen
from flowdebate.blocks.handler import Handler, handler
from flowdebate.blocks.router import router
from flowdebate.blocks.sequencer import sequencer
from flowdebate.errors import BadAnswer, ConfigurationError, FlowDebateError, OutputError, RosterError, shown
from flowdebate.patterns.debate.debater import create_debater
from flowdebate.patterns.debate.judging.judge import Judge, create_judge, create_judge_panel
from flowdebate.patterns.debate.judging.options import JudgeOptions
from flowdebate.patterns.debate.judging.prompt import verdict_among
from flowdebate.patterns.debate.mirror import Mirror, mirrored_loop, verdict_of_both
from flowdebate.patterns.debate.moderator import (
    Moderator,
    create_moderator,
    decide_declared_order,
    decision_among,
    stash_moderator_decision,
)
from flowdebate.patterns.debate.schemas import (
    DebateContributionEntry,
    DebateInput,
    DebateRawOutput,
    DebateState,
    DebateVerdict,
    JudgedVerdict,
    VerdictReached,
)
from flowdebate.patterns.debate.synthesizer import create_synthesizer
from flowdebate.patterns.output import publish, status_of, with_synthesizer
from flowdebate.patterns.roster import is_own
from flowdebate.patterns.rounds import Loop, PatternSpec
from flowdebate.patterns.state import accepted, as_model, entries_of, state_of
from flowdebate.patterns.turn import MISSING, IfHeard, WithFallback, is_provider_failure, record_failure, record_turn
from flowdebate.prompts.escaping import as_seen

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flowdebate.blocks.base import Block
    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.models.output import OutputSchema
    from flowdebate.patterns.anonymity.anonymity import Anonymity
    from flowdebate.patterns.debate.judging.ballots import OnFlip
    from flowdebate.patterns.debate.quotes.schemas import VerifiedQuote
    from flowdebate.patterns.debate.schemas import DebateModeratorDecision, StopReason
    from flowdebate.patterns.roles import RoleOptions
    from flowdebate.patterns.roster import Debater
    from flowdebate.patterns.state import TurnOrder
    from flowdebate.patterns.turn import Turn
    from flowdebate.runs.context import Context
    from flowdebate.runs.events import RunStatus


class DebateOptions(NamedTuple):
    """The checked options of a debate. Those of a role reach its default block only."""

    loop: Loop
    roster: tuple[Debater, ...]
    judge: Any
    """Options, a block or a function."""
    synthesizer: Any
    """None, False, options, a block or a function."""
    moderator: Any
    """None for none, True, options, a block or a function."""
    output_schema: OutputSchema | None
    of_debaters: RoleOptions
    of_judge: RoleOptions
    of_moderator: RoleOptions
    of_synthesizer: RoleOptions
    anonymize_transcript: bool
    shuffle_for_judge: bool
    anonymity: Anonymity | None
    sources: Mapping[str, str] | None
    mirror: bool = False
    """Whether the debate is held again, with the order of speakers reversed."""

    @property
    def names(self) -> list[str]:
        """The debaters' names, in declared order."""
        return [debater.name for debater in self.roster]

    @property
    def stances(self) -> list[str]:
        """The debaters' stances, in declared order."""
        return [debater.stance for debater in self.roster]


def assemble(debate: DebateOptions) -> Sequencer[Any, Any]:
    """The debate as a block: opening, rounds of turns, judge, raw output, synthesizer."""
    loop = debate.loop
    turns = {debater.name: _turn(debate, debater) for debater in debate.roster}
    judge = _judge(debate)

    pipeline = loop.opening()
    if debate.moderator is None:
        pipeline = loop.with_turns(pipeline, turns)
    elif loop.turn_order != "declared" or loop.reverse:
        pipeline = loop.with_turns(pipeline.tap(_moderation(debate)), turns, speakers=partial(_speakers_of_round, None))
    else:
        dispatch = router(name=f"{loop.name}-dispatch", choose=_itself, routes=turns)
        pipeline = pipeline.tap(_moderation(debate)).tap_each(dispatch, over=_speakers_of_round, max_concurrency=1)
    pipeline = loop.until_stopped(pipeline, *([] if debate.moderator is None else ["done (moderator)"]))
    on_flip: OnFlip | None = None
    if debate.mirror:
        on_flip = judge.how.on_flip if isinstance(judge, Judge) else "average"
        if on_flip == "human":
            raise ConfigurationError(loop.where, "mirror", True, "left out with on_flip='human'")  # noqa: FBT003
        mirrored = debate._replace(loop=mirrored_loop(loop), synthesizer=False, output_schema=None, mirror=False)
        pipeline = pipeline.tap(Mirror(assemble(mirrored)))
    judged = IfHeard(loop.guarded(judge, without_verdict), role="judge", instead="no_verdict")
    build = build_raw_output(loop, judge.name, debate.roster, own=is_own(debate.judge), on_flip=on_flip)
    pipeline = pipeline.then(judged).then(build)
    return with_synthesizer(
        pipeline,
        loop,
        debate.synthesizer,
        create_synthesizer,
        options=debate.of_synthesizer,
        schema=debate.output_schema,
    )


def _turn(debate: DebateOptions, debater: Debater) -> Turn:
    loop = debate.loop
    block, stand_in = loop.speakers(
        debater,
        create_debater,
        options=debate.of_debaters,
        stance=debater.stance,
        role=debater.role,
        max_rounds=loop.max_rounds,
        stances=debate.stances,
        anonymity=debate.anonymity,
        sources=debate.sources,
    )
    record = record_turn(
        name=loop.name,
        agent_name=debater.name,
        transcript=loop.transcript,
        collection_id=loop.collection_id,
        entry=partial(DebateContributionEntry, agent_name=debater.name, stance=debater.stance),
        stance=debater.stance,
        own=is_own(debater.block),
    )
    return loop.turn(debater, debater=block, stand_in=stand_in, record=record, stance=debater.stance)


def _moderation(debate: DebateOptions) -> Block[Any, Any]:
    """The moderator's decision, checked; the declared order if its model gives none that can be used."""
    loop, names = debate.loop, debate.names
    moderator = loop.role(
        debate.moderator,
        "moderator",
        create_moderator,
        options=debate.of_moderator,
        answer=lambda: decision_among(names),
        roster_names=names,
        transcript=loop.transcript,
        max_rounds=loop.max_rounds,
    )
    stash = stash_moderator_decision(
        name=loop.name, moderator=moderator.name, roster_names=names, own=is_own(debate.moderator)
    )
    is_default = isinstance(moderator, Moderator)

    def losses(error: BaseException) -> bool:
        unusable = is_default and isinstance(error, (BadAnswer, RosterError))
        return unusable or (loop.failures.goes_on and is_provider_failure(error))

    def recover(error: Exception, _: object, ctx: Context) -> DebateModeratorDecision:
        return decide_declared_order(error, ctx, moderator=moderator.name, roster_names=names)

    opening = sequencer(name=f"{loop.name}-open-round").then(moderator).then(stash)
    return WithFallback(opening, recover=recover, losses=losses, timeout=loop.failures.turn_timeout)


def _judge(debate: DebateOptions) -> Block[Any, Any]:
    loop, stances = debate.loop, debate.stances
    defaults: dict[str, Any] = {
        "transcript": loop.transcript,
        "stances": stances,
        "anonymize_transcript": debate.anonymize_transcript,
        "shuffle_for_judge": debate.shuffle_for_judge,
        "anonymity": debate.anonymity,
        "sources": debate.sources,
        "turn_order": loop.turn_order,
    }
    if isinstance(debate.judge, JudgeOptions):
        options: Any = {**debate.of_judge.for_block(), **debate.judge.for_block()}
        return Judge(debate.judge, name=loop.name, **defaults, options=options)
    makers = (create_judge, create_judge_panel)
    answer = partial(verdict_among, stances)
    return loop.role(debate.judge, "judge", *makers, options=debate.of_judge, answer=answer, **defaults)


def debate_spec(
    max_rounds: int,
    roster: Sequence[Debater] = (),
    sources: Mapping[str, str] | None = None,
    anonymity: Anonymity | None = None,
    turn_order: TurnOrder = "declared",
) -> PatternSpec:
    """The loop's parts for a debate: it stops by its cap or its moderator, and its voices are stances."""
    stances = {debater.name: debater.stance for debater in roster}
    # of checked values: nothing has to be validated, by a schema as large as the output's
    start = frozen(DebateState.model_construct(stances=stances, max_rounds=max_rounds))

    def stops(state: DebateState) -> StopReason | None:
        done = state.decision is not None and state.decision.done
        return stop_reason(state.round, max_rounds=max_rounds, moderator_done=done)

    return PatternSpec(
        input_type=DebateInput,
        new_state=lambda: start,
        make_output=partial(raw_output, sources=sources, anonymity=anonymity, turn_order=turn_order),
        stop_reason=stops,
        voice_of=attrgetter("stance"),
        speaker="debater",
    )


def stop_reason(round: int, *, max_rounds: int, moderator_done: bool) -> StopReason | None:  # noqa: A002
    """The debate's own reason to end after `round`, or None; the first that holds wins.

    >>> stop_reason(2, max_rounds=2, moderator_done=True)
    'max_rounds'
    """
    if round >= max_rounds:
        return "max_rounds"
    return "moderator_done" if moderator_done else None


def raw_output(
    ctx: Context,
    status: RunStatus,
    *,
    sources: Mapping[str, str] | None = None,
    anonymity: Anonymity | None = None,
    turn_order: TurnOrder = "declared",
) -> DebateRawOutput:
    """The raw output of the debate around a step, so far."""
    state = state_of(ctx, DebateState)
    return DebateRawOutput(
        rounds=state.round,
        question=state.question,
        transcript=list(entries_of(ctx)),
        verdict=state.verdict,
        moderator_decisions=list(state.moderator_decisions),
        stop_reason=state.stop_reason,
        status=status,
        losses=list(state.losses),
        seed=ctx.seed,
        leaks=None if anonymity is None else anonymity.leaks(ctx),
        quotes=_quotes(ctx, sources),
        turn_order=turn_order,
        mirrored=state.mirrored,
        first_verdict=state.first_verdict,
    )


def _quotes(ctx: Context, sources: Mapping[str, str] | None) -> list[list[VerifiedQuote]] | None:
    if not sources:
        return None
    from flowdebate.patterns.debate.quotes.verify import quotes_in  # its patterns take a while to compile

    return quotes_in(entries_of(ctx), sources)


def build_raw_output(
    loop: Loop, judge: str, roster: Sequence[Debater], *, own: bool, on_flip: OnFlip | None = None
) -> Handler[Any, DebateRawOutput]:
    """A block that takes the judge's verdict, or `MISSING`, and publishes the raw output.

    With `on_flip` the debate was mirrored: its verdict is that on both.
    """
    stances = list(dict.fromkeys(debater.stance for debater in roster))

    @handler(name=f"{loop.name}-build-raw-output")
    async def build(value: object, ctx: Context) -> DebateRawOutput:
        status: RunStatus = "no_verdict"
        record_unheard(roster, ctx)
        if value is not MISSING:
            read = partial(as_model, value, DebateVerdict, block=judge)
            verdict = await accepted(read, ctx, returns=DebateVerdict, own=own)
            if not isinstance(value, JudgedVerdict):
                verdict = of_application(verdict, stances, ctx, block=judge)
            found = verdict if on_flip is None else _of_both(verdict, stances, ctx, on_flip=on_flip)
            if found is not None:
                found = as_model(found, DebateVerdict, block=judge)
                ctx.scope.handle.update(verdict=found)
                ctx.emit(VerdictReached(block=judge, verdict=found))
                status = _worse(status_of(ctx), state_of(ctx, DebateState).mirrored)
        raw: Any = loop.spec.make_output(ctx, status)
        published: DebateRawOutput = publish(raw, ctx)
        return published

    return build


def _of_both(verdict: DebateVerdict, stances: Sequence[str], ctx: Context, *, on_flip: OnFlip) -> DebateVerdict | None:
    """The verdict on the debate and its mirror; None if there is none on the mirror."""
    ctx.scope.handle.update(first_verdict=verdict)
    mirrored = state_of(ctx, DebateState).mirrored
    return None if mirrored is None else verdict_of_both(verdict, mirrored, ctx, sides=stances, on_flip=on_flip)


def _worse(status: RunStatus, mirrored: DebateRawOutput | None) -> RunStatus:
    """The status of a debate whose mirror may have gone on without something."""
    return "degraded" if mirrored is not None and status == "complete" != mirrored.status else status


def of_application(verdict: DebateVerdict, stances: Sequence[str], ctx: Context, *, block: str) -> DebateVerdict:
    """The verdict of an application's own judge: without ballots, and with a winner that is one of `stances`, or none.

    A winner that is written in another Unicode form is the stance that reads the same; any other is not counted.
    """
    plain = verdict.model_copy(update={"judging": None, "unknown_winner": None})  # only the library can know
    if verdict.winner is None or verdict.winner in stances:
        return plain
    seen = {as_seen(stance): stance for stance in stances}
    if (stance := seen.get(as_seen(verdict.winner))) is not None:
        return plain.model_copy(update={"winner": stance})
    error = OutputError(block, "a DebateVerdict", [("winner", f"{shown(verdict.winner)} is none of {stances}")])
    record_failure(error, ctx, block=block, role="judge", name=block, instead="not_counted")
    return plain.model_copy(update={"winner": None, "unknown_winner": verdict.winner})


def record_unheard(roster: Sequence[Debater], ctx: Context) -> None:
    """Record the stances that nobody was asked to argue, such as those that a moderator never gave the floor."""
    shown_up = {entry.stance for entry in entries_of(ctx)} | {loss.stance for loss in state_of(ctx, DebateState).losses}
    for debater in roster:
        if debater.stance not in shown_up:
            shown_up.add(debater.stance)
            error = FlowDebateError(f"nobody was asked to argue {debater.stance!r}")
            about: Any = {"role": "debater", "name": debater.name, "stance": debater.stance}
            record_failure(error, ctx, block=ctx.block, instead="unheard", **about)


def without_verdict(error: Exception, _: object, ctx: Context) -> object:
    """Go on without the verdict of a judge whose provider failed."""
    record_failure(error, ctx, block=ctx.block, role="judge", name=ctx.block, instead="no_verdict")
    return MISSING


def _speakers_of_round(_: object, ctx: Context) -> list[str]:
    decision = state_of(ctx, DebateState).decision
    return [] if decision is None else decision.next_speakers


def _itself(speaker: str) -> str:
    return speaker
