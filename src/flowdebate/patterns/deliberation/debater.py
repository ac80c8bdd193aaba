"""The default persona of a deliberation: a model that speaks as who it is, and answers the rounds before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from flowdebate.blocks.generator import Generator, Visibility, generator
from flowdebate.patterns.deliberation.prompts import (
    PERSONA,
    PersonaTemplate,
    render_persona_system,
    render_persona_turn,
)
from flowdebate.patterns.deliberation.transcript import deliberation_state
from flowdebate.patterns.roles import generator_options, trim_to_sentence
from flowdebate.patterns.state import entries_of, question_of

if TYPE_CHECKING:
    from flowdebate.models.base import ModelResponse
    from flowdebate.patterns.deliberation.prompts import Participants
    from flowdebate.patterns.deliberation.transcript import DeliberationTranscript
    from flowdebate.patterns.roles import BlockOptions
    from flowdebate.runs.context import Context

__all__ = ("create_persona_debater",)


def create_persona_debater(
    *,
    name: str,
    agent_name: str,
    transcript: DeliberationTranscript,
    role: str | None = None,
    system_prompt: str | None = None,
    participants: Participants | None = None,
    max_rounds: int = 3,
    template: PersonaTemplate = PERSONA,
    **options: Unpack[BlockOptions],
) -> Generator[str]:
    """The block `{name}-debater-{agent_name}`: speaks as who `role` and `system_prompt` say that it is.

    `participants` are the roles of all who take part, by name, in declared order (default: itself alone). It sees the
    topic, all that was said in earlier rounds, and the moderator's latest summary. An answer that ran out of room is
    cut at its last full sentence.
    """
    everyone = {agent_name: role} if participants is None else dict(participants)

    def system(value: object, ctx: Context) -> str:
        return render_persona_system(
            topic=question_of(value, ctx),
            participants=everyone,
            max_rounds=max_rounds,
            name=agent_name,
            system_prompt=system_prompt,
            template=template,
        )

    def turn(_: object, ctx: Context) -> str:
        state = deliberation_state(ctx)
        return render_persona_turn(
            entries=entries_of(ctx),
            reports=state.reports,
            name=agent_name,
            role=role,
            round=max(state.round, 1),
            max_rounds=max_rounds,
            system_prompt=system_prompt,
            template=template,
        )

    def whole(text: str, response: ModelResponse, _: Context) -> str:
        return trim_to_sentence(text) if response.finish == "length" else text

    block_name = f"{name}-debater-{agent_name}"
    return generator(
        name=block_name,
        prompt=system,
        user=turn,
        transform=whole,
        resources={"transcript": transcript},
        **generator_options(options, "intent/chat", Visibility(history=False), where=block_name),
    )
