"""Typed run events, each with a `path`, a timestamp `at`, and a wire format.

*Items* are a block's utterances (`TextDelta`, `ToolCalled`, `BlockAnswered`); the block's visibility decides whether
readers receive them. All other events are always emitted, and applications may emit events of any type. `CallStarted`,
`TextDelta` and `TextWithdrawn` are live only: they reach followers of the run, but are not part of `result.events`.

Events are not frozen, because creating frozen instances would take up much of a run's time. Treat them as immutable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar
from urllib.parse import unquote

from flowdebate._text import counted
from flowdebate._util.wire import SPARSE, BaseEvent, BlockEvent
from flowdebate.models.base import Attempt, Flag, Usage
from flowdebate.models.base import CallFellBack as CallFellBack
from flowdebate.models.base import CallRetried as CallRetried
from flowdebate.models.base import CircuitChanged as CircuitChanged
from flowdebate.models.base import TextWithdrawn as TextWithdrawn
from flowdebate.models.codec import Origin
from flowdebate.runs.suspend import role_in_name
from flowdebate.store.base import RunStatus as RunStatus


@dataclass(slots=True, kw_only=True)
class RunStarted(BaseEvent):
    """First event of every run."""

    kind: ClassVar[str] = "run_started"
    run_id: str
    """ID of the run."""
    block: str
    """Name of the outermost block."""
    seed: int
    """Seed for all random draws."""


@dataclass(slots=True, kw_only=True)
class RunFinished(BaseEvent):
    """Last event of every run, regardless of how the run ended."""

    kind: ClassVar[str] = "run_finished"
    run_id: str
    """ID of the run."""
    status: RunStatus
    """Final status of the run; "awaiting" means that the run is suspended until a human answers."""
    usage: Usage
    """Usage across all calls."""
    seconds: float
    """Time spent on the run in this process, in seconds."""
    error: str | None = None
    """Class and message of the error that ended the run, or None if there was none."""


@dataclass(slots=True, kw_only=True)
class HumanAsked(BlockEvent):
    """The run requests an answer from a human.

    The answer arrives as a `BlockAnswered` event; if the run was suspended in the meantime, it arrives after the run is
    resumed.
    """

    kind: ClassVar[str] = "human_asked"
    block: str
    """Name of the human's block."""


@dataclass(slots=True, kw_only=True)
class TextDelta(BlockEvent):
    """Live-only item: text that the model has just written.

    It is emitted only if the block's visibility allows it, and is not part of `result.events`. `path` is the path of
    the call.
    """

    kind: ClassVar[str] = "text_delta"
    block: str
    """Name of the block whose model is writing the text."""
    text: str
    """The new piece of text, to be appended to earlier pieces with the same path. A `CallRetried`, `CallFellBack` or
    `TextWithdrawn` event at that path invalidates all of them.
    """


@dataclass(slots=True, kw_only=True)
class ToolCalled(BlockEvent):
    """Item emitted when a model has called a tool."""

    kind: ClassVar[str] = "tool_called"
    block: str
    """Name of the block whose model called the tool."""
    tool: str
    """Name of the tool."""
    arguments: str
    """Arguments as JSON text, exactly as the model wrote it."""
    result: str
    """Result sent to the model, as text; if the tool failed, a description of the failure."""


@dataclass(slots=True, kw_only=True)
class BlockAnswered(BlockEvent):
    """Item emitted when a generator answers with text or a validated value."""

    kind: ClassVar[str] = "block_answered"
    block: str
    """Name of the block."""
    output: Any
    """Output of the block. Its type is unrestricted, because an output schema can describe any type."""
    truncated: bool = False
    """True if the answer was cut off at the maximum length."""
    trimmed: int = field(default=0, metadata=SPARSE)
    """Number of characters removed from `output`: sentences beyond the requested number, or another speaker's turn."""
    first_counts: bool = field(default=False, metadata=SPARSE)
    """True if `output` is the first of two answers, because the second one was no better."""


@dataclass(slots=True, kw_only=True)
class CallStarted(BlockEvent):
    """A model call has started (live only).

    A `ModelCalled` event with the same path will follow. No event is emitted for an answer replayed from a store. New
    followers of a run receive this event for each call in progress.
    """

    kind: ClassVar[str] = "call_started"
    block: str
    """Name of the block making the call."""
    model: str
    """Name of the model."""


@dataclass(slots=True, kw_only=True)
class ModelCalled(BlockEvent):
    """A model call has ended, successfully or not, after all attempts."""

    kind: ClassVar[str] = "model_called"
    block: str
    """Name of the block making the call."""
    model: str
    """Name of the requested model; if a fallback model answered, its name is in `attempts`."""
    usage: Usage
    """Usage across all attempts."""
    seconds: float
    """Duration of the call in seconds, including waits."""
    error: str | None = None
    """Class and message of the error, or None if the call was answered."""
    attempts: tuple[Attempt, ...] = ()
    """Requests sent to models for this call, in order."""
    asked_as: str | None = None
    """Structured-output mode used for the request, if the model supports several."""
    flags: tuple[Flag, ...] = ()
    """Codes for anything unusual about the answer."""
    repaired: tuple[str, ...] = field(default=(), metadata=SPARSE)
    """Repairs made to a structured answer, each described in a few words, such as "code fence"."""
    replayed: bool = field(default=False, metadata=SPARSE)
    """True if the answer was recorded earlier; it counts toward usage and limits, but no new request was sent."""
    origin: Origin = field(default="asked", metadata=SPARSE)
    """Source of the answer; answers that required no request cost nothing."""


def models_by_seat(events: Iterable[object]) -> dict[str, tuple[str, ...]]:
    """Return the names of the models that answered, keyed by seat, which is a roster name, a role, or a block."""
    seats: dict[str, dict[str, None]] = {}
    for event in events:
        if isinstance(event, ModelCalled) and event.error is None:
            answered = event.attempts[-1].model if event.attempts else event.model  # a fallback model may have answered
            seats.setdefault(_seat_of(event), {})[answered] = None
    return {seat: tuple(models) for seat, models in seats.items()}


# Descriptions of the flags for readers of a result.
_REMARKS: Mapping[Flag, str] = MappingProxyType(
    {
        "prompt_cut": "after a prompt that the server probably truncated: it counted far fewer tokens than were sent",
        "unknown_finish": "with an unknown finish reason, so the answer may be incomplete",
        "without_effort": "without the configured effort, which it rejects",
        "without_max_tokens": "without the configured token limit, which it rejects",
        "without_temperature": "without the configured temperature, which it rejects",
        "without_tools": "without tools, which it rejects",
    }
)


def remarks_on(events: Iterable[object], raw: object) -> tuple[str, ...]:
    """List remarks for readers of a result: unusual calls, counted by model and kind, and repetitions.

    `raw` is the run's raw output; None if there is none.
    """
    find = getattr(raw, "find_repetitions", None)  # only the raw outputs of patterns have this method
    counts = Counter(
        (event.attempts[-1].model if event.attempts else event.model, flag)
        for event in events
        if isinstance(event, ModelCalled)
        for flag in event.flags
        if flag in _REMARKS
    )
    return (
        *(f"{model} answered {counted(count, 'call')} {_REMARKS[flag]}" for (model, flag), count in counts.items()),
        *(find() if callable(find) else ()),
    )


def _seat_of(call: ModelCalled) -> str:
    """Return the seat of a call; the block of a group member is named "{pattern}-{role}-{member}"."""
    if call.role in ("debater", "reviewer"):
        for pattern in call.path.split("/"):
            name = call.block.removeprefix(f"{unquote(pattern)}-").removeprefix("stand-in-")
            if name != call.block and role_in_name(call.block, pattern) is not None:
                return name.partition("-")[2] or call.role
    return call.role or call.block
