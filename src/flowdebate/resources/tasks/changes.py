"""Events of a task collection, and their delivery to a listener."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from flowdebate._util.wire import BaseEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from flowdebate.resources.tasks.task import Task
    from flowdebate.resources.tasks.transitions import TaskChange

__all__ = ("ChangeFeed", "TaskChanged")


@dataclass(slots=True, kw_only=True)
class TaskChanged(BaseEvent):
    """One change of one task; the last `task` of each id, put together, is the whole collection."""

    kind: ClassVar[str] = "task_changed"
    collection_id: str
    change: TaskChange
    task: Task
    """The task as it is after the change."""


class ChangeFeed:
    """Delivers events to a listener, one at a time, in the order of the changes.

    A listener may change the collection: it receives those events after it has returned. If the listener raises, all
    waiting events are delivered first; then the exception reaches the caller that made the change (several of them as
    an ExceptionGroup). The changes stand.
    """

    __slots__ = ("_busy", "_listener", "_waiting")

    def __init__(self, listener: Callable[[TaskChanged], None]) -> None:
        self._listener = listener
        self._waiting: deque[TaskChanged] = deque()
        self._busy = False

    def send(self, events: Iterable[TaskChanged]) -> None:
        """Deliver `events` after those that are waiting already."""
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
