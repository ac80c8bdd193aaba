"""Options of a consensus debate, checked before anything is built."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, get_args

from flowdebate._util.validation import check_count, check_seconds
from flowdebate.errors import ConfigurationError
from flowdebate.measures import Similarity, VotingRule
from flowdebate.measures.topologies import edges
from flowdebate.models.policies.circuit_breaker import Breakers
from flowdebate.models.resolve import check_model
from flowdebate.patterns import checks
from flowdebate.resources.archive import Archive

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.blocks.base import Block
    from flowdebate.blocks.handler import Function, Invocation
    from flowdebate.models.resolve import ModelChoice
    from flowdebate.patterns.roster import Persona

__all__ = ("Options",)


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of `consensus`; ConfigurationError for one that cannot be."""

    name: str
    where: str
    roster: tuple[Persona, ...]
    max_rounds: int
    topology: Any
    hub: str | None
    sparsity: float
    convergence: float | None
    diverging: float
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

    def __post_init__(self) -> None:
        where = self.where
        checks.check_rounds(self.max_rounds, where=where)
        self._check_topology()
        self._check_bounds()
        self._check_vote()
        optional = {"budget": self.budget, "quorum": self.quorum}
        check_count(where, **{field: value for field, value in optional.items() if value is not None})
        seconds = {"timeout": self.timeout, "turn_timeout": self.turn_timeout}
        check_seconds(where, **{field: value for field, value in seconds.items() if value is not None})
        limit = self.history_limit
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 0:
            raise ConfigurationError(where, "history_limit", limit, "an int >= 0")
        for field, kind, value in (("breakers", Breakers, self.breakers), ("archive", Archive, self.archive)):
            if value is not None and not isinstance(value, kind):
                raise ConfigurationError(where, field, value, f"{kind.__name__}(…), or None")
        checks.check_predicate(self.terminate_when, where=where)
        measure: object = self.similarity
        if not isinstance(measure, Similarity):
            allowed = "a measure with a name, to be called with texts, or None"
            raise ConfigurationError(where, "similarity", measure, allowed)
        check_model(self.model, where=where)
        checks.check_name(self.collection_id, where=where, field="collection_id")

    def _check_topology(self) -> None:
        if self.hub is not None and self.topology != "star":
            raise ConfigurationError(self.where, "hub", self.hub, "None: only the star has a hub")
        own = callable(self.topology) and not inspect.iscoroutinefunction(self.topology)
        topology: Any = "all-to-all" if own else self.topology  # an application's function is checked in each round
        try:
            edges(topology, self.names, round=1, random=Random(0), hub=self.hub, sparsity=self.sparsity)  # noqa: S311
        except ConfigurationError as error:
            raise ConfigurationError(self.where, error.field, error.got, error.allowed) from None

    def _check_bounds(self) -> None:
        convergence = 1.0 if self.convergence is None else self.convergence
        for field, value in (("convergence", convergence), ("diverging", self.diverging)):
            if not _is_number(value) or not 0 <= value <= 1:
                allowed = "a number from 0 to 1" + " or None" * (field == "convergence")
                raise ConfigurationError(self.where, field, value, allowed)
        if self.convergence is not None and self.diverging > self.convergence:
            allowed = f"no more than convergence={self.convergence}"
            raise ConfigurationError(self.where, "diverging", self.diverging, allowed)

    def _check_vote(self) -> None:
        names = self.names
        if self.voting not in get_args(VotingRule):
            allowed = f"one of {', '.join(map(repr, get_args(VotingRule)))}"
            raise ConfigurationError(self.where, "voting", self.voting, allowed)
        if isinstance(self.quorum, int) and self.quorum > len(names):
            raise ConfigurationError(self.where, "quorum", self.quorum, f"no more than the {len(names)} agents")
        if self.weights is None:
            return
        if not isinstance(self.weights, Mapping):
            raise ConfigurationError(self.where, "weights", self.weights, "a dict of agent to number, or None")
        if self.voting != "weighted":
            raise ConfigurationError(self.where, "weights", self.weights, "None with voting other than 'weighted'")
        _check_weights(self.where, self.weights, names)


def _check_weights(where: str, weights: Mapping[str, float], names: Sequence[str]) -> None:
    for agent, weight in weights.items():
        if agent not in names:
            raise ConfigurationError(where, f"weights[{agent!r}]", weight, f"of one of the agents {names}")
        if not _is_number(weight) or not math.isfinite(weight) or weight <= 0:
            raise ConfigurationError(where, f"weights[{agent!r}]", weight, "a finite number > 0")


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
