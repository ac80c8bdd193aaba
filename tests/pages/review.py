"""Setup for docs/review.md."""

from __future__ import annotations

from typing import Any

from flowdebate.testing import FunctionModel, ModelRequest

FINDINGS = {
    "Ada": {
        "title": "Division by zero",
        "claim": "An empty list has no mean.",
        "severity": "blocker",
        "file": "stats.py",
        "quote": "sum(values) / len(values)",
    },
    "Ben": {
        "title": "No type hints",
        "claim": "Readers must guess.",
        "severity": "nit",
        "file": "stats.py",
        "line": 90,
    },
}
VERDICTS = (("F1", "confirm", "len([]) is 0."), ("F2", "refute", "There is no such line."))


def answer(request: ModelRequest) -> dict[str, Any]:
    """Report a finding as Ada or Ben, and examine the other reviewers' findings."""
    name, prompt = request.block.rpartition("-")[2], str(request.messages[-1]["content"])
    if "-reviewer-" in request.block:
        return {"findings": [FINDINGS[name]] if name in FINDINGS else []}
    if "answers" in str(request.output_schema):
        return {"answers": [{"finding": "F2", "stands": False, "reason": "A matter of taste."}]}
    return {
        "verdicts": [
            {"finding": finding, "verdict": verdict, "reason": reason}
            for finding, verdict, reason in VERDICTS
            if f"[{finding}]" in prompt
        ]
    }


def answer_later(request: ModelRequest) -> dict[str, Any]:
    """Refute the earlier review's finding."""
    if "-reviewer-" in request.block:
        return {"findings": []}
    return {"verdicts": [{"finding": "F1", "verdict": "refute", "reason": "Nothing is divided by zero."}]}


def model(page: dict[str, Any]) -> None:
    """Replace the model on the page with one that finds faults."""
    page["model"] = FunctionModel(answer)


def fixed(page: dict[str, Any]) -> None:
    """Replace the model on the page with one that considers the fault fixed."""
    page["model"] = FunctionModel(answer_later)
