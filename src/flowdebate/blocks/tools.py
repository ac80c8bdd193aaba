"""Tools: functions and blocks that a model may call, and the named bundles in which they come."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from flowdebate.blocks.base import Block
from flowdebate.errors import ConfigurationError, problems_of
from flowdebate.models.base import ToolSpec

if TYPE_CHECKING:
    from flowdebate.blocks.functions import Function
    from flowdebate.models.base import Message
    from flowdebate.runs.context import Context

__all__ = ("Capability", "Tool", "ToolLike", "as_tools", "function_schema", "tool")


@dataclass(frozen=True, kw_only=True)
class Capability:
    """A named bundle of tools, instructions and context, for the `uses` of a block or a pattern.

    >>> search = Capability(name="search", tools=[len], instructions="Look things up before you claim them.")
    """

    name: str
    tools: Sequence[ToolLike] = ()
    """Functions or blocks."""
    instructions: str = ""
    """Added to the system message."""
    context: Sequence[Message | str] = ()
    """Messages before the prompt; a string is a user message."""


@dataclass(frozen=True, kw_only=True)
class Tool:
    """Something that a model may call: what it is told of it, and what is then done."""

    spec: ToolSpec
    call: Callable[[dict[str, Any], Context], Awaitable[Any]]
    """Takes checked arguments by name."""
    arguments: type[BaseModel]

    async def answer(self, arguments: str, ctx: Context) -> str:
        """What the model is told: the result as text, or what is wrong with its arguments.

        Arguments come from a model: whatever does not fit the schema is told to the model and nothing is called.
        What the tool itself raises is the application's own error, and is raised.
        """
        try:
            checked = self.arguments.model_validate_json(arguments or "{}")
        except ValidationError as error:
            listed = "; ".join(f"{field or 'arguments'}: {problem}" for field, problem in problems_of(error))
            return f"Error: the arguments of {self.spec.name} are not valid: {listed}"
        values = {name: getattr(checked, name) for name in type(checked).model_fields}
        try:
            result = await self.call(values, ctx)
        except Exception as error:
            error.add_note(f"in tool {self.spec.name!r}, called by block {ctx.block!r}")
            raise
        return _told(result)


ToolLike: TypeAlias = "Tool | Block[Any, Any] | Function"
"""A tool, or a block or function to be made one."""


def tool(value: ToolLike, *, where: str = "tool") -> Tool:
    """`value` as a tool.

    A function is called with the arguments that its signature names (types by annotation, the description from its
    docstring); a block with the one argument `input`, a string.

    >>> def add(a: int, b: int = 0) -> int:
    ...     '''Add two numbers.'''
    ...     return a + b
    >>> tool(add).spec.description, tool(add).spec.parameters["required"]
    ('Add two numbers.', ['a'])
    """
    if isinstance(value, Tool):
        return value
    if isinstance(value, Block):
        return _block_tool(value)
    if callable(value):
        return _function_tool(value, where)
    raise ConfigurationError(where, "tools", value, "functions or blocks")


def as_tools(values: Sequence[ToolLike], uses: Sequence[Capability], *, where: str) -> dict[str, Tool]:
    """All tools by name; ConfigurationError where two have the same."""
    tools: dict[str, Tool] = {}
    for value in [*values, *(value for capability in uses for value in capability.tools)]:
        made = tool(value, where=where)
        if made.spec.name in tools:
            raise ConfigurationError(where, "tools", made.spec.name, "tools with different names")
        tools[made.spec.name] = made
    return tools


def function_schema(function: Function) -> ToolSpec:
    """What a model is told of `function`: name, description, and the JSON Schema of its parameters.

    Types come from the annotations (as pydantic understands them), descriptions from the docstring (Google, NumPy or
    reST), and a parameter with a default is not required.
    """
    return tool(function).spec


def _function_tool(function: Function, where: str) -> Tool:
    import docstring_parser

    name = getattr(function, "__name__", type(function).__name__)
    if name == "<lambda>":
        raise ConfigurationError(where, "tools", function, "functions with a name, which the model calls them by")
    docs = docstring_parser.parse(inspect.getdoc(function) or "")
    described = {item.arg_name: item.description for item in docs.params}
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise ConfigurationError(where, f"tools: {name}", str(parameter), "a parameter that has a name")
        annotation = str if parameter.annotation is parameter.empty else parameter.annotation
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (annotation, Field(default, description=described.get(parameter.name)))
    arguments = create_model(name, __config__=ConfigDict(extra="forbid"), **fields)

    async def call(values: dict[str, Any], _: Context) -> object:
        result = function(**values)
        return await result if isinstance(result, Awaitable) else result

    description = "\n".join(part for part in (docs.short_description, docs.long_description) if part)
    return Tool(spec=_spec(name, description, arguments), call=call, arguments=arguments)


class _BlockArguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    input: str


def _block_tool(block: Block[Any, Any]) -> Tool:
    async def call(values: dict[str, Any], ctx: Context) -> object:
        return await block(values["input"], ctx.child(block.name, f"{ctx.path}/{block.name}"))

    spec = _spec(block.name, f"Runs {block.name} on the input.", _BlockArguments)
    return Tool(spec=spec, call=call, arguments=_BlockArguments)


def _spec(name: str, description: str, arguments: type[BaseModel]) -> ToolSpec:
    schema = arguments.model_json_schema()
    schema.pop("title", None)
    schema.pop("description", None)
    return ToolSpec(name=name, description=description, parameters=schema)


def _told(result: object) -> str:
    if isinstance(result, str):
        return result
    if isinstance(result, BaseModel):
        return result.model_dump_json()
    if result is None or isinstance(result, (Mapping, list, tuple, int, float, bool)):
        return json.dumps(result, default=str, ensure_ascii=False)
    return str(result)
