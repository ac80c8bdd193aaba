"""`ConcurrencyLimit`: so many requests at once."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Generic, TypeVar

from flowdebate._util.validation import check_count
from flowdebate.models.wrapper import PerRequestWrapper

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.models.base import Model, ModelRequest, ModelResponse

__all__ = (
    "ConcurrencyLimit",
    "PerLoop",
)
T = TypeVar("T")


class PerLoop(Generic[T]):
    """What `make` made in each loop; forgotten when another loop comes and the old one is closed.

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
        """The running loop's."""
        loop = asyncio.get_running_loop()
        found = self._made.get(loop)
        if found is None:
            with self._lock:
                self._made = {known: made for known, made in self._made.items() if not known.is_closed()}
                found = self._made[loop] = self._make()
        return found


class ConcurrencyLimit(PerRequestWrapper):
    """Lets `max_concurrency` requests of `inner` be on their way at the same time; the others wait.

    They wait in the order in which they came, and may be cancelled; what they wait is the attempt's `waited`. Where
    `inner` repeats failed calls, the place is free while it waits to do so. Each event loop
    has `max_concurrency` places.

    >>> ConcurrencyLimit("ollama/gemma3", 4).name
    'ollama/gemma3'
    """

    def __init__(self, inner: Model | str, max_concurrency: int) -> None:
        super().__init__(inner)
        check_count("ConcurrencyLimit", max_concurrency=max_concurrency)
        self._places = PerLoop(lambda: asyncio.Semaphore(max_concurrency))

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Answer when there is a place."""
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
