"""Output of commands: JSON, reports, errors as messages, and exit codes."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from flowdebate.cli.errors import sentence_of
from flowdebate.cli.terminal.process import ExitCode, WriteFailed, killed_by, leave_stdout, tell, writing
from flowdebate.errors import (
    BadFile,
    ConfigurationError,
    FlowDebateError,
    RunChanged,
    RunNotFound,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from flowdebate.service.documents.document import Document


_SIGINT, _SIGPIPE = 2, 13
"""By number: systems without this signal lack its name."""


def show_saved(file: str, *, markdown: Path | None) -> None:
    """Show a saved run again."""
    from flowdebate.cli.terminal.page import Page, render
    from flowdebate.service.documents.document import read_document

    document = read_document(file)
    check_report(markdown)
    try:
        with writing():
            render(document, Page(sys.stdout, document.speakers))
        write_report(document, markdown)
    except RecursionError:
        raise BadFile(file, "is nested too deeply") from None


def write_json(text: str) -> None:
    """Write `text`, which is JSON, on stdout."""
    sys.stdout.flush()
    sys.stdout.buffer.write(f"{text}\n".encode())
    sys.stdout.flush()


def check_report(path: Path | None) -> None:
    """BadFile if there is a `path` and nothing can be written to it."""
    if path is not None:
        from flowdebate.cli.terminal.process import check_target

        check_target(path)


def write_report(document: Document, path: Path | None) -> None:
    """Write the report of `document` to `path`, if there is one."""
    if path is not None:
        from flowdebate.cli.terminal.process import write_whole
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
        if error.reader_left:
            raise typer.Exit(killed_by(_SIGPIPE)) from None
        tell(f"Error: {error}")
        raise typer.Exit(ExitCode.FAILED) from None


def exit_code_of(error: FlowDebateError) -> int:
    """The exit code of a command that failed with `error`."""
    misuse = (BadFile, ConfigurationError, RunChanged, RunNotFound)
    return ExitCode.MISUSED if isinstance(error, misuse) else ExitCode.FAILED
