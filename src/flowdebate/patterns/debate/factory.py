"""The `debate()` factory: it validates the options and assembles the steps of a debate."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence, Sized
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, overload

from flowdebate._text import join_choices, typed
from flowdebate._util.option_types import Flag, check_option
from flowdebate._util.validation import suggesting
from flowdebate.blocks.functions import BlockLike, Capability, Handler, ToolLike, handler
from flowdebate.blocks.sequencer import Sequencer, beside, sequencer
from flowdebate.chassis.anonymity.aliases import Anonymity, named_models
from flowdebate.chassis.options import PromptOptions
from flowdebate.chassis.output import ending_of, publish, status_of, with_synthesizer
from flowdebate.chassis.roles import NOT_KEPT, ModeratorOptions, PatternKeywords, SynthesizerOptions
from flowdebate.chassis.roster import Debater, Role, check_roster, is_custom_code, role_options, speaker_options
from flowdebate.chassis.spec import MANY_ROUNDS, Loop, PatternSpec, check_options
from flowdebate.chassis.state import TurnOrder, accepted, as_model, entries_of, state_of
from flowdebate.chassis.turn import MISSING, FailurePolicy, WithFallback, record_failure, record_turn
from flowdebate.errors import (
    BadAnswer,
    FlowDebateError,
    FlowDebateWarning,
    OutputError,
    RosterError,
)
from flowdebate.models.resolve import ModelChoice, of_intent
from flowdebate.patterns.debate.judging.judge import Judge, create_judge, create_judge_panel, read_blind
from flowdebate.patterns.debate.judging.jurors import verdict_among
from flowdebate.patterns.debate.judging.options import JudgeOptions, as_judge_options
from flowdebate.patterns.debate.judging.views import Schedule
from flowdebate.prompts import as_seen

from .audience import Audience, check_audience
from .baselines import BaselineOptions, add_baselines, as_baselines
from .debater import create_debater
from .events import VerdictReached
from .mirror import Mirror, combine_verdicts, mirrored_loop
from .moderator import Moderator, create_moderator, decide_declared_order, decision_among, stash_moderator_decision
from .options import CONSTRAINTS, DEFAULT_ROUNDS, DebateOptions
from .phases import PhasedTurns, PhaseLike, check_phases
from .schemas import (
    DebateContributionEntry,
    DebateInput,
    DebateModeratorDecision,
    DebateRawOutput,
    DebateState,
    DebateVerdict,
    JudgedVerdict,
    ReaderQuestion,
    StopReason,
)
from .synthesizer import create_synthesizer
from .transcript import Transcript, create_debate_transcript

if TYPE_CHECKING:
    from flowdebate.blocks.base import Block
    from flowdebate.blocks.generator import MessagesSlot, TextSlot, Visibility
    from flowdebate.chassis.material import Material
    from flowdebate.models.base import Model, ModelSettings
    from flowdebate.patterns.debate.judging.ballots import OnFlip
    from flowdebate.patterns.debate.judging.views import ScheduleLike
    from flowdebate.runs.context import Context
    from flowdebate.runs.events import RunStatus
    from flowdebate.sources.source import Sources, SourcesLike
    from flowdebate.stop import StopWhen

    from .baseline_names import BaselineName
    from .formats import Format


def assemble(loop: Loop[DebateOptions]) -> Sequencer[Any, Any]:
    """Assemble the block for a debate: opening, rounds of turns, judge, raw output, and synthesizer."""
    options, stances = loop.options, [debater.stance for debater in loop.roster]
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
            anonymity=loop.anonymity,
        )
        for debater in loop.roster
    }
    before: Block[Any, Any] | None = None
    judge: Block[Any, Any]
    if options.audience:
        for_judge = loop.options_of(JUDGE)
        before, judge = (Audience(loop, options.audience, for_judge, after=after) for after in (False, True))
    else:
        judge = _create_judge(loop, stances)
    moderated = loop.has(MODERATOR)

    pipeline = loop.opening(before)
    speakers = None
    if moderated:
        pipeline, speakers = pipeline.tap(_open_round(loop)), _speakers_of_round
    if options.phases:
        pipeline = pipeline.tap(PhasedTurns(loop, turns, speakers=speakers))
    else:
        pipeline = loop.with_turns(pipeline, turns, speakers=speakers)
    pipeline = loop.until_stopped(pipeline, *(["done (moderator)"] if moderated else []))
    on_flip: OnFlip | None = None
    if options.mirror:
        on_flip = judge.how.on_flip if isinstance(judge, Judge) else "average"
        mirror = Mirror(assemble(mirrored_loop(loop)))
        # humans cannot take part in both debates at once
        people = any(mirror.outline().texts_of("human"))
        pipeline = pipeline.tap(mirror) if people else beside(pipeline, mirror, f"{loop.name}-increment-round")
    build = _build_raw_output(loop, judge.name, stances, custom=is_custom_code(loop.choice(JUDGE)), on_flip=on_flip)
    return with_synthesizer(pipeline.then(loop.guard(JUDGE, judge)).then(build), loop, SYNTHESIZER)


def _open_round(loop: Loop[DebateOptions]) -> Block[Any, Any]:
    """Create the block that opens a round.

    Debaters speak in the moderator's order or, if the moderator fails, in declared order.
    """
    names = loop.names
    moderator = loop.role(
        MODERATOR,
        answer=partial(decision_among, tuple(names)),
        roster_names=names,
        transcript=loop.transcript,
        max_rounds=loop.max_rounds,
    )
    stash = stash_moderator_decision(
        name=loop.name, moderator=moderator.name, roster_names=names, custom=is_custom_code(loop.choice(MODERATOR))
    )
    is_default = isinstance(moderator, Moderator)

    def losses(error: BaseException) -> bool:
        unusable = is_default and isinstance(error, (BadAnswer, RosterError))
        return unusable or loop.failures.tolerates(error)

    def recover(error: Exception, _: object, ctx: Context) -> DebateModeratorDecision:
        return decide_declared_order(error, ctx, moderator=moderator.name, roster_names=names)

    opening = sequencer(name=f"{loop.name}-open-round").then(moderator).then(stash)
    return WithFallback(opening, recover=recover, losses=losses, timeout=loop.failures.turn_timeout)


def _create_judge(loop: Loop[DebateOptions], stances: Sequence[str]) -> Block[Any, Any]:
    options = loop.options
    if options.judging is not None:
        judging = options.judging
        if judging.quorum is None and (judges := len(judging.panel)) > 1:
            failures = loop.judge_failures
            judging = replace(judging, quorum=min(failures.least, judges) if failures.continues else judges)
        return Judge(
            judging,
            name=loop.name,
            transcript=loop.transcript,
            stances=stances,
            anonymize_transcript=options.anonymize_transcript,
            shuffle_for_judge=options.shuffle_for_judge,
            anonymity=loop.anonymity,
            turn_order=loop.turn_order,
            sources=loop.material,
            options=speaker_options(loop.options_of(JUDGE), options.judging.for_block()),
        )
    block = loop.role(
        JUDGE,
        answer=partial(verdict_among, tuple(stances)),
        transcript=loop.transcript,
        stances=stances,
        anonymize_transcript=options.anonymize_transcript,
        shuffle_for_judge=options.shuffle_for_judge,
        anonymity=loop.anonymity,
        turn_order=loop.turn_order,
        sources=loop.material,
    )
    return read_blind(block, loop.anonymity) if options.anonymize_transcript else block


def _create_state(loop: Loop[DebateOptions]) -> DebateState:
    stances = {debater.name: debater.stance for debater in loop.roster}
    # skip validation: the values have already been checked, and validating such a large schema takes time
    questions = () if loop.continuation is None else loop.continuation.asked
    return DebateState.model_construct(
        stances=stances,
        max_rounds=loop.max_rounds,
        phases=loop.options.phases,
        reader_questions=[ReaderQuestion(round=number, text=text) for number, text in questions],
    )


def stop_reason(state: DebateState, max_rounds: int) -> StopReason | None:
    """Return the first applicable reason for ending the debate after a round, or None to continue.

    >>> stop_reason(DebateState(round=2), max_rounds=2)
    'max_rounds'
    """
    if state.round >= max_rounds:
        return "max_rounds"
    decision = state.decision
    return "moderator_done" if decision is not None and decision.done else None


def raw_output(loop: Loop[DebateOptions], ctx: Context, status: RunStatus) -> DebateRawOutput:
    """Build the raw output of the enclosing debate from its current state."""
    state, anonymity = state_of(ctx, DebateState), loop.anonymity
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
    loop: Loop[DebateOptions], judge: str, stances: Sequence[str], *, custom: bool, on_flip: OnFlip | None
) -> Handler[Any, DebateRawOutput]:
    """Create the block that publishes the raw output; its input is the judge's verdict, or `MISSING`.

    If `on_flip` is set, the debate was mirrored, and the combined verdict covers both debates.
    """
    sides = list(dict.fromkeys(stances))

    @handler(name=f"{loop.name}-build-raw-output")
    async def build(value: object, ctx: Context) -> DebateRawOutput:
        status: RunStatus = "no_verdict"
        _record_unheard(loop.roster, ctx)
        if value is not MISSING:
            read = partial(as_model, value, DebateVerdict, block=judge)
            verdict = await accepted(read, ctx, returns=DebateVerdict, custom=custom)
            if not isinstance(value, JudgedVerdict):
                verdict = _check_own_verdict(verdict, sides, ctx, block=judge)
            mirrored = state_of(ctx, DebateState).mirrored
            decided: DebateVerdict | None = verdict
            if on_flip is not None:
                ctx.scope.handle.update(first_verdict=verdict)
                both_orders = None
                if mirrored is not None:
                    both_orders = combine_verdicts(verdict, mirrored, ctx, sides=sides, on_flip=on_flip)
                # a plain `DebateVerdict`: the subclass only identifies built-in judges, and does not survive being
                # stored
                decided = None if both_orders is None else as_model(both_orders, DebateVerdict, block=judge)
            if decided is not None:
                ctx.scope.handle.update(verdict=decided)
                ctx.emit(VerdictReached(block=judge, verdict=decided))
                status = status_of(ctx)
                if status == "complete" and mirrored is not None and mirrored.status != "complete":
                    status = "degraded"  # the mirrored debate had to continue without one of its participants
        raw: Any = loop.make_output(ctx, status)
        published: DebateRawOutput = publish(raw, ctx)
        return published

    return build


def _check_own_verdict(verdict: DebateVerdict, stances: Sequence[str], ctx: Context, *, block: str) -> DebateVerdict:
    """Validate the verdict of a custom judge.

    The verdict must not contain ballots, and its winner must be None or one of `stances`. A winner that differs from a
    stance only in Unicode form is replaced by that stance; any other winner is dropped.
    """
    # these fields are reserved for built-in judges
    plain = verdict.model_copy(update={"judging": None, "unknown_winner": None})
    if verdict.winner is None or verdict.winner in stances:
        return plain
    seen = {as_seen(stance): stance for stance in stances}
    if (stance := seen.get(as_seen(verdict.winner))) is not None:
        return plain.model_copy(update={"winner": stance})
    problem = f"must be {join_choices(stances)} (got {typed(verdict.winner)})"
    error = OutputError(block, "a DebateVerdict", [("winner", problem)])
    record_failure(error, ctx, block=block, role="judge", name=block, instead="not_counted")
    return plain.model_copy(update={"winner": None, "unknown_winner": verdict.winner})


def _record_unheard(roster: Sequence[Debater], ctx: Context) -> None:
    """Record the stances that had no speaker, for example because the moderator never gave their debaters the floor."""
    shown_up = {entry.stance for entry in entries_of(ctx)} | {loss.stance for loss in state_of(ctx, DebateState).losses}
    for debater in roster:
        if debater.stance not in shown_up:
            shown_up.add(debater.stance)
            error = FlowDebateError(f"no debater was asked to argue for {debater.stance!r}")
            record_failure(
                error,
                ctx,
                block=ctx.block,
                role="debater",
                name=debater.name,
                stance=debater.stance,
                instead="unheard",
            )


def _speakers_of_round(ctx: Context) -> list[str]:
    decision = state_of(ctx, DebateState).decision
    return [] if decision is None else decision.next_speakers


JUDGE = Role(name="judge", create=[create_judge, create_judge_panel], instead="no_verdict")
MODERATOR = Role(name="moderator", create=[create_moderator], instead="declared_order", absent="by default")
SYNTHESIZER = Role(name="synthesizer", create=[create_synthesizer], instead="no_output", absent="if False")
DEBATE: PatternSpec[DebateOptions] = PatternSpec(
    name="debate",
    speaker=Role(name="debater", create=[create_debater], visibility=NOT_KEPT),
    roles=[JUDGE, MODERATOR, SYNTHESIZER],
    constraints=CONSTRAINTS,
    prompt_options=("history", "hide_names"),
    input_type=DebateInput,
    new_state=_create_state,
    make_output=raw_output,
    create_transcript=create_debate_transcript,
    stop_reason=stop_reason,
    voice_of=attrgetter("stance"),
    member=Debater,
    many_rounds=MANY_ROUNDS,
)


OutT = TypeVar("OutT")


class DebateKeywords(PatternKeywords, total=False):
    """Options for `debate()` that do not affect its output type; see `debate()` for details."""

    moderator: BlockLike | ModeratorOptions | bool | None
    transcript: Transcript | None
    turn_order: TurnOrder
    phases: Sequence[PhaseLike] | None
    format: str | Format | None
    audience: Sequence[str] | None
    mirror: bool
    anonymize_transcript: bool
    shuffle_for_judge: bool
    baselines: bool | Sequence[BaselineName] | BaselineOptions
    judge_visibility: Visibility | Mapping[str, bool] | None


@overload
def debate(
    *,
    name: str,
    debaters: Sequence[Debater | Mapping[str, Any]],
    max_rounds: int = DEFAULT_ROUNDS,
    judge: BlockLike | JudgeOptions | ScheduleLike | None = None,
    model: ModelChoice = None,
    synthesizer: Literal[False],
    output_schema: None = None,
    **options: Unpack[DebateKeywords],
) -> Sequencer[Any, DebateRawOutput, DebateRawOutput]: ...


@overload
def debate(
    *,
    name: str,
    debaters: Sequence[Debater | Mapping[str, Any]],
    max_rounds: int = DEFAULT_ROUNDS,
    judge: BlockLike | JudgeOptions | ScheduleLike | None = None,
    model: ModelChoice = None,
    synthesizer: BlockLike | SynthesizerOptions | Literal[True] | None = None,
    output_schema: type[OutT],
    **options: Unpack[DebateKeywords],
) -> Sequencer[Any, OutT, DebateRawOutput]: ...


@overload
def debate(
    *,
    name: str,
    debaters: Sequence[Debater | Mapping[str, Any]],
    max_rounds: int = DEFAULT_ROUNDS,
    judge: BlockLike | JudgeOptions | ScheduleLike | None = None,
    model: ModelChoice = None,
    synthesizer: SynthesizerOptions | Literal[True] | None = None,
    output_schema: None = None,
    **options: Unpack[DebateKeywords],
) -> Sequencer[Any, str, DebateRawOutput]: ...


@overload
def debate(
    *,
    name: str,
    debaters: Sequence[Debater | Mapping[str, Any]],
    max_rounds: int = DEFAULT_ROUNDS,
    judge: BlockLike | JudgeOptions | ScheduleLike | None = None,
    model: ModelChoice = None,
    synthesizer: Block[Any, OutT],
    output_schema: None = None,
    **options: Unpack[DebateKeywords],
) -> Sequencer[Any, OutT, DebateRawOutput]: ...


@overload
def debate(
    *,
    name: str,
    debaters: Sequence[Debater | Mapping[str, Any]],
    max_rounds: int = DEFAULT_ROUNDS,
    judge: BlockLike | JudgeOptions | ScheduleLike | None = None,
    model: ModelChoice = None,
    synthesizer: BlockLike | SynthesizerOptions | bool | None = None,
    output_schema: object = None,
    **options: Unpack[DebateKeywords],
) -> Sequencer[Any, Any, DebateRawOutput]: ...


@suggesting
def debate(  # noqa: PLR0913 - the pattern's options, each with its default
    *,
    name: str,
    debaters: Sequence[Debater | Mapping[str, Any]],
    max_rounds: int = DEFAULT_ROUNDS,
    judge: BlockLike | JudgeOptions | ScheduleLike | None = None,
    model: ModelChoice = None,
    synthesizer: BlockLike | SynthesizerOptions | bool | None = None,
    moderator: BlockLike | ModeratorOptions | bool | None = None,
    terminate_when: StopWhen | None = None,
    turn_order: TurnOrder = "declared",
    phases: Sequence[PhaseLike] | None = None,
    format: str | Format | None = None,  # noqa: A002 - the option's name
    audience: Sequence[str] | None = None,
    mirror: bool = False,
    transcript: Transcript | None = None,
    output_schema: object = None,
    instructions: TextSlot | None = None,
    tools: Sequence[ToolLike] | None = None,
    uses: Sequence[Capability] | None = None,
    context: MessagesSlot | None = None,
    settings: ModelSettings | None = None,
    prompts: PromptOptions | None = None,
    anonymize_transcript: bool = True,
    shuffle_for_judge: bool = True,
    sources: SourcesLike | Sources | Material | None = None,
    baselines: bool | Sequence[BaselineName] | BaselineOptions = False,
    judge_visibility: Visibility | Mapping[str, bool] | None = None,
    synthesizer_visibility: Visibility | Mapping[str, bool] | None = None,
    debater_visibility: Visibility | Mapping[str, bool] | None = None,
    collection_id: str | None = None,
    failures: FailurePolicy | None = None,
) -> Sequencer[Any, Any, DebateRawOutput]:
    """Build a debate, a block that argues and decides a question: `await pattern.run("Should we ship?")`.

    In each round every debater speaks once; after `max_rounds`, or once `terminate_when(ctx)` is true, the judge reads
    the transcript and the synthesizer writes the output. `result.raw` is the `DebateRawOutput`.

    - `judge`, `moderator`, `synthesizer`: a block, a function of `(input, ctx)`, or options. A judge may also be a
      schedule ("swap"); `synthesizer=False` returns the `DebateRawOutput`.
    - `model`: the default model for all roles.
    - `turn_order`: "declared", "rotated", "shuffled" or "simultaneous".
    - `phases`, `format`: the purpose of each round, or a named format such as "oxford".
    - `audience`: listeners who vote before and after the debate, replacing the judge.
    - `mirror`: True to repeat the debate with the speakers in reverse order.
    - `instructions`, `tools`, `uses`, `context`, `settings`, `prompts`: options for all default blocks.
    - `sources`: strings or paths for debaters to quote.
    - `baselines`: cheaper methods to compare the debate with.
    - `failures`: how to react to provider failures, and time limits for turns and rounds.

    The input is a str, `{"question": str}` or a `DebateInput`. Invalid options raise `ConfigurationError`.

    >>> rent = debate(name="rent", debaters=[Debater("ann", "cap rents"), Debater("bob", "free rents")])
    >>> rent.name
    'rent'
    """
    location = f"debate {name!r}"
    if format is not None:
        from .formats import find_format, with_roles  # imported lazily because most debates use no format

        if (format_ := find_format(format, location=location, pattern="debate")) is not None:
            members = check_roster(debaters, location=location, kind=Debater, field="debaters", minimum=1)
            debaters = with_roles(members, format_, location=location, field="debaters")
            phases = format_.phases or None if phases is None else phases
            audience = format_.audience or None if audience is None else audience
            instructions = format_.instructions if instructions is None else instructions
    check_option(Flag, "mirror", mirror, location=location, optional=False)
    check_option(Flag, "anonymize_transcript", anonymize_transcript, location=location, optional=False)
    check_option(Flag, "shuffle_for_judge", shuffle_for_judge, location=location, optional=False)
    judging = as_judge_options(judge, location=location)
    own_judge = None if isinstance(judge, (JudgeOptions, Schedule, str)) else judge
    planned = check_phases(phases, location=location, members=len(debaters) if isinstance(debaters, Sized) else 0)
    loop = check_options(
        DEBATE,
        DebateOptions(
            name=name,
            roster=debaters,
            max_rounds=max_rounds,
            roles={"judge": own_judge, "moderator": moderator, "synthesizer": synthesizer},
            visibilities={
                "judge": judge_visibility,
                "synthesizer": synthesizer_visibility,
                "debater": debater_visibility,
            },
            judging=judging,
            phases=planned,
            audience=check_audience(audience, location=location),
            mirror=mirror,
            anonymize_transcript=anonymize_transcript,
            shuffle_for_judge=shuffle_for_judge,
            baselines=as_baselines(baselines, location=location),
            turn_order=turn_order,
            terminate_when=terminate_when,
            transcript=transcript,
            output_schema=output_schema,
            instructions=instructions,
            model=model,
            tools=tools,
            uses=uses,
            context=context,
            settings=settings,
            prompts=prompts,
            sources=sources,
            collection_id=collection_id,
            failures=failures,
        ),
    )
    roster, options = loop.roster, loop.options
    if (judge_model := loop.models.get("judge")) is not None and own_judge is None:
        judging = (
            JudgeOptions(model=judge_model) if judging is None else replace(judging, model=judging.model or judge_model)
        )
    if own_judge is None:
        options = replace(options, judging=judging or JudgeOptions())
    loop = replace(
        loop,
        options=options,
        max_rounds=sum(phase.rounds for phase in planned) or max_rounds,
        anonymity=_hide_names(loop, own_judge, judging),
    )
    pipeline = _assembled(loop)
    if judging is not None:
        judges = judging.panel or ([] if judging.model is None else [judging.model])
        warn_of_kin(location, judges, roster, model=options.model)
    if own_judge is None and not anonymize_transcript:
        warn_of_named_judge(location, roster, model=options.model, judge=None if judging is None else judging.model)
    if options.baselines is None:
        return pipeline
    return add_baselines(
        pipeline, roster, baselines=options.baselines, model=options.model, options=options.for_blocks()
    )


def _hide_names(loop: Loop[DebateOptions], judge: BlockLike | None, judging: JudgeOptions | None) -> Anonymity | None:
    """Return aliases for all names that could reveal the author of an argument, or None if names are shown."""
    readers = [judge, *(debater.block for debater in loop.roster)]
    is_read = hasattr(judge, "reading_blind") or any(role_options(block) is not None for block in readers)
    if loop.prompts.hide_names is False or not is_read:  # there is nobody to hide names from
        return None
    models = [debater.options.model for debater in loop.roster if debater.options is not None]
    models += [] if judging is None else [judging.model, *judging.panel]
    return Anonymity(
        names=tuple(loop.names),
        models=named_models(loop.options.model, loop.roster, *models),
        stances=tuple(debater.stance for debater in loop.roster),
    )


def _assembled(loop: Loop[DebateOptions]) -> Sequencer[Any, Any]:
    """Assemble the debate, with support for continuing it after it ends."""
    pipeline = assemble(loop)
    # this string occurs in the path of every contribution to a round
    pipeline.keeps = None if loop.continuation is None else "/round["
    pipeline.with_continuation = lambda more: _assembled(
        replace(loop, max_rounds=more.held + more.rounds, continuation=more)
    )
    return pipeline


def warn_of_kin(location: str, judges: Sequence[Model | str], roster: Sequence[Debater], *, model: ModelChoice) -> None:
    """Warn if a configured judge belongs to the same model family as a debater."""
    from flowdebate.chassis.anonymity.names import kin_among

    default = of_intent(model, "chat")
    argued = [debater.model or default for debater in roster if debater.block is None]
    names = [
        [member_model if isinstance(member_model, str) else member_model.name for member_model in some if member_model]
        for some in (judges, argued)
    ]
    kin = kin_among(*names)
    if kin:
        pairs = ", ".join(f"{judge!r} judges, {debater!r} argues" for judge, debater in kin)
        warnings.warn(
            f"{location}: a judge and a debater belong to the same model family ({pairs}), so the judge may "
            "favor its own style; choose a judge from another family",
            FlowDebateWarning,
            stacklevel=4,
        )


def warn_of_named_judge(
    location: str, roster: Sequence[Debater], *, model: ModelChoice, judge: Model | str | None
) -> None:
    """Warn if the default judge uses the same model as a debater and can see the debaters' names."""
    default, judges = of_intent(model, "chat"), judge or of_intent(model, "synthesize")
    same = [member.name for member in roster if member.block is None and (member.model or default) == judges]
    if same:
        warnings.warn(
            f"{location}: the default judge shares a model with {', '.join(map(repr, same))}, and with "
            "anonymize_transcript=False it may recognize and favor its own text; keep "
            "anonymize_transcript=True, or give the judge another model (judge=JudgeOptions(model=...))",
            FlowDebateWarning,
            stacklevel=4,
        )
