"""Plain-text layout of a deliberation, for human readers.

Contributions are indented and cannot imitate the layout's own lines (rules, headings, speakers, labels): a line that
resembles one of these starts with a bar. Terminal control characters are rendered as `⟦U+001B⟧`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from textwrap import wrap
from typing import TYPE_CHECKING
from unicodedata import category, normalize

from flowdebate.prompts import BAR, quoted

if TYPE_CHECKING:
    from .schemas import DeliberationOutput


_WIDTH = 60
_DOTS = 40
_INDENT = "  "
_BEHIND = f"{_INDENT}| "
_ROOM = _WIDTH - len(_BEHIND)
_NOTHING = "(none)"

_FORM = re.compile(
    r"\["
    r"|(?:[-=._*~#—–―─━═⋯]\s?){3}"  # noqa: RUF001 - also what only looks like a rule
    r"|(?:summary|status|decision|settled by consensus|it ended)\s*:"
    r"|(?:final decision|moderator summary|round [0-9]+)\s*$"
    r"|debate concluded after"
)
"""Pattern matching the start of the layout's own lines, and of lines that resemble them."""


def render_deliberation(output: DeliberationOutput, *, title: str | None = None) -> str:
    """Render `output` as a plain-text page.

    The page has a title, each round's contributions, the moderator's reports, the final decision, and the reason why
    the deliberation ended. `title` is the first line and defaults to "DELIBERATION — " followed by the topic. No
    contribution can be mistaken for a line of the layout, or affect a terminal.

    >>> from flowdebate.patterns.deliberation.schemas import DeliberationOutput
    >>> page = render_deliberation(
    ...     DeliberationOutput(
    ...         topic="Ship?", rounds=0, history=[], summaries=[], final_decision="Wait.", is_settled=False
    ...     ),
    ...     title="SHIPPING",
    ... )
    >>> print(page[:69])
    ============================================================
    SHIPPING
    """
    lines = [
        "=" * _WIDTH,
        *_text(f"DELIBERATION — {output.topic}" if title is None else title, indent=""),
        "=" * _WIDTH,
    ]
    for number in range(1, output.rounds + 1):
        lines += ["", *_heading(f"ROUND {number}", "-")]
        for entry in output.history:
            if entry.round == number:
                # the name is on a line ending in a square bracket, so it must not contain line breaks or brackets
                cells = (" ".join(quoted(part or "").replace(BAR, " ").split()) for part in (entry.name, entry.role))
                speaker = "  —  ".join(filter(None, cells)).replace("[", "(").replace("]", ")")
                lines += ["", f"{_INDENT}[{speaker}]", f"{_INDENT}{'.' * _DOTS}", "", *_text(entry.text)]
        if number <= len(output.reports):
            lines += ["", *_heading("MODERATOR SUMMARY", "="), ""]
            report = output.reports[number - 1]
            if report is None:
                lines.append(f"{_INDENT}(no report)")
            else:
                lines += [*_text(report.summary, label="SUMMARY: "), "", f"{_INDENT}STATUS: {report.status}"]
                lines += [] if report.decision is None else _text(report.decision, label="DECISION: ")
    decision = _NOTHING if output.final_decision is None else output.final_decision
    lines += ["", *_heading("FINAL DECISION", "="), "", *_text(decision), "", "=" * _WIDTH]
    lines.append(f"{_INDENT}Debate concluded after {output.rounds} round(s)")
    lines.append(f"{_INDENT}Settled by consensus: {output.is_settled}")
    if output.status != "complete":
        lines.append(f"{_INDENT}It ended: {output.status}")
    return "\n".join([*lines, "=" * _WIDTH])


def _heading(text: str, rule: str) -> list[str]:
    return [rule * _WIDTH, f"{_INDENT}{text}", rule * _WIDTH]


def _text(text: str, *, label: str = "", indent: str = _INDENT) -> Iterator[str]:
    """Wrap a contribution after `label`, keeping line breaks and merging consecutive blank lines."""
    lines = [line.rstrip() for line in quoted(text.replace("\r\n", "\n")).replace(BAR, "\n").strip().split("\n")]
    first, *rest = [line for number, line in enumerate(lines) if line or not number or lines[number - 1]]
    for number, line in enumerate(wrap(label + first, _ROOM)):
        yield (indent if label and not number else _indent(line, indent)) + line
    for line in rest:
        yield from [_indent(part, indent) + part for part in wrap(line, _ROOM)] or [""]


def _indent(line: str, indent: str) -> str:
    """Return `indent`, or a bar for a line that resembles one of the layout's own lines."""
    # check only the beginning, since a line may be as long as an argument; normalize it, because invisible characters
    # and unusual letter forms would hide a resemblance
    seen = "".join(c for c in normalize("NFKC", line.lstrip()[:200]) if category(c) not in {"Cf", "Mn", "Me"})
    return indent if _FORM.match(seen.lstrip().casefold()) is None else _BEHIND
