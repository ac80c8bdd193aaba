"""Conversion of any value to valid JSON data of limited depth and size."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import lru_cache
from math import isfinite
from typing import Any

from pydantic import BaseModel
from pydantic.alias_generators import to_camel
from pydantic_core import to_jsonable_python

from flowdebate._text import clean_text, short_repr

# maximum nesting depth of lists and objects; parsers in many languages give up at about a hundred levels
_MAX_DEPTH = 50
_MAX_LENGTH = 5_000_000  # maximum total length in characters, where each value counts as `_ONE` additional characters
_ONE = 10
_PLAIN = frozenset((str, int, float, bool, type(None)))
# Maximum size of an integer in bits; JSON parsers in most languages cannot represent larger ones, and Python refuses to
# format thousands of digits.
_MAX_INT_BITS = 1024


def json_data(value: object, *, largest: int = _MAX_LENGTH, strict: bool = False) -> Any:  # noqa: ANN401 - JSON data
    r"""Convert `value` to JSON data; dataclasses and models get camelCase keys, and NaN and infinities become null.

    Values that JSON cannot represent are replaced with a textual description, and so are values nested more than 50
    levels deep. If the data exceeds `largest` characters (each value in it counts as ten more), a description replaces
    all of it. If `strict` is set, ValueError or whatever exception the conversion causes is raised instead. Otherwise,
    no exception is raised.

    >>> json_data({"share": float("nan"), 1: {"b", "a"}, "lock": object, "text": "a\ud800"})
    {'share': None, '1': ['a', 'b'], 'lock': "<class 'object'>", 'text': 'a�'}
    >>> json_data([[]] * 1000, largest=100)
    '<list, too large for JSON>'
    """
    writer = _Writer(largest, strict=strict)
    if strict:
        return writer.write(value)
    try:
        return writer.write(value)
    except _TooLarge:
        return f"<{type(value).__name__}, too large for JSON>"
    except Exception:  # noqa: BLE001 - whatever a foreign value raises: a reader gets the rest of the event
        return _shown(value)


@lru_cache(maxsize=512)
def wire_names(kind: type[Any]) -> tuple[tuple[str, str], ...]:
    """Return the names of a dataclass's fields, each paired with the camelCase key used in JSON."""
    return tuple((field.name, to_camel(field.name)) for field in fields(kind))


SPARSE: Mapping[str, Any] = {"sparse": True}
"""Metadata marking a dataclass field that is serialized only if it differs from its default."""


@lru_cache(maxsize=512)
def sparse_defaults(kind: type[Any]) -> Mapping[str, Any]:
    """Return the default values of a dataclass's sparse fields, keyed by field name."""
    return {field.name: field.default for field in fields(kind) if field.metadata.get("sparse")}


def _shown(value: object) -> str:
    """Describe a value of unknown type as text, even if its repr fails or is unsuitable."""
    return clean_text(str.__str__(short_repr(value)))


class _TooLarge(ValueError):
    """Raised if a value exceeds the maximum size."""


class _Writer:
    """Converter for a single value, with limits on depth and size."""

    __slots__ = ("_room", "_strict")

    def __init__(self, room: int, *, strict: bool) -> None:
        self._room = room
        self._strict = strict

    def write(self, value: object, depth: int = 0) -> object:
        self._take(_ONE)
        kind = type(value)
        if value is None or isinstance(value, (str, int, float)):
            return self._plain(value)
        if depth >= _MAX_DEPTH:
            return self._refuse(value, f"<{kind.__name__}, too deep for JSON>")
        if isinstance(value, (list, tuple, deque)):
            return self._all(value, depth + 1)
        if isinstance(value, dict) or (not is_dataclass(kind) and isinstance(value, Mapping)):
            return {self._key(key): self.write(part, depth + 1) for key, part in value.items()}
        return self._object(value, kind, depth + 1)

    def _object(self, value: object, kind: type[Any], depth: int) -> object:
        if isinstance(value, BaseModel):  # uses the model's own serializers
            fallback = None if self._strict else _shown
            return self.write(value.model_dump(mode="json", by_alias=True, fallback=fallback, warnings=False), depth)
        to_wire = getattr(kind, "to_wire", None)
        if callable(to_wire):
            return self.write(to_wire(value), depth)
        if is_dataclass(kind):
            left_out = {name for name, default in sparse_defaults(kind).items() if getattr(value, name) == default}
            return {
                key: self.write(getattr(value, name), depth) for name, key in wire_names(kind) if name not in left_out
            }
        if isinstance(value, AbstractSet):
            return sorted(self._all(value, depth), key=json.dumps)  # the order of a set varies between processes
        if isinstance(value, Enum):
            return self.write(value.value, depth)
        return self._leaf(value)

    def _all(self, values: Iterable[Any], depth: int) -> list[Any]:
        return [self.write(part, depth) for part in values]

    def _key(self, key: object) -> str:
        if isinstance(key, Enum):
            key = key.value
        if isinstance(key, str):
            text = str.__str__(key)
        elif key is None or isinstance(key, (int, float)):
            text = str(key)
        else:
            text = self._refuse(key, _shown(key))
        self._take(len(text))
        return clean_text(text)

    def _plain(self, value: str | float | None) -> object:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            text = str.__str__(value)  # bypasses a `__str__` defined by a subclass
            self._take(len(text))
            return clean_text(text)
        if isinstance(value, int):
            number = int.__int__(value)
            return number if number.bit_length() <= _MAX_INT_BITS else self._refuse(value, "<int, too large for JSON>")
        return float.__float__(value) if isfinite(value) else None

    def _leaf(self, value: object) -> object:
        """Convert a value that pydantic serializes as text, such as a date, a UUID or bytes.

        Iterators are never consumed.
        """
        if isinstance(value, (bytes, bytearray, memoryview)):
            self._take(len(value))
        if isinstance(value, Iterator):
            return self._refuse(value, f"<{type(value).__name__}>")
        if self._strict:
            return self.write(to_jsonable_python(value, bytes_mode="base64"), _MAX_DEPTH)
        return self.write(to_jsonable_python(value, bytes_mode="base64", fallback=_shown), _MAX_DEPTH)

    def _refuse(self, value: object, text: str) -> str:
        if self._strict:
            message = f"JSON cannot represent {type(value).__name__}: {text}"
            raise ValueError(message)
        self._take(len(text))
        return text

    def _take(self, room: int) -> None:
        self._room -= room
        if self._room < 0:
            raise _TooLarge


def json_text(value: object) -> str:
    r"""Serialize JSON as one line of ASCII; lone surrogates are escaped, and NaN and infinities become null.

    >>> json_text({"text": "\ud83d"}), json_text({"score": float("nan")})
    ('{"text":"\\ud83d"}', '{"score":null}')
    """
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":"))
    except ValueError:
        return json.dumps(json_data(value), separators=(",", ":"))
