"""Assembly of a debate: its steps, from the first to the last."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from flowdebate.blocks.base import Block
from flowdebate.blocks.handler import Handler, handler
from flowdebate.blocks.router import router
from flowdebate.blocks.sequencer import sequencer
from flowdebate.errors import BadAnswer, ConfigurationError, RosterError
from flowdebate.patterns.binding import debater_of, role_block
from flowdebate.patterns.debate.debater import create_debater
from flowdebate.patterns.debate.judging.judge import Judge, create_judge, create_judge_panel
from flowdebate.patterns.debate.judging.options import JudgeOptions
from flowdebate.patterns.debate.judging.prompt import verdict_among
from flowdebate.patterns.debate.moderator import (
    Moderator,
    create_moderator,
    decide_declared_order,
    decision_among,
    stash_moderator_decision,
)
from flowdebate.patterns.debate.schemas import (
    DebateInput,
    DebateRawOutput,
    DebateState,
    DebateVerdict,
    JudgedVerdict,
    VerdictReached,
)
from flowdebate.patterns.debate.synthesizer import create_synthesizer
from flowdebate.patterns.debate.transcript import create_record_argument, debate_state
from flowdebate.patterns.failures import MISSING, WithFallback, is_provider_failure, record_failure
from flowdebate.patterns.loop import Loop, PatternSpec, in_declared_order
from flowdebate.patterns.output import publish, status_of
from flowdebate.patterns.state import as_model, entries_of
from flowdebate.patterns.synthesis import guarded_synthesizer, held_to_schema, schema_to_check

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flowdebate.blocks.outline import Outline
    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.models.base import Model
    from flowdebate.models.output import OutputSchema
    from flowdebate.patterns.anonymity.anonymity import Anonymity
    from flowdebate.patterns.debate.quotes.schemas import VerifiedQuote
    from flowdebate.patterns.debate.schemas import DebateModeratorDecision, StopReason
    from flowdebate.patterns.roles import RoleOptions
    from flowdebate.patterns.roster import Debater
    from flowdebate.patterns.turn import Turn
    from flowdebate.runs.context import Context
    from flowdebate.runs.events import RunStatus

__all__ = (
    "DebateOptions",
    "assemble",
    "debate_spec",
    "stop_reason",
)


@dataclass(frozen=True, kw_only=True)
class DebateOptions:
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
        pipeline = in_declared_order(pipeline, turns.values())
    else:
        dispatch = router(name=f"{loop.name}-dispatch", choose=_itself, routes=turns)
        pipeline = pipeline.tap(_moderation(debate)).tap_each(dispatch, over=_speakers_of_round, max_concurrency=1)
    pipeline = loop.until_stopped(pipeline)
    pipeline = pipeline.then(loop.guarded(judge, without_verdict)).then(build_raw_output(loop, judge.name))
    if debate.synthesizer is False:
        return pipeline
    synthesizer = _synthesizer(debate)
    guarded = guarded_synthesizer(loop, synthesizer)
    pipeline = pipeline.then(SkipWithoutVerdict(guarded) if loop.failures.goes_on else guarded)
    return held_to_schema(pipeline, loop, synthesizer, schema_to_check(debate.synthesizer, debate.output_schema))


def _turn(debate: DebateOptions, debater: Debater) -> Turn:
    loop = debate.loop
    stand_in = loop.failures.stand_in
    record = create_record_argument(
        name=loop.name,
        agent_name=debater.name,
        stance=debater.stance,
        transcript=loop.transcript,
        collection_id=loop.collection_id,
    )
    return loop.turn(
        debater,
        debater=_debater(debate, debater) or loop.own_debater(debater),
        stand_in=None if stand_in is None else _debater(debate, debater, stand_in=stand_in),
        record=record,
        stance=debater.stance,
    )


def _debater(debate: DebateOptions, debater: Debater, *, stand_in: Model | None = None) -> Block[Any, Any] | None:
    """The default block of `debater`, or that of its `stand_in`; None if it has one of the application's own."""
    loop = debate.loop
    defaults = {
        "name": loop.name,
        "agent_name": debater.name,
        "stance": debater.stance,
        "role": debater.role,
        "max_rounds": loop.max_rounds,
        "stances": debate.stances,
        "transcript": loop.transcript,
        "anonymity": debate.anonymity,
        "sources": debate.sources,
        **debate.of_debaters.for_block(),
    }
    return debater_of(debater, create_debater, where=loop.where, defaults=defaults, stand_in=stand_in)


def _moderation(debate: DebateOptions) -> Block[Any, Any]:
    """The moderator's decision, checked; the declared order if its model gives none that can be used."""
    loop, names = debate.loop, debate.names
    defaults = {
        "name": loop.name,
        "roster_names": names,
        "transcript": loop.transcript,
        "max_rounds": loop.max_rounds,
        **debate.of_moderator.for_block(),
    }
    default = role_block(debate.moderator, [create_moderator], where=loop.where, field="moderator", defaults=defaults)
    moderator: Any = default or loop.own_role(debate.moderator, "moderator", lambda: decision_among(names))
    check_roster_names(moderator, names, where=loop.where)
    stash = stash_moderator_decision(name=loop.name, moderator=moderator.name, roster_names=names)
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
        "name": loop.name,
        "transcript": loop.transcript,
        "stances": stances,
        "anonymize_transcript": debate.anonymize_transcript,
        "shuffle_for_judge": debate.shuffle_for_judge,
        "anonymity": debate.anonymity,
        "sources": debate.sources,
    }
    options = debate.of_judge.for_block()
    if isinstance(debate.judge, JudgeOptions):
        return Judge(debate.judge, **defaults, options=options)
    makers: Any = [create_judge, create_judge_panel]
    judge = role_block(debate.judge, makers, where=loop.where, field="judge", defaults={**defaults, **options})
    return judge or loop.own_role(debate.judge, "judge", lambda: verdict_among(stances))


def _synthesizer(debate: DebateOptions) -> Block[Any, Any]:
    loop, schema = debate.loop, debate.output_schema
    defaults = {"name": loop.name, "output_schema": schema, **debate.of_synthesizer.for_block()}
    made = role_block(
        debate.synthesizer, [create_synthesizer], where=loop.where, field="synthesizer", defaults=defaults
    )
    return made or loop.own_role(debate.synthesizer, "synthesizer", lambda: schema)


def check_roster_names(moderator: object, names: Sequence[str], *, where: str) -> None:
    """A default moderator picks from the names that the debaters have."""
    if isinstance(moderator, Moderator) and sorted(moderator.roster_names) != sorted(names):
        allowed = f"made with the debaters' names, roster_names={list(names)}"
        raise ConfigurationError(where, "moderator", list(moderator.roster_names), allowed)


def debate_spec(
    max_rounds: int, sources: Mapping[str, str] | None = None, anonymity: Anonymity | None = None
) -> PatternSpec:
    """What a debate fills the loop in with: it stops by its cap or its moderator, and its voices are stances."""

    def stops(state: DebateState, /, *, predicate: bool) -> str | None:
        done = state.decision is not None and state.decision.done
        return stop_reason(state.round, max_rounds=max_rounds, moderator_done=done, predicate=predicate)

    return PatternSpec(
        input_type=DebateInput,
        new_state=DebateState,
        make_output=partial(raw_output, sources=sources, anonymity=anonymity),
        stop_reason=stops,
        voice_of=attrgetter("stance"),
        speaker="debater",
    )


def stop_reason(round: int, *, max_rounds: int, moderator_done: bool, predicate: bool) -> StopReason | None:  # noqa: A002
    """Why a debate ends after `round`, or None if it goes on; the first that holds wins.

    >>> stop_reason(2, max_rounds=2, moderator_done=True, predicate=False)
    'max_rounds'
    """
    if round >= max_rounds:
        return "max_rounds"
    if moderator_done:
        return "moderator_done"
    return "predicate" if predicate else None


def raw_output(
    ctx: Context, status: RunStatus, *, sources: Mapping[str, str] | None = None, anonymity: Anonymity | None = None
) -> DebateRawOutput:
    """Everything that the debate around a step has come to so far."""
    state = debate_state(ctx)
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
    )


def _quotes(ctx: Context, sources: Mapping[str, str] | None) -> list[list[VerifiedQuote]] | None:
    if not sources:
        return None
    from flowdebate.patterns.debate.quotes.verify import quotes_in  # its patterns take a while to compile

    return quotes_in(entries_of(ctx), sources)


def build_raw_output(loop: Loop, judge: str) -> Handler[Any, DebateRawOutput]:
    """A block that takes the judge's verdict, or `MISSING`, and publishes everything that the debate came to."""

    @handler(name=f"{loop.name}-build-raw-output")
    def build(value: object, ctx: Context) -> DebateRawOutput:
        status: RunStatus = "no_verdict"
        if value is not MISSING:
            verdict = as_model(value, DebateVerdict, block=judge)
            if verdict.judging is not None and not isinstance(value, JudgedVerdict):
                verdict = verdict.model_copy(update={"judging": None})  # only the library's judge can know
            ctx.sequencer.update(verdict=verdict)
            ctx.emit(VerdictReached(block=judge, verdict=verdict))
            status = status_of(ctx)
        raw: Any = loop.spec.make_output(ctx, status)
        published: DebateRawOutput = publish(raw, ctx)
        return published

    return build


def without_verdict(error: Exception, _: object, ctx: Context) -> object:
    """Go on without the verdict of a judge whose provider failed."""
    record_failure(error, ctx, block=ctx.block, role="judge", name=ctx.block, instead="no_verdict")
    return MISSING


class SkipWithoutVerdict(Block[DebateRawOutput, Any]):
    """`inner` for debates with a verdict; None for those without."""

    def __init__(self, inner: Block[Any, Any]) -> None:
        super().__init__(inner.name, resources=inner.resources, hidden=inner.hidden)
        self._inner = inner

    async def act(self, value: DebateRawOutput, ctx: Context, /) -> Any:  # noqa: ANN401 - what the synthesizer gives
        return None if value.verdict is None else await self._inner(value, ctx)

    def outline(self) -> Outline:
        return self._inner.outline()


def _speakers_of_round(_: object, ctx: Context) -> list[str]:
    decision = debate_state(ctx).decision
    return [] if decision is None else decision.next_speakers


def _itself(speaker: str) -> str:
    return speaker
