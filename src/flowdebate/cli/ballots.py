"""`flowdebate audit`, `leaderboard`, `recount`: stored ballots, tested for bias, ranked, or counted by other rules."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer
from pydantic import Field

from flowdebate._text import error_text
from flowdebate.cli import options as opt
from flowdebate.cli.options import check
from flowdebate.cli.terminal.process import ExitCode, open_page, tell, write_json
from flowdebate.errors import ConfigurationError
from flowdebate.service.plans.options import COMMAND, Count, FilePath, ModelName, Option, Text, allowed, misuse

if TYPE_CHECKING:
    from flowdebate.evaluation import JudgeAudit
    from flowdebate.evaluation.decision_rules import Countable
    from flowdebate.evaluation.rejudging import ArguedDebate
    from flowdebate.patterns.debate.judging.options import JudgeOptions
    from flowdebate.service.audit import Items
    from flowdebate.service.documents.document import Document
    from flowdebate.store.base import Store, StoredRun


_Seed = Annotated[int, Field(ge=0), allowed("an int >= 0")]


@opt.command("base_url")
def audit(  # noqa: PLR0913 - the options of the command
    runs: Annotated[list[str] | None, Option(metavar="RUN", help=f"{opt.RUN} Default: all stored runs.")] = None,
    *,
    data: Annotated[
        FilePath | None, Option(metavar="FILE", help='Ballots of this JSON Lines file; "-" is stdin.')
    ] = None,
    status: opt.Status = None,
    pattern: opt.Pattern = None,
    text: opt.Search = None,
    limit: Annotated[Count | None, Option(metavar="N", help="Only the newest N runs.")] = None,
    rejudge: Annotated[bool, Option(help="Judge the stored debates again, without arguing again.")] = False,
    schedule: Annotated[
        Text | None,
        Option(
            metavar="NAME",
            help="The judge views: single, swap, cyclic, full, sampled(N). Default: as judged, else cyclic.",
        ),
    ] = None,
    repeat: Annotated[Count | None, Option(metavar="N", help="How often each view is judged. Default: 1.")] = None,
    judge_answer: Annotated[
        Literal["scores", "letter", "letter_after_reasons"] | None,
        Option(help="Form of the judge's answers; letters need log-probabilities. Default: as judged, else scores."),
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
    from flowdebate.service.audit import audit_of, audited_runs, has_intervals, read_items
    from flowdebate.service.runs import find_run, list_runs, opened

    filters: dict[str, Any] = {"status": status, "pattern": pattern, "text": text, "limit": limit}
    reason = "the runs are named" if runs else "--data is given"
    for name, value in filters.items():
        check(value is None or not (runs or data is not None), f"--{name}", value, f"left out where {reason}")
    check(data is None or not runs, "RUN", runs, "left out where --data is given")
    check(not rejudge or data is None, "--rejudge", rejudge, "left out where --data is given")
    judging = {
        **given, "schedule": schedule, "repeat": repeat, "labels": labels or None,
        "max_concurrency": max_concurrency, "judge_answer": judge_answer, "model": model or None,
    }  # fmt: skip
    again = _read_judging(judging, wanted=rejudge)

    async def select(store: Store) -> Sequence[StoredRun]:
        if runs:
            return list({run.header.run_id: run for run in [await find_run(store, name) for name in runs]}.values())
        return await list_runs(store, state=status, block=pattern, search=text, limit=limit)

    async def read(store: Store) -> tuple[Items, int]:
        selected = await select(store)
        if again is None:
            return await audited_runs(store, selected), 0
        return await _judge_again(selected, store, seed, *again)

    if data is not None:
        items, failed = read_items(data), 0
    else:
        with opened(store) as place:
            items, failed = asyncio.run(read(place.store))
    if not has_intervals():
        tell('Warning: no p-values and no intervals without scipy: pip install "flowdebate[audit]"')
    audited = audit_of(items, seed=seed)
    _write(audited, items, as_json=as_json)
    if failed:
        raise typer.Exit(ExitCode.FAILED)
    if not audited.ballots:
        raise typer.Exit(ExitCode.NO_RESULT)


def _write(audited: JudgeAudit, items: Items, *, as_json: bool) -> None:
    from flowdebate.service.documents.evaluations import lay_out_audit

    if as_json:
        found: dict[str, Any] = {
            "audit": audited.model_dump(mode="json", by_alias=True),
            "findings": audited.findings,
            "leftOut": dict(sorted(items.left_out.items())),
        }
        if items.readers is not None:
            found["readers"] = items.readers.model_dump(mode="json", by_alias=True)
        write_json(found)
    else:
        summary = lay_out_audit(audited, audited.findings, readers=items.readers, left_out=items.left_out)
        open_page().summary(summary)


def _read_judging(options: Mapping[str, Any], *, wanted: bool) -> tuple[dict[str, Any], str] | None:
    """How debates are judged again, as arguments of `rejudge`, and as text: the same text continues the same batch.

    None unless that is `wanted`. ConfigurationError with the option that is wrong, or that only matters where it is;
    an option that was not given is None.
    """
    from flowdebate.models.openai.endpoint import address_of
    from flowdebate.patterns.debate.judging.options import JudgeOptions
    from flowdebate.service.plans.models import Models

    for name, value in () if wanted else options.items():
        check(value is None, f"--{name.replace('_', '-')}", value, "left out without --rejudge")
    if not wanted:
        return None
    specs, base_url, answer = options["model"] or [], options["base_url"], options["judge_answer"]
    at = address_of(base_url or "")
    check(base_url is None or specs, "--model", None, f"the model's name as the server at {at} has it")
    make = Models(base_url)
    made = [make(spec, COMMAND, "--model") for spec in specs]
    labels, repeat = bool(options["labels"]), options["repeat"] or 1
    given = {"answer": answer, "schedule": options["schedule"], "labels": labels or None}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    changes["models"] = made if len(made) > 1 else ()
    try:
        judge = JudgeOptions(**{"schedule": "cyclic", **changes})
    except ConfigurationError as error:
        flag = {"answer": "judge-answer", "models": "model"}.get(error.field, error.field)
        raise ConfigurationError(COMMAND, f"--{flag}", error.got, error.allowed) from None
    arguments = {
        "changes": changes,
        "repeat": repeat,
        "model": made[0] if len(made) == 1 else None,
        "max_concurrency": options["max_concurrency"] or 8,
    }
    # batches of earlier versions have no entry for the form of answers, so there is none without the option
    return arguments, str([str(judge.plan), labels, repeat, specs, *([] if answer is None else [answer])])


async def _judge_again(
    runs: Iterable[StoredRun], store: Store, seed: int, arguments: dict[str, Any], fingerprint: str
) -> tuple[Items, int]:
    """Judge the debates of `runs` again: the items, and how many debates failed. Recorded answers cost nothing."""
    from flowdebate.evaluation.audit_report import AuditItem
    from flowdebate.evaluation.rejudging import judge_again_as, rejudge
    from flowdebate.patterns.debate.mirror import speaking_order
    from flowdebate.runs.durable.resume import StoreOptions
    from flowdebate.service.audit import Items, argued, judging_of

    changes = arguments.pop("changes")
    debates: dict[str, tuple[str, ArguedDebate]] = {}
    judges: dict[str, JudgeOptions] = {}
    usual = judge_again_as(None, **changes)
    left_out = Counter[str]()
    for run in runs:
        debate = argued(run)
        if debate is None or len(debate.sides) < 2:  # noqa: PLR2004 - there is nothing to choose from one
            left_out["has no transcript of a debate of two sides"] += 1
        else:
            how, about = judge_again_as(judging_of(run), **changes), debate.model_dump_json()
            if how != usual:  # batches of earlier versions were all judged as usual
                about += str([how.form, str(how.plan), how.labels, how.rule, how.min_log_odds])
            debates.setdefault(about, (run.header.run_id, debate))
            judges[about] = how
    if not debates:
        return Items(items=[], left_out=left_out), 0
    about = "\n".join([fingerprint, str(seed), *debates])
    result = await rejudge(
        [debate for _, debate in debates.values()],
        judge=[judges[about] for about in debates],
        seed=seed,
        store=StoreOptions(store=store),
        batch_id=f"rejudge-{hashlib.blake2b(about.encode(), digest_size=5).hexdigest()}",
        **arguments,
    )
    names = [name for name, _ in debates.values()]
    for item in result.failed:
        tell(f"Run {names[item.index]} could not be judged again: {error_text(item.error) if item.error else ''}")
    turns = [speaking_order(debate.transcript) for _, debate in debates.values()]
    items = [
        AuditItem(id=names[item.index], ballots=item.output.ballots, spoken=turns[item.index])
        for item in result
        if item.output is not None
    ]
    return Items(items=items, left_out=left_out), len(result.failed)


@opt.command()
def leaderboard(
    *,
    status: opt.Status = None,
    pattern: opt.Pattern = None,
    text: opt.Search = None,
    limit: Annotated[Count | None, Option(metavar="N", help="Only the newest N runs.")] = None,
    form: Annotated[
        Literal["text", "markdown", "json"], Option(panel="Output", flag="--format", help="Form of what is printed.")
    ] = "text",
    store: opt.StoreName = None,
) -> None:
    """Rank models by the stored debates that they won, and judges by what counts for them besides arguments.

    No model is called. A game is a pair of sides that different models spoke for.
    """
    from flowdebate.service.documents.evaluations import lay_out_leaderboard
    from flowdebate.service.leaderboard import leaderboard_of
    from flowdebate.service.runs import list_runs, opened
    from flowdebate.web.notebook import summary_markdown

    with opened(store) as place:
        found = asyncio.run(list_runs(place.store, state=status, block=pattern, search=text, limit=limit))
    board = leaderboard_of(found)
    if form == "json":
        write_json(board.model_dump(mode="json", by_alias=True))
    elif form == "markdown":
        write_json(summary_markdown(lay_out_leaderboard(board)).rstrip())
    else:
        open_page().summary(lay_out_leaderboard(board))
    if not board.models and not board.judges:
        raise typer.Exit(ExitCode.NO_RESULT)


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
    from flowdebate.evaluation.recounting import recount as count_again
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
    from flowdebate.evaluation.rejudging import NAME as REJUDGE
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
