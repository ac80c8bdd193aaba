"""Assembly of a deliberation: its steps, from the first to the last."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from flowdebate.blocks.sequencer import sequencer
from flowdebate.patterns.binding import debater_of, role_block
from flowdebate.patterns.deliberation.debater import create_persona_debater
from flowdebate.patterns.deliberation.moderator import create_moderator, stash_report, without_report
from flowdebate.patterns.deliberation.schemas import (
    DeliberationInput,
    DeliberationOutput,
    DeliberationState,
    ModeratorReport,
)
from flowdebate.patterns.deliberation.transcript import deliberation_state, hear, record_round, said_in_progress
from flowdebate.patterns.loop import Loop, PatternSpec, round_limit
from flowdebate.patterns.output import build_output
from flowdebate.patterns.state import entries_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.blocks.base import Block
    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.models.base import Model
    from flowdebate.patterns.deliberation.moderator import ReportForm
    from flowdebate.patterns.roles import Members, RoleOptions
    from flowdebate.patterns.roster import Persona
    from flowdebate.patterns.turn import Turn
    from flowdebate.runs.context import Context
    from flowdebate.runs.events import RunStatus

__all__ = (
    "DeliberationOptions",
    "assemble",
    "deliberation_spec",
    "stop_reason",
)


@dataclass(frozen=True, kw_only=True)
class DeliberationOptions:
    """The checked options of a deliberation. Those of a role reach its default block only."""

    loop: Loop
    roster: tuple[Persona, ...]
    moderator: Any
    report: ReportForm
    of_debaters: RoleOptions
    of_moderator: RoleOptions


def assemble(deliberation: DeliberationOptions) -> Sequencer[Any, Any]:
    """The deliberation as a block: opening, rounds of turns at the same time and a report, output."""
    loop, members = deliberation.loop, members_of(deliberation.roster)
    turns = {persona.name: _turn(deliberation, persona, members) for persona in deliberation.roster}
    record = record_round(name=loop.name, participants=members, transcript=loop.transcript)

    pipeline = loop.opening()
    pipeline = pipeline.tap(sequencer(name=f"{loop.name}-debate-round").parallel(turns).then(record))
    pipeline = pipeline.tap(loop.end_of_turns())
    if deliberation.moderator is not False:
        pipeline = pipeline.tap(_closing(deliberation, members))
    pipeline = loop.until_stopped(pipeline)
    return pipeline.then(build_output(loop.name, loop.spec.make_output))


def _turn(deliberation: DeliberationOptions, persona: Persona, members: Members) -> Turn:
    loop = deliberation.loop
    stand_in = loop.failures.stand_in
    debater = _debater(deliberation, persona, members) or loop.own_debater(persona)
    record = hear(name=loop.name, agent_name=persona.name, transcript=loop.transcript, collection_id=loop.collection_id)
    return loop.turn(
        persona,
        debater=debater,
        stand_in=None if stand_in is None else _debater(deliberation, persona, members, stand_in=stand_in),
        record=record,
    )


def _debater(
    deliberation: DeliberationOptions, persona: Persona, members: Members, *, stand_in: Model | None = None
) -> Block[Any, Any] | None:
    """The default block of `persona`, or that of its `stand_in`; None if it has one of the application's own."""
    loop = deliberation.loop
    defaults = {
        "name": loop.name,
        "agent_name": persona.name,
        "role": persona.role,
        "system_prompt": persona.system_prompt,
        "participants": members,
        "max_rounds": loop.max_rounds,
        "transcript": loop.transcript,
        **deliberation.of_debaters.for_block(),
    }
    return debater_of(persona, create_persona_debater, where=loop.where, defaults=defaults, stand_in=stand_in)


def _closing(deliberation: DeliberationOptions, members: Members) -> Block[Any, Any]:
    """The moderator's report; if it is lost, the round is closed without one."""
    loop = deliberation.loop
    defaults = {
        "name": loop.name,
        "transcript": loop.transcript,
        "participants": members,
        "max_rounds": loop.max_rounds,
        "report": deliberation.report,
        **deliberation.of_moderator.for_block(),
    }
    own: Any = deliberation.moderator
    default = role_block(own, [create_moderator], where=loop.where, field="moderator", defaults=defaults)
    moderator = default or loop.own_role(own, "moderator", lambda: ModeratorReport)
    return (
        sequencer(name=f"{loop.name}-close-round")
        .then(loop.guarded(moderator, without_report))
        .then(stash_report(loop.name, moderator.name))
    )


def members_of(roster: Sequence[Persona]) -> Members:
    """The roles of all who take part, by name."""
    return {persona.name: persona.role for persona in roster}


def deliberation_spec(roster: Sequence[Persona], max_rounds: int) -> PatternSpec:
    """What a deliberation fills the loop in with: it stops when it is settled, and its voices are names."""

    def stops(state: DeliberationState, /, *, predicate: bool) -> str | None:
        return stop_reason(state, max_rounds=max_rounds, predicate=predicate)

    return PatternSpec(
        input_type=DeliberationInput,
        new_state=DeliberationState,
        make_output=partial(raw_output, participants=members_of(roster)),
        stop_reason=stops,
        voice_of=attrgetter("name"),
        speaker="debater",
    )


def stop_reason(state: DeliberationState, *, max_rounds: int, predicate: bool = False) -> str | None:
    """Why a deliberation ends after the round that was just closed, or None if it goes on; the first that holds wins.

    >>> from flowdebate.patterns.deliberation.schemas import DeliberationState
    >>> stop_reason(DeliberationState(round=3), max_rounds=3)
    'max_rounds'
    """
    return "settled" if state.is_settled else round_limit(state.round, max_rounds=max_rounds, predicate=predicate)


def raw_output(ctx: Context, status: RunStatus, *, participants: Members) -> DeliberationOutput:
    """Everything that the deliberation around a step has come to, with what was said in a round that was cut short."""
    state = deliberation_state(ctx)
    return DeliberationOutput(
        topic=state.question,
        rounds=state.round,
        history=[*entries_of(ctx), *said_in_progress(state, participants)],
        summaries=["" if report is None else report.summary for report in state.reports],
        final_decision=_decision(state),
        is_settled=state.is_settled,
        reports=list(state.reports),
        stop_reason=state.stop_reason,
        status=status,
        losses=list(state.losses),
        seed=ctx.seed,
    )


def _decision(state: DeliberationState) -> str | None:
    """If settled, the decision, or the summary without one; else the last report's decision, if any."""
    report = state.report
    if report is None:
        return None
    return report.summary if state.is_settled and report.decision is None else report.decision
