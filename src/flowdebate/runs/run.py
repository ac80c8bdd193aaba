"""Runs: identity, events and usage, and the single interface for all model calls and side effects."""

from __future__ import annotations

import asyncio
import json
import logging
import time
import warnings
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import InitVar, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, TypeVar

from pydantic_core import to_json

from flowdebate._text import error_text
from flowdebate.errors import FlowDebateWarning, LimitReached, ModelError
from flowdebate.models import call
from flowdebate.models.base import (
    Attempt,
    Flag,
    Model,
    ModelRequest,
    ModelResponse,
    TextWithdrawn,
    UnwrittenMessages,
    Usage,
    estimate_tokens,
    total_usage,
)
from flowdebate.models.codec import (
    FailedCall,
    StoredAnswer,
    attempts_of,
    attempts_row,
    call_row,
    digest_of,
    json_text,
    read_call,
    read_record,
    request_row,
)
from flowdebate.models.prices import are_prices_known
from flowdebate.runs.events import CallStarted, ModelCalled, RunFinished, RunStarted, RunStatus
from flowdebate.runs.journal import DECISION, Journal, is_within
from flowdebate.runs.limits import Account, Budget, Charge, Limits
from flowdebate.runs.records import Records, ResourcePlace
from flowdebate.runs.session import Session
from flowdebate.store.base import StepRow

if TYPE_CHECKING:
    from types import TracebackType

    from flowdebate.models.base import ToolCall
    from flowdebate.models.resolve import ModelResolver
    from flowdebate.resources.resource import Resource, StateHandle, StateResource

    class _Emit(Protocol):
        def __call__(self, event: object, /, path: str = "", role: str | None = None) -> None: ...


ACTING: ContextVar[str | None] = ContextVar("flowdebate_acting", default=None)
"""Name of the block being executed; None outside runs and during model calls."""

T = TypeVar("T")
_NO_LIMITS = Limits()


RUN_LOGGER = logging.getLogger("flowdebate.runs")
"""Logger for runs. Its records contain no content from runs; their fields are available as attributes of the record."""

_NOTHING = nullcontext()


class RunObserver:
    """Observer of one run: its agents' answers, calls, tools and events."""

    def agent(self, block: str, path: str, /) -> AbstractContextManager[object]:
        """Return a context manager that wraps all model and tool calls contributing to one answer of a generator."""
        del block, path
        return _NOTHING

    def call(
        self, started: CallStarted, request: ModelRequest, /
    ) -> AbstractContextManager[Callable[[ModelResponse], object] | None]:
        """Return a context manager that wraps all attempts at a model call and yields a callback for the response."""
        del started, request
        return _NOTHING

    def tool(self, call: ToolCall, path: str, /) -> AbstractContextManager[Callable[[str], object] | None]:
        """Return a context manager that wraps a tool's execution and yields a callback for the result."""
        del call, path
        return _NOTHING

    def event(self, event: object, /) -> None:
        """Handle an event of the run; this method is not called for the first event or for live-only events."""


_UNOBSERVED = RunObserver()

Observing: TypeAlias = "Callable[[Run, dict[str, str]], AbstractContextManager[RunObserver]]"
"""Factory for a context manager that wraps a run, yields the run's `RunObserver`, and may add labels to the run."""


class _Observed:
    """Context manager for observing a run's execution; it may add labels to a new run before the run is stored.

    This is not a generator, because `contextlib` would set the traceback of an exception passing through it, and an
    application's exception may be frozen.
    """

    __slots__ = ("_entered", "_observe", "_run")

    def __init__(self, run: Run, observe: Observing) -> None:
        self._run = run
        self._observe = observe

    def __enter__(self) -> None:
        run, journal = self._run, self._run.journal
        labels = {} if journal is None else dict(journal.header.labels)
        self._entered = self._observe(run, labels)
        run.tracing = self._entered.__enter__()
        run.records.observe = run.tracing.event
        if journal is not None and not journal.stored:  # the header of a stored run never changes
            journal.header = replace(journal.header, labels=labels)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._entered.__exit__(kind, error, trace)
        self._run.tracing, self._run.records.observe = _UNOBSERVED, None


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Run:
    """A run, created by `Block.run` and available to blocks as `ctx.run`."""

    is_replay: ClassVar[bool] = False
    """True if the run merely replays a journal, without asking any models or humans."""

    run_id: str
    session: Session
    seed: int
    models: ModelResolver
    limits: InitVar[Limits | None] = None
    journal: Journal | None = None
    """Journal of the run's steps; None if the run has no store."""
    observe: Observing | None = None
    """Factory for the run's observer; None if the run is not observed."""

    status: RunStatus = field(default="running", init=False)
    failure: BaseException | None = field(default=None, init=False)
    """Error that ended the run, if it failed or reached a limit."""
    outcome: RunStatus = field(default="complete", init=False)
    """Status that the run will have unless it is stopped early: "complete", or "degraded" or "no_verdict" after
    provider failures.
    """
    budget: Budget | None = field(init=False)
    accounts: tuple[Account, ...] = field(default=(), init=False)
    """Accounts of the service and of the run's owner, shared with other runs; empty for runs outside a service."""
    acting: bool = field(default=False, init=False)
    """True once the task that executes the run has started."""
    started: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    """Event set when the first block starts to act; by then, a durable run has been added to its store."""
    _started: float | None = field(default=None, init=False)
    _ended: float | None = field(default=None, init=False)
    began_at: float = field(default=0.0, init=False)
    """Time at which the run first started, according to the run's own clock; a resumed run keeps this time."""
    cache: dict[object, Any] = field(default_factory=dict, init=False)
    """Cache of values, keyed by owner, that are looked up or recorded only once per run."""
    tracing: RunObserver = field(default=_UNOBSERVED, init=False)
    """Observer of the run's calls, tools and events, set while the run is being executed."""
    records: Records = field(init=False)
    """Events and states of the run. `Run.emit`, `Run.notify` and `Run.now` delegate to its methods of the same name."""
    emit: _Emit = field(init=False)
    notify: Callable[[object], None] = field(init=False)
    now: Callable[[], float] = field(init=False)
    usage: Usage = field(default=Usage.zero(), init=False)
    tokens: int = field(default=0, init=False)
    """Number of tokens used so far in prompts and answers together; estimated if a server does not report usage."""
    raw_output: object = field(default=None, init=False)
    """Raw output of the most recently finished or interrupted pattern; None if there is none."""
    _unfinished: dict[str, Callable[[RunStatus], object]] = field(default_factory=dict, init=False)
    _raw_outputs: dict[str, object] = field(default_factory=dict, init=False)
    """Latest raw output at each watched path."""
    shared: dict[Resource, Any] = field(default_factory=dict, init=False)
    opened: list[tuple[int, Any]] = field(default_factory=list, init=False)
    """Handles of opened resources, each with its depth in the run, in the order in which they were opened."""
    _warned: set[str] = field(default_factory=set, init=False)
    _cancelled: dict[str, str] = field(default_factory=dict, init=False)
    """Records of calls that were cancelled in this process, by path."""
    _all_charged: bool = field(default=False, init=False)
    """True if all recorded calls count toward the limits; until then, a call counts only once it has been read."""
    _open_connections: AsyncExitStack | None = field(default=None, init=False)
    _opened_models: dict[int, Model] = field(default_factory=dict, init=False)

    def __post_init__(self, limits: Limits | None) -> None:
        self.budget = Budget(limits or _NO_LIMITS) if limits or are_prices_known() else None
        self.records = Records(self.session.resources, time.time if self.journal is None else self.journal.now)
        self.emit, self.notify, self.now = self.records.emit, self.records.notify, self.records.now

    # Start and end

    def begin(self, block: str) -> None:
        """Emit the first event, which starts the run."""
        self._started = time.perf_counter()
        self.began_at = self.now()
        self.emit(RunStarted(run_id=self.run_id, block=block, seed=self.seed, path=block))

    def end(self, status: RunStatus, error: str | None = None) -> None:
        """Emit the run's last event. Later calls have no effect, and no further events are emitted."""
        if self.status == "running":
            if status != "awaiting" and not self.is_replay:
                self.count_skipped()  # calls of cancelled branches, and of steps whose recorded results were used
            self._ended = time.perf_counter()
            self.build_partial_output(status)
            path = getattr(self.records.events[0], "path", "") if self.records.events else ""
            finished = RunFinished(
                run_id=self.run_id, status=status, usage=self.usage, seconds=self.seconds, error=error
            )
            self.emit(finished, path)
            self.status = status
            self.records.closed = True  # branches cancelled along with the run may still try to emit events
            self._log_end(path, error)

    def _log_end(self, block: str, error: str | None) -> None:
        if not RUN_LOGGER.isEnabledFor(logging.INFO) or self.is_replay:
            return
        usage = self.usage
        # Log only the class, because the message may quote model output.
        kind = None if error is None else error.partition(":")[0]
        extra: dict[str, object] = {
            "run_id": self.run_id,
            "block": block,
            "status": self.status,
            "error": kind,
            "seconds": round(self.seconds, 3),
            "calls": usage.calls,
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
        }
        ended = self.status if kind is None else f"{self.status} ({kind})"
        calls = "1 call" if usage.calls == 1 else f"{usage.calls} calls"
        RUN_LOGGER.info("run %s of %s: %s, %s in %.1f s", self.run_id, block, ended, calls, self.seconds, extra=extra)

    def observed(self) -> AbstractContextManager[object]:
        """Return a context manager that wraps the run's execution and sets the run's observer for its duration."""
        return nullcontext() if self.observe is None else _Observed(self, self.observe)

    def degrade(self, outcome: RunStatus) -> None:
        """Set the run's `outcome` after a provider failure that does not end the run."""
        if self.outcome != "no_verdict":  # keep the worst outcome: a turn skipped later does not improve it
            self.outcome = outcome

    def register_partial_output(self, path: str, build: Callable[[RunStatus], object]) -> None:
        """Register `build` to produce the pattern's raw output if the run ends before the pattern at `path` does."""
        self._unfinished[path] = build

    def set_raw_output(self, path: str, raw: object) -> None:
        """Set the run's raw output to that of the finished pattern at `path`, replacing any earlier raw output."""
        self._unfinished.pop(path, None)
        self.raw_output = raw
        for place in self._raw_outputs:
            if path == place or path.startswith(f"{place}/"):
                self._raw_outputs[place] = raw

    @contextmanager
    def watch_raw_output(self, path: str) -> Iterator[Callable[[], object]]:
        """Watch the patterns at or below `path`, yielding a function that returns the latest raw output of any of them.

        Several escalations may be executed concurrently, so the run's own raw output may belong to a different
        escalation.
        """
        self._raw_outputs[path] = None
        try:
            yield lambda: self._raw_outputs[path]
        finally:
            del self._raw_outputs[path]

    @property
    def has_partial_output(self) -> bool:
        """True if raw output can be built for an unfinished pattern."""
        return bool(self._unfinished)

    def partial_output(self, status: RunStatus, *, below: str | None = None) -> object:
        """Return the current raw output of the outermost unfinished pattern, or else the run's existing raw output.

        If `below` is set, only patterns below this path are considered; the result is None if there are none.
        """
        unfinished = [path for path in self._unfinished if below is None or path.startswith(f"{below}/")]
        if not unfinished:
            return self.raw_output if below is None else None
        # A debater may itself be a debate: return the output of the debate started by the application.
        outermost = min(unfinished, key=lambda path: path.count("/"))
        return self._unfinished[outermost](status)

    def build_partial_output(self, status: RunStatus) -> None:
        """Set the run's raw output to the partial output, and drop the callbacks, because they refer to the run."""
        try:
            self.raw_output = self.partial_output(status)
        finally:
            self._unfinished = {}

    @property
    def seconds(self) -> float:
        """Duration of the run in seconds: so far, or in total once the run has ended."""
        if self._started is None:
            return 0.0
        return (time.perf_counter() if self._ended is None else self._ended) - self._started

    def warn_once(self, key: str, message: str) -> None:
        """Issue a warning, at most once per `key` in this run."""
        if key not in self._warned:
            self._warned.add(key)
            warnings.warn(message, FlowDebateWarning, stacklevel=2)

    def was_suspended(self, path: str) -> bool:
        """Return whether the run was suspended below `path` for an answer that has since arrived."""
        return self.journal is not None and any(key.startswith(f"{path}/") for key in self.journal.reviewed)

    # Resources

    def open(self, resource: Resource, path: str) -> object:
        return self._add_opened(resource.open(ResourcePlace(self.records, path)), path)

    def open_within(self, resource: StateResource[Any], around: StateHandle[Any], path: str) -> StateHandle[Any]:
        """Open `resource` for the block at `path`, within the already open handle `around`."""
        return self._add_opened(resource.open_within(around, ResourcePlace(self.records, path)), path)

    def open_shared(self, resource: Resource, path: str) -> object:
        """Return the run-wide handle for `resource`, opening the resource on first use."""
        if resource not in self.shared:
            self.shared[resource] = self.open(resource, path)
        return self.shared[resource]

    def _add_opened(self, handle: T, path: str) -> T:
        self.opened.append((path.count("/"), handle))
        return handle

    # Impure steps

    async def step(
        self,
        key: str,
        call: Callable[[], Awaitable[T]],
        *,
        returns: object = None,
        failures: bool = False,
        place: str | None = None,
    ) -> T:
        """Execute the side effect `call` as the step `key`; see `Context.step`.

        If `call` may call models, `place` is a path at or below which nothing else calls models.
        """
        if self.journal is None:
            return await call()
        step = partial(self.journal.step, key, returns=returns, failures=failures)
        return await self._record_or_count(step, call, place)

    async def decide(
        self, path: str, call: Callable[[], Awaitable[T]], *, returns: object = None, place: str | None = None
    ) -> T:
        """Make a decision at `path` by calling `call`; see `Context.decide`, and `step` for `place`."""
        if self.journal is None:
            return await call()
        decide = partial(self.journal.decide, f"{path}{DECISION}", returns=returns)
        return await self._record_or_count(decide, call, place)

    async def _record_or_count(
        self,
        record: Callable[[Callable[[], Awaitable[T]]], Awaitable[T]],
        call: Callable[[], Awaitable[T]],
        place: str | None,
    ) -> T:
        """Execute and record `call`; if a result is already recorded, count the model calls made to produce it."""
        executed = False

        async def execute() -> T:
            nonlocal executed
            executed = True
            return await call()

        value = await record(execute)
        if place is not None and not executed:
            self.count_skipped(place)
        return value

    async def ask(self, model: Model, request: ModelRequest, *, path: str) -> ModelResponse:
        """Call `model` as the step `path`, counting the call and emitting its event whether or not it succeeds.

        In a durable run, the answer is committed before it is returned, and a recorded answer is returned without a
        call.
        """
        journal = self.journal
        if journal is not None:
            digest = None if isinstance(request.messages, UnwrittenMessages) else digest_of(request, journal.texts)
            row = journal.find(path, digest, model=model.name)
            if row is not None:
                odd: tuple[Flag, ...] = () if digest in (None, row.request) else ("other_request",)
                return self._replay(model, request, path, row, odd=odd)
        # `notify` must not refer to the request: the request refers to `notify`, and such a cycle would keep the run in
        # memory
        role = request.role
        charge = Charge(self.accounts, self.budget)
        attempts = request.attempts.belong_to(
            meter=charge,
            notify=lambda event: self._forward_call_event(event, path, role),
            seed=(self.seed, path),
        )
        calling = self.records.call_started(request, model.name, path)
        started = time.perf_counter()
        response, error = None, None
        acting = ACTING.get()
        try:
            if journal is not None:
                await journal.intend(path, "call", digest)
                self.count_failed(path)
                self._charge_unread(journal)
            await charge.begin(model.name, request)
            started = time.perf_counter()  # excludes the time spent storing the answer
            if id(model) not in self._opened_models:
                await self._open(model)
            ACTING.set(None)  # models may themselves start runs
            with self.tracing.call(calling, request) as answered:
                response = await call.ask(model, request)
                if answered is not None:
                    answered(response)
            if journal is not None:
                seconds = time.perf_counter() - started
                recorded = call_row(response, attempts.made, seconds=seconds, output=request.output)
                recorded |= request_row(request, model.name, attempts.made)
                await journal.commit(path, "call", json_text(recorded))
        except BaseException as failure:
            error = error_text(failure)
            if isinstance(failure, ModelError):
                failure.block = failure.block or request.block
            if journal is not None and response is None:
                failed = _failure_row(error, request, model, time.perf_counter() - started)
                await self._record_failed_call(journal, path, failed, failure, sent=bool(attempts.made))
            raise
        finally:
            ACTING.set(acting)
            self.records.call_ended(calling)
            event = ModelCalled(
                block=request.block,
                role=role,
                path=path,
                model=model.name,
                usage=total_usage(attempts.made),
                seconds=time.perf_counter() - started,
                error=error,
                attempts=tuple(attempts.made),
                asked_as=None if response is None else response.asked_as,
                flags=() if response is None else response.flags,
                repaired=() if response is None else response.repaired,
            )
            self._count(event, attempts.made, request, response)
            await charge.end()
        return response

    async def _record_failed_call(
        self, journal: Journal, path: str, recorded: str, failure: BaseException, *, sent: bool
    ) -> None:
        """Record a call that was not answered; `sent` says whether any request was sent for it.

        A cancelled call may have been paid for, so it stays uncertain until it is clear that the run continues without
        it, or that the cancellation did not interrupt the run.
        """
        if not isinstance(failure, Exception):
            self._cancelled[path] = recorded
        elif sent or isinstance(failure, (ModelError, LimitReached)):
            await journal.fail(path, recorded)

    def _forward_call_event(self, event: object, path: str, role: str | None) -> None:
        """Forward an event about the model call at `path`.

        Events about streamed text are live-only, like the text itself.
        """
        if isinstance(event, TextWithdrawn):
            self.notify(replace(event, role=role, path=path, at=self.now()))
        else:
            self.emit(event, path, role)

    def recorded_loss(self, key: str, path: str) -> Exception | None:
        """Return the failure that `record_loss` recorded at `key` in an earlier process, if there is one.

        The recorded calls at or below `path` are counted, because the run skips them.
        """
        lost = None if self.journal is None else self.journal.recorded_failure(key)
        if lost is not None:
            self.count_skipped(path)
        return lost

    async def record_loss(self, key: str, error: Exception, path: str) -> None:
        """Record that `error` has ended the calls at or below `path`, and that the run continues without them."""
        assert self.journal is not None  # noqa: S101 - the loss would not be recorded
        await self.record_cancelled(path)
        await self.journal.record_failure(key, error)

    async def record_cancelled(self, path: str = "") -> None:
        """Record calls that were cancelled at or below `path` (by default, anywhere in the run) as failed."""
        assert self.journal is not None  # noqa: S101 - no calls would have been recorded
        for place in [place for place in self._cancelled if not path or is_within(place, path)]:
            await self.journal.fail(place, self._cancelled.pop(place))

    def count_failed(self, path: str) -> None:
        """Count the failures of the call at `path` in earlier processes, and emit their events."""
        if self.journal is None:
            return
        for text in self.journal.take_failures(path):
            failed = self.journal.read(StepRow(key=path, kind="call", body=text), _read_failure)
            if failed is not None:
                attempts = attempts_of(failed.attempts)
                called = ModelCalled(
                    block=failed.block,
                    role=failed.role,
                    path=path,
                    model=failed.called,
                    usage=total_usage(attempts),
                    seconds=failed.seconds,
                    error=failed.error,
                    attempts=tuple(attempts),
                    replayed=True,
                )
                self._count_recorded(called, attempts, attempts, failed.request())

    def count_skipped(self, path: str = "") -> None:
        """Count the recorded calls at or below `path` (by default, all) that have not been read, and emit their events.

        The run does not make these calls again, because the recorded failure or result of their caller is used instead.
        """
        if self.journal is None:
            return
        for key, _, answered in self.journal.unread_calls(path):
            self.count_failed(key)
            if answered is not None:
                self.journal.skip(key)
                answer, attempts = self.journal.read(answered, read_call)
                response = replace(answer.response(None), data=answer.data)
                self._count_answer(answer, attempts, answer.called, answer.request(), response, key)

    def _replay(
        self, model: Model, request: ModelRequest, path: str, row: StepRow, *, odd: tuple[Flag, ...] = ()
    ) -> ModelResponse:
        """Return the answer recorded in `row`, counting the call and emitting its event as the original run did."""
        assert self.journal is not None  # noqa: S101 - the row comes from it
        answer, attempts = self.journal.read(row, read_call)
        response = self.journal.read(row, lambda _: answer.response(request.output))
        response.flags = (*response.flags, *odd)
        if isinstance(request.messages, UnwrittenMessages):
            request.messages.recorded_characters = answer.prompt
        self.count_failed(path)
        self._count_answer(answer, attempts, model.name, request, response, path)
        return response

    def _count_answer(
        self,
        answer: StoredAnswer,
        attempts: Sequence[Attempt],
        model: str,
        request: ModelRequest,
        response: ModelResponse,
        path: str,
    ) -> None:
        """Count a recorded answer, and emit its event."""
        # otherwise, the attempts were paid for by the fork's parent
        paid = attempts if answer.origin == "asked" else ()
        called = ModelCalled(
            block=request.block,
            role=request.role,
            path=path,
            model=model,
            usage=total_usage(paid),
            seconds=answer.seconds if paid else 0.0,
            attempts=tuple(paid),
            asked_as=response.asked_as,
            flags=response.flags,
            repaired=response.repaired,
            replayed=True,
            origin=answer.origin,
        )
        self._count_recorded(called, paid, attempts, request, response)

    def _count_recorded(
        self,
        called: ModelCalled,
        paid: Sequence[Attempt],
        attempts: Sequence[Attempt],
        request: ModelRequest,
        response: ModelResponse | None = None,
    ) -> None:
        """Count a recorded call, whose `paid` attempts count toward the run's limits, and emit its event."""
        if self.budget is not None and not self._all_charged:
            self.budget.count(paid, request)
        self._count(called, attempts, request, response)

    def _charge_unread(self, journal: Journal) -> None:
        """Charge all recorded calls to the budget before the run's first new request.

        Concurrent branches may not have read their own recorded calls yet.
        """
        if self.budget is None or self._all_charged:
            return
        self._all_charged = True
        for key, failures, answered in journal.unread_calls():
            for text in failures:
                failed = journal.read(StepRow(key=key, kind="call", body=text), _read_failure)
                if failed is not None:
                    self.budget.count(attempts_of(failed.attempts), failed.request())
            if answered is not None:
                answer, attempts = journal.read(answered, read_call)
                if answer.origin == "asked":
                    self.budget.count(attempts, answer.request())

    def _count(
        self,
        called: ModelCalled,
        attempts: Sequence[Attempt],
        request: ModelRequest | None = None,
        response: ModelResponse | None = None,
    ) -> None:
        """Emit a call's event, and count its usage and tokens.

        Unreported tokens are estimated from the prompt and the answer.
        """
        for attempt in attempts:
            tokens = attempt.usage.total_tokens
            if tokens is None:
                characters = 0 if request is None else request.characters
                if response is not None and attempt is attempts[-1]:  # the answers to earlier attempts are unknown
                    data_only = not response.text and response.data is not None
                    answer = to_json(response.data, serialize_unknown=True) if data_only else response.text
                    characters += len(answer)
                tokens = estimate_tokens(characters) + (attempt.usage.reasoning_tokens or 0)
            self.tokens += tokens
        self.usage += called.usage
        self.emit(called)

    async def _open(self, model: Model) -> None:
        self._opened_models[id(model)] = model  # keep a reference, so that no other model can get the same id
        connect = getattr(model, "open_connections", None)
        if connect is not None:
            self._open_connections = self._open_connections or AsyncExitStack()
            await self._open_connections.enter_async_context(connect())

    async def close(self) -> None:
        """Close the models' connections; failures to close them are only logged."""
        if self._open_connections is None:
            return
        try:
            await self._open_connections.aclose()
        except Exception:
            _LOGGER.warning("run %s: the connections of a model could not be closed", self.run_id, exc_info=True)


def _read_failure(text: str) -> FailedCall | None:
    """Parse a failed call; return None if the failure has no attempts. Raises the same errors as `read_call`."""
    return read_record(FailedCall, text) if "attempts" in json.loads(text) else None


_LOGGER = logging.getLogger("flowdebate")


def _failure_row(error: str, request: ModelRequest, model: Model, seconds: float) -> str:
    """Serialize a failed call and its attempts in the format read by `_read_failure`."""
    attempts = request.attempts.made
    recorded = {"error": error, "seconds": seconds, "attempts": attempts_row(attempts)}
    return json_text(recorded | request_row(request, model.name, attempts))
