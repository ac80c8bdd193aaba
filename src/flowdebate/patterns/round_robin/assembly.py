"""How a panel is put together from its blocks, once its options are known to be right."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal

from flowdebate.blocks.handler import Handler, as_block, handler
from flowdebate.blocks.human.prompt import with_answer_schema
from flowdebate.blocks.sequencer import Sequencer, sequencer
from flowdebate.patterns.loop import Loop, PatternSpec, in_declared_order
from flowdebate.patterns.round_robin.panelist import create_panelist
from flowdebate.patterns.round_robin.referee import stash_audit, without_report
from flowdebate.patterns.round_robin.schemas import RefereeReport, RoundRobinInput, RoundRobinOutput, RoundRobinState
from flowdebate.patterns.round_robin.synthesizer import create_round_robin_synthesizer
from flowdebate.patterns.round_robin.transcript import record_contribution, round_robin_state
from flowdebate.patterns.rounds import finish
from flowdebate.patterns.state import entries_of
from flowdebate.patterns.synthesis import with_synthesizer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flowdebate.blocks.base import Block
    from flowdebate.blocks.generator import Visibility
    from flowdebate.blocks.handler import BlockLike
    from flowdebate.models.base import Model
    from flowdebate.models.output import OutputSchema
    from flowdebate.patterns.roster import Persona
    from flowdebate.patterns.round_robin.transcript import Members
    from flowdebate.patterns.turn import Turn
    from flowdebate.runs.context import Context
    from flowdebate.runs.events import RunStatus

__all__ = (
    "Assembly",
    "terms",
)


@dataclass(frozen=True, kw_only=True)
class Assembly:
    """A panel's checked options; `pipeline()` is the panel."""

    loop: Loop
    roster: tuple[Persona, ...]
    referee: BlockLike | None
    synthesizer: BlockLike | Literal[False] | None
    output_schema: OutputSchema | None
    defaults: Mapping[str, Any]
    """Options that reach the default blocks only."""
    panelist_visibility: Visibility
    synthesizer_visibility: Visibility

    def pipeline(self) -> Sequencer[Any, Any]:
        """Opening, rounds, output."""
        return with_synthesizer(
            self.loop.rounds(self._round).then(build_output(self.loop.name)),
            self.loop,
            synthesizer=self.synthesizer,
            default=self._synthesizer,
            output_schema=self.output_schema,
        )

    def _round(self, pipeline: Sequencer[Any, Any]) -> Sequencer[Any, Any]:
        """All turns in declared order, then the referee's audit of them."""
        pipeline = in_declared_order(pipeline, [self._turn(panelist) for panelist in self.roster])
        if self.referee is None:
            return pipeline
        name, where = self.loop.name, self.loop.where
        referee = as_block(self.referee, name=f"{name}-referee", where=where, field="referee")
        referee = with_answer_schema(referee, lambda: RefereeReport)
        audit = (
            sequencer(name=f"{name}-audit-round")
            .tap(self.loop.end_of_turns())
            .then(self.loop.guarded(referee, without_report))
            .then(stash_audit(name, referee.name, self.loop.transcript))
        )
        return pipeline.tap(audit)

    @property
    def _members(self) -> Members:
        return {panelist.name: panelist.role for panelist in self.roster}

    def _turn(self, panelist: Persona) -> Turn:
        record = record_contribution(
            name=self.loop.name,
            agent_name=panelist.name,
            role=panelist.role,
            transcript=self.loop.transcript,
            collection_id=self.loop.collection_id,
        )

        def default(name: str, model: Model | str | None) -> Block[Any, Any]:
            options = dict(self.defaults) if model is None else {**self.defaults, "model": model}
            return create_panelist(
                name=name,
                agent_name=panelist.name,
                role=panelist.role,
                system_prompt=panelist.system_prompt,
                members=self._members,
                max_rounds=self.loop.max_rounds,
                refereed=self.referee is not None,
                transcript=self.loop.transcript,
                visibility=self.panelist_visibility,
                **options,
            )

        return self.loop.turn(panelist, default=default, record=record)

    def _synthesizer(self) -> Block[Any, Any]:
        return create_round_robin_synthesizer(
            name=self.loop.name,
            output_schema=self.output_schema,
            visibility=self.synthesizer_visibility,
            **self.defaults,
        )


def terms(max_rounds: int) -> PatternSpec:
    """What a panel fills the loop in with: nothing ends it by itself but its cap, and its voices are names."""

    def ends(state: RoundRobinState) -> str | None:
        return "max_rounds" if state.round >= max_rounds else None

    return PatternSpec(
        takes=RoundRobinInput,
        state=RoundRobinState,
        raw=raw_output,
        ends=ends,
        heard=attrgetter("agent_name"),
        speaker="panelist",
    )


def raw_output(ctx: Context, status: RunStatus) -> RoundRobinOutput:
    """What the panel around a step came to so far."""
    state = round_robin_state(ctx)
    return RoundRobinOutput(
        question=state.question,
        rounds=state.round,
        transcript=list(entries_of(ctx)),
        audits=list(state.audits),
        stop_reason=state.stop_reason,
        status="failed" if status == "running" else status,
        losses=list(state.losses),
        seed=ctx.seed,
    )


def build_output(name: str) -> Handler[Any, RoundRobinOutput]:
    """A block that gives all that the panel came to: the run's `raw`."""

    @handler(name=f"{name}-build-output")
    def build(_: object, ctx: Context) -> RoundRobinOutput:
        raw = raw_output(ctx, "degraded" if round_robin_state(ctx).losses else "complete")
        finish(ctx, raw)
        return raw

    return build
