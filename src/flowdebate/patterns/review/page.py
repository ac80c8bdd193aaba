"""Review page: the options, each reviewer's findings, the states of all findings, and the gate."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from flowdebate._util.option_types import NOTHING, Count, Flag, Text, Vendors, explained
from flowdebate.chassis.seats import check_makers
from flowdebate.errors import ConfigurationError, ModelUnavailable
from flowdebate.models.resolve import ModelResolver
from flowdebate.ui.document import Document, Speaker
from flowdebate.ui.live import OwnSections, Together
from flowdebate.ui.options import Depth, PersonaEntry, PlanOptions, PlanValues, option, read_by_seat, roster_option
from flowdebate.ui.page import PatternPage, StartTool
from flowdebate.ui.sections import Card, Entry, Fact, Group, Heading, Remark, Section, Tone, failures

from .events import FindingsExamined, FindingsReported
from .factory import review
from .formats import findings_lines, findings_markdown, findings_sarif, remark_text
from .schemas import QUESTION, REVIEWERS, STATES, Defence, Finding, FindingDraft, ReviewRawOutput, Verdict, unread_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.chassis.roster import Persona
    from flowdebate.chassis.state import RoundStarted, TurnFinished
    from flowdebate.ui.plan import Plan


_PHASES = {1: "Findings", 2: "Examination", 3: "Answers"}


class ReviewPlanOptions(PlanOptions):
    """Options for a review."""

    SUBJECT: ClassVar[str] = "question"
    ROSTER: ClassVar[str] = "reviewers"
    WITHOUT: ClassVar[frozenset[str]] = frozenset({"terminate_when", "history"})
    SPEAKER: ClassVar[str] = "reviewer"
    ROLES: ClassVar[tuple[str, ...]] = ("merger",)

    question: Text | None = option("The question; may be in --file instead.")
    reviewers: list[PersonaEntry] | None = roster_option(
        "--reviewer",
        "A reviewer and its model; repeat for each. Default: Ada, Ben and Cleo; without --model, each from "
        "a different provider with a key.",
        key="model",
    )
    focus: (
        Annotated[Text | dict[str, Text], explained("must be text, or a table that maps reviewer names to text")] | None
    ) = option(
        "What to focus on; repeat with NAME= for a single reviewer.",
        panel="Sides",
        metavar="[NAME=]TEXT",
        repeated=True,
        read=partial(read_by_seat, flag="--focus", word="TEXT"),
    )
    gate: Text | None = option(
        'Rule for the findings, such as "no confirmed blocker" or "no confirmed major or worse"; exit code 4 if it is '
        "broken. Default: advice only.",
        panel="Judge",
        metavar="RULE",
    )
    earlier: Annotated[list[FindingDraft], NOTHING] | None = option(
        "Findings that an earlier review of the change confirmed; they count until they are resolved.",
        panel="Judge",
        flag="",
    )
    not_vendor: Vendors | None = option(
        "A vendor whose models must not review, such as the author's, or the name of the author's model; repeat for "
        "each.",
        panel="Model",
        metavar="NAME",
    )
    min_vendors: Count | None = option(
        "Minimum number of different vendors among the reviewers' models.", panel="Model", metavar="N"
    )
    humans: Annotated[list[Text], explained("must be a list of reviewer names")] | None = option(
        "A reviewer played by a human; repeat for each.", panel="Sides", flag="--human", metavar="NAME"
    )
    suspend: Flag | None = option(
        "Let humans answer later with flowdebate runs answer. Default: on without a terminal.", panel="Sides"
    )


class ReviewDocument(Document):
    """Document for a saved review."""

    SPEAKERS: ClassVar[str] = "Reviewers"
    ROSTER: ClassVar[str] = "reviewers"
    UNIT: ClassVar[str] = "report"
    STOP_REASONS: ClassVar[Mapping[str, str]] = {"examined": "examined", "nothing_found": "nothing found"}
    CHANGING: ClassVar[str | None] = "verdicts"
    pattern: str = "review"
    reviewers: list[Speaker] = Field(default_factory=list)
    raw: ReviewRawOutput

    def raw_speakers(self) -> list[Speaker]:
        return [Speaker(name=name) for name in self.raw.reviewers]

    @property
    def notes(self) -> list[str]:
        # the page already shows coverage and quotes alongside the result
        return [note for note in super().notes if not note.startswith(("Quotes: ", "Source: ", "Left out: "))]

    @property
    def has_result(self) -> bool:
        gate = self.raw.gate
        return self.raw.stop_reason is not None and (gate is None or gate.holds is not None)

    @property
    def holds_gate(self) -> bool:
        return self.raw.gate is None or self.raw.gate.holds is not False

    @property
    def ending(self) -> str | None:
        reason = self.raw.stop_reason
        return None if reason is None else f"Reviewers: {len(self.raw.reviewers)}, {self.describe_reason(reason)}"

    def sections(self) -> Iterator[Section]:
        yield from self.result()
        raw = self.raw
        for number, title in _PHASES.items():
            lost = list(failures(loss for loss in raw.losses if max(loss.round, 1) == number))
            entries = list(self._reports() if number == 1 else self._remarks("verdicts" if number == 2 else "defences"))  # noqa: PLR2004
            if entries or lost:
                yield Heading(title=title)
                yield from entries
                yield from lost

    def _reports(self) -> Iterator[Section]:
        introduction = self.about()
        for index, report in enumerate(report for report in self.raw.transcript if report.round == 1):
            name = report.agent_name
            yield Entry(name=name, about=introduction(name, None), text=report.text, quotes=self.quoted(index))

    def _remarks(self, kind: Literal["verdicts", "defences"]) -> Iterator[Section]:
        remarks: list[Any] = [remark for finding in self.raw.findings for remark in getattr(finding, kind)]
        for name in dict.fromkeys(remark.agent_name for remark in remarks):
            yield answers_group(name, [remark for remark in remarks if remark.agent_name == name])

    def result(self) -> Iterator[Section]:
        """Yield the sections for the gate and the counts, then for the findings in each state."""
        yield from self.mark()
        raw = self.raw
        tone: Tone
        if raw.answer is not None:
            facts = [Fact(label="Result", text=raw.headline, tone="strong")]
            if raw.gate is not None:
                tone = "good" if raw.gate.holds else "warning"
                facts.append(Fact(label="Gate", text=f'"{raw.gate.rule}" {raw.gate.word}: {raw.gate.why}', tone=tone))
            if raw.coverage_note.casefold() not in raw.headline.casefold():
                tone = "warning" if unread_files(raw.coverage) else "dim"
                facts.append(Fact(label="Coverage", text=raw.coverage_note, tone=tone))
            if raw.places_note:
                label, _, text = raw.places_note.partition(": ")
                facts.append(Fact(label=label, text=text, tone="warning"))
            yield Card(title="Review", facts=tuple(facts), lead="Result")
        for state in STATES:
            findings = raw.in_state(state)
            if findings:
                yield Heading(title=f"{state.capitalize()}: {len(findings)}", level=2)
            yield from map(finding_group, findings)
        if raw.empty:
            yield Remark(text=raw.empty_note)
        if raw.uncompared_pairs:
            yield Remark(text=f"{raw.uncompared_pairs} more pairs of findings were not compared: some may be the same")


def finding_group(finding: Finding) -> Group:
    """Build the group for one finding, including its verdicts and defenses."""
    place = finding.place
    facts = [Fact(label="Place", text=place.text or "none named", tone="plain")]
    if place.quote:
        facts.append(Fact(label="Quote", text=place.quote, tone="dim", exact=True))
    if place.note is not None:
        facts.append(Fact(label="Note", text=place.note, tone="dim"))
    if place.problem is not None:
        facts.append(Fact(label="Place not found", text=place.problem, tone="warning"))
    facts.append(Fact(label="Claim", text=finding.claim))
    facts += [Fact(label="Suggestion", text=finding.suggestion)] if finding.suggestion else []
    facts.append(Fact(label="Raised by", text=", ".join(finding.raisers)))
    answers: list[Verdict | Defence] = [*finding.verdicts, *finding.defences]
    facts += [Fact(label=answer.agent_name, text=remark_text(answer), tone="plain") for answer in answers]
    facts.append(Fact(label=finding.state.capitalize(), text=finding.why, tone="dim"))
    # join the lines; otherwise, part of a multi-line title could be mistaken for the page's own text
    return Group(label=f"{finding.id}, {finding.severity}", text=" ".join(finding.title.split()), facts=tuple(facts))


def answers_group(name: str, answers: list[Any]) -> Group:
    """Build the group for a reviewer's verdicts or defenses."""
    text = (
        "answers for own findings" if isinstance(answers[0], Defence) else "examines findings of others (names hidden)"
    )
    return Group(
        label=name,
        text=text,
        facts=tuple(Fact(label=answer.finding, text=remark_text(answer), tone="plain") for answer in answers),
    )


def _reported(event: FindingsReported) -> Iterator[Section]:
    from .steps import report_of

    yield Entry(name=event.agent_name, about="", text=report_of(event.findings, brief=True))


def _examined(event: FindingsExamined) -> Iterator[Section]:
    if answers := [*event.verdicts, *event.defences]:
        yield answers_group(event.agent_name, answers)


class ReviewLive(Together):
    """Live view of a review."""

    roles: ClassVar[Mapping[str, str]] = {"merger": "looking for findings that are the same"}
    phases: ClassVar[Mapping[str, str]] = {
        "find": "reading the material",
        "examine": "examining findings of others",
        "defend": "answering for own findings",
    }
    event_sections: ClassVar[OwnSections] = {FindingsReported: _reported, FindingsExamined: _examined}

    def heading(self, event: RoundStarted) -> Iterator[Section]:
        yield Heading(title=_PHASES[event.round])

    def turn_sections(self, turn: TurnFinished, text: str) -> Iterator[Section]:  # noqa: ARG002 - its own events show it
        yield from ()


class ReviewPage(PatternPage):
    """Review page in the service."""

    options: ClassVar[type[ReviewPlanOptions]] = ReviewPlanOptions
    document: ClassVar[type[ReviewDocument]] = ReviewDocument
    live: ClassVar[type[ReviewLive]] = ReviewLive
    default_speakers: ClassVar[tuple[dict[str, str], ...]] = REVIEWERS
    each_by_default = True
    default_length = 3
    min_speakers = 1
    question_about_sources: ClassVar[str | None] = QUESTION
    divides_sources: ClassVar[bool] = True
    reads_pull_requests: ClassVar[bool] = True
    formats: ClassVar[Mapping[str, Callable[[Any], str]]] = {
        "markdown": findings_markdown,
        "sarif": findings_sarif,
        "json": findings_lines,
    }
    measured: ClassVar[bool] = True
    exit_note = "4 the gate does not hold, 5 nothing changed"
    depths: ClassVar[Mapping[Depth, PlanValues]] = {
        "quick": {"reviewers": [{"name": name} for name in ("Ada", "Ben")]},
        "thorough": {"reviewers": [{"name": name} for name in ("Ada", "Ben", "Cleo", "Dan", "Eve")]},
    }
    start_tool: ClassVar[StartTool | None] = StartTool(
        name="review",
        description="Have several language models find what is wrong with `sources`, such as a diff, and check each "
        "other.\n\n"
        "Each reviewer finds on its own, then confirms or refutes what the others found, without names. The result has "
        "each finding with its place, whether it is confirmed, disputed or refuted, and why. It is advice: check each "
        "finding in the material yourself. Returns after at most `wait` seconds; then call wait_for_run until it is "
        'over. `depth`: "quick" makes up to 10 calls of models (two reviewers), "balanced" up to 14 (three), '
        '"thorough" up to 22 (five); "auto" begins with two and ends where no finding is disputed. With a hosted model '
        "each takes one to three minutes; a small local one takes longer.",
        texts={
            "focus": Field(max_length=2_000, description="What to look for above all."),
            "not_vendor": Field(
                max_length=200,
                description="Vendor that made no reviewer's model: name your own, or your model's name, so that models "
                "of other vendors review your work.",
            ),
            "gate": Field(
                max_length=500, description='A rule such as "no confirmed blocker"; the result says if it holds.'
            ),
        },
    )
    example = QUESTION
    sample: ClassVar[PlanValues] = {"question": "What is wrong with a plan that moves all data in one night?"}
    examples: ClassVar[tuple[str, ...]] = (
        "flowdebate review --diff",
        'flowdebate review --diff main..HEAD --focus security --gate "no confirmed blocker" --format markdown',
        'flowdebate review --pr 7 --post --gate "no confirmed blocker"',
        'flowdebate review "What is wrong with this plan?" --source plan.md',
        'flowdebate review "What is missing?" --source spec.md --reviewer Ada=openai/gpt-5 --reviewer Me --human Me',
        "flowdebate review --demo",
    )
    docs = "review"
    diagram = (
        '<circle cx="14" cy="14" r="6"/><circle cx="44" cy="14" r="6"/><circle cx="74" cy="14" r="6"/>'
        '<path d="M20 14h18M50 14h18M14 20v14M44 20v14M74 20v14M20 41h18M50 41h18"/>'
        '<rect class="settles" x="8" y="35" width="12" height="12"/>'
        '<rect class="settles" x="38" y="35" width="12" height="12"/>'
        '<rect class="settles" x="68" y="35" width="12" height="12"/>'
    )

    def length(self, options: Any) -> int:  # noqa: ANN401, ARG002 - as its base says
        return self.default_length  # the number of phases

    def check(self, plan: Plan) -> None:
        names, options = [member.name for member in plan.speakers], plan.options
        if unknown := sorted(set(options.humans or ()).difference(names)):
            location, field = options.place("humans")
            raise ConfigurationError(location, field, unknown[0], choices=names)
        super().check(plan)

    def check_models(self, plan: Plan) -> None:
        options: ReviewPlanOptions = plan.options
        resolver, people = ModelResolver(plan.models), options.humans or ()
        with suppress(ModelUnavailable):  # the run itself reports an unavailable model
            check_makers(
                {
                    speaker.name: resolver.resolve(speaker.model, (plan.first,)).name
                    for speaker in (plan.speakers if options.not_vendor or options.min_vendors else ())
                    if speaker.name not in people
                },
                location=options.place("min_vendors" if options.not_vendor is None else "not_vendor")[0],
                not_vendor=options.not_vendor or (),
                min_vendors=options.min_vendors,
                seats="reviewers",
            )

    def build(self, plan: Plan) -> Sequencer[Any, Any]:
        options: ReviewPlanOptions = plan.options

        def seated(persona: Persona) -> Persona:
            if persona.name not in (options.humans or ()):
                return persona
            from flowdebate.blocks.human.human import human

            ask = None if options.suspend else plan.ask
            return replace(persona, block=human(name=f"{plan.name}-reviewer-{persona.name}", ask=ask))

        return review(
            reviewers=[seated(speaker) for speaker in plan.speakers],
            focus=options.focus,
            gate=options.gate,
            earlier=options.earlier,
            not_vendor=options.not_vendor or (),
            min_vendors=options.min_vendors,
            **plan.keywords,
        )


PAGE = ReviewPage()
