"""What the evidence in arguments is made of: quotes with where they stand, claims, and who attacks or supports whom."""

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
    """What is claimed in a debate, or is an argument of it."""

    id: str
    """What attacks and supports call it."""
    text: str = ""
    base: Score = 0.5
    """How strong it is by itself, before anything is said for or against it."""
    author: str | None = None
    stance: str | None = None
    round: Annotated[int, Field(ge=1)] | None = None


class ArgumentGraph(WireModel):
    """Claims, and which of them attack and support which; `argument_graph` makes one that is known to be sound."""

    claims: tuple[Claim, ...]
    attacks: tuple[tuple[str, str], ...] = ()
    """Pairs of ids: the first claim speaks against the second."""
    supports: tuple[tuple[str, str], ...] = ()
    """Pairs of ids: the first claim speaks for the second."""


class StrengthChange(WireModel):
    """What became of one claim's strength; None where the claim was not there."""

    claim: str
    before: Score | None
    after: Score


class Contested(WireModel):
    """A graph after one of its claims was contested."""

    graph: ArgumentGraph
    strengths: dict[str, float]
    """The strength of each claim now."""
    changes: tuple[StrengthChange, ...]
    """The claims whose strengths are not what they were, in the graph's order."""
