"""State shared by all patterns, functions for reading it, and events emitted by all patterns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, Self, TypeAlias, get_args

from pydantic import AfterValidator, BaseModel, Field, ValidationError
from typing_extensions import TypeVar

from flowdebate._text import cut, error_text, problems_of, short_repr
from flowdebate._util.wire import BaseEvent, BlockEvent, FrozenList, WireModel, new_list, share_fields_set
from flowdebate.errors import MalformedResponse, OutputError, SchemaViolation
from flowdebate.store.base import RunStatus

if TYPE_CHECKING:
    from flowdebate.runs.context import Context

T = TypeVar("T")
InputT = TypeVar("InputT", bound="PatternInput")

Role: TypeAlias = str
"""Role of an actor in a pattern.

One of "debater" (any speaker: debaters, personas, agents, members), "moderator", "judge", "synthesizer", "referee",
"reviewer" or "chair". In a debate, also "proposer" (the model that proposes the sides) and "baseline". Other patterns
may define more.
"""


def _check_one_line(text: str) -> str:
    if not text.isprintable():
        message = "a stop reason must be one line of printable text"
        raise ValueError(message)
    return text


Recovery = Literal[
    "skipped",
    "stand_in",
    "declared_order",
    "no_verdict",
    "no_output",
    "no_report",
    "drawn",
    "cut_off",
    "empty",
    "unheard",
    "not_counted",
    "next_step",
    "earlier_answer",
]
"""Action taken to recover from a provider failure.

The turn is skipped, another model argues, all debaters speak in declared order, there is no verdict, there is no
output, the round has no report, or the next speaker is drawn at random. An escalation either continues with its next
step or keeps an earlier step's answer.

Other values mark flaws that would otherwise go unnoticed in a result: a truncated or empty argument, a stance without
an assigned debater, or an invalid winner (not one of the stances), which is ignored.
"""

TurnOrder: TypeAlias = Literal["declared", "rotated", "shuffled", "simultaneous"]
"""Order of turns in a round.

Speakers take turns in declared order (or as the moderator decides), in rotation (each round starts with the next
speaker), in random order each round, or all at once.
"""
TURN_ORDERS: tuple[TurnOrder, ...] = get_args(TurnOrder)

Flag = Literal["cut_off", "empty"]
"""Fault in a contribution: its text is truncated or empty."""
FLAGS: tuple[Flag, ...] = get_args(Flag)

NamedStop = Annotated[str, AfterValidator(_check_one_line)]
"""A stop reason named after the `terminate_when` condition that was met; it is printable and fits on one line."""

DebateStatus: TypeAlias = RunStatus
"""Status of a debate, identical to the status of its run."""


def is_declared(turn_order: object) -> bool:
    """Return whether the turn order is the default; raw outputs omit the default."""
    return turn_order == "declared"


class ProviderFailure(WireModel):
    """Failure tolerated by the pattern; usually, a provider did not answer."""

    round: int
    """The round in which the failure occurred; for judges and synthesizers, the last round."""
    role: Role
    """Role of the failed block."""
    name: str
    """The debater's name or, for other roles, the block's name."""
    stance: str | None = None
    """The debater's stance; None for other roles."""
    error: str
    """The error's class and message."""
    instead: Recovery
    """Action taken to recover from the failure."""
    phase: str | None = Field(default=None, exclude_if=lambda phase: phase is None)
    """The turn's task; None (and omitted from JSON) unless the pattern has several kinds of tasks."""
    target: str | None = Field(default=None, exclude_if=lambda target: target is None)
    """The author of the text that the task is about; None (and omitted from JSON) if there is no such text."""

    @property
    def error_type(self) -> str:
        """The class name of the error."""
        return self.error.partition(":")[0]


class CutAnswer(WireModel):
    """Answer in which a speaker also wrote another speaker's turn.

    The transcript contains only the part before that turn.
    """

    round: int
    """The round in which the answer was given."""
    name: str
    """The name of the speaker who gave the answer."""
    other: str
    """The name of the other speaker, whose turn is part of the answer."""
    answer: str
    """The complete answer."""


class PatternInput(WireModel):
    """Pattern input whose only field is the pattern's subject."""

    @property
    def subject(self) -> str:
        """The question, the topic, the proposition or the task."""
        return str(getattr(self, next(iter(type(self).model_fields))))

    def entry_facts(self) -> dict[str, Any]:
        """Return the fields that describe the turn's task in its transcript entry."""
        return {}

    @classmethod
    def about(cls, subject: str) -> Self:
        """Create an input with `subject` as its only field."""
        new_state: Self = _about(cls, subject)
        return new_state


@lru_cache(maxsize=64)  # cached: every turn of a run needs the same value
def _about(kind: type[InputT], subject: str) -> InputT:
    return kind(**{next(iter(kind.model_fields)): subject})


class EscalationStep(WireModel):
    """One step of an escalation: its answer, its cost and, if it ended the escalation, the reason."""

    name: str
    """The name of the step's block."""
    answer: str | None
    """The answer as text; None if the step gave no answer."""
    reason: str | None = None
    """Reason why the escalation ended with this step, for example "agrees with first"; None if it continued."""
    calls: int = 0
    """Number of calls made by the step, not counting `check_calls`."""
    tokens: int | None = 0
    """Number of tokens used by the calls counted in `calls`; None if a server did not report its usage."""
    check_calls: int = 0
    """Number of calls made to decide whether the escalation ends with this step."""
    check_tokens: int | None = 0
    """Number of tokens used by the calls counted in `check_calls`."""


class Older(WireModel):
    """Summary that replaces the contributions of the earliest rounds in prompts."""

    rounds: int
    """Number of rounds summarized, starting with the first round."""
    text: str


class PatternState(WireModel):
    """Base class for the state of a pattern's sequencer; each pattern adds its own fields."""

    question: str = ""
    """The subject: the question, the topic, the proposition or the task."""
    round: int = 0
    """Current round (or turn) number, starting at 1; 0 before the first round."""
    losses: list[ProviderFailure] = Field(default_factory=new_list)
    """Provider failures so far, in order."""
    cut_answers: list[CutAnswer] = Field(default_factory=new_list)
    """Answers so far in which a speaker also wrote another speaker's turn."""
    stop_reason: str | None = None
    """Reason why the loop ended; None while it is running."""
    older: Older | None = None
    """Summary of the rounds before the history window; None if there are no such rounds."""

    @property
    def phase_name(self) -> str | None:
        """Name of the current round, if the pattern names its rounds."""
        return None

    def turn_of(self, name: str) -> PatternInput | None:  # noqa: ARG002 - for the patterns
        """Return the task for the current turn of the speaker `name`, or None if the pattern assigns no tasks."""
        return None

    def texts_by_speaker(self, ctx: Context) -> dict[str, list[str]]:
        """Return each speaker's contributions so far, in order, excluding empty ones."""
        texts: dict[str, list[str]] = {}
        for entry in entries_of(ctx):
            if entry.flag != "empty":
                texts.setdefault(entry.speaker, []).append(entry.text)
        return texts


class Contribution(WireModel):
    """Base class for all transcript entries."""

    flag: Flag | None = Field(default=None, exclude_if=lambda flag: flag is None)
    """Fault in the contribution; None (and omitted from JSON) if it has no fault."""

    @property
    def speaker(self) -> str:
        """The speaker's name, regardless of the field name used by the pattern."""
        name: str = getattr(self, "agent_name")  # noqa: B009 - a field of most patterns' entries
        return name


EntryT = TypeVar("EntryT", bound=Contribution, default=Any)


class TranscriptState(WireModel, Generic[EntryT]):
    """A pattern's transcript: its entries in order.

    Specify the type parameter when creating a transcript rather than at import time, because pydantic builds a
    validator for each parametrized class.
    """

    entries: list[EntryT] = Field(default_factory=new_list)

    def with_entry(self, *entries: Contribution) -> Self:
        """Return a transcript with `entries` appended."""
        for entry in entries:
            share_fields_set(entry)
        return self.with_entries((*self.entries, *entries))

    def with_entries(self, entries: Iterable[Contribution]) -> Self:
        return self.model_copy(update={"entries": FrozenList(entries)})


ModelT = TypeVar("ModelT", bound=BaseModel)
StateT = TypeVar("StateT", bound=PatternState)


def pattern_state(ctx: Context) -> PatternState:
    """Return the state of the enclosing pattern, or a new state if the block is used outside a pattern."""
    handle = ctx.scope.sequencer  # `state_of` is bypassed for speed, because each turn needs the state several times
    return handle.state if handle is not None and isinstance(handle.state, PatternState) else PatternState()


def state_of(ctx: Context, kind: type[StateT]) -> StateT:
    """Return the enclosing pattern's state if it is an instance of `kind`; otherwise, return a new instance."""
    handle = ctx.scope.sequencer  # the state is of a different class if a block from one pattern is used in another
    return handle.state if handle is not None and isinstance(handle.state, kind) else kind()


def round_of(ctx: Context) -> int:
    """Return the current round; 1 if the block is used outside a pattern."""
    return max(pattern_state(ctx).round, 1)


def entries_of(ctx: Context) -> Sequence[Any]:
    """Return the entries in the pattern's transcript so far."""
    entries: Sequence[Any] = ctx.scope.handles["transcript"].state.entries
    return entries


def recent_entries(ctx: Context) -> Sequence[Any]:
    """Return the entries to show in prompts, excluding those replaced by a summary."""
    older = pattern_state(ctx).older
    return entries_of(ctx) if older is None else [entry for entry in entries_of(ctx) if entry.round > older.rounds]


def derived(ctx: Context, key: object, start: T, extend: Callable[[T, Sequence[Any], int], T]) -> T:
    """Update a value derived from the transcript by calling `extend(so_far, entries, count)`.

    `so_far` is the value for the first `count` entries. A pattern's transcript only grows, so each turn extends the
    previous turn's value. For any other transcript, the value is computed from all entries.
    """
    transcript, handle = ctx.scope.handles["transcript"], ctx.scope.sequencer
    entries: Sequence[Any] = transcript.state.entries
    if handle is None or not transcript.protected:  # any block may have replaced an unprotected transcript
        return extend(start, entries, 0)
    progress: tuple[int, T] = handle.derived.get(key, (0, start))
    count, so_far = progress
    if count < len(entries):
        so_far = extend(so_far, entries, count)
        handle.derived[key] = (len(entries), so_far)
    return so_far


def has_contributions(ctx: Context) -> bool:
    """Return whether anyone has contributed to the pattern so far."""
    return any(entry.flag != "empty" for entry in entries_of(ctx))


def question_of(value: object, ctx: Context) -> str:
    """Return the subject of the pattern or, outside a pattern, the block's input."""
    if question := pattern_state(ctx).question:
        return question
    return value.subject if isinstance(value, PatternInput) else str(value)


async def accepted(read: Callable[[], T], ctx: Context, *, returns: object, custom: bool) -> T:
    """Parse a block's answer with `read`; a custom block's value is recorded, to be replayed if the run is resumed.

    Answers from models need not be recorded here, because the model calls record them. An answer rejected by `read` is
    not recorded, because the block may be fixed before the run is resumed.
    """

    async def call() -> T:
        return read()

    return await ctx.decide(call, returns=returns) if custom else read()


def as_model(value: object, model: type[ModelT], *, block: str) -> ModelT:
    """Convert a block's output to `model`; raise an OutputError naming the block and each invalid field.

    The output may be an instance of `model`, another model with the same fields, or a dict in either key style.
    """
    try:
        data = value
        if isinstance(value, model):  # revalidate: the instance may be unvalidated, and a subclass may have more fields
            data = {name: getattr(value, name) for name in model.model_fields if hasattr(value, name)}
        elif isinstance(value, BaseModel):
            data = value.model_dump(warnings=False)
        return model.model_validate(data)
    except ValidationError as error:
        raise OutputError(block, f"a {model.__name__}", problems_of(error, show=short_repr)) from None
    except Exception as error:  # a malicious mapping may raise any exception
        problem = f"got {short_repr(value)}, which raises {error_text(error)}"
        raise OutputError(block, f"a {model.__name__}", [("", problem)]) from error


@dataclass(slots=True, kw_only=True)
class RoundStarted(BaseEvent):
    """A round of a debate begins."""

    kind: ClassVar[str] = "round_started"
    round: int
    """The round number, starting at 1."""
    max_rounds: int
    """The maximum number of rounds in the debate."""
    phase: str | None = None
    """Purpose of the round, if the debate has phases."""


@dataclass(slots=True, kw_only=True)
class TurnsOrdered(BaseEvent):
    """The order of a round's turns, emitted unless `turn_order` is "declared" and every speaker keeps their place."""

    kind: ClassVar[str] = "turns_ordered"
    round: int
    """The round number, starting at 1."""
    turn_order: TurnOrder
    """The `turn_order` option of the round's phase or, if the phase has none, of the pattern."""
    speakers: tuple[str, ...]
    """Names of the speakers in turn order; if turns are simultaneous, in the order in which they are recorded."""


@dataclass(slots=True, kw_only=True)
class TurnEvent(BlockEvent):
    """A debater's or agent's turn."""

    block: str
    """The name of the speaker's block."""
    round: int
    """The round number, starting at 1; 0 before the first round."""
    agent_name: str
    """The name of the debater or agent."""
    stance: str | None = None
    """The position assigned by the pattern, if any."""
    phase: str | None = None
    """The turn's task, if the pattern has several kinds of tasks."""
    target: str | None = None
    """The author of the text that the task is about, if any."""


@dataclass(slots=True, kw_only=True)
class TurnStarted(TurnEvent):
    """A debater or agent is asked to speak."""

    kind: ClassVar[str] = "turn_started"


@dataclass(slots=True, kw_only=True)
class TurnFinished(TurnEvent):
    """A debater's or agent's text has been recorded."""

    kind: ClassVar[str] = "turn_finished"


@dataclass(slots=True, kw_only=True)
class RoleFailed(BlockEvent):
    """A provider failed permanently, and the debate continues without this role's contribution."""

    kind: ClassVar[str] = "role_failed"
    block: str
    """The name of the block that failed."""
    role: Role
    """The role that the block plays in the pattern."""
    round: int
    """The round number, starting at 1; 0 before the first round."""
    name: str
    """The debater's or agent's name; for other roles, the block's name."""
    error: str
    """The class name of the error."""
    message: str
    """The error's message."""
    instead: Recovery
    """Action taken to recover from the failure."""
    phase: str | None = None
    """The turn's task, if the pattern has several kinds of tasks."""
    target: str | None = None
    """The author of the text that the task is about, if any."""


_MAX_REASON_LENGTH = 200
"""Maximum length, in characters, of an error message in the line about missing speakers."""
UNREADABLE = (SchemaViolation.__name__, MalformedResponse.__name__)
"""Errors that indicate an unusable answer rather than a missing one."""


def missing_line(failures: Iterable[ProviderFailure | RoleFailed]) -> str | None:
    """Render the line about missing speakers, with reasons; return None if no speaker is missing.

    >>> lost = ProviderFailure(round=1, role="debater", name="Cleo", error="ModelNotFound: no", instead="skipped")
    >>> missing_line([lost, lost])
    'Incomplete: Cleo did not answer (ModelNotFound: no)'
    """
    parts = [f"{what} ({why})" for what, why in missing_speakers(failures)]
    return f"Incomplete: {'; '.join(parts)}" if parts else None


def missing_speakers(failures: Iterable[ProviderFailure | RoleFailed]) -> list[tuple[str, str]]:
    """Describe each missing speaker and the reason for the failure.

    Faults in contributions, such as truncated text, are omitted.

    >>> unread = ProviderFailure(
    ...     round=1, role="judge", name="rent-judge", error="SchemaViolation: `winner` is missing", instead="no_verdict"
    ... )
    >>> missing_speakers([unread])
    [("the judge's answer could not be read", 'SchemaViolation: `winner` is missing')]
    """
    parts: dict[str, tuple[str, str]] = {}
    for failure in failures:
        if failure.instead in FLAGS:
            continue
        who = f"the {failure.role}" if failure.name.endswith(f"-{failure.role}") else failure.name
        # a panel member is named after its model, so its name does not show the role
        if failure.role == "judge" and who == failure.name:
            who = f"judge {who}"
        kind, why = (
            (failure.error, failure.message) if isinstance(failure, RoleFailed) else (failure.error_type, failure.error)
        )
        no_answer = "'s answer could not be read" if kind in UNREADABLE else " did not answer"
        what = {"stand_in": " was replaced", "unheard": " was not heard", "not_counted": " named no side"}
        parts.setdefault(who, (f"{who}{what.get(failure.instead, no_answer)}", cut(why, _MAX_REASON_LENGTH)))
    return list(parts.values())


@dataclass(slots=True, kw_only=True)
class RoundsEnded(BaseEvent):
    """The last round has ended; `reason` is the pattern's stop reason."""

    kind: ClassVar[str] = "rounds_ended"
    rounds: int
    """Number of rounds held."""
    reason: str
    """The `stop_reason` in the pattern's output."""


@dataclass(slots=True, kw_only=True)
class EscalationStepFinished(BaseEvent):
    """An escalation step has succeeded, and `step.reason` is set if the escalation ends there."""

    kind: ClassVar[str] = "escalation_step_finished"
    step: EscalationStep
    """The step, including its cost and, if the escalation ends there, the reason."""
