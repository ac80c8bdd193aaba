"""`flowdebate report` and `verify`: a run as one file to keep, and whether such a file follows from its journal."""

from __future__ import annotations

import asyncio
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import Annotated

import typer

from flowdebate._util.text import counted
from flowdebate.cli import options as opt
from flowdebate.cli.command import open_page, write_json, write_report
from flowdebate.cli.terminal.process import ExitCode, check_target, write_whole, writing
from flowdebate.service.plans.options import Option, misuse

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
