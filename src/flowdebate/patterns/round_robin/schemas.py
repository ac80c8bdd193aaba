"""Round robin data: input, contributions, audits, state, and raw output."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from flowdebate._util.wire import WireModel, as_list
from flowdebate.chassis.output import PatternOutput
from flowdebate.chassis.state import (
    Contribution,
    DebateStatus,
    NamedStop,
    PatternInput,
    PatternState,
    ProviderFailure,
    TranscriptState,
    TurnOrder,
    is_declared,
)
from flowdebate.resources.resource import StateResource

RoundRobinStopReason = Literal["max_rounds", "predicate"] | NamedStop
"""Reason why a round robin ended: `max_rounds` was reached, or `terminate_when` was true.

A condition is recorded by its name, or as "predicate" if it has no name.
"""


class RoundRobinInput(PatternInput):
    """Input to a round robin."""

    question: str


class RoundRobinEntry(Contribution):
    """One debater's contribution to one round."""

    round: Annotated[int, Field(ge=1)]
    agent_name: str
    role: str | None = None
    text: str


RoundRobinTranscript: TypeAlias = "StateResource[TranscriptState[RoundRobinEntry]]"
"""Type of the resource returned by `create_round_robin_transcript`."""


def create_round_robin_transcript() -> RoundRobinTranscript:
    """Create a transcript to be shared by a round robin and other blocks, under the key `"transcript"`.

    `ctx.resources.transcript.state.entries` holds the contributions so far. Pass the same object to the pattern and to
    every block that reads it.
    """
    return StateResource(key="transcript", initial=TranscriptState[RoundRobinEntry])


# strict lists that also accept tuples; otherwise pydantic would consume iterators as well, even infinite ones


class Assessment(WireModel):
    """A referee's assessment of one debater's argument."""

    agent_name: str
    """The debater's name."""
    issues: Annotated[list[str], Field(strict=True), BeforeValidator(as_list)] = Field(default_factory=list)
    """Faults in the contribution: claims without evidence, faulty reasoning, ignored points."""
    score: Annotated[int, Field(ge=0, le=100)]
    """Score of the argument, from 0 to 100."""


class RefereeReport(WireModel):
    """A referee's report on a round. It affects neither the speaking order nor when the round robin ends."""

    assessments: Annotated[list[Assessment], Field(strict=True), BeforeValidator(as_list)] = Field(default_factory=list)
    """Assessments of debaters; only the first assessment of each of the round's speakers counts."""
    notes: str
    """Notes on the round as a whole."""


class RefereeAudit(RefereeReport):
    """A referee's report as recorded for a round; invalid assessments are omitted (see `dropped`)."""

    round: Annotated[int, Field(ge=1)]
    """Number of the audited round."""
    dropped: list[str] = Field(default_factory=list)
    """Names from dropped assessments. An assessment is dropped if nobody with that name spoke in the round, or if the
    debater had already been assessed.
    """


class RoundRobinState(PatternState):
    """State of a round robin, available as `ctx.sequencer.state`."""

    audits: list[RefereeAudit] = Field(default_factory=list)
    """The referee's audits so far; empty if there is no referee."""
    stop_reason: RoundRobinStopReason | None = None
    """Reason why the rounds ended, or None while they continue."""

    @property
    def audit(self) -> RefereeAudit | None:
        """Audit of the round in progress.

        It is None before the audit, after a provider failure, or if there is no referee.
        """
        last = self.audits[-1] if self.audits else None
        return last if last is not None and last.round == self.round else None


class RoundRobinOutput(PatternOutput):
    """Raw output of a round robin.

    It is the run's output if `synthesizer=False`, and the synthesizer's input otherwise.
    """

    question: str
    rounds: int
    transcript: list[RoundRobinEntry]
    audits: list[RefereeAudit] = Field(default_factory=list)
    """The referee's audits, one per round, except for rounds in which its provider failed."""
    stop_reason: RoundRobinStopReason | None = None
    """Reason why the rounds ended, or None if they were cut short."""
    status: DebateStatus = "complete"
    losses: list[ProviderFailure] = Field(default_factory=list)
    seed: int | None = None
    turn_order: TurnOrder = Field(default="declared", exclude_if=is_declared)
    """Order of turns in each round; omitted from JSON if it is "declared"."""

    @property
    def answer(self) -> None:
        """Always None, because the synthesizer's answer is the run's output."""
        return None
