"""`TaskCollection` against a reference that is too simple to be wrong, under any sequence of calls."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from flowdebate.errors import ConfigurationError, IllegalTransition
from flowdebate.resources.tasks.collection import TaskCollection
from flowdebate.resources.tasks.task import TASK_STATUSES, Task

if TYPE_CHECKING:
    from flowdebate.resources.tasks.collection import TaskChanged

WORKERS = st.sampled_from([None, "anna", "ben"])
ASSIGNEES = st.sampled_from([None, "pro", "con"])
LABELS = st.sampled_from([frozenset(labels) for labels in ("", "", "a", "b", "ab", "ab")])
LEASES = st.sampled_from([None, 1.0, 2.5, 10.0])
PRIORITIES = st.integers(-1, 2)
ATTEMPTS = st.integers(1, 3)
BARE: dict[str, Any] = {"goal": "g", "priority": 0, "labels": frozenset(), "max_attempts": 1, "deps": ()}
MOST = 6
"""No tasks are added while so many are open: so that each has a long life."""

MAY: dict[str, set[str]] = {
    "claim": {"pending"},
    "complete": {"in_progress", "awaiting_review"},
    "fail": {"in_progress", "awaiting_review"},
    "block": {"pending", "in_progress"},
    "unblock": {"blocked"},
    "await_review": {"in_progress"},
    "resume_from_review": {"awaiting_review"},
    "cancel": {"pending", "in_progress", "blocked", "awaiting_review"},
    "renew": {"in_progress"},
}

BY_WORKERS = {"complete", "fail", "block", "await_review", "renew"}
ACTIONS = ["complete", "complete", "complete", "fail", "fail", *sorted(MAY.keys() - {"claim", "complete", "fail"})]
"""Completing more often than cancelling, so that something comes after it."""


class Reference:
    """Every task as a dict, every question answered by looking at all of them."""

    def __init__(self) -> None:
        self.now = 100.0
        self.tasks: dict[str, dict[str, Any]] = {}
        self.events: list[tuple[str, str]] = []

    def add(self, task_id: str | None, **chosen: Any) -> str:
        seq = len(self.tasks) + 1
        task_id = task_id or f"work-{seq}"
        self.tasks[task_id] = {
            **dict.fromkeys(("output", "error", "claimed_by", "lease_expires_at", "reason")),
            **dict.fromkeys(("created_at", "updated_at"), self.now),
            "id": task_id,
            "seq": seq,
            "status": "pending",
            "attempts": 0,
            "feedback": (),
            "metadata": {},
            **chosen,
        }
        self.events.append(("added", task_id))
        return task_id

    def put(self, task_id: str, change: str, status: str, **values: Any) -> None:
        task = self.tasks[task_id]
        task.update(status=status, updated_at=self.now, lease_expires_at=None, reason=None)
        if status == "pending":
            task["claimed_by"] = None
        task.update(values)
        self.events.append((change, task_id))

    def claim(self, task_id: str, by: str | None, lease: float | None) -> None:
        until = None if lease is None else self.now + lease
        attempts = self.tasks[task_id]["attempts"] + 1
        self.put(task_id, "claimed", "in_progress", attempts=attempts, claimed_by=by, lease_expires_at=until)

    def fail(self, task_id: str, error: str, again: str, for_good: str) -> None:
        task = self.tasks[task_id]
        if task["attempts"] < task["max_attempts"]:
            self.put(task_id, again, "pending", feedback=(*task["feedback"], error))
        else:
            self.put(task_id, for_good, "errored", error=error)

    def act(self, action: str, task_id: str, word: Any) -> None:
        match action:
            case "complete":
                self.put(task_id, "completed", "completed", output=word)
            case "fail":
                self.fail(task_id, word, "retried", "failed")
            case "block":
                self.put(task_id, "blocked", "blocked", reason=word)
            case "unblock":
                self.put(task_id, "unblocked", "pending")
            case "await_review":
                self.put(task_id, "review_requested", "awaiting_review", reason=word)
            case "resume_from_review":
                told = [] if word is None else [word]
                self.put(task_id, "review_resumed", "pending", feedback=(*self.tasks[task_id]["feedback"], *told))
            case "cancel":
                self.put(task_id, "cancelled", "cancelled", reason=word)
            case "renew":
                self.put(task_id, "renewed", "in_progress", lease_expires_at=self.now + word)

    def ready(self, assignee: str | None, labels: frozenset[str]) -> list[str]:
        eligible = [
            task
            for task in self.tasks.values()
            if task["status"] == "pending"
            and all(self.tasks[dep]["status"] == "completed" for dep in task["deps"])
            and task["assignee"] in {None, assignee}
            and labels <= task["labels"]
        ]
        return [task["id"] for task in sorted(eligible, key=lambda task: (-task["priority"], task["seq"]))]

    def overdue(self) -> list[str]:
        late = [task for task in self.tasks.values() if (task["lease_expires_at"] or self.now + 1) <= self.now]
        return [task["id"] for task in sorted(late, key=lambda task: (task["lease_expires_at"], task["seq"]))]

    def stuck(self) -> list[str]:
        hopeless = {task_id for task_id, task in self.tasks.items() if task["status"] in {"errored", "cancelled"}}
        before = -1
        while before != len(hopeless):
            before = len(hopeless)
            hopeless |= {task_id for task_id, task in self.tasks.items() if hopeless.intersection(task["deps"])}
        return [task_id for task_id in self.tasks if task_id in hopeless and self.open(task_id)]

    def open(self, task_id: str) -> bool:
        return self.tasks[task_id]["status"] not in {"completed", "errored", "cancelled"}


class TaskCollectionMachine(RuleBasedStateMachine):
    """Does the same to both, and compares everything after every step."""

    @initialize()
    def start(self) -> None:
        self.model = Reference()
        self.told: list[TaskChanged] = []
        self.tasks = TaskCollection("work", now=lambda: self.model.now, on_change=self.told.append)
        self.new_task(None, (), {**BARE, "assignee": None, "max_attempts": 3})

    def some(self, data: st.DataObject, action: str) -> str:
        """The id of a task, more often than not of one whose status allows `action`."""
        everyone = list(self.model.tasks)
        willing = [task_id for task_id in everyone if self.model.tasks[task_id]["status"] in MAY[action]] or everyone
        if action == "claim":
            willing = [*self.model.ready("pro", frozenset()), *self.model.ready("con", frozenset())] or everyone
        pool = data.draw(st.sampled_from([willing, willing, willing, everyone]))
        return data.draw(st.sampled_from(pool), label="task")

    def does(self, action: str, task_id: str, *args: object, **options: object) -> bool:
        """Whether the collection does it, which must be what the reference says."""
        task = self.model.tasks[task_id]
        if task["status"] in MAY[action] and options.get("by") in {None, task["claimed_by"]}:
            assert getattr(self.tasks, action)(task_id, *args, **options) is self.tasks.get(task_id)
            return True
        with pytest.raises(IllegalTransition) as refused:
            getattr(self.tasks, action)(task_id, *args, **options)
        assert refused.value.status == task["status"]
        assert set(refused.value.allowed) <= MAY[action]
        return False

    @precondition(lambda self: sum(map(self.model.open, self.model.tasks)) < MOST)
    @rule(data=st.data(), priority=PRIORITIES, labels=LABELS, assignee=ASSIGNEES, attempts=ATTEMPTS)
    def add(
        self, data: st.DataObject, priority: int, labels: frozenset[str], assignee: str | None, attempts: int
    ) -> None:
        known = list(self.model.tasks)
        open_ones = list(filter(self.model.open, known)) or known
        pool = data.draw(st.sampled_from([open_ones, known]))
        deps = tuple(data.draw(st.lists(st.sampled_from(pool), max_size=2, unique=True)))
        chosen = {"goal": "g", "priority": priority, "labels": labels, "assignee": assignee, "max_attempts": attempts}
        self.new_task(data.draw(st.sampled_from([None, f"named-{len(known)}"])), deps, chosen)

    def new_task(self, wanted: str | None, deps: tuple[str, ...], chosen: Any) -> None:
        options = {**chosen, "deps": deps}
        added = self.tasks.add_task(id=wanted, **options)
        assert added.id == self.model.add(wanted, **options)

    @precondition(lambda self: sum(map(self.model.open, self.model.tasks)) < MOST)
    @rule(data=st.data(), size=st.integers(1, 3))
    def add_batch(self, data: st.DataObject, size: int) -> None:
        batch = [f"batch-{len(self.model.tasks)}-{n}" for n in range(size)]
        order = data.draw(st.permutations(batch))
        chosen = {"goal": "g", "priority": 0, "labels": frozenset("a"), "assignee": None, "max_attempts": 1}
        specs: Any = []
        for task_id in batch:
            earlier = order[: order.index(task_id)]
            deps = tuple(data.draw(st.lists(st.sampled_from(earlier), unique=True))) if earlier else ()
            specs.append({"id": task_id, "deps": deps, **chosen})
        self.tasks.add_tasks(iter(specs))
        for spec in specs:
            self.model.add(spec["id"], **{name: value for name, value in spec.items() if name != "id"})

    @precondition(lambda self: sum(map(self.model.open, self.model.tasks)) < MOST)
    @rule(by=st.sampled_from(["ada", "ben"]))
    def start_task(self, by: str) -> None:
        started = self.tasks.start_task("g", by=by)
        assert started.id == self.model.add(None, assignee=by, **BARE)
        self.model.claim(started.id, by, None)
        assert started is self.tasks.get(started.id)

    @rule(data=st.data(), mistake=st.sampled_from(["twice", "taken", "nowhere", "circle", "blank"]))
    def add_what_cannot_be(self, data: st.DataObject, mistake: str) -> None:
        good: dict[str, Any] = {"goal": "fine", "id": "good"}
        bad: dict[str, Any] = {"goal": "bad", "id": "bad"}
        if mistake == "twice":
            bad["id"] = "good"
        elif mistake == "taken":
            bad["id"] = self.some(data, "cancel")
        elif mistake == "nowhere":
            bad["deps"] = ["no such task"]
        elif mistake == "circle":
            good["deps"], bad["deps"] = ["bad"], ["good"]
        else:
            bad["goal"] = " "
        batch: Any = data.draw(st.permutations([good, bad]))
        with pytest.raises(ConfigurationError):
            self.tasks.add_tasks(batch)

    @rule(by=WORKERS, assignee=ASSIGNEES, labels=LABELS, lease=LEASES)
    def claim_the_next(self, by: str | None, assignee: str | None, labels: frozenset[str], lease: float | None) -> None:
        ready = self.model.ready(assignee, labels)
        claimed = self.tasks.claim(by=by, assignee=assignee, labels=labels, lease=lease)
        assert (claimed and claimed.id) == (ready[0] if ready else None)
        if ready:
            self.model.claim(ready[0], by, lease)

    @rule(data=st.data(), by=WORKERS, assignee=ASSIGNEES, labels=LABELS, lease=LEASES)
    def claim_one(
        self, data: st.DataObject, by: str | None, assignee: str | None, labels: frozenset[str], lease: float | None
    ) -> None:
        task_id = self.some(data, "claim")
        whose = self.model.tasks[task_id]["assignee"] if assignee is None else assignee
        if task_id in self.model.ready(whose, labels):
            self.tasks.claim(task_id=task_id, by=by, assignee=assignee, labels=labels, lease=lease)
            self.model.claim(task_id, by, lease)
        else:
            with pytest.raises(IllegalTransition):
                self.tasks.claim(task_id=task_id, by=by, assignee=assignee, labels=labels, lease=lease)

    @rule(
        data=st.data(),
        lease=LEASES,
        ends=st.sampled_from(["complete", "complete", "fail", "await_review", "block", "renew"]),
    )
    def work_on_the_next(self, data: st.DataObject, lease: float | None, ends: str) -> None:
        self.claim_the_next(data.draw(WORKERS), data.draw(ASSIGNEES), frozenset(), lease)
        if any(task["status"] == "in_progress" for task in self.model.tasks.values()):
            self.do(data, ends, "words")

    @rule(data=st.data(), action=st.sampled_from(ACTIONS), words=st.none() | st.text(max_size=3))
    def do(self, data: st.DataObject, action: str, words: str | None) -> None:
        task_id = self.some(data, action)
        word: Any = words
        if action == "renew":
            word = data.draw(st.sampled_from([0.5, 1, 20.0]), label="lease")
        elif action in {"fail", "block"}:
            word = words or ""
        args = () if action == "unblock" else (word,)
        holder = self.model.tasks[task_id]["claimed_by"]
        by = {"by": data.draw(st.sampled_from([None, holder, "ben"]), label="by")} if action in BY_WORKERS else {}
        if self.does(action, task_id, *args, **by):
            self.model.act(action, task_id, word)

    @precondition(lambda self: any(task["lease_expires_at"] for task in self.model.tasks.values()))
    @rule(seconds=st.sampled_from([0.5, 1.0, 1.5, 10.0]))
    def time_passes(self, seconds: float) -> None:
        self.model.now += seconds
        late = self.model.overdue()
        assert [task.id for task in self.tasks.reclaim()] == late
        for task_id in late:
            holder = self.model.tasks[task_id]["claimed_by"]
            error = "the lease ran out" if holder is None else f"the lease of '{holder}' ran out"
            self.model.fail(task_id, error, "reclaimed", "reclaimed")

    @invariant()
    def every_task_is_what_the_reference_says(self) -> None:
        assert [as_dict(task) for task in self.tasks.list()] == list(self.model.tasks.values())

    @invariant()
    def the_events_are_those_of_the_reference_and_tell_everything(self) -> None:
        assert [(event.change, event.task.id) for event in self.told] == self.model.events
        folded = {event.task.id: event.task for event in self.told}
        assert list(folded.values()) == self.tasks.list()

    @invariant()
    def what_is_counted_and_stuck_is_what_the_reference_says(self) -> None:
        statuses = [task["status"] for task in self.model.tasks.values()]
        assert self.tasks.count() == len(statuses)
        assert all(self.tasks.count(status) == statuses.count(status) for status in TASK_STATUSES)
        assert [task.id for task in self.tasks.stuck()] == self.model.stuck()


def as_dict(task: Task) -> dict[str, Any]:
    """The task's fields by name."""
    return {item.name: getattr(task, item.name) for item in fields(Task)}


TestTaskCollection = TaskCollectionMachine.TestCase
TestTaskCollection.settings = settings(
    max_examples=80, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
