"""The Markdown of a handoff."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowdebate.cli.pages.handoff import handoff_made
from flowdebate.cli.report import escaped, losses, quoted, speaker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flowdebate.cli.pages.handoff import HandoffDocument
    from flowdebate.patterns.handoff.schemas import HandoffEntry

__all__ = ("body",)


def body(document: HandoffDocument) -> Iterator[str]:
    """The turns."""
    raw = document.raw
    yield from ("## Turns", "")
    for number in range(1, raw.turns + 1):
        for entry in raw.transcript:
            if entry.round == number:
                yield from (speaker(entry.agent_name, f"turn {number}"), "", quoted(entry.text), "")
                yield from _next(entry)
        yield from losses(loss for loss in raw.losses if loss.round == number)


def _next(entry: HandoffEntry) -> Iterator[str]:
    found = handoff_made(entry)
    if found is not None:
        label, who = found
        yield from (f"*{label}*: {escaped(who)}", "")
