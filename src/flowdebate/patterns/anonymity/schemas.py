"""Leak reports: the names in arguments, and their places."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from flowdebate._util.wire import WireModel

__all__ = (
    "LeakAt",
    "LeakKind",
    "LeakReport",
)

LeakKind = Literal["name", "model", "family"]
"""A debater of the roster, one of its models, or the family or maker that authors name as their own."""


class LeakAt(WireModel):
    """One name in one argument."""

    entry: Annotated[int, Field(ge=0)]
    """The place of the entry in the transcript, from 0."""
    round: Annotated[int, Field(ge=1)]
    author: str
    """The speaker of the argument."""
    kind: LeakKind
    whose: Literal["own", "other", "model"]
    """The author's own name, another debater's, or a model's or its maker's."""
    meant: str
    """A name of the roster, a model as the roster writes it, or a family or maker."""
    text: str
    """The name, as it is written there."""
    start: Annotated[int, Field(ge=0)]
    """Where it begins in the argument, in characters."""
    end: Annotated[int, Field(ge=0)]
    excerpt: str
    """The name with a few words around it, on one line."""


class LeakReport(WireModel):
    """All names in a transcript's arguments."""

    entries: Annotated[int, Field(ge=0)]
    """The number of arguments."""
    leaks: list[LeakAt] = Field(default_factory=list)
    """In the order in which they stand there."""

    @property
    def count(self) -> int:
        """The number of leaks."""
        return len(self.leaks)

    @property
    def own(self) -> int:
        """How often authors name themselves."""
        return sum(leak.whose == "own" for leak in self.leaks)

    @property
    def others(self) -> int:
        """How often they name another debater."""
        return sum(leak.whose == "other" for leak in self.leaks)

    @property
    def models(self) -> int:
        """How often they name a model, or say which one they are."""
        return sum(leak.whose == "model" for leak in self.leaks)

    @property
    def share(self) -> float:
        """The share of arguments that name anybody, 0.0 to 1.0; 0.0 for no arguments."""
        return len({leak.entry for leak in self.leaks}) / self.entries if self.entries else 0.0
