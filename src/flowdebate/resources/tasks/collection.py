"""Task board shared by the blocks of a run: tasks are added, claimed and finished, and every change is an event."""

from __future__ import annotations

import time
from collections import Counter, deque
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from flowdebate._util.validation import check_seconds
from flowdebate._util.wire import BaseEvent
from flowdebate.errors import ConfigurationError, IllegalTransition, ReadOnly, TaskNotFound
from flowdebate.resources.resource import Protectable
from flowdebate.resources.tasks.task import (
    TASK_STATUSES,
    TERMINAL_STATUSES,
    Task,
    TaskSpec,
    TaskStatus,
    changed,
    check_links,
    check_names,
    derived_id,
    new_task,
    new_tasks,
    outcome,
)

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from flowdebate.resources.resource import ResourceScope
    from flowdebate.resources.tasks.task import TaskAction, TaskChange


@dataclass(slots=True, kw_only=True)
class TaskChanged(BaseEvent):
    """One change of one task; the last `task` of each id, put together, is the whole collection."""

    kind: ClassVar[str] = "task_changed"
    collection_id: str
    """The id of the collection."""
    change: TaskChange
    """What happened to the task."""
    task: Task
    """The task as it is after the change."""


class _ChangeFeed:
    """Delivers the changes of a collection to a listener, one at a time, in their order."""

    __slots__ = ("_busy", "_collection_id", "_listener", "_waiting")

    def __init__(self, collection_id: str, listener: Callable[[TaskChanged], None]) -> None:
        self._collection_id = collection_id
        self._listener = listener
        self._waiting: deque[TaskChanged] = deque()
        self._busy = False

    def send(self, changes: Iterable[tuple[TaskChange, Task]]) -> None:
        """Deliver an event for each of `changes`, after those that are waiting already."""
        waiting, listener = self._waiting, self._listener
        for change, task in changes:
            waiting.append(TaskChanged(collection_id=self._collection_id, change=change, task=task))
        if self._busy:
            return
        failures: list[Exception] = []
        self._busy = True
        try:
            while waiting:
                try:
                    listener(waiting.popleft())
                except Exception as error:  # noqa: BLE001 - it is raised once everything is delivered
                    failures.append(error)
        finally:
            self._busy = False
        if failures:
            raise failures[0] if len(failures) == 1 else ExceptionGroup("on_change raised", failures)


class TaskCollection(Protectable):
    """Task board in memory, for one thread; `TRANSITIONS` lists the legal actions.

    Every method that changes a task returns its new state, and calls `on_change` for each changed task once the change
    is in place. A listener may change the collection: it receives those events after it has returned. If it raises,
    the changes stand, all waiting events are delivered, and then the exception reaches the caller (several of them as
    an ExceptionGroup). A refused call changes nothing and emits nothing: TaskNotFound for an unknown id,
    IllegalTransition for an action that the task's state does not allow, ConfigurationError for an invalid argument.

    Methods that take `by` are refused unless that worker holds the claim: a worker whose lease has expired cannot
    touch a task that another one has claimed since. None skips the check.

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

    __slots__ = (
        "_collection_id",
        "_counts",
        "_dependents",
        "_feed",
        "_now",
        "_ready",
        "_tasks",
        "_unfinished",
        "_where",
        "reserved",
    )

    def __init__(
        self,
        collection_id: str,
        *,
        now: Callable[[], float] = time.time,
        on_change: Callable[[TaskChanged], None] | None = None,
    ) -> None:
        super().__init__()
        self._collection_id = _checked_id(collection_id)
        self.reserved: set[str] = set()
        """Ids of the tasks that only the pattern may change if the collection is protected."""
        self._where = f"task collection {collection_id!r}"
        self._now = now
        self._feed = None if on_change is None else _ChangeFeed(collection_id, on_change)
        self._tasks: dict[str, Task] = {}  # in order of creation
        self._unfinished: dict[str, None] = {}  # their ids, in the same order
        self._counts: Counter[TaskStatus] = Counter()
        self._ready: list[tuple[int, int, str]] = []  # heap of (-priority, seq, id); may hold outdated entries
        self._dependents: dict[str, list[str]] = {}  # ids of the tasks that wait for this id

    @property
    def collection_id(self) -> str:
        """The name of the collection, and the prefix of derived ids."""
        return self._collection_id

    def view(self, block: str) -> TaskCollectionView:
        """The collection as the block `block` sees it."""
        return TaskCollectionView(self, block)

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
        """Add a pending task; `deps` are ids of tasks that exist already."""
        seq = len(self._tasks) + 1
        task = new_task(
            self._where,
            seq=seq,
            at=self._now(),
            goal=goal,
            id=derived_id(self._collection_id, seq, self._tasks) if id is None else id,
            assignee=assignee,
            priority=priority,
            labels=labels,
            metadata=metadata,
            deps=deps,
            max_attempts=max_attempts,
        )
        check_links(self._where, self._tasks, [task])
        self._add([task])
        return task

    def add_tasks(self, tasks: Iterable[TaskSpec]) -> builtins.list[Task]:
        """Add all of them or, if one is invalid, none; `deps` may name tasks of the same batch, before or after."""
        added = new_tasks(self._where, self._collection_id, self._tasks, tuple(tasks), at=self._now())
        self._add(added)
        return added

    def start_task(self, goal: str, *, by: str, metadata: Mapping[str, Any] | None = None) -> Task:
        """Add a task that the worker `by` claims at once; in a protected collection only the pattern may change it."""
        seq, at = len(self._tasks) + 1, self._now()
        task_id = derived_id(self._collection_id, seq, self._tasks)
        added = new_task(self._where, seq=seq, at=at, goal=goal, id=task_id, assignee=by, metadata=metadata)
        task = changed(added, {"status": "in_progress", "attempts": 1, "claimed_by": by})
        self._tasks[task_id] = task
        self._unfinished[task_id] = None
        self._counts["in_progress"] += 1
        self.reserved.add(task_id)
        self._emit((("added", added), ("claimed", task)))
        return task

    def claim(
        self,
        *,
        by: str | None = None,
        task_id: str | None = None,
        assignee: str | None = None,
        labels: Iterable[str] = (),
        lease: float | None = None,
    ) -> Task | None:
        """Claim a task for the worker `by`, and return it; None if no task can be claimed.

        A task can be claimed when it is pending, all its deps are completed, it is for `assignee` or for anybody, and
        it has all `labels`; the highest priority comes first, then the earliest. With `task_id` that task is claimed
        or IllegalTransition raised; its assignee then matters only if `assignee` is given.
        `lease` is how many seconds the worker has until `reclaim` takes the task back; None sets no limit.
        """
        wanted = frozenset(check_names(self._where, "labels", labels))
        now = self._now()
        expires_at = None if lease is None else now + self._checked_lease(lease)
        task = self._next(assignee, wanted) if task_id is None else self._claimable(task_id, assignee, wanted)
        if task is None:
            return None
        claim = {"attempts": task.attempts + 1, "claimed_by": by, "lease_expires_at": expires_at}
        return self._change(task, "claim", now, claim)

    def complete(self, task_id: str, output: object = None, *, by: str | None = None) -> Task:
        """Finish a task: its work is done, or a reviewer accepts it."""
        return self._move(task_id, "complete", by, output=output)

    def fail(self, task_id: str, error: str, *, by: str | None = None) -> Task:
        """Report that an attempt failed, or that a reviewer rejects it.

        While attempts are left the task is pending again, with `error` added to its feedback; else it is errored.
        """
        return self._move(task_id, "fail", by, comment=self._text("error", error))

    def block(self, task_id: str, reason: str, *, by: str | None = None) -> Task:
        """Withhold a pending or claimed task until `unblock`."""
        return self._move(task_id, "block", by, reason=self._text("reason", reason))

    def unblock(self, task_id: str) -> Task:
        """Make a blocked task pending again."""
        return self._move(task_id, "unblock")

    def await_review(self, task_id: str, reason: str | None = None, *, by: str | None = None) -> Task:
        """Leave a claimed task to a reviewer, who calls `complete`, `fail` or `resume_from_review`."""
        return self._move(task_id, "await_review", by, reason=self._text("reason", reason, optional=True))

    def resume_from_review(self, task_id: str, feedback: str | None = None) -> Task:
        """Ask for another attempt, even beyond `max_attempts`: the task is pending, with `feedback` added."""
        return self._move(task_id, "resume_from_review", comment=self._text("feedback", feedback, optional=True))

    def cancel(self, task_id: str, reason: str | None = None) -> Task:
        """End a task without a result."""
        return self._move(task_id, "cancel", reason=self._text("reason", reason, optional=True))

    def renew(self, task_id: str, lease: float, *, by: str | None = None) -> Task:
        """Give a claimed task `lease` seconds from now, even if its lease has expired, or if it had none."""
        return self._move(task_id, "renew", by, lease_expires_at=self._now() + self._checked_lease(lease))

    def reclaim(self) -> builtins.list[Task]:
        """Take back the tasks whose leases have expired, and return them, the longest overdue first.

        Those with attempts left are pending again, the others errored. An expired lease has no effect before this is
        called: a worker that is late, but not yet reclaimed, still holds its task.
        """
        now = self._now()
        leases = [
            (task.lease_expires_at, task.seq, task)
            for task in self._tasks.values()
            if task.lease_expires_at is not None and task.lease_expires_at <= now
        ]
        changes = []
        for _, _, task in sorted(leases):
            holder = "" if task.claimed_by is None else f" of {task.claimed_by!r}"
            changes.append(self._apply(task, "reclaim", now, {}, f"the lease{holder} ran out"))
        self._emit(changes)
        return [task for _, task in changes]

    def get(self, task_id: str) -> Task:
        """The task with this id, as it is now."""
        task = self._tasks.get(task_id)
        if task is None:
            raise TaskNotFound(self._collection_id, task_id)
        return task

    def list(
        self, *, status: TaskStatus | None = None, assignee: str | None = None, labels: Iterable[str] = ()
    ) -> builtins.list[Task]:
        """The tasks with this status, for this assignee (None: all), and with all `labels`, in order of creation."""
        self._check_status(status)
        wanted = frozenset(check_names(self._where, "labels", labels))
        finished = status is None or status in TERMINAL_STATUSES
        return [
            task
            for task in (self._tasks.values() if finished else map(self._tasks.__getitem__, self._unfinished))
            if (status is None or task.status == status)
            and (assignee is None or task.assignee == assignee)
            and wanted <= task.labels
        ]

    def count(self, status: TaskStatus | None = None) -> int:
        """The number of tasks, or of those with this status."""
        self._check_status(status)
        return len(self._tasks) if status is None else self._counts[status]

    def stuck(self) -> builtins.list[Task]:
        """The unfinished tasks that can never be claimed, in order of creation.

        One of their deps, or of the deps of those, is errored or cancelled. Their status does not change until somebody
        cancels them.
        """
        ended = [task.id for task in self._tasks.values() if task.status in {"errored", "cancelled"}]
        found: set[str] = set()
        while ended:
            behind = [task_id for task_id in self._dependents.get(ended.pop(), ()) if task_id not in found]
            found.update(behind)
            ended.extend(behind)
        return [task for task in self._tasks.values() if task.id in found and not task.finished]

    def to_wire(self) -> dict[str, Any]:
        """The collection as plain data for JSON, with camelCase keys; tasks in order of creation."""
        return {"collectionId": self._collection_id, "tasks": [task.to_wire() for task in self._tasks.values()]}

    def _add(self, added: builtins.list[Task]) -> None:
        for task in added:
            self._tasks[task.id] = task
            self._unfinished[task.id] = None
        self._counts["pending"] += len(added)
        for task in added:
            for dep in task.deps:
                self._dependents.setdefault(dep, []).append(task.id)
            self._enqueue(task)
        self._emit([("added", task) for task in added])

    def _move(
        self,
        task_id: str,
        action: TaskAction,
        by: str | None = None,
        comment: str | None = None,
        **fields: Any,  # noqa: ANN401 - of a task
    ) -> Task:
        task = self.get(task_id)
        if by is not None and by != task.claimed_by:
            holder = "" if task.claimed_by is None else f", {task.claimed_by!r} does"
            _refuse(task, action, f"{by!r} does not hold it{holder}")
        return self._change(task, action, self._now(), fields, comment)

    def _change(
        self, task: Task, action: TaskAction, at: float, fields: Mapping[str, Any], comment: str | None = None
    ) -> Task:
        change = self._apply(task, action, at, fields, comment)
        self._emit((change,))
        return change[1]

    def _apply(
        self, task: Task, action: TaskAction, at: float, fields: Mapping[str, Any], comment: str | None
    ) -> tuple[TaskChange, Task]:
        """Put the task's next state in place.

        `comment` becomes the error of a task that is errored, and feedback for the next attempt of one that is
        pending.
        """
        status, change = outcome(task, action)
        values: dict[str, Any] = {"status": status, "updated_at": at, "lease_expires_at": None, "reason": None}
        if status == "pending":
            values["claimed_by"] = None
            if comment is not None:
                values["feedback"] = (*task.feedback, comment)
        elif status == "errored":
            values["error"] = comment
        values.update(fields)
        moved = self._tasks[task.id] = changed(task, values)
        self._counts[task.status] -= 1
        self._counts[status] += 1
        if status in TERMINAL_STATUSES:
            del self._unfinished[task.id]
        if status == "pending":
            self._enqueue(moved)
        elif status == "completed":
            for dependent in self._dependents.get(task.id, ()):
                self._enqueue(self._tasks[dependent])
        return change, moved

    def _emit(self, changes: Iterable[tuple[TaskChange, Task]]) -> None:
        if self._feed is not None:
            self._feed.send(changes)

    def _enqueue(self, task: Task) -> None:
        """Queue a task whose deps are completed; the queue ignores it until it is pending."""
        if not (task.deps and self._open_deps(task)):
            heappush(self._ready, (-task.priority, task.seq, task.id))

    def _open_deps(self, task: Task) -> builtins.list[str]:
        return [dep for dep in task.deps if self._tasks[dep].status != "completed"]

    def _next(self, assignee: str | None, labels: AbstractSet[str]) -> Task | None:
        """The first claimable task of the queue, in time that grows with the number of tasks that it passes over."""
        passed: list[tuple[int, int, str]] = []
        found: Task | None = None
        while self._ready and found is None:
            task = self._tasks[self._ready[0][2]]
            if task.status != "pending":
                heappop(self._ready)
            elif task.assignee in {None, assignee} and labels <= task.labels:
                found = task
            else:
                passed.append(heappop(self._ready))
        for entry in passed:
            heappush(self._ready, entry)
        return found

    def _claimable(self, task_id: str, assignee: str | None, labels: AbstractSet[str]) -> Task:
        task = self.get(task_id)
        if waits_for := self._open_deps(task):
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

    def _checked_lease(self, lease: float) -> float:
        check_seconds(self._where, lease=lease)
        return lease

    def _check_status(self, status: TaskStatus | None) -> None:
        if status is not None and status not in TASK_STATUSES:
            raise ConfigurationError(self._where, "status", status, f"one of {', '.join(TASK_STATUSES)}")


class TaskCollectionView:
    """A protected `TaskCollection` as a block sees it: all can be read, and tasks that blocks added can be changed."""

    __slots__ = ("_block", "_tasks")

    def __init__(self, tasks: TaskCollection, block: str) -> None:
        self._tasks = tasks
        self._block = block

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - what TaskCollection has
        """The method of the collection; ReadOnly names the block if it is called for a task of the pattern."""
        method = getattr(self._tasks, name) if name in _FOR_BLOCKS else None
        if method is None:
            message = f"a task collection has no {name!r} for blocks"
            raise AttributeError(message)
        return method if name not in _MOVES else self._guarded(method)

    def _guarded(self, method: Callable[..., Task | None]) -> Callable[..., Task | None]:
        def call(*arguments: Any, **options: Any) -> Task | None:  # noqa: ANN401 - those of the method
            task_id = arguments[0] if arguments else options.get("task_id")
            if task_id in self._tasks.reserved:
                what = f"task {task_id!r} of {self._tasks.collection_id!r}"
                raise ReadOnly(what, "the task of a turn ends as the turn does", block=self._block)
            return method(*arguments, **options)

        return call


_MOVES = frozenset(
    ("await_review", "block", "cancel", "claim", "complete", "fail", "renew", "resume_from_review", "unblock")
)
"""Methods that change the task with the id `task_id`."""
_FOR_BLOCKS = _MOVES | {"add_task", "add_tasks", "collection_id", "count", "get", "list", "reclaim", "stuck", "to_wire"}


@dataclass(frozen=True, kw_only=True)
class TaskCollectionResource:
    """A `TaskCollection` shared by blocks: each run has a new one, whose changes are events of the run.

    Two with the same key and collection id are the same resource.
    """

    key: str
    collection_id: str

    def open(self, scope: ResourceScope, /) -> TaskCollection:
        """The run's collection."""
        return TaskCollection(self.collection_id, now=scope.now, on_change=scope.emit)


def create_task_collection(collection_id: str, *, key: str = "tasks") -> TaskCollectionResource:
    """A task collection that blocks reach as `ctx.resources.<key>`.

    >>> create_task_collection("rent").key
    'tasks'
    """
    if not isinstance(key, str) or not key:
        raise ConfigurationError("create_task_collection()", "key", key, "a non-empty string")
    return TaskCollectionResource(key=key, collection_id=_checked_id(collection_id))


def _refuse(task: Task, action: TaskAction, reason: str) -> NoReturn:
    outcome(task, action)  # an action that the status forbids is reported first
    raise IllegalTransition(task.id, action=action, status=task.status, allowed=[task.status], reason=reason)


def _checked_id(collection_id: str) -> str:
    if not isinstance(collection_id, str) or not collection_id.strip():
        raise ConfigurationError("task collection", "collection_id", collection_id, "a string that is not blank")
    return collection_id
