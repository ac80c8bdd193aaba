"""What a deliberation tells besides what every pattern tells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from flowdebate.schemas.deliberation import ModeratorReport

__all__ = ("ModeratorReported",)


@dataclass(slots=True, kw_only=True)
class ModeratorReported:
    """A moderator closed a round."""

    kind: ClassVar[str] = "moderator_reported"
    block: str
    round: int
    report: ModeratorReport
