"""Evaluation and batch reports as data, laid out the same way in terminals, notebooks and web pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from flowdebate._text import counted, error_text
from flowdebate.evaluation.audit_report import Figure, JudgeAudit, ReaderAgreement, RunAudit
from flowdebate.evaluation.benefit import BenefitReport
from flowdebate.evaluation.comparison import Comparison
from flowdebate.evaluation.comparison_table import ComparisonTable
from flowdebate.evaluation.content_audit import ContentAudit
from flowdebate.evaluation.critique_check import CritiqueCheck
from flowdebate.evaluation.dynamics import Dynamics
from flowdebate.evaluation.evaluation_run import Evaluation
from flowdebate.evaluation.judge_quality import JudgeQuality
from flowdebate.evaluation.leaderboard import Leaderboard
from flowdebate.evaluation.paired import Paired
from flowdebate.evaluation.ranking import RankedSystem, Ranking
from flowdebate.evaluation.review_benchmark import ReviewBenchmark, describe_benchmark
from flowdebate.evaluation.stored_audit import rows_of
from flowdebate.evaluation.study_report import StudyReport
from flowdebate.evaluation.tournament import Tournament
from flowdebate.patterns.debate.benefit import METHODS
from flowdebate.runs.batch import BatchItem, BatchResult, BatchSummary
from flowdebate.ui.sections import Fact, Heading, Points, ReportSection, Table, Tone
from flowdebate.ui.statuses import status_text
from flowdebate.ui.text import cost_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Report in a form that any front end can render."""

    title: str
    """Title of the report, for views that show several types of values."""
    subtitle: str = ""
    sections: tuple[ReportSection, ...]


def lay_out(value: object) -> Summary | None:  # noqa: C901, PLR0911, PLR0912 - one case for each kind
    """Format the result of an evaluation or a batch as a report; return None for any other value."""
    match value:
        case RunAudit():
            return lay_out_audit(value.judge, value.findings)
        case JudgeAudit():
            return lay_out_audit(value, value.findings)
        case ReaderAgreement():
            return Summary(title="Agreement with readers", sections=(Points(items=tuple(value.findings)),))
        case BenefitReport():
            return lay_out_benefit(value)
        case Evaluation():
            return lay_out_benefit(value.report)
        case JudgeQuality():
            return Summary(title="Judge quality", sections=(Points(items=tuple(value.findings)),))
        case ContentAudit():
            ballot_text = counted(value.ballots, "ballot")
            return Summary(title="Content audit", subtitle=ballot_text, sections=(Points(items=tuple(value.findings)),))
        case StudyReport():
            return lay_out_study(value)
        case Dynamics():
            return Summary(
                title="Dynamics", subtitle=counted(value.courses, "course"), sections=(_dynamics({"": value}),)
            )
        case Comparison():
            return lay_out_comparison(value)
        case ComparisonTable():
            return lay_out_comparisons(value)
        case Leaderboard():
            return lay_out_leaderboard(value)
        case Ranking():
            return Summary(
                title="Ranking",
                subtitle=f"{counted(value.games, 'game')}",
                sections=(
                    _ranking_table(value.systems),
                    Points(items=(*_describe_first_place(value, "place"), *value.findings)),
                ),
            )
        case Tournament():
            return _lay_out_tournament(value)
        case ReviewBenchmark():
            return lay_out_review_benchmark(value)
        case CritiqueCheck():
            return lay_out_critique_check(value)
        case BatchResult():
            table = Table(head=("Index", "Question", "Status", "Result"), rows=tuple(map(_item_cells, value)))
            title = f"Batch of {counted(len(value), 'run')}"
            return Summary(title=title, sections=(*batch_facts(value.summary), table))
        case _:
            return None


def lay_out_audit(
    audit: JudgeAudit,
    findings: Sequence[str],
    *,
    readers: ReaderAgreement | None = None,
    left_out: Mapping[str, int] | None = None,
) -> Summary:
    """Format a judge audit: omitted items, all figures, and a conclusion in prose."""
    models = f", {counted(len(audit.models), 'model')}" if audit.models else ""
    sections: list[ReportSection] = [
        Fact(label="Not counted", text=f"{counted(number, 'run')}, {why}", tone="dim", edge=True)
        for why, number in sorted((left_out or {}).items())
    ]
    if audit.ballots:
        rows = [(row.judge, row.name, row.shown, row.interval, row.of) for row in rows_of(audit, readers)]
        sections += [
            Table(head=("Judge", "Figure", "Value", "95% interval", "Of"), rows=tuple(rows)),
            Heading(title="What the ballots show"),
            Points(items=(*findings, *(() if readers is None else readers.findings))),
        ]
    heading = f"Audit of {counted(audit.ballots, 'ballot')} on {counted(audit.items, 'item')}{models}"
    return Summary(title="Judge audit", subtitle=heading, sections=tuple(sections))


def lay_out_review_benchmark(benchmark: ReviewBenchmark) -> Summary:
    """Format recall and false findings, with and without cross-examination, and the recall for each kind of fault."""

    def cell(figure: Figure | None, form: str) -> str:
        if figure is None:
            return "none"
        ends = "" if figure.low is None or figure.high is None else f" ({figure.low:{form}} to {figure.high:{form}})"
        return f"{figure.value:{form}}{ends}"

    rates = Table(
        head=("Findings (95% interval)", "Recall", "False per change", "False per clean change"),
        rows=tuple(
            (name, cell(rates.recall, ".0%"), cell(rates.false_findings, ".2f"), cell(rates.false_on_clean, ".2f"))
            for name, rates in (
                ("Raised, without cross-examination", benchmark.raised),
                ("Confirmed, with cross-examination", benchmark.confirmed),
            )
        ),
    )
    kinds = Table(
        head=("Kind of fault", "Planted", "Raised", "Confirmed"),
        rows=tuple((kind, *(f"{count:,}" for count in counts)) for kind, counts in benchmark.recall_by_kind.items()),
    )
    return Summary(title="Review benchmark", subtitle=describe_benchmark(benchmark), sections=(rates, kinds))


def lay_out_critique_check(check: CritiqueCheck) -> Summary:
    """Format a critique check: accuracy with the critic and with the judge alone, and a recommendation."""

    def cell(figure: Figure | None) -> str:
        return "none" if figure is None else f"{figure.value:.0%} ({figure.low:.0%} to {figure.high:.0%})"

    def row(name: str, paired: Paired) -> tuple[str, ...]:
        interval = f"{paired.low:+.1%} to {paired.high:+.1%}"
        return name, f"{paired.difference:+.1%}", interval, f"{paired.better} to {paired.worse}", f"{paired.p:.2g}"

    share = f"{check.confidence:.0%} interval"
    rates = Table(
        head=(f"Decided by ({share})", "Accuracy", "Wrong answers found", "False alarms"),
        rows=tuple(
            (name, cell(rates.accuracy), cell(rates.found), cell(rates.false_alarms))
            for name, rates in (("Critique", check.critique), ("Judge alone", check.alone))
        ),
    )
    gains = [row("All answers", check.comparison)]
    gains += [] if check.found is None else [row("Wrong answers", check.found)]
    gain = Table(head=("Gain of the critique", "Accuracy", share, "Better to worse", "p"), rows=tuple(gains))
    wrong = sum(not answer.is_right for answer in check.answers)
    left_out = [f"{counted(check.left_out, 'answer')} without a decision excluded"] if check.left_out else []
    title = f"Check of a critique on {counted(len(check.answers), 'answer')}, {wrong:,} of them wrong"
    points = Points(items=(check.advice, f"Calls for each answer: {check.calls:.1f}", *left_out))
    return Summary(title="Critique check", subtitle=title, sections=(rates, gain, points))


def lay_out_benefit(
    report: BenefitReport,
    *,
    without_verdict: Mapping[str, int] | None = None,
    left_out: Mapping[str, int] | None = None,
    failed: int = 0,
) -> Summary:
    """Format a benefit report: each method's accuracy, the paired comparisons, and a conclusion in prose.

    The last lines count debates without a verdict, omitted questions, and `failed` baseline answers.
    """
    interval = f"{report.confidence:.0%} interval"
    methods = Table(
        head=("", "Right", "Accuracy", interval, "Undecided", "Calls", "Tokens"),
        rows=tuple(
            (
                METHODS[method.method],
                f"{method.right:g} of {method.n:,}",
                f"{method.accuracy:.1%}",
                f"{method.low:.1%} to {method.high:.1%}",
                f"{method.undecided:,}",
                f"{method.calls:.1f}",
                "unknown" if method.tokens is None else f"{method.tokens:,.0f}",
            )
            for method in report.methods
        ),
    )
    comparisons = Table(
        head=("Debate against", "Better", "Worse", "Difference", interval, "P (Holm)", "Times the tokens"),
        rows=tuple(
            (
                METHODS[comparison.baseline],
                f"{comparison.better:,}",
                f"{comparison.worse:,}",
                f"{comparison.difference:+.1%}",
                f"{comparison.low:+.1%} to {comparison.high:+.1%}",
                f"{comparison.p_holm:.2g}",
                "unknown" if comparison.tokens_ratio is None else f"{comparison.tokens_ratio:.1f}",
            )
            for comparison in report.comparisons
        ),
    )
    against = tuple(
        f"Against {METHODS[comparison.baseline]}. {comparison.summary}" for comparison in report.comparisons
    )
    uncounted = [
        *(("Without a verdict", f"{number:,} ({why})") for why, number in sorted((without_verdict or {}).items())),
        *(("Not counted", f"{number:,} ({why})") for why, number in sorted((left_out or {}).items())),
        *([("Baseline answers that failed", f"{failed:,}")] if failed else []),
    ]
    return Summary(
        title="Benefit",
        sections=(
            methods,
            comparisons,
            Heading(title="Did the debate help?"),
            Points(lead=report.summary, items=against),
            *(Fact(label=label, text=text, tone="dim", edge=True) for label, text in uncounted),
        ),
    )


def lay_out_study(report: StudyReport) -> Summary:
    """Format a study: each method's accuracy, the primary and secondary comparisons, and the findings in prose."""
    interval = f"{report.confidence:.0%} interval"
    methods = Table(
        title="Accuracy of each method",
        head=("Method", "N", "Accuracy", interval, "Undecided", "Calls", "Tokens"),
        rows=tuple(
            (
                method.method,
                f"{method.n:,}",
                f"{method.accuracy:.1%}",
                f"{method.low:.1%} to {method.high:.1%}",
                f"{method.undecided:,}",
                *("unknown" if mean is None else f"{mean:,.1f}" for mean in (method.calls, method.tokens)),
            )
            for method in report.methods
        ),
    )
    comparisons = Table(
        title="Comparisons",
        head=("Comparison", "Better", "Worse", "Difference", interval, "P", "E-value", "Times the tokens"),
        rows=tuple(
            (
                f"{comparison.one} against {comparison.other}{' (primary)' if comparison.primary else ''}",
                f"{comparison.better:,}",
                f"{comparison.worse:,}",
                f"{comparison.difference:+.1%}",
                f"{comparison.low:+.1%} to {comparison.high:+.1%}",
                f"{comparison.p_adjusted:.2g}",
                f"{comparison.e_value:.3g}",
                "unknown" if comparison.tokens_ratio is None else f"{comparison.tokens_ratio:.1f}",
            )
            for comparison in report.comparisons
        ),
    )
    other_summaries = tuple(comparison.summary for comparison in report.comparisons if not comparison.primary)
    registered = "not registered" if report.registered is None else f"registered as {report.registered[:12]}"
    return Summary(
        title=f"Study {report.study}",
        subtitle=f"{report.asked:,} of {report.planned:,} answers, {registered}",
        sections=(
            methods,
            comparisons,
            *([_dynamics(report.dynamics)] if report.dynamics else []),
            *([_first_read(report.first_read, interval)] if report.first_read else []),
            Heading(title="Findings"),
            Points(lead=report.summary, items=other_summaries),
            *(
                Fact(label="Differences from the registration", text=difference, tone="warning", edge=True)
                for difference in report.differences
            ),
        ),
    )


def _dynamics(dynamics_by_method: Mapping[str, Dynamics]) -> Table:
    def share(figure: Figure | None) -> str:
        return "unknown" if figure is None else f"{figure.value:.0%} of {figure.n:,}"

    return Table(
        title="How answers changed",
        head=("Answers", "Right first", "Right last", "Right to wrong", "Wrong to right", "Adopted", "Oracle gap"),
        rows=tuple(
            (
                name,
                *map(share, (course.first_right, course.last_right, course.right_to_wrong, course.wrong_to_right)),
                "" if course.adopted is None else share(course.adopted),
                "unknown" if course.oracle_gap is None else f"{100 * course.oracle_gap:.1f} points",
            )
            for name, course in dynamics_by_method.items()
        ),
    )


def _first_read(shares_by_judge: Mapping[str, Figure], interval: str) -> Table:
    return Table(
        title="Whom the judge reads first",
        head=("Judge of", "For the side read first", interval, "Debates"),
        rows=tuple(
            (name, f"{figure.value:.1%}", f"{figure.low or 0:.1%} to {figure.high or 0:.1%}", f"{figure.n:,}")
            for name, figure in shares_by_judge.items()
        ),
    )


def lay_out_comparison(comparison: Comparison) -> Summary:
    """Format a single comparison: texts, judges, agreement and reasons."""
    rubric = [*(comparison.sides[0].criteria or {})]
    sides = Table(
        head=("Text", "Share", "95% interval", "First in", *map(str.capitalize, rubric), "Characters"),
        rows=tuple(
            (
                side.name,
                f"{side.share:.0%}",
                f"{side.low:.0%} to {side.high:.0%}",
                f"{side.first} of {counted(sum(judge.ballots for judge in comparison.judges), 'ballot')}",
                *(f"{score:.0f}" for score in (side.criteria or {}).values()),
                f"{side.characters:,}",
            )
            for side in comparison.sides
        ),
    )
    judges = Table(
        head=("Judge", "Finds for", "In another order", "For the first place"),
        rows=tuple(
            (
                judge.judge,
                judge.winner or "none",
                "finds otherwise" if judge.flipped else "the same",
                f"{judge.for_first} of {judge.ballots}",
            )
            for judge in comparison.judges
        ),
    )
    agreement = [
        Fact(label=label, text=f"{value:.2f}", edge=True)
        for label, value in (("Fleiss' kappa", comparison.kappa), ("Krippendorff's alpha", comparison.alpha))
        if value is not None
    ]
    return Summary(
        title="Comparison",
        subtitle=f"Better: {comparison.winner}" if comparison.winner is not None else "Neither is better",
        sections=(
            sides,
            judges,
            *agreement,
            Heading(title="Why"),
            Points(lead=comparison.verdict, items=tuple(filter(None, comparison.reasoning.split("\n")))),
        ),
    )


def _ranking_table(systems: Sequence[RankedSystem]) -> Table:
    return Table(
        head=("Ranking", "Strength", "95% interval"),
        rows=tuple((system.name, f"{system.strength:+.2f}", system.interval or "none") for system in systems),
    )


def _describe_first_place(ranking: Ranking, called: str) -> list[str]:
    """Describe the advantage of the first position, if the ranking includes an estimate of it."""
    if (order := ranking.order) is None:
        return []
    between = "no interval" if order.low is None else f"{order.low:+.2f} to {order.high:+.2f}"
    return [f"the first {called} is worth {order.value:+.2f} log-odds ({between})"]


def _lay_out_tournament(tournament: Tournament) -> Summary:
    points = tuple((name, f"{won:g}") for name, won in tournament.points.items())
    failed = [f"{counted(len(tournament.failed), 'run')} without a verdict"] if tournament.failed else []
    return Summary(
        title="Tournament",
        subtitle=f"{counted(len(tournament.games), 'game')}",
        sections=(
            Table(head=("System", "Points"), rows=points),
            *([_ranking_table(tournament.ranking.systems)] if tournament.ranking.systems else []),
            Points(items=(*_describe_first_place(tournament.ranking, "seat"), *failed, *tournament.ranking.findings)),
        ),
    )


_SHOWN_REPAIRS = 3  # maximum number of repairs shown per model


def lay_out_leaderboard(board: Leaderboard) -> Summary:
    """Format a leaderboard: models by strength, judges by consistency, repaired answers, and the findings in prose."""

    def share(figure: Figure | None) -> str:
        if figure is None:
            return "unknown"
        return f"{figure.value:.0%} ({figure.low or 0:.0%} to {1 if figure.high is None else figure.high:.0%})"

    models = Table(
        head=("Model", "Games", "Wins", "No winner", "Strength", "95% interval"),
        rows=tuple(
            (
                model_row.model,
                f"{model_row.games:,}",
                f"{model_row.wins:,}",
                f"{model_row.ties:,}",
                "" if model_row.strength is None else f"{model_row.strength:+.2f}",
                ""
                if model_row.low is None or model_row.high is None
                else f"{model_row.low:+.2f} to {model_row.high:+.2f}",
            )
            for model_row in board.models
        ),
    )
    judges = Table(
        head=("Judge", "Debates", "Ballots", "For what it reads first", "For who speaks first", "Same in all orders"),
        rows=tuple(
            (
                judge.judge,
                f"{judge.debates:,}",
                f"{judge.ballots:,}",
                *map(share, (judge.first_read, judge.first_speaker, judge.consistency)),
            )
            for judge in board.judges
        ),
    )
    answers = Table(
        head=("Model", "Answers", "Repaired", "Most often", "Thought aloud", "Without a tag", "Template tokens"),
        rows=tuple(
            (
                model.model,
                f"{model.answers:,}",
                f"{model.repaired:,} ({model.repaired / model.answers:.0%})",
                ", ".join(f"{repair} ({count:,})" for repair, count in islice(model.repairs.items(), _SHOWN_REPAIRS)),
                *(f"{count:,}" for count in (model.thought_aloud, model.thought_unannounced, model.template_tokens)),
            )
            for model in board.answers
        ),
    )
    sections: list[ReportSection] = [models] if board.models else []
    sections += [judges] if board.judges else []
    sections += [answers] if board.answers else []
    if board.findings:
        sections += [Heading(title="Findings"), Points(items=tuple(board.findings))]
    for why, number in board.left_out.items():
        sections.append(Fact(label="Not counted", text=f"{counted(number, 'run')}, {why}", tone="dim"))
    return Summary(title="Leaderboard", subtitle=counted(board.runs, "run"), sections=tuple(sections))


def _truth_table(table: ComparisonTable) -> Table:
    def percent(figure: Figure | None) -> tuple[str, str]:
        if figure is None:
            return "", ""
        return f"{figure.value:.1%}", f"{figure.low or 0:.1%} to {figure.high or 0:.1%}"

    return Table(
        title="Against the truth",
        head=("Judge", "Right in one order", "95% interval", "Decided by all", "Right among decided", "95% interval"),
        rows=tuple(
            (judge.judge, *percent(truth.one_order), percent(truth.decided)[0], *percent(truth.right))
            for judge in table.judges
            if (truth := judge.truth) is not None
        ),
    )


def lay_out_comparisons(table: ComparisonTable) -> Summary:
    """Format many comparisons: systems, ranking, judges, and a conclusion in prose."""

    def format_figure(figure: Figure | None) -> tuple[str, str]:
        return (
            ("", "") if figure is None else (f"{figure.value:.0%}", f"{figure.low or 0:.0%} to {figure.high or 0:.0%}")
        )

    rubric = [*((table.systems[0].criteria if table.systems else None) or {})]
    systems = Table(
        head=(
            "System",
            "Rows",
            "Wins",
            "No winner",
            "Rate",
            "95% interval",
            *map(str.capitalize, rubric),
            "Characters",
        ),
        rows=tuple(
            (
                system.name,
                f"{system.rows:,}",
                f"{system.wins:,}",
                f"{system.undecided:,}",
                *format_figure(system.rate),
                *(f"{score:.0f}" for score in (system.criteria or {}).values()),
                f"{system.characters:,.0f}",
            )
            for system in table.systems
        ),
    )
    judges = Table(
        head=("Judge", "Flips", "95% interval", "For the first place", "95% interval", "Favors"),
        rows=tuple(
            (
                judge.judge,
                *format_figure(judge.flips),
                *format_figure(judge.first_place),
                "no place" if judge.favors is None else f"the {judge.favors} place",
            )
            for judge in table.judges
        ),
    )
    return Summary(
        title="Comparisons",
        subtitle=f"{counted(table.rows, 'row')} compared",
        sections=(
            systems,
            *([_ranking_table(table.ranking.systems)] if table.ranking is not None and table.ranking.systems else []),
            judges,
            *([_truth_table(table)] if table.truth is not None else []),
            Heading(title="Findings"),
            Points(items=tuple(table.findings)),
        ),
    )


def batch_facts(summary: BatchSummary) -> Iterator[Fact]:
    """Describe what is known about a batch's outcome: runs, results and cost."""
    usage = summary.usage
    total = summary.done if summary.total is None else summary.total
    not_done = [f"{total - summary.done:,} not done"] if total > summary.done else []
    before = [f"{summary.replayed:,} done before"] if summary.replayed else []
    progress_text = f" ({', '.join([*not_done, *before])})" if not_done or before else ""
    prompt, completion = (
        "unknown" if count is None else f"{count:,}" for count in (usage.prompt_tokens, usage.completion_tokens)
    )
    cached = f" (cached {usage.cached_tokens:,})" if usage.cached_tokens else ""
    tokens = f"{prompt} prompt{cached}, {completion} completion"
    parts: list[tuple[str, str, Tone]] = [
        ("Questions", f"{total:,}{progress_text}", "plain"),
        *(
            (status_text(status).capitalize(), f"{count:,}", "plain")
            for status, count in sorted(summary.statuses.items())
        ),
        ("Errors", ", ".join(f"{word} {count:,}" for word, count in summary.failures.items()), "warning"),
        ("Found", ", ".join(f"{word} {count:,}" for word, count in summary.decisions.items()), "good"),
        ("Calls", f"{usage.calls:,}", "plain"),
        ("Tokens", "unknown" if usage.total_tokens is None and not usage.prompt_tokens else tokens, "plain"),
        ("Cost", "" if summary.cost is None else cost_text(summary.cost, summary.prices, complete=True), "plain"),
        ("Time", f"{summary.seconds:.1f} s ({rate_text(summary.rate)})", "plain"),
    ]
    return (Fact(label=label, text=text, tone=tone, short=True) for label, text, tone in parts if text)


def rate_text(rate: float) -> str:
    """Format a rate in runs per second, or in runs per minute if it is below 1 per second.

    >>> rate_text(2.5), rate_text(0.1)
    ('2.5 a second', '6.0 a minute')
    """
    return f"{rate:.1f} a second" if rate >= 1 else f"{rate * 60:.1f} a minute"


def _item_cells(item: BatchItem[Any]) -> tuple[str, ...]:
    if item.error is not None:
        came_to = error_text(item.error)
    else:
        # Depending on the pattern, the raw output has a verdict, an answer, or both.
        winner = getattr(getattr(item.raw, "verdict", None), "winner", None)
        answer = getattr(item.raw, "answer", None) or (item.output if isinstance(item.output, str) else None)
        came_to = "; ".join(
            [*([f"Winner: {winner}"] if winner is not None else []), *([str(answer)] if answer else [])]
        )
    return str(item.index), str(item.question), status_text(item.status), came_to
