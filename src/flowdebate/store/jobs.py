"""Jobs for a store's threads: each job uses a database connection and settles a future with its result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any


class Job:
    """A unit of work for a store's thread, which calls it with a connection; the submitter awaits `future`."""

    __slots__ = ("error", "future", "loop", "value", "work")

    def __init__(self, work: Callable[[Any], Any]) -> None:
        self.work: Callable[[Any], Any] = work
        self.loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.value: object = None
        self.error: BaseException | None = None


def settle(jobs: Iterable[Job]) -> None:
    """Settle the futures of `jobs` from the thread that runs their event loop."""
    for job in jobs:
        if job.future.done():
            continue
        if job.error is None:
            job.future.set_result(job.value)
        else:
            job.future.set_exception(job.error)


def settle_from_thread(jobs: Iterable[Job]) -> None:
    """Settle the futures of `jobs` from any thread, using one callback per event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Job]] = {}
    for job in jobs:
        by_loop.setdefault(job.loop, []).append(job)
    for loop, group in by_loop.items():
        try:
            loop.call_soon_threadsafe(settle, group)
        except RuntimeError:  # the loop is closed, so nobody is waiting anymore
            continue
