"""Bounded worker pool with backpressure: it runs jobs concurrently, and never far ahead of its reader."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar

from flowdebate.runs.durable.journal import wait_uncancelled

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable


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
        self._free = asyncio.Semaphore(size)
        self._room = asyncio.Semaphore(2 * size)
        self._ready: asyncio.Queue[DoneT | None] = asyncio.Queue()
        """Results to be read; None comes last."""
        self._task: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None
        self._ended = False

    async def results(self) -> AsyncGenerator[DoneT]:
        """Yield the results of the jobs; leaving early cancels those in progress."""
        self._task = asyncio.create_task(self._run_jobs(), name="flowdebate batch")
        self._task.add_done_callback(self._check_cancelled)
        self._task.add_done_callback(lambda _: self._ready.put_nowait(None))
        try:
            while (result := await self._ready.get()) is not None:
                self._room.release()
                yield result
            if self._failure is not None:
                raise self._failure
        finally:
            await self.end()

    async def end(self) -> None:
        """Cancel all jobs, and wait until they have ended, however often the caller is cancelled meanwhile."""
        self._ended = True
        cancelled = None
        if self._task is not None:
            self._task.cancel()
            cancelled = await wait_uncancelled(self._task)
        await self._jobs.aclose()
        if cancelled is not None:
            raise cancelled

    async def _run_jobs(self) -> None:
        async with asyncio.TaskGroup() as group:
            try:
                while True:
                    await self._room.acquire()
                    await self._free.acquire()
                    job = await anext(self._jobs, None)
                    if job is None:
                        break
                    task = group.create_task(self._run_job(job), name="flowdebate batch")
                    task.add_done_callback(self._check_cancelled)
                    await asyncio.sleep(0)  # it starts before the next job is taken
            except Exception as failure:  # noqa: BLE001 - raised where results are read
                self._fail(failure)

    async def _run_job(self, job: JobT) -> None:
        try:
            self._ready.put_nowait(await self._run(job))
        except Exception as failure:  # noqa: BLE001 - as above
            self._fail(failure)
        else:
            self._free.release()

    def _check_cancelled(self, task: asyncio.Task[None]) -> None:
        """End all jobs if somebody else has cancelled one, since it has no result."""
        if task.cancelled():
            self._fail(asyncio.CancelledError())

    def _fail(self, failure: BaseException) -> None:
        """End all jobs because of the first failure."""
        if not self._ended and self._task is not None:
            self._ended = True
            self._failure = failure
            self._task.cancel()
