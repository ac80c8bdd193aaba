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
_NO_NAMES: frozenset[str] = frozenset()


def new_task(
    where: str,
    seq: int,
    at: float,
    *,
    goal: str,
    id: str,  # noqa: A002 - the field's name
    assignee: str | None = None,
    priority: int = 0,
    labels: Iterable[str] = (),
    metadata: Mapping[str, Any] | None = None,
    deps: Iterable[str] = (),
    max_attempts: int = 1,
) -> Task:
    """A task made at the time `at`; ConfigurationError if one of its fields cannot be, wherever its deps are."""
    if not isinstance(goal, str) or not goal.strip():
        raise ConfigurationError(where, "goal", goal, "a string that is not blank")
    if not isinstance(id, str) or not id:
        raise ConfigurationError(where, "id", id, "a non-empty string, or None for a derived one")
    if assignee is not None and (not isinstance(assignee, str) or not assignee):
        raise ConfigurationError(where, "assignee", assignee, "a non-empty string, or None for anybody")
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
        labels=names(where, "labels", labels),
        metadata=dict(metadata) if metadata else {},
        deps=ordered_names(where, "deps", deps),
        max_attempts=max_attempts,
        created_at=at,
        updated_at=at,
        seq=seq,
    )


def new_tasks(where: str, specs: Sequence[Mapping[str, Any]], ids: Sequence[str], seq: int, at: float) -> list[Task]:
    """
    """


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
