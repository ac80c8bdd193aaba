"""`TaskCollection`: a task board that mirrors a pattern's turns. The events it emits form an audit trail."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, NoReturn, get_args

from pydantic.alias_generators import to_camel

from flowdebate._text import join_choices, short_repr
from flowdebate._util.validation import check_count, check_text
from flowdebate._util.wire import BaseEvent
from flowdebate.errors import ConfigurationError, IllegalTransition, ReadOnly, TaskNotFound
from flowdebate.resources.resource import Protectable, ResourceScope

if TYPE_CHECKING:
    import builtins


TaskStatus = Literal["pending", "in_progress", "awaiting_review", "completed", "errored", "cancelled"]

TASK_STATUSES: tuple[TaskStatus, ...] = get_args(TaskStatus)

TERMINAL_STATUSES: frozenset[TaskStatus] = frozenset(("completed", "errored", "cancelled"))
"""Statuses after which a task never changes again."""

TaskAction = Literal["claim", "complete", "fail", "await_review", "resume_from_review", "cancel"]
"""An action on a task, named after a method of `TaskCollection`."""

TaskChange = Literal[
    "added", "claimed", "completed", "failed", "retried", "review_requested", "review_resumed", "cancelled"
]
"""Kind of change reported by an event. `failed` is final; after `retried`, the task is pending again."""


@dataclass(frozen=True, kw_only=True)  # no slots, because copying a `__dict__` takes a tenth of the time
class Task:
    """State of a task. Each change creates a new object."""

    id: str
    """ID of the task, unique in its collection."""
    goal: str
    """Goal of the task, as a phrase."""
    status: TaskStatus = "pending"
    """Current status of the task."""
    assignee: str | None = None
    """Worker for whom the task is intended; None if any worker may do it."""
    labels: frozenset[str] = frozenset()
    """Application-defined labels that describe the kind of task."""
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Application-defined data; a read-only copy of the argument."""
    attempts: int = 0
    """Number of times the task has been claimed so far."""
    max_attempts: int = 1
    """Maximum number of attempts; if the last attempt fails, the failure is final."""
    output: Any = field(default=None, hash=False)
    """Result of the task; None until the task is completed."""
    error: str | None = None
    """Reason why the task is `errored`."""
    feedback: tuple[str, ...] = ()
    """Advice for the next attempt: errors from earlier attempts and reviewers' comments, oldest first."""
    claimed_by: str | None = None
    """Worker that holds the claim or held it most recently; None if the task is pending or the worker is anonymous."""
    reason: str | None = None
    """Reason why the task is awaiting review or was cancelled."""
    created_at: float
    """Time of creation, in seconds since the epoch."""
    updated_at: float
    """Time of the last change, in seconds since the epoch."""
    seq: int
    """Position of the task in creation order, starting at 1."""

    @property
    def finished(self) -> bool:
        """True once the task is completed, errored or cancelled."""
        return self.status in TERMINAL_STATUSES

    def to_wire(self) -> dict[str, Any]:
        """Convert the task to plain data for JSON, with camelCase keys; `metadata` keeps its own keys.

        Values that JSON cannot represent are converted to strings.
        """
        wire = {key: getattr(self, name) for name, key in _WIRE_KEYS.items()}
        wire["labels"] = sorted(self.labels)
        wire["metadata"] = {str(key): _plain(value) for key, value in self.metadata.items()}
        wire["feedback"] = list(self.feedback)
        wire["output"] = _plain(self.output)
        return wire


_WIRE_KEYS = {item.name: to_camel(item.name) for item in fields(Task)}
_NEW = Task(id="", goal="", created_at=0.0, updated_at=0.0, seq=0)  # default values for `_change_fields`


def _plain(value: object) -> object:
    if value is None or isinstance(value, (str, bool, int)):  # fast path: covers nearly all outputs and metadata
        return value
    from pydantic_core import to_jsonable_python

    try:
        return to_jsonable_python(
            value, by_alias=True, serialize_unknown=True, inf_nan_mode="null", bytes_mode="base64"
        )
    except ValueError:  # a cycle or a lone surrogate: an audit trail with a placeholder is better than none
        return short_repr(value)


def _change_fields(task: Task, changes: Mapping[str, Any]) -> Task:
    # Each turn in a debate changes its task three times, and `dataclasses.replace` is four times slower.
    changed = object.__new__(Task)
    values = changed.__dict__
    values.update(task.__dict__)
    values.update(changes)
    return changed


class Outcome(NamedTuple):
    """Result of an action: the new status, and the kind of change reported by the event."""

    status: TaskStatus
    change: TaskChange


_COMPLETED = (Outcome("completed", "completed"),)
_CANCELLED = (Outcome("cancelled", "cancelled"),)
_FAILED = (Outcome("pending", "retried"), Outcome("errored", "failed"))

TRANSITIONS: Mapping[tuple[TaskStatus, TaskAction], tuple[Outcome, ...]] = {
    ("pending", "claim"): (Outcome("in_progress", "claimed"),),
    ("pending", "cancel"): _CANCELLED,
    ("in_progress", "complete"): _COMPLETED,
    ("in_progress", "fail"): _FAILED,
    ("in_progress", "await_review"): (Outcome("awaiting_review", "review_requested"),),
    ("in_progress", "cancel"): _CANCELLED,
    ("awaiting_review", "complete"): _COMPLETED,
    ("awaiting_review", "fail"): _FAILED,
    ("awaiting_review", "resume_from_review"): (Outcome("pending", "review_resumed"),),
    ("awaiting_review", "cancel"): _CANCELLED,
}
"""Legal actions by status. If there are two outcomes, the first applies while attempts are left, and the second
afterwards.

A review ends with `complete` (accepted), `fail` (rejected) or `resume_from_review` (another attempt).
"""


@dataclass(slots=True, kw_only=True)
class TaskChanged(BaseEvent):
    """Change to a task. To reconstruct the collection, take the latest `task` for each id."""

    kind: ClassVar[str] = "task_changed"
    collection_id: str
    """ID of the collection."""
    change: TaskChange
    """Kind of change made to the task."""
    task: Task
    """The task after the change."""


class TaskCollection(Protectable):
    """In-memory task board for use in a single thread; `TRANSITIONS` lists the legal actions.

    Every method that changes a task returns its new state, and calls `on_change` for each change once it has been made.
    A listener may change the collection: it receives the resulting events after it has returned. If it raises, the
    changes remain, all pending events are delivered, and then the exception is raised to the caller (several exceptions
    as an ExceptionGroup). A rejected call changes nothing and emits nothing: it raises TaskNotFound for an unknown id,
    IllegalTransition for an action that is invalid in the task's state, or ConfigurationError for an invalid argument.

    Methods that take `by` reject the call unless that worker holds the claim, so a worker whose attempt failed cannot
    change the task once another worker has claimed it. If `by` is None, the check is skipped.

    >>> tasks = TaskCollection("paper")
    >>> draft = tasks.add_task("write", id="draft", max_attempts=2)
    >>> tasks.claim().id
    'draft'
    >>> tasks.fail("draft", "too long").feedback
    ('too long',)
    >>> tasks.claim(task_id="draft", by="anna").attempts
    2
    >>> tasks.complete("draft", "a short draft").status, tasks.claim()
    ('completed', None)
    """

    __slots__ = (
        "_busy",
        "_collection_id",
        "_counts",
        "_now",
        "_on_change",
        "_tasks",
        "_unfinished",
        "_unsent",
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
        self._collection_id = _check_id(collection_id)
        self.reserved: set[str] = set()
        """Ids of the tasks that only the pattern may change when the collection is protected."""
        self._where = f"task collection {collection_id!r}"
        self._now = now
        self._tasks: dict[str, Task] = {}  # in creation order
        # IDs in creation order, so that claims and a pattern's lookup of its open task do not have to scan finished
        # tasks
        self._unfinished: dict[str, None] = {}
        self._counts: Counter[TaskStatus] = Counter()
        self._on_change = on_change
        self._unsent: list[TaskChanged] = []  # changes made by a listener wait here until it returns
        self._busy = False

    @property
    def collection_id(self) -> str:
        """Name of the collection, also used as the prefix of derived ids."""
        return self._collection_id

    def view(self, block: str) -> TaskCollectionView:
        return TaskCollectionView(self, block)

    def add_task(
        self,
        goal: str,
        *,
        id: str | None = None,  # noqa: A002 - the field's name
        assignee: str | None = None,
        labels: Iterable[str] = (),
        metadata: Mapping[str, Any] | None = None,
        max_attempts: int = 1,
    ) -> Task:
        """Add a pending task; by default, its `id` is derived from the collection's id and the task's position."""
        if not _is_name(id) and id is not None:
            raise ConfigurationError(self._where, "id", id, "must be non-empty text")
        if id in self._tasks:
            raise ConfigurationError(self._where, "id", id, "must be unique")
        check_count(self._where, max_attempts=max_attempts)
        more = {"labels": self._check_labels(labels), "max_attempts": max_attempts}
        task = self._new_task(goal, id, assignee, metadata, more)
        self._put(task, "pending")
        self._emit((("added", task),))
        return task

    def start_task(self, goal: str, *, by: str, metadata: Mapping[str, Any] | None = None) -> Task:
        """Add a task claimed by the worker `by`; in a protected collection, only the pattern may change the task."""
        added = self._new_task(goal, None, by, metadata, {})
        task = _change_fields(added, {"status": "in_progress", "attempts": 1, "claimed_by": by})
        self._put(task, "in_progress")
        self.reserved.add(task.id)  # only the turn itself may end the task
        self._emit((("added", added), ("claimed", task)))
        return task

    def claim(
        self,
        *,
        by: str | None = None,
        task_id: str | None = None,
        assignee: str | None = None,
        labels: Iterable[str] = (),
    ) -> Task | None:
        """Claim a task for the worker `by` and return it; return None if no task can be claimed.

        If `task_id` is None, the earliest pending task is claimed among those that have all `labels` and are intended
        for `assignee` or for anybody. Otherwise, the given task is claimed, or IllegalTransition is raised; the task's
        assignee is checked only if `assignee` is passed.
        """
        labels_wanted = self._check_labels(labels)
        if task_id is None:
            pending = (self._tasks[id] for id in self._unfinished if self._tasks[id].status == "pending")  # noqa: A001
            free = (
                candidate
                for candidate in pending
                if candidate.assignee in {None, assignee} and labels_wanted <= candidate.labels
            )
            task = next(free, None)
            if task is None:
                return None
        else:
            task = self.get(task_id)
            if assignee is not None and task.assignee is not None and assignee != task.assignee:
                _refuse(task, "claim", f"it is for {task.assignee!r}, not for {assignee!r}")
            if not labels_wanted <= task.labels:
                _refuse(task, "claim", f"it lacks the labels {sorted(labels_wanted - task.labels)}")
        return self._change(task, "claim", attempts=task.attempts + 1, claimed_by=by)

    def complete(self, task_id: str, output: object = None, *, by: str | None = None) -> Task:
        """Complete a task once its work is done or a reviewer has accepted it."""
        return self._change(self._held(task_id, "complete", by), "complete", output=output)

    def fail(self, task_id: str, error: str, *, by: str | None = None) -> Task:
        """Report a failed attempt, or a reviewer's rejection.

        While attempts are left, the task becomes pending again, with `error` added to its feedback; otherwise it is
        errored.
        """
        self._check_text("error", error)
        return self._change(self._held(task_id, "fail", by), "fail", comment=error)

    def await_review(self, task_id: str, reason: str | None = None, *, by: str | None = None) -> Task:
        """Hand a claimed task to a reviewer, who calls `complete`, `fail` or `resume_from_review`."""
        self._check_text("reason", reason, optional=True)
        return self._change(self._held(task_id, "await_review", by), "await_review", reason=reason)

    def resume_from_review(self, task_id: str, feedback: str | None = None) -> Task:
        """Request another attempt, even beyond `max_attempts`: the task becomes pending, with `feedback` added."""
        self._check_text("feedback", feedback, optional=True)
        return self._change(self.get(task_id), "resume_from_review", comment=feedback)

    def cancel(self, task_id: str, reason: str | None = None) -> Task:
        """Cancel a task, ending it without a result."""
        self._check_text("reason", reason, optional=True)
        return self._change(self.get(task_id), "cancel", reason=reason)

    def get(self, task_id: str) -> Task:
        """Return the current state of the task with the given id."""
        task = self._tasks.get(task_id)
        if task is None:
            raise TaskNotFound(self._collection_id, task_id)
        return task

    def list(
        self, *, status: TaskStatus | None = None, assignee: str | None = None, labels: Iterable[str] = ()
    ) -> builtins.list[Task]:
        """List the tasks in creation order, filtered by status, assignee and `labels`.

        A task must have all the given labels. If the status or the assignee is None, tasks are not filtered by it.
        """
        self._check_status(status)
        labels_wanted = self._check_labels(labels)
        finished = status is None or status in TERMINAL_STATUSES
        return [
            task
            for task in (self._tasks.values() if finished else map(self._tasks.__getitem__, self._unfinished))
            if (status is None or task.status == status)
            and (assignee is None or task.assignee == assignee)
            and labels_wanted <= task.labels
        ]

    def count(self, status: TaskStatus | None = None) -> int:
        """Count all tasks, or only those with the given status."""
        self._check_status(status)
        return len(self._tasks) if status is None else self._counts[status]

    def to_wire(self) -> dict[str, Any]:
        """Convert the collection to plain data for JSON, with camelCase keys and tasks in creation order."""
        return {"collectionId": self._collection_id, "tasks": [task.to_wire() for task in self._tasks.values()]}

    def _new_task(
        self,
        goal: str,
        id: str | None,  # noqa: A002 - the field's name
        assignee: str | None,
        metadata: Mapping[str, Any] | None,
        more: Mapping[str, Any],
    ) -> Task:
        check_text(self._where, goal=goal)
        if assignee is not None and not _is_name(assignee):
            raise ConfigurationError(self._where, "assignee", assignee, "must be non-empty text")
        if metadata is not None and not isinstance(metadata, Mapping):
            raise ConfigurationError(self._where, "metadata", metadata, "must be a mapping")
        at, seq = self._now(), len(self._tasks) + 1
        if id is None:
            id, number = f"{self._collection_id}-{seq}", 1  # noqa: A001
            while id in self._tasks:  # the application may have chosen an id that looks like a derived one
                number += 1
                id = f"{self._collection_id}-{seq}-{number}"  # noqa: A001
        values = {"id": id, "goal": goal, "assignee": assignee, "metadata": dict(metadata) if metadata else {}}
        return _change_fields(_NEW, {**values, "created_at": at, "updated_at": at, "seq": seq, **more})

    def _put(self, task: Task, status: TaskStatus) -> None:
        self._tasks[task.id] = task
        self._unfinished[task.id] = None
        self._counts[status] += 1

    def _held(self, task_id: str, action: TaskAction, by: str | None) -> Task:
        """Return the task if the worker `by` holds its claim; if `by` is None, skip the check."""
        task = self.get(task_id)
        if by is not None and by != task.claimed_by:
            holder = "" if task.claimed_by is None else f", {task.claimed_by!r} has"
            _refuse(task, action, f"{by!r} has not claimed it{holder}")
        return task

    def _change(
        self,
        task: Task,
        action: TaskAction,
        comment: str | None = None,
        **changes: object,
    ) -> Task:
        """Move the task to its next state.

        `comment` becomes the error of an errored task, or feedback for the next attempt at a pending one.
        """
        status, change = _find_outcome(task, action)
        values: dict[str, Any] = {"status": status, "updated_at": self._now(), "reason": None}
        if status == "pending":
            values["claimed_by"] = None
            if comment is not None:
                values["feedback"] = (*task.feedback, comment)
        elif status == "errored":
            values["error"] = comment
        values.update(changes)
        moved = self._tasks[task.id] = _change_fields(task, values)
        self._counts[task.status] -= 1
        self._counts[status] += 1
        if status in TERMINAL_STATUSES:
            del self._unfinished[task.id]
        self._emit(((change, moved),))
        return moved

    def _emit(self, changes: Iterable[tuple[TaskChange, Task]]) -> None:
        """Deliver the changes to the listener one at a time, without re-entering it, and continue after an error."""
        unsent, listener = self._unsent, self._on_change
        if listener is None:
            return
        for change, task in changes:
            unsent.append(TaskChanged(collection_id=self._collection_id, change=change, task=task, at=task.updated_at))
        if self._busy:  # called from inside a listener; the outer call delivers these changes afterwards
            return
        failures: list[Exception] = []
        self._busy = True
        try:
            while unsent:
                try:
                    listener(unsent.pop(0))
                except Exception as error:  # noqa: BLE001 - it is raised once everything is delivered
                    failures.append(error)
        finally:
            self._busy = False
        if failures:
            raise failures[0] if len(failures) == 1 else ExceptionGroup("on_change raised", failures)

    def _check_labels(self, labels: Iterable[str]) -> frozenset[str]:
        if labels == ():
            return frozenset()
        # A string is also an iterable of strings, so "gpu" would become the labels g, p and u.
        label_tuple = None if isinstance(labels, str) or not isinstance(labels, Iterable) else tuple(labels)
        if label_tuple is None or not all(map(_is_name, label_tuple)):
            raise ConfigurationError(
                self._where, "labels", label_tuple or labels, "must be an iterable of non-empty strings"
            )
        return frozenset(label_tuple)

    def _check_text(self, name: str, value: object, *, optional: bool = False) -> None:
        if not (isinstance(value, str) or (optional and value is None)):
            raise ConfigurationError(self._where, name, value, "must be text")

    def _check_status(self, status: TaskStatus | None) -> None:
        if status is not None and status not in TASK_STATUSES:
            raise ConfigurationError(
                self._where, "status", status, f"must be {join_choices(TASK_STATUSES)}", choices=TASK_STATUSES
            )


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _check_id(collection_id: str) -> str:
    check_text("task collection", collection_id=collection_id)
    return collection_id


def _find_outcome(task: Task, action: TaskAction) -> Outcome:
    outcomes = TRANSITIONS.get((task.status, action))
    if outcomes is None:
        allowed = [status for status, allowed_action in TRANSITIONS if allowed_action == action]
        raise IllegalTransition(task.id, action=action, status=task.status, allowed=allowed)
    return outcomes[0] if task.attempts < task.max_attempts else outcomes[-1]


def _refuse(task: Task, action: TaskAction, reason: str) -> NoReturn:
    _find_outcome(task, action)  # if the status forbids the action, report that first
    raise IllegalTransition(task.id, action=action, status=task.status, allowed=[task.status], reason=reason)


class TaskCollectionView:
    """View of a protected `TaskCollection` for use by blocks.

    Blocks can read everything, but can change only tasks added by blocks.
    """

    __slots__ = ("_block", "_tasks")

    def __init__(self, tasks: TaskCollection, block: str) -> None:
        self._tasks = tasks
        self._block = block

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - what TaskCollection has
        """Return the collection's method, wrapped to raise ReadOnly if it is called for a pattern's task."""
        if name not in _FOR_BLOCKS:
            message = f"a task collection does not let blocks use {name!r}"
            raise AttributeError(message)
        method = getattr(self._tasks, name)
        if name not in _ACTIONS:
            return method

        def change(*arguments: object, **options: object) -> Task | None:
            task_id = arguments[0] if arguments else options.get("task_id")
            if task_id in self._tasks.reserved:
                what = f"task {task_id!r} of {self._tasks.collection_id!r}"
                raise ReadOnly(what, "a turn's task ends when the turn does", block=self._block)
            changed: Task | None = method(*arguments, **options)
            return changed

        return change


_ACTIONS = frozenset(get_args(TaskAction))
_FOR_BLOCKS = _ACTIONS | {"add_task", "collection_id", "count", "get", "list", "to_wire"}


@dataclass(frozen=True, kw_only=True)
class TaskCollectionResource:
    """A `TaskCollection` shared by blocks; each run opens a new one and emits its changes as events.

    Two resources with the same key and collection id are equal.
    """

    key: str
    collection_id: str

    def open(self, scope: ResourceScope, /) -> TaskCollection:
        return TaskCollection(self.collection_id, now=scope.now, on_change=scope.emit)


def create_task_collection(collection_id: str, *, key: str = "tasks") -> TaskCollectionResource:
    """Create a task collection for blocks, available as `ctx.resources.<key>`.

    >>> create_task_collection("rent").key
    'tasks'
    """
    if not isinstance(key, str) or not key:
        raise ConfigurationError("create_task_collection()", "key", key, "must be non-empty text")
    return TaskCollectionResource(key=key, collection_id=_check_id(collection_id))
