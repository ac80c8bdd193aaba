"""Setup for docs/critique.md."""

from __future__ import annotations

from typing import Any

from flowdebate.testing import FunctionModel, ModelRequest


def answer(request: ModelRequest) -> Any:
    """Make two claims, rule that the first one holds, or write an answer."""
    if "-critic-" in request.block:
        false = {"claim": "The lease says 30 days.", "kind": "false", "place": "within 14 days", "settledBy": "§ 7"}
        missing = {"claim": "Pets are allowed.", "kind": "missing"}
        return {"claims": [false, missing]}
    if request.block.endswith("-judge"):
        first = {"claim": "C1", "reason": "§ 7", "quotes": ["paid back within 30 days"], "ruling": "holds"}
        second = {"claim": "C2", "reason": "Nobody asked.", "quotes": [], "ruling": "does_not_hold"}
        return {"rulings": [first, second]}
    return "The landlord has 30 days to pay it back."


def model(page: dict[str, Any]) -> None:
    """Replace the model on the page with one that answers in every role."""
    page["model"] = FunctionModel(answer)
