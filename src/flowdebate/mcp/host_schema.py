"""Tool schemas that suit every host: they contain no JSON Schema keywords rejected by Gemini or OpenAI."""

from __future__ import annotations

from typing import Any

from flowdebate.models.output import drop_titles, inline_definitions

REFUSED = frozenset({
    "$schema", "$id", "$ref", "$defs", "definitions", "const", "patternProperties", "propertyNames", "exclusiveMinimum",
    "exclusiveMaximum", "unevaluatedProperties", "unevaluatedItems", "dependentSchemas", "dependentRequired",
    "prefixItems", "contains", "minContains", "maxContains", "not", "if", "then", "else", "oneOf", "allOf",
})  # fmt: skip
"""Keywords to remove from tool schemas."""


def for_hosts(schema: dict[str, Any]) -> dict[str, Any]:
    """Copy a tool's argument schema, omitting its titles and any keywords rejected by some hosts.

    The copy may accept more than the original; arguments are still validated against the original.

    >>> for_hosts({"type": "object", "patternProperties": {"^[a-z]+$": {"type": "integer", "exclusiveMinimum": 0}}})
    {'type': 'object', 'additionalProperties': {'type': 'integer', 'minimum': 1}}
    """
    plain: dict[str, Any] = _without_refused(drop_titles(inline_definitions(schema)))
    return plain


def _without_refused(part: Any) -> Any:  # noqa: ANN401 - a part of a schema
    if isinstance(part, list):
        return [_without_refused(inner) for inner in part]
    if not isinstance(part, dict):
        return part
    plain = {
        key: {name: _without_refused(inner) for name, inner in value.items()}
        if key == "properties"
        else value
        if key in ("default", "enum", "examples")
        else _without_refused(value)
        for key, value in part.items()
        if key not in REFUSED and (key, value) != ("default", None)  # a default of None tells the host nothing
    }
    patterns = part.get("patternProperties")
    if patterns and part.get("additionalProperties") in (None, False):
        several = [_without_refused(inner) for inner in patterns.values()]
        plain["additionalProperties"] = several[0] if len(several) == 1 else {"anyOf": several}
    if "oneOf" in part:
        plain["anyOf"] = _without_refused(part["oneOf"])
    step = 1 if part.get("type") == "integer" else 0
    for exclusive, bound, sign in (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)):
        if exclusive in part:
            plain.setdefault(bound, part[exclusive] + sign * step)
    return plain
