"""Tests for `function_schema`, which turns a signature and a docstring into a tool schema."""

from __future__ import annotations

import enum
import functools
import inspect
import json
from dataclasses import dataclass
from typing import Any, Literal, Optional, Union

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from pydantic import BaseModel
from typing_extensions import TypedDict

from flowdebate import function_schema
from flowdebate.blocks.functions import tool
from flowdebate.errors import ConfigurationError


class AgentName(enum.Enum):
    """Whom to hand over to."""

    PROPONENT = "proponent"
    OPPONENT = "opponent"
    NEUTRAL = "neutral"


def handoff(response: str, next_agent_name: AgentName) -> None:
    """
    Debate response and transition to the next agent.

    Args:
        response: The debate response based on the previous debate history (1-2 concise sentences).
            Start response with the agent's name (e.g. "Proponent: <response>").
        next_agent_name: The next agent name to transition to. Always transition to a different agent.

    Returns:
        Return nothing as this function is used for guiding the LLM to transition to the
        next agent only. We will not use the return value.
    """  # noqa: D212 - as it stands where the wanted schema comes from


WANTED = {
    "type": "function",
    "function": {
        "name": "handoff",
        "description": "Debate response and transition to the next agent.",
        "parameters": {
            "type": "object",
            "properties": {
                "response": {
                    "type": "string",
                    "description": "The debate response based on the previous debate history (1-2 concise sentences). "
                    'Start response with the agent\'s name (e.g. "Proponent: <response>").',
                },
                "next_agent_name": {
                    "type": "string",
                    "description": "The next agent name to transition to. Always transition to a different agent.",
                    "enum": ["proponent", "opponent", "neutral"],
                },
            },
            "required": ["response", "next_agent_name"],
        },
    },
}


def contains(got: object, expected: object) -> bool:
    """Return True if `got` contains everything in `expected`."""
    if isinstance(expected, dict):
        return isinstance(got, dict) and all(key in got and contains(got[key], expected[key]) for key in expected)
    return got == expected


def test_handoff_schema_is_complete() -> None:
    definition = function_schema(handoff).to_openai()
    assert contains(definition, WANTED)
    parameters = definition["function"]["parameters"]
    assert set(parameters) - set(WANTED["function"]["parameters"]) == {"additionalProperties"}  # type: ignore[index]
    assert list(parameters["properties"]) == ["response", "next_agent_name"]
    assert json.loads(json.dumps(definition)) == definition


def schema_of_parameter(annotation: Any, **default: Any) -> dict[str, Any]:
    """Return the schema of a parameter with this annotation."""

    def ask(x: Any) -> None:
        """Ask."""

    signature = inspect.signature(ask)
    parameter = signature.parameters["x"].replace(annotation=annotation, **default)
    ask.__signature__ = signature.replace(parameters=[parameter])  # type: ignore[attr-defined]
    property_schema: dict[str, Any] = function_schema(ask).to_openai()["function"]["parameters"]["properties"]["x"]
    return property_schema


class Side(enum.StrEnum):
    """A side."""

    FOR = "for"


class Level(enum.IntEnum):
    """A level."""

    LOW = 1
    HIGH = 2


class Point(BaseModel):
    """A point."""

    side: Side
    weight: int = 1


class Source(TypedDict):
    """A source."""

    url: str


@dataclass
class Place:
    """A place."""

    city: str


class Tree(BaseModel):
    """A tree."""

    children: list[Tree] = []


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (list, {"type": "array"}),
        (dict, {"type": "object"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (dict[str, bool], {"type": "object", "additionalProperties": {"type": "boolean"}}),
        (None, {"type": "null"}),
        (Any, {}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal["a"], {"type": "string", "enum": ["a"]}),
        (Literal[1, "a"], {"enum": [1, "a"]}),
        (AgentName, {"type": "string", "enum": ["proponent", "opponent", "neutral"]}),
        (Side, {"type": "string", "enum": ["for"]}),
        (Level, {"type": "integer", "enum": [1, 2]}),
        (Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}),  # noqa: UP045 - also in the old spelling
        (Union[int, str], {"anyOf": [{"type": "integer"}, {"type": "string"}]}),  # noqa: UP007
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        ("AgentName", {"type": "string", "enum": ["proponent", "opponent", "neutral"]}),
        ("list[AgentName]", {"type": "array"}),
        (Point, {"type": "object", "properties": {"side": {"type": "string", "enum": ["for"]}}, "required": ["side"]}),
        (Source, {"type": "object", "properties": {"url": {"type": "string"}}}),
        (Place, {"type": "object", "properties": {"city": {"type": "string"}}}),
    ],
    ids=str,
)
def test_types_become_json_schema_types(annotation: Any, expected: dict[str, Any]) -> None:
    schema = schema_of_parameter(annotation)
    assert contains(schema, expected)
    assert "$ref" not in json.dumps(schema)


class Film(BaseModel):
    """A film."""

    title: str
    shown_at: Literal["title"] = "title"


def watch(film: Film, title: str = "title") -> None:
    """Watch a film."""


def test_titles_are_removed() -> None:
    """A generated title only repeats the name and costs tokens. Parameters and values called "title" are kept."""
    parameters = function_schema(watch).to_openai()["function"]["parameters"]
    film = {
        "description": "A film.",
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "shown_at": {"type": "string", "enum": ["title"], "default": "title"},
        },
        "required": ["title"],
    }
    assert parameters == {
        "type": "object",
        "properties": {"film": film, "title": {"type": "string", "default": "title"}},
        "required": ["film"],
        "additionalProperties": False,
    }


def test_recursive_types_keep_their_definition() -> None:
    parameters = function_schema(lambda_free_tree).parameters
    assert set(parameters["$defs"]) == {"Tree"}
    assert parameters["properties"]["tree"]["$ref"] == "#/$defs/Tree"


def lambda_free_tree(tree: Tree) -> None:
    """Take a tree."""


def without(word, count=3, ratio=0.5, loud=False, tags=(), note=None, names=[], table={}):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201, B006, FBT002
    """Take parameters without annotations."""
    return word, count, ratio, loud, tags, note, names, table


def test_defaults_determine_missing_annotations() -> None:
    """A parameter with neither an annotation nor a default is treated as a string."""
    properties = function_schema(without).parameters["properties"]
    assert {name: properties[name].get("type") for name in properties} == {
        "word": "string",
        "count": "integer",
        "ratio": "number",
        "loud": "boolean",
        "tags": "string",
        "note": None,
        "names": "array",
        "table": "object",
    }
    assert function_schema(without).parameters["required"] == ["word"]


def optional(a: str, b: str = "x", c: str | None = None, *, d: int, e: int = 0) -> None:
    """Take some."""


def test_parameters_with_a_default_are_optional() -> None:
    """A nullable parameter without a default is still required."""
    parameters = function_schema(optional).parameters
    assert parameters["required"] == ["a", "d"]
    assert [parameters["properties"][name].get("default", "-") for name in "abcde"] == ["-", "x", None, "-", 0]


def described(first: str, second: int = 0, third: str = "") -> None:  # noqa: D417 - on purpose
    """Say what it does
    in two lines.

    And say more: with a colon.

    Note:
        Be careful.

    Args:
        first: What comes first,
            and goes on,

            after a gap too.
        second (int): Its type stands here: see there. Defaults to 0.

    Raises:
        ValueError: Never.
    """  # noqa: D205


def test_description_is_the_text_before_the_arguments() -> None:
    spec = function_schema(described)
    assert spec.description == snapshot("""\
Say what it does
in two lines.

And say more: with a colon.

Note:
    Be careful.\
""")
    properties = spec.parameters["properties"]
    assert properties["first"]["description"] == "What comes first, and goes on, after a gap too."
    assert properties["second"]["description"] == "Its type stands here: see there. Defaults to 0."
    assert "description" not in properties["third"]


def nothing_said(x: int) -> None: ...


def only_args(x: int) -> None:
    """Args:
    x: The number.
    """  # noqa: D205


class Desk:
    """Something with a method."""

    def ask(self, question: str) -> str:
        """Ask the desk."""
        return question


def test_methods_partials_and_undocumented_functions_have_schemas() -> None:
    """A method's schema omits `self`, and a partial's schema contains only the arguments still to be passed."""
    assert function_schema(Desk().ask).parameters["required"] == ["question"]
    assert function_schema(nothing_said).description == ""
    part = functools.partial(optional, "x", d=1)
    functools.update_wrapper(part, optional)
    assert function_schema(part).name == "optional"


def test_unknown_annotations_raise_an_error() -> None:
    def strange(x: Unknown) -> None:  # type: ignore[name-defined]  # noqa: F821
        """Take something."""

    with pytest.raises(ConfigurationError, match="Unknown"):
        function_schema(strange)


@given(st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=5, unique=True))
def test_arguments_are_validated_against_the_enum(names: list[str]) -> None:
    def hand_over(to: str) -> None:
        """Hand over."""

    hand_over.__annotations__["to"] = Literal[tuple(names)]
    tool_definition = tool(hand_over)
    assert tool_definition.spec.parameters["properties"]["to"]["enum"] == names
    assert [tool_definition.arguments.model_validate({"to": name}).model_dump(by_alias=True) for name in names] == [
        {"to": name} for name in names
    ]
