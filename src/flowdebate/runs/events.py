"""What a run tells while it goes on, in order: typed events, and whatever `ctx.emit` was given.

Two kinds are kept apart. *Items* are what a block says (`TextDelta`, `ToolCalled`, `BlockAnswered`); a block's
visibility decides whether readers get them. All others are the audit, and are always there. `TextDelta` is live
only: it reaches those who listen at that moment and is not kept in `result.events`.

Events are not frozen, since making them is a good part of what a run costs; nobody changes one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

if TYPE_CHECKING:
    from flowdebate.models.usage import Usage
    from flowdebate.schemas import DebateModeratorDecision, DebateVerdict, StopReason

__all__ = (
    "BlockAnswered",
    "DebateStopped",
    "JudgeViewMade",
    "ModelCalled",
    "ModeratorDecided",
    "RoundStarted",
    "RunFinished",
    "RunStarted",
    "RunStatus",
    "TextDelta",
    "ToolCalled",
    "TurnFinished",
    "TurnStarted",
    "VerdictReached",
)

RunStatus = Literal["running", "completed", "failed", "cancelled"]


@dataclass(slots=True, kw_only=True)
class RunStarted:
    """The first event of every run."""

    kind: ClassVar[str] = "run_started"
    run_id: str
    block: str
    seed: int
    at: float
    """Seconds since the epoch."""


@dataclass(slots=True, kw_only=True)
class RunFinished:
    """The last event of every run, whatever its end."""

    kind: ClassVar[str] = "run_finished"
    run_id: str
    status: RunStatus
    usage: Usage
    seconds: float
    error: str | None = None


@dataclass(slots=True, kw_only=True)
class RoundStarted:
    """A round of a debate begins."""

    kind: ClassVar[str] = "round_started"
    round: int
    max_rounds: int


@dataclass(slots=True, kw_only=True)
class ModeratorDecided:
    """A moderator opened a round."""

    kind: ClassVar[str] = "moderator_decided"
    block: str
    decision: DebateModeratorDecision


@dataclass(slots=True, kw_only=True)
class TurnStarted:
    """A debater has the floor."""

    kind: ClassVar[str] = "turn_started"
    block: str
    round: int
    agent_name: str
    stance: str


@dataclass(slots=True, kw_only=True)
class TurnFinished:
    """A debater's argument stands in the transcript."""

    kind: ClassVar[str] = "turn_finished"
    block: str
    round: int
    agent_name: str
    stance: str


@dataclass(slots=True, kw_only=True)
class DebateStopped:
    """The last round is over; `reason` says why there is no other."""

    kind: ClassVar[str] = "debate_stopped"
    rounds: int
    reason: StopReason


@dataclass(slots=True, kw_only=True)
class JudgeViewMade:
    """What the judge is shown: `order` holds, for each place in its view, the argument's index in the transcript."""

    kind: ClassVar[str] = "judge_view_made"
    block: str
    order: tuple[int, ...]
    anonymized: bool


@dataclass(slots=True, kw_only=True)
class VerdictReached:
    """The judge has found."""

    kind: ClassVar[str] = "verdict_reached"
    block: str
    verdict: DebateVerdict


@dataclass(slots=True, kw_only=True)
class TextDelta:
    """A piece of text as the model writes it (an item; live only)."""

    kind: ClassVar[str] = "text_delta"
    block: str
    text: str


@dataclass(slots=True, kw_only=True)
class ToolCalled:
    """A model called a tool (an item)."""

    kind: ClassVar[str] = "tool_called"
    block: str
    tool: str
    arguments: str
    """JSON, as the model wrote it."""
    result: str


@dataclass(slots=True, kw_only=True)
class BlockAnswered:
    """A generator's answer: text, or the validated value (an item)."""

    kind: ClassVar[str] = "block_answered"
    block: str
    output: Any
    """What the block returned: any type, since an output schema may be of any."""
    truncated: bool = False
    """True: the model ran out of room before it was done."""


@dataclass(slots=True, kw_only=True)
class ModelCalled:
    """One call of a model, answered or failed."""

    kind: ClassVar[str] = "model_called"
    block: str
    path: str
    """The place of the call in the run."""
    model: str
    usage: Usage
    seconds: float
    error: str | None = None
