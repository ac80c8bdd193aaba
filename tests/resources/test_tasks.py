"""Tests for `TaskCollection`: life cycle, claims, events and wire format."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import FrozenInstanceError, dataclass, field
from typing import TYPE_CHECKING, Any, get_args

import pytest

from flowdebate import DebateContributionEntry
from flowdebate.errors import ConfigurationError, IllegalTransition, TaskNotFound
from flowdebate.resources.tasks import (
    TASK_STATUSES,
    TERMINAL_STATUSES,
    TRANSITIONS,
    Task,
    TaskAction,
    TaskChange,
    TaskChanged,
    TaskCollection,
    TaskStatus,
    create_task_collection,
)

if TYPE_CHECKING:
    from collections.abc import Callable

ACTIONS: tuple[TaskAction, ...] = get_args(TaskAction)


class Clock:
    """A clock that advances on demand."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@dataclass
class Watched:
    """A collection together with its clock and the events it has emitted."""

    clock: Clock = field(default_factory=Clock)
    events: list[TaskChanged] = field(default_factory=list)
    tasks: TaskCollection = field(init=False)

    def __post_init__(self) -> None:
        self.tasks = TaskCollection("work", now=self.clock, on_change=self.events.append)

    @property
    def changes(self) -> list[str]:
        return [f"{event.task.id} {event.change}" for event in self.events]


@pytest.fixture
def work() -> Watched:
    """Create an empty collection whose events are recorded."""
    return Watched()


# The transition table


def create_task(tasks: TaskCollection, status: TaskStatus, max_attempts: int) -> Task:
    """Create a task in this status, claiming it once if the status requires a claim."""
    task = tasks.add_task("do it", id="it", max_attempts=max_attempts)
    way: dict[TaskStatus, list[Callable[[], object]]] = {
        "pending": [],
        "in_progress": [],
        "awaiting_review": [lambda: tasks.await_review("it")],
        "completed": [lambda: tasks.complete("it")],
        "errored": [lambda: tasks.fail("it", "one")]
        + [tasks.claim, lambda: tasks.fail("it", "two")] * (max_attempts - 1),
        "cancelled": [lambda: tasks.cancel("it")],
    }
    if status != "pending":
        tasks.claim()
    for step in way[status]:
        step()
    return tasks.get(task.id)


def try_action(work: Watched, action: TaskAction) -> None:
    """Apply `action` to the task, whatever its status."""
    tasks = work.tasks
    does: dict[TaskAction, Callable[[], object]] = {
        "claim": lambda: tasks.claim(task_id="it"),
        "complete": lambda: tasks.complete("it", "done"),
        "fail": lambda: tasks.fail("it", "broken"),
        "await_review": lambda: tasks.await_review("it", "look"),
        "resume_from_review": lambda: tasks.resume_from_review("it", "shorter"),
        "cancel": lambda: tasks.cancel("it", "enough"),
    }
    does[action]()


@pytest.mark.parametrize("max_attempts", [1, 2])
@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("status", TASK_STATUSES)
def test_task_transitions_follow_the_table(
    work: Watched, status: TaskStatus, action: TaskAction, max_attempts: int
) -> None:
    before = create_task(work.tasks, status, max_attempts)
    assert before.status == status
    work.events.clear()
    outcomes = TRANSITIONS.get((status, action))
    if outcomes is None:
        with pytest.raises(IllegalTransition) as refused:
            try_action(work, action)
        assert (refused.value.action, refused.value.status) == (action, status)
        assert set(refused.value.allowed) == {source for source, action_ in TRANSITIONS if action_ == action}
    else:
        try_action(work, action)
        expected = outcomes[0] if before.attempts < max_attempts else outcomes[-1]
        assert [(event.change, event.task) for event in work.events] == [(expected.change, work.tasks.get("it"))]
        assert work.tasks.get("it").status == expected.status
        return
    assert work.tasks.get("it") is before
    assert not work.events


def test_transition_table_covers_every_status_action_and_change() -> None:
    outcomes = [outcome for actions_ in TRANSITIONS.values() for outcome in actions_]
    assert set(TASK_STATUSES) == set(get_args(TaskStatus)) == {outcome.status for outcome in outcomes}
    assert {action for _, action in TRANSITIONS} == set(ACTIONS)
    assert {outcome.change for outcome in outcomes} == set(get_args(TaskChange)) - {"added"}
    assert {source for source, _ in TRANSITIONS} == set(TASK_STATUSES) - TERMINAL_STATUSES


# Adding


def test_new_tasks_are_pending_and_keep_their_fields(work: Watched) -> None:
    work.tasks.add_task("first")
    task = work.tasks.add_task(
        "argue for",
        id="turn",
        assignee="pro",
        labels=["a", "b", "a"],
        metadata={"round": 1},
        max_attempts=2,
    )
    assert task == Task(
        id="turn",
        goal="argue for",
        assignee="pro",
        labels=frozenset("ab"),
        metadata={"round": 1},
        max_attempts=2,
        created_at=1000.0,
        updated_at=1000.0,
        seq=2,
    )
    assert (task.status, task.attempts, task.finished) == ("pending", 0, False)
    assert work.changes == ["work-1 added", "turn added"]


def test_task_ids_are_derived_from_the_collection_and_creation_order(work: Watched) -> None:
    work.tasks.add_task("a")
    work.tasks.add_task("b", id="work-3")
    work.tasks.add_task("c")
    for number, name in enumerate(("work-6", "work-6-2"), start=4):
        assert work.tasks.add_task("d", id=name).seq == number
    work.tasks.add_task("e")
    derived = [task.id for task in work.tasks.list() if task.goal in "ace"]
    assert derived == ["work-1", "work-3-2", "work-6-3"]


def test_tasks_are_immutable_values(work: Watched) -> None:
    facts = {"round": 1}
    task = work.tasks.add_task("argue", metadata=facts)
    facts["round"] = 2
    claimed = work.tasks.claim()
    assert claimed is not None
    assert (task.status, claimed.status, claimed.metadata) == ("pending", "in_progress", {"round": 1})
    completed = work.tasks.complete(task.id, ["text"])
    for value in (task, claimed, completed):
        assert type(value) is Task
        assert copy.deepcopy(value) == pickle.loads(pickle.dumps(value)) == value  # noqa: S301 - our own bytes
        assert len({value, copy.copy(value)}) == 1
        with pytest.raises(FrozenInstanceError):
            value.status = "completed"  # type: ignore[misc]  # that is the point


@dataclass(frozen=True)
class Refused:
    """A task that cannot be added, and the expected error message."""

    id: str
    options: dict[str, Any]
    says: str


REFUSED = [
    Refused("blank goal", {"goal": " "}, "`goal` must not be blank"),
    Refused("goal of another type", {"goal": 3}, "`goal`"),
    Refused("empty id", {"id": ""}, "`id`"),
    Refused("id of another type", {"id": []}, "`id`"),
    Refused("empty assignee", {"assignee": ""}, "`assignee`"),
    Refused("no attempts", {"max_attempts": 0}, "`max_attempts` must be at least 1 (got 0)"),
    Refused("bool as attempts", {"max_attempts": True}, "`max_attempts`"),
    Refused("a string as labels", {"labels": "gpu"}, "`labels` must be an iterable of"),
    Refused("empty label", {"labels": [""]}, "`labels`"),
    Refused("labels that are no iterable", {"labels": 1}, "`labels`"),
    Refused("metadata that is no mapping", {"metadata": [1]}, "`metadata`"),
    Refused("taken id", {"id": "there"}, "`id` must be unique (got there)"),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.id)
def test_invalid_tasks_are_rejected(work: Watched, case: Refused) -> None:
    existing = work.tasks.add_task("there already", id="there")
    with pytest.raises(ConfigurationError) as refused:
        work.tasks.add_task(**{"goal": "g", **case.options})
    assert case.says in str(refused.value)
    assert work.tasks.list() == [existing]
    assert work.changes == ["there added"]
    assert work.tasks.add_task("next").id == "work-2"


# Claiming


def test_earliest_task_is_claimed_first(work: Watched) -> None:
    """A retried task keeps its place in creation order."""
    for name in ("one", "two", "three"):
        work.tasks.add_task(name, id=name, max_attempts=2)
    first = work.tasks.claim()
    assert first is not None
    work.tasks.fail(first.id, "again")
    claimed = [work.tasks.claim() for _ in range(4)]
    assert [task and task.id for task in claimed] == ["one", "two", "three", None]


def test_assigned_tasks_can_only_be_claimed_by_their_assignee(work: Watched) -> None:
    work.tasks.add_task("for pro", id="pro", assignee="pro")
    work.tasks.add_task("for anybody", id="any")
    with pytest.raises(IllegalTransition, match=r"cannot claim task 'pro': it is for 'pro', not for 'con'"):
        work.tasks.claim(task_id="pro", assignee="con")
    claims = [work.tasks.claim(assignee=name) for name in (None, "con", "pro")]
    assert [task and task.id for task in claims] == ["any", None, "pro"]


def test_assignees_get_their_own_and_unassigned_tasks_in_order(work: Watched) -> None:
    """An assigned task has no priority over an unassigned one created earlier."""
    for name, assignee in [("any", None), ("own", "pro"), ("other", "con"), ("last", None)]:
        work.tasks.add_task(name, id=name, assignee=assignee)
    claims = [work.tasks.claim(assignee="pro") for _ in range(4)]
    assert [task and task.id for task in claims] == ["any", "own", "last", None]


def test_claims_by_id_need_no_assignee(work: Watched) -> None:
    """A dispatcher may claim any task by its id, even one assigned to somebody."""
    work.tasks.add_task("for pro", id="turn", assignee="pro")
    assert work.tasks.claim(task_id="turn", by="runner") is work.tasks.get("turn")


def test_claims_can_require_labels(work: Watched) -> None:
    for name, labels in [("plain", ""), ("a", "a"), ("b", "b"), ("ab", "ab")]:
        work.tasks.add_task(name, id=name, labels=tuple(labels))
    with pytest.raises(IllegalTransition, match=r"it lacks the labels \['b'\]"):
        work.tasks.claim(task_id="a", labels=["a", "b"])
    label_sets = ["ab", "ab", "b", "", "a", "c"]
    claims = [work.tasks.claim(labels=tuple(labels)) for labels in label_sets]
    assert [task and task.id for task in claims] == ["ab", None, "b", "plain", "a", None]


# Attempts


def test_failed_tasks_are_retried_up_to_max_attempts(work: Watched) -> None:
    """The next attempt gets the earlier errors as feedback, and the last failure becomes the task's error."""
    work.tasks.add_task("try", id="it", max_attempts=3)
    work.tasks.claim(by="anna")
    retried = work.tasks.fail("it", "one")
    assert (retried.status, retried.feedback, retried.error, retried.claimed_by) == ("pending", ("one",), None, None)
    work.tasks.claim(by="ben")
    assert work.tasks.fail("it", "").feedback == ("one", "")
    work.tasks.claim(by="ben")
    failed = work.tasks.fail("it", "three")
    assert (failed.status, failed.feedback, failed.error, failed.claimed_by) == ("errored", ("one", ""), "three", "ben")
    assert [event.change for event in work.events] == ["added", *["claimed", "retried"] * 2, "claimed", "failed"]


def test_reviews_can_accept_reject_or_request_changes(work: Watched) -> None:
    for name in ("fine", "bad", "nearly"):
        work.tasks.add_task(name, id=name)
        work.tasks.claim(by="anna")
        assert work.tasks.await_review(name, "please look").reason == "please look"
    assert work.tasks.complete("fine", "text").output == "text"
    assert work.tasks.fail("bad", "nonsense").error == "nonsense"
    returned = work.tasks.resume_from_review("nearly", "shorter")
    assert (returned.status, returned.feedback, returned.reason, returned.attempts) == (
        "pending",
        ("shorter",),
        None,
        1,
    )
    assert work.tasks.claim() == work.tasks.get("nearly")
    assert work.tasks.get("nearly").attempts == 2


# Lost claims


def test_workers_without_a_claim_cannot_change_the_task(work: Watched) -> None:
    """Calls under the former worker's name are rejected and do not affect the worker that now has the task."""
    work.tasks.add_task("slow", id="it", max_attempts=2)
    work.tasks.claim(by="anna")
    work.tasks.fail("it", "no answer")
    with pytest.raises(IllegalTransition, match="it is pending, but must be in_progress or awaiting_review"):
        work.tasks.complete("it", "late", by="anna")
    claimed = work.tasks.claim(by="ben")
    late: list[Callable[[], Task]] = [
        lambda: work.tasks.complete("it", "late", by="anna"),
        lambda: work.tasks.fail("it", "late", by="anna"),
        lambda: work.tasks.await_review("it", by="anna"),
    ]
    for call in late:
        with pytest.raises(IllegalTransition, match="'anna' has not claimed it, 'ben' has"):
            call()
    assert work.tasks.get("it") is claimed
    assert work.tasks.complete("it", "good", by="ben").output == "good"


# Queries


def test_error_names_the_unknown_task(work: Watched) -> None:
    calls: list[Callable[[], object]] = [
        lambda: work.tasks.get("x"),
        lambda: work.tasks.claim(task_id="x"),
        lambda: work.tasks.complete("x"),
        lambda: work.tasks.cancel("x"),
    ]
    for call in calls:
        with pytest.raises(TaskNotFound, match="task collection 'work' has no task 'x'"):
            call()


def test_tasks_are_listed_in_creation_order_and_can_be_filtered(work: Watched) -> None:
    for name, assignee, labels in [("a", "pro", "x"), ("b", "con", "xy"), ("c", "pro", "xy")]:
        work.tasks.add_task(name, id=name, assignee=assignee, labels=tuple(labels))
    work.tasks.claim(task_id="a")
    selections = [
        work.tasks.list(),
        work.tasks.list(status="pending"),
        work.tasks.list(assignee="pro"),
        work.tasks.list(labels=["y"], assignee="pro", status="pending"),
    ]
    assert [[task.id for task in tasks] for tasks in selections] == [["a", "b", "c"], ["b", "c"], ["a", "c"], ["c"]]
    assert (work.tasks.count(), work.tasks.count("pending"), work.tasks.count("errored")) == (3, 2, 0)


def test_unknown_statuses_are_rejected(work: Watched) -> None:
    """Without an error, a misspelled status would simply match no tasks."""
    for ask in (lambda: work.tasks.list(status="done"), lambda: work.tasks.count("done")):  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="`status` must be pending, in_progress"):
            ask()


def test_text_arguments_must_be_strings(work: Watched) -> None:
    """An exception object is rejected before it can corrupt the audit trail."""
    task = work.tasks.add_task("it", id="it", max_attempts=2)
    error: Any = ValueError("x")
    calls: list[Callable[[], object]] = [
        lambda: work.tasks.fail("it", error),
        lambda: work.tasks.await_review("it", error),
        lambda: work.tasks.resume_from_review("it", error),
        lambda: work.tasks.cancel("it", error),
    ]
    for call in calls:
        with pytest.raises(ConfigurationError, match="must be text"):
            call()
    assert work.tasks.get("it") is task


# Events


def test_listeners_are_called_after_the_change_is_in_place() -> None:
    """A listener that reads the collection finds the change already made, even if one call makes two changes."""
    statuses: list[str] = []
    tasks = TaskCollection("work", on_change=lambda event: statuses.append(tasks.get(event.task.id).status))
    tasks.add_task("a")
    tasks.claim()
    tasks.start_task("b", by="anna")
    assert statuses == ["pending", "in_progress", "in_progress", "in_progress"]


def test_listeners_may_change_the_collection() -> None:
    """Events for changes made by a listener are delivered to that listener afterwards, in order."""
    calls: list[str] = []

    def follow(event: TaskChanged) -> None:
        calls.append(f"begin {event.task.id} {event.change}")
        if event.change == "added":
            tasks.complete(event.task.id)
        calls.append("end")

    tasks = TaskCollection("w", on_change=follow)
    tasks.start_task("a", by="anna")
    assert calls == ["begin w-1 added", "end", "begin w-1 claimed", "end", "begin w-1 completed", "end"]


def test_listeners_that_raise_still_get_all_events() -> None:
    """The exception reaches the caller after all events have been delivered.

    The change stays in place, and the listener stays registered.
    """
    calls: list[str] = []

    def hates(event: TaskChanged) -> None:
        calls.append(f"{event.task.id} {event.change}")
        if event.change in event.task.goal:
            raise LookupError(event.change)

    tasks = TaskCollection("w", on_change=hates)
    with pytest.raises(LookupError, match="added"):
        tasks.start_task("added", by="anna")
    with pytest.raises(ExceptionGroup) as errors:
        tasks.start_task("added claimed", by="anna")
    assert [str(error) for error in errors.value.exceptions] == ["added", "claimed"]
    assert tasks.get("w-1").status == tasks.get("w-2").status == "in_progress"
    assert calls == ["w-1 added", "w-1 claimed", "w-2 added", "w-2 claimed"]
    assert tasks.complete("w-1") is tasks.get("w-1")


def test_interrupts_leave_pending_events_for_the_next_change() -> None:
    """A `BaseException` is raised at once, and pending events are delivered together with those of the next change."""
    calls: list[str] = []

    def interrupted(event: TaskChanged) -> None:
        calls.append(f"{event.task.id} {event.change}")
        if len(calls) == 1:
            raise KeyboardInterrupt

    tasks = TaskCollection("w", on_change=interrupted)
    with pytest.raises(KeyboardInterrupt):
        tasks.start_task("a", by="anna")
    tasks.add_task("c")
    assert calls == ["w-1 added", "w-1 claimed", "w-2 added"]


def test_listener_is_optional() -> None:
    """Without `on_change`, changes are not reported. By default, timestamps come from the wall clock."""
    tasks = TaskCollection("w")
    task = tasks.add_task("a")
    tasks.claim()
    assert tasks.complete(task.id).updated_at >= task.created_at > 1_600_000_000


# The resource


class Scope:
    """The scope that a run provides to resources."""

    def __init__(self) -> None:
        self.saved_states: dict[str, Any] = {}
        self.events: list[object] = []

    def now(self) -> float:
        return 7.0

    def emit(self, event: object, /) -> None:
        self.events.append(event)


def test_each_run_has_its_own_collection() -> None:
    resource = create_task_collection("rent")
    scope = Scope()
    one, two = resource.open(scope), resource.open(Scope())
    task = one.add_task("argue")
    assert (resource.key, one.collection_id, task.created_at, two.count()) == ("tasks", "rent", 7.0, 0)
    assert scope.events == [TaskChanged(collection_id="rent", change="added", task=task)]
    assert TaskChanged.kind == "task_changed"
    assert create_task_collection("rent", key="todo").key == "todo"


def test_resources_with_the_same_key_and_collection_are_equal() -> None:
    """Blocks created independently of each other share a collection if they use the same key and id."""
    assert create_task_collection("rent") == create_task_collection("rent")
    assert len({create_task_collection("rent"), create_task_collection("rent")}) == 1
    assert create_task_collection("rent") != create_task_collection("rent", key="todo")
    assert create_task_collection("rent") != create_task_collection("food")


@pytest.mark.parametrize("wrong", ["", "  ", None, 3])
def test_collections_need_a_name(wrong: Any) -> None:
    """A blank id is rejected when the resource is created, before any run opens it."""
    with pytest.raises(ConfigurationError, match=r"`collection_id` (must not be blank|is required|must be text)"):
        create_task_collection(wrong)
    with pytest.raises(ConfigurationError, match="`collection_id`"):
        TaskCollection(wrong)


@pytest.mark.parametrize("wrong", ["", None, 3])
def test_resources_need_a_key(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"`key` must be non-empty text"):
        create_task_collection("rent", key=wrong)


# The audit trail


def test_tasks_are_serialized_with_camel_case_keys(work: Watched) -> None:
    work.tasks.add_task("argue", assignee="pro", labels=[*"fbdcae"], metadata={"round_no": 1}, max_attempts=2)
    work.tasks.claim(by="anna", assignee="pro")
    expected = {
        "id": "work-1",
        "goal": "argue",
        "status": "in_progress",
        "assignee": "pro",
        "labels": ["a", "b", "c", "d", "e", "f"],
        "metadata": {"round_no": 1},
        "attempts": 1,
        "maxAttempts": 2,
        "output": None,
        "error": None,
        "feedback": [],
        "claimedBy": "anna",
        "reason": None,
        "createdAt": 1000.0,
        "updatedAt": 1000.0,
        "seq": 1,
    }
    assert json.loads(json.dumps(work.tasks.to_wire())) == {"collectionId": "work", "tasks": [expected]}
    no_run = {"kind": "task_changed", "path": "", "at": 1000.0}  # outside a run, times come from the collection's clock
    last = {**no_run, "collectionId": "work", "change": "claimed", "task": expected}
    assert json.loads(json.dumps(work.events[-1].to_wire())) == last


ENTRY = {"round": 1, "agentName": "a", "stance": "s", "text": "t"}


def circular_list() -> list[Any]:
    """Create a list that contains itself."""
    items: list[Any] = []
    items.append(items)
    return items


@pytest.mark.parametrize(
    ("output", "written"),
    [
        (DebateContributionEntry(round=1, agent_name="a", stance="s", text="t"), ENTRY),
        (
            TaskChanged(
                collection_id="c", change="added", task=Task(id="t", goal="g", created_at=0, updated_at=0, seq=1)
            ),
            None,
        ),
        ({1: {2}, "at": float("nan")}, {"1": [2], "at": None}),
        (b"\xff", "_w=="),
        ("lone \ud800", "lone \ud800"),
        (["lone \ud800"], ["lone \ud800"]),
        (circular_list(), "[[[[[[[...]]]]]]]"),
        (True, True),
        (1.5, 1.5),
    ],
    ids=["model", "dataclass", "set and nan", "bytes", "surrogate", "surrogates", "circle", "bool", "float"],
)
def test_any_output_can_be_serialized(work: Watched, output: object, written: object) -> None:
    """A value with no JSON form is written as text."""
    work.tasks.add_task("it", id="it")
    work.tasks.claim()
    wire = work.tasks.complete("it", output).to_wire()
    text = json.dumps(wire, allow_nan=False)
    assert written is None or json.loads(text)["output"] == written
