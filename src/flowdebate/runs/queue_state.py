"""Run queues: the priorities of runs, and the state of a queue as shown to operators and observers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate._util.wire import WireModel

if TYPE_CHECKING:
    from flowdebate.store.base import RunHeader


LOWEST = 100
"""Lowest priority; runs with this priority start last."""


def priority_of(header: RunHeader) -> int:
    """Return the priority of a submitted run; for an imported run with an invalid priority, return 0."""
    priority = (header.plan or {}).get("priority")
    return priority if isinstance(priority, int) and 0 <= priority <= LOWEST else 0


class WorkerState(WireModel):
    """State of a live worker."""

    worker: str
    """The worker's id: "machine:process:number"."""
    version: str
    since: float
    """Start time, in seconds since the epoch."""
    running: int
    """Number of runs that the worker is executing."""


class DeliveredRun(WireModel):
    """A run taken from its queue by a worker."""

    queue: str
    worker: str
    version: str
    delivery: int
    """Number of times the run has been delivered. It increases when a worker dies while executing the run, or when the
    run's provider has an outage.
    """
    seconds: float
    """Time in seconds that the run waited after it was queued or after its delay ended."""
    resumed: bool = False
    """True if a worker has executed the run before."""


class QueueVersion(WireModel):
    """Counts for one version of the workers. Runs queued for a version are executed only by workers of that version."""

    version: str
    waiting: int
    put_off: int
    """Number of runs delayed because their worker died or their provider was unavailable."""
    running: int
    oldest: float | None
    """Longest time, in seconds, that any run has been waiting; None if no run is waiting."""
    workers: int
    """Number of live workers of this version."""


class QueueState(WireModel):
    """A queue and its workers."""

    queue: str
    waiting: int
    put_off: int
    running: int
    oldest: float | None
    rejected: int
    """Number of runs rejected because no worker can execute them in their current form."""
    dead_letters: int
    """Number of runs abandoned because they repeatedly crashed their workers."""
    versions: tuple[QueueVersion, ...]
    workers: tuple[WorkerState, ...]
