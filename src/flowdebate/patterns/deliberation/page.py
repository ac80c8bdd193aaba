"""Deliberation page: options, each round's contributions, the moderator's reports, and the decision."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from flowdebate._util.option_types import Count, Text
from flowdebate.ui.document import RoundsDocument, Speaker
from flowdebate.ui.live import OwnSections, Together
from flowdebate.ui.options import PersonaEntry, PlanOptions, PlanValues, option, roster_option
from flowdebate.ui.page import PatternPage
from flowdebate.ui.sections import Card, Entry, Fact, Group, Section

from .events import ModeratorReported
from .factory import deliberation
from .schemas import DeliberationOutput, ModeratorReport, ReportStatus

if TYPE_CHECKING:
    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.ui.plan import Plan


_DEBATERS = (
    {
        "name": "Optimist",
        "role": "wants the bold answer",
        "system_prompt": "You are an optimist. You want the bold answer, because you see what can be won by it.",
    },
    {
        "name": "Skeptic",
        "role": "wants the careful answer",
        "system_prompt": "You are a skeptic. You want the careful answer, because you see what can go wrong.",
    },
)
"""Two default debaters with different perspectives, suitable for any topic."""


_STATUSES: Mapping[ReportStatus, str] = {"SETTLED": "the matter is settled", "CONTINUE": "not settled yet"}
"""Labels for the status of a moderator's report."""


class DeliberationPlanOptions(PlanOptions):
    """Options for a deliberation."""

    SUBJECT: ClassVar[str] = "topic"
    ROLES: ClassVar[tuple[str, ...]] = ("moderator",)

    topic: Text | None = option("The topic; may be in --file instead.")
    debaters: list[PersonaEntry] | None = roster_option(
        "--debater", "A participant and its role; repeat for each. Default: an optimist and a skeptic."
    )
    max_rounds: Count | None = option("Maximum number of rounds. Default: 3.", panel="Rounds")
    report: Literal["structured", "text"] | None = option(
        "How the moderator reports: as JSON, or in lines of text. Default: structured.", panel="Rounds"
    )


class DeliberationDocument(RoundsDocument):
    """Document for a saved deliberation."""

    STOP_REASONS: ClassVar[Mapping[str, str]] = {"settled": "the matter is settled"}
    CHANGING: ClassVar[str | None] = "decisions"
    pattern: str = "deliberation"
    debaters: list[Speaker] = Field(default_factory=list)
    raw: DeliberationOutput

    def entries(self) -> Iterator[tuple[int, Entry]]:
        for entry in self.raw.history:
            yield entry.round, Entry(name=entry.name, about=entry.role or "", text=entry.text, flag=entry.flag)

    @property
    def has_result(self) -> bool:
        return self.raw.final_decision is not None

    @property
    def contributions(self) -> int:
        return sum(entry.flag is None for entry in self.raw.history)

    def closing(self, number: int) -> Iterator[Section]:
        for report in self.raw.reports[number - 1 : number]:  # there is no report if the run ended during the round
            yield from report_groups(report)

    def result(self) -> Iterator[Section]:
        yield from self.mark()
        raw = self.raw
        if raw.stop_reason is not None or raw.final_decision is not None:
            settled = Fact(label="Settled", text="yes" if raw.is_settled else "no", tone="good", short=True)
            decision = "none" if raw.final_decision is None else raw.final_decision
            yield Card(title="Decision", facts=(settled, Fact(label="Decision", text=decision)), lead="Decision")


class DeliberationLive(Together):
    """Live view of a deliberation."""

    roles: ClassVar[Mapping[str, str]] = {"moderator": "summing up the round"}

    event_sections: ClassVar[OwnSections] = {ModeratorReported: lambda event: report_groups(event.report)}


def report_groups(report: ModeratorReport | None) -> Iterator[Section]:
    """Yield the group for the moderator's report on a round, if there is one."""
    if report is not None:
        parts = (("Summary", report.summary), ("Decision", report.decision))
        facts = tuple(Fact(label=label, text=text, tone="dim") for label, text in parts if text is not None)
        yield Group(label="Moderator", text=_STATUSES[report.status], facts=facts)


class DeliberationPage(PatternPage):
    """Deliberation page in the service."""

    options: ClassVar[type[DeliberationPlanOptions]] = DeliberationPlanOptions
    document: ClassVar[type[DeliberationDocument]] = DeliberationDocument
    live: ClassVar[type[DeliberationLive]] = DeliberationLive
    default_speakers: ClassVar[tuple[dict[str, str], ...]] = _DEBATERS
    default_length = 3
    example = "Should we move to the cloud?"
    sample: ClassVar[PlanValues] = {"topic": "Should our library open on Sundays?"}
    examples: ClassVar[tuple[str, ...]] = (
        'flowdebate deliberation "Should we invest $1M at a $50M valuation?"',
        'flowdebate deliberation "Move to the cloud?" --debater Ida="runs the servers" --debater Otto="pays the bills"',
    )
    docs = "deliberation"
    diagram = (
        '<circle cx="14" cy="16" r="6"/><circle cx="14" cy="40" r="6"/><circle cx="74" cy="16" r="6"/>'
        '<circle cx="74" cy="40" r="6"/><path d="M22 18l13 6M22 38l13-6M66 18l-13 6M66 38l-13-6"/>'
        '<rect class="settles" x="37" y="21" width="14" height="14"/>'
    )

    def build(self, plan: Plan) -> Sequencer[Any, Any]:
        return deliberation(
            debaters=plan.speakers,
            max_rounds=plan.length,
            report=plan.options.report or "structured",
            terminate_when=plan.terminate_when,
            **plan.keywords,
        )


PAGE = DeliberationPage()
