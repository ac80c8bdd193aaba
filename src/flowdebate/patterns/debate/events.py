"""Events that only a debate has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from flowdebate.patterns.debate.schemas import DebateModeratorDecision, DebateVerdict

__all__ = (
    "JudgeViewMade",
    "ModeratorDecided",
    "VerdictReached",
)


@dataclass(slots=True, kw_only=True)
class ModeratorDecided:
    """A moderator opened a round."""

    kind: ClassVar[str] = "moderator_decided"
    block: str
    decision: DebateModeratorDecision


@dataclass(slots=True, kw_only=True)
class JudgeViewMade:
    """What the judge is shown: `order` holds, for each place in its view, the argument's index in the transcript."""

    kind: ClassVar[str] = "judge_view_made"
    block: str
    order: tuple[int, ...]
    anonymized: bool
    view: int = 0
    """Which view of the judge's schedule it is."""
    model: str | None = None
    """The model of a panel that is shown it; None for the judge's own."""


@dataclass(slots=True, kw_only=True)
class VerdictReached:
    """The judge has found."""

    kind: ClassVar[str] = "verdict_reached"
    block: str
    verdict: DebateVerdict
