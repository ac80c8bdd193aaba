"""The last step that `debate()` and `round_robin()` share: the output, made of all that it came to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from flowdebate.blocks.handler import as_block
from flowdebate.blocks.human.prompt import with_answer_schema
from flowdebate.patterns.failures import lose
from flowdebate.patterns.rounds import finish, validate_output
from flowdebate.patterns.state import pattern_state

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import BaseModel

    from flowdebate.blocks.base import Block
    from flowdebate.blocks.handler import BlockLike
    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.models.output import OutputSchema
    from flowdebate.patterns.loop import Loop
    from flowdebate.runs.context import Context

__all__ = (
    "with_synthesizer",
    "without_output",
)


def with_synthesizer(
    pipeline: Sequencer[Any, Any],
    loop: Loop,
    *,
    synthesizer: BlockLike | Literal[False] | None,
    default: Callable[[], Block[Any, Any]],
    output_schema: OutputSchema | None,
    around: Callable[[Block[Any, Any]], Block[Any, Any]] | None = None,
) -> Sequencer[Any, Any]:
    """`pipeline`, whose last step gives the raw output, with the synthesizer behind it; False leaves it out.

    None is the one that `default` makes; one of the application's own is held to `output_schema`. A lost one gives
    None, which nothing is held to. `around` wraps the seat.
    """
    if synthesizer is False:
        return pipeline
    own = None
    if synthesizer is not None:
        own = as_block(synthesizer, name=f"{loop.name}-synthesizer", where=loop.where, field="synthesizer")
        own = with_answer_schema(own, lambda: output_schema)
    seat = loop.guarded(default() if own is None else own, without_output)
    pipeline = pipeline.then(seat if around is None else around(seat))
    if own is None or output_schema is None:
        return pipeline
    validate = validate_output(loop.name, own.name, output_schema)
    return pipeline.then_if(_is_something, validate) if loop.goes_on else pipeline.then(validate)


def without_output(error: Exception, raw: BaseModel, ctx: Context) -> None:
    """What a pattern gives whose synthesizer was lost: nothing, and a raw output that says so."""
    lose(error, ctx, block=ctx.block, seat="synthesizer", name=ctx.block, instead="no_output")
    losses = list(pattern_state(ctx).losses)
    finish(ctx, raw.model_copy(update={"losses": losses, "status": "degraded"}))


def _is_something(value: object) -> bool:
    return value is not None
