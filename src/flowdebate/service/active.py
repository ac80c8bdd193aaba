"""Active runs in one process: those the process executes itself, and those it follows in other processes."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flowdebate._text import error_text
from flowdebate.errors import ConfigurationError, FlowDebateError, RunNotFound, TooManyRuns
from flowdebate.service.channel import Channel, Update

if TYPE_CHECKING:
    from flowdebate.runs.durable.replay import Follower
    from flowdebate.runs.result import RunHandle
    from flowdebate.store.base import Store, StoredRun


_LINGER = 60.0
"""Time in seconds for which a finished run stays in memory, so that readers can reconnect without a replay."""
_LOGGER = logging.getLogger("flowdebate")


@dataclass(slots=True)
class _Executed:
    """A run that this process is executing or has just finished."""

    handle: RunHandle[Any]
    channel: Channel
    owner: str


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A run waiting for its turn to start."""

    run_id: str
    begin: Callable[[], Awaitable[object]]
    owner: str
    turn: tuple[int, int]
    """Priority of the run, followed by its position among runs with the same priority."""


@dataclass(slots=True)
class _Watched:
    """A run executed by another process and followed by this one."""

    channel: Channel
    read: asyncio.Event
    """An `asyncio.Event`, set once the journal has been read for the first time."""
    task: asyncio.Task[None]


class ActiveRuns:
    """Handles of the runs executed by this process, and a channel for each followed run.

    At most `max_concurrency` runs are executed at once, and at most `owner_concurrency` per owner. Up to `max_queued`
    more runs wait for their turn. Those with the lowest priority value start first, and owners take turns within the
    same priority. If a followed run is executed by another process, a `follower` reads the run's journal every `poll`
    seconds, as long as `continuation` returns True.
    """

    def __init__(
        self,
        store: Store,
        *,
        max_concurrency: int,
        owner_concurrency: int | None,
        max_queued: int,
        poll: float,
        follower: Callable[[StoredRun], Follower],
        continuation: Callable[[StoredRun], bool],
    ) -> None:
        self._store = store
        self._max_concurrency = max_concurrency
        self._owner_concurrency = max_concurrency if owner_concurrency is None else owner_concurrency
        self._max_queued = max_queued
        self._poll = poll
        self._follower = follower
        self._continues = continuation
        self._executed: dict[str, _Executed] = {}
        self._watched: dict[str, _Watched] = {}
        self._starting = Counter[str]()  # keyed by owner
        self._queue: list[_Waiting] = []
        self._serving = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self._changed = asyncio.Event()
        self.closing: bool = False

    def handle(self, run_id: str) -> RunHandle[Any] | None:
        """Return the handle of a run that this process is executing or recently finished; otherwise, return None.

        A finished run's handle is kept for a minute.
        """
        executed = self._executed.get(run_id)
        return None if executed is None else executed.handle

    def in_progress(self, run_id: str) -> RunHandle[Any] | None:
        """Return the run's handle if the run is in progress in this process, and None otherwise."""
        handle = self.handle(run_id)
        return None if handle is None or handle.done() else handle

    async def wait_for_change(self, seconds: float) -> None:
        """Wait until a run starts or ends in this process, or until `seconds` have passed."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), seconds)

    def _notify_change(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def events(self, run_id: str) -> list[object] | None:
        """Return a run's events so far; return None if they are only in the journal."""
        executed = self._executed.get(run_id)
        return None if executed is None else executed.channel.events

    def _running(self) -> list[RunHandle[Any]]:
        return [execution.handle for execution in self._executed.values() if not execution.handle.done()]

    def _has_room(self, owner: str) -> bool:
        busy = (
            Counter(execution.owner for execution in self._executed.values() if not execution.handle.done())
            + self._starting
        )
        return not self.closing and busy.total() < self._max_concurrency and busy[owner] < self._owner_concurrency

    def _next(self) -> _Waiting | None:
        """Return the next waiting run, or None if no waiting run may start now."""
        waiting = (queued for queued in self._queue if self._has_room(queued.owner))
        return min(waiting, key=lambda queued: queued.turn, default=None)

    def queue(self, run_id: str, begin: Callable[[], Awaitable[object]], *, owner: str, priority: int) -> None:
        """Queue a run to start when its turn comes; raise TooManyRuns if the queue is full or closed."""
        self.check_queue()
        # As in the workers' queue, a run normally shares the turn of the first waiting run. If its owner already has
        # waiting runs, it takes the turn after the last of those runs.
        waiting = [
            (queued_run.turn[1], queued_run.owner) for queued_run in self._queue if queued_run.turn[0] == priority
        ]
        turn = max([number + 1 for number, of in waiting if of == owner], default=min(waiting, default=(0,))[0])
        self._queue.append(_Waiting(run_id, begin, owner, (priority, turn)))
        self._take_turns()

    def check_queue(self) -> None:
        """Raise TooManyRuns if the queue is full or closed."""
        if self.closing or len(self._queue) >= self._max_queued:
            raise TooManyRuns(self._max_concurrency, queued=len(self._queue))

    @property
    def queued(self) -> list[str]:
        """Ids of the waiting runs, in the order in which they were queued."""
        return [queued_run.run_id for queued_run in self._queue]

    def leave_queue(self, run_id: str) -> None:
        """Remove a run from the queue."""
        self._queue = [queued_run for queued_run in self._queue if queued_run.run_id != run_id]

    def close_queue(self) -> list[str]:
        """Stop starting runs, and return the waiting runs."""
        self.closing, waiting = True, self.queued
        self._queue.clear()
        return waiting

    async def _serve_queue(self) -> None:
        while (head := self._next()) is not None:
            try:
                await head.begin()
            except TooManyRuns:
                break  # another run took the slot; this method is called again when it ends
            except FlowDebateError as error:  # for example RunNotFound, if the run was deleted in the meantime
                _LOGGER.warning("run %s cannot be started: %s", head.run_id, error_text(error))
            self._queue = [queued_run for queued_run in self._queue if queued_run is not head]
        self._serving = False

    def _take_turns(self) -> None:
        if self._queue and not self._serving and not self.closing:
            self._serving = True
            self.in_background(self._serve_queue())

    async def start(
        self, starting: Coroutine[Any, Any, RunHandle[Any]], *, owner: str, in_turn: bool = False
    ) -> StoredRun:
        """Start a run, and open a channel that receives all of its events.

        Raises TooManyRuns if the maximum number of runs is in progress, or if other runs are waiting and `in_turn` is
        not set.
        """
        if not self._has_room(owner) or (not in_turn and self._next() is not None):
            starting.close()  # otherwise, asyncio would warn that the coroutine was never awaited
            raise TooManyRuns(self._max_concurrency, queued=len(self._queue))
        # Other runs may start at the same time, so count this one until it has a handle and `_running` counts it.
        self._starting[owner] += 1
        try:
            handle = await starting
            executed = self._executed[handle.run_id] = _Executed(handle, Channel.of(handle), owner)
            handle.on_end(lambda: self._forget_later(handle.run_id, executed))
            self._notify_change()
        finally:
            self._starting[owner] -= 1
            self._take_turns()  # if this run failed to start, the next one may start
        try:
            await handle.started()
            stored = await self._store.run(handle.run_id)
        except FlowDebateError:  # after the error, the caller may start the run elsewhere
            self.forget(handle.run_id)
            handle.cancel()
            raise
        if (watched := self._watched.pop(handle.run_id, None)) is not None:
            watched.task.cancel()
            watched.channel.end()  # readers of this channel move on to the new one
        return stored

    def _forget_later(self, run_id: str, executed: _Executed) -> None:
        def forget() -> None:
            if self._executed.get(run_id) is executed:  # the run may have been resumed here in the meantime
                self.forget(run_id)

        self._notify_change()
        self._take_turns()
        asyncio.get_running_loop().call_later(_LINGER, forget)

    def forget(self, run_id: str) -> None:
        """Drop a run from memory, so that its events are read from its journal from then on."""
        self._executed.pop(run_id, None)

    async def follow(self, run_id: str, after: str | None) -> AsyncGenerator[Update]:
        """Yield a run's updates after the mark `after`; raise RunNotFound if the run is unknown."""
        while True:
            channel = await self._channel(run_id)
            async for update in channel.read(after):
                executed = self._executed.get(run_id)
                if update.kind == "end" and executed is not None and executed.channel is not channel:
                    break  # the run was resumed here, and continues in the channel of its new handle
                after = None if update.kind == "reset" else update.mark or after
                yield update
            else:
                return

    async def _channel(self, run_id: str) -> Channel:
        executed = self._executed.get(run_id)
        if executed is not None:
            return executed.channel
        if run_id not in self._watched:
            await self._store.run(run_id)  # raises RunNotFound before anything is set up for the run
        if (watched := self._watched.get(run_id)) is None:
            channel, read = Channel(), asyncio.Event()
            channel.on_deserted = lambda: self._unwatch(run_id, channel)
            task = self.in_background(self._watch(run_id, channel, read))
            watched = self._watched[run_id] = _Watched(channel, read, task)
        await watched.read.wait()
        executed = self._executed.get(run_id)  # the run may have been resumed here in the meantime
        return watched.channel if executed is None else executed.channel

    def _unwatch(self, run_id: str, channel: Channel) -> None:
        watched = self._watched.get(run_id)
        if watched is not None and watched.channel is channel:
            del self._watched[run_id]
            watched.task.cancel()

    async def _watch(self, run_id: str, channel: Channel, read: asyncio.Event) -> None:
        """Read a run's journal until the run ends, putting new events into its channel."""
        seen: object = None
        follower: Follower | None = None
        try:
            while True:
                stored = await self._store.run(run_id)
                now = (stored.updated_at, stored.steps, stored.status, stored.owned)
                if now != seen:
                    seen = now
                    with suppress(ConfigurationError):  # without the run's pattern, only its end can be reported
                        follower = follower or self._follower(stored)
                        news = await follower.read(stored, await self._store.steps(run_id, after=follower.steps))
                        take = channel.update if news.anew else channel.extend
                        take(news.events, news.calls if stored.owned else ())
                read.set()
                if not self._continues(stored):
                    return
                await asyncio.sleep(self._poll)
        except RunNotFound:  # the run was deleted in the meantime
            return
        except FlowDebateError as error:
            _LOGGER.warning("run %s cannot be followed: %s", run_id, error_text(error))
        finally:
            if follower is not None:
                follower.close()
            channel.end()
            read.set()  # set even after a failed first read, because readers are waiting for it
            self._unwatch(run_id, channel)

    def in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a background task; `close` cancels it."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)  # otherwise, the task could be garbage-collected before it ends
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self, quiet: Callable[[], Awaitable[None]], patience: float) -> None:
        """Stop starting runs, wait at most `patience` seconds for `quiet()`, and end all runs and channels."""
        self.closing = True
        running = self._running()
        if running:
            with suppress(TimeoutError):
                await asyncio.wait_for(quiet(), patience)
        for handle in running:
            handle.cancel()
        for handle in running:
            await handle.wait()
        for watched in list(self._watched.values()):
            watched.channel.end()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
