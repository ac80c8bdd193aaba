"""Terminal emulator for the escape codes that the command uses."""

from __future__ import annotations

import re

_PIECES = re.compile(
    r"\x1b\[(?P<number>[\d;]*)(?P<letter>[A-Km])|\x1b\[\?25[hl]|(?P<feed>\n)|(?P<start>\r)|[^\x1b\r\n]+"
)


def render_screen(output: str) -> str:
    """Return the lines on the screen and those scrolled off its top; fail on any unknown escape code.

    The command writes only at the end of lines and erases only whole lines.
    """
    lines, row, at = [""], 0, 0
    while at < len(output):
        piece = _PIECES.match(output, at)
        assert piece is not None, repr(output[at : at + 40])
        at = piece.end()
        if piece["feed"]:
            row += 1
            lines += [""] * (row - len(lines) + 1)
        elif piece["letter"] == "A":
            row -= int(piece["number"])
            assert row >= 0
        elif piece["letter"] == "K":
            assert piece["number"] == "2"
            lines[row] = ""
        elif not piece[0].startswith(("\x1b", "\r")):
            lines[row] += piece[0]
    return "\n".join(lines)
