"""Usage of model calls: tokens, and each request that was sent for a call, with its time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from random import Random
from typing import TYPE_CHECKING, Protocol

from flowdebate._util.json_data import SPARSE
from flowdebate.errors import ConnectionLost, ModelUnavailable, ProviderFailed, RequestRejected

if TYPE_CHECKING:
    from types import TracebackType

    from flowdebate.models.base import ModelRequest


IMAGE_TOKENS = 1_600
"""Tokens of an image, roughly: the most that Anthropic counts for one; others count fewer."""


def estimate_tokens(characters: int) -> int:
    """Estimate the tokens of a text of `characters` length, for servers that report none: four characters each.

    >>> estimate_tokens(400)
    100
    """
    return characters // 4


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Usage:
    """Calls and tokens of one or many calls; None means unknown, which is not 0.

    >>> Usage(calls=1, prompt_tokens=10, cached_tokens=4, completion_tokens=2) + Usage(calls=1)
    Usage(calls=2, prompt_tokens=None, cached_tokens=None, completion_tokens=None)
    """

    calls: int = 0
    """Requests that were sent."""
    prompt_tokens: int | None = None
    """Prompt tokens, cached ones included."""
    cached_tokens: int | None = None
    """Prompt tokens that the server took from its cache."""
    completion_tokens: int | None = None
    """Tokens of the answers, those of thinking included."""
    reasoning_tokens: int | None = field(default=None, metadata=SPARSE)
    """Completion tokens that the model has only thought."""
    cache_written_tokens: int | None = field(default=None, metadata=SPARSE)
    """Prompt tokens that the server wrote into its cache, where it asks money for that."""

    def __repr__(self) -> str:
        counts = [(each.name, getattr(self, each.name)) for each in fields(self)]
        shown = [f"{name}={count}" for place, (name, count) in enumerate(counts) if place < _ALWAYS or count]
        return f"Usage({', '.join(shown)})"

    @classmethod
    def unknown(cls) -> Usage:
        """Return the usage of one call whose server reports no tokens."""
        return _UNKNOWN

    @classmethod
    def none(cls) -> Usage:
        """Return the usage of no call."""
        return _NONE

    @property
    def total_tokens(self) -> int | None:
        """Prompt and completion tokens together."""
        if self.prompt_tokens is None or self.completion_tokens is None:
            return None
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: Usage) -> Usage:
        """Add two usages; a part that is unknown on either side is unknown."""
        if not self.calls:
            return other
        if not other.calls:
            return self
        parts = {}
        for name in _PARTS:  # with each event: a function of it would cost more than the sum
            one, two = getattr(self, name), getattr(other, name)
            parts[name] = None if one is None or two is None else one + two
        return Usage(calls=self.calls + other.calls, **parts)


_PARTS = ("prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens", "cache_written_tokens")
_ALWAYS = 4  # counts that are shown also where they are unknown

# frozen, so that every call may share them
_NONE = Usage(
    calls=0, prompt_tokens=0, cached_tokens=0, completion_tokens=0, reasoning_tokens=0, cache_written_tokens=0
)
_UNKNOWN = Usage(calls=1)
_NO_TOKENS = replace(_NONE, calls=1)


@dataclass(slots=True, kw_only=True)
class Attempt:
    """One request sent to a model, answered or not."""

    model: str
    """The model's name."""
    asked_as: str | None = None
    """Structured mode of the request; None for text, and where the model does not say."""
    waited: float = 0.0
    """Seconds of waiting before it was sent: for a retry, a rate limit, a concurrency limit."""
    seconds: float = 0.0
    """Seconds from sending to the end."""
    usage: Usage = _UNKNOWN
    """One call, and its tokens if the server reports them."""
    error: str | None = None
    """Class name of the error, "cancelled" for a cancelled request; None for an answer."""


def total_usage(attempts: Sequence[Attempt]) -> Usage:
    """Sum up the usage of `attempts`."""
    if len(attempts) == 1:
        return attempts[0].usage
    total = Usage.none()
    for attempt in attempts:
        total += attempt.usage
    return total


class Meter(Protocol):
    """Counter of requests against a run's limits."""

    def reserve(self, model: str, request: ModelRequest) -> object:
        """Reserve a request that is about to be sent; raise LimitReached if it may not be."""

    def settle(self, reserved: object, attempt: Attempt) -> None:
        """Replace a reservation by the attempt's actual usage."""

    def release(self, reserved: object) -> None:
        """Release the reservation of a request that was never sent."""


class Attempts:
    """Attempts of one call, in order; the request carries them through all wrappers."""

    __slots__ = ("_meter", "_random", "_seed", "_tell", "made", "server", "waited")

    def __init__(
        self, *, meter: Meter | None = None, tell: Callable[[object], None] | None = None, seed: object = None
    ) -> None:
        self.made: list[Attempt] = []
        self.server: str | None = None
        """Address that was asked last, without anything secret; None for a model that does not say."""
        self._meter = meter
        self._tell = tell
        self._seed = seed
        self.waited: float = 0.0
        self._random: Random | None = None

    def belong_to(self, *, meter: Meter | None, tell: Callable[[object], None] | None, seed: object) -> Attempts:
        """Bind to a run: its limits, its event readers and its seed. Returns itself."""
        self._meter, self._tell, self._seed = meter, tell, seed
        return self

    def sending(self, model: str, request: ModelRequest, *, asked_as: str | None = None) -> Sending:
        """Account for one request: `with attempts.sending(...) as attempt:`; LimitReached beyond the run's limits."""
        return Sending(self, self._meter, model, request, asked_as)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count the time inside as waiting for the next request: `with attempts.waiting():`."""
        since = time.perf_counter()
        try:
            yield
        finally:
            self.waited += time.perf_counter() - since

    @contextmanager
    def listening(self) -> Iterator[list[object]]:
        """Collect the events that are emitted inside, which the run's readers get as well."""
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
        """Pass `event` to the run's readers."""
        if self._tell is not None:
            self._tell(event)

    @property
    def random(self) -> Random:
        """Source of jitter, seeded by the call's place in the run, so that it is repeatable."""
        if self._random is None:
            self._random = Random(None if self._seed is None else str(self._seed))  # noqa: S311 - jitter
        return self._random

    @property
    def usage(self) -> Usage:
        """Usage of all attempts together."""
        return total_usage(self.made)


class Sending:
    """Context manager around one request; yields its `Attempt`, whose `usage` the sender sets once it is known.

    A class, since it is on the path of every call: `contextmanager` takes five times as long.
    """

    __slots__ = ("_attempts", "_made_before", "_meter", "_request", "_reserved", "_since", "attempt")

    def __init__(
        self, attempts: Attempts, meter: Meter | None, model: str, request: ModelRequest, asked_as: str | None
    ) -> None:
        self._attempts = attempts
        self._meter = meter
        self._request = request
        self.attempt: Attempt = Attempt(model=model, asked_as=asked_as)

    def __enter__(self) -> Attempt:
        if self._meter is not None:
            self._reserved: object = self._meter.reserve(self.attempt.model, self._request)
        self.attempt.waited, self._attempts.waited = self._attempts.waited, 0.0
        self._made_before = len(self._attempts.made)
        self._since = time.perf_counter()
        return self.attempt

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        attempt = self.attempt
        attempt.seconds = time.perf_counter() - self._since
        if len(self._attempts.made) != self._made_before:
            # it was sent through an application's own wrapper, whose inner model has recorded it already
            if self._meter is not None:
                self._meter.release(self._reserved)
            return
        if error is not None:
            gone = isinstance(error, (asyncio.CancelledError, GeneratorExit))
            attempt.error = "cancelled" if gone else type(error).__name__
            # the endpoint failed before any model ran; other failures may have cost tokens
            unreachable = isinstance(error, ModelUnavailable) and not isinstance(error, ConnectionLost)
            refused = isinstance(error, ProviderFailed) and error.status is not None
            if unreachable or refused or isinstance(error, RequestRejected):
                attempt.usage = _NO_TOKENS
        self._attempts.made.append(attempt)
        if self._meter is not None:
            self._meter.settle(self._reserved, attempt)
