"""A JSON Schema that providers take as it is: nothing refers to a definition that could stand where it is meant."""

from __future__ import annotations

from typing import Any

__all__ = (
    "bounded",
    "inlined",
)

_PREFIX = "#/$defs/"
_NAMED = frozenset({"properties", "patternProperties", "dependentSchemas"})
_VALUES = frozenset({"const", "default", "enum", "examples"})
"""Keywords that hold data, which may look like anything."""


def inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """A copy of `schema` with each reference to one of its `$defs` replaced by what is defined there.

    What stands beside a reference, such as a description, goes before what the definition says. Definitions that refer
    to themselves stay, and so do references to them. A `const` is written as an `enum` of one, which every provider
    knows.

    >>> side = {"enum": ["for", "against"], "title": "Side", "type": "string"}
    >>> inlined({"properties": {"side": {"$ref": "#/$defs/Side", "description": "Whose?"}}, "$defs": {"Side": side}})
    {'properties': {'side': {'enum': ['for', 'against'], 'title': 'Side', 'type': 'string', 'description': 'Whose?'}}}
    """
    definitions: dict[str, Any] = schema.get("$defs", {})
    kept = {name for name in definitions if name in _reached(definitions[name], definitions)}
    made: dict[str, Any] = _inside({key: value for key, value in schema.items() if key != "$defs"}, definitions, kept)
    if kept:
        made["$defs"] = {name: _inside(definitions[name], definitions, kept) for name in definitions if name in kept}
    return made


def _inside(schema: Any, definitions: dict[str, Any], kept: set[str]) -> Any:  # noqa: ANN401 - a part of a schema
    if isinstance(schema, list):
        return [_inside(part, definitions, kept) for part in schema]
    if not isinstance(schema, dict):
        return schema
    name = _meant(schema, definitions)
    if name is not None and name not in kept:
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        return _inside({**definitions[name], **beside}, definitions, kept)
    made: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _NAMED and isinstance(value, dict):
            made[key] = {part: _inside(inner, definitions, kept) for part, inner in value.items()}
        elif key == "const":
            made["enum"] = [value]
        else:
            made[key] = value if key in _VALUES else _inside(value, definitions, kept)
    return made


def _reached(schema: Any, definitions: dict[str, Any], seen: frozenset[str] = frozenset()) -> frozenset[str]:  # noqa: ANN401
    """The definitions that `schema` refers to, and those that these refer to."""
    if isinstance(schema, list):
        for part in schema:
            seen = _reached(part, definitions, seen)
    elif isinstance(schema, dict):
        name = _meant(schema, definitions)
        if name is not None and name not in seen:
            seen = _reached(definitions[name], definitions, seen | {name})
        for key, value in schema.items():
            if key in _NAMED and isinstance(value, dict):
                seen = _reached(list(value.values()), definitions, seen)
            elif key not in _VALUES:
                seen = _reached(value, definitions, seen)
    return seen


def _meant(schema: dict[str, Any], definitions: dict[str, Any]) -> str | None:
    """The name of the definition that `schema` refers to."""
    reference = schema.get("$ref")
    if not isinstance(reference, str):
        return None
    name = reference.removeprefix(_PREFIX).replace("~1", "/").replace("~0", "~")
    return name if name in definitions else None


_LONGEST = 1_500
"""Characters; llama.cpp refuses grammars with 2,000 repetitions and more."""

_SCHEMAS = frozenset({"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"})
_LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})


_NAMED_SCHEMAS = frozenset({"properties", "$defs", "definitions", "patternProperties", "dependentSchemas"})


def bounded(schema: Any) -> Any:  # noqa: ANN401 - a schema may be a bool
    """A copy of `schema` in which every free string has a `maxLength` of at most 1,500.

    >>> bounded({"properties": {"type": {"type": "string"}, "side": {"type": "string", "enum": ["for"]}}})
    {'properties': {'type': {'type': 'string', 'maxLength': 1500}, 'side': {'type': 'string', 'enum': ['for']}}}
    """
    if not isinstance(schema, dict):
        return schema
    copy = {key: _schemas_inside(key, value) for key, value in schema.items()}
    kinds = schema.get("type")
    free = kinds == "string" or (isinstance(kinds, list) and "string" in kinds)
    if free and not {"enum", "const", "pattern", "format"} & schema.keys():
        copy["maxLength"] = min(_LONGEST, schema.get("maxLength", _LONGEST))
    return copy


def _schemas_inside(key: str, value: Any) -> Any:  # noqa: ANN401 - JSON
    if key in _NAMED_SCHEMAS and isinstance(value, dict):
        return {name: bounded(inner) for name, inner in value.items()}
    if key in _LISTS and isinstance(value, list):
        return [bounded(inner) for inner in value]
    return bounded(value) if key in _SCHEMAS else value
