"""Resources: state that blocks declare, and share within a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = (
    "HeldResource",
    "Resource",
    "ResourceScope",
    "Resources",
    "StateHandle",
    "StateResource",
)

StateT = TypeVar("StateT")


class ResourceScope(Protocol):
    """What a resource may use of the run that opens it."""

    @property
    def saved_states(self) -> dict[str, Any]:
        """The session's resource states by key: what earlier runs of the session left, and where changes go."""

    def now(self) -> float:
        """The run's clock, in seconds since the epoch."""

    def emit(self, event: object, /) -> None:
        """Add an event to the run's stream."""


class Resource(Protocol):
    """Anything with a key that can be opened; two resources are the same one only if they are the same object."""

    @property
    def key(self) -> str:
        """The name under which blocks find it: `ctx.resources.<key>`."""

    def open(self, scope: ResourceScope, /) -> Any:  # noqa: ANN401 - each resource has a handle of its own type
        """What blocks get to hold during one run."""


@dataclass(frozen=True, eq=False, kw_only=True)
class StateResource(Generic[StateT]):
    """A session-scoped value that blocks read and replace: `ctx.resources.<key>.state`.

    A run starts from what the session holds under the key, or from `initial()`. It keeps its own copy of the
    reference, so that runs of one session that overlap in time cannot see each other's changes; each change is
    also left in the session, for later runs.

    >>> counter = StateResource(key="counter", initial=int)
    """

    key: str
    initial: Callable[[], StateT]

    def open(self, scope: ResourceScope, /) -> StateHandle[StateT]:
        """The run's hold on the value."""
        return StateHandle(self, scope)

    def open_within(self, around: StateHandle[StateT], scope: ResourceScope, /) -> StateHandle[StateT]:
        """A hold of its own inside `around`: its changes also reach `around`, but those of `around` not it."""
        return StateHandle(self, scope, around)


class StateHandle(Generic[StateT]):
    """One run's hold on a `StateResource`."""

    __slots__ = ("_around", "_saved", "_state", "resource")

    def __init__(
        self, resource: StateResource[StateT], scope: ResourceScope, around: StateHandle[StateT] | None = None
    ) -> None:
        self.resource = resource
        self._around = around
        self._saved = scope.saved_states
        if around is not None:
            self._state: StateT = around.state
        else:
            self._state = self._saved[resource.key] if resource.key in self._saved else resource.initial()

    @property
    def state(self) -> StateT:
        """The value as it is now."""
        return self._state

    def set(self, state: StateT) -> None:
        """Replace the value."""
        self._state = self._saved[self.resource.key] = state
        if self._around is not None:
            self._around.set(state)


class Resources:
    """The open resources that a block can reach, by attribute or by key."""

    __slots__ = ("_handles",)

    def __init__(self, handles: Mapping[str, Any]) -> None:
        self._handles = handles

    def __getitem__(self, key: str) -> Any:  # noqa: ANN401 - see Resource.open
        """The handle under `key`; KeyError names the keys that there are."""
        try:
            return self._handles[key]
        except KeyError:
            raise KeyError(self._missing(key)) from None

    def __getattr__(self, key: str) -> Any:  # noqa: ANN401 - see Resource.open
        try:
            return self._handles[key]
        except KeyError:
            raise AttributeError(self._missing(key)) from None

    def __contains__(self, key: object) -> bool:
        return key in self._handles

    def __iter__(self) -> Iterator[str]:
        return iter(self._handles)

    def __len__(self) -> int:
        return len(self._handles)

    def _missing(self, key: str) -> str:
        there = ", ".join(map(repr, self._handles)) or "none"
        return f"no resource {key!r} is in reach (there: {there}); declare it: handler(..., resources={{{key!r}: ...}})"


HeldT = TypeVar("HeldT")


@dataclass(frozen=True, eq=False, kw_only=True)
class HeldResource(Generic[HeldT]):
    """What `make` makes, under `key`; return the same object for one that all runs share.

    >>> HeldResource(key="notes", make=list).open(None)
    []
    """

    key: str
    make: Callable[[], HeldT]

    def open(self, scope: ResourceScope, /) -> HeldT:
        """The object."""
        del scope
        return self.make()
