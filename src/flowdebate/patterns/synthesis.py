"""Synthesizer: the last step of a pattern, which makes its output of the raw output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowdebate.blocks.handler import Handler, handler
from flowdebate.errors import OutputError, SchemaViolation
from flowdebate.patterns.binding import own_options
from flowdebate.patterns.failures import record_failure
from flowdebate.patterns.output import publish, status_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.blocks.base import Block
    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.models.output import OutputSchema
    from flowdebate.patterns.loop import Loop
    from flowdebate.runs.context import Context

__all__ = (
    "guarded_synthesizer",
    "held_to_schema",
    "schema_to_check",
    "validate_output",
)


def guarded_synthesizer(loop: Loop, synthesizer: Block[Any, Any]) -> Block[Any, Any]:
    """`synthesizer` with its deadline. If its provider fails and failures are tolerated, the output is None.

    The raw output is then published again, with that failure.
    """
    return loop.guarded(synthesizer, _without_output(loop))


def _without_output(loop: Loop) -> Callable[[Exception, Any, Context], None]:
    def recover(error: Exception, _: object, ctx: Context) -> None:
        record_failure(error, ctx, block=ctx.block, role="synthesizer", name=ctx.block, instead="no_output")
        publish(loop.spec.make_output(ctx, status_of(ctx)), ctx)

    return recover


def held_to_schema(
    pipeline: Sequencer[Any, Any], loop: Loop, synthesizer: Block[Any, Any], schema: OutputSchema | None
) -> Sequencer[Any, Any]:
    """`pipeline`, whose output comes from the application's own `synthesizer`, validated against `schema` if any.

    A lost output (None) is not validated.
    """
    if schema is None:
        return pipeline
    validate = validate_output(loop.name, synthesizer.name, schema)
    return pipeline.then_if(_is_something, validate) if loop.failures.goes_on else pipeline.then(validate)


def schema_to_check(synthesizer: object, schema: OutputSchema | None) -> OutputSchema | None:
    """`schema`, if the output has to be held to it: the default synthesizer's model is asked for it already."""
    own = own_options(synthesizer)
    return schema if own is None or "output_schema" in own else None


def validate_output(name: str, synthesizer: str, schema: OutputSchema) -> Handler[Any, Any]:
    """A block that validates what the application's own synthesizer returned."""

    @handler(name=f"{name}-validate-output")
    def validate(value: object) -> object:
        try:
            return schema.validate(value)
        except SchemaViolation as violation:
            raise OutputError(synthesizer, schema.name, violation.problems) from None

    return validate


def _is_something(value: object) -> bool:
    return value is not None
