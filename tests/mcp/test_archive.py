"""Consensus debates that are started through MCP and remember earlier runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from mcp import Client

from flowdebate.mcp import create_server
from flowdebate.service.service import Service
from tests.mcp.conftest import ERAS, error_text, structured_output
from tests.patterns.consensus.debates import Call, model
from tests.server.test_archive import TASK, answer_vote

if TYPE_CHECKING:
    from typing import Any

pytestmark = pytest.mark.anyio

SIDES = [{"name": name, "stance": "a tenant"} for name in ("ann", "bob", "cy")]
CONSENSUS = {"question": TASK, "pattern": "consensus", "sides": SIDES, "max_rounds": 1, "wait": 50}


@pytest.mark.parametrize("mode", ERAS)
async def test_a_second_debate_sees_the_dissent_from_the_first(mode: str) -> None:
    calls: list[Call] = []

    async def prompts(client: Client, **more: Any) -> list[str]:
        calls.clear()
        report = structured_output(await client.call_tool("start_debate", {**CONSENSUS, **more}))
        assert report["status"] == "complete", report
        return [call.prompt for call in calls]

    async with (
        Service(store="memory:", model=model(answer_vote, calls=calls)) as service,
        Client(create_server(service), mode=mode) as client,
    ):
        assert not any("earlier debate" in prompt for prompt in await prompts(client))
        (record,) = await service.archive().debates()
        await service.archive().correct(record.id, wrong="ann")
        for prompt in await prompts(client):
            assert "a dissenting vote in it: cy says so." in prompt
            assert "turned out to be wrong" in prompt
        assert not any("earlier debate" in prompt for prompt in await prompts(client, archive=False))
        assert len(await service.archive().debates()) == 2
        problem = error_text(await client.call_tool("start_debate", {"question": TASK, "archive": True}))
        assert "`archive`" in problem
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert "Default: true" in str(tools["start_debate"].input_schema["properties"]["archive"])
