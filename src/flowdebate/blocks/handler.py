"""Handler block: the application's function as a block."""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping
from functools import lru_cache
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, overload

from flowdebate.blocks.base import Block
from flowdebate.blocks.outline import Outline
from flowdebate.errors import ConfigurationError

if TYPE_CHECKING:
    from flowdebate.resources.resource import Resource
    from flowdebate.runs.context import Context


Function: TypeAlias = Callable[..., Any]
"""`f(value)` or `f(value, ctx)`, sync or async."""

Invocation: TypeAlias = "Callable[[Any, Context], Any]"
"""A function that takes value and context."""


def invocation(function: Function, *, where: str, field: str) -> Invocation:
    """`function` as one of `(value, ctx)`; ConfigurationError if it takes neither `(value, ctx)` nor `(value)`.

    A block is refused: called as a function, it would have no path in the run, and no resources.
    """
    if not callable(function) or isinstance(function, Block):
        raise ConfigurationError(where, field, function, "a function of (input) or (input, ctx)")
    if isinstance(function, FunctionType) and not function.__dict__ and not function.__defaults__:
        code = function.__code__
        variadic = code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
        if code.co_argcount == 2 and not code.co_kwonlyargcount and not variadic:  # noqa: PLR2004 - input and ctx
            return function  # the usual case, without its signature, which takes a while
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return _of_value(function)  # a builtin without a signature: str, int, …
    second = [*signature.parameters.values()][1:2]
    # a second parameter with a default is an option of the function, unless it is called ctx
    is_option = second and second[0].default is not inspect.Parameter.empty and second[0].name != "ctx"
    if _fits(signature, 2) and not is_option:
        return function
    if _fits(signature, 1):
        return _of_value(function)
    raise ConfigurationError(where, field, function, "a function of (input) or (input, ctx)")


def _of_value(function: Function) -> Invocation:
    def call(value: Any, _: Context) -> Any:  # noqa: ANN401 - those of the function
        return function(value)

    call.__module__ = getattr(function, "__module__", None) or ""  # by which `decision` knows whose function it is
    return call


async def decision(
    function: Invocation,
    value: object,
    ctx: Context,
    place: str,
    *,
    read: Callable[[Any], T],
    returns: Any,  # noqa: ANN401 - any type form
) -> T:
    """What `read` makes of the answer of `function`, on which it depends what the run does next.

    That of the application's code is a step of the run at `place`: a resumed run holds to it. Functions of this library
    decide by what is recorded anyway.
    """
    if str(getattr(function, "__module__", "")).startswith("flowdebate."):
        return read(await result_of(function(value, ctx)))
    inside = ctx if place == ctx.path else ctx.child(ctx.block, place)

    async def call() -> T:
        return read(await result_of(function(value, inside)))

    return await inside.decide(call, returns=returns)


def _fits(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True


def takes(function: Callable[..., object], count: int) -> bool:
    """Whether `function` can be called with `count` arguments; True for a builtin that does not say."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return True
    return _fits(signature, count)


@lru_cache(maxsize=256)  # a class of pydantic takes its time to say that it lacks an attribute
def _awaits(kind: Hashable) -> bool:
    return hasattr(kind, "__await__")


async def result_of(outcome: Any) -> Any:  # noqa: ANN401 - the result of the application's function
    """`outcome`, awaited if it is awaitable: decided by its type, since attributes of values may be slow or wrong."""
    kind: Any = type(outcome)
    return await outcome if _awaits(kind) else outcome


def function_name(function: Function) -> str:
    """The name of `function` in paths and messages."""
    name = getattr(function, "__name__", type(function).__name__)
    return "function" if name == "<lambda>" else name


BlockLike: TypeAlias = Block[Any, Any] | Function
"""A block, or a function of `(input, ctx)` or `(input)` that becomes one."""

_LONG = 1.0  # seconds for which a function may block the event loop before that is logged
_LOGGER = logging.getLogger("flowdebate")

InT = TypeVar("InT")
T = TypeVar("T")
OutT = TypeVar("OutT")


class Handler(Block[InT, OutT]):
    """A block that calls a function."""

    def __init__(self, function: Function, *, name: str, resources: Mapping[str, Resource] | None) -> None:
        super().__init__(name, resources=check_resources(resources, where=f"handler {name!r}"))
        self._call = invocation(function, where=f"handler {name!r}", field="function")

    async def act(self, value: InT, ctx: Context, /) -> OutT:
        began = time.perf_counter()
        outcome = self._call(value, ctx)
        held = time.perf_counter() - began
        if held > _LONG:
            _LOGGER.warning(
                "block %r held the event loop for %.1f s, in which nothing else could run: make its function async, or "
                "run it in a thread (asyncio.to_thread)",
                self.name,
                held,
            )
        kind: Any = type(outcome)
        result: OutT = await outcome if _awaits(kind) else outcome
        return result

    def outline(self) -> Outline:
        return Outline(text=self.name, kind="handler")


@overload
def handler(
    function: Callable[[InT, Context], Awaitable[OutT]],
    /,
    *,
    name: str | None = None,
    resources: Mapping[str, Resource] | None = None,
) -> Handler[InT, OutT]: ...


@overload
def handler(
    function: Callable[[InT, Context], OutT],
    /,
    *,
    name: str | None = None,
    resources: Mapping[str, Resource] | None = None,
) -> Handler[InT, OutT]: ...


@overload
def handler(
    function: Function, /, *, name: str | None = None, resources: Mapping[str, Resource] | None = None
) -> Handler[Any, Any]: ...


@overload
def handler(
    *, name: str | None = None, resources: Mapping[str, Resource] | None = None
) -> Callable[[Function], Handler[Any, Any]]: ...


def handler(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    resources: Mapping[str, Resource] | None = None,
) -> Handler[Any, Any] | Callable[[Function], Handler[Any, Any]]:
    """A block from a sync or async function `(input, ctx)` or `(input)`; also as a decorator.

    The function finds its `resources` as `ctx.resources.<key>`. A sync function runs on the event loop: make one that
    waits async; a warning is logged if it blocks the loop for more than a second.

    >>> @handler(name="shout")
    ... def shout(input, ctx):
    ...     return input.upper()
    >>> shout.run_sync("for").output
    'FOR'
    """
    if function is None:
        return lambda decorated: handler(decorated, name=name, resources=resources)
    return Handler(function, name=function_name(function) if name is None else name, resources=resources)


def as_block(value: BlockLike, *, name: str, where: str, field: str) -> Block[Any, Any]:
    """`value` if it is a block, else the function `value` as a handler called `name`."""
    if isinstance(value, Block):
        return value
    if callable(value) and not (isinstance(value, type) and issubclass(value, Block)):
        return Handler(value, name=name, resources=None)
    raise ConfigurationError(where, field, value, "a block or a function of (input, ctx)")


def check_resources(resources: Mapping[str, Resource] | None, *, where: str) -> Mapping[str, Resource]:
    """`resources`, each under its own key; ConfigurationError if one is not a resource."""
    for key, resource in (resources or {}).items():
        # open resources are the keys of a dict
        if not hasattr(resource, "open") or not hasattr(resource, "key") or getattr(resource, "__hash__", None) is None:
            raise ConfigurationError(where, f"resources[{key!r}]", resource, "a resource, and hashable")
        if resource.key != key:
            raise ConfigurationError(
                where, f"resources[{key!r}]", resource.key, f"declared under the resource's own key, {resource.key!r}"
            )
    return dict(resources or {})
