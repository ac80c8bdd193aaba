"""How a debate is put together from its blocks, once its options are known to be right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from flowdebate.blocks.base import Block
from flowdebate.blocks.debater import create_debater
from flowdebate.blocks.handler import as_block
from flowdebate.blocks.judge import create_judge
from flowdebate.blocks.losses import GuardedSeat, OnFailure, StandIn, is_loss
from flowdebate.blocks.moderator import Moderator, in_declared_order, stash_moderator_decision
from flowdebate.blocks.router import router
from flowdebate.blocks.sequencer import Sequencer, sequencer
from flowdebate.blocks.state import debate_state
from flowdebate.blocks.synthesizer import create_synthesizer
from flowdebate.blocks.transcript_blocks import audit_resources, create_init_transcript, create_record_argument
from flowdebate.blocks.turn import Turn
from flowdebate.errors import BadAnswer, RosterError
from flowdebate.patterns.debate.raw_output import (
    build_raw_output,
    raw_output,
    stop_reason,
    without_output,
    without_verdict,
)
from flowdebate.patterns.rounds import accept, another_round, begin, increment_round, validate_output
from flowdebate.schemas import DebateInput, DebateRawOutput, DebateState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from flowdebate.blocks.functions import Function
    from flowdebate.blocks.generator import Visibility
    from flowdebate.blocks.handler import BlockLike
    from flowdebate.blocks.outline import Outline
    from flowdebate.models.base import Model
    from flowdebate.models.output import OutputSchema
    from flowdebate.patterns.roster import Debater
    from flowdebate.resources.transcript import Transcript
    from flowdebate.runs.context import Context
    from flowdebate.schemas import DebateContributionEntry, DebateModeratorDecision, PatternState

__all__ = ("Assembly",)


@dataclass(frozen=True, kw_only=True)
class Assembly:
    """A debate's checked options; `pipeline()` is the debate."""

    name: str
    where: str
    roster: tuple[Debater, ...]
    max_rounds: int
    judge: BlockLike | None
    synthesizer: BlockLike | Literal[False] | None
    moderator: BlockLike | None
    terminate_when: Function | None
    transcript: Transcript
    owns_transcript: bool
    output_schema: OutputSchema | None
    defaults: Mapping[str, Any]
    """Options that reach the default blocks only."""
    anonymize_transcript: bool
    shuffle_for_judge: bool
    debater_visibility: Visibility
    judge_visibility: Visibility
    synthesizer_visibility: Visibility
    collection_id: str
    on_failure: OnFailure
    quorum: int
    turn_timeout: float | None
    round_timeout: float | None

    def pipeline(self) -> Sequencer[Any, Any]:
        """Opening, rounds, verdict, output."""
        increment = increment_round(self.name, self.max_rounds, self.round_timeout)
        judge = self._judge()
        pipeline = self._speakers(self._opening().tap(increment))
        pipeline = (
            pipeline.loop_back(
                increment.name,
                when=another_round(self._ends, self.terminate_when, quorum=self.quorum, heard=_stance),
                max_iterations=self.max_rounds,
                label="round",
            )
            .then(self._guarded(judge, without_verdict))
            .then(build_raw_output(self.name, judge.name))
        )
        return pipeline if self.synthesizer is False else self._output(pipeline, self.synthesizer)

    def _ends(self, state: DebateState) -> str | None:
        done = state.decision is not None and state.decision.done
        return stop_reason(state.round, max_rounds=self.max_rounds, moderator_done=done, predicate=False)

    def _opening(self) -> Sequencer[Any, Any]:
        resources = audit_resources(self.transcript, self.collection_id)
        owned = [resource for key, resource in resources.items() if key != "transcript" or self.owns_transcript]
        return (
            sequencer(
                name=self.name,
                state=DebateState,
                owns=owned,
                isolates=() if self.owns_transcript else (self.transcript,),
                accepts=accept(self.where, DebateInput),
            )
            .tap(create_init_transcript(name=self.name, transcript=self.transcript, collection_id=self.collection_id))
            .tap(begin(self.name, raw_output))
        )

    def _speakers(self, pipeline: Sequencer[Any, Any]) -> Sequencer[Any, Any]:
        """A round's turns: all of them in declared order, or those that the moderator picks."""
        turns = {debater.name: self._turn(debater) for debater in self.roster}
        if self.moderator is None:
            for turn in turns.values():
                pipeline = pipeline.tap(turn)
            return pipeline
        moderator = as_block(self.moderator, name=f"{self.name}-moderator", where=self.where, field="moderator")
        opening = self._opening_of_rounds(moderator, list(turns))
        dispatch = router(name=f"{self.name}-dispatch", choose=_itself, routes=turns)
        return pipeline.tap(opening).tap_each(dispatch, over=_speakers_of_round, max_concurrency=1)

    def _opening_of_rounds(self, moderator: Block[Any, Any], names: list[str]) -> Block[Any, Any]:
        """The moderator's decision, checked; in declared order where its model gives none that can be used."""
        stash = stash_moderator_decision(name=self.name, moderator=moderator.name, roster_names=names)
        opening = sequencer(name=f"{self.name}-open-round").then(moderator).then(stash)
        ours = isinstance(moderator, Moderator)

        def losses(error: BaseException) -> bool:
            return (ours and isinstance(error, (BadAnswer, RosterError))) or (self._goes_on and is_loss(error))

        def recover(error: Exception, _: object, ctx: Context) -> DebateModeratorDecision:
            return in_declared_order(error, ctx, moderator=moderator.name, roster_names=names)

        return GuardedSeat(opening, recover=recover, losses=losses, timeout=self.turn_timeout)

    @property
    def _goes_on(self) -> bool:
        """Whether the debate goes on without what a provider loses."""
        return self.on_failure != "fail"

    def _guarded(self, seat: Block[Any, Any], recover: Callable[[Exception, Any, Context], object]) -> Block[Any, Any]:
        if not self._goes_on and self.turn_timeout is None:
            return seat
        losses = is_loss if self._goes_on else _never
        return GuardedSeat(seat, recover=recover, losses=losses, timeout=self.turn_timeout)

    def _turn(self, debater: Debater) -> Turn:
        record = create_record_argument(
            name=self.name,
            agent_name=debater.name,
            stance=debater.stance,
            transcript=self.transcript,
            collection_id=self.collection_id,
        )
        return Turn(
            f"{self.name}-turn-{debater.name}",
            agent_name=debater.name,
            stance=debater.stance,
            asks=_question,
            debater=self._debater(debater),
            record=record,
            stand_in=self._stand_in(debater),
            skips=self._goes_on,
            timeout=self.turn_timeout,
        )

    def _stand_in(self, debater: Debater) -> Block[Any, Any] | None:
        if not isinstance(self.on_failure, StandIn):
            return None
        return self._default_debater(debater, self.on_failure.model, name=f"{self.name}-stand-in")

    def _debater(self, debater: Debater) -> Block[Any, Any]:
        if debater.block is not None:
            name = f"{self.name}-debater-{debater.name}"
            return as_block(debater.block, name=name, where=self.where, field=f"block of {debater.name!r}")
        return self._default_debater(debater, debater.model, name=self.name)

    def _default_debater(self, debater: Debater, model: Model | str | None, *, name: str) -> Block[Any, Any]:
        options = dict(self.defaults) if model is None else {**self.defaults, "model": model}
        return create_debater(
            name=name,
            agent_name=debater.name,
            stance=debater.stance,
            role=debater.role,
            max_rounds=self.max_rounds,
            stances=[side.stance for side in self.roster],
            transcript=self.transcript,
            visibility=self.debater_visibility,
            **options,
        )

    def _judge(self) -> Block[Any, Any]:
        if self.judge is not None:
            return as_block(self.judge, name=f"{self.name}-judge", where=self.where, field="judge")
        return create_judge(
            name=self.name,
            transcript=self.transcript,
            stances=[debater.stance for debater in self.roster],
            visibility=self.judge_visibility,
            anonymize_transcript=self.anonymize_transcript,
            shuffle_for_judge=self.shuffle_for_judge,
            **self.defaults,
        )

    def _output(self, pipeline: Sequencer[Any, Any], synthesizer: BlockLike | None) -> Sequencer[Any, Any]:
        if synthesizer is None:
            default = create_synthesizer(
                name=self.name,
                output_schema=self.output_schema,
                visibility=self.synthesizer_visibility,
                **self.defaults,
            )
            return pipeline.then(self._only_of_verdicts(default))
        own = as_block(synthesizer, name=f"{self.name}-synthesizer", where=self.where, field="synthesizer")
        pipeline = pipeline.then(self._only_of_verdicts(own))
        if self.output_schema is None:
            return pipeline
        validate = validate_output(self.name, own.name, self.output_schema)
        return pipeline.then_if(_is_something, validate) if self._goes_on else pipeline.then(validate)

    def _only_of_verdicts(self, synthesizer: Block[Any, Any]) -> Block[Any, Any]:
        """A synthesizer that is not asked to make something of a debate without a verdict."""
        guarded = self._guarded(synthesizer, without_output)
        return OfVerdicts(guarded) if self._goes_on else guarded


def _speakers_of_round(_: object, ctx: Context) -> list[str]:
    decision = debate_state(ctx).decision
    return [] if decision is None else decision.next_speakers


def _question(state: PatternState) -> DebateInput:
    return DebateInput(question=state.question)


def _stance(entry: DebateContributionEntry) -> str:
    return entry.stance


def _never(_: BaseException) -> bool:
    return False


def _is_something(value: object) -> bool:
    return value is not None


class OfVerdicts(Block[DebateRawOutput, Any]):
    """`inner` for debates with a verdict, None for those without."""

    def __init__(self, inner: Block[Any, Any]) -> None:
        super().__init__(inner.name, resources=inner.resources, hidden=inner.hidden)
        self._inner = inner

    async def act(self, value: DebateRawOutput, ctx: Context, /) -> Any:  # noqa: ANN401 - what the synthesizer gives
        return None if value.verdict is None else await self._inner(value, ctx)

    def outline(self) -> Outline:
        return self._inner.outline()


def _itself(speaker: str) -> str:
    return speaker
