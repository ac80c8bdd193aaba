"""Blocks and tools created from application functions, and capabilities that bundle tools."""

from __future__ import annotations

import inspect
import logging
import re
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, is_dataclass
from functools import lru_cache
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, overload

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic_core import to_json

from flowdebate._text import add_note, clean_text, error_text, listed, problems_of
from flowdebate.blocks.base import Block, Outline
from flowdebate.errors import ConfigurationError, SchemaViolation
from flowdebate.models.base import Model, ToolSpec, arguments_text
from flowdebate.models.output import inline_definitions

if TYPE_CHECKING:
    from flowdebate.blocks.generator import MessagesSlot, TextSlot
    from flowdebate.resources.resource import Resource
    from flowdebate.runs.context import Context

Function: TypeAlias = Callable[..., Any]
"""Function `f(value)` or `f(value, ctx)`, sync or async."""

Invocation: TypeAlias = "Callable[[Any, Context], Any]"
"""Function of a value and a context."""


def invocation(function: Function, *, location: str, field: str) -> Invocation:
    """Adapt `function` so that it is called with `(value, ctx)`.

    Raises ConfigurationError unless it takes `(value, ctx)` or `(value)`. Blocks are rejected, because a block called
    as a function would have neither a path in the run nor resources.
    """
    if not callable(function) or isinstance(function, Block):
        raise ConfigurationError(location, field, function, "must be a function of (input) or (input, ctx)")
    count = _plain_arguments(function)  # fast path: inspecting the signature is slow
    if count == 2:  # noqa: PLR2004 - input and ctx
        return function
    if count == 1:
        return _of_value(function)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return _of_value(function)  # a builtin without a signature: str, int, …
    second = [*signature.parameters.values()][1:2]
    # a second parameter with a default is an option of the function, unless it is named ctx
    is_option = second and second[0].default is not inspect.Parameter.empty and second[0].name != "ctx"
    if _fits(signature, 2) and not is_option:
        return function
    if _fits(signature, 1):
        return _of_value(function)
    raise ConfigurationError(location, field, function, "must be a function of (input) or (input, ctx)")


def _plain_arguments(function: Function) -> int | None:
    """Count the arguments of a Python `function`, or return None unless all of them are required and positional."""
    callable_: object = function
    if not isinstance(function, FunctionType):
        callable_ = function.__func__ if isinstance(function, MethodType) else type(function).__call__
    if (
        not isinstance(callable_, FunctionType)
        or callable_.__dict__
        or callable_.__defaults__
        or callable_.__kwdefaults__
    ):
        return None
    code = callable_.__code__
    if code.co_kwonlyargcount or code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
        return None
    return code.co_argcount - (callable_ is not function)


def _of_value(function: Function) -> Invocation:
    def call(value: object, _: Context) -> object:
        return function(value)

    # tells `decision` whether the function belongs to this library
    call.__module__ = getattr(function, "__module__", None) or ""
    return call


async def decision(
    function: Invocation,
    value: object,
    ctx: Context,
    place: str,
    *,
    read: Callable[[Any], T],
    returns: object,
    shared: bool = False,
) -> T:
    """Call `function` and convert its result with `read`, to decide what the run does next.

    A decision made by application code is recorded as a step of the run at `place`, so that resuming the run does not
    change the decision. This library's own functions depend only on recorded data, so their decisions are not recorded.
    `shared` says whether other blocks are called below `place`, too.
    """
    if str(getattr(function, "__module__", "")).startswith("flowdebate."):
        return read(await result_of(function(value, ctx)))
    inside = ctx if place == ctx.path else ctx.child(ctx.block, place)

    async def call() -> T:
        return read(await result_of(function(value, inside)))

    return await ctx.run.decide(place, call, returns=returns, place=None if shared else place)


def _fits(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True


def takes(function: Callable[..., object], count: int) -> bool:
    """Return whether `function` accepts `count` arguments, assuming that a builtin without a signature does."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return True
    return _fits(signature, count)


@lru_cache(maxsize=256)  # cached because pydantic classes are slow to report a missing attribute
def _awaits(kind: Hashable) -> bool:
    return hasattr(kind, "__await__")


async def result_of(outcome: Any) -> Any:  # noqa: ANN401 - the result of the application's function
    """Return `outcome` or, if its type is awaitable, the result of awaiting it.

    Only the type is checked, because accessing a value's attributes may be slow or unreliable.
    """
    kind: type = type(outcome)
    return await outcome if _awaits(kind) else outcome


def function_name(function: Function) -> str:
    """Return the name of `function` for use in paths and messages."""
    name = getattr(function, "__name__", type(function).__name__)
    return "function" if name == "<lambda>" else name


BlockLike: TypeAlias = Block[Any, Any] | Function
"""A block, or a function of `(input, ctx)` or `(input)` to be converted to a block."""

_LONG = 1.0  # time, in seconds, that a function may block the event loop before a warning is logged
_LOGGER = logging.getLogger("flowdebate")

InT = TypeVar("InT")
T = TypeVar("T")
OutT = TypeVar("OutT")


class Handler(Block[InT, OutT]):
    """A block that calls a function.

    `runs` lists placeholders for the blocks that the function calls, so `seats` can find their models.
    """

    def __init__(
        self,
        function: Function,
        *,
        name: str,
        resources: Mapping[str, Resource] | None,
        runs: Sequence[Block[Any, Any]] = (),
    ) -> None:
        super().__init__(name, resources=check_resources(resources, location=f"handler {name!r}"))
        self._call = invocation(function, location=f"handler {name!r}", field="function")
        self._runs = runs

    async def act(self, value: InT, ctx: Context, /) -> OutT:
        started = time.perf_counter()
        outcome: Any = self._call(value, ctx)
        duration = time.perf_counter() - started
        if duration > _LONG:
            _LOGGER.warning(
                "block %r blocked the event loop for %.1f s: make its function async, or run it in a thread "
                "(asyncio.to_thread)",
                self.name,
                duration,
            )
        kind: type = type(outcome)
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
    """Create a block from a sync or async function of `(input, ctx)` or `(input)`; also usable as a decorator.

    The function accesses its `resources` as `ctx.resources.<key>`. A sync function runs on the event loop, so make it
    async if it waits; a warning is logged if it blocks the loop for more than a second.

    >>> @handler(name="shout")
    ... def shout(input, ctx):
    ...     return input.upper()
    >>> shout.run_sync("for").output
    'FOR'
    """
    if function is None:
        return lambda decorated: handler(decorated, name=name, resources=resources)
    return Handler(function, name=function_name(function) if name is None else name, resources=resources)


def as_block(value: BlockLike, *, name: str, location: str, field: str) -> Block[Any, Any]:
    """Return `value` if it is a block; otherwise create a handler named `name` from the function `value`."""
    if isinstance(value, Block):
        return value
    if callable(value) and not (isinstance(value, type) and issubclass(value, Block)):
        return Handler(value, name=name, resources=None)
    raise ConfigurationError(location, field, value, "must be a block or a function of (input, ctx)")


def check_resources(resources: Mapping[str, Resource] | None, *, location: str) -> Mapping[str, Resource]:
    """Check that each of `resources` is a resource with a unique key; raise ConfigurationError otherwise."""
    for key, resource in (resources or {}).items():
        # resources must be hashable, because they are used as dict keys
        if not hasattr(resource, "open") or not hasattr(resource, "key") or getattr(resource, "__hash__", None) is None:
            raise ConfigurationError(location, f"resources.{key}", resource, "must be a hashable resource")
        if resource.key != key:
            problem = f"must be declared under its own key, {resource.key}"
            raise ConfigurationError(location, f"resources.{key}", None, problem)
    return dict(resources or {})


@dataclass(frozen=True, kw_only=True)
class Capability:
    """A named bundle of tools, instructions and context that a block or pattern lists in `uses`.

    >>> def look_up(word: str) -> str:
    ...     return "A word."
    >>> search = Capability(name="search", tools=[look_up], instructions="Look things up before you claim them.")
    """

    name: str
    tools: Sequence[ToolLike] = ()
    """Functions or blocks offered to the model."""
    instructions: TextSlot = ""
    """Text added to the system message, or a function of `(input, ctx)` that returns such text."""
    context: MessagesSlot = ()
    """Messages inserted before the prompt; a string becomes a user message."""
    revise: Callable[[str, Any, Context], Awaitable[str]] | None = None
    """Function that revises the last message before it is sent: `await revise(text, input, ctx)`."""
    check: Callable[[Model, str], None] | None = None
    """Function `check(model, block_name)`, called before a run's first call. It raises an exception if the block's
    model does not support the capability.
    """


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A function that a model may call, and the description shown to the model."""

    spec: ToolSpec
    call: Callable[[dict[str, Any], Context], Awaitable[Any]]
    """Function to call with the validated arguments, keyed by name."""
    arguments: type[BaseModel]
    """Pydantic model for validating the arguments; if a field has an alias, the alias is the argument's name."""
    block: Block[Any, Any] | None = None
    """Block run by the tool; its resources are made available to the block that offers the tool."""

    async def answer(self, arguments: str, ctx: Context) -> str:
        """Return the text for the model: the tool's result, or the problems with its arguments.

        The arguments are written by a model. If they do not match the schema, the tool is not called, and the model
        receives a description of the problems. Exceptions raised by the tool itself propagate to the application.
        """
        try:
            values = self._checked(arguments)
        except ValidationError as error:
            problems = listed((field or "arguments", problem) for field, problem in problems_of(error))
            return f"Error: the arguments of {self.spec.name} are not valid: {problems}"
        return clean_text(result_text(await self._called(values, ctx)))  # lone surrogates cannot be sent to providers

    async def value(self, arguments: str, ctx: Context) -> object:
        """Return the result of a call to the answer tool; raise SchemaViolation for invalid arguments."""
        try:
            values = self._checked(arguments)
        except ValidationError as error:
            raise SchemaViolation(problems_of(error, got=False), answer=arguments) from None
        return await self._called(values, ctx)

    def _checked(self, arguments: str) -> dict[str, Any]:
        checked = self.arguments.model_validate_json(arguments_text(clean_text(arguments)))
        return {field.alias or name: getattr(checked, name) for name, field in self.arguments.model_fields.items()}

    async def _called(self, values: dict[str, Any], ctx: Context) -> object:
        try:
            return await self.call(values, ctx)
        except Exception as error:
            add_note(error, f"in tool {self.spec.name!r}, called by block {ctx.block!r}")
            raise


ToolLike: TypeAlias = "Tool | Block[Any, Any] | Function"
"""A tool, or a block or function to be converted to a tool."""


def tool(value: ToolLike, *, location: str = "tool") -> Tool:
    """Convert `value` to a tool.

    A function is called with the arguments in its signature (types come from the annotations, the description from the
    docstring). A block is called with a single string argument, `input`.

    >>> def add(a: int, b: int = 0) -> int:
    ...     '''Add two numbers.'''
    ...     return a + b
    >>> tool(add).spec.description, tool(add).spec.parameters["required"]
    ('Add two numbers.', ['a'])
    """
    if isinstance(value, Tool):
        return value
    if isinstance(value, Block):
        block = value

        async def call(values: dict[str, Any], ctx: Context) -> object:
            return await block(values["input"], ctx.child(block.name, ctx.path))

        spec = _spec(block.name, f"Runs {block.name} on the input.", _BlockArguments, location)
        return Tool(spec=spec, call=call, arguments=_BlockArguments, block=block)
    if callable(value):
        return _function_tool(value, location)
    raise ConfigurationError(location, "tools", value, "must contain functions or blocks")


def as_tools(values: Sequence[ToolLike], uses: Sequence[Capability], *, location: str) -> dict[str, Tool]:
    """Collect all tools, keyed by name; raise ConfigurationError if two tools have the same name."""
    if not isinstance(values, (list, tuple)):
        raise ConfigurationError(location, "tools", values, "must be a list of functions or blocks")
    tools: dict[str, Tool] = {}
    for value in [*values, *(value for capability in uses for value in capability.tools)]:
        converted = tool(value, location=location)
        if converted.spec.name in tools:
            raise ConfigurationError(location, "tools", converted.spec.name, "must have unique names")
        tools[converted.spec.name] = converted
    return tools


def check_uses(uses: object, *, location: str) -> None:
    """Raise ConfigurationError unless `uses` is a list of capabilities."""
    if not isinstance(uses, (list, tuple)) or not all(isinstance(capability, Capability) for capability in uses):
        raise ConfigurationError(location, "uses", uses, "must be a list of Capability values")


def function_schema(function: Function) -> ToolSpec:
    """Describe `function` for a model: its name, its docstring, and the JSON Schema for its parameters.

    Types come from the annotations, as pydantic interprets them (`Literal` and `Enum` as `enum`, models inlined). If a
    parameter has no annotation, its type is taken from its default; if it has neither, its type is string. Descriptions
    come from the docstring (Google, NumPy or reST); the text before the arguments describes the function. A parameter
    with a default is not required. `function_schema(f).to_openai()` returns the tool in the chat completions format.

    >>> from typing import Literal
    >>> def hand_over(response: str, to: Literal["pro", "con"] = "pro") -> None:
    ...     '''Say something, and hand over.
    ...
    ...     Args:
    ...         response: What you say.
    ...     '''
    >>> function_schema(hand_over).parameters["properties"]["to"]["enum"]
    ['pro', 'con']
    """
    return tool(function).spec


def _function_tool(function: Function, location: str) -> Tool:
    import docstring_parser

    name = getattr(function, "__name__", type(function).__name__)
    if name == "<lambda>":
        raise ConfigurationError(
            location, "tools", function, "must be named functions, because the model calls them by name"
        )
    docs = docstring_parser.parse(inspect.getdoc(function) or "")
    # line breaks in a description merely reflect the line width of the source code
    described = {item.arg_name: " ".join((item.description or "").split()) or None for item in docs.params}
    description = "\n".join(part for part in (docs.short_description, docs.long_description) if part)
    try:
        arguments = _arguments(function, name, described, location)
        spec = _spec(name, description, arguments, location)
    except ConfigurationError:
        raise
    except Exception as error:  # resolving annotations and building schemas may run application code
        problem = "must have parameter types that pydantic can validate"
        raise ConfigurationError(location, f"tools: {name}", function, problem, hint=error_text(error)) from error

    async def call(values: dict[str, Any], _: Context) -> object:
        result = function(**values)
        return await result if isinstance(result, Awaitable) else result

    return Tool(spec=spec, call=call, arguments=arguments)


def _arguments(function: Function, name: str, described: Mapping[str, str | None], location: str) -> type[BaseModel]:
    """Create a pydantic model that uses parameter names as aliases, because some of them are not valid field names."""
    fields: dict[str, Any] = {}
    for index, parameter in enumerate(inspect.signature(function).parameters.values()):
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise ConfigurationError(
                location, f"tools: {name}", str(parameter), "must only have parameters that can be passed by name"
            )
        annotation, default = parameter.annotation, parameter.default
        if annotation is parameter.empty:
            kind = type(default)
            annotation = kind if kind in (bool, int, float, list, dict) else str if default is not None else str | None
        default = ... if default is parameter.empty else default
        field = Field(default, alias=parameter.name, description=described.get(parameter.name))
        fields[f"argument_{index}"] = (annotation, field)
    # string annotations are resolved in the function's module
    origin = inspect.unwrap(getattr(function, "func", function))
    model = create_model(name, __config__=ConfigDict(extra="forbid"), __module__=origin.__module__, **fields)
    model.model_rebuild(raise_errors=False, _types_namespace=getattr(origin, "__globals__", {}))
    return model


class _BlockArguments(BaseModel):
    model_config = ConfigDict(extra="forbid", defer_build=True)

    input: str


def _spec(name: str, description: str, arguments: type[BaseModel], location: str) -> ToolSpec:
    if not re.fullmatch("[A-Za-z0-9_-]{1,64}", name):  # providers accept only names of this form
        raise ConfigurationError(
            location, "tools", name, "must have names of at most 64 letters, digits, underscores and hyphens"
        )
    schema = inline_definitions(arguments.model_json_schema())
    schema.pop("title", None)
    schema.pop("description", None)
    return ToolSpec(name=name, description=description, parameters=schema)


def result_text(result: object) -> str:
    """Convert a result to text for a model: a string is returned unchanged, and data becomes JSON."""
    if isinstance(result, str):
        return result
    if isinstance(result, BaseModel):
        return result.model_dump_json()
    if result is None or is_dataclass(result) or isinstance(result, (Mapping, list, tuple, set, int, float, bool)):
        with suppress(ValueError):  # some values cannot be converted to JSON, for example a list containing itself
            return to_json(result, fallback=str, by_alias=False).decode()
    return str(result)
