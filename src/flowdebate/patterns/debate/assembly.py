"""How a debate is put together from its blocks, once its options are known to be right."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal

from flowdebate.blocks.base import Block
from flowdebate.blocks.handler import as_block
from flowdebate.blocks.human.prompt import with_answer_schema
from flowdebate.blocks.router import router
from flowdebate.blocks.sequencer import Sequencer, sequencer
from flowdebate.errors import BadAnswer, RosterError
from flowdebate.patterns.debate.debater import create_debater
from flowdebate.patterns.debate.judging.judge import judge_of
from flowdebate.patterns.debate.judging.options import JudgeOptions
from flowdebate.patterns.debate.judging.prompt import verdict_among
from flowdebate.patterns.debate.moderator import Moderator, decision_among, stash_moderator_decision
from flowdebate.patterns.debate.moderator import in_declared_order as unmoderated
from flowdebate.patterns.debate.output import build_raw_output, raw_output, stop_reason, without_verdict
from flowdebate.patterns.debate.schemas import DebateInput, DebateRawOutput, DebateState
from flowdebate.patterns.debate.state import create_record_argument, debate_state
from flowdebate.patterns.debate.synthesizer import create_synthesizer
from flowdebate.patterns.failures import WithFallback, is_provider_failure
from flowdebate.patterns.loop import Loop, PatternSpec, in_declared_order
from flowdebate.patterns.synthesis import with_synthesizer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flowdebate.blocks.generator import Visibility
    from flowdebate.blocks.handler import BlockLike
    from flowdebate.blocks.outline import Outline
    from flowdebate.models.base import Model
    from flowdebate.models.output import OutputSchema
    from flowdebate.patterns.anonymity.anonymity import Anonymity
    from flowdebate.patterns.debate.schemas import DebateModeratorDecision
    from flowdebate.patterns.roster import Debater
    from flowdebate.patterns.turn import Turn
    from flowdebate.runs.context import Context

__all__ = (
    "Assembly",
    "terms",
)


@dataclass(frozen=True, kw_only=True)
class Assembly:
    """A debate's checked options; `pipeline()` is the debate."""

    loop: Loop
    roster: tuple[Debater, ...]
    judge: Any
    """None, JudgeOptions, a block or a function."""
    synthesizer: BlockLike | Literal[False] | None
    moderator: BlockLike | None
    output_schema: OutputSchema | None
    defaults: Mapping[str, Any]
    """Options that reach the default blocks only."""
    anonymize_transcript: bool
    shuffle_for_judge: bool
    debater_visibility: Visibility
    anonymity: Anonymity | None
    sources: Mapping[str, str] | None
    judge_visibility: Visibility
    synthesizer_visibility: Visibility

    def pipeline(self) -> Sequencer[Any, Any]:
        """Opening, rounds, verdict, output."""
        judge = self._judge()
        pipeline = (
            self.loop.rounds(self._speakers)
            .then(self.loop.guarded(judge, without_verdict))
            .then(build_raw_output(self.loop.name, judge.name, sources=self.sources, anonymity=self.anonymity))
        )
        return with_synthesizer(
            pipeline,
            self.loop,
            synthesizer=self.synthesizer,
            default=self._synthesizer,
            output_schema=self.output_schema,
            around=SkipWithoutVerdict if self.loop.goes_on else None,
        )

    def _speakers(self, pipeline: Sequencer[Any, Any]) -> Sequencer[Any, Any]:
        """A round's turns: all of them in declared order, or those that the moderator picks."""
        turns = {debater.name: self._turn(debater) for debater in self.roster}
        if self.moderator is None:
            return in_declared_order(pipeline, turns.values())
        name, where = self.loop.name, self.loop.where
        moderator = as_block(self.moderator, name=f"{name}-moderator", where=where, field="moderator")
        moderator = with_answer_schema(moderator, lambda: decision_among(list(turns)))
        opening = self._opening_of_rounds(moderator, list(turns))
        dispatch = router(name=f"{name}-dispatch", choose=_itself, routes=turns)
        return pipeline.tap(opening).tap_each(dispatch, over=_speakers_of_round, max_concurrency=1)

    def _opening_of_rounds(self, moderator: Block[Any, Any], names: list[str]) -> Block[Any, Any]:
        """The moderator's decision, checked; in declared order where its model gives none that can be used."""
        stash = stash_moderator_decision(name=self.loop.name, moderator=moderator.name, roster_names=names)
        opening = sequencer(name=f"{self.loop.name}-open-round").then(moderator).then(stash)
        ours = isinstance(moderator, Moderator)

        def losses(error: BaseException) -> bool:
            return (ours and isinstance(error, (BadAnswer, RosterError))) or (
                self.loop.goes_on and is_provider_failure(error)
            )

        def recover(error: Exception, _: object, ctx: Context) -> DebateModeratorDecision:
            return unmoderated(error, ctx, moderator=moderator.name, roster_names=names)

        return WithFallback(opening, recover=recover, losses=losses, timeout=self.loop.turn_timeout)

    def _turn(self, debater: Debater) -> Turn:
        record = create_record_argument(
            name=self.loop.name,
            agent_name=debater.name,
            stance=debater.stance,
            transcript=self.loop.transcript,
            collection_id=self.loop.collection_id,
        )

        def default(name: str, model: Model | str | None) -> Block[Any, Any]:
            options = dict(self.defaults) if model is None else {**self.defaults, "model": model}
            return create_debater(
                name=name,
                agent_name=debater.name,
                stance=debater.stance,
                role=debater.role,
                max_rounds=self.loop.max_rounds,
                stances=[side.stance for side in self.roster],
                transcript=self.loop.transcript,
                anonymity=self.anonymity,
                sources=self.sources,
                visibility=self.debater_visibility,
                **options,
            )

        return self.loop.turn(debater, default=default, record=record, stance=debater.stance)

    def _judge(self) -> Block[Any, Any]:
        if self.judge is not None and not isinstance(self.judge, JudgeOptions):
            judge = as_block(self.judge, name=f"{self.loop.name}-judge", where=self.loop.where, field="judge")
            return with_answer_schema(judge, lambda: verdict_among([debater.stance for debater in self.roster]))
        return judge_of(
            self.judge or JudgeOptions(),
            name=self.loop.name,
            transcript=self.loop.transcript,
            stances=[debater.stance for debater in self.roster],
            anonymize_transcript=self.anonymize_transcript,
            shuffle_for_judge=self.shuffle_for_judge,
            anonymity=self.anonymity,
            sources=self.sources,
            options={"visibility": self.judge_visibility, **self.defaults},  # type: ignore[typeddict-item] # by name
        )

    def _synthesizer(self) -> Block[Any, Any]:
        return create_synthesizer(
            name=self.loop.name,
            output_schema=self.output_schema,
            visibility=self.synthesizer_visibility,
            **self.defaults,
        )


class SkipWithoutVerdict(Block[DebateRawOutput, Any]):
    """`inner` for debates with a verdict, None for those without."""

    def __init__(self, inner: Block[Any, Any]) -> None:
        super().__init__(inner.name, resources=inner.resources, hidden=inner.hidden)
        self._inner = inner

    async def act(self, value: DebateRawOutput, ctx: Context, /) -> Any:  # noqa: ANN401 - what the synthesizer gives
        return None if value.verdict is None else await self._inner(value, ctx)

    def outline(self) -> Outline:
        return self._inner.outline()


def terms(max_rounds: int, sources: Mapping[str, str] | None, anonymity: Anonymity | None) -> PatternSpec:
    """What a debate fills the loop in with: it ends by its cap or its moderator, and its voices are stances."""

    def ends(state: DebateState) -> str | None:
        done = state.decision is not None and state.decision.done
        return stop_reason(state.round, max_rounds=max_rounds, moderator_done=done, predicate=False)

    return PatternSpec(
        takes=DebateInput,
        state=DebateState,
        raw=partial(raw_output, sources=sources, anonymity=anonymity),
        ends=ends,
        heard=attrgetter("stance"),
        speaker="debater",
    )


def _speakers_of_round(_: object, ctx: Context) -> list[str]:
    decision = debate_state(ctx).decision
    return [] if decision is None else decision.next_speakers


def _itself(speaker: str) -> str:
    return speaker
