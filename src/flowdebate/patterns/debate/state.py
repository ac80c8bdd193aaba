"""The state of a debate, and the block that records an argument."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowdebate.patterns.debate.schemas import DebateContributionEntry, DebateState
from flowdebate.patterns.recording import record_turn

if TYPE_CHECKING:
    from flowdebate.blocks.handler import Handler
    from flowdebate.patterns.debate.transcript import Transcript
    from flowdebate.runs.context import Context

__all__ = (
    "create_record_argument",
    "debate_state",
)


def debate_state(ctx: Context) -> DebateState:
    """The state of the debate around the block; a new one where a debate's block is used by itself."""
    handle = ctx.scope.sequencer
    return handle.state if handle is not None and isinstance(handle.state, DebateState) else DebateState()


def create_record_argument(
    *, name: str, agent_name: str, stance: str, transcript: Transcript, collection_id: str
) -> Handler[Any, str]:
    """A block that adds what a debater returned to the transcript, and completes the turn's task with it.

    Its output is the text that was added: see `text_said`.
    """

    def entry(number: int, text: str) -> DebateContributionEntry:
        return DebateContributionEntry(round=number, agent_name=agent_name, stance=stance, text=text)

    return record_turn(
        name=name, agent_name=agent_name, transcript=transcript, collection_id=collection_id, entry=entry
    )
