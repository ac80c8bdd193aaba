"""`consensus()`: agents propose, criticise each other, revise, and vote."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from flowdebate._util.validation import suggesting
from flowdebate.blocks.generator import as_visibility
from flowdebate.blocks.handler import as_block, invocation
from flowdebate.measures import best_similarity
from flowdebate.patterns.consensus.agents import create_conclusive_judge, create_tie_judge
from flowdebate.patterns.consensus.assembly import ConsensusOptions, assemble
from flowdebate.patterns.consensus.prompts import ConsensusTemplate
from flowdebate.patterns.roles import NOT_KEPT, RoleOptions
from flowdebate.patterns.roster import (
    Persona,
    check_name,
    check_prompt_options,
    check_roster,
    merge_options,
    options_for_all,
)
from flowdebate.patterns.turn import FailurePolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from random import Random

    from flowdebate.blocks.base import Block
    from flowdebate.blocks.generator import MessagesSlot, TextSlot, Visibility
    from flowdebate.blocks.handler import BlockLike, Function
    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.blocks.tools import Capability, ToolLike
    from flowdebate.measures import Edge, Similarity, VotingRule
    from flowdebate.measures.topologies import Topology
    from flowdebate.models.base import ModelSettings
    from flowdebate.models.circuit_breaker import Breakers
    from flowdebate.models.resolve import ModelChoice
    from flowdebate.patterns.consensus.schemas import ConsensusOutput
    from flowdebate.prompts.template import Length, Profile
    from flowdebate.resources.archive import Archive
    from flowdebate.stop import StopWhen


CONSENSUS_FAILURES = FailurePolicy(on_failure="skip", quorum=1, turn_timeout=90.0)
"""The default failure policy: a debate goes on without an agent that fails or takes longer than 90 seconds."""


@suggesting
def consensus(  # noqa: PLR0913 - the pattern's options, each with its default
    *,
    name: str,
    agents: Sequence[Persona | Mapping[str, Any]],
    max_rounds: int = 3,
    topology: Topology | Callable[[Sequence[str], int, Random], Collection[Edge]] = "all-to-all",
    hub: str | None = None,
    sparsity: float = 0.5,
    convergence: float | None = 0.85,
    diverging: float = 0.40,
    confidence: float | None = None,
    similarity: Similarity | None = None,
    voting: VotingRule = "majority",
    weights: Mapping[str, float] | None = None,
    quorum: int | None = None,
    judge: BlockLike | RoleOptions | Literal[True] | None = None,
    tie_break: BlockLike | RoleOptions | Literal[True] | None = None,
    terminate_when: StopWhen | None = None,
    budget: int | None = None,
    timeout: float | None = None,
    breakers: Breakers | None = None,
    archive: Archive | None = None,
    history_limit: int = 5,
    research: Function | None = None,
    shuffle: bool = True,
    instructions: TextSlot | None = None,
    model: ModelChoice = None,
    tools: Sequence[ToolLike] | None = None,
    uses: Sequence[Capability] | None = None,
    context: MessagesSlot | None = None,
    settings: ModelSettings | None = None,
    profile: Profile | None = None,
    length: Length | None = None,
    template: ConsensusTemplate | None = None,
    agent_visibility: Visibility | Mapping[str, bool] | None = None,
    collection_id: str | None = None,
    failures: FailurePolicy | None = None,
) -> Sequencer[Any, ConsensusOutput]:
    """Build a consensus debate, in which agents search for the best answer: `await pattern.run("How should we …?")`.

    All agents make a proposal at once. In each round critics criticise the proposals that `topology` assigns them, and
    the authors revise them. Then all agents vote. The output is a `ConsensusOutput`.

    - `agents`: one or more; an agent's `block` replaces its default blocks and receives a `ProposalAsked`,
      `CritiqueAsked`, `RevisionAsked` or `VoteAsked`.
    - `topology`: who criticises whom, or a function of `(names, round, random)` that returns the edges. `hub` is the
      center of a star; `sparsity` applies to sparse and random-graph.
    - `convergence`, `diverging`: thresholds of the mean similarity of proposals, measured by `similarity` (None: the
      best one installed). From `convergence` on the rounds end, unless the agents' stated positions differ; None only
      measures it. The rounds also end if more than half of the agents say that it is enough, if `judge` finds the
      discussion conclusive, if `terminate_when(ctx)` returns true, or if another round and the vote would exceed
      `budget` calls: `output.early_end` says which.
    - `confidence`: with a number, the agents are polled after each round but the last. If the poll has a consensus of
      at least that confidence, the rounds end, and its ballots are the vote. A poll takes one call of each agent.
    - `voting`: the decision rule over all eligible voters: more than half, two thirds, all, or more than half of the
      weight. `weights` by agent (None: from the archive's ratings); `quorum` in valid votes (None: half of the agents,
      at least two). `tie_break` receives the tied proposals and names one author.
    - `timeout`: seconds for the whole debate; after that the output contains what was done so far, without an outcome.
    - `failures`: a `FailurePolicy`; None is `CONSENSUS_FAILURES`: failed calls are skipped, after 90 seconds at the
      latest. With `StandIn(model)` another model answers for the agent; with "fail" the run raises the error. Its
      `quorum` counts agents with a proposal; `quorum` here counts votes. `turn_timeout` bounds each call,
      `round_timeout` all calls of a round together, and likewise all proposals, and all votes.
    - `breakers`: the agents' circuit breakers, to share between runs (None creates new ones for each run): after three
      failures in a row an agent is not asked for a minute.
    - `archive`: past debates, critics' points, ratings and positions, read before the proposals (`history_limit` of
      each) and updated after the vote. `research(task, ctx)` or `research(task)` may add text. `output.context` lists
      what was left out and why.
    - `shuffle`: whether each voter sees the proposals in its own random order, drawn from the run's seed.
    - `judge`, `tie_break`: True for the default one, `ModeratorOptions` for its options, a block or a function.
    - `profile`: default prompts for small models ("concise") or for others ("full"); None: as each model asks for.
      `length` of a turn: "short", "medium", "long" or a number of words; None: short with concise prompts, medium with
      full ones. `template`: the texts of the agents' prompts, in place of the profile's.
    - `instructions`, `tools`, `uses`, `context`, `settings` and `profile` apply to default blocks only, `length`,
      `template` and `agent_visibility` to those of agents.

    `output.failures` lists failed calls, whose partial answers are not used; after a skipped revision the proposal is
    as before. Invalid options raise `ConfigurationError` before anything is built; `NoProposals` is raised if nobody
    makes a proposal; exceptions from your own code are always raised. The pattern follows the pipeline of aragora.

    >>> from flowdebate.testing import FunctionModel
    >>> agents = [{"name": "ann"}, {"name": "bob"}]
    >>> plan = consensus(name="plan", agents=agents, max_rounds=1)
    >>> def answer(request):
    ...     match request.block.split("-")[1]:
    ...         case "propose":
    ...             return "Cap rents, and build more homes."
    ...         case "criticise":
    ...             return {"reasoning": "Sound.", "issues": [], "suggestions": [], "severity": 0.1}
    ...         case "revise":
    ...             return {"proposal": "Cap rents, and build more homes.", "position": "cap", "enough": True}
    ...         case _:
    ...             return {"reasoning": "Clear.", "choice": "ann", "confidence": 0.9}
    >>> output = plan.run_sync("How can rents be affordable?", model=FunctionModel(answer)).output
    >>> output.outcome, output.winner, output.strength, output.early_end
    ('consensus', 'ann', 'unanimous', None)
    """
    given = locals()
    check_name(name, where="consensus", field="name")
    where = f"consensus {name!r}"
    check_prompt_options(given, ConsensusTemplate, where=where)
    roster = check_roster(agents, where=where, kind=Persona, field="agents", least=1)
    seen = as_visibility(agent_visibility, NOT_KEPT, where=where, field="agent_visibility")
    defaults = options_for_all(given)
    of_agents = merge_options(defaults, {"length": length, "template": template, "visibility": seen})
    of_judges = {"name": name, **defaults}
    breaks_ties = partial(create_tie_judge, choices=[agent.name for agent in roster])
    options = ConsensusOptions(
        name=name,
        where=where,
        roster=roster,
        max_rounds=max_rounds,
        topology=topology,
        hub=hub,
        sparsity=sparsity,
        convergence=convergence,
        diverging=diverging,
        confidence=confidence,
        similarity=best_similarity() if similarity is None else similarity,
        voting=voting,
        weights=weights,
        quorum=quorum,
        judge=_optional(judge, "judge", create_conclusive_judge, f"{name}-judge", where, of_judges),
        tie_break=_optional(tie_break, "tie_break", breaks_ties, f"{name}-tie-judge", where, of_judges),
        terminate_when=terminate_when,
        budget=budget,
        timeout=timeout,
        breakers=breakers,
        archive=archive,
        history_limit=history_limit,
        research=None if research is None else invocation(research, where=where, field="research"),
        shuffle=shuffle,
        model=model,
        defaults=of_agents,
        collection_id=name if collection_id is None else collection_id,
        failures=CONSENSUS_FAILURES if failures is None else failures,
    )
    return assemble(options)


def _optional(
    value: BlockLike | RoleOptions | Literal[True] | None,
    field: str,
    create: Callable[..., Block[Any, Any]],
    name: str,
    where: str,
    defaults: Mapping[str, Any],
) -> Block[Any, Any] | None:
    """The block of a judge: the default one, made by `create`, for True or options; the application's own; or none."""
    if value is None:
        return None
    if value is True:
        return create(**defaults)
    if isinstance(value, RoleOptions):
        return create(**merge_options(defaults, value))
    return as_block(value, name=name, where=where, field=field).in_role("judge")
