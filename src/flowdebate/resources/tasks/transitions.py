"""What may happen to a task, as one table; nothing else decides it.

    from              action               to
    ────────────────────────────────────────────────────────
    pending           claim                in_progress
    pending           block                blocked
    pending           cancel               cancelled
    in_progress       complete             completed
    in_progress       fail                 pending | errored
    in_progress       block                blocked
    in_progress       await_review         awaiting_review
    in_progress       cancel               cancelled
    in_progress       renew                in_progress
    in_progress       reclaim              pending | errored
    blocked           unblock              pending
    blocked           cancel               cancelled
    awaiting_review   complete             completed
    awaiting_review   fail                 pending | errored
    awaiting_review   resume_from_review   pending
    awaiting_review   cancel               cancelled

Of two outcomes the first holds while attempts are left, the second once they are used up. A review ends with what
the reviewer does: `complete` accepts, `fail` rejects, `resume_from_review` asks for another attempt. `completed`,
`errored` and `cancelled` are terminal: nothing leads out of them.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from flowdebate.errors import IllegalTransition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from flowdebate.resources.tasks.task import Task, TaskStatus

__all__ = (
    "TRANSITIONS",
    "ChangeFeed",
    "Outcome",
    "TaskAction",
    "TaskChange",
    "TaskChanged",
    "outcome",
)

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


TaskAction = Literal[
    "claim",
    "complete",
    "fail",
    "block",
    "unblock",
    "await_review",
    "resume_from_review",
    "cancel",
    "renew",
    "reclaim",
]
"""What can be done to a task: the names of the collection's methods."""


class Outcome(NamedTuple):
    """Where an action leads, and how the event calls it."""

    status: TaskStatus
    change: TaskChange


_CANCELLED = (Outcome("cancelled", "cancelled"),)
_COMPLETED = (Outcome("completed", "completed"),)
_BLOCKED = (Outcome("blocked", "blocked"),)
_FAILED = (Outcome("pending", "retried"), Outcome("errored", "failed"))
_RECLAIMED = (Outcome("pending", "reclaimed"), Outcome("errored", "reclaimed"))

TRANSITIONS: Mapping[tuple[TaskStatus, TaskAction], tuple[Outcome, ...]] = {
    ("pending", "claim"): (Outcome("in_progress", "claimed"),),
    ("pending", "block"): _BLOCKED,
    ("pending", "cancel"): _CANCELLED,
    ("in_progress", "complete"): _COMPLETED,
    ("in_progress", "fail"): _FAILED,
    ("in_progress", "block"): _BLOCKED,
    ("in_progress", "await_review"): (Outcome("awaiting_review", "review_requested"),),
    ("in_progress", "cancel"): _CANCELLED,
    ("in_progress", "renew"): (Outcome("in_progress", "renewed"),),
    ("in_progress", "reclaim"): _RECLAIMED,
    ("blocked", "unblock"): (Outcome("pending", "unblocked"),),
    ("blocked", "cancel"): _CANCELLED,
    ("awaiting_review", "complete"): _COMPLETED,
    ("awaiting_review", "fail"): _FAILED,
    ("awaiting_review", "resume_from_review"): (Outcome("pending", "review_resumed"),),
    ("awaiting_review", "cancel"): _CANCELLED,
}


def outcome(task: Task, action: TaskAction) -> Outcome:
    """Where `action` leads `task`; IllegalTransition, with the statuses that allow it, if nowhere."""
    outcomes = TRANSITIONS.get((task.status, action))
    if outcomes is None:
        allowed = [status for status, known in TRANSITIONS if known == action]
        raise IllegalTransition(task.id, action=action, status=task.status, allowed=allowed)
    return outcomes[0] if task.attempts < task.max_attempts else outcomes[-1]
