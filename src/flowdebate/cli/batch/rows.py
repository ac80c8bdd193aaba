"""Questions of a batch from a file: CSV, JSON Lines, or text with a question on each line; and cells of CSV."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flowdebate.errors import BadFile, shown
from flowdebate.service.plans.files import parse_json, read_text
from flowdebate.service.plans.options import is_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping


_MEGABYTES = 64
_QUESTION = "question"
_DELIMITERS = ",;\t"
_TEXT = "text that is not blank"


@dataclass(frozen=True, kw_only=True)
class Row:
    """A question with the other columns of its row."""

    question: str
    others: Mapping[str, Any] = field(default_factory=dict)
    """The other columns or fields, which the results repeat."""


def read_rows(path: str, form: str | None = None) -> list[Row]:
    """The rows of the file at `path` ("-": of stdin), at least one; `form` is one of `FORMATS`, None goes by the name.

    BadFile with the line and the field of an invalid question.
    """
    content = read_text(path, megabytes=_MEGABYTES)
    rows = list(FORMATS[form or _format_of(path, content)](path, content))
    if not rows:
        raise BadFile(path, "holds no question")
    return rows


def _format_of(path: str, content: str) -> str:
    suffix = Path(path).suffix.lower()
    if path == "-":
        return "jsonl" if content.lstrip()[:1] in ("{", '"') else "text"
    return {".csv": "csv", ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}.get(suffix, "text")


def _text_rows(path: str, content: str) -> Iterator[Row]:
    for number, line in enumerate(content.split("\n"), 1):
        if line.strip():
            yield _row(path, number, line.strip(), {})


def _json_rows(path: str, content: str) -> Iterator[Row]:
    for number, line in enumerate(content.split("\n"), 1):
        if not line.strip():
            continue
        value = parse_json(line, path=path, number=number)
        if isinstance(value, str):
            yield _row(path, number, value, {})
        elif isinstance(value, dict):
            if _QUESTION not in value:
                raise BadFile(path, f"line {number}: `{_QUESTION}` is missing: it must be {_TEXT}")
            others = {key: part for key, part in value.items() if key != _QUESTION}
            yield _row(path, number, value[_QUESTION], others)
        else:
            allowed = f"an object with `{_QUESTION}`, or a text"
            raise BadFile(path, f"line {number}: must hold {allowed}, got {shown(value)}")


def _csv_rows(path: str, content: str) -> Iterator[Row]:
    records = _records(path, content)
    number, header = next(records, (1, []))
    if not header:
        return
    column = _column(path, header)
    for number, cells in records:
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != len(header):
            raise BadFile(path, f"line {number}: has {len(cells)} cells, the header has {len(header)}")
        others = {name: cell for index, (name, cell) in enumerate(zip(header, cells, strict=True)) if index != column}
        yield _row(path, number, cells[column], others, field=header[column])


def _records(path: str, content: str) -> Iterator[tuple[int, list[str]]]:
    """The records of CSV, each with the line on which it begins."""
    first = content.split("\n", 1)[0]
    delimiter = max(_DELIMITERS, key=lambda sign: _QUESTION in _names(first, sign))
    reader = csv.reader(io.StringIO(content, newline=""), delimiter=delimiter, strict=True)
    number = 1
    try:
        for cells in reader:
            yield number, [read_cell(cell) for cell in cells]
            number = reader.line_num + 1
    except csv.Error as error:
        raise BadFile(path, f"line {number}: is not CSV: {error}") from None


def _names(line: str, delimiter: str) -> list[str]:
    return [name.strip().strip('"') for name in line.split(delimiter)]


def _column(path: str, header: list[str]) -> int:
    """Index of the column with the questions."""
    header[:] = [name.strip() for name in header]
    twice = [name for name in header if header.count(name) > 1]
    if twice:
        raise BadFile(path, f"line 1: the column {shown(twice[0])} is there twice")
    if _QUESTION in header:
        return header.index(_QUESTION)
    if len(header) == 1:
        return 0
    names = ", ".join(map(shown, header)) or "none"
    raise BadFile(path, f"line 1: there must be a column `{_QUESTION}`, or one column alone; there are: {names}")


def _row(path: str, number: int, question: object, others: Mapping[str, Any], *, field: str = _QUESTION) -> Row:
    if not isinstance(question, str) or not is_text(question):
        raise BadFile(path, f"line {number}: `{field}` must be {_TEXT}, got {shown(question)}")
    return Row(question=str(question), others=others)


FORMATS: Mapping[str, Callable[[str, str], Iterable[Row]]] = {"csv": _csv_rows, "jsonl": _json_rows, "text": _text_rows}
"""Reader of each format."""


# Cells of CSV

_FORMULA = re.compile("'*[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
"""Beginning of a text that spreadsheets run as a formula, behind any number of our own marks."""
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?", re.ASCII | re.IGNORECASE)


def safe_cell(text: str) -> str:
    """`text` as a cell that no spreadsheet runs as a formula; `read_cell` reads it back.

    >>> safe_cell("=1+1"), safe_cell("'=1+1"), safe_cell("-3.5"), safe_cell("'tis so")
    ("'=1+1", "''=1+1", '-3.5', "'tis so")
    """
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def read_cell(cell: str) -> str:
    """The text of a cell that `safe_cell` has made; cells of other programs are as they are, but for such a mark.

    >>> read_cell("'=1+1"), read_cell("''=1+1"), read_cell("-3.5"), read_cell("'tis so")
    ('=1+1', "'=1+1", '-3.5', "'tis so")
    """
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def csv_line(texts: Iterable[str]) -> str:
    r"""A record of CSV, with safe cells, and a line feed at its end.

    >>> csv_line(["a\rb", "=1"])
    '"a\rb",\'=1\n'
    """
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\r\n").writerow(map(safe_cell, texts))  # cells with either of these are quoted
    return text.getvalue().removesuffix("\r\n") + "\n"
