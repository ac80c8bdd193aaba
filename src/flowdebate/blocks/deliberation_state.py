"""What the blocks of a deliberation read and write of the run that they are part of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate.blocks.handler import Handler, handler
from flowdebate.blocks.state import pattern_state
from flowdebate.blocks.transcript_blocks import audit_resources, complete_turn, text_said
from flowdebate.schemas.deliberation import DeliberationEntry, DeliberationState

if TYPE_CHECKING:
    from flowdebate.resources.deliberation_transcript import DeliberationTranscript
    from flowdebate.runs.context import Context
    from flowdebate.views.deliberation import Participants

__all__ = ("deliberation_state", "hear", "record_round", "said_in_progress")


def deliberation_state(ctx: Context) -> DeliberationState:
    """The state of the deliberation around the block; a new one where its block is used by itself."""
    state = pattern_state(ctx)
    return state if isinstance(state, DeliberationState) else DeliberationState()


def hear(*, name: str, agent_name: str, transcript: DeliberationTranscript, collection_id: str) -> Handler[object, str]:
    """A block that keeps what a persona said until the round is over, and completes its task with it."""

    @handler(name=f"{name}-hear-{agent_name}", resources=audit_resources(transcript, collection_id))
    def keep(value: object, ctx: Context) -> str:
        text = text_said(value, agent_name, ctx)
        ctx.sequencer.update(spoken={**deliberation_state(ctx).spoken, agent_name: text})
        complete_turn(agent_name, text, ctx)
        return text

    return keep


def said_in_progress(state: DeliberationState, participants: Participants) -> list[DeliberationEntry]:
    """What was said in the round in progress, in declared order, whoever was the fastest."""
    return [
        DeliberationEntry(round=state.round, name=name, role=role, text=state.spoken[name])
        for name, role in participants.items()
        if name in state.spoken
    ]


def record_round(
    *, name: str, participants: Participants, transcript: DeliberationTranscript
) -> Handler[object, list[DeliberationEntry]]:
    """A block that adds what was said in the round to the transcript, now that all have spoken."""

    @handler(name=f"{name}-record-round", resources={"transcript": transcript})
    def record(_: object, ctx: Context) -> list[DeliberationEntry]:
        entries = said_in_progress(deliberation_state(ctx), participants)
        handle = ctx.scope.handles["transcript"]
        handle.set(handle.state.with_entry(*entries))
        ctx.sequencer.update(spoken={})
        return entries

    return record
