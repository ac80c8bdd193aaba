"""`flowdebate evaluate`: debates over questions with known answers, compared with baselines."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from pydantic import Field

from flowdebate.cli import options as opt
from flowdebate.cli.command import write_json
from flowdebate.cli.terminal.process import ExitCode, killed_by, tell, writing
from flowdebate.patterns.debate.schemas import BASELINES, BaselineName
from flowdebate.service.plans.options import COMMAND, FilePath, ModelName, Option, Text, allowed, misuse

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flowdebate.cli.batch.run import FinishedBatch
    from flowdebate.cli.evaluation.dataset import LabelledQuestion
    from flowdebate.cli.terminal.page import Page
    from flowdebate.evaluation import BenefitItem, BenefitReport, MethodResult, PairedComparison
    from flowdebate.evaluation.benefit.comparison import Missing
    from flowdebate.store.base import Store


_NOT_ENDED = ("queued", "running", "left_behind", "interrupted", "awaiting")
"""States of runs that may still find a verdict."""
_Gain = Annotated[float, Field(gt=0, lt=1), allowed("a number between 0 and 1")]


@opt.command("model", "judge_model", "base_url", "seed", "max_calls", "attempts", "fallback", "on_failure")
def evaluate(  # noqa: PLR0913 - the options of the command
    questions: Annotated[
        str,
        Option(metavar="FILE", help='CSV or JSON Lines: "question", what is right, and choices; "-" is stdin.'),
    ],
    *,
    truth: Annotated[
        Text, Option(metavar="COLUMN", help="What is right: a position, its letter or place from 0, a debater.")
    ] = "answer",
    choices: Annotated[
        list[str] | None,
        Option(
            metavar="COLUMN",
            help='The positions: a column with a list, or once for each. Default: "choices", if there is one.',
        ),
    ] = None,
    debaters: Annotated[
        list[str] | None,
        Option(flag="--debater", metavar="NAME=STANCE", help="A side of all questions that have no choices."),
    ] = None,
    baselines: Annotated[
        list[BaselineName] | None,
        Option(
            flag="--baseline",
            metavar="|".join(BASELINES),
            help="Compare with it; once for each. Default: all; drafts for three sides or more.",
        ),
    ] = None,
    min_gain: Annotated[
        _Gain, Option(metavar="SHARE", help="The smallest gain in accuracy that is worth the cost.")
    ] = 0.05,
    cluster: Annotated[
        Text | None,
        Option(
            metavar="COLUMN", help="What questions share, such as a topic: those of one cluster are not independent."
        ),
    ] = None,
    missing: Annotated[
        Literal["wrong", "left-out"], Option(help="What a debate without a verdict counts as.")
    ] = "wrong",
    schedule: Annotated[
        Text | None,
        Option(metavar="NAME", help="The judge views: single, swap, cyclic, full, sampled(N). Default: single."),
    ] = None,
    panel: Annotated[
        list[ModelName] | None, Option(metavar="SPEC", help="Model of a panel of judges; repeat for each.")
    ] = None,
    labels: Annotated[bool, Option(help="Call the sides A, B, … before the judge, not by their stances.")] = False,
    out: Annotated[
        FilePath | None, Option(metavar="FILE", help="Write each debate there as it comes: .jsonl or .csv.")
    ] = None,
    max_concurrency: opt.Concurrency = 8,
    name: opt.BatchName = None,
    limit: opt.FirstOnly = None,
    file: opt.File = None,
    rounds: Annotated[int | None, Option(help="Maximum number of rounds.")] = None,
    max_total_calls: opt.TotalCalls = None,
    max_total_tokens: opt.TotalTokens = None,
    store: opt.StoreName = None,
    as_json: opt.Json = False,
    **given: object,
) -> None:
    """Measure on a data set whether debates help, and at which cost.

    Each debate is compared with one call, with the vote of first drafts, and with self-consistency at equal tokens.
    --max-calls holds for each question.
    """
    from flowdebate.cli.batch.rows import read_rows
    from flowdebate.cli.batch.run import Totals, run_batch, warned_once
    from flowdebate.cli.evaluation.dataset import EvaluationPlans
    from flowdebate.patterns.debate.baselines import baselines_asked
    from flowdebate.service.runs import opened

    opt.check(out != "-", "--out", "-", "the path of a file: the report is written on stdout")
    compared = baselines_asked(list(dict.fromkeys(baselines)), where=COMMAND) if baselines else None
    if find_spec("scipy") is None:
        raise misuse("scipy", None, '`evaluate` needs scipy: pip install "flowdebate[audit]"')
    rows = read_rows(questions)[:limit]
    opt.check(
        cluster is None or all(cluster in row.others for row in rows), "--cluster", cluster, "a column of all rows"
    )
    with warned_once(), opened(store) as place:
        judging = {"schedule": schedule, "panel": panel or None, "labels": labels or None}
        options = {"debaters": debaters, "rounds": rounds, **judging, **given}
        plans = EvaluationPlans(
            options, file, rows, path=questions, truth=truth, choices=choices or (), baselines=compared
        )
        name = name or plans.name(rows)
        finished = asyncio.run(
            run_batch(
                plans,
                plans.questions,
                name=name,
                store=place.store,
                concurrency=max_concurrency,
                totals=Totals(calls=max_total_calls, tokens=max_total_tokens),
                out=out,
            )
        )
        outcome = asyncio.run(_stored_outcome(place.store, name, plans.questions, cluster))
    report = _report(outcome, min_gain, "wrong" if missing == "wrong" else "left out")
    with writing():
        _write(report, outcome, finished, name, as_json=as_json, out=out)
    raise typer.Exit(_exit_code(finished, report))


@dataclass(frozen=True, kw_only=True)
class _Outcome:
    """The stored results of an evaluation."""

    items: Sequence[BenefitItem]
    """The answers to each question whose debate has ended."""
    without_verdict: Mapping[str, int]
    """The number of those without a verdict, by the status of their runs."""
    left_out: Mapping[str, int]
    """The number of other questions, by the same."""
    failed: int
    """Baseline answers that failed."""


async def _stored_outcome(
    store: Store, name: str, questions: Sequence[LabelledQuestion], cluster: str | None
) -> _Outcome:
    """Read the outcome of the evaluation `name` of these `questions`."""
    from flowdebate.errors import RunNotFound
    from flowdebate.evaluation.benefit.comparison import BenefitItem, MethodAnswer, benefit_item
    from flowdebate.models.usage import Usage
    from flowdebate.patterns.debate.schemas import DebateRawOutput
    from flowdebate.service.runs import WORDS, state_of

    items: list[BenefitItem] = []
    left_out, without_verdict = Counter[str](), Counter[str]()
    failed = 0
    for index, question in enumerate(questions):
        shared = str([question.question, question.truth] if cluster is None else question.others.get(cluster))
        try:
            stored = await store.run(f"{name}-{index}")
        except RunNotFound:
            left_out["not started"] += 1
            continue
        outcome: dict[str, Any] = dict(stored.outcome or {})
        raw = outcome.get("raw") or {}
        if raw.get("verdict") is None or "baselines" not in raw:
            state = state_of(stored)
            (left_out if state in _NOT_ENDED else without_verdict)[WORDS[state]] += 1
            if state not in _NOT_ENDED:
                lost = MethodAnswer(answer=[])
                items.append(BenefitItem(truth=question.truth, debate=lost, baselines={}, failed=True, cluster=shared))
            continue
        debate, usage = DebateRawOutput.model_validate(raw), Usage(**outcome["usage"])
        baselines = debate.baselines or []
        failed += sum(answer.lost for answer in baselines)
        items.append(
            benefit_item(
                debate,
                baselines=baselines,
                calls=usage.calls,
                tokens=usage.total_tokens,
                truth=question.truth,
                completion_tokens=usage.completion_tokens,
                cluster=shared,
            )
        )
    return _Outcome(items=items, left_out=left_out, without_verdict=without_verdict, failed=failed)


def _report(outcome: _Outcome, min_gain: float, missing: Missing) -> BenefitReport | None:
    """The report; None where there is nothing to compare."""
    from flowdebate.evaluation.benefit.comparison import benefit_report

    comparable = any(item.baselines for item in outcome.items)
    return benefit_report(outcome.items, min_gain=min_gain, missing=missing) if comparable else None


def _write(
    report: BenefitReport | None,
    outcome: _Outcome,
    finished: FinishedBatch,
    name: str,
    *,
    as_json: bool,
    out: str | None,
) -> None:
    from flowdebate.cli.batch.view import show_summary
    from flowdebate.cli.terminal.page import Page
    from flowdebate.service.documents.document import as_json as json_of

    if as_json:
        data = {"batch": name, "report": None if report is None else report.model_dump(mode="json", by_alias=True)}
        counts = {"leftOut": outcome.left_out, "withoutVerdict": outcome.without_verdict}
        ordered = {name: dict(sorted(count.items())) for name, count in counts.items()}
        write_json(json_of({**data, **ordered, "lostAnswers": outcome.failed}))
    else:
        page = Page(sys.stdout, ())
        show_summary(page, name, finished.summary, out=out)
        if report is not None:
            _show(report, outcome, page)
    if report is None:
        tell("There is nothing to compare: no debate has a verdict and an answer of a baseline")
    if _unfinished(finished):
        tell(f"To continue: the same command, or any with --batch {name}")


def _show(report: BenefitReport, outcome: _Outcome, page: Page) -> None:
    """The accuracy of each method, the paired comparisons, and the report in words."""
    from flowdebate.evaluation.benefit.report import METHODS

    interval = f"{report.confidence:.0%} INTERVAL"
    page.line()
    page.columns(
        ("", "RIGHT", "ACCURACY", interval, "UNDECIDED", "CALLS", "TOKENS"),
        [(METHODS[each.method], *_method_cells(each)) for each in report.methods],
    )
    page.line()
    page.columns(
        ("DEBATE AGAINST", "BETTER", "WORSE", "DIFFERENCE", interval, "P (HOLM)", "TIMES THE TOKENS"),
        [(METHODS[each.baseline], *_comparison_cells(each)) for each in report.comparisons],
    )
    page.heading("Did the debate help?")
    page.line(report.summary)
    for each in report.comparisons:
        page.line(f"- Against {METHODS[each.baseline]}. {each.summary}")
    for why, number in sorted(outcome.without_verdict.items()):
        page.line(f"Without a verdict: {number:,} ({why})", style="dim")
    for why, number in sorted(outcome.left_out.items()):
        page.line(f"Left out: {number:,} ({why})", style="dim")
    if outcome.failed:
        page.line(f"Baseline answers that failed: {outcome.failed:,}", style="dim")


def _method_cells(result: MethodResult) -> tuple[str, ...]:
    return (
        f"{result.right:g} of {result.n:,}",
        f"{result.accuracy:.1%}",
        f"{result.low:.1%} to {result.high:.1%}",
        f"{result.undecided:,}",
        f"{result.calls:.1f}",
        "unknown" if result.tokens is None else f"{result.tokens:,.0f}",
    )


def _comparison_cells(compared: PairedComparison) -> tuple[str, ...]:
    return (
        f"{compared.better:,}",
        f"{compared.worse:,}",
        f"{compared.difference:+.1%}",
        f"{compared.low:+.1%} to {compared.high:+.1%}",
        f"{compared.p_holm:.2g}",
        "unknown" if compared.tokens_ratio is None else f"{compared.tokens_ratio:.1f}",
    )


def _unfinished(finished: FinishedBatch) -> bool:
    return (
        finished.signal is not None or bool(finished.summary.failed) or finished.summary.done != finished.summary.total
    )


def _exit_code(finished: FinishedBatch, report: BenefitReport | None) -> int:
    if finished.signal is not None:
        return killed_by(finished.signal)
    if finished.summary.failed:
        return ExitCode.FAILED
    return ExitCode.NO_RESULT if report is None or _unfinished(finished) else 0
