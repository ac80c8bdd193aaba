"""The `council()` factory: it validates the options and assembles the steps in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar, Unpack, overload

from flowdebate._util.option_types import Count, check_option
from flowdebate._util.validation import suggesting
from flowdebate.blocks.base import Block
from flowdebate.blocks.functions import BlockLike, Capability, Handler, ToolLike, handler
from flowdebate.blocks.generator import MessagesSlot, TextSlot, Visibility
from flowdebate.blocks.sequencer import Sequencer, sequencer
from flowdebate.chassis.anonymity.aliases import Anonymity, named_models
from flowdebate.chassis.material import Material
from flowdebate.chassis.options import CommonOptions, PromptOptions, quorum_of
from flowdebate.chassis.output import ending_of, mark_answer, publish, status_of
from flowdebate.chassis.roles import NOT_KEPT, CommonKeywords, RoleOptions
from flowdebate.chassis.roster import MemberLike, Persona, Role, role_options
from flowdebate.chassis.rounds import check_quorum
from flowdebate.chassis.seats import default_vendor_models
from flowdebate.chassis.spec import Loop, PatternSpec, check_options
from flowdebate.chassis.state import as_model, state_of
from flowdebate.chassis.turn import MISSING, SKIP, FailurePolicy, record_turn
from flowdebate.models.base import Model, ModelSettings
from flowdebate.models.resolve import ModelChoice
from flowdebate.runs.context import Context
from flowdebate.runs.events import RunStatus
from flowdebate.sources.source import Sources, SourcesLike

from .blocks import create_chair, create_council_member, create_council_reviewer
from .reviews import Hide, MakeReviewer, ReviewTurn, open_reviews, sum_up_reviews
from .schemas import (
    MEMBERS,
    ChairAnswer,
    CouncilEntry,
    CouncilInput,
    CouncilOpinion,
    CouncilOutput,
    CouncilState,
    CouncilTranscript,
    ReviewScope,
    create_council_transcript,
)

OutT = TypeVar("OutT")


class CouncilKeywords(CommonKeywords, total=False):
    """Options for `council()` that do not affect its output type; see `council()` for details."""

    max_concurrency: int | None
    transcript: CouncilTranscript | None
    member_visibility: Visibility | Mapping[str, bool] | None
    chair_visibility: Visibility | Mapping[str, bool] | None


@overload
def council(
    *,
    name: str,
    members: Sequence[MemberLike] | None = None,
    chair: BlockLike | RoleOptions | None = None,
    review: ReviewScope = "others",
    model: ModelChoice = None,
    output_schema: None = None,
    **options: Unpack[CouncilKeywords],
) -> Sequencer[Any, CouncilOutput, CouncilOutput]: ...


@overload
def council(
    *,
    name: str,
    members: Sequence[MemberLike] | None = None,
    chair: BlockLike | RoleOptions | None = None,
    review: ReviewScope = "others",
    model: ModelChoice = None,
    output_schema: type[OutT],
    **options: Unpack[CouncilKeywords],
) -> Sequencer[Any, OutT, CouncilOutput]: ...


@overload
def council(
    *,
    name: str,
    members: Sequence[MemberLike] | None = None,
    chair: BlockLike | RoleOptions | None = None,
    review: ReviewScope = "others",
    model: ModelChoice = None,
    output_schema: object,
    **options: Unpack[CouncilKeywords],
) -> Sequencer[Any, Any, CouncilOutput]: ...


@suggesting
def council(  # noqa: PLR0913 - the pattern's options, each with its default
    *,
    name: str,
    members: Sequence[MemberLike] | None = None,
    chair: BlockLike | RoleOptions | None = None,
    review: ReviewScope = "others",
    model: ModelChoice = None,
    max_concurrency: int | None = None,
    output_schema: object = None,
    transcript: CouncilTranscript | None = None,
    instructions: TextSlot | None = None,
    tools: Sequence[ToolLike] | None = None,
    uses: Sequence[Capability] | None = None,
    context: MessagesSlot | None = None,
    settings: ModelSettings | None = None,
    prompts: PromptOptions | None = None,
    sources: SourcesLike | Sources | Material | None = None,
    member_visibility: Visibility | Mapping[str, bool] | None = None,
    chair_visibility: Visibility | Mapping[str, bool] | None = None,
    collection_id: str | None = None,
    failures: FailurePolicy | None = None,
) -> Sequencer[Any, Any, CouncilOutput]:
    """Build a council, whose members review each other's answers: `await pattern.run("Ship today?")`.

    All members answer at the same time, then rank each other's answers, which are identified only by letters. The
    chair reads the answers, reviews and ranking, and writes the final answer. A council of N members makes 2N + 1
    calls. `result.raw` is the `CouncilOutput`.

    - `members`: at least two `Persona`s, dicts or models, such as `["openai/gpt-5", "anthropic/claude-sonnet-4-5"]`.
      The default is Ada, Ben and Cleo, each from a different vendor if several are set up.
    - `chair`: a block, a function of `(input, ctx)`, or `SynthesizerOptions`.
    - `review`: "others"; "all" lets members rank their own answers as well; "none" skips the reviews.
    - `model`: the default model for all roles.
    - `output_schema`: the type of the chair's answer; without a schema the output is the `CouncilOutput`.
    - `max_concurrency`: the maximum number of opinions or reviews in progress at once.
    - `failures`: what to do when a provider fails; by default the council continues as long as two members remain.
    - All other options: see `debate()`.

    The input is a str, `{"question": str}` or a `CouncilInput`. Invalid options raise `ConfigurationError`.

    >>> ship = council(name="ship", members=["openai/gpt-5", "anthropic/claude-sonnet-4-5"])
    >>> ship.name
    'ship'
    """
    if members is None:
        members, model = MEMBERS, default_vendor_models(model, location=f"council {name!r}")
    loop = check_options(
        COUNCIL,
        CommonOptions(
            name=name,
            roster=members,
            max_rounds=1 if review == "none" else 2,  # round 1 is for opinions, round 2 for reviews
            roles={"chair": chair},
            visibilities={"member": member_visibility, "chair": chair_visibility},
            output_schema=output_schema,
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
    check_option(ReviewScope, "review", review, location=loop.location, optional=False)
    check_option(Count, "max_concurrency", max_concurrency, location=loop.location)
    hide: Hide = lambda text, _: text  # noqa: E731 - as `Anonymity.hide`
    if loop.prompts.hide_names is not False:
        models = named_models(loop.options.model, loop.roster, *loop.models.values())
        hide = Anonymity(names=tuple(loop.names), models=models).hide
    reviewed, schema = review != "none", loop.schema
    opinions = {
        member.name: loop.turn(
            member, partial(record_turn, entry=None), role=member.role, system_prompt=member.system_prompt
        )
        for member in loop.roster
    }
    pipeline = loop.opening()
    together = sequencer(name=f"{name}-opinions").parallel(opinions, max_concurrency=max_concurrency, finish=True)
    pipeline = pipeline.tap(together).tap(_close_opinions(loop)).tap(open_reviews(loop, review))
    if reviewed:
        reviews = {member.name: _review(loop, member, hide) for member in loop.roster}
        together = sequencer(name=f"{name}-reviews").parallel(reviews, max_concurrency=max_concurrency, finish=True)
        pipeline = pipeline.tap(together)
    writes = loop.role(CHAIR, answer=lambda: ChairAnswer if schema is None else schema, output_schema=schema)
    pipeline = (
        pipeline.then(sum_up_reviews(loop, reviewed=reviewed, hide=hide))
        .then(loop.guard(CHAIR, writes, heard=lambda ctx: bool(state_of(ctx, CouncilState).members_heard)))
        .then(_build_output(loop, writes.name))
    )
    if schema is None:
        return pipeline

    @handler(name=f"{name}-answer")
    def answer(raw: CouncilOutput) -> Any:  # noqa: ANN401 - what the output schema says
        return raw.answer

    return pipeline.then(answer)


def _close_opinions(loop: Loop[CommonOptions]) -> Handler[Any, None]:
    """Create the block that closes the opinion phase and checks its quorum."""

    @handler(name=f"{loop.name}-close-opinions")
    def close(_: object, ctx: Context) -> None:
        ctx.scope.handle.deadline = None
        state = state_of(ctx, CouncilState)
        if state.losses:  # only failed providers can break the quorum; empty answers cannot
            check_quorum(state, state.members_heard, quorum=loop.failures.least, block=ctx.block)

    return close


def _review(loop: Loop[CommonOptions], member: Persona, hide: Hide) -> ReviewTurn:
    stand_in = loop.failures.stand_in  # a fallback with a different model but the same member name
    reviewers: list[MakeReviewer] = [partial(_reviewer, loop, member)]
    if role_options(member.block) is None:
        reviewer = loop.custom_speaker(member).in_role("reviewer")  # a single block answers both kinds of input
        reviewers = [lambda _: reviewer]
    if stand_in is not None:
        reviewers.append(partial(_reviewer, loop, member, stand_in=stand_in))
    return ReviewTurn(
        f"{loop.name}-review-{member.name}",
        agent_name=member.name,
        reviewers=reviewers,
        hide=hide,
        failures=loop.failures,
    )


def _reviewer(
    loop: Loop[CommonOptions], member: Persona, letters: tuple[str, ...], *, stand_in: Model | str | None = None
) -> Block[Any, Any]:
    options = loop.options_of(loop.spec.speaker, member)
    options.pop("length", None)  # this length applies only to opinions
    if stand_in is not None:
        options["model"] = stand_in
    create: Callable[..., Block[Any, Any]] = create_council_reviewer
    return create(
        name=loop.name if stand_in is None else f"{loop.name}-stand-in",
        agent_name=member.name,
        role=member.role,
        system_prompt=member.system_prompt,
        letters=letters,
        **options,
    )


def _build_output(loop: Loop[CommonOptions], chair: str) -> Handler[Any, CouncilOutput]:
    """Create the block that takes the chair's answer (or `MISSING`) and publishes the raw output."""

    @handler(name=f"{loop.name}-build-output", resources={"transcript": loop.transcript})
    def build(value: object, ctx: Context) -> CouncilOutput:
        if value is not MISSING:
            answer, dissent = value, None
            if loop.schema is not None:
                answer = loop.schema.validate(value)
            elif not isinstance(value, str):
                read = as_model(value, ChairAnswer, block=chair)
                answer, dissent = read.answer, read.dissent
            ctx.scope.handle.update(answer=answer, dissent=dissent)
        # added only after the chair has answered, since the transcript shows who wrote which answer
        entries = loop.collect_spoken(
            ctx, round=1, make=lambda name, **entries: CouncilEntry(agent_name=name, **entries)
        )
        transcript = ctx.scope.handles["transcript"]
        transcript.set(transcript.state.with_entry(*entries))
        raw: Any = loop.make_output(ctx, status_of(ctx))
        published: CouncilOutput = publish(raw, ctx)
        return published

    return build


def raw_output(loop: Loop[CommonOptions], ctx: Context, status: RunStatus) -> CouncilOutput:
    """Return the enclosing council's current output."""
    state = state_of(ctx, CouncilState)
    return CouncilOutput(
        question=state.question,
        opinions=loop.collect_spoken(
            ctx,
            round=1,
            make=lambda name, **fields: CouncilOpinion(agent_name=name, alias=state.aliases.get(name, ""), **fields),
        ),
        reviews=[state.reviews[name] for name in loop.names if name in state.reviews],
        ranking=list(state.ranking),
        agreement=state.agreement,
        answer=mark_answer(state.answer, state.losses),
        dissent=state.dissent,
        **ending_of(ctx, status),
    )


CHAIR = Role(name="chair", create=[create_chair], instead="no_output")
COUNCIL: PatternSpec[CommonOptions] = PatternSpec(
    name="council",
    speaker=Role(name="member", create=[create_council_member], visibility=NOT_KEPT),
    shares_sources=True,
    roles=[CHAIR],
    constraints=[quorum_of("members")],
    input_type=CouncilInput,
    new_state=lambda _: CouncilState(),
    make_output=raw_output,
    failures=SKIP,
    create_transcript=create_council_transcript,
    roster="members",
    prompt_options=("hide_names",),
)
"""Specification of the council pattern, with two fixed rounds: opinions and reviews."""
