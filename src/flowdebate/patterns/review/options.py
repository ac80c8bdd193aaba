"""Options of a review."""

from __future__ import annotations

from dataclasses import dataclass

from flowdebate.chassis.options import CommonOptions


@dataclass(frozen=True, kw_only=True)
class ReviewOptions(CommonOptions):
    """Options of a review."""

    gate: str | None
    """Rules that the findings must hold; None for no gate."""
