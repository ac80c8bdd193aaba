"""Default blocks of a consensus debate: a model that proposes, criticises, revises and votes; and its judges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, Unpack

from pydantic import BeforeValidator, Field, create_model

from flowdebate._util.wire import WireModel
from flowdebate.blocks.generator import Generator, Visibility, generator
from flowdebate.measures import match_choice
from flowdebate.patterns.consensus.prompts import (
    CONSENSUS,
    ConsensusTemplate,
    render_agent_system,
    render_critique_turn,
    render_judge_turn,
    render_proposal_turn,
    render_revision_turn,
    render_tie_turn,
    render_vote_turn,
)
from flowdebate.patterns.consensus.schemas import (
    ConsensusState,
    CriticAnswer,
    CritiqueAsked,
    JudgeAnswer,
    RevisionAnswer,
    RevisionAsked,
    RoundsAsked,
    TieAsked,
    VoteAnswer,
    VoteAsked,
)
from flowdebate.patterns.roles import generator_options, trim_to_sentence
from flowdebate.prompts.escaping import unescaped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from flowdebate.models.base import ModelResponse
    from flowdebate.patterns.consensus.schemas import ConsensusContext, ProposalAsked
    from flowdebate.patterns.roles import BlockOptions
    from flowdebate.runs.context import Context

__all__ = (
    "AGENT_VISIBILITY",
    "Who",
    "create_conclusive_judge",
    "create_critic",
    "create_proposer",
    "create_reviser",
    "create_tie_judge",
    "create_voter",
    "named_agent",
)

AGENT_VISIBILITY = Visibility(history=False)


class Who(WireModel):
    """An agent as its own prompts describe it."""

    name: str
    role: str | None = None
    system_prompt: str | None = None


def create_proposer(
    *, name: str, agent: Who, template: ConsensusTemplate = CONSENSUS, **options: Unpack[BlockOptions]
) -> Generator[str]:
    """The block `{name}-propose-{agent}`: takes a `ProposalAsked`, gives text, streamed.

    An answer that ran out of room is cut at its last full sentence.
    """

    def turn(_: ProposalAsked) -> str:
        return render_proposal_turn(template=template)

    def whole(text: str, response: ModelResponse, _: Context) -> str:
        return trim_to_sentence(text) if response.finish == "length" else text

    return _agent_block(f"{name}-propose-{agent.name}", agent, turn, template, options, transform=whole)


def create_critic(
    *, name: str, agent: Who, template: ConsensusTemplate = CONSENSUS, **options: Unpack[BlockOptions]
) -> Generator[CriticAnswer]:
    """The block `{name}-criticise-{agent}`: takes a `CritiqueAsked`, gives a `CriticAnswer`."""

    def turn(asked: CritiqueAsked) -> str:
        return render_critique_turn(proposal=asked.proposal, round=asked.round, template=template)

    block = f"{name}-criticise-{agent.name}"
    return _agent_block(block, agent, turn, template, options, output_schema=CritiqueForm)


def create_reviser(
    *, name: str, agent: Who, template: ConsensusTemplate = CONSENSUS, **options: Unpack[BlockOptions]
) -> Generator[RevisionAnswer]:
    """The block `{name}-revise-{agent}`: takes a `RevisionAsked`, gives a `RevisionAnswer`."""

    def turn(asked: RevisionAsked) -> str:
        return render_revision_turn(
            proposal=asked.proposal, critiques=asked.critiques, round=asked.round, template=template
        )

    return _agent_block(f"{name}-revise-{agent.name}", agent, turn, template, options, output_schema=RevisionForm)


def create_voter(
    *,
    name: str,
    agent: Who,
    choices: Sequence[str],
    shuffle: bool = True,
    template: ConsensusTemplate = CONSENSUS,
    **options: Unpack[BlockOptions],
) -> Generator[VoteAnswer]:
    """The block `{name}-vote-{agent}`: takes a `VoteAsked`, gives a `VoteAnswer`.

    `choices` are the agents who may have a proposal: an enum for models that can be held to one. What a model writes
    instead is kept as it is, and counts as spoiled where it is nobody's proposal. With `shuffle`, each voter sees the
    proposals in an order of its own, drawn from the run's seed.
    """

    def turn(asked: VoteAsked, ctx: Context) -> str:
        proposals = list(asked.proposals)
        if shuffle:
            ctx.random.shuffle(proposals)
        return render_vote_turn(proposals=proposals, template=template)

    block = f"{name}-vote-{agent.name}"
    return _agent_block(block, agent, turn, template, options, output_schema=_vote_among(choices))


def create_conclusive_judge(
    *, name: str, template: ConsensusTemplate = CONSENSUS, **options: Unpack[BlockOptions]
) -> Generator[JudgeAnswer]:
    """The block `{name}-judge`: takes a `RoundsAsked`, says whether the discussion is conclusive (a `JudgeAnswer`)."""

    def turn(asked: RoundsAsked) -> str:
        return render_judge_turn(
            proposals=asked.proposals, critiques=asked.critiques, round=asked.round, template=template
        )

    return _judge_block(f"{name}-judge", turn, template, options, JudgeAnswer, None)


def create_tie_judge(
    *, name: str, choices: Sequence[str], template: ConsensusTemplate = CONSENSUS, **options: Unpack[BlockOptions]
) -> Generator[str]:
    """The block `{name}-tie-judge`: takes a `TieAsked`, gives the name of one of those whose proposals are tied."""

    def turn(asked: TieAsked, ctx: Context) -> str:
        proposals = list(asked.proposals)
        ctx.random.shuffle(proposals)
        return render_tie_turn(proposals=proposals, template=template)

    def choice(answer: VoteAnswer, _: ModelResponse, __: Context) -> str:
        return answer.choice

    return _judge_block(f"{name}-tie-judge", turn, template, options, _vote_among(choices), choice)


def _agent_block(
    block: str,
    agent: Who,
    turn: Callable[..., str],
    template: ConsensusTemplate,
    options: BlockOptions,
    *,
    output_schema: type[WireModel] | None = None,
    transform: Callable[..., Any] | None = None,
) -> Generator[Any]:
    def system(asked: Any, ctx: Context) -> str:  # noqa: ANN401 - each phase asks in a shape of its own
        return render_agent_system(
            task=asked.task,
            context=_context(ctx),
            name=agent.name,
            role=agent.role,
            system_prompt=agent.system_prompt,
            template=template,
        )

    return generator(
        name=block,
        prompt=system,
        user=turn,
        output_schema=output_schema,
        transform=transform,
        **generator_options(options, "intent/chat", AGENT_VISIBILITY, where=block),
    )


def _judge_block(
    block: str,
    turn: Callable[..., str],
    template: ConsensusTemplate,
    options: BlockOptions,
    output_schema: type[WireModel],
    transform: Callable[..., Any] | None,
) -> Generator[Any]:
    def system(asked: Any, ctx: Context) -> str:  # noqa: ANN401 - each phase asks in a shape of its own
        return render_agent_system(task=asked.task, context=_context(ctx), template=template)

    return generator(
        name=block,
        prompt=system,
        user=turn,
        output_schema=output_schema,
        transform=transform,
        **generator_options(options, "intent/synthesize", AGENT_VISIBILITY, where=block),
    )


def _context(ctx: Context) -> ConsensusContext | None:
    handle = ctx.scope.sequencer
    return handle.state.context if handle is not None and isinstance(handle.state, ConsensusState) else None


def _as_share(value: object) -> object:
    """A model's number from 0 to 1, also in per cent or just below 0: no grammar bounds floats."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return value
    return value / 100 if 1 < value <= 100 else 0.0 if -1 <= value < 0 else value  # noqa: PLR2004 - per cent


_Share: TypeAlias = Annotated[float, Field(ge=0, le=1), BeforeValidator(_as_share)]
_POINTS = 6
"""As many issues, and suggestions, may a model give at most: without a bound it could loop."""


class CritiqueForm(CriticAnswer):
    """A critic's answer, all of which a model has to give."""

    reasoning: Annotated[str, Field(description="What matters most about the proposal")]
    issues: Annotated[list[str], Field(max_length=_POINTS)]
    suggestions: Annotated[list[str], Field(max_length=_POINTS)]
    severity: _Share


_WORDS = 200
"""Characters of a position: it is compared with those of others, which takes a short answer."""


class RevisionForm(RevisionAnswer):
    """A reviser's answer, all of which a model has to give."""

    proposal: Annotated[str, Field(description="The proposal as it is to read now")]
    position: Annotated[str, Field(description="The answer to the task, in at most ten words", max_length=_WORDS)]
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
        confidence=(_Share, ...),
    )
