"""Deliberation data: input, entries, reports, state, and output."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import AfterValidator, Field

from flowdebate._util.wire import WireModel
from flowdebate.chassis.output import PatternOutput, brief
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

DeliberationStopReason = Literal["settled", "max_rounds", "predicate"] | NamedStop
"""Reason why a deliberation ended: the matter was settled, `max_rounds` was reached, or `terminate_when` was true.

A condition is recorded by its name, or as "predicate" if it has no name.
"""

ReportStatus = Literal["SETTLED", "CONTINUE"]
"""Status in a moderator's report: the matter is settled, or it needs another round."""

_NOTHING = frozenset(
    {"", "n/a", "na", "nil", "no decision", "no decision yet", "none", "none yet", "not applicable", "not decided"}
    | {"not yet", "null", "tbd", "undecided"}
)
"""Phrases that models use to say that there is no decision."""
_MAX_LENGTH = max(map(len, _NOTHING))
_MARKS = " \t\r\n.*_`-\u2013\u2014()[]\"'"  # characters that models put around phrases like "none"


def _decision_or_none(decision: str | None) -> str | None:
    """Return `decision`, or None if it says that there is none: blank text, dashes, "none", "N/A", and the like."""
    if decision is None:
        return None
    bare = decision.strip(_MARKS)
    return None if not bare.strip() or (len(bare) <= _MAX_LENGTH and bare.casefold() in _NOTHING) else decision


class DeliberationInput(PatternInput):
    """Input to a deliberation."""

    topic: str


class DeliberationEntry(Contribution):
    """One persona's contribution to one round."""

    round: Annotated[int, Field(ge=1)]
    name: str
    role: str | None = None
    text: str

    @property
    def speaker(self) -> str:
        """Alias for `name`, because the entries in every pattern have a `speaker`."""
        return self.name


DeliberationTranscript: TypeAlias = "StateResource[TranscriptState[DeliberationEntry]]"
"""Type of the resource returned by `create_deliberation_transcript`."""


def create_deliberation_transcript() -> DeliberationTranscript:
    """Create a transcript to be shared by a deliberation and its readers, under the key `"transcript"`.

    `ctx.resources.transcript.state.entries` holds the contributions of earlier rounds. A round's contributions are
    added after all debaters have spoken, before the moderator's report. Pass the same object to the pattern and to
    every block that reads it.
    """
    return StateResource(key="transcript", initial=TranscriptState[DeliberationEntry])


class ModeratorReport(WireModel):
    """A moderator's report at the end of a round."""

    summary: str
    """The state of the discussion."""
    status: ReportStatus
    """Status of the matter."""
    decision: Annotated[str | None, AfterValidator(_decision_or_none)] = None
    """Decision, if there is one; "none", "N/A", blank text and the like become None."""

    @property
    def settled(self) -> bool:
        """True if the report's status is SETTLED."""
        return self.status == "SETTLED"


class DeliberationState(PatternState):
    """State of a deliberation, available as `ctx.sequencer.state`."""

    reports: list[ModeratorReport | None] = Field(default_factory=list)
    """The moderator's reports, one per closed round; a report is None if the moderator's provider failed."""
    spoken: dict[str, str] = Field(default_factory=dict)
    """Contributions to the round in progress, keyed by name; empty between rounds."""

    @property
    def report(self) -> ModeratorReport | None:
        """The latest report: from the last closed round or, if the moderator's provider failed, from an earlier one."""
        return next((report for report in reversed(self.reports) if report is not None), None)

    @property
    def is_settled(self) -> bool:
        """True if the moderator found the matter settled in the last closed round."""
        last = self.reports[-1] if self.reports else None
        return last is not None and last.settled


class DeliberationOutput(PatternOutput):
    """Raw output of a deliberation."""

    subject_field: ClassVar[str] = "topic"
    transcript_field: ClassVar[str] = "history"
    early_reasons: ClassVar[frozenset[str]] = frozenset({"settled"})

    topic: str
    rounds: int
    history: list[DeliberationEntry]
    """All contributions, round by round, in declared order within each round."""
    summaries: list[str]
    """The moderator's summaries, one per closed round; a summary is empty if the moderator's provider failed."""
    final_decision: str | None
    """The moderator's decision or, if the matter is settled without one, the moderator's summary.

    If the matter is not settled, this is the decision in the last report, or None.
    """
    is_settled: bool
    """True if the moderator found the matter settled."""
    reports: list[ModeratorReport | None] = Field(default_factory=list)
    """The moderator's reports, one per closed round; a report is None if the moderator's provider failed."""
    stop_reason: DeliberationStopReason | None = None
    """Reason why the rounds ended, or None if they were cut short."""
    status: DebateStatus = "complete"
    losses: list[ProviderFailure] = Field(default_factory=list)
    seed: int | None = None

    @property
    def answer(self) -> str | None:
        """The final decision, or None if there is none."""
        return self.final_decision

    @property
    def is_undisputed(self) -> bool:
        """True if the moderator found the matter settled."""
        return self.is_settled

    def answer_courses(self) -> list[tuple[dict[str, list[str | None]], str | None]]:
        """Return the moderator's decision in each round, followed by the final decision."""
        reports = [report.decision for report in self.reports if report is not None]
        return [({"moderator": list(reports)}, self.final_decision)]

    @property
    def decision_word(self) -> str | None:
        """The word "settled" or the phrase "not settled"; None if the rounds were cut short."""
        if self.stop_reason is None:
            return None
        return "settled" if self.is_settled else "not settled"

    @property
    def decision_line(self) -> str | None:
        """The beginning of the decision, or "not settled"; None if the rounds were cut short."""
        return (brief(self.final_decision) if self.is_settled else None) or self.decision_word
