"""Turns: speakers' contributions, their records in the transcript and audit trail, and provider failures."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, Literal, Self, TypeAlias, TypeVar

from flowdebate._text import MAX_ARGUMENT_LENGTH, CutOff, clean_text, error_text, is_blank, one_line
from flowdebate._util.option_types import Quorum
from flowdebate.blocks.base import Block, Outline, Wrapped, merge_resources
from flowdebate.blocks.functions import Handler, handler
from flowdebate.chassis.state import (
    Flag,
    PatternInput,
    ProviderFailure,
    Recovery,
    Role,
    RoleFailed,
    TurnFinished,
    TurnStarted,
    accepted,
    has_contributions,
    pattern_state,
    round_of,
)
from flowdebate.errors import (
    AuthenticationFailed,
    FlowDebateError,
    LimitReached,
    ModelError,
    ModelTimeout,
    OutputError,
    OutputTruncated,
    ReadOnly,
)
from flowdebate.models.base import Model
from flowdebate.models.call import within
from flowdebate.resources.resource import Resource, StateResource
from flowdebate.resources.tasks import TaskCollection, create_task_collection
from flowdebate.runs.context import Context, Scope, escape_path_segment, lost_key
from flowdebate.runs.journal import UNANSWERED
from flowdebate.runs.observer import log_failure
from flowdebate.runs.suspend import Suspended, resume_task, suspend_task


@dataclass(frozen=True, slots=True)
class StandIn:
    """Fallback model that speaks if a debater's own model fails: `on_failure=StandIn("openai/gpt-5-mini")`.

    The contribution is attributed to the debater, and the fallback model is recorded in `losses`. If the fallback also
    fails, the turn is skipped.
    """

    model: Model | str


OnFailure: TypeAlias = Literal["fail", "skip"] | StandIn
"""Policy for a failed turn: the run fails, the turn is skipped, or a fallback model speaks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailurePolicy:
    """Policy for permanent provider failures, and time limits for calls and rounds."""

    on_failure: OnFailure | None = None
    """"fail", "skip" or `StandIn(model)`. None means the pattern's default: panels skip a member that fails, whereas
    debates, deliberations and handoffs fail. A debate that continues without a judge's answer ends without a verdict.
    """
    quorum: Quorum | None = None
    """Minimum number of voices required in a round with skipped turns. None means the pattern's default: 2, or 1 in a
    consensus debate.
    """
    turn_timeout: float | None = None
    """Time limit, in seconds, for each call to a role, including tools and retries; None for no limit."""
    round_timeout: float | None = None
    """Total time limit, in seconds, for all turns in a round; None for no limit."""

    def over(self, defaults: FailurePolicy) -> FailurePolicy:
        """Return a copy of this policy, with None values replaced by the pattern's `defaults`."""
        on_failure = defaults.on_failure if self.on_failure is None else self.on_failure
        quorum = defaults.quorum if self.quorum is None else self.quorum
        return replace(self, on_failure=on_failure, quorum=quorum)

    @property
    def least(self) -> int:
        """Minimum number of voices: the quorum, or the default if no quorum is set."""
        return DEFAULT_QUORUM if self.quorum is None else self.quorum

    @property
    def continues(self) -> bool:
        """True if the pattern continues after a provider failure."""
        return self.on_failure not in ("fail", None)

    def tolerates(self, error: BaseException) -> bool:
        """Return whether the pattern continues despite `error`."""
        return self.continues and is_provider_failure(error)

    @property
    def stand_in(self) -> Model | str | None:
        """The fallback model for failed turns; None if there is none."""
        return self.on_failure.model if isinstance(self.on_failure, StandIn) else None


DEFAULT_QUORUM = 2
"""Default minimum number of voices in a round."""
FAIL = FailurePolicy(on_failure="fail", quorum=DEFAULT_QUORUM)
"""Default policy for patterns with sides; continuing without one of the sides would change the question."""
SKIP = FailurePolicy(on_failure="skip", quorum=DEFAULT_QUORUM)
"""Default policy for panels, where the other members can continue."""


class _Missing(Enum):
    ANSWER = "missing"


MISSING: Final = _Missing.ANSWER
"""Placeholder used as the answer of a role whose provider failed."""


def is_provider_failure(error: BaseException) -> bool:
    """Return whether the error is the provider's fault, so that the pattern may continue without the answer.

    A rejected API key also counts as a provider failure, because other members may use other models.
    """
    rejected = isinstance(error, AuthenticationFailed) and error.status is not None
    return rejected or (isinstance(error, ModelError) and error.providers_fault)


def record_failure(  # noqa: PLR0913 - the fields of a failure
    error: Exception,
    ctx: Context,
    *,
    block: str,
    role: Role,
    name: str,
    instead: Recovery,
    stance: str | None = None,
    phase: str | None = None,
    target: str | None = None,
) -> None:
    """Record a provider failure in the pattern's state and the run's status, and emit an event about it."""
    loss = ProviderFailure(
        round=pattern_state(ctx).round,
        role=role,
        name=name,
        stance=stance,
        error=one_line(error_text(error)),
        instead=instead,
        phase=phase,
        target=target,
    )
    if ctx.scope.sequencer is not None:  # a block used outside a pattern has no state
        ctx.scope.handle.update(losses=[*pattern_state(ctx).losses, loss])
    log_failure(
        ctx.run,
        ctx.path,
        block=block,
        role=loss.role,
        round=loss.round,
        error=type(error).__name__,
        recovery=loss.instead,
    )
    ctx.run.degrade("no_verdict" if loss.instead == "no_verdict" else "degraded")
    ctx.emit(
        RoleFailed(
            block=block,
            role=loss.role,
            round=loss.round,
            name=loss.name,
            error=type(error).__name__,
            message=loss.error,
            instead=loss.instead,
            phase=phase,
            target=target,
        )
    )


def start_clock(failures: FailurePolicy, ctx: Context) -> None:
    """Start the clock for the time limit shared by a round's turns, if there is a limit."""
    if failures.round_timeout is not None:
        ctx.scope.handle.deadline = asyncio.get_running_loop().time() + failures.round_timeout


async def ask(block: Block[Any, Any], value: object, ctx: Context, failures: FailurePolicy) -> Any:  # noqa: ANN401
    """Call `block` with `value` in a context below `ctx`, enforcing the time limits for the turn and the round."""
    below = ctx.below(block)
    return await in_time(
        block(value, below),
        ctx,
        block=block.name,
        place=below.path,
        timeout=failures.turn_timeout,
        losses=failures.tolerates,
    )


async def in_time(
    call: Coroutine[Any, Any, Any],
    ctx: Context,
    *,
    block: str,
    place: str,
    timeout: float | None,  # noqa: ASYNC109 - the shorter of two deadlines
    losses: Callable[[BaseException], bool],
    closes: bool = False,
) -> Any:  # noqa: ANN401 - the call's value
    """Await `call`; raise ModelTimeout after `timeout` seconds or at the round's deadline, whichever comes first.

    If `losses` accepts a failure, the caller continues without the answer, and a stored run records the failure. When
    the run is resumed, the recorded failure is raised again without repeating the call. A closing role (`closes`),
    however, is called again, because its failure has not changed the debate. All model calls made by `call` are at or
    below the path `place`.
    """
    journal = ctx.run.journal
    if journal is None:
        return await _within(call, ctx, block=block, timeout=timeout)
    if closes:
        key, lost = await journal.unanswered(f"{ctx.path}{UNANSWERED}{escape_path_segment(block)}")
        if lost is not None:
            ctx.run.count_skipped(place)
    else:
        key = lost_key(ctx.path, block)
        lost = ctx.run.recorded_loss(key, place)
    if lost is not None:
        call.close()  # a coroutine that is never awaited would trigger a warning
        raise lost
    try:
        return await _within(call, ctx, block=block, timeout=timeout)
    except Exception as error:
        if losses(error):
            await ctx.run.record_loss(key, error, place)
        raise


def recorded_failure(ctx: Context, *, block: str) -> Exception | None:
    """Return the failure of `block` recorded at this path in an earlier execution of the run, if there is one.

    The recorded calls made by `block` before the failure count toward the run's usage.
    """
    return ctx.run.recorded_loss(lost_key(ctx.path, block), ctx.path)


async def discard(ctx: Context, error: Exception, *, block: str) -> None:
    """Record in the run's journal, if there is one, that the run continues without an answer from `block`."""
    if ctx.run.journal is not None:
        await ctx.run.record_loss(lost_key(ctx.path, block), error, ctx.path)


async def _within(call: Coroutine[Any, Any, Any], ctx: Context, *, block: str, timeout: float | None) -> Any:  # noqa: ANN401, ASYNC109 - see in_time
    handle = ctx.scope.sequencer
    seconds, latest = timeout, None if handle is None else handle.deadline
    if latest is not None:
        remaining = max(latest - asyncio.get_running_loop().time(), 0.0)
        seconds = remaining if seconds is None else min(remaining, seconds)
    # a replay makes no calls, and it may take longer than the run did
    if seconds is None or ctx.run.is_replay:
        return await call
    if seconds <= 0:  # even with a timeout of zero, the call would start and cost money
        call.close()
        raise ModelTimeout(seconds, block=block)
    try:
        return await within(seconds, call, latest=latest)
    except ModelTimeout as error:
        error.block = error.block or block  # the model's own timeout may already identify the block
        raise


class WithFallback(Wrapped):
    """Block that runs `inner` within a time limit, and calls `recover` on errors accepted by `losses`."""

    def __init__(
        self,
        inner: Block[Any, Any],
        *,
        recover: Callable[[Exception, Any, Context], Any],
        losses: Callable[[BaseException], bool] = is_provider_failure,
        timeout: float | None = None,
        closes: bool = False,
    ) -> None:
        super().__init__(inner)
        self._recover = recover
        self._losses = losses
        self._timeout = timeout
        self._closes = closes

    async def act(self, value: object, ctx: Context, /) -> Any:  # noqa: ANN401 - what the inner block takes and gives
        try:
            return await in_time(
                self._inner(value, ctx),
                ctx,
                block=self.name,
                place=ctx.path,
                timeout=self._timeout,
                losses=self._losses,
                closes=self._closes,
            )
        except Exception as error:
            if not self._losses(error):
                raise
            return self._recover(error, value, ctx)


class SkipIfSilent(Wrapped):
    """Block that runs `inner` only if there are contributions to base a decision on.

    If `heard` returns false, the role is skipped, and the result is `MISSING`, as after a failure.
    """

    def __init__(
        self,
        inner: Block[Any, Any],
        *,
        role: Role,
        instead: Recovery,
        heard: Callable[[Context], bool] = has_contributions,
    ) -> None:
        super().__init__(inner)
        self._role = role
        self._instead = instead
        self._heard = heard

    async def act(self, value: object, ctx: Context, /) -> Any:  # noqa: ANN401 - what the inner block takes and gives
        if self._heard(ctx):
            return await self._inner(value, ctx)
        error = FlowDebateError("nobody has spoken, so there is nothing to decide")
        record_failure(error, ctx, block=self.name, role=self._role, name=self.name, instead=self._instead)
        return MISSING


def guarded(
    role: Block[Any, Any],
    failures: FailurePolicy,
    recover: Callable[[Exception, Any, Context], object],
    *,
    closes: bool = False,
) -> Block[Any, Any]:
    """Apply the turn's time limit to `role`; after a tolerated provider failure, `recover` supplies the answer.

    When a run is resumed, a closing role (`closes`) that failed is called again.
    """
    if not failures.continues and failures.turn_timeout is None:
        return role
    return WithFallback(role, recover=recover, losses=failures.tolerates, timeout=failures.turn_timeout, closes=closes)


T = TypeVar("T")

AUDIT = "audit"
"""Resource key for a pattern's audit trail; `ctx.resources.audit` is a `TaskCollection`."""


class TurnTask:
    """Context manager for a turn's task in the audit trail; the task has the same outcome as the turn.

    An exception marks the task as errored; reaching one of the run's limits or cancelling the turn marks it as
    cancelled. While the turn is waiting for a human's answer, the task is under review. The turn's own code must
    complete the task.
    """

    __slots__ = ("_ctx", "_id", "_tasks")

    def __init__(self, ctx: Context, goal: str, *, agent_name: str, metadata: Mapping[str, Any]) -> None:
        self._ctx = ctx
        self._tasks: TaskCollection = ctx.scope.handles[AUDIT]
        self._id = self._tasks.start_task(goal, by=agent_name, metadata=metadata).id

    def end_review(self) -> None:
        """Record that a human's answer ended the review, if the task was under review."""
        if self._ctx.run.was_suspended(self._ctx.path):
            resume_task(self._tasks, self._id)

    def complete(self, output: object) -> None:
        self._tasks.complete(self._id, output=output)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is None or self._tasks.get(self._id).finished:  # the speaker may have ended the task on its own
            return
        match error:
            case LimitReached():  # not a failure: the run must end here
                self._tasks.cancel(self._id, error_text(error))
            case Exception():
                self._tasks.fail(self._id, error_text(error))
            case Suspended():
                suspend_task(self._tasks, self._id, error)
            case _:  # cancelled, or the process is being terminated
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
    **fields: Any,  # noqa: ANN401 - fields of `TurnStarted` and `TurnFinished`
) -> T | None:
    """Take a turn within its task: call `speak(block, task)` for each of `speakers` until one succeeds.

    `lose` records each tolerated provider failure. Returns None if all speakers fail and the turn is skipped.
    """
    facts: dict[str, Any] = {"block": speakers[0].name, "role": speakers[0].role, "path": ctx.path, **fields}
    try:
        with TurnTask(ctx, goal, agent_name=facts["agent_name"], metadata=metadata) as task:
            ctx.emit(TurnStarted(**facts))
            for block in speakers[:-1]:
                try:
                    answer = await speak(block, task)
                    break
                except Exception as error:
                    if not failures.tolerates(error):
                        raise
                    lose(error, "stand_in")
            else:  # the last speaker has no fallback, so the turn is skipped if it fails
                answer = await speak(speakers[-1], task)
    except Exception as error:
        if not failures.tolerates(error):
            raise
        lose(error, "skipped")
        return None
    ctx.emit(TurnFinished(**facts))
    return answer


class Turn(Block[Any, Any]):
    """Block that runs `debater` and then `record` within a task, which it marks as completed, errored or cancelled.

    While the turn is waiting for a human's answer, the task is under review. If the debater's provider fails,
    `stand_in` argues instead. Without a `stand_in`, the turn is skipped (and its result is None), provided that
    `failures` allows it.
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
        self.speakers: list[Block[Any, Any]] = [debater] if stand_in is None else [debater, stand_in]
        shared, hidden = merge_resources(f"turn {name!r}", [*self.speakers, record], closed=self.speakers)
        super().__init__(name, resources=shared, hidden=hidden)
        self.agent_name = agent_name
        self.stance = stance
        self._input_type = input_type
        self._record = record
        self._failures = failures

    async def act(self, value: object, ctx: Context, /) -> Any:  # noqa: ANN401 - what is recorded
        """Take the turn; if turns are simultaneous, `value` is the `Scope` for the debater."""
        seen = value if isinstance(value, Scope) else ctx.scope
        state, stance = pattern_state(ctx), self.stance
        number, turn = state.round, state.turn_of(self.agent_name)

        async def argue(debater: Block[Any, Any], task: TurnTask) -> object:
            transcript = seen.handles["transcript"]
            before = transcript.state
            # the debater's context must keep the same path in the run
            reading = ctx if seen is ctx.scope else ctx.child(ctx.block, ctx.path, seen)
            subject = self._input_type.about(state.question) if turn is None else turn
            answer = await ask(debater, subject, reading, self._failures)
            # a recording block inside the debater's block has changed the transcript
            if transcript.state is not before:
                raise ReadOnly(
                    "the pattern's transcript", "debaters add to it through their answers", block=debater.name
                )
            task.end_review()
            return await self._record(answer, ctx.below(self._record))

        def lose(error: Exception, instead: Recovery) -> None:
            block, name = self.speakers[0].name, self.agent_name
            record_failure(error, ctx, block=block, role="debater", name=name, stance=stance, instead=instead)

        return await take_turn(
            ctx,
            self.speakers,
            argue,
            goal=f"Speak in round {number}" if stance is None else f"Argue {stance!r} in round {number}",
            metadata={"round": number} if stance is None else {"round": number, "stance": stance},
            failures=self._failures,
            lose=lose,
            round=number,
            agent_name=self.agent_name,
            stance=stance,
            phase=getattr(turn, "kind", None),
            target=getattr(turn, "to", None),
        )

    def outline(self) -> Outline:
        children = (self.speakers[0].outline(), self._record.outline())
        return Outline(text=self.name, kind="sequencer", children=children)


# Blocks that record turns


def audit_resources(transcript: StateResource[Any], collection_id: str) -> dict[str, Resource]:
    """Return the resources for blocks that record turns: the transcript and the audit trail."""
    return {"transcript": transcript, AUDIT: create_task_collection(collection_id, key=AUDIT)}


def create_init_transcript(*, name: str, transcript: StateResource[Any], collection_id: str) -> Handler[Any, Any]:
    """Create a tap that clears the transcript and opens the audit trail `collection_id`."""

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
    entry: Callable[..., object] | None,
    stance: str | None = None,
    custom: bool = False,
) -> Handler[Any, str]:
    """Create a block that records the text from `agent_name`.

    `entry(round=…, text=…, flag=…)` builds the transcript entry. Without `entry`, the text is kept in the state
    (`spoken`), and is not shown to anyone until everyone has spoken. Set `custom` for a custom block; its answers are
    recorded, and a resumed run reuses them.
    """
    kind = "hear" if entry is None else "record"

    @handler(name=f"{name}-{kind}-{agent_name}", resources=audit_resources(transcript, collection_id))
    async def record(value: object, ctx: Context) -> str:
        heard = value
        if custom:

            def read() -> tuple[str, bool]:
                text = speech_text(value, agent_name, ctx)
                return str(text), isinstance(text, CutOff)

            text, cut_off = await accepted(read, ctx, returns=tuple[str, bool], custom=True)
            heard = CutOff(text) if cut_off else text
        text, flag = contribution_of(heard, agent_name, ctx, stance=stance)
        state: Any = pattern_state(ctx)
        if entry is None:
            ctx.scope.handle.update(spoken={**state.spoken, agent_name: text})
        else:
            turn = state.turn_of(agent_name)
            new_entry = entry(
                round=max(state.round, 1), text=text, flag=flag, **({} if turn is None else turn.entry_facts())
            )
            transcript = ctx.scope.handles["transcript"]
            transcript.set(transcript.state.with_entry(new_entry))
        complete_turn(agent_name, text, ctx)
        return text

    return record


def complete_turn(agent_name: str, output: object, ctx: Context) -> None:
    """Complete `agent_name`'s turn in the audit trail, adding a task if there is none."""
    audit: TaskCollection = ctx.scope.handles[AUDIT]
    turns = audit.list(status="in_progress", assignee=agent_name)
    if audit.protected:  # a block may have started another task for the same debater
        turns = [task for task in turns if task.id in audit.reserved]
    # happens only if an application's own pattern uses `create_record_argument` without the library's turns
    if not turns:
        number = round_of(ctx)
        turns = [audit.start_task(f"Speak in round {number}", by=agent_name, metadata={"round": number})]
    for task in turns:
        audit.complete(task.id, output=output)


def contribution_of(
    value: object, agent_name: str, ctx: Context, *, stance: str | None = None
) -> tuple[str, Flag | None]:
    """Read the text and flag of a contribution by `agent_name`, and record truncated or empty text as a failure."""
    text = speech_text(value, agent_name, ctx)
    flag: Flag | None = "empty" if is_blank(text) else "cut_off" if isinstance(text, CutOff) else None
    if flag is not None:
        record_flag(flag, agent_name, ctx, stance=stance)
    if flag == "empty":
        warn_about_empty_text(agent_name, ctx)
    return "" if flag == "empty" else str(text), flag


def record_flag(flag: Flag, agent_name: str, ctx: Context, *, stance: str | None = None) -> None:
    """Record a truncated or empty contribution by `agent_name`."""
    error: FlowDebateError = OutputError(ctx.block, "an argument", [("text", "is empty")])
    if flag == "cut_off":
        error = OutputTruncated("the answer was cut off: raise max_tokens")
    record_failure(error, ctx, block=ctx.block, role="debater", name=agent_name, stance=stance, instead=flag)


def warn_about_empty_text(agent_name: str, ctx: Context) -> None:
    """Issue a single warning about a custom block that returns empty text."""
    ctx.run.warn_once(
        f"{ctx.block}: empty",
        f"debater {agent_name!r} returned no text, so an empty argument was recorded and flagged. Return a "
        'non-blank str or {"text": str}',
    )


def speech_text(value: object, agent_name: str, ctx: Context) -> str:
    """Convert the output of a debater's block to text.

    The output is a `str`, `{"text": str}` or a model with a `text` field. None counts as empty text. Anything else is
    converted with `str()`, and a `FlowDebateWarning` is issued once per debater. Raises OutputError if even `str()`
    fails, or if the text is longer than `MAX_ARGUMENT_LENGTH` characters.
    """
    text = _text_of(value, agent_name, ctx)
    if len(text) > MAX_ARGUMENT_LENGTH:
        problem = f"has {len(text):,} characters, but at most {MAX_ARGUMENT_LENGTH:,} are allowed"
        raise OutputError(ctx.block, "an argument", [("text", problem)])
    return clean_text(text)


def _text_of(value: object, agent_name: str, ctx: Context) -> str:
    if value is None:
        return ""
    text = value
    if not isinstance(value, str):
        text = value.get("text", value) if isinstance(value, Mapping) else getattr(value, "text", value)
    if text is None:
        return ""
    if isinstance(text, str):
        # convert other subclasses to plain str, because they may override methods
        return text if type(text) is CutOff else str(text)
    try:
        coerced = str(value)
    except Exception as error:
        problem = f"got a {type(value).__name__} whose str() raises {error_text(error)}"
        raise OutputError(ctx.block, "text", [("", problem)]) from error
    ctx.run.warn_once(
        f"{ctx.block}: not text",
        f"debater {agent_name!r} returned a {type(value).__name__}, so its str() was recorded. "
        'Return a str or {"text": str}',
    )
    return coerced
