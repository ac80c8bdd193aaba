"""Events that all patterns emit; `path` is the place in the run of the block that emits one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from flowdebate._util.wire import BaseEvent, BlockEvent

if TYPE_CHECKING:
    from flowdebate.patterns.state import Recovery, Role, TurnOrder


@dataclass(slots=True, kw_only=True)
class RoundStarted(BaseEvent):
    """A round of a debate begins."""

    kind: ClassVar[str] = "round_started"
    round: int
    """The round, from 1."""
    max_rounds: int
    """The most rounds that there can be."""
    phase: str | None = None
    """What the round is for, in a debate with phases."""


@dataclass(slots=True, kw_only=True)
class TurnsOrdered(BaseEvent):
    """The order of a round's turns, in a pattern with another `turn_order` than the declared one."""

    kind: ClassVar[str] = "turns_ordered"
    round: int
    """The round, from 1."""
    turn_order: TurnOrder
    """The pattern's option."""
    speakers: tuple[str, ...]
    """Names in the order of their turns; with "simultaneous", the order in which they are recorded."""


@dataclass(slots=True, kw_only=True)
class TurnEvent(BlockEvent):
    """The turn of a debater or agent."""

    block: str
    """The name of the block that speaks."""
    round: int
    """The round, from 1; 0 for what comes before the first."""
    agent_name: str
    """The name of the debater or agent."""
    stance: str | None = None
    """The position that the pattern assigned to it, where it assigns any."""
    phase: str | None = None
    """The task, in a pattern that has more than one."""
    target: str | None = None
    """The author of the text that the task is about, if it is about one."""


@dataclass(slots=True, kw_only=True)
class TurnStarted(TurnEvent):
    """A debater or agent is asked to speak."""

    kind: ClassVar[str] = "turn_started"


@dataclass(slots=True, kw_only=True)
class TurnFinished(TurnEvent):
    """The text of a debater or agent is recorded."""

    kind: ClassVar[str] = "turn_finished"


@dataclass(slots=True, kw_only=True)
class RoleFailed(BlockEvent):
    """A provider failed for good, and the debate goes on without what this role should have said."""

    kind: ClassVar[str] = "role_failed"
    block: str
    """The name of the block that failed."""
    role: Role
    """The role that it has in the pattern."""
    round: int
    """The round, from 1; 0 for what comes before the first."""
    name: str
    """The debater's or agent's name; the block's for other roles."""
    error: str
    """The class of the error."""
    message: str
    """The error's message."""
    instead: Recovery
    """What happens in its place."""
    phase: str | None = None
    """The task, in a pattern that has more than one."""
    target: str | None = None
    """The author of the text that the task is about, if it is about one."""


@dataclass(slots=True, kw_only=True)
class RoundsEnded(BaseEvent):
    """The last round is over; `reason` says why there is no other, in the words of the pattern."""

    kind: ClassVar[str] = "rounds_ended"
    rounds: int
    """How many rounds there were."""
    reason: str
    """The `stop_reason` of the pattern's output."""
