"""Reports of evaluations and batches as data: laid out once for terminals, notebooks and pages."""

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
from flowdebate.evaluation.dynamics import Dynamics
from flowdebate.evaluation.evaluation_run import Evaluation
from flowdebate.evaluation.judge_quality import JudgeQuality
from flowdebate.evaluation.leaderboard import Leaderboard
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
    """A report that any front end can print."""

    title: str
    """What it is, for a place that shows values of many kinds."""
    about: str = ""
    sections: tuple[ReportSection, ...]


def lay_out(value: object) -> Summary | None:  # noqa: C901, PLR0911, PLR0912 - one case for each kind
    """The report of the result of an evaluation or a batch; None for any other value."""
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
            about = counted(value.ballots, "ballot")
            return Summary(title="Content audit", about=about, sections=(Points(items=tuple(value.findings)),))
        case StudyReport():
            return lay_out_study(value)
        case Dynamics():
            return Summary(title="Dynamics", about=counted(value.courses, "course"), sections=(_dynamics({"": value}),))
        case Comparison():
            return lay_out_comparison(value)
        case ComparisonTable():
            return lay_out_comparisons(value)
        case Leaderboard():
            return lay_out_leaderboard(value)
        case Ranking():
            return Summary(
                title="Ranking",
                about=f"{counted(value.games, 'game')}",
                sections=(
                    _ranking_table(value.systems),
                    Points(items=(*_first_place(value, "place"), *value.findings)),
                ),
            )
        case Tournament():
            return _lay_out_tournament(value)
        case ReviewBenchmark():
            return lay_out_review_benchmark(value)
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
    """The report of a judge audit: what was left out, all figures, and what they come to in words."""
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
    about = f"Audit of {counted(audit.ballots, 'ballot')} on {counted(audit.items, 'item')}{models}"
    return Summary(title="Judge audit", about=about, sections=tuple(sections))


def lay_out_review_benchmark(benchmark: ReviewBenchmark) -> Summary:
    """Lay out recall and false findings, without cross-examination and with it, and the recall by kind of fault."""

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
    return Summary(title="Review benchmark", about=describe_benchmark(benchmark), sections=(rates, kinds))


def lay_out_benefit(
    report: BenefitReport,
    *,
    without_verdict: Mapping[str, int] | None = None,
    left_out: Mapping[str, int] | None = None,
    failed: int = 0,
) -> Summary:
    """The report of a benefit: accuracy of each method, paired comparisons, and what they come to in words.

    What did not count stands below: debates without a verdict, questions that were left out, and `failed` answers of
    baselines.
    """
    interval = f"{report.confidence:.0%} interval"
    methods = Table(
        head=("", "Right", "Accuracy", interval, "Undecided", "Calls", "Tokens"),
        rows=tuple(
            (
                METHODS[each.method],
                f"{each.right:g} of {each.n:,}",
                f"{each.accuracy:.1%}",
                f"{each.low:.1%} to {each.high:.1%}",
                f"{each.undecided:,}",
                f"{each.calls:.1f}",
                "unknown" if each.tokens is None else f"{each.tokens:,.0f}",
            )
            for each in report.methods
        ),
    )
    comparisons = Table(
        head=("Debate against", "Better", "Worse", "Difference", interval, "P (Holm)", "Times the tokens"),
        rows=tuple(
            (
                METHODS[each.baseline],
                f"{each.better:,}",
                f"{each.worse:,}",
                f"{each.difference:+.1%}",
                f"{each.low:+.1%} to {each.high:+.1%}",
                f"{each.p_holm:.2g}",
                "unknown" if each.tokens_ratio is None else f"{each.tokens_ratio:.1f}",
            )
            for each in report.comparisons
        ),
    )
    against = tuple(f"Against {METHODS[each.baseline]}. {each.summary}" for each in report.comparisons)
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
    """The report of a study: accuracy of each method, the primary comparison and the others, and both in words."""
    interval = f"{report.confidence:.0%} interval"
    methods = Table(
        title="Accuracy of each method",
        head=("Method", "N", "Accuracy", interval, "Undecided", "Calls", "Tokens"),
        rows=tuple(
            (
                each.method,
                f"{each.n:,}",
                f"{each.accuracy:.1%}",
                f"{each.low:.1%} to {each.high:.1%}",
                f"{each.undecided:,}",
                *("unknown" if mean is None else f"{mean:,.1f}" for mean in (each.calls, each.tokens)),
            )
            for each in report.methods
        ),
    )
    comparisons = Table(
        title="Comparisons",
        head=("Comparison", "Better", "Worse", "Difference", interval, "P", "E-value", "Times the tokens"),
        rows=tuple(
            (
                f"{each.one} against {each.other}{' (primary)' if each.primary else ''}",
                f"{each.better:,}",
                f"{each.worse:,}",
                f"{each.difference:+.1%}",
                f"{each.low:+.1%} to {each.high:+.1%}",
                f"{each.p_adjusted:.2g}",
                f"{each.e_value:.3g}",
                "unknown" if each.tokens_ratio is None else f"{each.tokens_ratio:.1f}",
            )
            for each in report.comparisons
        ),
    )
    others = tuple(each.summary for each in report.comparisons if not each.primary)
    registered = "not registered" if report.registered is None else f"registered as {report.registered[:12]}"
    return Summary(
        title=f"Study {report.study}",
        about=f"{report.asked:,} of {report.planned:,} answers, {registered}",
        sections=(
            methods,
            comparisons,
            *([_dynamics(report.dynamics)] if report.dynamics else []),
            *([_first_read(report.first_read, interval)] if report.first_read else []),
            Heading(title="Findings"),
            Points(lead=report.summary, items=others),
            *(
                Fact(label="Differences from the registration", text=each, tone="warning", edge=True)
                for each in report.differences
            ),
        ),
    )


def _dynamics(named: Mapping[str, Dynamics]) -> Table:
    def share(figure: Figure | None) -> str:
        return "unknown" if figure is None else f"{figure.value:.0%} of {figure.n:,}"

    return Table(
        title="How answers changed",
        head=("Answers", "Right first", "Right last", "Right to wrong", "Wrong to right", "Adopted", "Oracle gap"),
        rows=tuple(
            (
                name,
                *map(share, (each.first_right, each.last_right, each.right_to_wrong, each.wrong_to_right)),
                "" if each.adopted is None else share(each.adopted),
                "unknown" if each.oracle_gap is None else f"{100 * each.oracle_gap:.1f} points",
            )
            for name, each in named.items()
        ),
    )


def _first_read(named: Mapping[str, Figure], interval: str) -> Table:
    return Table(
        title="Whom the judge reads first",
        head=("Judge of", "For the side read first", interval, "Debates"),
        rows=tuple(
            (name, f"{each.value:.1%}", f"{each.low or 0:.1%} to {each.high or 0:.1%}", f"{each.n:,}")
            for name, each in named.items()
        ),
    )


def lay_out_comparison(found: Comparison) -> Summary:
    """The report of one comparison: texts, judges, agreement and reasons."""
    rubric = [*(found.sides[0].criteria or {})]
    sides = Table(
        head=("Text", "Share", "95% interval", "First in", *map(str.capitalize, rubric), "Characters"),
        rows=tuple(
            (
                side.name,
                f"{side.share:.0%}",
                f"{side.low:.0%} to {side.high:.0%}",
                f"{side.first} of {counted(sum(judge.ballots for judge in found.judges), 'ballot')}",
                *(f"{score:.0f}" for score in (side.criteria or {}).values()),
                f"{side.characters:,}",
            )
            for side in found.sides
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
            for judge in found.judges
        ),
    )
    agreement = [
        Fact(label=label, text=f"{value:.2f}", edge=True)
        for label, value in (("Fleiss' kappa", found.kappa), ("Krippendorff's alpha", found.alpha))
        if value is not None
    ]
    return Summary(
        title="Comparison",
        about=f"Better: {found.winner}" if found.winner is not None else "Neither is better",
        sections=(
            sides,
            judges,
            *agreement,
            Heading(title="Why"),
            Points(lead=found.verdict, items=tuple(filter(None, found.reasoning.split("\n")))),
        ),
    )


def _ranking_table(systems: Sequence[RankedSystem]) -> Table:
    return Table(
        head=("Ranking", "Strength", "95% interval"),
        rows=tuple((each.name, f"{each.strength:+.2f}", each.interval or "none") for each in systems),
    )


def _first_place(ranking: Ranking, called: str) -> list[str]:
    """What the first place is worth, where that was fitted."""
    if (order := ranking.order) is None:
        return []
    between = "no interval" if order.low is None else f"{order.low:+.2f} to {order.high:+.2f}"
    return [f"the first {called} is worth {order.value:+.2f} log-odds ({between})"]


def _lay_out_tournament(found: Tournament) -> Summary:
    points = tuple((name, f"{won:g}") for name, won in found.points.items())
    failed = [f"{counted(len(found.failed), 'run')} without a verdict"] if found.failed else []
    return Summary(
        title="Tournament",
        about=f"{counted(len(found.games), 'game')}",
        sections=(
            Table(head=("System", "Points"), rows=points),
            *([_ranking_table(found.ranking.systems)] if found.ranking.systems else []),
            Points(items=(*_first_place(found.ranking, "seat"), *failed, *found.ranking.findings)),
        ),
    )


_SHOWN_REPAIRS = 3  # of each model, in a table


def lay_out_leaderboard(board: Leaderboard) -> Summary:
    """Lay out models by strength, judges by consistency, repaired answers, and the findings in words."""

    def share(figure: Figure | None) -> str:
        if figure is None:
            return "unknown"
        return f"{figure.value:.0%} ({figure.low or 0:.0%} to {1 if figure.high is None else figure.high:.0%})"

    models = Table(
        head=("Model", "Games", "Wins", "No winner", "Strength", "95% interval"),
        rows=tuple(
            (
                each.model,
                f"{each.games:,}",
                f"{each.wins:,}",
                f"{each.ties:,}",
                "" if each.strength is None else f"{each.strength:+.2f}",
                "" if each.low is None or each.high is None else f"{each.low:+.2f} to {each.high:+.2f}",
            )
            for each in board.models
        ),
    )
    judges = Table(
        head=("Judge", "Debates", "Ballots", "For what it reads first", "For who speaks first", "Same in all orders"),
        rows=tuple(
            (
                each.judge,
                f"{each.debates:,}",
                f"{each.ballots:,}",
                *map(share, (each.first_read, each.first_speaker, each.consistency)),
            )
            for each in board.judges
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
    return Summary(title="Leaderboard", about=counted(board.runs, "run"), sections=tuple(sections))


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
    """The report of many comparisons: systems, ranking, judges, and what they come to in words."""

    def shown(figure: Figure | None) -> tuple[str, str]:
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
                each.name,
                f"{each.rows:,}",
                f"{each.wins:,}",
                f"{each.undecided:,}",
                *shown(each.rate),
                *(f"{score:.0f}" for score in (each.criteria or {}).values()),
                f"{each.characters:,.0f}",
            )
            for each in table.systems
        ),
    )
    judges = Table(
        head=("Judge", "Flips", "95% interval", "For the first place", "95% interval", "Favours"),
        rows=tuple(
            (
                each.judge,
                *shown(each.flips),
                *shown(each.first_place),
                "no place" if each.favours is None else f"the {each.favours} place",
            )
            for each in table.judges
        ),
    )
    return Summary(
        title="Comparisons",
        about=f"{counted(table.rows, 'row')} compared",
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
    """What a batch came to, as far as it is known: its runs, what they found, and what they cost."""
    usage = summary.usage
    total = summary.done if summary.total is None else summary.total
    not_done = [f"{total - summary.done:,} not done"] if total > summary.done else []
    before = [f"{summary.replayed:,} done before"] if summary.replayed else []
    about = f" ({', '.join([*not_done, *before])})" if not_done or before else ""
    prompt, completion = (
        "unknown" if count is None else f"{count:,}" for count in (usage.prompt_tokens, usage.completion_tokens)
    )
    cached = f" (cached {usage.cached_tokens:,})" if usage.cached_tokens else ""
    tokens = f"{prompt} prompt{cached}, {completion} completion"
    parts: list[tuple[str, str, Tone]] = [
        ("Questions", f"{total:,}{about}", "plain"),
        *(
            (status_text(status).capitalize(), f"{count:,}", "plain")
            for status, count in sorted(summary.statuses.items())
        ),
        ("Errors", ", ".join(f"{word} {count:,}" for word, count in summary.failures.items()), "warning"),
        ("Found", ", ".join(f"{word} {count:,}" for word, count in summary.decisions.items()), "good"),
        ("Calls", f"{usage.calls:,}", "plain"),
        ("Tokens", "unknown" if usage.total_tokens is None and not usage.prompt_tokens else tokens, "plain"),
        ("Cost", "" if summary.cost is None else cost_text(summary.cost, summary.prices, whole=True), "plain"),
        ("Time", f"{summary.seconds:.1f} s ({rate_text(summary.rate)})", "plain"),
    ]
    return (Fact(label=label, text=text, tone=tone, short=True) for label, text, tone in parts if text)


def rate_text(rate: float) -> str:
    """Runs in a time of which there is about one or more.

    >>> rate_text(2.5), rate_text(0.1)
    ('2.5 a second', '6.0 a minute')
    """
    return f"{rate:.1f} a second" if rate >= 1 else f"{rate * 60:.1f} a minute"


def _item_cells(item: BatchItem[Any]) -> tuple[str, ...]:
    if item.error is not None:
        came_to = error_text(item.error)
    else:
        # whichever of these the raw output of the batch's pattern has
        winner = getattr(getattr(item.raw, "verdict", None), "winner", None)
        answer = getattr(item.raw, "answer", None) or (item.output if isinstance(item.output, str) else None)
        came_to = "; ".join(
            [*([f"Winner: {winner}"] if winner is not None else []), *([str(answer)] if answer else [])]
        )
    return str(item.index), str(item.question), status_text(item.status), came_to
