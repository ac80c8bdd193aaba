"""Context of a running block: its session, resources, steps, events, and source of randomness."""

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
from flowdebate.runs.journal import LOST

if TYPE_CHECKING:
    from flowdebate.models.base import Model, Usage
    from flowdebate.models.resolve import ModelChoice, ModelSpec
    from flowdebate.runs.run import Run
    from flowdebate.runs.session import Session

T = TypeVar("T")


_SPECIAL = re.compile(r"[%/\[\]#]")


@lru_cache(maxsize=1024)  # cached because each step of a loop needs the same value
def escape_path_segment(name: str) -> str:
    """Escape `name` for use in a path, so that different names lead to different paths.

    >>> escape_path_segment("for/against")
    'for%2Fagainst'
    """
    return _SPECIAL.sub(lambda match: f"%{ord(match[0]):02X}", name)


def lost_key(path: str, block: str) -> str:
    """Return the key under which the run records that it continues without an answer from `block` at `path`."""
    return f"{path}{LOST}{escape_path_segment(block)}"


@dataclass(slots=True, eq=False, repr=False)
class SequencerHandle:
    """Handle to the nearest enclosing sequencer that has state, available as `ctx.sequencer`."""

    name: str
    state: Any
    """Current state; blocks replace it entirely, or change individual fields with `update`."""
    path: str = ""
    """The sequencer's path in the run."""
    protected: bool = field(default=False, kw_only=True)
    """True if only the sequencer's own steps may change the state; other blocks see it through `SequencerView`."""
    deadline: float | None = field(default=None, init=False)
    """Deadline of the sequencer's current round, on the event loop's clock; None if it has no deadline."""
    derived: dict[object, Any] = field(default_factory=dict, init=False)
    """Cache of values derived from the history, such as rendered text; later steps extend these values."""

    def update(self, **changes: object) -> None:
        """Replace fields of a pydantic, dataclass or dict state; raise ConfigurationError for an unknown field."""
        state = self.state
        if self.protected:  # frozen once, when it is set, because `SequencerView.state` shares it with all blocks
            changes = {name: freeze(value) for name, value in changes.items()}
        if isinstance(state, dict):
            self.state = {**state, **changes}
            return
        is_model = isinstance(state, BaseModel)
        field_names = list(
            type(state).__pydantic_fields__ if is_model else (state_field.name for state_field in fields(state))
        )
        for name in changes:  # checked here, because `model_copy` accepts any name
            if name not in field_names:
                location = f"state of sequencer {self.name!r}"
                raise ConfigurationError(
                    location, "update()", name, "was called with an unknown field", choices=field_names
                )
        self.state = state.model_copy(update=changes) if is_model else replace(state, **changes)


class SequencerView:
    """Read-only view of a protected sequencer and its frozen state, as seen by the block named `block`."""

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
        """The sequencer's path in the run."""
        return self._handle.path

    @property
    def deadline(self) -> float | None:
        """Deadline of the sequencer's current round, on the event loop's clock; None if it has no deadline."""
        return self._handle.deadline

    @property
    def state(self) -> Any:  # noqa: ANN401 - each has a state of its own type
        return freeze(self._handle.state)

    def update(self, **changes: object) -> None:
        """Raise ReadOnly with the name of the offending block."""
        raise self._refusal(*changes)

    def __setattr__(self, name: str, value: object) -> None:
        """Raise ReadOnly, as `update` does."""
        raise self._refusal(name)

    def _refusal(self, *names: str) -> ReadOnly:
        what = f"{', '.join(f'`{name}`' for name in names) or 'the state'} of {self.name!r}"
        return ReadOnly(
            what, "blocks add to it through their answers, and read it as `ctx.sequencer.state`", block=self._block
        )


@dataclass(slots=True, eq=False, repr=False)
class Scope:
    """Scope shared by the blocks at one path in a pipeline: open resources, state and default models."""

    handles: Mapping[str, Any]
    opened: Mapping[Resource, Any]
    sequencer: SequencerHandle | None
    models: tuple[ModelChoice, ...] = ()
    """Models of the enclosing sequencers, innermost first, for blocks that have no model of their own."""
    looked_up: dict[object, Any] = field(default_factory=dict, init=False)
    """Cache of values (such as the wording of prompts) that depend only on `models`, keyed by owner."""

    @property
    def handle(self) -> SequencerHandle:
        """Handle used by the sequencer's own steps; it can change even protected state."""
        if self.sequencer is None:
            message = "there is no enclosing sequencer with a state"
            raise AttributeError(message)
        return self.sequencer


class _Named(Protocol):
    """Protocol for the attributes that determine a block's path."""

    name: str
    place: str


@dataclass(slots=True, eq=False, repr=False)
class Context:
    """The second argument passed to every block: `def block(input, ctx)`."""

    run: Run
    """The run that contains the block."""
    scope: Scope
    """Scope used by a pattern's steps; other blocks use `resources` and `sequencer`."""
    block: str
    """The block's name."""
    path: str
    """The block's path in the run, identical in all runs of the pattern that take the same branches."""
    role: str | None = None
    """The block's role in its pattern, such as "judge", inherited by blocks inside it; None if there is no role."""
    _random: Random | None = field(default=None, init=False)
    _steps: dict[str, int] | None = field(default=None, init=False)

    @property
    def session(self) -> Session:
        """The application's session, whose `state` is a dict."""
        return self.run.session

    @property
    def resources(self) -> Resources:
        """Resources available to the block, for example `ctx.resources.transcript.state`."""
        return Resources(self.scope.handles, self.block)

    @property
    def sequencer(self) -> SequencerHandle | SequencerView:
        """Nearest enclosing sequencer with state, as in `ctx.sequencer.state`; read-only if it belongs to a pattern."""
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
        """Random number generator seeded from the run's seed and this path, so that draws are reproducible."""
        if self._random is None:
            self._random = Random(f"{self.run.seed}:{self.path}")  # noqa: S311 - repeatable on purpose
        return self._random

    def model(self, spec: ModelSpec | None = None) -> Model:
        """Resolve `spec` to the model for a block at this path; None stands for `"intent/chat"`."""
        return self.run.models.resolve(spec, self.scope.models)

    def now(self) -> float:
        """Return the current time on the run's clock, in seconds since the epoch."""
        return self.run.now()

    @property
    def elapsed(self) -> float:
        """Seconds since the run first started, on the run's clock, including any time before it was resumed."""
        return max(self.run.now() - self.run.began_at, 0.0)

    def emit(self, event: object, /) -> None:
        """Add `event` to the run's stream and to `result.events`.

        Events may be of any type; a `BaseEvent` is given its path and time here.
        """
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

        In a durable run the result of `call` is recorded, and a resumed run returns it without calling `call` again.
        The result must be plain JSON data, or be of the type `returns`, validated by pydantic; otherwise NotRecordable
        is raised. If `failures` is set, an exception is recorded too; a resumed run raises it again without repeating
        the call. `key` distinguishes concurrent steps of a block; steps under the same key are numbered.
        """
        name = f"{self.path}#step:{escape_path_segment(key)}" if key else f"{self.path}#step"
        if self._steps is None:  # created on first use: each path has a context, but few have steps
            self._steps = {}
        count = self._steps[name] = self._steps.get(name, 0) + 1
        return await self.run.step(name if count == 1 else f"{name}#{count}", call, returns=returns, failures=failures)

    async def decide(self, call: Callable[[], Awaitable[T]], *, returns: object = None) -> T:
        """Record a decision that the application's code makes at this path.

        A resumed run uses the recorded decision; if none is recorded, the code decides again. `returns` is the type of
        the decision if it is not plain JSON data.
        """
        return await self.run.decide(self.path, call, returns=returns)

    def below(self, block: _Named, /) -> Context:
        """Return the context in which this block runs another `block`: `await block(value, ctx.below(block))`."""
        return Context(self.run, self.scope, block.name, f"{self.path}/{block.place}", self.role)

    def child(self, block: str, path: str, scope: Scope | None = None) -> Context:
        """Return the context for a block inside this one."""
        return Context(self.run, self.scope if scope is None else scope, block, path, self.role)
