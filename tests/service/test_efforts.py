"""Reasoning effort per role, as accepted by the front ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from flowdebate.errors import ConfigurationError
from flowdebate.patterns import PATTERNS
from flowdebate.ui.models import models_line, with_policies
from flowdebate.ui.plan import make_plan, stored_plan
from tests.vendors import vendors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.vendors import Vendor, VendorName

GIVEN: dict[str, Any] = {
    "question": "Rent?",
    "debaters": ["Ann=Cap", "Ben=Free"],
    "max_rounds": 1,
    "synthesizer": False,
    "schedule": "single",
}


@pytest.fixture
def vendor_clients() -> Iterator[dict[VendorName, Vendor]]:
    """Start stub servers for four vendors."""
    with vendors() as running:
        yield running


def request_efforts(vendor_clients: dict[VendorName, Vendor], **arguments: Any) -> list[tuple[str, str | None]]:
    """Return the models that a debate calls, each with its effort."""
    options = {key: value for key, value in {**GIVEN, **arguments}.items() if value is not None}
    plan = make_plan(PATTERNS["debate"], options)
    plan = with_policies(plan)
    result = plan.pattern().run_sync("Rent?", model=plan.models)
    assert result.status == "complete"
    return [(request.model, request.effort) for vendor in vendor_clients.values() for request in vendor.asked]


def test_single_effort_applies_to_all_roles(vendor_clients: dict[VendorName, Vendor]) -> None:
    assert request_efforts(vendor_clients, model=["openai/gpt-5-mini"], effort=["low"]) == [("gpt-5-mini", "low")] * 3


def test_effort_can_be_set_by_name_or_role(vendor_clients: dict[VendorName, Vendor]) -> None:
    """A role without an effort keeps its model's default."""
    model = ["openai/gpt-5-mini", "judge=anthropic/claude-sonnet-4-6"]
    assert request_efforts(vendor_clients, model=model, effort=["Ann=high", "judge=medium"]) == [
        ("gpt-5-mini", "high"),
        ("gpt-5-mini", None),
        ("claude-sonnet-4-6", "medium"),
    ]


def test_first_line_and_stored_plan_include_efforts() -> None:
    options = {**GIVEN, "model": ["openai/gpt-5"], "effort": ["low", "judge=high"]}
    plan = make_plan(PATTERNS["debate"], options)
    assert models_line(plan) == "Models: openai/gpt-5, effort low (Ann, Ben); openai/gpt-5, effort high (judge)"
    assert stored_plan(plan)["options"]["effort"] == {"default": "low", "judge": "high"}


@pytest.mark.parametrize(
    ("effort", "message"),
    [
        (["max"], "low, medium or high"),
        (["jugde=low"], "Did you mean judge"),
        (["judge="], "ROLE=LEVEL"),
        (["low", "high"], "given only once"),
    ],
)
def test_invalid_efforts_and_roles_are_rejected(effort: list[str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make_plan(PATTERNS["debate"], {**GIVEN, "effort": effort})


def test_model_without_effort_support_is_rejected_before_any_call() -> None:
    """The local model, for example, has no effort setting."""
    with pytest.raises(ConfigurationError, match="`effort` is not supported"):
        with_policies(make_plan(PATTERNS["debate"], {**GIVEN, "model": ["local"], "effort": ["low"]}))


@pytest.mark.parametrize("name", PATTERNS)
def test_every_pattern_accepts_efforts(name: str) -> None:
    options = PATTERNS[name].load_page().options
    assert "effort" in options.model_fields
    assert "effort" not in options.WITHOUT
