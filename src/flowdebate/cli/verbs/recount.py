"""`flowdebate recount`: what stored ballots come to under every decision protocol; nobody is asked."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from flowdebate.cli import options as opt  # noqa: TC001 - typer reads the annotations
from flowdebate.cli.command import problems_told, write_json
from flowdebate.cli.keys import COMMAND, path
from flowdebate.cli.streams import tell, writing
from flowdebate.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.cli.document import Document
    from flowdebate.evaluation.recount.recount import Decidable
    from flowdebate.evaluation.recount.schemas import Recount
    from flowdebate.store.base import Store, StoredRun

__all__ = ("ENDS_REDECIDE", "recount")

_NO_RESULT = 3
ENDS_REDECIDE = "Exit codes: 0 done, 2 misused, 3 there is no ballot to decide by."
"""What its help ends with."""


class _Meant(NamedTuple):
    """What is decided again."""

    data: Decidable | str
    """Or why there is nothing."""
    subject: str
    decided: str | None
    """For whom it was decided; None for nobody."""
    run_id: str | None = None
    sides: Sequence[str] | None = None


def recount(
    run: opt.RunName = None,
    *,
    last: Annotated[bool, typer.Option("--last", help="The newest run that has ballots.")] = False,
    data: Annotated[
        str | None, typer.Option(metavar="FILE", help='What --json printed, or a bare raw output; "-" is stdin.')
    ] = None,
    protocol: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this one; once for each. Default: all.")
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(metavar="SHARE", help="For approval. Default: 1 / the number of sides.")
    ] = None,
    weight: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=N", help="For weighted: what a model, or an agent, weighs; once for each."),
    ] = None,
    store: opt.StoreName = None,
    as_json: opt.Json = False,
) -> None:
    """Decide a debate again under every decision protocol, from its ballots as they are stored. No model is called.

    It says whether the outcome hangs on the protocol. What a protocol cannot say of these ballots is told.
    """
    with problems_told():
        _check(run, data, last=last, store=store)
        weights = _weights(weight or [])
        meant = _read(data) if data is not None else _kept(run, store)
        if isinstance(meant.data, str):
            where = data if meant.run_id is None else f"run {meant.run_id}"
            tell(f"Error: {where} {meant.data}")
            raise typer.Exit(_NO_RESULT)
        from flowdebate.evaluation.recount.recount import ALL
        from flowdebate.evaluation.recount.recount import recount as decided

        names: Any = [name.replace("-", "_") for name in protocol or ALL]
        found = decided(meant.data, sides=meant.sides, protocols=names, weights=weights, threshold=threshold)
        with writing():
            _write(found, meant, as_json=as_json)
    if not found.usable:
        raise typer.Exit(_NO_RESULT)


def _check(run: str | None, data: str | None, *, last: bool, store: str | None) -> None:
    if (run is not None) + (data is not None) + last != 1:
        raise ConfigurationError(COMMAND, "RUN", run, "the id of a run, or else --last, or else --data FILE")
    if data is not None and not path("--data").fits(data):
        raise ConfigurationError(COMMAND, "--data", data, path("--data").allowed)
    if data is not None and store is not None:
        raise ConfigurationError(COMMAND, "--store", store, "left out where --data is given")


def _weights(given: Sequence[str]) -> dict[str, float] | None:
    weights = {}
    for each in given:
        name, _, number = each.rpartition("=")
        try:
            weights[name] = float(number)
        except ValueError:
            name = ""
        if not name:
            raise ConfigurationError(COMMAND, "--weight", each, "a name, =, and a number")
    return weights or None


def _read(data: str) -> _Meant:
    from flowdebate.cli.document import read_document

    return _of_document(read_document(data))


def _kept(run: str | None, store: str | None) -> _Meant:
    from flowdebate.cli.keeping import opened

    with opened(store) as place:
        return asyncio.run(_found(place.store, run))


async def _found(store: Store, run: str | None) -> _Meant:
    """The run that is meant; without a name the newest with ballots."""
    from flowdebate.cli.find import found

    if run is not None:
        return _of_run(await found(store, run))
    for each in await store.runs():
        meant = _of_run(each)
        if not isinstance(meant.data, str):
            return meant
    raise ConfigurationError(COMMAND, "--last", True, f"left out: no run in {store.name} has ballots")  # noqa: FBT003


def _of_run(run: StoredRun) -> _Meant:
    from flowdebate.cli.audit_items import items_of
    from flowdebate.cli.document import document_of
    from flowdebate.errors import BadFile
    from flowdebate.evaluation.judges.rejudge import NAME as REJUDGE

    run_id, subject = run.header.run_id, run.header.question
    raw = (run.outcome or {}).get("raw")
    if run.header.block == REJUDGE or not isinstance(raw, dict):
        items = items_of([run])
        if not items.found:
            return _Meant(next(iter(items.left_out)), subject, None, run_id)
        ballots = items.found[0].ballots
        return _Meant(ballots, subject, None, run_id, sorted({side for ballot in ballots for side in ballot.order}))
    try:
        return _of_document(document_of(raw, where=f"run {run_id}"))._replace(run_id=run_id)
    except BadFile:
        return _Meant("has no ballots that can be read", subject, None, run_id)


def _of_document(document: Document) -> _Meant:
    """The ballots of a debate, or of a consensus."""
    raw: Any = document.raw
    about, run_id = document.subject, document.run_id
    if document.pattern == "consensus":
        none = "has no votes: it did not come to them"
        return _Meant(raw if raw.ballots else none, about, raw.winner if raw.consensus_reached else None, run_id)
    if document.pattern != "debate":
        return _Meant(
            f"has no ballots: a {document.pattern} has neither a judge of sides nor votes", about, None, run_id
        )
    if raw.verdict is None:
        return _Meant("has no verdict of a judge", about, None, run_id)
    none = "has a verdict without ballots: a human's, a custom judge's, or an earlier version's"
    return _Meant(raw.verdict.judging or none, about, raw.verdict.winner, run_id)


def _write(found: Recount, meant: _Meant, *, as_json: bool) -> None:
    from flowdebate.cli.document import as_json as told
    from flowdebate.cli.page import Page
    from flowdebate.cli.pages.recount import redecided_data, show_redecided

    if as_json:
        write_json(told(redecided_data(found, subject=meant.subject, decided=meant.decided, run_id=meant.run_id)))
    else:
        show_redecided(found, Page(sys.stdout, ()), subject=meant.subject, decided=meant.decided)
