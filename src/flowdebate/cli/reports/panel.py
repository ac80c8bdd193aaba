"""The Markdown of a panel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate.cli.pages.panel import findings
from flowdebate.cli.report import losses, output, quoted, speaker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flowdebate.cli.pages.panel import PanelDocument

__all__ = ("body",)


def body(document: PanelDocument) -> Iterator[str]:
    """Rounds with their audits, and the output."""
    raw = document.raw
    for number in range(1, raw.rounds + 1):
        yield from (f"## Round {number}", "")
        for entry in raw.transcript:
            if entry.round == number:
                yield from (speaker(entry.agent_name, entry.role), "", quoted(entry.text), "")
        yield from losses(loss for loss in raw.losses if loss.round == number and loss.seat != "synthesizer")
        for audit in raw.audits:
            if audit.round == number:
                yield from ("**Referee**", "", quoted(audit.notes), "")
                yield from (f"- {speaker(name, found)}" for name, found in findings(audit))
                yield ""
    yield from losses(loss for loss in raw.losses if loss.seat == "synthesizer")
    yield from output(document.output)
