"""Results and documents as notebooks show them: their report, in a frame of its own."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any, cast

from flowdebate.errors import BadFile
from flowdebate.runs.durable.resume import result_of
from flowdebate.service.documents import Document, Tokens, document_of
from flowdebate.web.report import document_html

if TYPE_CHECKING:
    from flowdebate.runs.result import RunResult

__all__ = ("document_of_result", "frame_of")


def frame_of(shown: RunResult[Any] | Document) -> str | None:
    """The report of a result or a document as HTML for a notebook; None for a result that is no pattern's.

    In a sandbox: whatever is in it neither acts nor has a say in how the notebook looks.
    """
    try:
        document, events = (shown, ()) if isinstance(shown, Document) else (document_of_result(shown), shown.events)
    except BadFile:
        return None
    page = escape(document_html(document, events))
    style = "width: 100%; height: 40rem; border: 0; color-scheme: normal"
    return f'<iframe sandbox title="Report" style="{style}" srcdoc="{page}"></iframe>'


def document_of_result(result: RunResult[Any]) -> Document:
    """The document of a run that is over; BadFile for one that is no pattern's."""
    found = result_of(result.raw, result.output)
    raw, where = found["raw"], f"run {result.run_id}"
    if not isinstance(raw, dict):
        raise BadFile(where, "has no document: it is not the run of a pattern")
    document = document_of(cast("dict[str, Any]", raw), where=where)
    facts = {
        "status": result.status,
        "usage": Tokens.of(result.usage),
        "cost": result.cost,
        "seconds": result.seconds,
        "run_id": result.run_id,
        "output": None if found["output"] == raw else found["output"],
    }
    return document.model_copy(
        update={name: fact for name, fact in facts.items() if name in type(document).model_fields}
    )
