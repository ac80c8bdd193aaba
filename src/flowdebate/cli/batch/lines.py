"""What is written of each question: how it ended, what was found, what it took, and the whole document."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flowdebate.errors import told
from flowdebate.models.usage import Usage
from flowdebate.runs.batch.result import decision_of
from flowdebate.service.documents import Tokens, seen_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flowdebate.cli.batch.rows import Row
    from flowdebate.runs.batch.result import BatchItem
    from flowdebate.service.documents import Document
    from flowdebate.service.plan import Plan

__all__ = ("COLUMNS", "Line", "headers_of", "line_of")

COLUMNS = (
    "index",
    "status",
    "decision",
    "answer",
    "error",
    "run_id",
    "seed",
    "calls",
    "prompt_tokens",
    "completion_tokens",
    "seconds",
)
"""What a line of CSV has beside the row's own columns."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What spreadsheets take for the beginning of a formula."""
_OVER = ("complete", "degraded", "no_verdict")


@dataclass(frozen=True, kw_only=True)
class Line:
    """What came of one row."""

    index: int
    row: Row
    run_id: str
    decision: str | None
    answer: str | None
    document: Document

    @property
    def found(self) -> bool:
        """Whether there is what was asked for."""
        return self.document.found and self.document.status in _OVER

    def as_json(self) -> str:
        """One line of JSON in which nothing acts on a terminal."""
        document = self.document
        value = {
            "index": self.index,
            "question": self.row.question,
            "row": dict(self.row.others),
            "runId": self.run_id,
            "status": document.status,
            "decision": self.decision,
            "answer": self.answer,
            "error": document.error,
            "document": json.loads(document.to_json()),
        }
        return seen_json(json.dumps(value, ensure_ascii=False, default=str))

    def as_cells(self) -> list[str]:
        """The cells of CSV: the question, the row's other columns, and `COLUMNS`."""
        document = self.document
        usage = document.usage or Tokens(calls=0)
        own = (
            self.index,
            document.status,
            _tame(self.decision),
            _tame(self.answer),
            _tame(document.error),
            self.run_id,
            document.seed,
            usage.calls,
            usage.prompt_tokens,
            usage.completion_tokens,
            document.seconds,
        )
        return [self.row.question, *map(_cell, self.row.others.values()), *map(_cell, own)]


def line_of(plan: Plan, item: BatchItem[Any]) -> Line:
    """The line of what came of `item`."""
    usage = Usage.none() if item.run is None else item.run.usage
    document = plan.document(
        item.raw,
        item.output,
        status=item.status,
        error=_why(item),
        usage=Tokens(
            calls=usage.calls,
            prompt_tokens=usage.prompt_tokens,
            cached_tokens=usage.cached_tokens,
            completion_tokens=usage.completion_tokens,
        ),
        seconds=None if item.result is None else round(item.result.seconds, 3),
        seed=item.seed,
        run_id=item.run_id,
    )
    return Line(
        index=item.index,
        row=item.row,
        run_id=item.run_id,
        decision=decision_of(item.raw),
        answer=_answer(item),
        document=document,
    )


def _why(item: BatchItem[Any]) -> str | None:
    """What ended it, where it was an error or a limit."""
    from flowdebate.runs.events import RunFinished

    if item.error is not None:
        return told(item.error)
    if item.run is None or item.status != "limit":
        return None
    return next((event.error for event in item.run.events if isinstance(event, RunFinished)), None)


def _answer(item: BatchItem[Any]) -> str | None:
    """What it came to, in words: what a synthesizer wrote, else what the pattern itself found."""
    raw, output = item.raw, item.output
    if isinstance(output, str):
        return output
    if output is not None and output is not raw:
        return (
            output.model_dump_json() if hasattr(output, "model_dump_json") else json.dumps(output, ensure_ascii=False)
        )
    verdict = getattr(raw, "verdict", None)
    if verdict is not None:
        return str(verdict.verdict)
    found: str | None = getattr(raw, "final_decision", None) or getattr(raw, "answer", None)
    return found


def _tame(text: str | None) -> str | None:
    return f"'{text}" if text and text.startswith(_FORMULA) else text


def _cell(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def headers_of(others: Mapping[str, Any]) -> list[str]:
    """The header of CSV; a column of ours that has the name of a row's own is called `result_…`."""
    taken = ["question", *others]
    return [*taken, *(f"result_{name}" if name in taken else name for name in COLUMNS)]
