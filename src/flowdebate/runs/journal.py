"""Journal of a durable run: recorded answers are replayed, and new ones are committed before they are used."""

from __future__ import annotations

import asyncio
import json
import logging
import time
import warnings
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypedDict, TypeVar

from pydantic import TypeAdapter

from flowdebate._text import error_text
from flowdebate._util.cancellation import wait_uncancelled
from flowdebate.errors import (
    FlowDebateWarning,
    JournalMismatch,
    NotRecordable,
    RunConflict,
    RunUncertain,
    SchemaViolation,
    StoreError,
    StoreLost,
)
from flowdebate.models.codec import TextHasher, exact_json, failure_of, failure_text, json_text
from flowdebate.runs.suspend import HumanRequest, Suspended

if TYPE_CHECKING:
    from flowdebate.store.base import RunHeader, StepKind, StepRow, Store, StoredStatus


T = TypeVar("T")

OnUncertain: TypeAlias = Literal["retry", "raise"]
"""Policy for a call that was started but has no recorded result when the run is resumed."""

LOST = "#lost:"
"""Key segment that marks a role's non-fatal failure; it is followed by the block's name."""
UNANSWERED = "#unanswered:"
"""Key segment that marks a role's fatal failure; it is followed by the block's name."""
TOOL = "#tool"
"""Key suffix for the result of a tool that is a block; the block's calls have their own steps."""
DECISION = "#decision"
"""Key suffix for decisions, which are made by code without side effects."""


class UnreadCall(NamedTuple):
    """A recorded call that has not been read yet: its key, its failures, and its answer, if there is one."""

    key: str
    failures: tuple[str, ...]
    answer: StepRow | None


class JournalOptions(TypedDict, total=False):
    """Options common to all journals."""

    rows: Sequence[StepRow] | None
    owned: bool
    on_uncertain: OnUncertain
    accepts_changes: bool


class Journal:
    """Journal of a durable run: reads the recorded steps, keyed by path, and records new ones.

    `now` is the run's clock: it advances only with steps, so a resumed run sees the same times as the original.
    """

    def __init__(
        self,
        store: Store,
        header: RunHeader,
        *,
        rows: Sequence[StepRow] | None = None,
        owned: bool = False,
        on_uncertain: OnUncertain = "retry",
        accepts_changes: bool = False,
    ) -> None:
        self.store = store
        self.header = header
        self.stored: bool = rows is not None
        """True if the run was already in the store and its `rows` have been read."""
        rows = rows or ()
        self.texts: TextHasher = TextHasher()
        """Hasher for text in the run's requests."""
        self._on_uncertain = on_uncertain
        self._accepts_changes = accepts_changes
        """True if a recorded answer is used even when its request would be different now."""
        self._done: dict[str, StepRow] = {row.key: row for row in rows if row.body is not None}
        self._open: dict[str, StepRow] = {row.key: row for row in rows if row.body is None}
        self._failures: dict[str, tuple[str, ...]] = {row.key: tuple(row.failures) for row in rows if row.failures}
        """Failures recorded by earlier processes and not read yet, by step."""
        self._calls: list[str] = sorted(row.key for row in rows if row.kind == "call")
        """Keys of all recorded calls, sorted so that those below a path can be found quickly."""
        self._seen: set[str] = set()
        self.skipped: set[str] = set()
        """Keys of answered calls that the run skips, because the result of their caller is recorded as well."""
        self._clock = header.created_at
        self._ahead = 0.0
        """Seconds by which the run's clock is ahead of real time: a fork's clock continues its parent's."""
        self.owned: bool = owned
        """True if this process owns the run: from the start, or from its first write if the run was complete."""
        self.reopens: bool = False
        """True if a failed final role should be asked again."""
        self._taking: asyncio.Future[None] | None = None
        self.spent: float = 0.0
        """Seconds the run had taken before it was resumed."""
        self.parent_labels: Mapping[str, str] = {}
        """Labels of the run that this one was forked from."""
        self.pending: tuple[HumanRequest, ...] = ()
        """Requests that a suspended run is waiting for."""
        self.reviewed: set[str] = set()
        """Paths where the run was suspended and has since received a human's answer."""

    @property
    def run_id(self) -> str:
        return self.header.run_id

    def now(self) -> float:
        """Return the time at which the latest step was recorded; before the first step, return the run's start time."""
        return self._clock

    async def begin(self) -> None:
        """Store a new run's header and take ownership of the run; do nothing if the run is already stored."""
        if not self.stored:
            # If this task is cancelled here, the process may already own the run, which must then be released at the
            # end.
            creating = asyncio.ensure_future(self.store.create(self.header))
            cancelled = await wait_uncancelled(creating)
            self.owned = creating.exception() is None
            if cancelled is not None:
                raise cancelled
            creating.result()

    def accepts_any_request(self, key: str) -> bool:
        """Return whether the answer recorded at `key` is valid even if the request has changed."""
        return self._accepts_changes and key in self._done

    def find(self, key: str, request: str | None = None, *, model: str | None = None) -> StepRow | None:  # noqa: ARG002 - for forks
        """Find the recorded step at `key`; raise JournalMismatch if the key occurs twice or the request has changed.

        Some journals accept changed requests. A recorded answer is valid regardless of the current `model`.
        """
        if key in self._seen:
            raise JournalMismatch(self.store.name, self.run_id, key, "occurs twice in one run")
        self._seen.add(key)
        row = self._done.get(key)
        if row is None:
            return None
        # Never silently reuse the answer: an answer to a different question would corrupt the transcript without anyone
        # noticing.
        if row.request != request and not self._accepts_changes:
            problem = (
                "makes a different request from the recorded one: the messages, tools, schema or settings of its block "
                "have changed (to reuse the recorded answers anyway, pass allow_changes=True or --allow-changes)"
            )
            raise JournalMismatch(self.store.name, self.run_id, key, problem)
        self._clock = max(self._clock, row.at or 0.0)
        return row

    def read(self, row: StepRow, reader: Callable[[str], T]) -> T:
        """Decode the body of a finished step with `reader`; raise JournalMismatch if the record is unreadable."""
        assert row.body is not None  # noqa: S101 - it is finished
        try:
            return reader(row.body)
        except (ValueError, KeyError, TypeError, AttributeError, SchemaViolation) as error:
            problem = f"has a record that cannot be read: {error_text(error)}"
            raise JournalMismatch(self.store.name, self.run_id, row.key, problem) from error

    def has_steps(self, place: str) -> bool:
        """Return whether a step at or below `place` was started before this process took over the run."""
        return any(is_within(key, place) for rows in (self._done, self._open) for key in rows)

    def take_failures(self, key: str) -> tuple[str, ...]:
        """Return the failures of the call `key` recorded by earlier processes, each only once."""
        return self._failures.pop(key, ())

    def unread_calls(self, place: str = "") -> list[UnreadCall]:
        """Return the recorded calls at or below `place` (by default, all) that have an unread answer or failure."""
        keys = self._calls
        if place:
            ranges = [(place, f"{place}\0"), (f"{place}#", f"{place}$"), (f"{place}/", f"{place}0")]  # see `is_within`
            keys = [key for start, end in ranges for key in keys[bisect_left(keys, start) : bisect_left(keys, end)]]
        calls = [UnreadCall(key, self._failures.get(key, ()), self._unread_answer(key)) for key in keys]
        return [call for call in calls if call.failures or call.answer is not None]

    def _unread_answer(self, key: str) -> StepRow | None:
        return None if key in self._seen else self._done.get(key)

    def skip(self, key: str) -> None:
        """Mark the recorded answer to the call `key` as read, although the run does not make its request."""
        self._seen.add(key)
        self.skipped.add(key)

    async def _take_ownership(self) -> None:
        """Take ownership of a run before the first write to it.

        Raises RunConflict if the run has changed since it was read.
        """
        # take ownership only once, on behalf of all concurrent branches about to write
        if self._taking is None:
            self._taking = asyncio.ensure_future(self._take())
        cancelled = await wait_uncancelled(self._taking)
        if cancelled is not None:
            raise cancelled
        self._taking.result()

    async def _take(self) -> None:
        taken_run = await self.store.take(self.run_id)
        # Another process may have extended the complete run, so the rows read here are out of date.
        if taken_run.steps != len(self._done):
            await self.store.finish(self.run_id, taken_run.status, taken_run.outcome)
            raise RunConflict(self.store.name, self.run_id, "has since been resumed by another process")
        self.owned = True

    async def intend(self, key: str, kind: StepKind, request: str | None) -> None:
        """Record that the step `key` is about to start; raise RunUncertain if it must not be started a second time."""
        open_attempt = self._open.get(key)
        # An attempt with a recorded failure produced no answer; any other attempt may have been paid for.
        if (
            open_attempt is not None
            and self._on_uncertain == "raise"
            and open_attempt.attempts > len(open_attempt.failures)
        ):
            raise RunUncertain(self.store.name, self.run_id, key, open_attempt.attempts)
        if not self.owned:
            await self._take_ownership()
        await self.store.intend(self.run_id, key, kind, request)

    async def ask(self, key: str, request: str) -> None:
        """Record the request for a human's answer at `key`, unless the same request is already recorded."""
        open_attempt = self._open.get(key)
        if open_attempt is None or open_attempt.request != request:
            if not self.owned:
                await self._take_ownership()
            await self.store.intend(self.run_id, key, "human", request)

    async def commit(self, key: str, kind: StepKind, body: str) -> None:
        """Record the result of the step `key` durably before returning, even if the caller is cancelled."""
        # Wall clocks can be set back, and other machines' clocks may be slow.
        self._clock = max(self._clock, time.time() + self._ahead)
        if not self.owned:
            await self._take_ownership()
        await self.store.commit(self.run_id, key, kind, body, self._clock)

    async def fail(self, key: str, failure: str) -> None:
        """Record a failed attempt at the step `key`; if recording it fails as well, only log that error."""
        try:
            await self.store.fail(self.run_id, key, failure)
        except StoreError:
            _LOGGER.warning("run %s: a failure at %s could not be recorded", self.run_id, key, exc_info=True)

    async def step(self, key: str, call: Callable[[], Awaitable[T]], returns: object, *, failures: bool) -> T:
        """Return the recorded result of the step; if there is none, execute `call` and record its result.

        Raises NotRecordable unless the result is JSON data or of the type `returns`. If `failures` is set, an exception
        is recorded as well, and is raised again on replay.
        """
        row = self.find(key)
        if row is not None:
            if row.kind == "loss":
                raise self.read(row, failure_of)
            recorded: T = self._read_value(row, returns)
            return recorded
        await self.intend(key, "effect", None)
        try:
            value = await call()
        except Suspended as suspended:  # not uncertain, because nothing has been done yet
            await self.fail(key, json_text({"error": error_text(suspended)}))
            raise
        except Exception as error:
            if failures:
                await self.record_failure(key, error)
            else:
                await self.fail(key, json_text({"error": error_text(error)}))
            raise
        await self.commit(key, "effect", self._value_text(key, value, returns))
        return value

    async def decide(self, key: str, call: Callable[[], Awaitable[T]], returns: object) -> T:
        """Return the decision recorded at `key`; if there is none, call `call` and record its result.

        `call` must have no side effects. Nothing is recorded if a complete run is merely being read.
        """
        row = self.find(key)
        if row is not None:
            recorded: T = self._read_value(row, returns)
            return recorded
        value = await call()
        body = self._value_text(key, value, returns)
        if self.owned:
            await self.commit(key, "effect", body)
        return value

    def _read_value(self, row: StepRow, returns: object) -> Any:  # noqa: ANN401 - the type given by `returns`
        return self.read(row, json.loads if returns is None else _adapter(returns).validate_json)

    def _value_text(self, key: str, value: object, returns: object) -> str:
        """Serialize a value; raise NotRecordable if a resumed run would read back a different value."""
        body = exact_json(value) if returns is None else _adapter(returns).dump_json(value).decode()
        if body is None:
            raise NotRecordable(self.store.name, self.run_id, key, value)
        return body

    def recorded_failure(self, key: str) -> Exception | None:
        """Return the provider failure recorded at `key`; return None if there is none."""
        row = self.find(key)
        return None if row is None else self.read(row, failure_of)

    async def unanswered(self, key: str) -> tuple[str, Exception | None]:
        """Return the key under which to record a role's failure, and the failure recorded there, if any.

        The key is `key` followed by a number. If the journal `reopens` the run, a role that failed is called again, and
        this is recorded as well.
        """
        number = 1
        while (lost := self.recorded_failure(place := f"{key}[{number}]")) is not None:
            again = f"{place}#again"
            if self.find(again) is None:
                if not self.reopens:
                    return place, lost
                await self.commit(again, "effect", json_text(True))  # noqa: FBT003 - the value of the step
            number += 1
        return place, None

    async def record_failure(self, key: str, error: Exception) -> None:
        """Record that the step `key` has failed permanently with `error`; later steps depend on this failure."""
        if key not in self._done:  # otherwise, an earlier process recorded it
            await self.commit(key, "loss", failure_text(error))

    async def finish(self, status: StoredStatus, outcome: Mapping[str, Any] | None) -> None:
        """Record the end of the run.

        If that fails, only a warning is issued, because the steps are already recorded. Raises StoreLost if the steps
        may be lost too.
        """
        if not self.owned:
            return
        self.owned = False
        try:
            await self.store.finish(self.run_id, status, outcome)
        except StoreError as error:
            # A run whose answers may be lost must not end as complete, but may still end as "failed" or "interrupted".
            if isinstance(error, StoreLost) and status not in ("failed", "interrupted"):
                raise
            message = f"run {self.run_id} ended as {status!r}, which could not be recorded: {error}"
            warnings.warn(message, FlowDebateWarning, stacklevel=2)


def has_unanswered(rows: Iterable[StepRow]) -> bool:
    """Return whether a run ended without an answer from its final role, in which case the role can be called again."""
    keys = {row.key for row in rows if UNANSWERED in row.key}
    return any(f"{key}#again" not in keys for key in keys if not key.endswith("#again"))


def is_within(key: str, place: str) -> bool:
    """Return whether the step `key` is at or below `place`."""
    return key == place or key.startswith((f"{place}/", f"{place}#"))


def plain(value: object) -> object:
    """Convert `value` to JSON data; raise ValueError, TypeError or RecursionError if it cannot be converted."""
    return json.loads(json_text(value))


@lru_cache(maxsize=64)  # cached, because pydantic takes milliseconds to build an adapter
def _adapter(returns: Any) -> TypeAdapter[Any]:  # noqa: ANN401 - any type form
    return TypeAdapter(returns)


_LOGGER = logging.getLogger("flowdebate")
