"""Page of a review: options, what each reviewer found, what became of it, and the gate."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from hashlib import sha256
from textwrap import indent
from typing import TYPE_CHECKING, Annotated, Any, ClassVar
from urllib.parse import quote

from pydantic import Field

from flowdebate._util.option_types import Flag, Text, allowed
from flowdebate.errors import ConfigurationError
from flowdebate.sources.source import omissions
from flowdebate.ui.document import Document, Speaker
from flowdebate.ui.live import OwnSections, Together
from flowdebate.ui.markdown import escaped
from flowdebate.ui.options import PersonaEntry, PlanOptions, PlanValues, option, read_models, roster_option
from flowdebate.ui.page import Confidence, PatternPage, StartTool
from flowdebate.ui.sections import Card, Entry, Fact, Group, Heading, Remark, Section, Tone, failures
from flowdebate.ui.text import as_json, cost_text, in_line, models_text, printable

from .events import FindingsExamined, FindingsReported
from .factory import review
from .schemas import QUESTION, REVIEWERS, STATES, Defence, Finding, ReviewRawOutput, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.chassis.roster import Persona
    from flowdebate.chassis.state import RoundStarted, TurnFinished
    from flowdebate.ui.plan import Plan


_LEVELS = {"blocker": "error", "major": "warning", "minor": "note", "nit": "note"}
_SARIF = "https://json.schemastore.org/sarif-2.1.0.json"


def findings_markdown(document: Document) -> str:
    """A comment on a pull request: the confirmed findings, and the others folded below them; "" if nobody was heard."""
    raw: ReviewRawOutput = document.raw
    if not raw.reviewers:
        return ""
    lines = [f"### Review: {escaped(raw.answer or 'not finished')}", ""]
    if raw.gate is not None:
        lines += [f"**Gate** “{escaped(raw.gate.rule)}” **{raw.gate.word}**: {escaped(raw.gate.why)}", ""]
    for state in STATES:
        if not (found := raw.in_state(state)):
            continue
        title, folded = f"{state.capitalize()}: {len(found)}", state != "confirmed"
        lines += [f"<details><summary>{title}</summary>" if folded else f"#### {title}", ""]
        for finding in found:
            lines += _finding(finding)
        lines += ["", "</details>", ""] if folded else [""]
    if raw.empty:
        lines += [escaped(raw.empty_note), ""]
    if left := omissions(raw.sources or ()):
        lines += [f"Left out: {escaped(', '.join(left))}", ""]
    cost = "" if document.cost is None else f"; cost {escaped(cost_text(document.cost, document.prices, whole=True))}"
    said = f"{escaped(models_text(dict(raw.reviewers)))}{cost}"
    lines.append(f"<sub>{said}. Models can be wrong together: a confirmed finding is no proof.</sub>")
    return "\n".join(lines)


def _finding(finding: Finding) -> Iterator[str]:
    place = finding.place
    where = f" {escaped(place.text)}" if place.text else ""
    missing = f" (place not found: {escaped(place.problem)})" if place.problem is not None else ""
    yield f"- **{finding.severity}**{where}{missing}: **{_in_words(finding.title)}**. {_in_words(finding.claim)}"
    if (text := printable(finding.suggestion or "").strip()) and "\n" in text:  # code, of which each blank counts
        fence = "`" * (max(map(len, ["``", *re.findall("`+", text)])) + 1)
        yield f"  - Suggestion:\n\n{indent(f'{fence}{chr(10)}{text}{chr(10)}{fence}', '    ')}"
    elif text:
        yield f"  - Suggestion: {escaped(text)}"
    yield f"  - Raised by {escaped(', '.join(finding.raisers))}. {escaped(finding.why[:1].upper() + finding.why[1:])}"
    remarks: list[Verdict | Defence] = [*finding.verdicts, *finding.defences]
    for each in remarks:
        yield f"  - {escaped(each.agent_name)} {_in_words(_said_of(each))}"


def _in_words(text: str) -> str:
    return escaped(" ".join(text.split()))


def findings_sarif(document: Document) -> str:
    """SARIF 2.1.0: disputed findings are for people to look at, refuted ones are suppressed with the reason."""
    from flowdebate import __version__

    raw: ReviewRawOutput = document.raw
    driver = {
        "name": "flowdebate",
        "version": __version__,
        "rules": [{"id": grade, "defaultConfiguration": {"level": level}} for grade, level in _LEVELS.items()],
    }
    invocation: dict[str, Any] = {"executionSuccessful": document.has_result}
    if raw.empty:
        invocation["toolExecutionNotifications"] = [{"level": "note", "message": {"text": raw.empty_note}}]
    run = {
        "tool": {"driver": driver},
        "invocations": [invocation],
        "results": [_result(finding) for finding in raw.findings],
    }
    return as_json({"$schema": _SARIF, "version": "2.1.0", "runs": [run]})


def _result(finding: Finding) -> dict[str, Any]:
    place = finding.place
    text = f"{finding.title}. {finding.claim}"
    text += f" Suggestion: {finding.suggestion}" if finding.suggestion else ""
    if place.problem is not None:
        text += f" (The place that was named is not there: {place.problem}.)"
    result: dict[str, Any] = {
        "ruleId": finding.severity,
        "message": {"text": f"{text} [{finding.state}: {finding.why}]"},
        "partialFingerprints": {
            "finding/v1": sha256(f"{place.file}\0{finding.title}".encode(errors="replace")).hexdigest()
        },
        "properties": {"state": finding.state, "raisedBy": finding.raisers, "id": finding.id},
    }
    if finding.state == "disputed":  # by the standard, what is to be reviewed has no level
        result |= {"kind": "review", "level": "none"}
    else:
        result |= {"kind": "fail", "level": _LEVELS[finding.severity]}
    if finding.state == "refuted":
        result["suppressions"] = [{"kind": "external", "status": "accepted", "justification": finding.why}]
    if place.file and place.found:
        physical: dict[str, Any] = {"artifactLocation": {"uri": quote(in_line(place.file), errors="replace")}}
        if place.line:
            physical["region"] = {"startLine": place.line, "endLine": place.end_line or place.line}
        result["locations"] = [{"physicalLocation": physical}]
    return result


def findings_lines(document: Document) -> str:
    """JSON Lines: a finding in each, as the raw output has it; a last one counts findings that were empty."""
    lines = [finding.model_dump_json(by_alias=True) for finding in document.raw.findings]
    lines += [json.dumps({"empty": document.raw.empty})] if document.raw.empty else []
    return "\n".join(lines)


_PHASES = {1: "Findings", 2: "Examination", 3: "Answers"}


class ReviewPlanOptions(PlanOptions):
    """Options of a review."""

    SUBJECT: ClassVar[str] = "question"
    ROSTER: ClassVar[str] = "reviewers"
    WITHOUT: ClassVar[frozenset[str]] = frozenset({"terminate_when", "history"})
    SPEAKER: ClassVar[str] = "reviewer"
    ROLES: ClassVar[tuple[str, ...]] = ("merger",)

    question: Text | None = option("The question; may be in --file instead.")
    reviewers: list[PersonaEntry] | None = roster_option(
        "--reviewer",
        "A reviewer and its model; repeat for each. Default: Ada, Ben and Cleo; without --model, each of another "
        "provider whose key is set.",
        key="model",
    )
    focus: Annotated[Text | dict[str, Text], allowed("text, or a table of texts by reviewer")] | None = option(
        "What to look for above all; repeat with NAME= for one reviewer's.",
        panel="Sides",
        metavar="[NAME=]TEXT",
        repeated=True,
        read=partial(read_models, flag="--focus", word="TEXT"),
    )
    gate: Text | None = option(
        'Rule on the findings, such as "no confirmed blocker" or "no confirmed major or worse": exit code 4 if it does '
        "not hold. Default: advice only.",
        panel="Judge",
        metavar="RULE",
    )
    humans: Annotated[list[Text], allowed("a list of names of reviewers")] | None = option(
        "A reviewer whom a human plays; repeat for each.", panel="Sides", flag="--human", metavar="NAME"
    )
    suspend: Flag | None = option(
        "Let humans answer later, with flowdebate answer. Default without a terminal.", panel="Sides"
    )


class ReviewDocument(Document):
    """A saved review."""

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
        return [note for note in super().notes if note != "Quotes: none"]  # those of findings stand beside them

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
        return None if reason is None else f"Reviewers: {len(self.raw.reviewers)}, {self.reason_in_words(reason)}"

    def sections(self) -> Iterator[Section]:
        raw = self.raw
        yield Heading(title=_PHASES[1])
        for index, said in enumerate(each for each in raw.transcript if each.round == 1):
            yield Entry(
                name=said.agent_name, about=self.about(said.agent_name), text=said.text, quotes=self.quoted(index)
            )
        yield from failures(each for each in raw.losses if each.round <= 1)
        for number, of in ((2, "verdicts"), (3, "defences")):
            given: list[Any] = [each for finding in raw.findings for each in getattr(finding, of)]
            lost = list(failures(each for each in raw.losses if each.round == number))
            if given or lost:
                yield Heading(title=_PHASES[number])
            for name in dict.fromkeys(each.agent_name for each in given):
                yield said_group(name, [each for each in given if each.agent_name == name])
            yield from lost
        yield from self.result()

    def result(self) -> Iterator[Section]:
        """The findings by what became of them, and the gate."""
        raw = self.raw
        for state in STATES:
            found = raw.in_state(state)
            if found:
                yield Heading(title=f"{state.capitalize()}: {len(found)}", level=2)
            yield from map(finding_group, found)
        if raw.empty:
            yield Remark(text=raw.empty_note)
        if raw.left_apart:
            yield Remark(text=f"{raw.left_apart} more pairs of findings were not compared: some may be the same")
        if raw.answer is not None:
            facts = [Fact(label="Result", text=raw.answer, tone="strong")]
            if raw.gate is not None:
                tone: Tone = "good" if raw.gate.holds else "warning"
                facts.append(Fact(label="Gate", text=f'"{raw.gate.rule}" {raw.gate.word}: {raw.gate.why}', tone=tone))
            yield Card(title="Review", facts=tuple(facts), lead="Result")


def finding_group(finding: Finding) -> Group:
    """One finding with all that was said of it."""
    place = finding.place
    facts = [Fact(label="Place", text=place.text or "none named", tone="plain")]
    if place.quote:
        facts.append(Fact(label="Quote", text=place.quote, tone="dim", exact=True))
    if place.problem is not None:
        facts.append(Fact(label="Place not found", text=place.problem, tone="warning"))
    facts.append(Fact(label="Claim", text=finding.claim))
    facts += [Fact(label="Suggestion", text=finding.suggestion)] if finding.suggestion else []
    facts.append(Fact(label="Raised by", text=", ".join(finding.raisers)))
    said: list[Verdict | Defence] = [*finding.verdicts, *finding.defences]
    facts += [Fact(label=each.agent_name, text=_said_of(each), tone="plain") for each in said]
    facts.append(Fact(label=finding.state.capitalize(), text=finding.why, tone="dim"))
    # a title of several lines could be taken for what the page says of it
    return Group(label=f"{finding.id}, {finding.severity}", text=" ".join(finding.title.split()), facts=tuple(facts))


def _said_of(said: Verdict | Defence) -> str:
    if isinstance(said, Defence):
        return f"{'stands by it' if said.stands else 'withdraws it'}: {said.reason}"
    word = {"confirm": "confirms it", "refute": "refutes it", "neither": "says neither"}[said.verdict]
    word += " (the answer changed with the order of the words)" if said.flipped else ""
    missing = " (not in the material)" if said.quote_found is False else ""
    return f"{word}: {said.reason}{f' “{said.quote}”{missing}' if said.quote else ''}"


def said_group(name: str, said: list[Any]) -> Group:
    """What a reviewer says of findings."""
    text = "answers for own findings" if isinstance(said[0], Defence) else "examines findings of others (names hidden)"
    return Group(
        label=name, text=text, facts=tuple(Fact(label=each.finding, text=_said_of(each), tone="plain") for each in said)
    )


def _reported(event: FindingsReported) -> Iterator[Section]:
    from .steps import report_of

    yield Entry(name=event.agent_name, about="", text=report_of(event.findings))


def _examined(event: FindingsExamined) -> Iterator[Section]:
    if said := [*event.verdicts, *event.defences]:
        yield said_group(event.agent_name, said)


class ReviewLive(Together):
    """A review as it goes on."""

    roles: ClassVar[Mapping[str, str]] = {"merger": "looking for findings that are the same"}
    phases: ClassVar[Mapping[str, str]] = {
        "find": "reading the material",
        "examine": "examining findings of others",
        "defend": "answering for own findings",
    }
    own: ClassVar[OwnSections] = {FindingsReported: _reported, FindingsExamined: _examined}

    def heading(self, event: RoundStarted) -> Iterator[Section]:
        yield Heading(title=_PHASES[event.round])

    def said(self, turn: TurnFinished, text: str) -> Iterator[Section]:  # noqa: ARG002 - its own events show it
        yield from ()


class ReviewPage(PatternPage):
    """What a review adds to the service."""

    options: ClassVar[type[ReviewPlanOptions]] = ReviewPlanOptions
    document: ClassVar[type[ReviewDocument]] = ReviewDocument
    live: ClassVar[type[ReviewLive]] = ReviewLive
    default_speakers: ClassVar[tuple[dict[str, str], ...]] = REVIEWERS
    each_by_default = True
    default_length = 3
    least = 1
    question_about_sources: ClassVar[str | None] = QUESTION
    formats: ClassVar[Mapping[str, Callable[[Any], str]]] = {
        "markdown": findings_markdown,
        "sarif": findings_sarif,
        "json": findings_lines,
    }
    exit_note = "4 the gate does not hold, 5 nothing changed"
    confidence: ClassVar[Mapping[Confidence, PlanValues]] = {
        "quick": {"reviewers": [{"name": name} for name in ("Ada", "Ben")]},
        "high": {"reviewers": [{"name": name} for name in ("Ada", "Ben", "Cleo", "Dan", "Eve")]},
    }
    start_tool: ClassVar[StartTool | None] = StartTool(
        name="review",
        description="Have several language models find what is wrong with `sources`, such as a diff, and check each "
        "other.\n\n"
        "Each reviewer finds on its own, then confirms or refutes what the others found, without names. The result has "
        "each finding with its place, whether it is confirmed, disputed or refuted, and why. It is advice: check each "
        "finding in the material yourself. Returns after at most `wait` seconds; then call wait_for_run until it is "
        'over. `confidence`: "quick" makes up to 10 calls of models (two reviewers), "balanced" up to 14 (three), '
        '"high" up to 22 (five). With a hosted model that is usually one to three minutes; a small local one takes '
        "longer.",
        texts={
            "focus": Field(max_length=2_000, description="What to look for above all."),
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
        'flowdebate review "What is wrong with this plan?" --source plan.md',
        'flowdebate review "What is missing?" --source spec.md --reviewer Ada=openai/gpt-5 --reviewer Me --human Me',
    )
    docs = "docs/review.md"
    diagram = (
        '<circle cx="14" cy="14" r="6"/><circle cx="44" cy="14" r="6"/><circle cx="74" cy="14" r="6"/>'
        '<path d="M20 14h18M50 14h18M14 20v14M44 20v14M74 20v14M20 41h18M50 41h18"/>'
        '<rect class="settles" x="8" y="35" width="12" height="12"/>'
        '<rect class="settles" x="38" y="35" width="12" height="12"/>'
        '<rect class="settles" x="68" y="35" width="12" height="12"/>'
    )

    def length(self, options: Any) -> int:  # noqa: ANN401, ARG002 - as its base says
        return self.default_length  # the phases

    def check(self, plan: Plan) -> None:
        names, options = [each.name for each in plan.speakers], plan.options
        if unknown := sorted(set(options.humans or ()).difference(names)):
            where, field = options.place("humans")
            raise ConfigurationError(where, field, unknown, f"among {', '.join(names)}")
        super().check(plan)

    def build(self, plan: Plan) -> Sequencer[Any, Any]:
        options: ReviewPlanOptions = plan.options

        def seated(each: Persona) -> Persona:
            if each.name not in (options.humans or ()):
                return each
            from flowdebate.blocks.human.human import human

            ask = None if options.suspend else plan.ask
            return replace(each, block=human(name=f"{plan.name}-reviewer-{each.name}", ask=ask))

        return review(
            reviewers=[seated(each) for each in plan.speakers],
            focus=options.focus,
            gate=options.gate,
            **plan.keywords,
        )


PAGE = ReviewPage()
