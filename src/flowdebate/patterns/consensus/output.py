"""What a consensus debate came to, whatever its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate.measures import strength
from flowdebate.patterns.consensus.schemas import ConsensusOutput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.patterns.consensus.options import Options
    from flowdebate.patterns.consensus.schemas import AgentFailure, ConsensusRound, ConsensusState
    from flowdebate.runs.context import Context
    from flowdebate.runs.events import RunStatus

__all__ = ("output_of",)

_PHASES = ("proposal", "critique", "revision", "vote")


def output_of(options: Options, ctx: Context, status: RunStatus) -> ConsensusOutput:
    """The debate around a step as it is now: in declared order, in whatever order answers came."""
    state: ConsensusState = ctx.sequencer.state
    names = options.names
    counted = state.tally
    winner = None if counted is None else counted.winner
    return ConsensusOutput(
        task=state.question,
        outcome=None if counted is None else "consensus" if counted.reached else "no_consensus",
        answer=None if winner is None else state.proposals[winner].text,
        winner=winner,
        strength=None if counted is None else strength(counted.counts, eligible=counted.eligible),
        confidence=0.0 if counted is None else counted.confidence,
        context=state.context,
        proposals=[state.first[name] for name in names if name in state.first],
        rounds=[_ordered(one, names) for one in state.rounds],
        final_proposals=[state.proposals[name] for name in names if name in state.proposals],
        ballots=[state.ballots[name] for name in names if name in state.ballots],
        tally=counted,
        early_end=state.early_end,
        failures=sorted(state.failures, key=lambda failure: _place(failure, names)),
        losses=list(state.losses),
        stages=list(state.stages),
        status="failed" if status == "running" else status,
        seed=ctx.seed,
    )


def _ordered(one: ConsensusRound, names: Sequence[str]) -> ConsensusRound:
    order = {edge: index for index, edge in enumerate(one.edges)}
    place = {name: index for index, name in enumerate(names)}
    return one.model_copy(
        update={
            "critiques": sorted(one.critiques, key=lambda critique: order[critique.critic, critique.target]),
            "revisions": sorted(one.revisions, key=lambda revised: place[revised.agent]),
            "enough": sorted(one.enough, key=place.__getitem__),
        }
    )


def _place(failure: AgentFailure, names: Sequence[str]) -> tuple[int, int, int, int]:
    target = -1 if failure.target is None else names.index(failure.target)
    when = failure.round + (failure.phase == "vote")  # votes come after the last round
    return when, _PHASES.index(failure.phase), names.index(failure.agent), target
