"""A run's page, formatted and colored in a terminal, and written as plain lines everywhere else."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, TextIO, assert_never

from flowdebate.cli.terminal.marks import Marks
from flowdebate.cli.terminal.screen import AskOnScreen, Screen, TextFlow, View
from flowdebate.service.runs import short_id
from flowdebate.ui.document import Document, Speaker, speakers_of
from flowdebate.ui.sections import (
    FLAGS,
    Card,
    Ending,
    Entry,
    Fact,
    Group,
    Heading,
    LiveSection,
    Output,
    OutputHeading,
    Piece,
    Points,
    Remark,
    ReportSection,
    Speaking,
    Table,
    Working,
)
from flowdebate.ui.statuses import STATUSES
from flowdebate.ui.text import as_json, in_line, printable

if TYPE_CHECKING:
    from flowdebate.evaluation.documents import Summary
    from flowdebate.service.channel import Update
    from flowdebate.ui.live import Live
    from flowdebate.ui.plan import Plan
    from flowdebate.ui.steps import Fork


_COLORS = ("cyan", "magenta", "yellow", "green", "blue", "red")
_SHORT = 300
"""Maximum length of a short fact, in characters: about three lines on a wide terminal."""
_STYLES = {"plain": "", "dim": "dim", "strong": "bold", "good": "bold green", "warning": "yellow"}
_RESET = "starting over: turns that came at the same time are now in a different order"


class Page:
    """Writer that prints the parts of a debate to `stream` in the order in which its methods are called.

    No escape codes are written if `stream` is not a terminal or if NO_COLOR is set. Text from models and users is
    indented or framed, so it cannot be mistaken for the page's own text.
    """

    def __init__(self, stream: TextIO, speakers: Sequence[Speaker], *, environ: Mapping[str, str] = os.environ) -> None:
        self.screen: Screen = Screen(stream, environ=environ)
        self._speakers = list(speakers)
        self._colors = {who.name: _COLORS[index % len(_COLORS)] for index, who in enumerate(self._speakers)}
        self._flow: TextFlow | None = None
        self._marks: Marks | None = None

    def subject(self, label: str, text: str) -> None:
        self.labeled(label, text, "bold", indent="")
        for speaker in self._speakers:
            if speaker.about:
                self.labeled(speaker.name, speaker.about, self.color(speaker.name))
            else:
                self.line(in_line(speaker.name), style=self.color(speaker.name), indent="  ")

    def color(self, name: str) -> str:
        """Return the style for a speaker's name."""
        return f"bold {self._colors.get(name, 'white')}"

    def show(self, section: LiveSection | ReportSection) -> None:  # noqa: C901, PLR0912 - one case for each kind
        match section:
            case Heading():
                self.heading(section.title)
            case Entry():
                self.speaker(section.name, section.about)
                self.text(section.text)
                self.end_text()
                if section.flag is not None:
                    self.remark(FLAGS[section.flag])
            case Fact():
                self._fact(section)
            case Group():
                self.line()
                self.labeled(section.label, section.text, "bold", indent="")
                for part in section.facts:
                    self._fact(part)
                if section.remark is not None:
                    self.line(in_line(section.remark), indent="  ")
            case Card():
                self.card(section.title, section.facts)
            case Output():
                self.output(section.value)
            case Remark():
                self.remark(section.text)
            case Speaking():
                self.speaker(section.name, section.about)
            case OutputHeading():
                self.output_heading()
            case Piece():
                self.text(section.text)
            case Ending():
                self.end_text()
            case Working():
                self.screen.working(section)
            case Table():
                self.line()
                self.columns([name.upper() for name in section.head], section.rows)
            case Points():
                for text in [*([section.lead] if section.lead else []), *(f"- {item}" for item in section.items)]:
                    self.line(in_line(text))
            case _:
                assert_never(section)

    def _fact(self, fact: Fact) -> None:
        text = fact.text
        if fact.short:
            text = " ".join(text.split())
            text = text if len(text) <= _SHORT else f"{text[: _SHORT - 1]}…"
        style = _STYLES[fact.tone] if fact.speaker is None else self.color(fact.speaker)
        self.labeled(fact.label, text, style, indent="" if fact.edge else "  ")

    def heading(self, title: str) -> None:
        self.line()
        if self.screen.is_terminal:
            from rich.rule import Rule
            from rich.text import Text

            self.screen.print(Rule(Text(title, "bold"), style="dim"))
        else:
            self.line(title)

    def speaker(self, name: str, description: str) -> None:
        """Announce the next speaker, with the stance or role unless the page header already shows it."""
        self.line()
        if description:
            self.labeled(name, description, self.color(name), indent="")
        else:
            self.line(f"{in_line(name).lstrip(' ')}:", style=self.color(name))

    def text(self, piece: str) -> None:
        """Write a chunk of a contribution or of the output."""
        if self._flow is None:
            self._flow = TextFlow(self.screen.write, indent="  ", width=self._wrap())
            self._marks = None if self.screen.console.color_system is None else Marks(self.screen.width - 2)
        for part, style in [(piece, "")] if self._marks is None else self._marks.feed(piece):
            self._flow.feed(part, style)
        self.screen.flush()

    def end_text(self) -> None:
        """End the current text, if any."""
        if self._flow is not None:
            for part, style in [] if self._marks is None else self._marks.feed("", last=True):
                self._flow.feed(part, style)
            self._flow.end()
            self._flow = None
            self.screen.flush()

    def remark(self, text: str) -> None:
        """Write a remark in brackets."""
        self.line(f"({in_line(text)})", style="dim", indent="  ")

    def card(self, title: str, facts: Sequence[Fact]) -> None:
        """Write a result in a frame, with blank lines around long facts.

        A fact with the same label as the title is written without its label.
        """
        self.line()
        if not self.screen.is_terminal:
            self.line(title)
            for fact in facts:
                self.labeled(fact.label, fact.text, "bold")
            return
        from rich.console import Group
        from rich.panel import Panel
        from rich.text import Text

        lines: list[Text] = []
        inside = self.screen.width - 6  # width inside the frame
        for index, fact in enumerate(facts):
            apart = "\n" if index and not (fact.short and facts[index - 1].short) else ""
            label = [] if fact.label == title else [(f"{in_line(fact.label)}: ", "bold")]
            text = re.sub(
                r"\n{3,}", "\n\n", printable(fact.text).strip("\n")
            )  # many blank lines in the frame would push the text below it out of view
            parts = [(part, f"{_STYLES[fact.tone]} {style}") for part, style in Marks(inside).feed(text, last=True)]
            lines.append(Text.assemble(apart, *label, *parts))
        self.screen.print(Panel(Group(*lines), title=Text(title, "bold"), border_style="green", padding=(1, 2)))

    def output(self, value: object) -> None:
        self.output_heading()
        self.text(value if isinstance(value, str) else as_json(value))
        self.end_text()

    def output_heading(self) -> None:
        self.line()
        self.line("Summary", style="bold")

    def ending(self, document: Document, *, hint: str = "") -> None:
        """State how an incomplete run ended, then write the notes, totals, run ID, seed and `hint`."""
        self.end_text()
        ending = STATUSES[document.status].ending
        if ending:
            count, one = document.contributions, document.UNIT
            self.line()
            self.line(f"{ending} after {count} complete {one if count == 1 else f'{one}s'}.", style="bold")
        if document.status == "limit" and document.error:
            self.line(in_line(document.error))
        for note in document.notes:
            self.line(in_line(note))
        if document.totals:
            self.line()
            self._facts(document.totals)
        run = [] if document.run_id is None else [f"Run: {in_line(document.run_id)}"]
        seed = [] if document.seed is None else [f"Seed: {document.seed}"]
        if run or seed:
            self._facts([*run, *seed, *([hint] if hint else [])])
        if document.fork is not None:
            self.fork(document.fork)

    def fork(self, fork: Fork) -> None:
        """Describe how a fork relates to its parent."""
        self._facts([f"Fork of {in_line(short_id(fork.parent))}: {fork.counts}"])

    def _facts(self, facts: Sequence[str]) -> None:
        """Write `facts`, fitting as many as possible on each line."""
        from rich.cells import cell_len

        between = " · " if self.screen.is_utf8 else "; "
        lines = [facts[0]]
        for fact in facts[1:]:
            longer = f"{lines[-1]}{between}{fact}"
            if self.screen.is_terminal and cell_len(longer) > self.screen.width:
                lines.append(fact)
            else:
                lines[-1] = longer
        for line in lines:
            self.line(line, style="dim")

    def summary(self, summary: Summary) -> None:
        if summary.subtitle:
            self.line(summary.subtitle, style="bold")
        for section in summary.sections:
            self.show(section)

    def columns(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Write a table; in a terminal, the last column is truncated to fit."""
        from rich.cells import cell_len
        from rich.text import Text

        table = [[in_line(cell) for cell in row] for row in rows]
        widths = [max(map(cell_len, column)) for column in zip(head, *table, strict=True)][:-1]
        for index, row in enumerate([head, *table]):
            cells = [cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=False)]
            line = Text("  ".join([*cells, row[-1]]), "" if index else "bold")
            if self.screen.is_terminal:
                line.truncate(self.screen.console.width, overflow="ellipsis")
            self.screen.console.print(line, soft_wrap=True)

    # Low-level writing

    def labeled(self, label: str, text: str, style: str, *, indent: str = "  ") -> None:
        """Write `text` after a label, indenting continuation lines more deeply than the label."""
        behind = " " + text.lstrip(" \t\n")
        self._set([(f"{in_line(label)}:", style), (behind, "")], indent=f"{indent}  ", first=indent)

    def line(self, text: str = "", *, style: str = "", indent: str = "") -> None:
        """Write the page's own text, as opposed to a speaker's words, on one or more lines."""
        indent += " " * (len(text) - len(text.lstrip(" ")))
        self._set([(text, style)], indent=indent, first=indent)

    def _set(self, texts: Sequence[tuple[str, str]], *, indent: str, first: str) -> None:
        """Write one paragraph of styled text."""
        self.end_text()
        written: list[tuple[str, str]] = []
        flow = TextFlow(lambda *piece: written.append(piece), indent=indent, first=first, width=self._wrap())
        for text, style in texts:
            flow.feed(text, style)
        flow.end()
        for style, pieces in groupby(written or [("\n", "")], key=itemgetter(1)):
            self.screen.write("".join(text for text, _ in pieces), style)
        self.screen.flush()

    def _wrap(self) -> Callable[[], int] | None:
        # A function, because the terminal may be resized while it is in use.
        return (lambda: self.screen.width) if self.screen.breaks_lines else None


def render(document: Document, page: Page) -> None:
    """Write a saved document as a page."""
    page.subject(document.label, document.subject)
    for section in document.sections():
        page.show(section)
    page.ending(document)


class LivePage(View):
    """Page that follows a run live."""

    def __init__(self, plan: Plan, stream: TextIO, *, head: Sequence[str] = (), quiet: bool = False) -> None:
        self._plan = plan
        self._page = Page(stream, speakers_of(plan.speakers))
        self._live: Live = plan.info.load_page().live(plan)
        self._quiet = quiet
        if isinstance(plan.ask, AskOnScreen):
            plan.ask.screen = self._page.screen
        if not quiet:
            for line in filter(None, head):
                self._page.line(line, style="dim")
            self._page.subject(plan.info.subject.capitalize(), plan.subject)

    async def follow(self, updates: AsyncIterator[Update]) -> None:
        """Show a run's progress until it ends; raise WriteFailed if the output cannot be written."""
        if self._quiet:
            return await super().follow(updates)
        screen = self._page.screen
        with screen.live():
            ticking = asyncio.ensure_future(screen.ticking())
            try:
                async for update in updates:
                    if update.kind == "reset":
                        self._page.end_text()
                        self._page.line()
                        self._page.remark(_RESET)
                        self._live = self._plan.info.load_page().live(self._plan)
                    elif update.event is not None:
                        for section in self._live.follow(update.event):
                            self._page.show(section)
            finally:
                ticking.cancel()
                self._page.end_text()

    def show_cursor(self) -> None:
        """Show the terminal's cursor again; may be called from a signal handler."""
        self._page.screen.show_cursor()

    def finish(self, document: Document, *, hint: str = "") -> None:
        """Show the result and the totals."""
        self._page.end_text()
        for section in document.outcome() if self._quiet else document.result():
            self._page.show(section)
        self._page.ending(document, hint=hint)
