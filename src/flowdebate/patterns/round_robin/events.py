"""What a panel tells besides what every pattern tells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from flowdebate.schemas.panel import RefereeAudit

__all__ = ("RefereeReported",)


@dataclass(slots=True, kw_only=True)
class RefereeReported:
    """A referee audited a round."""

    kind: ClassVar[str] = "referee_reported"
    block: str
    audit: RefereeAudit
