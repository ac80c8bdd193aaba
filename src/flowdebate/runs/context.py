"""Context of a block: its session, resources, steps, events and randomness while it acts."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from random import Random
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pydantic import BaseModel

from flowdebate._util.wire import freeze
from flowdebate.errors import ConfigurationError, ReadOnly
from flowdebate.resources.resource import Resource, Resources
from flowdebate.runs.journal import DECISION

if TYPE_CHECKING:
    from flowdebate.models.base import Model, Usage
    from flowdebate.models.resolve import ModelChoice, ModelSpec
    from flowdebate.runs.run import Run
    from flowdebate.runs.session import Session

T = TypeVar("T")


_SPECIAL = re.compile(r"[%/\[\]#]")


@lru_cache(maxsize=1024)  # cached: each step of a loop needs the same value
def place_of(name: str) -> str:
    """Escape `name` for use in a path, so that different names give different paths.

    >>> place_of("for/against")
    'for%2Fagainst'
    """
    return _SPECIAL.sub(lambda match: f"%{ord(match[0]):02X}", name)


@dataclass(slots=True, eq=False, repr=False)
class SequencerHandle:
    """The state of the nearest sequencer that has one, as `ctx.sequencer`."""

    name: str
    state: Any
    """The current value; blocks replace it as a whole or through `update`."""
    path: str = ""
    """Path of the sequencer in the run."""
    protected: bool = field(default=False, kw_only=True)
    """True if only the sequencer's steps may change the state; other blocks see it through `SequencerView`."""
    deadline: float | None = field(default=None, init=False)
    """Deadline of the sequencer's current round, on the event loop's clock; None for no deadline."""
    derived: dict[object, Any] = field(default_factory=dict, init=False)
    """Values derived from the history so far, such as its rendering, which later steps extend."""

    def update(self, **changes: object) -> None:
        """Replace fields of a pydantic, dataclass or dict state; ConfigurationError for an unknown field."""
        state = self.state
        if self.protected:  # frozen once, when it is added: `SequencerView.state` shares it with all blocks
            changes = {name: freeze(value) for name, value in changes.items()}
        if isinstance(state, dict):
            self.state = {**state, **changes}
            return
        is_model = isinstance(state, BaseModel)
        field_names = list(
            type(state).__pydantic_fields__ if is_model else (state_field.name for state_field in fields(state))
        )
        for name in changes:  # `model_copy` would accept any name
            if name not in field_names:
                location = f"state of sequencer {self.name!r}"
                raise ConfigurationError(location, "update()", name, f"one of its fields: {', '.join(field_names)}")
        self.state = state.model_copy(update=changes) if is_model else replace(state, **changes)


class SequencerView:
    """View of a protected sequencer for the block `block`: its state is readable and frozen."""

    __slots__ = ("_block", "_handle")
    _block: str
    _handle: SequencerHandle

    def __init__(self, handle: SequencerHandle, block: str) -> None:
        object.__setattr__(self, "_handle", handle)
        object.__setattr__(self, "_block", block)

    @property
    def name(self) -> str:
        return self._handle.name

    @property
    def path(self) -> str:
        """Path of the sequencer in the run."""
        return self._handle.path

    @property
    def deadline(self) -> float | None:
        """Deadline of the sequencer's current round, on the event loop's clock; None for no deadline."""
        return self._handle.deadline

    @property
    def state(self) -> Any:  # noqa: ANN401 - each has a state of its own type
        return freeze(self._handle.state)

    def update(self, **changes: object) -> None:
        """Raise ReadOnly with the name of the block."""
        raise self._refusal(*changes)

    def __setattr__(self, name: str, value: object) -> None:
        """Raise ReadOnly, like `update`."""
        raise self._refusal(name)

    def _refusal(self, *names: str) -> ReadOnly:
        what = f"{', '.join(f'`{name}`' for name in names) or 'the state'} of {self.name!r}"
        return ReadOnly(what, "blocks add to it by answering, and read it in `ctx.sequencer.state`", block=self._block)


@dataclass(slots=True, eq=False, repr=False)
class Scope:
    """The open resources, the state and the default models that blocks at one path of a pipeline share."""

    handles: Mapping[str, Any]
    opened: Mapping[Resource, Any]
    sequencer: SequencerHandle | None
    models: tuple[ModelChoice, ...] = ()
    """Models of the enclosing sequencers, the nearest first, for blocks without a model of their own."""
    looked_up: dict[object, Any] = field(default_factory=dict, init=False)
    """Cache of values that depend only on these models, such as the wording of prompts, by owner."""

    @property
    def handle(self) -> SequencerHandle:
        """The sequencer's handle for its own steps, with write access to a protected state."""
        if self.sequencer is None:
            message = "there is no sequencer with a state around"
            raise AttributeError(message)
        return self.sequencer


class _Named(Protocol):
    """Interface of blocks that paths need."""

    name: str
    place: str


@dataclass(slots=True, eq=False, repr=False)
class Context:
    """The second argument of every block: `def block(input, ctx)`."""

    run: Run
    """The run of the block."""
    scope: Scope
    """Scope for the steps of a pattern; other blocks use `resources` and `sequencer`."""
    block: str
    """The block's name."""
    path: str
    """The block's path in the run: the same in every run of the pattern that takes the same branches."""
    role: str | None = None
    """Role of the block in its pattern, such as "judge", inherited by blocks inside it; None outside any role."""
    _random: Random | None = field(default=None, init=False)
    _steps: dict[str, int] | None = field(default=None, init=False)

    @property
    def session(self) -> Session:
        """The application's session: `ctx.session.state` is its dict."""
        return self.run.session

    @property
    def resources(self) -> Resources:
        """Resources available to the block: `ctx.resources.transcript.state`."""
        return Resources(self.scope.handles, self.block)

    @property
    def sequencer(self) -> SequencerHandle | SequencerView:
        """Nearest enclosing sequencer with a state: `ctx.sequencer.state.round`; a pattern's sequencer is read-only."""
        handle = self.scope.sequencer
        if handle is None:
            message = f"block {self.block!r} is not inside a sequencer with a state"
            raise AttributeError(message)
        return SequencerView(handle, self.block) if handle.protected else handle

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.run.run_id

    @property
    def seed(self) -> int:
        """The run's seed."""
        return self.run.seed

    @property
    def usage(self) -> Usage:
        """Usage of the run's calls so far."""
        return self.run.usage

    @property
    def random(self) -> Random:
        """Random source for this path in the run, seeded with the run's seed and the path to be reproducible."""
        if self._random is None:
            self._random = Random(f"{self.run.seed}:{self.path}")  # noqa: S311 - repeatable on purpose
        return self._random

    def model(self, spec: ModelSpec | None = None) -> Model:
        """Resolve `spec` to the model for a block at this path; None means `"intent/chat"`."""
        return self.run.models.resolve(spec, self.scope.models)

    def now(self) -> float:
        """Return the time of the run's clock, in seconds since the epoch."""
        return self.run.now()

    @property
    def elapsed(self) -> float:
        """Seconds since the first start of the run, on its clock; time before it was resumed counts."""
        return max(self.run.now() - self.run.began_at, 0.0)

    def emit(self, event: object, /) -> None:
        """Add `event`, of any type, to the run's stream and to `result.events`; a `BaseEvent` gets path and time."""
        self.run.emit(event, self.path, self.role)

    async def step(
        self,
        call: Callable[[], Awaitable[T]],
        *,
        key: str = "",
        returns: object = None,
        failures: bool = False,
    ) -> T:
        """Execute a side effect (a request, a write) as a step of the run, under this block's key.

        In a durable run the result of `call` is recorded, and returned without a call when the run is resumed. The
        result has to be plain JSON data, or of the type `returns`, validated by pydantic; otherwise NotRecordable is
        raised. With `failures` an exception is recorded and raised again; otherwise the call is repeated. `key`
        distinguishes concurrent steps of a block; steps under the same key are numbered.
        """
        name = f"{self.path}#step:{place_of(key)}" if key else f"{self.path}#step"
        if self._steps is None:  # at first use: each path has a context, and few have steps
            self._steps = {}
        count = self._steps[name] = self._steps.get(name, 0) + 1
        return await self.run.step(name if count == 1 else f"{name}#{count}", call, returns=returns, failures=failures)

    async def decide(self, call: Callable[[], Awaitable[T]], *, returns: object = None) -> T:
        """Record a decision of the application's code at this path, on which the run depends.

        A resumed run uses the recorded decision; if none is recorded, the code decides again. `returns` is the type of
        the decision, if it is not JSON data.
        """
        journal = self.run.journal
        return await call() if journal is None else await journal.decide(f"{self.path}{DECISION}", call, returns)

    def below(self, block: _Named, /) -> Context:
        """Return the context in which this block runs `block`: `await block(value, ctx.below(block))`."""
        return Context(self.run, self.scope, block.name, f"{self.path}/{block.place}", self.role)

    def child(self, block: str, path: str, scope: Scope | None = None) -> Context:
        """Return the context for a block inside this one."""
        return Context(self.run, self.scope if scope is None else scope, block, path, self.role)
