"""Options of a critique."""

from __future__ import annotations

from dataclasses import dataclass

from flowdebate.chassis.options import CommonOptions


@dataclass(frozen=True, kw_only=True)
class CritiqueOptions(CommonOptions):
    """Options of a critique."""

    answer: str | None
    """The answer to criticize where the input has none; None for the author's."""
    revise: bool
    """False rejects an answer in place of a revision."""
