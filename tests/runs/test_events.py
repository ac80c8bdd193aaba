"""Common properties of all events: a path, a time, and a wire format."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, get_args

from flowdebate import Event, generator, sequencer
from flowdebate._util.wire import BaseEvent
from flowdebate.runs.events import BlockAnswered
from flowdebate.testing import ScriptedModel, ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterator


def look_up(topic: str) -> str:
    """Look up the price of a topic."""
    return f"{topic}: 12 EUR"


def tool_events() -> list[Any]:
    """Return the events of a run that calls a tool."""
    price = generator(name="a/b", prompt="Say the price.", tools=[look_up])
    model = ScriptedModel(ToolCall(id="1", name="look_up", arguments='{"topic": "rent"}'), "It is 12 EUR.")
    return list(sequencer(name="all").then(price).run_sync("rent?", model=model).events)


def test_every_event_has_a_path_and_a_time() -> None:
    events = tool_events()
    assert all(isinstance(event, BaseEvent) for event in events)
    assert [(event.kind, event.path) for event in events] == [
        ("run_started", "all"),
        ("model_called", "all/a%2Fb"),
        ("tool_called", "all/a%2Fb"),
        ("model_called", "all/a%2Fb#1"),
        ("block_answered", "all/a%2Fb"),
        ("run_finished", "all"),
    ]
    times = [event.at for event in events]
    assert times == sorted(times)
    assert times[0] > 1e9


def test_every_event_has_a_wire_form() -> None:
    """The wire format is JSON data with camelCase keys, starts with the kind, and contains all fields of the event."""
    events = tool_events()
    for event in events:
        wire = event.to_wire()
        assert json.loads(json.dumps(wire)) == wire
        assert next(iter(wire.items())) == ("kind", event.kind)
        assert {"path", "at"} < wire.keys()
        assert not any("_" in key for key in wire)
    assert events[0].to_wire()["runId"] == events[0].run_id
    assert events[-1].to_wire()["usage"]["promptTokens"] is None


def test_any_output_has_a_wire_form() -> None:
    assert BlockAnswered(block="a", output={"set": {1}, "of": (object, 1.5)}).to_wire()["output"]["of"][1] == 1.5


def test_path_and_time_are_not_part_of_event_equality() -> None:
    assert BlockAnswered(block="a", output=1, path="here", at=1.0) == BlockAnswered(block="a", output=1)


def test_event_union_contains_every_kind_of_event() -> None:
    """A `match` statement over the union is exhaustive, and each kind has a unique name."""
    kinds = set(_leaves(BaseEvent))
    assert {kind.__name__ for kind in get_args(Event)} == {kind.__name__ for kind in kinds}
    assert len({kind.kind for kind in get_args(Event)}) == len(get_args(Event))


def _leaves(kind: type[BaseEvent]) -> Iterator[type[BaseEvent]]:
    subclasses = [below for below in kind.__subclasses__() if below.__module__.startswith("flowdebate.")]
    for below in subclasses:  # other tests define subclasses of events
        yield from _leaves(below)
    if not subclasses:
        yield kind
