"""Markdown in a terminal while it is written: emphasis, code and headings by style in place of their marks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_PARTS = re.compile(r"(?P<mark>(?m:^)#{1,6} |\*{1,2}|`+)|\n|[^*`\n]+")
_OPEN = re.compile(r"(?:(?m:^)#{1,6} ?|[*`]+)\Z")
"""At the end of a piece: what may go on."""
_STYLES = {"**": "bold", "*": "italic", "#": "bold", "`": "cyan"}


class Marks:
    """A text in pieces, each with its style; lists, quotes and tables are read as they are, and no word is left out.

    >>> list(Marks().feed("**Half** of `it`: 2 * 3.", last=True))
    [('Half', 'bold'), (' of ', ''), ('it', 'cyan'), (': 2 ', ''), ('*', ''), (' 3.', '')]
    """

    def __init__(self) -> None:
        self._held, self._before = "", "\n"
        self._on: list[str] = []
        self._fenced = False

    def feed(self, piece: str, *, last: bool = False) -> Iterator[tuple[str, str]]:
        """The parts of the text so far that can be shown; all of them with the `last` piece."""
        text, begins = self._held + piece, self._before == "\n"
        end = len(text)
        if not last and (found := _OPEN.search(text)) is not None and (found[0][0] != "#" or begins or found.start()):
            end = found.start()
        self._held = text[end:]
        for found in _PARTS.finditer(text, 0, end):
            part, after = found[0], text[found.end() : found.end() + 1]
            if found["mark"] and self._turns(part, after, first=begins or found.start() > 0):
                continue
            if part == "\n":
                self._on = [] if self._before == "\n" else [each for each in self._on if each != "#"]
            styles = dict.fromkeys(_STYLES[each if each in _STYLES else "`"] for each in self._on)
            yield part, " ".join(styles)
            self._before = part[-1]

    def _turns(self, mark: str, after: str, *, first: bool) -> bool:
        """Whether a mark begins or ends a style here."""
        if mark.startswith("```"):
            self._fenced = not self._fenced
        if self._fenced or mark.startswith("```") or (mark[0] == "#" and not first):
            return False
        if mark in self._on and (mark[0] == "`" or not self._before.isspace()):
            self._on.remove(mark)
            return True
        if any(each[0] == "`" for each in self._on) or not (after.strip() or mark[0] == "#"):
            return False
        self._on.append("#" if mark[0] == "#" else mark)
        return True
