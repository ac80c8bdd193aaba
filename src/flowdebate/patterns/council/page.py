"""Council page: the options, the members' answers and reviews, the ranking, and the chair's answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from flowdebate._util.option_types import Text
from flowdebate.ui.document import Document, Speaker
from flowdebate.ui.live import OwnSections, Together
from flowdebate.ui.options import Depth, OutputOptions, PersonaEntry, PlanValues, option, roster_option
from flowdebate.ui.page import PatternPage, StartTool
from flowdebate.ui.sections import Card, Entry, Fact, Group, Heading, Output, Section, failures

from .events import ReviewFinished
from .factory import council
from .schemas import MEMBERS, CouncilOutput, CouncilReview, ReviewScope

if TYPE_CHECKING:
    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.chassis.state import RoundStarted, TurnFinished
    from flowdebate.ui.plan import Plan


_PHASES = {1: "Opinions", 2: "Reviews"}


class CouncilPlanOptions(OutputOptions):
    """Options for a council."""

    SUBJECT: ClassVar[str] = "question"
    ROSTER: ClassVar[str] = "members"
    WITHOUT: ClassVar[frozenset[str]] = frozenset({"synthesizer", "terminate_when", "history"})
    SPEAKER: ClassVar[str] = "member"
    ROLES: ClassVar[tuple[str, ...]] = ("chair",)

    question: Text | None = option("The question; may be in --file instead.")
    members: list[PersonaEntry] | None = roster_option(
        "--member",
        "A member and its model; repeat for each. Default: Ada, Ben and Cleo; without --model, each from a "
        "different provider with a key.",
        key="model",
    )
    review: ReviewScope | None = option(
        "Members rank the others' answers, all answers (which measures self-preference), or none. Default: others.",
        panel="Judge",
    )


class CouncilDocument(Document):
    """Document for a saved council."""

    SPEAKERS: ClassVar[str] = "Members"
    ROSTER: ClassVar[str] = "members"
    UNIT: ClassVar[str] = "answer"
    STOP_REASONS: ClassVar[Mapping[str, str]] = {"reviewed": "reviewed", "not_reviewed": "without reviews"}
    pattern: str = "council"
    members: list[Speaker] = Field(default_factory=list)
    raw: CouncilOutput
    output: Any = None
    """The chair's answer as plain JSON data matching the output schema; None if there is no schema."""

    def raw_speakers(self) -> list[Speaker]:
        return [Speaker(name=opinion.agent_name, role=opinion.role) for opinion in self.raw.opinions]

    @property
    def has_result(self) -> bool:
        return self.raw.answer is not None

    @property
    def contributions(self) -> int:
        return sum(opinion.flag is None for opinion in self.raw.opinions)

    @property
    def ending(self) -> str | None:
        reason = self.raw.stop_reason
        return None if reason is None else f"Answers: {len(self.raw.opinions)}, {self.describe_reason(reason)}"

    def sections(self) -> Iterator[Section]:
        raw, introduction = self.raw, self.about()
        yield Heading(title=_PHASES[1])
        for index, opinion in enumerate(raw.opinions):
            yield Entry(
                name=opinion.agent_name,
                about=introduction(opinion.agent_name, opinion.role),
                text=opinion.text,
                flag=opinion.flag,
                quotes=self.quoted(index),
            )
        yield from failures(loss for loss in raw.losses if loss.role not in ("reviewer", "chair"))
        if raw.reviews:
            yield Heading(title=_PHASES[2])
            for review in raw.reviews:
                yield review_group(review)
        yield from failures(loss for loss in raw.losses if loss.role in ("reviewer", "chair"))
        yield from self.result()

    def result(self) -> Iterator[Section]:
        """Show the ranking and the chair's answer."""
        yield from self.mark(None if self.raw.ranking else self.raw.answer)
        raw = self.raw
        facts = []
        for at in raw.ranking:
            text = f"mean rank {at.mean_rank:.2f} in {at.reviews} reviews, Borda {at.borda}"
            tied = ", tied" if at.tied else ""
            preference = "" if at.self_preference is None else f", prefers itself by {at.self_preference:+.2f} ranks"
            facts.append(
                Fact(label=f"{at.rank}. {at.agent_name}", text=f"{text}{tied}{preference}", tone="dim", short=True)
            )
        if facts:
            agreed = raw.agreement
            text = "too few reviews to say how far they agree"
            if agreed is not None:
                text = f"agreement W = {agreed.w:.2f} of {agreed.reviews} reviews"
            alias_count = sum(bool(opinion.alias) for opinion in raw.opinions)
            if len(raw.reviews) < alias_count:
                lost = f"{alias_count - len(raw.reviews)} of {alias_count} reviews missing"
                text = f"{text}; {lost}, so not every answer was read in every place equally often"
            yield Group(label="Ranking", text=text, facts=tuple(facts))
        if self.output is not None:
            yield Output(value=self.output)
        elif raw.answer is not None:
            answer = Fact(label="Answer", text=str(raw.answer), tone="good")
            dispute = () if raw.dissent is None else (Fact(label="Still disputed", text=raw.dissent),)
            yield Card(title="Answer", facts=(answer, *dispute), lead="Answer")


class CouncilLive(Together):
    """Live view of a council."""

    roles: ClassVar[Mapping[str, str]] = {"chair": "writing the answer"}
    phases: ClassVar[Mapping[str, str]] = {"review": "ranking the answers"}
    event_sections: ClassVar[OwnSections] = {ReviewFinished: lambda event: (review_group(event.review),)}

    def heading(self, event: RoundStarted) -> Iterator[Section]:
        yield Heading(title=_PHASES[event.round])

    def turn_sections(self, turn: TurnFinished, text: str) -> Iterator[Section]:
        return iter(()) if turn.phase == "review" else super().turn_sections(turn, text)


def review_group(review: CouncilReview) -> Group:
    """Format a member's ranking of the answers as a group of facts."""
    facts = tuple(
        Fact(label=f"{ranked.rank}. {ranked.agent_name}", text=ranked.reason, tone="dim") for ranked in review.ranking
    )
    return Group(label=review.agent_name, text="ranks the answers (names hidden)", facts=facts)


class CouncilPage(PatternPage):
    """Council page in the service."""

    options: ClassVar[type[CouncilPlanOptions]] = CouncilPlanOptions
    document: ClassVar[type[CouncilDocument]] = CouncilDocument
    live: ClassVar[type[CouncilLive]] = CouncilLive
    default_speakers: ClassVar[tuple[dict[str, str], ...]] = MEMBERS
    each_by_default = True
    default_length = 2
    depths: ClassVar[Mapping[Depth, PlanValues]] = {
        "quick": {"review": "none"},
        "thorough": {"members": [{"name": name} for name in ("Ada", "Ben", "Cleo", "Dan", "Eve")]},
    }
    start_tool: ClassVar[StartTool | None] = StartTool(
        name="start_council",
        description="Ask several language models the same question: each answers by itself, then a chair writes one "
        "answer.\n\n"
        "Without `model`, members are of all vendors that are set up. They see the question and its `sources` alone. "
        'Returns after at most `wait` seconds; then call wait_for_run until it is over. `depth`: "quick" makes 4 '
        "calls of models (three answers, the chair's), \"balanced\" 7 (members also rank each other's answers without "
        'names), "thorough" 11 (five members); "auto" begins with the first and ends where the chair names no dissent. '
        "With a hosted model each takes half a minute to two minutes; a small local one takes longer.",
    )
    example = "Should we cap rents?"
    sample: ClassVar[PlanValues] = {"question": "How should a beginner learn to cook?"}
    examples: ClassVar[tuple[str, ...]] = (
        'flowdebate council "Is this contract clause enforceable?"',
        'flowdebate council "Explain entropy" --member Ada=openai/gpt-5 --member Ben=anthropic/claude-sonnet-4-5',
        'flowdebate council "Explain entropy" --model each --model chair=openai/gpt-5',
    )
    docs = "council"
    diagram = (
        '<circle cx="12" cy="28" r="5"/><circle cx="25" cy="12" r="5"/><circle cx="44" cy="7" r="5"/>'
        '<circle cx="63" cy="12" r="5"/><circle cx="76" cy="28" r="5"/>'
        '<path d="M19 30l17 8M29 17l10 17M44 14v18M59 17l-10 17M69 30l-17 8"/>'
        '<rect class="settles" x="37" y="37" width="14" height="14"/>'
    )

    def length(self, options: Any) -> int:  # noqa: ANN401 - as its base says
        return 1 if options.review == "none" else 2  # one phase for answers, and one for reviews

    def output_of(self, plan: Plan, output: object) -> object:
        """Return the chair's answer, or None if there is no output schema."""
        return output if plan.schema is not None else None  # without a schema, the answer is the text in the raw output

    def build(self, plan: Plan) -> Sequencer[Any, Any]:
        options: CouncilPlanOptions = plan.options
        return council(
            members=plan.speakers,
            review=options.review or "others",
            output_schema=plan.schema,
            **plan.keywords,
        )


PAGE = CouncilPage()
