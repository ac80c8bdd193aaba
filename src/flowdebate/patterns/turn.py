"""Turns: somebody speaks, the transcript records what was said, and the audit trail how it went."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self, TypeVar

from flowdebate._util.text import LONGEST_ARGUMENT, CutOff, clean_text, is_blank
from flowdebate.blocks.base import Block, merged_resources
from flowdebate.blocks.handler import Handler, handler
from flowdebate.blocks.outline import Outline
from flowdebate.errors import FlowDebateError, LimitReached, OutputError, OutputTruncated, ReadOnly, error_text
from flowdebate.patterns.events import TurnFinished, TurnStarted
from flowdebate.patterns.failures import ask, record_failure
from flowdebate.patterns.state import accepted, pattern_state
from flowdebate.resources.tasks import create_task_collection
from flowdebate.runs.context import Scope
from flowdebate.runs.durable.suspend import Suspended, resume_task, suspend_task

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from flowdebate.patterns.failures import FailurePolicy
    from flowdebate.patterns.state import Flag, PatternInput, ProviderFailure, Recovery
    from flowdebate.resources.resource import Resource, StateResource
    from flowdebate.resources.tasks import Task, TaskCollection
    from flowdebate.runs.context import Context


T = TypeVar("T")

AUDIT = "audit"
"""The key of a pattern's audit trail: `ctx.resources.audit` is its `TaskCollection`."""


class TurnTask:
    """The task of a turn in the audit trail: a context in which the turn is taken, and that ends the task as the turn.

    Errored by an exception, cancelled by a limit of the run or with the turn, under review while a human has to answer.
    Completing it is up to the turn.
    """

    __slots__ = ("_ctx", "_id", "_tasks")

    def __init__(self, ctx: Context, goal: str, *, agent_name: str, metadata: Mapping[str, Any]) -> None:
        self._ctx = ctx
        self._tasks: TaskCollection = ctx.scope.handles[AUDIT]
        self._id = self._tasks.start_task(goal, by=agent_name, metadata=metadata).id

    def heard(self) -> None:
        """Record the review that a human's answer has ended, if there was one."""
        resume_task(self._tasks, self._id, self._ctx)

    def complete(self, output: object) -> None:
        """Complete the task with the turn's result."""
        self._tasks.complete(self._id, output=output)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is None or self._tasks.get(self._id).finished:  # a speaker may have ended it itself
            return
        match error:
            case LimitReached():  # nobody failed: the run has to end here
                self._tasks.cancel(self._id, error_text(error))
            case Exception():
                self._tasks.fail(self._id, error_text(error))
            case Suspended():
                suspend_task(self._tasks, self._id, error)
            case _:  # cancelled, or the process is told to end
                self._tasks.cancel(self._id, type(error).__name__)


async def take_turn(
    ctx: Context,
    speakers: Sequence[Block[Any, Any]],
    speak: Callable[[Block[Any, Any], TurnTask], Awaitable[T]],
    *,
    goal: str,
    metadata: Mapping[str, Any],
    failures: FailurePolicy,
    lose: Callable[[Exception, Recovery], None],
    **about: Any,  # noqa: ANN401 - fields of `TurnStarted` and `TurnFinished`
) -> T | None:
    """Take a turn under its task: `speak(block, task)` for the first of `speakers`, then for its stand-in if it fails.

    `lose` records each tolerated provider failure. None if no speaker is left and the turn is skipped.
    """
    facts: dict[str, Any] = {"block": speakers[0].name, "path": ctx.path, **about}
    try:
        with TurnTask(ctx, goal, agent_name=facts["agent_name"], metadata=metadata) as task:
            ctx.emit(TurnStarted(**facts))
            said = await _first_answer(speakers, speak, task, failures, lose)
    except Exception as error:
        if not failures.tolerates(error):
            raise
        lose(error, "skipped")
        return None
    ctx.emit(TurnFinished(**facts))
    return said


async def _first_answer(
    speakers: Sequence[Block[Any, Any]],
    speak: Callable[[Block[Any, Any], TurnTask], Awaitable[T]],
    task: TurnTask,
    failures: FailurePolicy,
    lose: Callable[[Exception, Recovery], None],
) -> T:
    for block in speakers[:-1]:
        try:
            return await speak(block, task)
        except Exception as error:
            if not failures.tolerates(error):
                raise
            lose(error, "stand_in")
    return await speak(speakers[-1], task)


class Turn(Block[Any, Any]):
    """Runs `debater`, then `record`, under a task that ends as they do: completed, errored, or cancelled.

    While a human has to answer, it is under review. If the debater's provider fails, `stand_in` argues, if there is
    one; else the turn is skipped (None) if `failures` allows it.
    """

    def __init__(
        self,
        name: str,
        *,
        agent_name: str,
        stance: str | None = None,
        input_type: type[PatternInput],
        debater: Block[Any, Any],
        record: Block[Any, Any],
        stand_in: Block[Any, Any] | None = None,
        failures: FailurePolicy,
    ) -> None:
        self._speakers = [debater] if stand_in is None else [debater, stand_in]
        shared, hidden = merged_resources(f"turn {name!r}", [*self._speakers, record], closed=self._speakers)
        super().__init__(name, resources=shared, hidden=hidden)
        self.agent_name = agent_name
        self.stance = stance
        self._input_type = input_type
        self._record = record
        self._failures = failures

    async def act(self, value: object, ctx: Context, /) -> Any:  # noqa: ANN401 - what is recorded
        """The turn; where others speak at the same time, the `Scope` that the debater sees is `value`."""
        seen = value if isinstance(value, Scope) else ctx.scope
        state, stance = pattern_state(ctx), self.stance
        number = state.round
        return await take_turn(
            ctx,
            self._speakers,
            lambda debater, task: self._argued(debater, state.question, task, ctx, seen),
            goal=f"Speak in round {number}" if stance is None else f"Argue {stance!r} in round {number}",
            metadata={"round": number} if stance is None else {"round": number, "stance": stance},
            failures=self._failures,
            lose=lambda error, instead: self._lose(error, instead, ctx),
            round=number,
            agent_name=self.agent_name,
            stance=stance,
        )

    async def _argued(self, debater: Block[Any, Any], question: str, task: TurnTask, ctx: Context, seen: Scope) -> Any:  # noqa: ANN401 - as above
        transcript = seen.handles["transcript"]
        before = transcript.state
        reading = ctx if seen is ctx.scope else ctx.child(ctx.block, ctx.path, seen)
        said = await ask(debater, self._input_type.about(question), reading, self._failures)
        if transcript.state is not before:  # by a block that records, inside of the debater's
            raise ReadOnly("the transcript of its pattern", "debaters add to it by answering", block=debater.name)
        task.heard()
        return await self._record(said, ctx.below(self._record))

    def _lose(self, error: Exception, instead: Recovery, ctx: Context) -> None:
        record_failure(
            error,
            ctx,
            block=self._speakers[0].name,
            role="debater",
            name=self.agent_name,
            stance=self.stance,
            instead=instead,
        )

    def outline(self) -> Outline:
        children = (self._speakers[0].outline(), self._record.outline())
        return Outline(text=self.name, kind="sequencer", children=children)


# The blocks that record


def audit_resources(transcript: StateResource[Any], collection_id: str) -> dict[str, Resource]:
    """Resources of the blocks that record turns: the transcript and the audit trail."""
    return {"transcript": transcript, AUDIT: create_task_collection(collection_id, key=AUDIT)}


def create_init_transcript(*, name: str, transcript: StateResource[Any], collection_id: str) -> Handler[Any, Any]:
    """A tap that clears the transcript and opens the audit trail `collection_id`."""

    @handler(name=f"{name}-init-transcript", resources=audit_resources(transcript, collection_id))
    def init_transcript(value: object, ctx: Context) -> object:
        ctx.scope.handles["transcript"].set(transcript.initial())
        return value

    return init_transcript


def record_turn(
    *,
    name: str,
    agent_name: str,
    transcript: StateResource[Any],
    collection_id: str,
    entry: Callable[..., object],
    stance: str | None = None,
    own: bool = False,
) -> Handler[Any, str]:
    """`create_record_argument` for any transcript: `entry(round=…, text=…, flag=…)` makes what is added to it.

    `own`: a block of the application's speaks, so that a resumed run holds to what it said before.
    """

    @handler(name=f"{name}-record-{agent_name}", resources=audit_resources(transcript, collection_id))
    async def record(value: object, ctx: Context) -> str:
        heard = await _text_heard(value, agent_name, ctx) if own else value
        text, flag = contribution_of(heard, agent_name, ctx, stance=stance)
        said = entry(round=max(pattern_state(ctx).round, 1), text=text, flag=flag)
        transcript = ctx.scope.handles["transcript"]
        transcript.set(transcript.state.with_entry(said))
        complete_turn(agent_name, text, ctx)
        return text

    return record


def hear(
    *, name: str, agent_name: str, transcript: StateResource[Any], collection_id: str, own: bool = False
) -> Handler[object, str]:
    """A block that records what `agent_name` said in the state (`spoken`), where nobody sees it yet."""

    @handler(name=f"{name}-hear-{agent_name}", resources=audit_resources(transcript, collection_id))
    async def record(value: object, ctx: Context) -> str:
        heard = await _text_heard(value, agent_name, ctx) if own else value
        text, _ = contribution_of(heard, agent_name, ctx)
        state: Any = pattern_state(ctx)
        ctx.scope.handle.update(spoken={**state.spoken, agent_name: text})
        complete_turn(agent_name, text, ctx)
        return text

    return record


def complete_turn(agent_name: str, output: object, ctx: Context) -> None:
    """Complete the turn of `agent_name` in the audit trail; one that has no task there gets it."""
    audit: TaskCollection = ctx.scope.handles[AUDIT]
    turns = audit.list(status="in_progress", assignee=agent_name)
    if audit.protected:
        turns = [task for task in turns if task.id in audit.reserved]
    for task in turns or [_added(audit, agent_name, ctx)]:
        audit.complete(task.id, output=output)


def _added(audit: TaskCollection, agent_name: str, ctx: Context) -> Task:
    """The task of a turn in a pattern that uses `create_record_argument` without the library's turns."""
    number = max(pattern_state(ctx).round, 1)
    return audit.start_task(f"Speak in round {number}", by=agent_name, metadata={"round": number})


async def _text_heard(value: object, agent_name: str, ctx: Context) -> str:
    """The text that a block of the application returned when the run first was here."""

    def read() -> tuple[str, bool]:
        text = text_said(value, agent_name, ctx)
        return str(text), isinstance(text, CutOff)

    text, cut_off = await accepted(read, ctx, returns=tuple[str, bool], own=True)
    return CutOff(text) if cut_off else text


def contribution_of(
    value: object, agent_name: str, ctx: Context, *, stance: str | None = None
) -> tuple[str, Flag | None]:
    """The text that `agent_name`'s block returned, and its flag: a text that is cut off or empty is also a loss."""
    text = text_said(value, agent_name, ctx)
    flag: Flag | None = "empty" if is_blank(text) else "cut_off" if isinstance(text, CutOff) else None
    if flag is not None:
        record_flag(flag, agent_name, ctx, stance=stance)
    if flag == "empty":
        warn_of_nothing(agent_name, ctx)
    return "" if flag == "empty" else str(text), flag


def record_flag(flag: Flag, agent_name: str, ctx: Context, *, stance: str | None = None) -> None:
    """Record that what `agent_name` said is cut off or empty."""
    error: FlowDebateError = OutputError(ctx.block, "an argument", [("text", "is empty")])
    if flag == "cut_off":
        error = OutputTruncated("the answer was cut off before its end: give it more room (max_tokens)")
    record_failure(error, ctx, block=ctx.block, role="debater", name=agent_name, stance=stance, instead=flag)


def warn_of_nothing(agent_name: str, ctx: Context) -> None:
    """Warn once of a block of the application that returned an empty text."""
    ctx.run.warn_once(
        f"{ctx.block}: empty",
        f"debater {agent_name!r} returned no text: the transcript has an empty argument, and flags it. Return a str "
        'that is not blank, or {"text": str}',
    )


def flag_of(name: str, losses: Iterable[ProviderFailure], *, round: int) -> Flag | None:  # noqa: A002
    """The flag of what `name` said in `round`, in patterns in which everybody speaks once a round."""
    for loss in losses:
        if (loss.round, loss.name) == (round, name) and loss.instead in ("cut_off", "empty"):
            return loss.instead
    return None


def text_said(value: object, agent_name: str, ctx: Context) -> str:
    """The output of a debater's block as text.

    It takes `str`, `{"text": str}` or a model with a `text`; None is an empty text, and anything else is turned into
    `str()`, with one `FlowDebateWarning` per debater. OutputError if not even `str()` works, and for more than
    `LONGEST_ARGUMENT` characters.
    """
    text = _text_of(value, agent_name, ctx)
    if len(text) > LONGEST_ARGUMENT:
        problem = f"has {len(text):,} characters, and may have {LONGEST_ARGUMENT:,}"
        raise OutputError(ctx.block, "an argument", [("text", problem)])
    return clean_text(text)


def _text_of(value: Any, agent_name: str, ctx: Context) -> str:  # noqa: ANN401 - whatever a block returned
    if value is None:
        return ""
    text = value
    if not isinstance(value, str):
        text = value.get("text", value) if isinstance(value, Mapping) else getattr(value, "text", value)
    if text is None:
        return ""
    if isinstance(text, str):
        return text if type(text) is CutOff else str(text)
    try:
        coerced = str(value)
    except Exception as error:
        problem = f"got a {type(value).__name__} whose str() raises {error_text(error)}"
        raise OutputError(ctx.block, "text", [("", problem)]) from error
    ctx.run.warn_once(
        f"{ctx.block}: not text",
        f"debater {agent_name!r} returned a {type(value).__name__}; its str() stands in the transcript. "
        'Return a str or {"text": str}',
    )
    return coerced
