"""Events that all patterns have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from flowdebate.patterns.state import Instead, Seat

__all__ = (
    "RoleFailed",
    "RoundStarted",
    "RoundsEnded",
    "TurnFinished",
    "TurnStarted",
)


@dataclass(slots=True, kw_only=True)
class RoundStarted:
    """A round of a debate begins."""

    kind: ClassVar[str] = "round_started"
    round: int
    max_rounds: int


@dataclass(slots=True, kw_only=True)
class TurnStarted:
    """A debater has the floor."""

    kind: ClassVar[str] = "turn_started"
    block: str
    round: int
    agent_name: str
    stance: str | None = None
    """The position that the pattern assigned to it, where it assigns any."""


@dataclass(slots=True, kw_only=True)
class TurnFinished:
    """A debater's argument stands in the transcript."""

    kind: ClassVar[str] = "turn_finished"
    block: str
    round: int
    agent_name: str
    stance: str | None = None
    """The position that the pattern assigned to it, where it assigns any."""


@dataclass(slots=True, kw_only=True)
class RoleFailed:
    """A provider failed for good, and the debate goes on without what this seat should have said."""

    kind: ClassVar[str] = "role_failed"
    block: str
    seat: Seat
    round: int
    name: str
    """The debater's name; the block's for other seats."""
    error: str
    """The class of the error."""
    message: str
    instead: Instead


@dataclass(slots=True, kw_only=True)
class RoundsEnded:
    """The last round is over; `reason` says why there is no other, in the words of the pattern."""

    kind: ClassVar[str] = "rounds_ended"
    rounds: int
    reason: str
