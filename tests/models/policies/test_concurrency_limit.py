"""`ConcurrencyLimit`: the limit is never exceeded, waiters are served in order, and no slot is lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate.errors import ConfigurationError, ProviderFailed
from flowdebate.models import ConcurrencyLimit, OpenAIModel, Retry, Timeout
from flowdebate.models.call import ask
from tests.models.server import ChatServer

from .helpers import Leaf, call_at, delayed, endpoint_error, make_request, now, received_order, since_start, warped

pytestmark = pytest.mark.anyio


@given(
    max_concurrency=st.integers(1, 5),
    calls=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.none() | st.integers(0, 20)), max_size=20),
)
def test_concurrency_stays_within_the_limit_and_no_slot_is_lost(
    max_concurrency: int, calls: list[tuple[int, int, int | None]]
) -> None:
    """Whichever calls are cancelled, all other calls are answered, and all slots are free at the end."""
    calls = sorted(calls, key=lambda call: call[0])
    leaf = Leaf([delayed(seconds) for _, seconds, _ in calls] + [delayed(1)])

    async def crowd() -> None:
        model = ConcurrencyLimit(leaf, max_concurrency)

        async def one(when: int) -> str:
            await asyncio.sleep(when)
            return (await ask(model, make_request())).text

        tasks = []
        for when, _, until in calls:
            tasks.append(asyncio.create_task(one(when)))
            if until is not None:
                asyncio.get_running_loop().call_later(until, tasks[-1].cancel)
        for ended, (_, _, until) in zip(await asyncio.gather(*tasks, return_exceptions=True), calls, strict=True):
            assert ended == "fine" or (until is not None and isinstance(ended, asyncio.CancelledError))
        assert leaf.peak <= max_concurrency
        leaf.outcomes, start = [delayed(1)], now()
        await asyncio.gather(*(ask(model, make_request()) for _ in range(max_concurrency)))
        assert now() - start == pytest.approx(1)

    warped(crowd())


@given(at=st.lists(st.integers(0, 20), min_size=1, max_size=15).map(sorted), max_concurrency=st.integers(1, 3))
def test_waiters_are_served_in_order(at: list[int], max_concurrency: int) -> None:
    """No call overtakes another and no slot stays idle while calls wait, as in a queue with several servers."""
    leaf = Leaf([delayed(5)])
    warped(call_at(ConcurrencyLimit(leaf, max_concurrency), at))
    assert received_order(leaf) == list(range(len(at)))
    free = [0.0] * max_concurrency
    for when, start in zip(at, since_start(leaf), strict=True):
        begin = max(when, min(free))
        free[free.index(min(free))] = begin + 5
        assert start == pytest.approx(begin)


def test_a_waiting_retry_holds_no_slot() -> None:
    leaf = Leaf([endpoint_error, delayed(1), "fine"], retry=Retry(attempts=2, first_wait=20))

    async def crowd() -> None:
        model = ConcurrencyLimit(Timeout(leaf, 5), 1)
        await asyncio.gather(ask(model, make_request()), ask(model, make_request()))

    warped(crowd())
    assert since_start(leaf)[:2] == [0, 0]
    assert 10 <= since_start(leaf)[2] <= 20


async def test_a_failed_request_releases_its_slot() -> None:
    model = ConcurrencyLimit(Leaf([endpoint_error]), 1)
    for _ in range(3):
        with pytest.raises(ProviderFailed):
            await ask(model, make_request())


async def test_waiting_time_is_counted() -> None:
    gate = asyncio.Event()

    async def until_open(_: object) -> str:
        await gate.wait()
        return "fine"

    model = ConcurrencyLimit(Leaf([until_open]), 1)
    requests = [make_request(), make_request()]
    calls = [asyncio.create_task(ask(model, request)) for request in requests]
    asyncio.get_running_loop().call_later(0.3, gate.set)
    await asyncio.gather(*calls)
    first, second = (request.attempts.made[0] for request in requests)
    assert first.waited == 0
    assert second.waited >= 0.2
    assert second.seconds < 0.2


def test_each_event_loop_has_separate_slots() -> None:
    """Several runs can use the same policy object one after the other, and each of them has all slots available."""
    model = ConcurrencyLimit(Leaf([delayed(1)]), 2)

    async def crowd() -> float:
        start = now()
        await asyncio.gather(*(ask(model, make_request()) for _ in range(6)))
        return now() - start

    assert [warped(crowd()) for _ in range(3)] == pytest.approx([3, 3, 3])


@pytest.mark.parametrize("max_concurrency", [0, -1, True, 2.0, None])
def test_invalid_options_are_rejected(max_concurrency: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        ConcurrencyLimit(Leaf(), max_concurrency)
    assert caught.value.field == "max_concurrency"


async def test_a_real_server_sees_at_most_the_limit() -> None:
    """Thirty calls that share three slots need at most three connections."""
    async with ChatServer() as server:
        model = ConcurrencyLimit(OpenAIModel("m", base_url=server.base_url), 3)
        async with model.open_connections():
            await asyncio.gather(*(ask(model, make_request()) for _ in range(30)))
            assert server.posts == 30
            assert server.accepted <= 3
