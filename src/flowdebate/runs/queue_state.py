"""Queue of runs: the priority of a run, and the state of a queue, for operators and observers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate._util.wire import WireModel

if TYPE_CHECKING:
    from flowdebate.store.base import RunHeader


LOWEST = 100
"""The priority of the runs that begin last."""


def priority_of(header: RunHeader) -> int:
    """The priority with which a run was submitted; 0 for an import that says anything else."""
    priority = (header.plan or {}).get("priority")
    return priority if isinstance(priority, int) and 0 <= priority <= LOWEST else 0


class WorkerState(WireModel):
    """A worker that is alive."""

    worker: str
    """Its id: "machine:process:number"."""
    version: str
    since: float
    """When it started, in seconds since the epoch."""
    running: int
    """How many runs it has."""


class DeliveredRun(WireModel):
    """A run that a worker has taken from its queue."""

    queue: str
    worker: str
    version: str
    delivery: int
    """1, and one more for each worker that died while it executed the run, and each outage of its provider."""
    seconds: float
    """For how long it was due: since it was put on the queue, or since its delay had passed."""
    resumed: bool = False
    """Whether a worker has executed it before."""


class QueueVersion(WireModel):
    """The runs of one version; only workers of the same version execute them."""

    version: str
    waiting: int
    put_off: int
    """How many wait for their delay: their worker died, or their provider was away."""
    running: int
    oldest: float | None
    """For how many seconds the oldest one waits; None if none does."""
    workers: int
    """How many workers of this version are alive."""


class QueueState(WireModel):
    """A queue, and its workers."""

    queue: str
    waiting: int
    put_off: int
    running: int
    oldest: float | None
    rejected: int
    """How many runs no worker can execute as they are."""
    dead_letters: int
    """How many runs were given up because they killed their workers."""
    versions: tuple[QueueVersion, ...]
    workers: tuple[WorkerState, ...]
