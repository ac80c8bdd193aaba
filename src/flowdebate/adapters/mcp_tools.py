"""MCP: `mcp_tools`, the tools of any MCP server as tools of a debater, a moderator or another block."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from flowdebate._util.validation import check_library
from flowdebate.blocks.functions import Tool
from flowdebate.errors import ConfigurationError
from flowdebate.models.base import ToolSpec
from flowdebate.models.output import OutputSchema, drop_titles

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import Tool as ListedTool

    from flowdebate.runs.context import Context


_WHERE = "mcp_tools()"
_MOST_PAGES = 100  # maximum pages of a list of tools, which a server could make endless
_LONGEST_NAME = 64  # maximum characters of a tool's name that providers accept
_LONGEST_RESULT = 50_000  # maximum characters of a result for the model


async def mcp_tools(client: Client, *, only: Collection[str] | None = None, prefix: str = "") -> list[Tool]:
    """List the tools of the server that `client` is connected to, for the `tools` of a block or a `Capability`.

    `only` names the tools to offer, None for all; `prefix` keeps names of several servers apart. The client has to stay
    open while runs use the tools. Each call is a step of the run: a resumed run does not repeat a recorded one.
    Arguments are validated against the schema of the tool before it is called. A refusal of the server is an answer for
    the model to read; a lost connection is raised. Results are cut to 50,000 characters, and non-text parts are named
    by their type.

    ConfigurationError for a name in `only` missing on the server, and for a tool with a name or schema unsuitable for
    models.
    """
    check_library(_WHERE, "mcp", library="the MCP SDK", extra="mcp")
    listed: list[ListedTool] = []
    cursor = None
    for _ in range(_MOST_PAGES):
        page = await client.list_tools(cursor=cursor)
        listed += page.tools
        cursor = page.next_cursor
        if cursor is None:
            break
    names = {listed_tool.name for listed_tool in listed}
    for name in [] if only is None else only:
        if name not in names:
            allowed = f"names of tools: {', '.join(sorted(names)) or 'it has none'}"
            raise ConfigurationError(_WHERE, "only", name, allowed)
    return [_tool(client, listed_tool, prefix) for listed_tool in listed if only is None or listed_tool.name in only]


def _tool(client: Client, listed: ListedTool, prefix: str) -> Tool:
    name = prefix + re.sub(r"[^A-Za-z0-9_-]", "_", listed.name)
    if not 0 < len(name) <= _LONGEST_NAME:
        raise ConfigurationError(_WHERE, "tools", name, f"a tool's name of 1 to {_LONGEST_NAME} characters")
    schema = OutputSchema.of(listed.input_schema, location=_WHERE, field=f"tools: {name}")
    description = listed.description or listed.title or ""

    async def call(values: dict[str, Any], _: Context) -> str:
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED

        try:
            result = await client.call_tool(listed.name, values["root"])
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                raise
            return f"Error: {error.message}"
        text = "\n".join(part.text if part.type == "text" else f"[{part.type}]" for part in result.content)
        text = text if len(text) <= _LONGEST_RESULT else f"{text[:_LONGEST_RESULT]}… (cut)"
        return f"Error: {text}" if result.is_error else text

    spec = ToolSpec(name=name, description=description, parameters=drop_titles(schema.json_schema))
    return Tool(spec=spec, call=call, arguments=schema.model)
