"""The page that a debate is written on: laid out and coloured in a terminal, plain lines anywhere else."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, TextIO

from flowdebate.cli.document import as_json, winner_of
from flowdebate.cli.flow import TextFlow
from flowdebate.cli.text import in_line, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rich.console import Console, RenderableType

    from flowdebate.cli.document import DebateDocument, Side, Tokens
    from flowdebate.runs.events import ToolCalled
    from flowdebate.schemas import DebateLoss, DebateModeratorDecision, DebateVerdict, Instead

__all__ = ("Page", "render")

_COLOURS = ("cyan", "magenta", "yellow", "green", "blue", "red")
_WIDEST = 100
"""Columns beyond which lines are hard to read."""
_TOOL_SHOWN = 200
"""Characters of a tool's arguments and result that are shown."""


ENDINGS = {
    "degraded": "Ended without all that was due,",
    "no_verdict": "Ended without a verdict,",
    "interrupted": "Interrupted",
    "limit": "Ended by a limit",
    "failed": "Failed",
}
"""What is said of a debate that did not end as it should."""

INSTEAD: Mapping[Instead, str] = {
    "skipped": "the turn is left out",
    "stand_in": "a stand-in argues",
    "declared_order": "all speak in declared order",
    "no_verdict": "there is no verdict",
    "no_output": "there is no output",
    "no_report": "the round has no report",
    "drawn": "the next speaker is drawn by lot",
}
"""What is done without a seat's answer."""


class Page:
    """Writes the parts of a debate to `stream`, in the order in which it is called.

    No escape code is written where `stream` is no terminal, and none in a terminal under NO_COLOR. What others wrote
    stands behind an indent (or in a frame), so that it cannot pass for the page's own words.
    """

    def __init__(self, stream: TextIO, sides: Sequence[Side], *, environ: Mapping[str, str] = os.environ) -> None:
        self._console = _console(stream, environ)
        self._sides = list(sides)
        self._colours = {side.name: _COLOURS[index % len(_COLOURS)] for index, side in enumerate(self._sides)}
        self._flow: TextFlow | None = None
        self._notice = False

    def question(self, question: str) -> None:
        """What is debated, and by whom."""
        self._labelled("Question", question, "bold", indent="")
        for side in self._sides:
            role = "" if side.role is None else f" ({side.role})"
            self._labelled(side.name, side.stance + role, f"bold {self._colours[side.name]}")

    def round(self, number: int, max_rounds: int | None) -> None:
        """The heading of a round."""
        title = f"Round {number}" if max_rounds is None else f"Round {number} of {max_rounds}"
        self._line()
        if self._console.is_terminal:
            from rich.rule import Rule
            from rich.text import Text

            self._print(Rule(Text(title, "bold"), style="dim"), width=self._width())
        else:
            self._line(title)

    def decision(self, decision: DebateModeratorDecision) -> None:
        """What the moderator decided."""
        self._line()
        speakers = ", ".join(decision.next_speakers) or "nobody"
        self._labelled("Moderator calls on", speakers, "bold", indent="")
        if decision.briefing:
            self._labelled("Briefing", decision.briefing, "dim")
        if decision.new_angle:
            self._labelled("Angle", decision.new_angle, "dim")
        if decision.done:
            self._line("  This round is the last.")

    def speaker(self, name: str, stance: str) -> None:
        """Who argues now."""
        self._line()
        self._labelled(name, stance, f"bold {self._colours.get(name, 'white')}", indent="")

    def text(self, piece: str) -> None:
        """A piece of an argument, or of the synthesizer's text."""
        if self._flow is None:
            self._clear_notice()
            self._flow = TextFlow(self._write, indent="  ", width=self._wrap())
        self._flow.feed(piece)
        self._flush()

    def end_text(self) -> None:
        """The end of what `text` has begun, if it has."""
        self._clear_notice()
        if self._flow is not None:
            self._flow.end()
            self._flow = None
            self._flush()

    def notice(self, text: str) -> None:
        """Something to look at while nothing else comes; it goes when something does."""
        if self._console.is_terminal and self._console.color_system is not None:
            from rich.text import Text

            self.end_text()
            self._console.print(Text(f"  {text}", "dim"), end="")
            self._notice = True

    def remark(self, text: str) -> None:
        """The page's own word on what was just shown."""
        self._clear_notice()
        self._line(f"  ({in_line(text)})", style="dim")

    def loss(self, seat: str, name: str, why: str, instead: Instead) -> None:
        """What a provider lost, and what is done without it."""
        self.end_text()
        self._labelled(f"{seat.capitalize()} {name} was lost", f"{why}; {INSTEAD[instead]}", "yellow")

    def tool(self, call: ToolCalled) -> None:
        """A tool that was called."""
        self.end_text()
        shown = f"{call.tool}({_cut(call.arguments)}) = {_cut(call.result)}"
        self._labelled("Tool", shown, "dim")

    def verdict(self, verdict: DebateVerdict) -> None:
        """What the judge found."""
        self._line()
        winner = winner_of(verdict, self._sides)
        if not self._console.is_terminal:
            self._line("Verdict")
            self._labelled("Winner", winner, "bold")
            self._labelled("Verdict", verdict.verdict, "bold")
            self._labelled("Reasoning", verdict.reasoning, "bold")
            return
        from rich.console import Group
        from rich.panel import Panel
        from rich.text import Text

        parts = (
            Text.assemble(("Winner: ", "bold"), (_squeezed(winner), "bold green")),
            Text("\n" + _squeezed(verdict.verdict) + "\n"),
            Text.assemble(("Reasoning: ", "bold"), _squeezed(verdict.reasoning)),
        )
        card = Panel(Group(*parts), title=Text("Verdict", "bold"), border_style="green", padding=(1, 2))
        self._print(card, width=self._width())

    def output(self, value: object) -> None:
        """What the synthesizer made."""
        self.output_heading()
        self.text(value if isinstance(value, str) else as_json(value))
        self.end_text()

    def output_heading(self) -> None:
        """What stands over it."""
        self._line()
        self._line("Output", style="bold")

    def totals(self, usage: Tokens | None, seconds: float | None, seed: int | None) -> None:
        """What it took; nothing is said of what is not known at all."""
        if usage is None and seconds is None and seed is None:
            return
        parts = []
        self._line()
        if usage is not None:
            tokens, calls = usage.told()
            self._line(tokens, style="dim")
            parts.append(calls)
        if seconds is not None:
            parts.append(f"Time: {seconds:.1f} s")
        if seed is not None:
            parts.append(f"Seed: {seed}")
        if parts:
            self._line(" · ".join(parts) if self._utf8 else "; ".join(parts), style="dim")

    def ending(self, document: DebateDocument) -> None:
        """How it ended, if not as it should."""
        self.end_text()
        ending = ENDINGS.get(document.status)
        if ending is not None:
            count = len(document.raw.transcript)
            arguments = "1 complete argument" if count == 1 else f"{count} complete arguments"
            self._line()
            self._line(f"{ending} after {arguments}.", style="bold")
        if document.status == "limit" and document.error:
            self._line(document.error)

    # How it is written

    @property
    def _utf8(self) -> bool:
        return self._console.encoding.startswith("utf")

    def _labelled(self, label: str, text: str, style: str, *, indent: str = "  ") -> None:
        """`text` behind a label; its further lines stand deeper than the label."""
        from rich.cells import cell_len

        head = f"{indent}{in_line(label)}: "
        self._line(head, style=style, end="")
        flow = TextFlow(self._write, indent=f"{indent}  ", width=self._wrap(), column=cell_len(head))
        flow.feed(text)
        flow.end()
        self._flush()

    def _line(self, text: str = "", *, style: str = "", end: str = "\n") -> None:
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
        if self._notice:
            from rich.control import Control
            from rich.segment import ControlType

            self._notice = False
            self._console.control(Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2)))

    def _width(self) -> int:
        return min(self._console.width, _WIDEST)

    def _wrap(self) -> Callable[[], int] | None:
        return self._width if self._console.is_terminal else None


def render(document: DebateDocument, page: Page) -> None:
    """Write all of a saved debate."""
    raw = document.raw
    page.question(raw.question)
    for number in document.rounds:
        page.round(number, document.max_rounds)
        for decision in raw.moderator_decisions:
            if decision.round == number:
                page.decision(decision)
        for entry in raw.transcript:
            if entry.round == number:
                page.speaker(entry.agent_name, entry.stance)
                page.text(entry.text)
                page.end_text()
        _render_losses(page, [loss for loss in raw.losses if loss.round == number and loss.seat not in _AT_THE_END])
    _render_losses(page, [loss for loss in raw.losses if loss.seat in _AT_THE_END])
    if raw.verdict is not None:
        page.verdict(raw.verdict)
    if document.output is not None:
        page.output(document.output)
    page.ending(document)
    page.totals(document.usage, document.seconds, document.seed)


_AT_THE_END = ("judge", "synthesizer")
"""Seats that have their turn after all rounds."""


def _render_losses(page: Page, losses: Sequence[DebateLoss]) -> None:
    for loss in losses:
        page.loss(loss.seat, loss.name, loss.error, loss.instead)


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
    """`text` as a frame shows it: printable, without many blank lines."""
    return re.sub(r"\n{3,}", "\n\n", printable(text).strip("\n"))


def _cut(text: str) -> str:
    return text if len(text) <= _TOOL_SHOWN else f"{text[:_TOOL_SHOWN]}… ({len(text):,})"
