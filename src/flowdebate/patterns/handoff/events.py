"""What a handoff tells besides what every pattern tells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from flowdebate.schemas.handoff import ChosenBy

__all__ = ("HandedOver",)


@dataclass(slots=True, kw_only=True)
class HandedOver:
    """A turn is over, and it is decided who speaks next.

    With a `problem` it is a warning: the speaker did not choose as it should.
    """

    kind: ClassVar[str] = "handed_over"
    round: int
    """The turn that is over."""
    agent_name: str
    """Whose turn it was."""
    next_agent_name: str
    chosen_by: ChosenBy
    problem: str | None = None
    """Why the speaker's first choice did not count."""
