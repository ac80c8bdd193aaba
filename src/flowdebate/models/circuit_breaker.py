"""Circuit breaker: stops calls to a failing model for a while, then lets a few trial calls through.

- closed becomes open after `failures` consecutive failed calls;
- open becomes half_open after `cooldown` seconds;
- half_open becomes closed after `successes` successful trials, and open again after one failure.

None of the eleven libraries surveyed meets all requirements: asyncio support, a limit on concurrent trials, a monotonic
clock, and ignoring cancelled calls. The tests compare this circuit breaker with the most similar one, `pyresilience`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from flowdebate._util.validation import check_count, check_seconds
from flowdebate.errors import (
    CircuitOpen,
    ConfigurationError,
    MalformedResponse,
    ModelError,
    ModelTimeout,
    ModelUnavailable,
    ProviderFailed,
)
from flowdebate.models.base import CircuitChanged, CircuitState, Model, ModelRequest, ModelResponse
from flowdebate.models.wrapper import Wrapper


class CircuitBreaker(Wrapper):
    """Stop calling `inner` after `failures` consecutive failed calls, and try it again after `cooldown` seconds.

    While the circuit is open, calls fail immediately with CircuitOpen, so an outer `Fallback` can use another model.
    After the cooldown, at most `successes` calls at a time are let through. After that many successes the circuit
    closes; one failure opens it again.

    Only failures of the endpoint count: an unreachable server, a lost connection, a 5xx status, a malformed response,
    or a timeout. Rejected requests (4xx, including 429), unusable answers and cancelled calls do not count. A call
    counts once, no matter how often `inner` retries it.

    - `clock`: a function that returns monotonic seconds; tests replace it.
    - `breaker`: a shared circuit with its own options.

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
            raise ConfigurationError("CircuitBreaker", "breaker", breaker, "must be a Breaker")
        self.breaker = breaker

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        step = self.breaker.admit()
        self._report_change(step, request)
        if step.ticket is None:
            raise CircuitOpen(self.breaker.seconds_left, model=self.name, block=request.block)
        sent = len(request.attempts.made)
        succeeded: bool | None = None
        try:
            response = await self.ask(request)
            succeeded = True
        except ModelError as error:
            # rejected requests and unusable answers say nothing about the endpoint's health
            failed = (
                error.transient
                if isinstance(error, ModelUnavailable)
                else isinstance(error, (ProviderFailed, ModelTimeout, MalformedResponse))
            )
            succeeded = False if failed else None
            raise
        except asyncio.CancelledError:
            # a call cancelled at its deadline has failed, unless it was still in a queue and sent no request
            late = request.deadline is not None and asyncio.get_running_loop().time() >= request.deadline
            if late and len(request.attempts.made) > sent:
                succeeded = False
            raise
        finally:
            self._report_change(self.breaker.settle(step.ticket, succeeded=succeeded), request)
        return response

    def _report_change(self, step: Step, request: ModelRequest) -> None:
        if step.before != step.after:
            request.attempts.notify(
                CircuitChanged(block=request.block, model=self.name, before=step.before, after=step.after)
            )


class Step(NamedTuple):
    """Result of calling `admit`, `settle` or `record` on a breaker."""

    before: CircuitState
    after: CircuitState
    ticket: int | None = None
    """Ticket used to report the result of an admitted call; None for a rejected call."""


class Breaker:
    """State of one circuit: call `admit` before each call, and `settle` after it.

    At most `successes` trials are in flight at once. A result counts only if the state has not changed since its call
    was admitted: once the circuit has opened, results of calls sent earlier are ignored. `clock` returns monotonic
    seconds. Breakers can be shared between threads, event loops and runs.

    >>> breaker = Breaker(failures=1)
    >>> step = breaker.admit()
    >>> breaker.settle(step.ticket, succeeded=False).after
    'open'
    >>> breaker.admit().ticket is None
    True
    """

    def __init__(
        self,
        *,
        failures: int = 3,
        cooldown: float = 60.0,
        successes: int = 2,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        check_count("Breaker", failures=failures, successes=successes)
        check_seconds("Breaker", cooldown=cooldown)
        self._failures = failures
        self._cooldown = cooldown
        self._successes = successes
        self._clock = clock
        self._lock = threading.Lock()
        self._state: CircuitState = "closed"
        self._era = 0  # changes with the state, so that results of calls made before the change are ignored
        self._opened = 0.0
        self._counted = 0
        self._trials = 0

    @property
    def state(self) -> CircuitState:
        """State that a new call would encounter."""
        with self._lock:
            return "half_open" if self._state == "open" and self._seconds_to_trial() <= 0 else self._state

    @property
    def seconds_left(self) -> float:
        """Time in seconds until an open circuit admits a trial; 0 in any other state."""
        with self._lock:
            return max(0.0, self._seconds_to_trial()) if self._state == "open" else 0.0

    @property
    def available(self) -> bool:
        """True if a call would be admitted now."""
        with self._lock:
            if self._state == "open":
                return self._seconds_to_trial() <= 0
            return self._state == "closed" or self._trials < self._successes

    def admit(self) -> Step:
        """Request permission to make a call; if a ticket is issued, it must always be settled afterwards."""
        with self._lock:
            before = self._state
            self._update_state()
            state = self._state
            if state == "open" or (state == "half_open" and self._trials >= self._successes):
                return Step(before, state)
            if state == "half_open":
                self._trials += 1
            return Step(before, state, self._era)

    def settle(self, ticket: int, *, succeeded: bool | None) -> Step:
        """Report the result of the call that received `ticket`.

        Pass `succeeded=None` if the result should not count.
        """
        with self._lock:
            before = self._state
            if ticket == self._era:
                if before == "half_open":
                    self._trials -= 1
                if succeeded is not None:
                    self._count(succeeded=succeeded)
            return Step(before, self._state)

    def record(self, *, succeeded: bool) -> Step:
        """Count the result of a call made without a ticket."""
        with self._lock:
            before = self._state
            self._update_state()
            self._count(succeeded=succeeded)
            return Step(before, self._state)

    def _count(self, *, succeeded: bool) -> None:
        if self._state == "closed":
            self._counted = 0 if succeeded else self._counted + 1
            if self._counted >= self._failures:
                self._become("open")
        elif self._state == "half_open":
            self._counted += succeeded
            if not succeeded:
                self._become("open")
            elif self._counted >= self._successes:
                self._become("closed")

    def _update_state(self) -> None:
        if self._state == "open" and self._seconds_to_trial() <= 0:
            self._become("half_open")

    def _become(self, state: CircuitState) -> None:
        self._state = state
        self._era += 1
        self._counted = 0
        self._trials = 0
        if state == "open":
            self._opened = self._clock()

    def _seconds_to_trial(self) -> float:
        return self._opened + self._cooldown - self._clock()


class Breakers:
    """Circuit breakers, one for each name (such as an agent's), created on first use.

    >>> breakers = Breakers(failures=2)
    >>> breakers.record_failure("ada")
    >>> breakers.record_failure("ada")
    >>> breakers.state("ada"), breakers.available(["ada", "ben"])
    ('open', ['ben'])
    """

    def __init__(
        self,
        *,
        failures: int = 3,
        cooldown: float = 60.0,
        successes: int = 2,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._make = partial(Breaker, failures=failures, cooldown=cooldown, successes=successes, clock=clock)
        self._make()  # called to validate the options
        self._known: dict[str, Breaker] = {}
        self._lock = threading.Lock()

    def of(self, name: str) -> Breaker:
        """Return the breaker for `name`, for example to pass to `CircuitBreaker(model, breaker=…)`."""
        with self._lock:
            breaker = self._known.get(name)
            if breaker is None:
                breaker = self._known[name] = self._make()
            return breaker

    def available(self, names: Iterable[str]) -> list[str]:
        """Return all `names` whose breakers currently admit calls, in order."""
        with self._lock:
            breakers = {name: self._known.get(name) for name in names}
        return [name for name, breaker in breakers.items() if breaker is None or breaker.available]

    def record_success(self, name: str) -> None:
        """Count a successful call to `name`."""
        self.of(name).record(succeeded=True)

    def record_failure(self, name: str) -> None:
        """Count a failed call to `name`."""
        self.of(name).record(succeeded=False)

    def state(self, name: str) -> CircuitState:
        """Return the state a call to `name` would currently encounter."""
        with self._lock:
            breaker = self._known.get(name)
        return "closed" if breaker is None else breaker.state
