"""Who is next: the tasks that can be claimed, by assignee and label, best first; and those that wait for others."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from flowdebate.resources.tasks.task import Task

__all__ = ("ReadyQueue",)

Rank = tuple[int, int, str]
"""`(-priority, seq, id)`: the smallest is claimed first."""


class ReadyQueue:
    """An index over `tasks`, which it reads and never writes.

    A task that can be claimed stands in the lane of its assignee and in one lane for each of its labels. It stays
    there when it is claimed by its id, blocked or cancelled, and is dropped when it comes up: so that each step takes
    time that grows with the logarithm of the number of tasks. Only a question for several labels can take longer, if
    many tasks have some of them and few have all. The lanes are made when `first` is called for the first time: an
    audit trail, which claims by id, does without.
    """

    __slots__ = ("_dependents", "_lanes", "_open_deps", "_tasks")

    def __init__(self, tasks: Mapping[str, Task]) -> None:
        self._tasks = tasks
        self._lanes: Lanes | None = None
        self._open_deps: dict[str, int] = {}
        self._dependents: dict[str, list[str]] = {}

    def add(self, task: Task) -> None:
        """Take in a new task, all of whose deps are in `tasks`; a new task is pending."""
        waits_for = self.waits_for(task)
        for dep in waits_for:
            self._dependents.setdefault(dep, []).append(task.id)
        if waits_for:
            self._open_deps[task.id] = len(waits_for)
        self.put_back(task)

    def put_back(self, task: Task) -> None:
        """Take in a task that may be claimed once it is pending, or that is pending again."""
        if self._lanes is not None and task.id not in self._open_deps:
            _push(self._lanes, task)

    def release(self, completed: str) -> None:
        """Let go of the tasks that waited only for the one with this id, which is completed."""
        for task_id in self._dependents.pop(completed, ()):
            self._open_deps[task_id] -= 1
            if not self._open_deps[task_id]:
                del self._open_deps[task_id]
                self.put_back(self._tasks[task_id])

    def waits_for(self, task: Task) -> Sequence[str]:
        """The deps of `task` that are not completed."""
        if not task.deps:
            return ()
        return [dep for dep in task.deps if self._tasks[dep].status != "completed"]

    def dependents(self, task_id: str) -> Sequence[str]:
        """The ids of the tasks that wait for this one."""
        return self._dependents.get(task_id, ())

    def first(self, assignee: str | None, labels: AbstractSet[str]) -> Task | None:
        """The best task for `assignee` that has all `labels`; None if there is none."""
        if self._lanes is None:
            self._lanes = {}
            for task in self._tasks.values():
                if task.status == "pending":
                    self.put_back(task)
        owners = (None,) if assignee is None else (None, assignee)
        ranks = [rank for owner in owners if (rank := self._best(self._lanes, owner, labels))]
        return self._tasks[min(ranks)[2]] if ranks else None

    def _best(self, lanes: Lanes, owner: str | None, labels: AbstractSet[str]) -> Rank | None:
        shortest: _Lane | None = None
        for label in labels or (None,):
            lane = lanes.get((owner, label))
            if lane is None:
                return None
            if shortest is None or len(lane.heap) < len(shortest.heap):
                shortest = lane
        return None if shortest is None else shortest.best(self._tasks, labels)


class _Lane:
    __slots__ = ("_queued", "heap")

    def __init__(self) -> None:
        self.heap: list[Rank] = []
        self._queued: set[str] = set()

    def push(self, rank: Rank) -> None:
        if rank[2] not in self._queued:  # it may be there still, from before it was claimed by its id
            self._queued.add(rank[2])
            heappush(self.heap, rank)

    def best(self, tasks: Mapping[str, Task], labels: AbstractSet[str]) -> Rank | None:
        passed: list[Rank] = []
        found: Rank | None = None
        while self.heap and found is None:
            rank = self.heap[0]
            task = tasks[rank[2]]
            if task.status != "pending":
                heappop(self.heap)
                self._queued.remove(rank[2])
            elif labels <= task.labels:
                found = rank
            else:
                passed.append(heappop(self.heap))
        for rank in passed:
            heappush(self.heap, rank)
        return found


Lanes = dict[tuple[str | None, str | None], _Lane]
"""By assignee and label; None for the tasks that are for anybody, and for those with any labels."""


def _push(lanes: Lanes, task: Task) -> None:
    rank = (-task.priority, task.seq, task.id)
    for label in (None, *task.labels):
        lanes.setdefault((task.assignee, label), _Lane()).push(rank)
