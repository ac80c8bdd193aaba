"""The default synthesizer of a panel: a model that makes the deliverable of all that was said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from flowdebate.blocks.debater import filled
from flowdebate.blocks.generator import Generator, Visibility, generator
from flowdebate.blocks.state import as_model
from flowdebate.schemas.panel import PanelOutput
from flowdebate.views.panel_synthesizer import (
    PANEL_SYNTHESIZER,
    PanelSynthesizerTemplate,
    render_panel_synthesizer_system,
    render_panel_synthesizer_turn,
)

if TYPE_CHECKING:
    from flowdebate.blocks.debater import BlockOptions
    from flowdebate.runs.context import Context

__all__ = ("create_panel_synthesizer",)


def create_panel_synthesizer(
    *,
    name: str,
    output_schema: Any = None,  # noqa: ANN401 - a pydantic model, any type, or a JSON Schema
    template: PanelSynthesizerTemplate = PANEL_SYNTHESIZER,
    **options: Unpack[BlockOptions],
) -> Generator[Any]:
    """The block `{name}-synthesizer`: takes a `PanelOutput`, gives `output_schema`, or text without one.

    `output_schema` is a pydantic model, a dataclass or TypedDict, or a JSON Schema as a dict (validated with
    `jsonschema`); an answer that does not fit is a `SchemaViolation`.
    """
    block_name = f"{name}-synthesizer"

    def system(_: object) -> str:
        return render_panel_synthesizer_system(template=template)

    def turn(value: object, ctx: Context) -> str:
        return render_panel_synthesizer_turn(as_model(value, PanelOutput, block=ctx.block), template=template)

    return generator(
        name=block_name,
        prompt=system,
        user=turn,
        output_schema=output_schema,
        **filled(options, "intent/synthesize", Visibility(), where=block_name),
    )
