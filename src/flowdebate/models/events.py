"""Events of model calls: retries, fallbacks, circuit breakers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from flowdebate._util.wire import BaseEvent

__all__ = (
    "CallFellBack",
    "CallRetried",
    "CircuitChanged",
)


@dataclass(slots=True, kw_only=True)
class CallRetried(BaseEvent):
    """A call failed and is retried after `wait` seconds; text that it has streamed so far does not count."""

    kind: ClassVar[str] = "call_retried"
    block: str
    model: str | None
    attempt: int
    """Number of the request that follows, from 2."""
    error: str
    """Class name of the error."""
    message: str
    wait: float


@dataclass(slots=True, kw_only=True)
class CallFellBack(BaseEvent):
    """A model failed for good and a fallback is asked; text that the first has streamed does not count."""

    kind: ClassVar[str] = "call_fell_back"
    block: str
    model: str
    """The failed model."""
    to: str
    """The fallback model."""
    error: str
    """Class name of the error."""
    message: str


@dataclass(slots=True, kw_only=True)
class CircuitChanged(BaseEvent):
    """A circuit breaker changed its state."""

    kind: ClassVar[str] = "circuit_changed"
    block: str
    model: str
    before: Literal["closed", "open", "half_open"]
    after: Literal["closed", "open", "half_open"]
