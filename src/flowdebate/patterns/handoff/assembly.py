"""How a handoff is put together from its blocks, once its options are known to be right."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from flowdebate.blocks.base import Block
from flowdebate.blocks.human.prompt import with_answer_schema
from flowdebate.blocks.router import router
from flowdebate.blocks.sequencer import Sequencer, sequencer
from flowdebate.patterns.handoff.decision import HandoffDecision, handoff_state, handover_among
from flowdebate.patterns.handoff.schemas import HandoffInput, HandoffState
from flowdebate.patterns.handoff.speaker import Speaker, create_speaker
from flowdebate.patterns.handoff.turns import (
    build_output,
    drawn_instead,
    hand_over,
    needs_another_word,
    raw_output,
    record_said,
)
from flowdebate.patterns.loop import PatternSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flowdebate.blocks.generator import Visibility
    from flowdebate.models.base import Model
    from flowdebate.patterns.handoff.schemas import OnInvalid, TransitionForm
    from flowdebate.patterns.loop import Loop
    from flowdebate.patterns.roster import Persona
    from flowdebate.patterns.turn import Turn
    from flowdebate.runs.context import Context

__all__ = (
    "Assembly",
    "terms",
)


@dataclass(frozen=True, kw_only=True)
class Assembly:
    """A handoff's checked options; `pipeline()` is the handoff."""

    loop: Loop
    roster: tuple[Persona, ...]
    transition: TransitionForm
    on_invalid: OnInvalid
    defaults: Mapping[str, Any]
    """Options that reach the default blocks only."""
    visibility: Visibility

    def pipeline(self) -> Sequencer[Any, Any]:
        """Opening, turns, output."""
        return self.loop.rounds(lambda opening: opening.tap(self._turn_of_speaker())).then(build_output(self.loop.name))

    def _turn_of_speaker(self) -> Sequencer[Any, Any]:
        """Whoever has the floor speaks, and hands it over."""
        name = self.loop.name
        speakers: list[Speaker] = []  # those that can be asked once more
        turns = {persona.name: self._turn(persona, speakers) for persona in self.roster}
        floor = router(name=f"{name}-floor", choose=_speaker, routes=turns)
        pipeline = sequencer(name=f"{name}-take-turn").then(floor)
        if self.on_invalid == "retry" and speakers:
            again = router(name=f"{name}-ask-again", choose=_asked, routes=speakers)
            pipeline = pipeline.then_if(needs_another_word, self.loop.guarded(again, drawn_instead))
        return pipeline.then(
            hand_over(name=name, names=self._names, on_invalid=self.on_invalid, transcript=self.loop.transcript)
        )

    @property
    def _names(self) -> list[str]:
        return [persona.name for persona in self.roster]

    def _turn(self, persona: Persona, speakers: list[Speaker]) -> Turn:
        def default(name: str, model: Model | str | None) -> Block[Any, Any]:
            options = dict(self.defaults) if model is None else {**self.defaults, "model": model}
            made = create_speaker(
                name=name,
                agent_name=persona.name,
                speakers={each.name: each.role for each in self.roster},
                system_prompt=persona.system_prompt,
                transition=self.transition,
                max_turns=self.loop.max_rounds,
                transcript=self.loop.transcript,
                visibility=self.visibility,
                **options,
            )
            speakers.append(made)
            return made

        if isinstance(persona.block, Speaker):
            speakers.append(persona.block)
        elif isinstance(persona.block, Block):
            others = [name for name in self._names if name != persona.name]
            persona = replace(persona, block=with_answer_schema(persona.block, lambda: handover_among(others)))
        record = record_said(
            name=self.loop.name,
            agent_name=persona.name,
            names=self._names,
            transcript=self.loop.transcript,
            collection_id=self.loop.collection_id,
        )
        return self.loop.turn(persona, default=default, record=record)


def terms(*, first: str, max_turns: int) -> PatternSpec:
    """What a handoff fills the loop in with: `first` has the floor, and nothing ends it by itself but its cap."""

    def ends(state: HandoffState) -> str | None:
        return "max_turns" if state.round >= max_turns else None

    return PatternSpec(
        takes=HandoffInput,
        state=partial(HandoffState, speaker=first),
        raw=raw_output,
        ends=ends,
        heard=attrgetter("agent_name"),
        speaker="speaker",
        round="turn",
    )


def _speaker(_: object, ctx: Context) -> str:
    return handoff_state(ctx).speaker


def _asked(value: HandoffDecision) -> Block[Any, Any] | None:
    return value.speaker
