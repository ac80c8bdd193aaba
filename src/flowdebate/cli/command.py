"""Output of commands: JSON, pages, reports, errors as messages, and exit codes."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from flowdebate.cli.terminal.process import ExitCode, WriteFailed, killed_by, leave_stdout, tell, write_whole
from flowdebate.errors import (
    BadFile,
    ConfigurationError,
    DeadLetter,
    FlowDebateError,
    RunChanged,
    RunNotFound,
    RunUncertain,
    shown,
)
from flowdebate.service.plans.options import COMMAND

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from flowdebate.cli.terminal.page import Page
    from flowdebate.service.documents.document import Document, Speaker


_SIGINT, _SIGPIPE = 2, 13
"""By number: systems without this signal lack its name."""
_CHANGED_LINES = 6
"""A prompt that changed can differ in hundreds of lines; these say which option it was, and fit a small terminal."""


def open_page(speakers: Sequence[Speaker] = ()) -> Page:
    """The page on stdout."""
    from flowdebate.cli.terminal.page import Page

    return Page(sys.stdout, speakers)


def write_json(value: object) -> None:
    """Write JSON on stdout: data, or text that is JSON already."""
    from flowdebate.service.documents.document import as_json

    text = value if isinstance(value, str) else as_json(value)
    sys.stdout.flush()
    # bytes, not text: JSON is UTF-8 whatever the locale, and Windows would end the line with a carriage return
    sys.stdout.buffer.write(f"{text}\n".encode())
    sys.stdout.flush()


def write_report(document: Document, path: Path | None) -> None:
    """Write the report of `document` as Markdown to `path`, if there is one."""
    if path is not None:
        from flowdebate.service.documents.markdown import report

        write_whole(path, report(document))


@contextmanager
def problems_reported() -> Iterator[None]:
    """Inside, an error of the library is one message on stderr; a reader who leaves is none. Both end in Exit."""
    try:
        yield
    except (KeyboardInterrupt, typer.Abort):
        raise typer.Exit(killed_by(_SIGINT)) from None
    except FlowDebateError as error:
        tell(f"Error: {sentence_of(error)}")
        raise typer.Exit(exit_code_of(error)) from None
    except WriteFailed as error:
        leave_stdout()
        if error.reader_left:  # `| head` is no error; shells show it as the signal that would have ended us
            raise typer.Exit(killed_by(_SIGPIPE)) from None
        tell(f"Error: {error}")
        raise typer.Exit(ExitCode.FAILED) from None


def exit_code_of(error: FlowDebateError) -> int:
    """The exit code of a command that failed with `error`."""
    misuse = (BadFile, ConfigurationError, RunChanged, RunNotFound)
    return ExitCode.MISUSED if isinstance(error, misuse) else ExitCode.FAILED


def sentence_of(error: Exception) -> str:  # noqa: PLR0911 - one case for each kind
    """`error` as one paragraph, in terms of options, with what to type."""
    match error:
        case ConfigurationError() if str(error).startswith(f"{COMMAND}: "):
            said = f"{error.where}: `{error.field}` must be {error.allowed}, got {shown(error.got)}"
            hint = rest if (rest := str(error).removeprefix(said)) != str(error) else ""
            if error.allowed.startswith("left out"):  # "must be left out" is true, but no way to say what to do
                return f"Leave {error.field} out{error.allowed.removeprefix('left out')}{hint}"
            got = "" if error.got is None else f", got {shown(error.got)}"
            return f"{error.field} must be {error.allowed}{got}{hint}"
        case RunChanged():
            lines = [f"{name} {line.strip()}" for name, changes in error.differences.items() for line in changes]
            more = f" and {len(lines) - _CHANGED_LINES} more lines" if len(lines) > _CHANGED_LINES else ""
            return (
                f"store {error.store}: run {error.run_id} was started with other options (- then, + now): "
                f"{'; '.join(lines[:_CHANGED_LINES])}{more}. --allow-changes resumes it all the same."
            )
        case RunUncertain():
            return str(error).replace('on_uncertain="retry"', "--on-uncertain retry")
        case DeadLetter():
            return str(error).replace("retry_dead_letter=True", "--retry-dead-letter")
        case RunNotFound():
            return f"{error}. flowdebate runs lists the stored runs."
        case _:
            return str(error)
