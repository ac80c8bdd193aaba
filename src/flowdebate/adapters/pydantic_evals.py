"""pydantic-evals: `comparison_evaluator` compares a case's output with the expected output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

from flowdebate._util.validation import check_library
from flowdebate.adapters.translation import CompareOptions, compare_with_baseline

if TYPE_CHECKING:
    from pydantic_evals.evaluators import Evaluator


def comparison_evaluator(**options: Unpack[CompareOptions]) -> Evaluator[Any, Any, Any]:
    """Create an evaluator whose judges compare each output with the expected output, blind and in all orders.

    It returns the score `share`, with the verdict as the reason, and the assertions `not_worse` and
    `same_in_all_orders`. `share` is the output's share of the judges' scores: .5 means that it is as good as the
    expected output. An expected output is required, and neither output may be blank. `options` are passed to
    `compare()`: `judges`, `criteria`, `orders` and `store`.
    """
    check_library("comparison_evaluator()", "pydantic_evals", library="pydantic-evals", extra="pydantic-evals")
    from pydantic_evals.evaluators import EvaluationReason, Evaluator, EvaluatorContext

    @dataclass
    class ComparisonEvaluator(Evaluator[Any, Any, Any]):
        async def evaluate(self, ctx: EvaluatorContext[Any, Any, Any]) -> dict[str, Any]:
            comparison = await compare_with_baseline(ctx.inputs, ctx.output, ctx.expected_output, options)
            return {
                "share": EvaluationReason(comparison.shares["output"], comparison.verdict),
                "not_worse": comparison.winner != "expected",
                "same_in_all_orders": comparison.flips == 0,
            }

    # pydantic-evals needs the types themselves, not their names
    ComparisonEvaluator.evaluate.__annotations__ = {"ctx": EvaluatorContext, "return": dict}
    return ComparisonEvaluator()
