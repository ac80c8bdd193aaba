"""What a collection holds: the tasks as they are now, the indexes over them, and the one way in which they change."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from flowdebate.errors import TaskNotFound
from flowdebate.resources.tasks.queue import ReadyQueue
from flowdebate.resources.tasks.task import TASK_STATUSES, Task, TaskStatus, changed
from flowdebate.resources.tasks.transitions import ChangeFeed, TaskAction, TaskChange, TaskChanged, outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ("TaskLedger",)


class TaskLedger:
    """The tasks by id in order of creation (`tasks`), how many have each status (`counts`), and who is next (`queue`).

    Each method puts all its changes in place before it tells of the first.
    """

    __slots__ = ("_collection_id", "_feed", "_leases", "counts", "queue", "tasks")

    def __init__(self, collection_id: str, on_change: Callable[[TaskChanged], None] | None) -> None:
        self._collection_id = collection_id
        self._feed = None if on_change is None else ChangeFeed(on_change)
        self._leases: list[tuple[float, int, str]] = []
        self.tasks: dict[str, Task] = {}
        self.counts: dict[TaskStatus, int] = dict.fromkeys(TASK_STATUSES, 0)
        self.queue = ReadyQueue(self.tasks)

    def get(self, task_id: str) -> Task:
        """The task with this id, as it is now; TaskNotFound if there is none."""
        task = self.tasks.get(task_id)
        if task is None:
            raise TaskNotFound(self._collection_id, task_id)
        return task

    def add(self, tasks: Sequence[Task]) -> None:
        """Take in new tasks, which are pending and whose deps are here or among them."""
        for task in tasks:
            self.tasks[task.id] = task
        for task in tasks:
            self.queue.add(task)
        self.counts["pending"] += len(tasks)
        self._tell("added", tasks)

    def move(self, task: Task, action: TaskAction, at: float, changes: Mapping[str, Any]) -> Task:
        """Do `action` at the time `at`, with what it sets besides the status; IllegalTransition if it is not allowed.

        `changes` may hold, besides fields of a task, a `comment`: what went wrong, or what is asked for. It becomes the
        error of a task that is errored, and feedback to the next attempt of one that is pending.
        """
        change, moved = self._apply(task, action, at, **changes)
        if self._feed is not None:
            self._feed.tell((TaskChanged(collection_id=self._collection_id, change=change, task=moved),))
        return moved

    def reclaim(self, at: float) -> list[Task]:
        """Take back the claims whose leases have run out at the time `at`, the longest overdue first."""
        taken = []
        while self._leases and self._leases[0][0] <= at:
            expires, _, task_id = heappop(self._leases)
            task = self.tasks[task_id]
            # the entry may be of an earlier claim, or of a lease that was renewed since: the task knows
            if task.lease_expires_at == expires:
                holder = "" if task.claimed_by is None else f" of {task.claimed_by!r}"
                taken.append(self._apply(task, "reclaim", at, comment=f"the lease{holder} ran out")[1])
        self._tell("reclaimed", taken)
        return taken

    def _apply(
        self,
        task: Task,
        action: TaskAction,
        at: float,
        *,
        comment: str | None = None,
        **changes: Any,  # noqa: ANN401 - fields of a task
    ) -> tuple[TaskChange, Task]:
        to = outcome(task, action)
        fields: dict[str, Any] = {"status": to.status, "updated_at": at, "lease_expires_at": None, "reason": None}
        if to.status == "pending":
            fields["claimed_by"] = None
            if comment is not None:
                fields["feedback"] = (*task.feedback, comment)
        elif to.status == "errored":
            fields["error"] = comment
        fields.update(changes)
        moved = changed(task, fields)
        self._put(task.status, moved)
        return to.change, moved

    def _put(self, before: TaskStatus, task: Task) -> None:
        self.tasks[task.id] = task
        self.counts[before] -= 1
        self.counts[task.status] += 1
        if task.status == "pending":
            self.queue.put_back(task)
        elif task.status == "completed":
            self.queue.release(task.id)
        elif task.lease_expires_at is not None:
            heappush(self._leases, (task.lease_expires_at, task.seq, task.id))

    def _tell(self, change: TaskChange, tasks: Sequence[Task]) -> None:
        if self._feed is not None:
            self._feed.tell(
                [TaskChanged(collection_id=self._collection_id, change=change, task=task) for task in tasks]
            )
