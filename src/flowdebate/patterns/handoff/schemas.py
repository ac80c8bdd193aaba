"""Data of a handoff: input, answers, entries, state, output, and its own event."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from flowdebate._util.wire import BaseEvent, WireModel
from flowdebate.patterns.output import Entry, PatternOutput
from flowdebate.patterns.state import DebateStatus, PatternInput, PatternState, ProviderFailure, TranscriptState

__all__ = (
    "ChosenBy",
    "HandoffAnswer",
    "HandoffEntry",
    "HandoffInput",
    "HandoffMade",
    "HandoffOutput",
    "HandoffState",
    "HandoffStopReason",
    "HandoffTranscriptState",
    "OnInvalid",
    "TransitionForm",
)

TransitionForm = Literal["text", "tool", "structured"]
"""How a speaker's model names the next speaker: in the last line of its text, by calling `handoff`, in JSON."""

OnInvalid = Literal["retry", "random", "error"]
"""What is done where nobody was named who can speak next: the speaker is asked once more and then the lot decides, the
lot decides at once, the run fails."""

HandoffStopReason = Literal["max_turns", "predicate"]
"""Why it ended: its number of turns, or `terminate_when`."""

ChosenBy = Literal["speaker", "retry", "random"]
"""Who chose the next speaker: the speaker at once, the speaker when asked again, or the lot."""


class HandoffInput(PatternInput):
    """What is debated."""

    proposition: str
    """What the speakers are for, against, or neutral about."""


class HandoffAnswer(WireModel):
    """What a speaker answered."""

    response: str
    """What it says."""
    next_agent_name: str | None = None
    """Whom it named to speak next, as it did; None for nobody."""


class HandoffEntry(WireModel):
    """One turn."""

    round: Annotated[int, Field(ge=1)]
    """The turn's number, from 1."""
    agent_name: str
    """Who spoke."""
    text: str
    """What was said, without the marker that names the next speaker; empty where nothing was."""
    next_agent_name: str | None = None
    """Who speaks next; None where the run ended before that was decided."""
    chosen_by: ChosenBy | None = None
    """Who decided that."""
    problem: str | None = None
    """Why the speaker's first choice did not count; None where it did."""


class HandoffTranscriptState(TranscriptState[HandoffEntry]):
    """The turns so far."""


class HandoffState(PatternState):
    """The state of a handoff's sequencer; `round` is the turn in progress."""

    speaker: str = ""
    """Whose turn it is; between two turns, who speaks next."""
    stop_reason: HandoffStopReason | None = None
    """Why there is no other turn; None while it goes on."""


class HandoffOutput(PatternOutput):
    """What was said, turn by turn."""

    subject_field: ClassVar[str] = "proposition"

    proposition: str
    turns: int
    """How many turns were held, those that were lost included."""
    transcript: list[HandoffEntry]
    stop_reason: HandoffStopReason | None = None
    """Why there was no other turn; None where it did not come to its end."""
    status: DebateStatus = "complete"
    """How it ended."""
    losses: list[ProviderFailure] = Field(default_factory=list)
    """What providers lost, and it went on without."""
    seed: int | None = None
    """The seed of the run, from which lots were drawn."""

    @property
    def answer(self) -> None:
        """None: a handoff ends without an answer of its own."""
        return None

    @property
    def entries(self) -> list[Entry]:
        """What was said, in order."""
        return [Entry(round=said.round, speaker=said.agent_name, text=said.text) for said in self.transcript]


@dataclass(slots=True, kw_only=True)
class HandoffMade(BaseEvent):
    """A turn is over, and it is decided who speaks next.

    With a `problem` it is a warning: the speaker did not choose as it should.
    """

    kind: ClassVar[str] = "handoff_made"
    round: int
    """The turn that is over."""
    agent_name: str
    """Whose turn it was."""
    next_agent_name: str
    chosen_by: ChosenBy
    problem: str | None = None
    """Why the speaker's first choice did not count."""
