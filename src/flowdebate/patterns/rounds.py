"""The small blocks between a debate's turns: the question, the count of rounds, their end, and what is handed on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from flowdebate.blocks.debate_state import as_model, debate_state, entries_of
from flowdebate.blocks.functions import Function, result_of
from flowdebate.blocks.handler import Handler, handler
from flowdebate.blocks.losses import LOST, lose
from flowdebate.errors import ConfigurationError, OutputError, QuorumLost, SchemaViolation
from flowdebate.models.text import clean_text
from flowdebate.runs.events import DebateStopped, RoundStarted, VerdictReached
from flowdebate.schemas import DebateInput, DebateRawOutput, DebateVerdict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from flowdebate.models.output import OutputSchema
    from flowdebate.runs.context import Context
    from flowdebate.runs.events import RunStatus
    from flowdebate.schemas import DebateState, StopReason

__all__ = (
    "accept_question",
    "another_round",
    "build_raw_output",
    "check_quorum",
    "increment_round",
    "stamp_question",
    "stop_reason",
    "validate_output",
    "without_output",
    "without_verdict",
)


def accept_question(where: str) -> Callable[[object], DebateInput]:
    """What a debate takes as its input; ConfigurationError for anything else."""

    def accept(value: object) -> DebateInput:
        if isinstance(value, DebateInput):
            return value
        question = value.get("question") if isinstance(value, Mapping) and set(value) == {"question"} else value
        if not isinstance(question, str):
            raise ConfigurationError(where, "input", value, 'a question: a str, {"question": str} or a DebateInput')
        return DebateInput(question=clean_text(question))

    return accept


def stamp_question(name: str) -> Handler[DebateInput, None]:
    """A tap that puts the question into the debate's state; from then on the run knows what the debate came to."""

    @handler(name=f"{name}-stamp-question")
    def stamp(value: DebateInput, ctx: Context) -> None:
        ctx.sequencer.update(question=value.question)
        ctx.run.began(_debate_of(ctx), lambda status: _raw_output(ctx, None, status))

    return stamp


def increment_round(name: str, max_rounds: int, seconds: float | None = None) -> Handler[DebateInput, None]:
    """A tap that opens the next round, which may take `seconds`."""

    @handler(name=f"{name}-increment-round")
    def increment(_: DebateInput, ctx: Context) -> None:
        number = debate_state(ctx).round + 1
        ctx.sequencer.update(round=number)
        if seconds is not None:
            ctx.sequencer.deadline = asyncio.get_running_loop().time() + seconds
        ctx.emit(RoundStarted(round=number, max_rounds=max_rounds))

    return increment


def stop_reason(round: int, *, max_rounds: int, moderator_done: bool, predicate: bool) -> StopReason | None:  # noqa: A002
    """Why a debate ends after `round`, or None if it goes on; the first that holds wins.

    >>> stop_reason(2, max_rounds=2, moderator_done=True, predicate=False)
    'max_rounds'
    """
    if round >= max_rounds:
        return "max_rounds"
    if moderator_done:
        return "moderator_done"
    return "predicate" if predicate else None


def check_quorum(state: DebateState, heard: Sequence[str], *, quorum: int, block: str) -> None:
    """QuorumLost where turns of this round were lost, and fewer stances than `quorum` were `heard` in it.

    A round in which fewer were to speak needs all of them.
    """
    lost = {loss.stance for loss in state.losses if loss.round == state.round and loss.instead == "skipped"}
    if len(set(heard)) < min(quorum, len(lost.union(heard))):
        raise QuorumLost(block, round=state.round, heard=list(dict.fromkeys(heard)), quorum=quorum)


def another_round(max_rounds: int, terminate_when: Function | None, *, quorum: int = 2) -> Function:
    """Whether a debate goes on; where it does not, the reason is left in its state and told."""

    async def goes_on(_: object, ctx: Context) -> bool:
        ctx.sequencer.deadline = None  # the round is over
        state = debate_state(ctx)
        if state.losses:
            heard = [entry.stance for entry in entries_of(ctx) if entry.round == state.round]
            check_quorum(state, heard, quorum=quorum, block=ctx.block)
        done = state.decision is not None and state.decision.done
        reason = stop_reason(state.round, max_rounds=max_rounds, moderator_done=done, predicate=False)
        if reason is None and terminate_when is not None and await result_of(terminate_when(ctx)):
            reason = "predicate"
        if reason is None:
            return True
        ctx.sequencer.update(stop_reason=reason)
        ctx.emit(DebateStopped(rounds=state.round, reason=reason))
        return False

    return goes_on


def build_raw_output(name: str, judge: str) -> Handler[Any, DebateRawOutput]:
    """A block that takes the judge's verdict, or `LOST`, and gives all that the debate came to: the run's `raw`."""

    @handler(name=f"{name}-build-raw-output")
    def build(value: object, ctx: Context) -> DebateRawOutput:
        if value is LOST:
            raw = _raw_output(ctx, None, "no_verdict")
        else:
            verdict = as_model(value, DebateVerdict, block=judge)
            ctx.emit(VerdictReached(block=judge, verdict=verdict))
            raw = _raw_output(ctx, verdict, "degraded" if debate_state(ctx).losses else "complete")
        ctx.run.finished(_debate_of(ctx), raw)
        return raw

    return build


def without_output(error: Exception, raw: DebateRawOutput, ctx: Context) -> None:
    """What a debate gives whose synthesizer was lost: nothing, and a raw output that says so."""
    lose(error, ctx, block=ctx.block, seat="synthesizer", name=ctx.block, instead="no_output")
    losses = list(debate_state(ctx).losses)
    ctx.run.finished(_debate_of(ctx), raw.model_copy(update={"losses": losses, "status": "degraded"}))


def without_verdict(error: Exception, _: object, ctx: Context) -> object:
    """What a debate goes on with whose judge was lost."""
    lose(error, ctx, block=ctx.block, seat="judge", name=ctx.block, instead="no_verdict")
    return LOST


def _raw_output(ctx: Context, verdict: DebateVerdict | None, status: RunStatus) -> DebateRawOutput:
    state = debate_state(ctx)
    return DebateRawOutput(
        rounds=state.round,
        question=state.question,
        transcript=list(entries_of(ctx)),
        verdict=verdict,
        moderator_decisions=list(state.moderator_decisions),
        stop_reason=state.stop_reason,
        status="failed" if status == "running" else status,
        losses=list(state.losses),
        seed=ctx.seed,
    )


def _debate_of(ctx: Context) -> str:
    """The place of the debate whose step this is."""
    return ctx.path.rpartition("/")[0]


def validate_output(name: str, synthesizer: str, schema: OutputSchema) -> Handler[Any, Any]:
    """A block that holds the application's own synthesizer to the output schema."""

    @handler(name=f"{name}-validate-output")
    def validate(value: object) -> object:
        try:
            return schema.validate(value)
        except SchemaViolation as violation:
            raise OutputError(synthesizer, schema.name, violation.problems) from None

    return validate
