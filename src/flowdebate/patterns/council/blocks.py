"""Default blocks for a council: a member that gives its opinion, a member that reviews the answers, and the chair."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from flowdebate.blocks.generator import Generator
from flowdebate.chassis.roles import NOT_KEPT, BlockOptions, Wording, deciding_block, persona_block, speaker_tag
from flowdebate.chassis.roster import bindable
from flowdebate.chassis.state import question_of
from flowdebate.prompts import Length, filled, quoted
from flowdebate.runs.context import Context

from .prompts import (
    CHAIRS,
    COUNCIL_MEMBERS,
    ChairTemplate,
    CouncilMemberTemplate,
    render_answers,
    render_work,
)
from .schemas import ChairAnswer, ChairRequest, CouncilTranscript, ReviewRequest, ranking_of


def _describe_member(template: CouncilMemberTemplate, name: str, role: str | None, system_prompt: str | None) -> str:
    """Build a member's system message from the template, the member's name and role, and the `system_prompt`.

    If `role` is None, the name is omitted as well. The `system_prompt` is included without escaping.
    """
    who = None if role is None else filled(template.persona, speaker=speaker_tag(name, role))
    return "\n\n".join(filter(None, [template.system, who, system_prompt]))


@bindable("name", "agent_name", "transcript", pattern="Persona", role="debater", template=CouncilMemberTemplate)
def create_council_member(
    *,
    name: str,
    agent_name: str,
    transcript: CouncilTranscript,
    role: str | None = None,
    system_prompt: str | None = None,
    template: CouncilMemberTemplate | None = None,
    length: Length | None = None,
    **options: Unpack[BlockOptions],
) -> Generator[str]:
    """Create the block `{name}-member-{agent_name}`, which answers the question without seeing any other answers."""

    def opinion(wording: Wording[CouncilMemberTemplate], value: object, ctx: Context) -> str:
        return filled(wording.template.opinion, question=quoted(question_of(value, ctx)), length=wording.length)

    return persona_block(
        f"{name}-member-{agent_name}",
        COUNCIL_MEMBERS,
        options,
        system=lambda wording, _, __: _describe_member(wording.template, agent_name, role, system_prompt),
        turn=opinion,
        transcript=transcript,
        template=template,
        length=length,
    )


def create_council_reviewer(
    *,
    name: str,
    agent_name: str,
    letters: Sequence[str],
    role: str | None = None,
    system_prompt: str | None = None,
    template: CouncilMemberTemplate | None = None,
    **options: Unpack[BlockOptions],
) -> Generator[Any]:
    """Create the block `{name}-reviewer-{agent_name}`.

    The block takes a `ReviewRequest` and ranks the answers in it, identified by their `letters`.
    """

    def review(texts: CouncilMemberTemplate, value: ReviewRequest, _: Context) -> str:
        answers = filled(texts.answers, question=quoted(value.question), answers=render_answers(value.answers))
        return f"{answers}\n\n{texts.review}"

    reviewer = deciding_block(
        f"{name}-reviewer-{agent_name}",
        COUNCIL_MEMBERS,
        options,
        system=lambda texts, _, __: _describe_member(texts, agent_name, role, system_prompt),
        turn=review,
        template=template,
        output_schema=ranking_of(tuple(letters)),
        intent="intent/chat",
        visibility=NOT_KEPT,
    ).with_synonyms({f"Answer {letter}": letter for letter in letters})
    reviewer.role = "reviewer"
    return reviewer


@bindable("name", pattern="council", role="chair", template=ChairTemplate)
def create_chair(
    *,
    name: str,
    output_schema: object = None,
    template: ChairTemplate | None = None,
    **options: Unpack[BlockOptions],
) -> Generator[Any]:
    """Create the block `{name}-chair`.

    The block takes a `ChairRequest` and returns data matching `output_schema`, or a `ChairAnswer` if there is no
    schema.
    """

    def answer(texts: ChairTemplate, value: ChairRequest, _: Context) -> str:
        task = texts.task if output_schema is None else texts.task_for_schema
        return f"{render_work(value.question, value.answers, value.reviews, value.ranking, template=texts)}\n\n{task}"

    return deciding_block(
        f"{name}-chair",
        CHAIRS,
        options,
        system=lambda texts, _, __: texts.system,
        turn=answer,
        template=template,
        output_schema=ChairAnswer if output_schema is None else output_schema,
    )
