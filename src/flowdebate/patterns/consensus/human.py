"""What a human is asked for in a consensus debate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, create_model

from flowdebate._util.wire import WireModel
from flowdebate.patterns.consensus.schemas import CriticAnswer, JudgeAnswer, RevisionAnswer

if TYPE_CHECKING:
    from collections.abc import Sequence


__all__ = (
    "HumanCritique",
    "schema_for",
)


def schema_for(value: object) -> object:
    """The schema that the question `value` asks for; None for text."""
    kind = getattr(value, "kind", None)
    if kind == "critique":
        return HumanCritique
    if kind == "revision":
        return RevisionAnswer
    if kind == "rounds":
        return JudgeAnswer
    if kind in ("vote", "tie"):
        return _choice_among([proposal.agent for proposal in getattr(value, "proposals", ())])
    return None


class HumanCritique(CriticAnswer):
    """A critique; its text alone will do."""

    reasoning: Annotated[str, Field(description="What matters most about the proposal")]


def _choice_among(names: Sequence[str]) -> type[WireModel]:
    choice: Any = Literal[tuple(names)]
    return create_model(
        "VoteAnswer",
        __base__=WireModel,
        choice=(choice, Field(description="Whose proposal is the best")),
        reasoning=(str, Field("", description="Why")),
        confidence=(Annotated[float, Field(ge=0, le=1)], Field(0.5, description="How sure you are")),
    )
