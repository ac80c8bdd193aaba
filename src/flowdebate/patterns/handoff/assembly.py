"""Assembly of a handoff: its steps, from the first to the last."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from flowdebate.blocks.base import Block
from flowdebate.blocks.human.prompt import with_answer_schema
from flowdebate.blocks.router import router
from flowdebate.blocks.sequencer import sequencer
from flowdebate.patterns.binding import debater_of
from flowdebate.patterns.handoff.decision import (
    HandoffDecision,
    draw_instead,
    hand_over,
    handoff_schema,
    handoff_state,
    needs_another_word,
    record_said,
)
from flowdebate.patterns.handoff.schemas import HandoffInput, HandoffOutput, HandoffState
from flowdebate.patterns.handoff.speaker import Speaker, create_speaker
from flowdebate.patterns.loop import PatternSpec, round_limit
from flowdebate.patterns.output import build_output
from flowdebate.patterns.state import entries_of

if TYPE_CHECKING:
    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.models.base import Model
    from flowdebate.patterns.handoff.schemas import OnInvalid, TransitionForm
    from flowdebate.patterns.loop import Loop
    from flowdebate.patterns.roles import RoleOptions
    from flowdebate.patterns.roster import Persona
    from flowdebate.patterns.turn import Turn
    from flowdebate.runs.context import Context
    from flowdebate.runs.events import RunStatus

__all__ = (
    "HandoffOptions",
    "assemble",
    "handoff_spec",
)


@dataclass(frozen=True, kw_only=True)
class HandoffOptions:
    """The checked options of a handoff. Those of the debaters reach their default blocks only."""

    loop: Loop
    roster: tuple[Persona, ...]
    transition: TransitionForm
    on_invalid: OnInvalid
    of_debaters: RoleOptions

    @property
    def names(self) -> list[str]:
        """The debaters' names, in declared order."""
        return [persona.name for persona in self.roster]


def assemble(handoff: HandoffOptions) -> Sequencer[Any, Any]:
    """The handoff as a block: opening, turns of whoever has the floor, output."""
    loop = handoff.loop
    pipeline = loop.opening().tap(_turn_of_speaker(handoff))
    return loop.until_stopped(pipeline).then(build_output(loop.name, loop.spec.make_output))


def _turn_of_speaker(handoff: HandoffOptions) -> Sequencer[Any, Any]:
    """Whoever has the floor speaks, is asked once more if it named nobody, and hands over."""
    loop, names = handoff.loop, handoff.names
    blocks = {persona.name: _blocks(handoff, persona) for persona in handoff.roster}
    turns = {persona.name: _turn(handoff, persona, *blocks[persona.name]) for persona in handoff.roster}
    speakers = [block for both in blocks.values() for block in both if isinstance(block, Speaker)]

    floor = router(name=f"{loop.name}-floor", choose=_speaker, routes=turns)
    pipeline = sequencer(name=f"{loop.name}-take-turn").then(floor)
    if handoff.on_invalid == "retry" and speakers:
        again = router(name=f"{loop.name}-ask-again", choose=_asked, routes=speakers)
        pipeline = pipeline.then_if(needs_another_word, loop.guarded(again, draw_instead))
    return pipeline.then(
        hand_over(name=loop.name, names=names, on_invalid=handoff.on_invalid, transcript=loop.transcript)
    )


def _blocks(handoff: HandoffOptions, persona: Persona) -> tuple[Block[Any, Any], Block[Any, Any] | None]:
    """The block that speaks for `persona`, and its stand-in if there is one."""
    loop = handoff.loop
    stand_in = loop.failures.stand_in
    others = [name for name in handoff.names if name != persona.name]
    default = _default_speaker(handoff, persona)
    own: Block[Any, Any] = default or loop.own_debater(persona)
    if default is None and isinstance(persona.block, Block) and not isinstance(persona.block, Speaker):
        own = with_answer_schema(own, lambda: handoff_schema(others))
    return own, None if stand_in is None else _default_speaker(handoff, persona, stand_in=stand_in)


def _turn(
    handoff: HandoffOptions, persona: Persona, debater: Block[Any, Any], stand_in: Block[Any, Any] | None
) -> Turn:
    loop = handoff.loop
    record = record_said(
        name=loop.name,
        agent_name=persona.name,
        names=handoff.names,
        transcript=loop.transcript,
        collection_id=loop.collection_id,
    )
    return loop.turn(persona, debater=debater, stand_in=stand_in, record=record)


def _default_speaker(
    handoff: HandoffOptions, persona: Persona, *, stand_in: Model | None = None
) -> Block[Any, Any] | None:
    """The default block of `persona`, or that of its `stand_in`; None if it has one of the application's own."""
    loop = handoff.loop
    defaults = {
        "name": loop.name,
        "agent_name": persona.name,
        "speakers": {each.name: each.role for each in handoff.roster},
        "system_prompt": persona.system_prompt,
        "transition": handoff.transition,
        "max_turns": loop.max_rounds,
        "transcript": loop.transcript,
        **handoff.of_debaters.for_block(),
    }
    return debater_of(persona, create_speaker, where=loop.where, defaults=defaults, stand_in=stand_in)


def handoff_spec(*, first: str, max_turns: int) -> PatternSpec:
    """What a handoff fills the loop in with: `first` has the floor, it stops by its cap, and it needs no quorum.

    A turn has one voice: when that is lost, somebody else is next.
    """

    def stops(state: HandoffState, /, *, predicate: bool) -> str | None:
        return round_limit(state.round, max_rounds=max_turns, predicate=predicate, limit="max_turns")

    return PatternSpec(
        input_type=HandoffInput,
        new_state=partial(HandoffState, speaker=first),
        make_output=raw_output,
        stop_reason=stops,
        voice_of=None,
        speaker="speaker",
        round="turn",
    )


def raw_output(ctx: Context, status: RunStatus) -> HandoffOutput:
    """Everything that the handoff around a step has come to so far."""
    state = handoff_state(ctx)
    return HandoffOutput(
        proposition=state.question,
        turns=state.round,
        transcript=list(entries_of(ctx)),
        stop_reason=state.stop_reason,
        status=status,
        losses=list(state.losses),
        seed=ctx.seed,
    )


def _speaker(_: object, ctx: Context) -> str:
    return handoff_state(ctx).speaker


def _asked(value: HandoffDecision) -> Block[Any, Any] | None:
    return value.speaker
