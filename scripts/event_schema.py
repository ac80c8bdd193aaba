"""Generate published descriptions of events: `src/flowdebate/events.schema.json` and a table in `docs/service.md`.

`make event-schema` (`python scripts/event_schema.py`) writes both after events have changed.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
from dataclasses import fields
from functools import cache
from itertools import pairwise
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any, Literal, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.alias_generators import to_camel
from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from flowdebate._util.json_data import sparse_defaults
from flowdebate.events import EVENT_FORMAT, Event

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from flowdebate.events import BaseEvent

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = ROOT / "src" / "flowdebate" / "events.schema.json"
PAGE = ROOT / "docs" / "service.md"
MARKS = "<!-- table of events: make event-schema -->\n", "<!-- end of the table -->\n"

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


class Custom(BaseModel):
    """A value that the application gave to `ctx.emit`."""

    kind: Literal["custom"]
    name: str
    """The name of the value's class."""
    value: Any = Field(None, exclude_if=bool)
    """The value; missing if it is not JSON data, or too large."""
    path: str = Field("", exclude_if=bool)
    """The place of the block that emitted it, if the application's class is derived from `BaseEvent`."""
    at: float = Field(0.0, exclude_if=bool)
    """Seconds since the epoch, likewise."""


def event_kinds() -> tuple[type[BaseEvent], ...]:
    """Return all event classes, in the order of their union."""
    return get_args(Event)


def generate(kinds: Iterable[type[BaseEvent]] | None = None) -> dict[str, Any]:
    """Return the JSON Schema for events of these `kinds` (None: all events), and for custom ones."""
    event_types = event_kinds() if kinds is None else kinds
    models: list[tuple[type[BaseModel], str]] = [(_model_of(kind), kind.kind) for kind in event_types]
    models.append((Custom, "custom"))
    names, schema = models_json_schema(
        [(model, "serialization") for model, _ in models], by_alias=True, schema_generator=_Schema
    )
    refs = {kind: names[model, "serialization"]["$ref"] for model, kind in models}
    return {
        "$schema": _DIALECT,
        "$id": f"urn:flowdebate:events:{EVENT_FORMAT}",
        "title": f"Events of flowdebate, format {EVENT_FORMAT}",
        "description": "Readers skip kinds and keys that they do not know: later versions of this format have more.",
        "type": "object",
        "required": ["kind"],
        "oneOf": [{"$ref": ref} for ref in refs.values()],
        "discriminator": {"propertyName": "kind", "mapping": refs},
        "$defs": schema["$defs"],
    }


def schema_text() -> str:
    """Return the text of the published file."""
    return json.dumps(generate(), ensure_ascii=False, indent=2) + "\n"


def table() -> str:
    """Return the Markdown table for the page about events."""
    rows = [f"| `{kind.__name__}` | `{kind.kind}` | {_headline(kind)} |" for kind in event_kinds()]
    return "\n".join(["| Class | `kind` | What happened |", "|---|---|---|", *rows, ""])


def page_text(text: str) -> str:
    """Return the text of the page with the current table."""
    before, _, rest = text.partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    return f"{before}{MARKS[0]}\n{table()}\n{MARKS[1]}{after}"


def _model_of(kind: type[BaseEvent]) -> type[BaseModel]:
    """Return the model with the JSON Schema of the event's wire format."""
    types = get_type_hints(kind, localns=_names_of(sys.modules[kind.__module__]), include_extras=True)
    declared: dict[str, Any] = {"kind": (Literal[kind.kind], ...)}
    for item in fields(kind):
        default = Field(item.default, exclude_if=bool) if item.metadata.get("sparse") else ...
        declared[item.name] = (types[item.name], default)
    config = ConfigDict(alias_generator=to_camel, arbitrary_types_allowed=True)
    model = create_model(kind.__name__, __config__=config, __doc__=inspect.getdoc(kind), **declared)
    _EVENTS[model] = kind
    return model


_EVENTS: dict[type[BaseModel], type[BaseEvent]] = {}


@cache
def _names_of(module: Any) -> Mapping[str, Any]:  # noqa: ANN401 - a module
    """Return a module's names, including those imported only for type checkers."""
    names = dict(vars(module))
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            exec(compile(ast.Module(node.body, []), module.__name__, "exec"), names)  # noqa: S102 - our own imports
    return names


class _Schema(GenerateJsonSchema):
    """Schema generator that describes each property by its field's docstring, and allows further keys in objects."""

    def model_schema(self, schema: Any) -> dict[str, Any]:  # noqa: ANN401 - pydantic's
        result = super().model_schema(schema)
        result.pop("additionalProperties", None)
        return _described(result, _EVENTS.get(schema["cls"], schema["cls"]))

    def dataclass_schema(self, schema: Any) -> dict[str, Any]:  # noqa: ANN401 - pydantic's
        result = super().dataclass_schema(schema)
        sparse = {to_camel(name) for name in sparse_defaults(schema["cls"])}
        result["required"] = [key for key in result.get("required", ()) if key not in sparse]
        return _described(result, schema["cls"])

    def field_is_required(self, field: Any, total: bool) -> bool:  # noqa: ANN401, ARG002, FBT001 - pydantic's
        return "serialization_exclude_if" not in field and not field.get("serialization_exclude")

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ANN401, ARG002 - pydantic's
        return False


def _described(schema: dict[str, Any], kind: type[Any]) -> dict[str, Any]:
    texts = {to_camel(name): _of_json(text) for name, text in field_texts(kind).items()}
    required = schema.get("required", ())
    for key, part in schema.get("properties", {}).items():
        if key in required:
            part.pop("default", None)
        if key in texts:
            part["description"] = texts[key]
    return {"title": schema.pop("title"), **schema, "description": _of_json(inspect.getdoc(kind) or "")}


def _of_json(text: str) -> str:
    """Convert a docstring to one line, using JSON terms."""
    words = {"None": "null", "True": "true", "False": "false"}
    return re.sub(r"\b(?:None|True|False)\b", lambda word: words[word[0]], " ".join(text.split()))


def field_texts(kind: type[Any]) -> Mapping[str, str]:
    """Return the documented fields of a class and its bases, with their docstrings."""
    texts: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if base.__module__ not in {"builtins", "enum", "pydantic.main", "typing"}:
            texts |= _own_texts(base)
    return texts


@cache
def _own_texts(kind: type[Any]) -> Mapping[str, str]:
    (declared,) = ast.parse(dedent(inspect.getsource(kind))).body
    texts: dict[str, str] = {}
    for field, text in pairwise(ast.iter_child_nodes(declared)):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(said))):
                texts[name] = said
            case _:
                pass
    return texts


def _headline(kind: type[BaseEvent]) -> str:
    """Return the first clause of a docstring, marked if it is for an item or a live event."""
    headline = (inspect.getdoc(kind) or "").split("\n\n")[0].replace("\n", " ").removesuffix(".")
    clause = re.sub(r"; (?![^(]*\)).*", "", headline)
    mark = re.search(r" \([^)]*(?:item|live only)\)", headline)
    return clause if mark is None or mark[0] in clause else clause + mark[0]


if __name__ == "__main__":
    SCHEMA.write_text(schema_text(), "utf-8")
    PAGE.write_text(page_text(PAGE.read_text("utf-8")), "utf-8")
