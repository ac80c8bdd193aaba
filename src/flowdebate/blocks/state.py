"""What the patterns' blocks read of the run that they are part of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from flowdebate.errors import OutputError, problems_of, shown, told
from flowdebate.schemas import DebateState, PatternInput, PatternState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.runs.context import Context

__all__ = ("as_model", "debate_state", "entries_of", "pattern_state", "question_of")

ModelT = TypeVar("ModelT", bound=BaseModel)


def debate_state(ctx: Context) -> DebateState:
    """The state of the debate around the block; a new one where a debate's block is used by itself."""
    handle = ctx.scope.sequencer
    return handle.state if handle is not None and isinstance(handle.state, DebateState) else DebateState()


def pattern_state(ctx: Context) -> PatternState:
    """The state of the pattern around the block; a new one where a pattern's block is used by itself."""
    handle = ctx.scope.sequencer
    return handle.state if handle is not None and isinstance(handle.state, PatternState) else PatternState()


def entries_of(ctx: Context) -> Sequence[Any]:
    """What was said so far, as the entries of the pattern's transcript."""
    entries: Sequence[Any] = ctx.scope.handles["transcript"].state.entries
    return entries


def question_of(value: object, ctx: Context) -> str:
    """What it is about: the pattern's question, or the input where there is no pattern around."""
    if question := pattern_state(ctx).question:
        return question
    return value.subject if isinstance(value, PatternInput) else str(value)


def as_model(value: object, model: type[ModelT], *, block: str) -> ModelT:
    """What a block returned as `model`; OutputError that names the block and each field that does not fit.

    The model itself, another model with the same fields, or a dict in either key style.
    """
    try:
        return model.model_validate(_plain(value, model))
    except ValidationError as error:
        raise OutputError(block, f"a {model.__name__}", problems_of(error)) from None
    except Exception as error:  # a hostile mapping may raise anything
        problem = f"got {shown(value)}, which raises {told(error)}"
        raise OutputError(block, f"a {model.__name__}", [("", problem)]) from error


def _plain(value: object, model: type[BaseModel]) -> object:
    """Data to validate: an instance may have been constructed without validation, and a subclass has more fields."""
    if isinstance(value, model):
        return {name: getattr(value, name) for name in model.model_fields if hasattr(value, name)}
    return value.model_dump(warnings=False) if isinstance(value, BaseModel) else value
