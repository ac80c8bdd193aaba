"""Comparison of `TaskCollection` with a trivial reference implementation under arbitrary sequences of calls."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from flowdebate.errors import ConfigurationError, IllegalTransition
from flowdebate.resources.tasks import TASK_STATUSES, Task, TaskCollection
from tests.profiles import example_count

if TYPE_CHECKING:
    from flowdebate.resources.tasks import TaskChanged

WORKERS = st.sampled_from([None, "anna", "ben"])
ASSIGNEES = st.sampled_from([None, "pro", "con"])
LABELS = st.sampled_from([frozenset(labels) for labels in ("", "", "a", "b", "ab", "ab")])
ATTEMPTS = st.integers(1, 3)
BARE: dict[str, Any] = {"goal": "g", "labels": frozenset(), "max_attempts": 1}
MAX_TASKS = 6
"""Maximum number of open tasks: the fewer there are, the more actions each goes through."""

MAY: dict[str, set[str]] = {
    "claim": {"pending"},
    "complete": {"in_progress", "awaiting_review"},
    "fail": {"in_progress", "awaiting_review"},
    "await_review": {"in_progress"},
    "resume_from_review": {"awaiting_review"},
    "cancel": {"pending", "in_progress", "awaiting_review"},
}

BY_WORKERS = {"complete", "fail", "await_review"}
ACTIONS = ["complete", "complete", "complete", "fail", "fail", *sorted(MAY.keys() - {"claim", "complete", "fail"})]
"""Actions to draw. Completion and failure are drawn more often than cancellation, which would end most tasks early."""


class Reference:
    """Reference implementation: tasks are dicts, and every query scans all of them."""

    def __init__(self) -> None:
        self.now = 100.0
        self.tasks: dict[str, dict[str, Any]] = {}
        self.events: list[tuple[str, str]] = []

    def add(self, task_id: str | None, **task_fields: Any) -> str:
        seq = len(self.tasks) + 1
        task_id = task_id or f"work-{seq}"
        self.tasks[task_id] = {
            **dict.fromkeys(("output", "error", "claimed_by", "reason")),
            **dict.fromkeys(("created_at", "updated_at"), self.now),
            "id": task_id,
            "seq": seq,
            "status": "pending",
            "attempts": 0,
            "feedback": (),
            "metadata": {},
            **task_fields,
        }
        self.events.append(("added", task_id))
        return task_id

    def put(self, task_id: str, change: str, status: str, **values: Any) -> None:
        task = self.tasks[task_id]
        task.update(status=status, updated_at=self.now, reason=None)
        if status == "pending":
            task["claimed_by"] = None
        task.update(values)
        self.events.append((change, task_id))

    def claim(self, task_id: str, by: str | None) -> None:
        attempts = self.tasks[task_id]["attempts"] + 1
        self.put(task_id, "claimed", "in_progress", attempts=attempts, claimed_by=by)

    def fail(self, task_id: str, error: str) -> None:
        task = self.tasks[task_id]
        if task["attempts"] < task["max_attempts"]:
            self.put(task_id, "retried", "pending", feedback=(*task["feedback"], error))
        else:
            self.put(task_id, "failed", "errored", error=error)

    def act(self, action: str, task_id: str, word: Any) -> None:
        match action:
            case "complete":
                self.put(task_id, "completed", "completed", output=word)
            case "fail":
                self.fail(task_id, word)
            case "await_review":
                self.put(task_id, "review_requested", "awaiting_review", reason=word)
            case "resume_from_review":
                feedback_texts = [] if word is None else [word]
                self.put(
                    task_id, "review_resumed", "pending", feedback=(*self.tasks[task_id]["feedback"], *feedback_texts)
                )
            case "cancel":
                self.put(task_id, "cancelled", "cancelled", reason=word)

    def ready(self, assignee: str | None, labels: frozenset[str]) -> list[str]:
        return [
            task["id"]
            for task in self.tasks.values()
            if task["status"] == "pending" and task["assignee"] in {None, assignee} and labels <= task["labels"]
        ]

    def open(self, task_id: str) -> bool:
        return self.tasks[task_id]["status"] not in {"completed", "errored", "cancelled"}


class TaskCollectionMachine(RuleBasedStateMachine):
    """State machine that applies each call to both implementations and compares everything after every step."""

    @initialize()
    def start(self) -> None:
        self.model = Reference()
        self.told: list[TaskChanged] = []
        self.tasks = TaskCollection("work", now=lambda: self.model.now, on_change=self.told.append)
        self.new_task(None, {**BARE, "assignee": None, "max_attempts": 3})

    def draw_task(self, data: st.DataObject, action: str) -> str:
        """Draw the id of a task, usually one whose status allows `action`."""
        everyone = list(self.model.tasks)
        willing = [task_id for task_id in everyone if self.model.tasks[task_id]["status"] in MAY[action]] or everyone
        if action == "claim":
            willing = [*self.model.ready("pro", frozenset()), *self.model.ready("con", frozenset())] or everyone
        pool = data.draw(st.sampled_from([willing, willing, willing, everyone]))
        return data.draw(st.sampled_from(pool), label="task")

    def is_allowed(self, action: str, task_id: str, *args: object, **options: object) -> bool:
        """Check that the collection and the reference agree on whether the action is allowed, and return the result."""
        task = self.model.tasks[task_id]
        if task["status"] in MAY[action] and options.get("by") in {None, task["claimed_by"]}:
            assert getattr(self.tasks, action)(task_id, *args, **options) is self.tasks.get(task_id)
            return True
        with pytest.raises(IllegalTransition) as refused:
            getattr(self.tasks, action)(task_id, *args, **options)
        assert refused.value.status == task["status"]
        assert set(refused.value.allowed) <= MAY[action]
        return False

    @precondition(lambda self: sum(map(self.model.open, self.model.tasks)) < MAX_TASKS)
    @rule(name=st.sampled_from(["named", None]), labels=LABELS, assignee=ASSIGNEES, attempts=ATTEMPTS)
    def add(self, name: str | None, labels: frozenset[str], assignee: str | None, attempts: int) -> None:
        task_fields = {"goal": "g", "labels": labels, "assignee": assignee, "max_attempts": attempts}
        self.new_task(name and f"{name}-{len(self.model.tasks)}", task_fields)

    def new_task(self, task_id: str | None, task_fields: Any) -> None:
        added = self.tasks.add_task(id=task_id, **task_fields)
        assert added.id == self.model.add(task_id, **task_fields)

    @precondition(lambda self: sum(map(self.model.open, self.model.tasks)) < MAX_TASKS)
    @rule(by=st.sampled_from(["ada", "ben"]))
    def start_task(self, by: str) -> None:
        started = self.tasks.start_task("g", by=by)
        assert started.id == self.model.add(None, assignee=by, **BARE)
        self.model.claim(started.id, by)
        assert started is self.tasks.get(started.id)

    @rule(data=st.data(), mistake=st.sampled_from(["taken", "blank"]))
    def add_invalid_task(self, data: st.DataObject, mistake: str) -> None:
        bad: Any = (
            {"goal": "bad", "id": self.draw_task(data, "cancel")} if mistake == "taken" else {"goal": " ", "id": "bad"}
        )
        with pytest.raises(ConfigurationError):
            self.tasks.add_task(**bad)

    @rule(by=WORKERS, assignee=ASSIGNEES, labels=LABELS)
    def claim_next(self, by: str | None, assignee: str | None, labels: frozenset[str]) -> None:
        ready = self.model.ready(assignee, labels)
        claimed = self.tasks.claim(by=by, assignee=assignee, labels=labels)
        assert (claimed and claimed.id) == (ready[0] if ready else None)
        if ready:
            self.model.claim(ready[0], by)

    @rule(data=st.data(), by=WORKERS, assignee=ASSIGNEES, labels=LABELS)
    def claim_one(self, data: st.DataObject, by: str | None, assignee: str | None, labels: frozenset[str]) -> None:
        task_id = self.draw_task(data, "claim")
        whose = self.model.tasks[task_id]["assignee"] if assignee is None else assignee
        if task_id in self.model.ready(whose, labels):
            self.tasks.claim(task_id=task_id, by=by, assignee=assignee, labels=labels)
            self.model.claim(task_id, by)
        else:
            with pytest.raises(IllegalTransition):
                self.tasks.claim(task_id=task_id, by=by, assignee=assignee, labels=labels)

    @rule(data=st.data(), ends=st.sampled_from(["complete", "complete", "fail", "await_review"]))
    def work_on_next(self, data: st.DataObject, ends: str) -> None:
        self.claim_next(data.draw(WORKERS), data.draw(ASSIGNEES), frozenset())
        if any(task["status"] == "in_progress" for task in self.model.tasks.values()):
            self.do(data, ends, "words")

    @rule(data=st.data(), action=st.sampled_from(ACTIONS), words=st.none() | st.text(max_size=3))
    def do(self, data: st.DataObject, action: str, words: str | None) -> None:
        task_id = self.draw_task(data, action)
        word: Any = words or "" if action == "fail" else words
        holder = self.model.tasks[task_id]["claimed_by"]
        by = {"by": data.draw(st.sampled_from([None, holder, "ben"]), label="by")} if action in BY_WORKERS else {}
        if self.is_allowed(action, task_id, word, **by):
            self.model.act(action, task_id, word)

    @rule(seconds=st.sampled_from([0.5, 1.0, 10.0]))
    def time_passes(self, seconds: float) -> None:
        self.model.now += seconds

    @invariant()
    def tasks_match_the_reference(self) -> None:
        assert [as_dict(task) for task in self.tasks.list()] == list(self.model.tasks.values())

    @invariant()
    def events_match_the_reference(self) -> None:
        assert [(event.change, event.task.id) for event in self.told] == self.model.events
        folded = {event.task.id: event.task for event in self.told}
        assert list(folded.values()) == self.tasks.list()

    @invariant()
    def counts_match_the_reference(self) -> None:
        statuses = [task["status"] for task in self.model.tasks.values()]
        assert self.tasks.count() == len(statuses)
        assert all(self.tasks.count(status) == statuses.count(status) for status in TASK_STATUSES)


def as_dict(task: Task) -> dict[str, Any]:
    """Return the task's fields by name."""
    return {item.name: getattr(task, item.name) for item in fields(Task)}


TestTaskCollection = TaskCollectionMachine.TestCase
TestTaskCollection.settings = settings(max_examples=example_count(80), stateful_step_count=40)
