"""The taps that keep a transcript: one clears it, the others add what was said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from flowdebate._util.text import LONGEST_ARGUMENT, clean_text
from flowdebate.blocks.handler import Handler, handler
from flowdebate.errors import OutputError, error_text
from flowdebate.patterns.state import pattern_state
from flowdebate.resources.tasks.collection import create_task_collection

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.resources.resource import Resource, StateResource
    from flowdebate.runs.context import Context

__all__ = (
    "AUDIT",
    "audit_resources",
    "complete_turn",
    "create_init_transcript",
    "record_turn",
    "text_said",
)

AUDIT = "audit"
"""The key of a pattern's audit trail: `ctx.resources.audit` is its `TaskCollection`."""


def audit_resources(transcript: StateResource[Any], collection_id: str) -> dict[str, Resource]:
    """What the blocks that keep a pattern's records declare."""
    return {"transcript": transcript, AUDIT: create_task_collection(collection_id, key=AUDIT)}


def create_init_transcript(*, name: str, transcript: StateResource[Any], collection_id: str) -> Handler[Any, Any]:
    """A tap that clears the transcript and opens the audit trail `collection_id`."""

    @handler(name=f"{name}-init-transcript", resources=audit_resources(transcript, collection_id))
    def init_transcript(value: object, ctx: Context) -> object:
        ctx.resources.transcript.set(transcript.initial())
        return value

    return init_transcript


def record_turn(
    *,
    name: str,
    agent_name: str,
    transcript: StateResource[Any],
    collection_id: str,
    entry: Callable[[int, str], object],
) -> Handler[Any, str]:
    """`create_record_argument` for any transcript: `entry(round, text)` makes what is added to it."""

    @handler(name=f"{name}-record-{agent_name}", resources=audit_resources(transcript, collection_id))
    def record(value: object, ctx: Context) -> str:
        text = text_said(value, agent_name, ctx)
        said = entry(max(pattern_state(ctx).round, 1), text)
        transcript = ctx.scope.handles["transcript"]
        transcript.set(transcript.state.with_entry(said))
        complete_turn(agent_name, text, ctx)
        return text

    return record


def complete_turn(agent_name: str, output: object, ctx: Context) -> None:
    """Complete what `agent_name` has under way in the audit trail."""
    audit = ctx.scope.handles[AUDIT]
    for task in audit.list(status="in_progress", assignee=agent_name):
        audit.complete(task.id, output=output)


def text_said(value: object, agent_name: str, ctx: Context) -> str:
    """What a debater's block returned as text.

    It takes `str`, `{"text": str}` or a model with a `text`; anything else is turned into `str()`, with one
    `FlowDebateWarning` per debater. OutputError if not even `str()` works, and for more than `LONGEST_ARGUMENT`
    characters.
    """
    text = _text_of(value, agent_name, ctx)
    if len(text) > LONGEST_ARGUMENT:
        problem = f"has {len(text):,} characters, and may have {LONGEST_ARGUMENT:,}"
        raise OutputError(ctx.block, "an argument", [("text", problem)])
    return clean_text(text)


def _text_of(value: Any, agent_name: str, ctx: Context) -> str:  # noqa: ANN401 - whatever a block returned
    if isinstance(value, str):
        return str(value)
    text = value.get("text") if isinstance(value, Mapping) else getattr(value, "text", None)
    if isinstance(text, str):
        return text
    try:
        coerced = str(value)
    except Exception as error:
        problem = f"got a {type(value).__name__} whose str() raises {error_text(error)}"
        raise OutputError(ctx.block, "text", [("", problem)]) from error
    ctx.run.warn_once(
        f"{ctx.block}: not text",
        f"debater {agent_name!r} returned a {type(value).__name__}; its str() stands in the transcript. "
        'Return a str or {"text": str}',
    )
    return coerced
