"""Assembly of a council: its steps from top to bottom."""

from __future__ import annotations

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
    create_council_transcript,
)
from flowdebate.patterns.output import ending_of, publish, status_of
from flowdebate.patterns.roles import NOT_KEPT
from flowdebate.patterns.roster import Role, merge_options, own_options
from flowdebate.patterns.rounds import Loop, PatternSpec, check_quorum
from flowdebate.patterns.state import as_model
from flowdebate.patterns.turn import MISSING, flag_of, hear

if TYPE_CHECKING:
    from flowdebate.blocks.base import Block
    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.models.base import Model
    from flowdebate.models.output import OutputSchema
    from flowdebate.patterns.anonymity.anonymity import Anonymity
    from flowdebate.patterns.roster import Persona
    from flowdebate.runs.context import Context
    from flowdebate.runs.events import RunStatus


def assemble(loop: Loop, anonymity: Anonymity | None) -> Sequencer[Any, Any]:
    """The council as a block: opinions at the same time, reviews at the same time, ranking, chair, output."""
    review, limit, schema = loop.given["review"] or None, loop.given["max_concurrency"], loop.schema
    opinions = {
        member.name: loop.turn(member, hear, role=member.role, system_prompt=member.system_prompt)
        for member in loop.roster
    }
    pipeline = loop.opening()
    pipeline = pipeline.tap(sequencer(name=f"{loop.name}-opinions").parallel(opinions, max_concurrency=limit))
    pipeline = pipeline.tap(_close_opinions(loop))
    pipeline = pipeline.tap(open_reviews(loop, review))
    if review is not None:
        reviews = {member.name: _review(loop, member, anonymity) for member in loop.roster}
        pipeline = pipeline.tap(sequencer(name=f"{loop.name}-reviews").parallel(reviews, max_concurrency=limit))
    chair = loop.role(CHAIR, answer=lambda: ChairAnswer if schema is None else schema, output_schema=schema)
    rank = sum_up_reviews(loop, reviewed=review is not None, anonymity=anonymity)
    pipeline = pipeline.then(rank).then(loop.guard(CHAIR, chair, heard=lambda ctx: bool(council_state(ctx).heard)))
    pipeline = pipeline.then(_build_output(loop, chair.name))
    return pipeline if schema is None else pipeline.then(_answer_alone(loop.name))


def _close_opinions(loop: Loop) -> Handler[Any, None]:
    """A tap that ends the time for opinions, and requires their quorum."""

    @handler(name=f"{loop.name}-close-opinions")
    def close(_: object, ctx: Context) -> None:
        ctx.scope.handle.deadline = None
        state = council_state(ctx)
        if state.losses:
            check_quorum(state, state.heard, quorum=loop.failures.quorum, block=ctx.block)

    return close


def _review(loop: Loop, member: Persona, anonymity: Anonymity | None) -> ReviewTurn:
    stand_in = loop.failures.stand_in
    reviewers: list[MakeReviewer] = [partial(_reviewer, loop, member)]
    if own_options(member.block) is None:
        own = loop.own_speaker(member).in_role("reviewer")
        reviewers = [lambda _: own]
    if stand_in is not None:
        reviewers.append(partial(_reviewer, loop, member, stand_in=stand_in))
    return ReviewTurn(
        f"{loop.name}-review-{member.name}",
        agent_name=member.name,
        reviewers=reviewers,
        anonymity=anonymity,
        failures=loop.failures,
    )


def _reviewer(
    loop: Loop, member: Persona, letters: tuple[str, ...], *, stand_in: Model | None = None
) -> Block[Any, Any]:
    options = loop.options_of(loop.spec.speaker, member)
    options.pop("length", None)  # of opinions
    name = loop.name if stand_in is None else f"{loop.name}-stand-in"
    about = {"agent_name": member.name, "role": member.role, "system_prompt": member.system_prompt}
    return create_council_reviewer(
        letters=letters, **merge_options({"name": name, **about}, options, {"model": stand_in})
    )


def _build_output(loop: Loop, chair: str) -> Handler[Any, CouncilOutput]:
    """A block that takes the chair's answer, or `MISSING`, and publishes the raw output."""

    @handler(name=f"{loop.name}-build-output", resources={"transcript": loop.transcript})
    def build(value: object, ctx: Context) -> CouncilOutput:
        if value is not MISSING:
            ctx.scope.handle.update(**_read_answer(value, loop.schema, block=chair))
        said = [CouncilEntry(**about) for about in _said(loop, ctx)]
        transcript = ctx.scope.handles["transcript"]
        transcript.set(transcript.state.with_entry(*said))
        raw: Any = loop.make_output(ctx, status_of(ctx))
        published: CouncilOutput = publish(raw, ctx)
        return published

    return build


def _said(loop: Loop, ctx: Context) -> list[dict[str, Any]]:
    """What is recorded of each opinion, in declared order."""
    state = council_state(ctx)
    return [
        {
            "agent_name": member.name,
            "role": member.role,
            "text": state.spoken[member.name],
            "flag": flag_of(member.name, state.losses, round=1),
        }
        for member in loop.roster
        if member.name in state.spoken
    ]


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


def raw_output(loop: Loop, ctx: Context, status: RunStatus) -> CouncilOutput:
    """The output of the council around a step as it is now."""
    state = council_state(ctx)
    return CouncilOutput(
        question=state.question,
        opinions=[
            CouncilOpinion(alias=state.aliases.get(about["agent_name"], ""), **about) for about in _said(loop, ctx)
        ],
        reviews=[state.reviews[name] for name in loop.names if name in state.reviews],
        ranking=list(state.ranking),
        agreement=state.agreement,
        answer=state.answer,
        dissent=state.dissent,
        **ending_of(ctx, status),
    )


CHAIR = Role(name="chair", create=[create_chair], instead="no_output")
COUNCIL = PatternSpec(
    name="council",
    speaker=Role(name="member", create=[create_council_member], visibility=NOT_KEPT),
    roles=[CHAIR],
    input_type=CouncilInput,
    new_state=lambda _: CouncilState(),
    make_output=raw_output,
    create_transcript=create_council_transcript,
    roster="members",
)
"""It has no rounds to repeat: opinions are the first, reviews the second."""
