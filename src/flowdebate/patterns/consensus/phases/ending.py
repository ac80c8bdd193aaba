"""Whether there is another round: what was found out after one, and who or what ends the rounds early."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from flowdebate._util.text import clean_text
from flowdebate.blocks.handler import Handler, handler, result_of
from flowdebate.measures import Jaccard, convergence
from flowdebate.patterns.consensus.phases.rounds import critiques_made, current_round
from flowdebate.patterns.consensus.schemas import ConsensusStage, EarlyEnd, JudgeAnswer, RoundsAsked
from flowdebate.patterns.consensus.stages import enter
from flowdebate.patterns.failures import WithFallback, is_provider_failure, lose
from flowdebate.patterns.state import as_model

if TYPE_CHECKING:
    from flowdebate.blocks.base import Block
    from flowdebate.measures import Convergence
    from flowdebate.patterns.consensus.options import Options
    from flowdebate.patterns.consensus.schemas import ConsensusState
    from flowdebate.runs.context import Context

__all__ = (
    "another_round",
    "check_convergence",
    "end_early",
    "judge_seat",
)


def check_convergence(options: Options) -> Handler[Any, None]:
    """A tap that closes a round: how alike the proposals are, and whether that, the agents or the budget end it."""

    @handler(name=f"{options.name}-convergence")
    async def check(_: object, ctx: Context) -> None:
        enter(ConsensusStage.CONVERGENCE_CHECK, ctx)
        state: ConsensusState = ctx.sequencer.state
        live = [name for name in options.names if name in state.proposals]
        found = await _measured(options, state, live)
        latest = state.rounds[-1] = current_round(ctx).model_copy(update={"convergence": found})
        if found.status == "converged" and options.ends_converged:
            end_early(ctx, "convergence", f"similarity {found.similarity:.2f} ({found.backend})")
        elif len(latest.enough) * 2 > len(live):
            end_early(
                ctx, "agents", f"{len(latest.enough)} of {len(live)} think that another round would change nothing"
            )
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
            converged=options.converged,
            diverging=options.diverging,
        )

    # other measures than ours load libraries and models, for which nothing else should wait
    return measure() if isinstance(options.similarity, Jaccard) else await asyncio.to_thread(measure)


def _before(name: str, state: ConsensusState) -> str:
    """What an agent proposed before the round in progress."""
    for earlier in reversed(state.rounds[:-1]):
        for revised in earlier.revisions:
            if revised.agent == name:
                return revised.text
    return state.first[name].text


def judge_seat(options: Options, judge: Block[Any, Any]) -> Block[Any, Any]:
    """A tap that asks the judge whether the discussion is conclusive, where it could go on; no answer is no."""

    def recover(error: Exception, _: object, ctx: Context) -> None:
        lose(error, ctx, block=judge.name, seat="judge", name=judge.name, instead="no_report")

    guarded = WithFallback(judge, recover=recover, losses=is_provider_failure, timeout=options.turn_timeout)

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
        answer = await guarded(asked, ctx.child(judge.name, f"{ctx.path}/{judge.place}"))
        if answer is None:
            return
        said = as_model({"conclusive": answer} if isinstance(answer, bool) else answer, JudgeAnswer, block=judge.name)
        if said.conclusive:
            end_early(ctx, "judge", clean_text(said.reasoning))

    return ask


def end_early(ctx: Context, source: Any, reason: str) -> None:  # noqa: ANN401 - one of EarlyEnd's
    """Remember why the rounds end before their number is up; the first to say so counts."""
    state: ConsensusState = ctx.sequencer.state
    if state.early_end is None:
        ctx.sequencer.update(early_end=EarlyEnd(source=source, reason=reason, round=state.round))


def another_round(options: Options) -> Any:  # noqa: ANN401 - a function of (input, ctx)
    """Whether the rounds go on."""

    async def goes_on(_: object, ctx: Context) -> bool:
        state: ConsensusState = ctx.sequencer.state
        if state.round >= options.max_rounds:
            if state.early_end is not None:  # nothing was cut short
                ctx.sequencer.update(early_end=None, stop_reason="max_rounds")
            return False
        predicate = options.terminate_when if state.early_end is None else None
        if predicate is not None and await result_of(predicate(ctx)):
            end_early(ctx, "predicate", "terminate_when")
        return ctx.sequencer.state.early_end is None

    return goes_on


def _keep_to_budget(options: Options, budget: int, ctx: Context) -> None:
    """End the rounds where the judge, another round like the last one and the vote would take too many calls."""
    state: ConsensusState = ctx.sequencer.state
    judged = 0 if options.judge is None else 1
    calls = [len(one.edges) + len({target for _, target in one.edges}) for one in state.rounds]
    used = len(options.names) + sum(calls) + judged * (len(calls) - 1)
    more = judged + calls[-1] + len(options.names) + (options.tie_break is not None)
    if used + more > budget:
        end_early(ctx, "budget", f"{used} calls made; a round more and the vote would take {more} of {budget}")
