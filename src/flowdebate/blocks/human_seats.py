"""What a human is asked for on each seat of a pattern, where the application does not say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, create_model

from flowdebate.schemas.consensus import CriticAnswer, JudgeAnswer, RevisionAnswer
from flowdebate.schemas.wire import WireModel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from flowdebate.blocks.base import Block

__all__ = ("HumanCritique", "handover_among", "schema_for", "seated")


def seated(
    block: Block[Any, Any], schema: Callable[[], object] | None = None, *, who: str | None = None
) -> Block[Any, Any]:
    """`block` for a seat whose pattern needs what `schema()` is: a human without a schema is asked for that.

    `who` is what a human is told to be.
    """
    fitted: Callable[[object, str | None], Block[Any, Any]] | None = getattr(block, "fitted", None)
    return block if fitted is None else fitted(None if schema is None else schema(), who)


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


def handover_among(names: Sequence[str]) -> type[WireModel]:
    """What a speaker of a handoff says, and which of `names` is next."""
    named: Any = Literal[tuple(names)]
    return create_model(
        "HandoffAnswer",
        __base__=WireModel,
        response=(str, Field(description="What you say")),
        next_agent_name=(named, Field(description="Who speaks next")),
    )
