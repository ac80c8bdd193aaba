"""Provider-failure policy: fail the run, skip the turn, or ask a fallback model."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from flowdebate._util.text import one_line
from flowdebate.blocks.base import Block, Wrapped
from flowdebate.errors import FlowDebateError, ModelError, ModelTimeout, error_text
from flowdebate.models.call import within
from flowdebate.models.resolve import PinnedModel
from flowdebate.patterns.events import RoleFailed
from flowdebate.patterns.state import ProviderFailure, anything_heard, pattern_state
from flowdebate.runs.context import place_of
from flowdebate.runs.log import log_failure

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from flowdebate.models.base import Model
    from flowdebate.patterns.state import Recovery, Role
    from flowdebate.runs.context import Context


@dataclass(frozen=True, slots=True)
class StandIn:
    """Another model that speaks if a debater's own model fails: `on_failure=StandIn("openai/gpt-5-mini")`.

    The contribution counts as the debater's, and `losses` names the stand-in. If it fails too, the turn is skipped.
    """

    model: Model | str


OnFailure: TypeAlias = Literal["fail", "skip"] | StandIn
"""Policy for a failed turn: the run fails, the turn is skipped, another model speaks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailurePolicy:
    """Reaction to a provider that fails for good, and deadlines."""

    on_failure: OnFailure = "fail"
    """"fail", "skip" or `StandIn(model)`."""
    quorum: int = 2
    """Minimum number of voices heard in a round if turns are skipped."""
    turn_timeout: float | None = None
    """Seconds for each call to a role, tools and retries included; None for no limit."""
    round_timeout: float | None = None
    """Seconds for all turns of a round together; None for no limit."""

    @property
    def goes_on(self) -> bool:
        """Whether the pattern goes on after a provider failure."""
        return self.on_failure != "fail"

    def tolerates(self, error: BaseException) -> bool:
        """Whether the pattern goes on after `error`."""
        return self.goes_on and is_provider_failure(error)

    @property
    def stand_in(self) -> Model | None:
        """The fallback model for turns; None for none."""
        return PinnedModel(self.on_failure.model) if isinstance(self.on_failure, StandIn) else None


class _Missing(Enum):
    ANSWER = "missing"


MISSING: Final = _Missing.ANSWER
"""Stands for the answer of a role whose provider failed."""


def is_provider_failure(error: BaseException) -> bool:
    """Whether the provider is at fault; failures of the application's own code are never skipped."""
    return isinstance(error, ModelError) and error.providers_fault


def record_failure(
    error: Exception, ctx: Context, *, block: str, role: Role, name: str, instead: Recovery, stance: str | None = None
) -> None:
    """Put a provider failure into the pattern's state and the run's status, and emit it."""
    round_, said = pattern_state(ctx).round, one_line(error_text(error))
    loss = ProviderFailure(round=round_, role=role, name=name, stance=stance, error=said, instead=instead)
    record_loss(loss, error, ctx, block=block)


def record_loss(
    loss: ProviderFailure,
    error: Exception,
    ctx: Context,
    *,
    block: str,
    phase: str | None = None,
    target: str | None = None,
) -> None:
    """Put `loss` into the pattern's state and the run's status, and emit it (with `phase` and `target`)."""
    if ctx.scope.sequencer is not None:
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
    """Begin the time that the turns of a round have together, if it is limited."""
    if failures.round_timeout is not None:
        ctx.scope.handle.deadline = asyncio.get_running_loop().time() + failures.round_timeout


async def ask(block: Block[Any, Any], value: object, ctx: Context, failures: FailurePolicy) -> Any:  # noqa: ANN401
    """The answer of `block` to `value` below the place of `ctx`, within the time of a turn."""
    return await in_time(
        block(value, ctx.below(block)), ctx, block=block.name, timeout=failures.turn_timeout, losses=failures.tolerates
    )


async def in_time(
    call: Coroutine[Any, Any, Any],
    ctx: Context,
    *,
    block: str,
    timeout: float | None,  # noqa: ASYNC109 - the shorter of two deadlines
    losses: Callable[[BaseException], bool],
) -> Any:  # noqa: ANN401 - the call's value
    """Await `call` for `timeout` seconds at most, and until the deadline of the round; ModelTimeout then.

    A failure that `losses` says yes to, so that the caller goes on without the answer, is recorded where the run is
    stored: when it is resumed, the call is not repeated, and fails as it did.
    """
    lost = recorded_failure(ctx, block=block)
    if lost is not None:
        call.close()
        raise lost
    try:
        return await _within(call, ctx, block=block, timeout=timeout)
    except Exception as error:
        if losses(error):
            await discard(ctx, error, block=block)
        raise


def recorded_failure(ctx: Context, *, block: str) -> Exception | None:
    """The failure for which the answer of `block` was given up when the run was at this place before."""
    journal = ctx.run.journal
    lost = None if journal is None else journal.recorded_failure(_lost_key(ctx, block))
    if lost is not None:
        ctx.run.count_failed(ctx.path)
    return lost


async def discard(ctx: Context, error: Exception, *, block: str) -> None:
    """Record in the journal, if there is one, that the run goes on without the answer of `block`."""
    if ctx.run.journal is not None:
        await ctx.run.journal.record_failure(_lost_key(ctx, block), error)


def _lost_key(ctx: Context, block: str) -> str:
    return f"{ctx.path}#lost:{place_of(block)}"


async def _within(call: Coroutine[Any, Any, Any], ctx: Context, *, block: str, timeout: float | None) -> Any:  # noqa: ANN401, ASYNC109 - see in_time
    handle = ctx.scope.sequencer
    seconds = timeout
    if handle is not None and handle.deadline is not None:
        left = max(handle.deadline - asyncio.get_running_loop().time(), 0.0)
        seconds = left if seconds is None else min(left, seconds)
    if seconds is None:
        return await call
    if seconds <= 0:
        call.close()
        raise ModelTimeout(seconds, block=block)
    try:
        return await within(seconds, call)
    except ModelTimeout as error:
        error.block = error.block or block
        raise


class WithFallback(Wrapped):
    """`inner`, in time, whose losses are made good by `recover(error, value, ctx)` where `losses(error)` says so."""

    def __init__(
        self,
        inner: Block[Any, Any],
        *,
        recover: Callable[[Exception, Any, Context], Any],
        losses: Callable[[BaseException], bool] = is_provider_failure,
        timeout: float | None = None,
    ) -> None:
        super().__init__(inner)
        self._recover = recover
        self._losses = losses
        self._timeout = timeout

    async def act(self, value: Any, ctx: Context, /) -> Any:  # noqa: ANN401 - what the inner block takes and gives
        try:
            return await in_time(
                self._inner(value, ctx), ctx, block=self.name, timeout=self._timeout, losses=self._losses
            )
        except Exception as error:
            if not self._losses(error):
                raise
            return self._recover(error, value, ctx)


class IfHeard(Wrapped):
    """`inner`, a role that decides about what was said; if nothing was `heard`, it is not asked: a loss, `MISSING`."""

    def __init__(
        self,
        inner: Block[Any, Any],
        *,
        role: Role,
        instead: Recovery,
        heard: Callable[[Context], bool] = anything_heard,
    ) -> None:
        super().__init__(inner)
        self._role = role
        self._instead = instead
        self._heard = heard

    async def act(self, value: Any, ctx: Context, /) -> Any:  # noqa: ANN401 - what the inner block takes and gives
        if self._heard(ctx):
            return await self._inner(value, ctx)
        error = FlowDebateError("nothing was said, so that there is nothing to decide about")
        record_failure(error, ctx, block=self.name, role=self._role, name=self.name, instead=self._instead)
        return MISSING


def guarded(
    role: Block[Any, Any], failures: FailurePolicy, recover: Callable[[Exception, Any, Context], object]
) -> Block[Any, Any]:
    """`role` with its deadline; `recover` replaces its answer if its provider fails and failures are tolerated."""
    if not failures.goes_on and failures.turn_timeout is None:
        return role
    return WithFallback(role, recover=recover, losses=failures.tolerates, timeout=failures.turn_timeout)
