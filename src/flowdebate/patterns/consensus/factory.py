"""The `consensus()` factory: it validates the options, assembles the steps and builds the output."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast, get_args

from flowdebate._text import error_text, one_line
from flowdebate._util.validation import suggesting
from flowdebate.blocks.base import Block, Outline, merge_resources
from flowdebate.blocks.functions import BlockLike, Capability, Function, Handler, ToolLike, handler, invocation
from flowdebate.blocks.generator import MessagesSlot, TextSlot, Visibility
from flowdebate.blocks.sequencer import Sequencer, sequencer
from flowdebate.chassis.material import Material
from flowdebate.chassis.options import PromptOptions
from flowdebate.chassis.output import publish, stamp_subject
from flowdebate.chassis.roles import RoleOptions
from flowdebate.chassis.roster import MemberLike, Persona, check_roster, listed_models
from flowdebate.chassis.rounds import input_validator
from flowdebate.chassis.seats import with_first
from flowdebate.chassis.spec import Loop, PatternSpec, check_options
from flowdebate.chassis.state import ProviderFailure
from flowdebate.chassis.turn import AUDIT, FailurePolicy
from flowdebate.measures import VotingRule
from flowdebate.measures.topologies import Topology
from flowdebate.models.circuit_breaker import Breakers
from flowdebate.models.resolve import ModelChoice
from flowdebate.resources.archive import Archive
from flowdebate.resources.resource import HeldResource
from flowdebate.resources.tasks import create_task_collection

from .agents import AGENT, BREAKERS, JUDGE, TIE_BREAK, AgentCalls
from .archive import gather_context, give_feedback
from .events import DebateEnded, DebateStarted, enter
from .options import (
    CONSTRAINTS,
    DEFAULT_CONVERGENCE,
    ConsensusOptions,
    ConvergenceOptions,
    TopologyFunction,
    TopologyOptions,
    VotingOptions,
    as_convergence,
    as_topology,
    as_voting,
)
from .relations import analyze
from .rounds import (
    Criticizing,
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
    AgentPhase,
    ConsensusInput,
    ConsensusOutput,
    ConsensusRound,
    ConsensusStage,
    ConsensusState,
    Feedback,
)

if TYPE_CHECKING:
    from flowdebate.models.base import ModelSettings
    from flowdebate.patterns.debate.formats import Format
    from flowdebate.runs.context import Context
    from flowdebate.runs.events import RunStatus
    from flowdebate.sources.source import Sources, SourcesLike
    from flowdebate.stop import StopWhen


CONSENSUS_FAILURES = FailurePolicy(on_failure="skip", quorum=1, turn_timeout=90.0)
"""Default failure policy: the debate continues without any agent that fails or takes more than 90 seconds."""


@suggesting
def consensus(  # noqa: PLR0913 - the pattern's options, each with its default
    *,
    name: str,
    agents: Sequence[MemberLike],
    max_rounds: int = 3,
    judge: BlockLike | RoleOptions | bool | None = None,
    model: ModelChoice = None,
    topology: Topology | TopologyFunction | TopologyOptions = "all-to-all",
    convergence: float | ConvergenceOptions | None = DEFAULT_CONVERGENCE,
    confidence: float | None = None,
    voting: VotingRule | VotingOptions = "majority",
    tie_break: BlockLike | RoleOptions | bool | None = None,
    format: str | Format | None = None,  # noqa: A002 - the option's name
    terminate_when: StopWhen | None = None,
    budget: int | None = None,
    timeout: float | None = None,
    breakers: Breakers | None = None,
    archive: Archive | None = None,
    history_limit: int = 5,
    research: Function | None = None,
    instructions: TextSlot | None = None,
    tools: Sequence[ToolLike] | None = None,
    uses: Sequence[Capability] | None = None,
    context: MessagesSlot | None = None,
    settings: ModelSettings | None = None,
    prompts: PromptOptions | None = None,
    sources: SourcesLike | Sources | Material | None = None,
    agent_visibility: Visibility | Mapping[str, bool] | None = None,
    collection_id: str | None = None,
    failures: FailurePolicy | None = None,
) -> Sequencer[Any, ConsensusOutput, ConsensusOutput]:
    """Build a consensus debate, a joint search for the best answer: `await pattern.run("How should we …?")`.

    All agents make proposals simultaneously. In each round, critics criticize proposals, and the authors revise them.
    Finally, all agents vote. The output is a `ConsensusOutput`.

    - `agents`: one or more `Persona`s, dicts or models.
    - `judge`, `tie_break`: judges that end the rounds and break a tied vote (True, options, a block or a function).
    - `model`: the default model for all roles.
    - `topology`: who criticizes whom.
    - `convergence`, `confidence`: the similarity of proposals, or the confidence of a poll, at which the rounds end.
    - `voting`: the decision rule, or `VotingOptions`.
    - `format`: "delphi", or a `Format` for this pattern.
    - `budget`, `timeout`: the maximum number of planned calls, and the time limit in seconds.
    - `archive`, `history_limit`, `research`: past debates and other background shown to agents.
    - `failures`, `breakers`: how to react to provider failures; `CONSENSUS_FAILURES`, the default, skips failed calls.
    - For all other options, see `debate()`.

    The input is a str, `{"task": str}` or a `ConsensusInput`. Invalid options raise `ConfigurationError`, and a run
    without any proposal raises `NoProposals`.

    >>> plan = consensus(name="plan", agents=[{"name": "ann"}, {"name": "bob"}], topology="ring")
    >>> plan.name
    'plan'
    """
    location = f"consensus {name!r}"
    if format is not None:
        # imported lazily because most debates use no format
        from flowdebate.patterns.debate.formats import find_format, with_roles

        if (format_ := find_format(format, location=location, pattern="consensus")) is not None:
            model = with_first(model, listed_models(agents))
            roster = check_roster(agents, location=location, kind=Persona, field="agents", minimum=1)
            agents = with_roles(roster, format_, location=location, field="agents")
            instructions = instructions or format_.instructions
    loop = check_options(
        CONSENSUS,
        ConsensusOptions(
            name=name,
            roster=agents,
            max_rounds=max_rounds,
            topology=as_topology(topology, location=location),
            convergence=as_convergence(convergence, location=location),
            confidence=confidence,
            voting=as_voting(voting, location=location),
            budget=budget,
            timeout=timeout,
            breakers=breakers,
            archive=archive,
            history_limit=history_limit,
            research=research,
            roles={"judge": judge, "tie_break": tie_break},
            visibilities={"agent": agent_visibility},
            terminate_when=terminate_when,
            instructions=instructions,
            model=model,
            tools=tools,
            uses=uses,
            context=context,
            settings=settings,
            prompts=prompts,
            sources=sources,
            collection_id=collection_id,
            failures=failures,
        ),
    )
    loop.options.check(loop.names, location=loop.location)
    return _assemble(loop)


def _assemble(loop: Loop[ConsensusOptions]) -> Sequencer[Any, ConsensusOutput]:
    """Assemble the block that runs the phases of the debate and produces its output."""
    name, options, stage = loop.name, loop.options, ConsensusStage
    judge: Block[Any, Any] | None = None
    tie_judge: Block[Any, Any] | None = None
    if loop.has(JUDGE):  # if there are no proposals, the debate ends before the judge is called
        judge = loop.guard(JUDGE, loop.role(JUDGE), heard=lambda _: True)
    if loop.has(TIE_BREAK):
        tie_judge = loop.guard(TIE_BREAK, loop.role(TIE_BREAK, choices=loop.names), heard=lambda _: True)
    research = options.research
    look_up = None if research is None else invocation(research, location=loop.location, field="research")

    def step(word: str, act: Callable[[Loop[ConsensusOptions], Context], object]) -> Handler[Any, Any]:
        return handler(lambda _, ctx: act(loop, ctx), name=f"{name}-{word}")

    def enter_stages(*stages: ConsensusStage) -> Handler[Any, Any]:
        def enter_all(_: object, ctx: Context) -> None:
            for stage in stages:
                enter(stage, ctx)

        return step(stages[-1].value.lower().replace("_", "-"), enter_all)

    proposing, criticizing, revising = Proposing(loop), Criticizing(loop), Revising(loop)
    polling, voting = Polling(loop), Voting(loop)
    phases = (
        sequencer(name=f"{name}-phases")
        .tap(enter_stages(stage.START, stage.INITIALIZING))
        .tap(step("context", partial(gather_context, look_up)))
        .tap(enter_stages(stage.CONTEXT_READY, stage.GENERATING_PROPOSALS))
        .tap_each(AgentCalls(proposing), over=proposing.ask)
        .tap(step("check-proposals", check_proposals))
        .tap(step("open-round", open_round))
        .tap_each(AgentCalls(criticizing), over=criticizing.ask)
        .tap(enter_stages(stage.ROUND_N_REVISION))
        .tap_each(AgentCalls(revising), over=revising.ask)
        .tap(step("convergence", check_convergence))
    )
    if judge is not None:
        phases = phases.tap(step("conclusive", partial(ask_conclusive_judge, judge)))
    if options.confidence is not None:
        phases = phases.tap_each(AgentCalls(polling), over=polling.ask).tap(step("count-poll", count_poll))
    phases = (
        loop.until_stopped(phases, first="open-round")
        .tap(enter_stages(stage.ROUNDS_COMPLETE, stage.VOTING))
        .tap_each(AgentCalls(voting), over=voting.ask)
        .tap(step("count-votes", partial(count_votes, tie_judge)))
    )
    # runs share circuit breakers if they are passed as an option; by default, each run creates its own
    breakers = options.breakers
    circuits = HeldResource(key=BREAKERS, make=Breakers if breakers is None else lambda: breakers)
    return (
        sequencer(
            name=name,
            # the class rather than an instance: lists grow in place, so each run needs its own state
            state=ConsensusState,
            owns=[create_task_collection(loop.collection_id, key=AUDIT), circuits],
            accepts=input_validator(loop.location, ConsensusInput),
            model=options.model,
            protected=True,  # blocks can read the state but can change it only through their answers
        )
        .tap(stamp_subject(name, loop.make_output, loop.material))
        .then(ConsensusLifecycle(loop, phases, judges=[block for block in (judge, tie_judge) if block is not None]))
    )


class ConsensusLifecycle(Block[ConsensusInput, ConsensusOutput]):
    """Block that runs the phases within the debate's time limit, and adds analytics and feedback to the output."""

    def __init__(
        self, loop: Loop[ConsensusOptions], phases: Block[Any, Any], *, judges: Sequence[Block[Any, Any]]
    ) -> None:
        shared, hidden = merge_resources(phases.name, [phases, *judges], closed=judges)
        super().__init__(phases.name, resources=shared, hidden=hidden)
        self._judges = judges  # read by `seats`
        self._loop = loop
        self._phases = phases

    async def act(self, value: ConsensusInput, ctx: Context, /) -> ConsensusOutput:
        start_time, loop, path = time.perf_counter(), self._loop, ctx.scope.handle.path
        started = DebateStarted(task=value.task, agents=tuple(loop.names), max_rounds=loop.max_rounds, path=path)
        ctx.emit(started)
        error: str | None = None
        try:
            await self._run_phases(value, ctx)
            return await self._finish(ctx, start_time)
        except BaseException as failure:  # emit the last event exactly once, even on cancellation
            error = error_text(failure)
            raise
        finally:
            state: ConsensusState = ctx.scope.handle.state
            ctx.emit(DebateEnded(outcome=state.outcome, rounds=len(state.rounds), error=error, path=path))

    async def _run_phases(self, value: ConsensusInput, ctx: Context) -> None:
        """Run the phases; if time runs out, stop early so that the output can be built from the work done so far."""
        seconds = self._loop.options.timeout
        time_limit = asyncio.timeout(seconds)
        try:
            async with time_limit:
                await self._phases.act(value, ctx)
        except Exception:
            if not time_limit.expired():
                raise
            state: ConsensusState = ctx.scope.handle.state
            if state.tally is None:  # if there is a tally, the answer was ready in time
                if find_early_end(state) is None:
                    ctx.scope.handle.update(early_end=None, stop_reason="timeout")
                    end_early(ctx, "timeout", f"the debate may take {seconds:g} s")
                ctx.run.degrade("limit")

    async def _finish(self, ctx: Context, start_time: float) -> ConsensusOutput:
        """Publish the output; errors in the analytics or the archive do not affect the answer."""
        state: ConsensusState = ctx.scope.handle.state
        status: RunStatus = "degraded" if state.losses or state.problems else "complete"
        if state.tally is None or not state.tally.valid:
            status = "limit" if state.tally is None else "no_verdict"
        output = cast("ConsensusOutput", self._loop.make_output(ctx, status))
        if output.tally is not None:
            # the run may have recorded problems already, for example a failure to read the ratings
            problems = list(state.problems)
            try:
                output = output.model_copy(update={"analytics": analyze(output, time.perf_counter() - start_time)})
            except Exception as error:  # noqa: BLE001 - the answer is there already
                problems.append(f"analytics: {one_line(error_text(error))}")
            try:
                feedback = await give_feedback(self._loop, output, ctx)
            except Exception as error:  # noqa: BLE001 - the answer is there already
                feedback = Feedback(problems=[f"feedback: {one_line(error_text(error))}"])
            feedback = feedback.model_copy(update={"problems": [*problems, *feedback.problems]})
            output = output.model_copy(update={"feedback": feedback})
        return publish(output, ctx)

    def outline(self) -> Outline:
        return self._phases.outline()


def raw_output(loop: Loop[ConsensusOptions], ctx: Context, status: RunStatus) -> ConsensusOutput:
    """Build the output of the enclosing debate from its current state, with all lists in declared order."""
    state: ConsensusState = ctx.scope.handle.state
    phases: tuple[str | None, ...] = get_args(AgentPhase)
    names, counted, heard = loop.names, state.tally, len(state.proposals)
    winner = None if counted is None else counted.winner

    def when(loss: ProviderFailure) -> tuple[int, int, int, int]:
        target = -1 if loss.target is None else names.index(loss.target)
        round_ = loss.round + (loss.phase == "vote")  # the vote takes place after the last round
        return round_, phases.index(loss.phase), names.index(loss.name), target

    of_agents = [loss for loss in state.losses if loss.phase is not None]
    return ConsensusOutput(
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
        losses=[*sorted(of_agents, key=when), *(loss for loss in state.losses if loss.phase is None)],
        stages=list(state.stages),
        status=status,
        seed=ctx.seed,
    )


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


CONSENSUS: PatternSpec[ConsensusOptions] = PatternSpec(
    name="consensus",
    speaker=AGENT,
    shares_sources=True,
    roles=[JUDGE, TIE_BREAK],
    constraints=CONSTRAINTS,
    input_type=ConsensusInput,
    new_state=lambda _: ConsensusState(),
    make_output=raw_output,
    failures=CONSENSUS_FAILURES,
    stop_reason=stop_reason,
    roster="agents",
    prompt_options=(),
    min_speakers=1,  # a single proposal is enough for a vote
)
