"""Tests for comparisons used as a pydantic-evals evaluator and as a deepeval metric."""

from __future__ import annotations

import pytest

from flowdebate.adapters.deepeval import comparison_metric
from flowdebate.adapters.pydantic_evals import comparison_evaluator
from flowdebate.errors import ConfigurationError
from flowdebate.testing import SimJudge
from tests.adapters.needs import needs

FAIR = SimJudge(quality=lambda text: 2.0 * ("good" in text), name="fair")
BIASED = SimJudge(slot=9.0, quality=lambda text: float("good" in text), name="biased")


@pytest.mark.anyio
@needs("pydantic_evals", "pydantic-evals")
async def test_evaluator_scores_each_case() -> None:
    from pydantic_evals import Case, Dataset

    cases = [
        Case(name="better", inputs="good", expected_output="bad"),
        Case(name="worse", inputs="bad", expected_output="a good one"),
        Case(name="unknown", inputs="bad"),
    ]
    dataset = Dataset(name="d", cases=cases, evaluators=[comparison_evaluator(judges=[FAIR, BIASED], store=False)])
    report = await dataset.evaluate(lambda text: text, progress=False)  # `evaluate_sync` leaves its event loop open
    scored_cases = {case.name: case for case in report.cases}
    assert scored_cases["better"].scores["share"].value > 0.5 > scored_cases["worse"].scores["share"].value
    assert scored_cases["better"].scores["share"].reason
    assert scored_cases["better"].assertions["not_worse"].value
    assert not scored_cases["worse"].assertions["not_worse"].value
    assert not scored_cases["worse"].assertions["same_in_all_orders"].value
    assert "expected output" in scored_cases["unknown"].evaluator_failures[0].error_message


@pytest.mark.anyio
@needs("deepeval", "deepeval")
async def test_metric_measures_a_test_case(monkeypatch: pytest.MonkeyPatch) -> None:
    """The metric works inside a running event loop as well as in a plain thread."""
    monkeypatch.setenv("DEEPEVAL_TELEMETRY_OPT_OUT", "YES")
    import asyncio

    from deepeval.test_case import LLMTestCase

    metric = comparison_metric(judges=[FAIR, BIASED], store=False)
    better = LLMTestCase(input="Q?", actual_output="good", expected_output="bad")
    assert await metric.a_measure(better) > 0.5
    assert metric.is_successful()
    assert "1 of 2 judges found otherwise" in (metric.reason or "")
    worse = LLMTestCase(input="Q?", actual_output="bad", expected_output="good")
    assert await asyncio.to_thread(metric.measure, worse) < 0.5
    assert not metric.is_successful()
    with pytest.raises(ConfigurationError, match="expected output"):
        await metric.a_measure(LLMTestCase(input="Q?", actual_output="good"))
    with pytest.raises(ConfigurationError, match="threshold"):
        comparison_metric(threshold=2)
