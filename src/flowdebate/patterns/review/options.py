"""Options for a review."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flowdebate.chassis.options import CommonOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .schemas import FindingDraft


@dataclass(frozen=True, kw_only=True)
class ReviewOptions(CommonOptions):
    """Options for a review."""

    gate: str | None
    """Rules that the findings must satisfy, or None if there is no gate."""
    earlier: Sequence[FindingDraft] | None
    """Findings confirmed by an earlier review."""
