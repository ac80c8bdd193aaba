"""What happens while a model is asked, as events of the run that asks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

__all__ = (
    "CallFellBack",
    "CallRetried",
    "CircuitChanged",
)


@dataclass(slots=True, kw_only=True)
class CallRetried:
    """A call failed, and is made again after `wait` seconds; text that it streamed so far does not count."""

    kind: ClassVar[str] = "call_retried"
    block: str
    model: str | None
    attempt: int
    """The number of the request that comes now, from 2."""
    error: str
    """The class of the error."""
    message: str
    wait: float


@dataclass(slots=True, kw_only=True)
class CallFellBack:
    """A model failed for good, and the next one is asked; text that the first streamed does not count."""

    kind: ClassVar[str] = "call_fell_back"
    block: str
    model: str
    """The one that failed."""
    to: str
    """The one that is asked now."""
    error: str
    """The class of the error."""
    message: str


@dataclass(slots=True, kw_only=True)
class CircuitChanged:
    """A circuit breaker changed its state."""

    kind: ClassVar[str] = "circuit_changed"
    block: str
    model: str
    before: Literal["closed", "open", "half_open"]
    after: Literal["closed", "open", "half_open"]
