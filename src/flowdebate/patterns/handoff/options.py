"""Options for a handoff."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flowdebate.chassis.options import CommonOptions

if TYPE_CHECKING:
    from .schemas import OnInvalid, TransitionForm


@dataclass(frozen=True, kw_only=True)
class HandoffOptions(CommonOptions):
    """Options for a handoff."""

    first: str | None
    """Name of the first speaker; None selects the first debater in declared order."""
    transition: TransitionForm
    on_invalid: OnInvalid
