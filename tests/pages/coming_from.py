"""Set-up of docs/coming-from.md."""

from __future__ import annotations

from typing import Any

from flowdebate.testing import ScriptedModel
from tests.pages.adapters import is_missing

ARGUMENTS = ("Homes first.", "Build more.", "Build where?", "Everywhere.")


def model(page: dict[str, Any]) -> None:
    """Replace the model of the page by a scripted one, and let the page skip frameworks that are not installed."""
    verdict = {"reasoning": "It was answered.", "winner": "rents should be capped", "verdict": "Cap them."}
    page["model"] = ScriptedModel(*ARGUMENTS, verdict)
    page["missing"] = is_missing


def langgraph(page: dict[str, Any]) -> None:
    """Add a chat model of LangChain."""
    if not is_missing("langgraph"):
        from langchain_core.language_models.fake_chat_models import FakeListChatModel

        page["llm"] = FakeListChatModel(responses=[*ARGUMENTS, "Cap them."])


def pydantic_ai(page: dict[str, Any]) -> None:
    """Replace the model of the page by one of pydantic-ai."""
    if is_missing("pydantic_ai"):
        return
    from pydantic_ai import messages
    from pydantic_ai.models.function import FunctionModel

    arguments = iter(ARGUMENTS)

    def answer(history: object, info: Any) -> Any:
        if info.output_tools:
            verdict = {"winner": "tenant", "reasoning": "It was answered."}
            return messages.ModelResponse(parts=[messages.ToolCallPart(info.output_tools[0].name, verdict)])
        return messages.ModelResponse(parts=[messages.TextPart(next(arguments))])

    page["model"] = FunctionModel(answer)


def after_pydantic_ai(page: dict[str, Any]) -> None:
    """Close the event loop that pydantic-ai's `run_sync` leaves behind."""
    if not is_missing("pydantic_ai"):
        import asyncio

        asyncio.get_event_loop().close()
        asyncio.set_event_loop(None)
