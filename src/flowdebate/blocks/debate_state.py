"""What the debate's blocks read of the run that they are part of."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ValidationError

from flowdebate.errors import OutputError, problems_of, shown, told
from flowdebate.schemas import DebateContributionEntry, DebateInput, DebateState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.runs.context import Context

__all__ = ("as_model", "debate_state", "entries_of", "question_of")

ModelT = TypeVar("ModelT", bound=BaseModel)


def debate_state(ctx: Context) -> DebateState:
    """The state of the debate around the block; a new one where a debate's block is used by itself."""
    handle = ctx.scope.sequencer
    return handle.state if handle is not None and isinstance(handle.state, DebateState) else DebateState()


def entries_of(ctx: Context) -> Sequence[DebateContributionEntry]:
    """The arguments so far."""
    entries: Sequence[DebateContributionEntry] = ctx.scope.handles["transcript"].state.entries
    return entries


def question_of(value: object, ctx: Context) -> str:
    """The question that is argued: that of the debate, or of the input where there is no debate around."""
    if question := debate_state(ctx).question:
        return question
    return value.question if isinstance(value, DebateInput) else str(value)


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
