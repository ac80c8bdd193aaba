"""Summaries in a notebook: a sentence, tables and findings, as HTML and as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from flowdebate._util.text import counted
from flowdebate.service.documents.markdown import escaped
from flowdebate.service.documents.sections import Fact, Heading, Points, Table
from flowdebate.web.notebook.excerpt import shortened
from flowdebate.web.templates import render

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from flowdebate.service.documents.evaluations import Summary
    from flowdebate.service.documents.sections import ReportSection


_ROWS = 100
"""Rows of a table; the others are counted. A notebook is a file that people mail and put under version control."""
_CELL, _SENTENCE = 300, 2_000
"""Characters."""


def summary_html(summary: Summary) -> str:
    """A part of a page, in the notebook's own look."""
    return render(
        "notebook/summary",
        title=summary.title,
        about=shortened(summary.about, _SENTENCE),
        sections=[(_cut(each), _rows_left_out(each)) for each in summary.sections],
    )


def summary_markdown(summary: Summary) -> str:
    """The same as Markdown."""
    about = f": {escaped(shortened(summary.about, _SENTENCE))}" if summary.about else ""
    lines = [f"**{escaped(summary.title)}**{about}", ""]
    for section in summary.sections:
        lines += _markdown_lines(_cut(section), more=_rows_left_out(section))
    return "\n".join(lines).rstrip() + "\n"


def _markdown_lines(section: ReportSection, *, more: str) -> Iterator[str]:
    def row(cells: Sequence[str]) -> str:
        return f"| {' | '.join(map(escaped, cells))} |"

    match section:
        case Heading():
            yield from ("", f"**{escaped(section.title)}**", "")
        case Fact():
            yield f"- {escaped(section.label)}: {escaped(section.text)}"
        case Table():
            yield from ("", row(section.head), f"|{' --- |' * len(section.head)}", *map(row, section.rows), "")
            yield from (more, "") if more else ()
        case Points():
            yield from (escaped(section.lead), "") if section.lead else ()
            yield from (f"- {escaped(each)}" for each in section.items)
        case _:
            assert_never(section)


def _cut(section: ReportSection) -> ReportSection:
    """A section without the rows that are too many, and with long texts cut."""
    match section:
        case Heading():
            return section
        case Fact():
            return Fact(label=section.label, text=shortened(section.text, _SENTENCE))
        case Table():
            rows = tuple(tuple(shortened(cell, _CELL) for cell in row) for row in section.rows[:_ROWS])
            return Table(head=section.head, rows=rows)
        case Points():
            items = tuple(shortened(_as_sentence(each), _SENTENCE) for each in section.items[:_ROWS])
            return Points(items=items, lead=shortened(section.lead, _SENTENCE))
        case _:
            assert_never(section)


def _rows_left_out(section: ReportSection) -> str:
    left = len(section.rows) - _ROWS if isinstance(section, Table) else 0
    return f"{counted(left, 'more row')}." if left > 0 else ""


def _as_sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '?', '!')) else '.'}"
