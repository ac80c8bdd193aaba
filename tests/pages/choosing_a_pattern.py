"""Set-up of docs/choosing-a-pattern.md."""

from __future__ import annotations

from typing import Any

from flowdebate.testing import FunctionModel
from tests.test_pattern_costs import reply


def model(page: dict[str, Any]) -> None:
    """Replace the model of the page by one that answers in every role of every pattern."""
    page["model"] = FunctionModel(reply)
