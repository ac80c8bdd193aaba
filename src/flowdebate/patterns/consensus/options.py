"""Options for a consensus debate, and checks for incompatible combinations."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import TYPE_CHECKING, Annotated, TypeAlias, get_args

from pydantic import AfterValidator, Field, InstanceOf
from pydantic_core import PydanticCustomError

from flowdebate._text import join_choices
from flowdebate._util.option_types import Count, Flag, Seconds, Share, Text, check_option, explained, number
from flowdebate.chassis.options import CommonOptions, Constraint, quorum_of
from flowdebate.errors import ConfigurationError, ConflictingOptions
from flowdebate.measures import Similarity, VotingRule, best_similarity
from flowdebate.measures.topologies import Edge, Topology
from flowdebate.models.circuit_breaker import Breakers
from flowdebate.resources.archive import Archive

if TYPE_CHECKING:
    from flowdebate.blocks.functions import Function

TopologyFunction: TypeAlias = Callable[[Sequence[str], int, Random], Collection[Edge]]
"""Function that takes `(names, round, random)` and returns `(critic, target)` pairs."""
DEFAULT_SPARSITY = 0.5
DEFAULT_CONVERGENCE, DEFAULT_DIVERGING = 0.85, 0.40


def _is_sync(value: TopologyFunction) -> TopologyFunction:
    if inspect.iscoroutinefunction(value):
        raise PydanticCustomError("async", "async")
    return value


_Topology = Annotated[
    Topology | Annotated[Callable[..., object], AfterValidator(_is_sync)],
    explained(f"must be {join_choices(get_args(Topology))}, or a sync function of (names, round, random)"),
]
Weights = Annotated[
    Mapping[str, Annotated[float, Field(gt=0, le=1_000_000)]],  # sums of larger weights could overflow
    explained("must map agents to numbers greater than 0 and at most 1,000,000"),
]
_Similarity = Annotated[InstanceOf[Similarity], explained("must be a Similarity, a named function that compares text")]
_Breakers = Annotated[InstanceOf[Breakers], explained("must be Breakers")]
_Archive = Annotated[InstanceOf[Archive], explained("must be an Archive")]
_CountOrZero = Annotated[int, Field(ge=0), number(whole=True, minimum=0)]


@dataclass(frozen=True, slots=True)
class TopologyOptions:
    """Options for pairing critics with targets: `consensus(topology=TopologyOptions("star", hub="ann"))`."""

    topology: Topology | TopologyFunction = "all-to-all"
    hub: str | None = field(default=None, kw_only=True)
    """Agent at the center of a star; by default, the first agent in alphabetical order."""
    sparsity: float = field(default=DEFAULT_SPARSITY, kw_only=True)
    """Fraction of the other agents that criticize each proposal, in the topologies "sparse" and "random-graph"."""

    def __post_init__(self) -> None:
        location = type(self).__name__
        check_option(_Topology, "topology", self.topology, location=location, optional=False)
        check_option(Text, "hub", self.hub, location=location)
        check_option(Share, "sparsity", self.sparsity, location=location, optional=False)


@dataclass(frozen=True)
class ConvergenceOptions:
    """Options for measuring similarity: `consensus(convergence=ConvergenceOptions(0.9, diverging=0.5))`."""

    convergence: float | None = DEFAULT_CONVERGENCE
    """Mean similarity at which proposals count as converged and the rounds end; if None, similarity is measured but
    does not end the rounds.
    """
    diverging: float | None = field(default=None, kw_only=True)
    """Similarity below which proposals count as diverging; by default, 0.40 or `convergence`, whichever is lower."""
    similarity: Similarity | None = field(default=None, kw_only=True)
    """Similarity measure; by default, the best one installed."""

    def __post_init__(self) -> None:
        location = type(self).__name__
        check_option(Share, "convergence", self.convergence, location=location)
        check_option(Share, "diverging", self.diverging, location=location)
        check_option(_Similarity, "similarity", self.similarity, location=location)
        if self.convergence is not None and self.lower_bound > self.convergence:
            sentence = "{diverging} cannot be above {convergence}: proposals between them would be both"
            raise ConflictingOptions(location, ("diverging", "convergence"), sentence)

    @property
    def lower_bound(self) -> float:
        """Return the similarity below which proposals count as diverging."""
        if self.diverging is not None:
            return self.diverging
        return DEFAULT_DIVERGING if self.convergence is None else min(DEFAULT_DIVERGING, self.convergence)

    @cached_property
    def measure(self) -> Similarity:
        """Similarity measure in use."""
        return best_similarity() if self.similarity is None else self.similarity


@dataclass(frozen=True, slots=True)
class VotingOptions:
    """Options for voting: `consensus(voting=VotingOptions("weighted", weights={"ann": 2}))`."""

    voting: VotingRule = "majority"
    """Decision rule. To win, a proposal needs the votes of more than half, at least two thirds, or all of the eligible
    voters. In a weighted vote, it needs more than half of the total weight.
    """
    weights: Mapping[str, float] | None = field(default=None, kw_only=True)
    """Weights for a weighted vote, keyed by agent. All other agents are weighted by their ratings in the archive."""
    min_votes: int | None = field(default=None, kw_only=True)
    """Minimum number of valid votes; by default, half the number of agents, but at least two."""
    shuffle: bool = field(default=True, kw_only=True)
    """True to show the proposals to each voter in a different random order, drawn from the run's seed."""

    def __post_init__(self) -> None:
        location = type(self).__name__
        check_option(VotingRule, "voting", self.voting, location=location, optional=False)
        check_option(Weights, "weights", self.weights, location=location)
        check_option(Count, "min_votes", self.min_votes, location=location)
        check_option(Flag, "shuffle", self.shuffle, location=location, optional=False)


def as_topology(value: Topology | TopologyFunction | TopologyOptions, *, location: str) -> TopologyOptions:
    """Convert the value of `consensus(topology=…)` to options."""
    if isinstance(value, TopologyOptions):
        return value
    check_option(_Topology, "topology", value, location=location, optional=False)
    return TopologyOptions(value)


def as_convergence(value: float | ConvergenceOptions | None, *, location: str) -> ConvergenceOptions:
    """Convert the value of `consensus(convergence=…)` to options."""
    if isinstance(value, ConvergenceOptions):
        return value
    check_option(Share, "convergence", value, location=location)
    return ConvergenceOptions(value)


def as_voting(value: VotingRule | VotingOptions, *, location: str) -> VotingOptions:
    """Convert the value of `consensus(voting=…)` to options."""
    if isinstance(value, VotingOptions):
        return value
    check_option(VotingRule, "voting", value, location=location, optional=False)
    return VotingOptions(value)


@dataclass(frozen=True, kw_only=True)
class ConsensusOptions(CommonOptions):
    """Options for a consensus debate."""

    topology: TopologyOptions
    convergence: ConvergenceOptions
    confidence: float | None
    voting: VotingOptions
    budget: int | None
    timeout: float | None
    breakers: Breakers | None
    archive: Archive | None
    history_limit: int
    research: Function | None

    def check(self, names: Sequence[str], *, location: str) -> None:
        """Raise ConfigurationError if the options are invalid for a debate between the agents in `names`."""
        hub, weights = self.topology.hub, self.voting.weights
        if hub is not None and hub not in names:
            raise ConfigurationError(
                location, "hub", hub, f"must be one of the agents: {join_choices(names)}", choices=names
            )
        for agent in weights or {}:
            if agent not in names:
                raise ConfigurationError(location, "weights", agent, "contains an unknown agent", choices=names)
        check_option(Share, "confidence", self.confidence, location=location)
        check_option(Count, "budget", self.budget, location=location)
        check_option(Seconds, "timeout", self.timeout, location=location)
        check_option(_Breakers, "breakers", self.breakers, location=location)
        check_option(_Archive, "archive", self.archive, location=location)
        check_option(_CountOrZero, "history_limit", self.history_limit, location=location, optional=False)


CONSTRAINTS: Sequence[Constraint[ConsensusOptions]] = (
    Constraint(
        name="hub of a star",
        options=("hub", "topology"),
        sentence="{hub} requires {topology} star: no other topology has a hub",
        broken=lambda options: options.topology.hub is not None and options.topology.topology != "star",
    ),
    Constraint(
        name="weights of a weighted vote",
        options=("weights", "voting"),
        sentence="{weights} requires {voting} weighted: with every other rule all votes weigh the same",
        broken=lambda options: options.voting.weights is not None and options.voting.voting != "weighted",
    ),
    Constraint(
        name="votes of all agents",
        options=("min_votes", "agents"),
        sentence="{min_votes} cannot be more than the number of {agents}",
        broken=lambda options: (options.voting.min_votes or 0) > len(options.roster),
    ),
    quorum_of("agents"),
)
