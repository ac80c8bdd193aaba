"""Numbered lines of a source: its own, or, in a diff, those of the changed files."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from flowdebate.sources.source import Source


_DIFF = re.compile(r"\A(?:diff |--- |Index: |commit |From )")
_HUNK = re.compile(r"@@ -\d+(?:,(?P<old>\d+))? \+(?P<start>\d+)(?:,(?P<new>\d+))? @@")


class Line(NamedTuple):
    """One line of a source."""

    file: str
    """The source's name; in a diff, that of the changed file."""
    number: int | None
    """Its number in that file as it is now; None for what a diff removes, and for what it says around its hunks."""
    start: int
    """Where it begins in the source's text, in characters."""
    text: str
    """Without its line break, and in a diff without its sign."""


@lru_cache(maxsize=512)  # as long as a run looks places up in them
def number_lines(source: Source) -> tuple[Line, ...]:
    r"""The lines of a source, each with its file and its number there.

    >>> diff = "--- a/x.py\n+++ b/x.py\n@@ -7,2 +7,2 @@\n def f():\n-    return 1\n+    return 2\n"
    >>> from flowdebate.sources.source import Source
    >>> [(line.file, line.number, line.text) for line in number_lines(Source.of("diff", diff))][3:]
    [('x.py', 7, 'def f():'), ('x.py', None, '    return 1'), ('x.py', 8, '    return 2')]
    """
    # not splitlines: editors and git count line feeds alone
    texts = source.text.split("\n")
    if texts[-1] == "":
        texts.pop()
    is_diff = _DIFF.match(source.text) and re.search(f"^{_HUNK.pattern}", source.text, re.MULTILINE)
    lines: list[Line] = []
    start, file, number, old, new = 0, source.name, 0, 0, 0
    for index, text in enumerate(texts, start=1):
        at, shown = (None, text) if is_diff else (index, text)
        if is_diff and (old > 0 or new > 0) and text[:1] != "\\":
            shown = text[1:]
            old -= text[:1] != "+"
            if text[:1] != "-":
                at, number, new = number, number + 1, new - 1
        elif is_diff and (hunk := _HUNK.match(text)):
            number, old, new = int(hunk["start"]), int(hunk["old"] or 1), int(hunk["new"] or 1)
        elif (
            is_diff
            and text.startswith(("--- ", "+++ "))
            and (path := text[4:].split("\t")[0].strip('"')) != "/dev/null"
        ):
            file = re.sub(r"^[abciw]/", "", path)
        lines.append(Line(file, at, start, shown))
        start += len(text) + 1
    return tuple(lines)


def numbered(source: Source, start: int = 0, end: int | None = None) -> str:
    r"""The text of a source between two places, each line behind its number.

    >>> from flowdebate.sources.source import Source
    >>> print(numbered(Source.of("x", "one\ntwo")))
        1 one
        2 two
    """
    end = len(source.text) if end is None else end
    kept = [line for line in number_lines(source) if line.start < end and line.start + len(line.text) + 1 > start]
    whole = source.text
    # the sign of a diff's line stays: it says what was there before
    return "\n".join(f"{line.number or '':>5} {whole[line.start :].split(chr(10), 1)[0]}" for line in kept)
