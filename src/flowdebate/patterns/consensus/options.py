"""The checked options of a consensus debate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flowdebate.blocks.base import Block
    from flowdebate.blocks.handler import Function, Invocation
    from flowdebate.measures import Similarity, VotingRule
    from flowdebate.models.policies.circuit_breaker import Breakers
    from flowdebate.models.resolve import ModelChoice
    from flowdebate.patterns.roster import Persona
    from flowdebate.resources.archive import Archive

__all__ = ("Options",)


@dataclass(frozen=True, kw_only=True)
class Options:
    """All that `consensus` was asked for, known to be right."""

    name: str
    where: str
    roster: tuple[Persona, ...]
    max_rounds: int
    topology: Any
    hub: str | None
    sparsity: float
    converged: float
    diverging: float
    ends_converged: bool
    """Whether convergence ends the rounds."""
    similarity: Similarity
    voting: VotingRule
    weights: Mapping[str, float] | None
    quorum: int | None
    judge: Block[Any, Any] | None
    tie_break: Block[Any, Any] | None
    terminate_when: Function | None
    budget: int | None
    timeout: float | None
    turn_timeout: float | None
    breakers: Breakers | None
    archive: Archive | None
    history_limit: int
    research: Invocation | None
    shuffle: bool
    model: ModelChoice
    """For all blocks inside that name none."""
    defaults: Mapping[str, Any]
    """Options that reach the default blocks only."""
    collection_id: str

    @property
    def names(self) -> list[str]:
        """The agents, in declared order."""
        return [agent.name for agent in self.roster]
