"""Event watch for the whole suite: a test fails if one of its runs emits an event that the published schema forbids.

A pytest plugin, registered by conftest.py. Each distinct shape of an event (its class, the types inside it, and values
from closed sets) is validated once per process. Computing a shape takes a few microseconds per event.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel
from pydantic.alias_generators import to_camel

from flowdebate._util.wire import BaseEvent
from flowdebate.events import event_schema, wire_of
from flowdebate.runs.records import Records

# skip URI format checks: jsonschema would compile the URI grammar in each process, which takes 1.5 seconds
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
from jsonschema import Draft202012Validator  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from jsonschema.exceptions import ValidationError

__all__ = ("Watch",)

_LEAVES = frozenset((str, int, float, bool, type(None)))
_CONSTRAINTS = frozenset(("$ref", "anyOf", "const", "enum", "type"))
_INNER = re.compile('"array"|"object"|"[$]ref"')


class Watch:
    """Recorder of events that violate the schema."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._seen: set[Any] = set()
        self._shapes: dict[type[Any], Callable[[Any], Any]] = {}
        self._read_schema()

    def _read_schema(self) -> None:
        schema = event_schema()
        self._parts: Mapping[str, Any] = schema["$defs"]
        self._kinds: Mapping[str, str] = schema["discriminator"]["mapping"]
        for part in self._parts.values():
            if "properties" in part:
                part["additionalProperties"] = False  # readers skip unknown fields, but here every field must be known

    def look(self, event: object) -> None:
        """Validate `event` if its shape is new."""
        if isinstance(event, BaseEvent):
            if not (event.path and event.at):
                self.problems.append(f"{event!r} has path={event.path!r} and at={event.at!r}")
            shape = self._shape(event)
        else:
            shape = type(event)
        if shape not in self._seen:
            self._seen.add(shape)
            self.problems += [f"{event!r}: {problem}" for problem in self.problems_of(wire_of(event))]

    def problems_of(self, wire: dict[str, Any]) -> list[str]:
        """Return the differences between an event's wire format and the schema of its kind."""
        json.dumps(wire, allow_nan=False)
        if wire["kind"] not in self._kinds:  # a test may have registered another pattern in the meantime
            self._read_schema()
        schema = {"$ref": self._kinds[wire["kind"]], "$defs": self._parts}
        errors: list[ValidationError] = list(Draft202012Validator(schema).iter_errors(wire))
        return [f"{error.json_path}: {error.message}" for error in errors]

    def take(self) -> list[str]:
        """Return and clear the problems found so far."""
        problems, self.problems = self.problems, []
        return problems

    def _shape(self, value: Any) -> Any:
        kind = type(value)
        if kind in _LEAVES:
            return kind
        shape = self._shapes.get(kind)
        if shape is None:
            shape = self._shapes[kind] = self._shape_of(kind)
        return shape(value)

    def _shape_of(self, kind: type[Any]) -> Callable[[Any], Any]:
        """Return a function that computes the shape of values of this class."""
        if issubclass(kind, (list, tuple, set, frozenset)):
            return lambda value: (kind, frozenset(map(self._shape, value))) if value else kind
        if issubclass(kind, dict):
            return lambda value: (kind, frozenset(map(self._shape, value.values()))) if value else kind
        if issubclass(kind, BaseModel):
            return self._shape_of_fields(kind, list(kind.model_fields))
        if is_dataclass(kind):
            return self._shape_of_fields(kind, [part.name for part in fields(kind)])
        return lambda _: kind

    def _shape_of_fields(self, kind: type[Any], names: list[str]) -> Callable[[Any], Any]:
        """Return the types of all constrained fields, including nested ones, and the values of closed sets."""
        part: Mapping[str, Any] = next(
            (self._parts[base.__name__] for base in kind.__mro__ if base.__name__ in self._parts), {}
        )
        parts = []
        for name in names:
            schema = part.get("properties", {}).get(to_camel(name), {"type": "object"})
            if '"enum"' in (allowed := json.dumps(schema)):
                parts.append(f"chosen(value.{name})" if '"array"' in allowed else f"value.{name}")
            elif _CONSTRAINTS & schema.keys():
                parts.append(f"shape(value.{name})" if _INNER.search(allowed) else f"type(value.{name})")
        # use one expression per class, since one call per field would make the watch much slower
        shape: Callable[[Any], Any] = eval(  # noqa: S307 - of names of fields
            f"lambda value: (kind, {', '.join(parts)})", {"kind": kind, "shape": self._shape, "chosen": _chosen}
        )
        return shape


def _chosen(value: Any) -> Any:
    return tuple(value) if type(value) is list else value


_WATCHES = pytest.StashKey[Watch]()


def pytest_configure(config: pytest.Config) -> None:
    """Watch all runs of this process."""
    watch = config.stash[_WATCHES] = Watch()
    patch = pytest.MonkeyPatch()
    config.add_cleanup(patch.undo)
    emit, tell = Records.emit, Records.notify

    @wraps(emit)
    def emit_watched(records: Records, event: object, /, path: str = "", role: str | None = None) -> None:
        if not records.closed:
            emit(records, event, path, role)
            watch.look(event)

    @wraps(tell)
    def tell_watched(records: Records, event: object) -> None:
        tell(records, event)
        watch.look(event)

    patch.setattr(Records, "emit", emit_watched)
    patch.setattr(Records, "notify", tell_watched)


def _failing(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test phase that emitted invalid events, unless it already failed."""
    result = yield
    problems = item.config.stash[_WATCHES].take()
    if problems:
        pytest.fail("events that do not fit the schema:\n" + "\n".join(problems), pytrace=False)
    return result


pytest_runtest_call = pytest.hookimpl(wrapper=True)(_failing)
pytest_runtest_teardown = pytest_runtest_call
