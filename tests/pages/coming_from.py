"""Setup for docs/coming-from.md."""

from __future__ import annotations

from typing import Any

from flowdebate.testing import ScriptedModel
from tests.pages.adapters import is_missing

ARGUMENTS = ("Homes first.", "Build more.", "Build where?", "Everywhere.")


def model(page: dict[str, Any]) -> None:
    """Replace the model on the page with a scripted one, and let the page skip frameworks that are not installed."""
    verdict = {"reasoning": "It was answered.", "winner": "rents should be capped", "verdict": "Cap them."}
    page["model"] = ScriptedModel(*ARGUMENTS, verdict)
    page["missing"] = is_missing


def langgraph(page: dict[str, Any]) -> None:
    """Add a LangChain chat model."""
    if not is_missing("langgraph"):
        from langchain_core.language_models.fake_chat_models import FakeListChatModel

        page["llm"] = FakeListChatModel(responses=[*ARGUMENTS, "Cap them."])
