"""Handoff data: input, answers, entries, state, and output."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import Field

from flowdebate._util.wire import WireModel
from flowdebate.chassis.output import PatternOutput
from flowdebate.chassis.state import (
    Contribution,
    DebateStatus,
    NamedStop,
    PatternInput,
    PatternState,
    ProviderFailure,
    TranscriptState,
)
from flowdebate.resources.resource import StateResource

TransitionForm = Literal["text", "tool", "structured"]
"""Way in which a speaker names the next one: in the last line of its text, by calling `handoff`, or in JSON."""

OnInvalid = Literal["retry", "random", "error"]
"""Policy for an answer that names no valid next speaker.

- "retry": ask again, then draw a speaker at random if necessary.
- "random": draw a speaker immediately.
- "error": fail the run.
"""

HandoffStopReason = Literal["max_turns", "predicate"] | NamedStop
"""Reason why a handoff ended: `max_turns` was reached, or `terminate_when` was true.

A condition is recorded by its name, or as "predicate" if it has no name.
"""

ChosenBy = Literal["speaker", "retry", "random"]
"""Way in which the next speaker was chosen: by the current speaker, by that speaker when asked again, or at random."""


class HandoffInput(PatternInput):
    """Input to a handoff."""

    proposition: str
    """Proposition to discuss; speakers may argue for or against it, or remain neutral."""


class HandoffAnswer(WireModel):
    """A speaker's answer."""

    response: str
    next_agent_name: str | None = None
    """Requested next speaker; None if the answer names nobody."""
    cut_off: bool = Field(default=False, exclude_if=lambda cut_off: not cut_off)
    """True if the text is truncated."""


class HandoffEntry(Contribution):
    """One turn in a handoff."""

    round: Annotated[int, Field(ge=1)]
    agent_name: str
    text: str
    """Contribution, possibly empty, without the marker that names the next speaker."""
    next_agent_name: str | None = None
    """Next speaker, or None if the run ended before one was chosen."""
    chosen_by: ChosenBy | None = None
    """Way in which the next speaker was chosen."""
    problem: str | None = None
    """Problem with the speaker's first answer, such as an invalid choice; None if there was none."""


HandoffTranscript: TypeAlias = "StateResource[TranscriptState[HandoffEntry]]"
"""Type of the resource returned by `create_handoff_transcript`."""


def create_handoff_transcript() -> HandoffTranscript:
    """Create a transcript to be shared by a handoff and its readers, under the key `"transcript"`.

    `ctx.resources.transcript.state.entries` holds the turns so far. Pass the same object to the pattern and to every
    block that reads it.
    """
    return StateResource(key="transcript", initial=TranscriptState[HandoffEntry])


class HandoffState(PatternState):
    """State of a handoff; `round` is the number of the turn in progress."""

    speaker: str = ""
    """Speaker of the current turn or, between turns, the next speaker."""
    stop_reason: HandoffStopReason | None = None
    """Reason why the turns ended, or None while they continue."""


class HandoffOutput(PatternOutput):
    """Raw output of a handoff."""

    subject_field: ClassVar[str] = "proposition"

    proposition: str
    turns: int
    """Number of turns, including those lost because the provider failed."""
    transcript: list[HandoffEntry]
    stop_reason: HandoffStopReason | None = None
    """Reason why the turns ended, or None if they were cut short."""
    status: DebateStatus = "complete"
    losses: list[ProviderFailure] = Field(default_factory=list)
    seed: int | None = None
    """Seed of the run, used for random draws."""

    @property
    def answer(self) -> None:
        """Always None: a handoff has no answer."""
        return None
