"""Debates with baselines, both single runs and whole data sets: results and benefit."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import FailurePolicy, debate
from flowdebate.errors import ConfigurationError, ProviderFailed
from flowdebate.evaluation import evaluate, evaluate_sync
from flowdebate.patterns.debate.baselines import with_baselines
from flowdebate.runs.limits import Limits
from flowdebate.store.memory import MemoryStore
from flowdebate.testing import FunctionModel
from tests.patterns.debates import QUESTION, SIDES, by_role

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.testing import ModelRequest

pytestmark = pytest.mark.anyio

ROWS = [{"question": f"Is {number} even?", "truth": "for" if number % 2 == 0 else "against"} for number in range(6)]


def rent(**options: Any) -> Sequencer[Any, Any]:
    """Create a short debate with its baselines."""
    pattern = debate(name="rent", debaters=SIDES, max_rounds=1, **{"synthesizer": False, **options})
    return with_baselines(pattern, SIDES, baselines=["single", "drafts"])


def evaluation_model(
    judge: Callable[[str], Any], direct: Callable[[str], Any], blocks: list[str] | None = None
) -> FunctionModel:
    """Create a model that passes the prompt to `judge` for a verdict and to `direct` for a direct answer."""

    def answer(request: ModelRequest) -> Any:
        if blocks is not None:
            blocks.append(request.block)
        prompt = str(request.messages)
        if request.block == "rent-judge":
            return {"reasoning": "So.", "winner": judge(prompt), "verdict": "So it is."}
        if request.block == "rent-baselines":
            reply = direct(prompt)
            return reply if isinstance(reply, Exception) else {"reasoning": "So.", "winner": reply}
        return "An argument."

    return FunctionModel(answer)


def answer_correctly(prompt: str) -> str:
    """Answer like somebody who knows which numbers are even."""
    number = re.search(r"Is (\d+) even", prompt)
    assert number is not None
    return "for" if int(number[1]) % 2 == 0 else "against"


async def test_baselines_leave_the_debate_unchanged() -> None:
    result = await rent().run(QUESTION, model=evaluation_model(lambda _: "for", lambda _: "against"), seed=1)
    assert result.output is result.raw
    assert result.raw.verdict.winner == "for"
    assert [(baseline.name, baseline.winner, baseline.calls) for baseline in result.raw.baselines] == [
        ("single", "against", 1),
        ("drafts", "against", 2),
    ]
    assert len(result.transcript.entries) == 2
    assert result.raw.to_wire()["baselines"][0]["name"] == "single"


async def test_baselines_do_not_replace_the_synthesizer_output() -> None:
    model = by_role(last="Cap them.")

    def answer(request: ModelRequest) -> Any:
        return {"reasoning": "So.", "winner": "for"} if request.block == "rent-baselines" else model.request(request)

    result = await rent(synthesizer=None).run(QUESTION, model=FunctionModel(answer))
    assert result.output == "Cap them."
    assert result.raw.baselines[0].winner == "for"


async def test_debates_without_a_verdict_run_no_baseline() -> None:
    """Without a verdict, there would be nothing to compare the baselines with."""
    blocks: list[str] = []
    model = evaluation_model(lambda _: "nobody", lambda _: "for", blocks)

    def answer(request: ModelRequest) -> Any:
        if request.block == "rent-judge":
            raise ProviderFailed("down")
        return model.request(request)

    result = await rent(failures=FailurePolicy(on_failure="skip")).run(QUESTION, model=FunctionModel(answer))
    assert result.status == "no_verdict"
    assert "rent-baselines" not in blocks


async def test_reaching_a_limit_never_loses_the_verdict() -> None:
    model = evaluation_model(lambda _: "for", lambda _: "against")
    for calls in (3, 4, 5, 6):
        result = await rent().run(QUESTION, model=model, limits=Limits(calls=calls))
        assert result.raw.verdict.winner == "for"
        assert sum(baseline.lost for baseline in result.raw.baselines) == 6 - calls


async def test_evaluation_reports_whether_the_debate_helped() -> None:
    evaluation = await evaluate(
        rent(), ROWS, truth="truth", model=evaluation_model(answer_correctly, lambda _: "for"), batch_id="even"
    )
    assert [result.right for result in evaluation.report.methods] == [6, 3, 3]
    assert evaluation.report.summary.startswith("Too few to say: the debate was right in 6 of 6, one call in 3")
    assert [item.truth for item in evaluation.items] == [row["truth"] for row in ROWS]
    assert [item.row for item in evaluation.result] == ROWS
    assert evaluation.items[0].debate.calls == 3


async def test_interrupted_evaluations_are_resumed() -> None:
    """An evaluation with a store and a name repeats no calls. Failures count as wrong until they are retried."""
    store, blocks = MemoryStore(), list[str]()

    def fails(prompt: str) -> Any:
        if "Is 3 even" in prompt:
            raise ProviderFailed("down")
        return answer_correctly(prompt)

    options: dict[str, Any] = {"truth": lambda row: row["truth"], "store": store, "batch_id": "even"}
    first = await evaluate(rent(), ROWS, model=evaluation_model(fails, answer_correctly, blocks), **options)
    # the failed debate is counted, although it has no verdict
    assert (first.report.n, first.report.failed, len(first.result.failed)) == (6, 1, 0)
    paid = len(blocks)
    second = await evaluate(rent(), ROWS, model=evaluation_model(answer_correctly, answer_correctly, blocks), **options)
    assert (second.report.n, second.report.failed, len(blocks) - paid) == (6, 0, 4)


def test_each_row_can_have_different_positions() -> None:
    rows = [{"question": f"Is {number} even?", "sides": (f"{number} is", f"{number} is not")} for number in range(3)]

    def of(row: dict[str, Any]) -> Sequencer[Any, Any]:
        sides = [{"name": name, "stance": stance} for name, stance in zip("ab", row["sides"], strict=True)]
        pattern = debate(name="rent", debaters=sides, max_rounds=1, synthesizer=False)
        return with_baselines(pattern, sides, baselines=["single"])

    def first(prompt: str) -> str:
        number = re.search(r"Is (\d+) even", prompt)
        assert number is not None
        return f"{number[1]} is"

    evaluation = evaluate_sync(of, rows, truth=lambda row: row["sides"][1], model=evaluation_model(first, first))
    assert [result.right for result in evaluation.report.methods] == [0, 0]


async def test_invalid_evaluations_are_rejected() -> None:
    model = evaluation_model(answer_correctly, answer_correctly)
    bare = debate(name="rent", debaters=SIDES, max_rounds=1, synthesizer=False)
    for pattern, rows, truth, message in (
        (rent(), [], "truth", "rows"),
        (rent(), ROWS, "question", "truth of row 0"),
        (bare, ROWS, "truth", "with_baselines"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            await evaluate(pattern, rows, truth=truth, model=model, max_concurrency=1)


@pytest.mark.parametrize("options", [{"missing": "ignored"}, {"confidence": 1.5}, {"min_gain": 0}], ids=repr)
async def test_report_options_are_checked_before_any_call(options: dict[str, Any]) -> None:
    """The report itself is created last, when all calls have been paid for."""
    blocks: list[str] = []
    model = evaluation_model(answer_correctly, answer_correctly, blocks)
    with pytest.raises(ConfigurationError, match=rf"evaluate\(\): `{next(iter(options))}` must be"):
        await evaluate(rent(), ROWS, truth="truth", model=model, **options)
    assert blocks == []
