"""Handoff event: the choice of the next speaker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from flowdebate._util.wire import BaseEvent

from .schemas import ChosenBy


@dataclass(slots=True, kw_only=True)
class HandoffMade(BaseEvent):
    """A turn in a handoff has ended, and the next speaker has been chosen.

    If `problem` is set, the event is a warning: the speaker did not answer as required.
    """

    kind: ClassVar[str] = "handoff_made"
    round: int
    """Number of the finished turn."""
    agent_name: str
    """Name of the speaker whose turn has ended."""
    next_agent_name: str
    """Name of the next speaker."""
    chosen_by: ChosenBy
    """Way in which the next speaker was chosen."""
    problem: str | None = None
    """Problem with the speaker's first answer, such as an invalid choice, or a note that the turn was lost; None if
    there was no problem.
    """
