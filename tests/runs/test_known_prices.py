"""Known prices from `genai-prices`: the cost of a run, and a budget in money."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

import flowdebate.models.prices
from flowdebate import Debater, Limits, Price, debate
from flowdebate.errors import ConfigurationError
from flowdebate.models import Usage
from flowdebate.models.prices import known_price, prices_source
from flowdebate.patterns import PATTERNS
from flowdebate.runs.events import ModelCalled
from flowdebate.testing import ScriptedModel
from flowdebate.ui.plan import make_plan
from tests.vendors import vendors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.vendors import Vendor, VendorName

SIDES = [Debater("ann", "rents should be capped"), Debater("ben", "rents should be free")]
RENT = debate(name="rent", debaters=SIDES, max_rounds=1, synthesizer=False)
QUESTION = "Should rents be capped?"


@pytest.fixture
def vendor_stubs() -> Iterator[dict[VendorName, Vendor]]:
    """Start stub servers for four vendors."""
    with vendors() as running:
        yield running


@pytest.fixture
def no_price_package(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hide `genai-prices`, as if it were not installed."""
    monkeypatch.setattr(flowdebate.models.prices, "find_spec", lambda _: None)
    flowdebate.models.prices.are_prices_known.cache_clear()
    yield
    flowdebate.models.prices.are_prices_known.cache_clear()


def million_tokens(**more: int) -> Usage:
    """Return usage of a million prompt tokens and a million completion tokens, plus `more`."""
    return Usage(calls=1, prompt_tokens=1_000_000, completion_tokens=1_000_000, **more)


def test_cached_tokens_are_priced_separately() -> None:
    """Cache reads cost less than other prompt tokens, and cache writes cost more.

    The local model and servers on the same machine are free.
    """
    plain = known_price("anthropic/claude-haiku-4-5", million_tokens())
    read = known_price("anthropic/claude-haiku-4-5", million_tokens(cached_tokens=900_000))
    written = known_price("anthropic/claude-haiku-4-5", million_tokens(cache_written_tokens=900_000))
    assert plain is not None
    assert read is not None
    assert written is not None
    assert read < plain < written
    assert known_price("local", million_tokens()) == known_price("ollama/gemma3", million_tokens()) == 0.0
    for name in ("openai/nope", "mine", "openai/", "acme/gpt-5-mini"):
        assert known_price(name, million_tokens()) is None


def test_costs_have_a_currency_and_the_date_of_their_prices(vendor_stubs: dict[VendorName, Vendor]) -> None:
    listed = re.fullmatch(r"USD by genai-prices 0\.\d+\.\d+ of (\d{4}-\d\d-\d\d)", prices_source() or "")
    assert listed is not None
    assert "2026-01-01" < listed[1] <= f"{datetime.now(UTC):%Y-%m-%d}"
    limits = Limits(prices={"openai/gpt-5-mini": Price(prompt=1, completion=2)})
    assert RENT.run_sync(QUESTION, model="openai/gpt-5-mini").prices == listed[0]
    assert RENT.run_sync(QUESTION, model="openai/gpt-5-mini", limits=limits).prices == "by given prices"
    assert RENT.run_sync(QUESTION, model="ollama/gemma3").prices == "USD"
    answer = {"reasoning": "-", "winner": None, "verdict": "-"}
    assert RENT.run_sync(QUESTION, model=ScriptedModel("One.", "Two.", answer)).prices is None
    batch = RENT.batch_sync([QUESTION, QUESTION], model="openai/gpt-5-mini")
    assert batch.summary.prices == listed[0]


def test_downloaded_prices_include_their_download_date() -> None:
    from genai_prices.data_snapshot import DataSnapshot, get_snapshot, set_custom_snapshot

    fetched = DataSnapshot(get_snapshot().providers, from_auto_update=True, timestamp=datetime(2031, 5, 6, tzinfo=UTC))
    set_custom_snapshot(fetched)
    try:
        assert (prices_source() or "").endswith(" of 2031-05-06")
    finally:
        set_custom_snapshot(None)


@pytest.mark.parametrize("name", ["openai", "anthropic", "gemini", "groq", "mistral", "xai", "deepseek", "openrouter"])
def test_default_models_have_a_known_price(name: str) -> None:
    from flowdebate.models import PROVIDERS

    assert (known_price(f"{name}/{PROVIDERS[name].default}", million_tokens()) or 0) > 0


def test_run_reports_its_cost_without_a_price_table(vendor_stubs: dict[VendorName, Vendor]) -> None:
    """The cost is the sum over all models and is unknown if the price of any of them is unknown."""
    result = RENT.run_sync(QUESTION, model={"chat": "openai/gpt-5-mini", "synthesize": "ollama/gemma3"})
    paid = sum(
        known_price("openai/gpt-5-mini", event.usage) or 0
        for event in result.events
        if isinstance(event, ModelCalled) and event.model == "openai/gpt-5-mini"
    )
    assert result.cost == pytest.approx(paid)
    assert paid > 0
    answer = {"reasoning": "-", "winner": None, "verdict": "-"}
    assert RENT.run_sync(QUESTION, model=ScriptedModel("One.", "Two.", answer)).cost is None


def test_price_table_overrides_known_prices(vendor_stubs: dict[VendorName, Vendor]) -> None:
    limits = Limits(prices={"openai/gpt-5-mini": Price(prompt=0, completion=1_000_000)})
    result = RENT.run_sync(QUESTION, model={"chat": "openai/gpt-5-mini", "synthesize": "ollama/gemma3"}, limits=limits)
    written = sum(usage.reasoning_tokens + 22 for usage in vendor_stubs["openai"].asked)
    assert result.cost == pytest.approx(written, rel=0.3)


def test_money_budget_requires_no_price_table(vendor_stubs: dict[VendorName, Vendor]) -> None:
    result = RENT.run_sync(QUESTION, model="openai/gpt-5-mini", limits=Limits(cost=1e-5))
    assert (result.status, result.limit) == ("limit", "cost")
    assert len(vendor_stubs["openai"].asked) < 3


def test_money_budget_rejects_models_without_a_price(vendor_stubs: dict[VendorName, Vendor]) -> None:
    vendor_stubs["openai"].models = ("house-model",)
    with pytest.raises(
        ConfigurationError, match=r"has no price for openai/house-model.*known prices do not include it"
    ):
        RENT.run_sync(QUESTION, model="openai/house-model", limits=Limits(cost=1.0))
    assert vendor_stubs["openai"].asked == []


def test_prices_are_unknown_without_genai_prices(
    no_price_package: None, vendor_stubs: dict[VendorName, Vendor]
) -> None:
    assert RENT.run_sync(QUESTION, model="openai/gpt-5-mini").cost is None
    with pytest.raises(ConfigurationError, match=r"flowdebate\[prices\]"):
        Limits(cost=1.0)
    with pytest.raises(ConfigurationError, match=r"flowdebate\[prices\]"):
        make_plan(PATTERNS["debate"], {"question": "Q?", "max_cost": 1.0})
    assert Limits(cost=1.0, prices={"m": Price(prompt=1, completion=1)}).cost == 1.0


def test_every_front_end_can_set_the_budget() -> None:
    """Every front end starts its runs from a plan, and the budget is one of the plan's options."""
    plan = make_plan(PATTERNS["debate"], {"question": "Q?", "max_cost": 0.25})
    assert plan.limits is not None
    assert plan.limits.cost == 0.25


def test_cache_writes_can_have_a_price() -> None:
    price = Price(prompt=1.0, completion=2.0, cached=0.1, cache_written=1.25)
    assert price.of(million_tokens(cached_tokens=500_000, cache_written_tokens=400_000)) == pytest.approx(
        0.1 + 0.05 + 0.5 + 2.0
    )
