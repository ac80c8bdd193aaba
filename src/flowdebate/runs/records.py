"""What a run writes: its stream of events, and the states that resources leave in the session.

Kept apart from `Run`, since resources hold on to it: a run that they held would be a cycle, freed late.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ("Records",)


class Records:
    """The `ResourceScope` of a run."""

    __slots__ = ("closed", "events", "listeners", "now", "saved_states")

    def __init__(self, saved: dict[str, Any], now: Callable[[], float]) -> None:
        self.now = now
        """The run's clock, in seconds since the epoch."""
        self.events: list[object] = []
        """Everything told so far; what `result.events` will be."""
        self.listeners: list[Callable[[object], None]] = []
        """Those who read along; without any, text is not streamed."""
        self.saved_states: dict[str, Any] = _SavedStates(saved)
        """What the session held when the run began, by key; what is set goes to the session, for later runs."""
        self.closed = False
        """Whether the run is over."""

    def emit(self, event: object, /) -> None:
        """Keep `event`, and tell it to those who read along; once the run is over, nothing."""
        if self.closed:
            return
        self.events.append(event)
        for listener in self.listeners:
            listener(event)

    def tell(self, event: object) -> None:
        """Tell `event` to those who read along, without keeping it."""
        for listener in self.listeners:
            listener(event)


class _SavedStates(dict[str, Any]):
    """Reads what was there when the run began: all that it opens starts from the same. Writes to the session."""

    def __init__(self, session: dict[str, Any]) -> None:
        super().__init__(session)
        self._session = session

    def __setitem__(self, key: str, state: Any) -> None:  # noqa: ANN401 - each resource has a state of its own type
        self._session[key] = state
