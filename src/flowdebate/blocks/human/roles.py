"""What a human is asked for on each seat of a pattern, where the application does not say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.blocks.base import Block
    from flowdebate.resources.tasks.collection import TaskCollection
    from flowdebate.runs.context import Context
    from flowdebate.runs.durable.suspend import Suspended

__all__ = (
    "go_on_after_review",
    "seated",
    "set_aside",
)


def seated(
    block: Block[Any, Any], schema: Callable[[], object] | None = None, *, who: str | None = None
) -> Block[Any, Any]:
    """`block` for a seat whose pattern needs what `schema()` is: a human without a schema is asked for that.

    `who` is what a human is told to be.
    """
    fitted: Callable[[object, str | None], Block[Any, Any]] | None = getattr(block, "fitted", None)
    return block if fitted is None else fitted(None if schema is None else schema(), who)


def set_aside(tasks: TaskCollection, task_id: str, parked: Suspended) -> None:
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
