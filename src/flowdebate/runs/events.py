"""Events of a run, in order: typed, with `path`, `at` and a wire form; and whatever `ctx.emit` was given.

Two kinds are kept apart. *Items* are what a block says (`TextDelta`, `ToolCalled`, `BlockAnswered`); a block's
visibility decides whether readers get them. All others are the audit, and are always there. `TextDelta` is live
only: it reaches those who listen at that moment and is not kept in `result.events`.

Events are not frozen, since making them is a good part of what a run costs; nobody changes one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from flowdebate._util.wire import BaseEvent
from flowdebate.models.base import CallFellBack, CallRetried, CircuitChanged

if TYPE_CHECKING:
    from flowdebate.models.base import Flag
    from flowdebate.models.usage import Attempt, Usage

__all__ = (
    "BlockAnswered",
    "CallFellBack",
    "CallRetried",
    "CircuitChanged",
    "HumanAsked",
    "ModelCalled",
    "RunFinished",
    "RunStarted",
    "RunStatus",
    "TextDelta",
    "ToolCalled",
)

RunStatus = Literal["running", "complete", "degraded", "no_verdict", "interrupted", "limit", "failed", "awaiting"]
"""Where a run stands: under way; over as it should be; over without something that a provider lost; over without a
verdict; cancelled; ended by one of its limits; failed; waiting for what a human answers."""


@dataclass(slots=True, kw_only=True)
class RunStarted(BaseEvent):
    """The first event of every run."""

    kind: ClassVar[str] = "run_started"
    run_id: str
    block: str
    seed: int


@dataclass(slots=True, kw_only=True)
class RunFinished(BaseEvent):
    """The last event of every run, whatever its end."""

    kind: ClassVar[str] = "run_finished"
    run_id: str
    status: RunStatus
    usage: Usage
    seconds: float
    error: str | None = None


@dataclass(slots=True, kw_only=True)
class HumanAsked(BaseEvent):
    """A human is asked; the answer is a `BlockAnswered`, in a later life of the run where it waits for that."""

    kind: ClassVar[str] = "human_asked"
    block: str


@dataclass(slots=True, kw_only=True)
class TextDelta(BaseEvent):
    """A piece of text as the model writes it (an item; live only)."""

    kind: ClassVar[str] = "text_delta"
    block: str
    text: str


@dataclass(slots=True, kw_only=True)
class ToolCalled(BaseEvent):
    """A model called a tool (an item)."""

    kind: ClassVar[str] = "tool_called"
    block: str
    tool: str
    arguments: str
    """JSON, as the model wrote it."""
    result: str


@dataclass(slots=True, kw_only=True)
class BlockAnswered(BaseEvent):
    """A generator's answer: text, or the validated value (an item)."""

    kind: ClassVar[str] = "block_answered"
    block: str
    output: Any
    """What the block returned: any type, since an output schema may be of any."""
    truncated: bool = False
    """True: the model ran out of room before it was done."""


@dataclass(slots=True, kw_only=True)
class ModelCalled(BaseEvent):
    """One call of a model, answered or failed, after all attempts."""

    kind: ClassVar[str] = "model_called"
    block: str
    model: str
    usage: Usage
    """Of all attempts."""
    seconds: float
    """Waits included."""
    error: str | None = None
    attempts: tuple[Attempt, ...] = ()
    """The requests that were really sent, in order."""
    asked_as: str | None = None
    """How a structured answer was asked for, where the model knows several ways."""
    flags: tuple[Flag, ...] = ()
    """What was odd about the answer."""
