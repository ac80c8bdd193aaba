"""How a collection tells of its changes: typed events, in order, after the fact."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from flowdebate.resources.task import Task

__all__ = ("ChangeFeed", "TaskChange", "TaskChanged")

TaskChange = Literal[
    "added",
    "claimed",
    "completed",
    "failed",
    "retried",
    "blocked",
    "unblocked",
    "review_requested",
    "review_resumed",
    "cancelled",
    "reclaimed",
    "renewed",
]
"""What happened to a task; `failed` is a failure for good, `retried` one after which it is pending again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskChanged:
    """One change of one task; the last `task` of each id, put together, is the whole collection."""

    kind: ClassVar[str] = "task_changed"
    collection_id: str
    change: TaskChange
    task: Task
    """The task as it is after the change."""

    def to_wire(self) -> dict[str, Any]:
        """The event as plain data for JSON, with camelCase keys."""
        return {
            "kind": self.kind,
            "collectionId": self.collection_id,
            "change": self.change,
            "task": self.task.to_wire(),
        }


class ChangeFeed:
    """Hands events to a listener, one after the other, in the order in which the changes were made.

    A listener may change the collection: it is told of that after it has returned. A listener that raises misses
    nothing: it is handed every waiting event first, and then its exception reaches whoever made the change (several
    reach them as an ExceptionGroup). The changes stand.
    """

    __slots__ = ("_busy", "_listener", "_waiting")

    def __init__(self, listener: Callable[[TaskChanged], None]) -> None:
        self._listener = listener
        self._waiting: deque[TaskChanged] = deque()
        self._busy = False

    def tell(self, events: Iterable[TaskChanged]) -> None:
        """Deliver `events` after those that wait already."""
        self._waiting.extend(events)
        if self._busy:
            return
        failures: list[Exception] = []
        self._busy = True
        try:
            while self._waiting:
                try:
                    self._listener(self._waiting.popleft())
                except Exception as error:  # noqa: BLE001 - it is raised once everything is delivered
                    failures.append(error)
        finally:
            self._busy = False
        if failures:
            raise failures[0] if len(failures) == 1 else ExceptionGroup("on_change raised", failures)
