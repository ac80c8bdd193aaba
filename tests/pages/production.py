"""Setup for docs/production.md."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from flowdebate.testing import FunctionModel, ModelRequest


def answer(request: ModelRequest) -> str | dict[str, Any]:
    """Argue, or score the sides in alphabetical order."""
    if request.output_schema is None:
        return "Homes first."
    sides = request.output_schema["$defs"]["Scores"]["properties"]
    scores = dict(zip(sorted(sides), (40, 60), strict=True))
    return {"reasoning": "It was answered.", "scores": scores, "verdict": "Build."}


def models(page: dict[str, Any]) -> None:
    """Replace the models on the page with a single one for any debate, and change to an empty folder."""
    os.chdir(tempfile.mkdtemp())
    page["first"] = page["spare"] = FunctionModel(answer)
