"""Setup for docs/mcp.md."""

from __future__ import annotations

from typing import Any

from flowdebate.testing import ScriptedModel

VERDICT = {"reasoning": "Nobody answered the first.", "winner": "We should build trams", "verdict": "Build trams."}


def model(page: dict[str, Any]) -> None:
    """Replace the model on the page with one that supplies all answers in a one-round debate."""
    arguments = ("Trams carry more people.", "Roads are there already.")
    page["model"] = ScriptedModel(*arguments, VERDICT, VERDICT, "Build trams.")
