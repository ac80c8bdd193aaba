"""Resources: state that blocks declare and share within a run."""

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
    """The part of a run that a resource may use when it is opened."""

    @property
    def saved_states(self) -> dict[str, Any]:
        """The session's resource states by key, left by earlier runs; changes are written here."""

    def now(self) -> float:
        """The run's clock, in seconds since the epoch."""

    def emit(self, event: object, /) -> None:
        """Add an event to the run's stream."""


class Resource(Protocol):
    """Anything with a key that can be opened; two resources are the same one only if they are the same object."""

    @property
    def key(self) -> str:
        """The name under which blocks find it: `ctx.resources.<key>`."""

    def open(self, scope: ResourceScope, /) -> Any:  # noqa: ANN401 - each resource has its own type of handle
        """The handle that blocks use during one run."""


@dataclass(frozen=True, eq=False, kw_only=True)
class StateResource(Generic[StateT]):
    """A session-scoped value that blocks read and replace: `ctx.resources.<key>.state`.

    A run starts from the session's value under the key, or from `initial()`. Each run has its own reference, so
    overlapping runs of one session do not see each other's changes; each change is also written to the session, for
    later runs.

    >>> counter = StateResource(key="counter", initial=int)
    """

    key: str
    initial: Callable[[], StateT]

    def open(self, scope: ResourceScope, /) -> StateHandle[StateT]:
        """The run's handle on the value."""
        return StateHandle(self, scope)

    def open_within(self, around: StateHandle[StateT], scope: ResourceScope, /) -> StateHandle[StateT]:
        """A separate handle inside `around`: its changes also reach `around`, but not the other way."""
        return StateHandle(self, scope, around)


class StateHandle(Generic[StateT]):
    """One run's handle on a `StateResource`."""

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
        """The current value."""
        return self._state

    def set(self, state: StateT) -> None:
        """Replace the value."""
        self._state = self._saved[self.resource.key] = state
        if self._around is not None:
            self._around.set(state)


class Resources:
    """The open resources that a block can use, by attribute or by key."""

    __slots__ = ("_handles",)

    def __init__(self, handles: Mapping[str, Any]) -> None:
        self._handles = handles

    def __getitem__(self, key: str) -> Any:  # noqa: ANN401 - see Resource.open
        """The handle under `key`; KeyError lists the available keys."""
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
    """A resource made by `make`; return the same object each time for one that all runs share.

    >>> HeldResource(key="notes", make=list).open(None)
    []
    """

    key: str
    make: Callable[[], HeldT]

    def open(self, scope: ResourceScope, /) -> HeldT:
        """The object."""
        del scope
        return self.make()
