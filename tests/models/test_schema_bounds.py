"""Schemas for the local engine: the length of every free string is limited, and nothing else is changed."""

from __future__ import annotations

from typing import Any, Literal

from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from flowdebate.models.output import bound_strings

KEYS = st.sampled_from(["type", "items", "properties", "maxLength", "x"])
SCHEMAS: st.SearchStrategy[Any] = st.recursive(
    st.booleans()
    | st.builds(lambda length: {"type": "string", "maxLength": length}, st.integers(0, 9000))
    | st.just({"type": "string"})
    | st.just({"type": ["string", "null"]})
    | st.just({"type": "integer"})
    | st.just({"enum": ["a"], "type": "string"}),
    lambda inner: (
        st.builds(
            lambda properties: {"type": "object", "properties": properties}, st.dictionaries(KEYS, inner, max_size=3)
        )
        | st.builds(lambda item: {"type": "array", "items": item}, inner)
        | st.builds(lambda several: {"anyOf": several}, st.lists(inner, max_size=3))
        | st.builds(lambda definitions: {"$defs": definitions}, st.dictionaries(KEYS, inner, max_size=3))
    ),
    max_leaves=8,
)


def free_strings(schema: Any) -> list[dict[str, Any]]:
    """Return all free strings in a schema drawn from `SCHEMAS`."""
    if not isinstance(schema, dict):
        return []
    texts = [schema] if "string" in (schema.get("type") or ()) and "enum" not in schema else []
    inner = [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values(), *schema.get("anyOf", [])]
    inner.append(schema.get("items"))
    return texts + [string for part in inner for string in free_strings(part)]


@given(SCHEMAS)
def test_every_free_string_gets_a_length_limit(schema: Any) -> None:
    before, after = free_strings(schema), free_strings(bound_strings(schema))
    assert [string["maxLength"] for string in after] == [min(1500, s.get("maxLength", 1500)) for s in before]


@given(SCHEMAS)
def test_bounding_is_idempotent(schema: Any) -> None:
    """Bounding a bounded schema changes nothing, and the original schema is never modified."""
    copy = repr(schema)
    once = bound_strings(schema)
    assert bound_strings(once) == once
    assert repr(schema) == copy


def test_bounding_changes_nothing_else_in_a_schema() -> None:
    class Inner(BaseModel):
        type: str = Field(default="string", description="a field whose name is a keyword")

    class Outer(BaseModel):
        side: Literal["for", "against"]
        inner: list[Inner]

    schema = Outer.model_json_schema()
    after = bound_strings(schema)
    assert after["$defs"]["Inner"]["properties"]["type"].pop("maxLength") == 1500
    assert after == schema
