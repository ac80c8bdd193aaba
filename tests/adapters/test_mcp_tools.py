"""Tests for tools on MCP servers used as block tools."""

from __future__ import annotations

import pytest
from mcp import Client
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from flowdebate import generator
from flowdebate.adapters.mcp_tools import mcp_tools
from flowdebate.errors import ConfigurationError
from flowdebate.store import MemoryStore
from flowdebate.testing import ScriptedModel, ToolCall

pytestmark = pytest.mark.anyio


def archive(topics: list[str]) -> MCPServer:
    """Create a server that reports on cities and records which ones it is asked about."""
    server = MCPServer("archive")

    @server.tool(name="air.quality")
    def air(city: str) -> str:
        """Report the air quality in a city."""
        topics.append(city)
        if city == "nowhere":
            message = "there is no such city"
            raise ToolError(message)
        return f"bad in {city}" if city != "long" else "x" * 60_000

    @server.tool()
    def close() -> str:
        """Close the city center."""
        return "closed"

    return server


def call_first_tool(city: object) -> ToolCall:
    """Return a model's call to the first tool."""
    return ToolCall(id="1", name="air_quality", arguments=f'{{"city": {city}}}')


async def test_model_calls_server_tools() -> None:
    topics: list[str] = []
    async with Client(archive(topics)) as client:
        tools = await mcp_tools(client)
        assert [(tool.spec.name, tool.spec.description) for tool in tools] == [
            ("air_quality", "Report the air quality in a city."),
            ("close", "Close the city center."),
        ]
        assert tools[0].spec.parameters["properties"]["city"]["type"] == "string"
        model = ScriptedModel(call_first_tool('"Ulm"'), "The air is bad.")
        result = await generator(name="mayor", tools=tools).run("May cars go?", model=model)
    assert result.output == "The air is bad."
    assert "bad in Ulm" in model.calls[1].prompt
    assert topics == ["Ulm"]


async def test_tool_errors_are_returned_to_the_model() -> None:
    """A call that violates the tool's schema never reaches the server."""
    topics: list[str] = []
    async with Client(archive(topics)) as client:
        model = ScriptedModel(call_first_tool('"nowhere"'), call_first_tool(7), call_first_tool('"long"'), "Well.")
        mayor = generator(name="mayor", tools=await mcp_tools(client))
        assert (await mayor.run("May cars go?", model=model)).output == "Well."
    assert "there is no such city" in model.calls[1].prompt
    assert "not valid" in model.calls[2].prompt
    assert "… (cut)" in model.calls[3].prompt
    assert topics == ["nowhere", "long"]


async def test_resumed_run_does_not_call_a_tool_again() -> None:
    """Tool calls are recorded as steps, so a resumed run replays their results."""
    topics: list[str] = []
    store = MemoryStore()
    async with Client(archive(topics)) as client:
        mayor = generator(name="mayor", tools=await mcp_tools(client))
        with pytest.raises(OSError, match="cut"):
            await mayor.run("?", model=ScriptedModel(call_first_tool('"Ulm"'), OSError("cut")), store=store, run_id="r")
        result = await mayor.resume("r", model=ScriptedModel("The air is bad."), store=store)
    assert result.output == "The air is bad."
    assert topics == ["Ulm"]


async def test_tools_can_be_selected_and_renamed() -> None:
    """`only` selects tools by their names on the server, and `prefix` distinguishes tools from different servers."""
    async with Client(archive([])) as client:
        [tool] = await mcp_tools(client, only=["close"], prefix="city_")
        assert tool.spec.name == "city_close"
        with pytest.raises(
            ConfigurationError, match=r"`only` contains a tool that the server does not have \(got open\)"
        ):
            await mcp_tools(client, only=["open"])
        with pytest.raises(ConfigurationError, match="1 to 64 characters"):
            await mcp_tools(client, prefix="x" * 64)
