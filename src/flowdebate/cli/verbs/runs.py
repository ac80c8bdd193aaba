"""`flowdebate runs`, `show` and `delete`: the runs that are kept."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flowdebate.cli import options as opt
from flowdebate.cli.command import check_report, problems_told, write_json, write_report
from flowdebate.cli.keys import COMMAND, Key, choice, count, number, text
from flowdebate.cli.streams import writing
from flowdebate.errors import ConfigurationError, RunConflict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.cli.page import Page
    from flowdebate.store.base import Store, StoredRun

__all__ = ("delete", "runs", "show")

_DAY = 86_400
_MOST = 20
Status = Annotated[
    str | None,
    typer.Option(
        metavar="STATUS",
        help="Only those that are queued, running, left_behind, complete, degraded, no_verdict, interrupted, "
        "failed, awaiting, dead_letter, or ended by a limit (limit).",
    ),
]


def runs(
    *,
    status: Status = None,
    block: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only those of the block: debate, consensus, …")
    ] = None,
    search: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only those with this text in what they are about.")
    ] = None,
    limit: Annotated[int, typer.Option(metavar="N", help="How many are listed at most.")] = _MOST,
    store: opt.StoreName = None,
    as_json: opt.Json = False,
) -> None:
    """List the runs that are kept, the newest first."""
    with problems_told():
        from flowdebate.cli.find import STATES, listed
        from flowdebate.cli.keeping import opened

        _check(status, choice("--status", STATES))
        _check(block, text("--block"))
        _check(search, text("--search"))
        _check(limit, count("--limit"))
        with opened(store) as place:
            found = asyncio.run(listed(place.store, state=status, block=block, search=search, limit=limit + 1))
        with writing():
            _list(found[:limit], more=len(found) > limit, as_json=as_json)


def show(
    run: Annotated[str, typer.Argument(help=opt.RUN)],
    *,
    page: Annotated[
        bool, typer.Option("--page", help="As the command that has begun it shows it, instead of step by step.")
    ] = False,
    store: opt.StoreName = None,
    as_json: opt.Json = False,
    markdown: opt.Markdown = None,
) -> None:
    """Show a run that is kept: what it was begun with, each step that is finished, and what it came to."""
    with problems_told():
        from flowdebate.cli.document import as_json as told
        from flowdebate.cli.find import found
        from flowdebate.cli.keeping import opened
        from flowdebate.cli.page import render
        from flowdebate.cli.pages.kept import document_of, run_data, show_run, step_data

        check_report(markdown)
        with opened(store) as place:
            stored = asyncio.run(found(place.store, run))
            steps = asyncio.run(place.store.steps(stored.header.run_id))
        document = document_of(stored, steps) if page or markdown is not None else None
        with writing():
            if as_json and page and document is not None:
                write_json(document.to_json())
            elif as_json:
                write_json(told({**run_data(stored, whole=True), "done": [step_data(step) for step in steps]}))
            elif page and document is not None:
                render(document, _page(document.speakers))
            else:
                show_run(stored, steps, _page())
        if document is not None:
            write_report(document, markdown)


def delete(
    runs: Annotated[list[str] | None, typer.Argument(metavar="[RUN]...", help=opt.RUN, show_default=False)] = None,
    *,
    older_than: Annotated[
        float | None, typer.Option(metavar="DAYS", help="Those that nothing was written of for so long.")
    ] = None,
    status: Status = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    store: opt.StoreName = None,
) -> None:
    """Delete runs that are kept. Those that are being carried out stay."""
    with problems_told():
        from flowdebate.cli.find import STATES
        from flowdebate.cli.keeping import opened

        _check(status, choice("--status", STATES))
        _check(older_than, number("--older-than", "a number of days >= 0", lambda days: 0 <= days < float("inf")))
        if bool(runs) == (older_than is not None or status is not None):
            raise ConfigurationError(COMMAND, "RUN", runs or None, "the ids of runs; or else --older-than, --status")
        with opened(store) as place:
            meant = asyncio.run(_meant(place.store, runs or [], older_than=older_than, status=status))
            if not yes and meant:
                _ask(meant)
            asyncio.run(_delete(place.store, meant))
        with writing():
            _page().line(f"Deleted {_counted(len(meant))}.")


async def _meant(
    store: Store, names: Sequence[str], *, older_than: float | None, status: str | None
) -> Sequence[StoredRun]:
    from flowdebate.cli.find import found, listed

    if names:
        chosen = {run.header.run_id: run for run in [await found(store, name) for name in names]}
        for run in chosen.values():
            if run.owned:
                raise RunConflict(store.name, run.header.run_id)
        return list(chosen.values())
    oldest = time.time() - (older_than or 0) * _DAY
    return [run for run in await listed(store, state=status) if not run.owned and run.updated_at <= oldest]


async def _delete(store: Store, runs: Sequence[StoredRun]) -> None:
    for run in runs:
        await store.delete(run.header.run_id)


def _ask(runs: Sequence[StoredRun]) -> None:
    if not sys.stdin.isatty():
        allowed = f"given where nobody can be asked; {_counted(len(runs))} would go"
        raise ConfigurationError(COMMAND, "--yes", None, allowed)
    with writing():
        _list(runs, more=False, as_json=False)
        if not typer.confirm(f"Delete {_counted(len(runs))}?"):
            raise typer.Exit(1)


def _list(runs: Sequence[StoredRun], *, more: bool, as_json: bool) -> None:
    from flowdebate.cli.document import as_json as told
    from flowdebate.cli.pages.kept import run_data, show_table

    if as_json:
        write_json(told([run_data(run) for run in runs]))
    else:
        show_table(runs, _page(), now=time.time(), more=more)


def _page(speakers: Sequence[Any] = ()) -> Page:
    from flowdebate.cli.page import Page

    return Page(sys.stdout, speakers)


def _check(value: object, key: Key) -> None:
    if value is not None and not key.fits(value):
        raise ConfigurationError(COMMAND, key.option or "", value, key.allowed)


def _counted(number: int) -> str:
    return "1 run" if number == 1 else f"{number:,} runs"
