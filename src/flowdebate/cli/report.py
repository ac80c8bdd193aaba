r"""A debate as a Markdown page, in which what others wrote is text and nothing else.

Foreign text is escaped character by character, and stands in quotes, list items or fences: it makes no heading, no
link, no image and no HTML, in CommonMark and in what GitHub adds to it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from flowdebate.cli.document import as_json, winner_of
from flowdebate.cli.page import INSTEAD
from flowdebate.cli.text import in_line, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from flowdebate.cli.document import DebateDocument, Side
    from flowdebate.schemas import DebateLoss, DebateModeratorDecision, DebateRawOutput, DebateVerdict, StopReason

__all__ = ("escaped", "quoted", "report")

_ANYWHERE = re.compile(r"[\\`*_\[\]<>&~|$@^{}]|:(?=//)|(?<=www)\.|(?<=WWW)\.", re.IGNORECASE)
"""What has a meaning inside a line; the last ones make links of bare addresses."""
_AT_START = re.compile(r"[#+\-=:%!]|\d+(?=[.)])")
"""What has a meaning where a line begins."""
_ENDINGS: dict[StopReason, str] = {
    "max_rounds": "as many as were allowed",
    "moderator_done": "ended by the moderator",
    "predicate": "ended by the application",
}


def report(document: DebateDocument) -> str:
    """The whole page."""
    return "\n".join(_lines(document)) + "\n"


def escaped(text: str) -> str:
    r"""One line of Markdown that shows `text`.

    >>> escaped("# [x](http://y)")
    '\\# \\[x\\](http\\://y)'
    """
    line = _ANYWHERE.sub(r"\\\g<0>", in_line(text).strip())
    start = _AT_START.match(line)
    if start is None:
        return line
    if start[0].isdigit():
        return f"{start[0]}\\{line[start.end() :]}"
    return f"\\{line}"


def quoted(text: str) -> str:
    r"""A Markdown quote that shows the lines of `text`.

    >>> print(quoted("fine\n# not a heading"))
    > fine
    > \# not a heading
    """
    lines = printable(text).strip("\n").split("\n")
    return "\n".join(f"> {line}" if (line := escaped(each)) else ">" for each in lines)


def _lines(document: DebateDocument) -> Iterator[str]:
    yield from ("# Debate", "", quoted(document.raw.question), "", "## Positions", "")
    for side in document.sides:
        role = "" if side.role is None else f" ({escaped(side.role)})"
        yield f"- **{escaped(side.name)}**: {escaped(side.stance)}{role}"
    yield ""
    for number in document.rounds:
        yield from _round(document.raw, number)
    if document.raw.verdict is not None:
        yield from _verdict(document.raw.verdict, document.sides)
    if document.output is not None:
        yield from ("## Output", "", _output(document.output), "")
    yield from ("## Usage", "", f"- Status: {document.status}")
    yield from _ending(document)


def _round(raw: DebateRawOutput, number: int) -> Iterator[str]:
    yield from (f"## Round {number}", "")
    for decision in raw.moderator_decisions:
        if decision.round == number:
            yield from _decision(decision)
    for entry in raw.transcript:
        if entry.round == number:
            yield from (f"**{escaped(entry.agent_name)}**: {escaped(entry.stance)}", "", quoted(entry.text), "")
    yield from _losses(loss for loss in raw.losses if loss.round == number)


def _losses(losses: Iterable[DebateLoss]) -> Iterator[str]:
    for loss in losses:
        who = f"{loss.seat.capitalize()} {escaped(loss.name)}"
        yield from (f"*{who} was lost*: {escaped(loss.error)}; {INSTEAD[loss.instead]}.", "")


def _decision(decision: DebateModeratorDecision) -> Iterator[str]:
    speakers = ", ".join(map(escaped, decision.next_speakers)) or "nobody"
    last = "; this round is the last" if decision.done else ""
    yield from (f"**Moderator**, speakers: {speakers}{last}", "")
    for label, text in (("Briefing", decision.briefing), ("Angle", decision.new_angle)):
        if text:
            yield from (f"{label}:", "", quoted(text), "")


def _verdict(verdict: DebateVerdict, sides: Sequence[Side]) -> Iterator[str]:
    yield from ("## Verdict", "", f"**Winner**: {escaped(winner_of(verdict, sides))}", "", quoted(verdict.verdict), "")
    yield from ("**Reasoning**", "", quoted(verdict.reasoning), "")


def _output(output: object) -> str:
    if isinstance(output, str):
        return quoted(output)
    return f"```json\n{as_json(output)}\n```"  # no line of JSON begins with a backtick


def _ending(document: DebateDocument) -> Iterator[str]:
    if document.error is not None:
        yield f"- Error: {escaped(document.error)}"
    if document.raw.stop_reason is not None:
        yield f"- Rounds: {document.raw.rounds}, {_ENDINGS[document.raw.stop_reason]}"
    if document.usage is not None:
        yield from (f"- {line}" for line in document.usage.told())
    if document.seconds is not None:
        yield f"- Time: {document.seconds:.1f} s"
    if document.seed is not None:
        yield f"- Seed: {document.seed}"
