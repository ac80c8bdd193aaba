"""Tools of MCP servers as tools of blocks."""

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
    """A server that knows about cities, and notes what it was asked."""
    server = MCPServer("archive")

    @server.tool(name="air.quality")
    def air(city: str) -> str:
        """How good the air of a city is."""
        topics.append(city)
        if city == "nowhere":
            message = "there is no such city"
            raise ToolError(message)
        return f"bad in {city}" if city != "long" else "x" * 60_000

    @server.tool()
    def close() -> str:
        """Close the centre."""
        return "closed"

    return server


def call(city: object) -> ToolCall:
    """A model's call of the first tool."""
    return ToolCall(id="1", name="air_quality", arguments=f'{{"city": {city}}}')


async def test_a_model_calls_the_tools_of_a_server() -> None:
    """Its name, description and schema are offered; the result is what the model reads."""
    topics: list[str] = []
    async with Client(archive(topics)) as client:
        tools = await mcp_tools(client)
        assert [(tool.spec.name, tool.spec.description) for tool in tools] == [
            ("air_quality", "How good the air of a city is."),
            ("close", "Close the centre."),
        ]
        assert tools[0].spec.parameters["properties"]["city"]["type"] == "string"
        model = ScriptedModel(call('"Ulm"'), "The air is bad.")
        result = await generator(name="mayor", tools=tools).run("May cars go?", model=model)
    assert result.output == "The air is bad."
    assert "bad in Ulm" in model.calls[1].prompt
    assert topics == ["Ulm"]


async def test_tool_errors_are_returned_to_the_model() -> None:
    """The model reads what was wrong, and the server is not asked what its schema forbids."""
    topics: list[str] = []
    async with Client(archive(topics)) as client:
        model = ScriptedModel(call('"nowhere"'), call(7), call('"long"'), "Well.")
        mayor = generator(name="mayor", tools=await mcp_tools(client))
        assert (await mayor.run("May cars go?", model=model)).output == "Well."
    assert "there is no such city" in model.calls[1].prompt
    assert "not valid" in model.calls[2].prompt
    assert "… (cut)" in model.calls[3].prompt
    assert topics == ["nowhere", "long"]


async def test_a_resumed_run_does_not_call_a_tool_again() -> None:
    """A call is a step: once it is recorded, its result is replayed."""
    topics: list[str] = []
    store = MemoryStore()
    async with Client(archive(topics)) as client:
        mayor = generator(name="mayor", tools=await mcp_tools(client))
        with pytest.raises(OSError, match="cut"):
            await mayor.run("?", model=ScriptedModel(call('"Ulm"'), OSError("cut")), store=store, run_id="r")
        result = await mayor.resume("r", model=ScriptedModel("The air is bad."), store=store)
    assert result.output == "The air is bad."
    assert topics == ["Ulm"]


async def test_tools_can_be_selected_and_renamed() -> None:
    """`only` chooses by the server's own names, `prefix` keeps two servers apart."""
    async with Client(archive([])) as client:
        [tool] = await mcp_tools(client, only=["close"], prefix="city_")
        assert tool.spec.name == "city_close"
        with pytest.raises(
            ConfigurationError, match=r"`only` must be names of tools: air\.quality, close \(got 'open'\)"
        ):
            await mcp_tools(client, only=["open"])
        with pytest.raises(ConfigurationError, match="1 to 64 characters"):
            await mcp_tools(client, prefix="x" * 64)
