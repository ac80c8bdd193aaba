"""A direct answer: one call that is asked which of several positions is right, without a debate."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, create_model

from flowdebate.blocks.generator import Generator, generator
from flowdebate.schemas.wire import WireModel
from flowdebate.views.baselines import BaselineTemplate, render_baseline_system, render_baseline_turn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flowdebate.models.base import ModelResponse
    from flowdebate.runs.context import Context

__all__ = ("direct_answer",)


def direct_answer(
    name: str, order: tuple[str, ...], template: BaselineTemplate, options: Mapping[str, Any]
) -> Generator[str]:
    """The block `name`: takes a question, gives the position that is right; they are shown in this `order`.

    `options` are those of `generator`. It can name nothing but a position: `SchemaViolation`.
    """

    def turn(question: str) -> str:
        return render_baseline_turn(question=question, template=template)

    def winner(answer: Any, _: ModelResponse, __: Context) -> str:  # noqa: ANN401 - the model made below
        return str(answer.winner)

    return generator(
        name=name,
        prompt=render_baseline_system(positions=order, template=template),
        user=turn,
        output_schema=_answer_among(order),
        transform=winner,
        **options,
    )


@lru_cache(maxsize=256)  # a thousand debates of the same sides ask in the same few orders
def _answer_among(positions: tuple[str, ...]) -> type[WireModel]:
    """What is answered: the reasoning before the winner, since models commit to what they wrote first."""
    winner: Any = Literal[positions]
    return create_model(
        "DirectAnswer",
        __base__=WireModel,
        reasoning=(str, Field(description="What speaks for and against each position")),
        winner=(winner, Field(description="The position that is right")),
    )
