"""A run's side of its store: what was recorded is given again, what is new is recorded before it is handed on."""

from __future__ import annotations

import asyncio
import logging
import time
import warnings
from typing import TYPE_CHECKING, Any, TypeVar, cast

from flowdebate.errors import (
    FlowDebateWarning,
    JournalMismatch,
    NotRecordable,
    RunUncertain,
    SchemaViolation,
    StoreError,
    told,
)
from flowdebate.models.codec import failure_of, failure_text
from flowdebate.runs.durable import codec
from flowdebate.runs.durable.suspend import Suspended

__all__ = (
    "Journal",
    "waited",
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from typing import Literal

    from flowdebate.runs.durable.suspend import HumanRequest
    from flowdebate.store.base import RunHeader, StepKind, StepRow, Store, StoredStatus

    Uncertain = Literal["retry", "raise"]


T = TypeVar("T")


class Journal:
    """What a run that is kept has recorded so far, by place; and where more goes.

    `now` is the run's clock: it stands still between steps, so that a run that is carried on reads the same times.
    """

    def __init__(
        self, store: Store, header: RunHeader, *, rows: Sequence[StepRow] = (), uncertain: Uncertain = "retry"
    ) -> None:
        self.store = store
        self.header = header
        self._uncertain = uncertain
        self._done: dict[str, StepRow] = {row.key: row for row in rows if row.body is not None}
        self._open: dict[str, StepRow] = {row.key: row for row in rows if row.body is None}
        self._seen: set[str] = set()
        self._clock = header.created_at
        self.owned = False
        self.awaiting: tuple[HumanRequest, ...] = ()
        """What humans have to answer before the run can go on, once it has come to a stand."""
        self.reviewed: set[str] = set()
        """The places at which it had come to a stand, and goes on now with what a human answered."""

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.header.run_id

    def now(self) -> float:
        """When the last step was finished that the run has come to; when it was begun, before any."""
        return self._clock

    async def begin(self) -> None:
        """Keep the run's header, if it is new; from here on it is this process's."""
        if not self.owned:
            creating = asyncio.ensure_future(self.store.create(self.header))
            cancelled = await waited(creating)
            self.owned = creating.exception() is None
            if cancelled is not None:
                raise cancelled
            creating.result()

    def found(self, key: str, request: str | None = None) -> StepRow | None:
        """What was recorded at `key`; JournalMismatch if that was for another request, or the key comes twice."""
        if key in self._seen:
            raise JournalMismatch(self.store.name, self.run_id, key, "comes up twice in one run")
        self._seen.add(key)
        row = self._done.get(key)
        if row is None:
            return None
        if row.request != request:
            problem = (
                "asks for something else than what was recorded: the messages, tools, schema or settings of its block "
                "are others now"
            )
            raise JournalMismatch(self.store.name, self.run_id, key, problem)
        self._clock = max(self._clock, row.at or 0.0)
        return row

    def read(self, row: StepRow, reader: Callable[[str], T]) -> T:
        """What `reader` makes of a finished step; JournalMismatch for a record that cannot be read."""
        assert row.body is not None  # noqa: S101 - it is finished
        try:
            return reader(row.body)
        except (ValueError, KeyError, TypeError, AttributeError, SchemaViolation) as error:
            problem = f"has a record that cannot be read: {told(error)}"
            raise JournalMismatch(self.store.name, self.run_id, row.key, problem) from error

    def holds(self, place: str) -> bool:
        """Whether anything at or below `place` was begun before this process took the run over."""
        return any(_is_within(key, place) for rows in (self._done, self._open) for key in rows)

    def failed(self, place: str) -> list[tuple[str, str]]:
        """How calls at or below `place` failed before this process took the run over, with their keys; each once."""
        keys = [key for key in self._open if _is_within(key, place)]
        return [(key, failure) for key in keys for failure in self._open.pop(key).failures]

    async def intend(self, key: str, kind: StepKind, request: str | None) -> None:
        """Write down that the step `key` is about to be carried out; RunUncertain where it may not be a second time."""
        left = self._open.get(key)
        if left is not None and self._uncertain == "raise" and left.attempts > len(left.failures):
            raise RunUncertain(self.store.name, self.run_id, key, left.attempts)
        await self.store.intend(self.run_id, key, kind, request)

    async def ask(self, key: str, request: str) -> None:
        """Write down that a human is asked `request` at `key`: once, however often the run comes to it."""
        left = self._open.get(key)
        if left is None or left.request != request:
            await self.store.intend(self.run_id, key, "human", request)

    async def commit(self, key: str, kind: StepKind, body: str) -> None:
        """Record what came of the step `key`: it is durable when this returns, whoever is cancelled meanwhile."""
        self._clock = max(self._clock, time.time())
        await self.store.commit(self.run_id, key, kind, body, self._clock)

    async def fail(self, key: str, failure: str) -> None:
        """Record how an attempt at the step `key` failed; where this cannot be done, that failure is what is told."""
        try:
            await self.store.fail(self.run_id, key, failure)
        except StoreError:
            _LOGGER.warning("run %s: a failure at %s could not be recorded", self.run_id, key, exc_info=True)

    async def step(self, key: str, call: Callable[[], Awaitable[T]], returns: object, *, failures: bool) -> T:
        """What `call` gives, or gave before; NotRecordable for what is no JSON data and no `returns`.

        With `failures` an exception is recorded as well, and raised again.
        """
        row = self.found(key)
        if row is not None:
            if row.kind == "loss":
                raise self.read(row, failure_of)
            return self.read(row, lambda body: cast("T", codec.value_of(body, returns)))
        await self.intend(key, "effect", None)
        try:
            value = await call()
        except Suspended as parked:  # it is known what came of it: nothing yet
            await self.fail(key, codec.failed_text(told(parked)))
            raise
        except Exception as error:
            if failures:
                await self.lose(key, error)
            else:
                await self.fail(key, codec.failed_text(told(error)))
            raise
        body = codec.value_text(value, returns)
        if body is None:
            raise NotRecordable(self.store.name, self.run_id, key, value)
        await self.commit(key, "effect", body)
        return value

    def lost(self, key: str) -> Exception | None:
        """The loss that was recorded at `key`."""
        row = self.found(key)
        return None if row is None else self.read(row, failure_of)

    async def lose(self, key: str, error: Exception) -> None:
        """Record that the answer at `key` is given up for `error`: what follows was built on that."""
        await self.commit(key, "loss", failure_text(error))

    async def finish(self, status: StoredStatus, outcome: Mapping[str, Any] | None) -> None:
        """Write down how the run ended; where that cannot be done a warning, since its steps are kept already."""
        if not self.owned:
            return
        self.owned = False
        try:
            await self.store.finish(self.run_id, status, outcome)
        except StoreError as error:
            message = f"run {self.run_id} ended as {status!r}, which could not be written down: {error}"
            warnings.warn(message, FlowDebateWarning, stacklevel=2)


def _is_within(key: str, place: str) -> bool:
    return key == place or key.startswith((f"{place}/", f"{place}#"))


async def waited(task: asyncio.Future[Any]) -> asyncio.CancelledError | None:
    """Wait until `task` is done, also if the caller is cancelled: what came then, for the caller to raise.

    For what decides who owns a run: a caller that left early would not know what it has to let go of.
    """
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    return cancelled


_LOGGER = logging.getLogger("flowdebate")
