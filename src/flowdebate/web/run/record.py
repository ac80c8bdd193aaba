"""Record shown next to a run: a chart of its calls over time and its task board."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from flowdebate.events import HumanAsked, ModelCalled, TaskChanged, TurnStarted
from flowdebate.ui.steps import RefusedAnswer
from flowdebate.ui.text import models_text

if TYPE_CHECKING:
    from flowdebate.resources.tasks import Task
    from flowdebate.ui.steps import StepState
    from flowdebate.web.run.sheet import Party


T = TypeVar("T")

_LEFT, _WIDTH, _HEIGHT = 66.0, 258.0, 20.0
"""Layout of the chart, in SVG units: the left end of the bars, their maximum length, and the height of a row."""
_MAX_LABEL_LENGTH = 10
"""Maximum length of a name in characters; a longer one would overlap the bars, which begin at `_LEFT`."""
_MAX_DRAWN = 400
"""Maximum number of calls to draw."""
_STEPS_OF_TIME = (0.01, 0.1, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400)
_TICKS = 5
_LAST_TIME = 1e12
"""Latest time accepted as valid, in seconds since the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call to a model or a person."""

    number: int
    """1-based index of the call in recorded order; 0 for a failed call."""
    place: str
    who: str
    """Name of the speaker or role."""
    party: Party | None
    model: str | None = None
    attempts: int = 0
    """Number of requests made to a model; 0 for a person's answer."""
    failures: tuple[str, ...] = ()
    repaired: tuple[str, ...] = ()
    """Names of the repairs made to a structured answer."""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    seconds: float | None = None
    starts: float | None = None
    """Start time of the call, in seconds since the epoch."""
    origin: str = "asked"
    """Origin of the answer: "asked" or, in forks only, "reused" or "edited"."""
    refused: tuple[RefusedAnswer, ...] = ()
    """Failed requests, each with the text of the model's answer, if any."""
    text: str = ""

    @property
    def is_data(self) -> bool:
        """Return whether the answer is structured: a JSON object or list."""
        if not self.text.lstrip().startswith(("{", "[")):
            return False
        try:
            json.loads(self.text)
        except (ValueError, RecursionError):
            return False
        return True


@dataclass(slots=True)
class Sums:
    """Totals over all calls; a total is None if no model was called or its value is unknown for a call."""

    requests: int = 0
    """Number of requests to models, including failed ones."""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    seconds: float | None = None
    _calls: int = 0

    def add(self, call: Call) -> None:
        if call.origin == "asked":
            self.requests += call.attempts
        if call.attempts:
            for name in ("prompt_tokens", "completion_tokens", "seconds"):
                count, so_far = getattr(call, name), getattr(self, name) if self._calls else 0
                setattr(self, name, None if count is None or so_far is None else so_far + count)
            self._calls += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """Bar that represents a call in the chart."""

    x: float
    y: float
    width: float
    call: Call


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Row of bars in the chart, labeled with a name."""

    label: str
    y: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A mark on the time axis and its label."""

    x: float
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """All calls in a run and a chart of when they were made."""

    calls: tuple[Call, ...]
    failed: tuple[Call, ...] = ()
    """Calls without an answer; they cost money but are not steps of the run."""
    bars: tuple[Bar, ...] = ()
    rows: tuple[Row, ...] = ()
    ticks: tuple[Tick, ...] = ()
    height: float = 0.0

    def calls_of(self, name: str) -> Iterator[Call]:
        """Return the calls made by a speaker, or by a role such as the moderator."""
        return (call for call in self.calls if name == (call.who if call.party is None else call.party.name))

    @property
    def models(self) -> str:
        """Description of the models used and their seats."""
        return models_of(self.calls)

    @property
    def sums(self) -> Sums:
        sums = Sums()
        for call in (*self.calls, *self.failed):
            sums.add(call)
        return sums


def models_of(calls: Iterable[Call]) -> str:
    """List the models that answered and their seats on one line; return "" if there are none."""
    seats: dict[str, dict[str, None]] = {}
    for call in calls:
        if call.model is not None and call.attempts:
            seats.setdefault(call.who, {})[call.model] = None
    return models_text({who: ", ".join(names) for who, names in seats.items()}) if seats else ""


def trace_of(steps: Sequence[StepState], events: Sequence[object], parties: Mapping[str, Party]) -> Trace:
    """Build the trace of a run's steps, using events to find the turn of each step or, outside turns, its role."""
    turns = {event.path: event.agent_name for event in events if isinstance(event, TurnStarted)}
    requests = {event.path: event for event in events if isinstance(event, (ModelCalled, HumanAsked))}
    answered = [step for step in steps if step.kind in ("call", "human") and step.finished]
    failed = [step for step in steps if step.kind == "call" and not step.finished and step.refused]
    drawn = draw(tuple(_call(number, step, turns, requests, parties) for number, step in enumerate(answered, 1)))
    return replace(drawn, failed=tuple(_call(0, step, turns, requests, parties) for step in failed))


def turn_at(place: str, turns: Mapping[str, T]) -> T | None:
    """Find the innermost turn containing the path `place`."""
    while place and place not in turns:
        place = place.rpartition("/")[0]
    return turns.get(place)


def _call(
    number: int,
    step: StepState,
    turns: Mapping[str, str],
    requests: Mapping[str, ModelCalled | HumanAsked],
    parties: Mapping[str, Party],
) -> Call:
    speaker = turn_at(step.place, turns)
    # When a block repeats a request, a `#` and a number are added to the path, and only the first request has a role.
    call = requests.get(step.place) or requests.get(step.place.partition("#")[0])
    usage, refused = step.usage, step.refused
    prompts = [request.prompt_tokens for request in refused] + ([usage.prompt_tokens] if usage else [])
    answers = [request.completion_tokens for request in refused] + ([usage.completion_tokens] if usage else [])
    return Call(
        number=number,
        place=step.place,
        who=speaker or (step.place if call is None else _role(call)),
        party=parties.get(speaker or ""),
        model=step.model or (refused[-1].model if refused else None),
        attempts=max(step.attempts, len(refused) + step.finished, 1) if step.kind == "call" else 0,
        failures=tuple(step.failures),
        repaired=tuple(step.repaired),
        refused=tuple(refused),
        prompt_tokens=_sum_of(prompts),
        completion_tokens=_sum_of(answers),
        seconds=step.seconds if step.finished else sum(request.seconds for request in refused),
        starts=None if step.at is None or step.seconds is None else step.at - step.seconds,
        origin=step.origin or "asked",
        text=step.text,
    )


def _sum_of(counts: Sequence[int | None]) -> int | None:
    """Add up counts; return None if there are no counts or if any of them is unknown."""
    reported = [count for count in counts if count is not None]
    return sum(reported) if reported and len(reported) == len(counts) else None


def call_of(
    number: int, event: ModelCalled | HumanAsked, turns: Mapping[str, str], parties: Mapping[str, Party]
) -> Call:
    """Build the call for an event as `trace_of` would, but without the call's text and failures."""
    speaker = turn_at(event.path, turns)
    who, party = speaker or _role(event), parties.get(speaker or "")
    if not isinstance(event, ModelCalled):
        return Call(number=number, place=event.path, who=who, party=party)
    return Call(
        number=number,
        place=event.path,
        who=who,
        party=party,
        model=event.model,
        attempts=max(len(event.attempts), 1),
        repaired=event.repaired,
        refused=tuple(RefusedAnswer.of(attempt) for attempt in event.attempts if attempt.error is not None),
        prompt_tokens=event.usage.prompt_tokens,
        completion_tokens=event.usage.completion_tokens,
        seconds=event.seconds,
        starts=event.at - event.seconds,
        origin=event.origin,
    )


def _role(event: ModelCalled | HumanAsked) -> str:
    role = event.role or event.block
    return role[:1].upper() + role[1:]


def draw(calls: tuple[Call, ...]) -> Trace:
    """Draw the chart for these calls; omit the bars if there are too many calls or none has a known time."""

    def is_timed(call: Call) -> bool:  # An imported run's journal may contain anything.
        is_known = None not in (call.starts, call.seconds)
        return is_known and (call.seconds or 0) >= 0 and abs(call.starts or 0) < _LAST_TIME

    timed = list(filter(is_timed, calls))
    if not timed or len(timed) > _MAX_DRAWN:
        return Trace(calls=calls)
    begins = min(call.starts or 0.0 for call in timed)
    # A replayed run, or a run whose answers are instant, may take no time.
    lasts = max(max((call.starts or 0.0) + (call.seconds or 0.0) for call in timed) - begins, 0.001)
    step = next((interval for interval in _STEPS_OF_TIME if lasts / interval <= _TICKS), lasts / _TICKS)
    names = list(dict.fromkeys(call.who for call in timed))
    bars, rows, y = list[Bar](), list[Row](), 4.0
    for name in names:
        label = name if len(name) <= _MAX_LABEL_LENGTH else f"{name[: _MAX_LABEL_LENGTH - 1]}…"
        rows.append(Row(label=label, y=y + 9))
        lanes: list[float] = []
        for call in sorted(
            (timed_call for timed_call in timed if timed_call.who == name),
            key=lambda timed_call: timed_call.starts or 0.0,
        ):
            start, width = (call.starts or 0.0) - begins, call.seconds or 0.0
            # If a speaker's calls overlap, as in a panel, they are drawn below one another.
            lane = next((at for at, ends in enumerate(lanes) if ends <= start), len(lanes))
            lanes[lane : lane + 1] = [start + width]
            x = _LEFT + _WIDTH * start / lasts
            bars.append(
                Bar(x=x, y=y + lane * _HEIGHT, width=max(_WIDTH * width / lasts, 1.5), call=call)
            )  # keeps short calls visible
        y += max(len(lanes), 1) * _HEIGHT
    ticks = [Tick(x=_LEFT + _WIDTH * at * step / lasts, label=_time(at * step)) for at in range(int(lasts / step) + 1)]
    return Trace(calls=calls, bars=tuple(bars), rows=tuple(rows), ticks=tuple(ticks), height=y)


def _time(seconds: float) -> str:
    """Format a time for use on the axis.

    >>> _time(0), _time(15), _time(0.5), _time(120), _time(7200)
    ('0 s', '15 s', '0.5 s', '2 min', '2 h')
    """
    for unit, name in ((3600, "h"), (60, "min")):
        if seconds >= unit and seconds % unit == 0:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.10g} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A run's current tasks, open ones first."""

    tasks: tuple[tuple[Task, Party | None], ...] = ()
    number: int = 0
    completed: int = 0


def board_of(events: Sequence[object], parties: Mapping[str, Party]) -> Board:
    """Build the task board as it stands after the given events."""
    tasks = {(event.collection_id, event.task.id): event.task for event in events if isinstance(event, TaskChanged)}
    ordered = sorted(tasks.values(), key=lambda task: task.finished)
    return Board(
        tasks=tuple((task, parties.get(task.assignee or "")) for task in ordered),
        number=len(ordered),
        completed=sum(task.status == "completed" for task in ordered),
    )
