"""Structured answer types, in every form that an application can pass."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Annotated, Any, Literal

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from flowdebate import DebateVerdict
from flowdebate.blocks.human.answers import check_answer
from flowdebate.errors import ConfigurationError, SchemaViolation
from flowdebate.models.output import OutputSchema, inline_definitions
from tests.ids import case_id

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    """A recursive model."""

    x: int
    children: list[Tree] = Field(default_factory=list)


@dataclass
class Knot:
    """A recursive dataclass."""

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
def test_the_json_schema_for_every_output_type_is_an_object(form: str) -> None:
    schema = OutputSchema.of(FORMS[form])
    assert schema.json_schema["type"] == "object"
    assert "$ref" not in schema.json_schema
    jsonschema.Draft202012Validator.check_schema(schema.json_schema)
    assert issubclass(schema.model, BaseModel)
    assert schema.name.isidentifier()
    if schema.model is not FORMS[form]:
        assert schema.model.model_json_schema()["type"] == "object"


@given(INTS, st.sampled_from(["a", "b"]))
def test_valid_answers_become_the_requested_type(x: int, tag: Any) -> None:
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
def test_json_schemas_are_enforced_as_in_jsonschema(value: Any) -> None:
    """Answers that jsonschema accepts are returned.

    For any other answer, `SchemaViolation` lists the problems, and no other error is ever raised.
    """
    valid = isinstance(value, dict) and jsonschema.Draft202012Validator(PLAIN).is_valid(value)
    schema = OutputSchema.of(PLAIN)
    if valid:
        assert schema.validate(value) == value
    else:
        with pytest.raises(SchemaViolation) as caught:
            schema.validate(value)
        assert caught.value.problems


@given(JSON | st.text(max_size=8) | st.binary(max_size=8))
def test_any_answer_is_valid_or_raises_a_violation(value: Any) -> None:
    for form in FORMS.values():
        schema = OutputSchema.of(form)
        with contextlib.suppress(SchemaViolation):
            schema.validate(value)


@given(st.lists(INTS, max_size=4))
def test_non_object_schemas_are_wrapped_in_an_object(values: list[int]) -> None:
    """Servers can only constrain objects, so any other value is wrapped in an object under the key `value`."""
    schema = OutputSchema.of(list[int])
    assert list(schema.json_schema["properties"]) == ["value"]
    assert schema.validate({"value": values}) == values
    with pytest.raises(SchemaViolation, match="value"):
        schema.validate({"value": "x"})


def test_a_violation_names_every_invalid_field() -> None:
    with pytest.raises(SchemaViolation) as caught:
        OutputSchema.of(Point).validate({"tag": "c"})
    assert [name for name, _ in caught.value.problems] == ["x", "tag"]
    with pytest.raises(SchemaViolation) as caught:
        OutputSchema.of(PLAIN).validate({"tag": "c", "y": 1})
    text = str(caught.value)
    assert "must satisfy required ['x']" in text
    assert "tag: must satisfy enum ['a', 'b']" in text
    assert "must satisfy additionalProperties False" in text


def test_recursive_types_are_validated_at_every_level() -> None:
    data = {"x": 1, "children": [{"x": 2, "children": []}]}
    assert OutputSchema.of(Tree).validate(data) == Tree(x=1, children=[Tree(x=2)])
    assert OutputSchema.of(Knot).validate({"value": data}) == Knot(1, [Knot(2)])
    with pytest.raises(SchemaViolation):
        OutputSchema.of(Tree).validate({"x": 1, "children": [{}]})
    jsonschema.Draft202012Validator(OutputSchema.of(Tree).json_schema).validate(data)


@pytest.fixture
def server() -> Iterator[tuple[str, list[str]]]:
    """Yield the address of a server that has schemas, and the list of paths requested from it."""
    paths: list[str] = []

    class Schemas(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"type": "integer"}')

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Schemas) as serving:
        thread = Thread(target=serving.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{serving.server_port}", paths
        serving.shutdown()
        thread.join(60)


@pytest.mark.parametrize(
    "part",
    [
        {"$id": "http://example.com/part", "$ref": "http://example.com/other"},
        {"$id": "http://example.com/part", "items": {"$ref": "#/$defs/none"}},
        {"$dynamicRef": "http://example.com/other"},
    ],
)
def test_subschemas_with_an_id_are_checked(part: dict[str, Any]) -> None:
    """Without this check, an invalid reference would cause an error only after the model has answered.

    The error would come from another library.
    """
    with pytest.raises(ConfigurationError, match="must not refer to anything outside the schema"):
        OutputSchema.of({"type": "object", "properties": {"a": part}})


def test_subschemas_with_an_id_can_be_recursive() -> None:
    """References inside the subschema are resolved relative to its id."""
    part = {"$id": "http://example.com/part", "$ref": "#/$defs/b", "$defs": {"b": {"type": "string"}}}
    schema = OutputSchema.of({"type": "object", "properties": {"a": part, "b": {"$ref": "http://example.com/part"}}})
    assert schema.validate({"a": "x", "b": "y"}) == {"a": "x", "b": "y"}
    with pytest.raises(SchemaViolation):
        schema.validate({"a": "x", "b": 5})


def nested_schema(levels: int) -> dict[str, Any]:
    """Return a schema with the given number of levels."""
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(levels - 1):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def chained_schema(length: int) -> dict[str, Any]:
    """Return a schema whose field is reached only through a chain of references."""
    links = {f"d{at}": {"$ref": f"#/$defs/d{at + 1}"} for at in range(length)}
    last = {f"d{length}": {"type": "string"}}
    return {"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": {**last, **links}}


ENDLESS: dict[str, dict[str, Any]] = {
    "the top": {"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}},
    "a field": {"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/a"}}},
    "two": {
        "properties": {"a": {"$ref": "#/$defs/a"}},
        "$defs": {"a": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}},
    },
    "a dependency": {"properties": {"a": {"dependentSchemas": {"x": {"$ref": "#/properties/a"}}}}},
    "an anchor": {"properties": {"a": {"$dynamicAnchor": "n", "if": {"$dynamicRef": "#n"}}}},
    "many levels": nested_schema(51),
    "too many levels to copy": nested_schema(2_000),
    "a long chain": chained_schema(51),
    "a chain of all": chained_schema(1_100),
}


@pytest.mark.parametrize("schema", ENDLESS.values(), ids=ENDLESS)
def test_an_endlessly_recursive_schema_is_rejected(schema: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"debate 'x': `output_schema` must be .* without endless references"):
        OutputSchema.of(schema, location="debate 'x'")
    if schema is not ENDLESS["too many levels to copy"]:  # no journal could store this schema
        with pytest.raises(ConfigurationError, match="without endless references"):
            check_answer(schema, '{"a": {}}', block="judge")


@pytest.mark.parametrize("schema", [ENDLESS["too many levels to copy"], ENDLESS["a chain of all"]])
def test_an_endless_schema_is_rejected_before_the_recursion_limit(schema: dict[str, Any]) -> None:
    depths = [0]

    def count(_frame: object, event: str, _argument: object) -> None:
        depths.append(depths[-1] + {"call": 1, "return": -1}.get(event, 0))

    sys.setprofile(count)
    try:
        with pytest.raises(ConfigurationError, match=r"endless references to itself .got \{"):
            OutputSchema.of(schema)
    finally:
        sys.setprofile(None)
    assert max(depths) < sys.getrecursionlimit() / 2


@pytest.mark.parametrize(
    "schema", [nested_schema(50), chained_schema(48), {"properties": {"a": {"items": {"$ref": "#"}}}}]
)
def test_a_finite_recursive_schema_is_accepted(schema: dict[str, Any]) -> None:
    """Recursion is allowed as long as the schema accepts a finite answer."""
    answer: dict[str, Any] = {"a": "x"} if "$defs" in schema else {"a": {"a": {}}}
    assert OutputSchema.of(schema).validate(answer) == answer
    assert check_answer(schema, answer, block="judge") == answer
    assert OutputSchema.of(schema).digest
    assert inline_definitions(schema)


@pytest.mark.parametrize("schema", [{"$id": 5}, {"$schema": 5}, {"type": 5}, {"properties": []}])
def test_an_invalid_schema_for_a_human_is_rejected(schema: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="a valid JSON Schema"):
        check_answer(schema, "{}", block="judge")


@pytest.mark.parametrize("reference", ["{url}/x.json", "file:///etc/hostname", "other.json", "#/$defs/none", "#none"])
@pytest.mark.parametrize("extra", [{}, {"$id": "http://example.com/mine"}], ids=["plain", "named"])
def test_external_references_are_rejected(reference: str, extra: dict[str, Any], server: tuple[str, list[str]]) -> None:
    """Anybody may have written the schema, so resolving a reference must neither contact a server nor read a file."""
    url, paths = server
    inner = {"$ref": reference.format(url=url)}
    schema = {"type": "object", "properties": {"x": {"items": {"anyOf": [inner]}}}, **extra}
    with pytest.raises(ConfigurationError, match="must not refer to anything outside the schema"):
        OutputSchema.of(schema, location="debate 'x'")
    with pytest.raises(ConfigurationError, match="must not refer to anything outside the schema"):
        check_answer(schema, '{"x": [1]}', block="judge")
    assert paths == []


@pytest.mark.parametrize("reference", ["#/$defs/n", "#n", "#", "http://json-schema.org/draft-07/schema#", "/mine#n"])
def test_internal_references_are_followed(reference: str) -> None:
    """References may use anchors, the schema's own id, or the metaschemas of JSON Schema."""
    schema = {
        "$id": "http://example.com/mine",
        "type": "object",
        "properties": {"x": {"$ref": reference}},
        "$defs": {"n": {"$anchor": "n", "type": "object"}},
    }
    assert OutputSchema.of(schema).validate({"x": {}}) == {"x": {}}
    with pytest.raises(SchemaViolation):
        OutputSchema.of(schema).validate({"x": 5})


def test_a_json_schema_can_have_definitions() -> None:
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


def test_an_output_schema_is_returned_unchanged() -> None:
    schema = OutputSchema.of(Point)
    assert OutputSchema.of(schema) is schema


def test_a_dict_passed_by_the_application_is_not_changed() -> None:
    definition: dict[str, Any] = {"properties": {"x": {"type": "integer"}}}
    schema = OutputSchema.of(definition)
    assert definition == {"properties": {"x": {"type": "integer"}}}
    definition["properties"]["x"]["type"] = "string"
    definition["required"] = ["y"]
    assert schema.validate({"x": 1}) == {"x": 1}


class Unfit:
    """A class that pydantic does not support."""


@pytest.mark.parametrize(
    "spec",
    [5, "str", object(), Unfit, Unfit(), lambda: 1, len, {"type": "array"}, {"type": "nonsense"}, {"properties": 5},
     {"type": ["object", "null"]}, {"required": "x"}, {"$ref": 5}, [], (), ...],
    ids=case_id,
)  # fmt: skip
def test_unusable_output_types_are_rejected(spec: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        OutputSchema.of(spec, location="debate 'rent'", field="output_schema")
    assert (caught.value.location, caught.value.field) == ("debate 'rent'", "output_schema")
