"""The published wire format of events: `wire_of`, its schema, the schema file, and the table of all events."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import OrderedDict, UserDict, deque
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn, get_args
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import BaseModel

from flowdebate import Debater, debate, handler
from flowdebate._util.json_data import json_data
from flowdebate._util.wire import SPARSE
from flowdebate.events import (
    EVENT_FORMAT,
    BaseEvent,
    BlockAnswered,
    Event,
    RunStarted,
    TaskChanged,
    event_schema,
    wire_of,
)
from flowdebate.resources.tasks import Task
from flowdebate.testing import ScriptedModel
from flowdebate.testing.strategies import hostile_values
from tests.cases import slow_but_first

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts"))

from event_schema import PAGE, SCHEMA, generate, page_text, schema_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from flowdebate.models.base import Usage

VALIDATOR = Draft202012Validator(event_schema())
KINDS: tuple[type[BaseEvent], ...] = get_args(Event)
REMEDY = "the events have changed: run `make event-schema`, and say in CHANGELOG.md what clients will see"


def find_definition(kind: type[BaseEvent]) -> dict[str, Any]:
    """Return the part of the schema that describes `kind`."""
    schema: dict[str, Any] = event_schema()["$defs"][kind.__name__]
    return schema


# The published files


def test_published_schema_matches_the_classes() -> None:
    """In a review, changes to the wire format show up as changes to the published file."""
    assert SCHEMA.read_text("utf-8") == schema_text(), REMEDY


def test_table_of_events_matches_the_classes() -> None:
    text = PAGE.read_text("utf-8")
    assert text == page_text(text), REMEDY
    assert all(f"| `{kind.__name__}` | `{kind.kind}` |" in text for kind in KINDS)


def test_schema_is_valid_and_states_its_version() -> None:
    schema = event_schema()
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == Draft202012Validator.META_SCHEMA["$id"]
    assert schema["$id"] == f"urn:flowdebate:events:{EVENT_FORMAT}"


def test_each_call_returns_a_separate_schema() -> None:
    event_schema()["$defs"].clear()
    assert event_schema()["$defs"]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_each_event_and_each_field_is_described(kind: type[BaseEvent]) -> None:
    part = find_definition(kind)
    assert event_schema()["discriminator"]["mapping"][kind.kind] == f"#/$defs/{kind.__name__}"
    assert part["properties"]["kind"]["const"] == kind.kind
    assert {"kind", "path", "at"} <= set(part["required"])
    assert part["description"]
    assert [name for name, item in part["properties"].items() if not item.get("description")] == []
    assert "None" not in json.dumps(part)


def test_union_and_schema_contain_the_same_events() -> None:
    schema = event_schema()
    assert set(schema["discriminator"]["mapping"]) == {kind.kind for kind in KINDS} | {"custom"}
    assert [part["$ref"] for part in schema["oneOf"]] == list(schema["discriminator"]["mapping"].values())


@dataclass(slots=True, kw_only=True)
class Weighed(BaseEvent):
    """An example of an event added later."""

    kind: ClassVar[str] = "weighed"
    usage: Usage
    """A type imported only for type checkers."""
    was_replayed: bool = field(default=False, metadata=SPARSE)
    """Replay flag."""
    origin: Literal["asked", "reused"] = field(default="asked", metadata=SPARSE)
    """Origin of the event."""


def test_new_field_is_added_to_the_schema_automatically() -> None:
    part = generate([Weighed])["$defs"]["Weighed"]
    assert part["required"] == ["kind", "path", "at", "usage"]
    assert part["properties"]["usage"]["$ref"] == "#/$defs/Usage"
    assert part["properties"]["wasReplayed"] == {"default": False, "description": "Replay flag.", "type": "boolean"}
    assert part["properties"]["origin"]["enum"] == ["asked", "reused"]


def test_later_versions_of_the_format_are_valid() -> None:
    usage = {"calls": 1, "promptTokens": None, "cachedTokens": None, "completionTokens": None, "reasoningTokens": 7}
    wire = {"kind": "run_started", "path": "a", "at": 1.0, "runId": "r", "block": "a", "seed": 1}
    ended = {"kind": "run_finished", "path": "a", "at": 1.0, "runId": "r", "seconds": 1.0, "error": None}
    assert VALIDATOR.is_valid(wire)
    assert VALIDATOR.is_valid({**wire, "labels": {}})
    assert VALIDATOR.is_valid({**ended, "status": "complete", "usage": usage})
    assert not VALIDATOR.is_valid({**wire, "seed": "1"})
    assert not VALIDATOR.is_valid({**wire, "kind": "run_paused"})
    assert not VALIDATOR.is_valid({key: value for key, value in wire.items() if key != "block"})


# Events of runs


def test_events_of_a_run_are_valid() -> None:
    """For the library's own events, the wire format is what `to_wire()` returns, and `kind` is its first field."""
    sides = [Debater("ann", "cap"), Debater("bob", "free")]
    pattern = debate(name="rent", debaters=sides, max_rounds=1, judge="swap", synthesizer=False)
    scores = {"reasoning": "So.", "verdict": "Cap.", "scores": {"cap": 60, "free": 40}}
    for event in pattern.run_sync("Why?", model=ScriptedModel("1", "2", scores, scores)).events:
        wire = wire_of(event)
        assert isinstance(event, BaseEvent)
        assert wire == event.to_wire()
        assert next(iter(wire.items())) == ("kind", event.kind)
        VALIDATOR.validate(wire)


def test_event_with_a_hostile_output_is_valid() -> None:
    """A transformed answer can be of any type, and most types have no JSON representation."""
    output: dict[object, object] = {
        "stream": count(),
        "self": None,
        10**5000: Unprintable(),
        "share": float("inf"),
        "text": "\ud800",
    }
    output["self"] = output
    wire = wire_of(BlockAnswered(block="a", output=output, path="a", at=1.0))
    VALIDATOR.validate(send_and_receive(wire))


class Unprintable:
    """An object that cannot be printed, compared or hashed."""

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> NoReturn:
        raise RuntimeError

    __str__ = __eq__ = __repr__  # type: ignore[assignment]

    def __getattr__(self, name: str) -> NoReturn:
        raise RuntimeError(name)


def send_and_receive(wire: dict[str, Any]) -> Any:
    """Return the data as its recipient would get it."""
    return json.loads(json.dumps(wire, allow_nan=False, ensure_ascii=False).encode())


# Custom events


class Colour(Enum):
    """A closed set."""

    RED = "red"


class Found(BaseModel):
    """An application's finding."""

    how_many: int


@dataclass
class Progress:
    """Progress of some work."""

    done_share: float
    when: datetime


@dataclass(kw_only=True)
class SourcesFound(BaseEvent):
    """An application's own kind of event."""

    kind = "sources_found"
    sources: frozenset[str]


NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "name", "written"),
    [
        ("ready", "str", "ready"),
        (None, "NoneType", None),
        (True, "bool", True),
        ({"progress": [1, 2.5, None]}, "dict", {"progress": [1, 2.5, None]}),
        (Progress(0.5, NOON), "Progress", {"doneShare": 0.5, "when": "2026-01-02T12:00:00Z"}),
        (Found(how_many=3), "Found", {"how_many": 3}),
        ({"b", "a"}, "set", ["a", "b"]),
        (deque([(1, 2)]), "deque", [[1, 2]]),
        (UserDict({1: Colour.RED, None: date(2026, 1, 2)}), "UserDict", {"1": "red", "None": "2026-01-02"}),
        (OrderedDict(a=Decimal("1.50")), "OrderedDict", {"a": "1.50"}),
        (UUID(int=0), "UUID", "00000000-0000-0000-0000-000000000000"),
        (b"\xff", "bytes", "_w=="),
        (Path("a/b"), "PosixPath", "a/b"),
        ([float("nan"), float("-inf")], "list", [None, None]),
        ("lone \ud800, NUL \0", "str", "lone \ufffd, NUL "),
    ],
    ids=lambda value: type(value).__name__,
)
def test_json_value_is_a_custom_event(value: object, name: str, written: object) -> None:
    """The kind is the class name.

    The keys of dataclasses are in camelCase, and pydantic models serialize themselves.
    """
    wire = send_and_receive(wire_of(value))
    assert wire == {"kind": "custom", "name": name, "value": written}
    VALIDATOR.validate(wire)


def test_custom_event_class_has_path_and_time() -> None:
    @handler
    def act(value: object, ctx: Any) -> object:
        ctx.emit(SourcesFound(sources=frozenset(("b", "a"))))
        return value

    event = act.run_sync("x").events[1]
    assert isinstance(event, SourcesFound)
    wire = send_and_receive(wire_of(event))
    at = wire.pop("at")
    assert at == event.at > 1e9
    assert wire == {"kind": "custom", "name": "SourcesFound", "path": "act", "value": {"sources": ["a", "b"]}}
    assert send_and_receive(wire_of(SourcesFound(sources=frozenset()))).keys() == {"kind", "name", "value"}


def make_circle() -> Any:
    """Create a list that contains itself."""
    items: list[Any] = []
    items.append(items)
    return items


def make_deep() -> Any:
    """Create a deeply nested list."""
    items: list[Any] = []
    for _ in range(10_000):
        items = [items]
    return items


class Endless(list[Any]):
    """A list that never ends."""

    def __iter__(self) -> Iterator[Any]:
        return iter(dict, 1)


class Liar:
    """An object that misreports its class."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise RuntimeError


class Meta(type):
    """Metaclass whose classes have neither a name nor a hash."""

    __hash__ = None  # type: ignore[assignment]

    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise RuntimeError


class Nameless(metaclass=Meta):
    """An object of a class without a name."""


class Refusing(BaseModel):
    """A pydantic model that cannot be serialized."""

    value: Any

    def model_dump(self, **_: Any) -> NoReturn:
        raise RuntimeError


HOSTILE: dict[str, Callable[[], Any]] = {
    "a circle": make_circle,
    "too deep": make_deep,
    "endless": Endless,
    "exponential": lambda: _doubled(60),
    "a generator": lambda: (number for number in count()),
    "a long text": lambda: "x" * 200_000,
    "a long list": lambda: [0] * 200_000,
    "bytes": lambda: b"x" * 200_000,
    "a huge number": lambda: 10**10_000,
    "a huge key": lambda: {10**10_000: 1},
    "an object as a key": lambda: {object(): 1},
    "an object": object,
    "one that raises": Unprintable,
    "one that raises, inside": lambda: {"it": [Unprintable()]},
    "a liar": Liar,
    "an exception": ValueError,
    "a class": lambda: int,
    "a function": lambda: make_deep,
    "a model": lambda: Refusing(value=1),
    "a lock": asyncio.Lock,
}


def _doubled(times: int) -> Any:
    items: list[Any] = []
    for _ in range(times):
        items = [items, items]
    return items


@pytest.mark.parametrize("name", HOSTILE)
def test_value_without_a_json_form_is_represented_by_its_class_name(name: str) -> None:
    value = HOSTILE[name]()
    wire = send_and_receive(wire_of(value))
    assert wire == {"kind": "custom", "name": type(value).__name__}
    VALIDATOR.validate(wire)


def test_value_with_an_uncooperative_class_is_called_object() -> None:
    assert wire_of(Nameless()) == {"kind": "custom", "name": "object"}


@pytest.mark.parametrize("name", slow_but_first(HOSTILE))
def test_hostile_output_is_described_in_place(name: str) -> None:
    """The library's own events must keep all of their fields, whatever an output contains."""
    value = HOSTILE[name]()
    events = [
        BlockAnswered(block="a", output=[1, value], path="a", at=1.0),
        BlockAnswered(block="a", output=value, path="a", at=1.0),
    ]
    for event in events:
        VALIDATOR.validate(send_and_receive(wire_of(event)))


def test_task_with_hostile_data_has_a_wire_form() -> None:
    """Applications can put any data into their tasks, even data that JSON cannot represent."""
    task = Task(id="t", goal="\ud800", output=[make_circle(), b"\xff"], created_at=0, updated_at=0, seq=1)
    event = TaskChanged(collection_id="c", change="added", task=task, path="a", at=1.0)
    VALIDATOR.validate(send_and_receive(wire_of(event)))


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
_ODD = st.recursive(
    _JSON
    | hostile_values()
    | st.floats()
    | st.integers()
    | st.binary(max_size=4)
    | st.text(st.characters(), max_size=4)
    | st.datetimes()
    | st.sampled_from(["a circle", "a generator", "a huge number", "a model", "too deep"]).map(
        lambda name: HOSTILE[name]()
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers() | st.none() | st.floats(), inner, max_size=3)
        | inner.map(lambda value: Refusing.model_construct(value=value))
        | inner.map(lambda value: Progress(value, value))
    ),
    max_leaves=8,
)


@given(value=_JSON.filter(lambda value: "\0" not in json.dumps(value) and "\\u0000" not in json.dumps(value)))
def test_json_data_is_written_unchanged(value: Any) -> None:
    assert send_and_receive(wire_of(value))["value"] == value
    assert json_data(value) == value


@given(value=_ODD)
def test_every_value_has_a_valid_wire_form(value: Any) -> None:
    for event in (value, BlockAnswered(block="a", output=value, path="a", at=1.0)):
        wire = send_and_receive(wire_of(event))
        VALIDATOR.validate(wire)
        assert send_and_receive(wire_of(event)) == wire


def test_subclass_of_an_event_is_a_custom_event() -> None:
    """A subclass may have additional fields, so it is of a different kind."""

    @dataclass(slots=True, kw_only=True)
    class Opened(RunStarted):
        kind: ClassVar[str] = "run_started"
        mood: str

    wire = send_and_receive(wire_of(Opened(run_id="r", block="a", seed=1, mood="good", path="a", at=1.0)))
    assert (wire["kind"], wire["name"], wire["value"]["mood"]) == ("custom", "Opened", "good")
