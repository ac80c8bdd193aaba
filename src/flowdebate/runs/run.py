"""Run: identity, events, usage, and the single boundary for impure steps."""

from __future__ import annotations

import asyncio
import json
import logging
import time
import warnings
from contextlib import AsyncExitStack
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from flowdebate._util.wire import BaseEvent
from flowdebate.errors import FlowDebateWarning, LimitReached, ModelError, error_text
from flowdebate.models import call
from flowdebate.models.codec import attempts_of, attempts_text, call_text, digest_of, read_call
from flowdebate.models.usage import Usage, total_usage
from flowdebate.runs.context import Context, Scope
from flowdebate.runs.durable.journal import failed_text
from flowdebate.runs.events import ModelCalled, RunFinished, RunStarted
from flowdebate.runs.limits import Budget

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from flowdebate.models.base import Model, ModelRequest, ModelResponse
    from flowdebate.models.resolve import ModelResolver
    from flowdebate.models.usage import Attempt
    from flowdebate.resources.resource import Resource, StateHandle, StateResource
    from flowdebate.runs.durable.journal import Journal
    from flowdebate.runs.events import RunStatus
    from flowdebate.runs.limits import Limits
    from flowdebate.runs.session import Session
    from flowdebate.store.base import StepRow

__all__ = (
    "ACTING",
    "Run",
)

ACTING: ContextVar[str | None] = ContextVar("flowdebate_acting", default=None)
"""The name of the block whose run the code at hand is part of; None outside runs, and inside models."""

T = TypeVar("T")


class Records:
    """The `ResourceScope` of a run: its stream of events, and the states that resources leave in the session.

    Separate from `Run`, since resources hold on to it: a run that they held would be a cycle, freed late.
    """

    __slots__ = ("closed", "events", "listeners", "now", "saved_states")

    def __init__(self, saved: dict[str, Any], now: Callable[[], float]) -> None:
        self.now = now
        """The run's clock, in seconds since the epoch."""
        self.events: list[object] = []
        """Everything told so far; what `result.events` will be."""
        self.listeners: list[Callable[[object], None]] = []
        """Those who read along; without any, text is not streamed."""
        self.saved_states: dict[str, Any] = _SavedStates(saved)
        """What the session held when the run began, by key; what is set goes to the session, for later runs."""
        self.closed = False
        """Whether the run is over."""

    def emit(self, event: object, path: str = "", /) -> None:
        """Keep `event`, and tell it to those who read along; once the run is over, nothing. `path` is its place."""
        if self.closed:
            return
        if isinstance(event, BaseEvent):
            event.at = self.now()
            event.path = event.path or path
        self.events.append(event)
        for listener in self.listeners:
            listener(event)

    def tell(self, event: object) -> None:
        """Tell `event` to those who read along, without keeping it."""
        for listener in self.listeners:
            listener(event)


class _Placed:
    """The `ResourceScope` of a resource that was opened at a place of a run."""

    __slots__ = ("_path", "_records", "now", "saved_states")

    def __init__(self, records: Records, path: str) -> None:
        self.now = records.now
        self.saved_states = records.saved_states
        self._records = records
        self._path = path

    def emit(self, event: object, /) -> None:
        """Emit `event` as one of the place."""
        self._records.emit(event, self._path)


class _SavedStates(dict[str, Any]):
    """Reads what was there when the run began: all that it opens starts from the same. Writes to the session."""

    def __init__(self, session: dict[str, Any]) -> None:
        super().__init__(session)
        self._session = session

    def __setitem__(self, key: str, state: Any) -> None:  # noqa: ANN401 - each resource has a state of its own type
        self._session[key] = state


class Run:
    """Carries out one run; made by `Block.run`, reached by blocks as `ctx.run`."""

    __slots__ = (
        "_ended",
        "_held",
        "_holds",
        "_started",
        "_unfinished",
        "_warned",
        "acting",
        "begun",
        "budget",
        "emit",
        "journal",
        "models",
        "now",
        "opened",
        "outcome",
        "raw_output",
        "records",
        "run_id",
        "seed",
        "session",
        "shared",
        "status",
        "tell",
        "usage",
    )

    def __init__(
        self,
        *,
        run_id: str,
        session: Session,
        seed: int,
        models: ModelResolver,
        limits: Limits | None = None,
        journal: Journal | None = None,
    ) -> None:
        self.run_id = run_id
        self.session = session
        self.seed = seed
        self.models = models
        self.status: RunStatus = "running"
        self.outcome: RunStatus = "complete"
        """What the status will be if nothing else ends the run: "degraded" or "no_verdict" where something was lost."""
        self.budget = Budget(limits) if limits else None
        self.acting = False
        self.begun = asyncio.Event()
        """Set once the first block acts; a durable run is then in its store."""
        """Whether its block has begun to act."""
        self._started: float | None = None
        self._ended: float | None = None
        self.journal = journal
        """What records its steps; None where nothing is kept."""
        self.records = Records(session.resources, time.time if journal is None else journal.now)
        """What it writes; `emit` and `tell` tell an event, `now` is its clock."""
        self.emit = self.records.emit
        self.tell = self.records.tell
        self.now = self.records.now
        self.usage = Usage.none()
        self.raw_output: Any = None
        """The raw output of the pattern that ended last, or that was cut short; None without one."""
        self._unfinished: dict[str, Callable[[RunStatus], Any]] = {}
        self.shared: dict[Resource, Any] = {}
        self.opened: list[tuple[int, Any]] = []
        """Handles of all resources in the order in which they were opened, each with how deep in the run that was."""
        self._warned: set[str] = set()
        self._holds = AsyncExitStack()
        self._held: dict[int, Model] = {}

    # Beginning and end

    def begin(self, block: str) -> None:
        """Tell that the run has started; the first event."""
        self._started = time.perf_counter()
        self.emit(RunStarted(run_id=self.run_id, block=block, seed=self.seed, path=block))

    def end(self, status: RunStatus, error: str | None = None) -> None:
        """Tell how the run has ended, the first time that this is called; after that nothing more is told."""
        if self.status == "running":
            self._ended = time.perf_counter()
            self._build_partial_output(status)
            path = getattr(self.records.events[0], "path", "") if self.records.events else ""
            self.emit(
                RunFinished(run_id=self.run_id, status=status, usage=self.usage, seconds=self.seconds, error=error),
                path,
            )
            self.status = status
            self.records.closed = True

    def degrade(self, outcome: RunStatus) -> None:
        """Remember that something was lost that the run goes on without."""
        if self.outcome != "no_verdict":
            self.outcome = outcome

    def register_partial_output(self, path: str, build: Callable[[RunStatus], Any]) -> None:
        """Register a callback that builds the raw output of the pattern at `path` if the run ends before it does."""
        self._unfinished[path] = build

    def set_raw_output(self, path: str, raw: Any) -> None:  # noqa: ANN401 - each pattern has a raw output of its own type
        """Set the run's raw output to that of the pattern at `path`, which has ended; a later one replaces it."""
        self._unfinished.pop(path, None)
        self.raw_output = raw

    @property
    def has_partial_output(self) -> bool:
        """Whether a pattern is in progress whose raw output can be built."""
        return bool(self._unfinished)

    def _build_partial_output(self, status: RunStatus) -> None:
        """Build the raw output of the outermost pattern that was cut short; nothing that ended may keep a run alive."""
        unfinished, self._unfinished = self._unfinished, {}
        if unfinished:
            outermost = min(unfinished, key=lambda path: path.count("/"))
            self.raw_output = unfinished[outermost](status)

    @property
    def seconds(self) -> float:
        """How long the run has taken: until now, or to its end."""
        if self._started is None:
            return 0.0
        return (time.perf_counter() if self._ended is None else self._ended) - self._started

    def warn_once(self, key: str, message: str) -> None:
        """Warn the first time that this run comes to `key`."""
        if key not in self._warned:
            self._warned.add(key)
            warnings.warn(message, FlowDebateWarning, stacklevel=2)

    # Resources

    def open(self, resource: Resource, path: str) -> Any:  # noqa: ANN401 - each resource has a handle of its own type
        """A new hold on `resource`, for the block at `path`."""
        return self._kept(resource.open(_Placed(self.records, path)), path)

    def open_within(self, resource: StateResource[Any], around: StateHandle[Any], path: str) -> StateHandle[Any]:
        """A hold on `resource` inside `around`, for the block at `path`."""
        return self._kept(resource.open_within(around, _Placed(self.records, path)), path)

    def open_shared(self, resource: Resource, path: str) -> Any:  # noqa: ANN401 - see open
        """The run's one hold on `resource`."""
        if resource not in self.shared:
            self.shared[resource] = self.open(resource, path)
        return self.shared[resource]

    def _kept(self, handle: T, path: str) -> T:
        self.opened.append((path.count("/"), handle))
        return handle

    def root_context(self, name: str, resources: Mapping[str, Resource]) -> Context:
        """The context in which the outermost block acts."""
        handles = {key: self.open_shared(resource, name) for key, resource in resources.items()}
        return Context(self, Scope(handles, dict(self.shared), None), name, name)

    # Impure steps

    async def step(
        self, key: str, call: Callable[[], Awaitable[T]], *, returns: object = None, failures: bool = False
    ) -> T:
        """Carry out the impure `call` whose place in the run is `key`; see `Context.step`."""
        if self.journal is None:
            return await call()
        return await self.journal.step(key, call, returns, failures=failures)

    async def ask(self, model: Model, request: ModelRequest, *, path: str) -> ModelResponse:
        """One call of `model`, as the step `path`; told and counted, answered or not.

        In a run that is kept the answer is durable before it is given, and one that was recorded is given without a
        call.
        """
        journal = self.journal
        if journal is not None:
            digest = digest_of(request)
            row = journal.found(path, digest)
            if row is not None:
                return self._again(model, request, path, row)
            await journal.intend(path, "call", digest)
            self.failed(path)
        if id(model) not in self._held:
            await self._hold(model)
        attempts = request.attempts.belong_to(
            meter=self.budget, tell=lambda event: self.emit(event, path), seed=(self.seed, path)
        )
        started = time.perf_counter()
        response, error = None, None
        acting = ACTING.get()
        ACTING.set(None)  # a model may hold runs of its own
        try:
            response = await call.ask(model, request)
            if journal is not None:
                seconds = time.perf_counter() - started
                await journal.commit(
                    path, "call", call_text(response, attempts.made, seconds=seconds, output=request.output)
                )
        except BaseException as failure:
            error = error_text(failure)
            if isinstance(failure, ModelError):
                failure.block = failure.block or request.block
            if journal is not None and isinstance(failure, (ModelError, LimitReached)):
                about = {"block": request.block, "model": model.name, "seconds": time.perf_counter() - started}
                await journal.fail(path, failed_text(error, **about, attempts=attempts_text(attempts.made)))
            raise
        finally:
            ACTING.set(acting)
            seconds = time.perf_counter() - started
            self._called(
                request.block, model.name, path, response=response, made=attempts.made, seconds=seconds, error=error
            )
        return response

    def failed(self, path: str) -> None:
        """Tell and count the calls at or below `path` that failed before this process took the run over."""
        if self.journal is None:
            return
        for key, text in self.journal.failed(path):
            failure = json.loads(text)
            if "attempts" in failure:
                made = attempts_of(failure["attempts"])
                self._called(
                    failure["block"],
                    failure["model"],
                    key,
                    response=None,
                    made=made,
                    seconds=failure["seconds"],
                    error=failure["error"],
                )

    def _again(self, model: Model, request: ModelRequest, path: str, row: StepRow) -> ModelResponse:
        """The answer that was recorded in `row`, told and counted as when it was made."""
        assert self.journal is not None  # noqa: S101 - it has given the row
        response, made, seconds = self.journal.read(row, lambda body: read_call(body, request.output))
        if self.budget is not None:
            self.budget.count(made, request)
        self._called(request.block, model.name, path, response=response, made=made, seconds=seconds, error=None)
        return response

    def _called(
        self,
        block: str,
        model: str,
        path: str,
        *,
        response: ModelResponse | None,
        made: Sequence[Attempt],
        seconds: float,
        error: str | None,
    ) -> None:
        usage = total_usage(made)
        self.usage += usage
        self.emit(
            ModelCalled(
                block=block,
                path=path,
                model=model,
                usage=usage,
                seconds=seconds,
                error=error,
                attempts=tuple(made),
                asked_as=None if response is None else response.asked_as,
                flags=() if response is None else response.flags,
            )
        )

    async def _hold(self, model: Model) -> None:
        self._held[id(model)] = model
        hold = getattr(model, "open_connections", None)
        if hold is not None:
            await self._holds.enter_async_context(hold())

    async def close(self) -> None:
        """Let go of the models' connections; that one of them cannot be closed is logged, and no failure of the run."""
        try:
            await self._holds.aclose()
        except Exception:
            _LOGGER.warning("run %s: a model did not let go of its connections", self.run_id, exc_info=True)


_LOGGER = logging.getLogger("flowdebate")
