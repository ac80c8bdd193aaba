"""Rate limit shared by several processes."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flowdebate.errors import ConfigurationError, RateLimited, StoreError
from flowdebate.models.base import ModelRequest, ModelResponse, Usage
from flowdebate.models.limits import SharedRateLimit
from flowdebate.store.postgres.rate_counter import PostgresCounter
from tests.profiles import example_count
from tests.warm import Warm, run_module
from tests.workers.conftest import ROOT
from tests.workers.fleet import model_server

if TYPE_CHECKING:
    from tests.store.postgres import Server

pytestmark = pytest.mark.anyio

ROUNDING = 0.002
"""Clock difference in seconds between two processes on one machine."""


def make_request(deadline: float | None = None) -> ModelRequest:
    """Return a request."""
    return ModelRequest(messages=[{"role": "user", "content": "Well?"}], block="asker", deadline=deadline)


class FixedUsage:
    """Model that uses a fixed number of tokens."""

    name = "test/spender"

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        self.times: list[float] = []

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Answer at once."""
        self.times.append(time.monotonic())
        return ModelResponse(text="Fine.", usage=Usage(prompt_tokens=self.tokens, completion_tokens=0))


async def test_three_processes_share_one_limit(postgres_server: Server) -> None:
    """However the processes start, the server never receives more requests than the burst and the rate allow."""
    burst, interval, number = 3, 0.04, 9
    key = secrets.token_hex(6)
    limit = {"url": postgres_server.url, "schema": "fleet", "key": key, "requests": 25, "per": 1.0, "burst": burst}
    async with model_server(0.0) as models:
        start = time.time()
        environment = os.environ | {"CLIENT": json.dumps({**limit, "port": models.port, "number": number})}
        clients = [Warm(run_module("tests.workers.rate_client"), cwd=ROOT, env=environment) for _ in range(3)]
        assert [await asyncio.to_thread(client.wait, 60) for client in clients] == [0, 0, 0]
        times = sorted(entry.at for entry in models.requests)
    assert len(times) == 3 * number
    assert len({entry.process for entry in models.requests}) == 3
    early = [
        (place, at - start) for place, at in enumerate(times, 1) if at - start < (place - burst) * interval - ROUNDING
    ]
    assert early == []
    # the first request may have been in transit for a while; three separate limits would take 0.24 s
    assert times[-1] - times[0] >= (3 * number - burst) * interval - 0.25


@settings(max_examples=example_count(15), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    number=st.integers(1, 40),
    requests=st.integers(1, 1000),
    per=st.floats(0.01, 1e5),
    burst=st.integers(1, 50),
    askers=st.integers(1, 3),
)
async def test_slots_are_evenly_spaced(
    postgres_server: Server, number: int, requests: int, per: float, burst: int, askers: int
) -> None:
    """No matter which process takes it, the k-th slot begins (k - burst) intervals after the first, never earlier."""
    key, interval = secrets.token_hex(6), per / requests
    counters = [PostgresCounter(postgres_server.url, schema="fleet", patience=1.0) for _ in range(askers)]
    values = {"interval": interval, "burst": burst * interval, "brim": per, "longest": 1e9}
    try:
        before = time.monotonic()
        delays = [await counters[place % askers].take(key, **values) for place in range(number)]
        elapsed = time.monotonic() - before
    finally:
        for counter in counters:
            await asyncio.to_thread(counter.close)
    for place, (seconds, granted) in enumerate(delays, 1):
        due = (place - burst) * interval
        assert granted
        assert max(0.0, due - elapsed) - ROUNDING <= seconds
        assert seconds <= max(0.0, due) + elapsed + ROUNDING


async def test_excessive_wait_is_rejected_and_takes_no_slot(postgres_server: Server) -> None:
    """`RateLimited` is raised immediately with the number of seconds to wait, and later requests are not delayed."""
    spender = FixedUsage(1)
    model = SharedRateLimit(
        spender, url=postgres_server.url, schema="fleet", key=secrets.token_hex(6), requests=1, per=50.0
    )
    await model.request(make_request())
    soon = asyncio.get_running_loop().time() + 1.0
    waits = []
    for _ in range(3):
        with pytest.raises(RateLimited) as caught:
            await model.request(make_request(soon))
        waits.append(caught.value.retry_after or 0.0)
    assert len(spender.times) == 1
    assert 40 < waits[-1] <= waits[0] <= 50
    await model.close()


async def test_tokens_are_counted_across_processes(postgres_server: Server) -> None:
    """An answer in one process uses more tokens than are left, so another process must wait to send a request."""
    first, second = FixedUsage(100), FixedUsage(1)
    options: dict[str, Any] = {"url": postgres_server.url, "schema": "fleet", "key": secrets.token_hex(6), "tokens": 50}
    one, second_limit = SharedRateLimit(first, per=0.2, **options), SharedRateLimit(second, per=0.2, **options)
    await one.request(make_request())
    charged = time.monotonic()
    model_request = make_request()
    await second_limit.request(model_request)
    assert second.times[0] - charged >= 0.1
    await one.close()
    await second_limit.close()
    await second_limit.request(make_request())
    await second_limit.close()


async def test_request_that_cannot_be_counted_is_not_sent() -> None:
    """If the database is unreachable, the `StoreError` shows its address without the password."""
    spender = FixedUsage(1)
    model = SharedRateLimit(spender, url="postgresql://me:secret@127.0.0.1:1/runs", requests=1, patience=0.1)
    with pytest.raises(StoreError, match=r"127\.0\.0\.1:1/runs") as caught:
        await model.request(make_request())
    assert "secret" not in str(caught.value)
    assert spender.times == []
    await model.close()


async def test_abandoned_slot_stays_empty(postgres_server: Server) -> None:
    """A request that is cancelled while it waits is not sent, and the requests behind it keep their own slots."""
    spender = FixedUsage(1)
    model = SharedRateLimit(
        spender, url=postgres_server.url, schema="fleet", key=secrets.token_hex(6), requests=1, per=0.2
    )
    await model.request(make_request())
    waiting = asyncio.create_task(model.request(make_request()))
    last = asyncio.create_task(model.request(make_request()))
    await asyncio.sleep(0)
    waiting.cancel()
    await last
    first, second = spender.times
    assert second - first >= 0.3
    await model.close()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"requests": 0},
        {"tokens": 1.5},
        {"requests": 5, "burst": 0},
        {"requests": 5, "per": 0},
        {"requests": 5, "patience": -1},
        {"requests": 5, "key": " "},
    ],
    ids=str,
)
def test_invalid_limits_are_rejected(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="SharedRateLimit"):
        SharedRateLimit("openai/gpt-5-mini", url="postgresql://localhost/runs", **options)


class Busy:
    """Model whose endpoint responds with a Retry-After header."""

    name = "test/busy"

    def __init__(self) -> None:
        self.times: list[float] = []

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Reject the first request."""
        self.times.append(time.monotonic())
        if len(self.times) == 1:
            raise RateLimited("slowly", retry_after=0.5)
        return ModelResponse(text="Fine.")


async def test_retry_after_applies_to_all_processes(postgres_server: Server) -> None:
    """If a server tells one process to wait, all processes with the same key wait, even if they are under the limit."""
    model, key = Busy(), secrets.token_hex(6)
    first, second = (
        SharedRateLimit(model, url=postgres_server.url, schema="fleet", requests=100, per=1.0, key=key)
        for _ in range(2)
    )
    with pytest.raises(RateLimited, match="slowly"):
        await first.request(make_request())
    await second.request(make_request())
    assert model.times[1] - model.times[0] >= 0.5 - ROUNDING
    await first.close()
    await second.close()
