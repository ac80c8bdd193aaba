"""How a deliberation is put together from its blocks, once its options are known to be right."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from flowdebate.blocks.handler import as_block
from flowdebate.blocks.human.prompt import with_answer_schema
from flowdebate.blocks.sequencer import Sequencer, sequencer
from flowdebate.patterns.deliberation.closing import build_output, raw_output, stash_report, stop_reason, without_report
from flowdebate.patterns.deliberation.debater import create_persona_debater
from flowdebate.patterns.deliberation.moderator import create_reporter
from flowdebate.patterns.deliberation.schemas import DeliberationInput, DeliberationState, ModeratorReport
from flowdebate.patterns.deliberation.transcript import hear, record_round
from flowdebate.patterns.loop import Loop, PatternSpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flowdebate.blocks.base import Block
    from flowdebate.blocks.generator import Visibility
    from flowdebate.blocks.handler import BlockLike
    from flowdebate.models.base import Model
    from flowdebate.patterns.deliberation.moderator import ReportForm
    from flowdebate.patterns.deliberation.prompts import Participants
    from flowdebate.patterns.roster import Persona
    from flowdebate.patterns.turn import Turn

__all__ = (
    "Assembly",
    "participants_of",
    "terms",
)


@dataclass(frozen=True, kw_only=True)
class Assembly:
    """A deliberation's checked options; `pipeline()` is the deliberation."""

    loop: Loop
    roster: tuple[Persona, ...]
    moderator: BlockLike | None
    report: ReportForm
    defaults: Mapping[str, Any]
    """Options that reach the default blocks only."""
    debater_visibility: Visibility
    moderator_visibility: Visibility

    def pipeline(self) -> Sequencer[Any, Any]:
        """Opening, rounds, output."""
        return self.loop.rounds(self._round).then(build_output(self.loop.name, self.loop.terms.raw))

    def _round(self, pipeline: Sequencer[Any, Any]) -> Sequencer[Any, Any]:
        return pipeline.tap(self._turns()).tap(self.loop.end_of_turns()).tap(self._closing())

    def _turns(self) -> Block[Any, Any]:
        """All turns at the same time; what was said is recorded when all of them are over."""
        turns = {persona.name: self._turn(persona) for persona in self.roster}
        record = record_round(
            name=self.loop.name, participants=participants_of(self.roster), transcript=self.loop.transcript
        )
        return sequencer(name=f"{self.loop.name}-debate-round").parallel(turns).then(record)

    def _turn(self, persona: Persona) -> Turn:
        record = hear(
            name=self.loop.name,
            agent_name=persona.name,
            transcript=self.loop.transcript,
            collection_id=self.loop.collection_id,
        )

        def default(name: str, model: Model | str | None) -> Block[Any, Any]:
            options = dict(self.defaults) if model is None else {**self.defaults, "model": model}
            return create_persona_debater(
                name=name,
                agent_name=persona.name,
                role=persona.role,
                system_prompt=persona.system_prompt,
                participants=participants_of(self.roster),
                max_rounds=self.loop.max_rounds,
                transcript=self.loop.transcript,
                visibility=self.debater_visibility,
                **options,
            )

        return self.loop.turn(persona, default=default, record=record)

    def _closing(self) -> Block[Any, Any]:
        """The moderator's report; where it is lost, the round is closed without one."""
        moderator = self._moderator()
        return (
            sequencer(name=f"{self.loop.name}-close-round")
            .then(self.loop.guarded(moderator, without_report))
            .then(stash_report(self.loop.name, moderator.name))
        )

    def _moderator(self) -> Block[Any, Any]:
        name = self.loop.name
        if self.moderator is not None:
            moderator = as_block(self.moderator, name=f"{name}-moderator", where=self.loop.where, field="moderator")
            return with_answer_schema(moderator, lambda: ModeratorReport)
        return create_reporter(
            name=name,
            transcript=self.loop.transcript,
            participants=participants_of(self.roster),
            max_rounds=self.loop.max_rounds,
            report=self.report,
            visibility=self.moderator_visibility,
            **self.defaults,
        )


def participants_of(roster: Sequence[Persona]) -> Participants:
    """The roles of all who take part, by name."""
    return {persona.name: persona.role for persona in roster}


def terms(roster: Sequence[Persona], max_rounds: int) -> PatternSpec:
    """What a deliberation fills the loop in with."""
    return PatternSpec(
        takes=DeliberationInput,
        state=DeliberationState,
        raw=raw_output(participants_of(roster)),
        ends=lambda state: stop_reason(state, max_rounds=max_rounds),
        heard=attrgetter("name"),
        speaker="debater",
    )
