"""Assembly of a debate: its steps, from the first to the last."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from flowdebate._text import shown
from flowdebate.blocks.functions import Handler, handler
from flowdebate.blocks.router import router
from flowdebate.blocks.sequencer import Sequencer, beside, sequencer
from flowdebate.errors import BadAnswer, ConfigurationError, FlowDebateError, OutputError, RosterError
from flowdebate.patterns.debate.audience import Audience
from flowdebate.patterns.debate.debater import create_debater
from flowdebate.patterns.debate.judging.judge import Judge, create_judge, create_judge_panel, read_blind
from flowdebate.patterns.debate.judging.jurors import verdict_among
from flowdebate.patterns.debate.judging.options import JudgeOptions
from flowdebate.patterns.debate.mirror import Mirror, mirrored_loop, verdict_of_both
from flowdebate.patterns.debate.moderator import (
    Moderator,
    create_moderator,
    decide_declared_order,
    decision_among,
    stash_moderator_decision,
)
from flowdebate.patterns.debate.phases import PhasedTurns
from flowdebate.patterns.debate.schemas import (
    DebateContributionEntry,
    DebateInput,
    DebateModeratorDecision,
    DebateRawOutput,
    DebateState,
    DebateVerdict,
    JudgedVerdict,
    ReaderQuestion,
    StopReason,
    VerdictReached,
)
from flowdebate.patterns.debate.synthesizer import create_synthesizer
from flowdebate.patterns.debate.transcript import create_debate_transcript
from flowdebate.patterns.output import ending_of, publish, status_of, with_synthesizer
from flowdebate.patterns.roles import NOT_KEPT
from flowdebate.patterns.roster import Debater, Role, is_own, merge_options
from flowdebate.patterns.spec import MANY_ROUNDS, Loop, PatternSpec
from flowdebate.patterns.state import TurnOrder, accepted, as_model, entries_of, state_of
from flowdebate.patterns.turn import MISSING, WithFallback, record_failure, record_turn
from flowdebate.prompts import as_seen

if TYPE_CHECKING:
    from flowdebate.blocks.base import Block
    from flowdebate.patterns.debate.judging.ballots import OnFlip
    from flowdebate.runs.context import Context
    from flowdebate.runs.events import RunStatus


def assemble(loop: Loop) -> Sequencer[Any, Any]:
    """The debate as a block: opening, rounds of turns, judge, raw output, synthesizer."""
    given, stances = loop.given, [debater.stance for debater in loop.roster]
    turns = {
        debater.name: loop.turn(
            debater,
            partial(
                record_turn,
                entry=partial(DebateContributionEntry, agent_name=debater.name, stance=debater.stance),
                stance=debater.stance,
            ),
            stance=debater.stance,
            role=debater.role,
            max_rounds=loop.max_rounds,
            stances=stances,
            anonymity=given["anonymity"],
        )
        for debater in loop.roster
    }
    listeners: Sequence[str] = given["audience"]
    before: Block[Any, Any] | None = None
    judge: Block[Any, Any]
    if listeners:
        options: Any = loop.options_of(JUDGE)
        before, judge = (Audience(loop, listeners, options, after=after) for after in (False, True))
    else:
        judge = _create_judge(loop, stances)
    moderated = loop.has(MODERATOR)

    pipeline = loop.opening(before)
    if given["phases"]:
        speakers = partial(_speakers_of_round, None) if moderated else None
        opened = pipeline.tap(_open_round(loop)) if moderated else pipeline
        pipeline = opened.tap(PhasedTurns(loop, turns, speakers=speakers))
    elif not moderated:
        pipeline = loop.with_turns(pipeline, turns)
    elif loop.turn_order != "declared" or loop.reverse:
        pipeline = loop.with_turns(pipeline.tap(_open_round(loop)), turns, speakers=partial(_speakers_of_round, None))
    else:
        # not `with_turns`, as above: stored runs have this router in their paths
        dispatch = router(name=f"{loop.name}-dispatch", choose=lambda speaker: speaker, routes=turns)
        pipeline = pipeline.tap(_open_round(loop)).tap_each(dispatch, over=_speakers_of_round, max_concurrency=1)
    pipeline = loop.until_stopped(pipeline, *(["done (moderator)"] if moderated else []))
    on_flip: OnFlip | None = None
    if given["mirror"]:
        on_flip = judge.how.on_flip if isinstance(judge, Judge) else "average"
        if on_flip == "human":
            raise ConfigurationError(loop.where, "mirror", True, "left out with on_flip='human'")  # noqa: FBT003
        mirror = Mirror(assemble(mirrored_loop(loop)))
        # a person has one debate after the other
        people = any(mirror.outline().texts_of("human"))
        pipeline = pipeline.tap(mirror) if people else beside(pipeline, mirror, f"{loop.name}-increment-round")
    build = _build_raw_output(loop, judge.name, stances, own=is_own(given["judge"]), on_flip=on_flip)
    return with_synthesizer(pipeline.then(loop.guard(JUDGE, judge)).then(build), loop, SYNTHESIZER)


def _open_round(loop: Loop) -> Block[Any, Any]:
    """The moderator's decision, checked; the declared order if its model gives none that can be used."""
    names = loop.names
    moderator = loop.role(
        MODERATOR,
        answer=partial(decision_among, tuple(names)),
        roster_names=names,
        transcript=loop.transcript,
        max_rounds=loop.max_rounds,
    )
    stash = stash_moderator_decision(
        name=loop.name, moderator=moderator.name, roster_names=names, own=is_own(loop.given["moderator"])
    )
    is_default = isinstance(moderator, Moderator)

    def losses(error: BaseException) -> bool:
        unusable = is_default and isinstance(error, (BadAnswer, RosterError))
        return unusable or loop.failures.tolerates(error)

    def recover(error: Exception, _: object, ctx: Context) -> DebateModeratorDecision:
        return decide_declared_order(error, ctx, moderator=moderator.name, roster_names=names)

    opening = sequencer(name=f"{loop.name}-open-round").then(moderator).then(stash)
    return WithFallback(opening, recover=recover, losses=losses, timeout=loop.failures.turn_timeout)


def _create_judge(loop: Loop, stances: Sequence[str]) -> Block[Any, Any]:
    judge, names = loop.given["judge"], ("anonymize_transcript", "shuffle_for_judge", "anonymity")
    facts: dict[str, Any] = {name: loop.given[name] for name in names}
    facts.update(transcript=loop.transcript, stances=stances, turn_order=loop.turn_order, sources=loop.material)
    if isinstance(judge, JudgeOptions):
        options: Any = merge_options(loop.options_of(JUDGE), judge.for_block())
        return Judge(judge, name=loop.name, **facts, options=options)
    block = loop.role(JUDGE, answer=partial(verdict_among, tuple(stances)), **facts)
    return read_blind(block, facts["anonymity"]) if facts["anonymize_transcript"] else block


def _create_state(loop: Loop) -> DebateState:
    stances = {debater.name: debater.stance for debater in loop.roster}
    # of checked values: nothing has to be validated, by a schema as large as the output's
    asked = () if loop.goes_on is None else loop.goes_on.asked
    return DebateState.model_construct(
        stances=stances,
        max_rounds=loop.max_rounds,
        phases=loop.given["phases"],
        reader_questions=[ReaderQuestion(round=number, text=text) for number, text in asked],
    )


def stop_reason(state: DebateState, max_rounds: int) -> StopReason | None:
    """The debate's own reason to end after a round, or None; the first that holds wins.

    >>> stop_reason(DebateState(round=2), max_rounds=2)
    'max_rounds'
    """
    if state.round >= max_rounds:
        return "max_rounds"
    decision = state.decision
    return "moderator_done" if decision is not None and decision.done else None


def raw_output(loop: Loop, ctx: Context, status: RunStatus) -> DebateRawOutput:
    """The raw output of the debate around a step, so far."""
    state, anonymity = state_of(ctx, DebateState), loop.given["anonymity"]
    return DebateRawOutput(
        rounds=state.round,
        question=state.question,
        transcript=list(entries_of(ctx)),
        verdict=state.verdict,
        moderator_decisions=list(state.moderator_decisions),
        leaks=None if anonymity is None else anonymity.leaks(ctx),
        turn_order=loop.turn_order,
        mirrored=state.mirrored,
        audience=list(state.audience),
        reader_questions=list(state.reader_questions),
        first_verdict=state.first_verdict,
        **ending_of(ctx, status),
    )


def _build_raw_output(
    loop: Loop, judge: str, stances: Sequence[str], *, own: bool, on_flip: OnFlip | None
) -> Handler[Any, DebateRawOutput]:
    """A block that takes the judge's verdict, or `MISSING`, and publishes the raw output.

    With `on_flip` the debate was mirrored: its verdict is that on both.
    """
    sides = list(dict.fromkeys(stances))

    @handler(name=f"{loop.name}-build-raw-output")
    async def build(value: object, ctx: Context) -> DebateRawOutput:
        status: RunStatus = "no_verdict"
        _record_unheard(loop.roster, ctx)
        if value is not MISSING:
            read = partial(as_model, value, DebateVerdict, block=judge)
            verdict = await accepted(read, ctx, returns=DebateVerdict, own=own)
            if not isinstance(value, JudgedVerdict):
                verdict = _check_own_verdict(verdict, sides, ctx, block=judge)
            mirrored = state_of(ctx, DebateState).mirrored
            found: DebateVerdict | None = verdict
            if on_flip is not None:
                ctx.scope.handle.update(first_verdict=verdict)
                both = None
                if mirrored is not None:
                    both = verdict_of_both(verdict, mirrored, ctx, sides=sides, on_flip=on_flip)
                # a plain verdict: the subclass says only which block made it, and is not read back from a store
                found = None if both is None else as_model(both, DebateVerdict, block=judge)
            if found is not None:
                ctx.scope.handle.update(verdict=found)
                ctx.emit(VerdictReached(block=judge, verdict=found))
                status = status_of(ctx)
                if status == "complete" and mirrored is not None and mirrored.status != "complete":
                    status = "degraded"  # the mirror has gone on without something
        raw: Any = loop.make_output(ctx, status)
        published: DebateRawOutput = publish(raw, ctx)
        return published

    return build


def _check_own_verdict(verdict: DebateVerdict, stances: Sequence[str], ctx: Context, *, block: str) -> DebateVerdict:
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


def _record_unheard(roster: Sequence[Debater], ctx: Context) -> None:
    """Record the stances that nobody was asked to argue, such as those that a moderator never gave the floor."""
    shown_up = {entry.stance for entry in entries_of(ctx)} | {loss.stance for loss in state_of(ctx, DebateState).losses}
    for debater in roster:
        if debater.stance not in shown_up:
            shown_up.add(debater.stance)
            error = FlowDebateError(f"nobody was asked to argue {debater.stance!r}")
            about: Any = {"role": "debater", "name": debater.name, "stance": debater.stance}
            record_failure(error, ctx, block=ctx.block, instead="unheard", **about)


def _speakers_of_round(_: object, ctx: Context) -> list[str]:
    decision = state_of(ctx, DebateState).decision
    return [] if decision is None else decision.next_speakers


JUDGE = Role(name="judge", create=[create_judge, create_judge_panel], instead="no_verdict")
MODERATOR = Role(name="moderator", create=[create_moderator], instead="declared_order", absent="by default")
SYNTHESIZER = Role(name="synthesizer", create=[create_synthesizer], instead="no_output", absent="if False")
DEBATE = PatternSpec(
    name="debate",
    speaker=Role(name="debater", create=[create_debater], visibility=NOT_KEPT),
    roles=[JUDGE, MODERATOR, SYNTHESIZER],
    choices={"turn_order": TurnOrder},
    input_type=DebateInput,
    new_state=_create_state,
    make_output=raw_output,
    create_transcript=create_debate_transcript,
    stop_reason=stop_reason,
    voice_of=attrgetter("stance"),
    member=Debater,
    many_rounds=MANY_ROUNDS,
)
