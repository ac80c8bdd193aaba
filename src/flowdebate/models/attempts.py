"""The account of one call of a model: every request that was really sent for it, with what each took."""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Protocol

from flowdebate.errors import ConnectionLost, ModelUnavailable, ProviderFailed, RequestRejected
from flowdebate.models.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import TracebackType

    from flowdebate.models.base import ModelRequest

__all__ = (
    "Attempt",
    "Attempts",
    "Meter",
    "usage_of",
)


_UNKNOWN = Usage.unknown()


@dataclass(slots=True, kw_only=True)
class Attempt:
    """One request that was sent to a model, answered or not."""

    model: str
    """The model's name."""
    asked_as: str | None = None
    """How a structured answer was asked for; None for text, and where the model does not say."""
    waited: float = 0.0
    """Seconds that went by before it was sent: for a retry, a rate limit, a place in a queue."""
    seconds: float = 0.0
    """How long it took itself."""
    usage: Usage = _UNKNOWN
    error: str | None = None
    """The class of the error that it ended in, "cancelled" where nobody waited for its end; None for an answer."""


def usage_of(attempts: Iterable[Attempt]) -> Usage:
    """What `attempts` came to together."""
    total = Usage.none()
    for attempt in attempts:
        total += attempt.usage
    return total


class Meter(Protocol):
    """What counts requests against the limits of a run."""

    def reserve(self, model: str, request: ModelRequest) -> object:
        """Take in a request that is about to be sent; LimitReached if it may not be."""

    def settle(self, reserved: object, attempt: Attempt) -> None:
        """Replace what was reserved by what it came to."""

    def release(self, reserved: object) -> None:
        """Give back what was reserved for a request that was never sent."""


class Attempts:
    """What was sent for one call, in order; the call's request carries it through all wrappers."""

    __slots__ = ("_meter", "_random", "_seed", "_tell", "_waited", "made")

    def __init__(
        self, *, meter: Meter | None = None, tell: Callable[[object], None] | None = None, seed: object = None
    ) -> None:
        self.made: list[Attempt] = []
        self._meter = meter
        self._tell = tell
        self._seed = seed
        self._waited = 0.0
        self._random: Random | None = None

    def belong_to(self, *, meter: Meter | None, tell: Callable[[object], None] | None, seed: object) -> Attempts:
        """Count against a run's limits, tell its readers, and draw by its seed; gives itself."""
        self._meter, self._tell, self._seed = meter, tell, seed
        return self

    def sending(self, model: str, request: ModelRequest, *, asked_as: str | None = None) -> Sending:
        """`with attempts.sending(...) as attempt:` around each request; LimitReached instead of one too many."""
        return Sending(self, self._meter, model, request, asked_as)

    def waiting(self) -> Waiting:
        """`with attempts.waiting():` around what is no work of the model: it counts as waiting for the next request."""
        return Waiting(self)

    @contextmanager
    def listening(self) -> Iterator[list[object]]:
        """Collect the events that are told inside, besides telling the run's readers."""
        heard: list[object] = []
        outer = self._tell

        def tell(event: object) -> None:
            heard.append(event)
            if outer is not None:
                outer(event)

        self._tell = tell
        try:
            yield heard
        finally:
            self._tell = outer

    def tell(self, event: object) -> None:
        """Tell the run's readers of `event`."""
        if self._tell is not None:
            self._tell(event)

    @property
    def random(self) -> Random:
        """Where jitter is drawn from: the call's place in the run, so that it repeats."""
        if self._random is None:
            self._random = Random(None if self._seed is None else str(self._seed))  # noqa: S311 - jitter
        return self._random

    @property
    def usage(self) -> Usage:
        """What all of them came to."""
        return usage_of(self.made)

    def take_waited(self) -> float:
        """The seconds that were waited since this was last asked."""
        waited, self._waited = self._waited, 0.0
        return waited

    def add_waited(self, seconds: float) -> None:
        """Count `seconds` as waited."""
        self._waited += seconds


class Waiting:
    """Counts the time inside as waited."""

    __slots__ = ("_attempts", "_since")

    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts
        self._since = 0.0

    def __enter__(self) -> None:
        self._since = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self._attempts.add_waited(time.perf_counter() - self._since)


class Sending:
    """One request on its way; gives the `Attempt`, whose `usage` the sender sets once it is known."""

    __slots__ = ("_attempts", "_made_before", "_meter", "_request", "_reserved", "_since", "attempt")

    def __init__(
        self, attempts: Attempts, meter: Meter | None, model: str, request: ModelRequest, asked_as: str | None
    ) -> None:
        self._attempts = attempts
        self._meter = meter
        self._request = request
        self._reserved: object = None
        self._made_before = 0
        self._since = 0.0
        self.attempt = Attempt(model=model, asked_as=asked_as)

    def __enter__(self) -> Attempt:
        if self._meter is not None:
            self._reserved = self._meter.reserve(self.attempt.model, self._request)
        self.attempt.waited = self._attempts.take_waited()
        self._made_before = len(self._attempts.made)
        self._since = time.perf_counter()
        return self.attempt

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        attempt = self.attempt
        attempt.seconds = time.perf_counter() - self._since
        if len(self._attempts.made) != self._made_before:  # what was asked is a wrapper: it has told by itself
            if self._meter is not None:
                self._meter.release(self._reserved)
            return
        if error is not None:
            gone = isinstance(error, (asyncio.CancelledError, GeneratorExit))
            attempt.error = "cancelled" if gone else type(error).__name__
            if _never_answered(error):
                attempt.usage = _NO_TOKENS
        self._attempts.made.append(attempt)
        if self._meter is not None:
            self._meter.settle(self._reserved, attempt)


def _never_answered(error: BaseException) -> bool:
    """Whether the endpoint refused or failed before any model was at work; other failures may have cost tokens."""
    if isinstance(error, ModelUnavailable):
        return not isinstance(error, ConnectionLost)
    return isinstance(error, RequestRejected) or (isinstance(error, ProviderFailed) and error.status is not None)


_NO_TOKENS = Usage(calls=1, prompt_tokens=0, cached_tokens=0, completion_tokens=0)
