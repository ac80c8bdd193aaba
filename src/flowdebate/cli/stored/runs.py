"""`flowdebate runs`, `show`, `delete`, `archive` and `share`; `report`, `export` and `import` for run files."""

from __future__ import annotations

import asyncio
import shlex
import sys
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from flowdebate._text import counted, error_text
from flowdebate._util.option_types import Count, Text
from flowdebate._util.validation import check_count, check_library
from flowdebate.cli import options as opt
from flowdebate.cli.serving import load_token, read_token
from flowdebate.cli.terminal.process import (
    ExitCode,
    check_target,
    open_page,
    print_message,
    write_json,
    write_report,
    write_whole,
)
from flowdebate.cli.terminal.streams import writing
from flowdebate.errors import BadFile, FlowDebateError, RunConflict
from flowdebate.ui.options import COMMAND, FilePath, Option, misuse

if TYPE_CHECKING:
    from flowdebate.store.archive import ArchivedDebate
    from flowdebate.store.base import Store, StoredRun


_DAY = 86_400
_MAX_RUNS = 20
"""Default number of rows to list, few enough to fit on a terminal without scrolling."""


@opt.command()
def runs(  # noqa: PLR0913 - the options of the command
    *,
    status: opt.Status = None,
    pattern: opt.Pattern = None,
    text: opt.Search = None,
    label: opt.Labels = None,
    batch_id: Annotated[
        Text | None, Option(metavar="NAME", help="Only runs of this batch, each in its own row.")
    ] = None,
    limit: Annotated[Count, Option(metavar="N", help="Maximum number of rows in the list.")] = _MAX_RUNS,
    before: Annotated[
        Text | None, Option(metavar="RUN", help="Only runs that come after this one in the list, as on the next page.")
    ] = None,
    store: opt.StoreName = None,
    as_json: opt.Json = False,
) -> None:
    """List the stored runs, newest first. Each batch is shown as one row."""
    from flowdebate.runs.batch import BATCH_LABEL
    from flowdebate.service.runs import opened, short_id

    labels = opt.read_labels(label) | ({} if batch_id is None else {BATCH_LABEL: batch_id})
    filters = {"state": status, "block": pattern, "search": text, "labels": labels}
    with opened(store) as place:
        # Fetch one row more than is shown, to find out whether there is a next page.
        rows = asyncio.run(_rows(place.store, filters, limit + 1, before, fold=batch_id is None and not as_json))
    following = None
    if len(rows) > limit:
        options = {
            "status": status, "pattern": pattern, "text": text, "batch-id": batch_id,
            "limit": None if limit == _MAX_RUNS else str(limit), "before": short_id(rows[limit - 1][0].header.run_id),
        }  # fmt: skip
        words = [f" --label {shlex.quote(label_text)}" for label_text in label or ()]
        words += [f" --{name} {shlex.quote(value)}" for name, value in options.items() if value is not None]
        following = f"flowdebate runs{''.join(words)}{place.option}"
    _list(rows[:limit], as_json=as_json, following=following)


async def _rows(
    store: Store, filters: dict[str, Any], limit: int, before: str | None, *, fold: bool
) -> list[list[StoredRun]]:
    """Return the first `limit` rows, starting after run `before` if given; `fold` merges each batch into one row."""
    from flowdebate.runs.batch import BATCH_LABEL
    from flowdebate.service.runs import each_run, find_run

    # A position rather than an offset, because runs started or deleted between two pages would shift the list.
    after = None if before is None else (await find_run(store, before)).position
    rows: list[list[StoredRun]] = []
    batches: set[str] = set()
    async for run in each_run(store, **filters, before=after, brief=fold):
        batch = run.header.labels.get(BATCH_LABEL) if fold else None
        if batch is None:
            rows.append([run])
        elif batch not in batches:
            batches.add(batch)
            labels = {BATCH_LABEL: batch, **filters["labels"]}
            if row := await _batch_row(store, {**filters, "labels": labels}, run, after):
                rows.append(row)
        if len(rows) == limit:
            break
    return rows


async def _batch_row(
    store: Store, filters: dict[str, Any], first: StoredRun, after: tuple[float, str] | None
) -> list[StoredRun]:
    """Return the runs of one batch, to be listed as a single row; empty if an earlier page already lists the batch.

    `first` is the batch's newest run that comes after the position `after`.
    """
    from flowdebate.service.runs import list_runs
    from flowdebate.store.base import list_order

    runs = await list_runs(store, **filters, brief=True)
    if after is not None and any(list_order(run.position) <= list_order(after) for run in runs):
        return []
    return [first, *(run for run in runs if list_order(run.position) > list_order(first.position))]


@opt.command()
def show(
    run: opt.RunName = None,
    *,
    last: Annotated[bool, Option(help="The newest run.")] = False,
    page: Annotated[bool, Option(help="Show the page of the run instead of its steps.")] = False,
    note: Annotated[
        str | None, Option(metavar="TEXT", help='First add this note to the run; "" deletes the note.')
    ] = None,
    store: opt.StoreName = None,
    as_json: opt.Json = False,
) -> None:
    """Show a stored run with its labels, note, steps and result."""
    from flowdebate.cli.stored.run_view import document_of, run_data, show_run, step_data
    from flowdebate.cli.terminal.page import render
    from flowdebate.service.runs import chosen_run, opened
    from flowdebate.service.service import Service

    with opened(store) as place:
        stored = asyncio.run(chosen_run(place.store, run, last=last, verb="show"))
        steps = asyncio.run(place.store.steps(stored.header.run_id))
        service = Service(store=place.store)
        if note is not None:
            asyncio.run(service.write_note(stored.header.run_id, note))
        note = asyncio.run(service.note(stored.header.run_id))
    document = document_of(stored, steps) if page else None
    if document is not None and as_json:
        write_json(document.to_json())
    elif document is not None:
        render(document, open_page(document.speakers))
    elif as_json:
        write_json({**run_data(stored, complete=True), "note": note, "done": [step_data(step) for step in steps]})
    else:
        show_run(stored, steps, open_page(), note)


@opt.command()
def delete(
    runs: opt.RunNames = None,
    *,
    older_than: Annotated[
        opt.Days | None, Option(metavar="DAYS", help="Runs that have not changed for this many days.")
    ] = None,
    status: opt.Status = None,
    label: opt.Labels = None,
    yes: Annotated[bool, Option(flag="--yes -y", help="Do not ask for confirmation.")] = False,
    store: opt.StoreName = None,
) -> None:
    """Delete stored runs, and remove them from the workers' queue. Runs in progress are never deleted."""
    from flowdebate.service.runs import delete_run, opened

    if bool(runs) == (older_than is not None or status is not None or bool(label)):
        which = "Say which runs to delete: their IDs, or --older-than DAYS, --status STATUS or --label NAME=VALUE."
        say = "Run IDs cannot be combined with --older-than, --status or --label." if runs else which
        raise misuse("RUN", runs or None, say)

    async def delete_all(store: Store) -> int:
        number = 0
        async for run in selected:
            await delete_run(store, run.header.run_id)
            number += 1
        return number

    async def gather() -> list[StoredRun]:
        return [run async for run in selected]

    filters = {"state": status, "labels": opt.read_labels(label)}
    with opened(store) as place:
        selected = _select(place.store, runs or [], older_than, filters)
        if not yes and (listed := asyncio.run(gather())):
            if not sys.stdin.isatty():
                raise misuse(
                    "--yes",
                    None,
                    f"Cannot ask for confirmation without a terminal. To delete "
                    f"{counted(len(listed), 'run')}, add --yes.",
                )
            with writing():
                _list([[run] for run in listed])
                if not typer.confirm(f"Delete {counted(len(listed), 'run')}?"):
                    raise typer.Exit(ExitCode.FAILED)
            selected = _iterate(listed)
        number = asyncio.run(delete_all(place.store))
    open_page().line(f"Deleted {counted(number, 'run')}.")


async def _iterate(runs: Sequence[StoredRun]) -> AsyncIterator[StoredRun]:
    for run in runs:
        yield run


async def _select(
    store: Store, names: Sequence[str], older_than: float | None, filters: dict[str, Any]
) -> AsyncIterator[StoredRun]:
    """Yield the runs to delete: the named runs or, if no names are given, those that match the filters.

    Raises RunConflict if a named run is in progress; filters never match a run in progress.
    """
    from flowdebate.service.runs import each_run, find_run

    if not names:
        oldest = time.time() - (older_than or 0) * _DAY
        # Runs that started after this time were also updated after it, so they need not be read.
        runs_found = each_run(store, **filters, before=None if older_than is None else (oldest, ""), brief=True)
        async for run in runs_found:
            if not run.owned and run.updated_at <= oldest:
                yield run
        return
    selected = {run.header.run_id: run for run in [await find_run(store, name) for name in names]}
    for run in selected.values():
        if run.owned:
            raise RunConflict(store.name, run.header.run_id)
    for run in selected.values():
        yield run


def _list(rows: Sequence[Sequence[StoredRun]], *, as_json: bool = False, following: str | None = None) -> None:
    """Write the rows; `following` is the command for listing the next rows."""
    from flowdebate.cli.stored.run_view import run_data, show_table

    if as_json:
        write_json([run_data(run) for runs in rows for run in runs])
    else:
        show_table(rows, open_page(), now=time.time(), following=following)


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
        Option(
            panel="Output", metavar="FILE", help="Write one HTML file with the run's journal; it needs no JavaScript."
        ),
    ] = None,
    markdown: Annotated[Path | None, Option(panel="Output", metavar="FILE", help="Write Markdown.")] = None,
    store: opt.StoreName = None,
) -> None:
    """Write the report of a stored run to a file that you can print, send or verify."""
    from flowdebate.service.evidence import evidence_in
    from flowdebate.service.runs import chosen_run, opened

    if html is None and markdown is None:
        raise misuse("--html", None, "Specify an output file: --html FILE, --markdown FILE, or both.")
    for path in (html, markdown):
        check_target(path)
    with opened(store) as place:
        stored = asyncio.run(chosen_run(place.store, run, last=last, verb="runs report"))
        lines, evidence = asyncio.run(evidence_in(place.store, stored.header.run_id))
    if html is not None:
        from flowdebate.web.report import report_html

        write_whole(html, asyncio.run(report_html(lines, evidence)))
    write_report(asyncio.run(evidence.document()), markdown)
    for path, more in ((html, ": open it in a browser"), (markdown, "")):
        if path is not None:
            print_message(f"Wrote {path}{more}.")


@opt.command()
def verify(
    file: Annotated[str, Option(help='An HTML report, or a file written by export; "-" is stdin.')],
    *,
    as_json: opt.Json = False,
) -> None:
    """Check whether a report matches its journal. No model is called, and nothing is stored."""
    from flowdebate.web.report import verify_file

    try:
        findings = asyncio.run(verify_file(file))
    except FlowDebateError:
        raise
    # the file is untrusted and may cause any error; exit code 1 would mean that the file had been tampered with
    except Exception as error:
        raise BadFile(file, f"cannot be verified: {error_text(error)}") from error
    if as_json:
        write_json([finding.model_dump(by_alias=True) for finding in findings])
    else:
        page = open_page()
        for finding in findings:
            page.labeled("Run", finding.run_id, "bold", indent="")
            page.labeled("About", finding.question, "bold", indent="")
            page.labeled("Journal", counted(finding.answers, "answer"), "dim")
            page.labeled("Outcome", _WORDS[finding.outcome], "dim")
            page.labeled("Not checked", ", ".join(finding.unchecked), "dim")
            for problem in finding.problems:
                page.labeled("Problem", problem, "yellow")
    if any(finding.outcome == "differs" for finding in findings):
        raise typer.Exit(ExitCode.FAILED)
    if any(finding.outcome == "unknown" for finding in findings):
        raise typer.Exit(ExitCode.NO_RESULT)


@opt.command()
def export(
    runs: opt.RunNames = None,
    *,
    everything: Annotated[bool, Option(flag="--all", help="All runs in the store.")] = False,
    out: Annotated[Path | None, Option(flag="--out -o", metavar="FILE", help="A new file. Default: stdout.")] = None,
    store: opt.StoreName = None,
) -> None:
    """Export runs to a file. Each run and each step is written as one line of JSON."""
    from flowdebate.service.runs import each_run, find_run, opened
    from flowdebate.store.export import export_run, write_export
    from flowdebate.ui.text import escape_json

    if everything == bool(runs):
        say = "Run IDs cannot be combined with --all." if runs else "Say which runs to export: their IDs, or --all."
        raise misuse("RUN", runs or None, say)
    check_target(out)
    if out is not None and out.exists():
        raise BadFile(str(out), "already exists: write to another file")

    async def write(store: Store) -> None:
        if runs:
            run_ids = list(dict.fromkeys([(await find_run(store, name)).header.run_id for name in runs]))
        else:
            run_ids = [run.header.run_id async for run in each_run(store, brief=True)]
        if out is not None:
            await write_export(out, store, run_ids)
            return
        for run_id in run_ids:
            async for line in export_run(store, run_id):
                write_json(escape_json(line))

    with opened(store) as place:
        asyncio.run(write(place.store))


@opt.command()
def import_(
    file: Annotated[str, Option(help='File written by export; "-" is stdin.')],
    *,
    store: opt.StoreName = None,
) -> None:
    """Import runs from an exported file. Runs already in the store are not changed."""
    from flowdebate.service.runs import opened
    from flowdebate.store.export import import_runs, read_export

    lines: Iterable[bytes] = sys.stdin.buffer if file == "-" else read_export(file)
    source = "stdin" if file == "-" else file
    with opened(store, new=True) as place:
        done = asyncio.run(import_runs(place.store, lines, source=source, exists="skip"))
    skipped = f"; {len(done.skipped)} {'was' if len(done.skipped) == 1 else 'were'} there already"
    open_page().line(f"Imported {counted(len(done.added), 'run')}{skipped if done.skipped else ''}.")


@opt.command()
def render(
    file: Annotated[str, Option(help='A document written by --json, or a bare raw output; "-" is stdin.')],
    *,
    markdown: opt.Markdown = None,
) -> None:
    """Show a saved JSON document the way the original command did. No model is called."""
    from flowdebate.cli.terminal.page import render as render_page
    from flowdebate.ui.document import read_document

    document = read_document(file)
    check_target(markdown)
    try:
        render_page(document, open_page(document.speakers))
        write_report(document, markdown)
    except RecursionError:  # a file can be nested more deeply than the printer allows
        raise BadFile(file, "is nested too deeply") from None


@opt.command()
def archive(
    action: Annotated[
        Literal["list", "show", "outcome", "correct", "delete"],
        Option(metavar="ACTION", help="list (the default), show, outcome, correct or delete."),
    ] = "list",
    debate: Annotated[Text | None, Option(metavar="DEBATE", help="ID of a debate, as shown in the list.")] = None,
    *,
    right: Annotated[
        Text | None, Option(metavar="AGENT", help="outcome: the agent whose proposal turned out right.")
    ] = None,
    wrong: Annotated[
        Text | None, Option(metavar="AGENT", help="outcome: the agent whose proposal turned out wrong.")
    ] = None,
    answer: Annotated[
        Text | None, Option(metavar="TEXT", help="correct: the answer that later debates are shown.")
    ] = None,
    store: opt.StoreName = None,
    as_json: opt.Json = False,
) -> None:
    """Show the archive of consensus debates, record actual outcomes, correct an answer, or delete a debate."""
    from flowdebate.service.runs import archive_of, opened, short_id, to_datetime

    if [bool(right) + bool(wrong), bool(answer)] != [action == "outcome", action == "correct"]:
        sentence = (
            "outcome requires --right AGENT or --wrong AGENT, and correct requires --answer TEXT; "
            "other actions take neither."
        )
        raise misuse("ACTION", action, sentence)
    with opened(store) as place:
        opened_archive = archive_of(place.store, {})
        debates = asyncio.run(opened_archive.debates())
        if action != "list":
            debates = [entry for entry in debates if debate is not None and entry.id.startswith(debate)]
            if len(debates) != 1:
                problem = f"{len(debates)} debate IDs begin with {debate}."
                advice = f"To list them: flowdebate runs archive{place.option}"
                raise misuse("DEBATE", debate, f"{problem} {advice}")
        if action in ("outcome", "correct"):
            asyncio.run(opened_archive.correct(debates[0].id, right=right, wrong=wrong, answer=answer))
            debates = [entry for entry in asyncio.run(opened_archive.debates()) if entry.id == debates[0].id]
        elif action == "delete":
            asyncio.run(opened_archive.forget(debates[0].id))
    if as_json:
        write_json([entry.model_dump(mode="json", by_alias=True) for entry in debates])
    elif action == "list":
        rows = [
            (
                short_id(entry.id.partition(":")[0]),
                f"{to_datetime(entry.at):%Y-%m-%d}",
                entry.turned_out or "",
                entry.task,
            )
            for entry in debates
        ]
        open_page().columns(("DEBATE", "DATE", "TURNED OUT", "TASK"), rows)
    else:
        _show(debates[0], "Deleted" if action == "delete" else "Task")


def _show(debate: ArchivedDebate, label: str) -> None:
    page = open_page()
    page.labeled(label, debate.task, "bold", indent="")
    page.labeled("Answer", debate.answer or "no agreement", "green")
    for ballot in debate.dissent:
        page.labeled("Dissent", f"{ballot.voter}: {ballot.reasoning}", "dim")
    for what, name in dict(debate.recorded or {}).items():
        if name is not None:
            page.labeled("Turned out", f"{name} was {what}", "bold")


@opt.command()
def share(  # noqa: PLR0913 - the options of the command
    run: opt.RunName = None,
    *,
    last: Annotated[bool, Option(help="The newest run.")] = False,
    vote: Annotated[
        bool, Option(help="Make a link for blind votes, which hides names, and shows the verdict only after the vote.")
    ] = False,
    days: Annotated[int, Option(metavar="DAYS", help="Days until the link expires.")] = 30,
    listed: Annotated[bool, Option(flag="--list", help="List the public links of the run instead.")] = False,
    revoke: Annotated[Text | None, Option(metavar="ID", help="Revoke this public link instead.")] = None,
    url: Annotated[
        Text, Option(metavar="URL", help="Address at which readers reach your server.")
    ] = "http://127.0.0.1:8377",
    token_file: Annotated[
        FilePath | None,
        Option(metavar="FILE", help="File with your server's token. Default: the token in your data directory."),
    ] = None,
    store: opt.StoreName = None,
) -> None:
    """Make a public, read-only link to a stored run. `flowdebate serve` shows the run to anyone with the link."""
    check_library("flowdebate runs share", "fastapi", library="FastAPI", extra="server")
    from flowdebate.evaluation.readers import end_shares, make_share, shares_of
    from flowdebate.server.guard import Link, Links
    from flowdebate.service.runs import chosen_run, opened

    check_count(COMMAND, {"--days": days}, maximum=365)
    links = Links(load_token(needed=True) if token_file is None else read_token(token_file))
    with opened(store) as place:
        run_chosen = asyncio.run(chosen_run(place.store, run, last=last, verb="runs share"))
        run_id = run_chosen.header.run_id
        if revoke is not None:
            if not asyncio.run(end_shares(place.store, run_id, revoke)):
                raise misuse("--revoke", revoke, f"The run has no public link {revoke}. Use --list to see its links.")
            open_page().line(f"Revoked {revoke}.")
            return
        if listed:
            shares = list(asyncio.run(shares_of(place.store, run_chosen)).values())
        else:
            shares = [asyncio.run(make_share(place.store, run_chosen, "vote" if vote else "run", days * 86_400))]
    for entry in shares:
        link = Link(run_id=run_id, started_at=entry.begun_at, expires_at=entry.expires_at, share=entry.id)
        address = f"{url.rstrip('/')}/shared/{links.sign(link)}"
        open_page().line(f"{entry.id} {entry.shows} {address}" if listed else address)
