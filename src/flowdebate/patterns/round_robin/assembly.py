"""Assembly of a round robin: its steps, from the first to the last."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from flowdebate.blocks.sequencer import sequencer
from flowdebate.patterns.binding import debater_of, role_block
from flowdebate.patterns.loop import Loop, PatternSpec, in_declared_order, round_limit
from flowdebate.patterns.output import build_output
from flowdebate.patterns.round_robin.debater import create_round_robin_debater
from flowdebate.patterns.round_robin.referee import create_referee, stash_audit, without_report
from flowdebate.patterns.round_robin.schemas import RefereeReport, RoundRobinInput, RoundRobinOutput, RoundRobinState
from flowdebate.patterns.round_robin.synthesizer import create_round_robin_synthesizer
from flowdebate.patterns.round_robin.transcript import record_contribution, round_robin_state
from flowdebate.patterns.state import entries_of
from flowdebate.patterns.synthesis import guarded_synthesizer, held_to_schema, schema_to_check

if TYPE_CHECKING:
    from flowdebate.blocks.base import Block
    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.models.base import Model
    from flowdebate.models.output import OutputSchema
    from flowdebate.patterns.roles import Members, RoleOptions
    from flowdebate.patterns.roster import Persona
    from flowdebate.patterns.turn import Turn
    from flowdebate.runs.context import Context
    from flowdebate.runs.events import RunStatus

__all__ = (
    "RoundRobinOptions",
    "assemble",
    "round_robin_spec",
)


@dataclass(frozen=True, kw_only=True)
class RoundRobinOptions:
    """The checked options of a round robin. Those of a role reach its default block only."""

    loop: Loop
    roster: tuple[Persona, ...]
    referee: Any
    """True for the default one, None for none."""
    synthesizer: Any
    """None, a bool, options, a block or a function."""
    output_schema: OutputSchema | None
    of_debaters: RoleOptions
    of_referee: RoleOptions
    of_synthesizer: RoleOptions

    @property
    def members(self) -> Members:
        """The roles of all debaters, by name."""
        return {debater.name: debater.role for debater in self.roster}


def assemble(pattern: RoundRobinOptions) -> Sequencer[Any, Any]:
    """The round robin as a block: opening, rounds of turns and an audit, raw output, synthesizer."""
    loop = pattern.loop
    pipeline = in_declared_order(loop.opening(), [_turn(pattern, debater) for debater in pattern.roster])
    if pattern.referee is not None:
        pipeline = pipeline.tap(_audit(pattern))
    pipeline = loop.until_stopped(pipeline).then(build_output(loop.name, loop.spec.make_output))
    if pattern.synthesizer is False:
        return pipeline
    synthesizer = _synthesizer(pattern)
    pipeline = pipeline.then(guarded_synthesizer(loop, synthesizer))
    return held_to_schema(pipeline, loop, synthesizer, schema_to_check(pattern.synthesizer, pattern.output_schema))


def _turn(pattern: RoundRobinOptions, debater: Persona) -> Turn:
    loop = pattern.loop
    stand_in = loop.failures.stand_in
    record = record_contribution(
        name=loop.name,
        agent_name=debater.name,
        role=debater.role,
        transcript=loop.transcript,
        collection_id=loop.collection_id,
    )
    return loop.turn(
        debater,
        debater=_debater(pattern, debater) or loop.own_debater(debater),
        stand_in=None if stand_in is None else _debater(pattern, debater, stand_in=stand_in),
        record=record,
    )


def _debater(pattern: RoundRobinOptions, debater: Persona, *, stand_in: Model | None = None) -> Block[Any, Any] | None:
    """The default block of `debater`, or that of its `stand_in`; None if it has one of the application's own."""
    loop = pattern.loop
    defaults = {
        "name": loop.name,
        "agent_name": debater.name,
        "role": debater.role,
        "system_prompt": debater.system_prompt,
        "members": pattern.members,
        "max_rounds": loop.max_rounds,
        "refereed": pattern.referee is not None,
        "transcript": loop.transcript,
        **pattern.of_debaters.for_block(),
    }
    return debater_of(debater, create_round_robin_debater, where=loop.where, defaults=defaults, stand_in=stand_in)


def _audit(pattern: RoundRobinOptions) -> Block[Any, Any]:
    """The referee's audit of a round's turns; if it is lost, the round has none."""
    loop = pattern.loop
    defaults = {
        "name": loop.name,
        "roster_names": list(pattern.members),
        "transcript": loop.transcript,
        "max_rounds": loop.max_rounds,
        **pattern.of_referee.for_block(),
    }
    own: Any = pattern.referee
    default = role_block(own, [create_referee], where=loop.where, field="referee", defaults=defaults)
    referee = default or loop.own_role(own, "referee", lambda: RefereeReport)
    return (
        sequencer(name=f"{loop.name}-audit-round")
        .tap(loop.end_of_turns())
        .then(loop.guarded(referee, without_report))
        .then(stash_audit(loop.name, referee.name, loop.transcript))
    )


def _synthesizer(pattern: RoundRobinOptions) -> Block[Any, Any]:
    loop, schema = pattern.loop, pattern.output_schema
    defaults = {"name": loop.name, "output_schema": schema, **pattern.of_synthesizer.for_block()}
    makers, own = [create_round_robin_synthesizer], pattern.synthesizer
    made = role_block(own, makers, where=loop.where, field="synthesizer", defaults=defaults)
    return made or loop.own_role(own, "synthesizer", lambda: schema)


def round_robin_spec(max_rounds: int) -> PatternSpec:
    """What a round robin fills the loop in with: it stops by its cap, and its voices are names."""

    def stops(state: RoundRobinState, /, *, predicate: bool) -> str | None:
        return round_limit(state.round, max_rounds=max_rounds, predicate=predicate)

    return PatternSpec(
        input_type=RoundRobinInput,
        new_state=RoundRobinState,
        make_output=raw_output,
        stop_reason=stops,
        voice_of=attrgetter("agent_name"),
        speaker="panelist",
    )


def raw_output(ctx: Context, status: RunStatus) -> RoundRobinOutput:
    """Everything that the round robin around a step has come to so far."""
    state = round_robin_state(ctx)
    return RoundRobinOutput(
        question=state.question,
        rounds=state.round,
        transcript=list(entries_of(ctx)),
        audits=list(state.audits),
        stop_reason=state.stop_reason,
        status=status,
        losses=list(state.losses),
        seed=ctx.seed,
    )
