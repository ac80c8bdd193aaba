"""Untrusted JSON Schemas: no pattern, reference or list of choices may make validation slow."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate.blocks.human.answers import check_answer
from flowdebate.errors import ConfigurationError, OutputError, SchemaViolation
from flowdebate.models.json_schema import compile_pattern
from flowdebate.models.output import OutputSchema

EVIL = "^(a+)+$"
TEXT = "a" * 5_000 + "!"
DRAFT = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
MAX_SECONDS = 5.0
"""Limit in seconds of CPU time for validations that take one or two seconds on an idle machine."""
DOUBLING = {f"d{level}": {"allOf": [{"$ref": f"#/$defs/d{level + 1}"}] * 2} for level in range(20)}
MIXED = [1, "a", None, *(index if index % 2 else str(index) for index in range(2, 30_000))]


@pytest.mark.parametrize(
    ("schema", "answer"),
    [
        ({"properties": {"p": {"pattern": EVIL}}}, {"p": TEXT}),
        ({"patternProperties": {EVIL: {}}, "additionalProperties": False}, {TEXT: 1}),
        ({"propertyNames": {"pattern": EVIL}}, {TEXT: 1}),
        ({"properties": {"p": {**DRAFT, "pattern": EVIL}}}, {"p": TEXT}),
        ({**DRAFT, "properties": {"p": {"pattern": EVIL}, "q": {"$ref": "#"}}}, {"q": {"p": TEXT}}),
        ({"$schema": "http://json-schema.org/draft-04/schema#", "properties": {"p": {"pattern": EVIL}}}, {"p": TEXT}),
        ({"properties": {"p": {"pattern": "(?:(?:a{20}){20}){20}b"}}}, {"p": "a" * 100_000}),
        ({"properties": {"p": {"items": {"enum": list(range(20_000))}}}}, {"p": [-1] * 20_000}),
        ({"properties": {"p": {"uniqueItems": True}}}, {"p": [*MIXED, 1.0]}),
        ({"$ref": "#/$defs/d0", "$defs": {**DOUBLING, "d20": {}}}, {}),
        (
            {"properties": {"p": {"$ref": "http://json-schema.org/draft-04/schema#"}}},
            {"p": {"enum": [*MIXED, 1], "pattern": 5}},
        ),
    ],
)
def test_no_answer_takes_long_to_validate(schema: dict[str, Any], answer: dict[str, Any]) -> None:
    """Without protection, validating against some of these schemas would take minutes.

    For others, it would take longer than the age of the universe.
    """
    full_schema, before = {"type": "object", **schema}, time.process_time()
    try:
        OutputSchema.of(full_schema).validate(answer)
    except SchemaViolation:
        pass
    else:
        assert "$defs" in schema, "the answer does not fit"
    with pytest.raises(OutputError) if "$defs" not in schema else pytest.raises(OutputError, match="steps"):
        check_answer(full_schema, answer, block="vote")
    assert time.process_time() - before < MAX_SECONDS


@pytest.mark.parametrize("pattern", ["(?=a)b", "(?<!a)b", r"(a)\1", "(", "((a{30}){30}){30}", "a{99999999999}"])
def test_a_backtracking_pattern_is_rejected(pattern: str) -> None:
    """Invalid patterns and large repetitions are rejected too, wherever they appear in the schema."""
    part = {"pattern": pattern}
    inner: list[dict[str, Any]] = [part, {"patternProperties": {pattern: {}}}, {"not": {"items": part}}]
    for schema in inner:
        with pytest.raises(ConfigurationError, match="linear time"):
            OutputSchema.of({"properties": {"p": schema}})


def test_unevaluated_properties_are_rejected() -> None:
    """To check this keyword, the validator would match property names with a backtracking regex engine.

    A hostile pattern could keep it busy practically forever.
    """
    schema = {"properties": {"p": {"$ref": "#/$defs/p"}}, "$defs": {"p": {"patternProperties": {EVIL: {}}}}}
    with pytest.raises(ConfigurationError, match="unevaluatedProperties"):
        OutputSchema.of({**schema, "unevaluatedProperties": False})
    assert OutputSchema.of(schema).validate({"p": {"b": 1}}) == {"p": {"b": 1}}


pieces = st.sampled_from(["a", "b", "[ab]", "[^a]", ".", r"\d", "(?:ab|a)", "(a)", "a{2,3}", "x", "é", r"\."])
patterns = st.lists(st.tuples(pieces, st.sampled_from(["", "*", "+", "?", "*?"])), max_size=5).map(
    lambda parts: "".join(piece + ("" if piece.endswith("}") else times) for piece, times in parts)
)


@given(patterns, st.booleans(), st.text("abx1é.\n", max_size=8))
def test_ordinary_patterns_match_as_in_python(pattern: str, begins: bool, text: str) -> None:  # noqa: FBT001
    """A pattern may match anywhere in a string unless it is anchored."""
    anchored = f"^{pattern}" if begins else pattern
    assert compile_pattern(anchored).matches(text) == bool(re.search(anchored, text))


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from([1.0, "1"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.just("a"), inner),
)


@given(st.lists(json_values, max_size=4))
def test_item_uniqueness_follows_json_equality(items: list[Any]) -> None:
    """1 equals 1.0, but neither equals true."""

    def same(one: Any, two: Any) -> bool:
        if isinstance(one, bool) or isinstance(two, bool):
            return one is two
        if isinstance(one, list) and isinstance(two, list):
            return len(one) == len(two) and all(map(same, one, two))
        if isinstance(one, dict) and isinstance(two, dict):
            return one.keys() == two.keys() and all(same(one[key], two[key]) for key in one)
        return bool(one == two)

    unique = not any(same(one, earlier) for at, one in enumerate(items) for earlier in items[:at])
    schema = OutputSchema.of({"properties": {"p": {"uniqueItems": True}}})
    try:
        assert schema.validate({"p": items}) == {"p": items}
    except SchemaViolation:
        assert not unique
    else:
        assert unique
