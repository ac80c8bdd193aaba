"""Page of a run: laid out and coloured in a terminal, plain lines anywhere else."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, TextIO, assert_never

from flowdebate.cli.flow import TextFlow
from flowdebate.cli.process import writing
from flowdebate.service.documents import as_json, speakers_of
from flowdebate.service.sections import (
    FLAGS,
    Card,
    Ending,
    Entry,
    Fact,
    Group,
    Heading,
    Notice,
    Output,
    OutputHeading,
    Piece,
    Remark,
    Section,
    Speaking,
)
from flowdebate.service.text import in_line, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rich.console import Console, RenderableType

    from flowdebate.runs.result import RunHandle
    from flowdebate.service.documents import Document, Speaker, Tokens
    from flowdebate.service.plan import Plan

__all__ = ("LivePage", "Page", "render")

_COLOURS = ("cyan", "magenta", "yellow", "green", "blue", "red")
_WIDEST = 100
"""Columns beyond which lines are hard to read."""
_SHORT = 300
"""Characters of a short fact that are shown."""
_STYLES = {"plain": "", "dim": "dim", "strong": "bold", "good": "bold green", "warning": "yellow"}
ENDINGS = {
    "degraded": "Ended with something missing,",
    "no_verdict": "Ended without a verdict,",
    "interrupted": "Interrupted",
    "limit": "Ended by a limit",
    "failed": "Failed",
}
"""Endings other than complete."""


class Page:
    """Writes the parts of a debate to `stream`, in the order in which it is called.

    No escape code is written where `stream` is no terminal, and none in a terminal under NO_COLOR. What others wrote
    is indented (or in a frame), so that it cannot pass for the page's own words.
    """

    def __init__(self, stream: TextIO, speakers: Sequence[Speaker], *, environ: Mapping[str, str] = os.environ) -> None:
        self._console = _console(stream, environ)
        self._speakers = list(speakers)
        self._colours = {who.name: _COLOURS[index % len(_COLOURS)] for index, who in enumerate(self._speakers)}
        self._flow: TextFlow | None = None
        self._notice: str | None = None

    def subject(self, label: str, text: str) -> None:
        """The subject and the speakers."""
        self.labelled(label, text, "bold", indent="")
        for speaker in self._speakers:
            if speaker.about:
                self.labelled(speaker.name, speaker.about, self.colour(speaker.name))
            else:
                self.line(f"  {in_line(speaker.name)}", style=self.colour(speaker.name))

    def colour(self, name: str) -> str:
        """The style of a speaker's name."""
        return f"bold {self._colours.get(name, 'white')}"

    def show(self, section: Section) -> None:  # noqa: C901, PLR0912 - one case for each kind
        """Write a section."""
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
                self._group(section)
            case Card():
                self._card(section)
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
            case Notice():
                self.notice(section.text)
            case _:
                assert_never(section)

    def _fact(self, fact: Fact) -> None:
        text = fact.text
        if fact.short:
            text = " ".join(text.split())
            text = text if len(text) <= _SHORT else f"{text[: _SHORT - 1]}…"
        style = _STYLES[fact.tone] if fact.speaker is None else self.colour(fact.speaker)
        self.labelled(fact.label, text, style, indent="" if fact.edge else "  ")

    def _group(self, group: Group) -> None:
        self.line()
        self.labelled(group.label, group.text, "bold", indent="")
        for part in group.parts:
            self._fact(part)
        if group.remark is not None:
            self.line(f"  {in_line(group.remark)}")

    def _card(self, card: Card) -> None:
        self.card(card.title, [(fact.label, fact.text, _STYLES[fact.tone]) for fact in card.facts])

    def heading(self, title: str) -> None:
        """A heading."""
        self.line()
        if self._console.is_terminal:
            from rich.rule import Rule
            from rich.text import Text

            self._print(Rule(Text(title, "bold"), style="dim"), width=self._width())
        else:
            self.line(title)

    def speaker(self, name: str, about: str) -> None:
        """The next speaker, with its stance or role."""
        self.line()
        if about:
            self.labelled(name, about, self.colour(name), indent="")
        else:
            self.line(f"{in_line(name)}:", style=self.colour(name))

    def text(self, piece: str) -> None:
        """A piece of a contribution or of the output."""
        if self._flow is None:
            self._clear_notice()
            self._flow = TextFlow(self._write, indent="  ", width=self._wrap())
        self._flow.feed(piece)
        self._flush()

    def end_text(self) -> None:
        """End the text that `text` started, if any."""
        self._clear_notice()
        if self._flow is not None:
            self._flow.end()
            self._flow = None
            self._flush()

    def notice(self, text: str) -> None:
        """A transient line, in a terminal only; the next output replaces it."""
        shown = self._notice == text and self._flow is None
        if not shown and self._console.is_terminal and self._console.color_system is not None:
            from rich.text import Text

            self.end_text()
            line = Text(f"  {in_line(text)}", "dim")
            line.truncate(self._width() - 1, overflow="ellipsis")  # what takes two lines could not be taken back
            self._console.print(line, end="")
            self._notice = text

    def remark(self, text: str) -> None:
        """A remark of the page itself, in brackets."""
        self._clear_notice()
        self.line(f"  ({in_line(text)})", style="dim")

    def card(self, title: str, parts: Sequence[tuple[str, str, str]]) -> None:
        """A result in a frame: `parts` are label, text, style; one of the title's name needs no label there."""
        self.line()
        if not self._console.is_terminal:
            self.line(title)
            for label, text, _ in parts:
                self.labelled(label, text, "bold")
            return
        from rich.console import Group
        from rich.panel import Panel
        from rich.text import Text

        shown: list[Text] = []
        for label, text, style in parts:
            before = "\n" if shown and (label == title or shown[-1].plain.endswith("\n")) else ""
            own = [] if label == title else [(f"{in_line(label)}: ", "bold")]
            shown.append(Text.assemble(before, *own, (_squeezed(text), style)))
        body = Group(*shown)
        self._print(Panel(body, title=Text(title, "bold"), border_style="green", padding=(1, 2)), width=self._width())

    def output(self, value: object) -> None:
        """The output."""
        self.output_heading()
        self.text(value if isinstance(value, str) else as_json(value))
        self.end_text()

    def output_heading(self) -> None:
        """The heading of the output."""
        self.line()
        self.line("Output", style="bold")

    def totals(self, usage: Tokens | None, seconds: float | None, seed: int | None) -> None:
        """Usage, duration and seed, as far as they are known."""
        if usage is None and seconds is None and seed is None:
            return
        parts = []
        self.line()
        if usage is not None:
            tokens, calls = usage.lines()
            self.line(tokens, style="dim")
            parts.append(calls)
        if seconds is not None:
            parts.append(f"Time: {seconds:.1f} s")
        if seed is not None:
            parts.append(f"Seed: {seed}")
        if parts:
            self.line(" · ".join(parts) if self._utf8 else "; ".join(parts), style="dim")

    def ending(self, document: Document) -> None:
        """The ending, unless complete; notes and totals."""
        self.end_text()
        ending = ENDINGS.get(document.status)
        if ending is not None:
            count, one = document.contributions, document.UNIT
            self.line()
            self.line(f"{ending} after {count} complete {one if count == 1 else f'{one}s'}.", style="bold")
        if document.status == "limit" and document.error:
            self.line(in_line(document.error))
        for note in document.notes:
            self.line(in_line(note))
        self.totals(document.usage, document.seconds, document.seed)
        if document.run_id is not None:
            self.line(f"Run: {in_line(document.run_id)}", style="dim")

    def columns(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A table; in a terminal its last column is cut to the width."""
        from rich.cells import cell_len

        table = [[in_line(cell) for cell in row] for row in rows]
        widths = [max(map(cell_len, column)) for column in zip(head, *table, strict=True)][:-1]
        for index, row in enumerate([head, *table]):
            cells = [cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=False)]
            self._cut_line("  ".join([*cells, row[-1]]), style="" if index else "bold")

    def _cut_line(self, text: str, *, style: str) -> None:
        from rich.text import Text

        line = Text(text, style)
        if self._console.is_terminal:
            line.truncate(self._console.width, overflow="ellipsis")
        self._console.print(line, soft_wrap=True)

    # How it is written

    @property
    def _utf8(self) -> bool:
        return self._console.encoding.startswith("utf")

    def labelled(self, label: str, text: str, style: str, *, indent: str = "  ") -> None:
        """`text` behind a label; its further lines are indented deeper than the label."""
        from rich.cells import cell_len

        head = f"{indent}{in_line(label)}: "
        self.line(head, style=style, end="")
        flow = TextFlow(self._write, indent=f"{indent}  ", width=self._wrap(), column=cell_len(head))
        flow.feed(text)
        flow.end()
        self._flush()

    def line(self, text: str = "", *, style: str = "", end: str = "\n") -> None:
        """A line of the page's own words."""
        from rich.text import Text

        self.end_text()
        self._console.print(Text(text, style), end=end, soft_wrap=True)

    def _print(self, renderable: RenderableType, *, width: int) -> None:
        self.end_text()
        self._console.print(renderable, width=width)

    def _write(self, text: str) -> None:
        self._console.file.write(text)

    def _flush(self) -> None:
        self._console.file.flush()

    def _clear_notice(self) -> None:
        if self._notice is not None:
            from rich.control import Control
            from rich.segment import ControlType

            self._notice = None
            self._console.control(Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2)))

    def _width(self) -> int:
        return min(self._console.width, _WIDEST)

    def _wrap(self) -> Callable[[], int] | None:
        return self._width if self._console.is_terminal else None


def render(document: Document, page: Page) -> None:
    """Write a saved document."""
    page.subject(document.label, document.subject)
    for section in document.sections():
        page.show(section)
    page.ending(document)


class LivePage:
    """Live page of a run."""

    def __init__(self, plan: Plan, stream: TextIO) -> None:
        own = plan.info.load_page()
        self._page = Page(stream, speakers_of(plan.speakers))
        self._live = own.live(plan)
        self._page.subject(plan.info.subject.capitalize(), plan.subject)

    async def follow(self, handle: RunHandle[Any]) -> None:
        """Show the events of a run to its end; WriteFailed where they cannot be shown."""
        self._live.attend(handle)
        async for event in handle:
            with writing():
                for section in self._live.sections(event):
                    self._page.show(section)

    def finish(self, document: Document) -> None:
        """Show the result and the totals."""
        self._page.end_text()
        for section in document.result():
            self._page.show(section)
        self._page.ending(document)


def _console(stream: TextIO, environ: Mapping[str, str]) -> Console:
    from rich.console import Console

    class Loud(Console):
        """A console whose broken pipe is the caller's to handle."""

        def on_broken_pipe(self) -> None:
            raise  # noqa: PLE0704 - rich calls this while it handles the BrokenPipeError

    terminal = stream.isatty()
    plain = not terminal or bool(environ.get("NO_COLOR")) or environ.get("TERM") == "dumb"
    return Loud(
        file=stream,
        force_terminal=terminal,
        color_system=None if plain else "auto",
        markup=False,
        highlight=False,
        emoji=False,
        _environ=environ,
    )


def _squeezed(text: str) -> str:
    """`text` for a frame: escaped, with at most one blank line in a row."""
    return re.sub(r"\n{3,}", "\n\n", printable(text).strip("\n"))
