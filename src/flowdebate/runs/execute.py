"""Block execution (in the caller's task, in the background, or from synchronous code), and run options."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias, TypedDict, TypeVar
from weakref import WeakKeyDictionary

from flowdebate._text import error_text
from flowdebate._util.validation import check_number, check_text
from flowdebate.errors import (
    BudgetReached,
    ConfigurationError,
    FlowDebateError,
    LimitReached,
    ModelError,
    RealModelForbidden,
)
from flowdebate.models.base import Model, check_ready
from flowdebate.models.resolve import ModelChoice, ModelResolver, choose_model
from flowdebate.runs.context import Context, Scope
from flowdebate.runs.events import RunStatus
from flowdebate.runs.header import StoreOptions, attach_journal, outcome_of
from flowdebate.runs.limits import Limits
from flowdebate.runs.observer import Observer, observing
from flowdebate.runs.result import RunHandle, RunResult, RunView
from flowdebate.runs.run import ACTING, Run
from flowdebate.runs.session import SessionLike, as_session
from flowdebate.runs.suspend import Suspended
from flowdebate.store.open import STORE_VARIABLE, StoreChoice

if TYPE_CHECKING:
    from flowdebate.resources.resource import Resource
    from flowdebate.runs.journal import OnUncertain

IfExists: TypeAlias = Literal["raise", "resume", "wait"]
"""Policy for a run whose id is already in the store; "wait" waits until no other process is executing the run, and then
resumes it.
"""


class CommonOptions(TypedDict, total=False):
    """Options common to all runs."""

    model: ModelChoice
    """Default model: a `Model`, a string such as "openai/gpt-5-mini", or a mapping of intents."""
    override_model: Model | str | None
    """Model that replaces all other models (meant for tests)."""
    limits: Limits | None
    """Limits on calls, tokens, cost and time."""
    observe: Observer | None
    """Observer for tracing the run and its agents, calls and tools."""


class SessionOptions(CommonOptions, total=False):
    """Options for a single run; batches have no session option, because all their runs would share the session."""

    session: SessionLike


class RunOptions(SessionOptions, total=False):
    """Options for `Block.run()`."""

    seed: int | None
    store: StoreChoice | StoreOptions
    run_id: str | None


class ResumeOptions(SessionOptions, total=False):
    """Options for `Block.resume()`."""

    store: StoreChoice
    on_uncertain: OnUncertain
    allow_changes: bool
    retry_dead_letter: bool


class ForkOptions(SessionOptions, total=False):
    """Options for `Block.fork()`."""

    seed: int | None
    store: StoreChoice | StoreOptions
    fork_id: str | None
    edits: Mapping[str, Any] | None
    """Replacement answers, keyed by the paths of their steps."""
    at: str | None
    """Path of the first step to repeat; all later steps are repeated too."""


OutT_co = TypeVar("OutT_co", covariant=True)
T = TypeVar("T")


class Seat(NamedTuple):
    """A block that calls a model."""

    block: str
    model: Model | str
    around: tuple[ModelChoice, ...]
    """Models of the enclosing patterns, innermost first."""
    checks: Sequence[Callable[[Model, str], None]]
    """Checks on the content added to prompts by the block; see `Capability`."""


class Runnable(Protocol[OutT_co]):
    """Protocol implemented by all blocks passed to `run_block`."""

    @property
    def name(self) -> str:
        """The block's name."""

    @property
    def resources(self) -> Mapping[str, Resource]:
        """Resources that the block shares with the enclosing blocks."""

    def outline(self) -> object:
        """Return the block's outline, whose text changes whenever the block changes."""

    def seats(self) -> Iterable[Seat]:
        """Return all seats inside the block, one for each model-calling block."""

    def __call__(self, value: Any, ctx: Context, /) -> Coroutine[Any, Any, OutT_co]:  # noqa: ANN401 - the block's input
        """Execute the block."""


def make_run(  # noqa: PLR0913 - the options of run
    block: Runnable[Any],
    value: object,
    *,
    session: SessionLike = None,
    model: ModelChoice = None,
    override_model: Model | str | None = None,
    seed: int | None = None,
    limits: Limits | None = None,
    store: StoreChoice | StoreOptions = None,
    run_id: str | None = None,
    observe: Observer | None = None,
) -> Run:
    """Create an unstarted run of `block`; raise ConfigurationError for invalid options."""
    check_outside(block)
    model = choose_model(model, override_model)
    check_number("run", whole=True, optional=True, seed=seed)
    check_text("run", optional=True, run_id=run_id)
    if limits is not None and not isinstance(limits, Limits):
        raise ConfigurationError("run", "limits", limits, "must be a Limits object")
    run = Run(
        run_id=run_id or os.urandom(16).hex(),
        session=as_session(session),
        # limited to 53 bits, so that any JSON parser can represent the integer exactly
        seed=int.from_bytes(os.urandom(8)) >> 11 if seed is None else seed,
        models=ModelResolver(model),
        limits=limits,
        observe=observing(observe),
    )
    if store is not False and (store is not None or STORE_VARIABLE in os.environ):
        attach_journal(run, block.name, block.outline(), value, model=model, limits=limits, store=store)
    if run.journal is None and any(getattr(resource, "needs_store", False) for resource in block.resources.values()):
        # report this now, before any calls are made
        hint = "The human answers later, so use run(…, store=…), or human(…, ask=…) to answer during the run"
        raise ConfigurationError(f"{block.name}.run()", "store", None, "is required", hint=hint)
    return run


def check_outside(block: Runnable[Any]) -> None:
    """Raise ConfigurationError if called inside a running block.

    A nested run would escape the limits, the store and the model of the outer run.
    """
    around = ACTING.get()
    if around is not None:
        raise ConfigurationError(
            f"block {block.name!r}",
            "run()",
            None,
            f"cannot be called inside the run of {around!r}",
            hint="Inside a block, use `await block(value, ctx)`, which shares the run, its limits and its store",
        )


async def run_block(block: Runnable[T], value: object, run: Run) -> RunResult[T]:
    """Execute `run` in the caller's task, from its first event to its last."""
    run.begin(block.name)
    return await _execute(block, value, run)


async def _execute(block: Runnable[T], value: object, run: Run) -> RunResult[T]:
    run.acting = True
    output: Any = None
    error: str | None = None
    with run.observed():
        try:
            try:
                await _start_in_turn()
                await _check_seats(block, run)  # checked first, because a run that cannot start is not stored
                if run.journal is not None:
                    await run.journal.begin()
                run.started.set()
                output = await _act(block, value, run)
            except asyncio.CancelledError:
                run.end("interrupted")
                raise
            except Suspended as suspended:  # not a failure: the run can be resumed once the humans have answered
                assert run.journal is not None  # noqa: S101 - only a durable run can be suspended
                run.journal.pending = suspended.requests
                run.end("awaiting")
            except LimitReached as reached:
                # Any of several concurrent calls may have reached the limit. An error from a nested run inside a model
                # does not count.
                raised = () if run.budget is None else run.budget.raised
                is_own_failure = isinstance(reached, BudgetReached) or any(reached is one for one in raised)
                partial = is_own_failure and run.has_partial_output
                error = _end(run, "limit" if is_own_failure else "failed", reached)
                if not partial:
                    raise
            except BaseException as failure:
                error = _end(run, "failed", failure)
                raise
            else:
                run.end(run.outcome)
        finally:
            if run.journal is not None and run.status != "running" and not run.is_replay:
                try:
                    if run.status != "interrupted":
                        await run.record_cancelled()
                finally:
                    await run.journal.finish(run.status, outcome_of(run, output, error))
    # An interrupted pattern has no output, but its raw output shows how far it got.
    return RunResult(run, output)


class _Starts:
    """Queue that starts at most one run per event loop iteration, so that other work can be done in between."""

    def __init__(self) -> None:
        self.starting = False
        self.waiting: deque[asyncio.Future[None]] = deque()

    def next(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the next waiting run, if any."""
        self.starting = False
        while self.waiting and not self.starting:
            run = self.waiting.popleft()
            if not run.done():
                run.set_result(None)
                self.starting = True
                loop.call_soon(self.next, loop)


_STARTS: WeakKeyDictionary[asyncio.AbstractEventLoop, _Starts] = WeakKeyDictionary()


async def _start_in_turn() -> None:
    """Wait for an event loop iteration in which no other run starts.

    Preparing a run's first prompt takes milliseconds, so starting several runs in one iteration would hold up other
    work.
    """
    loop = asyncio.get_running_loop()
    starts = _STARTS.get(loop)
    if starts is None:
        starts = _STARTS[loop] = _Starts()
    if starts.starting:
        turn = loop.create_future()
        starts.waiting.append(turn)
        await turn
    else:
        starts.starting = True
        loop.call_soon(starts.next, loop)


async def _check_seats(block: Runnable[Any], run: Run) -> None:
    """Check the model at each seat beforehand, because an error halfway through a new run would waste paid calls.

    A seat is unusable if its model lacks a key, a program or a login, or cannot read the images sent to it. Forks and
    runs with recorded answers are not checked, because they may no longer need these models.
    """
    if run.is_replay or (run.journal is not None and run.journal.has_steps(block.name)):
        return
    try:
        await _check_models(block, run)
    except BaseException:
        await run.close()
        raise


async def _check_models(block: Runnable[Any], run: Run) -> None:
    """Raise the error for the first seat whose model cannot be called."""
    ready: set[int] = set()
    for seat in block.seats():
        model: Model | None = None
        try:
            model = run.models.resolve(seat.model, seat.around)
            for check in seat.checks:
                check(model, seat.block)
            if id(model) not in ready:
                ready.add(id(model))
                await check_ready(model)
        except RealModelForbidden:  # not reported here, because any call to this model raises the error anyway
            continue
        except ModelError as error:
            error.model, error.block = error.model or getattr(model, "name", None), error.block or seat.block
            raise
        except ConfigurationError as error:
            if error.location != seat.block:
                error.args = (f"{seat.block}, {error}",)
            raise


def _root_context(block: Runnable[object], run: Run) -> Context:
    handles = {key: run.open_shared(resource, block.name) for key, resource in block.resources.items()}
    return Context(run, Scope(handles, dict(run.shared), None), block.name, block.name)


async def _act(block: Runnable[T], value: object, run: Run) -> T:
    """Execute the block within the run's time limit, then close the models' connections."""
    time_limit = asyncio.timeout(None if run.budget is None else run.budget.seconds)
    outside = ACTING.get()
    ACTING.set(block.name)
    try:
        async with time_limit:
            output = await block(value, _root_context(block, run))
    except Exception as error:
        # Catch more than TimeoutError, because cancelled code may raise a different error.
        if run.budget is not None and time_limit.expired():
            raise run.budget.time_is_up() from error
        raise
    else:
        if run.budget is not None and time_limit.expired():  # a block suppressed its cancellation
            raise run.budget.time_is_up()
        return output
    finally:
        ACTING.set(outside)
        await run.close()


def _end(run: Run, status: RunStatus, failure: BaseException) -> str:
    """End the run with the error `failure`, and return the error as text."""
    text, run.failure = error_text(failure), failure
    for trail in RunView(run).task_collections:
        for task in trail.list(status="awaiting_review"):  # nobody is waiting for these answers anymore
            trail.cancel(task.id, text)
    run.end(status, text)
    if isinstance(failure, FlowDebateError):
        failure.run = RunView(run)
    return text


def start_block(block: Runnable[T], value: object, run: Run) -> RunHandle[T]:
    """Execute `run` in a new task. Requires a running event loop."""
    if not _loop_is_running():
        raise ConfigurationError(
            f"{block.name}.start()",
            "event loop",
            None,
            "must be running",
            hint="Call it from async code, or use run_sync()",
        )
    run.begin(block.name)
    task = asyncio.create_task(_execute(block, value, run), name=f"flowdebate {run.run_id}")
    task.add_done_callback(lambda _: run.end("interrupted"))  # if the task never starts, nothing else will end the run
    return RunHandle(run, task)


_CHECK_EVERY = 0.5
"""Interval in seconds at which a waiting thread wakes up; otherwise, the thread would miss an interrupt that arrives
just before the wait.
"""


def run_sync(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run the coroutine returned by `make` from synchronous code, even in a notebook with a running event loop."""
    if _loop_is_running():
        return _run_in_thread(make)
    results: list[T] = []

    async def main() -> None:
        results.append(await make())

    # When asyncio removes its signal handler, it formats the finished task including its result, which is slow if the
    # result is large.
    asyncio.run(main())
    return results[0]


def _loop_is_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _run_in_thread(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    outcome: Future[T] = Future()
    stopped = threading.Event()
    cancels: list[Callable[[], object]] = []

    async def main() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        cancels.append(lambda: loop.call_soon_threadsafe(lambda: task and task.cancel()))
        # checked after the append: an earlier interrupt only sets this flag, and a later one cancels the task
        if stopped.is_set():
            raise asyncio.CancelledError
        return await make()

    def work() -> None:
        if outcome.set_running_or_notify_cancel():
            try:
                outcome.set_result(asyncio.run(main()))
            except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
                outcome.set_exception(error)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(work,), name="flowdebate-run-sync")
    try:
        thread.start()
        _wait_for(outcome)
    except BaseException:  # an interrupt in a notebook ends the run and its model calls
        if not outcome.cancel():
            stopped.set()
            with contextlib.suppress(RuntimeError):  # the run's loop is closed, so the run has ended
                for cancel in cancels:
                    cancel()
            _wait_for(outcome)
        raise
    thread.join()
    return outcome.result()


def _wait_for(outcome: Future[Any]) -> None:
    while not wait([outcome], timeout=_CHECK_EVERY).done:
        pass
