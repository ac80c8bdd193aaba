"""Conversion of messages, usage and exceptions between this library and other frameworks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypedDict

from flowdebate._text import one_line
from flowdebate.errors import ConfigurationError, FlowDebateError, ModelError
from flowdebate.models.base import Message, Model, ModelRequest, Usage
from flowdebate.models.call import Retry
from flowdebate.models.openai.error_mapping import status_error

if TYPE_CHECKING:
    from flowdebate.evaluation.comparison import Comparison
    from flowdebate.models.output import OutputSchema
    from flowdebate.store.open import StoreChoice


RETRY = Retry()
"""Default retry policy for adapters."""
# System message stating the schema of the answer, for models that might not receive it otherwise.
SCHEMA_PROMPT = "Respond with a single JSON object that conforms to this JSON Schema, and with nothing else:\n{schema}"

_LOWEST_STATUS, _HIGHEST_STATUS = 400, 599
_TRANSIENT = (ConnectionError, TimeoutError)


class AdaptedModel:
    """Base class for models from other frameworks; `retry` is the retry policy chosen by the application."""

    gives_logprobs = False

    def __init__(self, location: str, name: str, retry: Retry | None) -> None:
        retry_value: object = retry
        if retry_value is not None and not isinstance(retry_value, Retry):
            raise ConfigurationError(location, "retry", retry_value, "must be a Retry")
        self.name: str = name
        self.retry: Retry | None = retry

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"


@contextmanager
def framework_failures(*passed: type[Exception]) -> Iterator[None]:
    """Convert a framework's exceptions to ModelErrors, except those in `passed` and this library's own.

    The ModelError's message includes the class name of the exception. An exception with an HTTP status (`status_code`)
    becomes the error for that status, such as RateLimited.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, (FlowDebateError, *passed)):
            raise
        raise _failure(error) from error


def _failure(error: Exception) -> ModelError:
    """Convert an exception to an error whose message includes the cause raised inside the framework."""
    first: BaseException = error
    for _ in range(10):
        inner = first.__cause__ or (None if first.__suppress_context__ else first.__context__)
        if inner is None or inner is first:
            break
        first = inner
    if isinstance(first, FlowDebateError) and isinstance(first, ModelError):
        return first
    kind = type(error).__name__ if first is error else f"{type(error).__name__} of {type(first).__name__}"
    try:
        message = str(error)
    except Exception as another:  # noqa: BLE001 - it must not hide the error that is being reported
        message = f"its __str__ raises {type(another).__name__}"
    status = getattr(error, "status_code", None)
    if isinstance(status, int) and _LOWEST_STATUS <= status <= _HIGHEST_STATUS:
        return status_error(status, {"error": {"message": message}}, headers={}, explanation=f"{status} ({kind})")
    text = one_line(f"{kind}: {message}" if message else kind)
    return ModelError(text, transient=isinstance(error, _TRANSIENT) or isinstance(first, _TRANSIENT))


def text_of(message: Message) -> str:
    """Return the text of a chat message; raise ConfigurationError for images and other non-text parts."""
    content = message.get("content")
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, list) and all(
        isinstance(part, dict) and isinstance(part.get("text"), str) for part in content
    ):
        return "\n".join(part["text"] for part in content)
    raise ConfigurationError("messages", "content", content, "must be text, because this model accepts nothing else")


def system_of(request: ModelRequest) -> str:
    """Join a request's system messages into one string."""
    return "\n\n".join(text_of(message) for message in request.messages if message.get("role") == "system")


def chat_of(request: ModelRequest) -> list[tuple[str, str]]:
    """Return all messages except system messages, as pairs of role ("user" or "assistant") and text."""
    chat = [(str(message.get("role")), text_of(message)) for message in request.messages]
    for role, _ in chat:
        if role not in {"system", "user", "assistant"}:
            raise ConfigurationError(
                "messages",
                "role",
                role,
                "must be system, user or assistant; the model runs its own tools, so it accepts no tool messages",
            )
    return [(role, text) for role, text in chat if role != "system"]


def sampling_of(request: ModelRequest, *, effort: str | None = None) -> dict[str, Any]:
    """Return a request's settings as keyword arguments: `temperature`, `max_tokens`, the effort, and `extra`.

    `effort` is the framework's name for the effort setting. None means there is no such setting; an effort in the
    request then raises ConfigurationError.
    """
    settings = request.settings
    if settings.effort is not None and effort is None:
        problem = "cannot be set for a framework's model: configure the effort where that model is built"
        raise ConfigurationError(request.block, "effort", settings.effort, problem)
    sampling: dict[str, Any] = {"temperature": settings.temperature, "max_tokens": settings.max_tokens}
    sampling[effort or ""] = settings.effort
    return {**{name: value for name, value in sampling.items() if value is not None}, **settings.extra}


def schema_prompt(schema: OutputSchema) -> str:
    """Return an instruction containing the schema for the answer."""
    return SCHEMA_PROMPT.replace("{schema}", json.dumps(schema.json_schema, ensure_ascii=False))


def usage_of(prompt: object, completion: object, cached: object = None) -> Usage:
    """Return the usage of one call. Values other than counts, and counts that are all zero, are treated as unknown.

    >>> usage_of(120, 7), usage_of(0, 0) == Usage.unknown()
    (Usage(calls=1, prompt_tokens=120, cached_tokens=None, completion_tokens=7), True)
    """
    counts = [
        value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
        for value in (prompt, completion, cached)
    ]
    if not any(counts):
        return Usage.unknown()
    return Usage(calls=1, prompt_tokens=counts[0], completion_tokens=counts[1], cached_tokens=counts[2])


def refuse_tools(name: str, request: ModelRequest) -> None:
    """Raise ConfigurationError if the request has tools, because an agent uses only its own tools."""
    if request.tools:
        problem = "are not supported by an agent from another framework"
        raise ConfigurationError(f"model {name!r}", "tools", None, problem, hint="Give the tools to the agent itself")


class CompareOptions(TypedDict, total=False):
    """Options for `compare()` when called from other evaluation frameworks."""

    judges: Sequence[Model | str]
    criteria: Mapping[str, float]
    orders: str
    store: StoreChoice


async def compare_with_baseline(
    question: object, output: object, expected: object, options: CompareOptions
) -> Comparison:
    """Compare two values, called "output" and "expected"; strings are compared as they are, other values as JSON."""
    from flowdebate.blocks.functions import result_text
    from flowdebate.evaluation.comparison import compare

    if expected is None:
        raise ConfigurationError("compare()", "expected output", None, "is required")
    texts = {"output": result_text(output), "expected": result_text(expected)}
    return await compare(result_text(question), texts, **options)
