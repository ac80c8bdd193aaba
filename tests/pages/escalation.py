"""Setup for docs/escalation.md."""

from __future__ import annotations

import re
from typing import Any

from flowdebate.testing import FunctionModel, ModelRequest

LIMITS = {"first": 3, "second": 5}
"""Number of open bugs at which each step starts to answer that the release should wait."""


def answer(request: ModelRequest) -> Any:
    """Answer according to the number of open bugs, report that answers disagree, or judge."""
    match = re.search(r"(\d+) open bugs", str(request.messages))
    assert match is not None
    bugs = int(match[1])
    if request.output_schema is None:
        return "Ship it." if bugs < LIMITS.get(request.block, 0) else "Wait."
    if "agree" in request.output_schema["properties"]:
        return {"reasoning": "One says ship, the other says wait.", "agree": False}
    ship = 80 if bugs < 4 else 20
    verdict = "Ship it." if bugs < 4 else "Wait."
    return {"reasoning": "-", "scores": {"ship it": ship, "wait": 100 - ship}, "verdict": verdict}


def models(page: dict[str, Any]) -> None:
    """Replace the models on the page with scripted ones."""
    page["small"] = FunctionModel(answer, name="small")
    page["other"] = FunctionModel(answer, name="other")
