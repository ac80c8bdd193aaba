"""Default blocks for agents and judges, and the calls made in each phase.

A circuit breaker guards each agent's calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, TypeVar, Unpack

from pydantic import BeforeValidator, Field, create_model

from flowdebate.blocks.base import Block, Outline, merge_resources
from flowdebate.blocks.generator import Generator, generator
from flowdebate.chassis.roles import NOT_KEPT, BlockOptions, RolePrompt, generator_options
from flowdebate.chassis.roster import Persona, Role, bindable, is_custom, is_custom_code, make_default, merge_options
from flowdebate.chassis.sentences import whole_sentences
from flowdebate.chassis.state import Recovery, accepted, state_of
from flowdebate.chassis.turn import TurnTask, ask, is_provider_failure, record_failure, take_turn
from flowdebate.errors import CircuitOpen
from flowdebate.models.base import CircuitChanged, Model, ModelResponse
from flowdebate.models.reading import find_name
from flowdebate.prompts import Length

from .prompts import AGENTS, ConsensusTemplate, render_agent_system
from .questions import AgentQuestion, ChoiceRequest, CritiqueRequest, Question, render_turn
from .schemas import (
    MAX_POSITION_LENGTH,
    AgentPhase,
    ConsensusState,
    CriticAnswer,
    JudgeAnswer,
    RevisionAnswer,
    Share,
    VoteAnswer,
)

if TYPE_CHECKING:
    from flowdebate._util.wire import WireModel
    from flowdebate.chassis.spec import Loop
    from flowdebate.models.circuit_breaker import Breakers, Step
    from flowdebate.runs.context import Context

    from .options import ConsensusOptions


# Default blocks


@bindable("name", pattern="consensus", role="judge", template=ConsensusTemplate)
def create_conclusive_judge(
    *, name: str, template: ConsensusTemplate | None = None, **options: Unpack[BlockOptions]
) -> Generator[JudgeAnswer]:
    """Create the block `{name}-judge`.

    The block takes a `StopRequest` and returns a `JudgeAnswer` that states whether the discussion is conclusive.
    """
    return create_block(f"{name}-judge", None, output_schema=JudgeAnswer, template=template, **options)


@bindable("name", "choices", pattern="consensus", role="tie_break", template=ConsensusTemplate)
def create_tie_judge(
    *, name: str, choices: Sequence[str], template: ConsensusTemplate | None = None, **options: Unpack[BlockOptions]
) -> Generator[str]:
    """Create the block `{name}-tie-judge`.

    The block takes a `TieBreakRequest` and returns the name of one of the tied authors.
    """

    def choice(answer: VoteAnswer, _: ModelResponse, __: Context) -> str:
        return answer.choice

    form = create_vote_form(tuple(choices))
    return create_block(
        f"{name}-tie-judge", None, output_schema=form, transform=choice, shuffle=True, template=template, **options
    )


def create_block(
    name: str,
    agent: Persona | None,
    *,
    output_schema: type[WireModel] | None = None,
    transform: Callable[..., Any] | None = None,
    shuffle: bool = False,
    template: ConsensusTemplate | None = None,
    length: Length | None = None,
    **options: Unpack[BlockOptions],
) -> Generator[Any]:
    """Create the block `name` for an agent, or for a judge if `agent` is None.

    If `shuffle` is true, proposals are shown in a random order determined by the run's seed.
    """
    intent = "intent/synthesize" if agent is None else "intent/chat"
    prompt = RolePrompt(AGENTS, options, template=template, length=length, intent=intent, location=name)
    who = {} if agent is None else {"name": agent.name, "role": agent.role, "system_prompt": agent.system_prompt}

    def system(question: Question, ctx: Context) -> str:
        context = state_of(ctx, ConsensusState).context
        return render_agent_system(task=question.task, context=context, template=prompt.template(ctx), **who)

    def turn(question: Question, ctx: Context) -> str:
        if shuffle and isinstance(
            question, ChoiceRequest
        ):  # otherwise, a model that prefers a certain slot would favor the same author in every ballot
            proposals = list(question.proposals)
            ctx.random.shuffle(proposals)
            question = replace(question, proposals=proposals)
        return render_turn(question, length=prompt.length(ctx), template=prompt.template(ctx))

    # an agent's system message is the same in all calls, so that servers can cache it
    return generator(
        name=name,
        prompt=system,
        user=turn,
        output_schema=output_schema,
        transform=transform,
        **generator_options(options, intent, NOT_KEPT, location=name, prompt=prompt),
    ).with_form(prompt.room)


AGENT = Role(
    name="agent",
    create=[bindable("name", "agent", pattern="Persona", role="debater", template=ConsensusTemplate)(create_block)],
    visibility=NOT_KEPT,
)
JUDGE = Role(
    name="judge", create=[create_conclusive_judge], instead="no_report", absent="by default", visibility=NOT_KEPT
)
TIE_BREAK = Role(
    name="tie_break",
    create=[create_tie_judge],
    instead="no_report",
    absent="by default",
    visibility=NOT_KEPT,
    acts_as="judge",
    block="tie-judge",
)

_POINTS = 6
"""Maximum number of issues or suggestions per answer, in case a model gets stuck in a loop."""


class CritiqueForm(CriticAnswer):
    """A critic's answer, all of which a model has to give."""

    reasoning: Annotated[str, Field(description="What matters most about the proposal")]
    issues: Annotated[list[str], Field(max_length=_POINTS)]
    suggestions: Annotated[list[str], Field(max_length=_POINTS)]
    severity: Share


class RevisionForm(RevisionAnswer):
    """A reviser's answer, all of which a model has to give."""

    proposal: Annotated[str, Field(description="The complete revised proposal")]
    position: Annotated[
        str, Field(description="The answer to the task, in at most ten words", max_length=MAX_POSITION_LENGTH)
    ]
    enough: Annotated[bool, Field(description="Whether another round would change nothing")]


@lru_cache(maxsize=256)  # shared by all debates between the same agents
def create_vote_form(choices: tuple[str, ...]) -> type[VoteAnswer]:
    """Build a voter's answer schema, with `choices` as an enum for models that support schemas.

    Any other choice is recorded verbatim and counts as spoiled.
    """

    def normalize_choice(choice: object) -> object:
        # models embellish names, as in "the proposal of **Ann**"
        return find_name(choice, choices) or choice if isinstance(choice, str) else choice

    choice_type = Annotated[str, BeforeValidator(normalize_choice), Field(json_schema_extra={"enum": list(choices)})]
    return create_model(
        "VoteAnswer",
        __base__=VoteAnswer,
        reasoning=(str, Field(description="What speaks for the best proposals, weighed against each other")),
        choice=(choice_type, Field(description="The author of the best proposal")),
        confidence=(Share, ...),
    )


# Calls made in a phase


QuestionT = TypeVar("QuestionT", bound=AgentQuestion)
AnswerT = TypeVar("AnswerT")


class Phase(Generic[QuestionT, AnswerT]):
    """Base class for phases that call all agents simultaneously.

    Subclasses define the questions, default blocks and answers of a phase.
    """

    name: ClassVar[AgentPhase]
    verb: ClassVar[str]
    """Verb used in the names of the phase's default blocks: `{name}-{verb}-{agent}`."""
    returns: ClassVar[object]
    """Type of a validated answer."""
    form: ClassVar[type[WireModel] | None] = None
    """Answer schema for the default blocks, or None for plain text."""
    has_length: ClassVar[bool] = False
    """True if the `length` option applies to the phase's answers; schemas set their own limits."""

    def __init__(self, loop: Loop[ConsensusOptions]) -> None:
        self.loop = loop

    def answer(self) -> dict[str, Any]:
        """Return the `create_block` options that set the default blocks' answer format.

        The format is either whole sentences or a schema.
        """
        return {"transform": whole_sentences} if self.form is None else {"output_schema": self.form}

    def ask(self, _: object, ctx: Context) -> Sequence[QuestionT]:
        """Return the questions to ask in this phase, each addressed to one agent."""
        raise NotImplementedError

    def read(self, answer: object, block: str, question: QuestionT, ctx: Context) -> AnswerT:
        """Validate an answer; raise OutputError if it is unusable."""
        raise NotImplementedError

    def record(self, answer: AnswerT, question: QuestionT, ctx: Context) -> object:
        """Store the validated answer in the state, emit an event, and return the output for the task."""
        raise NotImplementedError

    def create_block(self, agent: Persona, stand_in: Model | str | None = None) -> Block[Any, Any]:
        """Return the block for `agent`: a custom block, the default one, or a fallback using the model `stand_in`."""
        loop = self.loop
        if is_custom(agent.block) and stand_in is None:
            return loop.custom_speaker(agent)
        options = loop.options_of(AGENT, agent)
        if not self.has_length:  # prompts for critiques and votes state their own limits
            options.pop("length", None)
        name = loop.name if stand_in is None else f"{loop.name}-stand-in"
        facts = {"name": f"{name}-{self.verb}-{agent.name}", "agent": agent, **self.answer()}
        merged = merge_options(facts, options, {"model": stand_in})
        block = None if is_custom(agent.block) else agent.block
        return make_default(block, AGENT.create, merged, location=loop.location, field=f"block of {agent.name!r}")


class AgentCalls(Block[QuestionT, None]):
    """Block that passes each question to an agent, or to the agent's fallback, and records the answer.

    Every call counts toward the agent's circuit breaker. While the circuit is open, the agent is not called, and its
    turn counts as failed: its fallback, if any, answers instead.
    """

    def __init__(self, phase: Phase[QuestionT, Any]) -> None:
        loop, model = phase.loop, phase.loop.failures.stand_in
        agents = {agent.name: phase.create_block(agent) for agent in loop.roster}
        stand_ins = {} if model is None else {agent.name: phase.create_block(agent, model) for agent in loop.roster}
        name, members = f"{loop.name}-{phase.name}", [*agents.values(), *stand_ins.values()]
        shared, hidden = merge_resources(name, members, closed=members)
        super().__init__(name, resources=shared, hidden=hidden)
        self._phase = phase
        self._failures = loop.failures
        self._agents = agents
        self._stand_ins = stand_ins
        self._own = {agent.name for agent in loop.roster if is_custom_code(agent.block)}

    async def act(self, question: QuestionT, ctx: Context, /) -> None:
        phase, agent, failures = self._phase, question.agent, self._failures
        block, number = self._agents[agent], ctx.scope.handle.state.round
        speakers = [block, *([self._stand_ins[agent]] if self._stand_ins else [])]
        target = question.proposal.agent if isinstance(question, CritiqueRequest) else None

        def lose(error: Exception, instead: Recovery) -> None:
            record_failure(
                error,
                ctx,
                block=block.name,
                role="debater",
                name=agent,
                instead=instead,
                phase=phase.name,
                target=target,
            )

        inside = ctx.below(block)
        inside.role = block.role  # needed for the circuit breaker's events, because the block itself may not run
        try:
            step = await _admit(agent, inside, ctx)
        except CircuitOpen as refusal:
            if not failures.continues:
                raise
            speakers = speakers[1:]
            lose(refusal, "stand_in" if speakers else "skipped")
            if not speakers:  # nobody is called, so no turn or task is added to the audit trail
                return

        async def speak(speaker: Block[Any, Any], task: TurnTask) -> object:
            counts: bool | None = None  # cancelled calls and application errors count as neither success nor failure
            try:
                answer = await ask(speaker, question, ctx, failures)
                read = partial(phase.read, answer, speaker.name, question, ctx)
                answer = await accepted(read, ctx, returns=phase.returns, custom=agent in self._own)
                counts = True
            except Exception as error:
                counts = False if is_provider_failure(error) else None
                raise
            finally:
                # a call to the fallback says nothing about the agent's own model
                if speaker is block and step.ticket is not None:
                    _emit_change(find_breakers(ctx).of(agent).settle(step.ticket, succeeded=counts), agent, inside)
            task.end_review()
            output = phase.record(answer, question, ctx)
            task.complete(output)
            return output

        await take_turn(
            ctx,
            speakers,
            speak,
            goal=phase.name,
            metadata={"round": number} if target is None else {"round": number, "target": target},
            failures=failures,
            lose=lose,
            round=number,
            agent_name=agent,
            phase=phase.name,
            target=target,
        )

    def outline(self) -> Outline:
        children = [Outline(text=f"{agent}:", children=(block.outline(),)) for agent, block in self._agents.items()]
        return Outline(text=self.name, kind="router", children=children)


BREAKERS = "breakers"
"""Key of the resource that holds the agents' circuit breakers."""


def find_breakers(ctx: Context) -> Breakers:
    """Return the enclosing debate's circuit breakers."""
    breakers: Breakers = ctx.scope.handles[BREAKERS]
    return breakers


async def _admit(agent: str, inside: Context, ctx: Context) -> Step:
    """Ask an agent's circuit breaker to admit a call to the block whose context is `inside`.

    Raises CircuitOpen if admission is refused. In a stored run, the refusal is recorded. Replaying a recorded answer
    does not require admission.
    """
    journal, key = ctx.run.journal, f"{inside.path}#refused"
    refused = None if journal is None else journal.recorded_failure(key)
    if refused is not None:
        raise refused
    breaker = find_breakers(ctx).of(agent)
    step = breaker.admit()
    _emit_change(step, agent, inside)
    if step.ticket is not None or (journal is not None and journal.has_steps(ctx.path)):
        return step
    refusal = CircuitOpen(breaker.seconds_left, model=agent, block=inside.block)
    if journal is not None:
        await journal.record_failure(key, refusal)
    raise refusal


def _emit_change(step: Step, agent: str, inside: Context) -> None:
    if step.before != step.after:
        inside.emit(CircuitChanged(block=inside.block, model=agent, before=step.before, after=step.after))
