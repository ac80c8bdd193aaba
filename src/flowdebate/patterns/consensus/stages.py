"""The stages of a consensus debate: which may follow which, and the blocks that enter them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowdebate.blocks.handler import Handler, handler
from flowdebate.patterns.consensus.events import StageEntered, announce
from flowdebate.patterns.consensus.schemas import ConsensusStage, ConsensusState, StageReached

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flowdebate.runs.context import Context

__all__ = (
    "FOLLOWS",
    "enter",
    "in_order_of_stages",
    "stage_block",
)

_S = ConsensusStage
FOLLOWS: Mapping[ConsensusStage, frozenset[ConsensusStage]] = {
    _S.START: frozenset({_S.INITIALIZING}),
    _S.INITIALIZING: frozenset({_S.CONTEXT_READY}),
    _S.CONTEXT_READY: frozenset({_S.GENERATING_PROPOSALS}),
    _S.GENERATING_PROPOSALS: frozenset({_S.PROPOSALS_COMPLETE}),
    _S.PROPOSALS_COMPLETE: frozenset({_S.ROUND_N_CRITIQUE}),
    _S.ROUND_N_CRITIQUE: frozenset({_S.ROUND_N_REVISION}),
    _S.ROUND_N_REVISION: frozenset({_S.CONVERGENCE_CHECK}),
    _S.CONVERGENCE_CHECK: frozenset({_S.ROUND_N_CRITIQUE, _S.ROUNDS_COMPLETE}),
    _S.ROUNDS_COMPLETE: frozenset({_S.VOTING}),
    _S.VOTING: frozenset({_S.VOTE_AGGREGATION}),
    _S.VOTE_AGGREGATION: frozenset({_S.CONSENSUS_REACHED, _S.NO_CONSENSUS}),
    _S.CONSENSUS_REACHED: frozenset(),
    _S.NO_CONSENSUS: frozenset(),
}
"""Which stages may come after each."""

_OF_ROUNDS = frozenset({_S.ROUND_N_CRITIQUE, _S.ROUND_N_REVISION, _S.CONVERGENCE_CHECK})


def in_order_of_stages(stages: Sequence[StageReached]) -> bool:
    """Whether `stages` begin at the start, each follows the one before it, and rounds are counted from 1.

    >>> in_order_of_stages([StageReached(stage=ConsensusStage.START), StageReached(stage=ConsensusStage.INITIALIZING)])
    True
    """
    before: StageReached | None = None
    number = 0
    for reached in stages:
        if reached.stage not in (FOLLOWS[before.stage] if before else {_S.START}):
            return False
        number += reached.stage is _S.ROUND_N_CRITIQUE
        if reached.round != (number if reached.stage in _OF_ROUNDS else None):
            return False
        before = reached
    return True


def enter(stage: ConsensusStage, ctx: Context) -> None:
    """Go on to `stage`, and tell it."""
    state: ConsensusState = ctx.sequencer.state
    reached = StageReached.model_construct(stage=stage, round=state.round if stage in _OF_ROUNDS else None)
    state.stages.append(reached)
    announce(ctx, StageEntered, stage=reached)


def stage_block(name: str, *stages: ConsensusStage) -> Handler[Any, None]:
    """A tap that goes on to `stages`, one after the other."""

    @handler(name=f"{name}-{stages[-1].value.lower().replace('_', '-')}")
    def go_on(_: object, ctx: Context) -> None:
        for stage in stages:
            enter(stage, ctx)

    return go_on
