"""Setup for docs/adapters.md."""

from __future__ import annotations

import gc
import os
import tempfile
import warnings
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

VERDICTS = {
    False: '{"reasoning": "It is quick.", "winner": "calculate it", "verdict": "42"}',
    True: '{"reasoning": "6 * 7 is 42.", "winner": "the answer is right", "verdict": "It is right."}',
}


def is_missing(name: str) -> bool:
    """Return whether the package `name` is not installed."""
    return find_spec(name) is None


def frameworks(page: dict[str, Any]) -> None:
    """Let the page skip frameworks that are not installed, and keep their caches in a temporary folder."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("DSPY_CACHEDIR", tempfile.mkdtemp())
    page["missing"] = is_missing


def inspect(page: dict[str, Any]) -> None:
    """Make Inspect evaluate a mock model without warnings, and write its log to a temporary folder."""
    if is_missing("inspect_ai"):
        return
    import inspect_ai
    from inspect_ai.model import ModelOutput, ModelUsage, get_model

    def answer(messages: list[Any], tools: object, tool_choice: object, config: Any) -> Any:
        is_grading = any("the answer is right" in message.text for message in messages)
        text = "I say so." if config.response_schema is None else VERDICTS[is_grading]
        output = ModelOutput.from_content("mock", text)
        output.usage = ModelUsage(input_tokens=90, output_tokens=10, total_tokens=100)
        return output

    page["evaluated"] = get_model("mockllm/model", custom_outputs=answer)
    page["inspect_eval"] = inspect_ai.eval
    inspect_ai.eval = _quiet(inspect_ai.eval)


def after_inspect(page: dict[str, Any]) -> None:
    """Restore Inspect."""
    if not is_missing("inspect_ai"):
        import inspect_ai

        inspect_ai.eval = page["inspect_eval"]


def _quiet(evaluate: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **options: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            logs = evaluate(*args, **options, display="none", log_dir=tempfile.mkdtemp())
            gc.collect()
        return logs

    return run
