"""A JSON Schema whose strings all end: grammars of llama.cpp let an unbounded one run on until the room is used up."""

from __future__ import annotations

from typing import Any

__all__ = ("bounded",)

_LONGEST = 1_500
"""Characters; llama.cpp refuses grammars with 2,000 repetitions and more."""

_SCHEMAS = frozenset({"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"})
_LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_NAMED = frozenset({"properties", "$defs", "definitions", "patternProperties", "dependentSchemas"})


def bounded(schema: Any) -> Any:  # noqa: ANN401 - a schema may be a bool
    """A copy of `schema` in which every free string has a `maxLength` of at most 1,500.

    >>> bounded({"properties": {"type": {"type": "string"}, "side": {"type": "string", "enum": ["for"]}}})
    {'properties': {'type': {'type': 'string', 'maxLength': 1500}, 'side': {'type': 'string', 'enum': ['for']}}}
    """
    if not isinstance(schema, dict):
        return schema
    copy = {key: _inside(key, value) for key, value in schema.items()}
    kinds = schema.get("type")
    free = kinds == "string" or (isinstance(kinds, list) and "string" in kinds)
    if free and not {"enum", "const", "pattern", "format"} & schema.keys():
        copy["maxLength"] = min(_LONGEST, schema.get("maxLength", _LONGEST))
    return copy


def _inside(key: str, value: Any) -> Any:  # noqa: ANN401 - JSON
    if key in _NAMED and isinstance(value, dict):
        return {name: bounded(inner) for name, inner in value.items()}
    if key in _LISTS and isinstance(value, list):
        return [bounded(inner) for inner in value]
    return bounded(value) if key in _SCHEMAS else value
