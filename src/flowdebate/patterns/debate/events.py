"""Events of a debate: the moderator's decisions, the mirror, the judge's views and the verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from flowdebate._util.wire import BaseEvent

from .schemas import DebateModeratorDecision, DebateVerdict


@dataclass(slots=True, kw_only=True)
class ModeratorDecided(BaseEvent):
    """The moderator of a debate opened a round."""

    kind: ClassVar[str] = "moderator_decided"
    output_item: ClassVar[tuple[str, str] | None] = ("decision", "moderator_decisions")
    block: str
    """The moderator's block."""
    decision: DebateModeratorDecision
    """The decision, with its round."""


@dataclass(slots=True, kw_only=True)
class MirrorStarted(BaseEvent):
    """The debate is held again, with the order of speakers reversed."""

    kind: ClassVar[str] = "mirror_started"
    block: str
    """Block of the mirrored debate, contained in the paths of its events."""


@dataclass(slots=True, kw_only=True)
class JudgeViewMade(BaseEvent):
    """A view of the transcript was made for a debate's judge."""

    kind: ClassVar[str] = "judge_view_made"
    block: str
    """The judge's block."""
    order: tuple[int, ...]
    """Indexes of arguments in the transcript, one for each place in the view."""
    anonymized: bool
    """True if names are hidden in the view."""
    view: int = 0
    """The number of the view in the judge's schedule, from 0."""
    model: str | None = None
    """The model of a panel of judges reading the view; None for the judge's own model."""


@dataclass(slots=True, kw_only=True)
class VerdictReached(BaseEvent):
    """The judge of a debate reached its verdict."""

    kind: ClassVar[str] = "verdict_reached"
    output_item: ClassVar[tuple[str, str] | None] = ("verdict", "verdict")
    block: str
    """The judge's block."""
    verdict: DebateVerdict
    """The verdict, with the ballots behind it."""
