"""Results of a batch: one line for each question, written to stdout or to a file that a later run completes."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flowdebate._util.files import open_private
from flowdebate.cli.batch.rows import csv_line, read_cell
from flowdebate.cli.terminal.process import WriteFailed, check_target, write_whole, writing
from flowdebate.errors import BadFile, error_text
from flowdebate.models.usage import Usage
from flowdebate.runs.batch.result import decision_of
from flowdebate.service.documents.document import Tokens, seen_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

    from flowdebate.cli.batch.rows import Row
    from flowdebate.runs.batch.result import BatchItem
    from flowdebate.service.documents.document import Document
    from flowdebate.service.plans.plan import Plan


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
"""Columns of CSV besides the row's own."""
_OVER = ("complete", "degraded", "no_verdict")


@dataclass(frozen=True, kw_only=True)
class Line:
    """The result of one row."""

    index: int
    row: Row
    run_id: str
    decision: str | None
    answer: str | None
    document: Document

    @property
    def has_result(self) -> bool:
        """Whether there is a result."""
        return self.document.has_result and self.document.status in _OVER

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
        """The texts of the cells of CSV: the question, the row's other columns, and `COLUMNS`."""
        document = self.document
        usage = document.usage or Tokens(calls=0)
        own = (
            self.index,
            document.status,
            self.decision,
            self.answer,
            document.error,
            self.run_id,
            document.seed,
            usage.calls,
            usage.prompt_tokens,
            usage.completion_tokens,
            document.seconds,
        )
        return [self.row.question, *map(_cell, self.row.others.values()), *map(_cell, own)]


def line_of(plan: Plan, item: BatchItem[Any]) -> Line:
    """The line of `item`."""
    document = plan.document(
        item.raw,
        item.output,
        status=item.status,
        error=_why(item),
        usage=Tokens.of(Usage.none() if item.run is None else item.run.usage),
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
    """The error or the limit that ended the run."""
    from flowdebate.runs.events import RunFinished

    if item.error is not None:
        return error_text(item.error)
    if item.run is None or item.status != "limit":
        return None
    return next((event.error for event in item.run.events if isinstance(event, RunFinished)), None)


def _answer(item: BatchItem[Any]) -> str | None:
    """The answer in words: the synthesizer's output, else the pattern's own result."""
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


def _cell(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def headers_of(others: Mapping[str, Any]) -> list[str]:
    """The header of CSV; a column of ours that has the name of a row's own is called `result_…`."""
    taken = ["question", *others]
    return [*taken, *(f"result_{name}" if name in taken else name for name in COLUMNS)]


# Files


class Out:
    """Writes no line anywhere."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def write(self, line: Line) -> None:
        """Write one result; raises WriteFailed."""


class StdOut(Out):
    """Writes JSON Lines on stdout."""

    def write(self, line: Line) -> None:
        with writing():
            sys.stdout.flush()
            sys.stdout.buffer.write(f"{line.as_json()}\n".encode())
            sys.stdout.flush()


class FileOut(Out, ABC):
    """Writes to a file: each line at once and as a whole; lines that are there already are not written again."""

    def __init__(self, path: Path, batch_id: str) -> None:
        self._path = path
        self._batch_id = batch_id
        self._file = -1
        self._written: set[int] = set()

    def __enter__(self) -> Self:
        check_target(self._path)
        self._open()
        try:
            self._resume()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    def write(self, line: Line) -> None:
        if line.index not in self._written:
            self._append(self.text_of(line))
            self._written.add(line.index)

    @abstractmethod
    def text_of(self, line: Line) -> str:
        """A line of the file."""

    @abstractmethod
    def lines_of(self, content: str) -> tuple[str, list[tuple[int, str, str, str]]]:
        """What the file begins with; and of each whole line its index, run id, status and text."""

    def _open(self) -> None:
        try:
            self._file = open_private(self._path, os.O_WRONLY | os.O_APPEND)
        except OSError as error:
            raise WriteFailed(f"{self._path}: cannot be written: {error.strerror}") from None
        try:
            _lock(self._file)
        except OSError:
            self.__exit__()
            raise BadFile(str(self._path), "is being written by another process") from None

    def _resume(self) -> None:
        """Retain the lines of finished rows; drop torn lines and rows that will be resumed."""
        if not self._path.is_file():  # a device or a pipe: there is nothing to continue
            return
        content = self._path.read_bytes().decode("utf-8", "replace")  # a torn line may end within a character
        head, lines = self.lines_of(content)
        for index, run_id, _, _ in lines:
            if run_id != f"{self._batch_id}-{index}":
                problem = f"holds results of something else ({run_id!r}, not of {self._batch_id!r})"
                raise BadFile(str(self._path), f"{problem}: name another file, or the batch to continue with --batch")
        stored = {index: text for index, _, status, text in lines if status in _OVER}
        whole = head + "".join(stored.values())
        if whole != content:
            write_whole(self._path, whole)
            os.close(self._file)
            self._open()
        self._written = set(stored)

    def _append(self, text: str) -> None:
        data = text.encode("utf-8", "backslashreplace")
        try:
            while data:
                data = data[os.write(self._file, data) :]
        except OSError as error:
            raise WriteFailed(f"{self._path}: cannot be written: {error.strerror}") from None


class JsonOut(FileOut):
    """Writes JSON Lines."""

    def text_of(self, line: Line) -> str:
        return f"{line.as_json()}\n"

    def lines_of(self, content: str) -> tuple[str, list[tuple[int, str, str, str]]]:
        lines = []
        for number, text in enumerate(content.split("\n")[:-1], 1):  # what has no end was torn
            try:
                value: dict[str, Any] = json.loads(text)
                lines.append((int(value["index"]), str(value["runId"]), str(value["status"]), f"{text}\n"))
            except (ValueError, KeyError, TypeError, RecursionError):
                raise BadFile(str(self._path), f"line {number}: is no result of a batch") from None
        return "", lines


class CsvOut(FileOut):
    """Writes CSV, with a header."""

    def __init__(self, path: Path, batch_id: str, others: Mapping[str, Any]) -> None:
        super().__init__(path, batch_id)
        self._header = headers_of(others)

    def text_of(self, line: Line) -> str:
        return csv_line(line.as_cells())

    def lines_of(self, content: str) -> tuple[str, list[tuple[int, str, str, str]]]:
        records = _whole_records(content)
        if records and records[0] != self._header:
            raise BadFile(str(self._path), "line 1: has another header than the results of this batch")
        first = len(self._header) - len(COLUMNS)
        places = [first + COLUMNS.index(name) for name in ("index", "run_id", "status")]
        lines = []
        for record in records[1:]:
            try:
                index, run_id, status = (record[place] for place in places)
                lines.append((int(index), run_id, status, csv_line(record)))
            except (ValueError, IndexError):
                raise BadFile(str(self._path), "holds what is no result of a batch") from None
        return csv_line(self._header), lines


def open_out(path: str | None, batch_id: str, rows: Sequence[Row]) -> Out:
    """The writer for `path`: "-" is stdout, None nothing; BadFile for an unknown suffix."""
    if path is None:
        return Out()
    if path == "-":
        return StdOut()
    suffix = Path(path).suffix.lower()
    if suffix in (".jsonl", ".ndjson"):
        return JsonOut(Path(path), batch_id)
    if suffix != ".csv":
        raise BadFile(path, "cannot be written: its name must end in .jsonl or .csv")
    columns = list(rows[0].others)
    if any(list(row.others) != columns for row in rows):
        raise BadFile(path, "cannot be written: not all rows have the same fields; write .jsonl")
    if len(set(headers_of(rows[0].others))) != len(headers_of(rows[0].others)):
        raise BadFile(path, "cannot be written: columns of the rows have the names of results; write .jsonl")
    return CsvOut(Path(path), batch_id, rows[0].others)


def _whole_records(content: str) -> list[list[str]]:
    """The records of CSV without a torn last one."""
    records: list[list[str]] = []
    with suppress(csv.Error):
        for record in csv.reader(io.StringIO(content, newline=""), strict=True):
            records.append(record)  # noqa: PERF402 - those before the torn one stay
        if records and not content.endswith("\n"):
            records.pop()
    return [[read_cell(cell) for cell in record] for record in records]


def _lock(file: int) -> None:
    """Lock the open `file` until it is closed; does nothing on systems without such locks."""
    try:
        import fcntl
    except ImportError:  # pragma: no cover - on Windows
        return
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
