"""`flowdebate runs`, `show`, `delete`, `export` and `import`: the stored runs."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import Field

from flowdebate.cli import options as opt
from flowdebate.cli.command import check_report, write_json, write_report
from flowdebate.cli.process import ExitCode, writing
from flowdebate.errors import BadFile, RunConflict
from flowdebate.service.options import Count, Option, Text, allowed, misuse

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from flowdebate.cli.page import Page
    from flowdebate.store.base import Store, StoredRun

__all__ = ("delete", "export", "import_", "runs", "show")

_WHICH_TO_DELETE = "Say which runs to delete: their ids, or --older-than DAYS, or --status STATUS."
_DAY = 86_400
_MOST = 20
_Days = Annotated[float, Field(ge=0, allow_inf_nan=False), allowed("a number of days >= 0")]


@opt.command()
def runs(
    *,
    status: opt.Status = None,
    block: opt.Block = None,
    search: opt.Search = None,
    batch: Annotated[
        Text | None, Option(metavar="NAME", help="Only runs of this batch, each in a row of its own.")
    ] = None,
    limit: Annotated[Count, Option(metavar="N", help="Maximum number of rows in the list.")] = _MOST,
    store: opt.StoreName = None,
    as_json: opt.Json = False,
) -> None:
    """List the stored runs, the newest first. The runs of a batch are one row."""
    from flowdebate.service.runs import opened

    filters = {"state": status, "block": block, "search": search, "batch": batch}
    with opened(store) as place:
        rows = asyncio.run(_rows(place.store, filters, limit + 1, fold=batch is None and not as_json))
    with writing():
        _list(rows[:limit], more=len(rows) > limit, as_json=as_json)


async def _rows(store: Store, filters: dict[str, Any], limit: int, *, fold: bool) -> list[list[StoredRun]]:
    """The newest runs in `limit` rows, or in as many as there are."""
    from flowdebate.cli.run_view import folded
    from flowdebate.service.runs import list_runs

    most = limit
    while True:
        runs = await list_runs(store, **filters, limit=most)
        rows = folded(runs) if fold else [[run] for run in runs]
        if len(rows) >= limit or len(runs) < most:
            return rows
        most *= 4


@opt.command()
def show(
    run: opt.RunName = None,
    *,
    last: Annotated[bool, Option(help="The newest run.")] = False,
    page: Annotated[bool, Option(help="Show the page of its command, not the steps.")] = False,
    store: opt.StoreName = None,
    as_json: opt.Json = False,
    markdown: opt.Markdown = None,
) -> None:
    """Show a stored run with its steps and its result."""
    from flowdebate.cli.page import render
    from flowdebate.cli.run_view import document_of, run_data, show_run, step_data
    from flowdebate.service.documents import as_json as json_of
    from flowdebate.service.runs import find_run, last_run, opened

    check_report(markdown)
    if last == (run is not None):
        which = "Name one run, or give --last, not both." if last else "Say which run: flowdebate show RUN, or --last."
        raise misuse("RUN", run, f"{which} flowdebate runs lists the stored runs.")
    with opened(store) as place:
        stored = asyncio.run(last_run(place.store) if run is None else find_run(place.store, run))
        steps = asyncio.run(place.store.steps(stored.header.run_id))
    document = document_of(stored, steps) if page or markdown is not None else None
    with writing():
        if as_json and page and document is not None:
            write_json(document.to_json())
        elif as_json:
            write_json(json_of({**run_data(stored, whole=True), "done": [step_data(step) for step in steps]}))
        elif page and document is not None:
            render(document, _page(document.speakers))
        else:
            show_run(stored, steps, _page())
    if document is not None:
        write_report(document, markdown)


@opt.command()
def delete(
    runs: opt.RunNames = None,
    *,
    older_than: Annotated[
        _Days | None, Option(metavar="DAYS", help="Runs without a change for this many days.")
    ] = None,
    status: opt.Status = None,
    yes: Annotated[bool, Option(flag="--yes -y", help="Do not ask for confirmation.")] = False,
    store: opt.StoreName = None,
) -> None:
    """Delete stored runs. Runs in progress are never deleted."""
    from flowdebate.service.runs import opened

    if bool(runs) == (older_than is not None or status is not None):
        say = "Name the runs, or give --older-than or --status, not both." if runs else _WHICH_TO_DELETE
        raise misuse("RUN", runs or None, say)
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
    from flowdebate.service.runs import find_run, list_runs

    if names:
        chosen = {run.header.run_id: run for run in [await find_run(store, name) for name in names]}
        for run in chosen.values():
            if run.owned:
                raise RunConflict(store.name, run.header.run_id)
        return list(chosen.values())
    oldest = time.time() - (older_than or 0) * _DAY
    return [run for run in await list_runs(store, state=status) if not run.owned and run.updated_at <= oldest]


async def _delete(store: Store, runs: Sequence[StoredRun]) -> None:
    for run in runs:
        await store.delete(run.header.run_id)


def _ask(runs: Sequence[StoredRun]) -> None:
    if not sys.stdin.isatty():
        raise misuse("--yes", None, f"Nobody can be asked here. To delete {_counted(len(runs))}, add --yes.")
    with writing():
        _list([[run] for run in runs], more=False, as_json=False)
        if not typer.confirm(f"Delete {_counted(len(runs))}?"):
            raise typer.Exit(ExitCode.FAILED)


def _list(rows: Sequence[Sequence[StoredRun]], *, more: bool, as_json: bool) -> None:
    from flowdebate.cli.run_view import run_data, show_table
    from flowdebate.service.documents import as_json as json_of

    if as_json:
        write_json(json_of([run_data(run) for runs in rows for run in runs]))
    else:
        show_table(rows, _page(), now=time.time(), more=more)


def _page(speakers: Sequence[Any] = ()) -> Page:
    from flowdebate.cli.page import Page

    return Page(sys.stdout, speakers)


def _counted(number: int) -> str:
    return "1 run" if number == 1 else f"{number:,} runs"


# export and import


@opt.command()
def export(
    runs: opt.RunNames = None,
    *,
    everything: Annotated[bool, Option(flag="--all", help="All runs of the store.")] = False,
    output: Annotated[
        Path | None, Option(flag="--output -o", metavar="FILE", help="A new file. Default: stdout.")
    ] = None,
    store: opt.StoreName = None,
) -> None:
    """Export runs to a file. Each run and each step is one line of JSON."""
    from flowdebate.service.runs import opened

    if everything == bool(runs):
        say = "Name the runs, or give --all, not both." if runs else "Say which runs to export: their ids, or --all."
        raise misuse("RUN", runs or None, say)
    if output is not None:
        check_report(output)
        if output.exists():
            raise BadFile(str(output), "is there already: write to another file")
    with opened(store) as place:
        asyncio.run(_export(place.store, runs or [], output))


async def _export(store: Store, names: Sequence[str], output: Path | None) -> None:
    from flowdebate.service.documents import seen_json
    from flowdebate.service.runs import find_run
    from flowdebate.store.export import export_run, write_export

    runs = [await find_run(store, name) for name in names] if names else await store.runs()
    run_ids = list(dict.fromkeys(run.header.run_id for run in runs))
    if output is not None:
        await write_export(output, store, run_ids)
        return
    for run_id in run_ids:
        async for line in export_run(store, run_id):
            with writing():
                sys.stdout.buffer.write(f"{seen_json(line)}\n".encode())
    with writing():
        sys.stdout.flush()


@opt.command()
def import_(
    file: Annotated[str, Option(help='File that export wrote; "-" is stdin.')],
    *,
    store: opt.StoreName = None,
) -> None:
    """Import runs from a file that export wrote. Runs that the store already has stay as they are."""
    from flowdebate.cli.page import Page
    from flowdebate.service.runs import opened
    from flowdebate.store.export import import_runs, read_export

    lines: Iterable[bytes] = sys.stdin.buffer if file == "-" else read_export(file)
    source = "stdin" if file == "-" else file
    with opened(store) as place:
        done = asyncio.run(import_runs(place.store, lines, source=source, exists="skip"))
    there = f"; {len(done.skipped)} {'was' if len(done.skipped) == 1 else 'were'} there already"
    added = "1 run" if len(done.added) == 1 else f"{len(done.added):,} runs"
    with writing():
        Page(sys.stdout, ()).line(f"Imported {added}{there if done.skipped else ''}.")
