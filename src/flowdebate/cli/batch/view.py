"""Progress of a batch on stderr, and its summary."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from flowdebate.cli.process import tell
from flowdebate.errors import error_text
from flowdebate.service.runs import WORDS
from flowdebate.service.text import in_line

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self, TextIO

    from flowdebate.cli.page import Page
    from flowdebate.runs.batch.result import BatchItem, BatchSummary

__all__ = ("BatchView", "show_summary", "view_of")

_EVERY = 5.0
"""Seconds between two lines where there is no terminal."""
_LONGEST = 80
"""Characters of a question that a line shows."""


class BatchView:
    """Progress as lines on stderr: failures at once, counts every few seconds."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = clock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to clean up."""

    def item(self, item: BatchItem[Any]) -> None:
        """Report the failure of a run that ended, if it failed."""
        if item.error is not None:
            self.tell(f"Question {item.index + 1} failed ({_cut(str(item.question))}): {error_text(item.error)}")

    def progress(self, summary: BatchSummary) -> None:
        """Show the progress."""
        if self._clock() - self._last >= _EVERY:
            self._last = self._clock()
            self.tell(_progress(summary))

    def tell(self, message: str) -> None:
        """Write a line."""
        tell(message)


class TerminalView(BatchView):
    """Progress as a bar, which disappears at the end."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        console = Console(file=stream, markup=False, highlight=False, emoji=False)
        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[about]}", markup=False))
        self._bar = Progress(*columns, console=console, auto_refresh=False, transient=True)
        self._task = self._bar.add_task("", total=None, about="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def progress(self, summary: BatchSummary) -> None:
        about = _about(summary)
        self._bar.update(self._task, completed=summary.done, total=summary.total, about=about, refresh=True)

    def tell(self, message: str) -> None:
        self._bar.console.print(in_line(message), soft_wrap=True)


def view_of(stream: TextIO) -> BatchView:
    """The view for `stream`, which is stderr."""
    return TerminalView(stream) if stream.isatty() else BatchView()


def show_summary(page: Page, name: str, summary: BatchSummary, *, out: str | None) -> None:
    """Write the summary of the batch."""
    parts = [("Batch", name, "bold"), ("Questions", _questions(summary), "")]
    parts += [(WORDS[status].capitalize(), f"{count:,}", "") for status, count in sorted(summary.statuses.items())]
    if summary.failures:
        parts.append(("Errors", _counted(summary.failures), "red"))
    if summary.decisions:
        parts.append(("Found", _counted(summary.decisions), "green"))
    usage = summary.usage
    tokens = [f"{_known(usage.prompt_tokens)} prompt (cached {_known(usage.cached_tokens)})"]
    tokens.append(f"{_known(usage.completion_tokens)} completion")
    parts.append(("Calls", f"{usage.calls:,}", ""))
    parts.append(("Tokens", ", ".join(tokens), ""))
    parts.append(("Time", f"{summary.seconds:.1f} s ({_rate(summary)})", ""))
    if out is not None:
        parts.append(("Results", out, ""))
    page.card("Summary", parts)


def _questions(summary: BatchSummary) -> str:
    total = summary.done if summary.total is None else summary.total
    done = [f"{total - summary.done:,} not done"] if total > summary.done else []
    before = [f"{summary.replayed:,} done before"] if summary.replayed else []
    about = ", ".join([*done, *before])
    return f"{total:,} ({about})" if about else f"{total:,}"


def _progress(summary: BatchSummary) -> str:
    total = "" if summary.total is None else f" of {summary.total:,}"
    return f"{summary.done:,}{total} done; {_about(summary)}"


def _about(summary: BatchSummary) -> str:
    usage = summary.usage
    parts = [f"{summary.failed:,} failed"] if summary.failed else []
    parts.append(f"{usage.calls:,} calls")
    if usage.total_tokens is not None:
        parts.append(f"{usage.total_tokens:,} tokens")
    parts.append(_rate(summary))
    if summary.remaining:
        parts.append(f"about {_duration(summary.remaining)} left")
    return ", ".join(parts)


def _rate(summary: BatchSummary) -> str:
    rate = summary.rate
    return f"{rate:.1f} a second" if rate >= 1 else f"{rate * 60:.1f} a minute"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _counted(counts: Any) -> str:  # noqa: ANN401 - a mapping of words to numbers
    return ", ".join(f"{word} {count:,}" for word, count in counts.items())


def _known(count: int | None) -> str:
    return "unknown" if count is None else f"{count:,}"


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
