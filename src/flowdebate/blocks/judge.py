"""The default judge: a model that reads the whole transcript once, anonymized and shuffled, and finds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Unpack

from pydantic import Field, create_model

from flowdebate.blocks.debater import filled
from flowdebate.blocks.generator import Generator, Visibility, generator
from flowdebate.blocks.state import entries_of, question_of
from flowdebate.errors import ConfigurationError
from flowdebate.runs.events import JudgeViewMade
from flowdebate.schemas import DebateVerdict, WireModel
from flowdebate.views.entries import render_entries
from flowdebate.views.judge import JUDGE, JudgeTemplate, order_for_judge, render_judge_system, render_judge_turn

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from flowdebate.blocks.debater import BlockOptions
    from flowdebate.models.base import ModelResponse
    from flowdebate.resources.transcript import Transcript
    from flowdebate.runs.context import Context

__all__ = ("create_judge", "verdict_among")


def create_judge(
    *,
    name: str,
    transcript: Transcript,
    stances: Sequence[str],
    anonymize_transcript: bool = True,
    shuffle_for_judge: bool = True,
    random: Random | None = None,
    template: JudgeTemplate = JUDGE,
    **options: Unpack[BlockOptions],
) -> Generator[DebateVerdict]:
    """The block `{name}-judge`: finds for one of `stances`, or for a synthesis of several (`winner` None).

    It is shown stances instead of names, and the arguments of each round in an order drawn from `random` (None: from
    the run's seed, so that the same seed gives the same view); the order is in the event `JudgeViewMade`. It cannot
    name a winner that is not among `stances`: `SchemaViolation`.
    """
    positions = list(dict.fromkeys(stances))
    if not positions:
        raise ConfigurationError(f"judge {name!r}", "stances", stances, "at least one stance")

    def system(_: object) -> str:
        return render_judge_system(stances=positions, template=template)

    def view(value: object, ctx: Context) -> str:
        entries = list(entries_of(ctx))
        order = order_for_judge(entries, shuffle=shuffle_for_judge, random=random or ctx.random)
        ctx.emit(JudgeViewMade(block=ctx.block, order=tuple(order), anonymized=anonymize_transcript))
        return render_judge_turn(
            question=question_of(value, ctx),
            transcript=render_entries([entries[index] for index in order], names=not anonymize_transcript),
            template=template,
        )

    def found(answer: Any, _: ModelResponse, __: Context) -> DebateVerdict:  # noqa: ANN401 - the model made below
        return DebateVerdict(verdict=answer.verdict, winner=answer.winner, reasoning=answer.reasoning)

    block_name = f"{name}-judge"
    return generator(
        name=block_name,
        prompt=system,
        user=view,
        output_schema=verdict_among(positions),
        transform=found,
        resources={"transcript": transcript},
        **filled(options, "intent/synthesize", Visibility(), where=block_name),
    )


def verdict_among(stances: Sequence[str]) -> type[WireModel]:
    """The judge's answer: it reasons before it names the winner, since models commit to what they wrote first."""
    winner: Any = Literal[tuple(dict.fromkeys(stances))]
    return create_model(
        "DebateVerdict",
        __base__=WireModel,
        reasoning=(str, Field(description="Which arguments were decisive, and why")),
        winner=(winner | None, Field(description="The stance that won; null for a synthesis of several")),
        verdict=(str, Field(description="The conclusion, in one or two sentences")),
    )
