"""The application's functions: sync or async, of the value alone or of value and context."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from flowdebate.blocks.base import Block
from flowdebate.errors import ConfigurationError

if TYPE_CHECKING:
    from flowdebate.runs.context import Context

__all__ = ("Function", "Invocation", "function_name", "invocation", "is_awaitable", "result_of")

Function: TypeAlias = Callable[..., Any]
"""`f(value)` or `f(value, ctx)`, sync or async."""

Invocation: TypeAlias = "Callable[[Any, Context], Any]"
"""A function in its one uniform shape."""


def invocation(function: Function, *, where: str, field: str) -> Invocation:
    """`function` as something that takes value and context; ConfigurationError if it can take neither shape.

    A block is refused: called as a function, it would have no place of its own in the run, and no resources.
    """
    if not callable(function) or isinstance(function, Block):
        raise ConfigurationError(where, field, function, "a function of (input) or (input, ctx)")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return lambda value, _: function(value)  # a builtin that does not tell: str, len, …
    if _takes_context(signature):
        return function
    if _fits(signature, 1):
        return lambda value, _: function(value)
    raise ConfigurationError(where, field, function, "a function of (input) or (input, ctx)")


def _takes_context(signature: inspect.Signature) -> bool:
    if not _fits(signature, 2):
        return False
    second = list(signature.parameters.values())[1:2]
    # a second parameter with a default is an option of the function, unless it says that it is the context
    return not second or second[0].default is inspect.Parameter.empty or second[0].name == "ctx"


def _fits(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True


def is_awaitable(outcome: object) -> bool:
    """Whether `outcome` has to be awaited; asked of its type, since values may answer slowly or wrongly."""
    return hasattr(type(outcome), "__await__")


async def result_of(outcome: Any) -> Any:  # noqa: ANN401 - whatever the application's function gave
    """`outcome`, awaited if it has to be."""
    return await outcome if is_awaitable(outcome) else outcome


def function_name(function: Function) -> str:
    """A name to show for `function`."""
    name = getattr(function, "__name__", type(function).__name__)
    return "function" if name == "<lambda>" else name
