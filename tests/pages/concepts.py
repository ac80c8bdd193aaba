"""Setup for docs/concepts.md."""

from __future__ import annotations

from typing import Any

from flowdebate.testing import ScriptedModel


def model(page: dict[str, Any]) -> None:
    """Replace the model on the page with one that supplies all answers in a two-round debate."""
    verdict = {"reasoning": "It was answered.", "winner": None, "verdict": "A mild cap."}
    arguments = ("Homes first.", "Build more.", "Build where?", "Everywhere.")
    page["model"] = ScriptedModel(*arguments, verdict, "Cap mildly and build.")
