"""What every command does that holds something: plan it, hold it, write what there is to write, and end."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from flowdebate.cli.streams import WriteFailed, leave_stdout, tell, warnings_told, writing
from flowdebate.errors import BadFile, ConfigurationError, FlowDebateError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from flowdebate.cli.document import Document
    from flowdebate.cli.hold import Held
    from flowdebate.cli.live import LiveView
    from flowdebate.cli.plan import Plan

__all__ = ("ENDS", "carry_out", "show_saved")

_FAILED, _MISUSED, _NO_RESULT, _KILLED, _SIGPIPE = 1, 2, 3, 128, 13

ENDS = (
    "Ctrl-C ends it and keeps what was said. Exit codes: 0 done, 1 failed, 2 misused, 3 no result (a limit was "
    "reached, or nothing was found), 130 interrupted, 143 terminated."
)
"""What the help of each such command ends with."""


def carry_out(make_plan: Callable[..., Plan], options: dict[str, Any]) -> NoReturn:
    """Hold what `make_plan(options, file=…)` plans; `options` are all that the command was given. Ends in Exit."""
    file, as_json, markdown = (options.pop(key) for key in ("file", "as_json", "markdown"))
    with _problems_told(), warnings_told():
        plan = make_plan(options, file=file)
        _check_report(markdown)
        code = _run(plan, as_json=as_json, markdown=markdown)
    raise typer.Exit(code)


def show_saved(file: str, *, markdown: Path | None) -> None:
    """Show again what was saved."""
    with _problems_told():
        from flowdebate.cli.document import read_document
        from flowdebate.cli.page import Page, render

        document = read_document(file)
        _check_report(markdown)
        try:
            with writing():
                render(document, Page(sys.stdout, document.speakers))
            _write_report(document, markdown)
        except RecursionError:
            raise BadFile(file, "is nested too deeply") from None


def _run(plan: Plan, *, as_json: bool, markdown: Path | None) -> int:
    """Hold it and write what there is to write; the exit code."""
    from flowdebate.cli.hold import hold
    from flowdebate.cli.policies import with_policies

    plan = with_policies(plan)
    pattern = plan.pattern()
    view = _view(plan, as_json=as_json)
    held = hold(plan, pattern, view)
    unwritten = held.unwritten
    try:
        if unwritten is None:
            with writing():
                _finish(held, view, as_json=as_json)
    except WriteFailed as error:
        unwritten = error
    if held.failure is not None:
        tell(f"Error: {held.failure}")
    _write_report(held.document, markdown)
    if unwritten is not None:
        raise unwritten
    if held.failure is not None:
        return _exit_code(held.failure)
    if held.signal is not None:
        return _KILLED + held.signal
    document = held.document
    return 0 if document.found and document.status != "limit" else _NO_RESULT


def _view(plan: Plan, *, as_json: bool) -> LiveView | None:
    """Where it can be followed: with --json on stderr, if a terminal shows it."""
    stream = sys.stderr if as_json else sys.stdout
    if as_json and not stream.isatty():
        return None
    from flowdebate.cli.document import speakers_of
    from flowdebate.cli.page import Page

    with writing():
        return plan.view(Page(stream, speakers_of(plan.speakers)))


def _finish(held: Held, view: LiveView | None, *, as_json: bool) -> None:
    if view is not None:
        view.finish(held.document)
    if as_json:
        sys.stdout.flush()
        sys.stdout.buffer.write(f"{held.document.to_json()}\n".encode())
        sys.stdout.flush()


def _check_report(path: Path | None) -> None:
    if path is not None:
        from flowdebate.cli.files import check_target

        check_target(path)


def _write_report(document: Document, path: Path | None) -> None:
    if path is not None:
        from flowdebate.cli.files import write_whole
        from flowdebate.cli.report import report

        write_whole(path, report(document))


@contextmanager
def _problems_told() -> Iterator[None]:
    """Inside, an error of the library is one message on stderr; a reader who leaves is none."""
    try:
        yield
    except FlowDebateError as error:
        tell(f"Error: {error}")
        raise typer.Exit(_exit_code(error)) from None
    except WriteFailed as error:
        leave_stdout()
        if error.reader_left:
            raise typer.Exit(_KILLED + _SIGPIPE) from None
        tell(f"Error: {error}")
        raise typer.Exit(_FAILED) from None


def _exit_code(error: FlowDebateError) -> int:
    return _MISUSED if isinstance(error, (BadFile, ConfigurationError)) else _FAILED
