"""A list of work that is shared: tasks are added, claimed, and brought to an end, and every change is told."""

from __future__ import annotations

import time
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, NoReturn

from flowdebate.errors import ConfigurationError, IllegalTransition
from flowdebate.resources.tasks.ledger import TaskLedger
from flowdebate.resources.tasks.specs import TaskSpec, check_links, free_id, names, new_task, new_tasks
from flowdebate.resources.tasks.task import TASK_STATUSES, Task, TaskStatus
from flowdebate.resources.tasks.transitions import outcome

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from flowdebate.resources.resource import ResourceScope
    from flowdebate.resources.tasks.transitions import TaskAction, TaskChanged

__all__ = (
    "Task",
    "TaskCollection",
    "TaskCollectionResource",
    "create_task_collection",
)


class TaskCollection:
    """Tasks in memory, for one thread; `task_transitions.py` draws what may happen to each.

    Every method that changes something returns the task as it is afterwards, and tells `on_change` of each changed
    task once the change is in place (see `ChangeFeed` for a listener that raises, or changes the collection itself).
    A call that is refused changes nothing and tells nothing: TaskNotFound for an id that there is not,
    IllegalTransition for what the task's state does not allow, ConfigurationError for an argument that cannot be.

    Where a method takes `by`, it is refused unless that worker holds the claim, so that a worker whose lease has run
    out cannot touch what another one has claimed since; None does not look.

    >>> tasks = TaskCollection("paper")
    >>> draft = tasks.add_task("write", id="draft", max_attempts=2)
    >>> proof = tasks.add_task("proofread", deps=["draft"], priority=9)
    >>> tasks.claim().id
    'draft'
    >>> tasks.fail("draft", "too long").feedback
    ('too long',)
    >>> tasks.claim(task_id="draft", by="anna").attempts
    2
    >>> tasks.complete("draft", "a short draft").status, tasks.claim().id
    ('completed', 'paper-2')
    """

    __slots__ = ("_collection_id", "_ledger", "_now", "_where")

    def __init__(
        self,
        collection_id: str,
        *,
        now: Callable[[], float] = time.time,
        on_change: Callable[[TaskChanged], None] | None = None,
    ) -> None:
        self._collection_id = _checked_id(collection_id)
        self._where = f"task collection {collection_id!r}"
        self._now = now
        self._ledger = TaskLedger(collection_id, on_change)

    @property
    def collection_id(self) -> str:
        """The name of the collection, with which the ids that it derives begin."""
        return self._collection_id

    def add_task(
        self,
        goal: str,
        *,
        id: str | None = None,  # noqa: A002 - the field's name
        assignee: str | None = None,
        priority: int = 0,
        labels: Iterable[str] = (),
        metadata: Mapping[str, Any] | None = None,
        deps: Iterable[str] = (),
        max_attempts: int = 1,
    ) -> Task:
        """Add a pending task; `deps` are ids of tasks that are there already."""
        tasks = self._ledger.tasks
        seq = len(tasks) + 1
        task = new_task(
            self._where,
            goal,
            id=free_id(self._collection_id, seq, tasks) if id is None else id,
            assignee=assignee,
            priority=priority,
            labels=labels,
            metadata=metadata,
            deps=deps,
            max_attempts=max_attempts,
            seq=seq,
            at=self._now(),
        )
        check_links(self._where, tasks, (task,))
        self._ledger.add((task,))
        return task

    def add_tasks(self, tasks: Iterable[TaskSpec]) -> builtins.list[Task]:
        """Add all of them or, if one cannot be, none; `deps` may name tasks of the same batch, before or after."""
        specs = tuple(tasks)
        added = new_tasks(self._where, self._collection_id, self._ledger.tasks, specs, at=self._now())
        self._ledger.add(added)
        return added

    def claim(
        self,
        *,
        by: str | None = None,
        task_id: str | None = None,
        assignee: str | None = None,
        labels: Iterable[str] = (),
        lease: float | None = None,
    ) -> Task | None:
        """Take a task into work for the worker `by`, and return it; None if there is none to take.

        A task can be taken when it is pending, its deps are all completed, it is for `assignee` or for anybody, and
        it has all `labels`; the highest priority comes first, then the earliest. With `task_id` that task is taken
        or IllegalTransition raised; whose it is then matters only if `assignee` is given.
        `lease` is how many seconds the worker has until `reclaim` takes the task back; None is for as long as it likes.
        """
        asked = frozenset(names(self._where, "labels", labels))
        now = self._now()
        expires_at = None if lease is None else now + self._seconds(lease)
        if task_id is None:
            task = self._ledger.queue.first(assignee, asked)
        else:
            task = self._asked_for(task_id, assignee, asked)
        if task is None:
            return None
        fields: dict[str, object] = {"attempts": task.attempts + 1, "claimed_by": by, "lease_expires_at": expires_at}
        return self._ledger.move(task, "claim", now, fields)

    def complete(self, task_id: str, output: object = None, *, by: str | None = None) -> Task:
        """End a task well: its work is done, or a reviewer accepts it."""
        return self._move(task_id, "complete", by, output=output)

    def fail(self, task_id: str, error: str, *, by: str | None = None) -> Task:
        """Tell that an attempt failed, or that a reviewer rejects it.

        While attempts are left the task is pending again, with `error` added to its feedback; else it is errored.
        """
        return self._move(task_id, "fail", by, comment=self._text("error", error))

    def block(self, task_id: str, reason: str, *, by: str | None = None) -> Task:
        """Set a pending or claimed task aside until `unblock`."""
        return self._move(task_id, "block", by, reason=self._text("reason", reason))

    def unblock(self, task_id: str) -> Task:
        """Let a blocked task be claimed again: it is pending."""
        return self._move(task_id, "unblock")

    def await_review(self, task_id: str, reason: str | None = None, *, by: str | None = None) -> Task:
        """Let somebody decide how a claimed task goes on: `complete`, `fail` or `resume_from_review`."""
        return self._move(task_id, "await_review", by, reason=self._text("reason", reason, optional=True))

    def resume_from_review(self, task_id: str, feedback: str | None = None) -> Task:
        """Ask for another attempt, even beyond `max_attempts`: the task is pending, and knows of `feedback`."""
        return self._move(task_id, "resume_from_review", comment=self._text("feedback", feedback, optional=True))

    def cancel(self, task_id: str, reason: str | None = None) -> Task:
        """End a task without a result."""
        return self._move(task_id, "cancel", reason=self._text("reason", reason, optional=True))

    def renew(self, task_id: str, lease: float, *, by: str | None = None) -> Task:
        """Give a claimed task `lease` seconds from now, even if its lease has run out, or if it had none."""
        expires_at = self._now() + self._seconds(lease)
        return self._move(task_id, "renew", by, lease_expires_at=expires_at)

    def reclaim(self) -> builtins.list[Task]:
        """Take back the tasks whose leases have run out, and return them, the longest overdue first.

        Those with attempts left are pending again, the others errored. Nothing happens to them before this is called:
        a worker that is late, but not yet reclaimed, still holds its task.
        """
        return self._ledger.reclaim(self._now())

    def get(self, task_id: str) -> Task:
        """The task with this id, as it is now."""
        return self._ledger.get(task_id)

    def list(
        self, *, status: TaskStatus | None = None, assignee: str | None = None, labels: Iterable[str] = ()
    ) -> builtins.list[Task]:
        """The tasks with this status, for this assignee (None: all), and with all `labels`, in order of creation."""
        _check_status(self._where, status)
        asked = frozenset(names(self._where, "labels", labels))
        return [
            task
            for task in self._ledger.tasks.values()
            if (status is None or task.status == status)
            and (assignee is None or task.assignee == assignee)
            and asked <= task.labels
        ]

    def count(self, status: TaskStatus | None = None) -> int:
        """How many tasks there are, or how many with this status; takes no longer for more tasks."""
        _check_status(self._where, status)
        return len(self._ledger.tasks) if status is None else self._ledger.counts[status]

    def stuck(self) -> builtins.list[Task]:
        """The unfinished tasks that nothing can make claimable, in order of creation.

        One of their deps, or of the deps of those, is errored or cancelled. They keep their status until somebody
        cancels them.
        """
        ended = [task.id for task in self._ledger.tasks.values() if task.status in {"errored", "cancelled"}]
        found: set[str] = set()
        while ended:
            behind = [task_id for task_id in self._ledger.queue.dependents(ended.pop()) if task_id not in found]
            found.update(behind)
            ended.extend(behind)
        return [task for task in self._ledger.tasks.values() if task.id in found and not task.finished]

    def to_wire(self) -> dict[str, Any]:
        """The collection as plain data for JSON, with camelCase keys; tasks in order of creation."""
        return {"collectionId": self._collection_id, "tasks": [task.to_wire() for task in self._ledger.tasks.values()]}

    def _move(self, task_id: str, action: TaskAction, by: str | None = None, **changes: object) -> Task:
        task = self._ledger.get(task_id)
        if by is not None and by != task.claimed_by:
            holder = "" if task.claimed_by is None else f", {task.claimed_by!r} does"
            _refuse(task, action, f"{by!r} does not hold it{holder}")
        return self._ledger.move(task, action, self._now(), changes)

    def _asked_for(self, task_id: str, assignee: str | None, labels: AbstractSet[str]) -> Task:
        task = self._ledger.get(task_id)
        if waits_for := self._ledger.queue.waits_for(task):
            _refuse(task, "claim", f"it waits for {', '.join(map(repr, waits_for))}")
        if assignee is not None and task.assignee is not None and assignee != task.assignee:
            _refuse(task, "claim", f"it is for {task.assignee!r}, not for {assignee!r}")
        if not labels <= task.labels:
            _refuse(task, "claim", f"it lacks the labels {sorted(labels - task.labels)}")
        return task

    def _text(self, field: str, value: str | None, *, optional: bool = False) -> str | None:
        if not (isinstance(value, str) or (optional and value is None)):
            raise ConfigurationError(self._where, field, value, "a string, or None" if optional else "a string")
        return value

    def _seconds(self, lease: float) -> float:
        if isinstance(lease, bool) or not isinstance(lease, (int, float)) or not isfinite(lease) or lease <= 0:
            raise ConfigurationError(self._where, "lease", lease, "a number of seconds > 0, or None for no lease")
        return lease


@dataclass(frozen=True, kw_only=True)
class TaskCollectionResource:
    """A `TaskCollection` that blocks share: each run has a new one, whose changes are events of the run.

    Two with the same key and collection id are the same resource.
    """

    key: str
    collection_id: str

    def open(self, scope: ResourceScope, /) -> TaskCollection:
        """The run's collection."""
        return TaskCollection(self.collection_id, now=scope.now, on_change=scope.emit)


def create_task_collection(collection_id: str, *, key: str = "tasks") -> TaskCollectionResource:
    """A collection that blocks find as `ctx.resources.<key>`.

    >>> create_task_collection("rent").key
    'tasks'
    """
    if not isinstance(key, str) or not key:
        raise ConfigurationError("create_task_collection()", "key", key, "a non-empty string")
    return TaskCollectionResource(key=key, collection_id=_checked_id(collection_id))


def _refuse(task: Task, action: TaskAction, reason: str) -> NoReturn:
    outcome(task, action)  # what the status forbids is told first
    raise IllegalTransition(task.id, action=action, status=task.status, allowed=[task.status], reason=reason)


def _checked_id(collection_id: str) -> str:
    if not isinstance(collection_id, str) or not collection_id.strip():
        raise ConfigurationError("task collection", "collection_id", collection_id, "a string that is not blank")
    return collection_id


def _check_status(where: str, status: TaskStatus | None) -> None:
    if status is not None and status not in TASK_STATUSES:
        raise ConfigurationError(where, "status", status, f"one of {', '.join(TASK_STATUSES)}")
