"""Replay of a stored run, which reads its events and raw output from the journal without making any requests."""

from __future__ import annotations

import asyncio
import re
from bisect import insort
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NoReturn, TypeAlias, TypeVar
from urllib.parse import unquote

from flowdebate._text import error_text
from flowdebate._util.cancellation import wait_uncancelled
from flowdebate.errors import ConfigurationError, FlowDebateError, JournalMismatch, ModelUnavailable, OutputError
from flowdebate.models.base import Model, ModelRequest, ModelResponse, profile_of
from flowdebate.models.resolve import ModelChoice, ModelResolver, ModelSpec, Override
from flowdebate.prompts import Profile
from flowdebate.runs.durable.fork import edited_body, invalid_edit_error
from flowdebate.runs.events import CallStarted, RunFinished, RunStatus
from flowdebate.runs.execute import Runnable, start_block
from flowdebate.runs.header import DEFAULT_MODEL, models_of, session_of
from flowdebate.runs.journal import Journal
from flowdebate.runs.limits import Limits
from flowdebate.runs.result import RunHandle
from flowdebate.runs.run import Run
from flowdebate.runs.suspend import Suspended, request_of
from flowdebate.store.base import COMPLETE, RunHeader, StepRow, Store, StoredRun, StoredStatus
from flowdebate.store.memory import MemoryStore

OutT = TypeVar("OutT")
T = TypeVar("T")

OnRequest: TypeAlias = Callable[[str, ModelRequest], object]
"""Callback that receives the path and the request of each call made during a replay."""

_QUIET = 16
"""Number of idle event loop iterations after which a run is assumed to have reached the end of its journal."""
_SPINS, _PAUSE, _MAX_PAUSE, _PATIENCE = 100, 0.001, 0.1, 10.0
"""Settings for a replay that waits for a thread or a timer: the number of event loop iterations before it starts to
sleep, then three durations in seconds: of the first sleep, of the longest sleep, and of all sleeps combined.
"""
_OF_INTENT = re.compile("(chat|synthesize): (.*)")
"""Regular expression matching a fingerprint line in which a model is assigned to an intent."""
_OVERRIDING = "override: "
"""Prefix in a run's fingerprint for the name of a model that replaced all others."""
_ENDED = (*COMPLETE, "interrupted", "limit", "failed", "awaiting")


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Replay of a stored run up to the end of its journal."""

    handle: RunHandle[Any]
    """The replayed run, now finished, with its raw output, transcript and usage."""
    output: object
    """The block's output; None if the run did not complete."""
    events: Sequence[object]
    """Events emitted so far, including `RunFinished` if the run has ended."""
    calls: Sequence[CallStarted]
    """Calls that the run will make next, or is currently making if a process is executing it."""
    failure: FlowDebateError | None
    """Error that ended the run, if the replay raised the same error."""
    parked: Sequence[str]
    """Paths at which the run's branches have reached the end of the journal."""
    skipped: frozenset[str]
    """Paths of answered calls whose requests the replay did not make, because their caller's result was recorded."""


async def replay(
    block: Runnable[Any],
    stored: StoredRun,
    steps: Sequence[StepRow],
    *,
    model: ModelChoice = None,
    limits: Limits | None = None,
    profile: Profile = "full",
    on_request: OnRequest | None = None,
) -> Replay:
    """Replay the steps of a stored run; the stored run is not touched, and another process may be executing it.

    The events are a prefix of the run's events, with three exceptions: those of concurrent branches may come in a
    different order; `CallRetried` and `CallFellBack` are missing, because they are known only to the executing process;
    and a role that failed permanently is represented only by its calls and its failure. No models or humans are called,
    no conditions are evaluated, and no side effects are executed. The replay stops at the end of the journal, or after
    ten seconds if a block waits for time to pass. Pass `profile` (or `model`) if the run used a model object, because
    the journal contains only the object's name. `on_request` is called with the path and the request of each call,
    whether replayed or still to come; a prompt is rendered only if the callback reads the messages, or if there is no
    answer.
    """
    run, journal, handle = _start_replay(block, stored, steps, model=model, limits=limits, profile=profile)
    run.on_request = on_request
    try:
        await _wait_for_end_of_journal(run, journal)
        _emit_end_of_journal(run, journal, stored)
        events, calls = _events_of(handle), _calls_of(handle, run)
        # determined before the replay is cancelled, since cancelling it sets the status to "interrupted"
        if stored.owned:
            run.build_partial_output("running")
    finally:
        output, failure = await _end_replay(handle)
    if stored.status in _ENDED:
        events.append(_finish(stored, run, events))
    return Replay(
        handle=handle,
        output=output,
        events=events,
        calls=calls,
        failure=failure,
        parked=[*journal.parked],
        skipped=frozenset(journal.skipped),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """Updates to a followed run since the previous read."""

    anew: bool
    """True if `events` contains all of the run's events, rather than only new ones."""
    events: Sequence[object]
    calls: Sequence[CallStarted]
    """Calls that the run will make next, or is currently making if a process is executing it."""


class Follower:
    """Replay of a run that another process is executing; the replay continues as the journal grows."""

    def __init__(self, block: Runnable[Any], *, model: ModelChoice = None, limits: Limits | None = None) -> None:
        self._block = block
        self._model = model
        self._limits = limits
        self._steps: list[StepRow] = []
        self._replay: tuple[_Replayed, _ReadOnlyJournal, RunHandle[Any]] | None = None
        self._events = 0

    @property
    def steps(self) -> int:
        """Number of finished steps read so far."""
        return len(self._steps)

    async def read(self, stored: StoredRun, steps: Sequence[StepRow]) -> News:
        """Advance the replay by `steps`: the steps finished since the previous call, and all open steps."""
        self._steps += [row for row in steps if row.seq is not None]
        anew = self._replay is None or not self._replay[1].add(steps) or stored.status == "awaiting"
        if not anew:
            anew = not await self._catch_up(stored)
        if anew:
            self.close()
            open_steps = [row for row in steps if row.seq is None]
            self._replay = _start_replay(
                self._block, stored, [*self._steps, *open_steps], model=self._model, limits=self._limits
            )
            self._events = 0
            await self._catch_up(stored)
        assert self._replay is not None  # noqa: S101 - it has started
        run, _, handle = self._replay
        events = _events_of(handle, self._events)
        self._events += len(events)
        calls = _calls_of(handle, run)
        if stored.status in _ENDED:
            events.append(_finish(stored, run, handle.events))
        if not stored.owned:  # an owned run is still being executed, so it continues beyond the end of its journal
            self.close()
        return News(anew=anew, events=events, calls=calls)

    async def _catch_up(self, stored: StoredRun) -> bool:
        """Wait until the replay has read the whole journal.

        Returns False if a step was recorded only after the replay had passed it.
        """
        assert self._replay is not None  # noqa: S101 - the caller has looked
        run, journal, _ = self._replay
        await _wait_for_end_of_journal(run, journal)
        if journal.has_unread():
            return False
        _emit_end_of_journal(run, journal, stored)
        return True

    def close(self) -> None:
        """End the replay."""
        if self._replay is not None:
            self._replay[2].cancel()
            self._replay = None


def _start_replay(
    block: Runnable[Any],
    stored: StoredRun,
    steps: Sequence[StepRow],
    *,
    model: ModelChoice,
    limits: Limits | None,
    profile: Profile = "full",
) -> tuple[_Replayed, _ReadOnlyJournal, RunHandle[Any]]:
    header, store = stored.header, MemoryStore()  # the store is used only in error messages
    journal = _ReadOnlyJournal(store, header, steps, stored.status)
    run = _Replayed(
        run_id=header.run_id,
        session=session_of(store, header, f"{block.name}.replay()"),
        seed=header.seed,
        models=_NoModels(_models_of(store, header, profile) if model is None else ModelResolver(model)),
        # the replay's duration differs from the run's, so the time limit does not apply
        limits=None if limits is None else replace(limits, seconds=None),
        journal=journal,
    )
    return run, journal, start_block(block, header.input, run)


def _emit_end_of_journal(run: Run, journal: _ReadOnlyJournal, stored: StoredRun) -> None:
    """Emit the events for failed calls at the end of the journal.

    If no process owns the run, first emit the events held back by concurrent branches.
    """
    # release the events that concurrent branches have emitted so far
    for path in () if stored.owned else [*run.records.held_events]:
        run.records.release(path)
    for place in [*journal.parked]:  # the run would count these failed calls itself if it continued here
        run.count_failed(place)
    if journal.parked and stored.status in (*COMPLETE, "limit", "failed"):
        run.count_skipped()  # calls of blocks that did not finish


def _events_of(handle: RunHandle[Any], start: int = 0) -> list[object]:
    return [event for event in handle.events[start:] if not isinstance(event, RunFinished)]


def _calls_of(handle: RunHandle[Any], run: Run) -> tuple[CallStarted, ...]:
    return () if handle.done() else tuple(run.records.calls.values())


async def check_edits(
    block: Runnable[Any],
    stored: StoredRun,
    steps: Sequence[StepRow],
    edits: Mapping[str, Any],
    *,
    model: ModelChoice = None,
) -> None:
    """Replay a stored run with `edits` to its answers; raise ConfigurationError if an edit is invalid.

    The check is made before the fork is stored. It needs a replay, because only the block knows which answers are
    valid. Edits to steps not reached by the replay are not checked.
    """
    edited = [replace(row, body=edited_body(row, edits[row.key])) if row.key in edits else row for row in steps]
    replayed = await replay(block, stored, edited, model=model)
    for place, edit in edits.items():
        failure, asking = replayed.failure, unquote(place.rpartition("/")[2].partition("#")[0])
        # If the answer is unusable, the human will be asked again.
        if (isinstance(failure, JournalMismatch) and failure.key == place) or (
            isinstance(failure, OutputError) and failure.block == asking
        ):
            raise invalid_edit_error(place, edit, error_text(failure.__cause__ or failure)) from failure
        if f"{place}#2" in replayed.parked:
            raise invalid_edit_error(place, edit, "the human would have to be asked again")


async def _wait_for_end_of_journal(run: Run, journal: _ReadOnlyJournal) -> None:
    """Wait until the run has reached the end of its journal."""
    seen, quiet, spins, waited, pause = (0, 0), 0, 0, 0.0, _PAUSE
    while run.status == "running" and quiet < _QUIET and waited < _PATIENCE:
        if journal.parked or spins < _SPINS:
            await asyncio.sleep(0)
        else:  # a block is waiting for a thread or a timer, and the event loop gives no sign of either
            await asyncio.sleep(pause)
            waited, pause = waited + pause, min(2 * pause, _MAX_PAUSE)
        recorded = len(run.records.events) + sum(map(len, run.records.held_events.values()))
        now = (recorded, journal.stops)
        quiet = quiet + 1 if now == seen and journal.parked else 0
        seen, spins = now, spins + 1


async def _end_replay(handle: RunHandle[OutT]) -> tuple[OutT | None, FlowDebateError | None]:
    """End the replay; return the run's output, and the error if the run failed."""
    handle.cancel()
    cancelled = await wait_uncancelled(asyncio.ensure_future(handle.wait()))
    if cancelled is not None:
        raise cancelled
    try:
        return (await handle).output, None
    except FlowDebateError as error:
        return None, error
    except (asyncio.CancelledError, Exception):  # noqa: BLE001 - blocks are the application's code
        return None, None


def _finish(stored: StoredRun, run: Run, events: Sequence[object]) -> RunFinished:
    """Return the run's final event as the executing process emitted it."""
    outcome = stored.outcome or {}
    status: RunStatus = stored.status  # type: ignore[assignment]  # one of _ENDED
    return RunFinished(
        run_id=run.run_id,
        status=status,
        usage=run.usage,
        seconds=outcome.get("seconds") or 0.0,
        error=outcome.get("error"),
        path=getattr(events[0], "path", "") if events else "",
        at=run.now(),
    )


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class _Replayed(Run):
    """Run being replayed: it passes its model requests to a callback and does not repeat warnings."""

    is_replay: ClassVar[bool] = True
    journal: _ReadOnlyJournal
    on_request: OnRequest | None = field(default=None, init=False)

    async def ask(self, model: Model, request: ModelRequest, *, path: str) -> ModelResponse:
        if self.on_request is not None:
            self.on_request(path, request)
        await asyncio.sleep(0)  # yield, so that a replay with many calls does not block the loop
        if self.journal.lacks(path):
            calling = self.records.call_started(request, model.name, path)
            try:
                await self.journal.arrival(path)
            finally:
                self.records.call_ended(calling)
        return await Run.ask(self, model, request, path=path)

    def warn_once(self, key: str, message: str) -> None:
        """Do nothing: a replay does not repeat the run's warnings."""


class _ReadOnlyJournal(Journal):
    """Read-only journal, which never executes unrecorded steps."""

    def __init__(self, store: Store, header: RunHeader, rows: Sequence[StepRow], status: StoredStatus) -> None:
        super().__init__(store, header, rows=rows, accepts_changes=True)
        self._added: set[str] = set()
        self._asked = {row.key for row in rows if row.kind == "human" and row.body is None and status == "awaiting"}
        self._counted = {row.key: len(row.failures) for row in rows}
        """Number of failures seen so far, keyed by step."""
        self.parked: dict[str, asyncio.Event] = {}
        """Events for branches waiting at the end of the journal, keyed by step; each is set when its step arrives."""
        self.stops = 0
        """Number of times a branch has reached the end of the journal."""

    def accepts_any_request(self, key: str) -> bool:  # noqa: ARG002 - nobody is asked if there is no answer
        return True

    def lacks(self, key: str) -> bool:
        """Return whether the step `key` is missing from the part of the journal read so far."""
        return key not in self._done

    async def arrival(self, key: str) -> None:
        """Wait until the step `key` arrives in the journal."""
        if self.lacks(key):
            self.stops += 1
            await self.parked.setdefault(key, asyncio.Event()).wait()

    def add(self, rows: Sequence[StepRow]) -> bool:
        """Add newly recorded steps; return False if the replay has already passed one of them."""
        if any(row.body is not None and row.key in self._seen for row in rows):
            return False
        for row in rows:
            if row.kind == "call" and row.key not in self._counted:
                insort(self._calls, row.key)
            counted = self._counted.setdefault(row.key, 0)
            if row.failures[counted:]:
                self._failures[row.key] = (*self._failures.get(row.key, ()), *row.failures[counted:])
                self._counted[row.key] = len(row.failures)
            if row.body is None:
                self._open[row.key] = row
            else:
                self._done[row.key] = row
                self._open.pop(row.key, None)
                self._added.add(row.key)
                if (waiting := self.parked.pop(row.key, None)) is not None:
                    waiting.set()
        return True

    def has_unread(self) -> bool:
        """Return whether the replay has yet to read any of the added steps, and forget which steps were added."""
        unread, self._added = not self._added <= self._seen, set()
        return unread

    async def _park(self, key: str) -> NoReturn:
        self.stops += 1
        self.parked[key] = asyncio.Event()
        # Wait instead of raising an error, since blocks could catch it and continue with steps that the run never took.
        await asyncio.Event().wait()
        raise AssertionError

    async def intend(self, key: str, *_: object) -> None:
        await self._park(key)

    async def ask(self, key: str, request: str) -> None:
        if key in self._asked:
            raise Suspended([request_of(key, request)])
        await self._park(key)

    async def commit(self, key: str, *_: object) -> None:
        await self._park(key)

    async def step(self, key: str, call: Callable[[], Awaitable[T]], returns: object, *, failures: bool) -> T:
        await self.arrival(key)
        return await super().step(key, call, returns, failures=failures)

    async def decide(self, key: str, call: Callable[[], Awaitable[T]], returns: object) -> T:
        await self.arrival(key)
        return await super().decide(key, call, returns)

    async def fail(self, *_: object) -> None:
        """Do nothing, because the journal is read-only."""


class _NoModels(ModelResolver):
    """Placeholder for a run's models, providing only the names and profiles that later steps depend on."""

    __slots__ = ("_real_models",)

    def __init__(self, models: ModelResolver) -> None:
        super().__init__()
        self._real_models = models

    def resolve(self, spec: ModelSpec | None = None, defaults: Sequence[ModelChoice] = ()) -> Model:
        try:
            model = self._real_models.resolve(spec, defaults)
        except (ModelUnavailable, ConfigurationError):  # a run can be read without an API key
            return _NoModel(spec if isinstance(spec, str) else "unknown", "concise" if spec == "local" else "full")
        return _NoModel(model.name, profile_of(model))


def _models_of(store: Store, header: RunHeader, profile: Profile) -> ModelResolver:
    """Return the models that the run was started with; for model objects, only the names are known."""
    names = header.fingerprint.get("model", DEFAULT_MODEL)
    if header.model is not None or names == DEFAULT_MODEL:
        return models_of(store, header)
    if names.startswith(_OVERRIDING):
        return ModelResolver(Override(_NoModel(names.removeprefix(_OVERRIDING), profile)))
    intents = filter(None, map(_OF_INTENT.fullmatch, names.split("\n")))
    return ModelResolver({match[1]: _NoModel(match[2], profile) for match in intents} or _NoModel(names, profile))


class _NoModel:
    """A model that is never called."""

    tells_attempts = True

    def __init__(self, name: str, profile: Profile) -> None:
        self.name = name
        self.profile = profile

    async def request(self, _: ModelRequest, /) -> NoReturn:
        raise AssertionError
