"""Assembly of a consensus debate: its checked options, and its phases from top to bottom."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, get_args

from flowdebate._util.validation import check_count, check_seconds, check_weight
from flowdebate.blocks.handler import Handler, as_block, handler
from flowdebate.blocks.human.prompt import render_who
from flowdebate.blocks.sequencer import Sequencer, sequencer
from flowdebate.errors import ConfigurationError
from flowdebate.measures import Similarity, VotingRule
from flowdebate.measures.topologies import edges
from flowdebate.models.circuit_breaker import Breakers
from flowdebate.models.resolve import check_model
from flowdebate.patterns.consensus.agent_calls import AgentCalls, Phase, circuits
from flowdebate.patterns.consensus.agents import create_critic, create_proposer, create_reviser, create_voter
from flowdebate.patterns.consensus.archive import gather_context
from flowdebate.patterns.consensus.events import ConsensusStage, enter
from flowdebate.patterns.consensus.output import ConsensusLifecycle, build_output
from flowdebate.patterns.consensus.prompts import ConsensusTemplate
from flowdebate.patterns.consensus.rounds import (
    CRITICISING,
    PROPOSING,
    REVISING,
    ask_for_critiques,
    ask_for_proposals,
    ask_for_revisions,
    check_convergence,
    check_proposals,
    conclusive_judge,
    open_round,
    rounds_go_on,
)
from flowdebate.patterns.consensus.schemas import ConsensusInput, ConsensusOutput, ConsensusState
from flowdebate.patterns.consensus.vote import POLLING, VOTING, ask_for_votes, ask_in_poll, count_poll, count_votes
from flowdebate.patterns.output import stamp_subject
from flowdebate.patterns.roster import (
    check_failure_policy,
    check_name,
    check_predicate,
    is_own,
    merge_options,
    with_answer_schema,
)
from flowdebate.patterns.rounds import input_validator, note_of_ends
from flowdebate.patterns.turn import AUDIT
from flowdebate.resources.archive import Archive
from flowdebate.resources.tasks import create_task_collection

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from flowdebate.blocks.base import Block
    from flowdebate.blocks.handler import Invocation
    from flowdebate.models.base import Model
    from flowdebate.models.resolve import ModelChoice
    from flowdebate.patterns.roster import Persona
    from flowdebate.patterns.turn import FailurePolicy
    from flowdebate.runs.context import Context
    from flowdebate.stop import StopWhen


_S = ConsensusStage


@dataclass(frozen=True, kw_only=True)
class ConsensusOptions:
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
    confidence: float | None
    similarity: Similarity
    voting: VotingRule
    weights: Mapping[str, float] | None
    quorum: int | None
    judge: Block[Any, Any] | None
    tie_break: Block[Any, Any] | None
    terminate_when: StopWhen | None
    budget: int | None
    timeout: float | None
    failures: FailurePolicy
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
        check_count(where, max_rounds=self.max_rounds)
        self._check_topology()
        self._check_bounds()
        self._check_vote()
        optional = {"budget": self.budget, "quorum": self.quorum}
        check_count(where, **{field: value for field, value in optional.items() if value is not None})
        if self.timeout is not None:
            check_seconds(where, timeout=self.timeout)
        check_failure_policy(self.failures, where=where)
        check_count(where, least=0, history_limit=self.history_limit)
        for field, kind, value in (("breakers", Breakers, self.breakers), ("archive", Archive, self.archive)):
            if value is not None and not isinstance(value, kind):
                raise ConfigurationError(where, field, value, f"{kind.__name__}(…), or None")
        for agent in self.roster:
            template = None if agent.options is None else agent.options.template
            if not isinstance(template, (ConsensusTemplate, type(None))):
                raise ConfigurationError(where, f"template of {agent.name!r}", template, "a ConsensusTemplate")
        check_predicate(self.terminate_when, where=where)
        measure: object = self.similarity
        if not isinstance(measure, Similarity):
            allowed = "a measure with a name, to be called with texts, or None"
            raise ConfigurationError(where, "similarity", measure, allowed)
        check_model(self.model, where=where)
        check_name(self.collection_id, where=where, field="collection_id")

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
        optional = {"convergence": self.convergence, "confidence": self.confidence}
        given = {field: value for field, value in optional.items() if value is not None}
        for field, value in {**given, "diverging": self.diverging}.items():
            if not _is_number(value) or not 0 <= value <= 1:
                allowed = "a number from 0 to 1" + " or None" * (field in optional)
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
        check_weight(where, agent, weight)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def assemble(options: ConsensusOptions) -> Sequencer[Any, ConsensusOutput]:
    """The debate as a block."""
    return (
        sequencer(
            name=options.name,
            state=ConsensusState,
            owns=[create_task_collection(options.collection_id, key=AUDIT), circuits(options.breakers)],
            accepts=input_validator(options.where, ConsensusInput),
            model=options.model,
            protected=True,
        )
        .tap(stamp_subject(options.name, lambda ctx, status: build_output(options, ctx, status)))
        .then(ConsensusLifecycle(options, _phases(options)))
    )


def _phases(options: ConsensusOptions) -> Sequencer[Any, Any]:
    name, opening = options.name, open_round(options)
    pipeline = (
        sequencer(name=f"{name}-phases")
        .tap(_stage(name, _S.START, _S.INITIALIZING))
        .tap(gather_context(options))
        .tap(_stage(name, _S.CONTEXT_READY, _S.GENERATING_PROPOSALS))
        .tap_each(_calls(options, PROPOSING, create_proposer), over=ask_for_proposals(options))
        .tap(check_proposals(options))
        .tap(opening)
        .tap_each(_calls(options, CRITICISING, create_critic), over=ask_for_critiques)
        .tap(_stage(name, _S.ROUND_N_REVISION))
        .tap_each(_calls(options, REVISING, create_reviser), over=ask_for_revisions(options))
        .tap(check_convergence(options))
    )
    if options.judge is not None:
        pipeline = pipeline.tap(conclusive_judge(options, options.judge))
    if options.confidence is not None:
        pipeline = pipeline.tap_each(_calls(options, POLLING, create_voter), over=ask_in_poll(options))
        pipeline = pipeline.tap(count_poll(options, options.confidence))
    return (
        pipeline.loop_back(
            opening.name,
            when=rounds_go_on(options),
            max_iterations=options.max_rounds,
            label="round",
            note=note_of_ends(terminate_when=options.terminate_when),
        )
        .tap(_stage(name, _S.ROUNDS_COMPLETE, _S.VOTING))
        .tap_each(_calls(options, VOTING, create_voter), over=ask_for_votes(options))
        .tap(count_votes(options))
    )


def _stage(name: str, *stages: ConsensusStage) -> Handler[Any, None]:
    """A tap that goes on to `stages`, one after the other."""

    @handler(name=f"{name}-{stages[-1].value.lower().replace('_', '-')}")
    def go_on(_: object, ctx: Context) -> None:
        for stage in stages:
            enter(stage, ctx)

    return go_on


def _calls(options: ConsensusOptions, phase: Phase, create: Callable[..., Block[Any, Any]]) -> AgentCalls:
    """The calls of a phase: to the agents' own blocks, or to default ones, and to their stand-ins."""
    given = {"choices": options.names, "shuffle": options.shuffle} if phase in (POLLING, VOTING) else {}
    model = options.failures.stand_in

    def default(agent: Persona, stand_in: Model | None = None) -> Block[Any, Any]:
        own = merge_options(options.defaults, {"model": agent.model}, agent.options, given, {"model": stand_in})
        if phase not in (PROPOSING, REVISING):
            own.pop("length", None)
        return create(name=options.name if stand_in is None else f"{options.name}-stand-in", agent=agent, **own)

    return AgentCalls(
        f"{options.name}-{phase.name}",
        phase=phase,
        agents={agent.name: _own_block(options, agent) or default(agent) for agent in options.roster},
        stand_ins={} if model is None else {agent.name: default(agent, model) for agent in options.roster},
        failures=options.failures,
        own={agent.name for agent in options.roster if is_own(agent.block)},
    )


def _own_block(options: ConsensusOptions, agent: Persona) -> Block[Any, Any] | None:
    if agent.block is None:
        return None
    name = f"{options.name}-agent-{agent.name}"
    block = as_block(agent.block, name=name, where=options.where, field=f"block of {agent.name!r}")
    return with_answer_schema(block, who=render_who(agent.name, role=agent.role)).in_role("debater")
