"""Concurrency and rate limits: `ConcurrencyLimit`, `RateLimit`."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Generic, TypeVar

from aiolimiter import AsyncLimiter

from flowdebate._util.validation import check_count, check_seconds
from flowdebate.errors import ConfigurationError, RateLimited
from flowdebate.models.usage import estimated_tokens
from flowdebate.models.wrapper import PerRequestWrapper

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.models.attempts import Attempt
    from flowdebate.models.base import Model, ModelRequest, ModelResponse

__all__ = (
    "Bucket",
    "ConcurrencyLimit",
    "PerLoop",
    "RateLimit",
    "tokens_of",
)

T = TypeVar("T")


class PerLoop(Generic[T]):
    """One object for each event loop, created by `make`; objects of closed loops are dropped.

    >>> locks = PerLoop(asyncio.Lock)
    >>> async def same():
    ...     return locks.here() is locks.here()
    >>> asyncio.run(same())
    True
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        # not by weak references: what waits in a loop holds the loop
        self._made: dict[asyncio.AbstractEventLoop, T] = {}
        self._lock = threading.Lock()

    def here(self) -> T:
        """Return the running loop's object."""
        loop = asyncio.get_running_loop()
        found = self._made.get(loop)
        if found is None:
            with self._lock:
                self._made = {known: made for known, made in self._made.items() if not known.is_closed()}
                found = self._made[loop] = self._make()
        return found


class ConcurrencyLimit(PerRequestWrapper):
    """Limit the concurrent requests of `inner` to `max_concurrency`; the others wait.

    They wait in order and may be cancelled; the waiting time is the attempt's `waited`. While `inner` waits before a
    retry, its place is free. Each event loop has `max_concurrency` places.

    >>> ConcurrencyLimit("ollama/gemma3", 4).name
    'ollama/gemma3'
    """

    def __init__(self, inner: Model | str, max_concurrency: int) -> None:
        super().__init__(inner)
        check_count("ConcurrencyLimit", max_concurrency=max_concurrency)
        self._places = PerLoop(lambda: asyncio.Semaphore(max_concurrency))

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Answer when a place is free."""
        places = self._places.here()
        if places.locked():
            with request.attempts.waiting():
                await places.acquire()
        else:
            await places.acquire()
        try:
            return await self.ask(request)
        finally:
            places.release()


class Bucket(AsyncLimiter):
    """Leaky bucket of size `max_rate`, which drains evenly within `time_period` seconds."""

    __slots__ = ()

    def seconds_until(self, amount: float) -> float:
        """Return the seconds until there is room for `amount`, if nobody else adds anything."""
        self.has_capacity(amount)  # lets run out what has run out by now
        return max(0.0, self._level + amount - self.max_rate) * self.time_period / self.max_rate

    def charge(self, amount: float) -> None:
        """Add `amount`, even beyond the bucket's size."""
        self.has_capacity(0)
        self._level += amount


class RateLimit(PerRequestWrapper):
    """Limit `inner` to `requests` requests and `tokens` tokens per `per` seconds.

    - `requests`: that many may be sent at once after a pause; then one every `per / requests` seconds.
    - `tokens`: the tokens of a request, prompt and answer, are charged when it has ended. The next request waits while
      more than `tokens` are charged; charges drain evenly, `tokens` in `per` seconds. Concurrent requests are not
      charged yet, so that several may pass the limit together, and later ones wait longer. Where the endpoint reports
      no tokens, four characters count as one.

    Requests wait in order and may be cancelled; the waiting time is the attempt's `waited`. A request that would wait
    beyond the call's deadline raises RateLimited at once, with `retry_after`. Where `inner` retries failed calls, each
    of its requests waits. Each event loop is counted separately.

    >>> RateLimit("openai/gpt-5-mini", requests=500, tokens=200_000).name
    'openai/gpt-5-mini'
    """

    def __init__(
        self, inner: Model | str, *, requests: int | None = None, tokens: int | None = None, per: float = 60.0
    ) -> None:
        super().__init__(inner)
        given = {name: value for name, value in (("requests", requests), ("tokens", tokens)) if value is not None}
        if not given:
            raise ConfigurationError("RateLimit", "requests", None, "given, or tokens")
        check_count("RateLimit", **given)
        check_seconds("RateLimit", per=per)

        def gate() -> _Gate:
            return _Gate(
                requests=None if requests is None else Bucket(requests, per),
                tokens=None if tokens is None else Bucket(tokens, per),
            )

        self._gates = PerLoop(gate)

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Answer when it is this request's turn."""
        gate = self._gates.here()
        await gate.enter(request)
        if gate.tokens is None:
            return await self.ask(request)
        sent = len(request.attempts.made)
        response: ModelResponse | None = None
        try:
            response = await self.ask(request)
        finally:
            gate.tokens.charge(sum(tokens_of(attempt, request, response) for attempt in request.attempts.made[sent:]))
        return response


class _Gate:
    """Buckets of one event loop, and the queue in front of them."""

    def __init__(self, *, requests: Bucket | None, tokens: Bucket | None) -> None:
        self.requests = requests
        self.tokens = tokens
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def enter(self, request: ModelRequest) -> None:
        """Wait for the request's turn; RateLimited if that would come too late."""
        if not self._waiting and self._seconds(0) <= 0:
            self._take()
            return
        _check_in_time(self._seconds(self._waiting), request)
        self._waiting += 1
        try:
            with request.attempts.waiting():
                async with self._turn:
                    while (seconds := self._seconds(0)) > 0:
                        _check_in_time(seconds, request)
                        await asyncio.sleep(seconds)
                    self._take()
        finally:
            self._waiting -= 1

    def _seconds(self, ahead: int) -> float:
        """Return the seconds until the turn of a request with `ahead` others before it."""
        requests = 0.0 if self.requests is None else self.requests.seconds_until(1 + ahead)
        tokens = 0.0 if self.tokens is None else self.tokens.seconds_until(0)
        found = max(requests, tokens)
        return found if found > _NOTHING else 0.0

    def _take(self) -> None:
        if self.requests is not None:
            self.requests.charge(1)


def _check_in_time(seconds: float, request: ModelRequest) -> None:
    if request.deadline is not None and asyncio.get_running_loop().time() + seconds >= request.deadline:
        raise RateLimited(
            f"not sent: its turn would come in {seconds:.3g} s, after the call's deadline",
            retry_after=seconds,
            status=None,
            block=request.block,
        )


def tokens_of(attempt: Attempt, request: ModelRequest, response: ModelResponse | None) -> int:
    """Return the tokens of an attempt, estimated from its length where the endpoint does not say."""
    total = attempt.usage.total_tokens
    if total is not None:
        return total
    return estimated_tokens(request.characters + (0 if response is None else len(response.text)))


_NOTHING = 1e-6
"""Seconds below which a wait is only a rounding error."""
