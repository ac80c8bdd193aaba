"""The Markdown of a deliberation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate.cli.report import escaped, losses, quoted, speaker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flowdebate.cli.pages.deliberation import DeliberationDocument
    from flowdebate.patterns.deliberation.schemas import ModeratorReport

__all__ = ("body",)


def body(document: DeliberationDocument) -> Iterator[str]:
    """Rounds with their reports, and the decision."""
    raw = document.raw
    for number in range(1, raw.rounds + 1):
        yield from (f"## Round {number}", "")
        for entry in raw.history:
            if entry.round == number:
                yield from (speaker(entry.name, entry.role), "", quoted(entry.text), "")
        yield from losses(loss for loss in raw.losses if loss.round == number)
        for report in raw.reports[number - 1 : number]:
            yield from _report(report)
    if raw.final_decision is not None:
        settled = "Settled" if raw.is_settled else "Not settled"
        yield from ("## Decision", "", f"**{settled}**", "", quoted(raw.final_decision), "")


def _report(report: ModeratorReport | None) -> Iterator[str]:
    if report is None:
        return
    yield from (f"**Moderator**: {escaped(report.status)}", "", quoted(report.summary), "")
    if report.decision is not None:
        yield from ("Decision:", "", quoted(report.decision), "")
