"""Tasks as values: their fields, their life cycle, and the validation of new ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Required, TypedDict, get_args

from pydantic.alias_generators import to_camel

from flowdebate.errors import ConfigurationError, IllegalTransition, shown

if TYPE_CHECKING:
    from collections.abc import Container, Sequence


TaskStatus = Literal["pending", "in_progress", "blocked", "awaiting_review", "completed", "errored", "cancelled"]

TASK_STATUSES: tuple[TaskStatus, ...] = get_args(TaskStatus)

TERMINAL_STATUSES: frozenset[TaskStatus] = frozenset(("completed", "errored", "cancelled"))
"""The statuses of tasks that never change again."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task after one change; the next change makes a new value."""

    id: str
    """The task's id, unique in its collection."""
    goal: str
    """What is to be done, in words."""
    status: TaskStatus = "pending"
    """Where the task is in its life cycle."""
    assignee: str | None = None
    """The worker the task is for; None for anybody."""
    priority: int = 0
    """Higher is claimed first."""
    labels: frozenset[str] = frozenset()
    """The application's own words for kinds of tasks."""
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """The application's own facts: a read-only copy of what was given."""
    deps: tuple[str, ...] = ()
    """Ids of the tasks that must be completed before this one can be claimed."""
    attempts: int = 0
    """Number of claims so far."""
    max_attempts: int = 1
    """A failure of this attempt, or of a later one, is final."""
    output: Any = field(default=None, hash=False)
    """The result; None until the task is completed."""
    error: str | None = None
    """The reason for the status `errored`."""
    feedback: tuple[str, ...] = ()
    """Advice for the next attempt: errors of earlier attempts and comments of reviewers, oldest first."""
    claimed_by: str | None = None
    """The worker that holds the claim, or held it last; None while pending, and for an anonymous worker."""
    lease_expires_at: float | None = None
    """When the claim may be taken back, in seconds since the epoch; None for a claim without a lease."""
    reason: str | None = None
    """Why the task is blocked, awaits review or was cancelled."""
    created_at: float
    """Seconds since the epoch, as is `updated_at`."""
    updated_at: float
    """When it last changed."""
    seq: int
    """Position in the order of creation, from 1."""

    @property
    def finished(self) -> bool:
        """True once the task is completed, errored or cancelled."""
        return self.status in TERMINAL_STATUSES

    def to_wire(self) -> dict[str, Any]:
        """The task as plain data for JSON, with camelCase keys; `metadata` keeps its own keys.

        Values that JSON cannot hold are written as text.
        """
        wire = {key: getattr(self, name) for name, key in _WIRE_KEYS.items()}
        wire["labels"] = sorted(self.labels)
        wire["metadata"] = {str(key): _plain(value) for key, value in self.metadata.items()}
        wire["deps"], wire["feedback"] = list(self.deps), list(self.feedback)
        wire["output"] = _plain(self.output)
        return wire


_WIRE_KEYS = {item.name: to_camel(item.name) for item in fields(Task)}
_NEW = Task(id="", goal="", created_at=0.0, updated_at=0.0, seq=0)


def changed(task: Task, changes: Mapping[str, Any]) -> Task:
    """`task` with other values in some fields: four times as fast as `dataclasses.replace`."""
    made = object.__new__(Task)
    values = made.__dict__
    values.update(task.__dict__)
    values.update(changes)
    return made


# Life cycle

TaskAction = Literal[
    "claim", "complete", "fail", "block", "unblock", "await_review", "resume_from_review", "cancel", "renew", "reclaim"
]
"""An action on a task: the name of a method of the collection."""

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
"""The change that an event reports: `failed` is final; after `retried` the task is pending again."""


class Outcome(NamedTuple):
    """The status after an action, and the change that the event reports."""

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
"""The legal actions. Of two outcomes the first applies while attempts are left, the second afterwards.

A review ends by `complete` (accepted), `fail` (rejected) or `resume_from_review` (another attempt).
"""


def outcome(task: Task, action: TaskAction) -> Outcome:
    """The outcome of `action` on `task`; IllegalTransition names the statuses that allow the action."""
    outcomes = TRANSITIONS.get((task.status, action))
    if outcomes is None:
        allowed = [status for status, known in TRANSITIONS if known == action]
        raise IllegalTransition(task.id, action=action, status=task.status, allowed=allowed)
    return outcomes[0] if task.attempts < task.max_attempts else outcomes[-1]


# New tasks


class TaskSpec(TypedDict, total=False):
    """A task to add: the fields of `Task` that the caller chooses."""

    goal: Required[str]
    id: str | None
    assignee: str | None
    priority: int
    labels: Iterable[str]
    metadata: Mapping[str, Any] | None
    deps: Iterable[str]
    max_attempts: int


_KEYS = frozenset(TaskSpec.__annotations__)


def new_tasks(
    where: str, collection_id: str, existing: Mapping[str, Task], specs: Sequence[TaskSpec], *, at: float
) -> list[Task]:
    """The tasks that `specs` describe, created at the time `at`; ConfigurationError if one of them is invalid.

    A task without an id gets `{collection_id}-{seq}`, or where that is taken `{collection_id}-{seq}-2`, `-3` ….
    """
    for spec in specs:
        if not isinstance(spec, (dict, Mapping)) or "goal" not in spec or not spec.keys() <= _KEYS:
            raise ConfigurationError(where, "tasks", spec, f"mappings with a goal and keys of {sorted(_KEYS)}")
    taken = {task_id for spec in specs if isinstance(task_id := spec.get("id"), str)}.union(existing)
    tasks: list[Task] = []
    for seq, spec in enumerate(specs, len(existing) + 1):
        place = where if len(specs) == 1 else f"{where}, task {len(tasks) + 1} of {len(specs)}"
        values: dict[str, Any] = {**spec}
        if values.get("id") is None:
            values["id"] = derived_id(collection_id, seq, taken)
        tasks.append(new_task(place, seq=seq, at=at, **values))
    check_links(where, existing, tasks)
    return tasks


def derived_id(collection_id: str, seq: int, taken: Container[str]) -> str:
    """The id of a task that was given none."""
    task_id, number = f"{collection_id}-{seq}", 1
    while task_id in taken:
        number += 1
        task_id = f"{collection_id}-{seq}-{number}"
    return task_id


def check_names(where: str, field: str, value: Iterable[str]) -> tuple[str, ...]:
    """`value` as a tuple; ConfigurationError unless it is an iterable of non-empty strings, and not itself a string."""
    if value == ():
        return ()
    found = tuple(value) if isinstance(value, (tuple, Iterable)) and not isinstance(value, str) else None
    if found is None or not all(map(_is_name, found)):
        raise ConfigurationError(where, field, value if found is None else found, "an iterable of non-empty strings")
    return found


def new_task(  # noqa: PLR0913 - the fields of a task
    where: str,
    *,
    seq: int,
    at: float,
    goal: str,
    id: str,  # noqa: A002 - the field's name
    assignee: str | None = None,
    priority: int = 0,
    labels: Iterable[str] = (),
    metadata: Mapping[str, Any] | None = None,
    deps: Iterable[str] = (),
    max_attempts: int = 1,
) -> Task:
    """A pending task; ConfigurationError for an invalid field."""
    if not isinstance(goal, str) or not goal.strip():
        raise ConfigurationError(where, "goal", goal, "a string that is not blank")
    if not _is_name(id):
        raise ConfigurationError(where, "id", id, "a non-empty string, or None for a derived one")
    if assignee is not None and not _is_name(assignee):
        raise ConfigurationError(where, "assignee", assignee, "a non-empty string, or None for anybody")
    if not isinstance(priority, int) or isinstance(priority, bool):
        raise ConfigurationError(where, "priority", priority, "an int")
    if not isinstance(max_attempts, int) or isinstance(max_attempts, bool) or max_attempts < 1:
        raise ConfigurationError(where, "max_attempts", max_attempts, "an int >= 1")
    if metadata is not None and not isinstance(metadata, Mapping):
        raise ConfigurationError(where, "metadata", metadata, "a mapping, or None")
    return changed(
        _NEW,
        {
            "id": id,
            "goal": goal,
            "assignee": assignee,
            "priority": priority,
            "labels": frozenset(check_names(where, "labels", labels)),
            "metadata": dict(metadata) if metadata else {},
            "deps": tuple(dict.fromkeys(check_names(where, "deps", deps))),
            "max_attempts": max_attempts,
            "created_at": at,
            "updated_at": at,
            "seq": seq,
        },
    )


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value != ""


def check_links(where: str, existing: Container[str], tasks: Sequence[Task]) -> None:
    """ConfigurationError if ids of new tasks are taken, or their deps are unknown or form a cycle."""
    deps: dict[str, tuple[str, ...]] = {}
    for task in tasks:
        if task.id in existing or task.id in deps:
            raise ConfigurationError(where, "id", task.id, "an id that no other task has")
        deps[task.id] = task.deps
    if not any(deps.values()):
        return
    wanted = {dep for task in tasks for dep in task.deps}
    for dep in sorted(wanted):
        if dep not in deps and dep not in existing:
            raise ConfigurationError(where, "deps", dep, "ids of tasks of the collection, or of the same batch")
    if wanted.isdisjoint(deps):
        return
    try:
        TopologicalSorter(deps).prepare()
    except CycleError as error:
        raise ConfigurationError(where, "deps", " → ".join(error.args[1]), "free of cycles") from None


def _plain(value: Any) -> Any:  # noqa: ANN401 - anything goes in, plain data comes out
    if value is None or isinstance(value, (str, bool, int)):
        return value
    from pydantic_core import to_jsonable_python

    try:
        return to_jsonable_python(
            value, by_alias=True, serialize_unknown=True, inf_nan_mode="null", bytes_mode="base64"
        )
    except ValueError:  # a cycle, a lone surrogate: an audit trail with a stand-in is better than none
        return shown(value)
