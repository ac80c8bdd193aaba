"""Names that were found in arguments, one by one and as a report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from flowdebate.schemas.anonymity import LeakAt, LeakReport

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.schemas import DebateContributionEntry
    from flowdebate.schemas.anonymity import LeakKind
    from flowdebate.views.aliases import Aliases

__all__ = ("Leak", "leak_report")

_SHOWN = 30
"""Characters around a leak that its excerpt shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leak:
    """A name in a text."""

    kind: LeakKind
    """A debater's name, a model's, or a family of models or its maker."""
    text: str
    """The name as it is written there, with its `@` or its article."""
    start: int
    end: int
    meant: str
    """Whom it names: a name or a model as the roster writes it, or a family or a maker."""
    alias: str
    """What stands for it."""


def leak_report(entries: Sequence[DebateContributionEntry], aliases: Aliases) -> LeakReport:
    """Which names stand in the arguments of `entries`, and where."""
    found = [
        LeakAt(
            entry=place,
            round=entry.round,
            author=entry.agent_name,
            kind=leak.kind,
            whose=_whose(leak, entry.agent_name),
            meant=leak.meant,
            text=leak.text,
            start=leak.start,
            end=leak.end,
            excerpt=_excerpt(entry.text, leak),
        )
        for place, entry in enumerate(entries)
        if aliases.hide(entry.text) != entry.text  # which is known of most already
        for leak in aliases.find(entry.text)
    ]
    return LeakReport(entries=len(entries), leaks=found)


def _whose(leak: Leak, author: str) -> Literal["own", "other", "model"]:
    if leak.kind != "name":
        return "model"
    return "own" if leak.meant == author else "other"


def _excerpt(text: str, leak: Leak) -> str:
    """The leak and what stands around it, on one line."""
    first, last = max(0, leak.start - _SHOWN), leak.end + _SHOWN
    shown = " ".join(text[first:last].split())
    return f"{'…' if first else ''}{shown}{'…' if last < len(text) else ''}"
