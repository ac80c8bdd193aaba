"""Page of a council: options, the members' answers, their reviews, the ranking, the chair's answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from flowdebate.errors import ConfigurationError
from flowdebate.patterns.council.schemas import CouncilOutput, ReviewFinished
from flowdebate.patterns.events import RoundsEnded, RoundStarted, TurnFinished
from flowdebate.service.documents import Document, Speaker
from flowdebate.service.live import Together, failures
from flowdebate.service.options import COMMAND, ModelName, Option, OutputOptions, PersonaEntry, Text, is_text
from flowdebate.service.page import PatternPage
from flowdebate.service.roster import personas
from flowdebate.service.sections import Card, Entry, Fact, Group, Heading, Notice, Output, Section

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.patterns.council.schemas import CouncilReview
    from flowdebate.service.plan import Models, Plan

__all__ = ("PAGE", "CouncilDocument", "CouncilLive", "CouncilOptions")

_MEMBERS = ({"name": "Ada"}, {"name": "Ben"}, {"name": "Cleo"})
"""Three voices of the same model; with --member each has its own."""
_PHASES = {1: "Opinions", 2: "Reviews"}


def parse_member(given: str, option: str) -> dict[str, str]:
    """A member as the command line names it: with a model, or without one.

    >>> parse_member("Ada = openai/gpt-5-mini", "--member"), parse_member("Ben", "--member")
    ({'name': 'Ada', 'model': 'openai/gpt-5-mini'}, {'name': 'Ben'})
    """
    name, sign, model = (part.strip() for part in given.partition("="))
    if not is_text(name) or (sign and not is_text(model)):
        raise ConfigurationError(COMMAND, option, given, "name=model, or a name")
    return {"name": name, "model": model} if sign else {"name": name}


class CouncilOptions(OutputOptions):
    """Options of a council."""

    SUBJECT: ClassVar[str] = "question"
    ROSTER: ClassVar[str] = "members"
    WITHOUT: ClassVar[frozenset[str]] = frozenset({"judge_model", "synthesizer"})

    question: Annotated[Text | None, Option(help="The question; may be in --file instead.")] = None
    members: Annotated[
        list[PersonaEntry] | None,
        Option(
            flag="--member",
            metavar="NAME[=MODEL]",
            help="A member and its model; repeat for each. Default: Ada, Ben and Cleo, all with --model.",
            read=lambda given: [parse_member(each, "--member") for each in given],
        ),
    ] = None
    chair: Annotated[ModelName | None, Option(metavar="SPEC", help="Model of the chair. Default: that of --model.")] = (
        None
    )
    review: Annotated[
        Literal["others", "all", "none"] | None,
        Option(
            help="Members rank the others' answers, all answers (which measures self-preference), or none. "
            "Default: others."
        ),
    ] = None


class CouncilDocument(Document):
    """A saved council."""

    TITLE: ClassVar[str] = "Council"
    LABEL: ClassVar[str] = "Question"
    SPEAKERS: ClassVar[str] = "Members"
    ROSTER: ClassVar[str] = "members"
    UNIT: ClassVar[str] = "answer"
    ENDINGS: ClassVar[Mapping[str, str]] = {
        "reviewed": "reviewed",
        "not_reviewed": "without reviews",
    }
    pattern: str = "council"
    members: list[Speaker] = Field(default_factory=list)
    raw: CouncilOutput
    output: Any = None
    """The chair's answer for the output schema, as plain JSON data; None without a schema."""

    def spoke(self) -> list[Speaker]:
        return [Speaker(name=opinion.agent_name, role=opinion.role) for opinion in self.raw.opinions]

    @property
    def found(self) -> bool:
        return self.raw.answer is not None

    @property
    def said(self) -> int:
        return len(self.raw.opinions)

    @property
    def held(self) -> str | None:
        reason = self.raw.stop_reason
        return None if reason is None else f"Answers: {len(self.raw.opinions)}, {self.ENDINGS[reason]}"

    def sections(self) -> Iterator[Section]:
        raw = self.raw
        yield Heading(title=_PHASES[1])
        for opinion in raw.opinions:
            yield Entry(name=opinion.agent_name, about=opinion.role or "", text=opinion.text)
        yield from failures(loss for loss in raw.losses if loss.seat not in ("reviewer", "chair"))
        if raw.reviews:
            yield Heading(title=_PHASES[2])
            for review in raw.reviews:
                yield _review(review)
        yield from failures(loss for loss in raw.losses if loss.seat in ("reviewer", "chair"))
        yield from _result(raw, self.output)


class CouncilLive(Together):
    """A council as it goes on."""

    def sections(self, event: object) -> Iterator[Section]:
        match event:
            case RoundStarted():
                yield Heading(title=_PHASES[event.round])
            case TurnFinished(phase="review"):
                self.forget(event)
            case ReviewFinished():
                yield _review(event.review)
            case RoundsEnded():
                yield Notice(text="The chair writes the answer …")
            case _:
                yield from super().sections(event)

    def result(self, document: Document) -> Iterator[Section]:
        yield from _result(document.raw, getattr(document, "output", None))


def _review(review: CouncilReview) -> Group:
    facts = tuple(
        Fact(label=f"{ranked.rank}. {ranked.agent_name}", text=ranked.reason, tone="dim") for ranked in review.ranking
    )
    return Group(label=review.agent_name, text="ranks the answers (names hidden)", parts=facts)


def _result(raw: CouncilOutput, output: object) -> Iterator[Section]:
    """The ranking, and the chair's answer."""
    facts = []
    for at in raw.ranking:
        text = f"mean rank {at.mean_rank:.2f} in {at.reviews} reviews, Borda {at.borda}"
        tied = ", tied" if at.tied else ""
        own = "" if at.self_preference is None else f", prefers itself by {at.self_preference:+.2f} ranks"
        facts.append(Fact(label=f"{at.rank}. {at.agent_name}", text=f"{text}{tied}{own}", tone="dim", short=True))
    if facts:
        agreed = raw.agreement
        text = "too few reviews to say how far they agree"
        if agreed is not None:
            text = f"agreement W = {agreed.w:.2f} [{agreed.low:.2f}, {agreed.high:.2f}]"
        yield Group(label="Ranking", text=text, parts=tuple(facts))
    if output is not None:
        yield Output(value=output)
    elif raw.answer is not None:
        answer = Fact(label="Answer", text=str(raw.answer), tone="good")
        left = () if raw.dissent is None else (Fact(label="Disagreement left", text=raw.dissent),)
        yield Card(title="Answer", facts=(answer, *left))


class CouncilPage(PatternPage):
    """What a council adds to the service."""

    help = (
        "Ask several models; a chair answers from their reviews. Each member answers on its own and reviews the other "
        "answers without names; then the chair writes the answer."
    )
    options = CouncilOptions
    document = CouncilDocument
    live = CouncilLive
    default_length = 2

    def speakers(self, options: CouncilOptions, made: Models) -> tuple[Any, ...]:
        return personas(options, made, default=_MEMBERS)

    def length(self, options: Any) -> int:  # noqa: ANN401 - as its base says
        return 1 if options.review == "none" else 2

    def empty(self) -> dict[str, Any]:
        return {"opinions": []}

    def document_of(self, plan: Plan, raw: Any, output: object, facts: Mapping[str, Any]) -> Document:  # noqa: ANN401
        if raw is None:
            raw = CouncilOutput(question=plan.subject, opinions=[], status="interrupted", seed=facts["seed"])
        members = [Speaker(name=member.name, role=member.role) for member in plan.speakers]
        own = output if plan.schema is not None else None
        return CouncilDocument(raw=raw, members=members, output=own, **facts)

    def build(self, plan: Plan) -> Sequencer[Any, Any]:
        from flowdebate.patterns.council import create_chair

        options: CouncilOptions = plan.options
        chair = None
        if options.chair is not None:
            model = plan.made(options.chair, *options.place("chair"))
            instructions = options.instructions
            chair = create_chair(name=plan.name, output_schema=plan.schema, model=model, instructions=instructions)
        return plan.create(
            members=plan.speakers,
            chair=chair,
            review=False if options.review == "none" else options.review or "others",
            output_schema=plan.schema,
            failures=plan.failures,
        )


PAGE = CouncilPage()
