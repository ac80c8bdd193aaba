"""Functions for reading CSV, JSON Lines and Parquet rows, and for escaping cells that look like formulas."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from flowdebate._text import counted, typed
from flowdebate.errors import BadFile
from flowdebate.ui.files import parse_json, read_text

MEGABYTES = 64
"""Maximum size of a file in megabytes; enough for hundreds of thousands of rows. The file and its rows are kept in
memory.
"""
SUFFIXES = {".csv": "csv", ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
"""File formats keyed by suffix."""


def read_table(path: str, *, column: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Read a CSV, JSON Lines or Parquet file ("-" for CSV or JSON Lines on stdin), and yield line numbers and rows.

    `column` is the name of a column in the file, used to detect the delimiter of a CSV file. Raises BadFile with the
    number of the invalid line.
    """
    form = SUFFIXES.get(Path(path).suffix.lower())
    content = read_parquet(path) if form == "parquet" else read_text(path, megabytes=MEGABYTES)
    if form is None:
        form = "jsonl" if content.lstrip().startswith("{") else "csv"
    if form == "csv":
        yield from _read_csv_rows(path, content, column)
        return
    for number, line in enumerate(content.split("\n"), 1):
        if line.strip():
            value = parse_json(line, path=path, number=number)
            if not isinstance(value, dict):
                raise BadFile(path, f"line {number}: expected an object (got {typed(value)})")
            yield number, value


def _read_csv_rows(path: str, content: str, column: str) -> Iterator[tuple[int, dict[str, Any]]]:
    records = read_records(path, content, column=column)
    _, header = next(records, (1, []))
    header = [name.strip() for name in header]
    for number, cells in records:
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != len(header):
            raise BadFile(path, f"line {number} has {counted(len(cells), 'cell')}, but the header has {len(header)}")
        yield number, dict(zip(header, cells, strict=True))


def read_parquet(path: str) -> str:
    """Read a Parquet file as JSON Lines; values that JSON cannot represent, such as dates, are converted to text."""
    try:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        raise BadFile(path, "is a Parquet file. To read it: pip install pyarrow") from None
    try:
        with parquet.ParquetFile(path) as file:
            metadata = file.metadata
            size = sum(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))
            if size > MEGABYTES * 10**6:  # the uncompressed size
                raise BadFile(path, f"is larger than {MEGABYTES} MB")
            return "\n".join(json.dumps(row, default=str) for row in file.read().to_pylist())
    except (OSError, arrow.ArrowException) as error:
        raise BadFile(path, f"cannot be read as Parquet: {str(error).splitlines()[0]}") from None


def read_records(path: str, content: str, *, column: str) -> Iterator[tuple[int, list[str]]]:
    """Read CSV records, yielding each one with the number of its first line."""

    def has_column(delimiter: str) -> bool:
        names = content.split("\n", 1)[0].split(delimiter)
        return column in [name.strip().strip('"') for name in names]

    # csv.Sniffer guesses by frequency, and questions are full of commas. A column name is more reliable.
    delimiter = max(",;\t", key=has_column)
    allow_long_cells(content)
    reader = csv.reader(io.StringIO(content, newline=""), delimiter=delimiter, strict=True)
    number = 1
    try:
        for cells in reader:
            yield number, [read_cell(cell) for cell in cells]
            number = reader.line_num + 1
    except csv.Error as error:
        raise BadFile(path, f"line {number}: not valid CSV: {error}") from None


def allow_long_cells(content: str) -> None:
    """Allow CSV cells of any length, because the size of the whole file is limited elsewhere."""
    csv.field_size_limit(max(csv.field_size_limit(), len(content)))


_FORMULA = re.compile("'*[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
"""Regular expression for text that a spreadsheet treats as a formula, with any number of `safe_cell`
escapes in front.
"""
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?", re.ASCII | re.IGNORECASE)


def safe_cell(text: str) -> str:
    """Escape `text` so spreadsheets do not treat the cell as a formula; `read_cell` restores it.

    >>> safe_cell("=1+1"), safe_cell("'=1+1"), safe_cell("-3.5"), safe_cell("'tis so")
    ("'=1+1", "''=1+1", '-3.5', "'tis so")
    """
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def read_cell(cell: str) -> str:
    """Restore the text of a cell written by `safe_cell`; a cell without an escape is returned unchanged.

    >>> read_cell("'=1+1"), read_cell("''=1+1"), read_cell("-3.5"), read_cell("'tis so")
    ('=1+1', "'=1+1", '-3.5', "'tis so")
    """
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def csv_line(texts: Iterable[str]) -> str:
    r"""Format a CSV record with safe cells and a trailing newline.

    >>> csv_line(["a\rb", "=1"])
    '"a\rb",\'=1\n'
    """
    text = io.StringIO(newline="")
    # the writer quotes cells that contain a carriage return or a newline
    csv.writer(text, lineterminator="\r\n").writerow(map(safe_cell, texts))
    return text.getvalue().removesuffix("\r\n") + "\n"
