"""Process handling for commands: output, error messages, exit codes, atomic writes, and signals."""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import signal
import stat
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import IntEnum
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self, TextIO

import typer

from flowdebate._util.files import open_private
from flowdebate.cli.terminal.streams import WriteFailed, writing
from flowdebate.errors import (
    BadFile,
    ConfigurationError,
    ConflictingOptions,
    DeadLetter,
    FlowDebateError,
    FlowDebateWarning,
    ModelUnavailable,
    RunChanged,
    RunNotFound,
    RunUncertain,
)

if TYPE_CHECKING:
    from types import FrameType

    from flowdebate.cli.terminal.page import Page
    from flowdebate.ui.document import Document, Speaker


class ExitCode(IntEnum):
    """Exit codes of all commands, apart from those for signals."""

    FAILED = 1
    MISUSED = 2
    NO_RESULT = 3
    GATE = 4
    NO_CHANGES = 5


def exit_code_of_signal(number: int) -> int:
    """Return the exit code that shells report for a process terminated by signal `number`."""
    return 128 + number


def prepare_streams() -> None:
    """Make stdout and stderr accept any character, and reopen closed streams on the null device."""
    # stdin may be closed, for example under cron or in a container. It is reopened first; otherwise, the next file
    # opened would get its descriptor.
    if sys.stdin is None:
        sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115 - open to the end
    for name in ("stdout", "stderr"):
        stream: TextIO | None = getattr(sys, name)
        if stream is None:  # closed by the parent process, such as a shell (`>&-`) or a service manager
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - open to the end
        elif isinstance(stream, TextIOWrapper):
            # Text from models may contain characters that some console encodings (LANG=C, cp1252) do not support.
            stream.reconfigure(errors="backslashreplace")
    logging.getLogger("flowdebate").addHandler(_Lines(logging.WARNING))


def log_to(target: str) -> Callable[[], None]:
    """Append log records as JSON Lines to the file `target`, or write them to stderr if `target` is "-".

    Return a function that stops logging. Raise BadFile if the file is not writable.
    """
    from flowdebate.telemetry import JsonLines

    if target == "-":
        handler: logging.Handler = logging.StreamHandler(sys.stderr)
    else:
        check_target(Path(target))
        os.close(open_private(Path(target), os.O_WRONLY | os.O_APPEND))  # a new file is readable only by its owner
        handler = logging.FileHandler(target, encoding="utf-8")
    handler.setFormatter(JsonLines())
    logger = logging.getLogger("flowdebate")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)  # otherwise, the root logger's level would drop everything below WARNING

    def stop() -> None:
        logger.removeHandler(handler)
        logger.setLevel(before)
        handler.close()

    return stop


def print_message(message: str) -> None:
    """Write `message` to stderr, with control characters escaped and continuation lines indented."""
    from flowdebate.ui.text import printable

    lines = printable(message).replace("\n", "\n  ")
    with suppress(OSError):  # stderr is also closed, so the message is lost
        if sys.stderr.isatty():
            from flowdebate.cli.terminal.screen import WIDEST, TextFlow

            written: list[str] = []
            width = min(shutil.get_terminal_size().columns, WIDEST)
            flow = TextFlow(lambda text, _: written.append(text), indent="  ", first="", width=lambda: width)
            flow.feed(lines)
            flow.end()
            lines = "".join(written).removesuffix("\n")
        print(lines, file=sys.stderr, flush=True)  # noqa: T201 - a command's stderr


@contextmanager
def report_warnings() -> Iterator[None]:
    """Print the library's warnings on stderr, one per line."""

    def show(message: Warning | str, *_: object, **__: object) -> None:
        print_message(f"Warning: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", FlowDebateWarning)
        warnings.showwarning = show
        yield


def leave_stdout() -> None:
    """Discard the output still buffered for stdout, because flushing it at exit would fail."""
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


def check_target(path: Path | None) -> None:
    """Raise BadFile if `path` is not writable, before any model is called."""
    if path is None:
        return
    from flowdebate.ui.files import reason_of

    try:
        folder = Path(os.path.realpath(path)).parent
        if path.is_dir():
            raise BadFile(str(path), "cannot be written: it is a folder")
        if not folder.is_dir():
            raise BadFile(str(path), f"cannot be written: there is no folder {folder}")
        if not os.access(path if path.exists() else folder, os.W_OK):
            raise BadFile(str(path), "cannot be written: permission denied")
    except (OSError, ValueError) as error:
        if isinstance(error, BadFile):
            raise
        raise BadFile(str(path), f"cannot be written: {reason_of(error)}") from None


def write_whole(path: Path, content: str | bytes) -> None:
    """Write `content` to `path` atomically; raise WriteFailed on failure. A new file is readable only by its owner.

    Readers see either the old content or the complete new content.
    """
    from flowdebate.ui.files import reason_of

    data = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    target = Path(os.path.realpath(path))  # preserves symbolic links
    part = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.part")
    try:
        if target.exists() and not target.is_file():  # renaming would replace a device or a pipe with a regular file
            target.write_bytes(data)
            return
        with os.fdopen(open_private(part, os.O_WRONLY | os.O_EXCL), "wb") as file:
            file.write(data)
        if target.exists():
            part.chmod(stat.S_IMODE(target.stat().st_mode))
        part.replace(target)
    except OSError as error:
        raise WriteFailed(f"cannot write {path}: {reason_of(error)}") from None
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


class _Lines(logging.Handler):
    """Log handler that writes to stderr, without tracebacks; it skips records about runs because pages show them."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.name != "flowdebate.runs" and bool(super().filter(record))

    def emit(self, record: logging.LogRecord) -> None:
        print_message(f"{record.levelname.capitalize()}: {record.getMessage()}")


@contextmanager
def clean_up_at_termination() -> Iterator[None]:
    """Unwind the stack on SIGTERM so unfinished files are deleted before the process ends."""

    def unwind(number: int, _: FrameType | None) -> NoReturn:
        raise _Terminated(128 + number)

    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, unwind)
    try:
        yield
    except _Terminated:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


class _Terminated(SystemExit):
    """Raised when the process receives SIGTERM."""


class Interrupts:
    """Context manager that calls `stop` and restores the default handlers on the first SIGINT or SIGTERM.

    A second signal then ends the process even while Python is busy. Signals ignored by the parent process stay ignored
    (`nohup`, background jobs). Has no effect outside the main thread.
    """

    def __init__(self, stop: Callable[[], object]) -> None:
        self.received: signal.Signals | None = None
        self._stop = stop
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                before = signal.getsignal(number)
                if before not in (signal.SIG_IGN, None):
                    self._before[number] = before
                    signal.signal(number, self._receive)
        return self

    def then(self, stop: Callable[[], object]) -> None:
        """Set the function `stop`, and call it immediately if a signal has already been received."""
        self._stop = stop
        if self.received is not None:
            stop()

    def __exit__(self, *_: object) -> None:
        if self.received is None:
            for number, before in self._before.items():
                signal.signal(number, before)

    def _receive(self, number: int, _: object) -> None:
        self.received = signal.Signals(number)
        for handler in self._before:
            signal.signal(handler, signal.SIG_DFL)
        self._stop()


_SIGINT, _SIGPIPE = 2, 13
"""Signal numbers, spelled out because some platforms do not define the names."""
_CHANGED_LINES = 6
"""Maximum number of lines to show from a changed prompt: enough to recognize which option changed, and few enough to
fit on a small terminal.
"""


def open_page(speakers: Sequence[Speaker] = ()) -> Page:
    """Open a page on stdout."""
    from flowdebate.cli.terminal.page import Page

    return Page(sys.stdout, speakers)


def write_json(value: object) -> None:
    """Write `value` to stdout as JSON; a string must already be in JSON format."""
    from flowdebate.ui.text import as_json

    text = value if isinstance(value, str) else as_json(value)
    with writing():
        sys.stdout.flush()
        # Written as bytes because JSON is UTF-8 in any locale, and Windows would add carriage returns.
        sys.stdout.buffer.write(f"{text}\n".encode())
        sys.stdout.flush()


def write_report(document: Document, path: Path | None) -> None:
    """Write a Markdown report on `document` to `path`, unless `path` is None."""
    if path is not None:
        from flowdebate.ui.markdown import report

        write_whole(path, report(document))


@contextmanager
def report_problems() -> Iterator[None]:
    """Print library errors as messages on stderr, then exit; exit silently if the pipe is closed."""
    try:
        yield
    except (KeyboardInterrupt, typer.Abort):
        raise typer.Exit(exit_code_of_signal(_SIGINT)) from None
    except FlowDebateError as error:
        print_message(f"Error: {sentence_of(error)}")
        raise typer.Exit(exit_code_of(error)) from None
    except WriteFailed as error:
        leave_stdout()
        # A closed pipe (`| head`) is not an error; the exit code matches the signal that would otherwise have ended the
        # process.
        if error.reader_left:
            raise typer.Exit(exit_code_of_signal(_SIGPIPE)) from None
        print_message(f"Error: {error}")
        raise typer.Exit(ExitCode.FAILED) from None


def exit_code_of(error: FlowDebateError) -> int:
    """Return the exit code of a command that failed with `error`."""
    if isinstance(error, BadFile) and error.no_changes is not None:
        return ExitCode.NO_CHANGES if error.no_changes == "none" else ExitCode.NO_RESULT
    misuse = (BadFile, ConfigurationError, RunChanged, RunNotFound)
    return ExitCode.MISUSED if isinstance(error, misuse) else ExitCode.FAILED


def sentence_of(error: Exception) -> str:  # noqa: PLR0911 - one case for each kind
    """Render `error` as one paragraph, replacing options with command-line flags and adding advice for the user."""
    from flowdebate.ui.options import COMMAND

    match error:
        case ConflictingOptions() | ConfigurationError(whole_message=str()):
            return str(error).removeprefix(f"{COMMAND}: ")
        case ConfigurationError() if str(error).startswith(f"{COMMAND}: "):
            received = "" if error.given is None else f" (got {error.given})"
            hint = f". {error.hint}" if error.hint else "."
            return f"{error.field} {error.problem}{received}{hint}"
        case RunChanged():
            lines = [f"{name} {line.strip()}" for name, changes in error.differences.items() for line in changes]
            more = f" and {len(lines) - _CHANGED_LINES} more lines" if len(lines) > _CHANGED_LINES else ""
            return (
                f"store {error.store}: run {error.run_id} was started with different options (- then, + now): "
                f"{'; '.join(lines[:_CHANGED_LINES])}{more}. "
                f"To resume it anyway: flowdebate resume {error.run_id} --allow-changes"
            )
        case RunUncertain():
            return str(error).replace('on_uncertain="retry"', "--on-uncertain retry")
        case DeadLetter():
            return str(error).replace("retry_dead_letter=True", "--retry-dead-letter")
        case ConfigurationError(location="serve()", field="port"):
            return f"{error.hint}. Choose another --port; 0 picks a free one."
        case ModelUnavailable():
            return str(error).replace("or pass model=…", "or name one with --model")
        case RunNotFound():
            return f"{error}. To list stored runs: flowdebate runs"
        case _:
            return str(error)
