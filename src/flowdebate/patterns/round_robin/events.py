"""Round robin event: the referee's audit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from flowdebate._util.wire import BaseEvent

from .schemas import RefereeAudit


@dataclass(slots=True, kw_only=True)
class RefereeReported(BaseEvent):
    """The referee of a round robin has audited a round."""

    kind: ClassVar[str] = "referee_reported"
    output_item: ClassVar[tuple[str, str] | None] = ("audit", "audits")
    block: str
    """Name of the referee's block."""
    audit: RefereeAudit
    """The referee's audit of the round."""
