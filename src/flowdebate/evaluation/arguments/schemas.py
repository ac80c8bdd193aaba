"""Argument graphs as data: claims, attacks, supports, and changes of strength."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from flowdebate._util.wire import WireModel

__all__ = (
    "ArgumentGraph",
    "Claim",
    "Contested",
    "StrengthChange",
)


Score = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class Claim(WireModel):
    """A claim or an argument of a debate."""

    id: str
    """The id that attacks and supports refer to."""
    text: str = ""
    base: Score = 0.5
    """Its strength by itself, before anything is said for or against it."""
    author: str | None = None
    stance: str | None = None
    round: Annotated[int, Field(ge=1)] | None = None


class ArgumentGraph(WireModel):
    """Claims with their attacks and supports; `argument_graph` builds one and checks it."""

    claims: tuple[Claim, ...]
    attacks: tuple[tuple[str, str], ...] = ()
    """Pairs of ids: the first claim speaks against the second."""
    supports: tuple[tuple[str, str], ...] = ()
    """Pairs of ids: the first claim speaks for the second."""


class StrengthChange(WireModel):
    """The strength of one claim before and after; None before for a new claim."""

    claim: str
    before: Score | None
    after: Score


class Contested(WireModel):
    """A graph after one of its claims was contested."""

    graph: ArgumentGraph
    strengths: dict[str, float]
    """The strength of each claim now."""
    changes: tuple[StrengthChange, ...]
    """The claims whose strengths changed, in the graph's order."""
