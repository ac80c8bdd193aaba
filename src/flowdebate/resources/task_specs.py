"""What may be asked of a new task; checked as a whole before anything is added."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any, Required, TypedDict

from flowdebate.errors import ConfigurationError
from flowdebate.resources.task import Task

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ("TaskSpec", "names", "new_tasks")


class TaskSpec(TypedDict, total=False):
    """A task to be added; the fields of `Task` that can be chosen."""

    goal: Required[str]
    id: str | None
    assignee: str | None
    priority: int
    labels: Iterable[str]
    metadata: Mapping[str, Any] | None
    deps: Iterable[str]
    max_attempts: int


_FIELDS = frozenset(TaskSpec.__annotations__)


def new_tasks(
    collection_id: str, existing: Mapping[str, Task], specs: Sequence[Mapping[str, Any]], *, at: float
) -> list[Task]:
    """The tasks that `specs` ask for, in their order; ConfigurationError if one of them cannot be.

    A task without an id gets `{collection_id}-{seq}`, or where that is taken the first free one of
    `{collection_id}-{seq}-2`, `-3` and so on. `at` is the time of creation.
    """
    where = f"task collection {collection_id!r}"
    taken = _chosen_ids(where, existing, specs)
    tasks = []
    for seq, spec in enumerate(specs, len(existing) + 1):
        place = where if len(specs) == 1 else f"{where}, task {len(tasks) + 1} of {len(specs)}"
        task_id = spec.get("id")
        if task_id is None:
            task_id = _free_id(f"{collection_id}-{seq}", existing, taken)
            taken.add(task_id)
        tasks.append(_new_task(place, spec, task_id=task_id, seq=seq, at=at))
    if any(task.deps for task in tasks):
        _check_deps(where, existing, tasks)
    return tasks


def names(where: str, field: str, value: Iterable[str]) -> Iterable[str]:
    """`value`, if it is an iterable of non-empty strings and not a string itself."""
    if value == ():
        return ()
    allowed = "an iterable of non-empty strings"
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ConfigurationError(where, field, value, allowed)
    found = tuple(value)
    for name in found:
        if not isinstance(name, str) or not name:
            raise ConfigurationError(where, field, name, allowed)
    return found


def _new_task(where: str, spec: Mapping[str, Any], *, task_id: str, seq: int, at: float) -> Task:
    goal, assignee, metadata = spec["goal"], spec.get("assignee"), spec.get("metadata")
    if not isinstance(goal, str) or not goal.strip():
        raise ConfigurationError(where, "goal", goal, "a string that is not blank")
    if assignee is not None and (not isinstance(assignee, str) or not assignee):
        raise ConfigurationError(where, "assignee", assignee, "a non-empty string, or None for anybody")
    if metadata is not None and not isinstance(metadata, Mapping):
        raise ConfigurationError(where, "metadata", metadata, "a mapping, or None")
    return Task(
        id=task_id,
        goal=goal,
        assignee=assignee,
        priority=_whole(where, "priority", spec.get("priority", 0)),
        labels=frozenset(names(where, "labels", spec.get("labels", ()))),
        metadata=dict(metadata) if metadata else {},
        deps=tuple(dict.fromkeys(names(where, "deps", spec.get("deps", ())))),
        max_attempts=_whole(where, "max_attempts", spec.get("max_attempts", 1), least=1),
        created_at=at,
        updated_at=at,
        seq=seq,
    )


def _whole(where: str, field: str, value: object, *, least: int | None = None) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or (least is not None and value < least):
        raise ConfigurationError(where, field, value, "an int" if least is None else f"an int >= {least}")
    return value


def _chosen_ids(where: str, existing: Mapping[str, Task], specs: Sequence[Mapping[str, Any]]) -> set[str]:
    chosen: set[str] = set()
    for spec in specs:
        if not isinstance(spec, Mapping) or "goal" not in spec or not spec.keys() <= _FIELDS:
            raise ConfigurationError(where, "tasks", spec, f"mappings with a goal and keys of {sorted(_FIELDS)}")
        task_id = spec.get("id")
        if task_id is None:
            continue
        if not isinstance(task_id, str) or not task_id:
            raise ConfigurationError(where, "id", task_id, "a non-empty string, or None for a derived one")
        if task_id in existing or task_id in chosen:
            raise ConfigurationError(where, "id", task_id, "an id that no other task has")
        chosen.add(task_id)
    return chosen


def _free_id(wanted: str, existing: Mapping[str, Task], taken: set[str]) -> str:
    task_id, number = wanted, 1
    while task_id in existing or task_id in taken:
        number += 1
        task_id = f"{wanted}-{number}"
    return task_id


def _check_deps(where: str, existing: Mapping[str, Task], tasks: Sequence[Task]) -> None:
    added = {task.id: task.deps for task in tasks}
    for dep in (dep for deps in added.values() for dep in deps):
        if dep not in added and dep not in existing:
            raise ConfigurationError(where, "deps", dep, "the id of a task of the collection or of the same batch")
    try:
        TopologicalSorter(added).prepare()
    except CycleError as error:
        cycle = " ← ".join(error.args[1])
        raise ConfigurationError(where, "deps", cycle, "free of cycles") from None
