"""Resources: state that blocks declare and share within a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from flowdebate._util.wire import freeze
from flowdebate.errors import ReadOnly

StateT = TypeVar("StateT")


class ResourceScope(Protocol):
    """View of the run, passed to a resource's `open` method."""

    @property
    def saved_states(self) -> dict[str, Any]:
        """Resource states saved in the session by earlier runs, by resource key; write changes to this mapping."""

    def now(self) -> float:
        """Return the current time on the run's clock, in seconds since the epoch."""

    def emit(self, event: object, /) -> None:
        """Add an event to the run's stream."""


class Resource(Protocol):
    """Protocol for resources: objects with a key and an `open` method. Resources are compared by identity."""

    @property
    def key(self) -> str:
        """Name that blocks use to access the resource: `ctx.resources.<key>`."""

    def open(self, scope: ResourceScope, /) -> Any:  # noqa: ANN401 - each resource has its own type of handle
        """Open the handle that blocks use during a run."""


class Protectable:
    """Handle that a sequencer can protect: blocks then get a view, and only the sequencer's own steps can change it."""

    __slots__ = ("protected",)

    def __init__(self) -> None:
        self.protected: bool = False

    def view(self, block: str) -> Any:  # noqa: ANN401 - each handle has its own type of view
        raise NotImplementedError


@dataclass(frozen=True, eq=False, kw_only=True)
class StateResource(Generic[StateT]):
    """A session-scoped value that blocks can read and replace: `ctx.resources.<key>.state`.

    A run starts with the session's value for the key, or with `initial()`. Each run has its own reference, so
    overlapping runs in one session do not see each other's changes; each change is also written to the session, for
    later runs.

    >>> counter = StateResource(key="counter", initial=int)
    """

    key: str
    initial: Callable[[], StateT]

    def open(self, scope: ResourceScope, /) -> StateHandle[StateT]:
        """Open a handle to the value for one run."""
        return StateHandle(self, scope)

    def open_within(self, around: StateHandle[StateT], scope: ResourceScope, /) -> StateHandle[StateT]:
        """Open a nested handle.

        Changes made through the nested handle also apply to `around`, unless `around` is protected. Changes to `around`
        do not affect the nested handle.
        """
        return StateHandle(self, scope, around)


class StateHandle(Protectable, Generic[StateT]):
    """A run's handle to a `StateResource`."""

    __slots__ = ("_around", "_saved", "_state", "resource")

    def __init__(
        self, resource: StateResource[StateT], scope: ResourceScope, around: StateHandle[StateT] | None = None
    ) -> None:
        super().__init__()
        self.resource: StateResource[StateT] = resource
        # a protected handle is a pattern's transcript, which only that pattern's turns may change
        self._around = None if around is None or around.protected else around
        self._saved = scope.saved_states
        if around is not None:
            self._state: StateT = around.state
        else:
            self._state = self._saved[resource.key] if resource.key in self._saved else resource.initial()

    @property
    def state(self) -> StateT:
        return self._state

    def set(self, state: StateT) -> None:
        self._state = self._saved[self.resource.key] = state
        if self._around is not None:
            self._around.set(state)

    def snapshot(self) -> StateHandle[StateT]:
        """Return an independent handle to the current value.

        Changes made through the new handle do not affect this one.
        """
        copied = copy(self)
        copied._saved, copied._around = {}, None  # noqa: SLF001 - same class
        return copied

    def view(self, block: str) -> StateView[StateT]:
        return StateView(self, block)


class StateView(Generic[StateT]):
    """Read-only view of a protected `StateHandle` for use by blocks; the value is frozen."""

    __slots__ = ("_block", "_handle")

    def __init__(self, handle: StateHandle[StateT], block: str) -> None:
        self._handle = handle
        self._block = block

    @property
    def resource(self) -> StateResource[StateT]:
        return self._handle.resource

    @property
    def state(self) -> StateT:
        value: StateT = freeze(self._handle.state)
        return value

    def set(self, _: StateT, /) -> None:
        """Raise ReadOnly, naming the offending block."""
        raise ReadOnly(
            f"the pattern's {self.resource.key}", "blocks add to it through their answers", block=self._block
        )


class Resources:
    """The open resources available to a block, accessible as attributes or by key."""

    __slots__ = ("_block", "_handles")

    def __init__(self, handles: Mapping[str, Any], block: str = "") -> None:
        self._handles = handles
        self._block = block

    def __getitem__(self, key: str) -> Any:  # noqa: ANN401 - see Resource.open
        """Return the handle stored under `key`; raise a KeyError listing the available keys if there is none."""
        try:
            return self._seen(self._handles[key])
        except KeyError:
            raise KeyError(self._missing(key)) from None

    def __getattr__(self, key: str) -> Any:  # noqa: ANN401 - see Resource.open
        try:
            return self._seen(self._handles[key])
        except KeyError:  # `hasattr` and `copy` expect an AttributeError
            raise AttributeError(self._missing(key)) from None

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._handles})

    def __contains__(self, key: object) -> bool:
        return key in self._handles

    def __iter__(self) -> Iterator[str]:
        return iter(self._handles)

    def __len__(self) -> int:
        return len(self._handles)

    def _seen(self, handle: object) -> object:
        return handle.view(self._block) if isinstance(handle, Protectable) and handle.protected else handle

    def _missing(self, key: str) -> str:
        bound_names = ", ".join(map(repr, self._handles)) or "none"
        return (
            f"no resource {key!r} is available here (available: {bound_names}); "
            f"declare it: handler(..., resources={{{key!r}: ...}})"
        )


HeldT = TypeVar("HeldT")


@dataclass(frozen=True, eq=False, kw_only=True)
class HeldResource(Generic[HeldT]):
    """A resource created by `make`.

    To share a resource between all runs, have `make` return the same object each time.

    >>> HeldResource(key="notes", make=list).open(None)
    []
    """

    key: str
    make: Callable[[], HeldT]

    def open(self, scope: ResourceScope, /) -> HeldT:
        del scope
        return self.make()
