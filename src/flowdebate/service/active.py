"""Runs in progress as one process sees them: those that it executes, and those of others while they are followed."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flowdebate._messages import error_text
from flowdebate.errors import ConfigurationError, FlowDebateError, RunNotFound, TooManyRuns
from flowdebate.service.channel import Channel, Update

if TYPE_CHECKING:
    from flowdebate.runs.durable.replay import Replay
    from flowdebate.runs.result import RunHandle
    from flowdebate.store.base import StepRow, Store, StoredRun


_LINGER = 60.0
"""Seconds for which a run stays in memory after its end: a reader that lost its connection goes on without a replay."""
_LOGGER = logging.getLogger("flowdebate")


@dataclass(slots=True)
class _Executed:
    """A run that this process executes, or has executed a moment ago."""

    handle: RunHandle[Any]
    channel: Channel


@dataclass(slots=True)
class _Watched:
    """A run that others execute, while somebody follows it."""

    channel: Channel
    read: asyncio.Event
    """Set once the journal has been read for the first time."""
    task: asyncio.Task[None]


class ActiveRuns:
    """The handles of the runs that this process executes, and a channel for each run that somebody follows.

    At most `max_concurrency` runs are executed at once, and `max_queued` wait for their turn. The journals of other
    processes are read every `poll` seconds, by `replay`, as long as a run `goes_on`.
    """

    def __init__(
        self,
        store: Store,
        *,
        max_concurrency: int,
        max_queued: int,
        poll: float,
        replay: Callable[[StoredRun, Sequence[StepRow]], Awaitable[Replay]],
        goes_on: Callable[[StoredRun], bool],
    ) -> None:
        self._store = store
        self._max_concurrency = max_concurrency
        self._max_queued = max_queued
        self._poll = poll
        self._replay = replay
        self._goes_on = goes_on
        self._executed: dict[str, _Executed] = {}
        self._watched: dict[str, _Watched] = {}
        self._starting = 0
        self._queue: deque[tuple[str, Callable[[], Awaitable[object]]]] = deque()
        self._serving = False
        self._tasks: set[asyncio.Task[Any]] = set()
        self.closing: bool = False

    def handle(self, run_id: str) -> RunHandle[Any] | None:
        """The handle of a run that is executed here, or has been within the last minute."""
        executed = self._executed.get(run_id)
        return None if executed is None else executed.handle

    def in_progress(self, run_id: str) -> RunHandle[Any] | None:
        """The handle of a run that is executed here now."""
        handle = self.handle(run_id)
        return None if handle is None or handle.done() else handle

    def events(self, run_id: str) -> list[object] | None:
        """The events of a run so far; None if only its journal has them."""
        executed = self._executed.get(run_id)
        return None if executed is None else executed.channel.events

    def _running(self) -> list[RunHandle[Any]]:
        return [each.handle for each in self._executed.values() if not each.handle.done()]

    def _has_room(self) -> bool:
        return not self.closing and len(self._running()) + self._starting < self._max_concurrency

    def queue(self, run_id: str, begin: Callable[[], Awaitable[object]]) -> None:
        """Begin a run in its turn, once there is room; TooManyRuns if too many wait."""
        self.check_queue()
        self._queue.append((run_id, begin))

    def check_queue(self) -> None:
        """TooManyRuns if no further run may wait."""
        if self.closing or len(self._queue) >= self._max_queued:
            raise TooManyRuns(self._max_concurrency, queued=len(self._queue))

    @property
    def queued(self) -> list[str]:
        """The runs that wait for their turn, in order."""
        return [run_id for run_id, _ in self._queue]

    def leave_queue(self, run_id: str) -> None:
        """Let a run wait no more."""
        self._queue = deque(each for each in self._queue if each[0] != run_id)

    def close_queue(self) -> list[str]:
        """Begin nothing more; the runs that waited."""
        self.closing, waiting = True, self.queued
        self._queue.clear()
        return waiting

    async def _serve_queue(self) -> None:
        while self._queue and self._has_room():
            head = run_id, begin = self._queue[0]
            try:
                await begin()
            except TooManyRuns:
                break  # somebody was quicker, and the end of their run leads here again
            except FlowDebateError as error:  # such as RunNotFound: it was deleted meanwhile
                _LOGGER.warning("run %s does not begin: %s", run_id, error_text(error))
            if self._queue and self._queue[0] is head:  # it may have left the queue meanwhile
                self._queue.popleft()
        self._serving = False

    def _take_turns(self) -> None:
        if self._queue and not self._serving and not self.closing:
            self._serving = True
            self.in_background(self._serve_queue())

    async def start(self, starting: Coroutine[Any, Any, RunHandle[Any]], *, in_turn: bool = False) -> StoredRun:
        """Start a run, with a channel from its first event on; TooManyRuns, unless `in_turn` also where others wait."""
        if not self._has_room() or (self._queue and not in_turn):
            starting.close()  # else asyncio warns of a coroutine that was never awaited
            raise TooManyRuns(self._max_concurrency, queued=len(self._queue))
        self._starting += 1  # until it has a handle, which `_running` counts: others may start at the same time
        try:
            handle = await starting
            executed = self._executed[handle.run_id] = _Executed(handle, Channel.of(handle))
            handle.on_end(lambda: self._forget_later(handle.run_id, executed))
        finally:
            self._starting -= 1
            self._take_turns()  # if it has failed, the next one may begin
        try:
            await handle.started()
            stored = await self._store.run(handle.run_id)
        except FlowDebateError:  # whoever is told that it did not start may start it elsewhere
            self.forget(handle.run_id)
            handle.cancel()
            raise
        if (watched := self._watched.pop(handle.run_id, None)) is not None:
            watched.task.cancel()
            watched.channel.end()  # its readers go on with the new channel
        return stored

    def _forget_later(self, run_id: str, executed: _Executed) -> None:
        def forget() -> None:
            if self._executed.get(run_id) is executed:  # it may have been resumed here meanwhile
                self.forget(run_id)

        self._take_turns()
        asyncio.get_running_loop().call_later(_LINGER, forget)

    def forget(self, run_id: str) -> None:
        """Let go of a run: from now on its journal is read."""
        self._executed.pop(run_id, None)

    async def follow(self, run_id: str, after: str | None) -> AsyncGenerator[Update]:
        """Yield the updates of a run, from behind the mark `after`; RunNotFound."""
        while True:
            channel = await self._channel(run_id)
            async for update in channel.read(after):
                executed = self._executed.get(run_id)
                if update.kind == "end" and executed is not None and executed.channel is not channel:
                    break  # it was resumed here: it goes on in the channel of its new handle
                after = None if update.kind == "reset" else update.mark or after
                yield update
            else:
                return

    async def _channel(self, run_id: str) -> Channel:
        executed = self._executed.get(run_id)
        if executed is not None:
            return executed.channel
        if run_id not in self._watched:
            await self._store.run(run_id)  # RunNotFound before anything is set up for it
        if (watched := self._watched.get(run_id)) is None:
            channel, read = Channel(), asyncio.Event()
            channel.on_deserted = lambda: self._unwatch(run_id, channel)
            task = self.in_background(self._watch(run_id, channel, read))
            watched = self._watched[run_id] = _Watched(channel, read, task)
        await watched.read.wait()
        executed = self._executed.get(run_id)  # the run may have been resumed here meanwhile
        return watched.channel if executed is None else executed.channel

    def _unwatch(self, run_id: str, channel: Channel) -> None:
        watched = self._watched.get(run_id)
        if watched is not None and watched.channel is channel:
            del self._watched[run_id]
            watched.task.cancel()

    async def _watch(self, run_id: str, channel: Channel, read: asyncio.Event) -> None:
        """Read the journal of a run until it ends, and put what is new into its channel."""
        seen: object = None
        try:
            while True:
                stored = await self._store.run(run_id)
                now = (stored.updated_at, stored.steps, stored.status, stored.owned)
                if now != seen:  # a replay takes as long as the run itself did: only where there is something new
                    seen = now
                    with suppress(ConfigurationError):  # without its pattern only its end can be told
                        found = await self._replay(stored, await self._store.steps(run_id))
                        channel.update(found.events, found.calls if stored.owned else ())
                read.set()
                if not self._goes_on(stored):
                    return
                await asyncio.sleep(self._poll)
        except RunNotFound:  # it was deleted meanwhile
            return
        except FlowDebateError as error:
            _LOGGER.warning("run %s cannot be followed: %s", run_id, error_text(error))
        finally:
            channel.end()
            read.set()  # also where the first reading failed: readers wait for it
            self._unwatch(run_id, channel)

    def in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """A task that `close` cancels."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)  # the loop alone would let a task be collected before its end
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self, quiet: Callable[[], Awaitable[None]], patience: float) -> None:
        """Start nothing more, await `quiet` for at most `patience` seconds, interrupt the runs, and end all reading."""
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
