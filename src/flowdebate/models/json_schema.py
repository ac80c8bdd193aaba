"""JSON Schema validator for untrusted schemas: patterns match in linear time, and the total work is bounded."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic_core import SchemaError, SchemaValidator, core_schema

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from jsonschema.protocols import Validator
    from referencing import Registry

MAX_STEPS = 1_000_000
"""Maximum number of steps in one validation. A step takes a microsecond or two, so a validation can block the event
loop for at most a second or two.
"""
_HEAVIEST = 10_000
"""Maximum number of states in a pattern."""
_STEPS_A_KEYWORD = 10
_STATES_A_STEP = 100
"""Number of pattern states the engine processes during one step."""

LINEAR = "must be a pattern with few repetitions and without lookaround or backreferences, to match in linear time"


class _StepLimitReached(Exception):
    """Raised if a validation takes too many steps."""


class Pattern(NamedTuple):
    """A regular expression compiled from a `pattern` keyword."""

    matches: Callable[[str], bool]
    states: int
    """Upper bound, up to a constant factor, on the number of states active at each character of the string."""


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Pattern:
    """Compile `pattern` for matching without backtracking; raise ValueError if it requires backtracking.

    >>> compile_pattern("^(a+)+$").matches("a" * 10_000 + "!")
    False
    """
    states = _count_states(pattern)
    if states > _HEAVIEST:
        raise ValueError(LINEAR)
    try:
        compiled = SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except SchemaError:
        raise ValueError(LINEAR) from None
    return Pattern(compiled.isinstance_python, states)


_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{(\d{1,9})(?:,(\d{0,9}))?\}|.", re.DOTALL)


def _count_states(pattern: str) -> int:
    """Count the states in a pattern; a repetition multiplies the states inside it.

    >>> _count_states("ab"), _count_states("(?:ab){10}"), _count_states("((a{30}){30}){2,30}")
    (2, 20, 27000)
    """
    groups, last = [0], 0
    for token in _TOKEN.finditer(pattern):
        if token[0] == "(":
            groups.append(0)
        elif token[0] == ")" and len(groups) > 1:
            last = groups.pop()
            groups[-1] += last
        elif token[1]:
            times = max(int(token[1]), int(token[2] or 0), 1)
            groups[-1] += last * (times - 1)
            last *= times
        elif token[0] not in "?:*+|^$)":
            last = 1
            groups[-1] += 1
    return sum(groups)


_LEFT: ContextVar[list[int]] = ContextVar("steps_left")


def _spend(steps: int) -> None:
    budget = _LEFT.get()
    budget[0] -= steps
    if budget[0] < 0:
        message = f"takes more than {MAX_STEPS:,} steps to validate"
        raise _StepLimitReached(message)


def find_errors(validator: Validator, value: object) -> list[ValidationError]:
    """List the errors in `value`, or a single error if validation takes too many steps or the nesting is too deep."""
    from jsonschema import ValidationError

    token = _LEFT.set([MAX_STEPS])
    try:
        return list(validator.iter_errors(value))  # type: ignore[arg-type]  # it checks the type itself
    except RecursionError:
        return [ValidationError("is nested too deeply")]
    except _StepLimitReached as error:
        return [ValidationError(str(error))]
    finally:
        _LEFT.reset(token)


@lru_cache(maxsize=16)  # one entry per JSON Schema draft
def bounded(kind: type[Validator]) -> type[Validator]:
    """Extend the validator class `kind` to count its steps, as `find_errors` requires."""
    from jsonschema import validators

    keywords: dict[str, Any] = {**kind.VALIDATORS, "pattern": _pattern, "uniqueItems": _unique_items}
    if "patternProperties" in keywords:
        keywords |= {"patternProperties": _pattern_properties, "additionalProperties": _additional_properties}
    counted = {name: _counted(keyword) for name, keyword in keywords.items()}
    extended: type[Validator] = validators.extend(kind, counted)  # type: ignore[no-untyped-call]
    return extended


def _counted(keyword: Callable[..., Iterator[ValidationError] | None]) -> Callable[..., Iterator[ValidationError]]:
    def check(validator: Validator, value: object, instance: object, schema: object) -> Iterator[ValidationError]:
        # each item counts as a step, because a keyword such as `properties` iterates over its value
        _spend(_STEPS_A_KEYWORD + (len(value) if isinstance(value, (dict, list)) else 0))
        yield from keyword(validator, value, instance, schema) or ()

    return check


def _matches(pattern: str, text: str) -> bool:
    compiled = compile_pattern(pattern)
    _spend(1 + compiled.states * len(text) // _STATES_A_STEP)
    return compiled.matches(text)


def _pattern(validator: Any, pattern: str, instance: object, schema: object) -> Iterator[ValidationError]:  # noqa: ANN401, ARG001 - jsonschema's own
    from jsonschema import ValidationError

    if isinstance(instance, str) and not _matches(pattern, instance):
        yield ValidationError(f"does not match {pattern!r}")


def _pattern_properties(
    validator: Any, patterns: Mapping[str, Any], instance: object, schema: object  # noqa: ANN401, ARG001 - jsonschema's own
) -> Iterator[ValidationError]:  # fmt: skip
    if isinstance(instance, dict):
        for pattern, inner in patterns.items():
            for name, value in instance.items():
                if _matches(pattern, name):
                    yield from validator.descend(value, inner, path=name, schema_path=pattern)


def _additional_properties(
    validator: Any, inner: object, instance: object, schema: Mapping[str, Any]  # noqa: ANN401 - jsonschema's own
) -> Iterator[ValidationError]:  # fmt: skip
    from jsonschema import ValidationError

    if not isinstance(instance, dict):
        return
    properties, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for name, value in instance.items():
        if name in properties or any(_matches(pattern, name) for pattern in patterns):
            continue
        if isinstance(inner, dict):
            yield from validator.descend(value, inner, path=name)
        elif not inner:
            yield ValidationError(f"has the unknown property {name!r}")


def _unique_items(validator: Any, unique: object, instance: object, schema: object) -> Iterator[ValidationError]:  # noqa: ANN401, ARG001 - jsonschema's own
    from jsonschema import ValidationError

    if unique and isinstance(instance, list):
        _spend(len(instance))
        if len({_hashable(item) for item in instance}) < len(instance):
            yield ValidationError("contains a duplicate item")


def _hashable(value: object) -> object:
    """Return a hashable key that is the same for equal JSON values: 1 equals 1.0, but not true."""
    if isinstance(value, dict):
        return ("object", frozenset((key, _hashable(inner)) for key, inner in value.items()))
    if isinstance(value, list):
        return ("list", tuple(map(_hashable, value)))
    return (isinstance(value, bool), value)


@cache
def meta_registry() -> Registry[Any]:
    """Return JSON Schema's meta-schemas without `$schema`, since this keyword would select an unbounded validator."""
    from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]  # it has no types
    from referencing import Registry
    from referencing.jsonschema import specification_with

    registry: Registry[Any] = Registry()
    for address in REGISTRY:
        contents = dict(REGISTRY.contents(address))
        specification = specification_with(contents.pop("$schema"))
        registry = registry.with_resource(address, specification.create_resource(contents))
    return registry


def find_unbounded_pattern(schemas: Sequence[Mapping[str, Any]]) -> str | None:
    """Return a pattern from `schemas` that cannot be matched in linear time, or None if there is none."""
    for schema in schemas:
        names = schema.get("patternProperties")
        patterns: list[object] = [schema.get("pattern"), *(names if isinstance(names, dict) else ())]
        for pattern in patterns:
            try:
                if isinstance(pattern, str):
                    compile_pattern(pattern)
            except ValueError:
                return str(pattern)
    return None
