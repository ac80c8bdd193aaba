"""Review data: findings with their locations and reviewers, and the output.

A finding lists the reviewers who raised, confirmed and refuted it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, get_args

from pydantic import AfterValidator, Field

from flowdebate._text import counted, is_blank
from flowdebate._util.wire import WireModel, new_dict, new_list
from flowdebate.chassis.output import PatternOutput
from flowdebate.chassis.state import (
    Contribution,
    DebateStatus,
    PatternInput,
    PatternState,
    ProviderFailure,
    TranscriptState,
)
from flowdebate.resources.resource import StateResource
from flowdebate.sources.source import is_none

Severity = Literal["blocker", "major", "minor", "nit"]
"""Severity of a finding: it blocks the change, does harm, is a flaw, or is a matter of taste."""
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
"""Severities, most severe first."""
SEVERITY_WORDS: dict[str, Severity] = {
    **dict.fromkeys(("critical", "fatal"), "blocker"),
    **dict.fromkeys(("high", "error"), "major"),
    **dict.fromkeys(("medium", "moderate", "warning"), "minor"),
    **dict.fromkeys(("low", "info", "informational", "trivial"), "nit"),
}
"""Severities, keyed by the terms other tools use."""
FindingState = Literal["confirmed", "disputed", "refuted", "resolved"]
"""State of a finding once all opinions are in; "resolved" means that a finding from an earlier review no longer
applies.
"""
STATES: tuple[FindingState, ...] = get_args(FindingState)
StopReason = Literal["examined", "nothing_found"]
"""Reason why a review ended: all findings were examined, or there were no findings."""

REVIEWERS = ({"name": "Ada"}, {"name": "Ben"}, {"name": "Cleo"})
"""Default reviewers."""
QUESTION = "What is wrong with this change?"
"""Default question about the material."""
EARLIER = "the earlier review"
"""Author name given to findings repeated from an earlier review."""
MAX_FINDINGS = 50
"""Maximum number of findings per reviewer."""
_Text = Annotated[str, Field(max_length=4_000)]
_Short = Annotated[str, Field(max_length=300)]
# without this pattern, small models would write the title here; numbers in brackets are accepted as well
_Id = Annotated[
    str,
    Field(max_length=300, description="Its number", json_schema_extra={"pattern": "^F[0-9]{1,4}$"}),
    AfterValidator(lambda text: text.strip("[] ")),
]


class ReviewInput(PatternInput):
    """Input to a review, and to each reviewer's block in the first phase."""

    question: str


class ReviewPart(ReviewInput):
    """Input to a reviewer for one part of the sources, used if the sources do not fit into one prompt."""

    part: int
    """Index of the part, starting at 0."""


class Place(WireModel):
    """A location in the material."""

    file: _Short | None = None
    """Name of a source; for a diff, the name of the changed file."""
    line: Annotated[int | None, Field(ge=1)] = None
    end_line: Annotated[int | None, Field(ge=1)] = None
    """Last line; None for a single line."""
    quote: _Text | None = None
    found: bool | None = None
    """True if the location is in the material; None if there is nothing to look up."""
    problem: str | None = None
    """Reason why the location could not be found."""
    note: str | None = Field(default=None, exclude_if=is_none)
    """Difference between the actual location in the material and the one stated in the finding.

    None (and omitted from JSON) if there is no difference.
    """

    @property
    def text(self) -> str:
        """The location in readable form, such as "app.py:3-5", or "" if there is none."""
        last = f"-{self.end_line}" if self.end_line and self.end_line != self.line else ""
        return f"{self.file or ''}{f':{self.line}{last}' if self.line else ''}"


class FindingDraft(WireModel):
    """One thing that is wrong, as a reviewer writes it."""

    # the schema requires a title, but findings without one are merely dropped: another call could lose the other
    # findings
    title: Annotated[_Short, Field(description="What is wrong, in a few words", json_schema_extra={"minLength": 1})]
    claim: Annotated[_Text, Field(description="Why it is wrong, and what follows from it")]
    severity: Annotated[Severity, Field(description="blocker, major, minor or nit")]
    file: Annotated[_Short | None, Field(description="The name of the file or the source")] = None
    line: Annotated[int | None, Field(ge=1, description="The number of the line, if lines are numbered")] = None
    end_line: Annotated[int | None, Field(ge=1, description="The last line, if there are several")] = None
    quote: Annotated[_Text | None, Field(description="The words in question, exactly as they stand there")] = None
    suggestion: Annotated[_Text | None, Field(description="What to do instead")] = None


class Findings(WireModel):
    """What a reviewer returns; an empty list if it finds nothing."""

    findings: Annotated[list[FindingDraft], Field(max_length=MAX_FINDINGS)]


class Raised(WireModel):
    """A finding as worded by one of the reviewers who raised it."""

    agent_name: str
    title: str
    claim: str
    severity: Severity
    place: Place
    suggestion: str | None = None

    @property
    def is_empty(self) -> bool:
        """True if the title or the claim is empty, in which case there is no finding."""
        return is_blank(self.title) or is_blank(self.claim)


class Verdict(WireModel):
    """Another reviewer's opinion on a finding."""

    finding: str
    """ID of the finding."""
    agent_name: str
    verdict: Literal["confirm", "refute", "neither"]
    reason: str
    quote: str | None = None
    quote_found: bool | None = None
    """True if the quote is in the material; None if there is no quote."""
    flipped: bool = False
    """True if the answer depended on the order of the options, in which case it counts as "neither"."""


class Defence(WireModel):
    """Response of a finding's author to objections."""

    finding: str
    agent_name: str
    stands: bool
    """False if the finding is withdrawn."""
    reason: str


class Finding(WireModel):
    """One fault, together with all the reviewers' opinions about it."""

    id: str
    title: str
    claim: str
    severity: Severity
    """Highest severity that any reviewer assigned to the finding."""
    place: Place
    suggestion: str | None = None
    raised: Annotated[list[Raised], Field(min_length=1)]
    """The finding as worded by each reviewer who raised it, keyed by name."""
    verdicts: list[Verdict] = Field(default_factory=new_list)
    """The other reviewers' verdicts, sorted by the reviewer's name."""
    defences: list[Defence] = Field(default_factory=new_list)
    state: FindingState = "disputed"
    why: str = ""
    """Explanation of the state, in one sentence."""

    @property
    def raisers(self) -> list[str]:
        """Names of the reviewers who raised the finding."""
        return list(dict.fromkeys(raised.agent_name for raised in self.raised))

    @property
    def is_earlier(self) -> bool:
        """True if an earlier review confirmed the finding."""
        return EARLIER in self.raisers

    @property
    def draft(self) -> FindingDraft:
        """The finding as a draft, for the `earlier` option of a later review."""
        place = self.place.model_dump(include={"file", "line", "end_line", "quote"})
        return FindingDraft(
            title=self.title, claim=self.claim, severity=self.severity,
            suggestion=self.suggestion, **place,
        )  # fmt: skip


class GateResult(WireModel):
    """One rule of a gate, with its result."""

    rule: str
    holds: bool | None
    """True if the rule holds; None if it is undecided."""
    against: list[str] = Field(default_factory=new_list)
    """IDs of the findings that break the rule."""
    why: str

    @property
    def word(self) -> str:
        """Short form of the result: "holds", "does not hold" or "is undecided"."""
        return {True: "holds", False: "does not hold", None: "is undecided"}[self.holds]


class FileCoverage(WireModel):
    """Extent to which the reviewers' prompts cover one file."""

    file: str
    lines: int = 0
    """Number of lines under review: in a diff, the changed lines; otherwise, all lines."""
    read: dict[str, int] = Field(default_factory=new_dict)
    """Number of lines under review in each reviewer's prompts, keyed by reviewer."""
    first_line: int | None = None
    """Line number of the first line under review that still exists."""
    left_out: str | None = None
    """Reason why the file was not shown to any reviewer."""
    unread: str | None = None
    """Parts of a document that are missing from its text, such as "2 pictures"."""
    excluded: bool = False
    """True if the user excluded the file."""

    @property
    def is_read(self) -> bool:
        """True if at least one reviewer was shown the whole file."""
        return self.left_out is None and self.unread is None and self.lines in self.read.values()

    @property
    def gap(self) -> str:
        """Description of the unread part of the file."""
        return self.left_out or self.unread or f"{max(self.read.values(), default=0)} of {self.lines} lines"


def unread_files(coverage: Iterable[FileCoverage]) -> list[str]:
    """List the files with unread parts and describe the gaps, omitting files excluded by the user."""
    return [f"{file.file} ({file.gap})" for file in coverage if not file.is_read and not file.excluded]


class ReviewReport(Contribution):
    """A reviewer's contribution in one phase, rendered as text for the transcript."""

    round: Annotated[int, Field(ge=1)] = 1
    agent_name: str
    text: str


ReviewTranscript: TypeAlias = "StateResource[TranscriptState[ReviewReport]]"


def create_review_transcript() -> ReviewTranscript:
    """Create a transcript to share between a review and custom blocks.

    The transcript stays empty until the review ends, because it contains names.
    """
    return StateResource(key="transcript", initial=TranscriptState[ReviewReport])


class ReviewState(PatternState):
    """State of a review."""

    reports: dict[str, list[Raised]] = Field(default_factory=new_dict)
    """Reports keyed by reviewer, in order of arrival."""
    voices: dict[str, str] = Field(default_factory=new_dict)
    """Each reviewer's model; for a human or a custom block, the reviewer's name."""
    lines: dict[str, dict[str, int]] = Field(default_factory=new_dict)
    """Number of lines under review in each reviewer's prompts, keyed by reviewer and then by file."""
    findings: list[Finding] | None = None
    """Findings after duplicates have been merged."""
    uncompared_pairs: int = 0
    verdicts: dict[str, list[Verdict]] = Field(default_factory=new_dict)
    defences: dict[str, list[Defence]] = Field(default_factory=new_dict)


class ReviewRawOutput(PatternOutput):
    """Raw output of a review."""

    early_reasons: ClassVar[frozenset[str]] = frozenset(get_args(StopReason))

    question: str
    findings: list[Finding] = Field(default_factory=new_list)
    """Findings sorted by severity, then by support."""
    reviewers: dict[str, str] = Field(default_factory=new_dict)
    """Model of each reviewer that answered; for a human or a custom block, the reviewer's name."""
    gate: GateResult | None = None
    """Result of the gate, or None if there is no gate."""
    coverage: list[FileCoverage] = Field(default_factory=new_list)
    """Coverage of each file, in the order of the sources."""
    uncompared_pairs: int = 0
    """Number of pairs of possibly identical findings at the same location that were not shown to the merger."""
    empty: dict[str, int] = Field(default_factory=new_dict)
    """Number of findings dropped because of an empty title or claim, keyed by reviewer."""
    transcript: list[ReviewReport] = Field(default_factory=new_list)
    stop_reason: StopReason | None = None
    status: DebateStatus = "complete"
    losses: list[ProviderFailure] = Field(default_factory=new_list)
    seed: int | None = None

    @property
    def unresolved(self) -> list[FindingDraft]:
        """Confirmed findings, for the `earlier` option of the next review of the same change."""
        return [finding.draft for finding in self.in_state("confirmed")]

    def in_state(self, state: FindingState) -> list[Finding]:
        """Return the findings with the given state."""
        return [finding for finding in self.findings if finding.state == state]

    @property
    def answer(self) -> str | None:
        """Result in one sentence, such as "2 confirmed (1 blocker, 1 minor), 1 refuted".

        It is None if there is no result.
        """
        if self.stop_reason is None:
            return None
        parts = []
        for state in STATES:
            severities = [finding.severity for finding in self.in_state(state)]
            grades = ", ".join(f"{severities.count(grade)} {grade}" for grade in SEVERITIES if grade in severities)
            parts += [f"{len(severities)} {state} ({grades})"] if severities else []
        return ", ".join(parts) or "nothing found"

    @property
    def headline(self) -> str:
        """First line of a report: the share of files read, and the result."""
        return ": ".join(filter(None, [self._files_read, self.answer or "not finished"]))

    @property
    def _files_read(self) -> str:
        full = sum(file.is_read for file in self.coverage)
        return f"Read {full} of {counted(len(self.coverage), 'file')} in full" if self.coverage else ""

    @property
    def coverage_note(self) -> str:
        """State in a sentence how many files were read in full, and name the others.

        Returns "" if there are no files.
        """
        if not self.coverage:
            return ""
        parts = [self._files_read]
        excluded = [file.file for file in self.coverage if file.excluded]
        missing = unread_files(self.coverage)
        parts += [f"not read: {', '.join(missing)}"] if missing else []
        parts += [f"excluded: {', '.join(excluded)}"] if excluded else []
        return "; ".join(parts)

    @property
    def places_note(self) -> str:
        """Describe in a sentence the findings whose locations are not in the material; return "" if there are none."""
        unlocated = [
            f"{finding.id} ({finding.place.problem})"
            for finding in self.findings
            if finding.place.found is False and not finding.is_earlier
        ]
        return f"Places not in the material: {', '.join(unlocated)}" if unlocated else ""

    def find_repetitions(self) -> list[str]:
        """Return an empty list: identical text from several reviewers means agreement, not repetition."""
        return []

    @property
    def first_notes(self) -> list[str]:
        """Notes shown to readers above the findings."""
        return [*filter(None, [self.coverage_note, self.places_note])]

    @property
    def empty_note(self) -> str:
        """State in a sentence how many empty findings each reviewer reported; return "" if there are none."""
        counts = ", ".join(f"{count} by {name}" for name, count in self.empty.items())
        return f"Findings left out because the title or the claim is missing: {counts}" if counts else ""

    def answer_courses(self) -> list[tuple[dict[str, list[str | None]], str | None]]:
        """Return each reviewer's opinions on each finding, and whether the finding was confirmed or refuted.

        If an author defended or withdrew a finding, both the earlier and the later opinions are included.
        """
        words: dict[str, str] = {"confirmed": "confirm", "refuted": "refute"}
        courses: list[tuple[dict[str, list[str | None]], str | None]] = []
        for finding in self.findings:
            voices: dict[str, list[str | None]] = {name: ["confirm"] for name in finding.raisers if name != EARLIER}
            for defence in finding.defences:
                voices.setdefault(defence.agent_name, ["confirm"]).append("confirm" if defence.stands else "refute")
            for verdict in finding.verdicts:
                voices.setdefault(verdict.agent_name, []).append(
                    None if verdict.verdict == "neither" else verdict.verdict
                )
            courses.append((voices, words.get(finding.state)))
        return courses

    @property
    def is_undisputed(self) -> bool:
        """True if every finding is confirmed, refuted or resolved."""
        return self.stop_reason is not None and not self.in_state("disputed")

    @property
    def decision_word(self) -> str | None:
        """Result of the gate or, if there is no gate, "confirmed" or "nothing confirmed".

        It is None if the gate is undecided or the review produced no result.
        """
        if self.gate is not None:
            return None if self.gate.holds is None else self.gate.word
        return None if self.stop_reason is None else "confirmed" if self.in_state("confirmed") else "nothing confirmed"

    @property
    def decision_line(self) -> str | None:
        """Result of the gate or, if there is no gate or it is undecided, the number of findings in each state."""
        return self.answer if self.gate is None or self.decision_word is None else f"gate {self.decision_word}"


# Requests to reviewers


class Examined(WireModel):
    """A reviewer's verdict on one finding of others."""

    finding: _Id
    verdict: Literal["confirm", "refute", "unsure"]
    reason: _Text
    quote: Annotated[_Text | None, Field(description="Words of the material that show it, exactly as they stand")] = (
        None
    )


class ExaminedTurned(Examined):
    """The same, asked for in the other order."""

    verdict: Literal["refute", "confirm", "unsure"]


class Examination(WireModel):
    """A reviewer's verdicts on findings of others."""

    verdicts: Annotated[list[Examined], Field(max_length=1_000)]


class ExaminationTurned(WireModel):
    """The same, asked for in the other order."""

    verdicts: Annotated[list[ExaminedTurned], Field(max_length=1_000)]


class Defended(WireModel):
    """An answer to those who refute one finding."""

    finding: _Id
    stands: Annotated[bool, Field(description="false withdraws the finding")]
    reason: _Text


class Answers(WireModel):
    """A reviewer's answers to those who refute its findings."""

    answers: Annotated[list[Defended], Field(max_length=1_000)]


class Compared(WireModel):
    """Whether two findings are about the same matter."""

    pair: Annotated[int, Field(ge=1)]
    same: bool


class Comparison(WireModel):
    """The answers of a merger."""

    pairs: Annotated[list[Compared], Field(max_length=1_000)]


_TASKS = {
    "examine": "Confirm or refute each finding, with a reason.",
    "defend": "Say of each finding whether it stands or is withdrawn, and why.",
    "merge": "Say of each pair whether both findings are about the same matter.",
}


def answer_to(kind: str, *, turned: bool = False) -> type[Any]:
    """Build the pydantic model for a valid answer to a `FindingsRequest` of this kind."""
    if kind == "examine":
        return ExaminationTurned if turned else Examination
    return Answers if kind == "defend" else Comparison


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingsRequest:
    """Input to the merger's block, and to a reviewer's block for examining findings or answering objections."""

    kind: Literal["examine", "defend", "merge"]
    """Kind of task: an `Examination` of others' findings, `Answers` about the reviewer's own findings, or a
    `Comparison` of pairs by the merger.
    """
    question: str
    text: str
    """Findings, or pairs of findings, as text without names."""
    turned: bool = False
    """True if this is the second request, made with the options in reverse order."""
    part: int = 0
    """Index (from 0) of the part of the sources that these findings concern, if the sources do not fit into
    one prompt.
    """

    @property
    def subject(self) -> str:
        """The review's question."""
        return self.question

    def task_for_human(self) -> str:
        """Describe the findings and the task to a human reviewer."""
        return f"{self.text}\n\n{_TASKS[self.kind]}"

    def answer_schema(self) -> type[WireModel]:
        """Build the pydantic model for a valid answer."""
        return answer_to(self.kind, turned=self.turned)


# Events
