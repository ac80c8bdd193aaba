"""How a round is closed, and what the deliberation came to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowdebate._util.text import clean_text
from flowdebate.blocks.handler import Handler, handler
from flowdebate.patterns.deliberation.moderator import parse_report
from flowdebate.patterns.deliberation.schemas import DeliberationOutput, ModeratorReport, ModeratorReported
from flowdebate.patterns.deliberation.transcript import deliberation_state, said_in_progress
from flowdebate.patterns.failures import LOST, lose
from flowdebate.patterns.rounds import finish
from flowdebate.patterns.state import as_model, entries_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.patterns.deliberation.prompts import Participants
    from flowdebate.patterns.deliberation.schemas import DeliberationState, DeliberationStopReason
    from flowdebate.runs.context import Context
    from flowdebate.runs.events import RunStatus

__all__ = (
    "build_output",
    "raw_output",
    "stash_report",
    "stop_reason",
    "without_report",
)


def stop_reason(state: DeliberationState, *, max_rounds: int) -> DeliberationStopReason | None:
    """Why a deliberation ends after the round that was just closed, or None if it goes on.

    >>> from flowdebate.patterns.deliberation.schemas import DeliberationState
    >>> stop_reason(DeliberationState(round=3), max_rounds=3)
    'max_rounds'
    """
    if state.is_settled:
        return "settled"
    return "max_rounds" if state.round >= max_rounds else None


def stash_report(name: str, moderator: str) -> Handler[object, ModeratorReport | None]:
    """A block that adds what `moderator` reported to the state; None for `LOST`, which settles nothing.

    It takes the model, a dict in either key style, or text, which `parse_report` reads; OutputError for what does not
    validate.
    """

    @handler(name=f"{name}-stash-report")
    def stash(value: object, ctx: Context) -> ModeratorReport | None:
        report = None if value is LOST else _as_report(value, moderator)
        state = deliberation_state(ctx)
        ctx.sequencer.update(reports=[*state.reports, report])
        if report is not None:
            ctx.emit(ModeratorReported(block=moderator, round=state.round, report=report))
        return report

    return stash


def _as_report(value: object, moderator: str) -> ModeratorReport:
    if isinstance(value, str):
        return parse_report(clean_text(str(value)))
    return as_model(value, ModeratorReport, block=moderator)


def without_report(error: Exception, _: object, ctx: Context) -> object:
    """What a round is closed with whose report was lost."""
    lose(error, ctx, block=ctx.block, seat="moderator", name=ctx.block, instead="no_report")
    return LOST


def raw_output(participants: Participants) -> Callable[[Context, RunStatus], DeliberationOutput]:
    """What makes the output, also of a deliberation that is cut short: what was said in its last round is in it."""

    def raw(ctx: Context, status: RunStatus) -> DeliberationOutput:
        state = deliberation_state(ctx)
        return DeliberationOutput(
            topic=state.question,
            rounds=state.round,
            history=[*entries_of(ctx), *said_in_progress(state, participants)],
            summaries=["" if report is None else report.summary for report in state.reports],
            final_decision=_decision(state),
            is_settled=state.is_settled,
            reports=list(state.reports),
            stop_reason=state.stop_reason,
            status="failed" if status == "running" else status,
            losses=list(state.losses),
            seed=ctx.seed,
        )

    return raw


def build_output(name: str, raw: Callable[[Context, RunStatus], object]) -> Handler[Any, Any]:
    """A block that gives all that the deliberation came to: the run's output and its `raw`."""

    @handler(name=f"{name}-build-output")
    def build(_: object, ctx: Context) -> object:
        output = raw(ctx, "degraded" if deliberation_state(ctx).losses else "complete")
        finish(ctx, output)
        return output

    return build


def _decision(state: DeliberationState) -> str | None:
    """Settled: what was decided, or the summary where nothing was; else what the last report decides, if anything."""
    report = state.report
    if report is None:
        return None
    return report.summary if state.is_settled and report.decision is None else report.decision
