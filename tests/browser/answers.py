"""Answers for any pattern: text, or data that fits the requested schema."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flowdebate.models.base import ModelRequest

__all__ = ("answer_request",)

_TEXTS = (
    "Whoever waits for the last bus does not ask what it costs. He asks whether it comes.",
    "A promise that nobody pays for is kept by nobody.\nCount the drivers before you count the riders.",
    "Both can be true: the fare keeps some people away, and the timetable keeps away more of them.",
)
_number = count()


def answer_request(request: ModelRequest) -> Any:
    """Answer as a model in any role."""
    if request.output_schema is None:
        return _TEXTS[next(_number) % len(_TEXTS)]
    return _instance(request.output_schema, request.output_schema)


def _instance(schema: Mapping[str, Any], root: Mapping[str, Any], at: int = 0) -> Any:
    """Build data that fits a schema used by a pattern; `at` selects the value of an enumeration."""
    if "$ref" in schema:
        return _instance(root["$defs"][schema["$ref"].rpartition("/")[2]], root, at)
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return _instance(next(option for option in schema[key] if option.get("type") != "null"), root, at)
    if "const" in schema or "enum" in schema:
        return schema["const"] if "const" in schema else schema["enum"][at % len(schema["enum"])]
    kind = schema.get("type")
    if kind == "object":
        return {name: _instance(field, root, at) for name, field in schema.get("properties", {}).items()}
    if kind == "array":
        item = schema.get("items", {})
        number = len(item["enum"]) if "enum" in item else max(schema.get("minItems", 1), 1)
        return [_instance(item, root, index) for index in range(number)]
    minimum = schema.get("minimum", 0)
    return {"integer": max(minimum, 1), "number": max(minimum, 0.5), "boolean": False}.get(str(kind), _TEXTS[0][:60])
