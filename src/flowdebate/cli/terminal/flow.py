"""Text wrapping for streamed, untrusted text: escaped, indented, and broken between words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from flowdebate.service.documents.text import PrintableStream

if TYPE_CHECKING:
    from collections.abc import Callable


_PIECES = re.compile(r"\n|[ \t]+|[^ \t\n]+")
_TAB = "    "
"""For a tab: where a terminal's next stop is depends on what others wrote before."""
_LEADING = 24
"""Spaces that a line may begin with."""
_WIDE = 2
"""Cells of a character that lines may be broken at: Chinese and Japanese have no spaces between words."""
_NARROWEST = 20
"""Columns below which wrapping would only make it worse."""


class TextFlow:
    """Writes one text; every line of it is behind `indent`, so that none can pass for a line of the page.

    - `width`: the columns that there are now; None does not wrap.
    - `first`: in place of `indent` before the first line.

    Lines are counted by what each character takes by itself: terminals differ in how they join them, and none takes
    more than that. Two or more blank lines become one.
    """

    def __init__(
        self,
        write: Callable[[str, str], object],
        *,
        indent: str,
        width: Callable[[], int] | None,
        first: str | None = None,
    ) -> None:
        self._out = write
        self._style = ""
        self._indent = indent
        self._first = indent if first is None else first
        self._width = width
        self._column = 0
        self._fresh = True
        """Whether nothing is on the line."""
        self._stream = PrintableStream()
        self._begun = False
        self._newlines = 0
        self._space = ""
        self._word = ""
        self._word_cells = 0

    def feed(self, piece: str, style: str = "") -> None:
        """Write `piece`; with wrapping, the last word waits for its end, unless the style changes."""
        if style != self._style:
            self._take(self._stream.end())
            self._end_word()
            self._style = style
        self._take(self._stream.feed(piece))

    def end(self) -> None:
        """Write the rest, and end the line."""
        self._take(self._stream.end())
        self._end_word()
        if not self._fresh:
            self._write("\n")

    def _write(self, text: str) -> None:
        self._out(text, self._style)

    def _take(self, text: str) -> None:
        for piece in _PIECES.findall(text):
            if piece == "\n":
                self._end_word()
                self._newlines += 1
                self._space = ""
            elif piece[0] in " \t":
                self._end_word()
                self._space += piece.replace("\t", _TAB)
            elif self._width is None:
                self._place(piece, 0, None)
            else:
                self._extend(piece, max(self._width(), _NARROWEST))

    def _extend(self, piece: str, width: int) -> None:
        from rich.cells import get_character_cell_size

        room = width - max(len(self._indent), len(self._first))
        for char in piece:
            cells = get_character_cell_size(char)
            if cells == _WIDE or self._word_cells + cells > room:
                self._end_word()
            self._word += char
            self._word_cells += cells
            if cells == _WIDE:
                self._end_word()

    def _end_word(self) -> None:
        if self._word:
            self._place(self._word, self._word_cells, self._width)
            self._word = ""
            self._word_cells = 0

    def _place(self, word: str, cells: int, width: Callable[[], int] | None) -> None:
        room = None if width is None else max(width(), _NARROWEST)
        if self._newlines and self._begun:
            self._write("\n" * min(self._newlines, 2))
            self._fresh = True
        elif not self._begun:
            self._space = ""
        elif room is not None and self._column + len(self._space) + cells > room:
            self._write("\n")
            self._fresh = True
            self._space = ""
        self._newlines = 0
        if self._fresh:
            indent = self._indent if self._begun else self._first
            self._write(indent)
            self._column = len(indent)
            self._space = self._space[:_LEADING]
        if room is not None and self._column + len(self._space) + cells > room:
            self._space = ""
        self._write(self._space + word)
        self._column += len(self._space) + cells
        self._space = ""
        self._begun, self._fresh = True, False
