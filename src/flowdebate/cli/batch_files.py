"""Batch files: questions in CSV, JSON Lines, Parquet or plain text, and results with one line per question."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from pydantic import BaseModel

from flowdebate._text import counted, error_text, missing_column, typed
from flowdebate._util.files import open_private
from flowdebate._util.option_types import is_text
from flowdebate.cli.terminal.process import check_target, write_json, write_whole
from flowdebate.cli.terminal.streams import WriteFailed
from flowdebate.errors import BadFile
from flowdebate.models.base import Usage
from flowdebate.store.base import COMPLETE
from flowdebate.ui.files import parse_json, read_text
from flowdebate.ui.tables import MEGABYTES, SUFFIXES, allow_long_cells, csv_line, read_cell, read_parquet, read_records
from flowdebate.ui.text import escape_json

if TYPE_CHECKING:
    from flowdebate.runs.batch import BatchItem
    from flowdebate.ui.document import Document
    from flowdebate.ui.plan import Plan

    _Found: TypeAlias = list[tuple[int, str, str, str]]
    """Index, run id, status and text of each complete line of a file."""


_QUESTION = "question"
_TEXT = "text that is not blank"


# Questions


@dataclass(frozen=True, kw_only=True)
class Row:
    """A question together with the other columns of its row."""

    question: str
    columns: Mapping[str, Any] = field(default_factory=dict)
    """The row's other columns (or JSON fields), copied to the results."""

    @property
    def options(self) -> dict[str, Any]:
        """The row's sources, as options in plan file format."""
        row_sources = self.columns.get("sources")
        return {"sources": [row_sources] if isinstance(row_sources, str) else row_sources} if row_sources else {}


def read_rows(path: str, form: str | None = None) -> list[Row]:
    """Read the rows of the file at `path` ("-" for stdin); there must be at least one.

    `form` is one of `FORMATS`; if None, the suffix determines the format. An invalid question raises BadFile with the
    line and the field.
    """
    if form is None and Path(path).suffix.lower() == ".parquet":
        content, form = read_parquet(path), "jsonl"
    else:
        content = read_text(path, megabytes=MEGABYTES)
    if form is None and path == "-":
        form = "jsonl" if content.lstrip()[:1] in ("{", '"') else "text"
    rows = list(FORMATS[form or SUFFIXES.get(Path(path).suffix.lower(), "text")](path, content))
    if not rows:
        raise BadFile(path, "has no questions")
    return rows


def _read_text_rows(path: str, content: str) -> Iterator[Row]:
    for number, line in enumerate(content.split("\n"), 1):
        if line.strip():
            yield _make_row(path, number, line.strip(), {})


def _read_json_rows(path: str, content: str) -> Iterator[Row]:
    for number, line in enumerate(content.split("\n"), 1):
        if not line.strip():
            continue
        value = parse_json(line, path=path, number=number)
        if isinstance(value, str):
            yield _make_row(path, number, value, {})
        elif isinstance(value, dict):
            if _QUESTION not in value:
                raise BadFile(path, f"line {number}: `{_QUESTION}` is missing")
            columns = {key: part for key, part in value.items() if key != _QUESTION}
            yield _make_row(path, number, value[_QUESTION], columns)
        else:
            allowed = f"an object with a `{_QUESTION}` key, or a string"
            raise BadFile(path, f"line {number}: expected {allowed} (got {typed(value)})")


def _read_csv_rows(path: str, content: str) -> Iterator[Row]:
    records = read_records(path, content, column=_QUESTION)
    number, header = next(records, (1, []))
    if not header:
        return
    header = [name.strip() for name in header]
    if twice := [name for name in header if header.count(name) > 1]:
        raise BadFile(path, f"line 1: the column `{twice[0]}` occurs twice")
    if _QUESTION not in header and len(header) > 1:
        raise BadFile(path, f"line 1: {missing_column(_QUESTION, header)}")
    column = header.index(_QUESTION) if _QUESTION in header else 0
    for number, cells in records:
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != len(header):
            raise BadFile(path, f"line {number} has {counted(len(cells), 'cell')}, but the header has {len(header)}")
        columns = {name: cell for index, (name, cell) in enumerate(zip(header, cells, strict=True)) if index != column}
        yield _make_row(path, number, cells[column], columns, field=header[column])


def _make_row(path: str, number: int, question: object, columns: Mapping[str, Any], *, field: str = _QUESTION) -> Row:
    if not isinstance(question, str) or not is_text(question):
        problem = "must not be blank" if isinstance(question, str) else f"must be text (got {typed(question)})"
        raise BadFile(path, f"line {number}: `{field}` {problem}")
    return Row(question=str(question), columns=columns)


FORMATS: Mapping[str, Callable[[str, str], Iterable[Row]]] = {
    "csv": _read_csv_rows,
    "jsonl": _read_json_rows,
    "text": _read_text_rows,
}


# Results

COLUMNS = (
    "index", "status", "decision", "answer", "error", "run_id", "seed", "calls", "prompt_tokens", "completion_tokens",
    "seconds",
)  # fmt: skip
"""Result columns of CSV files, placed after the row's own columns."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """The result for one row."""

    index: int
    row: Row
    run_id: str
    decision: str | None
    answer: str | None
    document: Document

    @classmethod
    def of(cls, plan: Plan, item: BatchItem[Any]) -> Self:
        """Build the result line for an item, including the error or limit that ended its run."""
        from flowdebate.runs.events import RunFinished
        from flowdebate.ui.page import document_of_plan

        error = None if item.error is None else error_text(item.error)
        if item.error is None and item.run is not None and item.status == "limit":
            error = next((event.error for event in item.run.events if isinstance(event, RunFinished)), None)
        from flowdebate.ui.document import Tokens, read_models

        document = document_of_plan(
            plan,
            item.raw,
            item.output,
            status=item.status,
            error=error,
            models=None if item.run is None else read_models(item.run.models),
            usage=Tokens.of(Usage.zero() if item.run is None else item.run.usage),
            seconds=None if item.result is None else round(item.result.seconds, 3),
            seed=item.seed,
            run_id=item.run_id,
        )
        decision, answer = getattr(item.raw, "decision_word", None), _answer_of(item.raw, item.output)
        return cls(
            index=item.index, row=item.row, run_id=item.run_id, decision=decision, answer=answer, document=document
        )

    @property
    def has_result(self) -> bool:
        return self.document.has_result and self.document.status in COMPLETE

    def as_json(self) -> str:
        """Return the result as one line of JSON without terminal control characters."""
        document = self.document
        value = {
            "index": self.index,
            "question": self.row.question,
            "row": dict(self.row.columns),
            "runId": self.run_id,
            "status": document.status,
            "decision": self.decision,
            "answer": self.answer,
            "error": document.error,
            "document": json.loads(document.to_json()),
        }
        return escape_json(json.dumps(value, ensure_ascii=False, default=str))

    def as_cells(self) -> list[str]:
        """Return the CSV cells: the question, the row's other columns, and the values of `COLUMNS`."""
        document = self.document
        from flowdebate.ui.document import Tokens

        usage = document.usage or Tokens(calls=0)
        own_cells = (
            self.index, document.status, self.decision, self.answer, document.error, self.run_id, document.seed,
            usage.calls, usage.prompt_tokens, usage.completion_tokens, document.seconds,
        )  # fmt: skip
        values = ["" if value is None else value for value in (*self.row.columns.values(), *own_cells)]
        cells = [
            value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str) for value in values
        ]
        return [self.row.question, *cells]


def _answer_of(raw: object, output: object) -> str | None:
    """Return the answer as text: the synthesizer's output if there is any, otherwise the pattern's result."""
    if isinstance(output, str):
        return output
    if output is not None and output is not raw:
        return output.model_dump_json() if isinstance(output, BaseModel) else json.dumps(output, ensure_ascii=False)
    if (verdict := getattr(raw, "verdict", None)) is not None:
        return str(verdict.verdict)
    answer: str | None = getattr(raw, "final_decision", None) or getattr(raw, "answer", None)
    return answer


def headers_of(columns: Mapping[str, Any]) -> list[str]:
    """Return the CSV header; result columns that clash with a column of the row are renamed to `result_…`."""
    headers = ["question", *columns]
    return [*headers, *(f"result_{name}" if name in headers else name for name in COLUMNS)]


class Out:
    """Base class for result writers; this class itself discards the results."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing, because there is nothing to close."""

    def write(self, line: Line) -> None:
        """Write one result; raise WriteFailed on failure."""


class StdOut(Out):
    """Writer that prints results to stdout as JSON Lines."""

    def write(self, line: Line) -> None:
        write_json(line.as_json())


class JsonOut(Out):
    """Writer that appends each result to a JSON Lines file immediately; rows already in the file are skipped."""

    def __init__(self, path: Path, batch_id: str) -> None:
        self._path = path
        self._batch_id = batch_id
        # opened in `__enter__`, because merely constructing a writer must neither create nor lock the file
        self._file = -1
        self._written: set[int] = set()

    def __enter__(self) -> Self:
        check_target(self._path)
        self._open()
        try:
            self._resume()
        except BaseException:  # `with` does not call `__exit__` if `__enter__` fails
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    def write(self, line: Line) -> None:
        if line.index in self._written:
            return
        data = self.text_of(line).encode("utf-8", "backslashreplace")
        try:
            while data:  # a pipe or a full disk may accept only part of the data
                data = data[os.write(self._file, data) :]
        except OSError as error:
            raise WriteFailed(f"cannot write {self._path}: {error.strerror}") from None
        self._written.add(line.index)

    def text_of(self, line: Line) -> str:
        return f"{line.as_json()}\n"

    def lines_of(self, content: str) -> tuple[str, _Found]:
        """Split an existing file's content into its header ("" if it has none) and its complete result lines."""
        lines = []
        for number, text in enumerate(content.split("\n")[:-1], 1):  # a final line without a newline is incomplete
            try:
                value: dict[str, Any] = json.loads(text)
                lines.append((int(value["index"]), str(value["runId"]), str(value["status"]), f"{text}\n"))
            except (ValueError, KeyError, TypeError, RecursionError):
                raise BadFile(str(self._path), f"line {number} is not a batch result") from None
        return "", lines

    def _open(self) -> None:
        """Open the file for appending and lock it, so that two processes cannot duplicate rows or mix their lines."""
        try:
            self._file = open_private(self._path, os.O_WRONLY | os.O_APPEND)
        except OSError as error:
            raise WriteFailed(f"cannot write {self._path}: {error.strerror}") from None
        try:
            import fcntl
        except ImportError:  # pragma: no cover - Windows has no such locks
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.__exit__()
            raise BadFile(str(self._path), "is being written to by another process") from None

    def _resume(self) -> None:
        """Keep the lines of finished rows; drop truncated lines and the lines of rows to be resumed."""
        if not self._path.is_file():  # a device or pipe contains no earlier results to continue from
            return
        # an incomplete line may end in the middle of a character
        content = self._path.read_bytes().decode("utf-8", "replace")
        head, lines = self.lines_of(content)
        for index, run_id, _, _ in lines:
            if run_id != f"{self._batch_id}-{index}":
                problem = f"contains results of another batch ({run_id} instead of {self._batch_id})"
                raise BadFile(
                    str(self._path), f"{problem}: choose another file, or pass --batch-id to continue that batch"
                )
        stored = {index: text for index, _, status, text in lines if status in COMPLETE}
        full_text = head + "".join(stored.values())
        if full_text != content:
            write_whole(self._path, full_text)
            os.close(self._file)  # reopen it, because `write_whole` has replaced the file
            self._open()
        self._written = set(stored)


class CsvOut(JsonOut):
    """CSV writer that adds a header row."""

    def __init__(self, path: Path, batch_id: str, columns: Mapping[str, Any]) -> None:
        super().__init__(path, batch_id)
        self._header = headers_of(columns)

    def text_of(self, line: Line) -> str:
        return csv_line(line.as_cells())

    def lines_of(self, content: str) -> tuple[str, _Found]:
        records: list[list[str]] = []
        allow_long_cells(content)
        with suppress(csv.Error):
            for record in csv.reader(io.StringIO(content, newline=""), strict=True):
                records.append(list(map(read_cell, record)))  # noqa: PERF401 - those before a torn one stay
            if records and not content.endswith("\n"):
                records.pop()
        if records and records[0] != self._header:
            raise BadFile(str(self._path), "line 1: the header does not match the results of this batch")
        first = len(self._header) - len(COLUMNS)
        places = [first + COLUMNS.index(name) for name in ("index", "run_id", "status")]
        lines = []
        for record in records[1:]:
            try:
                index, run_id, status = (record[place] for place in places)
                lines.append((int(index), run_id, status, csv_line(record)))
            except (ValueError, IndexError):
                raise BadFile(str(self._path), "contains rows that are not batch results") from None
        return csv_line(self._header), lines


def open_out(path: str | None, batch_id: str, rows: Sequence[Row]) -> Out:
    """Return the writer for `path`; "-" means stdout, and None means that results are discarded.

    An unknown suffix raises BadFile.
    """
    if path is None:
        return Out()
    if path == "-":
        return StdOut()
    suffix = Path(path).suffix.lower()
    if suffix in (".jsonl", ".ndjson"):
        return JsonOut(Path(path), batch_id)
    if suffix != ".csv":
        raise BadFile(path, "cannot be written: its name must end in .jsonl or .csv")
    columns = list(rows[0].columns)
    if any(list(row.columns) != columns for row in rows):
        raise BadFile(path, "cannot be written as CSV, because the rows have different fields: use a .jsonl file")
    if len(set(headers_of(rows[0].columns))) != len(headers_of(rows[0].columns)):
        raise BadFile(
            path,
            "cannot be written as CSV, because some question columns have the same names as result columns: "
            "use a .jsonl file",
        )
    return CsvOut(Path(path), batch_id, rows[0].columns)
