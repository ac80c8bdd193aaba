"""Round robin page: options, contributions, the referee's reviews, and the output."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from flowdebate._util.option_types import Count, Flag, Text
from flowdebate.chassis.state import TurnOrder
from flowdebate.ui.document import RoundsDocument, Speaker
from flowdebate.ui.live import OneByOne, OwnSections
from flowdebate.ui.options import OutputOptions, PersonaEntry, PlanValues, option, roster_option
from flowdebate.ui.page import PatternPage
from flowdebate.ui.sections import Entry, Fact, Group, Output, Section

from .events import RefereeReported
from .factory import round_robin
from .schemas import RefereeAudit, RoundRobinOutput

if TYPE_CHECKING:
    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.ui.plan import Plan


_DEBATERS = (
    {
        "name": "Analyst",
        "role": "weighs the evidence",
        "system_prompt": "You are an analyst. You ask what is known, how well, and what it would take to know more.",
    },
    {
        "name": "Practitioner",
        "role": "knows how it is done",
        "system_prompt": "You are a practitioner. You ask what works in practice, what it costs, and who has to do it.",
    },
    {
        "name": "Critic",
        "role": "looks for what is missing",
        "system_prompt": "You are a critic. You ask what can go wrong, who was forgotten, and what would be simpler.",
    },
)
"""Three default debaters with different perspectives on any question."""


class RoundRobinPlanOptions(OutputOptions):
    """Options for a round robin."""

    SUBJECT: ClassVar[str] = "question"
    ROLES: ClassVar[tuple[str, ...]] = ("referee", "synthesizer")

    question: Text | None = option("The question; may be in --file instead.")
    debaters: list[PersonaEntry] | None = roster_option(
        "--debater", "A debater and its role; repeat for each. Default: an analyst, a practitioner and a critic."
    )
    max_rounds: Count | None = option("Maximum number of rounds. Default: 2.", panel="Rounds")
    turn_order: TurnOrder | None = option(
        "Order of the turns in each round; with simultaneous, all speak at once. Default: declared.", panel="Rounds"
    )
    referee: Flag | None = option("A referee reviews the arguments after each round.", panel="Rounds")


class RoundRobinDocument(RoundsDocument):
    """Document for a saved round robin."""

    LATE: ClassVar[tuple[str, ...]] = ("synthesizer",)
    UNIT: ClassVar[str] = "contribution"
    pattern: str = "round_robin"
    debaters: list[Speaker] = Field(default_factory=list)
    raw: RoundRobinOutput
    output: Any = None
    """The synthesizer's output as plain JSON data, or None if there is none."""

    def entries(self) -> Iterator[tuple[int, Entry]]:
        for entry in self.raw.transcript:
            yield entry.round, Entry(name=entry.agent_name, about=entry.role or "", text=entry.text, flag=entry.flag)

    @property
    def has_result(self) -> bool:
        return self.status != "no_verdict" and all(loss.instead != "no_output" for loss in self.raw.losses)

    def closing(self, number: int) -> Iterator[Section]:
        return (referee_group(audit) for audit in self.raw.audits if audit.round == number)

    def result(self) -> Iterator[Section]:
        """List the missing participants if there is no output.

        Otherwise, a live view lists them above the output.
        """
        if self.output is None:
            yield from self.mark()

    def outcome(self) -> Iterator[Section]:
        yield from self.mark(self.output)
        if self.output is not None:
            yield Output(value=self.output)


class RoundRobinLive(OneByOne):
    """Live view of a round robin."""

    roles: ClassVar[Mapping[str, str]] = {"referee": "reviewing the round"}
    event_sections: ClassVar[OwnSections] = {RefereeReported: lambda event: (referee_group(event.audit),)}


def referee_group(audit: RefereeAudit) -> Group:
    """Build the group for a referee's review of a round."""
    facts = []
    for assessment in audit.assessments:
        issues = "; ".join(assessment.issues)
        text = f"{assessment.score} of 100{f': {issues}' if issues else ''}"
        facts.append(Fact(label=assessment.agent_name, text=text, tone="dim", short=True))
    return Group(label="Referee", text=audit.notes, facts=tuple(facts))


class RoundRobinPage(PatternPage):
    """Round robin page in the service."""

    options: ClassVar[type[RoundRobinPlanOptions]] = RoundRobinPlanOptions
    document: ClassVar[type[RoundRobinDocument]] = RoundRobinDocument
    live: ClassVar[type[RoundRobinLive]] = RoundRobinLive
    default_speakers: ClassVar[tuple[dict[str, str], ...]] = _DEBATERS
    default_length = 2
    example = "Should we cap rents?"
    sample: ClassVar[PlanValues] = {"question": "What should a small town do with its empty railway station?"}
    examples: ClassVar[tuple[str, ...]] = (
        'flowdebate round-robin "What should the launch plan say?" --referee',
        'flowdebate round-robin "What should the launch plan say?" --output-schema plan.json --json',
    )
    docs = "round_robin"
    diagram = (
        '<path d="M44 7a21 21 0 0 1 21 21 21 21 0 0 1-42 0 21 21 0 0 1 8-16.500m-6 1 6-1 1 6"/>'
        '<circle class="first" cx="44" cy="7" r="5"/><circle class="paper" cx="65" cy="28" r="5"/>'
        '<circle class="paper" cx="44" cy="49" r="5"/><circle class="paper" cx="23" cy="28" r="5"/>'
    )

    def build(self, plan: Plan) -> Sequencer[Any, Any]:
        options: RoundRobinPlanOptions = plan.options
        return round_robin(
            debaters=plan.speakers,
            max_rounds=plan.length,
            turn_order=options.turn_order or "declared",
            referee=options.referee,
            synthesizer=None if options.synthesizes else False,  # None selects the pattern's default
            output_schema=plan.schema,
            terminate_when=plan.terminate_when,
            **plan.keywords,
        )


PAGE = RoundRobinPage()
