"""Setup for docs/cost.md."""

from __future__ import annotations

from typing import Any

from flowdebate.models import ModelResponse, Usage
from flowdebate.testing import FunctionModel, ModelRequest

TEXT = "Homes come first, and whoever owns one has to let it to somebody who needs it. " * 5


def answer(request: ModelRequest) -> ModelResponse:
    """Answer with 400 characters, and report one token for every four characters in the prompt."""
    tokens = sum(len(str(message["content"])) for message in request.messages) // 4
    usage = Usage(calls=1, prompt_tokens=tokens, cached_tokens=0, completion_tokens=100)
    if request.output_schema is None:
        return ModelResponse(text=TEXT, usage=usage)
    return ModelResponse(data={"reasoning": TEXT, "winner": None, "verdict": "A mild cap."}, usage=usage)


def model(page: dict[str, Any]) -> None:
    """Replace the model on the page with one that reports usage."""
    page["model"] = FunctionModel(answer, name="openai/gpt-5-mini")
