"""`consensus()`: its options, checked before anything is built; its steps from the first to the last; its output."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, get_args

from flowdebate._text import error_text, one_line
from flowdebate._util.option_types import Rounds, check_option
from flowdebate._util.validation import check_count, check_seconds, check_weight, suggesting
from flowdebate.blocks.base import Block, Outline, merge_resources
from flowdebate.blocks.functions import (
    BlockLike,
    Capability,
    Function,
    Handler,
    Invocation,
    ToolLike,
    as_block,
    handler,
    invocation,
)
from flowdebate.blocks.generator import MessagesSlot, TextSlot, Visibility, as_visibility
from flowdebate.blocks.sequencer import Sequencer, sequencer
from flowdebate.chassis.material import Material, make_material
from flowdebate.chassis.options import CommonOptions, PromptOptions, check_prompts
from flowdebate.chassis.output import publish, stamp_subject
from flowdebate.chassis.roles import NOT_KEPT, RoleOptions, SpeakerOptions
from flowdebate.chassis.roster import (
    Persona,
    check_failure_policy,
    check_name,
    check_predicate,
    check_roster,
    merge_options,
    own_options,
    speaker_options,
    with_answer_schema,
)
from flowdebate.chassis.rounds import AnotherRound, input_validator, note_of_ends
from flowdebate.chassis.seats import seat_models
from flowdebate.chassis.turn import AUDIT, FailurePolicy
from flowdebate.errors import ConfigurationError
from flowdebate.measures import Similarity, VotingRule, best_similarity
from flowdebate.measures.topologies import Topology, edges
from flowdebate.models.circuit_breaker import Breakers
from flowdebate.models.resolve import ModelChoice, check_model
from flowdebate.resources.archive import Archive
from flowdebate.resources.resource import HeldResource
from flowdebate.resources.tasks import create_task_collection

from .agents import BREAKERS, AgentCalls, create_conclusive_judge, create_tie_judge
from .archive import gather_context, give_feedback
from .events import DebateEnded, DebateStarted, enter
from .prompts import ConsensusTemplate
from .relations import analyse
from .rounds import (
    Criticising,
    Polling,
    Proposing,
    Revising,
    Voting,
    ask_conclusive_judge,
    bound_confidence,
    bound_strength,
    check_convergence,
    check_proposals,
    count_poll,
    count_votes,
    end_early,
    find_early_end,
    open_round,
    stop_reason,
)
from .schemas import (
    AgentFailure,
    AgentPhase,
    ConsensusInput,
    ConsensusOutput,
    ConsensusRound,
    ConsensusStage,
    ConsensusState,
    Feedback,
)

if TYPE_CHECKING:
    from flowdebate.measures import Edge
    from flowdebate.models.base import ModelSettings
    from flowdebate.patterns.debate.formats import Format
    from flowdebate.runs.context import Context
    from flowdebate.runs.events import RunStatus
    from flowdebate.sources.source import Sources, SourcesLike
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
    format: str | Format | None = None,  # noqa: A002 - the option's name
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
    prompts: PromptOptions | None = None,
    sources: SourcesLike | Sources | Material | None = None,
    agent_visibility: Visibility | Mapping[str, bool] | None = None,
    collection_id: str | None = None,
    failures: FailurePolicy | None = None,
) -> Sequencer[Any, ConsensusOutput]:
    """Build a consensus debate, in which agents search for the best answer: `await pattern.run("How should we …?")`.

    All agents make a proposal at once. In each round critics criticise the proposals that `topology` assigns them, and
    the authors revise them. Then all agents vote. The output is a `ConsensusOutput`.

    - `agents`: one or more; an agent's `block` replaces its default blocks and receives a `ProposalAsked`,
      `CritiqueAsked`, `RevisionAsked` or `VoteAsked`.
    - `format`: "delphi", or a `Format` of this pattern: estimates of agents who are called Expert 1, Expert 2, …
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
    - `prompts`: `PromptOptions` with the `profile` of default prompts, the `length` of an agent's texts, and a
      `ConsensusTemplate` for the agents.
    - `sources`: what the default blocks of agents may quote, as in `debate()`; `output.quotes` has the quotes, looked
      up.
    - `instructions`, `tools`, `uses`, `context`, `settings` and the profile apply to default blocks only, the length of
      a turn, the template, `sources` and `agent_visibility` to those of agents.

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
    check_name(name, where="consensus", field="name")
    where = f"consensus {name!r}"
    # one agent will do: its proposal is put to the vote
    roster = check_roster(agents, where=where, kind=Persona, field="agents", least=1)
    if format is not None:
        from flowdebate.patterns.debate.formats import find_format, with_roles  # most have none

        if (chosen := find_format(format, where=where, pattern="consensus")) is not None:
            roster = with_roles(roster, chosen, where=where, field="agents")
            instructions = instructions or chosen.instructions
    prompts = check_prompts(prompts, ConsensusTemplate, accepted=(), where=where)
    common = CommonOptions(
        name=name,
        roster=roster,
        max_rounds=max_rounds,
        instructions=instructions,
        tools=tools,
        uses=uses,
        context=context,
        settings=settings,
        prompts=prompts,
    )
    judges = {"judge": judge, "tie_break": tie_break}
    seats = seat_models(
        model,
        {agent.name: agent.model for agent in roster if own_options(agent.block) is not None},
        [role for role, value in judges.items() if value is True or isinstance(value, RoleOptions)],
        speaker="agent",
        where=where,
    )
    of_judges = {role: {"name": name, **common.for_blocks(), "model": seats.roles.get(role)} for role in judges}
    material = make_material(sources, where=where)
    breaks_ties = partial(create_tie_judge, choices=[agent.name for agent in roster])
    of_speakers: SpeakerOptions = {
        "length": prompts.length,
        "template": prompts.template,
        "visibility": as_visibility(agent_visibility, NOT_KEPT, where=where, field="agent_visibility"),
        "sources": material,
    }
    return assemble(
        ConsensusOptions(
            name=name,
            where=where,
            roster=tuple(replace(agent, model=seats.members.get(agent.name, agent.model)) for agent in roster),
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
            judge=_create_judge(
                judge, "judge", create_conclusive_judge, f"{name}-judge", where, of_judges["judge"], material
            ),
            tie_break=_create_judge(
                tie_break, "tie_break", breaks_ties, f"{name}-tie-judge", where, of_judges["tie_break"], material
            ),
            terminate_when=terminate_when,
            budget=budget,
            timeout=timeout,
            failures=CONSENSUS_FAILURES if failures is None else failures,
            breakers=breakers,
            archive=archive,
            history_limit=history_limit,
            research=None if research is None else invocation(research, where=where, field="research"),
            shuffle=shuffle,
            model=seats.rest,
            defaults=speaker_options(common.for_blocks(), of_speakers),
            material=material,
            collection_id=name if collection_id is None else collection_id,
        )
    )


def _create_judge(
    value: BlockLike | RoleOptions | Literal[True] | None,
    field: str,
    create: Callable[..., Block[Any, Any]],
    name: str,
    where: str,
    defaults: Mapping[str, object],
    material: Material | None,
) -> Block[Any, Any] | None:
    """The block of a judge: the default one, made by `create`, for True or options; the application's own; or none."""
    if value is None:
        return None
    if value is True or isinstance(value, RoleOptions):
        return create(**merge_options(defaults, None if value is True else value))
    own = as_block(value, name=name, where=where, field=field)
    return with_answer_schema(own, material=material).in_role("judge")


@dataclass(frozen=True, kw_only=True)
class ConsensusOptions:
    """The options of `consensus`, for the step that reads them; ConfigurationError for one that cannot be."""

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
    defaults: SpeakerOptions
    """Options that reach the default blocks of agents only."""
    material: Material | None
    collection_id: str

    @property
    def names(self) -> list[str]:
        """The agents, in declared order."""
        return [agent.name for agent in self.roster]

    def __post_init__(self) -> None:
        where = self.where
        optional = {"budget": self.budget, "quorum": self.quorum}
        check_option(Rounds, "max_rounds", self.max_rounds, where=where, optional=False)
        check_count(where, **{key: value for key, value in optional.items() if value is not None})
        check_count(where, least=0, history_limit=self.history_limit)
        if self.timeout is not None:
            check_seconds(where, timeout=self.timeout)
        self._check_rounds()
        self._check_vote()
        check_failure_policy(self.failures, where=where)
        check_predicate(self.terminate_when, where=where)
        check_model(self.model, where=where)
        check_name(self.collection_id, where=where, field="collection_id")
        kinds: list[tuple[str, object, Any, str]] = [
            ("breakers", self.breakers, (Breakers, NoneType), "Breakers(…), or None"),
            ("archive", self.archive, (Archive, NoneType), "Archive(…), or None"),
            ("similarity", self.similarity, Similarity, "a measure with a name, to be called with texts, or None"),
        ]
        for agent in self.roster:
            template = None if agent.options is None else agent.options.template
            kinds.append(
                (f"template of {agent.name!r}", template, (ConsensusTemplate, NoneType), "a ConsensusTemplate")
            )
        for field, value, kind, allowed in kinds:
            if not isinstance(value, kind):
                raise ConfigurationError(where, field, value, allowed)

    def _check_rounds(self) -> None:
        """Who criticises whom, and from when on the proposals are alike."""
        if self.hub is not None and self.topology != "star":
            raise ConfigurationError(self.where, "hub", self.hub, "None: only the star has a hub")
        own = callable(self.topology) and not inspect.iscoroutinefunction(self.topology)
        topology: Any = "all-to-all" if own else self.topology  # an application's function is checked in each round
        try:
            edges(topology, self.names, round=1, random=Random(0), hub=self.hub, sparsity=self.sparsity)  # noqa: S311
        except ConfigurationError as error:
            raise ConfigurationError(self.where, error.field, error.got, error.allowed) from None
        for field in ("convergence", "confidence", "diverging"):  # a bool is a number in Python, and none here
            value, optional = getattr(self, field), field != "diverging"
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not (number and 0 <= value <= 1) and not (optional and value is None):
                allowed = f"a number from 0 to 1{' or None' if optional else ''}"
                raise ConfigurationError(self.where, field, value, allowed)
        # a similarity between the two would be both
        if self.convergence is not None and self.diverging > self.convergence:
            allowed = f"no more than convergence={self.convergence}"
            raise ConfigurationError(self.where, "diverging", self.diverging, allowed)

    def _check_vote(self) -> None:
        where, names, weights = self.where, self.names, self.weights
        check_option(VotingRule, "voting", self.voting, where=where, optional=False)
        if self.quorum is not None and self.quorum > len(names):
            raise ConfigurationError(where, "quorum", self.quorum, f"no more than the {len(names)} agents")
        if weights is None:
            return
        if not isinstance(weights, Mapping):
            raise ConfigurationError(where, "weights", weights, "a dict of agent to number, or None")
        if self.voting != "weighted":
            raise ConfigurationError(where, "weights", weights, "None with voting other than 'weighted'")
        for agent, weight in weights.items():
            if agent not in names:
                raise ConfigurationError(where, f"weights[{agent!r}]", weight, f"of one of the agents {names}")
            check_weight(where, agent, weight)


def assemble(options: ConsensusOptions) -> Sequencer[Any, ConsensusOutput]:
    """The debate as a block: its phases inside of what ends in its output."""
    name, breakers, stage = options.name, options.breakers, ConsensusStage

    def step(word: str, act: Callable[[ConsensusOptions, Context], object]) -> Handler[Any, Any]:
        return handler(lambda _, ctx: act(options, ctx), name=f"{name}-{word}")

    def go_to(*stages: ConsensusStage) -> Handler[Any, Any]:
        def enter_all(_: object, ctx: Context) -> None:
            for each in stages:
                enter(each, ctx)

        return step(stages[-1].value.lower().replace("_", "-"), enter_all)

    proposing, criticising, revising = Proposing(options), Criticising(options), Revising(options)
    polling, voting = Polling(options), Voting(options)
    phases = (
        sequencer(name=f"{name}-phases")
        .tap(go_to(stage.START, stage.INITIALIZING))
        .tap(step("context", gather_context))
        .tap(go_to(stage.CONTEXT_READY, stage.GENERATING_PROPOSALS))
        .tap_each(AgentCalls(proposing), over=proposing.ask)
        .tap(step("check-proposals", check_proposals))
        .tap(step("open-round", open_round))
        .tap_each(AgentCalls(criticising), over=criticising.ask)
        .tap(go_to(stage.ROUND_N_REVISION))
        .tap_each(AgentCalls(revising), over=revising.ask)
        .tap(step("convergence", check_convergence))
    )
    if options.judge is not None:
        phases = phases.tap(step("conclusive", ask_conclusive_judge))
    if options.confidence is not None:
        phases = phases.tap_each(AgentCalls(polling), over=polling.ask).tap(step("count-poll", count_poll))
    phases = (
        phases.loop_back(
            f"{name}-open-round",
            when=AnotherRound(stop_reason=partial(stop_reason, options), terminate_when=options.terminate_when),
            max_iterations=options.max_rounds,
            label="round",
            note=note_of_ends(terminate_when=options.terminate_when),
        )
        .tap(go_to(stage.ROUNDS_COMPLETE, stage.VOTING))
        .tap_each(AgentCalls(voting), over=voting.ask)
        .tap(step("count-votes", count_votes))
    )
    # shared circuits are an option; else each run has new ones
    circuits = HeldResource(key=BREAKERS, make=Breakers if breakers is None else lambda: breakers)
    return (
        sequencer(
            name=name,
            state=ConsensusState,
            owns=[create_task_collection(options.collection_id, key=AUDIT), circuits],
            accepts=input_validator(options.where, ConsensusInput),
            model=options.model,
            protected=True,  # blocks see the state, and add to it by answering alone
        )
        .tap(stamp_subject(name, lambda ctx, status: build_output(options, ctx, status), options.material))
        .then(ConsensusLifecycle(options, phases))
    )


class ConsensusLifecycle(Block[ConsensusInput, ConsensusOutput]):
    """Runs the phases within the debate's time; then builds the output, with analytics and feedback."""

    def __init__(self, options: ConsensusOptions, phases: Block[Any, Any]) -> None:
        judges = [each for each in (options.judge, options.tie_break) if each is not None]
        shared, hidden = merge_resources(phases.name, [phases, *judges], closed=judges)
        super().__init__(phases.name, resources=shared, hidden=hidden)
        self._judges = judges  # for `seats`
        self._options = options
        self._phases = phases

    async def act(self, value: ConsensusInput, ctx: Context, /) -> ConsensusOutput:
        began, options, path = time.perf_counter(), self._options, ctx.scope.handle.path
        started = DebateStarted(task=value.task, agents=tuple(options.names), max_rounds=options.max_rounds, path=path)
        ctx.emit(started)
        error: str | None = None
        try:
            await self._run_phases(value, ctx)
            return await self._finish(ctx, began)
        except BaseException as failure:  # whatever ends it, a cancellation too, readers are told of the end, once
            error = error_text(failure)
            raise
        finally:
            state: ConsensusState = ctx.scope.handle.state
            ctx.emit(DebateEnded(outcome=state.outcome, rounds=len(state.rounds), error=error, path=path))

    async def _run_phases(self, value: ConsensusInput, ctx: Context) -> None:
        """Run the phases; if the debate's time is up first, the output contains what was done by then."""
        time_limit = asyncio.timeout(self._options.timeout)
        try:
            async with time_limit:
                await self._phases.act(value, ctx)
        except Exception:
            if not time_limit.expired():
                raise
            state: ConsensusState = ctx.scope.handle.state
            if state.tally is None:  # with a tally the answer came in time
                if find_early_end(state) is None:
                    ctx.scope.handle.update(early_end=None, stop_reason="timeout")
                    end_early(ctx, "timeout", f"the debate may take {self._options.timeout:g} s")
                ctx.run.degrade("limit")

    async def _finish(self, ctx: Context, began: float) -> ConsensusOutput:
        """Publish the output; a failure of the analytics or of the archive does not change the answer."""
        state: ConsensusState = ctx.scope.handle.state
        status: RunStatus = "degraded" if state.losses or state.problems else "complete"
        if state.tally is None or not state.tally.valid:
            status = "limit" if state.tally is None else "no_verdict"
        output = build_output(self._options, ctx, status)
        if output.tally is not None:
            problems = list(state.problems)  # of ratings that could not be read
            try:
                output = output.model_copy(update={"analytics": analyse(output, time.perf_counter() - began)})
            except Exception as error:  # noqa: BLE001 - the answer is there already
                problems.append(f"analytics: {one_line(error_text(error))}")
            try:
                feedback = await give_feedback(self._options, output, ctx)
            except Exception as error:  # noqa: BLE001 - the answer is there already
                feedback = Feedback(problems=[f"feedback: {one_line(error_text(error))}"])
            feedback = feedback.model_copy(update={"problems": [*problems, *feedback.problems]})
            output = output.model_copy(update={"feedback": feedback})
        return publish(output, ctx)

    def outline(self) -> Outline:
        return self._phases.outline()


def build_output(options: ConsensusOptions, ctx: Context, status: RunStatus) -> ConsensusOutput:
    """The output of the debate around a step as it is now; lists are in declared order, not in order of arrival."""
    state: ConsensusState = ctx.scope.handle.state
    names, counted, heard = options.names, state.tally, len(state.proposals)
    winner = None if counted is None else counted.winner

    def when(failure: AgentFailure) -> tuple[int, int, int, int]:
        target = -1 if failure.target is None else names.index(failure.target)
        round_ = failure.round + (failure.phase == "vote")  # votes come after the last round
        return round_, get_args(AgentPhase).index(failure.phase), names.index(failure.agent), target

    output = ConsensusOutput(
        task=state.question,
        outcome=state.outcome,
        answer=None if winner is None else state.proposals[winner].text,
        winner=winner,
        strength=None if counted is None else bound_strength(counted, heard=heard),
        confidence=0.0 if counted is None else bound_confidence(counted, heard=heard),
        context=state.context,
        proposals=[state.first[name] for name in names if name in state.first],
        rounds=[_sort_round(one, names) for one in state.rounds],
        final_proposals=[state.proposals[name] for name in names if name in state.proposals],
        ballots=[state.ballots[name] for name in names if name in state.ballots],
        tally=counted,
        early_end=find_early_end(state),
        failures=sorted(state.failures, key=when),
        judge_losses=[loss for loss in state.losses if not isinstance(loss, AgentFailure)],
        stages=list(state.stages),
        status=status,
        seed=ctx.seed,
    )
    return output if options.material is None else options.material.told(output, ctx)


def _sort_round(one: ConsensusRound, names: Sequence[str]) -> ConsensusRound:
    order = {edge: index for index, edge in enumerate(one.edges)}
    place = {name: index for index, name in enumerate(names)}
    return one.model_copy(
        update={
            "critiques": sorted(one.critiques, key=lambda critique: order[critique.critic, critique.target]),
            "revisions": sorted(one.revisions, key=lambda revised: place[revised.agent]),
            "enough": sorted(one.enough, key=place.__getitem__),
            "poll": sorted(one.poll, key=lambda ballot: place[ballot.voter]),
        }
    )
