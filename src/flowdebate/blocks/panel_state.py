"""What the blocks of a panel read and write of the run that they are part of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowdebate.blocks.state import pattern_state
from flowdebate.blocks.transcript_blocks import record_turn
from flowdebate.schemas.panel import PanelEntry, PanelState

if TYPE_CHECKING:
    from flowdebate.blocks.handler import Handler
    from flowdebate.resources.panel_transcript import PanelTranscript
    from flowdebate.runs.context import Context

__all__ = ("panel_state", "record_contribution")


def panel_state(ctx: Context) -> PanelState:
    """The state of the panel around the block; a new one where a panel's block is used by itself."""
    state = pattern_state(ctx)
    return state if isinstance(state, PanelState) else PanelState()


def record_contribution(
    *, name: str, agent_name: str, role: str | None, transcript: PanelTranscript, collection_id: str
) -> Handler[Any, str]:
    """A block that adds what a panelist returned to the transcript, and completes the turn's task with it."""

    def entry(number: int, text: str) -> PanelEntry:
        return PanelEntry(round=number, agent_name=agent_name, role=role, text=text)

    return record_turn(
        name=name, agent_name=agent_name, transcript=transcript, collection_id=collection_id, entry=entry
    )
