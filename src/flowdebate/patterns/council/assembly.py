"""Assembly of a council: its steps from top to bottom."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from flowdebate.blocks.handler import Handler, handler
from flowdebate.blocks.sequencer import sequencer
from flowdebate.patterns.council.chair import create_chair
from flowdebate.patterns.council.member import create_council_member, create_council_reviewer
from flowdebate.patterns.council.review import MakeReviewer, ReviewTurn, council_state, open_reviews, sum_up_reviews
from flowdebate.patterns.council.schemas import (
    ChairAnswer,
    CouncilEntry,
    CouncilInput,
    CouncilOpinion,
    CouncilOutput,
    CouncilState,
)
from flowdebate.patterns.output import publish, status_of
from flowdebate.patterns.roster import is_own, member_options, own_options
from flowdebate.patterns.rounds import Loop, PatternSpec, check_quorum
from flowdebate.patterns.state import as_model
from flowdebate.patterns.turn import MISSING, IfHeard, flag_of, hear, record_failure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.blocks.base import Block
    from flowdebate.blocks.handler import BlockLike
    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.models.base import Model
    from flowdebate.models.output import OutputSchema
    from flowdebate.patterns.anonymity.anonymity import Anonymity
    from flowdebate.patterns.council.schemas import ReviewScope
    from flowdebate.patterns.roles import RoleOptions
    from flowdebate.patterns.roster import Persona
    from flowdebate.patterns.turn import Turn
    from flowdebate.runs.context import Context
    from flowdebate.runs.events import RunStatus


@dataclass(frozen=True, kw_only=True)
class CouncilOptions:
    """The checked options of a council. Those of a role reach its default block only."""

    loop: Loop
    roster: tuple[Persona, ...]
    chair: BlockLike | RoleOptions | None
    review: ReviewScope | None
    max_concurrency: int | None
    output_schema: OutputSchema | None
    anonymity: Anonymity | None
    of_members: RoleOptions
    of_chair: RoleOptions

    @property
    def names(self) -> list[str]:
        """The members' names, in declared order."""
        return [member.name for member in self.roster]


def assemble(council: CouncilOptions) -> Sequencer[Any, Any]:
    """The council as a block: opinions at the same time, reviews at the same time, ranking, chair, output."""
    loop, limit = council.loop, council.max_concurrency
    opinions = {member.name: _opinion(council, member) for member in council.roster}

    pipeline = loop.opening()
    pipeline = pipeline.tap(sequencer(name=f"{loop.name}-opinions").parallel(opinions, max_concurrency=limit))
    pipeline = pipeline.tap(_close_opinions(loop))
    pipeline = pipeline.tap(open_reviews(loop, council.review))
    if council.review is not None:
        reviews = {member.name: _review(council, member) for member in council.roster}
        pipeline = pipeline.tap(sequencer(name=f"{loop.name}-reviews").parallel(reviews, max_concurrency=limit))
    chair = _chair(council)
    rank = sum_up_reviews(loop, council.names, reviewed=council.review is not None, anonymity=council.anonymity)
    answered = IfHeard(
        loop.guarded(chair, _without_answer),
        role="chair",
        instead="no_output",
        heard=lambda ctx: bool(council_state(ctx).heard),
    )
    pipeline = pipeline.then(rank).then(answered)
    pipeline = pipeline.then(_build_output(council, chair.name))
    return pipeline if council.output_schema is None else pipeline.then(_answer_alone(loop.name))


def _opinion(council: CouncilOptions, member: Persona) -> Turn:
    loop = council.loop
    about = {"role": member.role, "system_prompt": member.system_prompt}
    block, stand_in = loop.speakers(member, create_council_member, options=council.of_members, **about)
    record = hear(
        name=loop.name,
        agent_name=member.name,
        transcript=loop.transcript,
        collection_id=loop.collection_id,
        own=is_own(member.block),
    )
    return loop.turn(member, debater=block, stand_in=stand_in, record=record)


def _close_opinions(loop: Loop) -> Handler[Any, None]:
    """A tap that ends the time for opinions, and requires their quorum."""

    @handler(name=f"{loop.name}-close-opinions")
    def close(_: object, ctx: Context) -> None:
        ctx.scope.handle.deadline = None
        state = council_state(ctx)
        if state.losses:
            check_quorum(state, state.heard, quorum=loop.failures.quorum, block=ctx.block)

    return close


def _review(council: CouncilOptions, member: Persona) -> ReviewTurn:
    loop, stand_in = council.loop, council.loop.failures.stand_in
    reviewers: list[MakeReviewer] = [partial(_reviewer, council, member)]
    if own_options(member.block) is None:
        own = loop.own_debater(member).in_role("reviewer")
        reviewers = [lambda _: own]
    if stand_in is not None:
        reviewers.append(partial(_reviewer, council, member, stand_in=stand_in))
    return ReviewTurn(
        f"{loop.name}-review-{member.name}",
        agent_name=member.name,
        reviewers=reviewers,
        anonymity=council.anonymity,
        failures=loop.failures,
    )


def _reviewer(
    council: CouncilOptions, member: Persona, letters: tuple[str, ...], *, stand_in: Model | None = None
) -> Block[Any, Any]:
    loop, options = council.loop, {**council.of_members.for_block(), **member_options(member)}
    options.pop("length", None)  # of opinions
    if stand_in is not None:
        options["model"] = stand_in
    return create_council_reviewer(
        name=loop.name if stand_in is None else f"{loop.name}-stand-in",
        agent_name=member.name,
        letters=letters,
        role=member.role,
        system_prompt=member.system_prompt,
        **options,
    )


def _chair(council: CouncilOptions) -> Block[Any, Any]:
    loop, schema = council.loop, council.output_schema

    def answer() -> object:
        return ChairAnswer if schema is None else schema

    return loop.role(
        council.chair, "chair", create_chair, options=council.of_chair, answer=answer, output_schema=schema
    )


def _without_answer(error: Exception, _: object, ctx: Context) -> object:
    """Go on without the answer of a chair whose provider failed: the ranking is still there."""
    record_failure(error, ctx, block=ctx.block, role="chair", name=ctx.block, instead="no_output")
    return MISSING


def _build_output(council: CouncilOptions, chair: str) -> Handler[Any, CouncilOutput]:
    """A block that takes the chair's answer, or `MISSING`, and publishes the raw output."""
    loop, schema = council.loop, council.output_schema
    resources = {"transcript": loop.transcript}

    @handler(name=f"{loop.name}-build-output", resources=resources)
    def build(value: object, ctx: Context) -> CouncilOutput:
        if value is not MISSING:
            ctx.scope.handle.update(**_read_answer(value, schema, block=chair))
        state = council_state(ctx)
        said = [
            CouncilEntry(
                agent_name=member.name,
                role=member.role,
                text=state.spoken[member.name],
                flag=flag_of(member.name, state.losses, round=1),
            )
            for member in council.roster
            if member.name in state.spoken
        ]
        transcript = ctx.scope.handles["transcript"]
        transcript.set(transcript.state.with_entry(*said))
        raw: Any = loop.spec.make_output(ctx, status_of(ctx))
        published: CouncilOutput = publish(raw, ctx)
        return published

    return build


def _read_answer(value: object, schema: OutputSchema | None, *, block: str) -> dict[str, Any]:
    """The fields of the state: the data for `schema`; else the answer, and the dissent if the chair names one."""
    if schema is not None:
        return {"answer": schema.validate(value), "dissent": None}
    if isinstance(value, str):
        return {"answer": value, "dissent": None}
    answer = as_model(value, ChairAnswer, block=block)
    return {"answer": answer.answer, "dissent": answer.dissent}


def _answer_alone(name: str) -> Handler[CouncilOutput, Any]:
    @handler(name=f"{name}-answer")
    def answer(raw: CouncilOutput) -> Any:  # noqa: ANN401 - what the output schema says
        return raw.answer

    return answer


def council_spec(roster: Sequence[Persona]) -> PatternSpec:
    """The council's part of the chassis; it has no rounds to repeat."""
    return PatternSpec(
        input_type=CouncilInput,
        new_state=CouncilState,
        make_output=partial(raw_output, roster=roster),
        stop_reason=lambda _: None,  # it has no loop
        voice_of=None,
        speaker="member",
    )


def raw_output(ctx: Context, status: RunStatus, *, roster: Sequence[Persona]) -> CouncilOutput:
    """The output of the council around a step as it is now."""
    state = council_state(ctx)
    return CouncilOutput(
        question=state.question,
        opinions=[
            CouncilOpinion(
                agent_name=member.name,
                role=member.role,
                alias=state.aliases.get(member.name, ""),
                text=state.spoken[member.name],
                flag=flag_of(member.name, state.losses, round=1),
            )
            for member in roster
            if member.name in state.spoken
        ],
        reviews=[state.reviews[member.name] for member in roster if member.name in state.reviews],
        ranking=list(state.ranking),
        agreement=state.agreement,
        answer=state.answer,
        dissent=state.dissent,
        stop_reason=state.stop_reason,
        status=status,
        losses=list(state.losses),
        seed=ctx.seed,
    )
