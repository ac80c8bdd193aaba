"""`Fallback`: which model is called next, after which errors, and how earlier failures are reported."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate.errors import (
    AuthenticationFailed,
    CassetteMismatch,
    CircuitOpen,
    ConfigurationError,
    ContextTooLong,
    EmptyResponse,
    FlowDebateError,
    LimitReached,
    ModelError,
    ModelTimeout,
    ModelUnavailable,
    ProviderFailed,
    RateLimited,
    RealModelForbidden,
    Refused,
    RequestRejected,
    ScriptError,
)
from flowdebate.models import Fallback, OpenAIModel, Retry, Retrying, Timeout
from flowdebate.models.base import CallFellBack
from flowdebate.models.call import ask
from tests.models.server import ChatServer, Exchange

from .helpers import Leaf, Naps, attempt_errors, endpoint_error, hang, make_request, warped

pytestmark = pytest.mark.anyio


@given(failing=st.lists(st.booleans(), min_size=1, max_size=5))
def test_the_first_successful_model_answers(failing: list[bool]) -> None:
    leaves = [Leaf([endpoint_error if fails else f"of {n}"], name=str(n)) for n, fails in enumerate(failing)]
    events: list[Any] = []
    request = make_request(events=events)
    answering = failing.index(False) if False in failing else None
    call = ask(Fallback(*leaves), request)
    if answering is None:
        with pytest.raises(ProviderFailed) as caught:
            asyncio.run(call)
        assert caught.value.model == leaves[-1].name
        before = [
            f"before that, ProviderFailed: it is down (block 'judge', model '{n}')" for n in range(len(leaves) - 1)
        ]
        assert getattr(caught.value, "__notes__", []) == before
    else:
        assert asyncio.run(call).text == f"of {answering}"
    calls = len(leaves) if answering is None else answering + 1
    assert [len(leaf.requests) for leaf in leaves] == [1] * calls + [0] * (len(leaves) - calls)
    assert [attempt.model for attempt in request.attempts.made] == [leaf.name for leaf in leaves[:calls]]
    assert events == [
        CallFellBack(block="judge", model=str(n), to=str(n + 1), error="ProviderFailed", message="it is down")
        for n in range(calls - 1)
    ]


@pytest.mark.parametrize(
    "error",
    [
        CircuitOpen(5),
        ContextTooLong("long"),
        EmptyResponse("nothing"),
        ModelTimeout(5),
        ModelUnavailable("no endpoint"),
        RateLimited("spent", quota_exhausted=True),
        Refused("no"),
        RequestRejected("no", status=422),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_recoverable_errors_fall_back_to_the_next_provider(error: ModelError) -> None:
    """Both transient and permanent errors are recoverable."""
    assert (await ask(Fallback(Leaf([error]), Leaf(["better"])), make_request())).text == "better"


@pytest.mark.parametrize(
    "error",
    [
        AuthenticationFailed("key"),
        CassetteMismatch("another"),
        LimitReached("calls", limit=1, used=1),
        RealModelForbidden(),
        ScriptError("script"),
        ZeroDivisionError(),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_application_errors_are_raised_at_once(error: Exception) -> None:
    last = Leaf()
    with pytest.raises(type(error)) as caught:
        await ask(Fallback(Leaf([endpoint_error]), Leaf([error]), last), make_request())
    assert caught.value is error
    assert last.requests == []
    assert len(error.__notes__) == 1
    assert "it is down" in error.__notes__[0]


async def test_the_application_can_choose_when_to_fall_back() -> None:
    only_keys = Fallback(
        Leaf([AuthenticationFailed("key")]), Leaf(["better"]), on=lambda e: isinstance(e, AuthenticationFailed)
    )
    assert (await ask(only_keys, make_request())).text == "better"
    with pytest.raises(ProviderFailed):
        await ask(Fallback(Leaf([endpoint_error]), Leaf(), on=lambda _: False), make_request())


async def test_each_model_uses_its_own_retries() -> None:
    first, second = (
        Leaf([endpoint_error], retry=Retry(attempts=2, sleep=Naps())),
        Leaf([endpoint_error], retry=Retry(attempts=4, sleep=Naps())),
    )
    with pytest.raises(ProviderFailed):
        await ask(Fallback(first, second), make_request())
    assert (len(first.requests), len(second.requests)) == (2, 4)


async def test_an_outer_retry_repeats_the_whole_chain() -> None:
    first, second = (
        Leaf([endpoint_error], retry=Retry(attempts=2)),
        Leaf([endpoint_error, endpoint_error, "fine"], retry=Retry(attempts=4)),
    )
    request = make_request()
    assert (await ask(Retrying(Fallback(first, second), Retry(attempts=3, sleep=Naps())), request)).text == "fine"
    assert (len(first.requests), len(second.requests)) == (3, 3)
    assert attempt_errors(request.attempts.made) == ["ProviderFailed"] * 5 + [None]


def test_a_timed_out_call_tries_no_other_model() -> None:
    """The call ends when its own deadline passes. If only one model's time limit passes, the next model is called."""

    async def late() -> None:
        last = Leaf()
        with pytest.raises(ModelTimeout):
            await ask(Fallback(Leaf([hang]), last), make_request(timeout=5))
        assert last.requests == []
        assert (await ask(Fallback(Timeout(Leaf([hang]), 3), last), make_request(timeout=5))).text == "fine"

    warped(late())


def test_a_cancelled_call_tries_no_other_model() -> None:
    async def cancelled() -> None:
        last = Leaf()
        call = asyncio.create_task(ask(Fallback(Leaf([hang]), last), make_request()))
        await asyncio.sleep(1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert last.requests == []

    warped(cancelled())


def test_a_fallback_is_named_after_its_first_model() -> None:
    assert Fallback("ollama/gemma3", Leaf()).name == "ollama/gemma3"
    assert [model.name for model in Fallback("ollama/gemma3", Leaf()).models()] == ["ollama/gemma3", "leaf"]


@pytest.mark.parametrize(
    ("models", "options", "field"),
    [
        ((), {}, "models"),
        ((Leaf(),), {"on": 5}, "on"),
        ((Leaf(), "intent/chat"), {}, "model"),
        ((Leaf(), None), {}, "model"),
    ],
    ids=str,
)
def test_invalid_options_are_rejected(models: Any, options: Any, field: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Fallback(*models, **options)
    assert caught.value.field == field


async def test_a_working_server_answers_when_others_fail() -> None:
    """The models use real servers: the first has exhausted its quota, the second is down, and the third works."""

    async def spent(exchange: Exchange) -> None:
        await exchange.json({"error": {"message": "spent", "code": "insufficient_quota"}}, status=429)

    events: list[Any] = []
    request = make_request(timeout=30, events=events)
    retry = Retry(attempts=2, first_wait=0)
    async with ChatServer({"spent": spent}) as server, ChatServer() as stopped_server:
        nobody = stopped_server.base_url
        await stopped_server.__aexit__()
        first = OpenAIModel("spent", base_url=server.base_url, retry=retry)
        second = OpenAIModel("away", base_url=nobody, retry=retry)
        third = OpenAIModel("works", base_url=server.base_url, retry=retry)
        assert (await ask(Fallback(first, second, third), request)).text == "fine"
        assert server.posts == 2
    assert [(event.model, event.to) for event in events if isinstance(event, CallFellBack)] == [
        ("spent", "away"),
        ("away", "works"),
    ]
    assert [(a.model, a.error is None) for a in request.attempts.made] == [
        ("spent", False),
        ("away", False),
        ("away", False),
        ("works", True),
    ]
    assert issubclass(LimitReached, FlowDebateError)
