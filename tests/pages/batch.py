"""Setup for docs/batch.md."""

from __future__ import annotations

from typing import Any

from flowdebate.testing import FunctionModel, ModelRequest


def answer(request: ModelRequest) -> str | dict[str, str]:
    """Argue, or decide for the first side."""
    if request.output_schema is None:
        return f"{request.block} insists."
    return {"reasoning": "Nobody answered it.", "winner": "yes, do it", "verdict": "Do it."}


def model(page: dict[str, Any]) -> None:
    """Replace the model on the page with one that can answer in any debate."""
    page["model"] = FunctionModel(answer)
