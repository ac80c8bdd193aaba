"""All run events, their union `Event`, and the published wire format of the events in a run's stream.

>>> from flowdebate import generator
>>> from flowdebate.events import Event, wire_of
>>> from flowdebate.testing import ScriptedModel
>>> result = generator(name="poet", prompt="Write a line.").run_sync("Rivers.", model=ScriptedModel("They run."))
>>> [(event.kind, event.path) for event in result.events if isinstance(event, Event)]
[('run_started', 'poet'), ('model_called', 'poet'), ('block_answered', 'poet'), ('run_finished', 'poet')]
>>> wire_of(result.events[2])["output"], wire_of({"progress": 0.5})
('They run.', {'kind': 'custom', 'name': 'dict', 'value': {'progress': 0.5}})
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import fields
from functools import cache
from inspect import getdoc
from math import isfinite
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Union, get_args, get_type_hints

from flowdebate._util.json_data import json_data, wire_names
from flowdebate._util.wire import BaseEvent as BaseEvent
from flowdebate.chassis.registry import load
from flowdebate.chassis.state import EscalationStepFinished as EscalationStepFinished
from flowdebate.chassis.state import RoleFailed as RoleFailed
from flowdebate.chassis.state import RoundsEnded as RoundsEnded
from flowdebate.chassis.state import RoundStarted as RoundStarted
from flowdebate.chassis.state import TurnFinished as TurnFinished
from flowdebate.chassis.state import TurnsOrdered as TurnsOrdered
from flowdebate.chassis.state import TurnStarted as TurnStarted
from flowdebate.patterns import PATTERNS
from flowdebate.resources.tasks import TaskChanged as TaskChanged
from flowdebate.runs.events import BlockAnswered as BlockAnswered
from flowdebate.runs.events import CallFellBack as CallFellBack
from flowdebate.runs.events import CallRetried as CallRetried
from flowdebate.runs.events import CallStarted as CallStarted
from flowdebate.runs.events import CircuitChanged as CircuitChanged
from flowdebate.runs.events import HumanAsked as HumanAsked
from flowdebate.runs.events import ModelCalled as ModelCalled
from flowdebate.runs.events import RunFinished as RunFinished
from flowdebate.runs.events import RunStarted as RunStarted
from flowdebate.runs.events import TextDelta as TextDelta
from flowdebate.runs.events import TextWithdrawn as TextWithdrawn
from flowdebate.runs.events import ToolCalled as ToolCalled

if TYPE_CHECKING:  # loaded from the patterns' folders on first use, by `__getattr__`
    from flowdebate.patterns.consensus.events import AgentMessage as AgentMessage
    from flowdebate.patterns.consensus.events import ConsensusDecided as ConsensusDecided
    from flowdebate.patterns.consensus.events import CritiqueMade as CritiqueMade
    from flowdebate.patterns.consensus.events import DebateEnded as DebateEnded
    from flowdebate.patterns.consensus.events import DebateStarted as DebateStarted
    from flowdebate.patterns.consensus.events import PollVoteCast as PollVoteCast
    from flowdebate.patterns.consensus.events import StageEntered as StageEntered
    from flowdebate.patterns.consensus.events import VoteCast as VoteCast
    from flowdebate.patterns.council.events import ReviewFinished as ReviewFinished
    from flowdebate.patterns.critique.events import AnswerDecided as AnswerDecided
    from flowdebate.patterns.critique.events import AnswerGiven as AnswerGiven
    from flowdebate.patterns.critique.events import ClaimsMade as ClaimsMade
    from flowdebate.patterns.critique.events import ClaimsRuled as ClaimsRuled
    from flowdebate.patterns.debate.events import JudgeViewMade as JudgeViewMade
    from flowdebate.patterns.debate.events import MirrorStarted as MirrorStarted
    from flowdebate.patterns.debate.events import ModeratorDecided as ModeratorDecided
    from flowdebate.patterns.debate.events import VerdictReached as VerdictReached
    from flowdebate.patterns.deliberation.events import ModeratorReported as ModeratorReported
    from flowdebate.patterns.handoff.events import HandoffMade as HandoffMade
    from flowdebate.patterns.review.events import FindingsDecided as FindingsDecided
    from flowdebate.patterns.review.events import FindingsExamined as FindingsExamined
    from flowdebate.patterns.review.events import FindingsReported as FindingsReported
    from flowdebate.patterns.round_robin.events import RefereeReported as RefereeReported

EVENT_FORMAT = 1
"""Version of the event wire format. Adding kinds, fields or values does not change it."""

_MAX_CUSTOM_SIZE = 100_000
"""Maximum size of a custom event in characters; each value inside it counts as ten characters."""

RunEvent: TypeAlias = (
    RunStarted
    | RunFinished
    | HumanAsked
    | TextDelta
    | TextWithdrawn
    | ToolCalled
    | BlockAnswered
    | CallStarted
    | ModelCalled
    | CallRetried
    | CallFellBack
    | CircuitChanged
    | TaskChanged
)
"""Events that every run can emit."""

_SharedEvent: TypeAlias = (
    RoundStarted | TurnsOrdered | TurnStarted | TurnFinished | RoleFailed | RoundsEnded | EscalationStepFinished
)
"""Events shared by all patterns."""

if TYPE_CHECKING:
    PatternEvent: TypeAlias = (
        _SharedEvent
        | ModeratorDecided
        | MirrorStarted
        | JudgeViewMade
        | VerdictReached
        | ModeratorReported
        | HandoffMade
        | DebateStarted
        | StageEntered
        | AgentMessage
        | CritiqueMade
        | PollVoteCast
        | VoteCast
        | ConsensusDecided
        | DebateEnded
        | RefereeReported
        | ReviewFinished
        | FindingsReported
        | FindingsExamined
        | FindingsDecided
    )
    """Events of all built-in patterns."""

    Event: TypeAlias = RunEvent | PatternEvent
    """Every event of this library, for type checkers.

    A run's stream may also contain events of other registered patterns, which are listed in their registry entries, and
    any objects that an application passes to `ctx.emit`.
    """

_SHARED: frozenset[type[BaseEvent]] = frozenset(get_args(RunEvent | _SharedEvent))
"""Events that a run of any pattern can emit."""


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a class of events, or their union
    """Load an event class from its pattern's folder, or build a union of event classes."""
    places = _event_modules()
    if name in ("Event", "PatternEvent"):
        return _union_of(name, tuple(places.values()))
    if name in places:
        return load(places[name])
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)


def __dir__() -> list[str]:
    return sorted([*globals(), "Event", "PatternEvent", *_event_modules()])


@cache  # cached so that all modules that import a union get the same object
def _union_of(name: str, places: tuple[str, ...]) -> object:
    """Build the union of all events, or of the given patterns' events."""
    of_patterns = (_SharedEvent, *map(load, places))
    return Union[of_patterns if name == "PatternEvent" else (RunEvent, *of_patterns)]  # noqa: UP007 - of a tuple


def _event_modules() -> dict[str, str]:
    """Return the import paths of the built-in patterns' event classes, keyed by class name."""
    places = (place for info in PATTERNS.values() for place in info.events)
    return {place.partition(":")[2]: place for place in places if place.startswith("flowdebate.patterns.")}


def changes() -> tuple[type[BaseEvent], ...]:
    """Return the event classes that update a run's page: all pattern events except the start of a turn."""
    shared = (kind for kind in get_args(_SharedEvent) if kind is not TurnStarted)
    return (*shared, *(kind for info in PATTERNS.values() for kind in info.load_events()))


def wire_of(event: object) -> dict[str, Any]:
    """Convert any event to JSON data, starting with `kind`: library events by `to_wire()`, others as "custom".

    Library events include those declared by patterns registered by the application.

    A custom event has the `name` of the class that the application passed to `ctx.emit`. It has a `value` if the object
    is JSON data or can be converted to it (dataclasses, models, dates, sets, …), up to 50 levels deep and 100,000
    characters long, with each value counted as ten characters. It has `path` and `at` if the class is derived from
    `BaseEvent`. Whatever the event is, this function never raises, and `json.dumps(wire, allow_nan=False)` accepts its
    result.
    """
    with suppress(Exception):  # an application's class can be anything, even unhashable
        if isinstance(event, BaseEvent):
            kind: Any = type(event)
            if kind in _SHARED or _is_registered(kind):
                return event.to_wire()
    wire: dict[str, Any] = {"kind": "custom", "name": "object"}
    with suppress(Exception):
        wire["name"] = json_data(type(event).__name__)
    with suppress(Exception):
        wire |= _location_of(event)
    with suppress(Exception):  # the value is not JSON data, is too large, or raises an error of its own
        facts: object = event
        if isinstance(event, BaseEvent):  # its path and time are already in `wire`
            kind = type(event)
            facts = {key: getattr(event, name) for name, key in wire_names(kind) if name not in {"path", "at"}}
        wire["value"] = json_data(facts, largest=_MAX_CUSTOM_SIZE, strict=True)
    return wire


def _is_registered(kind: type[BaseEvent]) -> bool:
    # the event class is usually found by its name, without loading any other class
    place = f"{kind.__module__}:{kind.__qualname__}"
    entries = PATTERNS.values()
    return any(place in info.events for info in entries) or any(kind in info.load_events() for info in entries)


def event_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) for `wire_of(event)`: one schema for all kinds of events.

    Events are distinguished by `kind`. The schema consists of `events.schema.json`, a file in the package generated
    from the event classes, and the events of any other registered patterns. Since objects may have additional keys, the
    schema also accepts events from later versions with the same `EVENT_FORMAT`.
    """
    from importlib.resources import files

    schema: dict[str, Any] = json.loads(files("flowdebate").joinpath("events.schema.json").read_text("utf-8"))
    published = frozenset(schema["discriminator"]["mapping"])
    for kind in changes():
        if kind.kind not in published:
            _add_to(schema, kind)
    return schema


def _add_to(schema: dict[str, Any], kind: type[Any]) -> None:
    """Add the wire format of a registered pattern's event to `schema`, leaving the published kinds unchanged."""
    from pydantic import ConfigDict, create_model
    from pydantic.alias_generators import to_camel

    try:
        types = get_type_hints(kind, include_extras=True)
    except NameError:  # the class may be imported only for type checkers
        types = {}
    declared: dict[str, Any] = {"kind": (Literal[kind.kind], ...)}
    for field in fields(kind):
        default = field.default if field.metadata.get("sparse") else ...
        declared[field.name] = (types.get(field.name, Any), default)
    config = ConfigDict(alias_generator=to_camel, arbitrary_types_allowed=True)
    model = create_model(kind.__name__, __config__=config, __doc__=getdoc(kind), **declared)
    event_schema_ = model.model_json_schema(mode="serialization", ref_template="#/$defs/{model}")
    schema["$defs"] |= {**event_schema_.pop("$defs", {}), kind.__name__: event_schema_}
    schema["oneOf"].append(ref := {"$ref": f"#/$defs/{kind.__name__}"})
    schema["discriminator"]["mapping"][kind.kind] = ref["$ref"]


def _location_of(event: object) -> dict[str, Any]:
    """Return the path and time of an application-defined `BaseEvent`, if they are set."""
    if not isinstance(event, BaseEvent):
        return {}
    path = {"path": json_data(event.path)} if event.path and isinstance(event.path, str) else {}
    timed = isinstance(event.at, (int, float)) and event.at and isfinite(event.at)
    return {**path, "at": float(event.at)} if timed else path
