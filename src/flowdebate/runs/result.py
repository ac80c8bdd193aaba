"""Views of runs: results, handles, and iterators over a run's events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Self, SupportsIndex, cast

from typing_extensions import TypeVar

from flowdebate._text import pickles, short_repr
from flowdebate._util.importing import InNotebooks
from flowdebate.resources.resource import StateHandle
from flowdebate.resources.tasks import TaskCollection
from flowdebate.runs.events import models_by_seat, remarks_on

if TYPE_CHECKING:
    from flowdebate.models.base import Usage
    from flowdebate.runs.run import Run
    from flowdebate.runs.session import Session
    from flowdebate.runs.suspend import HumanRequest
    from flowdebate.store.base import RunStatus, Store


OutT_co = TypeVar("OutT_co", covariant=True)
RawT_co = TypeVar("RawT_co", covariant=True, default=Any)
HandleT = TypeVar("HandleT")


class RunView(InNotebooks, Generic[RawT_co]):
    """Read-only view of a run, whether in progress or finished."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> str | tuple[Any, ...]:
        if not pickles(vars(self)):
            raise TypeError(
                f"this {type(self).__name__} cannot be copied or pickled, because its run contains objects that "
                "cannot be pickled. Use its `output` or `raw`. If the run is in a store, you can also read or resume "
                "it there by its `run_id`"
            )
        return super().__reduce_ex__(protocol)

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self._run.run_id

    @property
    def seed(self) -> int:
        """Seed for all random draws; pass it as `seed=` to reproduce the draws in another run."""
        return self._run.seed

    @property
    def store(self) -> Store | None:
        """Store of a durable run; None if the run is not durable."""
        return None if self._run.journal is None else self._run.journal.store

    @property
    def session(self) -> Session:
        """The run's session."""
        return self._run.session

    @property
    def status(self) -> RunStatus:
        """Status of the run: "running", "complete", or the reason why the run ended early."""
        return self._run.status

    @property
    def usage(self) -> Usage:
        """Call and token counts so far."""
        return self._run.usage

    @property
    def models(self) -> Mapping[str, tuple[str, ...]]:
        """Names of the models that have answered so far, keyed by seat: a name on the roster, a role, or a block."""
        return models_by_seat(self.events)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Remarks on the run, such as a note that a model rejected a setting or that wording was repeated."""
        return remarks_on(self.events, self.raw)

    @property
    def cost(self) -> float | None:
        """Cost so far, based on the limits' `prices` or the built-in prices; None if the prices are unknown."""
        return None if self._run.budget is None else self._run.budget.cost

    @property
    def prices(self) -> str | None:
        """Unit of `cost` and source of the prices; None if there is no cost.

        The value is, for example, "USD by genai-prices 0.2.3 of 2026-11-09" or "by given prices".
        """
        return None if self._run.budget is None else self._run.budget.prices

    def cost_of(self, model: str, usage: Usage) -> float | None:
        """Return the cost of `usage` for the named `model`; return None if the price or number of tokens is unknown."""
        if self._run.budget is None or usage.total_tokens is None:
            return None
        return self._run.budget.price_of(model, usage)

    @property
    def parent_labels(self) -> Mapping[str, str]:
        """Labels of the parent run; empty if this run is not a fork, or if the parent no longer exists."""
        return {} if self._run.journal is None else self._run.journal.parent_labels

    @property
    def events(self) -> Sequence[object]:
        """Events so far, in order, excluding live-only events."""
        return self._run.records.events

    @property
    def calls_in_progress(self) -> Sequence[object]:
        """Model calls in progress, each represented by its `CallStarted` event."""
        return tuple(self._run.records.calls.values())

    @property
    def seconds(self) -> float:
        """Duration so far in seconds, or the total duration once the run has ended."""
        return self._run.seconds

    @property
    def raw(self) -> RawT_co:
        """Raw output of the pattern (for example, a `DebateRawOutput`); None if there is none yet."""
        return cast("RawT_co", self._run.raw_output)

    @property
    def raw_so_far(self) -> Any:  # noqa: ANN401 - each pattern has a raw output of its own type
        """Raw output of the run, or what it would be if the run ended now; None until a pattern has started."""
        return self._run.partial_output(self.status)

    @property
    def pending(self) -> tuple[HumanRequest, ...]:
        """Pending requests from a suspended run (status "awaiting"), to be answered with `submit_answer`."""
        return () if self._run.journal is None else self._run.journal.pending

    @property
    def limit(self) -> str | None:
        """Name of the limit that the run has reached (a field of `Limits`); None if no limit has been reached."""
        raised = None if self._run.budget is None else self._run.budget.raised
        return raised[-1].kind if raised else None

    @property
    def task_collections(self) -> list[TaskCollection]:
        """All of the run's audit trails, in the order in which they were opened."""
        return [handle for _, handle in self._run.opened if isinstance(handle, TaskCollection)]

    @property
    def tasks(self) -> TaskCollection:
        """The run's audit trail: the `TaskCollection` of the outermost pattern (of the last, if there are several).

        Raises LookupError if no block has an audit trail. For all audit trails, use `task_collections`.
        """
        trails = [(depth, handle) for depth, handle in self._run.opened if isinstance(handle, TaskCollection)]
        return self._outermost(trails, "TaskCollection")

    @property
    def transcript(self) -> Any:  # noqa: ANN401 - each pattern has a transcript of its own type
        """The outermost pattern's transcript so far (the last pattern's, if there are several).

        Raises LookupError if there is none.
        """
        states = [(depth, handle) for depth, handle in self._run.opened if isinstance(handle, StateHandle)]
        transcripts = [(depth, handle) for depth, handle in states if handle.resource.key == "transcript"]
        return self._outermost(transcripts, "transcript").state

    def _outermost(self, handles: Sequence[tuple[int, HandleT]], what: str) -> HandleT:
        if not handles:
            message = f"run {self.run_id} has no {what}"
            raise LookupError(message)
        top = min(depth for depth, _ in handles)
        return [handle for depth, handle in handles if depth == top][-1]


class RunResult(RunView[RawT_co], Generic[OutT_co, RawT_co]):
    """Result of a finished run."""

    def __init__(self, run: Run, output: OutT_co) -> None:
        super().__init__(run)
        self.output = output
        """The block's output; None for a debate that is waiting for a human, or was cut short by a limit or a failed
        judge (see `status`).
        """

    def __repr__(self) -> str:
        line = getattr(self.raw, "incomplete", None)  # only the outputs of patterns have this attribute
        return f"<RunResult {self.run_id} {self.status}{f' ({line})' if line else ''} output={short_repr(self.output)}>"


class RunHandle(RunView[RawT_co | None], Generic[OutT_co, RawT_co]):
    """A run in progress: iterate over it for events, await it for the result, cancel it, or inspect it at any time.

    If the run fails, `await handle` raises its error, while iteration simply ends. Several readers may iterate at once,
    each receiving all events.
    """

    def __init__(self, run: Run, task: asyncio.Task[RunResult[OutT_co, RawT_co]]) -> None:
        super().__init__(run)
        self._task = task

    def __await__(self) -> Generator[Any, None, RunResult[OutT_co, RawT_co]]:
        return self._task.__await__()

    async def started(self) -> None:
        """Wait until the first block starts executing; by then, a durable run is in its store.

        Raises the run's error if the run fails to start.
        """
        waiting = asyncio.ensure_future(self._run.started.wait())
        try:
            await asyncio.wait({waiting, self._task}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if not self._run.started.is_set():
            await self._task

    def cancel(self) -> None:
        """Cancel the run and its model calls; `await handle` then raises CancelledError."""
        self._task.cancel()
        if not self._run.acting:  # a task cancelled before it starts cannot report the end of the run
            self._run.end("interrupted")

    def done(self) -> bool:
        """Return whether the run is over."""
        return self._task.done()

    def result_if_done(self) -> RunResult[OutT_co, RawT_co] | None:
        """Return the result of a finished run; None if the run is in progress, or if it failed or was cancelled."""
        if not self._task.done() or self._task.cancelled() or self._task.exception() is not None:
            return None
        return self._task.result()

    async def wait(self, seconds: float | None = None) -> None:
        """Wait until the run has ended, for any reason, or until `seconds` have passed."""
        await asyncio.wait({self._task}, timeout=seconds)

    def listen(self, listener: Callable[[object], None]) -> None:
        """Call `listener` with each event so far, and then with each new event as it happens."""
        for event in (*self._run.records.events, *self._run.records.calls.values()):
            listener(event)
        self._run.records.subscribe(listener)

    def on_end(self, call: Callable[[], object]) -> None:
        """Call `call` once the run is over; if the run fails, its error then counts as handled."""
        # Calling `exception` marks the exception as retrieved; otherwise, asyncio would log an error when nobody awaits
        # the handle.
        self._task.add_done_callback(lambda task: (task.cancelled() or task.exception(), call()))

    def follow(self) -> RunEvents:
        """Start following the run; the events may be read later or in a different task.

        The reader receives past events first. A reader created before the run's first action misses no text.
        """
        return RunEvents(self._run, self._task)

    def __aiter__(self) -> RunEvents:
        return self.follow()


class RunEvents:
    """Iterator over a run's events, in order, for one reader: `async for event in handle.follow()`.

    The iteration ends with the run.
    """

    def __init__(self, run: Run, task: asyncio.Task[Any]) -> None:
        unread: asyncio.Queue[object] = asyncio.Queue()
        for event in (*run.records.events, *run.records.calls.values()):
            unread.put_nowait(event)
        self._unread = unread
        self._records = run.records
        self._task = task
        # The run refers to the queue but not to its reader, so an abandoned reader is freed and stops following.
        self._end = lambda _: unread.put_nowait(_END)
        run.records.subscribe(unread.put_nowait)
        task.add_done_callback(self._end)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> object:
        event = await self._unread.get()
        if event is _END:
            self.close()
            raise StopAsyncIteration
        return event

    def close(self) -> None:
        """Stop following the run; this happens automatically when the reader is garbage-collected."""
        self._records.unsubscribe(self._unread.put_nowait)
        self._task.remove_done_callback(self._end)
        self._unread.put_nowait(_END)  # keep the marker for further iterations

    async def aclose(self) -> None:
        """Stop following the run; this method exists for use with `contextlib.aclosing`."""
        self.close()

    def __del__(self) -> None:
        self.close()


_END = object()
"""Marker after the last event."""
