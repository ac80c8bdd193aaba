"""Record a command in a terminal as an animated SVG: `terminal_recording.py FILE COLUMNS ROWS COMMAND…`.

The picture shows the command's output at its own pace, but pauses are limited to one second, and the whole recording to
40 seconds. The last screen stays for a while; viewers who prefer reduced motion only see that one. Needs the group
`pictures`.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import sys
import termios
import time
from html import escape
from itertools import groupby
from pathlib import Path

import pyte

_SAMPLE, _MIN_FRAME, _MAX_WAIT, _MAX_DURATION, _REST = 0.2, 0.35, 1.0, 40.0, 6.0
"""Seconds between samples of the screen, minimum seconds of a frame, maximum seconds of a pause and of all frames
together, and seconds of the last frame.
"""
_WIDTH, _HEIGHT, _EDGE = 8.4, 19, 18
"""Width and height of a character, and the margin around the screen, in pixels."""
_COLORS = {
    "red": "#ff7b72",
    "green": "#7ee787",
    "brown": "#e3b341",
    "yellow": "#e3b341",
    "blue": "#79c0ff",
    "magenta": "#d2a8ff",
    "cyan": "#76e3ea",
    "white": "#e6e5e1",
    "black": "#6e7681",
}
_PAPER, _INK = "#14161a", "#e6e5e1"


def frames_of(command: list[str], columns: int, rows: int) -> list[tuple[tuple[str, ...], float]]:
    """Return the screens shown by a command, each as the SVG of its lines, with the seconds it was shown."""
    screen = pyte.Screen(columns, rows)
    stream = pyte.ByteStream(screen)
    child, terminal = pty.fork()
    if child == 0:
        os.execvp(command[0], command)  # noqa: S606 - what the caller wants recorded
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    frames: list[tuple[tuple[str, ...], float]] = []
    last = time.monotonic()
    while True:
        ready, _, _ = select.select([terminal], [], [], _SAMPLE)
        try:
            written = os.read(terminal, 65536) if ready else b""
        except OSError:  # the command has ended
            written, ready = b"", [terminal]
        stream.feed(written)
        now = time.monotonic()
        if now - last >= _SAMPLE or (ready and not written):
            frames.append((tuple(_line(screen, row) for row in range(rows)), now - last))
            last = now
        if ready and not written:
            os.waitpid(child, 0)
            return frames


def _line(screen: pyte.Screen, row: int) -> str:
    """Render a line of the screen as SVG; "" for an empty line."""
    cells = [screen.buffer[row][column] for column in range(screen.columns)]
    spans, column = "", 0
    for style, group in groupby(cells, key=lambda cell: (cell.fg, cell.bold, cell.italics)):
        text = "".join(cell.data for cell in group)
        color, bold, italic = style
        if text.strip():
            fill = "" if color == "default" else f' fill="{_COLORS.get(color.removeprefix("bright"), f"#{color}")}"'
            weight = ' font-weight="bold"' if bold else ""
            slant = ' font-style="italic"' if italic else ""
            x = f"{_EDGE + column * _WIDTH:.1f}"
            spans += f'<tspan x="{x}"{fill}{weight}{slant}>{escape(text.rstrip())}</tspan>'
        column += len(text)
    return spans


def joined(screens: list[tuple[tuple[str, ...], float]]) -> list[tuple[tuple[str, ...], float]]:
    """Merge equal screens, and shorten their times."""
    frames = []
    for lines, group in groupby(screens, key=lambda frame: frame[0]):
        frames.append((lines, min(sum(seconds for _, seconds in group), _MAX_WAIT)))
    total = sum(seconds for _, seconds in frames)
    merged: list[tuple[tuple[str, ...], float]] = []
    for lines, seconds in frames:
        lasts = seconds * min(1.0, _MAX_DURATION / total)
        if merged and merged[-1][1] < _MIN_FRAME:
            merged[-1] = lines, merged[-1][1] + lasts
        else:
            merged.append((lines, lasts))
    return [*merged[:-1], (merged[-1][0], _REST)]


def svg_of(frames: list[tuple[tuple[str, ...], float]], columns: int, rows: int, title: str) -> str:
    """Render the frames below each other, with a window that moves along them."""
    width, height = columns * _WIDTH + 2 * _EDGE, rows * _HEIGHT + 2 * _EDGE
    lines: dict[str, str] = {}
    uses, steps, at = "", "", 0.0
    total = sum(seconds for _, seconds in frames)
    for number, (screen, seconds) in enumerate(frames):
        top = number * height
        for row, line in enumerate(screen):
            if line:
                name = lines.setdefault(line, f"l{len(lines)}")
                uses += f'<use href="#{name}" y="{top + _EDGE + (row + 1) * _HEIGHT - 5:.0f}"/>'
        steps += f"{100 * at / total:.3f}%{{transform:translateY(-{top:.0f}px)}}"
        at += seconds
    last = (len(frames) - 1) * height
    defs = "".join(f'<text id="{name}" xml:space="preserve">{line}</text>' for line, name in lines.items())
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" role="img" '
        f'aria-label="{escape(title)}"><style>text{{font:14px/1 ui-monospace,"SF Mono",Menlo,Consolas,'
        f'"DejaVu Sans Mono",monospace;fill:{_INK}}}#film{{animation:film {total:.1f}s steps(1) infinite}}'
        f"@keyframes film{{{steps}100%{{transform:translateY(-{last:.0f}px)}}}}"
        f"@media(prefers-reduced-motion:reduce){{#film{{animation:none;transform:translateY(-{last:.0f}px)}}}}</style>"
        f'<rect width="100%" height="100%" rx="8" fill="{_PAPER}"/><defs>{defs}</defs><g id="film">{uses}</g></svg>\n'
    )


def main() -> None:
    """Record the command."""
    file, columns, rows, *command = sys.argv[1:]
    frames = joined(frames_of(command, int(columns), int(rows)))
    Path(file).write_text(svg_of(frames, int(columns), int(rows), "Terminal: " + " ".join(command)), "utf-8")
    print(f"{len(frames)} screens, {sum(seconds for _, seconds in frames):.0f} s")


if __name__ == "__main__":
    main()
