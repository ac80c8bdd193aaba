"""Schemas for structured answers: one class for pydantic models, other types and JSON Schemas."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy, deepcopy
from functools import cached_property, lru_cache
from hashlib import blake2b
from inspect import isroutine
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    PydanticSchemaGenerationError,
    TypeAdapter,
    ValidationError,
    create_model,
)
from pydantic_core import from_json, to_json

from flowdebate._text import is_deeper, problems_of, short_repr
from flowdebate._util.wire import WireModel, share_fields_set
from flowdebate.errors import ConfigurationError, SchemaViolation
from flowdebate.models.json_schema import (
    LINEAR,
    bounded,
    find_errors,
    find_unbounded_pattern,
    meta_registry,
)

if TYPE_CHECKING:
    import jsonschema
    from referencing._core import Resolver


class OutputSchema:
    """Schema for a structured answer.

    `OutputSchema.of` accepts a pydantic model, a dataclass, a TypedDict, any other type supported by pydantic, or a
    JSON Schema as a dict (checked with `jsonschema`). `model` is always a pydantic model, for libraries that require
    one; `validate` returns a value of the type requested by the application.

    >>> OutputSchema.of({"type": "object", "properties": {"n": {"type": "integer"}}}).validate({"n": 1})
    {'n': 1}
    >>> OutputSchema.of(list[int]).validate('{"value": [1, 2]}')
    [1, 2]
    """

    def __init__(self, model: type[BaseModel], *, unwrap: str | None = None) -> None:
        self.model = model
        self.synonyms: Mapping[str, str] = {}
        """The schema's choices, keyed by the synonyms accepted in answers."""
        self._unwrap = unwrap

    @classmethod
    def of(cls, spec: object, *, location: str = "output schema", field: str = "output_schema") -> OutputSchema:
        """Build the schema for `spec`; raise ConfigurationError if `spec` cannot be used to validate data."""
        if isinstance(spec, OutputSchema):
            return spec
        if isinstance(spec, type) and issubclass(spec, BaseModel):
            return _schema_of_model(spec)
        if isinstance(spec, Mapping):
            return cls(_model_of_json_schema(spec, location, field), unwrap="root")
        return _schema_of_type(spec, location, field)

    @property
    def name(self) -> str:
        """Name of the schema, in a form accepted by providers."""
        return self.model.__name__

    @cached_property
    def json_schema(self) -> dict[str, Any]:
        """JSON Schema with an object at its top level."""
        return _with_object_root(self.model.model_json_schema())

    @cached_property
    def digest(self) -> str:
        """Hash that identifies the schema."""
        return blake2b(to_json(self.json_schema, serialize_unknown=True), digest_size=16).hexdigest()

    def with_synonyms(self, synonyms: Mapping[str, str]) -> OutputSchema:
        """Copy this schema so that each key of `synonyms` is accepted in place of the choice it maps to."""
        assert self.json_schema  # noqa: S101 - computed once for all copies
        copied = copy(self)
        copied.synonyms = {**self.synonyms, **synonyms}
        return copied

    def dump(self, value: Any, *, fallback: Callable[[Any], Any] | None = None) -> Any:  # noqa: ANN401 - what `validate` gave
        """Convert a validated `value` to JSON data accepted by `validate`; `fallback` converts non-JSON values."""
        model_value = value if self._unwrap is None else self.model.model_construct(**{self._unwrap: value})
        return model_value.model_dump(mode="json", by_alias=True, exclude_unset=self._unwrap is None, fallback=fallback)

    def validate(self, value: object) -> Any:  # noqa: ANN401 - the application's own type
        """Validate JSON text, plain data or an instance as the requested type; raise SchemaViolation on failure."""
        try:
            if isinstance(value, (str, bytes)):
                _refuse_infinity(value)
                checked = self.model.model_validate_json(value)
            else:
                bare = self._unwrap == "value" and not (isinstance(value, Mapping) and set(value) == {"value"})
                checked = self.model.model_validate({"value": value} if bare else value)
        except ValidationError as error:
            answer = value if isinstance(value, str) else None
            raise SchemaViolation(problems_of(error, got=False), answer=answer) from None
        if isinstance(checked, WireModel):
            share_fields_set(checked)
        return checked if self._unwrap is None else getattr(checked, self._unwrap)


# cached, because building a model's JSON Schema takes longer than a whole debate that needs no schema
@lru_cache(maxsize=256)
def _schema_of_model(model: type[BaseModel]) -> OutputSchema:
    return OutputSchema(model)


def _refuse_infinity(text: str | bytes) -> None:
    """Raise SchemaViolation if `text` contains NaN or Infinity, which pydantic accepts as floats."""
    if (b"NaN" in text or b"Infinity" in text) if isinstance(text, bytes) else ("NaN" in text or "Infinity" in text):
        with suppress(ValueError):  # pydantic reports all other problems
            from_json(text, allow_inf_nan=True)
            try:
                from_json(text, allow_inf_nan=False)
            except ValueError:
                answer = text if isinstance(text, str) else None
                raise SchemaViolation([("", "NaN and Infinity are not JSON numbers")], answer=answer) from None


def _schema_of_type(spec: Any, location: str, field: str) -> OutputSchema:  # noqa: ANN401 - any type form
    from pydantic import (
        RootModel,
    )  # imported lazily: the import builds a validator, and to do so pydantic searches all packages

    problem = "must be a pydantic model, a type that pydantic can validate, or a JSON Schema as a dict"
    if isroutine(spec) or isinstance(spec, str):  # pydantic would call a function or evaluate a string
        raise ConfigurationError(location, field, spec, problem)
    try:
        schema = TypeAdapter(spec).json_schema()
    except (PydanticSchemaGenerationError, ValueError, TypeError, AttributeError) as error:
        raise ConfigurationError(location, field, spec, problem) from error
    name = re.sub(r"\W", "", getattr(spec, "__name__", "")) or "Output"
    if schema.get("type") == "object":
        return OutputSchema(type(name, (_ObjectRoot, RootModel[spec]), {"__module__": __name__}), unwrap="root")
    return OutputSchema(create_model(name, value=(spec, ...)), unwrap="value")


class _ObjectRoot:
    """Mixin for pydantic models that resolves a top-level reference in their JSON Schema."""

    @classmethod
    def model_json_schema(cls, *args: object, **options: object) -> dict[str, Any]:
        return _with_object_root(super().model_json_schema(*args, **options))  # type: ignore[misc]


def _with_object_root(schema: dict[str, Any]) -> dict[str, Any]:
    """Replace a top-level reference in `schema` with its definition, because servers require an object."""
    reference = schema.get("$ref")
    definitions = dict(schema.get("$defs", {}))
    name = str(reference).removeprefix("#/$defs/")
    if not isinstance(reference, str) or name not in definitions:
        return schema
    top = {**definitions[name], **{key: value for key, value in schema.items() if key not in {"$ref", "$defs"}}}
    if reference not in str([top, *(value for key, value in definitions.items() if key != name)]):
        del definitions[name]  # nothing else refers to it
    return {**top, "$defs": definitions} if definitions else top


def _model_of_json_schema(json_schema: Mapping[str, Any], location: str, field: str) -> type[BaseModel]:
    from pydantic import RootModel

    validator = validator_of(json_schema, location=location, field=field)
    schema = validator.schema
    if schema.get("type", "object") != "object":
        raise ConfigurationError(
            location, field, schema, 'must be a JSON Schema with "type": "object" at the top level'
        )

    def check(value: object) -> object:
        problems = [
            f"{'.'.join(map(str, problem.absolute_path)) or 'the answer'}: {_requirement(problem)}"
            for problem in find_errors(validator, value)
        ]
        if problems:
            raise ValueError("; ".join(problems))
        return value

    name = re.sub(r"\W", "", str(schema.get("title", ""))) or "Output"
    root = RootModel[Annotated[dict[str, Any], AfterValidator(check)]]

    def copy_schema(*_: object, **__: object) -> dict[str, Any]:
        # a copy, because pydantic would look up the schema's definitions among its own
        return deepcopy({"title": name, "type": "object", **schema})

    return type(name, (root,), {"__module__": __name__, "model_json_schema": copy_schema})


def _requirement(problem: jsonschema.ValidationError) -> str:
    if not problem.validator:  # the schema is `false`, or the validation took too many steps
        return problem.message
    return f"must satisfy {problem.validator} {short_repr(problem.validator_value)}"


def validator_of(schema: Mapping[str, Any], *, location: str, field: str) -> Any:  # noqa: ANN401 - jsonschema's own
    """Build a `jsonschema` validator for `schema`; references never read files or contact servers.

    Pass the validator to `find_errors` to bound the work. Raises ConfigurationError for an invalid schema, for endless
    recursion, for an unresolvable reference inside the schema, and for a pattern not guaranteed to match in linear
    time.
    """
    import jsonschema
    from referencing import Resource
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    default = jsonschema.Draft202012Validator
    has_dialect = isinstance(schema.get("$schema", ""), str)  # a `$schema` that is not a string cannot be looked up
    kind = jsonschema.validators.validator_for(schema, default=default) if has_dialect else default
    got: Mapping[str, Any] = schema
    problem = f"must be a JSON Schema of at most {_DEEPEST} levels, without endless references to itself"
    root = dict(schema)
    # each level takes two stack frames, and constants and examples may be nested more deeply
    if is_deeper(root, 4 * _DEEPEST):
        raise ConfigurationError(location, field, root, problem)
    try:
        root = deepcopy(root)
        registry = meta_registry()
        form = {key: value for key, value in kind.META_SCHEMA.items() if key != "$schema"}
        problems = find_errors(bounded(kind)(form, registry=registry), root)
        if problems:
            raise jsonschema.exceptions.best_match(problems)
        resource = Resource.from_contents(root, default_specification=DRAFT202012)
        base = resource.id() or ""
        heights: dict[int, int | None] = {}
        parts = []
        for part, near in _schemas_in(root, registry.with_resource(base, resource).crawl().resolver(base)):
            got = part
            _height(part, near, heights)
            parts.append(part)
    except jsonschema.ValidationError as error:
        place = ".".join(map(str, error.absolute_path)) or "the top level"
        raise ConfigurationError(
            location, field, schema, f"must be a valid JSON Schema ({place}: {error.message})"
        ) from None
    except RecursionError:  # no answer would ever be valid, and each attempt would cost money
        raise ConfigurationError(location, field, got, problem) from None
    except (Unresolvable, ValueError):
        problem = "must not refer to anything outside the schema"
        raise ConfigurationError(location, field, got, problem) from None
    _check_linear(parts, location, field)
    for part in parts:
        part.pop("$schema", None)  # a `$schema` in a part would select a validator that does not bound the work
    return bounded(kind)(root, registry=registry)


def _check_linear(parts: Sequence[Mapping[str, Any]], location: str, field: str) -> None:
    """Raise ConfigurationError if any pattern in the schemas in `parts` might not match in linear time."""
    if (pattern := find_unbounded_pattern(parts)) is not None:
        raise ConfigurationError(location, field, pattern, LINEAR)
    words = {word for part in parts for word in part}
    # `unevaluatedProperties` does its own matching, with backtracking
    if {"patternProperties", "unevaluatedProperties"} <= words:
        problem = "cannot combine `unevaluatedProperties` with `patternProperties`"
        raise ConfigurationError(location, field, parts[0], problem)


def _parts_of(schema: object) -> Iterator[object]:
    """Yield the parts of `schema` that may be schemas, excluding constants and examples that resemble schemas."""
    if isinstance(schema, list):
        yield from schema
    elif isinstance(schema, dict):
        for key, value in schema.items():
            if key in _NAMED and isinstance(value, dict):
                yield from value.values()
            elif key not in _VALUES:
                yield value


def _schemas_in(
    part: object, resolver: Resolver[Any], level: int = 1
) -> Iterator[tuple[dict[str, Any], Resolver[Any]]]:
    """Yield each schema nested in `part`, together with its resolver.

    Raises RecursionError if the nesting is too deep.
    """
    if isinstance(part, dict):
        if level > _DEEPEST:
            raise RecursionError
        yield part, resolver
        resolver = _resolver_in(part, resolver)
    for inner in _parts_of(part):
        yield from _schemas_in(inner, resolver, level + isinstance(part, dict))


def _resolver_in(part: Mapping[str, Any], resolver: Resolver[Any]) -> Resolver[Any]:
    """Return the resolver to use inside `part`, where references are relative to the nearest enclosing `$id`."""
    from referencing.jsonschema import DRAFT202012

    has_id = isinstance(part.get("$id"), str)
    return resolver.in_subresource(DRAFT202012.create_resource(part)) if has_id else resolver


def _height(part: object, resolver: Resolver[Any], heights: dict[int, int | None], level: int = 1) -> int:
    """Count the levels of schemas that `part` applies to one and the same value.

    Raises RecursionError if there are more than `_DEEPEST` levels or the nesting never ends. `heights` maps object ids
    to the heights found so far, and to None for a schema in progress.
    """
    if not isinstance(part, dict):
        return 0
    if level > _DEEPEST:
        raise RecursionError
    height = heights.setdefault(id(part), 0)
    if height == 0:
        heights[id(part)], resolver = None, _resolver_in(part, resolver)
        resolved = [resolver.lookup(part[word]) for word in ("$ref", "$dynamicRef") if isinstance(part.get(word), str)]
        inner = [(reference.contents, reference.resolver) for reference in resolved]
        for word in _IN_PLACE & part.keys():
            value = part[word]
            several = value.values() if word == "dependentSchemas" else value if isinstance(value, list) else [value]
            inner += [(subschema, resolver) for subschema in several]
        height = heights[id(part)] = 1 + max(
            (_height(subpart, near, heights, level + 1) for subpart, near in inner), default=0
        )
    if height is None or height > _DEEPEST:
        raise RecursionError
    return height


_DEEPEST = 50
"""Maximum number of levels in a schema. Each level takes several stack frames, both here and in jsonschema."""
# Keywords whose schemas apply to the same value as the enclosing schema.
_IN_PLACE = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"})
_PREFIX = "#/$defs/"
# Keywords whose values map names to schemas; names in them may be "title" or "$ref".
_NAMED = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})
# Keywords whose values are data, not schemas.
_VALUES = frozenset({"const", "default", "enum", "examples"})


def _map_parts(schema: Mapping[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    """Copy `schema`, applying `change` to each keyword's value or, in a collection, to each schema inside it."""

    def changed(key: str, value: object) -> object:
        if key in _VALUES:
            return value
        if key in _NAMED and isinstance(value, dict):
            return {name: change(inner) for name, inner in value.items()}
        return [change(inner) for inner in value] if isinstance(value, list) else change(value)

    return {key: changed(key, value) for key, value in schema.items()}


def inline_definitions(schema: dict[str, Any]) -> dict[str, Any]:
    """Copy `schema`, replacing each reference to one of its `$defs` with the definition itself.

    Keywords next to a reference, such as a description, override the definition's keywords. Recursive definitions and
    references to them are kept. A `const` becomes an `enum` with a single value, since every provider supports that.

    >>> side = {"enum": ["for", "against"], "title": "Side", "type": "string"}
    >>> inline_definitions({"items": {"$ref": "#/$defs/Side", "description": "Winner"}, "$defs": {"Side": side}})
    {'items': {'enum': ['for', 'against'], 'title': 'Side', 'type': 'string', 'description': 'Winner'}}
    """
    definitions: dict[str, Any] = schema.get("$defs", {})
    recursive = {name for name in definitions if name in _reached(definitions[name], definitions)}

    def inline(part: Any) -> Any:  # noqa: ANN401 - a part of a schema
        if not isinstance(part, dict):
            return part
        name = _referenced(part, definitions)
        if name is not None and name not in recursive:
            return inline({**definitions[name], **{key: value for key, value in part.items() if key != "$ref"}})
        copy = _map_parts(part, inline)
        return {"enum" if key == "const" else key: [value] if key == "const" else value for key, value in copy.items()}

    inlined: dict[str, Any] = inline({key: value for key, value in schema.items() if key != "$defs"})
    if recursive:
        inlined["$defs"] = {name: inline(definitions[name]) for name in definitions if name in recursive}
    return inlined


def drop_titles(schema: Any) -> Any:  # noqa: ANN401 - a schema may be a bool
    """Copy `schema` without the titles that pydantic derives from names.

    >>> drop_titles({"title": "Film", "properties": {"title": {"title": "Title", "type": "string"}}})
    {'properties': {'title': {'type': 'string'}}}
    """
    if not isinstance(schema, Mapping):
        return schema
    return _map_parts({key: value for key, value in schema.items() if key != "title"}, drop_titles)


def _reached(schema: object, definitions: dict[str, Any], seen: frozenset[str] = frozenset()) -> frozenset[str]:
    """Return the definitions referenced by `schema`, directly or indirectly."""
    name = _referenced(schema, definitions) if isinstance(schema, dict) else None
    if name is not None and name not in seen:
        seen = _reached(definitions[name], definitions, seen | {name})
    for part in _parts_of(schema):
        seen = _reached(part, definitions, seen)
    return seen


def _referenced(schema: dict[str, Any], definitions: dict[str, Any]) -> str | None:
    """Return the name of the definition referenced by `schema`."""
    reference = schema.get("$ref")
    if not isinstance(reference, str):
        return None
    name = reference.removeprefix(_PREFIX).replace("~1", "/").replace("~0", "~")
    return name if name in definitions else None


_MAX_LENGTH = (
    1_500  # maximum length of a string in characters: llama.cpp rejects grammars with 2,000 or more repetitions
)


def bound_strings(schema: Any) -> Any:  # noqa: ANN401 - a schema may be a bool
    """Copy `schema`, giving every free-form string a `maxLength` of at most 1,500.

    >>> bound_strings({"properties": {"type": {"type": "string"}, "side": {"type": "string", "enum": ["for"]}}})
    {'properties': {'type': {'type': 'string', 'maxLength': 1500}, 'side': {'type': 'string', 'enum': ['for']}}}
    """
    if not isinstance(schema, dict):
        return schema
    copy = _map_parts(schema, bound_strings)
    kinds = schema.get("type")
    free = kinds == "string" or (isinstance(kinds, list) and "string" in kinds)
    if free and not {"enum", "const", "pattern", "format"} & schema.keys():
        copy["maxLength"] = min(_MAX_LENGTH, schema.get("maxLength", _MAX_LENGTH))
    return copy
