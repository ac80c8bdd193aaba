"""Setup for docs/service.md."""

from __future__ import annotations

from typing import Any

from flowdebate.testing import FunctionModel, ModelRequest


def answer(request: ModelRequest) -> str | dict[str, str | None]:
    """Argue, or declare no winner."""
    if request.output_schema is None:
        return f"{request.block.rpartition('-')[2]} has a point."
    return {"reasoning": "The load was never measured.", "winner": None, "verdict": "Wait."}


def model(page: dict[str, Any]) -> None:
    """Replace the model on the page with one that can answer in any debate."""
    page["model"] = FunctionModel(answer)
