"""Data models for debates: input, contributions, decisions, verdicts, state, raw output.

Names are snake_case in Python and camelCase on the wire: `model_dump(by_alias=True)` and
`model_dump_json(by_alias=True)` produce the wire format used by `debate` in flow-state-dev, and both spellings can be
loaded. Values are frozen, so changing one means creating a new one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field, model_validator

from flowdebate._util.wire import WireModel, as_list, new_dict, new_list
from flowdebate.chassis.anonymity.aliases import LeakReport
from flowdebate.chassis.output import PatternOutput
from flowdebate.chassis.state import (
    Contribution,
    DebateStatus,
    NamedStop,
    PatternInput,
    PatternState,
    ProviderFailure,
    TranscriptState,
    TurnOrder,
    is_declared,
)
from flowdebate.patterns.debate.judging.ballots import Judging
from flowdebate.prompts import quoted, tag_name, tag_text

from .baseline_names import BaselineName

if TYPE_CHECKING:
    from .phases import Phase


Count = Annotated[int, Field(ge=0)]


class BaselineAnswer(WireModel):
    """Answer from one baseline, obtained without a debate."""

    name: BaselineName
    winner: str | None
    """Position with the most votes, or None if several are tied or there are no votes."""
    votes: dict[str, Count]
    """Number of votes for each position, with the positions in the debate's order."""
    calls: Count
    """Number of requests, including failed ones."""
    prompt_tokens: int | None = None
    """Number of prompt tokens, or None if a server does not report it."""
    cached_tokens: int | None = None
    """Number of prompt tokens read from the server's cache."""
    completion_tokens: int | None = None
    cost: float | None = None
    """Cost according to the `prices` in the run's limits, or None if there are no prices."""
    lost: Count = 0
    """Number of answers requested but not received."""
    problem: str | None = None
    """Reason why the first missing answer could not be obtained, or None if no answers are missing."""

    @property
    def tokens(self) -> int | None:
        """Total number of prompt and completion tokens, or None if either is unknown."""
        is_counted = self.prompt_tokens is not None and self.completion_tokens is not None
        return (self.prompt_tokens or 0) + (self.completion_tokens or 0) if is_counted else None

    @property
    def leaders(self) -> list[str]:
        """Positions with the most votes: more than one if they are tied, none if there are no votes."""
        highest = max(self.votes.values(), default=0)
        return [position for position, votes in self.votes.items() if votes == highest] if highest else []


def _is_none(value: object) -> bool:
    return value is None


StopReason = Literal["max_rounds", "moderator_done", "predicate"] | NamedStop
"""Reason why a debate ended: `max_rounds` was reached, the moderator ended it, or `terminate_when` was true.

A condition is recorded by its name, or as "predicate" if it has no name.
"""


PHASE_NAME = r"^[^\W_][\w '’()/-]{0,59}$"
"""Regular expression for valid phase names; the names appear in transcript headings, so they must be parseable."""
EntryKind: TypeAlias = Literal["question", "answer"]
"""Role of an entry in a cross-examination."""


class DebateInput(PatternInput):
    """Input for a debate."""

    question: str


class DebateTurn(DebateInput):
    """Input for a debater in a debate with phases, stating the purpose of the turn."""

    phase: str
    aim: str | None = None
    """Task for all debaters in the phase, or None to argue as in any other round."""
    kind: EntryKind | None = None
    """Kind of turn: "question" or "answer", or None for an argument."""
    to: str | None = None
    """Name of the debater to ask or answer."""
    to_stance: str | None = None
    """Position of the debater to ask or answer."""
    question_to_answer: str | None = None
    """Question for the debater to answer."""

    def entry_facts(self) -> dict[str, Any]:
        return {"phase": self.phase, "kind": self.kind, "to": self.to, "to_stance": self.to_stance}

    def task_for_human(self) -> str:
        """Describe the turn's task to a human debater."""
        lines = [f"Phase: {self.phase}", *([] if self.aim is None else [f"What to do in it: {quoted(self.aim)}"])]
        if self.to is not None:
            who = f"{tag_name(self.to)}, who argues for: {tag_text(self.to_stance or '')}"
            lines.append(f"Ask one question of {who}" if self.kind == "question" else f"Answer the question of {who}")
        return "\n".join(
            [*lines, *([] if self.question_to_answer is None else [f"The question: {quoted(self.question_to_answer)}"])]
        )


class DebateContributionEntry(Contribution):
    """One argument in the transcript."""

    round: Annotated[int, Field(ge=1)]
    """Number of the argument's round, starting at 1."""
    agent_name: str
    """The debater's name."""
    stance: str
    """Position defended by the argument."""
    text: str
    """Verbatim text of the argument."""
    phase: Annotated[str | None, Field(pattern=PHASE_NAME)] = Field(default=None, exclude_if=_is_none)
    """Phase of the argument's round; None (and omitted from JSON) if the debate has no phases."""
    kind: EntryKind | None = Field(default=None, exclude_if=_is_none)
    """Kind of entry in a cross-examination: question or answer; None (and omitted from JSON) for an argument."""
    to: str | None = Field(default=None, exclude_if=_is_none)
    """Name of the debater being asked or answered."""
    to_stance: str | None = Field(default=None, exclude_if=_is_none)
    """Position of the debater being asked or answered."""


# not generic, because a type parameter would make pydantic build a validator at import time and search all installed
# packages
class DebateTranscriptState(TranscriptState):
    """All arguments so far, in chronological order."""

    entries: list[DebateContributionEntry] = Field(default_factory=new_list)


class DebateModeratorOutput(WireModel):
    """A moderator's decision when it opens a round."""

    reason: str | None = Field(default=None, exclude_if=_is_none)
    """Reason for leaving a side out of this round; None (and omitted from JSON) if nobody is left out."""
    next_speakers: Annotated[list[str], Field(strict=True), BeforeValidator(as_list)]
    """Speakers for this round, in order; a name that appears twice gets two turns."""
    briefing: str | None = None
    """Briefing for this round's debaters."""
    new_angle: str | None = None
    """Question for this round's debaters to focus on."""
    done: bool = False
    """True if this round is the last."""

    @model_validator(mode="after")
    def _check_speakers(self) -> DebateModeratorOutput:
        if not self.next_speakers and not self.done:
            message = "next_speakers may be empty only with done=true: a round without speakers would never end"
            raise ValueError(message)
        return self


class DebateModeratorDecision(DebateModeratorOutput):
    """A moderator's decision, along with the round it opens."""

    round: Annotated[int, Field(ge=1)]
    """Number of the round opened by the decision, starting at 1."""
    fallback: bool = False
    """True if the moderator's decision was unusable and all debaters speak in declared order instead."""
    added: list[str] = Field(default_factory=new_list, exclude_if=lambda added: not added)
    """Names appended to `next_speakers` because the default moderator's model wrongly left out a side.

    Omitted from JSON if there are none.
    """


class DebateVerdict(WireModel):
    """The judge's verdict."""

    verdict: str
    """The conclusion, in words."""
    winner: str | None
    """The winning stance; None for a synthesis of several."""
    reasoning: str
    """Reasoning behind the verdict."""
    judging: Judging | None = Field(default=None, exclude_if=_is_none)
    """All ballots behind the verdict; None (and omitted from JSON) for a custom judge.

    Models are not asked for this field, and any value in their answers is ignored.
    """
    unknown_winner: str | None = Field(default=None, exclude_if=_is_none)
    """Winner named by a custom judge if it is not one of the stances; `winner` is then None.

    None (and omitted from JSON) otherwise.
    """

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: Any, /) -> Any:  # noqa: ANN401 - pydantic's
        schema = handler.resolve_ref_schema(handler(core_schema))
        if handler.mode == "serialization":
            return schema
        for field_name in ("judging", "unknown_winner", "unknownWinner"):
            schema["properties"].pop(field_name, None)
        return schema


class JudgedVerdict(DebateVerdict):
    """Verdict from a built-in judge; its `judging` can be trusted."""


class SourceFact(WireModel):
    """A sentence from a source, verbatim apart from line breaks."""

    source: str
    text: str


class SortedFacts(WireModel):
    """Facts from the sources, grouped by a small model under the sides they support."""

    by_stance: dict[str, list[SourceFact]]
    """Facts supporting each stance, clearest first."""
    bias: dict[str, float]
    """Average log-odds of each stance across all facts."""


class DebateState(PatternState):
    """State of a debate, available as `ctx.sequencer.state`."""

    stances: dict[str, str] = Field(default_factory=new_dict)
    """Debaters' stances in declared order, keyed by name."""
    max_rounds: int | None = None
    moderator_decisions: list[DebateModeratorDecision] = Field(default_factory=new_list)
    """The moderator's decisions, one for each round so far; empty if there is no moderator."""
    stop_reason: StopReason | None = None
    """Reason why the rounds ended, or None while they continue."""
    verdict: DebateVerdict | None = None
    """The judge's verdict, or None if it has not been reached yet or the judge's provider failed."""
    mirrored: DebateRawOutput | None = None
    """The mirrored debate; None if it has not taken place yet or `mirror` is not set."""
    first_verdict: DebateVerdict | None = None
    """The judge's verdict on the original debate, excluding its mirror; None unless `mirror` is set."""
    facts: SortedFacts | None = None
    """Facts quoted at the start of turns in the concise profile; None if there are no sources or the facts have not
    been sorted yet.
    """
    phases: tuple[Any, ...] = ()
    """Phases in order; empty if the debate has none."""
    audience: list[AudienceVote] = Field(default_factory=new_list)
    """Votes cast so far, if the debate has an audience."""
    reader_questions: list[ReaderQuestion] = Field(default_factory=new_list)
    """Readers' questions, if the debate has been continued."""
    assignments: dict[str, DebateTurn] = Field(default_factory=new_dict)
    """Tasks for the turns in progress, keyed by debater; empty if the debate has no phases."""

    @property
    def phase(self) -> Phase | None:
        """Phase of the current round, or None if there are no phases or the last phase is over."""
        last = 0
        for phase in self.phases:
            last += phase.rounds
            if self.round <= last:
                current: Phase = phase
                return current if self.round else None
        return None

    @property
    def round_of_phase(self) -> int:
        """Number of the current round within its phase, starting at 1."""
        last = 0
        for phase in self.phases:
            if self.round <= last + phase.rounds:
                return self.round - last
            last += phase.rounds
        return self.round - last

    @property
    def phase_name(self) -> str | None:
        return None if (phase := self.phase) is None else phase.name

    @property
    def reader_question(self) -> str | None:
        """Reader's question to be answered in the current round, if any."""
        return next((question.text for question in self.reader_questions if question.round == self.round), None)

    def turn_of(self, name: str) -> DebateTurn | None:
        return self.assignments.get(name) if self.phases else None

    @property
    def decision(self) -> DebateModeratorDecision | None:
        """The moderator's decision for the current round, if any."""
        last = self.moderator_decisions[-1] if self.moderator_decisions else None
        return last if last is not None and last.round == self.round else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Winner:
    """The winning side of a debate."""

    stance: str
    debaters: tuple[str, ...]
    """Names of the side's debaters, in the order they first spoke."""


class ReaderQuestion(WireModel):
    """A question from a reader of a finished debate; answering it continues the debate."""

    round: Annotated[int, Field(ge=1)]
    """Round in which the question is answered."""
    text: str


class AudienceVote(WireModel):
    """One listener's votes before and after a debate."""

    voter: str
    """Description of the listener."""
    before: str | None = None
    """Position chosen before the debate, or None if the listener did not vote then."""
    after: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossQuestion:
    """A question asked in a cross-examination, and the answer to it."""

    question: DebateContributionEntry
    answer: DebateContributionEntry | None
    """The answer, or None if there was none."""


class DebateRawOutput(PatternOutput):
    """Raw output of a debate: the synthesizer's input or, with `synthesizer=False`, the pattern's output."""

    rounds: int
    question: str
    transcript: list[DebateContributionEntry]
    verdict: DebateVerdict | None
    """The judge's verdict, or None if the judge's provider failed or the debate ended before the verdict (see
    `status`).
    """
    moderator_decisions: list[DebateModeratorDecision] = Field(default_factory=new_list)
    """The moderator's decisions, one for each round; empty if there is no moderator."""
    stop_reason: StopReason | None = "max_rounds"
    """Reason why the rounds ended, or None if they were cut short."""
    status: DebateStatus = "complete"
    """Outcome of the run."""
    losses: list[ProviderFailure] = Field(default_factory=new_list)
    """Provider failures tolerated by the debate."""
    seed: int | None = None
    """The run's seed, used for the judge's shuffle."""
    leaks: LeakReport | None = Field(default=None, exclude_if=_is_none)
    """Names detected and hidden in arguments, or None (and omitted from JSON) if there are none."""
    baselines: list[BaselineAnswer] | None = Field(default=None, exclude_if=_is_none)
    """Answers obtained without a debate, or None (and omitted from JSON) unless `baselines` requests them."""
    turn_order: TurnOrder = Field(default="declared", exclude_if=is_declared)
    """Turn order in each round; omitted from JSON if it is "declared"."""
    mirrored: DebateRawOutput | None = Field(default=None, exclude_if=_is_none)
    """The debate repeated with the speakers in reverse order; `verdict` covers both debates.

    None (and omitted from JSON) unless `mirror` is set.
    """
    first_verdict: DebateVerdict | None = Field(default=None, exclude_if=_is_none)
    """The judge's verdict on `transcript`, excluding the mirrored debate; None (and omitted from JSON) unless `mirror`
    is set.
    """

    @property
    def cross_questions(self) -> list[CrossQuestion]:
        """Questions asked in all cross-examinations, with their answers, in chronological order."""
        questions: list[CrossQuestion] = []
        answers = [entry for entry in self.transcript if entry.kind == "answer"]
        for question in (entry for entry in self.transcript if entry.kind == "question"):
            pair = (question.round, question.to, question.agent_name)
            reply = next((answer for answer in answers if (answer.round, answer.agent_name, answer.to) == pair), None)
            if reply is not None:
                answers.remove(reply)
            questions.append(CrossQuestion(question=question, answer=reply))
        return questions

    reader_questions: list[ReaderQuestion] = Field(default_factory=new_list, exclude_if=lambda questions: not questions)
    """Readers' questions; empty (and omitted from JSON) unless the debate has been continued."""
    audience: list[AudienceVote] = Field(default_factory=new_list, exclude_if=lambda votes: not votes)
    """The audience's votes; empty (and omitted from JSON) if the debate has no audience."""

    def task_for_human(self) -> str | None:
        """Describe the verdict for a human synthesizer; return None if there is no verdict."""
        if self.verdict is None:
            return None
        winner = "nobody" if self.verdict.winner is None else tag_text(self.verdict.winner)
        task = f"The verdict: {quoted(self.verdict.verdict)}\nWinner: {winner}"
        return f"{task}\nReasoning: {quoted(self.verdict.reasoning)}\n\nMake the deliverable of it."

    def answer_courses(self) -> list[tuple[dict[str, list[str | None]], str | None]]:
        """Return each judging model's winners, one per ballot in view order, followed by the verdict's winner."""
        if self.verdict is None or self.verdict.judging is None:
            return []
        voices: dict[str, list[str | None]] = {}
        for ballot in self.verdict.judging.ballots:
            voices.setdefault(ballot.model or "judge", []).append(ballot.winner)
        return [(voices, self.verdict.winner)]

    @property
    def is_undisputed(self) -> bool | None:
        """True if every ballot agrees with the verdict's winner; None if there are fewer than two ballots."""
        ballots = [winner for voices, _ in self.answer_courses() for winners in voices.values() for winner in winners]
        if self.verdict is None or len(ballots) < 2:  # noqa: PLR2004 - one ballot cannot differ from another
            return None
        return self.verdict.winner is not None and {*ballots} == {self.verdict.winner}

    @property
    def found(self) -> DebateVerdict:
        """The verdict; raises LookupError if there is none (see `status` for the reason)."""
        if self.verdict is None:
            message = f"this debate has no verdict: its status is {self.status!r}"
            raise LookupError(message)
        return self.verdict

    @property
    def winner(self) -> Winner | None:
        """The winning stance and its debaters; None if there is no verdict or no stance won."""
        if self.verdict is None or self.verdict.winner is None:
            return None
        stance = self.verdict.winner
        names = dict.fromkeys(entry.agent_name for entry in self.transcript if entry.stance == stance)
        return Winner(stance=stance, debaters=tuple(names))

    @property
    def answer(self) -> str | None:
        """The verdict's conclusion, or None if there is no verdict."""
        return None if self.verdict is None else self.verdict.verdict

    @property
    def decision_word(self) -> str | None:
        """Name of the winning debater, or "no winner"."""
        if self.verdict is None:
            return None
        winners = (entry.agent_name for entry in self.transcript if entry.stance == self.verdict.winner)
        return next(winners, self.verdict.winner or "no winner")

    @property
    def decision_line(self) -> str | None:
        """The winner's name and stance, or only the stance if the two are identical."""
        name, stance = self.decision_word, None if self.verdict is None else self.verdict.winner
        if name is None or stance is None or stance.casefold() == name.casefold():
            return stance or name
        return f"{name}: {stance}"
