"""`flowdebate recount`: stored ballots under other decision rules, without asking anybody."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from flowdebate.cli import options as opt
from flowdebate.cli.command import open_page, write_json
from flowdebate.cli.terminal.process import ExitCode, tell, writing
from flowdebate.service.plans.options import FilePath, Option, misuse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.evaluation.decision_rules.ballots import Countable
    from flowdebate.service.documents.document import Document
    from flowdebate.store.base import Store, StoredRun


@opt.command()
def recount(
    run: opt.RunName = None,
    *,
    last: Annotated[bool, Option(help="The newest run that has ballots.")] = False,
    data: Annotated[
        FilePath | None, Option(metavar="FILE", help='What --json printed, or a bare raw output; "-" is stdin.')
    ] = None,
    rule: Annotated[
        list[str] | None, Option(metavar="NAME", help="Only this decision rule; repeat for several.")
    ] = None,
    threshold: Annotated[
        float | None, Option(metavar="SHARE", help="For approval. Default: 1 / the number of sides.")
    ] = None,
    weight: Annotated[
        list[str] | None,
        Option(metavar="NAME=N", help="Weight of a model, or an agent, for weighted; repeat for several."),
    ] = None,
    store: opt.StoreName = None,
    as_json: opt.Json = False,
) -> None:
    """Recount a debate's ballots by other decision rules. No model is called.

    The findings say whether the outcome depends on the rule, and which rules cannot count these ballots.
    """
    from flowdebate.evaluation.decision_rules.recount import recount as count_again
    from flowdebate.service.documents.document import read_document
    from flowdebate.service.documents.evaluations import lay_out_recount
    from flowdebate.service.runs import opened

    if (run is not None) + (data is not None) + last != 1:
        raise misuse("RUN", run, "Say which debate to recount: the id of its run, or --last, or --data FILE.")
    opt.check(data is None or store is None, "--store", store, "left out where --data is given")
    weights: dict[str, float] = {}
    for each in weight or ():
        name, _, number = each.rpartition("=")
        try:
            weights[name] = float(number)
        except ValueError:
            name = ""
        opt.check(name, "--weight", each, "a name, =, and a number")
    if data is not None:
        decided = _read_document(read_document(data))
    else:
        with opened(store) as place:
            decided = asyncio.run(_find(place.store, run))
    if isinstance(decided.ballots, str):
        where = data if decided.run_id is None else f"run {decided.run_id}"
        tell(f"Error: {where} {decided.ballots}")
        raise typer.Exit(ExitCode.NO_RESULT)
    rules: Any = [name.replace("-", "_") for name in rule] if rule else None
    recounted = count_again(
        decided.ballots, sides=decided.sides, rules=rules, weights=weights or None, threshold=threshold
    )
    with writing():
        if as_json:
            found = {
                "question": decided.subject,
                "decided": decided.winner,
                "recount": recounted.model_dump(mode="json", by_alias=True),
                "findings": recounted.findings,
                "runId": decided.run_id,
            }
            write_json(found)
        else:
            page = open_page()
            page.labelled("Question", decided.subject, "bold", indent="")
            page.labelled("Decided for", decided.winner or "nobody", "bold", indent="")
            page.summary(lay_out_recount(recounted))
    if not recounted.usable:
        raise typer.Exit(ExitCode.NO_RESULT)


class _Decided(NamedTuple):
    """A decision to recount."""

    ballots: Countable | str
    """Or the reason why there are none."""
    subject: str
    winner: str | None
    """The stored winner; None for nobody."""
    run_id: str | None = None
    sides: Sequence[str] | None = None


async def _find(store: Store, run: str | None) -> _Decided:
    """The named run, or else the newest with ballots."""
    from flowdebate.service.runs import each_run, find_run

    if run is not None:
        return _read_run(await find_run(store, run))
    async for each in each_run(store):
        decided = _read_run(each)
        if not isinstance(decided.ballots, str):
            return decided
    raise misuse("--last", True, f"No run in {store.name} has ballots.")  # noqa: FBT003 - what was given


def _read_run(run: StoredRun) -> _Decided:
    from flowdebate.errors import BadFile
    from flowdebate.evaluation.judges.rejudge import NAME as REJUDGE
    from flowdebate.service.audit import UNREADABLE, ballots_of_run
    from flowdebate.service.documents.document import document_of

    run_id, subject = run.header.run_id, run.header.question
    raw = (run.outcome or {}).get("raw")
    if run.header.block == REJUDGE or not isinstance(raw, dict):
        ballots = ballots_of_run(run)
        sides = None if isinstance(ballots, str) else sorted({side for ballot in ballots for side in ballot.order})
        return _Decided(ballots, subject, None, run_id, sides)
    try:
        return _read_document(document_of(raw, where=f"run {run_id}"))._replace(run_id=run_id)
    except BadFile:
        return _Decided(UNREADABLE, subject, None, run_id)


def _read_document(document: Document) -> _Decided:
    """The ballots of a debate, or the votes of a consensus."""
    from flowdebate.service.audit import NO_BALLOTS, NO_VERDICT

    raw: Any = document.raw
    subject, run_id = document.subject, document.run_id
    if document.pattern == "consensus":
        none = "has no votes: it did not come to them"
        return _Decided(raw if raw.ballots else none, subject, raw.winner if raw.consensus_reached else None, run_id)
    if document.pattern != "debate":
        none = f"has no ballots: a {document.pattern} has neither a judge of sides nor votes"
        return _Decided(none, subject, None, run_id)
    if raw.verdict is None:
        return _Decided(NO_VERDICT, subject, None, run_id)
    return _Decided(raw.verdict.judging or NO_BALLOTS, subject, raw.verdict.winner, run_id)
