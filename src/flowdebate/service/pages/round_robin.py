"""Page of a round robin: options, contributions, the referee's reviews, the output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from flowdebate.patterns.events import RoundsEnded, TurnFinished
from flowdebate.patterns.round_robin.schemas import RefereeReported, RoundRobinOutput
from flowdebate.service.documents import Document, Speaker
from flowdebate.service.live import OneByOne, failures, round_heading
from flowdebate.service.options import Count, Flag, Option, OutputOptions, PersonaEntry, Text, parse_persona
from flowdebate.service.page import PatternPage
from flowdebate.service.roster import personas
from flowdebate.service.sections import Entry, Fact, Group, Notice, Output, Section

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.patterns.round_robin.schemas import RefereeAudit
    from flowdebate.service.plan import Models, Plan

__all__ = ("PAGE", "RoundRobinDocument", "RoundRobinLive", "RoundRobinOptions")

_PANELISTS = (
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
"""Three who look at any question from different sides."""


class RoundRobinOptions(OutputOptions):
    """Options of a round robin."""

    SUBJECT: ClassVar[str] = "question"
    ROSTER: ClassVar[str] = "panelists"

    question: Annotated[Text | None, Option(help="The question; may be in --file instead.")] = None
    panelists: Annotated[
        list[PersonaEntry] | None,
        Option(
            flag="--panelist",
            metavar="NAME[=ROLE]",
            help="A panelist and its role; repeat for each. Default: an analyst, a practitioner and a critic.",
            read=lambda given: [parse_persona(each, "--panelist") for each in given],
        ),
    ] = None
    rounds: Annotated[Count | None, Option(help="Maximum number of rounds. Default: 2.")] = None
    referee: Annotated[Flag | None, Option(help="A referee reviews the arguments after each round.")] = None


class RoundRobinDocument(Document):
    """A saved round robin."""

    TITLE: ClassVar[str] = "Round robin"
    LABEL: ClassVar[str] = "Question"
    SPEAKERS: ClassVar[str] = "Panelists"
    ROSTER: ClassVar[str] = "panelists"
    UNIT: ClassVar[str] = "contribution"
    ENDINGS: ClassVar[Mapping[str, str]] = {
        "max_rounds": "as many as were allowed",
        "predicate": "ended by the application",
    }
    pattern: str = "round_robin"
    panelists: list[Speaker] = Field(default_factory=list)
    max_rounds: int | None = None
    raw: RoundRobinOutput
    output: Any = None
    """The synthesizer's, as plain JSON data; None without one."""

    def spoke(self) -> list[Speaker]:
        spoke = {(entry.agent_name, entry.role): None for entry in self.raw.transcript}
        return [Speaker(name=name, role=role) for name, role in spoke]

    @property
    def found(self) -> bool:
        return all(loss.instead != "no_output" for loss in self.raw.losses)

    def sections(self) -> Iterator[Section]:
        raw = self.raw
        for number in range(1, raw.rounds + 1):
            yield round_heading(number, self.max_rounds)
            for entry in raw.transcript:
                if entry.round == number:
                    yield Entry(name=entry.agent_name, about=entry.role or "", text=entry.text)
            yield from failures(each for each in raw.losses if each.round == number and each.seat != "synthesizer")
            for audit in raw.audits:
                if audit.round == number:
                    yield _review(audit)
        yield from failures(each for each in raw.losses if each.seat == "synthesizer")
        if self.output is not None:
            yield Output(value=self.output)


class RoundRobinLive(OneByOne):
    """A round robin as it goes on."""

    def sections(self, event: object) -> Iterator[Section]:
        yield from super().sections(event)
        match event:
            case TurnFinished() if self.plan.options.referee:
                yield Notice(text="…")
            case RefereeReported():
                yield _review(event.audit)
            case RoundsEnded():
                yield from self.await_output()
            case _:
                pass


def _review(audit: RefereeAudit) -> Group:
    facts = []
    for found in audit.assessments:
        issues = "; ".join(found.issues)
        text = f"{found.score} of 100{f': {issues}' if issues else ''}"
        facts.append(Fact(label=found.agent_name, text=text, tone="dim", short=True))
    return Group(label="Referee", text=audit.notes, parts=tuple(facts))


class RoundRobinPage(PatternPage):
    """What a round robin adds to the service."""

    help = (
        "Work on a question in a panel that speaks in turn. Each panelist speaks once in each round and sees what was "
        "said before; a synthesizer writes the output."
    )
    options = RoundRobinOptions
    document = RoundRobinDocument
    live = RoundRobinLive
    default_length = 2

    def speakers(self, options: RoundRobinOptions, made: Models) -> tuple[Any, ...]:
        return personas(options, made, default=_PANELISTS)

    def empty(self) -> dict[str, Any]:
        return {"transcript": []}

    def build(self, plan: Plan) -> Sequencer[Any, Any]:
        from flowdebate.patterns.round_robin import create_referee, create_round_robin_transcript

        options: RoundRobinOptions = plan.options
        transcript = create_round_robin_transcript()
        referee = None
        if options.referee:
            referee = create_referee(
                **plan.common,
                roster_names=[panelist.name for panelist in plan.speakers],
                transcript=transcript,
                max_rounds=plan.length,
            )
        return plan.create(
            debaters=plan.speakers,
            max_rounds=plan.length,
            referee=referee,
            synthesizer=None if options.synthesizes else False,
            transcript=transcript,
            output_schema=plan.schema,
            failures=plan.failures,
        )


PAGE = RoundRobinPage()
