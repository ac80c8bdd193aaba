"""`flowdebate audit` and `leaderboard`: stored ballots tested for bias, and models ranked by stored debates."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from pydantic import Field

from flowdebate._text import error_text
from flowdebate.cli import options as opt
from flowdebate.cli.options import check
from flowdebate.cli.terminal.process import ExitCode, open_page, tell, write_json
from flowdebate.errors import ConfigurationError
from flowdebate.service.plans.options import COMMAND, Count, FilePath, ModelName, Option, Text, allowed

if TYPE_CHECKING:
    from flowdebate.evaluation import JudgeAudit
    from flowdebate.evaluation.rejudging import ArguedDebate
    from flowdebate.patterns.debate.judging.options import JudgeOptions
    from flowdebate.service.audit import Items
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
    from flowdebate.runs.header import StoreOptions
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
