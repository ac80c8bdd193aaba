"""Default blocks of a consensus debate: a model that proposes, criticises, revises and votes; and its judges."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from pydantic import BeforeValidator, Field, create_model

from flowdebate.blocks.generator import Generator, generator
from flowdebate.measures import match_choice
from flowdebate.patterns.consensus.prompts import (
    AGENTS,
    FORMER_CONSENSUS,
    ConsensusTemplate,
    render_agent_system,
    render_turn,
)
from flowdebate.patterns.consensus.schemas import (
    LONGEST_POSITION,
    ConsensusState,
    CriticAnswer,
    JudgeAnswer,
    RevisionAnswer,
    Share,
    VoteAnswer,
)
from flowdebate.patterns.roles import NOT_KEPT, RolePrompt, generator_options, whole_sentences
from flowdebate.patterns.state import state_of
from flowdebate.prompts.escaping import unescaped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from flowdebate._util.wire import WireModel
    from flowdebate.models.base import ModelResponse
    from flowdebate.patterns.consensus.schemas import ConsensusContext
    from flowdebate.patterns.roles import BlockOptions
    from flowdebate.patterns.roster import Persona
    from flowdebate.prompts.template import Length
    from flowdebate.runs.context import Context


def create_proposer(
    *,
    name: str,
    agent: Persona,
    template: ConsensusTemplate | None = None,
    length: Length | None = None,
    **options: Unpack[BlockOptions],
) -> Generator[str]:
    """The block `{name}-propose-{agent}`: takes a `ProposalAsked`, gives text, streamed.

    An answer that ran out of room is cut at its last full sentence.
    """
    return _block(f"{name}-propose-{agent.name}", agent, template, options, transform=whole_sentences, length=length)


def create_critic(
    *, name: str, agent: Persona, template: ConsensusTemplate | None = None, **options: Unpack[BlockOptions]
) -> Generator[CriticAnswer]:
    """The block `{name}-criticise-{agent}`: takes a `CritiqueAsked`, gives a `CriticAnswer`."""
    return _block(f"{name}-criticise-{agent.name}", agent, template, options, output_schema=CritiqueForm)


def create_reviser(
    *,
    name: str,
    agent: Persona,
    template: ConsensusTemplate | None = None,
    length: Length | None = None,
    **options: Unpack[BlockOptions],
) -> Generator[RevisionAnswer]:
    """The block `{name}-revise-{agent}`: takes a `RevisionAsked`, gives a `RevisionAnswer`."""
    return _block(f"{name}-revise-{agent.name}", agent, template, options, output_schema=RevisionForm, length=length)


def create_voter(
    *,
    name: str,
    agent: Persona,
    choices: Sequence[str],
    shuffle: bool = True,
    template: ConsensusTemplate | None = None,
    **options: Unpack[BlockOptions],
) -> Generator[VoteAnswer]:
    """The block `{name}-vote-{agent}`: takes a `VoteAsked`, gives a `VoteAnswer`.

    `choices` are the agents who may have a proposal: an enum for models that can be held to one. Any other choice is
    recorded as it was written, and counts as spoiled. With `shuffle`, each voter sees the proposals in a random order
    of its own, drawn from the run's seed.
    """
    schema = _vote_among(choices)
    return _block(f"{name}-vote-{agent.name}", agent, template, options, output_schema=schema, shuffle=shuffle)


def create_conclusive_judge(
    *, name: str, template: ConsensusTemplate | None = None, **options: Unpack[BlockOptions]
) -> Generator[JudgeAnswer]:
    """The block `{name}-judge`: takes a `RoundsAsked`, says whether the discussion is conclusive (a `JudgeAnswer`)."""
    return _block(f"{name}-judge", None, template, options, output_schema=JudgeAnswer)


def create_tie_judge(
    *, name: str, choices: Sequence[str], template: ConsensusTemplate | None = None, **options: Unpack[BlockOptions]
) -> Generator[str]:
    """The block `{name}-tie-judge`: takes a `TieAsked`, gives the name of one of those whose proposals are tied."""

    def choice(answer: VoteAnswer, _: ModelResponse, __: Context) -> str:
        return answer.choice

    schema = _vote_among(choices)
    return _block(f"{name}-tie-judge", None, template, options, output_schema=schema, transform=choice, shuffle=True)


def _block(
    name: str,
    agent: Persona | None,
    template: ConsensusTemplate | None,
    options: BlockOptions,
    *,
    output_schema: type[WireModel] | None = None,
    transform: Callable[..., Any] | None = None,
    shuffle: bool = False,
    length: Length | None = None,
) -> Generator[Any]:
    """The block `name` of an agent, or of a judge without one; with `shuffle` it sees proposals in random order."""
    intent = "intent/synthesize" if agent is None else "intent/chat"
    prompt = RolePrompt(AGENTS, options, template=template, length=length, intent=intent, where=name)
    who = {} if agent is None else {"name": agent.name, "role": agent.role, "system_prompt": agent.system_prompt}

    def texts(ctx: Context) -> ConsensusTemplate:
        former = template is None and state_of(ctx, ConsensusState).former_prompts
        return FORMER_CONSENSUS if former else prompt.template(ctx)

    def system(asked: Any, ctx: Context) -> str:  # noqa: ANN401 - one of the questions
        return render_agent_system(task=asked.task, context=_context(ctx), template=texts(ctx), **who)

    def turn(asked: Any, ctx: Context) -> str:  # noqa: ANN401 - one of the questions
        if shuffle:
            proposals = list(asked.proposals)
            ctx.random.shuffle(proposals)
            asked = replace(asked, proposals=proposals)
        return render_turn(asked, length=prompt.length(ctx), template=texts(ctx))

    block = generator(
        name=name,
        prompt=system,
        user=turn,
        output_schema=output_schema,
        transform=transform,
        **generator_options(options, intent, NOT_KEPT, where=name),
    ).with_form(prompt.room)
    block.role = "judge" if agent is None else "debater"
    return block


def _context(ctx: Context) -> ConsensusContext | None:
    handle = ctx.scope.sequencer
    return handle.state.context if handle is not None and isinstance(handle.state, ConsensusState) else None


_POINTS = 6
"""Maximum number of issues, and of suggestions, of a model: without a bound it could loop."""


class CritiqueForm(CriticAnswer):
    """A critic's answer, all of which a model has to give."""

    reasoning: Annotated[str, Field(description="What matters most about the proposal")]
    issues: Annotated[list[str], Field(max_length=_POINTS)]
    suggestions: Annotated[list[str], Field(max_length=_POINTS)]
    severity: Share


class RevisionForm(RevisionAnswer):
    """A reviser's answer, all of which a model has to give."""

    proposal: Annotated[str, Field(description="The proposal as it is to read now")]
    position: Annotated[
        str, Field(description="The answer to the task, in at most ten words", max_length=LONGEST_POSITION)
    ]
    enough: Annotated[bool, Field(description="Whether another round would change nothing")]


def named_agent(text: str, names: Sequence[str]) -> str | None:
    """The one of `names` that a voter's `text` names, as `match_choice` has it, or as prompts write it."""
    return match_choice(text if text in names else unescaped(text), names)


def _vote_among(choices: Sequence[str]) -> type[VoteAnswer]:
    """A voter's answer: the choices are an enum for models that can be held to one, and a wish for all others."""

    def as_known(choice: object) -> object:
        return named_agent(choice, choices) or choice if isinstance(choice, str) else choice

    known: Any = Annotated[str, BeforeValidator(as_known), Field(json_schema_extra={"enum": list(choices)})]
    return create_model(
        "VoteAnswer",
        __base__=VoteAnswer,
        reasoning=(str, Field(description="What speaks for the best proposals, weighed against each other")),
        choice=(known, Field(description="The author of the best proposal")),
        confidence=(Share, ...),
    )
