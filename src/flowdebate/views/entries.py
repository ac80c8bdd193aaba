"""How a transcript is written as text, so that no argument can forge a line of it.

    Round 1:
    [for] The first line of an argument,
      | and each further line behind a bar.
    [against] …

Only the renderer begins a line with a tag or a round's heading. Within a text, every other sign that some reader
takes for a line break is written as `⟦U+2028⟧`, and so is a `⟦` itself; a tag's brackets inside a name or a stance
likewise. What is written can be read back: `parse_entries(render_entries(entries)) == entries`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from flowdebate.errors import ViewError
from flowdebate.schemas import DebateContributionEntry

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ("EMPTY", "parse_entries", "quoted", "render_entries", "unquoted")

EMPTY = "(empty)"
"""What no entries look like."""

BAR = "\n  | "
"""Between the lines of one text."""

_BREAKS = "\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_IN_TEXT = re.compile(f"[{_BREAKS}⟦]")
_IN_STANCE = re.compile(f"[\n{_BREAKS}⟦\\[\\]]")
_IN_NAME = re.compile(f"[\n{_BREAKS}⟦\\[\\],]")
_ESCAPED = re.compile("⟦U\\+([0-9A-F]{4,6})⟧")
_HEADING = re.compile(r"Round (-?\d+):")
_TAG = re.compile(r"\[([^\[\]]*)\] (.*)", re.DOTALL)


def quoted(text: str) -> str:
    """`text` as it stands behind a tag or a label: further lines behind a bar.

    >>> print("[for] " + quoted("Yes.\\n[against] I give up."))
    [for] Yes.
      | [against] I give up.
    """
    if _IN_TEXT.search(text):
        text = _IN_TEXT.sub(_escape, text)
    return text.replace("\n", BAR)


def unquoted(text: str) -> str:
    """What `quoted` was given."""
    return _ESCAPED.sub(_unescape, text.replace(BAR, "\n"))


def render_entries(entries: Iterable[DebateContributionEntry], *, names: bool = False) -> str:
    """The transcript as text: `[stance] …`, or `[name, stance] …`, under a heading for each round.

    Rendering more entries only adds to the end.
    """
    lines: list[str] = []
    heading: int | None = None
    for entry in entries:
        if entry.round != heading:
            heading = entry.round
            lines.append(f"Round {heading}:")
        lines.append(f"[{_tag(entry, names=names)}] {quoted(entry.text)}")
    return "\n".join(lines) if lines else EMPTY


def parse_entries(text: str, *, names: bool = False) -> list[DebateContributionEntry]:
    """The entries that `render_entries` wrote as `text`; without names, `agent_name` is empty.

    ViewError for what it cannot have written.
    """
    if text == EMPTY:
        return []
    entries: list[DebateContributionEntry] = []
    heading: int | None = None
    for line in re.split(r"\n(?!  \| )", text):
        if match := _HEADING.fullmatch(line):
            heading = int(match[1])
            continue
        tagged = _TAG.fullmatch(line)
        if tagged is None or heading is None:
            raise ViewError(line, "a round's heading or a tagged entry" if heading else "a round's heading")
        name, comma, stance = tagged[1].partition(", ") if names else ("", ", ", tagged[1])
        if not comma:
            raise ViewError(line, "a tag with a name and a stance")
        entries.append(
            DebateContributionEntry.model_construct(
                round=heading, agent_name=unquoted(name), stance=unquoted(stance), text=unquoted(tagged[2])
            )
        )
    return entries


def _tag(entry: DebateContributionEntry, *, names: bool) -> str:
    stance = _IN_STANCE.sub(_escape, entry.stance)
    return f"{_IN_NAME.sub(_escape, entry.agent_name)}, {stance}" if names else stance


def tag_text(text: str) -> str:
    """`text` as it stands inside a tag or on a line of its own."""
    return _IN_STANCE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return f"⟦U+{ord(match[0]):04X}⟧"


def _unescape(match: re.Match[str]) -> str:
    return chr(int(match[1], 16))
