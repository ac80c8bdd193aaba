"""What every command does that holds something: plan it, hold it, write what there is to write, and end."""

from __future__ import annotations

import asyncio
import sys
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from flowdebate.cli.keys import COMMAND
from flowdebate.cli.streams import WriteFailed, leave_stdout, tell, warnings_told, writing
from flowdebate.errors import BadFile, ConfigurationError, FlowDebateError, RunChanged, RunNotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from flowdebate.cli.begin import Begin
    from flowdebate.cli.document import Document
    from flowdebate.cli.hold import Held
    from flowdebate.cli.live import LiveView
    from flowdebate.cli.plan import Plan

__all__ = ("ENDS", "carry_on", "carry_out", "check_report", "problems_told", "show_saved", "write_json", "write_report")

_FAILED, _MISUSED, _NO_RESULT, _KILLED, _SIGPIPE = 1, 2, 3, 128, 13

ENDS = (
    "Ctrl-C ends it and keeps what was said: flowdebate resume carries it on. Exit codes: 0 done, 1 failed, "
    "2 misused, 3 no result (a limit was reached, or nothing was found), 130 interrupted, 143 terminated."
)
"""What the help of each such command ends with."""


def carry_out(make_plan: Callable[..., Plan], options: dict[str, Any]) -> NoReturn:
    """Hold what `make_plan(options, file=…)` plans; `options` are all that the command was given. Ends in Exit."""
    file, as_json, markdown, store, no_store = (
        options.pop(key) for key in ("file", "as_json", "markdown", "store", "no_store")
    )
    with problems_told(), warnings_told():
        from flowdebate.cli.begin import Anew
        from flowdebate.cli.keeping import opened

        if no_store and store is not None:
            raise ConfigurationError(COMMAND, "--store", store, "left out where --no-store is given")
        plan = make_plan(options, file=file)
        check_report(markdown)
        with nullcontext() if no_store else opened(store) as place:
            code = _run(plan, Anew(place=place), as_json=as_json, markdown=markdown)
    raise typer.Exit(code)


def carry_on(run: str | None, limits: Mapping[str, Any], options: dict[str, Any]) -> NoReturn:
    """Carry on the run that `run` means (None: the last one) to its end, with `limits` anew. Ends in Exit."""
    as_json, markdown, store = (options.pop(key) for key in ("as_json", "markdown", "store"))
    with problems_told(), warnings_told():
        from flowdebate.cli.begin import CarriedOn
        from flowdebate.cli.find import found, last
        from flowdebate.cli.keeping import opened
        from flowdebate.cli.kept_plan import plan_of

        check_report(markdown)
        with opened(store) as place:
            stored = asyncio.run(last(place.store) if run is None else found(place.store, run))
            plan = plan_of(stored, {**limits, "model": options.pop("model"), "base_url": options.pop("base_url")})
            begin = CarriedOn(place=place, run_id=stored.header.run_id, **options)
            code = _run(plan, begin, as_json=as_json, markdown=markdown)
    raise typer.Exit(code)


def show_saved(file: str, *, markdown: Path | None) -> None:
    """Show again what was saved."""
    with problems_told():
        from flowdebate.cli.document import read_document
        from flowdebate.cli.page import Page, render

        document = read_document(file)
        check_report(markdown)
        try:
            with writing():
                render(document, Page(sys.stdout, document.speakers))
            write_report(document, markdown)
        except RecursionError:
            raise BadFile(file, "is nested too deeply") from None


def _run(plan: Plan, begin: Begin, *, as_json: bool, markdown: Path | None) -> int:
    """Hold it and write what there is to write; the exit code."""
    from flowdebate.cli.advice import how_to_go_on, said
    from flowdebate.cli.hold import hold
    from flowdebate.cli.policies import with_policies

    if plan.policies.record is not None and not begin.is_new:
        tell(f"Warning: {plan.policies.record} ends where the run was left: what comes now is not recorded")
    plan = with_policies(plan, recording=begin.is_new)
    held = hold(plan, plan.pattern(), begin, lambda plan: _view(plan, as_json=as_json))
    unwritten = held.unwritten
    try:
        if unwritten is None:
            with writing():
                _finish(held, as_json=as_json)
    except WriteFailed as error:
        unwritten = error
    if held.failure is not None:
        tell(f"Error: {said(held.failure)}")
    if unwritten is None and begin.place is not None and (hint := how_to_go_on(held)):
        tell(f"To carry it on: {hint}{begin.place.option}")
    write_report(held.document, markdown)
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


def _finish(held: Held, *, as_json: bool) -> None:
    if held.view is not None:
        held.view.finish(held.document)
    if as_json:
        write_json(held.document.to_json())


def write_json(text: str) -> None:
    """Write `text`, which is JSON, on stdout."""
    sys.stdout.flush()
    sys.stdout.buffer.write(f"{text}\n".encode())
    sys.stdout.flush()


def check_report(path: Path | None) -> None:
    """BadFile if there is a `path` and nothing can be written to it."""
    if path is not None:
        from flowdebate.cli.files import check_target

        check_target(path)


def write_report(document: Document, path: Path | None) -> None:
    """Write the report of `document` to `path`, if there is one."""
    if path is not None:
        from flowdebate.cli.files import write_whole
        from flowdebate.cli.report import report

        write_whole(path, report(document))


@contextmanager
def problems_told() -> Iterator[None]:
    """Inside, an error of the library is one message on stderr; a reader who leaves is none. Both end in Exit."""
    try:
        yield
    except FlowDebateError as error:
        from flowdebate.cli.advice import said

        tell(f"Error: {said(error)}")
        raise typer.Exit(_exit_code(error)) from None
    except WriteFailed as error:
        leave_stdout()
        if error.reader_left:
            raise typer.Exit(_KILLED + _SIGPIPE) from None
        tell(f"Error: {error}")
        raise typer.Exit(_FAILED) from None


def _exit_code(error: FlowDebateError) -> int:
    misuse = (BadFile, ConfigurationError, RunChanged, RunNotFound)
    return _MISUSED if isinstance(error, misuse) else _FAILED
