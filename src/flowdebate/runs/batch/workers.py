"""Bounded worker pool with backpressure: it runs jobs concurrently, and never far ahead of its reader."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

__all__ = ("WorkerPool",)


JobT = TypeVar("JobT")
DoneT = TypeVar("DoneT")


class WorkerPool(Generic[JobT, DoneT]):
    """Runs `jobs`, at most `size` at once; `results` yields what they return as they complete.

    A job is taken when a worker is free, and while at most `size` results are unread. The first failure, of a job or
    of the source of jobs, cancels all others, and is raised after the results before it.
    """

    def __init__(self, jobs: AsyncGenerator[JobT], run: Callable[[JobT], Awaitable[DoneT]], *, size: int) -> None:
        self._jobs = jobs
        self._run = run
        self._size = size
        self._workers: set[asyncio.Task[None]] = set()
        self._ready: deque[DoneT] = deque()
        self._failure: BaseException | None = None
        self._over = False
        self._stopped = False
        self._turn = asyncio.Lock()
        self._room = asyncio.Semaphore(2 * size)
        self._news = asyncio.Event()

    async def results(self) -> AsyncGenerator[DoneT]:
        """The results of the jobs; leaving early cancels those in progress."""
        self._add()
        try:
            while True:
                while self._ready:
                    self._room.release()
                    yield self._ready.popleft()
                if self._failure is not None:
                    raise self._failure
                if not self._workers:
                    return
                self._news.clear()
                await self._news.wait()
        finally:
            await self.end()

    async def end(self) -> None:
        """Cancel all workers, and wait until they have ended, however often the caller is cancelled meanwhile."""
        self._stop()
        cancelled: asyncio.CancelledError | None = None
        while self._workers:
            try:
                await asyncio.wait(set(self._workers))
            except asyncio.CancelledError as error:
                cancelled = error
        await self._jobs.aclose()
        if cancelled is not None:
            raise cancelled

    def _stop(self) -> None:
        self._over = self._stopped = True
        for worker in self._workers:
            worker.cancel()

    def _add(self) -> None:
        worker = asyncio.create_task(self._work(), name="flowdebate batch")
        self._workers.add(worker)
        worker.add_done_callback(self._left)

    async def _work(self) -> None:
        while True:
            await self._room.acquire()
            async with self._turn:
                if self._over:
                    return
                try:
                    job = await anext(self._jobs)
                except StopAsyncIteration:
                    self._over = True
                    return
            if len(self._workers) < self._size:
                self._add()
            self._ready.append(await self._run(job))
            self._news.set()

    def _left(self, worker: asyncio.Task[None]) -> None:
        self._workers.discard(worker)
        failure = asyncio.CancelledError() if worker.cancelled() else worker.exception()
        stopped = worker.cancelled() and self._stopped  # else somebody else has cancelled it
        if failure is not None and self._failure is None and not stopped:
            self._failure = failure
            self._stop()
        self._news.set()
