"""An audit of judges: as a table with what it comes to in words, and as JSON data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from flowdebate.cli.text import in_line
from flowdebate.evaluation.judges.report import findings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from flowdebate.cli.page import Page
    from flowdebate.evaluation.judges.schemas import Figure, JudgeAudit, JudgeFigures, PlaceRate, Places

__all__ = ("Row", "audit_data", "rows_of", "show_audit")

_HEAD = ("JUDGE", "FIGURE", "VALUE", "95% INTERVAL", "OF")
_NAMES = {
    "position_consistency": "position consistency (PC)",
    "preference_fairness": "preference fairness (PF)",
    "repetition_stability": "repetition stability (RS)",
    "flip_probability": "flip probability",
}


class Row(NamedTuple):
    """One figure of a judge."""

    judge: str
    """Its model; "all" for all together."""
    name: str
    value: float
    low: float | None
    high: float | None
    of: str
    """What it was counted over."""
    even: float | None = None
    """What a place of a fair judge wins; None for what is no win rate."""

    @property
    def cells(self) -> tuple[str, str, str, str, str]:
        """As a line of a table."""
        ends = "" if self.low is None or self.high is None else f"{self._told(self.low)} to {self._told(self.high)}"
        return self.judge, self.name, self._told(self.value), ends, self.of

    def _told(self, value: float) -> str:
        return f"{value:.2f}" if self.name in _NAMES.values() else f"{value:.0%}"


def rows_of(audit: JudgeAudit) -> list[Row]:
    """The figures of `audit`: those of all ballots, then each model's."""
    of_models = [row for name, figures in audit.models.items() for row in _rows(in_line(name) or "(unknown)", figures)]
    return [*_rows("all", audit), *of_models]


def show_audit(audit: JudgeAudit, page: Page, *, left_out: Mapping[str, int]) -> None:
    """Write it on `page`, with how many runs have nothing to audit, and why."""
    page.line(_subject(audit), style="bold")
    for why, number in sorted(left_out.items()):
        page.line(f"Left out: {_counted(number, 'run')}: {why}", style="dim")
    if not audit.ballots:
        return
    page.line()
    page.columns(_HEAD, [row.cells for row in rows_of(audit)])
    page.heading("Findings")
    for said in findings(audit):
        page.line(f"- {in_line(said)}")


def audit_data(audit: JudgeAudit, *, left_out: Mapping[str, int]) -> dict[str, Any]:
    """The same as JSON data."""
    return {
        "audit": audit.model_dump(mode="json", by_alias=True),
        "findings": findings(audit),
        "leftOut": dict(sorted(left_out.items())),
    }


def _subject(audit: JudgeAudit) -> str:
    models = f", {_counted(len(audit.models), 'model')}" if audit.models else ""
    return f"Audit of {_counted(audit.ballots, 'ballot')} on {_counted(audit.items, 'item')}{models}"


def _rows(judge: str, figures: JudgeFigures) -> Iterator[Row]:
    for places in (*figures.slots, *figures.labels):
        for place in places.places:
            of = f"{place.wins:,} of {places.n:,}"
            yield Row(judge, _name(places, place), place.rate, place.low, place.high, of, 1 / places.sides)
    for field, name in _NAMES.items():
        figure: Figure | None = getattr(figures, field)
        if figure is not None:
            over = _counted(figure.n, "view" if field == "repetition_stability" else "time")
            yield Row(judge, name, figure.value, figure.low, figure.high, over)
    if figures.ballots:
        lost = f"{figures.unparsed:,} of {figures.ballots:,}"
        yield Row(judge, "unparsed answers", figures.unparsed_share, None, None, lost)


def _name(places: Places, place: PlaceRate) -> str:
    return f"label {in_line(place.place)}" if places.kind == "label" else f"slot {place.place} of {places.sides}"


def _counted(number: int, one: str) -> str:
    return f"{number:,} {one}" if number == 1 else f"{number:,} {one}s"
