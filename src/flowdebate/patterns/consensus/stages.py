"""Stages of a consensus debate: their names, their order, and the steps that enter them."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from flowdebate._util.wire import WireModel
from flowdebate.blocks.handler import Handler, handler
from flowdebate.patterns.consensus.events import StageEntered

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flowdebate.runs.context import Context

__all__ = (
    "FOLLOWS",
    "ConsensusStage",
    "StageReached",
    "enter",
    "in_order_of_stages",
    "stage_block",
)


class ConsensusStage(StrEnum):
    """The stages of a consensus debate, in their order; the three of a round repeat."""

    START = "START"
    INITIALIZING = "INITIALIZING"
    CONTEXT_READY = "CONTEXT_READY"
    GENERATING_PROPOSALS = "GENERATING_PROPOSALS"
    PROPOSALS_COMPLETE = "PROPOSALS_COMPLETE"
    ROUND_N_CRITIQUE = "ROUND_N_CRITIQUE"
    ROUND_N_REVISION = "ROUND_N_REVISION"
    CONVERGENCE_CHECK = "CONVERGENCE_CHECK"
    ROUNDS_COMPLETE = "ROUNDS_COMPLETE"
    VOTING = "VOTING"
    VOTE_AGGREGATION = "VOTE_AGGREGATION"
    CONSENSUS_REACHED = "CONSENSUS_REACHED"
    NO_CONSENSUS = "NO_CONSENSUS"


class StageReached(WireModel):
    """A stage, and the round that it belongs to."""

    stage: ConsensusStage
    round: int | None = None
    """For the stages of a round; None for the others."""

    @property
    def label(self) -> str:
        """The stage's name with its round in it: `ROUND_2_CRITIQUE`."""
        return self.stage.value.replace("_N_", f"_{self.round}_")


_S = ConsensusStage
_IN_ROUND = frozenset({_S.ROUND_N_CRITIQUE, _S.ROUND_N_REVISION, _S.CONVERGENCE_CHECK})
_BRANCHES = {
    _S.CONVERGENCE_CHECK: frozenset({_S.ROUND_N_CRITIQUE, _S.ROUNDS_COMPLETE}),
    _S.VOTE_AGGREGATION: frozenset({_S.CONSENSUS_REACHED, _S.NO_CONSENSUS}),
    _S.CONSENSUS_REACHED: frozenset(),
    _S.NO_CONSENSUS: frozenset(),
}
FOLLOWS: Mapping[ConsensusStage, frozenset[ConsensusStage]] = {
    **{stage: frozenset({after}) for stage, after in zip(_S, list(_S)[1:], strict=False)},
    **_BRANCHES,
}
"""The stages that may come after each: the next one, but at the end of a round and of the vote."""


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
        if reached.round != (number if reached.stage in _IN_ROUND else None):
            return False
        before = reached
    return True


def enter(stage: ConsensusStage, ctx: Context) -> None:
    """Go on to `stage`, and emit it."""
    state = ctx.sequencer.state
    reached = StageReached.model_construct(stage=stage, round=state.round if stage in _IN_ROUND else None)
    state.stages.append(reached)
    ctx.emit(StageEntered(stage=reached, path=ctx.path))


def stage_block(name: str, *stages: ConsensusStage) -> Handler[Any, None]:
    """A tap that goes on to `stages`, one after the other."""

    @handler(name=f"{name}-{stages[-1].value.lower().replace('_', '-')}")
    def go_on(_: object, ctx: Context) -> None:
        for stage in stages:
            enter(stage, ctx)

    return go_on
