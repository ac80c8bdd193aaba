"""Typed events of runs, each with a `path`, a time `at`, and a wire form.

*Items* are a block's utterances (`TextDelta`, `ToolCalled`, `BlockAnswered`); the block's visibility decides whether
readers get them. All other events are always emitted, and applications may emit events of any type. `CallStarted`,
`TextDelta` and `TextWithdrawn` are live only: they reach followers of the run, but are not part of `result.events`.

Events are not frozen, because creating frozen instances would take a large share of a run's time. Treat them as
immutable.
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
    """The first event of every run."""

    kind: ClassVar[str] = "run_started"
    run_id: str
    """The run's id."""
    block: str
    """The name of the outermost block."""
    seed: int
    """The seed of all random draws."""


@dataclass(slots=True, kw_only=True)
class RunFinished(BaseEvent):
    """The last event of every run, however it ended."""

    kind: ClassVar[str] = "run_finished"
    run_id: str
    """The run's id."""
    status: RunStatus
    """Status at the end of the run; "awaiting": it is suspended until a human answers."""
    usage: Usage
    """Usage of all calls."""
    seconds: float
    """Duration in this process."""
    error: str | None = None
    """The class and message of the error that ended it; None if there is none."""


@dataclass(slots=True, kw_only=True)
class HumanAsked(BlockEvent):
    """A human is asked; the answer is a `BlockAnswered`, after a resume if the run was suspended for it."""

    kind: ClassVar[str] = "human_asked"
    block: str
    """The name of the human's block."""


@dataclass(slots=True, kw_only=True)
class TextDelta(BlockEvent):
    """A piece of text as the model writes it (an item; live only); its path is the path of the call."""

    kind: ClassVar[str] = "text_delta"
    block: str
    """Name of the block whose model writes the text."""
    text: str
    """The piece, to be put behind the others with this path; a `CallRetried`, `CallFellBack` or `TextWithdrawn` there
    voids them.
    """


@dataclass(slots=True, kw_only=True)
class ToolCalled(BlockEvent):
    """A model called a tool (an item)."""

    kind: ClassVar[str] = "tool_called"
    block: str
    """Name of the block whose model called the tool."""
    tool: str
    """The tool's name."""
    arguments: str
    """JSON, as the model wrote it."""
    result: str
    """The text of the result sent to the model; after a failure it says so."""


@dataclass(slots=True, kw_only=True)
class BlockAnswered(BlockEvent):
    """A generator's answer: text, or the validated value (an item)."""

    kind: ClassVar[str] = "block_answered"
    block: str
    """The block's name."""
    output: Any
    """The block's output: any type, since an output schema may be of any."""
    truncated: bool = False
    """True if the answer reached the maximum length before its end."""
    trimmed: int = field(default=0, metadata=SPARSE)
    """Number of characters after the requested sentences; they are not part of `output`."""
    first_counts: bool = field(default=False, metadata=SPARSE)
    """True if the answer was asked for once more, and the first one is `output`, since the further one is no better."""


@dataclass(slots=True, kw_only=True)
class CallStarted(BlockEvent):
    """A model is asked; `ModelCalled` with the same path follows (live only).

    An answer replayed from a store is not announced. New followers of a run get the calls in progress.
    """

    kind: ClassVar[str] = "call_started"
    block: str
    """Name of the calling block."""
    model: str
    """The model's name."""


@dataclass(slots=True, kw_only=True)
class ModelCalled(BlockEvent):
    """One call of a model, answered or failed, after all attempts."""

    kind: ClassVar[str] = "model_called"
    block: str
    """Name of the calling block."""
    model: str
    """The model's name; a fallback's is in `attempts`."""
    usage: Usage
    """Usage of all attempts."""
    seconds: float
    """Waits included."""
    error: str | None = None
    """The class and message of the error; None for an answer."""
    attempts: tuple[Attempt, ...] = ()
    """The requests sent, in order."""
    asked_as: str | None = None
    """The structured-output mode of the request, if the model has several."""
    flags: tuple[Flag, ...] = ()
    """Oddities of the answer."""
    repaired: tuple[str, ...] = field(default=(), metadata=SPARSE)
    """Repairs of a structured answer, in words such as "code fence"."""
    replayed: bool = field(default=False, metadata=SPARSE)
    """True if the answer was recorded earlier: usage and limits count it, but nobody was asked now."""
    origin: Origin = field(default="asked", metadata=SPARSE)
    """Source of the answer. Answers without a request cost nothing."""


def models_by_seat(events: Iterable[object]) -> dict[str, tuple[str, ...]]:
    """Return the names of the models that answered, keyed by seat: a name on the roster, a role, or a block."""
    seats: dict[str, dict[str, None]] = {}
    for event in events:
        if isinstance(event, ModelCalled) and event.error is None:
            answered = event.attempts[-1].model if event.attempts else event.model  # a fallback model may have answered
            seats.setdefault(_seat_of(event), {})[answered] = None
    return {seat: tuple(models) for seat, models in seats.items()}


# The flags in prose, for readers of a result.
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
    """List remarks for a result's readers: on oddities in its calls, grouped by model and kind, and on repetitions.

    `raw` is the run's raw output; None if it has none.
    """
    find = getattr(raw, "find_repetitions", None)  # only the outputs of patterns have this method
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
