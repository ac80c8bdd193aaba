"""What a journal keeps, as JSON text and back: answers of models, values of steps, failures."""

from __future__ import annotations

import json
from dataclasses import fields
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter
from pydantic_core import PydanticSerializationError, to_json

import flowdebate.errors
from flowdebate.errors import told
from flowdebate.models.attempts import Attempt
from flowdebate.models.base import ModelResponse, ToolCall
from flowdebate.models.usage import Usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from flowdebate.models.base import ModelRequest
    from flowdebate.models.output import OutputSchema

__all__ = (
    "attempts_of",
    "attempts_text",
    "call_text",
    "digest_of",
    "failed_text",
    "failure_of",
    "failure_text",
    "plain",
    "read_call",
    "value_of",
    "value_text",
)

_USAGE = tuple(field.name for field in fields(Usage))


def digest_of(request: ModelRequest) -> str:
    """What tells `request` from any other that the same block could make: a hash of all that the model is told."""
    settings = request.settings
    told_of = {
        "messages": request.messages,
        "output": None if request.output is None else request.output.digest,
        "tools": [[tool.name, tool.description, tool.parameters] for tool in request.tools],
        "settings": [settings.temperature, settings.max_tokens, settings.extra],
    }
    return blake2b(_written(told_of).encode(), digest_size=16).hexdigest()


def failed_text(error: str, **about: Any) -> str:  # noqa: ANN401 - JSON data
    """How an attempt at a step failed; `about` is what else is known of it."""
    return _written({"error": error, **about})


def attempts_text(attempts: Iterable[Attempt]) -> list[list[Any]]:
    """What was sent, as JSON data."""
    return [
        [made.model, made.asked_as, made.waited, made.seconds, _usage_text(made.usage), made.error] for made in attempts
    ]


def attempts_of(kept: Iterable[Sequence[Any]]) -> list[Attempt]:
    """What `attempts_text` made JSON data of."""
    return [
        Attempt(model=model, asked_as=asked_as, waited=waited, seconds=seconds, usage=_usage_of(usage), error=error)
        for model, asked_as, waited, seconds, usage, error in kept
    ]


def call_text(
    response: ModelResponse, attempts: Sequence[Attempt], *, seconds: float, output: OutputSchema | None
) -> str:
    """An answered call, with all that was sent for it."""
    kept: dict[str, Any] = {
        "text": response.text,
        "finish": response.finish,
        "model": response.model,
        "usage": _usage_text(response.usage),
        "seconds": seconds,
        "attempts": attempts_text(attempts),
    }
    if response.asked_as is not None:
        kept["asked_as"] = response.asked_as
    if response.flags:
        kept["flags"] = response.flags
    if response.tool_calls:
        kept["tool_calls"] = [[call.id, call.name, call.arguments] for call in response.tool_calls]
    elif output is not None:
        kept["data"] = output.dumped(response.data)
    return _written(kept)


def read_call(body: str, output: OutputSchema | None) -> tuple[ModelResponse, list[Attempt], float]:
    """The answer, what was sent, and how long it took in all. ValueError (or SchemaViolation) for another text."""
    kept = json.loads(body)
    calls = tuple(ToolCall(id=i, name=name, arguments=arguments) for i, name, arguments in kept.get("tool_calls", ()))
    response = ModelResponse(
        text=kept["text"],
        data=None if calls or output is None else output.validate(kept["data"]),
        tool_calls=calls,
        finish=kept["finish"],
        usage=_usage_of(kept["usage"]),
        model=kept["model"],
        asked_as=kept.get("asked_as"),
        flags=tuple(kept.get("flags", ())),
        validated=None if calls else output,
    )
    return response, attempts_of(kept["attempts"]), kept["seconds"]


def _usage_text(usage: Usage) -> list[int | None]:
    return [getattr(usage, name) for name in _USAGE]


def _usage_of(values: list[Any]) -> Usage:
    return Usage(**dict(zip(_USAGE, values, strict=True)))


def value_text(value: object, returns: Any) -> str | None:  # noqa: ANN401 - any type form
    """`value` as JSON; None where it would not come back as it was."""
    if returns is not None:
        return _adapter(returns).dump_json(value).decode()
    try:
        text = _written(value)
        same = _same(value, json.loads(text))
    except (ValueError, TypeError, RecursionError):
        return None
    return text if same else None


def value_of(body: str, returns: Any) -> Any:  # noqa: ANN401 - what value_text was given
    """The value that `value_text` made into `body`."""
    return json.loads(body) if returns is None else _adapter(returns).validate_json(body)


def plain(value: object) -> Any:  # noqa: ANN401 - JSON data
    """`value` as JSON data; ValueError, TypeError or RecursionError for what is none."""
    return json.loads(_written(value))


def _written(value: object) -> str:
    try:
        return to_json(value, serialize_unknown=False).decode()
    except PydanticSerializationError:  # half a character, which JSON can hold, and no UTF-8
        return json.dumps(value)


@lru_cache(maxsize=64)
def _adapter(returns: Any) -> TypeAdapter[Any]:  # noqa: ANN401 - any type form
    return TypeAdapter(returns)


def _same(one: object, other: object) -> bool:
    """Whether both are the same plain JSON data: of the same types, down to the last of them."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return one == other


def failure_text(error: BaseException) -> str:
    """`error` with what can be kept of it."""
    facts: dict[str, Any] = {}
    tuples: list[str] = []
    for name, value in vars(error).items():
        plain = _listed(value)
        if value_text(plain, None) is not None:
            facts[name] = plain
            if isinstance(value, tuple):
                tuples.append(name)
    kind = next((base.__name__ for base in type(error).__mro__ if _ours(base)), "Exception")
    kept = {"kind": kind, "name": type(error).__name__, "said": _said(error), "facts": facts, "tuples": tuples}
    return _written(kept)


def failure_of(body: str) -> Exception:
    """An error of the same kind and name, which says the same."""
    kept = json.loads(body)
    base = getattr(flowdebate.errors, kept["kind"]) if kept["kind"] in flowdebate.errors.__all__ else Exception
    kind = base if base.__name__ == kept["name"] else type(kept["name"], (base,), {"__module__": base.__module__})
    error: Exception = Exception.__new__(kind)
    error.args = (kept["said"],)
    for name, value in kept["facts"].items():
        vars(error)[name] = tuple(value) if name in kept["tuples"] else value
    return error


def _listed(value: object) -> object:
    """`value` with lists in place of tuples."""
    return [_listed(item) for item in value] if isinstance(value, (tuple, list)) else value


def _ours(kind: type) -> bool:
    return kind.__module__ == flowdebate.errors.__name__


def _said(error: BaseException) -> str:
    name = type(error).__name__
    text = told(error)
    return "" if text == name else text.removeprefix(f"{name}: ")
