"""Report of a study: one HTML file without a script, with its tables, its plots, and what differs from its plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate.service.audit import FigureRow
from flowdebate.service.documents.evaluations import lay_out_study
from flowdebate.service.documents.sections import Table
from flowdebate.web.plots import Point, plot_of, scatter_of_costs, scatter_of_shares
from flowdebate.web.report import STYLES, report_policy
from flowdebate.web.templates import render, style_of

if TYPE_CHECKING:
    from flowdebate.evaluation.study_report import StudyReport


def study_html(report: StudyReport) -> str:
    """The page of a report, finished or not; nothing in it is loaded, and nothing acts."""
    from flowdebate import __version__

    accuracies = [
        FigureRow(
            judge="",
            name=each.method,
            value=each.accuracy,
            low=each.low,
            high=each.high,
            form=".1%",
            n=each.n,
            of=f"{each.n:,} answers",
        )
        for each in report.methods
    ]
    costs = [
        Point(
            name=each.method,
            about=f"{each.method}, {each.accuracy:.1%} at {each.tokens:,.0f} tokens",
            x=each.tokens,
            y=each.accuracy,
            low=each.low,
            high=each.high,
        )
        for each in report.methods
        if each.tokens
    ]
    sure = [
        Point(
            name="",
            about=f"{each.accuracy:.0%} right where it is {each.confidence:.0%} sure, of {each.n:,}",
            x=each.confidence,
            y=each.accuracy,
            low=each.accuracy_low,
            high=each.accuracy_high,
        )
        for each in report.reliability
    ]
    frontier = [each.method for each in report.frontier]
    tables = [each for each in lay_out_study(report).sections if isinstance(each, Table)]
    return render(
        "study",
        report=report,
        tables=dict(zip(("Accuracy of each method", "Comparisons", "How answers changed"), tables, strict=False)),
        accuracies=plot_of(accuracies),
        costs=scatter_of_costs(costs, line=frontier, name="tokens for each question, on a scale of equal factors"),
        frontier=frontier,
        sure=scatter_of_shares(sure, name="how sure the judge is"),
        style=style_of(*STYLES),
        policy=report_policy(),
        version=__version__,
    )
