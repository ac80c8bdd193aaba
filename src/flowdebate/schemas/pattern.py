"""What the patterns have in common: a state, a transcript, and what they were lost and went on without."""

from __future__ import annotations

from typing import Generic, Literal, Self, TypeVar

from pydantic import Field

from flowdebate.schemas.wire import WireModel

__all__ = ("DebateLoss", "DebateStatus", "Instead", "PatternInput", "PatternState", "Seat", "TranscriptState")

EntryT = TypeVar("EntryT")

Seat = Literal["debater", "moderator", "judge", "synthesizer", "referee"]
"""Who acts in a debate or in one of its siblings."""

Instead = Literal["skipped", "stand_in", "declared_order", "no_verdict", "no_output", "no_report", "drawn"]
"""What is done without a seat's answer: the turn is left out, another model argues, all debaters speak in declared
order, there is no verdict, there is no output, the round has no report, the next speaker is drawn by lot."""

DebateStatus = Literal["complete", "degraded", "no_verdict", "interrupted", "limit", "failed", "awaiting"]
"""How a debate ended: as it should; without something that a provider lost; without a verdict; cancelled; by a limit of
its run; failed; not yet, since it waits for a human."""


class DebateLoss(WireModel):
    """What a provider lost, and the debate went on without."""

    round: int
    """The round in which it happened; for judge and synthesizer the last."""
    seat: Seat
    name: str
    """The debater's name; the block's for other seats."""
    stance: str | None = None
    """A debater's."""
    error: str
    """The error's class and message."""
    instead: Instead


class PatternInput(WireModel):
    """What a pattern is given: one field, named as the pattern names what it is about."""

    @property
    def subject(self) -> str:
        """The question, the topic, the proposition or the task."""
        return str(getattr(self, next(iter(type(self).model_fields))))


class PatternState(WireModel):
    """What every pattern keeps in its sequencer's state; each adds its own."""

    question: str = ""
    """What it is about: the question, the topic, the proposition or the task."""
    round: int = 0
    """The round (or turn) in progress, from 1; 0 before the first."""
    losses: list[DebateLoss] = Field(default_factory=list)
    """What providers lost so far, in order."""
    stop_reason: str | None = None
    """Why the loop ended; None while it goes on."""


class TranscriptState(WireModel, Generic[EntryT]):
    """What was said so far, in the order in which it counts."""

    entries: list[EntryT] = Field(default_factory=list)

    def with_entry(self, *entries: EntryT) -> Self:
        """This transcript, longer by `entries`."""
        return type(self)(entries=[*self.entries, *entries])
