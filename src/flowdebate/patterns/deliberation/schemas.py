"""Data of a deliberation: input, entries, reports, state, output, and its own event."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from flowdebate._util.wire import BaseEvent, WireModel
from flowdebate.patterns.output import Entry, PatternOutput
from flowdebate.patterns.state import DebateStatus, PatternInput, PatternState, ProviderFailure, TranscriptState

__all__ = (
    "DeliberationEntry",
    "DeliberationInput",
    "DeliberationOutput",
    "DeliberationState",
    "DeliberationStopReason",
    "DeliberationTranscriptState",
    "ModeratorReport",
    "ModeratorReported",
    "ReportStatus",
)

DeliberationStopReason = Literal["settled", "max_rounds", "predicate"]
"""Why a deliberation ended: its moderator found it settled, its cap, or `terminate_when`."""

ReportStatus = Literal["SETTLED", "CONTINUE"]
"""What a moderator finds: the matter is settled, or it needs another round."""

_NOTHING = frozenset(
    {"", "n/a", "na", "nil", "no decision", "no decision yet", "none", "none yet", "not applicable", "not decided"}
    | {"not yet", "null", "tbd", "undecided"}
)
"""What models write where nothing was decided."""
_LONGEST = max(map(len, _NOTHING))
_MARKS = " \t\r\n.*_`-\u2013\u2014()[]\"'"
"""What may stand around it."""


def _something(decision: str | None) -> str | None:
    """`decision`, or None for what says that there is none: blank, dashes, "none", "N/A", and the like."""
    if decision is None:
        return None
    bare = decision.strip(_MARKS)
    return None if not bare.strip() or (len(bare) <= _LONGEST and bare.casefold() in _NOTHING) else decision


class DeliberationInput(PatternInput):
    """What a deliberation is asked."""

    topic: str
    """What is deliberated on."""


class DeliberationEntry(WireModel):
    """What one persona said in one round."""

    round: Annotated[int, Field(ge=1)]
    """The round in which it was said, from 1."""
    name: str
    """Who said it."""
    role: str | None = None
    """What the speaker is; None for one without a role."""
    text: str
    """What was said."""


class DeliberationTranscriptState(TranscriptState[DeliberationEntry]):
    """What was said so far: round by round, in declared order within each."""


class ModeratorReport(WireModel):
    """What a moderator reports when it closes a round."""

    summary: str
    """Where the deliberation stands."""
    status: ReportStatus
    """Whether the matter is settled."""
    decision: Annotated[str | None, AfterValidator(_something)] = None
    """What was decided; None where nothing was. A text that says so ("none", "N/A", blank) is None too."""

    @property
    def settled(self) -> bool:
        """Whether its status is SETTLED."""
        return self.status == "SETTLED"


class DeliberationState(PatternState):
    """The state of a deliberation's sequencer, as `ctx.sequencer.state` shows it."""

    reports: list[ModeratorReport | None] = Field(default_factory=list)
    """One for each closed round; None where the moderator's was lost."""
    spoken: dict[str, str] = Field(default_factory=dict)
    """What was said in the round in progress, by name, as soon as it was; empty between rounds."""

    @property
    def report(self) -> ModeratorReport | None:
        """The last report that there is: that of the last closed round, or an earlier one where it was lost."""
        return next((report for report in reversed(self.reports) if report is not None), None)

    @property
    def is_settled(self) -> bool:
        """Whether the last closed round was found to settle the matter."""
        last = self.reports[-1] if self.reports else None
        return last is not None and last.settled


class DeliberationOutput(PatternOutput):
    """What a deliberation came to."""

    subject_field: ClassVar[str] = "topic"

    topic: str
    rounds: int
    """How many rounds were held."""
    history: list[DeliberationEntry]
    """All that was said: round by round, in declared order within each."""
    summaries: list[str]
    """The moderator's, one for each closed round; empty text where it was lost."""
    final_decision: str | None
    """Settled: the moderator's decision, or its summary where it made none. Not settled: the last report's decision,
    or None."""
    is_settled: bool
    """Whether the moderator found the matter settled."""
    reports: list[ModeratorReport | None] = Field(default_factory=list)
    """The moderator's, one for each closed round; None where it was lost."""
    stop_reason: DeliberationStopReason | None = None
    """Why there was no other round; None where the rounds did not come to their end."""
    status: DebateStatus = "complete"
    """How it ended."""
    losses: list[ProviderFailure] = Field(default_factory=list)
    """What providers lost, and it went on without."""
    seed: int | None = None
    """The seed of the run."""

    @property
    def answer(self) -> str | None:
        """The final decision; None if there is none."""
        return self.final_decision

    @property
    def entries(self) -> list[Entry]:
        """What was said, in order."""
        return [Entry(round=said.round, speaker=said.name, text=said.text) for said in self.history]


@dataclass(slots=True, kw_only=True)
class ModeratorReported(BaseEvent):
    """A moderator closed a round."""

    kind: ClassVar[str] = "moderator_reported"
    block: str
    round: int
    report: ModeratorReport
