"""Debate events: a moderator's decision, the start of a mirrored debate, a view for the judge, and the verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from flowdebate._util.wire import BaseEvent

from .schemas import DebateModeratorDecision, DebateVerdict


@dataclass(slots=True, kw_only=True)
class ModeratorDecided(BaseEvent):
    """A debate's moderator has opened a round."""

    kind: ClassVar[str] = "moderator_decided"
    output_item: ClassVar[tuple[str, str] | None] = ("decision", "moderator_decisions")
    block: str
    """Name of the moderator's block."""
    decision: DebateModeratorDecision
    """The moderator's decision, including the round it opens."""


@dataclass(slots=True, kw_only=True)
class MirrorStarted(BaseEvent):
    """The debate is starting again, with the speaking order reversed."""

    kind: ClassVar[str] = "mirror_started"
    block: str
    """Name of the mirrored debate's block, used in the paths of its events."""


@dataclass(slots=True, kw_only=True)
class JudgeViewMade(BaseEvent):
    """A view of the transcript was created for a debate's judge."""

    kind: ClassVar[str] = "judge_view_made"
    block: str
    """Name of the judge's block."""
    order: tuple[int, ...]
    """Transcript indexes of the arguments, in the order shown in the view."""
    anonymized: bool
    """True if names are hidden in the view."""
    view: int = 0
    """Index of the view in the judge's schedule, starting at 0."""
    model: str | None = None
    """Panel model that reads this view; None for the judge's own model."""


@dataclass(slots=True, kw_only=True)
class VerdictReached(BaseEvent):
    """A debate's judge has reached a verdict."""

    kind: ClassVar[str] = "verdict_reached"
    output_item: ClassVar[tuple[str, str] | None] = ("verdict", "verdict")
    block: str
    """Name of the judge's block."""
    verdict: DebateVerdict
    """The verdict and the ballots it is based on."""
