"""Running and showing plans: start or resume a run, show it, write its results, and set the exit code."""

from __future__ import annotations

import asyncio
import sys
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from flowdebate.cli.errors import sentence_of
from flowdebate.cli.process import ExitCode, WriteFailed, killed_by, leave_stdout, tell, writing
from flowdebate.errors import (
    BadFile,
    ConfigurationError,
    FlowDebateError,
    RunChanged,
    RunNotFound,
    StoreError,
)
from flowdebate.service.options import misuse

if TYPE_CHECKING:
    import signal
    from collections.abc import Awaitable, Callable, Iterator, Mapping
    from pathlib import Path

    from flowdebate.cli.page import LivePage
    from flowdebate.runs.result import RunHandle
    from flowdebate.service.documents import Document
    from flowdebate.service.plan import Plan
    from flowdebate.service.runs import Ended, Place
    from flowdebate.store.base import StoredRun

__all__ = (
    "check_report",
    "problems_reported",
    "resume_run",
    "run_plan",
    "show_saved",
    "write_json",
    "write_report",
)

_SIGINT, _SIGPIPE = 2, 13
"""By number: systems without this signal lack its name."""


@dataclass(frozen=True, kw_only=True)
class _Finished:
    """A run that is over, as it was shown."""

    end: Ended
    place: Place | None
    """Where it is stored."""
    unwritten: WriteFailed | None
    """Why it could not be shown, in which case it was cancelled."""
    signal: signal.Signals | None
    """What interrupted it."""
    live: LivePage | None


def run_plan(
    plan: Plan, *, store: str | None, no_store: bool, as_json: bool, markdown: Path | None, quiet: bool, yes: bool
) -> int:
    """Run a plan; gives the exit code."""
    from flowdebate.service.models import models_line
    from flowdebate.service.policies import with_policies
    from flowdebate.service.runs import opened

    if no_store and store is not None:
        raise misuse("--store", store, "--store and --no-store exclude each other.")
    check_report(markdown)
    show = _Show(as_json=as_json, quiet=quiet, models=models_line(plan))
    plan = with_policies(plan)
    with nullcontext() if no_store else opened(store) as place:
        if not plan.speakers:
            from flowdebate.cli.sides import with_proposed_sides

            if place is not None and place.named:
                with _store_needed():  # fails before anything is paid for
                    asyncio.run(place.store.runs(limit=1))
            if show.models and not quiet:
                tell(show.models)
                show = replace(show, models="")  # it is asked now
            plan = with_proposed_sides(plan, yes=yes)
        finished = asyncio.run(_follow(plan, lambda: _started(plan, place), show))
        return _written(finished, as_json=as_json, markdown=markdown)


async def _started(plan: Plan, place: Place | None) -> tuple[RunHandle[Any], Place | None]:
    """The run and where it is stored: nowhere, with a warning, if it cannot be in the user's data directory."""
    from flowdebate.service.runs import start

    if place is not None:
        try:
            return await start(plan, place.store), place
        except StoreError as error:
            if place.named:
                with _store_needed():
                    raise
            tell(f"Warning: the run is not stored: {error}")
    return await start(plan, None), None


@contextmanager
def _store_needed() -> Iterator[None]:
    """Inside, an error of the store says how to go on without it."""
    try:
        yield
    except StoreError as error:
        raise StoreError(error.store, f"{error.problem}; --no-store does not store the run") from error


def resume_run(run: str | None, given: Mapping[str, Any], *, store: str | None, **options: Any) -> NoReturn:  # noqa: ANN401 - those of the command
    """Resume a run (None: the last one) with what is `given` over its plan; ends in Exit."""
    from flowdebate.cli.patterns import ask_here
    from flowdebate.service.models import models_line
    from flowdebate.service.plan import plan_of
    from flowdebate.service.policies import with_policies
    from flowdebate.service.runs import find_run, last_resumable, opened, resume

    as_json, quiet, markdown = options.pop("as_json"), options.pop("quiet", False), options.pop("markdown")
    check_report(markdown)
    with opened(store) as place:
        stored = asyncio.run(last_resumable(place.store) if run is None else find_run(place.store, run))
        trusted = options.pop("trust_plan") or _confirmed(stored, given)
        plan = plan_of(stored, given, trusted=trusted, ask=ask_here())
        if plan.policies.record is not None:
            tell(f"Warning: {plan.policies.record} ends where the run was left; the rest is not recorded")
        default = stored.header.model if isinstance(stored.header.model, str) else None
        show = _Show(as_json=as_json, quiet=quiet, models=models_line(plan, environment=default))
        plan = with_policies(plan, recording=False)

        async def resumed() -> tuple[RunHandle[Any], Place | None]:
            return await resume(plan, place.store, stored.header.run_id, **options), place

        finished = asyncio.run(_follow(plan, resumed, show))
        code = _written(finished, as_json=as_json, markdown=markdown)
    raise typer.Exit(code)


def _confirmed(run: StoredRun, given: Mapping[str, Any]) -> bool:
    """Whether the user, asked in the terminal, trusts the addresses and paths of an imported plan."""
    from flowdebate.service.plan import reached_by

    reached = reached_by(run, given)
    if not reached or not sys.stdin.isatty():
        return False
    tell(f"Run {run.header.run_id} was imported. Its plan names:")
    for flag, texts in reached.items():
        for text in texts:
            tell(f"  {flag} {text}")
    tell("A server gets the key and everything that models are shown; of a file, models may be shown the content.")
    return typer.confirm("Use them?", err=True)


def show_saved(file: str, *, markdown: Path | None) -> None:
    """Show a saved run again."""
    from flowdebate.cli.page import Page, render
    from flowdebate.service.documents import read_document

    document = read_document(file)
    check_report(markdown)
    try:
        with writing():
            render(document, Page(sys.stdout, document.speakers))
        write_report(document, markdown)
    except RecursionError:
        raise BadFile(file, "is nested too deeply") from None


@dataclass(frozen=True, kw_only=True)
class _Show:
    """How a run is shown."""

    as_json: bool
    """As JSON on stdout, so that the page is on stderr, if that is a terminal."""
    quiet: bool
    """Only its end."""
    models: str
    """The line about the models."""

    def page(self, plan: Plan) -> LivePage | None:
        """The page of a run; None if nobody looks."""
        stream = sys.stderr if self.as_json else sys.stdout
        if self.as_json and (self.quiet or not stream.isatty()):
            return None
        from flowdebate.cli.page import LivePage

        with writing():
            return LivePage(plan, stream, models=self.models, quiet=self.quiet)


async def _follow(
    plan: Plan, start: Callable[[], Awaitable[tuple[RunHandle[Any], Place | None]]], show: _Show
) -> _Finished:
    """Start a run and follow it to its end, which an interrupt or a reader who leaves brings about."""
    from flowdebate.cli.process import Interrupts
    from flowdebate.service.runs import ended

    loop = asyncio.get_running_loop()
    handle, place = await start()
    live: LivePage | None = None
    unwritten: WriteFailed | None = None

    def stop() -> None:
        if live is not None:
            live.show_cursor()  # a second signal ends the process at once
        loop.call_soon_threadsafe(handle.cancel)

    with Interrupts(stop) as interrupts:
        try:
            live = show.page(plan)
            if live is not None:
                await live.follow(handle)
        except WriteFailed as error:
            unwritten = error
            handle.cancel()
        end = await ended(plan, handle, stored=place is not None)
    received = interrupts.received if handle.status == "interrupted" else None
    return _Finished(end=end, place=place, unwritten=unwritten, signal=received, live=live)


def _written(finished: _Finished, *, as_json: bool, markdown: Path | None) -> int:
    """Write what there is to write; the exit code."""
    document, failure, unwritten = finished.end.document, finished.end.failure, finished.unwritten
    try:
        if unwritten is None:
            with writing():
                if finished.live is not None:
                    finished.live.finish(document, hint=_show_command(finished))
                if as_json:
                    write_json(document.to_json())
    except WriteFailed as error:
        unwritten = error
    if failure is not None:
        tell(f"Error: {sentence_of(failure)}")
    if unwritten is None and finished.place is not None and (hint := _resume_command(finished.end)):
        tell(f"To resume: {hint}{finished.place.option}")
    write_report(document, markdown)
    if unwritten is not None:
        raise unwritten
    if failure is not None:
        return _exit_code(failure)
    if finished.signal is not None:
        return killed_by(finished.signal)
    return 0 if document.has_result and document.status != "limit" else ExitCode.NO_RESULT


def write_json(text: str) -> None:
    """Write `text`, which is JSON, on stdout."""
    sys.stdout.flush()
    sys.stdout.buffer.write(f"{text}\n".encode())
    sys.stdout.flush()


def check_report(path: Path | None) -> None:
    """BadFile if there is a `path` and nothing can be written to it."""
    if path is not None:
        from flowdebate.cli.process import check_target

        check_target(path)


def write_report(document: Document, path: Path | None) -> None:
    """Write the report of `document` to `path`, if there is one."""
    if path is not None:
        from flowdebate.cli.process import write_whole
        from flowdebate.service.markdown import report

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
        raise typer.Exit(_exit_code(error)) from None
    except WriteFailed as error:
        leave_stdout()
        if error.reader_left:
            raise typer.Exit(killed_by(_SIGPIPE)) from None
        tell(f"Error: {error}")
        raise typer.Exit(ExitCode.FAILED) from None


def _exit_code(error: FlowDebateError) -> int:
    misuse = (BadFile, ConfigurationError, RunChanged, RunNotFound)
    return ExitCode.MISUSED if isinstance(error, misuse) else ExitCode.FAILED


# Advice on stderr

_ENDED = ("interrupted", "failed", "limit")
_HIGHER_LIMIT = {"calls": " --max-calls N", "tokens": " --max-tokens N"}
"""Options that must be raised to resume a run, since these limits count from the run's beginning."""


def _resume_command(finished: Ended) -> str | None:
    """The command that resumes a run; None where there is nothing to resume."""
    from flowdebate.service.runs import short_id

    document = finished.document
    if document.run_id is not None and document.status == "awaiting":
        return f"flowdebate answer {short_id(document.run_id)}"
    if document.run_id is None or document.status not in _ENDED:
        return None
    if isinstance(finished.failure, StoreError) and type(finished.failure) is not StoreError:
        return None  # it would end in the same way again
    return f"flowdebate resume {short_id(document.run_id)}{_HIGHER_LIMIT.get(finished.limit or '', '')}"


def _show_command(finished: _Finished) -> str:
    """The command that shows a complete run again; "" where it is not stored, or to be resumed."""
    from flowdebate.service.runs import short_id

    run_id = finished.end.document.run_id
    if run_id is None or finished.place is None or _resume_command(finished.end) is not None:
        return ""
    return f"flowdebate show {short_id(run_id)}{finished.place.option}"
