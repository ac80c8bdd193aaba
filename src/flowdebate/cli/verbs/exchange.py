"""`flowdebate export` and `import`: runs out of one store and into another."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from flowdebate.cli import options as opt
from flowdebate.cli.command import check_report, problems_told
from flowdebate.cli.streams import writing
from flowdebate.errors import BadFile, ConfigurationError
from flowdebate.service.options import COMMAND

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from flowdebate.store.base import Store

__all__ = ("export", "import_")


def export(
    runs: Annotated[list[str] | None, typer.Argument(metavar="[RUN]...", help=opt.RUN, show_default=False)] = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="All runs of the store.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="A new file. Default: stdout.")
    ] = None,
    store: opt.StoreName = None,
) -> None:
    """Export runs as lines of JSON, with everything that is stored of them."""
    with problems_told():
        from flowdebate.service.store import opened

        if everything == bool(runs):
            raise ConfigurationError(COMMAND, "RUN", runs or None, "the ids of runs; or else --all")
        if output is not None:
            check_report(output)
            if output.exists():
                raise BadFile(str(output), "is there already: write to another file")
        with opened(store) as place:
            asyncio.run(_export(place.store, runs or [], output))


async def _export(store: Store, names: Sequence[str], output: Path | None) -> None:
    from flowdebate.service.documents import seen_json
    from flowdebate.service.stored_runs import find_run
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


def import_(
    file: Annotated[str, typer.Argument(help='A file that export has written; "-" is stdin.')],
    *,
    store: opt.StoreName = None,
) -> None:
    """Import the runs of a file. Runs that the store already has stay as they are."""
    with problems_told():
        from flowdebate.cli.page import Page
        from flowdebate.service.store import opened
        from flowdebate.store.export import import_runs, read_export

        lines: Iterable[bytes] = sys.stdin.buffer if file == "-" else read_export(file)
        source = "stdin" if file == "-" else file
        with opened(store) as place:
            done = asyncio.run(import_runs(place.store, lines, source=source, exists="skip"))
        there = f"; {len(done.skipped)} {'was' if len(done.skipped) == 1 else 'were'} there already"
        added = "1 run" if len(done.added) == 1 else f"{len(done.added):,} runs"
        with writing():
            Page(sys.stdout, ()).line(f"Imported {added}{there if done.skipped else ''}.")
