"""What a debate came to, whatever its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowdebate.blocks.handler import Handler, handler
from flowdebate.patterns.debate.events import VerdictReached
from flowdebate.patterns.debate.schemas import DebateRawOutput, DebateVerdict, JudgedVerdict
from flowdebate.patterns.debate.state import debate_state
from flowdebate.patterns.failures import LOST, lose
from flowdebate.patterns.rounds import finish
from flowdebate.patterns.state import as_model, entries_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flowdebate.patterns.anonymity.anonymity import Anonymity
    from flowdebate.patterns.debate.quotes.schemas import VerifiedQuote
    from flowdebate.patterns.debate.schemas import StopReason
    from flowdebate.runs.context import Context
    from flowdebate.runs.events import RunStatus

__all__ = (
    "build_raw_output",
    "raw_output",
    "stop_reason",
    "without_verdict",
)


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


def raw_output(
    ctx: Context,
    status: RunStatus,
    verdict: DebateVerdict | None = None,
    *,
    sources: Mapping[str, str] | None = None,
    anonymity: Anonymity | None = None,
) -> DebateRawOutput:
    """What the debate around a step came to so far."""
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
        leaks=None if anonymity is None else anonymity.leaks(ctx),
        quotes=_quotes(ctx, sources),
    )


def _quotes(ctx: Context, sources: Mapping[str, str] | None) -> list[list[VerifiedQuote]] | None:
    if not sources:
        return None
    from flowdebate.patterns.debate.quotes.verify import quotes_in  # its patterns take a while to compile

    return quotes_in(entries_of(ctx), sources)


def build_raw_output(
    name: str, judge: str, *, sources: Mapping[str, str] | None = None, anonymity: Anonymity | None = None
) -> Handler[Any, DebateRawOutput]:
    """A block that takes the judge's verdict, or `LOST`, and gives all that the debate came to: the run's `raw`."""

    @handler(name=f"{name}-build-raw-output")
    def build(value: object, ctx: Context) -> DebateRawOutput:
        if value is LOST:
            raw = raw_output(ctx, "no_verdict", sources=sources, anonymity=anonymity)
        else:
            verdict = as_model(value, DebateVerdict, block=judge)
            if verdict.judging is not None and not isinstance(value, JudgedVerdict):
                verdict = verdict.model_copy(update={"judging": None})  # nobody but the library's judge can know
            ctx.emit(VerdictReached(block=judge, verdict=verdict))
            status: RunStatus = "degraded" if debate_state(ctx).losses else "complete"
            raw = raw_output(ctx, status, verdict, sources=sources, anonymity=anonymity)
        finish(ctx, raw)
        return raw

    return build


def without_verdict(error: Exception, _: object, ctx: Context) -> object:
    """What a debate goes on with whose judge was lost."""
    lose(error, ctx, block=ctx.block, seat="judge", name=ctx.block, instead="no_verdict")
    return LOST
