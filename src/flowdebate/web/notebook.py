"""HTML for notebooks: run reports in frames, live pages for runs in progress, and summaries of evaluations.

`RunView`, `Document` and evaluation reports use this module for IPython's display methods. If rendering fails, no error
is raised, and the notebook shows the object's repr.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, assert_never, cast

from flowdebate._text import counted
from flowdebate.errors import BadFile
from flowdebate.evaluation.documents import Summary, lay_out
from flowdebate.runs.events import RunFinished
from flowdebate.runs.header import result_of
from flowdebate.runs.result import RunHandle, RunResult, RunView
from flowdebate.ui.document import Document, Tokens, document_of, read_models, read_remarks
from flowdebate.ui.live import Live, tokens_text
from flowdebate.ui.markdown import escaped, report
from flowdebate.ui.sections import (
    Card,
    Entry,
    Fact,
    Group,
    Heading,
    Output,
    Points,
    Remark,
    ReportSection,
    Section,
    Table,
)
from flowdebate.ui.statuses import status_text
from flowdebate.ui.text import as_json, cost_text
from flowdebate.web.report import document_html
from flowdebate.web.run.sheet import Party, Sheet
from flowdebate.web.templates import render, style_of

_LOG = logging.getLogger(__name__)
_MAX_EVENTS = 20_000
"""Maximum number of events; if a run has more, its task board is not shown."""
_MAX_SIZE = 3_000_000
"""Maximum length of a report in a notebook, in characters; a longer report is replaced by a summary."""
_LIVE, _LIVE_TEXT = 40_000, 8_000
"""Maximum lengths of a live page and of the text still being written on it, in characters."""


def html_of(value: object) -> str | None:
    """Render `value` as HTML for a notebook; return None if there is nothing to show or rendering fails."""
    try:
        value = _ended(value)
        if isinstance(value, RunView) and value.status in ("running", "awaiting"):
            return live_html(value)
        if isinstance(value, (Document, RunView)):
            if (frame := frame_of(value)) is not None:
                return frame
            summary = _state(value)
        else:
            summary = lay_out(value)
        return None if summary is None else summary_html(summary)
    except Exception:  # noqa: BLE001 - whatever a block of the application has left behind, a notebook shows something
        _LOG.debug("no page for a notebook", exc_info=True)
        return None


def markdown_of(value: object) -> str | None:
    """Render `value` as Markdown; return None if there is nothing to show or rendering fails."""
    try:
        return _markdown(_ended(value))
    except Exception:  # noqa: BLE001 - see html_of
        _LOG.debug("no page for a notebook", exc_info=True)
        return None


def _markdown(value: object) -> str | None:
    if not isinstance(value, (Document, RunView)):
        summary = lay_out(value)
        return None if summary is None else summary_markdown(summary)
    try:
        document = value if isinstance(value, Document) else document_of_view(value)
    except BadFile:
        state = _state(value)
        return None if state is None else summary_markdown(state)
    text = report(document, sections=excerpt(document.sections()))
    if waits := _waits(value):
        text = f"{text}- {escaped(waits)}\n"
    return text if len(text) <= _MAX_SIZE else summary_markdown(_in_short(document))


def _ended(value: object) -> object:
    """Return the run's result if `value` is the handle of a finished run; otherwise, return `value` itself."""
    if isinstance(value, RunHandle) and (result := value.result_if_done()) is not None:
        return result
    return value


# Finished runs


def frame_of(value: RunView | Document) -> str | None:
    """Render a report on a run or a document as HTML for a notebook; return None for a run without a pattern.

    The report is sandboxed, so it cannot run code or change the notebook's appearance. If the notebook is not trusted,
    its viewer omits the frame and shows a summary instead.
    """
    try:
        document = value if isinstance(value, Document) else document_of_view(value)
    except BadFile:
        return None
    events = () if isinstance(value, Document) or len(value.events) > _MAX_EVENTS else value.events
    page = document_html(document, events, sections=excerpt(document.sections()))
    short = summary_html(_in_short(document))
    return short if len(page) > _MAX_SIZE else render("notebook/frame", page=page, summary=short)


def document_of_view(run: RunView) -> Document:
    """Build a run's document as it currently stands; raise BadFile if the run has no pattern or has not started."""
    raw = run.raw_so_far
    output = run.output if isinstance(run, RunResult) else raw
    result, location = result_of(raw, output), f"run {run.run_id}"
    if not isinstance(result["raw"], dict):
        raise BadFile(location, "has no document: it is not a run of a pattern, or it has not started")
    document = document_of(cast("dict[str, Any]", result["raw"]), location=location)
    facts = {
        "status": run.status,
        "error": _error(run),
        "models": read_models(run.models),
        "remarks": read_remarks(run.remarks),
        "usage": Tokens.of(run.usage),
        "cost": run.cost,
        "prices": run.prices,
        "seconds": run.seconds,
        "run_id": run.run_id,
        "output": None if result["output"] == result["raw"] else result["output"],
    }
    return document.model_copy(
        update={name: fact for name, fact in facts.items() if name in type(document).model_fields}
    )


def _error(run: RunView) -> str | None:
    last = run.events[-1] if run.events else None
    return last.error if isinstance(last, RunFinished) else None


def _waits(value: object) -> str:
    """Describe whom a suspended run is waiting for; return "" for other runs."""
    pending = value.pending if isinstance(value, RunView) and value.status == "awaiting" else ()
    names = ", ".join(dict.fromkeys(request.block for request in pending))
    return f"The run waits for an answer from {names}." if names else ""


def _in_short(document: Document) -> Summary:
    """Summarize a document in a few lines: question, status and result."""
    card = next((section for section in document.sections() if isinstance(section, Card)), None)
    facts = [] if card is None else [fact for fact in card.facts if fact.label in (card.lead, "Winner")]
    points = [f"{fact.label}: {fact.text}" for fact in facts] or [status_text(document.status)]
    points = [document.raw.incomplete, *points] if document.raw.incomplete else points
    subject = shortened(document.subject, _MAX_TEXT_LENGTH)
    return Summary(title=document.title, subtitle=subject, sections=(Points(items=tuple(points)),))


def _state(value: object) -> Summary | None:
    """Summarize the state of a run that has no document.

    Return None for anything other than a run. Also return None for a result, whose repr is more informative, unless the
    run is waiting for a person.
    """
    if not isinstance(value, RunView) or (isinstance(value, RunResult) and value.status != "awaiting"):
        return None
    facts = (("Error", _error(value)), ("", _waits(value)))
    facts_shown = tuple(f"{label}: {text}" if label else text for label, text in facts if text)
    return Summary(
        title=f"Run {value.run_id}", subtitle="; ".join(_numbers(value)), sections=(Points(items=facts_shown),)
    )


def _numbers(run: RunView) -> Iterator[str]:
    yield status_text(run.status)
    yield f"{run.usage.calls:,} {'call' if run.usage.calls == 1 else 'calls'}"
    yield from filter(None, [tokens_text(run.usage)])
    if run.cost is not None:
        yield f"cost {cost_text(run.cost, run.prices, complete=True)}"


# Runs in progress, and suspended runs


def live_html(run: RunView, live: Live | None = None) -> str:
    """Render the state of `live`, a run in progress or suspended, as HTML in the notebook's style.

    No frame is used, because on each update a frame would briefly go blank and lose its scroll position.
    """
    live_state = live if live is not None and run.status == "running" else Live()
    if live is None and run.status == "running":
        for event in (*run.events, *run.calls_in_progress):
            live_state.take(event)
    try:
        document = document_of_view(run)
        sheet = Sheet.of(document, sections=excerpt(document.sections(), maximum=_LIVE, longest=_LIVE_TEXT))
    except BadFile:
        sheet = None
    names = {} if sheet is None else sheet.names
    speaking = [
        (
            names.get(turn.agent_name) or Party(name=turn.agent_name, about=turn.stance or "", number=number),
            # the end of the text, because it is still growing
            text[-_LIVE_TEXT:],
        )
        for number, (turn, text) in enumerate(live_state.speaking, len(names))
    ]
    at = [] if live_state.round is None else [f"round {live_state.round.round} of {live_state.round.max_rounds}"]
    facts = [*at, *list(_numbers(run))[1:]]
    context: dict[str, Any] = {
        "facts": facts,
        "speaking": speaking,
        "work": live_state.describe_other_roles,
        "waits": _waits(run),
    }
    return render("notebook/live", sheet=sheet, run=run, style=style_of("notebook/style.css"), **context)


# Excerpts: sections cut to a size that fits in a notebook

_MAX_TEXT_LENGTH = 20_000
"""Maximum length of a single piece of text, in characters."""
_MAX_EXCERPT_LENGTH = 300_000
"""Maximum total length of the contributions, in characters."""


def excerpt(
    sections: Iterable[Section], *, maximum: int = _MAX_EXCERPT_LENGTH, longest: int = _MAX_TEXT_LENGTH
) -> list[Section]:
    """Shorten long text in sections, and omit contributions from the middle if the total is too long.

    The first and last contributions and all results are kept. A remark states how many contributions were omitted.
    """
    cut = [_cut_section(section, longest) for section in sections]
    spoken = [place for place, section in enumerate(cut) if isinstance(section, (Entry, Group))]
    first, last = _middle([_size(cut[place]) for place in spoken], maximum)
    if first > last:
        return cut
    start, end = spoken[first], spoken[last] + 1
    remark = Remark(text=f"{counted(last + 1 - first, 'contribution')} not shown here; the run has all of them")
    headings = [section for section in cut[start:end] if isinstance(section, Heading)]
    next_heading = headings[-1:] if end < len(cut) and not isinstance(cut[end], Heading) else []
    results = [section for section in cut[start:end] if isinstance(section, (Card, Output))]
    return [*cut[:start], remark, *next_heading, *results, *cut[end:]]


def shortened(text: str, longest: int) -> str:
    """Shorten `text` to a maximum length, appending its original length in parentheses.

    >>> shortened("a" * 2_000, 5)
    'aaaa… (2,000 characters)'
    """
    return text if len(text) <= longest else f"{text[: longest - 1]}… ({len(text):,} characters)"


def _middle(sizes: Sequence[int], maximum: int) -> tuple[int, int]:
    """Find the first and last index to omit from the middle, so that the rest has at most `maximum` characters."""
    first, last, used, at_front = 0, len(sizes) - 1, 0, True
    while first <= last:
        used += sizes[first if at_front else last]
        if used > maximum:
            break
        first, last = (first + 1, last) if at_front else (first, last - 1)
        at_front = not at_front
    return first, last


def _size(section: Section) -> int:
    """Estimate the size of a section: its characters, plus an allowance for the page's markup."""
    if not isinstance(section, (Entry, Group)):
        return 0
    facts = section.facts if isinstance(section, Group) else ()
    return len(section.text) + sum(len(fact.text) for fact in facts) + 500 * (1 + len(facts))


def _cut_section(section: Section, longest: int) -> Section:  # noqa: PLR0911 - one case for each kind
    match section:
        case Entry():
            if len(section.text) <= longest:
                return section
            text = shortened(section.text, longest)
            return replace(section, text=text, quotes=tuple(quote for quote in section.quotes if quote.end < longest))
        case Fact():
            return replace(section, text=shortened(section.text, longest))
        case Group():
            facts = tuple(replace(fact, text=shortened(fact.text, longest)) for fact in section.facts[:_FACTS])
            return replace(section, text=shortened(section.text, longest), facts=facts)
        case Card():
            facts = tuple(replace(fact, text=shortened(fact.text, longest)) for fact in section.facts)
            return replace(section, facts=facts)
        case Output():
            text = section.value if isinstance(section.value, str) else as_json(section.value)
            return section if len(text) <= longest else Output(value=shortened(text, longest))
        case Heading() | Remark():
            return section
        case _:
            assert_never(section)


_FACTS = 200
"""Maximum number of facts shown for each statement."""


# Summaries of evaluations, and of values without a page

_ROWS = 100
"""Maximum number of rows shown in a table; the others are only counted, to keep notebooks small enough for email and
version control.
"""
_CELL, _SENTENCE = 300, 2_000
"""Maximum lengths of a table cell and of a sentence, in characters."""


def summary_html(summary: Summary) -> str:
    """Render a summary as HTML in the notebook's own style."""
    return render(
        "notebook/summary",
        title=summary.title,
        subtitle=shortened(summary.subtitle, _SENTENCE),
        sections=[(_cut_row(section), _omitted_rows_note(section)) for section in summary.sections],
    )


def summary_markdown(summary: Summary) -> str:
    """Render a summary as Markdown."""
    suffix = f": {escaped(shortened(summary.subtitle, _SENTENCE))}" if summary.subtitle else ""
    lines = [f"**{escaped(summary.title)}**{suffix}", ""]
    for section in summary.sections:
        lines += _markdown_lines(_cut_row(section), more=_omitted_rows_note(section))
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
            yield from (f"- {escaped(item)}" for item in section.items)
        case _:
            assert_never(section)


def _cut_row(section: ReportSection) -> ReportSection:
    """Omit a section's excess rows or items, and shorten long text."""
    match section:
        case Heading():
            return section
        case Fact():
            return Fact(label=section.label, text=shortened(section.text, _SENTENCE))
        case Table():
            rows = tuple(tuple(shortened(cell, _CELL) for cell in row) for row in section.rows[:_ROWS])
            return Table(head=section.head, rows=rows)
        case Points():
            # Not capitalized, because many items begin with the name of a model or system.
            items = tuple(shortened(item, _SENTENCE) for item in section.items[:_ROWS])
            return Points(items=items, lead=shortened(section.lead, _SENTENCE))
        case _:
            assert_never(section)


def _omitted_rows_note(section: ReportSection) -> str:
    rows_left = len(section.rows) - _ROWS if isinstance(section, Table) else 0
    return f"{counted(rows_left, 'more row')}." if rows_left > 0 else ""
