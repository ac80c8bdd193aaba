"""How the audit trail tells of a task that waits for a human: under review until the answer is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flowdebate.resources.tasks import TaskCollection
    from flowdebate.runs.context import Context
    from flowdebate.runs.parking import Parked

__all__ = ("go_on_after_review", "set_aside")


def set_aside(tasks: TaskCollection, task_id: str, parked: Parked) -> None:
    """Leave the task to whoever has to answer."""
    if tasks.get(task_id).status == "in_progress":
        tasks.await_review(task_id, str(parked))


def go_on_after_review(tasks: TaskCollection, task_id: str, ctx: Context) -> None:
    """Tell of the review of the task at `ctx`, where the run had come to a stand for an answer that is there now."""
    journal = ctx.run.journal
    if journal is None or not any(key.startswith(f"{ctx.path}/") for key in journal.reviewed):
        return
    task = tasks.get(task_id)
    if task.status == "in_progress":
        tasks.await_review(task_id)
        tasks.resume_from_review(task_id)
        tasks.claim(task_id=task_id, by=task.claimed_by)
