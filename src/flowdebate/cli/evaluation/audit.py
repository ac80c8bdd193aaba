"""`flowdebate audit`: bias and consistency of judges, from stored ballots, a file, or judging again."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from pydantic import Field

from flowdebate._util.text import counted
from flowdebate.cli import options as opt
from flowdebate.cli.command import write_json
from flowdebate.cli.options import check
from flowdebate.cli.terminal.process import ExitCode, tell, writing
from flowdebate.service.documents.text import in_line
from flowdebate.service.plans.options import Count, FilePath, ModelName, Option, Text, allowed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flowdebate.cli.evaluation.rejudging import Rejudging
    from flowdebate.cli.terminal.page import Page
    from flowdebate.evaluation import JudgeAudit
    from flowdebate.evaluation.judges.report import ReaderAgreement
    from flowdebate.service.audit import Items
    from flowdebate.store.base import Store, StoredRun


_Seed = Annotated[int, Field(ge=0), allowed("an int >= 0")]
_HEAD = ("JUDGE", "FIGURE", "VALUE", "95% INTERVAL", "OF")


@opt.command("base_url")
def audit(  # noqa: PLR0913 - the options of the command
    runs: Annotated[list[str] | None, Option(metavar="RUN", help=f"{opt.RUN} Default: all stored runs.")] = None,
    *,
    data: Annotated[
        FilePath | None, Option(metavar="FILE", help='Ballots of this JSON Lines file; "-" is stdin.')
    ] = None,
    status: opt.Status = None,
    block: opt.Block = None,
    search: opt.Search = None,
    limit: Annotated[Count | None, Option(metavar="N", help="Only the newest N runs.")] = None,
    rejudge: Annotated[bool, Option(help="Judge the stored debates again, without arguing again.")] = False,
    schedule: Annotated[
        Text | None,
        Option(metavar="NAME", help="The judge views: single, swap, cyclic, full, sampled(N). Default: cyclic."),
    ] = None,
    repeat: Annotated[Count | None, Option(metavar="N", help="How often each view is judged. Default: 1.")] = None,
    judge_answer: Annotated[
        Literal["scores", "letter", "letter_after_reasons"] | None,
        Option(help="Form of the judge's answers; letters need a model that gives log-probabilities."),
    ] = None,
    labels: Annotated[bool, Option(help="Call the sides A, B, …, not by their stances.")] = False,
    model: Annotated[
        list[ModelName] | None, Option(metavar="SPEC", help="The model that judges again; repeat for several.")
    ] = None,
    max_concurrency: Annotated[
        Count | None, Option(metavar="N", help="Maximum number of debates at once. Default: 8.")
    ] = None,
    seed: Annotated[_Seed, Option(help="Seed of orders, p-values and intervals.")] = 0,
    store: opt.StoreName = None,
    as_json: opt.Json = False,
    **given: object,
) -> None:
    """Audit judges for bias and consistency.

    The audit tests whether judges favour a slot or a label, and whether they repeat their verdicts in another order.
    The findings say which preferences were found, and for which there were too few verdicts to find any.
    """
    filters: dict[str, Any] = {"status": status, "block": block, "search": search, "limit": limit}
    reason = "the runs are named" if runs else "--data is given"
    for name, value in filters.items():
        check(value is None or not (runs or data is not None), f"--{name}", value, f"left out where {reason}")
    check(data is None or not runs, "RUN", runs, "left out where --data is given")
    asked = {
        **given, "schedule": schedule, "repeat": repeat, "labels": labels or None, "max_concurrency": max_concurrency,
        "judge_answer": judge_answer, "model": model or None,
    }  # fmt: skip
    again = _rejudging(asked, data=data, wanted=rejudge)
    items, failed = _items(data, runs or [], filters, store, again=again, seed=seed)
    audited = _audited(items, seed)
    with writing():
        _write(audited, items, as_json=as_json)
    if failed:
        raise typer.Exit(ExitCode.FAILED)
    if not audited.ballots:
        raise typer.Exit(ExitCode.NO_RESULT)


def _rejudging(options: Mapping[str, Any], *, data: str | None, wanted: bool) -> Rejudging | None:
    """The options of judging again; None without --rejudge."""
    check(not wanted or data is None, "--rejudge", wanted, "left out where --data is given")
    if wanted:
        from flowdebate.cli.evaluation.rejudging import Rejudging

        return Rejudging.of(**options)
    for name, value in options.items():
        check(value is None, f"--{name.replace('_', '-')}", value, "left out without --rejudge")
    return None


def _items(
    data: str | None,
    names: Sequence[str],
    filters: Mapping[str, Any],
    store: str | None,
    *,
    again: Rejudging | None,
    seed: int,
) -> tuple[Items, int]:
    """The items to audit, and how many debates could not be judged again."""
    from flowdebate.service.audit import read_items
    from flowdebate.service.runs import opened

    if data is not None:
        return read_items(data), 0
    with opened(store) as place:
        if again is None:
            return asyncio.run(_stored(place.store, names, filters)), 0
        return again.judged(asyncio.run(_selected(place.store, names, filters)), place.store, seed=seed)


async def _stored(store: Store, names: Sequence[str], filters: Mapping[str, Any]) -> Items:
    from flowdebate.service.audit import audited_runs

    return await audited_runs(store, await _selected(store, names, filters))


async def _selected(store: Store, names: Sequence[str], filters: Mapping[str, Any]) -> Sequence[StoredRun]:
    from flowdebate.service.runs import find_run, list_runs

    if names:
        return list({run.header.run_id: run for run in [await find_run(store, name) for name in names]}.values())
    others = {name: value for name, value in filters.items() if name != "status"}
    return await list_runs(store, state=filters["status"], **others)


def _audited(items: Items, seed: int) -> JudgeAudit:
    """The audit, with p-values and intervals where scipy is installed."""
    from flowdebate.service.audit import audit_of, has_intervals

    if not has_intervals():
        tell('Warning: no p-values and no intervals without scipy: pip install "flowdebate[audit]"')
    return audit_of(items, seed=seed)


def _write(audited: JudgeAudit, items: Items, *, as_json: bool) -> None:
    from flowdebate.cli.terminal.page import Page
    from flowdebate.service.documents.document import as_json as json_of

    if as_json:
        data = {"audit": audited.model_dump(mode="json", by_alias=True), "findings": audited.findings}
        readers = items.readers
        votes = {} if readers is None else {"readers": readers.model_dump(mode="json", by_alias=True)}
        write_json(json_of({**data, "leftOut": dict(sorted(items.left_out.items())), **votes}))
    else:
        _show(audited, Page(sys.stdout, ()), left_out=items.left_out, readers=items.readers)


def _show(
    audit: JudgeAudit, page: Page, *, left_out: Mapping[str, int], readers: ReaderAgreement | None = None
) -> None:
    from flowdebate.service.audit import rows_of

    models = f", {counted(len(audit.models), 'model')}" if audit.models else ""
    page.line(f"Audit of {counted(audit.ballots, 'ballot')} on {counted(audit.items, 'item')}{models}", style="bold")
    for why, number in sorted(left_out.items()):
        page.line(f"Left out: {counted(number, 'run')}: {why}", style="dim")
    if not audit.ballots:
        return
    page.line()
    rows = rows_of(audit, readers)
    page.columns(_HEAD, [(in_line(row.judge), row.name, row.shown, row.interval, row.of) for row in rows])
    page.heading("Findings")
    for finding in (*audit.findings, *([] if readers is None else readers.findings)):
        page.line(f"- {in_line(finding)}")
