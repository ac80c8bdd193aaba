r"""Markdown report on a run, with all untrusted text escaped.

Text from models and users is escaped character by character, and placed in block quotes, list items or fences. It
cannot create headings, links, images or HTML, either in CommonMark or with GitHub's extensions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, assert_never

from flowdebate.ui.sections import FLAGS, Card, Entry, Fact, Group, Heading, Output, Remark, Section
from flowdebate.ui.text import as_json, in_line, printable

if TYPE_CHECKING:
    from flowdebate.ui.document import Document


_ANYWHERE = re.compile(r"[\\`*_\[\]<>&~|$@^{}]|:(?=//)|(?<=www)\.|(?<=WWW)\.", re.IGNORECASE)
"""Characters with a special meaning anywhere in a line; the last few would turn bare URLs into links."""
_AT_START = re.compile(r"[#+\-=:%!]|\d+(?=[.)])")
"""Characters with a special meaning at the start of a line."""


def report(document: Document, *, sections: Iterable[Section] | None = None) -> str:
    """Render a complete report on a document; if given, `sections` replace the document's own sections."""
    lines = [f"# {document.title}", "", quoted(document.subject), "", f"## {document.SPEAKERS}", ""]
    lines += [*(_item(speaker.name, speaker.about) for speaker in document.speakers), ""]
    lines += _section_lines(document.sections() if sections is None else sections)
    if document.notes:
        lines += ["## Notes", "", *(f"- {escaped(note)}" for note in document.notes), ""]
    lines += ["## Usage", "", f"- Status: {document.status}"]
    if document.error is not None:
        lines.append(f"- Error: {escaped(document.error)}")
    closing = (document.ending, document.models_line, *document.totals)
    lines += [f"- {escaped(line)}" for line in closing if line is not None]
    if document.seed is not None:
        lines.append(f"- Seed: {document.seed}")
    if document.run_id is not None:
        lines.append(f"- Run: {escaped(document.run_id)}")
    if document.fork is not None:
        lines.append(f"- Fork of {escaped(document.fork.parent)}: {document.fork.counts}")
    return "\n".join(lines) + "\n"


def escaped(text: str) -> str:
    r"""Escape `text` so that Markdown displays it unchanged, on one line.

    >>> escaped("# [x](http://y)")
    '\\# \\[x\\](http\\://y)'
    """
    # in_line comes first because a line break in untrusted text would start a new block
    line = _ANYWHERE.sub(r"\\\g<0>", in_line(text).strip())
    start = _AT_START.match(line)
    if start is None:
        return line
    if start[0].isdigit():
        return f"{start[0]}\\{line[start.end() :]}"
    return f"\\{line}"


def quoted(text: str) -> str:
    r"""Render `text` as a Markdown block quote.

    >>> print(quoted("fine\n# not a heading"))
    > fine
    > \# not a heading
    """
    lines = printable(text).strip("\n").split("\n")
    return "\n".join(f"> {line}" if (line := escaped(text_line)) else ">" for text_line in lines)


def sections_text(sections: Iterable[Section]) -> str:
    r"""Render sections for inclusion in a page, followed by a blank line; return "" if there are none.

    >>> sections_text([Remark(text="asked again")])
    '(asked again)\n\n'
    """
    return "".join(f"{line}\n" for line in _section_lines(sections))


def bold(label: str, text: str | None) -> str:
    """Render `label` in bold, followed by `text` if there is any.

    >>> bold("pro", "cap rents")
    '**pro**: cap rents'
    """
    label_text = f"**{escaped(label)}**"
    return (
        f"{label_text}: {escaped(text or '')}" if text or label_text == "****" else label_text
    )  # four asterisks with no label between them would be a horizontal rule


def _section_lines(sections: Iterable[Section]) -> Iterator[str]:
    before: Section | None = None
    for section in sections:
        if _is_item(before) and not _is_item(section):
            yield ""  # a blank line ends the list
        yield from _section(section)
        before = section
    if _is_item(before):
        yield ""


def _is_item(section: Section | None) -> bool:
    return isinstance(section, Fact)


def _section(section: Section) -> Iterable[str]:  # noqa: PLR0911 - one case for each kind
    match section:
        case Heading():
            return (f"## {section.title}", "")
        case Entry():
            flagged = () if section.flag is None else (f"({escaped(FLAGS[section.flag])})", "")
            return (bold(section.name, section.about), "", quoted(section.text), "", *flagged)
        case Fact():
            return (_item(section.label, " ".join(section.text.split())),)
        case Group():
            return _group(section)
        case Card():
            return (f"## {section.title}", "", *_facts(section.facts))
        case Output():
            value = section.value
            body = quoted(value) if isinstance(value, str) else f"```json\n{as_json(value)}\n```"
            return ("## Summary", "", body, "")  # safe in a fence, because no line of JSON begins with a backtick
        case Remark():
            return (f"({escaped(section.text)})", "")
        case _:
            assert_never(section)


def _group(group: Group) -> Iterator[str]:
    short = "\n" not in group.text and len(group.text) < _SHORT
    yield from (bold(group.label, group.text if short else None), "")
    if not short:
        yield from (quoted(group.text), "")
    yield from _facts(group.facts)
    if group.remark is not None:
        yield from (escaped(group.remark), "")


_SHORT = 100
"""Maximum length, in characters, of a statement shown on the same line as its role's name."""


def _facts(facts: Iterable[Fact]) -> Iterator[str]:
    """Render short facts as list items, and long facts as block quotes below their labels."""
    listing = False
    for fact in facts:
        if listing and not fact.short:
            yield ""
        listing = fact.short
        if fact.short:
            yield _item(fact.label, " ".join(fact.text.split()))
        else:
            yield from (bold(fact.label, None), "", quoted(fact.text), "")
    if listing:
        yield ""


def _item(label: str, text: str) -> str:
    return f"- {bold(label, text)}"
