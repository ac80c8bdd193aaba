"""What travels through a debate whose speakers name the next speaker."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from flowdebate.schemas.pattern import DebateLoss, DebateStatus, PatternInput, PatternState, TranscriptState
from flowdebate.schemas.wire import WireModel

__all__ = (
    "ChosenBy",
    "HandoffEntry",
    "HandoffInput",
    "HandoffOutput",
    "HandoffState",
    "HandoffStopReason",
    "HandoffTranscriptState",
)

HandoffStopReason = Literal["max_turns", "predicate"]
"""Why it ended: its number of turns, or `terminate_when`."""

ChosenBy = Literal["speaker", "retry", "random"]
"""Who chose the next speaker: the speaker at once, the speaker when asked again, or the lot."""


class HandoffInput(PatternInput):
    """What is debated."""

    proposition: str
    """What the speakers are for, against, or neutral about."""


class HandoffEntry(WireModel):
    """One turn."""

    round: Annotated[int, Field(ge=1)]
    """The turn's number, from 1."""
    agent_name: str
    """Who spoke."""
    text: str
    """What was said, without the marker that names the next speaker."""
    next_agent_name: str
    """Who was named to speak next."""
    chosen_by: ChosenBy


class HandoffTranscriptState(TranscriptState[HandoffEntry]):
    """The turns so far."""


class HandoffState(PatternState):
    """The state of a handoff's sequencer; `round` is the turn in progress."""

    speaker: str = ""
    """Whose turn it is."""


class HandoffOutput(WireModel):
    """What was said, turn by turn."""

    proposition: str
    turns: int
    """How many turns were held."""
    transcript: list[HandoffEntry]
    stop_reason: HandoffStopReason | None = None
    """Why there was no other turn; None where it did not come to its end."""
    status: DebateStatus = "complete"
    losses: list[DebateLoss] = Field(default_factory=list)
    """What providers lost, and it went on without."""
    seed: int | None = None

    def to_wire(self) -> dict[str, Any]:
        """This output as plain data with camelCase keys."""
        return self.model_dump(mode="json", by_alias=True)
