"""`RateLimit`: so many requests, or tokens, in so much time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiolimiter import AsyncLimiter

from flowdebate._util.validation import check_count, check_seconds
from flowdebate.errors import ConfigurationError, RateLimited
from flowdebate.models.policies.concurrency_limit import PerLoop
from flowdebate.models.usage import estimated_tokens
from flowdebate.models.wrapper import PerRequestWrapper

if TYPE_CHECKING:
    from flowdebate.models.attempts import Attempt
    from flowdebate.models.base import Model, ModelRequest, ModelResponse

__all__ = (
    "Bucket",
    "RateLimit",
    "tokens_of",
)


class Bucket(AsyncLimiter):
    """It holds `max_rate`, and what is in it runs out evenly, all of it in `time_period` seconds."""

    __slots__ = ()

    def seconds_until(self, amount: float) -> float:
        """How long it takes until `amount` more goes in, if nobody else puts anything in; 0 for now."""
        self.has_capacity(amount)  # lets run out what has run out by now
        return max(0.0, self._level + amount - self.max_rate) * self.time_period / self.max_rate

    def charge(self, amount: float) -> None:
        """Put `amount` in, even above the brim."""
        self.has_capacity(0)
        self._level += amount


class RateLimit(PerRequestWrapper):
    """Sends `inner` no more than `requests` requests, and has it take no more than `tokens` tokens, per `per` seconds.

    - `requests`: so many may go at once after a pause; then one goes every `per / requests` seconds.
    - `tokens`: what a request took, prompt and answer, is known only when it has ended. It is charged then, and the
      next request waits while more than `tokens` are charged, which run out evenly, so many in `per` seconds. Requests
      that are on their way at the same time are not charged yet, so several of them may go beyond the limit together,
      and those after them wait the longer. Where the endpoint does not say what it took, four characters are a token.

    Requests wait in the order in which they came, and may be cancelled; what they wait is the attempt's `waited`. One
    that would wait beyond the call's deadline is a RateLimited at once, with `retry_after`. Where `inner` repeats
    failed calls, each of its requests waits for itself. Each event loop is counted for itself.

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
    """What one event loop has: its buckets, and those who wait before them."""

    def __init__(self, *, requests: Bucket | None, tokens: Bucket | None) -> None:
        self.requests = requests
        self.tokens = tokens
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def enter(self, request: ModelRequest) -> None:
        """Return when it is the request's turn; RateLimited where that would be too late."""
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
        """Until the turn of one with so many `ahead`."""
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
    """What an attempt took; four characters are a token where the endpoint does not say."""
    total = attempt.usage.total_tokens
    if total is not None:
        return total
    return estimated_tokens(request.characters + (0 if response is None else len(response.text)))


_NOTHING = 1e-6
"""Seconds that are not worth a wait: what is left over of a float."""
