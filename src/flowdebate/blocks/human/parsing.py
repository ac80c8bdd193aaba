"""Parsing of human answers: text, JSON, or the only required field; validated field by field."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NoReturn

from pydantic.alias_generators import to_camel

from flowdebate._util.text import LONGEST_ARGUMENT, clean_data, clean_text, is_blank
from flowdebate.blocks.human.prompt import kind_of
from flowdebate.errors import OutputError, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def parse_text(answer: object, *, block: str) -> str:
    """Free text: valid Unicode that is not blank, at most as long as an argument; else OutputError."""
    if not isinstance(answer, str):
        raise OutputError(block, "text", [("", f"got a {type(answer).__name__}")])
    text = clean_text(str(answer))
    if is_blank(text):
        raise OutputError(block, "text", [("", "got blank text")])
    if len(text) > LONGEST_ARGUMENT:
        problem = f"has {len(text):,} characters, and may have {LONGEST_ARGUMENT:,}"
        raise OutputError(block, "text", [("", problem)])
    return text


def parse_data(answer: object, schema: Mapping[str, Any], *, block: str) -> Any:  # noqa: ANN401 - JSON data
    """`answer` as data for `schema`: JSON text is parsed, and a bare value is that of the only required field.

    Keys may be in snake_case or camelCase. OutputError for text that is not JSON if several fields are required.

    >>> parse_data("ann", {"properties": {"choice": {"type": "string"}}, "required": ["choice"]}, block="vote")
    {'choice': 'ann'}
    """
    data = _read(answer, schema, block) if isinstance(answer, str) else answer
    only = only_field(schema)
    if only is not None and isinstance(data, (str, int, float, list)):
        data = {only: data}
    if isinstance(data, dict):
        data = _named(data, set(_names(schema)))
    return clean_data(data)


def only_field(schema: Mapping[str, Any]) -> str | None:
    """The only required field; None if there is none, or more than one."""
    required = schema.get("required", ())
    return required[0] if len(required) == 1 else None


def checked_against(schema: Mapping[str, Any], answer: object, *, block: str) -> Any:  # noqa: ANN401 - JSON data
    """`answer` as data that satisfies `schema`; OutputError names each invalid field."""
    from flowdebate.models.output import validator_of

    data = parse_data(answer, schema, block=block)
    validator = validator_of(schema, where=block, field="schema of the answer")
    known = schema.get("$defs", {})
    problems = dict.fromkeys(problem for error in validator.iter_errors(data) for problem in _problems(error, known))
    if problems:
        raise OutputError(block, f"a {schema.get('title', 'value')}", problems)
    return data


def _problems(error: Any, known: Mapping[str, Any]) -> list[tuple[str, str]]:  # noqa: ANN401 - jsonschema's own
    """The invalid fields, each with its problem."""
    path = [str(part) for part in error.absolute_path]
    if error.validator == "required":
        return [(".".join([*path, name]), "is missing") for name in error.validator_value if name not in error.instance]
    if error.validator in ("anyOf", "oneOf", "enum", "const", "type"):
        return [(".".join(path), f"must be {kind_of(error.schema, known)}, got {shown(error.instance)}")]
    return [(".".join(path), error.message)]


def _read(text: str, schema: Mapping[str, Any], block: str) -> Any:  # noqa: ANN401 - JSON data
    if len(text) > LONGEST_ARGUMENT:
        problem = f"has {len(text):,} characters, and may have {LONGEST_ARGUMENT:,}"
        raise OutputError(block, "an answer", [("", problem)])
    only = only_field(schema)
    is_text = only is not None and _is_text(schema["properties"][only], schema.get("$defs", {}))
    try:
        data = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        if is_text:
            return parse_text(text, block=block)
        fields = ", ".join(schema.get("properties", {}))
        raise OutputError(block, "JSON", [("", f"got other text; the fields are {fields}")]) from None
    return data if isinstance(data, dict) or not is_text else text


def _refuse(name: str) -> NoReturn:
    message = f"{name} is not a JSON number"
    raise ValueError(message)


def _is_text(part: Mapping[str, Any], known: Mapping[str, Any]) -> bool:
    if "$ref" in part:
        return _is_text(known.get(part["$ref"].rpartition("/")[2], {}), known)
    return part.get("type") == "string" or all(isinstance(choice, str) for choice in part.get("enum", (None,)))


def _named(data: Any, names: set[str]) -> Any:  # noqa: ANN401 - JSON data
    """`data` with its keys in the style of the schema."""
    if isinstance(data, dict):
        return {_key(key, names): _named(value, names) for key, value in data.items()}
    return [_named(item, names) for item in data] if isinstance(data, list) else data


def _key(key: Any, names: set[str]) -> Any:  # noqa: ANN401 - a dict of the application may have any
    if not isinstance(key, str) or key in names:
        return key
    camel = to_camel(key)
    return camel if camel in names else key


def _names(part: object) -> Iterator[str]:
    """The names of all fields of a schema, at any depth."""
    if isinstance(part, dict):
        properties = part.get("properties")
        if isinstance(properties, dict):
            yield from properties
        for inner in part.values():
            yield from _names(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from _names(inner)
