"""How much each seat's model is told to think, as front ends are given it."""

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
def found() -> Iterator[dict[VendorName, Vendor]]:
    """The stub servers of four vendors."""
    with vendors() as running:
        yield running


def told(found: dict[VendorName, Vendor], **given: Any) -> list[tuple[str, str | None]]:
    """Whom a debate asks, and with which effort."""
    options = {key: value for key, value in {**GIVEN, **given}.items() if value is not None}
    plan = make_plan(PATTERNS["debate"], options)
    plan = with_policies(plan)
    result = plan.pattern().run_sync("Rent?", model=plan.models)
    assert result.status == "complete"
    return [(each.model, each.effort) for vendor in found.values() for each in vendor.asked]


def test_an_effort_is_that_of_all_seats(found: dict[VendorName, Vendor]) -> None:
    """Of one model, or of each its own."""
    assert told(found, model=["openai/gpt-5-mini"], effort=["low"]) == [("gpt-5-mini", "low")] * 3


def test_a_name_or_a_role_has_one_of_its_own(found: dict[VendorName, Vendor]) -> None:
    """Whichever model it has; who is not named thinks as it does by itself."""
    model = ["openai/gpt-5-mini", "judge=anthropic/claude-sonnet-4-6"]
    assert told(found, model=model, effort=["Ann=high", "judge=medium"]) == [
        ("gpt-5-mini", "high"),
        ("gpt-5-mini", None),
        ("claude-sonnet-4-6", "medium"),
    ]


def test_the_first_line_says_it_and_a_stored_plan_keeps_it() -> None:
    """So a run that is resumed thinks as much."""
    given = {**GIVEN, "model": ["openai/gpt-5"], "effort": ["low", "judge=high"]}
    plan = make_plan(PATTERNS["debate"], given)
    assert models_line(plan) == "Models: openai/gpt-5, effort low (Ann, Ben); openai/gpt-5, effort high (judge)"
    assert stored_plan(plan)["options"]["effort"] == {"default": "low", "judge": "high"}


@pytest.mark.parametrize(
    ("effort", "told"),
    [
        (["max"], "low, medium or high"),
        (["jugde=low"], "Did you mean judge"),
        (["judge="], "ROLE=LEVEL"),
        (["low", "high"], "given once"),
    ],
)
def test_what_is_no_effort_or_no_seat_is_refused(effort: list[str], told: str) -> None:
    """Before anything is asked, with the option."""
    with pytest.raises(ConfigurationError, match=told):
        make_plan(PATTERNS["debate"], {**GIVEN, "effort": effort})


def test_a_model_that_cannot_be_told_is_refused_before_the_first_call() -> None:
    """The local one is none that thinks."""
    with pytest.raises(ConfigurationError, match="cannot be told how much to think"):
        with_policies(make_plan(PATTERNS["debate"], {**GIVEN, "model": ["local"], "effort": ["low"]}))


@pytest.mark.parametrize("name", PATTERNS)
def test_every_pattern_has_it(name: str) -> None:
    """As an option of its own front ends."""
    options = PATTERNS[name].load_page().options
    assert "effort" in options.model_fields
    assert "effort" not in options.WITHOUT
