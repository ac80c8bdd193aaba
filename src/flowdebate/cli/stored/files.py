"""Stored runs as files: `flowdebate report` and `verify`, `export` and `import`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from flowdebate._util.text import counted
from flowdebate.cli import options as opt
from flowdebate.cli.command import open_page, write_json, write_report
from flowdebate.cli.terminal.process import ExitCode, check_target, write_whole, writing
from flowdebate.errors import BadFile
from flowdebate.service.plans.options import Option, misuse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from flowdebate.store.base import Store


_WORDS = {
    "verified": "verified: what is shown follows from the journal",
    "differs": "does not follow from its journal",
    "unknown": "cannot be verified here",
}


@opt.command()
def report(
    run: opt.RunName = None,
    *,
    last: Annotated[bool, Option(help="The newest run.")] = False,
    html: Annotated[
        Path | None,
        Option(panel="Output", metavar="FILE", help="Write one HTML file without a script, with the run's journal."),
    ] = None,
    markdown: Annotated[Path | None, Option(panel="Output", metavar="FILE", help="Write Markdown.")] = None,
    store: opt.StoreName = None,
) -> None:
    """Write the report of a stored run to a file: to print, to mail, and to be verified."""
    from flowdebate.service.evidence import evidence_in
    from flowdebate.service.runs import chosen_run, opened

    if html is None and markdown is None:
        raise misuse("--html", None, "Say where to: --html FILE, --markdown FILE, or both.")
    for path in (html, markdown):
        check_target(path)
    with opened(store) as place:
        stored = asyncio.run(chosen_run(place.store, run, last=last, verb="report"))
        lines, evidence = asyncio.run(evidence_in(place.store, stored.header.run_id))
    if html is not None:
        from flowdebate.web.report import report_html

        write_whole(html, asyncio.run(report_html(lines, evidence)))
    write_report(asyncio.run(evidence.document()), markdown)


@opt.command()
def verify(
    file: Annotated[str, Option(help='A report in HTML, or a file that export wrote; "-" is stdin.')],
    *,
    as_json: opt.Json = False,
) -> None:
    """Check that a report shows what its journal gives. No model is called, and nothing is stored."""
    from flowdebate.web.report import verify_file

    findings = asyncio.run(verify_file(file))
    with writing():
        if as_json:
            write_json([finding.model_dump(by_alias=True) for finding in findings])
        else:
            page = open_page()
            for finding in findings:
                page.labelled("Run", finding.run_id, "bold", indent="")
                page.labelled("About", finding.question, "bold", indent="")
                page.labelled("Journal", counted(finding.answers, "answer"), "dim")
                page.labelled("Outcome", _WORDS[finding.outcome], "dim")
                for problem in finding.problems:
                    page.labelled("Problem", problem, "yellow")
    if any(finding.outcome == "differs" for finding in findings):
        raise typer.Exit(ExitCode.FAILED)
    if any(finding.outcome == "unknown" for finding in findings):
        raise typer.Exit(ExitCode.NO_RESULT)


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
    from flowdebate.service.documents.document import seen_json
    from flowdebate.service.runs import each_run, find_run, opened
    from flowdebate.store.export import export_run, write_export

    if everything == bool(runs):
        say = "Name the runs, or give --all, not both." if runs else "Say which runs to export: their ids, or --all."
        raise misuse("RUN", runs or None, say)
    check_target(output)
    if output is not None and output.exists():
        raise BadFile(str(output), "is there already: write to another file")

    async def write(store: Store) -> None:
        if runs:
            run_ids = list(dict.fromkeys([(await find_run(store, name)).header.run_id for name in runs]))
        else:
            run_ids = [run.header.run_id async for run in each_run(store)]
        if output is not None:
            await write_export(output, store, run_ids)
            return
        for run_id in run_ids:
            async for line in export_run(store, run_id):
                with writing():
                    sys.stdout.buffer.write(f"{seen_json(line)}\n".encode())
        with writing():
            sys.stdout.flush()

    with opened(store) as place:
        asyncio.run(write(place.store))


@opt.command()
def import_(
    file: Annotated[str, Option(help='File that export wrote; "-" is stdin.')],
    *,
    store: opt.StoreName = None,
) -> None:
    """Import runs from a file that export wrote. Runs that the store already has stay as they are."""
    from flowdebate.service.runs import opened
    from flowdebate.store.export import import_runs, read_export

    lines: Iterable[bytes] = sys.stdin.buffer if file == "-" else read_export(file)
    source = "stdin" if file == "-" else file
    with opened(store) as place:
        done = asyncio.run(import_runs(place.store, lines, source=source, exists="skip"))
    there = f"; {len(done.skipped)} {'was' if len(done.skipped) == 1 else 'were'} there already"
    with writing():
        open_page().line(f"Imported {counted(len(done.added), 'run')}{there if done.skipped else ''}.")
