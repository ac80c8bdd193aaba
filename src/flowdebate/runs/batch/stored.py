"""What a store has of a batch already: which runs there are, and whether they are about the same."""

from __future__ import annotations

import json
from difflib import unified_diff
from typing import TYPE_CHECKING

from flowdebate.errors import RunChanged

if TYPE_CHECKING:
    from flowdebate.runs.events import RunStatus
    from flowdebate.store.base import RunHeader, Store, StoredRun, StoredStatus

__all__ = (
    "BATCH_LABEL",
    "StoredBatch",
)

BATCH_LABEL = "batch"
"""The label that says of which batch a run is."""
_OVER: tuple[RunStatus, ...] = ("complete", "degraded", "no_verdict")
"""How runs end that nothing more is asked for."""


class StoredBatch:
    """The runs that `store` keeps of one batch, as they were when it was read."""

    def __init__(self, store: Store, *, allow_changes: bool) -> None:
        self._store = store
        self._allow_changes = allow_changes
        self._runs: dict[str, tuple[RunHeader, StoredStatus]] = {}

    async def read(self, batch_id: str) -> None:
        """Look which runs there are."""
        for stored in await self._store.runs(labels={BATCH_LABEL: batch_id}):
            self._note(stored)

    async def read_again(self, run_id: str) -> None:
        """Look at a run that has come meanwhile."""
        self._note(await self._store.run(run_id))

    def has(self, run_id: str) -> bool:
        """Whether there is this run."""
        return run_id in self._runs

    def is_over(self, run_id: str) -> bool:
        """Whether the run was over, so that nothing more is paid for it."""
        return self.has(run_id) and self._runs[run_id][1] in _OVER

    def check(self, now: RunHeader) -> None:
        """Raise RunChanged if the run that there is was begun with something else than `now` says."""
        then, _ = self._runs[now.run_id]
        pairs = {
            BATCH_LABEL: (then.labels.get(BATCH_LABEL, ""), now.labels[BATCH_LABEL]),
            "question": (_text(then.input), _text(now.input)),
            "seed": (str(then.seed), str(now.seed)),
        }
        if not self._allow_changes:
            pairs |= {name: (then.fingerprint.get(name, ""), text) for name, text in now.fingerprint.items()}
        changes = {name: _lines(was, is_now) for name, (was, is_now) in pairs.items() if was != is_now}
        if changes:
            raise RunChanged(self._store.name, now.run_id, changes)

    def _note(self, stored: StoredRun) -> None:
        self._runs[stored.header.run_id] = (stored.header, stored.status)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _lines(then: str, now: str) -> tuple[str, ...]:
    """The lines that differ."""
    lines = unified_diff(then.splitlines(), now.splitlines(), n=0, lineterm="")
    return tuple(line for line in lines if not line.startswith(("---", "+++", "@@")))
