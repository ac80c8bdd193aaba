"""Limits of a run: a call that would exceed them is not sent, and earlier results are kept."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import Debater, Limits, Price, debate, generator, sequencer
from flowdebate.errors import ConfigurationError, LimitReached, ProviderFailed
from flowdebate.models import ModelResponse, ModelSettings, Retry, Retrying, Usage
from flowdebate.runs.events import RunFinished
from flowdebate.testing import FunctionModel, ScriptedModel

if TYPE_CHECKING:
    from flowdebate.testing import ModelRequest

pytestmark = pytest.mark.anyio

VERDICT = {"verdict": "Cap them.", "winner": "for", "reasoning": "It was not answered."}
SIDES = [Debater("anna", "for"), Debater("ben", "against")]
QUESTION = "Should rents be capped?"


def answer(text: str, prompt: int | None = 100, completion: int | None = 10) -> ModelResponse:
    """Return an answer with a known price."""
    return ModelResponse(text=text, usage=Usage(calls=1, prompt_tokens=prompt, completion_tokens=completion))


def rent_debate(**options: Any) -> Any:
    """Return a debate with two sides and two rounds, which takes five calls."""
    return debate(**{"name": "rent", "debaters": SIDES, "synthesizer": False, **options})


def answering_model() -> FunctionModel:
    """Return a model that answers every request."""
    return FunctionModel(lambda request: VERDICT if request.block.endswith("-judge") else f"by {request.block}")


@given(st.integers(1, 3), st.integers(1, 12))
def test_call_limit_is_never_exceeded_and_truncates_the_debate(rounds: int, limit: int) -> None:
    """The truncated transcript is a prefix of the unlimited one, and the debate reports that a limit ended it."""
    full = rent_debate(max_rounds=rounds).run_sync(QUESTION, model=answering_model(), seed=1)
    model = answering_model()
    cut = rent_debate(max_rounds=rounds).run_sync(QUESTION, model=model, seed=1, limits=Limits(calls=limit))
    assert cut.usage.calls == min(limit, full.usage.calls)
    assert cut.raw.transcript == full.raw.transcript[: len(cut.raw.transcript)]
    if limit >= full.usage.calls:
        assert (cut.status, cut.raw, cut.output) == ("complete", full.raw, full.output)
    else:
        assert (cut.status, cut.raw.status, cut.raw.verdict, cut.output) == ("limit", "limit", None, None)
        assert len(cut.raw.transcript) == limit
        end = cut.events[-1]
        assert isinstance(end, RunFinished)
        assert (end.status, end.error) == (
            "limit",
            f"LimitReached: the run has reached its limit: calls={limit} ({limit} used)",
        )
        assert "cancelled" in [task.status for task in cut.tasks.list()] or len(cut.tasks.list()) == limit


def test_reaching_a_limit_without_an_output_is_an_error() -> None:
    twice = sequencer(name="twice").then(generator(name="one")).then(generator(name="two"))
    with pytest.raises(LimitReached, match=r"calls=1 \(1 used\)") as caught:
        twice.run_sync("?", model=ScriptedModel("first", "second"), limits=Limits(calls=1))
    assert (caught.value.kind, caught.value.limit, caught.value.used) == ("calls", 1, 1)
    assert caught.value.run is not None
    assert (caught.value.run.status, caught.value.run.usage.calls) == ("limit", 1)


def test_every_attempt_counts() -> None:
    down = ProviderFailed("503", status=503)
    model = Retrying(ScriptedModel(down, down, "third"), Retry(attempts=3, first_wait=0))
    with pytest.raises(LimitReached):
        generator(name="ask").run_sync("?", model=model, limits=Limits(calls=2))
    retrying = Retrying(ScriptedModel(down, down, "third"), Retry(attempts=3, first_wait=0))
    assert generator(name="ask").run_sync("?", model=retrying, limits=Limits(calls=3)).output == "third"


async def test_calls_in_flight_count_toward_the_limit() -> None:
    """The limit must not be exceeded, no matter how many calls begin at once."""
    calls = 0

    async def answer(_: ModelRequest) -> str:
        nonlocal calls
        calls += 1
        await asyncio.sleep(0)
        return "yes"

    many = sequencer(name="many").for_each(generator(name="ask"))
    with pytest.raises(LimitReached):
        await many.run(range(50), model=FunctionModel(answer), limits=Limits(calls=7))
    assert calls == 7


def test_tokens_are_counted_as_reported() -> None:
    """A call that begins below the limit may exceed it, but no further calls are made."""
    ask = sequencer(name="all").for_each(generator(name="ask"), max_concurrency=1)
    model = ScriptedModel(*[answer("yes") for _ in range(10)])
    with pytest.raises(LimitReached) as caught:
        ask.run_sync(range(10), model=model, limits=Limits(tokens=300))
    assert len(model.calls) == 3
    assert (caught.value.kind, caught.value.used) == ("tokens", 330)


def test_tokens_for_an_answer_are_reserved_before_the_call() -> None:
    """If `max_tokens` is set, no call can exceed the limit."""
    ask = generator(name="ask", settings=ModelSettings(max_tokens=500))
    model = ScriptedModel("never")
    with pytest.raises(LimitReached):
        ask.run_sync("?", model=model, limits=Limits(tokens=499))
    assert model.calls == []


def test_unreported_tokens_are_estimated() -> None:
    """A server that reports no usage must not provide a way around the limit."""
    ask = sequencer(name="all").for_each(generator(name="ask"), max_concurrency=1)
    model = ScriptedModel(*["yes"] * 10)
    with pytest.raises(LimitReached):
        ask.run_sync(range(10), model=model, limits=Limits(tokens=2_500))
    assert len(model.calls) == 3


@pytest.mark.parametrize("kind", ["table", "function"])
def test_cost_is_computed_from_a_table_or_a_function(kind: str) -> None:
    """The cost is reported even if there is no limit."""
    price = Price(prompt=1_000, completion=10_000)
    prices: Any = {"scripted": price} if kind == "table" else lambda model, usage: price.of(usage)
    ask = sequencer(name="all").for_each(generator(name="ask"), max_concurrency=1)
    free = ask.run_sync(range(3), model=ScriptedModel(*[answer("yes")] * 3), limits=Limits(prices=prices))
    assert free.cost == pytest.approx(0.6)
    model = ScriptedModel(*[answer("yes")] * 10)
    with pytest.raises(LimitReached) as caught:
        ask.run_sync(range(10), model=model, limits=Limits(cost=0.35, prices=prices))
    assert (caught.value.kind, len(model.calls)) == ("cost", 2)


def test_models_without_a_price_are_not_called() -> None:
    model = ScriptedModel("never")
    with pytest.raises(ConfigurationError, match="has no price for scripted"):
        generator(name="ask").run_sync(
            "?", model=model, limits=Limits(cost=1, prices={"other": Price(prompt=1, completion=1)})
        )
    assert model.calls == []


def test_cached_tokens_are_priced_separately() -> None:
    usage = Usage(calls=1, prompt_tokens=1_000, cached_tokens=800, completion_tokens=0)
    assert Price(prompt=10, completion=0, cached=1).of(usage) == pytest.approx((200 * 10 + 800) / 1e6)
    assert Price(prompt=10, completion=0).of(usage) == pytest.approx(0.01)


async def test_run_duration_can_be_limited() -> None:
    """If any part of a debate hangs, the debate ends with the output it has produced so far.

    Any other block raises an error.
    """

    async def answer(request: ModelRequest) -> Any:
        if request.block.endswith("-ben"):
            await asyncio.Event().wait()
        return "said"

    result = await rent_debate().run(QUESTION, model=FunctionModel(answer), limits=Limits(seconds=0.05))
    assert (result.status, result.output) == ("limit", None)
    assert [entry.agent_name for entry in result.raw.transcript] == ["anna"]
    with pytest.raises(LimitReached, match=r"seconds=0.05"):
        await generator(name="x-ben").run("?", model=FunctionModel(answer), limits=Limits(seconds=0.05))


async def test_timeout_inside_a_block_is_not_mistaken_for_the_run_limit() -> None:
    def late(_: object) -> None:
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        await sequencer(name="s").then(late).run(1, limits=Limits(seconds=60))


def test_working_time_excludes_waiting() -> None:
    """The wait before a retry does not count toward the model's working time."""
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    down = ProviderFailed("503", status=503)
    model = Retrying(ScriptedModel(down, "yes"), Retry(first_wait=1_000, longest_wait=1_000, sleep=sleep))
    ask = generator(name="ask", settings=ModelSettings(timeout=None))
    result = ask.run_sync("?", model=model, limits=Limits(working_seconds=100))
    assert (result.output, len(waits)) == ("yes", 1)


def test_exhausted_working_time_ends_the_run() -> None:
    async def slow(_: ModelRequest) -> str:
        await asyncio.sleep(0.02)
        return "yes"

    asks = sequencer(name="all").for_each(generator(name="ask"), max_concurrency=1)
    with pytest.raises(LimitReached) as caught:
        asks.run_sync(range(100), model=FunctionModel(slow), limits=Limits(working_seconds=0.01))
    assert caught.value.kind == "working_seconds"
    assert caught.value.run is not None
    assert caught.value.run.usage.calls == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"calls": 0},
        {"calls": True},
        {"calls": 1.5},
        {"tokens": -1},
        {"cost": 0, "prices": {}},
        {"seconds": float("inf")},
        {"seconds": "60"},
        {"working_seconds": 0},
        {"prices": {"m": 3}},
        {"prices": 3},
    ],
    ids=str,
)
def test_meaningless_limits_are_rejected(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Limits(**wrong)
    assert caught.value.location == "Limits"


def test_limits_must_be_a_limits_object() -> None:
    with pytest.raises(ConfigurationError, match="limits"):
        generator(name="ask").run_sync("?", limits={"calls": 3})  # type: ignore[arg-type]  # that is the point


def test_empty_limits_have_no_effect() -> None:
    result = generator(name="ask").run_sync("?", model=ScriptedModel("yes"), limits=Limits())
    assert (result.output, result.cost) == ("yes", None)
