"""Output for a page: streamed text with line wrapping and, on a terminal, a live line that shows the activity."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TextIO, cast

from flowdebate.cli.terminal.streams import CheckedStream, WriteFailed
from flowdebate.ui.text import PrintableStream, in_line

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.live import Live
    from rich.spinner import Spinner
    from rich.text import Text

    from flowdebate.blocks.human.human import Ask
    from flowdebate.runs.suspend import HumanRequest
    from flowdebate.service.channel import Update
    from flowdebate.ui.document import Document
    from flowdebate.ui.sections import Working


WIDEST = 100
"""Maximum width of a readable line, in columns."""
_TICK = 0.1
"""Seconds between frames of the live line: short enough for a smooth spinner, long enough not to keep the terminal
busy.
"""
_MINUTE = 60
_STARTING = "Starting the local model (some seconds, once)"


class Screen:
    """Output stream for a page.

    On a color terminal, `live()` adds a live line below the text. Elsewhere, or if NO_COLOR is set, there is no live
    line and no escape codes are written.
    """

    def __init__(
        self, stream: TextIO, *, environ: Mapping[str, str] = os.environ, clock: Callable[[], float] = time.monotonic
    ) -> None:
        from rich.console import Console as RichConsole

        terminal, checked = stream.isatty(), CheckedStream(stream)
        plain = not terminal or bool(environ.get("NO_COLOR")) or environ.get("TERM") == "dumb"
        self.console: Console = RichConsole(
            file=cast("TextIO", checked),
            force_terminal=terminal,  # with FORCE_COLOR, rich would treat any stream as a terminal
            color_system=None if plain else "auto",
            markup=False,
            highlight=False,
            emoji=False,
            _environ=environ,
        )
        self.breaks_lines: bool = terminal or environ.get("COLUMNS", "").isdecimal()
        """True if lines are wrapped; in a file or a pipe, only if a width is set."""
        self.clock = clock
        self._live: Live | None = None
        self._line: Text | None = None
        """The unfinished last line, which is part of the live display."""
        self._working: Working | None = None
        self._spinner: Spinner | None = None

    @property
    def is_terminal(self) -> bool:
        """True if the output goes to a terminal."""
        return self.console.is_terminal

    @property
    def is_utf8(self) -> bool:
        """True if the stream can encode every character."""
        return self.console.encoding.startswith("utf")

    @property
    def width(self) -> int:
        return min(self.console.width, WIDEST)

    # Text

    def write(self, text: str, style: str = "") -> None:
        """Append `text`, which must not contain control characters other than newlines."""
        from rich.text import Text

        if self._live is None:
            if style:
                self.console.print(Text(text, style), end="", soft_wrap=True)  # the text is already wrapped
            else:
                self.console.file.write(text)
            return
        first, *rest = text.split("\n")
        self._line = (self._line or Text()).append(first, style)
        for piece in rest:
            self.console.print(self._line, soft_wrap=True)
            self._line = Text(piece, style)

    def print(self, renderable: RenderableType) -> None:
        """Write complete lines."""
        self.console.print(renderable, width=self.width)

    def flush(self) -> None:
        """Flush the written text."""
        self.console.file.flush()

    # The live line

    @contextmanager
    def live(self) -> Iterator[None]:
        """Show a live line for the duration of the `with` block, if the stream is a color terminal."""
        if not self.is_terminal or self.console.color_system is None:
            yield
            return
        self._start()
        try:
            yield
        finally:
            self._stop()
            self._working = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Hide the live line while other code writes to the terminal or reads from it."""
        was_live = self._live is not None
        self._stop()
        try:
            yield
        finally:
            if was_live:
                self._start()

    async def ticking(self) -> None:
        """Animate the live line until cancelled."""
        with suppress(WriteFailed):  # if this fails, the next write of text will report it
            while True:
                await asyncio.sleep(_TICK)
                self.tick()

    def tick(self) -> None:
        """Draw the live line in its current state."""
        if self._live is not None:
            self._live.refresh()

    def working(self, working: Working) -> None:
        """Show who is currently working, until the next call to this method."""
        self._working = working

    def show_cursor(self) -> None:
        """Restore the cursor hidden by a live line; may be called from a signal handler."""
        if self._live is not None:
            with suppress(OSError, ValueError):  # bypasses rich, because the interrupted code may hold rich's lock
                os.write(self.console.file.fileno(), b"\x1b[?25h")

    def _start(self) -> None:
        from rich.live import Live
        from rich.text import Text

        self._line = Text()
        self._live = Live(
            self,
            console=self.console,
            # rich's thread would draw in the middle of the text; `ticking` draws from the event loop
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=sys.stderr.isatty(),  # makes warnings appear above the live line
            vertical_overflow="crop",
        )
        self._live.start()

    def _spin(self) -> Spinner:
        from rich.spinner import Spinner

        if self._spinner is None:
            self._spinner = Spinner("dots" if self.is_utf8 else "line", style="cyan")
        return self._spinner

    def _stop(self) -> None:
        live, self._live = self._live, None
        if live is not None:
            live.stop()
            line, self._line = self._line, None
            if line:
                self.console.print(line, end="", soft_wrap=True)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Return the live parts: the unfinished line and the current activity."""
        from rich.text import Text

        if self._line:
            line = self._line.copy()
            line.no_wrap, line.overflow = True, "crop"
            yield line
        if self._working is not None:
            yield Text()
            spinner = self._spin()
            spinner.update(text=self._status(self._working, options.max_width - 3))
            yield spinner.render(console.get_time())

    def _status(self, working: Working, width: int) -> Text:
        """Return one line of at most `width` columns, dropping the least important parts until it fits."""
        from rich.cells import cell_len
        from rich.text import Text

        seconds = self.clock() - working.since
        who = in_line(working.who)
        if working.model == "local" or working.model.startswith("local:"):
            from flowdebate.models.local.server import engine_is_starting

            who = _STARTING if engine_is_starting() else who
        between = " · " if self.is_utf8 else "; "
        parts = [who, duration(seconds), *map(in_line, working.facts)]
        while len(parts) > 2 and cell_len(between.join(parts)) > width:  # noqa: PLR2004 - who, and for how long
            parts.pop()
        rest = between.join(["", *parts[1:]])
        line = Text(parts[0])
        line.truncate(max(width - cell_len(rest), 1), overflow="ellipsis")
        line.append(rest, "dim")
        line.no_wrap, line.overflow = True, "ellipsis"
        return line


def duration(seconds: float) -> str:
    """Format a duration for humans.

    >>> duration(7.6), duration(95), duration(7260)
    ('7 s', '1 min 35 s', '2 h 1 min')
    """
    minutes, rest = divmod(int(seconds), _MINUTE)
    hours, minutes = divmod(minutes, _MINUTE)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


class View:
    """Base class for views of a run; it shows nothing itself."""

    async def follow(self, updates: AsyncIterator[Update]) -> None:
        """Show a run's progress until it ends; raise WriteFailed if the output cannot be written."""
        async for _ in updates:
            pass

    def show_cursor(self) -> None:
        """Show the terminal's cursor again if it is hidden; may be called from a signal handler."""

    def finish(self, document: Document, *, hint: str = "") -> None:
        """Show the result and the totals."""


class AskOnScreen:
    """Callable that asks humans using `ask`, and hides the live line while they answer."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self.screen: Screen | None = None
        """Screen on which the run is shown."""

    async def __call__(self, request: HumanRequest) -> object:
        if self.screen is None:
            return await self._ask(request)
        await asyncio.sleep(_TICK)  # let the page show earlier contributions first
        with self.screen.paused():
            return await self._ask(request)


_PIECES = re.compile(r"\n|[ \t]+|[^ \t\n]+")
_TAB = "    "
"""Replacement for a tab, because a terminal's next tab stop depends on the preceding text."""
_LEADING = 24
"""Maximum number of leading spaces kept on a line."""
_WIDE = 2
"""Width of wide characters, in terminal cells. Lines may break between any two of them, because Chinese and Japanese
are written without spaces between words.
"""
_NARROWEST = 20
"""Minimum width for wrapping, in columns; narrower lines would be harder to read than unwrapped lines."""


class TextFlow:
    """Writer for a single piece of text, with every line indented to set the text apart from the rest of the page.

    `indent` is the string that begins each line; `first` replaces it on the first line. `width` returns the current
    number of columns; None disables wrapping. A line's width is computed as the sum of its characters' widths:
    terminals differ in how they combine characters, but never use more columns. Consecutive blank lines are collapsed
    into one.
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
        self._unwritten: list[str] = []
        self._style = ""
        self._indent = indent
        self._first = indent if first is None else first
        self._width = width
        self._column = 0
        self._fresh = True
        """True if the current line is empty."""
        self._stream = PrintableStream()
        self._begun = False
        self._newlines = 0
        self._space = ""
        self._word = ""
        self._word_cells = 0

    def feed(self, piece: str, style: str = "") -> None:
        """Write `piece`; if wrapping is on, hold back the last word until it is complete or the style changes."""
        if style != self._style:
            self._take(self._stream.end())
            self._end_word()
            self._flush()
            self._style = style
        self._take(self._stream.feed(piece))
        self._flush()

    def end(self) -> None:
        """Write the remaining text and end the line."""
        self._take(self._stream.end())
        self._end_word()
        if not self._fresh:
            self._write("\n")
        self._flush()

    def _write(self, text: str) -> None:
        self._unwritten.append(text)

    def _flush(self) -> None:
        """Write the output for a chunk in one piece instead of word by word."""
        if self._unwritten:
            self._out("".join(self._unwritten), self._style)
            self._unwritten = []

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
                self._write_word(piece, 0, None)
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
            self._write_word(self._word, self._word_cells, self._width)
            self._word = ""
            self._word_cells = 0

    def _write_word(self, word: str, cells: int, width: Callable[[], int] | None) -> None:
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
