"""`flowdebate audit`: what the verdicts of judges show of the judges."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from flowdebate.cli import options as opt
from flowdebate.cli.command import problems_told, write_json
from flowdebate.cli.keys import COMMAND, Key, choice, count, path, text, whole
from flowdebate.cli.streams import tell, writing
from flowdebate.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flowdebate.cli.audit_items import Items
    from flowdebate.cli.rejudging import Rejudging
    from flowdebate.evaluation.judges.schemas import JudgeAudit
    from flowdebate.store.base import Store, StoredRun

__all__ = ("ENDS_AUDIT", "audit")

_FAILED, _NO_RESULT = 1, 3
ENDS_AUDIT = "Exit codes: 0 done, 1 failed, 2 misused, 3 there is no ballot to audit."
"""What its help ends with."""


def audit(  # noqa: PLR0913 - the options of the command
    *,
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RUN]...", help=f"{opt.RUN} Default: all that are kept.", show_default=False),
    ] = None,
    data: Annotated[
        str | None, typer.Option(metavar="FILE", help='Ballots of this JSON Lines file instead; "-" is stdin.')
    ] = None,
    status: Annotated[str | None, typer.Option(metavar="STATUS", help="Only runs that stand so.")] = None,
    block: Annotated[str | None, typer.Option(metavar="NAME", help="Only runs of the block.")] = None,
    search: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only runs with this text in what they are about.")
    ] = None,
    limit: Annotated[int | None, typer.Option(metavar="N", help="Only so many runs, the newest.")] = None,
    rejudge: Annotated[
        bool, typer.Option("--rejudge", help="Judge the debates again, without arguing anew; those runs are kept too.")
    ] = False,
    schedule: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The views: single, swap, cyclic, full, sampled(N). Default: cyclic."),
    ] = None,
    repeat: Annotated[int | None, typer.Option(metavar="N", help="How often each view is judged. Default: 1.")] = None,
    labels: Annotated[
        bool | None, typer.Option("--labels", help="Call the sides A, B, … instead of by their stances.")
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option(metavar="SPEC", help="Who judges again; once for each of several models.")
    ] = None,
    base_url: opt.BaseUrl = None,
    concurrency: Annotated[int | None, typer.Option(metavar="N", help="Debates at once. Default: 8.")] = None,
    seed: Annotated[int, typer.Option(help="What orders, p-values and intervals are drawn from.")] = 0,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw it as well: .svg or .png.")] = None,
    store: opt.StoreName = None,
    as_json: opt.Json = False,
) -> None:
    """Audit judges: whether they favour a slot or a label, and hold to their verdicts in another order.

    It says which preferences were found, and for which there were too few verdicts to find any.
    """
    with problems_told():
        filters: dict[str, object] = {"--status": status, "--block": block, "--search": search, "--limit": limit}
        _check(filters, runs, data=data, seed=seed)
        if plot is not None:
            _check_plot(plot)
        asked = {
            "schedule": schedule, "repeat": repeat, "labels": labels, "base_url": base_url, "concurrency": concurrency
        }  # fmt: skip
        again = _again(asked, model or [], data=data, asked=rejudge)
        items, failed = _read(data) if data is not None else _kept(runs or [], filters, store, again=again, seed=seed)
        found = _audited(items, seed)
        with writing():
            _write(found, items, as_json=as_json)
        if plot is not None:
            from flowdebate.cli.files import write_whole
            from flowdebate.cli.plots import plot as drawn

            write_whole(plot, drawn(found, plot))
    if failed:
        raise typer.Exit(_FAILED)
    if not found.ballots:
        raise typer.Exit(_NO_RESULT)


def _check(filters: Mapping[str, object], runs: Sequence[str] | None, *, data: str | None, seed: int) -> None:
    from flowdebate.cli.find import STATES

    keys: dict[str, Key] = {
        "--status": choice("--status", STATES),
        "--block": text("--block"),
        "--search": text("--search"),
        "--limit": count("--limit"),
    }
    for name, value in filters.items():
        if value is None:
            continue
        if runs or data is not None:
            instead = "the runs are named" if runs else "--data is given"
            raise ConfigurationError(COMMAND, name, value, f"left out where {instead}")
        if not keys[name].fits(value):
            raise ConfigurationError(COMMAND, name, value, keys[name].allowed)
    if data is not None and runs:
        raise ConfigurationError(COMMAND, "RUN", runs, "left out where --data is given")
    if data is not None and not path("--data").fits(data):
        raise ConfigurationError(COMMAND, "--data", data, path("--data").allowed)
    if not whole("--seed").fits(seed) or seed < 0:
        raise ConfigurationError(COMMAND, "--seed", seed, "an int >= 0")


def _check_plot(plot: Path) -> None:
    from flowdebate.cli.files import check_target
    from flowdebate.cli.plots import check_plot

    check_plot(plot)
    check_target(plot)


def _again(options: Mapping[str, object], models: Sequence[str], *, data: str | None, asked: bool) -> Rejudging | None:
    """How debates are judged again; None where they are not."""
    if asked and data is not None:
        raise ConfigurationError(COMMAND, "--rejudge", True, "left out where --data is given")  # noqa: FBT003
    if not asked:
        for name, value in (*options.items(), ("model", models or None)):
            if value is not None:
                field = f"--{name.replace('_', '-')}"
                raise ConfigurationError(COMMAND, field, value, "left out without --rejudge")
        return None
    from flowdebate.cli.rejudging import Rejudging

    return Rejudging.of(options, models)


def _read(data: str) -> tuple[Items, int]:
    from flowdebate.cli.audit_items import read_items

    return read_items(data), 0


def _kept(
    names: Sequence[str], filters: Mapping[str, object], store: str | None, *, again: Rejudging | None, seed: int
) -> tuple[Items, int]:
    """The items, and how many could not be judged again."""
    from flowdebate.cli.audit_items import items_of
    from flowdebate.cli.keeping import opened

    with opened(store) as place:
        runs = asyncio.run(_meant(place.store, names, filters))
        return (items_of(runs), 0) if again is None else again.held(runs, place.store, seed=seed)


async def _meant(store: Store, names: Sequence[str], filters: Mapping[str, object]) -> Sequence[StoredRun]:
    from flowdebate.cli.find import found, listed

    if names:
        return list({run.header.run_id: run for run in [await found(store, name) for name in names]}.values())
    asked = {name.removeprefix("--"): value for name, value in filters.items()}
    return await listed(store, state=asked.pop("status"), **asked)  # type: ignore[arg-type] # checked above


def _audited(items: Items, seed: int) -> JudgeAudit:
    """With p-values and intervals where their library is installed."""
    from importlib.util import find_spec

    from flowdebate.evaluation.judges.audit import audit as figures_of
    from flowdebate.evaluation.judges.significance import full_audit

    ballots, truth = [item.ballots for item in items.found], [item.truth for item in items.found]
    if find_spec("scipy"):
        return full_audit(ballots, truth=truth, seed=seed)
    tell('Warning: no p-values and no intervals without scipy: pip install "flowdebate[audit]"')
    return figures_of(ballots, truth=truth)


def _write(found: JudgeAudit, items: Items, *, as_json: bool) -> None:
    from flowdebate.cli.document import as_json as told
    from flowdebate.cli.page import Page
    from flowdebate.cli.pages.audit import audit_data, show_audit

    if as_json:
        write_json(told(audit_data(found, left_out=items.left_out)))
    else:
        show_audit(found, Page(sys.stdout, ()), left_out=items.left_out)
