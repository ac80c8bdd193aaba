"""Metrics: what they count, which attributes they have, and that nothing is counted twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from inline_snapshot import snapshot

from flowdebate import Debater, FailurePolicy, JudgeOptions, Limits, Price, debate, generator
from flowdebate.errors import ProviderFailed
from flowdebate.models import ModelResponse, Usage
from flowdebate.store import MemoryStore
from flowdebate.telemetry import names
from flowdebate.testing import FunctionModel
from tests.telemetry.watched import PATTERNS_OF_ALL_KINDS, QUESTION, Watched, answer_with_usage

if TYPE_CHECKING:
    from flowdebate.models.base import ModelRequest

pytestmark = pytest.mark.anyio

MODEL = FunctionModel(answer_with_usage, name="openai/small")


async def test_debate_emits_its_metrics() -> None:
    watched = Watched()
    await PATTERNS_OF_ALL_KINDS["debate"]().run(QUESTION, model=MODEL, seed=1, observe=watched.observe)
    assert watched.totals() == snapshot(
        {
            "gen_ai.client.token.usage": {
                "operation.name=chat, provider.name=openai, request.model=small, token.type=input": 600,
                "operation.name=chat, provider.name=openai, request.model=small, token.type=output": 60,
            },
            "gen_ai.client.operation.duration": {"operation.name=chat, provider.name=openai, request.model=small": 6},
            "flowdebate.verdicts": {"verdict.flipped=False, verdict.winner=side 1, workflow.name=rent": 1},
            "gen_ai.workflow.duration": {"workflow.name=rent": 1},
        }
    )


async def test_histograms_use_the_conventional_buckets() -> None:
    """A metric reader can still choose other buckets."""
    watched = Watched()
    await PATTERNS_OF_ALL_KINDS["debate"]().run(QUESTION, model=MODEL, seed=1, observe=watched.observe)
    bounds = watched.bounds()
    assert bounds[names.OPERATION_DURATION][:3] == [0.01, 0.02, 0.04]
    assert (bounds[names.OPERATION_DURATION][-1], len(bounds[names.OPERATION_DURATION])) == (81.92, 14)
    assert bounds[names.TOKEN_USAGE] == [4.0**power for power in range(14)]
    assert (bounds[names.WORKFLOW_DURATION][0], bounds[names.WORKFLOW_DURATION][-1]) == (1.0, 7200.0)


async def test_unknown_usage_is_not_counted() -> None:
    """If a server reports no tokens, nothing is added to the metric, not even an estimate."""
    watched = Watched()
    model = FunctionModel(lambda _: "A line.")
    await PATTERNS_OF_ALL_KINDS["handoff"]().run(QUESTION, model=MODEL, seed=1, observe=watched.observe)
    before = watched.totals()[names.TOKEN_USAGE]
    pattern = debate(name="rent", debaters=[Debater("ann", "a"), Debater("bob", "b")], max_rounds=1, judge=_judge)
    await pattern.run(QUESTION, model=model, observe=watched.observe)
    assert watched.totals()[names.TOKEN_USAGE] == before


async def test_known_cost_is_counted() -> None:
    """The cost is computed from the prices set for the run and the token counts reported by the server.

    Each call is counted once, even if the run is resumed.
    """
    watched, store = Watched(), MemoryStore()
    pattern = PATTERNS_OF_ALL_KINDS["debate"]()
    await pattern.run(QUESTION, model=MODEL, seed=1, observe=watched.observe)
    assert names.COST not in watched.totals()

    priced = Limits(prices={"openai/small": Price(prompt=0.5, completion=5.0)})
    options: dict[str, Any] = {"model": MODEL, "limits": priced, "store": store, "observe": watched.observe}
    result = await pattern.run(QUESTION, run_id="r", seed=1, **options)
    assert result.cost == pytest.approx(6 * 100e-6)
    assert result.cost_of("openai/small", Usage(calls=1, prompt_tokens=100, completion_tokens=10)) == 100e-6
    await pattern.resume("r", **options)
    [(attributes, cost)] = watched.totals()[names.COST].items()
    assert attributes == "operation.name=chat, provider.name=openai, request.model=small"
    assert cost == pytest.approx(result.cost)


async def test_cost_is_not_counted_if_token_counts_are_unknown() -> None:
    """If token counts are unknown, a limit uses an estimate, but a metric does not."""
    watched = Watched()
    line = generator(name="line")
    priced = Limits(prices={"function": Price(prompt=0.5, completion=5.0)})
    result = await line.run("?", model=FunctionModel(lambda _: "A."), limits=priced, observe=watched.observe)
    assert result.cost
    assert result.cost_of("function", Usage.unknown()) is None
    assert names.COST not in watched.totals()


async def test_costs_based_on_invalid_prices_are_not_counted() -> None:
    """If the application's price function raises an exception, the run fails with that exception."""

    def prices(model: str, usage: Usage) -> float:
        if usage.prompt_tokens == 100:
            raise LookupError(model)
        return -1.0

    watched = Watched()
    with pytest.raises(LookupError, match="openai/small"):
        await generator(name="line").run(
            QUESTION,
            model=FunctionModel(_line, name="openai/small"),
            limits=Limits(prices=prices),
            observe=watched.observe,
        )
    assert names.COST not in watched.totals()


def _line(_: object) -> ModelResponse:
    return ModelResponse(text="A.", usage=Usage(calls=1, prompt_tokens=100, completion_tokens=10))


def _judge(_: object, __: object) -> Any:
    return {"verdict": "Neither.", "winner": None, "reasoning": "None."}


@pytest.mark.parametrize("name", PATTERNS_OF_ALL_KINDS)
async def test_no_metric_contains_an_id_or_a_personal_name(name: str) -> None:
    """The attributes of a metric must have few distinct values, so they cannot include names, positions or run ids."""
    watched = Watched()
    await PATTERNS_OF_ALL_KINDS[name]().run(QUESTION, model=MODEL, run_id="r-1234", observe=watched.observe)
    text = " ".join(attributes for points in watched.totals().values() for attributes in points)
    values = {pair.partition("=")[2] for pair in text.replace(",", "").split()}
    assert not values & {"ann", "bob", "cy", "r-1234", "for", "against"}
    assert "path=" not in text
    assert "conversation.id=" not in text


async def test_skipped_failure_is_counted() -> None:
    """The attributes of a skipped failure are the role, the error and the recovery action.

    The error is recorded for the failed call as well.
    """

    def failing(request: ModelRequest) -> Any:
        if request.block.endswith("bob"):
            raise ProviderFailed("overloaded", status=503)
        return answer_with_usage(request)

    watched = Watched()
    policy = FailurePolicy(on_failure="skip", quorum=1)
    sides = [Debater("ann", "for"), Debater("bob", "against")]
    pattern = debate(name="rent", debaters=sides, max_rounds=1, synthesizer=False, failures=policy)
    await pattern.run(QUESTION, model=FunctionModel(failing, name="openai/small"), observe=watched.observe)
    totals = watched.totals()
    assert totals[names.FAILURES] == snapshot(
        {"error.type=ProviderFailed, recovery=skipped, role=debater, workflow.name=rent": 1}
    )
    assert totals[names.OPERATION_DURATION] == snapshot(
        {
            "operation.name=chat, provider.name=openai, request.model=small": 2,
            "error.type=ProviderFailed, operation.name=chat, provider.name=openai, request.model=small": 1,
        }
    )


async def test_verdict_identifies_sides_by_number() -> None:
    """Sides are numbered in declaration order, even if a judge reads them in several orders."""

    def bob_wins(request: ModelRequest) -> Any:
        if "judge" in request.block:
            (scored,) = (request.output_schema or {})["$defs"].values()
            sides = scored["properties"]
            scores = {side: 90 if side == "against" else 10 for side in sides}
            return {"scores": scores, "verdict": "Build.", "reasoning": "It was measured."}
        return answer_with_usage(request)

    watched = Watched()
    sides = [Debater("ann", "for"), Debater("bob", "against")]
    pattern = debate(name="rent", debaters=sides, max_rounds=1, synthesizer=False, judge=JudgeOptions(schedule="swap"))
    result = await pattern.run(QUESTION, model=FunctionModel(bob_wins), seed=1, observe=watched.observe)
    assert result.output.found.winner == "against"
    assert watched.totals()[names.VERDICTS] == snapshot(
        {"verdict.flipped=False, verdict.winner=side 2, workflow.name=rent": 1}
    )
    (event,) = watched.spans[0].events
    assert dict(event.attributes or {}) == snapshot(
        {
            "gen_ai.evaluation.name": "debate.verdict",
            "gen_ai.evaluation.score.label": "side 2",
            "flowdebate.verdict.flipped": False,
            "flowdebate.block": "rent-judge",
            "gen_ai.evaluation.score.value": 0.9,
        }
    )


async def test_replayed_answers_verdicts_and_failures_are_counted_once() -> None:
    """Resuming a complete run records nothing but its duration."""

    def failing(request: ModelRequest) -> Any:
        if request.block.endswith("bob"):
            raise ProviderFailed("overloaded", status=503)
        return answer_with_usage(request)

    watched, store = Watched(), MemoryStore()
    model = FunctionModel(failing, name="openai/small")
    sides = [Debater("ann", "for"), Debater("bob", "against")]
    policy = FailurePolicy(on_failure="skip", quorum=1)
    pattern = debate(name="rent", debaters=sides, max_rounds=2, failures=policy)
    await pattern.run(QUESTION, model=model, store=store, run_id="r", observe=watched.observe)
    before = watched.totals()
    for _ in range(2):
        await pattern.resume("r", model=model, store=store, observe=watched.observe)
    after = watched.totals()
    durations = [totals.pop(names.WORKFLOW_DURATION) for totals in (before, after)]
    assert after == before
    assert [sum(values.values()) for values in durations] == [1, 3]
    assert len(watched.named("chat")) == 6
