"""Progress of a batch on stderr, and its summary."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from flowdebate.cli.terminal.process import tell
from flowdebate.cli.terminal.screen import Screen, duration
from flowdebate.errors import error_text
from flowdebate.service.documents.live import cost_text
from flowdebate.service.documents.sections import Fact
from flowdebate.service.documents.text import in_line
from flowdebate.service.runs import WORDS

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self, TextIO

    from rich.console import Console

    from flowdebate.cli.terminal.page import Page
    from flowdebate.runs.batch.result import BatchItem, BatchSummary
    from flowdebate.service.documents.sections import Tone


_EVERY = 5.0
"""Seconds between two lines where there is no terminal."""
_LONGEST = 80
"""Characters of a question that a line shows."""


class BatchView:
    """Progress as lines on stderr: failures at once, counts every few seconds.

    `calls` is the usual number of calls of a question, by which the time left is estimated until one is done.
    """

    def __init__(self, *, calls: int | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = clock()
        self._usual_calls = calls
        self._ended = self._calls = 0
        """Questions that ended, and their calls."""
        self._before = self._calls_before = 0
        """Those that were complete before, and their calls."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to clean up."""

    def begin(self, models: str) -> None:
        """Say which models will be asked."""

    def item(self, item: BatchItem[Any]) -> None:
        """Count a run that ended, and report its failure, if it failed."""
        calls = 0 if item.run is None else item.run.usage.calls
        if item.replayed:
            self._before += 1
            self._calls_before += calls
        else:
            self._ended += 1
            self._calls += calls
        if item.error is not None:
            self.tell(f"Question {item.index + 1} failed ({_cut(str(item.question))}): {error_text(item.error)}")

    def progress(self, summary: BatchSummary) -> None:
        """Show the progress."""
        if self._clock() - self._last >= _EVERY:
            self._last = self._clock()
            self.tell(self._progress(summary))

    def tell(self, message: str) -> None:
        """Write a line."""
        tell(message)

    def left(self, summary: BatchSummary) -> float | None:
        """Estimated seconds to the end, by the calls that were made and those still to come; None if unknown."""
        usual = self._calls / self._ended if self._ended else self._usual_calls
        made = summary.usage.calls - self._calls_before
        if summary.total is None or not usual or made < 1:
            return summary.remaining
        to_come = max(usual * (summary.total - self._before) - made, 0)
        return summary.seconds * to_come / made

    def _progress(self, summary: BatchSummary) -> str:
        total = "" if summary.total is None else f" of {summary.total:,}"
        return f"{summary.done:,}{total} done; {', '.join(_about(summary, self.left(summary)))}"


class TerminalView(BatchView):
    """Progress as a bar, which disappears at the end."""

    def __init__(self, console: Console, *, calls: int | None = None) -> None:
        super().__init__(calls=calls)
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
        from rich.table import Column

        about = TextColumn("{task.fields[about]}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis"))
        columns = (SpinnerColumn(style="cyan"), BarColumn(bar_width=20), MofNCompleteColumn(), about)
        self._bar = Progress(*columns, console=console, auto_refresh=False, transient=True)
        self._task = self._bar.add_task("", total=None, about="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def begin(self, models: str) -> None:
        if models:
            self.tell(models)

    def progress(self, summary: BatchSummary) -> None:
        about = ", ".join(_about(summary, self.left(summary)))
        self._bar.update(self._task, completed=summary.done, total=summary.total, about=about, refresh=True)

    def tell(self, message: str) -> None:
        self._bar.console.print(in_line(message))


def view_of(stream: TextIO, *, calls: int | None = None) -> BatchView:
    """The view for `stream`, which is stderr: a bar in a terminal with colours."""
    console = Screen(stream).console
    return BatchView(calls=calls) if console.color_system is None else TerminalView(console, calls=calls)


def show_summary(page: Page, name: str, summary: BatchSummary, *, models: str = "", out: str | None = None) -> None:
    """Write the summary of the batch."""
    usage = summary.usage
    cached = f" (cached {usage.cached_tokens:,})" if usage.cached_tokens else ""
    tokens = f"{_known(usage.prompt_tokens)} prompt{cached}, {_known(usage.completion_tokens)} completion"
    model, _, models = models.partition(": ")
    statuses = [(WORDS[status].capitalize(), f"{count:,}") for status, count in sorted(summary.statuses.items())]
    parts = [
        ("Batch", name),
        (model, models),
        ("Questions", _questions(summary)),
        *statuses,
        ("Errors", _counted(summary.failures)),
        ("Found", _counted(summary.decisions)),
        ("Calls", f"{usage.calls:,}"),
        ("Tokens", "unknown" if usage.total_tokens is None and not usage.prompt_tokens else tokens),
        ("Cost", cost_text(summary.cost).removeprefix("cost ")),
        ("Time", f"{summary.seconds:.1f} s ({_rate(summary)})"),
        ("Results", out or ""),
    ]
    tones: dict[str, Tone] = {"Batch": "strong", "Errors": "warning", "Found": "good"}
    facts = [Fact(label=label, text=text, tone=tones.get(label, "plain"), short=True) for label, text in parts if text]
    page.card("Summary", facts)


def _questions(summary: BatchSummary) -> str:
    total = summary.done if summary.total is None else summary.total
    done = [f"{total - summary.done:,} not done"] if total > summary.done else []
    before = [f"{summary.replayed:,} done before"] if summary.replayed else []
    about = ", ".join([*done, *before])
    return f"{total:,} ({about})" if about else f"{total:,}"


def _about(summary: BatchSummary, left: float | None) -> list[str]:
    """The counts in words, the most important first."""
    usage = summary.usage
    return [
        *([f"about {duration(round(left))} left"] if left else []),
        *([f"{summary.failed:,} failed"] if summary.failed else []),
        f"{usage.calls:,} {'call' if usage.calls == 1 else 'calls'}",
        *([] if usage.total_tokens is None else [f"{usage.total_tokens:,} tokens"]),
        *([cost_text(summary.cost)] if summary.cost else []),
        *([_rate(summary)] if summary.rate else []),
    ]


def _rate(summary: BatchSummary) -> str:
    rate = summary.rate
    return f"{rate:.1f} a second" if rate >= 1 else f"{rate * 60:.1f} a minute"


def _counted(counts: Any) -> str:  # noqa: ANN401 - a mapping of words to numbers
    return ", ".join(f"{word} {count:,}" for word, count in counts.items())


def _known(count: int | None) -> str:
    return "unknown" if count is None else f"{count:,}"


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
