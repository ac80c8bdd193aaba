"""MCP adapter: `mcp_tools` makes any MCP server's tools available to a debater, a moderator or another block."""

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
_MAX_PAGES = 100  # maximum number of pages in a tool list, because a server could return pages forever
_MAX_NAME_LENGTH = 64  # maximum length, in characters, of a tool name accepted by providers
_MAX_RESULT_LENGTH = 50_000  # maximum length of a result in characters


async def mcp_tools(client: Client, *, only: Collection[str] | None = None, prefix: str = "") -> list[Tool]:
    """List the tools offered by `client`'s server, to be passed as `tools` to a block or a `Capability`.

    `only` lists the names of the tools to offer (None means all); `prefix` is added to their names, so that tools from
    several servers can be told apart. The client must stay open while runs use the tools. Each call is a step in the
    run, so a resumed run does not repeat a recorded call. Arguments are validated against the tool's schema before the
    call. If the server rejects a call, the model receives the server's error as the result; a lost connection raises an
    exception. Results are truncated to 50,000 characters, and non-text parts are replaced by the names of their types.

    Raises ConfigurationError if a name in `only` is not the name of one of the server's tools, or if a tool's name or
    schema is unsuitable for models.
    """
    check_library(_WHERE, "mcp", library="the MCP SDK", extra="mcp")
    listed: list[ListedTool] = []
    cursor = None
    for _ in range(_MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        listed += page.tools
        cursor = page.next_cursor
        if cursor is None:
            break
    names = {listed_tool.name for listed_tool in listed}
    for name in [] if only is None else only:
        if name not in names:
            problem = "contains a tool that the server does not have"
            raise ConfigurationError(_WHERE, "only", name, problem, choices=sorted(names))
    return [_tool(client, listed_tool, prefix) for listed_tool in listed if only is None or listed_tool.name in only]


def _tool(client: Client, listed: ListedTool, prefix: str) -> Tool:
    name = prefix + re.sub(r"[^A-Za-z0-9_-]", "_", listed.name)
    if not 0 < len(name) <= _MAX_NAME_LENGTH:
        raise ConfigurationError(_WHERE, "tools", name, f"must have names of 1 to {_MAX_NAME_LENGTH} characters")
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
        text = text if len(text) <= _MAX_RESULT_LENGTH else f"{text[:_MAX_RESULT_LENGTH]}… (cut)"
        return f"Error: {text}" if result.is_error else text

    spec = ToolSpec(name=name, description=description, parameters=drop_titles(schema.json_schema))
    return Tool(spec=spec, call=call, arguments=schema.model)
