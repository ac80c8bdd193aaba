"""`consensus()`: agents propose, criticise each other, revise, and vote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowdebate.blocks.generator import as_visibility
from flowdebate.blocks.handler import as_block, invocation
from flowdebate.measures import best_similarity
from flowdebate.patterns import checks
from flowdebate.patterns.consensus.agents import AGENT_VISIBILITY
from flowdebate.patterns.consensus.assembly import assemble
from flowdebate.patterns.consensus.options import Options
from flowdebate.patterns.roster import Persona, checked_roster

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
    from flowdebate.models.policies.circuit_breaker import Breakers
    from flowdebate.models.resolve import ModelChoice
    from flowdebate.patterns.consensus.schemas import ConsensusOutput
    from flowdebate.resources.archive import Archive

__all__ = ("consensus",)


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
    similarity: Similarity | None = None,
    voting: VotingRule = "majority",
    weights: Mapping[str, float] | None = None,
    quorum: int | None = None,
    judge: BlockLike | None = None,
    tie_break: BlockLike | None = None,
    terminate_when: Function | None = None,
    budget: int | None = None,
    timeout: float | None = None,
    turn_timeout: float | None = 90.0,
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
    agent_visibility: Visibility | Mapping[str, bool] | None = None,
    collection_id: str | None = None,
) -> Sequencer[Any, ConsensusOutput]:
    """Make a block in which agents look for the best answer to a task: `await pattern.run("How should we …?")`.

    Every agent proposes, all at once. In each round critics criticise the proposals that `topology` gives them, and
    their authors revise them. Then all vote, and the votes are counted. The output is a `ConsensusOutput`.

    - `agents`: one to many; an agent's `block` takes the place of its default blocks, and is given a
      `ProposalAsked`, `CritiqueAsked`, `RevisionAsked` or `VoteAsked`.
    - `topology`: who criticises whom; `hub` is the star's, `sparsity` that of sparse and random-graph. A function of
      `(names, round, random)` gives edges of its own.
    - `convergence`, `diverging`: bounds of the mean similarity of proposals, measured by `similarity` (None: the best
      that is installed). At `convergence` the rounds end, unless the positions that agents state differ; None measures
      and never ends them. They also end where more than half of the agents have said that it is enough, where
      `judge` finds the discussion conclusive, where `terminate_when(ctx)` is true, and where another round and the
      vote would take more than `budget` calls: `output.early_end` says which.
    - `voting`: more than half of all eligible heads, two thirds, all, or more than half of the weight. `weights` by
      agent (None: by the archive's ratings); `quorum` in valid votes (None: half of the agents, two at least).
      `tie_break` is given the tied proposals, and names one of their authors.
    - `timeout`: seconds that the debate may take; then the output is what was done, without an outcome.
      `turn_timeout`: seconds that a call may take, tools and retries included.
    - `breakers`: circuits of the agents that several runs share (None: new ones for each run): after three failures
      in a row an agent is not asked for a minute.
    - `archive`: past debates, points of critics, ratings, positions; read before the proposals (`history_limit` of
      each), told of the outcome after the vote. `research(task, ctx)`, or `research(task)`, may add text. What was left
      out, and why, is in `output.context`.
    - `shuffle`: each voter sees the proposals in an order of its own, drawn from the run's seed.
    - `instructions`, `tools`, `uses`, `context`, `settings` and `agent_visibility` reach the default blocks of
      agents only.

    What a provider loses is in `output.failures`, and nowhere else; a lost revision leaves the proposal as it was.
    Raises `ConfigurationError` for what cannot be built, `NoProposals` where nobody has proposed anything, and what
    the application's own code raises. The source is the pipeline of aragora.

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
    checks.check_name(name, where="consensus", field="name")
    where = f"consensus {name!r}"
    options = Options(
        name=name,
        where=where,
        roster=checked_roster(agents, where=where, kind=Persona, field="agents", least=1),
        max_rounds=max_rounds,
        topology=topology,
        hub=hub,
        sparsity=sparsity,
        convergence=convergence,
        diverging=diverging,
        similarity=best_similarity() if similarity is None else similarity,
        voting=voting,
        weights=weights,
        quorum=quorum,
        judge=_optional(judge, f"{name}-judge", where, "judge"),
        tie_break=_optional(tie_break, f"{name}-tie-judge", where, "tie_break"),
        terminate_when=terminate_when,
        budget=budget,
        timeout=timeout,
        turn_timeout=turn_timeout,
        breakers=breakers,
        archive=archive,
        history_limit=history_limit,
        research=None if research is None else invocation(research, where=where, field="research"),
        shuffle=shuffle,
        model=model,
        defaults={
            "tools": tools,
            "uses": uses,
            "context": context,
            "instructions": instructions,
            "settings": settings,
            "visibility": as_visibility(agent_visibility, AGENT_VISIBILITY, where=where, field="agent_visibility"),
        },
        collection_id=name if collection_id is None else collection_id,
    )
    return assemble(options)


def _optional(value: BlockLike | None, name: str, where: str, field: str) -> Block[Any, Any] | None:
    return None if value is None else as_block(value, name=name, where=where, field=field)
