"""`TaskCollection`: life cycle, claims, leases, events and wire form."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import FrozenInstanceError, dataclass, field
from typing import TYPE_CHECKING, Any, get_args

import pytest

from flowdebate import DebateContributionEntry
from flowdebate.errors import ConfigurationError, IllegalTransition, TaskNotFound
from flowdebate.resources.tasks.collection import TaskChanged, TaskCollection, create_task_collection
from flowdebate.resources.tasks.task import (
    TASK_STATUSES,
    TERMINAL_STATUSES,
    TRANSITIONS,
    Task,
    TaskAction,
    TaskChange,
    TaskStatus,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.resources.tasks.task import TaskSpec

ACTIONS: tuple[TaskAction, ...] = get_args(TaskAction)
LEASE = 5.0


class Clock:
    """A clock that advances on demand."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@dataclass
class Watched:
    """A collection with its clock and its events."""

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
    """An empty collection under observation."""
    return Watched()


# The table


def bring(tasks: TaskCollection, status: TaskStatus, max_attempts: int) -> Task:
    """A task with this status, claimed once (by lease) where that is on the way."""
    task = tasks.add_task("do it", id="it", max_attempts=max_attempts)
    way: dict[TaskStatus, list[Callable[[], object]]] = {
        "pending": [],
        "blocked": [lambda: tasks.block("it", "no key")],
        "in_progress": [],
        "awaiting_review": [lambda: tasks.await_review("it")],
        "completed": [lambda: tasks.complete("it")],
        "errored": [lambda: tasks.fail("it", "one")]
        + [tasks.claim, lambda: tasks.fail("it", "two")] * (max_attempts - 1),
        "cancelled": [lambda: tasks.cancel("it")],
    }
    if status != "pending":
        tasks.claim(lease=LEASE)
    for step in way[status]:
        step()
    return tasks.get(task.id)


def attempt(work: Watched, action: TaskAction) -> None:
    """Do `action` to the task, whatever its status."""
    tasks, now = work.tasks, work.clock
    if action == "reclaim":
        now.seconds += LEASE
    does: dict[TaskAction, Callable[[], object]] = {
        "claim": lambda: tasks.claim(task_id="it"),
        "complete": lambda: tasks.complete("it", "done"),
        "fail": lambda: tasks.fail("it", "broken"),
        "block": lambda: tasks.block("it", "no key"),
        "unblock": lambda: tasks.unblock("it"),
        "await_review": lambda: tasks.await_review("it", "look"),
        "resume_from_review": lambda: tasks.resume_from_review("it", "shorter"),
        "cancel": lambda: tasks.cancel("it", "enough"),
        "renew": lambda: tasks.renew("it", LEASE),
        "reclaim": tasks.reclaim,
    }
    does[action]()


@pytest.mark.parametrize("max_attempts", [1, 2])
@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("status", TASK_STATUSES)
def test_a_task_goes_where_the_table_says_and_nowhere_else(
    work: Watched, status: TaskStatus, action: TaskAction, max_attempts: int
) -> None:
    """A legal action leads to the table's outcome and one event; any other changes and emits nothing."""
    before = bring(work.tasks, status, max_attempts)
    assert before.status == status
    work.events.clear()
    outcomes = TRANSITIONS.get((status, action))
    if outcomes is None and action == "reclaim":
        attempt(work, action)
    elif outcomes is None:
        with pytest.raises(IllegalTransition) as refused:
            attempt(work, action)
        assert (refused.value.action, refused.value.status) == (action, status)
        assert set(refused.value.allowed) == {source for source, known in TRANSITIONS if known == action}
    else:
        attempt(work, action)
        expected = outcomes[0] if before.attempts < max_attempts else outcomes[-1]
        assert [(event.change, event.task) for event in work.events] == [(expected.change, work.tasks.get("it"))]
        assert work.tasks.get("it").status == expected.status
        return
    assert work.tasks.get("it") is before
    assert not work.events


def test_the_table_knows_every_status_action_and_change() -> None:
    """Each status is reachable, each action leads somewhere, each change has an event, and terminal is terminal."""
    outcomes = [outcome for found in TRANSITIONS.values() for outcome in found]
    assert set(TASK_STATUSES) == set(get_args(TaskStatus)) == {outcome.status for outcome in outcomes}
    assert {action for _, action in TRANSITIONS} == set(ACTIONS)
    assert {outcome.change for outcome in outcomes} == set(get_args(TaskChange)) - {"added"}
    assert {source for source, _ in TRANSITIONS} == set(TASK_STATUSES) - TERMINAL_STATUSES


# Adding


def test_a_new_task_is_pending_and_has_what_it_was_given(work: Watched) -> None:
    """Every field that can be chosen is kept; the rest says that nothing has happened yet."""
    done = work.tasks.add_task("first")
    task = work.tasks.add_task(
        "argue for",
        id="turn",
        assignee="pro",
        priority=3,
        labels=["a", "b", "a"],
        metadata={"round": 1},
        deps=[done.id, done.id],
        max_attempts=2,
    )
    assert task == Task(
        id="turn",
        goal="argue for",
        assignee="pro",
        priority=3,
        labels=frozenset("ab"),
        metadata={"round": 1},
        deps=("work-1",),
        max_attempts=2,
        created_at=1000.0,
        updated_at=1000.0,
        seq=2,
    )
    assert (task.status, task.attempts, task.finished) == ("pending", 0, False)
    assert work.changes == ["work-1 added", "turn added"]


def test_ids_are_derived_from_the_collection_and_the_order(work: Watched) -> None:
    """The same calls give the same ids, and a derived id never collides with a chosen one."""
    work.tasks.add_task("a")
    work.tasks.add_task("b", id="work-3")
    work.tasks.add_tasks([{"goal": "c"}, {"goal": "d"}, {"goal": "e", "id": "work-4"}])
    assert [task.id for task in work.tasks.list()] == ["work-1", "work-3", "work-3-2", "work-4-2", "work-4"]


def test_a_task_is_a_value(work: Watched) -> None:
    """It cannot be changed, keeps what it said, and can be hashed, copied and pickled; so can what became of it."""
    facts = {"round": 1}
    task = work.tasks.add_task("argue", metadata=facts)
    facts["round"] = 2
    claimed = work.tasks.claim()
    assert claimed is not None
    assert (task.status, claimed.status, claimed.metadata) == ("pending", "in_progress", {"round": 1})
    done = work.tasks.complete(task.id, ["text"])
    for value in (task, claimed, done):
        assert type(value) is Task
        assert copy.deepcopy(value) == pickle.loads(pickle.dumps(value)) == value  # noqa: S301 - our own bytes
        assert len({value, copy.copy(value)}) == 1
        with pytest.raises(FrozenInstanceError):
            value.status = "completed"  # type: ignore[misc]  # that is the point


@dataclass(frozen=True)
class Refused:
    """Specs that cannot be added, and what the error says."""

    id: str
    specs: list[Any]
    says: str


REFUSED = [
    Refused("blank goal", [{"goal": " "}], "`goal` must be a string that is not blank, got ' '"),
    Refused("goal of another type", [{"goal": 3}], "`goal`"),
    Refused("no goal", [{"id": "x"}], "a goal"),
    Refused("unknown key", [{"goal": "g", "prio": 1}], "max_attempts"),
    Refused("no mapping", ["goal"], "mappings"),
    Refused("empty id", [{"goal": "g", "id": ""}], "`id`"),
    Refused("id of another type", [{"goal": "g", "id": []}], "`id`"),
    Refused("empty assignee", [{"goal": "g", "assignee": ""}], "`assignee`"),
    Refused("bool as priority", [{"goal": "g", "priority": True}], "`priority` must be an int, got True"),
    Refused("no attempts", [{"goal": "g", "max_attempts": 0}], "`max_attempts` must be an int >= 1, got 0"),
    Refused("bool as attempts", [{"goal": "g", "max_attempts": True}], "`max_attempts`"),
    Refused("a string as labels", [{"goal": "g", "labels": "gpu"}], "`labels` must be an iterable of"),
    Refused("empty label", [{"goal": "g", "labels": [""]}], "`labels`"),
    Refused("labels that are no iterable", [{"goal": "g", "labels": 1}], "`labels`"),
    Refused("a string as deps", [{"goal": "g", "deps": "there"}], "`deps`"),
    Refused("metadata that is no mapping", [{"goal": "g", "metadata": [1]}], "`metadata`"),
    Refused("unknown dep", [{"goal": "g", "deps": ["nowhere"]}], "got 'nowhere'"),
    Refused("taken id", [{"goal": "g", "id": "there"}], "`id` must be an id that no other task has, got 'there'"),
    Refused("same id twice", [{"goal": "g", "id": "x"}, {"goal": "g", "id": "x"}], "got 'x'"),
    Refused("own dep", [{"goal": "g", "id": "x", "deps": ["x"]}], "`deps` must be free of cycles, got 'x → x'"),
    Refused(
        "cycle",
        [{"goal": "g", "id": "x", "deps": ["y"]}, {"goal": "g", "id": "y", "deps": ["x"]}],
        "free of cycles",
    ),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.id)
@pytest.mark.parametrize("good", [0, 1])
def test_what_cannot_be_is_refused_and_nothing_of_it_is_added(work: Watched, case: Refused, good: int) -> None:
    """One ConfigurationError says which field and what it must be; good tasks of the same batch are not added."""
    there = work.tasks.add_task("there already", id="there")
    with pytest.raises(ConfigurationError) as refused:
        work.tasks.add_tasks([{"goal": "good"}] * good + case.specs)
    assert case.says in str(refused.value)
    assert work.tasks.list() == [there]
    assert work.changes == ["there added"]
    assert work.tasks.add_task("next").id == "work-2"


PLAIN = [case for case in REFUSED if len(case.specs) == 1 and case.id not in {"no goal", "unknown key", "no mapping"}]
"""Those that python lets through to `add_task`."""


@pytest.mark.parametrize("case", PLAIN, ids=lambda case: case.id)
def test_one_task_is_refused_like_a_batch_of_one(work: Watched, case: Refused) -> None:
    """`add_task` knows the same rules as `add_tasks`."""
    (spec,) = case.specs
    work.tasks.add_task("there already", id="there")
    with pytest.raises(ConfigurationError):
        work.tasks.add_task(**spec)
    assert work.changes == ["there added"]


def test_tasks_of_a_batch_may_wait_for_each_other_in_any_order(work: Watched) -> None:
    """A dep may be added later in the same batch; the order of work follows the deps."""
    work.tasks.add_tasks([{"goal": "roof", "id": "roof", "deps": ["wall"]}, {"goal": "wall", "id": "wall"}])
    order = []
    while task := work.tasks.claim():
        order.append(task.id)
        work.tasks.complete(task.id)
    assert order == ["wall", "roof"]


# Claiming


def test_the_highest_priority_is_claimed_first_then_the_earliest(work: Watched) -> None:
    """Priority decides, then the order of creation; a task that was retried keeps its place."""
    for name, priority in [("low", -1), ("one", 5), ("two", 5), ("mid", 0)]:
        work.tasks.add_task(name, id=name, priority=priority, max_attempts=2)
    first = work.tasks.claim()
    assert first is not None
    work.tasks.fail(first.id, "again")
    claimed = [work.tasks.claim() for _ in range(5)]
    assert [task and task.id for task in claimed] == ["one", "two", "mid", "low", None]


def test_an_assigned_task_is_only_for_its_assignee(work: Watched) -> None:
    """A task without an assignee is for anybody; one with an assignee is not handed to others, even if asked for."""
    work.tasks.add_task("for pro", id="pro", assignee="pro", priority=1)
    work.tasks.add_task("for anybody", id="any")
    with pytest.raises(IllegalTransition, match=r"cannot claim task 'pro': it is for 'pro', not for 'con'"):
        work.tasks.claim(task_id="pro", assignee="con")
    got = [work.tasks.claim(assignee=name) for name in (None, "con", "pro")]
    assert [task and task.id for task in got] == ["any", None, "pro"]


def test_an_assignee_gets_the_best_of_its_own_and_of_those_for_anybody(work: Watched) -> None:
    """Being assigned is no privilege: priority decides, then the order of creation."""
    for name, assignee, priority in [("any", None, 1), ("own", "pro", 1), ("top", "pro", 2), ("last", None, 0)]:
        work.tasks.add_task(name, id=name, assignee=assignee, priority=priority)
    got = [work.tasks.claim(assignee="pro") for _ in range(4)]
    assert [task and task.id for task in got] == ["top", "any", "own", "last"]


def test_whoever_names_a_task_may_leave_its_assignee_out(work: Watched) -> None:
    """With `task_id` alone the dispatcher decides."""
    work.tasks.add_task("for pro", id="turn", assignee="pro")
    assert work.tasks.claim(task_id="turn", by="runner") is work.tasks.get("turn")


def test_a_claim_can_ask_for_labels(work: Watched) -> None:
    """Only a task with all of them is handed out, and the others stay in line."""
    for name, labels in [("plain", ""), ("a", "a"), ("b", "b"), ("ab", "ab")]:
        work.tasks.add_task(name, id=name, labels=tuple(labels))
    with pytest.raises(IllegalTransition, match=r"it lacks the labels \['b'\]"):
        work.tasks.claim(task_id="a", labels=["a", "b"])
    asked = ["ab", "ab", "b", "", "a", "c"]
    got = [work.tasks.claim(labels=tuple(labels)) for labels in asked]
    assert [task and task.id for task in got] == ["ab", None, "b", "plain", "a", None]


def test_a_task_waits_for_all_its_deps(work: Watched) -> None:
    """It is not handed out before the last of them is completed, and the refusal says which are open."""
    for name in ("a", "b"):
        work.tasks.add_task(name, id=name)
    work.tasks.add_task("both", id="both", deps=["a", "b"], priority=9)
    work.tasks.claim(task_id="a")
    work.tasks.complete("a")
    with pytest.raises(IllegalTransition, match=r"cannot claim task 'both': it waits for 'b'"):
        work.tasks.claim(task_id="both")
    work.tasks.claim(task_id="b")
    assert work.tasks.claim() is None
    work.tasks.complete("b")
    assert (work.tasks.claim() or work.tasks.get("a")).id == "both"


def test_what_waits_for_a_failure_is_stuck(work: Watched) -> None:
    """It stays pending, is never handed out, and is listed with all that waits for it in turn."""
    chain: list[TaskSpec] = [{"goal": "c", "id": "c", "deps": ["b"]}, {"goal": "b", "id": "b", "deps": ["a"]}]
    work.tasks.add_tasks([*chain, {"goal": "a", "id": "a"}])
    work.tasks.claim()
    assert work.tasks.stuck() == []
    work.tasks.fail("a", "broken")
    assert [(task.id, task.status) for task in work.tasks.stuck()] == [("c", "pending"), ("b", "pending")]
    assert work.tasks.claim() is None
    work.tasks.cancel("b")
    assert [task.id for task in work.tasks.stuck()] == ["c"]
    assert work.tasks.add_task("late", deps=["c"]) in work.tasks.stuck()


# Attempts


def test_a_failure_is_retried_while_attempts_are_left(work: Watched) -> None:
    """The next attempt has the earlier errors as feedback; the last failure is the task's error."""
    work.tasks.add_task("try", id="it", max_attempts=3)
    work.tasks.claim(by="anna")
    again = work.tasks.fail("it", "one")
    assert (again.status, again.feedback, again.error, again.claimed_by) == ("pending", ("one",), None, None)
    work.tasks.claim(by="ben")
    assert work.tasks.fail("it", "").feedback == ("one", "")
    work.tasks.claim(by="ben")
    failed = work.tasks.fail("it", "three")
    assert (failed.status, failed.feedback, failed.error, failed.claimed_by) == ("errored", ("one", ""), "three", "ben")
    assert [event.change for event in work.events] == ["added", *["claimed", "retried"] * 2, "claimed", "failed"]


def test_a_review_accepts_rejects_or_asks_for_more(work: Watched) -> None:
    """Feedback of a reviewer reaches the next attempt, which is given even if the attempts are used up."""
    for name in ("fine", "bad", "nearly"):
        work.tasks.add_task(name, id=name)
        work.tasks.claim(by="anna")
        assert work.tasks.await_review(name, "please look").reason == "please look"
    assert work.tasks.complete("fine", "text").output == "text"
    assert work.tasks.fail("bad", "nonsense").error == "nonsense"
    back = work.tasks.resume_from_review("nearly", "shorter")
    assert (back.status, back.feedback, back.reason, back.attempts) == ("pending", ("shorter",), None, 1)
    assert work.tasks.claim() == work.tasks.get("nearly")
    assert work.tasks.get("nearly").attempts == 2


def test_a_blocked_task_says_why_and_is_not_handed_out(work: Watched) -> None:
    """It keeps the reason until it is unblocked, and gives up its lease."""
    work.tasks.add_task("fetch", id="it")
    work.tasks.claim(lease=LEASE)
    blocked = work.tasks.block("it", "no key")
    assert (blocked.reason, blocked.lease_expires_at, work.tasks.claim()) == ("no key", None, None)
    assert work.tasks.unblock("it").reason is None
    assert work.tasks.claim() is not None


def test_a_blocked_task_is_ready_when_its_deps_were_completed_meanwhile(work: Watched) -> None:
    """Unblocking it is then enough; it is not handed out a moment before."""
    work.tasks.add_task("first", id="a")
    work.tasks.add_task("then", id="b", deps=["a"])
    work.tasks.block("b", "no key")
    work.tasks.claim()
    work.tasks.complete("a")
    assert work.tasks.claim() is None
    work.tasks.unblock("b")
    assert work.tasks.claim() is work.tasks.get("b")


# Leases


def test_a_claim_whose_lease_ran_out_is_taken_back(work: Watched) -> None:
    """Not a moment before; then it is pending with attempts left, else errored, and says whose lease it was."""
    work.tasks.add_task("twice", id="twice", max_attempts=2)
    work.tasks.add_task("once", id="once")
    work.tasks.add_task("no lease", id="free")
    for lease in (LEASE, LEASE, None):
        work.tasks.claim(by="anna", lease=lease)
    work.clock.seconds += LEASE - 0.001
    assert work.tasks.reclaim() == []
    work.clock.seconds += 0.001
    assert [(task.id, task.status) for task in work.tasks.reclaim()] == [("twice", "pending"), ("once", "errored")]
    assert work.tasks.get("twice").feedback == ("the lease of 'anna' ran out",)
    assert work.tasks.get("once").error == "the lease of 'anna' ran out"
    assert work.tasks.get("free").status == "in_progress"
    assert work.changes[-2:] == ["twice reclaimed", "once reclaimed"]


def test_a_lease_can_be_renewed(work: Watched) -> None:
    """It counts from now, also for a claim that is overdue or that had no lease."""
    work.tasks.add_task("long", id="it")
    work.tasks.claim()
    for _ in range(3):
        assert work.tasks.renew("it", LEASE).lease_expires_at == work.clock.seconds + LEASE
        work.clock.seconds += LEASE
    work.tasks.renew("it", LEASE)
    assert work.tasks.reclaim() == []


@pytest.mark.parametrize("lease", [0, -1.0, True, float("nan"), float("inf"), "5"])
def test_a_lease_is_a_positive_number_of_seconds(work: Watched, lease: Any) -> None:
    """Anything else is refused, and the task stays where it is."""
    task = work.tasks.add_task("it", id="it")
    with pytest.raises(ConfigurationError, match="`lease` must be a number of seconds > 0"):
        work.tasks.claim(lease=lease)
    with pytest.raises(ConfigurationError, match="`lease`"):
        work.tasks.renew("it", lease)
    assert work.tasks.get("it") is task


def test_a_worker_that_lost_its_claim_cannot_touch_the_task(work: Watched) -> None:
    """Its calls are refused if they say who it is; the new holder is not affected."""
    work.tasks.add_task("slow", id="it", max_attempts=2)
    work.tasks.claim(by="anna", lease=LEASE)
    work.clock.seconds += LEASE
    work.tasks.reclaim()
    with pytest.raises(IllegalTransition, match="it is pending, and must be in_progress or awaiting_review"):
        work.tasks.complete("it", "late", by="anna")
    held = work.tasks.claim(by="ben")
    late: list[Callable[[], Task]] = [
        lambda: work.tasks.complete("it", "late", by="anna"),
        lambda: work.tasks.fail("it", "late", by="anna"),
        lambda: work.tasks.block("it", "late", by="anna"),
        lambda: work.tasks.await_review("it", by="anna"),
        lambda: work.tasks.renew("it", LEASE, by="anna"),
    ]
    for call in late:
        with pytest.raises(IllegalTransition, match="'anna' does not hold it, 'ben' does"):
            call()
    assert work.tasks.get("it") is held
    assert work.tasks.complete("it", "good", by="ben").output == "good"


# Asking


def test_an_unknown_id_is_named(work: Watched) -> None:
    """Every method that takes an id says which one is missing, and where."""
    calls: list[Callable[[], object]] = [
        lambda: work.tasks.get("x"),
        lambda: work.tasks.claim(task_id="x"),
        lambda: work.tasks.complete("x"),
        lambda: work.tasks.cancel("x"),
    ]
    for call in calls:
        with pytest.raises(TaskNotFound, match="task collection 'work' has no task 'x'"):
            call()


def test_tasks_are_listed_in_order_of_creation_and_by_what_they_are(work: Watched) -> None:
    """Filters can be combined; changes do not move a task."""
    for name, assignee, labels in [("a", "pro", "x"), ("b", "con", "xy"), ("c", "pro", "xy")]:
        work.tasks.add_task(name, id=name, assignee=assignee, labels=tuple(labels))
    work.tasks.claim(task_id="a")
    found = [
        work.tasks.list(),
        work.tasks.list(status="pending"),
        work.tasks.list(assignee="pro"),
        work.tasks.list(labels=["y"], assignee="pro", status="pending"),
    ]
    assert [[task.id for task in tasks] for tasks in found] == [["a", "b", "c"], ["b", "c"], ["a", "c"], ["c"]]
    assert (work.tasks.count(), work.tasks.count("pending"), work.tasks.count("errored")) == (3, 2, 0)


def test_a_status_that_there_is_not_is_refused(work: Watched) -> None:
    """A typing error does not look like an empty list."""
    for ask in (lambda: work.tasks.list(status="done"), lambda: work.tasks.count("done")):  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="`status` must be one of pending, in_progress"):
            ask()


def test_texts_are_strings(work: Watched) -> None:
    """An exception in place of its text is refused before it spoils the audit trail."""
    task = work.tasks.add_task("it", id="it", max_attempts=2)
    error: Any = ValueError("x")
    calls: list[Callable[[], object]] = [
        lambda: work.tasks.fail("it", error),
        lambda: work.tasks.block("it", error),
        lambda: work.tasks.await_review("it", error),
        lambda: work.tasks.resume_from_review("it", error),
        lambda: work.tasks.cancel("it", error),
    ]
    for call in calls:
        with pytest.raises(ConfigurationError, match="must be a string"):
            call()
    assert work.tasks.get("it") is task


# Events


def test_a_listener_is_called_after_the_change_is_in_place() -> None:
    """What it reads in the collection is what the event says, for each task of a batch."""
    seen: list[bool] = []
    tasks = TaskCollection("work", on_change=lambda event: seen.append(tasks.get(event.task.id) is event.task))
    tasks.add_tasks([{"goal": "a", "deps": ["work-2"]}, {"goal": "b"}])
    tasks.claim()
    assert seen == [True, True, True]


def test_a_listener_may_change_the_collection() -> None:
    """It receives the events of its own changes later, in their order."""
    seen: list[str] = []

    def follow(event: TaskChanged) -> None:
        seen.append(f"begin {event.task.id} {event.change}")
        if event.change == "added":
            tasks.claim(task_id=event.task.id)
        seen.append("end")

    tasks = TaskCollection("w", on_change=follow)
    tasks.add_tasks([{"goal": "a"}, {"goal": "b"}])
    assert seen == [
        "begin w-1 added",
        "end",
        "begin w-2 added",
        "end",
        "begin w-1 claimed",
        "end",
        "begin w-2 claimed",
        "end",
    ]


def test_a_listener_that_raises_misses_nothing_and_spoils_nothing() -> None:
    """Its exception reaches the caller once every event is delivered; the change stands, and so does the listener."""
    seen: list[str] = []

    def hates_b(event: TaskChanged) -> None:
        seen.append(event.task.id)
        if event.task.goal.startswith("b"):
            raise LookupError(event.task.id)

    tasks = TaskCollection("w", on_change=hates_b)
    with pytest.raises(LookupError, match="w-1"):
        tasks.add_tasks([{"goal": "b"}, {"goal": "a"}])
    with pytest.raises(ExceptionGroup) as both:
        tasks.add_tasks([{"goal": "b"}, {"goal": "bb"}])
    assert [str(error) for error in both.value.exceptions] == ["w-3", "w-4"]
    with pytest.raises(LookupError):
        tasks.claim()
    assert tasks.get("w-1").status == "in_progress"
    assert seen == ["w-1", "w-2", "w-3", "w-4", "w-1"]
    assert tasks.claim() is tasks.get("w-2")


def test_an_interrupt_leaves_the_rest_for_the_next_change() -> None:
    """What is no Exception passes at once, and the events that wait are delivered with the next ones."""
    seen: list[str] = []

    def interrupted(event: TaskChanged) -> None:
        seen.append(event.task.id)
        if len(seen) == 1:
            raise KeyboardInterrupt

    tasks = TaskCollection("w", on_change=interrupted)
    with pytest.raises(KeyboardInterrupt):
        tasks.add_tasks([{"goal": "a"}, {"goal": "b"}])
    tasks.add_task("c")
    assert seen == ["w-1", "w-2", "w-3"]


def test_without_a_listener_everything_works() -> None:
    """`on_change` is optional, and the clock is the wall clock."""
    tasks = TaskCollection("w")
    task = tasks.add_task("a")
    tasks.claim()
    assert tasks.complete(task.id).updated_at >= task.created_at > 1_600_000_000


# The resource


class Scope:
    """What a run offers to resources."""

    def __init__(self) -> None:
        self.saved_states: dict[str, Any] = {}
        self.events: list[object] = []

    def now(self) -> float:
        return 7.0

    def emit(self, event: object, /) -> None:
        self.events.append(event)


def test_a_run_has_a_collection_of_its_own_with_its_clock_and_events() -> None:
    """Opening gives a new, empty collection each time; changes are events of the run."""
    resource = create_task_collection("rent")
    scope = Scope()
    one, two = resource.open(scope), resource.open(Scope())
    task = one.add_task("argue")
    assert (resource.key, one.collection_id, task.created_at, two.count()) == ("tasks", "rent", 7.0, 0)
    assert scope.events == [TaskChanged(collection_id="rent", change="added", task=task)]
    assert TaskChanged.kind == "task_changed"
    assert create_task_collection("rent", key="todo").key == "todo"


def test_two_resources_with_one_key_and_one_collection_are_the_same() -> None:
    """So that blocks that were made apart share a collection by its id; another id or key is another one."""
    assert create_task_collection("rent") == create_task_collection("rent")
    assert len({create_task_collection("rent"), create_task_collection("rent")}) == 1
    assert create_task_collection("rent") != create_task_collection("rent", key="todo")
    assert create_task_collection("rent") != create_task_collection("food")


@pytest.mark.parametrize("wrong", ["", "  ", None, 3])
def test_a_collection_has_a_name(wrong: Any) -> None:
    """A blank id is refused when the resource is made, not when a run opens it."""
    with pytest.raises(ConfigurationError, match="`collection_id` must be a string that is not blank"):
        create_task_collection(wrong)
    with pytest.raises(ConfigurationError, match="`collection_id`"):
        TaskCollection(wrong)


@pytest.mark.parametrize("wrong", ["", None, 3])
def test_a_resource_has_a_key(wrong: Any) -> None:
    """Blocks could not find it otherwise."""
    with pytest.raises(ConfigurationError, match="`key` must be a non-empty string"):
        create_task_collection("rent", key=wrong)


# The audit trail


def test_a_task_is_written_as_json_with_camel_case_keys(work: Watched) -> None:
    """Every field is there, and the application's own keys are left alone."""
    work.tasks.add_task("argue", assignee="pro", labels=[*"fbdcae"], metadata={"round_no": 1}, max_attempts=2)
    work.tasks.claim(by="anna", assignee="pro", lease=LEASE)
    expected = {
        "id": "work-1",
        "goal": "argue",
        "status": "in_progress",
        "assignee": "pro",
        "priority": 0,
        "labels": ["a", "b", "c", "d", "e", "f"],
        "metadata": {"round_no": 1},
        "deps": [],
        "attempts": 1,
        "maxAttempts": 2,
        "output": None,
        "error": None,
        "feedback": [],
        "claimedBy": "anna",
        "leaseExpiresAt": 1005.0,
        "reason": None,
        "createdAt": 1000.0,
        "updatedAt": 1000.0,
        "seq": 1,
    }
    assert json.loads(json.dumps(work.tasks.to_wire())) == {"collectionId": "work", "tasks": [expected]}
    no_run = {"kind": "task_changed", "path": "", "at": 0.0}  # no run
    last = {**no_run, "collectionId": "work", "change": "claimed", "task": expected}
    assert json.loads(json.dumps(work.events[-1].to_wire())) == last


ENTRY = {"round": 1, "agentName": "a", "stance": "s", "text": "t"}


def circle() -> list[Any]:
    """A list that holds itself."""
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
        (circle(), "[[...]]"),
        (True, True),
        (1.5, 1.5),
    ],
    ids=["model", "dataclass", "set and nan", "bytes", "surrogate", "surrogates", "circle", "bool", "float"],
)
def test_any_output_can_be_written(work: Watched, output: object, written: object) -> None:
    """What JSON cannot hold is written as text rather than not at all."""
    work.tasks.add_task("it", id="it")
    work.tasks.claim()
    wire = work.tasks.complete("it", output).to_wire()
    text = json.dumps(wire, allow_nan=False)
    assert written is None or json.loads(text)["output"] == written


def test_overdue_tasks_are_taken_back_in_the_order_of_their_present_leases() -> None:
    """A lease that was renewed counts from its renewal, not from its claim."""
    clock = [0.0]
    tasks = TaskCollection("w", now=lambda: clock[0])
    renewed, other = tasks.add_task("renewed"), tasks.add_task("other")
    tasks.claim(task_id=renewed.id, lease=1.0)
    tasks.claim(task_id=other.id, lease=2.0)
    tasks.renew(renewed.id, 3.0)
    clock[0] = 5.0
    assert [task.id for task in tasks.reclaim()] == [other.id, renewed.id]
