"""`Wrapper`: behavior common to all wrappers, and all policies combined."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import generator
from flowdebate.errors import ConfigurationError, EmptyResponse, LimitReached
from flowdebate.models import (
    CircuitBreaker,
    ConcurrencyLimit,
    Fallback,
    Model,
    ModelRequest,
    ModelResponse,
    OpenAIModel,
    OutputSchema,
    PerRequestWrapper,
    RateLimit,
    Retry,
    Retrying,
    Timeout,
    Wrapper,
)
from flowdebate.models.base import Attempts
from flowdebate.models.call import ask
from flowdebate.testing import FunctionModel
from tests.models.server import ChatServer, Exchange, chunk, fine

from .helpers import Leaf, Naps, attempt_errors, endpoint_error, make_request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from flowdebate.models import Attempt

pytestmark = pytest.mark.anyio


class Holdable(Leaf):
    """Model whose connections can be kept open."""

    entered = 0

    @asynccontextmanager
    async def open_connections(self) -> AsyncIterator[Holdable]:
        """Count an open connection."""
        self.entered += 1
        try:
            yield self
        finally:
            self.entered -= 1


POLICIES: dict[str, Callable[[Any], Any]] = {
    "Wrapper": Wrapper,
    "PerRequestWrapper": PerRequestWrapper,
    "Retrying": Retrying,
    "Timeout": lambda inner: Timeout(inner, 60),
    "CircuitBreaker": CircuitBreaker,
    "RateLimit": lambda inner: RateLimit(inner, requests=5),
    "ConcurrencyLimit": lambda inner: ConcurrencyLimit(inner, 5),
    "Fallback": Fallback,
}


def wrap_in_all(model: Any, *, max_concurrency: int = 50, between: float | None = 40) -> Wrapper:
    """Wrap `model` in every policy, in the documented order. Text is streamed unless `between` is None."""
    model = Timeout(model, 60, between=between)
    model = ConcurrencyLimit(RateLimit(model, requests=10_000, tokens=10**9), max_concurrency)
    return Fallback(CircuitBreaker(model), Leaf([EmptyResponse("nothing")], name="second"))


@pytest.mark.parametrize("make", POLICIES.values(), ids=POLICIES)
async def test_policies_are_named_after_their_inner_model(make: Callable[[Any], Any]) -> None:
    model = make(Leaf(name="ada"))
    assert isinstance(model, Model)
    assert model.name == "ada"
    assert make("ollama/gemma3").name == "ollama/gemma3"
    assert repr(model).startswith(type(model).__name__ + "(Leaf(")
    assert (await ask(model, make_request())).text == "fine"


@pytest.mark.parametrize("make", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("spec", [None, "intent/chat", 5, "nobody/knows"], ids=repr)
def test_invalid_inner_models_are_rejected(make: Callable[[Any], Any], spec: Any) -> None:
    """An intent cannot be wrapped, because it does not become a model until a run resolves it."""
    with pytest.raises(ConfigurationError):
        make(spec)


@pytest.mark.parametrize("make", POLICIES.values(), ids=POLICIES)
async def test_a_block_accepts_any_policy(make: Callable[[Any], Any]) -> None:
    result = await generator(name="echo").run("for", model=make(Leaf(["against"])))
    assert result.output == "against"


async def test_opening_a_wrapper_opens_all_inner_models() -> None:
    """Wrappers of every kind keep their inner models open for as long as the wrappers are open.

    Models without connections are skipped.
    """
    models = [Holdable(name=str(number)) for number in range(len(POLICIES))]
    wrapped = [make(model) for make, model in zip(POLICIES.values(), models, strict=True)]
    async with Retrying(Fallback(*wrapped, Leaf())).open_connections():
        assert [model.entered for model in models] == [1] * len(models)
    assert [model.entered for model in models] == [0] * len(models)


async def test_connections_stay_open_while_the_outermost_wrapper_is_open() -> None:
    """The five calls use one connection. If no wrapper is open, each call uses a separate connection."""
    async with ChatServer() as server:
        model = wrap_in_all(OpenAIModel("m", base_url=server.base_url), between=None)
        async with model.open_connections():
            for _ in range(5):
                await ask(model, make_request())
        assert server.accepted == 1
        await ask(model, make_request())
        assert server.accepted == 2


async def test_a_custom_wrapper_runs_code_around_the_call() -> None:
    class Shouting(Wrapper):
        async def request(self, request: ModelRequest, /) -> ModelResponse:
            request.messages = [*request.messages, {"role": "user", "content": "Loud!"}]
            response = await self.ask(request)
            return ModelResponse(text=response.text.upper())

    leaf = Leaf([endpoint_error, "fine"], retry=Retry(sleep=Naps()))
    request = make_request()
    assert (await ask(Shouting(leaf), request)).text == "FINE"
    assert leaf.requests[-1].messages[-1]["content"] == "Loud!"
    assert attempt_errors(request.attempts.made) == ["ProviderFailed", None]


async def test_answers_changed_by_a_wrapper_are_checked() -> None:
    """A wrapper that returns a blank answer causes an error, just as any other model does."""

    class Silent(Wrapper):
        async def request(self, request: ModelRequest, /) -> ModelResponse:
            await self.ask(request)
            return ModelResponse(text=" ")

    request = make_request()
    with pytest.raises(EmptyResponse):
        await ask(Silent(Leaf()), request)
    assert attempt_errors(request.attempts.made) == ["EmptyResponse"]


class Counting:
    """Meter that checks a run's requests against a limit."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.reserved = 0
        self.settled: list[Attempt] = []

    def reserve(self, model: str, request: ModelRequest) -> object:
        """Reserve one request."""
        if self.reserved >= self.limit:
            raise LimitReached("calls", limit=self.limit, used=self.reserved)
        self.reserved += 1
        return self

    def settle(self, reserved: object, attempt: Attempt) -> None:
        """Count a request that was sent."""
        self.settled.append(attempt)

    def release(self, reserved: object) -> None:
        """Release a request that was not sent."""
        self.reserved -= 1


class Duck:
    """Wrapper without a base class."""

    name = "duck"

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Pass the request on."""
        response: ModelResponse = await self.inner.request(request)
        return response


@pytest.mark.parametrize("wrapped", [False, True], ids=["a real model", "a real model through all policies"])
async def test_a_standalone_wrapper_does_not_count_twice(*, wrapped: bool) -> None:
    """The inner models have already reported their attempts, so a custom wrapper must not report another one."""
    counting = Counting(10)
    request = make_request(attempts=Attempts(meter=counting))
    async with ChatServer() as server:
        model: Any = OpenAIModel("m", base_url=server.base_url)
        model = Duck(wrap_in_all(model) if wrapped else model)
        await ask(model, request)
        assert server.posts == 1
    assert [(attempt.model, attempt.error) for attempt in request.attempts.made] == [("m", None)]
    assert (counting.reserved, counting.settled) == (1, request.attempts.made)


async def test_a_run_limit_stops_retries_and_fallbacks() -> None:
    """`LimitReached` passes through every policy, since it does not mean that the model has failed."""
    counting = Counting(2)
    first, second = Leaf([endpoint_error]), Leaf()
    model = Fallback(wrap_in_all(Retrying(first, Retry(attempts=9, sleep=Naps()))), second)
    with pytest.raises(LimitReached):
        await ask(model, make_request(attempts=Attempts(meter=counting)))
    assert (len(first.requests), len(second.requests), len(counting.settled)) == (2, 0, 2)


async def test_mass_cancellation_leaves_nothing_behind() -> None:
    """After 300 calls through all policies have been cancelled at various stages, no task or connection remains."""

    async def hang(exchange: Exchange) -> None:
        await exchange.until_gone()

    async def stall(exchange: Exchange) -> None:
        await exchange.begin_events()
        await exchange.event(chunk("a"))
        await exchange.until_gone()

    async def play(exchange: Exchange) -> None:
        content = exchange.body["messages"][0]["content"]
        await {"hang": hang, "stall": stall}.get(content, fine)(exchange)

    def asking(content: str) -> ModelRequest:
        return make_request(timeout=50, messages=[{"role": "user", "content": content}])

    async with ChatServer({"m": play}) as server:
        model = wrap_in_all(OpenAIModel("m", base_url=server.base_url), max_concurrency=60)
        async with model.open_connections():
            before = asyncio.all_tasks()
            calls = [asyncio.create_task(ask(model, asking(["hang", "stall"][n % 2]))) for n in range(300)]
            await server.wait_for_posts(60)
            for call in calls[::3]:
                call.cancel()
            await server.wait_for_posts(80)
            for call in calls:
                call.cancel()
            ended = await asyncio.gather(*calls, return_exceptions=True)
            assert all(isinstance(end, asyncio.CancelledError) for end in ended)
            await server.wait_until_left()
            answers = await asyncio.gather(*(ask(model, asking("fine")) for _ in range(60)))
            assert {answered.text for answered in answers} == {"fine"}
            assert {task for task in asyncio.all_tasks() if task not in before and "_serve" not in repr(task)} == set()
        await server.wait_until_left()


async def test_a_null_answer_is_valid_inside_wrappers() -> None:
    """The innermost model has already validated the answer, so no wrapper validates it again."""
    request = make_request(output=OutputSchema.of(int | None))
    model = Wrapper(Wrapper(FunctionModel(lambda _: {"value": None})))
    response = await ask(model, request)
    assert response.data is None
