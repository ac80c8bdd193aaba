"""Inlining the references in a JSON Schema: `inline_definitions` must not change the schema's meaning."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate.errors import ConfigurationError
from flowdebate.models.output import OutputSchema, inline_definitions

LEAVES = st.sampled_from(
    [{"type": "integer"}, {"enum": ["for", "against"]}, {"const": "x"}, {"type": "string", "maxLength": 2}]
)
REFERENCES = st.sampled_from("ABC").map(lambda name: {"$ref": f"#/$defs/{name}"})


def composed_schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Draw schemas composed of other schemas."""
    return st.one_of(
        st.dictionaries(st.sampled_from(["a", "$ref", "const", "enum"]), inner, max_size=3).map(
            lambda properties: {"type": "object", "properties": properties}
        ),
        inner.map(lambda items: {"type": "array", "items": items}),
        st.lists(inner, min_size=1, max_size=2).map(lambda several: {"anyOf": several}),
    )


SCHEMAS = st.recursive(LEAVES | REFERENCES, composed_schemas, max_leaves=5)
VALUES = st.recursive(
    st.sampled_from([0, 1, "x", "for", "long", None]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["a", "$ref", "const", "enum"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def is_usable(schema: Any) -> bool:
    """Return whether a composed schema is usable: a definition that only refers to itself has no meaning."""
    return "$ref" not in schema


@given(SCHEMAS, st.fixed_dictionaries(dict.fromkeys("ABC", SCHEMAS.filter(is_usable))), st.lists(VALUES, max_size=6))
def test_inlining_definitions_accepts_the_same_values(top: Any, definitions: dict[str, Any], values: list[Any]) -> None:
    """References remain only in recursive schemas, and the original schema is not modified."""
    schema = {"properties": {"x": top}, "$defs": definitions}
    before = repr(schema)
    inlined = inline_definitions(schema)
    assert repr(schema) == before
    for value in values:
        document = {"x": value}
        try:
            valid = jsonschema.Draft202012Validator(schema).is_valid(document)
        except RecursionError:
            continue
        assert jsonschema.Draft202012Validator(inlined).is_valid(document) is valid


def test_data_that_looks_like_a_reference_is_unchanged() -> None:
    """Defaults, enums and examples contain data, so references in them are not resolved."""
    schema = {"default": {"$ref": "#/$defs/A"}, "enum": [{"const": 1}], "$defs": {"A": {"type": "string"}}}
    assert inline_definitions(schema) == {"default": {"$ref": "#/$defs/A"}, "enum": [{"const": 1}]}


def test_external_references_are_unchanged() -> None:
    """Only local definitions can be inlined."""
    schema = {"items": {"$ref": "https://example.org/schema"}, "not": {"$ref": "#/$defs/gone"}}
    assert inline_definitions(schema) == schema


def test_names_with_slashes_are_resolved() -> None:
    """Slashes in the names of definitions are escaped in references."""
    schema = {"items": {"$ref": "#/$defs/a~1b~0c"}, "$defs": {"a/b~c": {"type": "string"}}}
    assert inline_definitions(schema) == {"items": {"type": "string"}}


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$defs": {"x": {"$ref": "#/$defs/x"}}, "$ref": "#/$defs/x"},
        {"allOf": [{"$ref": "#"}]},
        {"$defs": {"x": {"anyOf": [{"$ref": "#/$defs/y"}]}, "y": {"not": {"$ref": "#/$defs/x"}}}, "$ref": "#/$defs/y"},
    ],
)
def test_a_self_reference_is_rejected(schema: dict[str, Any]) -> None:
    """No answer could satisfy the schema, so no model is called.

    A schema that refers to itself inside a property may still be valid.
    """
    with pytest.raises(ConfigurationError, match="without endless references to itself"):
        OutputSchema.of(schema, location="debate", field="output_schema")
    tree = {"type": "object", "properties": {"next": {"$ref": "#"}}}
    assert OutputSchema.of(tree, location="debate").validate({"next": {"next": {}}}) == {"next": {"next": {}}}


def test_a_reference_outside_the_definitions_is_unchanged() -> None:
    """The server receives the schema as the application wrote it."""
    schema = {"$ref": "#/properties/a", "properties": {"a": {"type": "object"}}}
    assert OutputSchema.of(schema, location="debate").json_schema["$ref"] == "#/properties/a"
