"""End of the rounds: convergence, the agents, a judge, a budget, a stop condition, or their number."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from flowdebate._util.text import clean_text
from flowdebate.blocks.handler import Handler, handler
from flowdebate.measures import Jaccard, convergence
from flowdebate.patterns.consensus.phases.rounds import critiques_made, current_round
from flowdebate.patterns.consensus.schemas import EarlyEnd, JudgeAnswer, RoundsAsked
from flowdebate.patterns.consensus.stages import ConsensusStage, enter
from flowdebate.patterns.failures import WithFallback, is_provider_failure, record_failure
from flowdebate.patterns.loop import another_round, round_limit
from flowdebate.patterns.state import as_model

if TYPE_CHECKING:
    from flowdebate.blocks.base import Block
    from flowdebate.blocks.handler import Function
    from flowdebate.measures import Convergence
    from flowdebate.patterns.consensus.options import Options
    from flowdebate.patterns.consensus.schemas import ConsensusState
    from flowdebate.runs.context import Context

__all__ = (
    "ask_judge",
    "check_convergence",
    "conclusive_judge",
    "early_end",
    "lose_judge",
    "rounds_go_on",
    "time_is_up",
)


def check_convergence(options: Options) -> Handler[Any, None]:
    """A tap that measures how alike the proposals are; that, the agents or the budget may end the rounds."""

    @handler(name=f"{options.name}-convergence")
    async def check(_: object, ctx: Context) -> None:
        enter(ConsensusStage.CONVERGENCE_CHECK, ctx)
        state: ConsensusState = ctx.sequencer.state
        live = [name for name in options.names if name in state.proposals]
        found = await _measured(options, state, live)
        latest = state.rounds[-1] = current_round(ctx).model_copy(update={"convergence": found})
        if found.status == "converged" and options.convergence is not None:
            _end_early(ctx, "convergence", f"similarity {found.similarity:.2f} ({found.backend})")
        elif len(latest.enough) * 2 > len(live):
            reason = f"{len(latest.enough)} of {len(live)} think that another round would change nothing"
            _end_early(ctx, "agents", reason)
        elif options.budget is not None and state.round < options.max_rounds:
            _keep_to_budget(options, options.budget, ctx)

    return check


async def _measured(options: Options, state: ConsensusState, live: list[str]) -> Convergence:
    now = {name: state.proposals[name].text for name in live}
    before = {name: _before(name, state) for name in live}
    positions = {name: said for name in live if (said := state.proposals[name].position) is not None}

    def measure() -> Convergence:
        return convergence(
            now,
            before,
            positions=positions or None,
            similarity=options.similarity,
            converged=1.0 if options.convergence is None else options.convergence,
            diverging=options.diverging,
        )

    # other measures load libraries and models: they must not block the event loop
    return measure() if isinstance(options.similarity, Jaccard) else await asyncio.to_thread(measure)


def _before(name: str, state: ConsensusState) -> str:
    """The agent's proposal before the round in progress."""
    for earlier in reversed(state.rounds[:-1]):
        for revised in earlier.revisions:
            if revised.agent == name:
                return revised.text
    return state.first[name].text


def conclusive_judge(options: Options, judge: Block[Any, Any]) -> Handler[Any, None]:
    """A tap that asks `judge` whether the discussion is conclusive, unless the rounds end anyway; no answer is no."""

    @handler(name=f"{options.name}-conclusive")
    async def ask(_: object, ctx: Context) -> None:
        state: ConsensusState = ctx.sequencer.state
        if state.early_end is not None or state.round >= options.max_rounds:
            return
        asked = RoundsAsked(
            task=state.question,
            round=state.round,
            proposals=[state.proposals[name] for name in options.names if name in state.proposals],
            critiques=critiques_made(ctx),
        )
        answer = await ask_judge(judge, asked, options, ctx)
        if answer is None:
            return
        said = as_model({"conclusive": answer} if isinstance(answer, bool) else answer, JudgeAnswer, block=judge.name)
        if said.conclusive:
            _end_early(ctx, "judge", clean_text(said.reasoning))

    return ask


async def ask_judge(judge: Block[Any, Any], asked: object, options: Options, ctx: Context) -> Any:  # noqa: ANN401 - what it gives
    """The judge's answer, in time; None if its provider failed for good."""

    def recover(error: Exception, _: object, inside: Context) -> None:
        lose_judge(error, judge, inside)

    guarded = WithFallback(judge, recover=recover, losses=is_provider_failure, timeout=options.turn_timeout)
    return await guarded(asked, ctx.child(judge.name, f"{ctx.path}/{judge.place}"))


def lose_judge(error: Exception, judge: Block[Any, Any], ctx: Context) -> None:
    """Record that the debate goes on without the judge's answer."""
    record_failure(error, ctx, block=judge.name, role="judge", name=judge.name, instead="no_report")


def rounds_go_on(options: Options) -> Function:
    """The condition of the loop: whether there is another round."""

    def stops(state: ConsensusState, /, *, predicate: bool) -> str | None:
        if state.early_end is not None and state.round < options.max_rounds:
            return state.early_end.source
        return round_limit(state.round, max_rounds=options.max_rounds, predicate=predicate)

    return another_round(stops, options.terminate_when)


def early_end(state: ConsensusState) -> EarlyEnd | None:
    """The record of why the rounds ended before their number was up; None if they did not."""
    if state.stop_reason == "predicate":
        return EarlyEnd(source="predicate", reason="terminate_when", round=state.round)
    return None if state.stop_reason == "max_rounds" else state.early_end


def time_is_up(ctx: Context, timeout: float | None) -> None:
    """Record that the debate took longer than `timeout`, unless its rounds had a reason of their own to end early."""
    if early_end(ctx.sequencer.state) is None:
        ctx.sequencer.update(early_end=None, stop_reason="timeout")
        _end_early(ctx, "timeout", f"the debate may take {timeout:g} s")


def _end_early(ctx: Context, source: Any, reason: str) -> None:  # noqa: ANN401 - one of EarlyEnd's
    """Have the rounds end before their number is up; the first reason counts."""
    state: ConsensusState = ctx.sequencer.state
    if state.early_end is None:
        ctx.sequencer.update(early_end=EarlyEnd(source=source, reason=reason, round=state.round))


def _keep_to_budget(options: Options, budget: int, ctx: Context) -> None:
    """End the rounds where the judge, another round like the last one and the vote would take too many calls."""
    state: ConsensusState = ctx.sequencer.state
    judged = 0 if options.judge is None else 1
    calls = [len(one.edges) + len({target for _, target in one.edges}) for one in state.rounds]
    used = len(options.names) + sum(calls) + judged * (len(calls) - 1)
    more = judged + calls[-1] + len(options.names) + (options.tie_break is not None)
    if used + more > budget:
        _end_early(ctx, "budget", f"{used} calls made; a round more and the vote would take {more} of {budget}")
