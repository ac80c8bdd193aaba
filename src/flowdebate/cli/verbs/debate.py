"""`flowdebate run`: sides argue round by round, a judge finds."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from flowdebate.cli import judging as judge  # noqa: TC001 - typer reads the annotations
from flowdebate.cli import options as opt  # noqa: TC001 - typer reads the annotations
from flowdebate.cli.command import carry_out
from flowdebate.cli.judging import JUDGE_KEYS, judge_options
from flowdebate.cli.keys import Given, Key, count, flag, text
from flowdebate.cli.plan import COMMON_KEYS, OUTPUT_KEYS, Models, Plan, common, output_schema
from flowdebate.cli.sides import default_sides
from flowdebate.cli.sources import SOURCES, SourceFiles, sources_of
from flowdebate.cli.speakers import roster, sides
from flowdebate.errors import ConfigurationError
from flowdebate.patterns.debate.schemas import BASELINES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flowdebate.blocks.base import Block
    from flowdebate.blocks.human.human import Ask, Human
    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.cli.document import DebateDocument
    from flowdebate.cli.keys import PlanFile
    from flowdebate.cli.page import Page
    from flowdebate.cli.pages.debate import DebateView
    from flowdebate.models.output import OutputSchema
    from flowdebate.patterns.debate.judging.options import JudgeOptions
    from flowdebate.patterns.debate.schemas import BaselineName
    from flowdebate.patterns.roster import Debater

__all__ = ("KEYS", "DebatePlan", "make_plan", "run")

_IS_BASELINE = BASELINES.__contains__

KEYS: Mapping[str, Key] = {
    "question": text("QUESTION"),
    "debaters": sides("--debater"),
    "rounds": count("--rounds"),
    "moderator": flag("--moderator"),
    "humans": Key(
        fits=lambda value: isinstance(value, list) and all(map(text().fits, value)),
        allowed="a list of names of debaters, judge, moderator",
        option="--human",
    ),
    "park": flag("--park"),
    "sources": SOURCES,
    "baselines": Key(
        fits=lambda value: isinstance(value, bool) or (isinstance(value, list) and all(map(_IS_BASELINE, value))),
        allowed=f"true, false, or a list of some of {', '.join(BASELINES)}",
        option="--baselines",
    ),
    **JUDGE_KEYS,
    **OUTPUT_KEYS,
    **COMMON_KEYS,
}


def run(  # noqa: PLR0913 - the options of the command
    *,
    question: opt.Subject = None,
    debaters: Annotated[
        list[str] | None,
        typer.Option(
            "--debater",
            metavar="NAME=STANCE",
            help="A side, and what it defends; once for each. Default: two sides, for yes and for no.",
        ),
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds at most. Default: 2.")] = None,
    moderator: Annotated[
        bool | None,
        typer.Option(
            "--moderator/--no-moderator", help="A moderator opens each round, picks speakers, may end the debate."
        ),
    ] = None,
    humans: Annotated[
        list[str] | None,
        typer.Option(
            "--human", metavar="SEAT", help="Who is human: a side's name, judge, moderator; once for each. It types."
        ),
    ] = None,
    park: Annotated[
        bool | None,
        typer.Option("--park/--no-park", help="Humans answer later: flowdebate answer. Without a terminal they do."),
    ] = None,
    sources: SourceFiles = None,
    baselines: Annotated[
        bool | None,
        typer.Option("--baselines/--no-baselines", help="Ask without a debate as well: once, and by votes."),
    ] = None,
    schedule: judge.ScheduleName = None,
    panel: judge.PanelModels = None,
    decided_by: judge.DecidedByName = None,
    on_flip: judge.OnFlipName = None,
    labels: judge.LabelsFlag = None,
    curtail: judge.CurtailFlag = None,
    model: opt.ModelSpec = None,
    judge_model: opt.JudgeModel = None,
    base_url: opt.BaseUrl = None,
    schema: opt.Schema = None,
    synthesize: opt.Synthesize = None,
    file: opt.File = None,
    seed: opt.Seed = None,
    max_calls: opt.MaxCalls = None,
    max_tokens: opt.MaxTokens = None,
    max_seconds: opt.MaxSeconds = None,
    attempts: opt.Attempts = None,
    fallback: opt.Fallback = None,
    on_failure: opt.OnFailure = None,
    record: opt.Record = None,
    replay: opt.Replay = None,
    store: opt.StoreName = None,
    no_store: opt.NoStore = False,
    as_json: opt.Json = False,
    markdown: opt.Markdown = None,
) -> None:
    """Hold a debate, and show it while it goes on. Sides argue their positions, a judge finds for one of them.

    A synthesizer writes an answer only where a schema or --synthesize asks for it.
    """
    carry_out(make_plan, dict(locals()))


@dataclass(frozen=True, kw_only=True)
class DebatePlan(Plan):
    """Everything that a debate is made of."""

    NAME: ClassVar[str] = "debate"
    VERB: ClassVar[str] = "run"
    moderator: bool
    schema: OutputSchema | None
    synthesize: bool
    humans: frozenset[str] = frozenset()
    """Seats, by name."""
    park: bool = False
    """Whether humans answer later."""
    sources: Mapping[str, str] | None = None
    baselines: bool | Sequence[BaselineName] = False
    judging: JudgeOptions | None = None
    """How the judge is asked; None for once."""

    def pattern(self) -> Sequencer[Any, Any]:
        from flowdebate.patterns.debate import debate
        from flowdebate.patterns.debate.moderator import create_moderator
        from flowdebate.patterns.debate.transcript import create_debate_transcript

        transcript = create_debate_transcript()
        moderator: Block[Any, Any] | None = None
        if "moderator" in self.humans:
            moderator = self._human("moderator")
        elif self.moderator:
            moderator = create_moderator(
                name=self.NAME,
                roster_names=[debater.name for debater in self.speakers],
                transcript=transcript,
                max_rounds=self.rounds,
                instructions=self.instructions,
            )
        return debate(
            name=self.NAME,
            debaters=[self._seated(debater) for debater in self.speakers],
            max_rounds=self.rounds,
            moderator=moderator,
            judge=self._human("judge") if "judge" in self.humans else self.judging,
            sources=self.sources,
            baselines=self.baselines,
            synthesizer=None if self.synthesize else False,
            transcript=transcript,
            output_schema=self.schema,
            instructions=self.instructions,
            on_failure=self.on_failure,
        )

    def _seated(self, debater: Debater) -> Debater:
        if debater.name not in self.humans:
            return debater
        return replace(debater, block=self._human(f"debater-{debater.name}"))

    def _human(self, seat: str) -> Human:
        """Who types where there is a terminal, and answers later where there is none."""
        from flowdebate.blocks.human.human import human

        return human(name=f"{self.NAME}-{seat}", ask=_ask(park=self.park))

    def document(self, raw: Any, output: object, /, **facts: Any) -> DebateDocument:  # noqa: ANN401 - of any run
        from flowdebate.cli.document import DebateDocument, speakers_of
        from flowdebate.patterns.debate.schemas import DebateRawOutput

        nothing = DebateRawOutput(
            rounds=0,
            question=self.subject,
            transcript=[],
            verdict=None,
            stop_reason=None,
            status="interrupted",
            seed=facts["seed"],
        )
        return DebateDocument(
            raw=nothing if raw is None else raw,
            output=output if self.synthesize else None,
            debaters=speakers_of(self.speakers),
            max_rounds=self.rounds,
            **facts,
        )

    def view(self, page: Page) -> DebateView:
        from flowdebate.cli.document import DebateDocument, speakers_of
        from flowdebate.cli.pages.debate import DebateView

        page.subject(DebateDocument.LABEL, self.subject)
        synthesizer = f"{self.NAME}-synthesizer" if self.synthesize else None
        sides = speakers_of(self.speakers)
        return DebateView(page, sides=sides, synthesizer=synthesizer, moderated=self.moderator)


def _ask(*, park: bool) -> Ask | None:
    """How a person is asked: in the terminal; None where it answers later."""
    from flowdebate.blocks.human.terminal import ask_in_terminal

    return None if park or not sys.stdin.isatty() else ask_in_terminal


def make_plan(options: Mapping[str, Any], *, file: PlanFile = None) -> DebatePlan:
    """The plan of what was given on the command line (None: not given), over what `file` says.

    ConfigurationError or BadFile for what cannot be debated; it names the option, or the file and the key.
    """
    from flowdebate.patterns.roster import Debater

    given = Given(KEYS, options, file)
    made = Models(given["base_url"])
    shared = common(given, made, subject="question", rounds=2)
    schema = output_schema(given)
    default = default_sides(shared["subject"])
    speakers = roster(given, made, key="debaters", kind=Debater, default=default)
    humans = frozenset(given["humans"] or ())
    seats = [*(debater.name for debater in speakers), "judge", "moderator"]
    if not humans.issubset(seats):
        where, field = given.place("humans")
        raise ConfigurationError(where, field, sorted(humans.difference(seats)), f"among {', '.join(seats)}")
    judging = judge_options(given, made, ask=_ask(park=bool(given["park"])))
    if judging is not None and "judge" in humans:
        where, field = given.place("humans")
        raise ConfigurationError(where, field, "judge", "left out where options of a judging model are given")
    return DebatePlan(
        **shared,
        judging=judging,
        sources=sources_of(given),
        baselines=given.get("baselines", False),
        speakers=speakers,
        humans=humans,
        park=bool(given["park"]),
        moderator=bool(given["moderator"]) or "moderator" in humans,
        schema=schema,
        synthesize=schema is not None or bool(given["synthesize"]),
    )
