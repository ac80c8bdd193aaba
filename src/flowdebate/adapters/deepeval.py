"""deepeval: `comparison_metric` compares a test case's actual output with the expected output."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Unpack

from flowdebate._util.validation import check_library, check_share
from flowdebate.adapters.translation import CompareOptions, compare_with_baseline

if TYPE_CHECKING:
    from deepeval.metrics import BaseMetric
    from deepeval.test_case import LLMTestCase


def comparison_metric(*, threshold: float = 0.5, **options: Unpack[CompareOptions]) -> BaseMetric:
    """Create a metric that has judges compare the actual and expected outputs, blind and in all orders.

    The score is the actual output's share of the judges' scores (.5 if it is as good as the expected output); the test
    case passes if the score is at least `threshold`. The reason is the verdict, followed by the number of judges whose
    findings depended on the order. An expected output is required, and neither text may be blank. `options` are passed
    to `compare()`: `judges`, `criteria`, `orders` and `store`.
    """
    location = "comparison_metric()"
    check_share(location, threshold=threshold)
    check_library(location, "deepeval", library="deepeval", extra="deepeval")
    from deepeval.metrics import BaseMetric

    class ComparisonMetric(BaseMetric):  # type: ignore[misc,unused-ignore] # a class of another framework
        def __init__(self) -> None:
            self.threshold = threshold

        async def a_measure(self, test_case: LLMTestCase, *_: object, **__: object) -> float:
            comparison = await compare_with_baseline(
                test_case.input, test_case.actual_output, test_case.expected_output, options
            )
            flips = f" ({comparison.flips} of {len(comparison.judges)} judges found otherwise in another order)"
            self.reason = comparison.verdict + (flips if comparison.flips else "")
            self.score = comparison.shares["output"]
            self.success = self.score >= threshold
            return self.score

        def measure(self, test_case: LLMTestCase, *_: object, **__: object) -> float:
            return asyncio.run(self.a_measure(test_case))

        @property
        def __name__(self) -> str:
            return "Comparison"

    return ComparisonMetric()
