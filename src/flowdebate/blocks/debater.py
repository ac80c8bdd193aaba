"""The default debater: a model that defends its stance."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from flowdebate.blocks.generator import Generator, Visibility, as_visibility, generator
from flowdebate.blocks.state import debate_state, entries_of, question_of
from flowdebate.views.debater import DEBATER, DebaterTemplate, render_debater_system, render_debater_turn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flowdebate.blocks.anonymity import Anonymity
    from flowdebate.blocks.generator import MessagesSlot, TextSlot
    from flowdebate.blocks.tools import Capability, ToolLike
    from flowdebate.models.base import Model, ModelResponse, ModelSettings
    from flowdebate.resources.transcript import Transcript
    from flowdebate.runs.context import Context

__all__ = ("BlockOptions", "create_debater", "trim_to_sentence")


class BlockOptions(TypedDict, total=False):
    """What all default blocks take besides their own parameters."""

    model: Model | str | None
    """None: `"intent/chat"` for debaters, `"intent/synthesize"` for the others."""
    context: MessagesSlot
    """Messages before the prompt."""
    uses: Sequence[Capability]
    """Named bundles of tools, instructions and context."""
    tools: Sequence[ToolLike]
    """Functions or blocks that the model may call."""
    instructions: TextSlot | None
    """Added to the system message; keep it the same for all turns, or servers cannot reuse the prompt."""
    visibility: Visibility | Mapping[str, bool] | None
    """Whether the block's items reach the event stream's readers, and the session's history."""
    settings: ModelSettings | None
    """Temperature, room for the answer, deadline."""


def create_debater(  # noqa: PLR0913 - what a debater may be told
    *,
    name: str,
    agent_name: str,
    stance: str,
    transcript: Transcript,
    role: str | None = None,
    max_rounds: int = 2,
    stances: Sequence[str] | None = None,
    anonymity: Anonymity | None = None,
    sources: Mapping[str, str] | None = None,
    template: DebaterTemplate = DEBATER,
    **options: Unpack[BlockOptions],
) -> Generator[str]:
    """The block `{name}-debater-{agent_name}`: argues for `stance`, answers the other side, never concedes.

    `stances` are those of all debaters, in declared order (default: its own alone); together with the question they
    make a system message that is the same for all turns of all debaters; `sources`, texts by name, are part of it.
    `anonymity` says whose names stand as aliases in what it is shown (None: nobody's). An answer that ran out of room
    is cut at its last full sentence.
    """
    positions = [stance] if stances is None else list(stances)

    def system(value: object, ctx: Context) -> str:
        return render_debater_system(
            question=question_of(value, ctx),
            stances=positions,
            max_rounds=max_rounds,
            sources=sources,
            template=template,
        )

    def turn(_: object, ctx: Context) -> str:
        state = debate_state(ctx)
        decision = state.decision
        briefing = decision.briefing if decision else None
        new_angle = decision.new_angle if decision else None
        return render_debater_turn(
            entries=entries_of(ctx) if anonymity is None else anonymity.entries(ctx),
            stance=stance,
            role=role,
            round=max(state.round, 1),
            max_rounds=max_rounds,
            stances=positions,
            briefing=briefing if anonymity is None else anonymity.hide(briefing, ctx),
            new_angle=new_angle if anonymity is None else anonymity.hide(new_angle, ctx),
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
        **filled(options, "intent/chat", Visibility(history=False), where=block_name),
    )


def filled(options: BlockOptions, intent: str, visibility: Visibility, *, where: str) -> dict[str, Any]:
    """`options` for `generator`, with the block's own defaults for what is left open."""
    given: dict[str, Any] = {key: value for key, value in options.items() if value is not None}
    given.setdefault("model", intent)
    given["visibility"] = as_visibility(given.get("visibility"), visibility, where=where, field="visibility")
    return given


_SENTENCE_END = re.compile(r"[.!?。！？…][\"'”’)\]]*(?=\s|$)")


def trim_to_sentence(text: str) -> str:
    """`text` up to the end of its last full sentence; as it is where there is none.

    >>> trim_to_sentence("Cars are loud. They also po")
    'Cars are loud.'
    """
    ends = [match.end() for match in _SENTENCE_END.finditer(text)]
    return text[: ends[-1]] if ends else text
