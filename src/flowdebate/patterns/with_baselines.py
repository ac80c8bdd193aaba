"""Baselines next to a debate: what it found is kept together with what takes no debate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from flowdebate.blocks.baselines import create_baselines
from flowdebate.blocks.sequencer import Sequencer, sequencer
from flowdebate.patterns.roster import checked_roster
from flowdebate.schemas import DebateRawOutput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flowdebate.blocks.base import Block
    from flowdebate.blocks.debater import BlockOptions
    from flowdebate.patterns.roster import Debater
    from flowdebate.runs.context import Context
    from flowdebate.schemas.baselines import BaselineAnswer, BaselineName

__all__ = ("with_baselines",)


def with_baselines(
    pattern: Block[Any, Any],
    debaters: Sequence[Debater | Mapping[str, Any]],
    *,
    baselines: bool | Sequence[BaselineName] = True,
    max_samples: int = 64,
    **options: Unpack[BlockOptions],
) -> Sequencer[Any, Any]:
    """`pattern`, a debate between `debaters`, and once it has a verdict its baselines, see `create_baselines`.

    They are in the raw output, `raw.baselines`; the output is what the debate gives. The verdict stands whatever
    becomes of the baselines. `options` are those of the default blocks: give the debate's own.

    >>> from flowdebate import debate
    >>> from flowdebate.testing import FunctionModel
    >>> def answer(request):
    ...     asked = request.output_schema and request.output_schema["properties"]
    ...     said = {"reasoning": "It follows.", "winner": "free rents", "verdict": "Free them."}
    ...     return {key: said[key] for key in asked} if asked else "Build more."
    >>> sides = [{"name": "a", "stance": "cap rents"}, {"name": "b", "stance": "free rents"}]
    >>> rent = with_baselines(debate(name="rent", debaters=sides, max_rounds=1, synthesizer=False), sides)
    >>> result = rent.run_sync("Should rents be capped?", model=FunctionModel(answer))
    >>> [(found.name, found.winner, found.calls) for found in result.raw.baselines]
    [('single', 'free rents', 1), ('drafts', 'free rents', 2), ('self_consistency', 'free rents', 3)]
    """
    roster = checked_roster(debaters, where=f"with_baselines({pattern.name!r})")
    compared = create_baselines(
        name=pattern.name,
        stances=[debater.stance for debater in roster],
        models=[debater.model for debater in roster],
        baselines=baselines,
        max_samples=max_samples,
        **options,
    )
    comparing = sequencer(name=f"{pattern.name}-compare").map(_question).then(compared).map(_keep)
    return sequencer(name=pattern.name).then(pattern).tap_if(_has_verdict, comparing).map(_output)


def _raw(ctx: Context) -> DebateRawOutput:
    raw: DebateRawOutput = ctx.run.artifacts["raw"]
    return raw


def _has_verdict(_: object, ctx: Context) -> bool:
    return _raw(ctx).verdict is not None


def _question(_: object, ctx: Context) -> str:
    return _raw(ctx).question


def _keep(answers: list[BaselineAnswer], ctx: Context) -> None:
    """Make the raw output one with baselines."""
    ctx.run.finished(ctx.path, _raw(ctx).model_copy(update={"baselines": answers}))


def _output(output: object, ctx: Context) -> object:
    return _raw(ctx) if isinstance(output, DebateRawOutput) else output
