"""`Retry` and `Retrying`: which calls are retried, when and how often. Nesting never multiplies attempts."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from flowdebate.errors import (
    AuthenticationFailed,
    CircuitOpen,
    ConfigurationError,
    ConnectionLost,
    ContentFiltered,
    ContextTooLong,
    EmptyResponse,
    LimitReached,
    MalformedResponse,
    ModelNotFound,
    ModelTimeout,
    ModelUnavailable,
    OutputTruncated,
    ProviderFailed,
    RateLimited,
    RealModelForbidden,
    Refused,
    RequestRejected,
    ResponseTooLarge,
    SchemaViolation,
    ScriptError,
)
from flowdebate.models import (
    CircuitBreaker,
    ConcurrencyLimit,
    Fallback,
    Model,
    ModelRequest,
    ModelResponse,
    ModelSettings,
    OpenAIModel,
    RateLimit,
    Retry,
    Retrying,
    Timeout,
    Wrapper,
)
from flowdebate.models.base import Attempts, CallRetried
from flowdebate.models.call import ask
from tests.models.server import ChatServer, Exchange, completion, fine

from .helpers import Leaf, Naps, attempt_errors, endpoint_error, hang, make_request, now, warped

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.anyio


class Verdict(BaseModel):
    """A small structured answer."""

    winner: str


# Waits


@given(
    attempts=st.integers(1, 12),
    first=st.floats(0, 10),
    longest=st.floats(0, 100),
    seed=st.integers(0, 99),
)
def test_waits_double_up_to_the_limit_with_jitter(attempts: int, first: float, longest: float, seed: int) -> None:
    """The wait before request n is between 50% and 100% of min(longest, first * 2^(n-2)) seconds."""
    naps, leaf = Naps(), Leaf([endpoint_error])
    retry = Retry(attempts=attempts, first_wait=first, longest_wait=longest, sleep=naps)
    request = make_request(attempts=Attempts(seed=str(seed)))
    with pytest.raises(ProviderFailed):
        asyncio.run(ask(Retrying(leaf, retry), request))
    assert len(leaf.requests) == attempts
    limits = [min(longest, first * 2**number) for number in range(attempts - 1)]
    assert all(grown / 2 <= wait <= grown for wait, grown in zip(naps.waits, [w for w in limits if w], strict=True))


def test_runs_with_the_same_seed_wait_equally_long() -> None:
    def waits(seed: int) -> list[float]:
        naps = Naps()
        with pytest.raises(ProviderFailed):
            asyncio.run(
                ask(
                    Retrying(Leaf([endpoint_error]), Retry(sleep=naps)), make_request(attempts=Attempts(seed=str(seed)))
                )
            )
        return naps.waits

    assert waits(1) == waits(1) != waits(2)


async def test_retry_after_is_respected() -> None:
    """The header sets a lower bound, so the wait is never shorter than it would be without the header."""
    naps = Naps()
    leaf = Leaf([RateLimited("busy", retry_after=7.0), RateLimited("busy", retry_after=0.001), "fine"])
    assert (await ask(Retrying(leaf, Retry(first_wait=1, sleep=naps)), make_request())).text == "fine"
    assert naps.waits[0] == 7.0
    assert naps.waits[1] >= 1.0


async def test_an_excessive_retry_after_causes_no_wait() -> None:
    naps, leaf = Naps(), Leaf([RateLimited("busy", retry_after=130)])
    with pytest.raises(RateLimited) as caught:
        await ask(Retrying(leaf, Retry(longest_wait=60, sleep=naps)), make_request())
    assert caught.value.retry_after == 130
    assert (len(leaf.requests), naps.waits) == (1, [])


def test_a_wait_beyond_the_deadline_is_not_started() -> None:
    """If the wait would outlast the deadline, the last error is raised while there is still time left."""

    async def late() -> float:
        start = now()
        with pytest.raises(RateLimited):
            await ask(Retrying(Leaf([RateLimited("busy", retry_after=10)])), make_request(timeout=9))
        return now() - start

    assert warped(late()) == 0


def test_a_call_including_all_its_waits_ends_at_its_deadline() -> None:
    """If the deadline passes in the middle of a request, the error still reports it as the call's deadline."""

    async def late() -> float:
        start, leaf = now(), Leaf([endpoint_error, hang])
        with pytest.raises(ModelTimeout):
            await ask(Retrying(leaf), make_request(timeout=9))
        assert len(leaf.requests) == 2
        return now() - start

    assert warped(late()) == pytest.approx(9)


def test_a_call_cancelled_during_a_wait_sends_no_further_request() -> None:
    """Cancellation must never be treated as a failure and retried."""

    async def cancelled() -> int:
        leaf = Leaf([endpoint_error])
        call = asyncio.create_task(ask(Retrying(leaf, Retry(first_wait=10)), make_request()))
        await asyncio.sleep(1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await asyncio.sleep(100)
        return len(leaf.requests)

    assert warped(cancelled()) == 1


async def test_waits_are_stored_with_the_next_attempt() -> None:
    request = make_request()
    await ask(Retrying(Leaf([endpoint_error, "fine"]), Retry(first_wait=0.02)), request)
    first, second = request.attempts.made
    assert first.waited < 0.005
    assert second.waited >= 0.01


# Retried calls


@dataclass(frozen=True)
class Case:
    """An error, and how many of the three allowed requests are made if each of them raises it."""

    error: Callable[[], Exception]
    requests: int

    @property
    def id(self) -> str:
        """Return the name of the error's class."""
        return type(self.error()).__name__


CASES = [
    Case(lambda: ProviderFailed("500", status=500), 3),
    Case(lambda: ConnectionLost("reset"), 3),
    Case(lambda: ModelTimeout(1), 3),
    Case(lambda: MalformedResponse("html"), 3),
    Case(lambda: RateLimited("busy"), 3),
    Case(lambda: SchemaViolation([("winner", "is missing")]), 3),
    Case(lambda: EmptyResponse("nothing"), 2),
    Case(lambda: OutputTruncated("cut"), 2),
    Case(lambda: RateLimited("spent", quota_exhausted=True), 1),
    Case(lambda: ModelUnavailable("not set up"), 1),
    Case(lambda: RequestRejected("no", status=422), 1),
    Case(lambda: AuthenticationFailed("key"), 1),
    Case(lambda: ModelNotFound("which?"), 1),
    Case(lambda: ContextTooLong("long"), 1),
    Case(lambda: CircuitOpen(3), 1),
    Case(lambda: ResponseTooLarge(9, "bytes"), 1),
    Case(lambda: Refused("no"), 1),
    Case(lambda: ContentFiltered("no"), 1),
    Case(RealModelForbidden, 1),
    Case(lambda: ScriptError("script"), 1),
    Case(lambda: LimitReached("calls", limit=1, used=1), 1),
    Case(ZeroDivisionError, 1),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_only_transient_failures_are_retried(case: Case) -> None:
    leaf = Leaf([lambda _: case.error()])
    request = make_request()
    with pytest.raises(type(case.error())):
        await ask(Retrying(leaf, Retry(attempts=3, sleep=Naps())), request)
    assert len(leaf.requests) == len(request.attempts.made) == case.requests


async def test_the_application_can_choose_what_is_retried() -> None:
    leaf = Leaf([Refused("no"), "fine"])
    retry = Retry(on=lambda error: isinstance(error, Refused), sleep=Naps())
    assert (await ask(Retrying(leaf, retry), make_request())).text == "fine"
    leaf = Leaf([endpoint_error])
    with pytest.raises(ProviderFailed):
        await ask(Retrying(leaf, retry), make_request())
    assert len(leaf.requests) == 1


async def test_an_invalid_answer_is_retried_with_the_reason() -> None:
    """The prompt for the retry quotes the answer and the problem.

    After two invalid answers, the next output mode is used.
    """
    naps, events = Naps(), list[Any]()
    leaf = Leaf(['{"loser": "a"}', '{"winner": 5}', "nothing", '{"winner": "a"}'])
    retry = Retry(attempts=4, sleep=naps)
    answered = await ask(Retrying(leaf, retry), make_request(output=Verdict, events=events))
    assert answered.data == Verdict(winner="a")
    assert naps.waits == []
    assert [request.skipped_modes for request in leaf.requests] == [0, 0, 1, 1]
    last = leaf.requests[-1].messages
    assert [message["role"] for message in last] == ["user"] + 3 * ["assistant", "user"]
    assert last[1]["content"] == '{"loser": "a"}'
    assert "winner" in last[2]["content"]
    assert len(leaf.requests[0].messages) == 1, "the first request is as it was"
    assert [(event.attempt, event.error, event.wait) for event in events] == [
        (number, "SchemaViolation", 0) for number in (2, 3, 4)
    ]


async def test_switching_modes_does_not_count_as_an_attempt() -> None:
    """After two answers without JSON, each further request uses the next output mode until none is left."""
    leaf = Leaf([lambda request: answer_in_prose(request, modes=4)])
    with pytest.raises(SchemaViolation):
        await ask(Retrying(leaf, Retry(attempts=3)), make_request(output=Verdict))
    assert [request.skipped_modes for request in leaf.requests] == [0, 0, 1, 2, 3, 3]


def answer_in_prose(request: Any, modes: int) -> SchemaViolation:
    """Answer in prose, like a model that ignores all structured output modes."""
    request.attempts.modes_left = modes - 1 - request.skipped_modes
    return SchemaViolation([("", "no JSON")], answer="Certainly!")


async def test_a_truncated_structured_answer_is_retried_with_a_higher_limit() -> None:
    """The token limit is doubled for the retry, but only once per call."""
    leaf = Leaf([ModelResponse(text='{"winner": "a', finish="length")])
    request = make_request(output=Verdict, settings=ModelSettings(max_tokens=50))
    with pytest.raises(OutputTruncated):
        await ask(Retrying(leaf, Retry(attempts=9)), request)
    assert [attempt.settings.max_tokens for attempt in leaf.requests] == [50, 100]


async def test_each_retry_emits_an_event() -> None:
    events: list[Any] = []
    leaf = Leaf([endpoint_error, "fine"])
    await ask(Retrying(leaf, Retry(first_wait=0.002)), make_request(events=events))
    (event,) = events
    assert isinstance(event, CallRetried)
    assert (event.block, event.model, event.attempt, event.error) == ("judge", "leaf", 2, "ProviderFailed")
    assert 0.001 <= event.wait <= 0.002


@pytest.mark.parametrize(
    ("field", "value"),
    [("attempts", 0), ("attempts", True), ("attempts", 1.5), ("first_wait", -1), ("longest_wait", float("nan"))],
)
def test_invalid_options_are_rejected(field: str, value: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Retry(**{field: value})
    assert (caught.value.field, caught.value.got) == (field, value) or value != value  # noqa: PLR0124 - nan


# Nesting


class Duck:
    """Wrapper that does not inherit from `Wrapper`."""

    def __init__(self, inner: Model) -> None:
        self.inner = inner
        self.name = f"duck of {inner.name}"

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Pass the request on."""
        return await self.inner.request(request)


@dataclass(frozen=True)
class Tree:
    """A tree of nested models, described as data; only a leaf or a `Retrying` sets `attempts`."""

    kind: str
    inner: tuple[Tree, ...] = ()
    attempts: int | None = None
    outcomes: tuple[Any, ...] = (endpoint_error,)

    def build(self, leaves: list[Leaf]) -> Any:
        """Build the models, and append the leaves to `leaves`."""
        models = [tree.build(leaves) for tree in self.inner]
        retry = None if self.attempts is None else Retry(attempts=self.attempts, sleep=Naps())
        if self.kind == "leaf":
            leaves.append(Leaf(self.outcomes, retry=retry))
            return leaves[-1]
        if self.kind == "fallback":
            return Fallback(*models)
        make: dict[str, Callable[[Any], Any]] = {
            "retrying": lambda inner: Retrying(inner, retry),
            "timeout": lambda inner: Timeout(inner, 60),
            "breaker": lambda inner: CircuitBreaker(inner, failures=10_000),
            "rate": lambda inner: RateLimit(inner, requests=10_000, tokens=10**9),
            "concurrency": lambda inner: ConcurrencyLimit(inner, 1),
            "wrapper": Wrapper,
            "duck": Duck,
        }
        return make[self.kind](*models)

    @property
    def retries(self) -> int | None:
        """Return the number of attempts allowed by the loop around this model; None if there is no loop."""
        return self.inner[0].retries if self.kind in EACH_REQUEST else self.attempts

    @property
    def all_attempts(self) -> list[int]:
        """Return the number of attempts of each model in the tree, which is 1 if the model sets none."""
        return [self.attempts or 1, *(one for tree in self.inner for one in tree.all_attempts)]

    @property
    def leaves(self) -> int:
        """Return the number of innermost models."""
        return sum(tree.leaves for tree in self.inner) if self.inner else 1

    def requests(self, *, owned: bool = False) -> int:
        """Return how many requests the documentation predicts if all of them fail."""
        if owned or self.retries is None:
            return self._body(owned=owned)
        return self.retries * self._body(owned=True)

    def _body(self, *, owned: bool) -> int:
        if self.kind == "duck":
            return self.inner[0]._body(owned=owned)
        return sum(tree.requests(owned=owned) for tree in self.inner) if self.inner else 1


EACH_REQUEST = ("timeout", "rate", "concurrency")
AROUND_ONE = ("retrying", "breaker", "wrapper", "duck", *EACH_REQUEST)
OUTCOMES = (
    "fine",
    "",
    endpoint_error,
    lambda _: RateLimited("busy", retry_after=1),
    lambda _: Refused("no"),
    lambda _: AuthenticationFailed("key"),
    lambda _: SchemaViolation([("a", "b")]),
    lambda _: ZeroDivisionError(),
)


def trees(outcomes: st.SearchStrategy[tuple[Any, ...]]) -> st.SearchStrategy[Tree]:
    """Draw an arbitrary nesting of models."""
    attempts = st.none() | st.integers(1, 4)
    leaf = st.builds(Tree, kind=st.just("leaf"), attempts=attempts, outcomes=outcomes)

    def around(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
        one = st.sampled_from(AROUND_ONE).flatmap(
            lambda kind: st.builds(
                Tree,
                kind=st.just(kind),
                inner=st.tuples(inner),
                attempts=st.integers(1, 4) if kind == "retrying" else st.none(),
            )
        )
        several = st.builds(Tree, kind=st.just("fallback"), inner=st.lists(inner, min_size=1, max_size=3).map(tuple))
        return one | several

    return st.recursive(leaf, around, max_leaves=6)


@given(tree=trees(st.just((endpoint_error,))))
def test_attempts_never_multiply(tree: Tree) -> None:
    """However models are nested, only one loop retries each innermost model.

    The model receives at most as many requests as that loop allows attempts.
    """
    leaves: list[Leaf] = []
    request = make_request()
    with pytest.raises(ProviderFailed):
        asyncio.run(ask(tree.build(leaves), request))
    calls = sum(len(leaf.requests) for leaf in leaves)
    assert calls == tree.requests()
    assert calls <= max(tree.all_attempts) * tree.leaves
    assert attempt_errors(request.attempts.made) == ["ProviderFailed"] * calls


@given(tree=trees(st.lists(st.sampled_from(OUTCOMES), min_size=1, max_size=4).map(tuple)))
def test_attempts_list_every_received_request(tree: Tree) -> None:
    leaves: list[Leaf] = []
    request = make_request()

    async def ended() -> Any:
        (end,) = await asyncio.gather(ask(tree.build(leaves), request), return_exceptions=True)
        return end

    end = asyncio.run(ended())
    *failed, last = attempt_errors(request.attempts.made)
    assert all(failed)
    assert last == (None if isinstance(end, ModelResponse) else type(end).__name__)
    calls = sum(len(leaf.requests) for leaf in leaves)
    assert len(request.attempts.made) == calls <= max(tree.all_attempts) * tree.leaves
    assert all(leaf.running == 0 for leaf in leaves)


# A real server


def fail_first(*failures: Callable[[Exchange], Any]) -> Callable[[Exchange], Any]:
    """Return a scenario with the given failures in order, followed by success."""
    remaining = list(failures)

    async def play(exchange: Exchange) -> None:
        await (remaining.pop(0) if remaining else fine)(exchange)

    return play


async def answer_429(exchange: Exchange) -> None:
    """Answer 429 with a short wait."""
    await exchange.json({"error": {"message": "busy"}}, status=429, headers={"Retry-After": "0.01"})


async def answer_500(exchange: Exchange) -> None:
    """Answer 500."""
    await exchange.json({"error": {"message": "down"}}, status=500)


async def reset_connection(exchange: Exchange) -> None:
    """Reset the connection in the middle of the answer."""
    await exchange.raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{")
    exchange.reset()


async def answer_nonsense(exchange: Exchange) -> None:
    """Answer 200 without a completion."""
    await exchange.json({**completion(), "choices": []})


@pytest.mark.parametrize("wrapped", [False, True], ids=["by itself", "through all policies"])
async def test_attempts_list_every_request_to_a_real_model(*, wrapped: bool) -> None:
    """The first four requests run into a rate limit, a failure, a reset and nonsense, and the fifth is answered.

    The server also counts five requests.
    """
    request = make_request(timeout=30)
    async with ChatServer({"m": fail_first(answer_429, answer_500, reset_connection, answer_nonsense)}) as server:
        retry = Retry(attempts=5, first_wait=0.001)
        model: Any = OpenAIModel("m", base_url=server.base_url, retry=retry)
        if wrapped:
            model = RateLimit(ConcurrencyLimit(Timeout(model, 20), 2), requests=100)
            model = Retrying(Fallback(CircuitBreaker(model, failures=4)), retry)
        assert (await ask(model, request)).text == "fine"
        assert server.posts == len(request.attempts.made) == 5
    assert attempt_errors(request.attempts.made) == [
        "RateLimited",
        "ProviderFailed",
        "ConnectionLost",
        "MalformedResponse",
        None,
    ]
    assert request.attempts.made[1].waited >= 0.01
    assert request.attempts.made[-1].usage.total_tokens == 13


async def test_a_persistent_failure_causes_the_configured_number_of_requests() -> None:
    async with ChatServer({"m": answer_500}) as server:
        model = OpenAIModel("m", base_url=server.base_url, retry=Retry(attempts=4, first_wait=0))
        with pytest.raises(ProviderFailed):
            await ask(Retrying(model, Retry(attempts=3, first_wait=0)), make_request(timeout=30))
        assert server.posts == 3
        with pytest.raises(ProviderFailed):
            await ask(Fallback(model, model), make_request(timeout=30))
        assert server.posts == 3 + 8
