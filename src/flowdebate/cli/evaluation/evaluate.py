"""`flowdebate evaluate`: debates over questions with known answers, compared with baselines."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flowdebate.cli import options as opt  # noqa: TC001 - typer reads the annotations
from flowdebate.cli.command import problems_told, write_json
from flowdebate.cli.evaluation import COMMAND, check, check_choice, check_count, check_text
from flowdebate.cli.streams import tell, warnings_told, writing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flowdebate.cli.batch.run import HeldBatch
    from flowdebate.cli.evaluation.dataset import LabelledQuestion
    from flowdebate.cli.page import Page
    from flowdebate.evaluation import BenefitItem, BenefitReport, MethodResult, PairedComparison
    from flowdebate.store.base import Store

__all__ = ("EVALUATE_EXIT_CODES", "evaluate")

_FAILED, _NO_RESULT, _KILLED = 1, 3, 128
_BASELINES = ("single", "drafts", "self_consistency")
_OWN = (
    "truth", "choices", "baselines", "min_gain", "out", "max_concurrency", "name", "limit", "max_total_calls",
    "max_total_tokens", "file_", "file", "store", "as_json",
)  # fmt: skip
"""Options of this command; the others are those of the debate."""

EVALUATE_EXIT_CODES = (
    "The same command again continues where it stopped. Exit codes: 0 done, 1 some failed, 2 misused, "
    "3 nothing to compare or not all done, 130 interrupted, 143 terminated."
)
"""The end of its help."""


def evaluate(  # noqa: PLR0913 - the options of the command
    file_: Annotated[
        str,
        typer.Argument(metavar="FILE", help='CSV or JSON Lines: "question", what is right, and choices; "-" is stdin.'),
    ],
    *,
    truth: Annotated[
        str, typer.Option(metavar="COLUMN", help="What is right: a position, its letter or place from 0, a debater.")
    ] = "answer",
    choices: Annotated[
        list[str] | None,
        typer.Option(
            "--choices",
            metavar="COLUMN",
            help='The positions: a column with a list, or once for each. Default: "choices", if there is one.',
        ),
    ] = None,
    debaters: Annotated[
        list[str] | None,
        typer.Option("--debater", metavar="NAME=STANCE", help="A side of all questions that have no choices."),
    ] = None,
    baselines: Annotated[
        list[str] | None,
        typer.Option("--baseline", metavar="|".join(_BASELINES), help="Compare with it; once for each. Default: all."),
    ] = None,
    min_gain: Annotated[
        float, typer.Option(metavar="SHARE", help="The smallest gain in accuracy that is worth the cost.")
    ] = 0.1,
    out: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write each debate there as it comes: .jsonl or .csv.")
    ] = None,
    max_concurrency: opt.Concurrency = 8,
    name: opt.KeptAs = None,
    limit: opt.FirstOnly = None,
    file: opt.File = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds at most.")] = None,
    model: opt.ModelSpec = None,
    judge_model: opt.JudgeModel = None,
    base_url: opt.BaseUrl = None,
    seed: opt.Seed = None,
    max_calls: opt.CallsOfEach = None,
    max_total_calls: opt.TotalCalls = None,
    max_total_tokens: opt.TotalTokens = None,
    attempts: opt.Attempts = None,
    fallback: opt.Fallback = None,
    on_failure: opt.OnFailure = None,
    store: opt.StoreName = None,
    as_json: opt.Json = False,
) -> None:
    """Measure on a data set whether debates help, and at which cost.

    Each debate is compared with one call, with the vote of first drafts, and with self-consistency at equal tokens.
    """
    _run(dict(locals()))


def _run(options: dict[str, Any]) -> None:
    """Run the debates, and report; ends in Exit."""
    with problems_told(), warnings_told():
        own = _checked(options)
        from flowdebate.cli.batch.rows import read_rows
        from flowdebate.cli.batch.run import Totals, hold_batch, warned_once
        from flowdebate.cli.evaluation.dataset import EvaluationPlans
        from flowdebate.service.runs import opened

        rows = read_rows(own["file_"])[: own["limit"]]
        with warned_once(), opened(own["store"]) as place:
            plans = EvaluationPlans(
                options,
                own["file"],
                rows,
                path=own["file_"],
                truth=own["truth"],
                choices=own["choices"] or (),
                baselines=own["baselines"],
            )
            name = own["name"] or plans.name(rows)
            held = asyncio.run(
                hold_batch(
                    plans,
                    plans.questions,
                    name=name,
                    store=place.store,
                    concurrency=own["max_concurrency"],
                    totals=Totals(calls=own["max_total_calls"], tokens=own["max_total_tokens"]),
                    out=own["out"],
                )
            )
            outcome = asyncio.run(_stored_outcome(place.store, name, plans.questions))
        report = _report(outcome, own["min_gain"])
        with writing():
            _write(report, outcome, held, name, as_json=own["as_json"], out=own["out"])
    raise typer.Exit(_exit_code(held, report))


def _checked(options: dict[str, Any]) -> dict[str, Any]:
    """Take the command's own options out of `options`, and check them."""
    from flowdebate.evaluation.statistics import check_scipy
    from flowdebate.patterns.debate.baselines import baselines_asked

    own = {key: options.pop(key) for key in _OWN}
    check_text("--truth", own["truth"])
    check_text("--out", own["out"], "the path of a file")
    check_text("--batch", own["name"])
    for key in ("max_concurrency", "limit", "max_total_calls", "max_total_tokens"):
        check_count(f"--{key.replace('_', '-')}", own[key])
    check(0 < own["min_gain"] < 1, "--min-gain", own["min_gain"], "a number between 0 and 1")
    check(own["out"] != "-", "--out", "-", "the path of a file: the report is written on stdout")
    asked: Any = list(dict.fromkeys(own["baselines"] or _BASELINES))
    for given in asked:
        check_choice("--baseline", given, _BASELINES)
    own["baselines"] = baselines_asked(asked, where=COMMAND)
    check_scipy(COMMAND)
    return own


@dataclass(frozen=True, kw_only=True)
class _Outcome:
    """The stored results of an evaluation."""

    items: Sequence[BenefitItem]
    """The answers to each question whose debate has a verdict."""
    left_out: Mapping[str, int]
    """The number of other questions, by the status of their runs."""
    lost: int
    """Answers of baselines that were lost."""


async def _stored_outcome(store: Store, name: str, questions: Sequence[LabelledQuestion]) -> _Outcome:
    """Read the outcome of the evaluation `name` of these `questions`."""
    from flowdebate.errors import RunNotFound
    from flowdebate.evaluation.benefit.comparison import benefit_item
    from flowdebate.models.usage import Usage
    from flowdebate.patterns.debate.schemas import DebateRawOutput
    from flowdebate.service.runs import WORDS, state_of

    items: list[BenefitItem] = []
    left_out: dict[str, int] = {}
    lost = 0
    for index, question in enumerate(questions):
        try:
            stored = await store.run(f"{name}-{index}")
        except RunNotFound:
            left_out["not begun"] = left_out.get("not begun", 0) + 1
            continue
        outcome: dict[str, Any] = dict(stored.outcome or {})
        raw = outcome.get("raw") or {}
        if raw.get("verdict") is None or "baselines" not in raw:
            why = WORDS[state_of(stored)]
            left_out[why] = left_out.get(why, 0) + 1
            continue
        debate, usage = DebateRawOutput.model_validate(raw), Usage(**outcome["usage"])
        baselines = debate.baselines or []
        lost += sum(answer.lost for answer in baselines)
        calls, tokens = usage.calls, usage.total_tokens
        items.append(benefit_item(debate, baselines=baselines, calls=calls, tokens=tokens, truth=question.truth))
    return _Outcome(items=items, left_out=left_out, lost=lost)


def _report(outcome: _Outcome, min_gain: float) -> BenefitReport | None:
    """The report; None where there is nothing to compare."""
    from flowdebate.evaluation.benefit.comparison import benefit_report

    comparable = any(item.baselines for item in outcome.items)
    return benefit_report(outcome.items, min_gain=min_gain) if comparable else None


def _write(
    report: BenefitReport | None, outcome: _Outcome, held: HeldBatch, name: str, *, as_json: bool, out: str | None
) -> None:
    from flowdebate.cli.batch.view import show_summary
    from flowdebate.cli.page import Page
    from flowdebate.service.documents import as_json as json_of

    if as_json:
        data = {"batch": name, "report": None if report is None else report.model_dump(mode="json", by_alias=True)}
        left_out = dict(sorted(outcome.left_out.items()))
        write_json(json_of({**data, "leftOut": left_out, "lostAnswers": outcome.lost}))
    else:
        page = Page(sys.stdout, ())
        show_summary(page, name, held.summary, out=out)
        if report is not None:
            _show(report, outcome, page)
    if report is None:
        tell("There is nothing to compare: no debate has a verdict and an answer of a baseline")
    if _unfinished(held):
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
    for why, number in sorted(outcome.left_out.items()):
        page.line(f"Left out: {number:,} ({why})", style="dim")
    if outcome.lost:
        page.line(f"Answers of baselines that were lost: {outcome.lost:,}", style="dim")


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


def _unfinished(held: HeldBatch) -> bool:
    return held.signal is not None or bool(held.summary.failed) or held.summary.done != held.summary.total


def _exit_code(held: HeldBatch, report: BenefitReport | None) -> int:
    if held.signal is not None:
        return _KILLED + held.signal
    if held.summary.failed:
        return _FAILED
    return _NO_RESULT if report is None or _unfinished(held) else 0
