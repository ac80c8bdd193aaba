"""Event emitted by a council when a member has reviewed the answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from flowdebate._util.wire import BaseEvent

from .schemas import CouncilReview


@dataclass(slots=True, kw_only=True)
class ReviewFinished(BaseEvent):
    """A member of a council has ranked the answers."""

    kind: ClassVar[str] = "review_finished"
    block: str
    """Name of the reviewing block."""
    review: CouncilReview
    """The ranking, together with the order in which the member saw the answers."""
