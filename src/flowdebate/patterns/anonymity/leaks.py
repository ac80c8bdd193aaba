"""Leak reports: the names of debaters and models in arguments, with their places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, Protocol

from pydantic import Field

from flowdebate._util.wire import WireModel, new_list
from flowdebate.patterns.anonymity.aliases import Aliases, LeakKind

_EXCERPT = 30
"""The number of characters around a leak in its excerpt: a few words, which show whether it is a name there."""


class Entry(Protocol):
    """An argument in a transcript, of whatever pattern."""

    # properties, for entries are frozen: a protocol's plain attribute would have to be writable
    @property
    def round(self) -> int:
        """The round in which it was made."""

    @property
    def agent_name(self) -> str:
        """Who made it."""

    @property
    def text(self) -> str:
        """The argument, as it was made."""


class LeakAt(WireModel):
    """One name in one argument."""

    entry: Annotated[int, Field(ge=0)]
    """The index of the entry in the transcript."""
    round: Annotated[int, Field(ge=1)]
    author: str
    """Whose argument it is."""
    kind: LeakKind
    whose: Literal["own", "other", "model"]
    """The author's own name, another debater's, or that of a model or its maker."""
    meant: str
    """The name or model as the roster writes it, or the family or maker."""
    text: str
    """The name as written."""
    start: Annotated[int, Field(ge=0)]
    """The offset in the argument, in characters."""
    end: Annotated[int, Field(ge=0)]
    excerpt: str
    """The name with a few words around it, on one line."""


class LeakReport(WireModel):
    """All names in a transcript's arguments."""

    entries: Annotated[int, Field(ge=0)]
    """The number of arguments."""
    leaks: list[LeakAt] = Field(default_factory=new_list)
    """In the order of the transcript."""

    @property
    def count(self) -> int:
        """The number of leaks."""
        return len(self.leaks)

    @property
    def own(self) -> int:
        """The number of times that authors name themselves."""
        return sum(leak.whose == "own" for leak in self.leaks)

    @property
    def others(self) -> int:
        """The number of times that they name another debater."""
        return sum(leak.whose == "other" for leak in self.leaks)

    @property
    def models(self) -> int:
        """The number of times that they name a model or its maker."""
        return sum(leak.whose == "model" for leak in self.leaks)

    @property
    def share(self) -> float:
        """The share of arguments that contain a name, 0.0 to 1.0; 0.0 for no arguments."""
        return len({leak.entry for leak in self.leaks}) / self.entries if self.entries else 0.0


def leak_report(entries: Sequence[Entry], aliases: Aliases) -> LeakReport:
    """Report the names in the arguments of `entries`, each with its place."""
    leaks: list[LeakAt] = []
    for place, entry in enumerate(entries):
        for leak in aliases.hide(entry.text).leaks:
            first, last = max(0, leak.start - _EXCERPT), leak.end + _EXCERPT
            shown = " ".join(entry.text[first:last].split())
            leaks.append(
                LeakAt.model_construct(  # validation would take most of the time of an argument full of names
                    entry=place,
                    round=entry.round,
                    author=entry.agent_name,
                    kind=leak.kind,
                    whose="model" if leak.kind != "name" else "own" if leak.meant == entry.agent_name else "other",
                    meant=leak.meant,
                    text=leak.text,
                    start=leak.start,
                    end=leak.end,
                    excerpt=f"{'…' if first else ''}{shown}{'…' if last < len(entry.text) else ''}",
                )
            )
    return LeakReport(entries=len(entries), leaks=leaks)
