"""Escalation compared with always debating: accuracy, cost and who decided match manual counts."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import Agreement, escalate, generator
from flowdebate.errors import ConfigurationError, ProviderFailed
from flowdebate.evaluation import compare_escalation
from flowdebate.evaluation.statistics import share_interval
from flowdebate.models.base import ModelResponse, Usage
from flowdebate.runs.execute import run_sync
from flowdebate.testing import FunctionModel, ModelRequest

pytest.importorskip("scipy")

SAME = Agreement(agree=lambda pair: pair.first == pair.second)


def replayed_escalation(
    answers: list[tuple[str, str, str]], *, tokens: bool = True
) -> tuple[Any, Any, list[dict[str, str]]]:
    """Create an escalation with two answers and a panel, the panel by itself, and rows whose right answer is "a"."""

    def reply(request: ModelRequest) -> ModelResponse:
        row, at = int(str(request.messages[-1]["content"])), ["one", "two", "panel"].index(request.block)
        if answers[row][at] == "down":
            raise ProviderFailed("down", transient=False)
        spent = 100 if request.block == "panel" else 10
        usage = Usage(calls=1, prompt_tokens=spent if tokens else None, completion_tokens=0)
        return ModelResponse(text=answers[row][at], usage=usage)

    model = FunctionModel(reply)
    one, two, panel = (generator(name=name, model=model, prompt="Answer.") for name in ("one", "two", "panel"))
    rows = [{"question": str(number), "truth": "a"} for number in range(len(answers))]
    return escalate(name="escalation", steps=[one, two, panel], until=SAME), panel, rows


ANSWERS = [("a", "a", "b"), ("b", "b", "a"), ("a", "b", "a"), ("a", "b", "b"), ("a", "a", "a"), ("b", "a", "a")]


def test_accuracy_tokens_and_shares_match_a_manual_count() -> None:
    escalation, panel, rows = replayed_escalation(ANSWERS)
    report = run_sync(lambda: compare_escalation(escalation, panel, rows, truth="truth"))
    assert (report.n, report.failed) == (6, 0)
    assert report.escalation.accuracy.value == report.always.accuracy.value == pytest.approx(4 / 6)
    assert (report.better, report.worse, report.difference.value) == (1, 1, 0)
    assert (report.escalation.tokens, report.always.tokens) == (70, 100)
    assert report.tokens_ratio is not None
    assert report.tokens_ratio.value == pytest.approx(0.7)
    assert report.calls_ratio.value == pytest.approx(2.5)
    assert [(step.name, step.decided.value) for step in report.steps] == [("one", 0), ("two", 0.5), ("panel", 0.5)]
    assert report.steps[1].right is not None
    assert report.steps[1].right.value == report.steps[1].always_right == pytest.approx(2 / 3)
    assert (report.escalation.accuracy.low, report.escalation.accuracy.high) == share_interval(4 / 6, 6)
    assert "70% of its tokens" in report.summary
    assert "one 0%, two 50%, panel 50%" in report.summary


def test_cost_is_counted_in_calls_if_tokens_are_unknown() -> None:
    escalation, panel, rows = replayed_escalation(ANSWERS, tokens=False)
    report = run_sync(lambda: compare_escalation(escalation, panel, rows, truth="truth"))
    assert (report.tokens_ratio, report.escalation.tokens) == (None, None)
    assert "of its calls" in report.summary


def test_failed_runs_count_as_wrong_and_are_reported() -> None:
    """A failure counts only against the method in which it occurred."""
    escalation, panel, rows = replayed_escalation([("a", "a", "down"), ("a", "b", "a")])
    report = run_sync(lambda: compare_escalation(escalation, panel, rows, truth="truth"))
    assert (report.failed, report.escalation.accuracy.value, report.always.accuracy.value) == (1, 1, 0.5)


@given(st.lists(st.tuples(*[st.sampled_from("ab")] * 3), min_size=1, max_size=8))
def test_escalation_differs_from_its_last_step_only_if_the_first_answers_agree(
    answers: list[tuple[str, str, str]],
) -> None:
    escalation, panel, rows = replayed_escalation(answers)
    report = run_sync(lambda: compare_escalation(escalation, panel, rows, truth="truth"))
    agreed = [row for row in answers if row[0] == row[1]]
    assert report.better == sum(one == "a" != last for one, _, last in agreed)
    assert report.worse == sum(one != "a" == last for one, _, last in agreed)
    assert report.escalation.tokens == pytest.approx(20 + 100 * (1 - len(agreed) / len(answers)))
    ratio = report.tokens_ratio
    assert ratio is not None
    figures = [ratio, report.difference, report.escalation.accuracy, *(step.decided for step in report.steps)]
    for figure in figures:
        ends = [figure.low, figure.value, figure.high]
        assert all(low <= high + 1e-12 for low, high in pairwise([end for end in ends if end is not None]))
    assert sum(step.decided.value for step in report.steps) == pytest.approx(1)


def test_empty_input_is_rejected() -> None:
    escalation, panel, _ = replayed_escalation(ANSWERS)
    with pytest.raises(ConfigurationError, match="`rows` must not be empty"):
        run_sync(lambda: compare_escalation(escalation, panel, [], truth="truth"))
