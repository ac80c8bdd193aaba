"""Life cycle of a task, as one table.

    from              action               to
    ────────────────────────────────────────────────────────
    pending           claim                in_progress
    pending           block                blocked
    pending           cancel               cancelled
    in_progress       complete             completed
    in_progress       fail                 pending | errored
    in_progress       block                blocked
    in_progress       await_review         awaiting_review
    in_progress       cancel               cancelled
    in_progress       renew                in_progress
    in_progress       reclaim              pending | errored
    blocked           unblock              pending
    blocked           cancel               cancelled
    awaiting_review   complete             completed
    awaiting_review   fail                 pending | errored
    awaiting_review   resume_from_review   pending
    awaiting_review   cancel               cancelled

Of two outcomes the first applies while attempts are left, the second once they are used up. A review ends with what
the reviewer does: `complete` accepts, `fail` rejects, `resume_from_review` asks for another attempt. `completed`,
`errored` and `cancelled` are terminal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from flowdebate.errors import IllegalTransition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flowdebate.resources.tasks.task import Task, TaskStatus

__all__ = (
    "TRANSITIONS",
    "Outcome",
    "TaskAction",
    "TaskChange",
    "outcome",
)

TaskAction = Literal[
    "claim",
    "complete",
    "fail",
    "block",
    "unblock",
    "await_review",
    "resume_from_review",
    "cancel",
    "renew",
    "reclaim",
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
"""What happened to a task: `failed` is a failure for good; after `retried` the task is pending again."""


class Outcome(NamedTuple):
    """The status that an action leads to, and the change that the event reports."""

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


def outcome(task: Task, action: TaskAction) -> Outcome:
    """The outcome of `action` on `task`; IllegalTransition names the statuses that allow the action."""
    outcomes = TRANSITIONS.get((task.status, action))
    if outcomes is None:
        allowed = [status for status, known in TRANSITIONS if known == action]
        raise IllegalTransition(task.id, action=action, status=task.status, allowed=allowed)
    return outcomes[0] if task.attempts < task.max_attempts else outcomes[-1]
