"""What a structured answer must be, in every form in which an application may say it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from flowdebate import DebateVerdict
from flowdebate.errors import ConfigurationError, SchemaViolation
from flowdebate.models.output import OutputSchema
from tests.ids import shown

INTS = st.integers(-(2**53), 2**53)


class Point(BaseModel):
    """A pydantic model."""

    x: int
    tag: Literal["a", "b"] = "a"


@dataclass
class Place:
    """A dataclass."""

    x: int
    tag: Literal["a", "b"] = "a"


class Spot(TypedDict):
    """A TypedDict."""

    x: int
    tag: Literal["a", "b"]


class Tree(BaseModel):
    """A model that contains itself."""

    x: int
    children: list[Tree] = Field(default_factory=list)


@dataclass
class Knot:
    """A dataclass that contains itself."""

    x: int
    children: list[Knot] = field(default_factory=list)


PLAIN: dict[str, Any] = {
    "title": "A point!",
    "type": "object",
    "properties": {"x": {"type": "integer"}, "tag": {"enum": ["a", "b"]}},
    "required": ["x"],
    "additionalProperties": False,
}

FORMS: dict[str, Any] = {
    "pydantic": Point,
    "dataclass": Place,
    "TypedDict": Spot,
    "JSON Schema": PLAIN,
    "recursive": Tree,
    "recursive dataclass": Knot,
    "list": list[int],
    "int": int,
    "union": Point | None,
    "literal": Literal["a", "b"],
    "annotated": Annotated[int, Field(ge=1)],
    "dict": dict[str, int],
    "str": str,
    "verdict": DebateVerdict,
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_has_a_json_schema_whose_top_is_an_object(form: str) -> None:
    """A valid one, that a server can be asked to constrain its answer with; so does its model, where it is ours."""
    schema = OutputSchema.of(FORMS[form])
    assert schema.json_schema["type"] == "object"
    assert "$ref" not in schema.json_schema
    jsonschema.Draft202012Validator.check_schema(schema.json_schema)
    assert issubclass(schema.model, BaseModel)
    assert schema.name.isidentifier()
    if schema.model is not FORMS[form]:
        assert schema.model.model_json_schema()["type"] == "object"


@given(INTS, st.sampled_from(["a", "b"]))
def test_what_fits_is_given_back_as_what_was_asked_for(x: int, tag: Any) -> None:
    """From data, from JSON text, from an instance."""
    data = {"x": x, "tag": tag}
    for form, expected in ((Point, Point(x=x, tag=tag)), (Place, Place(x, tag)), (Spot, data), (PLAIN, data)):
        schema = OutputSchema.of(form)
        for given_as in (data, f'{{"x": {x}, "tag": "{tag}"}}', f'{{"x": {x}, "tag": "{tag}"}}'.encode(), expected):
            output = schema.validate(given_as)
            assert output == expected
            assert type(output) is type(expected)


JSON = st.recursive(
    st.none() | st.booleans() | INTS | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["x", "tag", "y", ""]), inner, max_size=3)
    ),
)


@given(JSON)
def test_a_json_schema_is_held_to_as_jsonschema_understands_it(value: Any) -> None:
    """What passes is valid, what does not is a SchemaViolation with its problems; nothing else is ever raised."""
    valid = isinstance(value, dict) and jsonschema.Draft202012Validator(PLAIN).is_valid(value)
    schema = OutputSchema.of(PLAIN)
    if valid:
        assert schema.validate(value) == value
    else:
        with pytest.raises(SchemaViolation) as caught:
            schema.validate(value)
        assert caught.value.problems


@given(JSON | st.text(max_size=8) | st.binary(max_size=8))
def test_whatever_an_answer_is_it_fits_or_is_a_violation(value: Any) -> None:
    """For every form of schema."""
    for form in FORMS.values():
        schema = OutputSchema.of(form)
        with contextlib.suppress(SchemaViolation):
            schema.validate(value)


@given(st.lists(INTS, max_size=4))
def test_what_is_no_object_is_wrapped_in_one(values: list[int]) -> None:
    """Since servers constrain objects only: under `value`, and unwrapped again."""
    schema = OutputSchema.of(list[int])
    assert list(schema.json_schema["properties"]) == ["value"]
    assert schema.validate({"value": values}) == values
    with pytest.raises(SchemaViolation, match="value"):
        schema.validate({"value": "x"})


def test_a_violation_names_every_field_that_does_not_fit() -> None:
    """With what was found there."""
    with pytest.raises(SchemaViolation) as caught:
        OutputSchema.of(Point).validate({"tag": "c"})
    assert [name for name, _ in caught.value.problems] == ["x", "tag"]
    with pytest.raises(SchemaViolation) as caught:
        OutputSchema.of(PLAIN).validate({"tag": "c", "y": 1})
    text = str(caught.value)
    assert "must satisfy required ['x']" in text
    assert "tag: must satisfy enum ['a', 'b']" in text
    assert "must satisfy additionalProperties False" in text


def test_a_recursive_type_is_validated_all_the_way_down() -> None:
    """Though its schema refers to itself."""
    data = {"x": 1, "children": [{"x": 2, "children": []}]}
    assert OutputSchema.of(Tree).validate(data) == Tree(x=1, children=[Tree(x=2)])
    assert OutputSchema.of(Knot).validate({"value": data}) == Knot(1, [Knot(2)])
    with pytest.raises(SchemaViolation):
        OutputSchema.of(Tree).validate({"x": 1, "children": [{}]})
    jsonschema.Draft202012Validator(OutputSchema.of(Tree).json_schema).validate(data)


def test_a_json_schema_may_have_definitions() -> None:
    """They are told as they were given, and held to; two schemas are told apart."""
    schema = {
        "type": "object",
        "properties": {"side": {"$ref": "#/$defs/side"}},
        "$defs": {"side": {"enum": ["for", "against"]}},
    }
    output = OutputSchema.of(schema)
    assert output.json_schema == {"title": "Output", **schema}
    assert output.validate('{"side": "for"}') == {"side": "for"}
    with pytest.raises(SchemaViolation, match="must satisfy enum"):
        output.validate('{"side": "neither"}')
    assert output.digest == OutputSchema.of(schema).digest != OutputSchema.of({**schema, "title": "Side"}).digest


def test_a_schema_is_a_schema() -> None:
    """`of` gives it back."""
    schema = OutputSchema.of(Point)
    assert OutputSchema.of(schema) is schema


def test_the_application_s_dict_is_not_changed() -> None:
    """And may change later without changing what was asked for."""
    mine: dict[str, Any] = {"properties": {"x": {"type": "integer"}}}
    schema = OutputSchema.of(mine)
    assert mine == {"properties": {"x": {"type": "integer"}}}
    mine["properties"]["x"]["type"] = "string"
    mine["required"] = ["y"]
    assert schema.validate({"x": 1}) == {"x": 1}


class Unfit:
    """Nothing that pydantic knows."""


@pytest.mark.parametrize(
    "spec",
    [5, "str", object(), Unfit, Unfit(), lambda: 1, len, {"type": "array"}, {"type": "nonsense"}, {"properties": 5},
     {"type": ["object", "null"]}, {"required": "x"}, {"$ref": 5}, [], (), ...],
    ids=shown,
)  # fmt: skip
def test_what_nothing_can_be_held_to_is_refused(spec: Any) -> None:
    """ConfigurationError with where, field, and what is allowed."""
    with pytest.raises(ConfigurationError) as caught:
        OutputSchema.of(spec, where="debate 'rent'", field="output_schema")
    assert (caught.value.where, caught.value.field) == ("debate 'rent'", "output_schema")
