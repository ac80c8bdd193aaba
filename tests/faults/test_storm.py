"""A short run of the cancellation storm from tests/soak/, and many concurrent calls."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from flowdebate.models import ModelRequest, OpenAIModel
from flowdebate.models.call import ask
from tests.cases import slow_but_first
from tests.models.server import ChatServer, completion
from tests.soak.cancel_storm import storm

if TYPE_CHECKING:
    from flowdebate.models.openai.clients import Transport
    from tests.models.server import Exchange

# the servers in these tests report the same small token count for every prompt
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.fault,
    pytest.mark.filterwarnings("ignore:.*probably truncated the prompt"),
]


@pytest.mark.parametrize("transport", slow_but_first(["aiohttp", "openai"]))
async def test_mass_cancellation_leaves_nothing_behind(transport: Transport) -> None:
    """No task, descriptor or connection may be leaked, and the next 20 calls must succeed."""
    result = await storm(200, transport)
    assert result.cancelled > 50
    assert (result.tasks, result.descriptors, result.connections, result.work_again) == (0, 0, 0, 20)


@pytest.mark.parametrize("transport", slow_but_first(["aiohttp", "openai"]))
async def test_concurrent_calls_get_their_own_answers(transport: Transport) -> None:
    async def echo(exchange: Exchange) -> None:
        await exchange.json(completion(exchange.body["messages"][0]["content"]))

    async with ChatServer({"m": echo}) as server:
        model = OpenAIModel("m", base_url=server.base_url, api_key="none", transport=transport)

        async def one(text: str) -> str:
            return (await ask(model, ModelRequest(messages=[{"role": "user", "content": text}], block="b"))).text

        async with model.open_connections():
            for wave in range(3):
                texts = [f"{wave}: {number}" for number in range(100)]
                assert await asyncio.gather(*map(one, texts)) == texts
        await server.wait_until_left()
        assert server.posts == 300
