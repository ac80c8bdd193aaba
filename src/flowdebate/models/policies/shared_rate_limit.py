"""`SharedRateLimit`: a rate limit shared by all processes, counted in PostgreSQL."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import TYPE_CHECKING

from flowdebate._util.validation import check_count, check_seconds
from flowdebate.errors import ConfigurationError, RateLimited, StoreError
from flowdebate.models.policies.limits import tokens_of
from flowdebate.models.wrapper import PerRequestWrapper

if TYPE_CHECKING:
    from flowdebate.models.base import Model, ModelRequest, ModelResponse
    from flowdebate.store.postgres.rate_counter import PostgresCounter

__all__ = ("SharedRateLimit",)


class SharedRateLimit(PerRequestWrapper):
    """Limit `inner` to `requests` requests and `tokens` tokens per `per` seconds, for all processes that share `key`.

    The count is a row in the PostgreSQL database at `url` (its table is in `schema`), changed in one statement, by the
    clock of the server: so it holds for any number of processes on any number of machines that give the same numbers.
    - `requests`: up to `burst` of them (None: all) may go at once after a pause; then one goes every `per / requests`
      seconds. Each takes its place with one question to the database, in the order in which they come from everywhere;
      who is cancelled or dies while it waits leaves its place empty.
    - `tokens`: charged when a request has ended, and the next ones wait, as with RateLimit.

    What they wait is the attempt's `waited`. One that would wait beyond the call's deadline takes no place, and is a
    RateLimited at once, with `retry_after`. `key` is the name of the count; None: the model's name. While the database
    is away requests wait for `patience` seconds, then they are a StoreError, and nothing is sent.

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
        super().__init__(inner)
        given = {"requests": requests, "tokens": tokens, "burst": burst}
        if requests is None and tokens is None:
            raise ConfigurationError("SharedRateLimit", "requests", None, "given, or tokens")
        check_count("SharedRateLimit", **{name: value for name, value in given.items() if value is not None})
        check_seconds("SharedRateLimit", per=per, patience=patience)
        if key is not None and (not isinstance(key, str) or not key.strip()):
            raise ConfigurationError("SharedRateLimit", "key", key, "a text that is not blank, or None")
        self.key = key or self.name
        self._url = url
        self._schema = schema
        self._patience = patience
        self._each = 0.0 if requests is None else per / requests
        self._burst = 0.0 if requests is None else self._each * (burst or requests)
        self._per = per
        self._tokens = tokens
        self._known: PostgresCounter | None = None
        self._opening = threading.Lock()

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Answer when it is this request's turn."""
        await self._enter(request)
        if self._tokens is None:
            return await self.ask(request)
        sent = len(request.attempts.made)
        response: ModelResponse | None = None
        try:
            response = await self.ask(request)
        finally:
            used = sum(tokens_of(attempt, request, response) for attempt in request.attempts.made[sent:])
            await self._charge(used * self._per / self._tokens)
        return response

    async def close(self) -> None:
        """Close the connection; the limit can be used again."""
        with self._opening:
            known, self._known = self._known, None
        if known is not None:
            await asyncio.to_thread(known.close)

    async def _enter(self, request: ModelRequest) -> None:
        with request.attempts.waiting():
            while True:
                seconds, granted = await self._counter().take(
                    self.key,
                    each=self._each,
                    burst=self._burst,
                    brim=self._per,
                    longest=_left(request),
                )
                if not granted and seconds >= _left(request):
                    raise RateLimited(
                        f"not sent: its turn would come in {seconds:.3g} s, after the call's deadline",
                        retry_after=seconds,
                        status=None,
                        block=request.block,
                    )
                await asyncio.sleep(seconds)
                if granted:
                    return

    async def _charge(self, seconds: float) -> None:
        try:
            await self._counter().charge(self.key, seconds)
        except StoreError as error:  # the answer is there and paid: it is not lost for that
            _LOGGER.warning("model %s: its tokens could not be counted: %s", self.name, error)

    def _counter(self) -> PostgresCounter:
        with self._opening:
            if self._known is None:
                from flowdebate.store.postgres.rate_counter import PostgresCounter

                self._known = PostgresCounter(self._url, schema=self._schema, patience=self._patience)
            return self._known


def _left(request: ModelRequest) -> float:
    """Return the seconds until the call's deadline; a very large number without one."""
    if request.deadline is None:
        return 1e9
    return max(0.0, request.deadline - asyncio.get_running_loop().time())


_LOGGER = logging.getLogger("flowdebate")
