"""`council()`: its options, checked before anything is built, and its steps, from the first to the last."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Required, TypeVar, Unpack, overload

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
from flowdebate.chassis.roster import MemberLike, Persona, Role, own_options
from flowdebate.chassis.rounds import check_quorum
from flowdebate.chassis.seats import each_by_default
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
    """The options of `council` that say nothing about the type of its output; their meaning is there."""

    model: ModelChoice
    name: Required[str]
    members: Sequence[MemberLike] | None
    chair: BlockLike | RoleOptions | None
    review: ReviewScope
    max_concurrency: int | None
    transcript: CouncilTranscript | None
    member_visibility: Visibility | Mapping[str, bool] | None
    chair_visibility: Visibility | Mapping[str, bool] | None


@overload
def council(*, output_schema: None = None, **options: Unpack[CouncilKeywords]) -> Sequencer[Any, CouncilOutput]: ...


@overload
def council(*, output_schema: type[OutT], **options: Unpack[CouncilKeywords]) -> Sequencer[Any, OutT]: ...


@overload
def council(
    *,
    output_schema: object,
    **options: Unpack[CouncilKeywords],
) -> Sequencer[Any, Any]: ...


@suggesting
def council(  # noqa: PLR0913 - the pattern's options, each with its default
    *,
    name: str,
    members: Sequence[MemberLike] | None = None,
    chair: BlockLike | RoleOptions | None = None,
    review: ReviewScope = "others",
    max_concurrency: int | None = None,
    output_schema: object = None,
    transcript: CouncilTranscript | None = None,
    instructions: TextSlot | None = None,
    model: ModelChoice = None,
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
) -> Sequencer[Any, Any]:
    """Build a council, a block whose members answer independently and review each other, and whose chair answers.

    All members answer at the same time and see nothing of each other. Then each ranks the others' answers, which it
    sees under letters, in an order that is balanced over the reviewers. The reviews give a ranking (mean rank, Borda,
    Kendall's W). The chair sees all of it, under letters as well, and writes the answer. That takes 2N + 1 calls for N
    members. The form is that of the llm-council project; order and self-preference are controlled here.

    - `members`: at least two `Persona`s, dicts with `name` and optionally `role`, `system_prompt`, `model`, `block`, or
      models. `["openai/gpt-5", "anthropic/claude-sonnet-4-5"]` makes two members with these models and these names; the
      chair is then the default model (of the pattern, the run or FLOWDEBATE_MODEL), or the first of the list if none is
      set. None: Ada, Ben and Cleo; without a `model` and FLOWDEBATE_MODEL each is of another vendor, as with
      `model="each"`, as far as there are some, and a `FlowDebateWarning` names them. A member's `block` forms its
      opinion from a `CouncilInput` and its review from a `ReviewAsked`.
    - `chair`: None is the default, which `SynthesizerOptions` configure; else a block or a function of `(input, ctx)`
      or `(input)` with a `ChairAsked`.
    - `review`: "others"; "all" lets members rank their own answer too, which measures self-preference; "none" leaves
      the reviews out (N + 1 calls).
    - `max_concurrency`: how many opinions, or reviews, may be in progress at once; None for all.
    - `output_schema`: what the chair returns, and the run's output; without one the output is the `CouncilOutput`.
    - `failures`: what to do when a provider fails for good. The council goes on without a member that fails, as long
      as `quorum` (2) opinions are left; `on_failure` may also be "fail" or `StandIn(model)`. A member without an
      opinion does not review; without a chair the answer is None, and a resumed run asks it again.
    - All other options, such as `model`, `prompts`, `sources` and `instructions`, are those of `debate()`. Unless
      `prompts` says otherwise, names of members and models in answers are hidden from reviewers and chair.

    Raises `ConfigurationError` for invalid options, before anything is built.

    >>> from flowdebate.testing import FunctionModel
    >>> def reply(request):
    ...     if "-reviewer-" in request.block:
    ...         letters = [c for c in "ABC" if f"[Answer {c}]" in request.messages[-1]["content"]]
    ...         return {"ranking": [{"answer": letter, "reason": "Sound."} for letter in letters]}
    ...     return {"answer": "Wait a week."} if request.block.endswith("-chair") else f"{request.block}: wait."
    >>> ship = council(name="ship", members=[{"name": "ann"}, {"name": "bea"}, {"name": "cid"}])
    >>> result = ship.run_sync("Should we ship today?", model=FunctionModel(reply))
    >>> result.output.answer, result.usage.calls, len(result.output.ranking)
    ('Wait a week.', 7, 3)
    """
    if members is None:
        members, model = MEMBERS, each_by_default(model, where=f"council {name!r}")
    loop = check_options(
        COUNCIL,
        CommonOptions(
            name=name,
            roster=members,
            max_rounds=1 if review == "none" else 2,  # opinions are round 1, reviews round 2
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
    check_option(ReviewScope, "review", review, where=loop.where, optional=False)
    check_option(Count, "max_concurrency", max_concurrency, where=loop.where)
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
        .then(loop.guard(CHAIR, writes, heard=lambda ctx: bool(state_of(ctx, CouncilState).heard)))
        .then(_build_output(loop, writes.name))
    )
    if schema is None:
        return pipeline

    @handler(name=f"{name}-answer")
    def answer(raw: CouncilOutput) -> Any:  # noqa: ANN401 - what the output schema says
        return raw.answer

    return pipeline.then(answer)


def _close_opinions(loop: Loop[CommonOptions]) -> Handler[Any, None]:
    """A tap that ends the time for opinions, and requires their quorum."""

    @handler(name=f"{loop.name}-close-opinions")
    def close(_: object, ctx: Context) -> None:
        ctx.scope.handle.deadline = None
        state = state_of(ctx, CouncilState)
        if state.losses:  # members who answer nothing break no quorum, only those whose providers failed
            check_quorum(state, state.heard, quorum=loop.failures.least, block=ctx.block)

    return close


def _review(loop: Loop[CommonOptions], member: Persona, hide: Hide) -> ReviewTurn:
    stand_in = loop.failures.stand_in  # of another model: it reviews in the member's name
    reviewers: list[MakeReviewer] = [partial(_reviewer, loop, member)]
    if own_options(member.block) is None:
        own = loop.own_speaker(member).in_role("reviewer")  # the same block answers both kinds of input
        reviewers = [lambda _: own]
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
    options.pop("length", None)  # of opinions
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
    """A block that takes the chair's answer, or `MISSING`, and publishes the raw output."""

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
        # not before the chair has answered: who reads the transcript sees whose answer is whose
        said = loop.collect_spoken(ctx, round=1, make=lambda name, **said: CouncilEntry(agent_name=name, **said))
        transcript = ctx.scope.handles["transcript"]
        transcript.set(transcript.state.with_entry(*said))
        raw: Any = loop.make_output(ctx, status_of(ctx))
        published: CouncilOutput = publish(raw, ctx)
        return published

    return build


def raw_output(loop: Loop[CommonOptions], ctx: Context, status: RunStatus) -> CouncilOutput:
    """The output of the council around a step as it is now."""
    state = state_of(ctx, CouncilState)
    return CouncilOutput(
        question=state.question,
        opinions=loop.collect_spoken(
            ctx,
            round=1,
            make=lambda name, **said: CouncilOpinion(agent_name=name, alias=state.aliases.get(name, ""), **said),
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
"""It has no rounds to repeat: opinions are the first, reviews the second."""
