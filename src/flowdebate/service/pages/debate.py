"""Page of a debate: options, decisions of the moderator, arguments, verdict, output."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from flowdebate.errors import ConfigurationError
from flowdebate.patterns.debate.judging.schemas import DecidedBy, OnFlip  # noqa: TC001 - pydantic reads them
from flowdebate.patterns.debate.schemas import (
    BaselineName,
    DebateRawOutput,
    JudgeViewMade,
    ModeratorDecided,
    VerdictReached,
)
from flowdebate.patterns.events import RoundStarted
from flowdebate.service.default_sides import default_sides
from flowdebate.service.documents import Document, Side
from flowdebate.service.files import read_text
from flowdebate.service.live import OneByOne, failures, round_heading
from flowdebate.service.options import (
    COMMAND,
    MEGABYTES,
    Count,
    Flag,
    ModelName,
    ModelNames,
    Option,
    OutputOptions,
    RosterEntry,
    Text,
    allowed,
    is_text,
)
from flowdebate.service.page import PatternPage
from flowdebate.service.roster import roster
from flowdebate.service.sections import Card, Entry, Fact, Group, Notice, Output, Section

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from flowdebate.blocks.base import Block
    from flowdebate.blocks.human.human import Human
    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.patterns.debate.judging.options import JudgeOptions
    from flowdebate.patterns.debate.judging.schemas import Judging
    from flowdebate.patterns.debate.schemas import DebateModeratorDecision, DebateVerdict
    from flowdebate.patterns.roster import Debater
    from flowdebate.service.plan import Models, Plan

__all__ = ("PAGE", "DebateDocument", "DebateLive", "DebateOptions", "ballots_of", "parse_side", "winner_of")

_AT_THE_END = ("judge", "synthesizer")
"""Roles that act after all rounds."""
_JUDGING = ("schedule", "panel", "decided_by", "on_flip", "labels", "curtail")
"""Options of a judging model."""


def parse_side(given: str) -> dict[str, str]:
    """A debater as the command line names it.

    >>> parse_side("skeptic = cars should stay")
    {'name': 'skeptic', 'stance': 'cars should stay'}
    """
    name, sign, stance = (part.strip() for part in given.partition("="))
    if not sign or not is_text(name) or not is_text(stance):
        raise ConfigurationError(COMMAND, "--debater", given, "name=stance")
    return {"name": name, "stance": stance}


class SideEntry(RosterEntry):
    """A debater, as a file has it."""

    name: Text
    stance: Text
    role: Text | None = None
    model: ModelName | None = None


class DebateOptions(OutputOptions):
    """Options of a debate."""

    SUBJECT: ClassVar[str] = "question"

    question: Annotated[Text | None, Option(help="The question; may be in --file instead.")] = None
    debaters: Annotated[
        list[SideEntry] | None,
        Option(
            flag="--debater",
            metavar="NAME=STANCE",
            help="A side and the position it argues; repeat for each. Default: one for yes and one for no.",
            read=lambda given: [parse_side(each) for each in given],
        ),
    ] = None
    rounds: Annotated[Count | None, Option(help="Maximum number of rounds. Default: 2.")] = None
    moderator: Annotated[
        Flag | None, Option(help="A moderator opens each round, picks its speakers and may end the debate.")
    ] = None
    humans: Annotated[
        Annotated[list[Text], allowed("a list of names of debaters, judge, moderator")] | None,
        Option(
            flag="--human",
            metavar="ROLE",
            help="A role that a human plays: a side's name, judge or moderator; repeat for each.",
        ),
    ] = None
    suspend: Annotated[
        Flag | None,
        Option(help="Let humans answer later, with flowdebate answer. Default without a terminal."),
    ] = None
    sources: Annotated[
        Annotated[list[Text] | dict[str, Text], allowed("a list of paths of text files, or a table of texts by name")]
        | None,
        Option(
            flag="--source", metavar="FILE", help="A text to quote from; repeat for each. Quotes are verified in it."
        ),
    ] = None
    baselines: Annotated[
        Annotated[
            bool | list[BaselineName],
            allowed("true, false, or a list of some of single, drafts, self_consistency"),
        ]
        | None,
        Option(help="Also ask without a debate: once, and by votes."),
    ] = None
    schedule: Annotated[
        Text | None,
        Option(
            metavar="NAME",
            help="Orders in which the judge sees the sides: single, swap, cyclic, full, sampled(N). Default: single.",
        ),
    ] = None
    panel: Annotated[
        ModelNames | None,
        Option(metavar="SPEC", help="Model of a panel of judges; repeat for each. Each casts its own ballots."),
    ] = None
    decided_by: Annotated[
        DecidedBy | None, Option(help="Average the scores of all ballots, or count each ballot for one side.")
    ] = None
    on_flip: Annotated[
        OnFlip | None,
        Option(help="What to do if a judge decides otherwise in another order. Default: average."),
    ] = None
    labels: Annotated[Flag | None, Option(help="Call the sides A, B, … before the judge, not by their stances.")] = None
    curtail: Annotated[Flag | None, Option(help="Skip ballots that could not change the winner.")] = None


class DebateDocument(Document):
    """A saved debate."""

    TITLE: ClassVar[str] = "Debate"
    LABEL: ClassVar[str] = "Question"
    SPEAKERS: ClassVar[str] = "Positions"
    ENDINGS: ClassVar[Mapping[str, str]] = {
        "max_rounds": "as many as were allowed",
        "moderator_done": "ended by the moderator",
        "predicate": "ended by the application",
    }
    pattern: str = "debate"
    debaters: list[Side] = Field(default_factory=list)
    max_rounds: int | None = None
    raw: DebateRawOutput
    output: Any = None
    """The synthesizer's, as plain JSON data; None without one."""

    @model_validator(mode="after")
    def _a_whole_debate_has_a_verdict(self) -> DebateDocument:
        if self.status in {"complete", "degraded"} and self.raw.verdict is None:
            message = "a debate that came to its end has a verdict"
            raise ValueError(message)
        return self

    def spoke(self) -> list[Side]:
        spoke = {(entry.agent_name, entry.stance): None for entry in self.raw.transcript}
        return [Side(name=name, stance=stance) for name, stance in spoke]

    @property
    def found(self) -> bool:
        return self.raw.verdict is not None

    @property
    def notes(self) -> list[str]:
        from flowdebate.service.fairness import notes_on

        return notes_on(self.raw, self.usage)

    def sections(self) -> Iterator[Section]:
        raw = self.raw
        told = {entry.round for entry in raw.transcript} | {decision.round for decision in raw.moderator_decisions}
        for number in sorted(told):
            yield round_heading(number, self.max_rounds)
            for decision in raw.moderator_decisions:
                if decision.round == number:
                    yield _decision(decision)
            for entry in raw.transcript:
                if entry.round == number:
                    yield Entry(name=entry.agent_name, about=entry.stance, text=entry.text)
            yield from failures(each for each in raw.losses if each.round == number and each.seat not in _AT_THE_END)
        yield from failures(each for each in raw.losses if each.seat in _AT_THE_END)
        if raw.verdict is not None:
            yield _verdict(raw.verdict, self.speakers)
        if self.output is not None:
            yield Output(value=self.output)


class DebateLive(OneByOne):
    """A debate as it goes on."""

    _weighing = False

    def sections(self, event: object) -> Iterator[Section]:
        yield from super().sections(event)
        match event:
            case RoundStarted() if self.plan.options.moderator:
                yield Notice(text="The moderator opens the round …")
            case ModeratorDecided():
                yield _decision(event.decision)
            case JudgeViewMade() if not self._weighing:  # once for all views and models
                self._weighing = True
                yield Notice(text="The judge weighs the arguments …")
            case VerdictReached():
                yield _verdict(event.verdict, self.plan.speakers)
                yield from self.await_output()
            case _:
                pass


def winner_of(verdict: DebateVerdict, sides: Sequence[Side | Debater]) -> str:
    """Who won, by name and stance.

    >>> from flowdebate.patterns.debate.schemas import DebateVerdict
    >>> winner_of(DebateVerdict(verdict="v", winner="cap rents", reasoning="r"), [Side(name="a", stance="cap rents")])
    'a (cap rents)'
    """
    if verdict.winner is not None:
        names = ", ".join(side.name for side in sides if side.stance == verdict.winner)
        return f"{names} ({verdict.winner})" if names else verdict.winner
    judging = verdict.judging
    if judging is None or len(judging.ballots) < 2:  # noqa: PLR2004 - a judge that was asked once
        return "none, the answer combines several positions"
    return {"abstain": "none, the judge abstains", "tie": "none, a tie"}.get(judging.on_flip or "tie", "none")


def ballots_of(judging: Judging) -> str | None:
    """The ballots, in a line; None for a judge that was asked once.

    >>> from flowdebate.patterns.debate.judging.schemas import JudgeBallot, Judging
    >>> both = [JudgeBallot(order=["a", "b"], winner="a"), JudgeBallot(order=["b", "a"], winner="b")]
    >>> ballots_of(Judging(schedule="swap", ballots=both, planned=2, scores={"a": 0.5, "b": 0.5}, flipped=True))
    '2 (swap), which disagree: a 0.50, b 0.50'
    """
    if judging.planned == 1:
        return None
    lost = sum(ballot.problem is not None for ballot in judging.ballots)
    notes = [judging.schedule]
    notes += [f"{lost} could not be used"] * bool(lost)
    notes += [f"{judging.saved} saved"] * bool(judging.saved)
    shares = ", ".join(f"{side} {share:.2f}" for side, share in judging.scores.items())
    flipped = ", which disagree" if judging.flipped else ""
    return f"{len(judging.ballots)} ({', '.join(notes)}){flipped}: {shares}"


def _decision(decision: DebateModeratorDecision) -> Group:
    parts = (("Briefing", decision.briefing), ("Angle", decision.new_angle))
    return Group(
        label="Moderator calls on",
        text=", ".join(decision.next_speakers) or "nobody",
        parts=tuple(Fact(label=label, text=text, tone="dim") for label, text in parts if text),
        remark="This round is the last." if decision.done else None,
    )


def _verdict(verdict: DebateVerdict, sides: Sequence[Side | Debater]) -> Card:
    facts = [
        Fact(label="Winner", text=winner_of(verdict, sides), tone="good", short=True),
        Fact(label="Verdict", text=verdict.verdict),
        Fact(label="Reasoning", text=verdict.reasoning),
    ]
    if verdict.judging is not None and (ballots := ballots_of(verdict.judging)) is not None:
        facts.append(Fact(label="Ballots", text=ballots, tone="dim", short=True))
    return Card(title="Verdict", facts=tuple(facts))


class DebatePage(PatternPage):
    """What a debate adds to the service."""

    help = (
        "Hold a debate and show it as it goes on: the sides argue their positions, a judge decides, and a "
        "synthesizer writes the output."
    )
    options = DebateOptions
    document = DebateDocument
    live = DebateLive
    default_length = 2

    def speakers(self, options: DebateOptions, made: Models) -> tuple[Any, ...]:
        from flowdebate.patterns.roster import Debater

        return roster(options, made, kind=Debater, default=default_sides(str(options.question)))

    def empty(self) -> dict[str, Any]:
        return {"transcript": [], "verdict": None, "stop_reason": None}

    def with_files(self, options: DebateOptions) -> DebateOptions:
        """With the texts of sources in the place of their files: a stored run needs the texts themselves."""
        if not isinstance(options.sources, list):
            return options
        where, field = options.place("sources")
        texts: dict[str, str] = {}
        for path in options.sources:
            place = options.folder("sources") / path
            if place.name in texts:
                raise ConfigurationError(where, field, path, "a file of another name than the others")
            texts[place.name] = read_text(str(place), megabytes=MEGABYTES)
            if not is_text(texts[place.name]):
                raise ConfigurationError(where, field, path, "a file with text in it")
        return options.replaced(sources=texts)

    def check(self, plan: Plan) -> None:
        options: DebateOptions = plan.options
        roles = [*(debater.name for debater in plan.speakers), "judge", "moderator"]
        humans = set(options.humans or ())
        if not humans.issubset(roles):
            allowed = f"among {', '.join(roles)}"
            raise ConfigurationError(*options.place("humans"), sorted(humans.difference(roles)), allowed)
        if self._judging(plan) is not None and "judge" in humans:
            allowed = "left out where options of a judging model are given"
            raise ConfigurationError(*options.place("humans"), "judge", allowed)

    def build(self, plan: Plan) -> Sequencer[Any, Any]:
        from flowdebate.patterns.debate import debate
        from flowdebate.patterns.debate.transcript import create_debate_transcript

        options: DebateOptions = plan.options
        humans = set(options.humans or ())
        transcript = create_debate_transcript()
        return debate(
            **plan.common,
            debaters=[
                replace(each, block=_human(plan, f"debater-{each.name}")) if each.name in humans else each
                for each in plan.speakers
            ],
            max_rounds=plan.length,
            moderator=self._moderator(plan, transcript, humans),
            judge=_human(plan, "judge") if "judge" in humans else self._judging(plan),
            sources=options.sources if isinstance(options.sources, dict) and options.sources else None,
            baselines=options.baselines or False,
            synthesizer=None if options.synthesizes else False,
            transcript=transcript,
            output_schema=plan.schema,
            on_failure=plan.on_failure,
        )

    def _moderator(self, plan: Plan, transcript: Any, humans: set[str]) -> Block[Any, Any] | None:  # noqa: ANN401 - a resource
        from flowdebate.patterns.debate.moderator import create_moderator

        if "moderator" in humans:
            return _human(plan, "moderator")
        if not plan.options.moderator:
            return None
        return create_moderator(
            **plan.common,
            roster_names=[debater.name for debater in plan.speakers],
            transcript=transcript,
            max_rounds=plan.length,
        )

    def _judging(self, plan: Plan) -> JudgeOptions | None:
        """What was said about the judge; None for nothing."""
        from flowdebate.patterns.debate.judging.options import JudgeOptions
        from flowdebate.patterns.debate.judging.schedules import as_schedule

        options: DebateOptions = plan.options
        if all(getattr(options, key) is None for key in _JUDGING):
            return None
        where, field = options.place("schedule")
        schedule = as_schedule(options.schedule or "single", where=where, field=field)
        where, field = options.place("panel")
        on_flip: Literal["average", "abstain", "tie", "human"] = options.on_flip or "average"
        if options.curtail and on_flip != "average":
            allowed = "left out with another --on-flip than average"
            raise ConfigurationError(*options.place("curtail"), True, allowed)  # noqa: FBT003
        return JudgeOptions(
            schedule=schedule,
            models=[plan.made(spec, where, f"{field}[{index}]") for index, spec in enumerate(options.panel or ())],
            decided_by=options.decided_by or "mean",
            on_flip=on_flip,
            labels=bool(options.labels),
            curtail=bool(options.curtail),
            ask=plan.ask if on_flip == "human" else None,
        )


def _human(plan: Plan, role: str) -> Human:
    """A human who is asked here and now, or answers later."""
    from flowdebate.blocks.human.human import human

    return human(name=f"{plan.name}-{role}", ask=None if plan.options.suspend else plan.ask)


PAGE = DebatePage()
