"""Data of a round robin: input, contributions, audits, state, raw output, and its own event."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from flowdebate._util.wire import BaseEvent, WireModel, as_list
from flowdebate.patterns.output import Entry, PatternOutput
from flowdebate.patterns.state import DebateStatus, PatternInput, PatternState, ProviderFailure, TranscriptState

__all__ = (
    "Assessment",
    "RefereeAudit",
    "RefereeReport",
    "RefereeReported",
    "RoundRobinEntry",
    "RoundRobinInput",
    "RoundRobinOutput",
    "RoundRobinState",
    "RoundRobinStopReason",
    "RoundRobinTranscriptState",
)

RoundRobinStopReason = Literal["max_rounds", "predicate"]
"""Why a round robin ended: its cap, or `terminate_when`."""


class RoundRobinInput(PatternInput):
    """The input of a round robin."""

    question: str
    """The question that it answers."""


class RoundRobinEntry(WireModel):
    """What one debater said in one round."""

    round: Annotated[int, Field(ge=1)]
    """The round in which it was said, from 1."""
    agent_name: str
    """Who said it."""
    role: str | None = None
    """What the speaker is; None for one without a role."""
    text: str
    """What was said."""


class RoundRobinTranscriptState(TranscriptState[RoundRobinEntry]):
    """What was said so far, in order."""


class Assessment(WireModel):
    """What a referee found of one debater's argument."""

    agent_name: str
    """Whose argument it is."""
    issues: Annotated[list[str], Field(strict=True), BeforeValidator(as_list)] = Field(default_factory=list)
    """What is wrong with it: claims without evidence, faulty reasoning, points passed over."""
    score: Annotated[int, Field(ge=0, le=100)]
    """How well it is argued, from 0 to 100."""


class RefereeReport(WireModel):
    """What a referee found of a round. It controls neither the order nor the end."""

    assessments: Annotated[list[Assessment], Field(strict=True), BeforeValidator(as_list)] = Field(default_factory=list)
    """The first of each debater who spoke in the round counts."""
    notes: str
    """About the round as a whole."""


class RefereeAudit(RefereeReport):
    """A referee's report as it is kept: with its round, and of those who spoke in it only."""

    round: Annotated[int, Field(ge=1)]
    """The round that it audits."""
    dropped: list[str] = Field(default_factory=list)
    """The names whose assessments were dropped: nobody of that name spoke in the round, or it was assessed already."""


class RoundRobinState(PatternState):
    """The state of a round robin's sequencer, as `ctx.sequencer.state` shows it."""

    audits: list[RefereeAudit] = Field(default_factory=list)
    """The referee's so far; empty without one."""
    stop_reason: RoundRobinStopReason | None = None
    """Why the loop ended; None while it goes on."""

    @property
    def audit(self) -> RefereeAudit | None:
        """The referee's audit of the round in progress, or None: there is none yet, it was lost, or has no referee."""
        last = self.audits[-1] if self.audits else None
        return last if last is not None and last.round == self.round else None


class RoundRobinOutput(PatternOutput):
    """Everything a round robin came to: the pattern's output with `synthesizer=False`, else the synthesizer's input."""

    question: str
    rounds: int
    """How many rounds were held."""
    transcript: list[RoundRobinEntry]
    audits: list[RefereeAudit] = Field(default_factory=list)
    """One for each round with a referee, but for rounds whose audit was lost."""
    stop_reason: RoundRobinStopReason | None = None
    """Why there was no other round; None where the rounds did not come to their end."""
    status: DebateStatus = "complete"
    """How it ended."""
    losses: list[ProviderFailure] = Field(default_factory=list)
    """What providers lost, and it went on without."""
    seed: int | None = None
    """The seed of the run."""

    @property
    def answer(self) -> None:
        """None: the answer is the synthesizer's, and that is the run's output."""
        return None

    @property
    def entries(self) -> list[Entry]:
        """What was said, in order."""
        return [Entry(round=said.round, speaker=said.agent_name, text=said.text) for said in self.transcript]


@dataclass(slots=True, kw_only=True)
class RefereeReported(BaseEvent):
    """A referee audited a round."""

    kind: ClassVar[str] = "referee_reported"
    block: str
    audit: RefereeAudit
