"""Setup for docs/http.md."""

from __future__ import annotations

from typing import Any

from flowdebate.testing import FunctionModel, ModelRequest


def answer(request: ModelRequest) -> str | dict[str, str | None]:
    """Argue, or declare no winner."""
    return {"reasoning": "-", "winner": None, "verdict": "Wait."} if request.output_schema else "No."


def model(page: dict[str, Any]) -> None:
    """Replace the model on the page with one that can answer in any debate."""
    page["model"] = FunctionModel(answer)
