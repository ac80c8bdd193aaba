"""Ballots decided again: as a table with what it comes to in words, and as JSON data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowdebate.cli.text import in_line
from flowdebate.evaluation.recount.recount import named
from flowdebate.evaluation.recount.report import findings

if TYPE_CHECKING:
    from flowdebate.cli.page import Page
    from flowdebate.evaluation.recount.schemas import Recount, RuleResult

__all__ = ("redecided_data", "show_redecided")

_HEAD = ("PROTOCOL", "FINDS FOR", "BALLOTS", "WHY")
_ENDS = {"tie": "(a tie)", "short": "(not enough)", "abstains": "(abstains)"}


def show_redecided(found: Recount, page: Page, *, subject: str, decided: str | None) -> None:
    """Write it on `page`; `decided` is for whom it was decided when it was held."""
    page.labelled("Question", subject, "bold", indent="")
    page.labelled("Decided for", "nobody" if decided is None else decided, "bold", indent="")
    page.line(f"Decided again by {found.cast:,} {_kind(found)}, without asking anybody")
    told = [row for row in found.rows if row.end != "untold"]
    if told:
        page.line()
        page.columns(_HEAD, [_cells(row) for row in told])
    if len(found.alone) > 1:
        page.heading("Each ballot as the only one")
        for each in found.alone:
            who = f"Ballot {each.number}" if each.voter is None else f"Ballot {each.number}, {each.voter}"
            view = "" if each.view is None else f" (view {each.view + 1})"
            page.labelled(f"{who}{view}", each.winner or "none", "")
    page.heading("Findings")
    for said in findings(found):
        page.line(f"- {in_line(said)}")


def redecided_data(found: Recount, *, subject: str, decided: str | None, run_id: str | None) -> dict[str, Any]:
    """The same as JSON data."""
    return {
        "question": subject,
        "decided": decided,
        "redecided": found.model_dump(mode="json", by_alias=True),
        "findings": findings(found),
        "runId": run_id,
    }


def _cells(row: RuleResult) -> tuple[str, str, str, str]:
    winner = row.winner if row.winner is not None else _ENDS[row.end]
    return named(row.protocol), winner, f"{row.ballots:,}", row.why


def _kind(found: Recount) -> str:
    word = "vote" if found.data == "votes" else "ballot"
    return word if found.cast == 1 else f"{word}s"
