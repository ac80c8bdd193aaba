"""The default synthesizer: a model that makes the deliverable of what a debate came to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from flowdebate.blocks.debater import filled
from flowdebate.blocks.generator import Generator, Visibility, generator
from flowdebate.blocks.state import as_model
from flowdebate.schemas import DebateRawOutput
from flowdebate.views.synthesizer import (
    SYNTHESIZER,
    SynthesizerTemplate,
    render_synthesizer_system,
    render_synthesizer_turn,
)

if TYPE_CHECKING:
    from flowdebate.blocks.debater import BlockOptions
    from flowdebate.runs.context import Context

__all__ = ("create_synthesizer",)


def create_synthesizer(
    *,
    name: str,
    output_schema: Any = None,  # noqa: ANN401 - a pydantic model, any type, or a JSON Schema
    template: SynthesizerTemplate = SYNTHESIZER,
    **options: Unpack[BlockOptions],
) -> Generator[Any]:
    """The block `{name}-synthesizer`: takes a `DebateRawOutput`, gives `output_schema`, or text without one.

    `output_schema` is a pydantic model, a dataclass or TypedDict, or a JSON Schema as a dict (validated with
    `jsonschema`); an answer that does not fit is a `SchemaViolation`.
    """
    block_name = f"{name}-synthesizer"

    def system(_: object) -> str:
        return render_synthesizer_system(template=template)

    def turn(value: object, ctx: Context) -> str:
        return render_synthesizer_turn(as_model(value, DebateRawOutput, block=ctx.block), template=template)

    return generator(
        name=block_name,
        prompt=system,
        user=turn,
        output_schema=output_schema,
        **filled(options, "intent/synthesize", Visibility(), where=block_name),
    )
