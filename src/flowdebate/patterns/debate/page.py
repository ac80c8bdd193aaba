"""Debate page: options, patterns, and a live view."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, cast

from pydantic import Field

from flowdebate._util.option_types import Count, Flag, Lead, Text, TurnLength, explained, number
from flowdebate.chassis.roster import max_members
from flowdebate.chassis.state import (
    RoundStarted,
    TurnFinished,
    TurnOrder,
    TurnStarted,
)
from flowdebate.errors import ConfigurationError
from flowdebate.runs.durable.fork import (
    ASKED,
    MAX_ADDED_QUESTION_LENGTH,
    MAX_ADDED_ROUNDS,
    Continuation,
    plan_requested_continuation,
)
from flowdebate.ui.live import Live, OneByOne, OwnSections
from flowdebate.ui.options import (
    COMMAND,
    Criterion,
    Depth,
    ModelName,
    ModelNames,
    OutputOptions,
    PlanOptions,
    PlanValues,
    RosterEntry,
    misuse,
    option,
    roster_option,
)
from flowdebate.ui.page import PatternPage, roster
from flowdebate.ui.sections import Section, doing

from .baseline_names import BaselineName, Equal
from .baselines import BaselineOptions
from .document import (
    DebateDocument,
    decision_group,
    mirror_heading,
    reader_asks,
    verdict_card,
)
from .events import MirrorStarted, ModeratorDecided, VerdictReached
from .factory import debate
from .formats import find_format, format_of, names_of, purposes
from .judging.ballots import Answer, DecidedBy, OnFlip
from .judging.options import LETTERS
from .options import DEFAULT_ROUNDS
from .phases import Phase, check_phases
from .schemas import PHASE_NAME

if TYPE_CHECKING:
    from flowdebate.blocks.base import Block
    from flowdebate.blocks.human.human import Human
    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.store.base import StoredRun
    from flowdebate.ui.models import Models
    from flowdebate.ui.plan import Plan

    from .judging.options import JudgeOptions


_JUDGING = (
    "answer_form", "schedule", "panel", "decided_by", "min_log_odds", "quotes", "on_flip", "labels", "crossed_labels",
    "criteria", "curtail",
)  # fmt: skip
"""Names of the judging options in a plan; `JudgeOptions` has fields with the same names."""


def weights_of(
    criteria: Sequence[str] | None, location: str = COMMAND, field: str = "--criterion"
) -> dict[str, float] | None:
    """Convert criteria from a plan or the command line to a rubric; return None if there are no criteria.

    >>> weights_of(["evidence=2", "clarity"])
    {'evidence': 2.0, 'clarity': 1.0}
    """
    parts = [criterion.partition("=") for criterion in criteria or ()]
    weights = {name.strip(): float(weight or 1) for name, _, weight in parts}
    if len(weights) < len(parts):
        raise ConfigurationError(location, field, list(criteria or ()), "must not contain duplicates")
    return weights or None


_Baselines = Annotated[
    bool | list[BaselineName],
    explained("must be true, false, or a list chosen from single, drafts, self_consistency and revision"),
]


class SideEntry(RosterEntry):
    """A debater in a plan file."""

    name: Text
    stance: Text
    role: Text | None = None
    model: ModelName | None = None


class PhaseEntry(RosterEntry):
    """A phase in a plan file."""

    name: Annotated[Text, Field(pattern=PHASE_NAME), explained("must be 1 to 60 letters, digits, spaces or hyphens")]
    rounds: Count | None = None
    asks: Literal["pairs"] | None = None
    speakers: list[Count] | None = None
    aim: Text | None = None
    length: TurnLength | None = None
    turn_order: TurnOrder | None = None


class ReaderQuestionEntry(RosterEntry):
    """A reader's question, and the round in which it is answered."""

    round: Count
    text: Text


_AddedRounds = Annotated[int, Field(ge=1, le=MAX_ADDED_ROUNDS), number(whole=True, minimum=1, maximum=MAX_ADDED_ROUNDS)]


class ContinuationEntry(RosterEntry):
    """Continuation of a finished debate in a fork.

    The fork fills in the earlier rounds (`held`) and questions (`asked`) automatically.
    """

    rounds: _AddedRounds | None = None
    ask: Annotated[Text, Field(max_length=MAX_ADDED_QUESTION_LENGTH), explained(ASKED)] | None = None
    held: Count | None = None
    asked: list[ReaderQuestionEntry] | None = None


class DebatePlanOptions(OutputOptions):
    """Options for a debate."""

    SUBJECT: ClassVar[str] = "question"
    PEOPLE: ClassVar[tuple[str, ...]] = ("judge", "moderator")
    ROLES: ClassVar[tuple[str, ...]] = ("moderator", "judge", "synthesizer")

    question: Text | None = option("The question; may be in --file instead.")
    debaters: list[SideEntry] | None = roster_option(
        "--debater",
        "A side and the position it argues; repeat for each. Default: the sides of the question, proposed "
        "by a model if the question does not name them.",
        key="stance",
        needed=True,
    )
    max_rounds: Count | None = option("Maximum number of rounds. Default: 2.", panel="Rounds")
    turn_order: TurnOrder | None = option(
        "Order of the turns in each round; with simultaneous, all speak at once. Default: declared.", panel="Rounds"
    )
    phases: Annotated[list[PhaseEntry], Field(min_length=1)] | None = option(
        "What the rounds are for: a list of phases, each a table with a name.", panel="Rounds", flag=""
    )
    continuation: ContinuationEntry | None = option(
        "For a fork: continue the finished debate for more `rounds` (1 by default), with a question to `ask`.",
        panel="Rounds",
        flag="",
    )
    format: Annotated[Text, Field(json_schema_extra={"enum": names_of("debate")})] | None = option(
        f"Follow a format.\n{purposes('debate')}", panel="Rounds", metavar="NAME"
    )
    audience: list[Text] | None = option(
        "A listener, such as 'a nurse', who votes before and after the debate; repeat for each. The side that gains "
        "most wins.",
        panel="Judge",
        metavar="WHO",
    )
    mirror: Flag | None = option(
        "Repeat the debate with the speaking order reversed, and judge both. Doubles the cost.",
        panel="Rounds",
    )
    moderator: Flag | None = option(
        "A moderator opens each round, picks its speakers and may end the debate.", panel="Rounds"
    )
    humans: (
        Annotated[list[Text], explained("must be a list that names debaters, the judge or the moderator")] | None
    ) = option(
        "A role that a human plays: a side's name, judge or moderator; repeat for each.",
        panel="Sides",
        flag="--human",
        metavar="ROLE",
    )
    suspend: Flag | None = option(
        "Let humans answer later with flowdebate runs answer. Default: on without a terminal.", panel="Sides"
    )
    baselines: _Baselines | None = option(
        "Also answer without a debate: with a single call, and by vote.", panel="Output"
    )
    equal: Equal | None = option(
        "With baselines: the resource of which self-consistency may use as much as the debate. Default: tokens.",
        panel="Output",
    )
    answer_form: Answer | None = option(
        "Form of the judge's answers. Letters count by their probabilities, which the model must report. Default: "
        "letters with concise prompts, otherwise what the other options require.",
        panel="Judge",
    )
    schedule: Text | None = option(
        "Orders in which the judge sees the sides: single, swap, cyclic, full, sampled(N). Default: swap for two "
        "sides, else single; by letter cyclic.",
        panel="Judge",
        metavar="NAME",
    )
    panel: ModelNames | None = option(
        "A model on a panel of judges; repeat for each. Each casts its own ballots.", panel="Judge", metavar="SPEC"
    )
    decided_by: DecidedBy | None = option(
        "Average the scores of all ballots, count each ballot for one side, or take the median model's log-odds of "
        "letters. Default: log_odds by letter, else mean.",
        panel="Judge",
    )
    min_log_odds: Lead | None = option(
        "With letters: smallest lead of a winner in log-odds (0: any lead wins). Default: as fitted, otherwise 0.1.",
        panel="Judge",
    )
    quotes: Flag | None = option(
        "With letters: quote each side's most concrete statement, which costs one call for each. Default: on.",
        panel="Judge",
    )
    on_flip: OnFlip | None = option(
        "What to do if the verdict changes with the order. Default: average.", panel="Judge"
    )
    labels: Flag | None = option("Show the sides to the judge as A, B, … instead of by their stances.", panel="Judge")
    criteria: Annotated[list[Criterion], explained("must be a list of NAME or NAME=WEIGHT")] | None = option(
        "A criterion for scoring each side, with its weight, such as evidence=3; repeat for each.",
        panel="Judge",
        flag="--criterion",
        metavar="NAME[=WEIGHT]",
    )
    crossed_labels: Flag | None = option(
        "Ask about every order of the sides with every assignment of A, B, …: many more calls.", panel="Judge"
    )
    curtail: Flag | None = option("Skip ballots that could not change the winner.", panel="Judge")


class DebateLive(OneByOne):
    """Live view of a debate."""

    roles: ClassVar[Mapping[str, str]] = {"moderator": "opening the round", "judge": "weighing the arguments"}
    event_sections: ClassVar[OwnSections] = {
        MirrorStarted: lambda _: (mirror_heading(),),
        ModeratorDecided: lambda event: (decision_group(event.decision),),
    }

    def heading(self, event: RoundStarted) -> Iterator[Section]:
        yield from super().heading(event)
        more = None if self.plan is None else self.plan.options.continuation
        questions = None if more is None else more.asked
        yield from (reader_asks(question.text) for question in questions or () if question.round == event.round)

    def about_turn(self, turn: TurnStarted | TurnFinished) -> str:
        return doing(turn.phase, turn.target) or super().about_turn(turn)

    def result(self, event: object) -> Iterator[Section]:
        # the mirrored debate's verdict is already included in the verdict on both debates
        if isinstance(event, VerdictReached) and "-mirrored/" not in event.path:
            yield verdict_card(event.verdict, self.speakers)

    def progress(self) -> str:
        """Describe progress in rounds rather than turns if a moderator picks the speakers."""
        moderated = self.plan is not None and self.plan.options.moderator
        return Live.progress(self) if moderated else super().progress()


class DebatePage(PatternPage):
    """Page for debates in the service."""

    proposes = True
    speaks_for: ClassVar[Literal["role", "stance"]] = "stance"
    options: ClassVar[type[DebatePlanOptions]] = DebatePlanOptions
    document: ClassVar[type[DebateDocument]] = DebateDocument
    live: ClassVar[type[DebateLive]] = DebateLive
    default_length = 2
    depths: ClassVar[Mapping[Depth, PlanValues]] = {
        "quick": {"schedule": "single"},
        "thorough": {"schedule": "swap", "mirror": True},
        "auto": {"schedule": None},
    }
    fixed_depth: ClassVar[tuple[str, ...]] = ("baselines", "continuation")
    example = "Should we cap rents?"
    sample: ClassVar[PlanValues] = {
        "question": "Is it better to work from home or in an office?",
        "debaters": [
            {"name": "Remy", "stance": "Working from home is better"},
            {"name": "Olga", "stance": "Working in an office is better"},
        ],
    }
    examples: ClassVar[tuple[str, ...]] = (
        'flowdebate debate "Should private cars be banned from city centers?"',
        'flowdebate debate "Which database?" --debater anna="Postgres is enough" --debater ben="We need Cassandra"',
        'flowdebate debate "Should we cap rents?" --moderator --max-rounds 3 --schedule swap --markdown rents.md',
    )
    docs = "debate"
    diagram = (
        '<circle cx="20" cy="12" r="6"/><circle cx="20" cy="44" r="6"/>'
        '<path d="M20 21v14m-3-4 3 4 3-4m-6-6 3-4 3 4M30 14l28 9M30 42l28-9"/>'
        '<rect class="settles" x="62" y="20" width="16" height="16"/>'
    )

    def speakers(self, options: DebatePlanOptions, models: Models) -> tuple[Any, ...]:
        """Return the sides, or an empty tuple if the question names none and a model has to propose them."""
        from flowdebate.chassis.roster import Debater

        from .sides import default_sides

        format_ = format_of(options, "debate")
        if options.debaters:
            return roster(options, models, kind=Debater, default=())
        if format_ is not None and format_.members:
            return tuple(format_.members)
        return tuple(default_sides(str(options.question)) or ())

    def length(self, options: PlanOptions) -> int:
        if (more := getattr(options, "continuation", None)) is not None and more.held:
            return int(more.held + (more.rounds or 1))
        return sum(phase.rounds for phase in phases_in(options)) or super().length(options)

    def defaults(self, options: DebatePlanOptions, speakers: Sequence[Any]) -> PlanValues:
        """Have the judge read both orders by default.

        This default applies if there are two sides or the depth is "auto", unless another option rules it out.
        """
        by_letter = options.answer_form in LETTERS or options.decided_by == "log_odds"
        is_asked = not (by_letter or "judge" in (options.humans or ()) or audience_in(options))
        two = len({side.stance for side in speakers}) == 2  # noqa: PLR2004 - sides
        # "auto" stops once the verdicts from all orders agree, so there must be several orders
        balanced = two or options.depth == "auto"
        return {"schedule": "swap"} if options.schedule is None and is_asked and balanced else {}

    def fork_changes(self, run: StoredRun, options: PlanValues) -> PlanValues:
        if (more := options.get("continuation")) is not None:
            return {**options, "continuation": plan_requested_continuation(run, more).to_plan()}
        if options == {"schedule": "swap"} and _has_single_winner(run):
            # use the form of the ballot already cast, since the fork counts that ballot too
            return {**options, "answer_form": "winner"}
        return options

    def turns(self, plan: Plan) -> int:
        speaker_counts = ((phase, len(phase.speakers) or len(plan.speakers)) for phase in phases_in(plan.options))
        turns = sum(phase.rounds * phase.turns * speakers for phase, speakers in speaker_counts) or super().turns(plan)
        return turns + 2 * len(audience_in(plan.options))

    def speakers_in(self, subject: str) -> list[dict[str, str]] | None:
        from .sides import default_sides

        default_positions = default_sides(subject)
        return (
            None
            if default_positions is None
            else [{"name": side.name, "stance": side.stance} for side in default_positions]
        )

    def create_proposer(self, instructions: str | None = None) -> Block[Any, Sequence[Any]]:
        from .sides import create_side_proposer

        return create_side_proposer(instructions=instructions)

    def any_speakers(self, subject: str) -> Sequence[Any]:
        from .sides import yes_no_sides

        return yes_no_sides(subject)

    def settled(self, plan: Plan) -> PlanValues:
        """Return the derived or proposed sides, so that a resumed run does not have the model propose them again."""
        if plan.options.debaters:
            return {}
        return {"debaters": [{"name": speaker.name, "stance": speaker.stance} for speaker in plan.speakers]}

    def fitting(self, options: PlanOptions, speakers: Sequence[Any]) -> tuple[Any, ...]:
        format_ = find_format(getattr(options, "format", None), location="options", pattern="debate")
        return tuple(speakers)[: None if format_ is None else format_.sides]

    def check(self, plan: Plan) -> None:
        options: DebatePlanOptions = plan.options
        if options.continuation is not None and not options.continuation.held:
            problem = "cannot be set for a new run: only a fork of a finished run can continue it"
            raise ConfigurationError(*options.place("continuation"), None, problem)
        roles = [*(debater.name for debater in plan.speakers), *options.PEOPLE]
        humans = set(options.humans or ())
        if not plan.speakers and not humans.issubset(roles):
            name = "define them with --debater NAME=STANCE so that a human can argue for one."
            raise misuse("--human", sorted(humans), f"The question does not say what the sides are: {name}")
        if unknown := sorted(humans.difference(roles)):
            raise ConfigurationError(*options.place("humans"), unknown[0], choices=roles)
        if "judge" in humans and self._judging(plan) is not None:
            problem = "cannot include the judge when options for a judge model are set"
            raise ConfigurationError(*options.place("humans"), None, problem)
        # check with placeholder sides until a model has proposed some
        super().check(plan if plan.speakers else replace(plan, speakers=tuple(self.any_speakers(plan.subject))))

    def build(self, plan: Plan) -> Sequencer[Any, Any]:
        options: DebatePlanOptions = plan.options
        humans = set(options.humans or ())
        pattern = debate(
            debaters=[
                replace(speaker, block=_human(plan, f"debater-{speaker.name}")) if speaker.name in humans else speaker
                for speaker in plan.speakers
            ],
            max_rounds=self._rounds(plan),
            turn_order=options.turn_order or "declared",
            phases=None if options.phases is None else phases_in(options),
            format=options.format,
            audience=options.audience,
            mirror=bool(options.mirror),
            moderator=_human(plan, "moderator") if "moderator" in humans else options.moderator,
            judge=_human(plan, "judge") if "judge" in humans else self._judging(plan),
            baselines=BaselineOptions(options.baselines or False, equal=options.equal),
            synthesizer=None if options.synthesizes else False,
            output_schema=plan.schema,
            terminate_when=plan.terminate_when,
            **plan.keywords,
        )
        if options.continuation is None or pattern.with_continuation is None:
            return pattern
        more = Continuation.of_plan(options.continuation.model_dump())
        return cast("Sequencer[Any, Any]", pattern.with_continuation(cast("Continuation", more)))

    def _rounds(self, plan: Plan) -> int:
        """Return the number of rounds: `plan.length` or, if the plan has phases, `max_rounds` (or its default)."""
        options: DebatePlanOptions = plan.options
        if not phases_in(options):
            return plan.length
        return DEFAULT_ROUNDS if options.max_rounds is None else options.max_rounds

    def _judging(self, plan: Plan) -> JudgeOptions | None:
        from .judging.options import JudgeOptions

        options: DebatePlanOptions = plan.options
        if all(getattr(options, name) is None for name in _JUDGING):
            return None
        location, field = options.place("panel")
        on_flip: OnFlip = options.on_flip or "average"
        return JudgeOptions(
            answer_form=options.answer_form,
            schedule=options.schedule,
            panel=[
                plan.model_pool(spec, location, f"{field}[{index}]") for index, spec in enumerate(options.panel or ())
            ],
            decided_by=options.decided_by,
            min_log_odds=options.min_log_odds,
            quotes=options.quotes is not False,
            on_flip=on_flip,
            labels=bool(options.labels),
            crossed_labels=bool(options.crossed_labels),
            criteria=weights_of(options.criteria, *options.place("criteria")),
            curtail=bool(options.curtail),
            ask=plan.ask if on_flip == "human" else None,  # `ask` is allowed only if `on_flip` is "human"
        )


def _has_single_winner(run: StoredRun) -> bool:
    """Check whether the judge in a run cast a single ballot without scores."""
    raw = (run.outcome or {}).get("raw")
    verdict = raw.get("verdict") if isinstance(raw, Mapping) else None
    judging = verdict.get("judging") if isinstance(verdict, Mapping) else None
    ballots = judging.get("ballots") if isinstance(judging, Mapping) else None
    if not isinstance(ballots, list) or len(ballots) != 1 or not isinstance(ballots[0], Mapping):
        return False
    return ballots[0].get("scores") is None


def _human(plan: Plan, role: str) -> Human:
    """Create a human block; if the person cannot be asked right away, the run is suspended until they answer."""
    from flowdebate.blocks.human.human import human

    return human(name=f"{plan.name}-{role}", ask=None if plan.options.suspend else plan.ask)


def phases_in(options: Any) -> tuple[Phase, ...]:  # noqa: ANN401 - those of a debate
    """Return the phases set by a plan or by its format."""
    format_ = format_of(options, "debate")
    phase_list = None if format_ is None else format_.phases or None
    if options.phases is not None:
        phase_list = [phase.model_dump(exclude_none=True) for phase in options.phases]
    return check_phases(phase_list, location="options", members=max_members())


def audience_in(options: DebatePlanOptions) -> Sequence[str]:
    """Return the listeners set by a plan or by its format."""
    format_ = format_of(options, "debate")
    return options.audience or (() if format_ is None else format_.audience)


PAGE = DebatePage()
