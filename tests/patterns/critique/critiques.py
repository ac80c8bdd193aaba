"""Critiques for tests: an answer about a lease, and models whose replies depend only on the request."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from flowdebate import critique
from flowdebate.testing import FunctionModel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowdebate.models import ModelRequest

QUESTION = "When must the deposit be paid back?"
LEASE = "The deposit is paid back within 30 days after the lease has ended.\nPets are allowed."
ANSWER = "The deposit is paid back within 14 days. That is in the lease. Nothing is ever paid back before a year."
REVISED = "The deposit is paid back within 30 days."
CLAIM = {"claim": "It is 30 days.", "kind": "false", "place": "within 14 days", "settledBy": "the lease"}
QUOTE = "paid back within 30 days"
APART = ["The deposit is paid back within 14 days", "Nothing is ever paid back before a year"]


def ids_in(request: ModelRequest) -> list[str]:
    """Return the claim ids in a judge's or author's prompt."""
    return re.findall(r"^\[(C\d+)\]", str(request.messages[-1]["content"]), re.MULTILINE)


def model_of(
    *,
    claims: Sequence[Any] = (CLAIM,),
    ruling: str = "holds",
    quotes: Sequence[str] = (QUOTE,),
    answer: str = ANSWER,
    revised: str = REVISED,
) -> FunctionModel:
    """Create a model for all roles, whose judge gives the same ruling on every claim."""

    def reply(request: ModelRequest) -> Any:
        if "-critic-" in request.block:
            return {"claims": list(claims)}
        if request.block.endswith("-judge"):
            rulings = [
                {"claim": name, "reason": "-", "quotes": [*quotes], "ruling": ruling} for name in ids_in(request)
            ]
            return {"rulings": rulings}
        return revised if ids_in(request) else answer

    return FunctionModel(reply)


def run_critique(model: Any = None, *, question: Any = QUESTION, limits: Any = None, **options: Any) -> Any:
    """Run a critique with the lease as its source and return the result."""
    pattern = critique(name="rent", **{"critics": [{"name": "Ada"}], "sources": {"lease.md": LEASE}, **options})
    return pattern.run_sync(question, model=model_of() if model is None else model, seed=7, limits=limits)
