"""Options of a handoff."""

from __future__ import annotations

from dataclasses import dataclass

from flowdebate.chassis.options import CommonOptions

from .schemas import OnInvalid, TransitionForm


@dataclass(frozen=True, kw_only=True)
class HandoffOptions(CommonOptions):
    """Options of a handoff."""

    first: str | None
    """Name of the first speaker; None for the first one declared."""
    transition: TransitionForm
    on_invalid: OnInvalid
