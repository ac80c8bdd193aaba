"""Setup for docs/testing.md."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from hypothesis import HealthCheck, settings

from flowdebate.testing import FunctionModel, ModelRequest, check_debate


def first_test(page: dict[str, Any]) -> None:
    """Run the first test on the page."""
    page["test_the_owner_answers_the_tenant"]()


def check(page: dict[str, Any]) -> None:
    """Check the page's debate with a few examples."""
    check_debate(page["make_debate"], max_examples=5)


def properties(page: dict[str, Any]) -> None:
    """Run the page's property test with a few examples."""
    quick = settings(max_examples=20, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    quick(page["test_a_debate_ends_at_its_cap_or_before"])()


def answer(request: ModelRequest) -> str | dict[str, str]:
    """Argue, or decide for the first side."""
    if request.output_schema is None:
        return f"{request.block} insists."
    return {"reasoning": "One insisted first.", "winner": "rents should be capped", "verdict": "Cap them."}


def model(page: dict[str, Any]) -> None:
    """Replace the model on the page with one that can answer in any debate, and change to an empty folder."""
    os.chdir(tempfile.mkdtemp())
    page["model"] = FunctionModel(answer)
