r"""What was held as a Markdown page, in which what others wrote is text and nothing else.

Foreign text is escaped character by character, and stands in quotes, list items or fences: it makes no heading, no
link, no image and no HTML, in CommonMark and in what GitHub adds to it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from flowdebate.cli.document import as_json
from flowdebate.cli.page import INSTEAD
from flowdebate.cli.text import in_line, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from flowdebate.cli.document import Document
    from flowdebate.patterns.state import ProviderFailure

__all__ = ("escaped", "losses", "output", "quoted", "report", "speaker")

_ANYWHERE = re.compile(r"[\\`*_\[\]<>&~|$@^{}]|:(?=//)|(?<=www)\.|(?<=WWW)\.", re.IGNORECASE)
"""What has a meaning inside a line; the last ones make links of bare addresses."""
_AT_START = re.compile(r"[#+\-=:%!]|\d+(?=[.)])")
"""What has a meaning where a line begins."""


def report(document: Document) -> str:
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


def speaker(name: str, about: str | None) -> str:
    """The line over what somebody said."""
    bold = f"**{escaped(name)}**"
    return f"{bold}: {escaped(about or '')}" if about or bold == "****" else bold  # four stars alone are a rule


def losses(lost: Iterable[ProviderFailure]) -> Iterator[str]:
    """What providers lost."""
    for loss in lost:
        who = f"{loss.seat.capitalize()} {escaped(loss.name)}"
        yield from (f"*{who} was lost*: {escaped(loss.error)}; {INSTEAD[loss.instead]}.", "")


def output(value: object) -> Iterator[str]:
    """What a synthesizer made; nothing where it made nothing."""
    if value is None:
        return
    yield from ("## Output", "")
    yield from (quoted(value) if isinstance(value, str) else f"```json\n{as_json(value)}\n```", "")
    # no line of JSON begins with a backtick


def _lines(document: Document) -> Iterator[str]:
    yield from (f"# {document.TITLE}", "", quoted(document.subject), "", f"## {document.SPEAKERS}", "")
    yield from (f"- {speaker(each.name, each.about)}" for each in document.speakers)
    yield ""
    yield from document.report()
    yield from ("## Usage", "", f"- Status: {document.status}")
    yield from _ending(document)


def _ending(document: Document) -> Iterator[str]:
    if document.error is not None:
        yield f"- Error: {escaped(document.error)}"
    if document.held is not None:
        yield f"- {escaped(document.held)}"
    if document.usage is not None:
        yield from (f"- {line}" for line in document.usage.told())
    if document.seconds is not None:
        yield f"- Time: {document.seconds:.1f} s"
    if document.seed is not None:
        yield f"- Seed: {document.seed}"
    if document.run_id is not None:
        yield f"- Run: {escaped(document.run_id)}"
