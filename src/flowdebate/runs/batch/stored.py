"""Stored runs of a batch, and the check that they belong to the same questions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from flowdebate.errors import RunChanged
from flowdebate.runs.durable.resume import changed_lines

if TYPE_CHECKING:
    from flowdebate.runs.events import RunStatus
    from flowdebate.store.base import RunHeader, Store, StoredRun, StoredStatus

__all__ = (
    "BATCH_LABEL",
    "StoredBatch",
)

BATCH_LABEL = "batch"
"""The label that names the batch of a run."""
_OVER: tuple[RunStatus, ...] = ("complete", "degraded", "no_verdict")
"""Statuses of runs that are complete."""


class StoredBatch:
    """The stored runs of one batch, as they were when they were read."""

    def __init__(self, store: Store, *, allow_changes: bool) -> None:
        self._store = store
        self._allow_changes = allow_changes
        self._runs: dict[str, tuple[RunHeader, StoredStatus]] = {}

    async def read(self, batch_id: str) -> None:
        """Read the runs of the batch."""
        for stored in await self._store.runs(labels={BATCH_LABEL: batch_id}):
            self._note(stored)

    async def read_again(self, run_id: str) -> None:
        """Read a run that has been added meanwhile."""
        self._note(await self._store.run(run_id))

    def has(self, run_id: str) -> bool:
        """Whether the run is stored."""
        return run_id in self._runs

    def is_over(self, run_id: str) -> bool:
        """Whether the run was complete, so that nothing more is paid for it."""
        return self.has(run_id) and self._runs[run_id][1] in _OVER

    def check(self, now: RunHeader) -> None:
        """Raise RunChanged if the stored run was started with another header than `now`."""
        then, _ = self._runs[now.run_id]
        pairs = {
            BATCH_LABEL: (then.labels.get(BATCH_LABEL, ""), now.labels[BATCH_LABEL]),
            "question": (_text(then.input), _text(now.input)),
            "seed": (str(then.seed), str(now.seed)),
        }
        if not self._allow_changes:
            pairs |= {name: (then.fingerprint.get(name, ""), text) for name, text in now.fingerprint.items()}
        changes = {name: changed_lines(was, is_now) for name, (was, is_now) in pairs.items() if was != is_now}
        if changes:
            raise RunChanged(self._store.name, now.run_id, changes)

    def _note(self, stored: StoredRun) -> None:
        self._runs[stored.header.run_id] = (stored.header, stored.status)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)
