"""What may be asked of a new task; everything is checked before anything is added."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any, Required, TypedDict

from flowdebate.errors import ConfigurationError
from flowdebate.resources.tasks.task import Task

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

__all__ = (
    "TaskSpec",
    "check_links",
    "free_id",
    "names",
    "new_task",
    "new_tasks",
)


class TaskSpec(TypedDict, total=False):
    """A task to be added: those fields of `Task` that can be chosen."""

    goal: Required[str]
    id: str | None
    assignee: str | None
    priority: int
    labels: Iterable[str]
    metadata: Mapping[str, Any] | None
    deps: Iterable[str]
    max_attempts: int


_KEYS = frozenset(TaskSpec.__annotations__)
_NO_LABELS: frozenset[str] = frozenset()


def new_task(  # noqa: PLR0913 - the fields of a task
    where: str,
    goal: str,
    *,
    id: str,  # noqa: A002 - the field's name
    assignee: str | None = None,
    priority: int = 0,
    labels: Iterable[str] = (),
    metadata: Mapping[str, Any] | None = None,
    deps: Iterable[str] = (),
    max_attempts: int = 1,
    seq: int,
    at: float,
) -> Task:
    """A task that is added at the time `at`; ConfigurationError if a field by itself cannot be."""
    _check_texts(where, goal, id, assignee)
    if not isinstance(priority, int) or isinstance(priority, bool):
        raise ConfigurationError(where, "priority", priority, "an int")
    if not isinstance(max_attempts, int) or isinstance(max_attempts, bool) or max_attempts < 1:
        raise ConfigurationError(where, "max_attempts", max_attempts, "an int >= 1")
    if metadata is not None and not isinstance(metadata, Mapping):
        raise ConfigurationError(where, "metadata", metadata, "a mapping, or None")
    return Task(
        id=id,
        goal=goal,
        assignee=assignee,
        priority=priority,
        labels=frozenset(names(where, "labels", labels)) if labels != () else _NO_LABELS,
        metadata=dict(metadata) if metadata else {},
        deps=tuple(dict.fromkeys(names(where, "deps", deps))) if deps != () else (),
        max_attempts=max_attempts,
        created_at=at,
        updated_at=at,
        seq=seq,
    )


def new_tasks(
    where: str, collection_id: str, existing: Mapping[str, Task], specs: Sequence[TaskSpec], *, at: float
) -> list[Task]:
    """The tasks that `specs` ask for, in their order; ConfigurationError if one of them cannot be."""
    for spec in specs:
        if not isinstance(spec, Mapping) or "goal" not in spec or not spec.keys() <= _KEYS:
            raise ConfigurationError(where, "tasks", spec, f"mappings with a goal and keys of {sorted(_KEYS)}")
    chosen = {task_id for spec in specs if isinstance(task_id := spec.get("id"), str)}
    tasks: list[Task] = []
    for seq, spec in enumerate(specs, len(existing) + 1):
        fields: dict[str, Any] = {**spec}
        if fields.get("id") is None:
            fields["id"] = free_id(collection_id, seq, existing, chosen)
        tasks.append(new_task(f"{where}, task {len(tasks) + 1} of {len(specs)}", **fields, seq=seq, at=at))
    check_links(where, existing, tasks)
    return tasks


def free_id(collection_id: str, seq: int, existing: Container[str], chosen: Container[str] = ()) -> str:
    """`{collection_id}-{seq}`, or where that is taken the first free one of `{collection_id}-{seq}-2`, `-3` …."""
    task_id, number = f"{collection_id}-{seq}", 1
    while task_id in existing or task_id in chosen:
        number += 1
        task_id = f"{collection_id}-{seq}-{number}"
    return task_id


def check_links(where: str, existing: Container[str], tasks: Sequence[Task]) -> None:
    """ConfigurationError if new `tasks` have ids twice, or deps that are nowhere or lead in a circle."""
    deps: dict[str, tuple[str, ...]] = {}
    asked: set[str] = set()
    for task in tasks:
        if task.id in existing or task.id in deps:
            raise ConfigurationError(where, "id", task.id, "an id that no other task has")
        deps[task.id] = task.deps
        asked.update(task.deps)
    for dep in sorted(asked):
        if dep not in deps and dep not in existing:
            raise ConfigurationError(where, "deps", dep, "ids of tasks of the collection, or of the same batch")
    if asked.isdisjoint(deps):
        return
    try:
        TopologicalSorter(deps).prepare()
    except CycleError as error:
        raise ConfigurationError(where, "deps", " → ".join(error.args[1]), "free of cycles") from None


def names(where: str, field: str, value: Iterable[str]) -> tuple[str, ...]:
    """`value` as a tuple; ConfigurationError unless it is an iterable of non-empty strings, and no string itself."""
    allowed = "an iterable of non-empty strings"
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ConfigurationError(where, field, value, allowed)
    found = tuple(value)
    for name in found:
        if not isinstance(name, str) or not name:
            raise ConfigurationError(where, field, name, allowed)
    return found


def _check_texts(where: str, goal: object, task_id: object, assignee: object) -> None:
    if not isinstance(goal, str) or not goal.strip():
        raise ConfigurationError(where, "goal", goal, "a string that is not blank")
    if not isinstance(task_id, str) or not task_id:
        raise ConfigurationError(where, "id", task_id, "a non-empty string, or None for a derived one")
    if assignee is not None and (not isinstance(assignee, str) or not assignee):
        raise ConfigurationError(where, "assignee", assignee, "a non-empty string, or None for anybody")
