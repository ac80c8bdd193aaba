"""`CircuitBreaker`: a model that is not asked for a while once it keeps failing."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from flowdebate.errors import (
    CircuitOpen,
    ConfigurationError,
    MalformedResponse,
    ModelError,
    ModelTimeout,
    ModelUnavailable,
    ProviderFailed,
)
from flowdebate.models.notices import CircuitChanged
from flowdebate.models.policies.breaker import Breaker
from flowdebate.models.wrapper import Wrapper

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.models.base import Model, ModelRequest, ModelResponse
    from flowdebate.models.policies.breaker import Step

__all__ = ("CircuitBreaker",)


class CircuitBreaker(Wrapper):
    """Asks `inner` while it works; after `failures` failed calls in a row not for `cooldown` seconds, then carefully.

    A call that may not be made is a CircuitOpen at once, so that a `Fallback` around can ask another model. After the
    cooldown at most `successes` calls at once are let through; so many that succeed close the circuit, and one that
    fails opens it anew.

    What counts as a failure is the endpoint's: that it cannot be reached, breaks off, fails (5xx), sends nonsense, or
    does not answer in time. A call that is refused (4xx, 429 too), answered in a way that cannot be used, or cancelled
    says nothing about that. One call counts once, however often `inner` repeats it.

    - `clock`: seconds that never go back, for tests.
    - `breaker`: a circuit that others use too; the other options are its own then.

    >>> CircuitBreaker("ollama/gemma3", failures=5).breaker.state
    'closed'
    """

    def __init__(
        self,
        inner: Model | str,
        *,
        failures: int = 3,
        cooldown: float = 60.0,
        successes: int = 2,
        clock: Callable[[], float] = time.monotonic,
        breaker: Breaker | None = None,
    ) -> None:
        super().__init__(inner)
        if breaker is None:
            breaker = Breaker(failures=failures, cooldown=cooldown, successes=successes, clock=clock)
        elif not isinstance(breaker, Breaker):
            raise ConfigurationError("CircuitBreaker", "breaker", breaker, "a Breaker, or None")
        self.breaker = breaker

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Answer, or CircuitOpen."""
        step = self.breaker.admit()
        self._tell(step, request)
        if step.ticket is None:
            raise CircuitOpen(self.breaker.seconds_left, model=self.name, block=request.block)
        sent = len(request.attempts.made)
        succeeded: bool | None = None
        try:
            response = await self.ask(request)
            succeeded = True
        except ModelError as error:
            succeeded = False if _endpoint_failed(error) else None
            raise
        except asyncio.CancelledError:
            # the call's own deadline arrives as a cancellation; a call that only queued until then is no failure
            if len(request.attempts.made) > sent and _overdue(request):
                succeeded = False
            raise
        finally:
            self._tell(self.breaker.settle(step.ticket, succeeded=succeeded), request)
        return response

    def _tell(self, step: Step, request: ModelRequest) -> None:
        if step.before != step.after:
            request.attempts.tell(
                CircuitChanged(block=request.block, model=self.name, before=step.before, after=step.after)
            )


def _endpoint_failed(error: ModelError) -> bool:
    if isinstance(error, ModelUnavailable):
        return error.transient
    return isinstance(error, (ProviderFailed, ModelTimeout, MalformedResponse))


def _overdue(request: ModelRequest) -> bool:
    return request.deadline is not None and asyncio.get_running_loop().time() >= request.deadline
