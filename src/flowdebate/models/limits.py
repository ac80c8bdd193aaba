"""Limits on concurrency and on request rates, either for a single process or shared by several."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from aiolimiter import AsyncLimiter

from flowdebate._util.validation import check_count, check_seconds, check_text
from flowdebate.errors import ConfigurationError, ProviderFailed, RateLimited, StoreError
from flowdebate.models.base import Model, ModelRequest, ModelResponse, estimate_tokens
from flowdebate.models.wrapper import PerRequestWrapper

if TYPE_CHECKING:
    from flowdebate.store.postgres.rate_counter import PostgresCounter


T = TypeVar("T")
_LOGGER = logging.getLogger("flowdebate")
_MAX_PAUSE = 3600.0
"""Maximum pause in seconds, since an endpoint may request a pause of any length."""


class PerLoop(Generic[T]):
    """Container for one object per event loop, created by calling `make`. The objects of closed loops are dropped.

    >>> locks = PerLoop(asyncio.Lock)
    >>> async def same():
    ...     return locks.get() is locks.get()
    >>> asyncio.run(same())
    True
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        # strong references: objects with waiters refer to their loop, so weak keys would never be collected
        self._made: dict[asyncio.AbstractEventLoop, T] = {}
        self._lock = threading.Lock()

    def get(self) -> T:
        """Return the object belonging to the running event loop."""
        loop = asyncio.get_running_loop()
        value = self._made.get(loop)
        if value is None:
            with self._lock:
                self._made = {
                    open_loop: value_of_loop
                    for open_loop, value_of_loop in self._made.items()
                    if not open_loop.is_closed()
                }
                value = self._made[loop] = self._make()
        return value


class ConcurrencyLimit(PerRequestWrapper):
    """Limit the number of concurrent requests to `inner`; requests beyond `max_concurrency` wait.

    Requests are served in order and may be cancelled while they wait; the waiting time is recorded in the attempt's
    `waited` attribute. A request gives up its slot while `inner` waits before a retry. Each event loop has its own
    `max_concurrency` slots.

    >>> ConcurrencyLimit("ollama/gemma3", 4).name
    'ollama/gemma3'
    """

    def __init__(self, inner: Model | str, max_concurrency: int) -> None:
        super().__init__(inner)
        check_count("ConcurrencyLimit", max_concurrency=max_concurrency)
        self._places = PerLoop(lambda: asyncio.Semaphore(max_concurrency))

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        places = self._places.get()
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
    """Leaky bucket of size `max_rate` that drains evenly within `time_period` seconds."""

    __slots__ = ()

    def seconds_until(self, amount: float) -> float:
        """Return the time in seconds until there is room for `amount`, provided nothing is added in the meantime."""
        self.has_capacity(amount)  # called for its side effect: it drains the bucket up to now
        return max(0.0, self._level + amount - self.max_rate) * self.time_period / self.max_rate

    def charge(self, amount: float) -> None:
        """Add `amount`, even if it exceeds the bucket's size."""
        self.has_capacity(0)
        self._level += amount


class _Metered(PerRequestWrapper):
    """Base class for rate limits: each request waits its turn, and its tokens are charged when it ends."""

    def __init__(
        self, inner: Model | str, *, requests: int | None, tokens: int | None, per: float, burst: int | None = None
    ) -> None:
        super().__init__(inner)
        location = type(self).__name__
        if requests is None and tokens is None:
            raise ConfigurationError(location, "requests", None, "is required unless `tokens` is set")
        check_count(location, optional=True, requests=requests, tokens=tokens, burst=burst)
        check_seconds(location, per=per)
        self._tokens = tokens

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        await self._enter(request)
        if self._tokens is None:
            return await self.ask(request)
        sent = len(request.attempts.made)
        answered = 0
        try:
            response = await self.ask(request)
            answered = len(response.text)
        finally:
            estimated = estimate_tokens(request.characters + answered)
            totals = [attempt.usage.total_tokens for attempt in request.attempts.made[sent:]]
            await self._charge(sum(estimated if total is None else total for total in totals))
        return response

    async def _enter(self, request: ModelRequest) -> None:
        """Wait for the request's turn; raise RateLimited if that would take longer than the call's deadline allows."""
        raise NotImplementedError

    async def _charge(self, tokens: int) -> None:
        raise NotImplementedError


class RateLimit(_Metered):
    """Limit `inner` to `requests` requests and `tokens` tokens per `per` seconds.

    - `requests`: after a pause, up to `burst` of them (None means all) may be sent at once, then one every
      `per / requests` seconds. In the first `per` seconds after a pause this allows `requests + burst` in total; if
      `burst` is small, this barely exceeds the provider's limit.
    - `tokens`: a request's tokens, both prompt and answer, are charged when it ends. The next request waits while more
      than `tokens` are charged; charges drain evenly, at `tokens` per `per` seconds. Requests in flight are not charged
      yet, so several may exceed the limit together, and later requests wait longer. If the endpoint reports no token
      counts, four characters count as one token.

    Requests are served in order and may be cancelled while they wait; the waiting time is recorded in the attempt's
    `waited` attribute. A request whose wait would exceed the call's deadline immediately raises RateLimited, with
    `retry_after`. If `inner` retries failed calls, each of its requests waits. Each event loop is counted separately.

    >>> RateLimit("openai/gpt-5-mini", requests=500, tokens=200_000).name
    'openai/gpt-5-mini'
    """

    def __init__(
        self,
        inner: Model | str,
        *,
        requests: int | None = None,
        tokens: int | None = None,
        per: float = 60.0,
        burst: int | None = None,
    ) -> None:
        super().__init__(inner, requests=requests, tokens=tokens, per=per, burst=burst)

        self._gates = PerLoop(
            lambda: _Gate(
                requests=None if requests is None else Bucket(burst or requests, per * (burst or requests) / requests),
                tokens=None if tokens is None else Bucket(tokens, per),
            )
        )

    async def _enter(self, request: ModelRequest) -> None:
        await self._gates.get().enter(request)

    async def _charge(self, tokens: int) -> None:
        bucket = self._gates.get().tokens
        if bucket is not None:
            bucket.charge(tokens)


_NOTHING = 1e-6  # the shortest wait, in seconds; anything shorter is a rounding error in the bucket's level


class _Gate:
    """One event loop's buckets, and the queue of requests waiting for room in them."""

    def __init__(self, *, requests: Bucket | None, tokens: Bucket | None) -> None:
        self.requests = requests
        self.tokens = tokens
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def enter(self, request: ModelRequest) -> None:
        if not self._waiting and self._seconds(0) <= 0:  # no request may overtake those already waiting
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
        """Return the time in seconds until a request may be sent if `ahead` requests precede it."""
        requests = 0.0 if self.requests is None else self.requests.seconds_until(1 + ahead)
        tokens = 0.0 if self.tokens is None else self.tokens.seconds_until(0)
        delay = max(requests, tokens)
        return delay if delay > _NOTHING else 0.0

    def _take(self) -> None:
        if self.requests is not None:
            self.requests.charge(1)


class SharedRateLimit(_Metered):
    """Limit `inner` to `requests` requests and `tokens` tokens per `per` seconds, across all processes sharing `key`.

    The count is kept in a table in `schema`, in the PostgreSQL database at `url`. A single statement updates it, using
    the server's clock, so the limit holds for any number of processes on any number of machines, provided they all
    set the same options.
    - `requests`: after a pause, up to `burst` of them (None means all) may be sent at once, then one every
      `per / requests` seconds. Each request reserves its slot with one query, in order of arrival. If a request is
      cancelled or its process dies while it waits, its slot goes unused.
    - `tokens`: charged when a request ends, as with `RateLimit`, so that later requests wait.

    If the endpoint sends one process a `retry-after`, all processes wait for that time, up to an hour. The waiting time
    is recorded in the attempt's `waited` attribute. A request whose wait would exceed the call's deadline reserves no
    slot and immediately raises RateLimited, with `retry_after`. `key` identifies the count; None means the model's
    name. While the database is unreachable, requests wait for up to `patience` seconds; after that they raise
    StoreError without being sent.

    >>> SharedRateLimit("openai/gpt-5-mini", url="postgresql://localhost/runs", requests=500).name
    'openai/gpt-5-mini'
    """

    def __init__(  # noqa: PLR0913 - keyword-only options with defaults
        self,
        inner: Model | str,
        *,
        url: str,
        requests: int | None = None,
        tokens: int | None = None,
        per: float = 60.0,
        burst: int | None = None,
        key: str | None = None,
        schema: str = "flowdebate",
        patience: float = 10.0,
    ) -> None:
        super().__init__(inner, requests=requests, tokens=tokens, per=per, burst=burst)
        check_seconds("SharedRateLimit", patience=patience)
        check_text("SharedRateLimit", optional=True, key=key)
        self.key: str = key or self.name
        self._url = url
        self._schema = schema
        self._patience = patience
        self._each = 0.0 if requests is None else per / requests
        self._burst = 0.0 if requests is None else self._each * (burst or requests)
        self._per = per
        self._known: PostgresCounter | None = None
        self._opening = threading.Lock()

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        try:
            return await super().request(request)
        except (RateLimited, ProviderFailed) as error:
            # an error without a status means that the request never reached the endpoint
            if error.retry_after and error.status is not None:
                behind_burst = min(error.retry_after, _MAX_PAUSE) + self._burst - self._each
                await self._try(self._counter().pause(self.key, behind_burst), "its pause could not be shared")
            raise

    async def close(self) -> None:
        """Close the database connection; it is reopened if the limit is used again."""
        with self._opening:
            client, self._known = self._known, None
        if client is not None:
            await asyncio.to_thread(client.close)

    async def _enter(self, request: ModelRequest) -> None:
        with request.attempts.waiting():
            granted = False
            while not granted:
                seconds, granted = await self._counter().take(
                    self.key,
                    interval=self._each,
                    burst=self._burst,
                    brim=self._per,
                    longest=_seconds_to_deadline(request),
                )
                if not granted:
                    _check_in_time(seconds, request)
                await asyncio.sleep(seconds)

    async def _charge(self, tokens: int) -> None:
        assert self._tokens is not None  # noqa: S101 - tokens are charged only where they are limited
        await self._try(
            self._counter().charge(self.key, tokens * self._per / self._tokens), "its tokens could not be counted"
        )

    async def _try(self, writing: Coroutine[Any, Any, None], problem: str) -> None:
        try:
            await writing
        except StoreError as error:  # the answer has arrived and been paid for, so it must not be lost
            _LOGGER.warning("model %s: %s: %s", self.name, problem, error)

    def _counter(self) -> PostgresCounter:
        with self._opening:
            if self._known is None:
                from flowdebate.store.postgres.rate_counter import PostgresCounter

                self._known = PostgresCounter(self._url, schema=self._schema, patience=self._patience)
            return self._known


def _check_in_time(seconds: float, request: ModelRequest) -> None:
    """Raise RateLimited if a wait of `seconds` would extend past the call's deadline."""
    if seconds >= _seconds_to_deadline(request):
        raise RateLimited(
            f"not sent: the rate limit would delay the call by {seconds:.3g} s, beyond its deadline",
            retry_after=seconds,
            status=None,
            block=request.block,
        )


def _seconds_to_deadline(request: ModelRequest) -> float:
    """Return the time in seconds until the call's deadline, or a very large number if there is no deadline."""
    if request.deadline is None:
        return 1e9
    return max(0.0, request.deadline - asyncio.get_running_loop().time())
