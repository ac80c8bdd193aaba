"""Set-up of docs/service.md."""

from __future__ import annotations

from typing import Any

from flowdebate.testing import FunctionModel, ModelRequest


def answer(request: ModelRequest) -> str | dict[str, str | None]:
    """Argue, or decide for nobody."""
    if request.output_schema is None:
        return f"{request.block.rpartition('-')[2]} has a point."
    return {"reasoning": "The load was never measured.", "winner": None, "verdict": "Wait."}


def model(page: dict[str, Any]) -> None:
    """Replace the model of the page by one that answers any debate."""
    page["model"] = FunctionModel(answer)
