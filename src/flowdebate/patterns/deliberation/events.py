"""Deliberation event: the moderator's report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from flowdebate._util.wire import BaseEvent

from .schemas import ModeratorReport


@dataclass(slots=True, kw_only=True)
class ModeratorReported(BaseEvent):
    """A deliberation's moderator has closed a round."""

    kind: ClassVar[str] = "moderator_reported"
    output_item: ClassVar[tuple[str, str] | None] = ("report", "reports")
    block: str
    """Name of the moderator's block."""
    round: int
    """Number of the closed round, starting at 1."""
    report: ModeratorReport
    """The moderator's report on the round."""
