"""What a judge's model answers: a winner, or a score for each side."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, create_model

from flowdebate.schemas.wire import WireModel

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ("scores_among", "shares_of", "verdict_among")

Score = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]
_REASONING = (str, Field(description="Which arguments were decisive, and why"))
_VERDICT = (str, Field(description="The conclusion, in one or two sentences"))


def verdict_among(stances: Sequence[str]) -> type[WireModel]:
    """The judge's answer: it reasons before it names the winner, since models commit to what they wrote first."""
    winner: Any = Literal[tuple(dict.fromkeys(stances))]
    return create_model(
        "DebateVerdict",
        __base__=WireModel,
        reasoning=_REASONING,
        winner=(winner | None, Field(description="The stance that won; null for a synthesis of several")),
        verdict=_VERDICT,
    )


@lru_cache(maxsize=256)  # a thousand debates of the same sides are judged in the same few orders
def scores_among(names: tuple[str, ...]) -> type[WireModel]:
    """The answer of a judge that scores each side, in the order of `names`, which is that of its view."""
    fields: dict[str, Any] = {
        f"side{index}": (Score, Field(alias=name, description="From 0 to 100: how well this position was argued"))
        for index, name in enumerate(names)
    }
    scores = create_model("Scores", __base__=WireModel, **fields)
    return create_model(
        "ScoredVerdict",
        __base__=WireModel,
        reasoning=_REASONING,
        scores=(scores, Field(description="A score for each position")),
        verdict=_VERDICT,
    )


def shares_of(scores: WireModel, sides: Mapping[str, str]) -> dict[str, float]:
    """What each side has of all that was given, 1 together; `sides` says whom each name of the view means."""
    given = {sides[name]: value for name, value in scores.model_dump(by_alias=True).items()}
    whole = sum(given.values())
    return {side: value / whole if whole else 1 / len(given) for side, value in given.items()}
