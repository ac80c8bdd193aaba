"""What the default blocks of all roles share."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypedDict

from flowdebate.blocks.generator import Visibility, as_visibility

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flowdebate.blocks.generator import MessagesSlot, TextSlot
    from flowdebate.blocks.tools import Capability, ToolLike
    from flowdebate.models.base import Model, ModelSettings

__all__ = (
    "BlockOptions",
    "trim_to_sentence",
)


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


def generator_options(options: BlockOptions, intent: str, visibility: Visibility, *, where: str) -> dict[str, Any]:
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
