"""Whether debates helped: two tables and the plain words, or the same as JSON data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowdebate.evaluation.benefit.report import METHODS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flowdebate.cli.page import Page
    from flowdebate.evaluation.benefit.schemas import BenefitReport, Comparison, Standing

__all__ = ("report_data", "show_report")


def show_report(report: BenefitReport, page: Page, *, left_out: Mapping[str, int], lost: int) -> None:
    """How each method fared, how the debate compares with each baseline, and what that comes to."""
    interval = f"{report.confidence:.0%} INTERVAL"
    page.line()
    head = ("", "RIGHT", "ACCURACY", interval, "UNDECIDED", "CALLS", "TOKENS")
    page.columns(head, [_standing(each) for each in report.standings])
    page.line()
    page.columns(
        ("DEBATE AGAINST", "BETTER", "WORSE", "DIFFERENCE", interval, "P (HOLM)", "TIMES THE TOKENS"),
        [_comparison(each) for each in report.comparisons],
    )
    page.heading("Did the debate help?")
    page.line(report.words)
    for each in report.comparisons:
        page.line(f"- Against {METHODS[each.baseline]}. {each.words}")
    for why, number in sorted(left_out.items()):
        page.line(f"Left out: {number:,} ({why})", style="dim")
    if lost:
        page.line(f"Answers of baselines that were lost: {lost:,}", style="dim")


def report_data(report: BenefitReport | None, *, name: str, left_out: Mapping[str, int], lost: int) -> dict[str, Any]:
    """The same as JSON data; the report is None where there is nothing to compare."""
    return {
        "batch": name,
        "report": None if report is None else report.model_dump(mode="json", by_alias=True),
        "leftOut": dict(sorted(left_out.items())),
        "lostAnswers": lost,
    }


def _standing(found: Standing) -> tuple[str, ...]:
    return (
        METHODS[found.method],
        f"{found.right:g} of {found.n:,}",
        f"{found.accuracy:.1%}",
        f"{found.low:.1%} to {found.high:.1%}",
        f"{found.undecided:,}",
        f"{found.calls:.1f}",
        "unknown" if found.tokens is None else f"{found.tokens:,.0f}",
    )


def _comparison(found: Comparison) -> tuple[str, ...]:
    return (
        METHODS[found.baseline],
        f"{found.better:,}",
        f"{found.worse:,}",
        f"{found.difference:+.1%}",
        f"{found.low:+.1%} to {found.high:+.1%}",
        f"{found.p_holm:.2g}",
        "unknown" if found.tokens_ratio is None else f"{found.tokens_ratio:.1f}",
    )
