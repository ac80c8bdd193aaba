"""Add a pattern: solvers take turns guessing a riddle, and a sphinx rules after each round."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

from pydantic import BaseModel, ConfigDict, Field

from flowdebate import ProviderFailure, generator, handler
from flowdebate.chassis.options import CommonOptions, PromptOptions
from flowdebate.chassis.output import PatternOutput, build_output, ending_of
from flowdebate.chassis.roles import NOT_KEPT, BlockOptions, generator_options
from flowdebate.chassis.roster import MemberLike, Role, bindable
from flowdebate.chassis.spec import Loop, PatternSpec, check_options
from flowdebate.chassis.state import (
    Contribution,
    DebateStatus,
    PatternInput,
    PatternState,
    TranscriptState,
    entries_of,
    question_of,
    state_of,
)
from flowdebate.chassis.turn import MISSING, FailurePolicy, record_turn
from flowdebate.events import BaseEvent
from flowdebate.patterns import PatternInfo, register
from flowdebate.prompts import Template, filled, part, quoted, tag_name, uses
from flowdebate.resources import StateResource
from flowdebate.ui import sections
from flowdebate.ui.document import RoundsDocument, Speaker
from flowdebate.ui.live import OneByOne, OwnSections
from flowdebate.ui.options import Count, PersonaEntry, PlanOptions, Text, option, roster_option
from flowdebate.ui.page import PatternPage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from flowdebate.blocks.functions import BlockLike, Capability, ToolLike
    from flowdebate.blocks.generator import Generator, MessagesSlot, TextSlot
    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.chassis.material import Material
    from flowdebate.models.base import ModelSettings
    from flowdebate.models.resolve import ModelChoice
    from flowdebate.runs.context import Context
    from flowdebate.runs.events import RunStatus
    from flowdebate.sources.source import Sources, SourcesLike
    from flowdebate.stop import StopWhen
    from flowdebate.ui.plan import Plan


# Data


class RiddleInput(PatternInput):
    """Input of a run: the riddle."""

    riddle: str


class Guess(Contribution):
    """A solver's turn."""

    round: int
    agent_name: str
    text: str


def create_guesses() -> StateResource[TranscriptState[Guess]]:
    """Create an empty transcript."""
    return StateResource(key="transcript", initial=TranscriptState[Guess])


class Ruling(BaseModel):
    """Answer of the sphinx after a round."""

    model_config = ConfigDict(frozen=True)
    solution: str | None
    remark: str


class RiddleState(PatternState):
    """State of a run."""

    rulings: list[Ruling] = Field(default_factory=list)


class RiddleOutput(PatternOutput):
    """Raw output of a run."""

    subject_field: ClassVar[str] = "riddle"
    early_reasons: ClassVar[frozenset[str]] = frozenset({"solved"})  # even if the last round solves it
    riddle: str
    rounds: int
    transcript: list[Guess]
    rulings: list[Ruling] = Field(default_factory=list)
    stop_reason: str | None = None
    status: DebateStatus = "complete"
    losses: list[ProviderFailure] = Field(default_factory=list)
    seed: int | None = None

    @property
    def answer(self) -> str | None:
        """Solution named in the last ruling."""
        return self.rulings[-1].solution if self.rulings else None

    @property
    def decision_word(self) -> str | None:
        """Decision in one word, for lists of runs."""
        return "not solved" if self.answer is None else "solved"


@dataclass(slots=True, kw_only=True)
class Ruled(BaseEvent):
    """Event emitted for a ruling."""

    kind: ClassVar[str] = "ruled"
    output_item: ClassVar[tuple[str, str] | None] = ("ruling", "rulings")
    ruling: Ruling


# Roles


@dataclass(frozen=True, kw_only=True)
class SolverTemplate(Template):
    """Prompt texts for a solver."""

    turn: str = part(
        "Riddle: {riddle}\nGuesses so far:\n{transcript}\nYou are {name}. Give one new guess, in a sentence.",
        uses("riddle", "transcript", "name"),
    )


@dataclass(frozen=True, kw_only=True)
class SphinxTemplate(Template):
    """Prompt texts for the sphinx."""

    turn: str = part(
        "Riddle: {riddle}\nGuesses:\n{transcript}\nIf one is right, name the solution; else it is null.",
        uses("riddle", "transcript"),
    )


def fill(template: str, value: object, ctx: Context, **fields: str) -> str:
    """Fill in the riddle and the guesses; text from models or users can never begin a line."""
    guesses = [f"[{tag_name(guess.agent_name)}] {quoted(guess.text)}" for guess in entries_of(ctx)]
    return filled(template, riddle=quoted(question_of(value, ctx)), transcript="\n".join(guesses), **fields)


@bindable("name", "agent_name", "transcript", pattern="Persona", role="debater", template=SolverTemplate)
def create_solver(
    *,
    name: str,
    agent_name: str,
    transcript: StateResource[Any],
    template: SolverTemplate | None = None,
    length: object = None,  # noqa: ARG001 - the template has a fixed length
    **options: Unpack[BlockOptions],
) -> Generator[Any]:
    """Create a solver's block."""
    texts = template or SolverTemplate()
    return generator(
        name=f"{name}-solver-{agent_name}",
        user=lambda value, ctx: fill(texts.turn, value, ctx, name=tag_name(agent_name)),
        resources={"transcript": transcript},
        **generator_options(options, "intent/chat", NOT_KEPT, location=name),
    )


@bindable("name", "transcript", pattern="riddle", role="sphinx", template=SphinxTemplate)
def create_sphinx(
    *,
    name: str,
    transcript: StateResource[Any],
    template: SphinxTemplate | None = None,
    **options: Unpack[BlockOptions],
) -> Generator[Any]:
    """Create the sphinx's block."""
    texts = template or SphinxTemplate()
    return generator(
        name=f"{name}-sphinx",
        user=lambda value, ctx: fill(texts.turn, value, ctx),
        output_schema=Ruling,
        resources={"transcript": transcript},
        **generator_options(options, "intent/synthesize", NOT_KEPT, location=name),
    )


# Factory


def make_output(_: Loop[CommonOptions], ctx: Context, status: RunStatus) -> RiddleOutput:
    """Build the raw output, even for runs that end early."""
    state = state_of(ctx, RiddleState)
    return RiddleOutput(
        riddle=state.question,
        rounds=state.round,
        transcript=list(entries_of(ctx)),
        rulings=list(state.rulings),
        **ending_of(ctx, status),
    )


def stop_reason(state: RiddleState, max_rounds: int) -> str | None:
    """Return the reason to end the rounds; None to continue."""
    if state.rulings and state.rulings[-1].solution is not None:
        return "solved"
    return "max_rounds" if state.round >= max_rounds else None


SPHINX = Role(name="sphinx", create=[create_sphinx], instead="no_report")
RIDDLE = PatternSpec(
    name="riddle",
    speaker=Role(name="debater", create=[create_solver], visibility=NOT_KEPT),
    roles=[SPHINX],
    input_type=RiddleInput,
    new_state=lambda _: RiddleState(),
    make_output=make_output,
    create_transcript=create_guesses,
    stop_reason=stop_reason,
)


def riddle(  # noqa: PLR0913 - the pattern's options, each with its default
    *,
    name: str,
    debaters: Sequence[MemberLike],
    max_rounds: int = 3,
    sphinx: BlockLike | None = None,
    terminate_when: StopWhen | None = None,
    transcript: StateResource[TranscriptState[Guess]] | None = None,
    instructions: TextSlot | None = None,
    model: ModelChoice = None,
    tools: Sequence[ToolLike] | None = None,
    uses: Sequence[Capability] | None = None,
    context: MessagesSlot | None = None,
    settings: ModelSettings | None = None,
    prompts: PromptOptions | None = None,
    sources: SourcesLike | Sources | Material | None = None,
    collection_id: str | None = None,
    failures: FailurePolicy | None = None,
) -> Sequencer[Any, RiddleOutput]:
    """Build a riddle: solvers take turns guessing, and a sphinx rules after each round."""
    loop = check_options(
        RIDDLE,
        CommonOptions(
            name=name,
            roster=debaters,
            max_rounds=max_rounds,
            roles={"sphinx": sphinx},
            terminate_when=terminate_when,
            transcript=transcript,
            instructions=instructions,
            model=model,
            tools=tools,
            uses=uses,
            context=context,
            settings=settings,
            prompts=prompts,
            sources=sources,
            collection_id=collection_id,
            failures=failures,
        ),
    )
    turns = {
        solver.name: loop.turn(solver, partial(record_turn, entry=partial(Guess, agent_name=solver.name)))
        for solver in loop.roster
    }

    @handler(name=f"{name}-rule")
    def rule(ruling: Any, ctx: Context) -> None:  # noqa: ANN401 - a ruling or MISSING
        if ruling is not MISSING:  # MISSING: the provider failed, and the failure policy continues the run
            ctx.scope.handle.update(rulings=[*state_of(ctx, RiddleState).rulings, ruling])
            ctx.emit(Ruled(ruling=ruling))

    judge = loop.guard(SPHINX, loop.role(SPHINX, answer=lambda: Ruling, transcript=loop.transcript))
    pipeline = loop.with_turns(loop.opening(), turns).then(judge).then(rule)
    return loop.until_stopped(pipeline, "until it is solved").then(build_output(loop))


# Page


class RiddleOptions(PlanOptions):
    """Options of a riddle for all front ends."""

    SUBJECT: ClassVar[str] = "riddle"
    riddle: Text | None = option("The riddle; may be in --file instead.")
    debaters: list[PersonaEntry] | None = roster_option(
        "--solver", "Who guesses; repeat for each. Default: Ada and Ben."
    )
    max_rounds: Count | None = option("Maximum number of rounds. Default: 3.", panel="Rounds")


def ruling_group(ruling: Ruling) -> sections.Group:
    """Return the section for a ruling."""
    return sections.Group(label="Sphinx", text=ruling.remark)


class RiddleDocument(RoundsDocument):
    """A saved riddle run."""

    SPEAKERS: ClassVar[str] = "Solvers"
    UNIT: ClassVar[str] = "guess"
    STOP_REASONS: ClassVar[dict[str, str]] = {"solved": "it is solved"}
    pattern: str = "riddle"
    debaters: list[Speaker] = Field(default_factory=list)
    raw: RiddleOutput

    def entries(self) -> Iterator[tuple[int, sections.Entry]]:
        """Yield the guesses with their rounds."""
        for guess in self.raw.transcript:
            yield guess.round, sections.Entry(name=guess.agent_name, about="", text=guess.text, flag=guess.flag)

    def closing(self, number: int) -> Iterator[sections.Section]:
        """Yield a round's ruling."""
        yield from map(ruling_group, self.raw.rulings[number - 1 : number])

    @property
    def has_result(self) -> bool:
        """True if the riddle is solved."""
        return self.raw.answer is not None

    def result(self) -> Iterator[sections.Section]:
        """Yield the solution."""
        if self.raw.answer is not None:
            solution = sections.Fact(label="Solution", text=self.raw.answer, tone="good")
            yield sections.Card(title="Solution", facts=(solution,), lead="Solution")


class RiddleLive(OneByOne):
    """A riddle run in progress."""

    roles: ClassVar[Mapping[str, str]] = {"sphinx": "weighing the guesses"}
    event_sections: ClassVar[OwnSections] = {Ruled: lambda event: (ruling_group(event.ruling),)}


class RiddlePage(PatternPage):
    """Page of the riddle pattern."""

    options = RiddleOptions
    document = RiddleDocument
    live = RiddleLive
    default_speakers = ({"name": "Ada"}, {"name": "Ben"})
    default_length = 3
    example = "What has keys and opens no lock?"
    sample: ClassVar[dict[str, Any]] = {"riddle": "What has keys and opens no lock?"}
    examples = ('flowdebate riddle "What has keys and opens no lock?" --max-rounds 2',)
    docs = "adding-a-pattern"

    def build(self, plan: Plan) -> Sequencer[Any, Any]:
        """Build the pattern from a plan."""
        return riddle(debaters=plan.speakers, max_rounds=plan.length, **plan.keywords)


PAGE = RiddlePage()


# Registry entry

INFO = PatternInfo(
    name="riddle",
    factory="riddles:riddle",
    output="riddles:RiddleOutput",
    subject="riddle",
    page="riddles:PAGE",
    help="Solve a riddle: solvers guess in turn, and a sphinx rules.",
    events=("riddles:Ruled",),
)
register(INFO)
