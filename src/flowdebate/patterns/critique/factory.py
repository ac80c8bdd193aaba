"""The `critique()` factory: it validates the options and assembles the steps in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from flowdebate._util.option_types import Count, Flag, check_option
from flowdebate._util.validation import check_text, suggesting
from flowdebate.blocks.sequencer import Sequencer, sequencer
from flowdebate.chassis.options import PromptOptions, quorum_of
from flowdebate.chassis.output import ending_of, mark_answer
from flowdebate.chassis.roles import NOT_KEPT, RoleOptions
from flowdebate.chassis.roster import MemberLike, Role, is_custom_code, merge_options, role_options
from flowdebate.chassis.seats import independent_by_default
from flowdebate.chassis.spec import Loop, PatternSpec, check_options
from flowdebate.chassis.state import state_of
from flowdebate.chassis.turn import FailurePolicy, Turn, record_turn
from flowdebate.errors import ConfigurationError

from .options import CritiqueOptions
from .prompts import create_author, create_claim_judge, create_critic
from .schemas import (
    AUTHOR,
    CRITICS,
    Claims,
    CritiqueEntry,
    CritiqueInput,
    CritiqueOutput,
    CritiqueState,
    CritiqueTranscript,
    create_critique_transcript,
)
from .steps import (
    Answering,
    CriticTurn,
    Judging,
    Revising,
    build_critique,
    claims_so_far,
    entries_of_critics,
    gather_claims,
    outcome_of,
)

if TYPE_CHECKING:
    from flowdebate.blocks.base import Block
    from flowdebate.blocks.functions import BlockLike, Capability, ToolLike
    from flowdebate.blocks.generator import MessagesSlot, TextSlot, Visibility
    from flowdebate.chassis.material import Material
    from flowdebate.models.base import ModelSettings
    from flowdebate.models.resolve import ModelChoice
    from flowdebate.runs.context import Context
    from flowdebate.runs.events import RunStatus
    from flowdebate.sources.source import Sources, SourcesLike


@suggesting
def critique(  # noqa: PLR0913 - the pattern's options, each with its default
    *,
    name: str,
    answer: str | None = None,
    critics: Sequence[MemberLike] | None = None,
    author: BlockLike | RoleOptions | None = None,
    judge: BlockLike | RoleOptions | None = None,
    revise: bool = True,
    model: ModelChoice = None,
    sources: SourcesLike | Sources | Material | None = None,
    max_concurrency: int | None = None,
    transcript: CritiqueTranscript | None = None,
    instructions: TextSlot | None = None,
    tools: Sequence[ToolLike] | None = None,
    uses: Sequence[Capability] | None = None,
    context: MessagesSlot | None = None,
    settings: ModelSettings | None = None,
    prompts: PromptOptions | None = None,
    critic_visibility: Visibility | Mapping[str, bool] | None = None,
    collection_id: str | None = None,
    failures: FailurePolicy | None = None,
) -> Sequencer[Any, CritiqueOutput, CritiqueOutput]:
    """Build a critique, a block that checks an answer: `await pattern.run("Is the clause enforceable?")`.

    An author answers the question, unless an `answer` is passed. A critic makes claims about the answer, and a judge
    rules on each of them, citing quotes. A claim holds only if the quotes are found in the sources or the question, or
    at two places in the answer. If no claim holds, the answer stands; otherwise the author revises it. A critique takes
    two to four calls. The output is a `CritiqueOutput`.

    - `answer`: the answer to check; an input `{"question": str, "answer": str}` takes precedence.
    - `critics`: `Persona`s, dicts or models; the default is Ada.
    - `author`, `judge`: a block, a function of `(input, ctx)`, or `SynthesizerOptions`.
    - `revise`: False to reject an answer instead of revising it.
    - `model`: the default model for all roles; if several vendors are set up and no model is configured, the critic and
      the judge use a different vendor from the author's.
    - `sources`: strings or paths; the claims and the answer are checked against them.
    - `max_concurrency`: the maximum number of critics working at once.
    - `failures`: what to do when a provider fails; by default at least one critic has to answer.
    - All other options: see `debate()`.

    The input is a str, a dict or a `CritiqueInput`. Invalid options raise `ConfigurationError`.

    >>> from flowdebate.testing import ScriptedModel
    >>> cost = critique(name="cost", critics=[{"name": "Ada"}], answer="It costs 41 euros: 21 and 20.")
    >>> cost.run_sync("What does it cost?", model=ScriptedModel({"claims": []})).output.outcome
    'stands'
    """
    if critics is None:
        critics, model = (
            CRITICS,
            independent_by_default(model, (AUTHOR, "critic", "judge"), location=f"critique {name!r}"),
        )
    loop = check_options(
        CRITIQUE,
        CritiqueOptions(
            name=name,
            answer=answer,
            revise=revise,
            roster=critics,
            max_rounds=3,  # answer, claims and revision
            roles={"author": author, "judge": judge},
            visibilities={"critic": critic_visibility},
            transcript=transcript,
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
    check_option(Flag, "revise", revise, location=loop.location, optional=False)
    check_option(Count, "max_concurrency", max_concurrency, location=loop.location)
    check_text(loop.location, optional=True, answer=answer)
    if AUTHOR in loop.names:
        raise ConfigurationError(loop.location, "critics", AUTHOR, "cannot use the name reserved for the author")
    critic_turns = {
        member.name: CriticTurn(loop, member.name, speakers=_critics(loop, member), custom=is_custom_code(member.block))
        for member in loop.roster
    }

    def make_judge(claim_ids: tuple[str, ...]) -> Block[Any, Any]:
        block = loop.role(JUDGE, claim_ids=list(claim_ids), sources=loop.material)
        return loop.guard(JUDGE, block, heard=lambda _: True)

    # an author who takes no turns needs no model
    pipeline = (
        loop.opening()
        .tap(Answering(loop, None if answer is not None else _author_turn(loop, "answer")))
        .tap(sequencer(name=f"{name}-critics").parallel(critic_turns, max_concurrency=max_concurrency))
        .tap(gather_claims(loop))
        .tap(Judging(loop, make_judge, custom=is_custom_code(judge)))
    )
    if revise:
        pipeline = pipeline.tap(Revising(_author_turn(loop, "revise"), loop))
    return pipeline.then(build_critique(loop))


def _critics(loop: Loop[CritiqueOptions], member: Any) -> list[Block[Any, Any]]:  # noqa: ANN401 - a Persona
    blocks = loop.speakers(member, answer=lambda: Claims, role=member.role, system_prompt=member.system_prompt)
    return [block.in_role("critic") for block in blocks if block is not None]


def _author_turn(loop: Loop[CritiqueOptions], phase: str) -> Turn:
    """Create a turn in which the author writes or revises the answer.

    If the author's model fails, a fallback model takes over.
    """
    choice, fallback = loop.choice(AUTHOR_ROLE), loop.failures.stand_in
    facts: dict[str, Any] = {
        "transcript": loop.transcript,
        "length": loop.prompts.length,
        "sources": loop.material,
    }
    stand_in: Block[Any, Any] | None = None
    if fallback is not None:
        identity = {"model": fallback, "name": f"{loop.name}-stand-in"}
        options: dict[str, Any] = merge_options(facts, loop.options_of(AUTHOR_ROLE), role_options(choice), identity)
        stand_in = create_author.create(**options).in_role(AUTHOR)
    return Turn(
        f"{loop.name}-{phase}",
        agent_name=AUTHOR,
        input_type=CritiqueInput,
        debater=loop.role(AUTHOR_ROLE, **facts),
        record=record_turn(
            name=loop.name,
            agent_name=AUTHOR,
            transcript=loop.transcript,
            collection_id=loop.collection_id,
            entry=partial(CritiqueEntry, agent_name=AUTHOR),
            custom=is_custom_code(choice),
        ),
        stand_in=stand_in,
        failures=loop.failures,
    )


def raw_output(loop: Loop[CritiqueOptions], ctx: Context, status: RunStatus) -> CritiqueOutput:
    """Build the enclosing critique's current output."""
    state = state_of(ctx, CritiqueState)
    entries = list(ctx.scope.handles["transcript"].state.entries)
    if not any(entry.round == 2 for entry in entries):  # noqa: PLR2004 - the run ended while critics were at work
        entries += entries_of_critics(loop, state)
    outcome = outcome_of(state)
    answers = {"stands": state.answer, "revised": state.revision, "rejected": None, None: state.answer or None}
    return CritiqueOutput(
        question=state.question,
        answer=mark_answer(answers[outcome], state.losses),
        outcome=outcome,
        original=state.answer or None,
        is_given=state.is_given,
        claims=claims_so_far(loop, state),
        transcript=entries,
        **ending_of(ctx, status),
    )


AUTHOR_ROLE = Role(name="author", create=[create_author], instead="skipped", visibility=NOT_KEPT)
JUDGE = Role(name="judge", create=[create_claim_judge], instead="no_verdict", visibility=NOT_KEPT)
CRITIQUE: PatternSpec[CritiqueOptions] = PatternSpec(
    name="critique",
    speaker=Role(name="critic", create=[create_critic], visibility=NOT_KEPT),
    roles=[AUTHOR_ROLE, JUDGE],
    constraints=[quorum_of("critics")],
    input_type=CritiqueInput,
    new_state=lambda _: CritiqueState(),
    make_output=raw_output,
    failures=FailurePolicy(on_failure="skip", quorum=1),
    create_transcript=create_critique_transcript,
    roster="critics",
    prompt_options=(),
    min_speakers=1,
)
"""Specification of the critique pattern, with three fixed rounds: answer, claims and revision."""
