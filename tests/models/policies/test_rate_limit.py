"""`RateLimit`: when and in which order requests are sent, and which calls do not wait."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate.errors import ConfigurationError, ProviderFailed, RateLimited
from flowdebate.models import Fallback, ModelResponse, OpenAIModel, RateLimit, Retry, Timeout
from flowdebate.models.call import ask
from tests.models.server import ChatServer

from .helpers import (
    START,
    Leaf,
    Naps,
    answer_with_usage,
    call_at,
    delayed,
    endpoint_error,
    hang,
    make_request,
    now,
    received_order,
    since_start,
    warped,
)

pytestmark = pytest.mark.anyio

PER = 60.0


def expected_times(at: list[float], requests: int) -> list[float]:
    """Return when each request may be sent, according to an exact token bucket that is updated with every request."""
    level, last, times = 0.0, 0.0, []
    for when in at:
        at_the_earliest = max(when, last)
        level = max(0.0, level - (at_the_earliest - last) * requests / PER)
        wait = max(0.0, level + 1 - requests) * PER / requests
        last = at_the_earliest + wait
        level = max(0.0, level - wait * requests / PER) + 1
        times.append(last)
    return times


@given(
    at=st.lists(st.integers(0, 90).map(float), min_size=1, max_size=25).map(sorted),
    requests=st.integers(1, 10),
    seconds=st.integers(0, 30),
)
def test_requests_are_sent_in_order_as_soon_as_the_limit_allows(at: list[float], requests: int, seconds: int) -> None:
    leaf = Leaf([delayed(seconds)])
    warped(call_at(RateLimit(leaf, requests=requests, per=PER), at))
    assert since_start(leaf) == pytest.approx(expected_times(at, requests), abs=1e-4)
    assert received_order(leaf) == list(range(len(at)))
    for begin, first in enumerate(leaf.at):
        for count, later in enumerate(leaf.at[begin:], start=1):
            assert count <= requests + (later - first) * requests / PER + 1e-3


@given(st.lists(st.integers(0, 500), min_size=1, max_size=15))
def test_a_request_waits_while_tokens_are_overdrawn(costs: list[int]) -> None:
    """Sequential requests are charged when they end, so the next one waits until the overdraft has been paid off."""
    leaf = Leaf([answer_with_usage(cost) for cost in costs])

    async def in_turn() -> None:
        model = RateLimit(leaf, tokens=200, per=PER)
        for _ in costs:
            await ask(model, make_request())

    warped(in_turn())
    level, clock = 0.0, 0.0
    for cost, when in zip(costs, leaf.at, strict=True):
        wait = max(0.0, level - 200) * PER / 200
        clock += wait
        assert when - 1000 == pytest.approx(clock, abs=1e-4)
        level = max(0.0, level - wait * 200 / PER) + cost


@given(at=st.lists(st.integers(0, 90).map(float), min_size=1, max_size=25).map(sorted), burst=st.integers(1, 5))
def test_at_most_one_burst_is_sent_at_once(at: list[float], burst: int) -> None:
    """Pauses do not enlarge the next burst, and bursts do not change the average rate."""
    leaf = Leaf([delayed(0)])
    warped(call_at(RateLimit(leaf, requests=12, per=PER, burst=burst), at))
    assert received_order(leaf) == list(range(len(at)))
    for begin, first in enumerate(leaf.at):
        for count, later in enumerate(leaf.at[begin:], start=1):
            assert count <= burst + (later - first) * 12 / PER + 1e-3


def test_both_limits_are_respected() -> None:
    leaf = Leaf([answer_with_usage(10), answer_with_usage(290), answer_with_usage(10)])
    warped(call_at(RateLimit(leaf, requests=2, tokens=200, per=PER), [0.0, 1.0, 2.0]))
    assert since_start(leaf) == pytest.approx([0, 1, 30 + 0], abs=1e-3)


def test_concurrent_requests_may_overdraw_tokens() -> None:
    """The token counts of requests in flight are not known yet, so all of these requests are sent.

    Later requests wait longer instead.
    """
    leaf = Leaf([delayed(1, answer_with_usage(200))])
    warped(call_at(RateLimit(leaf, tokens=200, per=PER), [0.0, 0.0, 0.0, 2.0]))
    assert since_start(leaf) == pytest.approx([0, 0, 0, 1 + 400 / 200 * PER], abs=1e-3)


@pytest.mark.parametrize(
    ("first", "wait"),
    [
        (ModelResponse(text="x" * 4000), (4000 + 4000) / 4 - 1000),
        (ProviderFailed("nobody was asked", status=500), 0),
        (ProviderFailed("broke off"), 0),
    ],
    ids=["an answer", "never answered", "nobody knows"],
)
def test_unreported_tokens_are_estimated(first: Any, wait: float) -> None:
    """Tokens are estimated at four characters each.

    A rejected request costs nothing, and a failed one costs the tokens in its prompt.
    """
    leaf = Leaf([first, "fine"])
    prompt = [{"role": "user", "content": "y" * 4000}]

    async def twice() -> float:
        model = RateLimit(leaf, tokens=1000, per=1000.0)
        await asyncio.gather(ask(model, make_request(messages=prompt)), return_exceptions=True)
        await ask(model, make_request())
        return leaf.at[1] - leaf.at[0]

    assert warped(twice()) == pytest.approx(wait, abs=1e-3)


def test_each_sent_request_is_charged_once() -> None:
    """If a model calls two others, requests to both are charged, as is every attempt of a retried call."""
    first, second = Leaf([answer_with_usage(100, ""), "fine"]), Leaf([answer_with_usage(300)])

    async def twice() -> float:
        model = RateLimit(Fallback(first, second), tokens=100, per=100.0)
        await ask(model, make_request())
        await ask(model, make_request())
        return first.at[1] - first.at[0]

    assert warped(twice()) == pytest.approx(100 + 300 - 100)
    failing_leaf = Leaf([answer_with_usage(150, ""), answer_with_usage(150)], retry=Retry(sleep=Naps()))

    async def thrice() -> float:
        model = RateLimit(failing_leaf, tokens=100, per=100.0)
        await ask(model, make_request())
        await ask(model, make_request())
        return failing_leaf.at[2] - failing_leaf.at[0]

    assert warped(thrice()) == pytest.approx(150 - 100 + 150)


def test_a_late_arrival_waits_behind_earlier_requests() -> None:
    """Earlier requests are already waiting for the remaining capacity, so a later one must not overtake them."""
    leaf = Leaf()

    async def punctual() -> None:
        model = RateLimit(leaf, requests=1, per=10.0)

        async def at_ten() -> None:
            await asyncio.sleep(10)
            await ask(model, make_request(messages=[{"role": "user", "content": "2"}]))

        late = asyncio.create_task(at_ten())
        await asyncio.sleep(0)  # let the first timer run, which is due now
        await call_at(model, [0.0, 0.0])
        await late

    warped(punctual())
    assert received_order(leaf) == [0, 1, 2]


def test_cancelled_waiters_do_not_block_others() -> None:
    """Even if many calls are cancelled or rejected, the next call is sent on time."""

    async def after() -> float:
        model = RateLimit(Leaf(), requests=1, per=10.0)
        calls = [asyncio.create_task(ask(model, make_request(timeout=25))) for _ in range(9)]
        await asyncio.sleep(1)
        calls[1].cancel()
        ended = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(end).__name__ for end in ended[:4]] == [
            "ModelResponse",
            "CancelledError",
            "ModelResponse",
            "RateLimited",
        ]
        start = now()
        await ask(model, make_request(timeout=11))
        return now() - start

    assert warped(after()) == pytest.approx(10)


def test_each_request_in_a_call_is_limited() -> None:
    """A retry has to wait its turn again, even if another policy is between the limit and the model."""
    leaf = Leaf([endpoint_error, endpoint_error, "fine"], retry=Retry(attempts=3, first_wait=0))
    warped(call_at(RateLimit(Timeout(leaf, 5), requests=1, per=10.0), [0.0, 0.0]))
    assert since_start(leaf) == pytest.approx([0, 10, 20, 30], abs=1e-3)


def test_a_call_that_would_miss_its_deadline_does_not_wait() -> None:
    """`RateLimited` is raised immediately and states how long the wait would be. Other calls are not held up."""
    leaf = Leaf()

    async def impatient() -> None:
        model = RateLimit(leaf, requests=1, per=10.0)
        await ask(model, make_request())
        patient = asyncio.create_task(ask(model, make_request()))
        await asyncio.sleep(0)
        start = now()
        with pytest.raises(RateLimited) as caught:
            await ask(model, make_request(timeout=15))
        assert now() == start
        assert caught.value.retry_after == pytest.approx(20)
        assert (caught.value.status, caught.value.model, caught.value.block) == (None, "leaf", "judge")
        assert (await ask(model, make_request(timeout=25))).text == "fine"
        await patient

    warped(impatient())
    assert since_start(leaf) == pytest.approx([0, 10, 20], abs=1e-3)


def test_a_wait_that_became_too_long_ends_early() -> None:
    """A request that was already in flight is charged during the wait.

    The call would then have to wait beyond its deadline, so it stops waiting.
    """
    leaf = Leaf([answer_with_usage(100), delayed(1, answer_with_usage(1000)), "fine"])

    async def overtaken() -> float:
        model = RateLimit(leaf, requests=2, tokens=100, per=10.0)
        await ask(model, make_request())
        dear = asyncio.create_task(ask(model, make_request()))
        await asyncio.sleep(0)
        with pytest.raises(RateLimited):
            await ask(model, make_request(timeout=20))
        await dear
        return now() - START

    assert warped(overtaken()) == pytest.approx(5, abs=1e-3)


def test_a_fallback_takes_over_at_once() -> None:
    """A call does not wait for one model's limit if another model can answer in time."""
    first, second = Leaf(), Leaf()
    model = Fallback(RateLimit(first, requests=1, per=PER), second)
    warped(call_at(model, [0.0, 0.0, 0.0], timeout=5))
    assert (len(first.requests), len(second.requests)) == (1, 2)


@given(at=st.lists(st.integers(0, 10).map(float), min_size=2, max_size=12).map(sorted), data=st.data())
def test_a_cancelled_wait_gives_up_its_turn(at: list[float], data: st.DataObject) -> None:
    """All other requests are sent as if the cancelled request had never been waiting."""
    leaf = Leaf()
    lost = data.draw(st.sets(st.integers(1, len(at) - 1)))
    times = [when for number, when in enumerate(at) if number not in lost]

    async def with_losses() -> None:
        model = RateLimit(leaf, requests=1, per=100.0)
        await ask(model, make_request())
        calls = []
        for when in at:
            await asyncio.sleep(START + when - now())
            calls.append(asyncio.create_task(ask(model, make_request())))
        await asyncio.sleep(20)
        for number in lost:
            calls[number].cancel()
        await asyncio.gather(*calls, return_exceptions=True)

    warped(with_losses())
    assert since_start(leaf) == pytest.approx([100.0 * n for n in range(len(times) + 1)], abs=1e-3)


async def test_waiting_time_is_counted() -> None:
    model = RateLimit(Leaf(), requests=1, per=0.4)
    waited = []
    for _ in range(3):
        request = make_request()
        await ask(model, request)
        waited.append(request.attempts.made[0].waited)
        assert request.attempts.made[0].seconds < 0.3
    assert waited[0] < 0.2
    assert min(waited[1:]) >= 0.1  # shorter than a full interval, since the time before the wait counts


def test_each_event_loop_has_a_separate_count() -> None:
    """One policy object can serve several runs in succession, each on its own event loop."""
    leaf = Leaf()
    model = RateLimit(leaf, requests=1, per=10.0)
    for _ in range(3):
        warped(call_at(model, [0.0, 0.0]))
    assert since_start(leaf) == pytest.approx([0, 10] * 3, abs=1e-3)
    assert len(model._gates._made) == 1


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({}, "requests"),
        ({"requests": 0}, "requests"),
        ({"requests": 1.5}, "requests"),
        ({"tokens": True}, "tokens"),
        ({"tokens": 10, "per": 0}, "per"),
    ],
    ids=str,
)
def test_invalid_options_are_rejected(options: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        RateLimit(Leaf(), **options)
    assert caught.value.field == field


async def test_a_real_server_is_rate_limited() -> None:
    async with ChatServer() as server:
        model = RateLimit(OpenAIModel("m", base_url=server.base_url), requests=1, tokens=10_000, per=0.02)
        async with model.open_connections():
            await ask(model, make_request())
            start = now()
            await asyncio.gather(*(ask(model, make_request()) for _ in range(3)))
            assert now() - start >= 0.03
        assert server.posts == 4


def test_a_hanging_request_does_not_block_others() -> None:
    """The limit applies to the rate at which requests are sent, not to the number of requests in flight."""
    leaf = Leaf([hang, "fine"])

    async def beside() -> None:
        model = RateLimit(leaf, requests=2, tokens=10)
        hanging = asyncio.create_task(ask(model, make_request()))
        await asyncio.sleep(0)
        assert (await ask(model, make_request())).text == "fine"
        hanging.cancel()
        await asyncio.gather(hanging, return_exceptions=True)

    warped(beside())
