"""`ConcurrencyLimit`: so many requests at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from flowdebate.models.checks import check_count
from flowdebate.models.policies.each_request import EachRequest
from flowdebate.models.policies.per_loop import PerLoop

if TYPE_CHECKING:
    from flowdebate.models.base import Model, ModelRequest, ModelResponse

__all__ = ("ConcurrencyLimit",)


class ConcurrencyLimit(EachRequest):
    """Lets `at_once` requests of `inner` be on their way at the same time; the others wait.

    They wait in the order in which they came, and may be cancelled; what they wait is the attempt's `waited`. Where
    `inner` repeats failed calls, the place is free while it waits to do so. Each event loop has `at_once` places.

    >>> ConcurrencyLimit("ollama/gemma3", 4).name
    'ollama/gemma3'
    """

    def __init__(self, inner: Model | str, at_once: int) -> None:
        super().__init__(inner)
        check_count("ConcurrencyLimit", at_once=at_once)
        self._places = PerLoop(lambda: asyncio.Semaphore(at_once))

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
