"""Records of a run: its events, its model calls in progress, and the states of its resources."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import InitVar, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from flowdebate._util.wire import BaseEvent, BlockEvent
from flowdebate.runs.events import CallStarted
from flowdebate.runs.journal import is_within

if TYPE_CHECKING:
    from flowdebate.models.base import ModelRequest


@dataclass(slots=True, eq=False, repr=False)
class Records:
    """`ResourceScope` for a whole run; it holds the run's event stream and the resource states from the session.

    Resources keep a reference to this object. If they referred to the `Run` instead, the reference cycle would delay
    freeing the run.
    """

    saved: InitVar[dict[str, Any]]
    now: Callable[[], float]
    """Function that returns the current time on the run's clock, in seconds since the epoch."""
    events: list[object] = field(default_factory=list)
    """Events recorded so far, as in `result.events`."""
    listeners: list[Callable[[object], None]] = field(default_factory=list)
    """Callbacks to call with each event; text is streamed only if there are listeners."""
    observe: Callable[[object], None] | None = None
    """Callback that passes each recorded event to the run's observer; the observer does not need streamed text."""
    calls: dict[int, CallStarted] = field(default_factory=dict)
    """Model calls in progress, reported to readers who join later."""
    saved_states: dict[str, Any] = field(init=False)
    """Resource states in the session when the run started, by key; new states are written to the session for later
    runs.
    """
    held_events: dict[str, list[tuple[bool, object, str]]] = field(default_factory=dict)
    """Events being held back, keyed by the path passed to `hold`; each entry is a (recorded, event, path) tuple."""
    closed: bool = False
    """True once the run is over."""

    def __post_init__(self, saved: dict[str, Any]) -> None:
        self.saved_states = _SavedStates(saved)

    def subscribe(self, listener: Callable[[object], None]) -> None:
        """Call `listener` with every subsequent event."""
        self.listeners = [*self.listeners, listener]

    def unsubscribe(self, listener: Callable[[object], None]) -> None:
        # Always replace the list, because a listener may unsubscribe or add another listener while `emit` is iterating.
        self.listeners = [subscriber for subscriber in self.listeners if subscriber != listener]

    def emit(self, event: object, /, path: str = "", role: str | None = None) -> None:
        """Record `event`, emitted at `path` by a block with this `role`, and pass it to the listeners.

        Do nothing once the run is over.
        """
        if self.closed:
            return
        if isinstance(event, BaseEvent):
            event.at = event.at or self.now()  # an event that was held back already has a timestamp
            if not event.path:  # an event about a call already has the call's path
                event.path = path
            if role is not None and isinstance(event, BlockEvent) and event.role is None:
                event.role = role
        if self.held_events and self._is_held(event, path, recorded=True):
            return
        self.events.append(event)
        if self.observe is not None:
            self.observe(event)
        for listener in self.listeners:
            listener(event)

    def notify(self, event: object) -> None:
        """Pass `event` to the listeners without recording it."""
        if self.held_events and self._is_held(event, "", recorded=False):
            return
        for listener in self.listeners:
            listener(event)

    @contextmanager
    def hold(self, path: str) -> Iterator[None]:
        """Hold back the events below `path` until they are released or the context exits.

        As a result, readers receive the events of concurrent blocks one block at a time, in the same order in every
        run.
        """
        self.held_events[path] = []
        try:
            yield
        finally:
            self.release(path)

    def release(self, path: str) -> None:
        """Emit all held events below `path`, and stop holding them back."""
        for recorded, event, place in self.held_events.pop(path, ()):
            if recorded:
                self.emit(event, place)
            else:
                self.notify(event)

    def _is_held(self, event: object, path: str, *, recorded: bool) -> bool:
        path = getattr(event, "path", path) or path
        # Use the innermost path at which events are held back, because a debater may itself be a mirrored debate.
        around = max((holder for holder in self.held_events if is_within(path, holder)), key=len, default=None)
        if around is not None:
            self.held_events[around].append((recorded, event, path))
        return around is not None

    def call_started(self, request: ModelRequest, model: str, path: str) -> CallStarted:
        """Announce a model call, and keep it in `calls` until `call_ended` removes it."""
        event = CallStarted(block=request.block, role=request.role, model=model, path=path, at=self.now())
        self.calls[id(event)] = event
        self.notify(event)
        return event

    def call_ended(self, started: CallStarted) -> None:
        """Remove the call from the calls in progress."""
        del self.calls[id(started)]


class ResourcePlace:
    """`ResourceScope` for a resource opened at a path in a run."""

    __slots__ = ("emit", "now", "saved_states")

    def __init__(self, records: Records, path: str) -> None:
        self.now: Callable[[], float] = records.now
        self.saved_states: dict[str, Any] = records.saved_states
        self.emit: Callable[[object], None] = partial(records.emit, path=path)


class _SavedStates(dict[str, Any]):
    """Resource states found in the session at the start of the run; writes go to the session.

    Resources are opened with these states.
    """

    def __init__(self, session: dict[str, Any]) -> None:
        super().__init__(session)
        self._session = session

    def __setitem__(self, key: str, state: object) -> None:
        self._session[key] = state
