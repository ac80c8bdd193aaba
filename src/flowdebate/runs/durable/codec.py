"""JSON codec of recorded steps: values and failed attempts (see `flowdebate.models.codec` for model calls)."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from pydantic import TypeAdapter

from flowdebate.models.codec import exact_json, json_text

__all__ = (
    "failed_text",
    "plain",
    "value_of",
    "value_text",
)


def failed_text(error: str, **about: Any) -> str:  # noqa: ANN401 - JSON data
    """Serialize a failed attempt at a step; `about` is anything else that is known of it."""
    return json_text({"error": error, **about})


def value_text(value: object, returns: Any) -> str | None:  # noqa: ANN401 - any type form
    """Serialize `value` as JSON; None if reading it back would give another value."""
    return exact_json(value) if returns is None else _adapter(returns).dump_json(value).decode()


def value_of(body: str, returns: Any) -> Any:  # noqa: ANN401 - what value_text was given
    """Read the value that `value_text` serialized."""
    return json.loads(body) if returns is None else _adapter(returns).validate_json(body)


def plain(value: object) -> Any:  # noqa: ANN401 - JSON data
    """Convert `value` to JSON data; ValueError, TypeError or RecursionError if it is none."""
    return json.loads(json_text(value))


@lru_cache(maxsize=64)
def _adapter(returns: Any) -> TypeAdapter[Any]:  # noqa: ANN401 - any type form
    return TypeAdapter(returns)
