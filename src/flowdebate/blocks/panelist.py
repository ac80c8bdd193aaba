"""The default panelist: a model that speaks as who it is, and answers those who spoke before it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from flowdebate.blocks.debater import filled, trim_to_sentence
from flowdebate.blocks.generator import Generator, Visibility, generator
from flowdebate.blocks.panel_state import panel_state
from flowdebate.blocks.state import entries_of, question_of
from flowdebate.views.panelist import PANELIST, PanelistTemplate, render_panelist_system, render_panelist_turn

if TYPE_CHECKING:
    from flowdebate.blocks.debater import BlockOptions
    from flowdebate.models.base import ModelResponse
    from flowdebate.resources.panel_transcript import PanelTranscript
    from flowdebate.runs.context import Context
    from flowdebate.views.panel import Members

__all__ = ("create_panelist",)


def create_panelist(  # noqa: PLR0913 - what a panelist is made of, each with its default
    *,
    name: str,
    agent_name: str,
    transcript: PanelTranscript,
    role: str | None = None,
    system_prompt: str | None = None,
    members: Members | None = None,
    max_rounds: int = 2,
    refereed: bool = False,
    template: PanelistTemplate = PANELIST,
    **options: Unpack[BlockOptions],
) -> Generator[str]:
    """The block `{name}-panelist-{agent_name}`: speaks as who `role` and `system_prompt` say that it is.

    `members` are the roles of all who sit on the panel, by name, in declared order (default: itself alone). It sees
    the question, all that was said, also in the same round, and what the referee found of the rounds before;
    `refereed` says that there is one. An answer that ran out of room is cut at its last full sentence.
    """
    everyone = {agent_name: role} if members is None else dict(members)

    def system(value: object, ctx: Context) -> str:
        return render_panelist_system(
            question=question_of(value, ctx),
            members=everyone,
            max_rounds=max_rounds,
            name=agent_name,
            system_prompt=system_prompt,
            refereed=refereed,
            template=template,
        )

    def turn(value: object, ctx: Context) -> str:
        state = panel_state(ctx)
        return render_panelist_turn(
            question=question_of(value, ctx),
            entries=entries_of(ctx),
            audits=state.audits,
            name=agent_name,
            role=role,
            round=max(state.round, 1),
            max_rounds=max_rounds,
            template=template,
        )

    def whole(text: str, response: ModelResponse, _: Context) -> str:
        return trim_to_sentence(text) if response.finish == "length" else text

    block_name = f"{name}-panelist-{agent_name}"
    return generator(
        name=block_name,
        prompt=system,
        user=turn,
        transform=whole,
        resources={"transcript": transcript},
        **filled(options, "intent/chat", Visibility(history=False), where=block_name),
    )
