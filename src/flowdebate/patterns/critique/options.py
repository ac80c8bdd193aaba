"""Options for a critique."""

from __future__ import annotations

from dataclasses import dataclass

from flowdebate.chassis.options import CommonOptions


@dataclass(frozen=True, kw_only=True)
class CritiqueOptions(CommonOptions):
    """Options for a critique."""

    answer: str | None
    """Answer to criticize if the input contains none, or None to have the author write one."""
    revise: bool
    """False to reject an answer instead of revising it."""
