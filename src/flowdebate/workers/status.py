"""Where a run stands that was given to workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flowdebate.store.base import StoredStatus

__all__ = (
    "DELIVERIES",
    "Delivery",
    "Standing",
)

Delivery: TypeAlias = Literal["waiting", "taken", "done", "failed", "cancelled"]
"""Where a run's last delivery stands: no worker has it; one has; it is over, failed, or called off."""

DELIVERIES: Mapping[str, Delivery] = {
    "ENQUEUED": "waiting",
    "DELAYED": "waiting",
    "PENDING": "taken",
    "SUCCESS": "done",
    "CANCELLED": "cancelled",
    "ERROR": "failed",
    "MAX_RECOVERY_ATTEMPTS_EXCEEDED": "failed",
}
"""The engine's words for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a run stands: what the store says of it, and what the queue does."""

    run_id: str
    status: StoredStatus
    """As the store has it: "queued" until a worker begins it."""
    owned: bool
    """Whether somebody carries it out at this moment."""
    steps: int
    """How many of its steps are finished."""
    outcome: Mapping[str, Any] | None
    """How it ended: `output`, `raw`, `usage`, `seconds` and `error`. None before."""
    delivery: Delivery | None
    """None for a run that was never put on the queue."""
    worker: str | None
    """Who took the last delivery: "machine:process:number"."""
    problem: str | None
    """Why a worker left the run alone."""

    @property
    def over(self) -> bool:
        """Whether nothing more comes unless somebody asks for it."""
        if self.status in ("queued", "running"):
            return self.delivery in ("failed", "cancelled") and not self.owned
        return True
