"""Markdown in a terminal: styles in place of markup, and tables aligned in columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_PARTS = re.compile(r"(?P<mark>(?m:^)#{1,6} |\*{1,2}|`+)|\n|[^*`\n]+")
_OPEN = re.compile(r"(?:(?m:^)#{1,6} ?|[*`]+)\Z")
"""Regular expression for incomplete markup at the end of a chunk."""
_STYLES = {"**": "bold", "*": "italic", "#": "bold", "`": "cyan"}
_TABLE = re.compile(r"(?m:^)\|[^\n]*\n\|[ :|-]*-[ :|-]*(?:\n\|[^\n]*)*(?=\n|\Z)")
"""Regular expression for a table: a header row, the separator line below it, and further rows."""
_OPEN_TABLE = re.compile(r"(?m:^)\|[^\n]*(?:\n\|[^\n]*)*\n?\Z")
_CELLS = re.compile(r"(?<!\\)\|")
_EDGES = re.compile(r"\A\s*\||(?<!\\)\|\s*\Z")
_BETWEEN = "  "


class Marks:
    """Parser that splits streamed text into styled parts.

    Lists and quotes are left as they are, and no words are dropped. A table is held back until it ends, then aligned in
    columns if they fit into `width`.

    >>> list(Marks().feed("**Half** of `it`: 2 * 3.", last=True))
    [('Half', 'bold'), (' of ', ''), ('it', 'cyan'), (': 2 ', ''), ('*', ''), (' 3.', '')]
    """

    def __init__(self, width: int | None = None) -> None:
        self._width = width
        self._held, self._before = "", "\n"
        self._on: list[str] = []
        self._fenced = False

    def feed(self, piece: str, *, last: bool = False) -> Iterator[tuple[str, str]]:
        """Return the parts of the text that can be shown now; if `last` is true, return all remaining parts."""
        text = self._held + piece
        begins = self._before == "\n"
        line = 0 if begins else text.find("\n") + 1 or len(text)  # the start of the first complete line
        end = len(text)
        if not last:
            opened = _OPEN.search(text)
            if opened is not None and (opened[0][0] != "#" or begins or opened.start()):
                end = opened.start()
            table = _OPEN_TABLE.search(text, line) if line < len(text) else None
            end = end if table is None else min(end, table.start())
        self._held, text = text[end:], text[:end]
        start = 0
        for table in _TABLE.finditer(text, line):
            yield from self._style(text[start : table.start()])
            start = table.end()
            yield from self._style(table[0]) if self._fenced else self._set(table[0])
        yield from self._style(text[start:])

    def _style(self, text: str) -> Iterator[tuple[str, str]]:
        """Split text outside tables into styled parts."""
        begins = self._before == "\n"
        for match in _PARTS.finditer(text):
            part, after = match[0], text[match.end() : match.end() + 1]
            if match["mark"] and self._turns(part, after, first=begins or match.start() > 0):
                continue
            if part == "\n":
                self._on = [] if self._before == "\n" else [mark for mark in self._on if mark != "#"]
            marks = ["`"] if self._fenced else self._on
            styles = dict.fromkeys(_STYLES[mark if mark in _STYLES else "`"] for mark in marks)
            yield part, " ".join(styles)
            self._before = part[-1]

    def _turns(self, mark: str, after: str, *, first: bool) -> bool:
        """Return whether a marker starts or ends a style or a code block here; update the open styles accordingly."""
        if mark.startswith("```"):
            self._fenced = not self._fenced
            return True
        if self._fenced or (mark[0] == "#" and not first):
            return False
        if mark in self._on and (mark[0] == "`" or not self._before.isspace()):
            self._on.remove(mark)
            return True
        if any(on[0] == "`" for on in self._on) or not (after.strip() or mark[0] == "#"):
            return False
        self._on.append("#" if mark[0] == "#" else mark)
        return True

    def _set(self, table: str) -> Iterator[tuple[str, str]]:
        """Format a table in columns, with a rule below its bold header; leave it unchanged if it is too wide."""
        from rich.cells import cell_len

        head, below, *rows = map(_cells, table.split("\n"))
        cells = [[list(Marks().feed(cell, last=True)) for cell in row] for row in (head, *rows)]
        sizes = [[cell_len("".join(part for part, _ in cell)) for cell in row] for row in cells]
        widths = [max(row[column] for row in sizes if column < len(row)) for column in range(max(map(len, sizes)))]
        if self._width is not None and sum(widths) + len(_BETWEEN) * (len(widths) - 1) > self._width:
            yield from self._style(table)
            return
        ends = {column for column, mark in enumerate(below) if mark.endswith(":") and not mark.startswith(":")}
        for index, (row, cell_width) in enumerate(zip(cells, sizes, strict=True)):
            yield from _row(
                row, [width - size for width, size in zip(widths, cell_width, strict=False)], ends, is_head=index == 0
            )
            if index == 0:
                yield "\n" + _BETWEEN.join("─" * width for width in widths), "dim"
            if index < len(cells) - 1:
                yield "\n", ""
        self._on, self._before = [], "|"


def _cells(line: str) -> list[str]:
    return [cell.strip().replace("\\|", "|") for cell in _CELLS.split(_EDGES.sub("", line))]


def _row(
    row: Sequence[Sequence[tuple[str, str]]], rests: Sequence[int], ends: set[int], *, is_head: bool
) -> Iterator[tuple[str, str]]:
    for column, (cell, rest) in enumerate(zip(row, rests, strict=True)):
        between = _BETWEEN if column else ""
        before = between + " " * rest if column in ends else between
        if before:
            yield before, ""
        for part, style in cell:
            yield part, " ".join(filter(None, ["bold" if is_head else "", style]))
        if column not in ends and rest and column < len(row) - 1:
            yield " " * rest, ""
