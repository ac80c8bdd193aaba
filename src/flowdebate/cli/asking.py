"""Code shared by commands that ask many questions: totals, progress, interruption and exit codes."""

from __future__ import annotations

import asyncio
import sys
import time
import warnings
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, Self, TextIO, TypeAlias, TypeVar

import typer

from flowdebate._text import counted, error_text
from flowdebate.cli.terminal.process import ExitCode, Interrupts, exit_code_of_signal, print_message
from flowdebate.errors import FlowDebateWarning

if TYPE_CHECKING:
    from signal import Signals

    from rich.console import Console

    from flowdebate.evaluation import StudyProgress
    from flowdebate.runs.batch import BatchItem, BatchSummary
    from flowdebate.service.runs import OpenStore

    Counts: TypeAlias = BatchSummary | StudyProgress
    """Counts of the questions asked so far."""

_T = TypeVar("_T")
_TICK = 0.5
"""Seconds between progress updates: short enough for a smooth progress bar, long enough that the cost is negligible."""


@contextmanager
def store_for_asking(name: str | None) -> Iterator[OpenStore]:
    """Open the store for a command that starts many runs, showing each distinct warning only once."""
    from flowdebate.service.runs import opened

    with _warn_once(), opened(name, new=True) as place:
        yield place


async def ask(work: Callable[[ProgressLines], Awaitable[_T]], *, usual_calls: int | None = None) -> _T | Signals:
    """Await `work` and return its result, or the signal that interrupted it.

    `work` reports its progress on stderr. The first SIGINT or SIGTERM cancels `work`, whose runs are then stored as
    interrupted. `usual_calls` is the typical number of calls per question; estimates of the remaining time rely on it
    until the first question is done.
    """
    with open_progress(sys.stderr, calls=usual_calls) as progress:
        task = asyncio.ensure_future(work(progress))
        loop = asyncio.get_running_loop()
        with Interrupts(lambda: loop.call_soon_threadsafe(task.cancel)) as interrupts:
            try:
                while not task.done():
                    await asyncio.wait({task}, timeout=_TICK)
                    progress.refresh()
            finally:  # cancel even if drawing the progress failed, because in-flight calls cost money
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await asyncio.wait({task})
    return interrupts.received if task.cancelled() and interrupts.received is not None else task.result()


@contextmanager
def _warn_once() -> Iterator[None]:
    shown_messages: set[str] = set()
    show = warnings.showwarning

    def show_new(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if str(message) not in shown_messages or not issubclass(category, FlowDebateWarning):
            shown_messages.add(str(message))
            show(message, category, filename, lineno, file, line)

    warnings.showwarning = show_new
    try:
        yield
    finally:
        warnings.showwarning = show


# Limits and outcomes


@dataclass(kw_only=True)
class Totals:
    """Call and token limits for all questions combined; once either is reached, no more questions are asked."""

    calls: int | None = None
    tokens: int | None = None
    used_up: bool = False
    """True if a limit prevented a question from being asked."""

    def reached(self, counts: Counts) -> bool:
        """Return whether a limit has been reached; called before each question."""
        usage = counts.usage
        over_calls = self.calls is not None and usage.calls >= self.calls
        over_tokens = self.tokens is not None and (usage.total_tokens or 0) >= self.tokens
        self.used_up = over_calls or over_tokens
        return self.used_up


@dataclass(frozen=True, kw_only=True)
class Ending:
    """Outcome of a command that asks many questions; it determines the exit code and the advice on how to continue."""

    signal: Signals | None = None
    """Signal that interrupted the command."""
    failed: int = 0
    """Number of questions that failed."""
    used_up: bool = False
    """True if a total limit was reached before all questions had been asked."""
    incomplete: bool = False
    """True if a result is missing for some other reason."""
    batch_id: str | None = None
    """Name of the batch; set only by commands with --batch-id."""

    def advise(self) -> None:
        """Explain on stderr how to continue, unless there is nothing left to do."""
        again = (
            "the same command" if self.batch_id is None else f"the same command, or any with --batch-id {self.batch_id}"
        )
        if self.signal is not None:
            print_message(f"Interrupted. To continue: {again}")
        elif self.used_up:
            higher = "a higher --max-total-calls or --max-total-tokens"
            print_message(f"The total limit is reached. To continue: {again}, with {higher}")
        elif self.failed:
            print_message("To retry failed questions, run the same command again")

    @property
    def exit_code(self) -> int:
        """The exit code of the command."""
        if self.signal is not None:
            return exit_code_of_signal(self.signal)
        if self.failed:
            return ExitCode.FAILED
        return ExitCode.NO_RESULT if self.used_up or self.incomplete else 0

    def leave(self) -> NoReturn:
        """Explain how to continue, then exit."""
        self.advise()
        raise typer.Exit(self.exit_code)


# Progress

_EVERY = 5.0
"""Seconds between progress lines when not writing to a terminal; long enough that an hour's log stays readable."""
_MAX_LENGTH = 80
"""Maximum length, in characters, of a question on a progress line."""


class ProgressLines:
    """Progress lines on stderr: failures are reported immediately, and counts every few seconds.

    `calls` is the typical number of calls per question; estimates of the remaining time rely on it until the first
    question is done.
    """

    def __init__(self, *, calls: int | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = clock()
        self._usual_calls = calls
        self._count: Callable[[], Counts] | None = None
        self._ended = self._calls = 0
        """Number of finished questions, and the calls made for them."""
        self._before = self._calls_before = 0
        """Number of questions completed earlier, and the calls made for them."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing, because there is nothing to clean up."""

    def begin(self, models: str) -> None:
        """Announce the models to be asked."""

    def watch(self, count: Callable[[], Counts]) -> None:
        """Show the counts returned by `count` at regular intervals, even if no questions are being completed."""
        self._count = count

    def refresh(self) -> None:
        """Show the current counts; do nothing before `watch` has been called."""
        if self._count is not None:
            self.show(self._count())

    def item(self, item: BatchItem[_T]) -> None:
        """Count a finished run, and report its error if the run failed."""
        calls = 0 if item.run is None else item.run.usage.calls
        if item.replayed:
            self._before += 1
            self._calls_before += calls
        else:
            self._ended += 1
            self._calls += calls
        if item.error is not None:
            question = " ".join(str(item.question).split())
            question = question if len(question) <= _MAX_LENGTH else f"{question[: _MAX_LENGTH - 1]}…"
            self.show_message(f"Question {item.index + 1} failed ({question}): {error_text(item.error)}")

    def show(self, counts: Counts) -> None:
        """Show `counts`, at most once every `_EVERY` seconds."""
        if self._clock() - self._last >= _EVERY:
            self._last = self._clock()
            total = "" if counts.total is None else f" of {counts.total:,}"
            self.show_message(f"{counts.done:,}{total} done; {', '.join(_describe(counts, self.seconds_left(counts)))}")

    def show_message(self, message: str) -> None:
        """Show a message."""
        print_message(message)

    def seconds_left(self, counts: Counts) -> float | None:
        """Estimate the remaining seconds from the calls made so far; return None if there is no estimate."""
        usual = self._calls / self._ended if self._ended else self._usual_calls
        calls_made = counts.usage.calls - self._calls_before
        if counts.total is None or not usual or calls_made < 1:
            return counts.remaining
        to_come = max(usual * (counts.total - self._before) - calls_made, 0)
        return counts.seconds * to_come / calls_made


class ProgressBar(ProgressLines):
    """Progress bar that disappears when the command finishes."""

    def __init__(self, console: Console, *, calls: int | None = None) -> None:
        super().__init__(calls=calls)
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
        from rich.table import Column

        description = TextColumn(
            "{task.fields[about]}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis")
        )
        columns = (SpinnerColumn(style="cyan"), BarColumn(bar_width=20), MofNCompleteColumn(), description)
        self._bar = Progress(*columns, console=console, auto_refresh=False, transient=True)
        self._task = self._bar.add_task("", total=None, about="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def begin(self, models: str) -> None:
        if models:
            self.show_message(models)

    def show(self, counts: Counts) -> None:
        description = ", ".join(_describe(counts, self.seconds_left(counts)))
        self._bar.update(self._task, completed=counts.done, total=counts.total, about=description, refresh=True)

    def show_message(self, message: str) -> None:
        from flowdebate.ui.text import in_line

        self._bar.console.print(in_line(message))


def open_progress(stream: TextIO, *, calls: int | None = None) -> ProgressLines:
    """Show progress on `stream` (normally stderr): as a bar on a color terminal, and as lines everywhere else."""
    from flowdebate.cli.terminal.screen import Screen

    console = Screen(stream).console
    return ProgressLines(calls=calls) if console.color_system is None else ProgressBar(console, calls=calls)


def _describe(counts: Counts, seconds_left: float | None) -> list[str]:
    """Describe the counts, most important first, because a narrow terminal truncates the line."""
    from flowdebate.cli.terminal.screen import duration
    from flowdebate.evaluation.documents import rate_text
    from flowdebate.runs.batch import BatchSummary
    from flowdebate.ui.text import cost_text

    usage = counts.usage
    words = [
        *([f"about {duration(round(seconds_left))} left"] if seconds_left else []),
        *([f"{counts.failed:,} failed"] if counts.failed else []),
        counted(usage.calls, "call"),
        *([] if usage.total_tokens is None else [f"{usage.total_tokens:,} tokens"]),
    ]
    if isinstance(counts, BatchSummary):
        words += [f"cost {cost_text(counts.cost, counts.prices)}"] if counts.cost else []
        words += [rate_text(counts.rate)] if counts.rate else []
    return words
