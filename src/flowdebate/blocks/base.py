"""What a block is: something with a name and resources that turns an input into an output, and can be run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from flowdebate.errors import ConfigurationError, add_note
from flowdebate.runs.context import place_of
from flowdebate.runs.execute import make_run, run_block, run_sync, start_block

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flowdebate.blocks.outline import Outline
    from flowdebate.models.resolve import ModelChoice
    from flowdebate.resources.resource import Resource
    from flowdebate.runs.context import Context
    from flowdebate.runs.limits import Limits
    from flowdebate.runs.result import RunHandle, RunResult
    from flowdebate.runs.session import SessionLike

__all__ = ("Block",)

InT_contra = TypeVar("InT_contra", contravariant=True)
OutT_co = TypeVar("OutT_co", covariant=True)

_NONE: Mapping[str, Resource] = MappingProxyType({})


class Block(ABC, Generic[InT_contra, OutT_co]):
    """One step of a debate: configuration only, so that the same block can act in a thousand runs at once.

    Applications make blocks with `handler`, `generator`, `router` and `sequencer`, or hand in plain functions;
    there is nothing that they have to inherit.
    """

    def __init__(
        self,
        name: str,
        *,
        resources: Mapping[str, Resource] | None = None,
        hidden: Mapping[str, Resource] | None = None,
    ) -> None:
        if not isinstance(name, str) or not name.strip():
            raise ConfigurationError(type(self).__name__.lower(), "name", name, "a name that is not blank")
        self.name = name
        self.place = place_of(name)
        """Its name as a part of paths."""
        self.resources: Mapping[str, Resource] = _NONE if resources is None else resources
        """What it shares with the blocks around it, by key."""
        self.hidden: Mapping[str, Resource] = _NONE if hidden is None else hidden
        """What it keeps to itself; nobody else may use another object under these keys."""

    @abstractmethod
    async def act(self, value: InT_contra, ctx: Context, /) -> OutT_co:
        """Do the block's work; `ctx` is the block's own."""

    @abstractmethod
    def outline(self) -> Outline:
        """How the block is drawn."""

    async def __call__(self, value: InT_contra, ctx: Context, /) -> OutT_co:
        """Act; an exception leaves with a note that names the block."""
        try:
            return await self.act(value, ctx)
        except Exception as error:
            _note(error, self.name, ctx.path)
            raise

    async def run(
        self,
        value: InT_contra,
        *,
        session: SessionLike = None,
        model: ModelChoice = None,
        seed: int | None = None,
        limits: Limits | None = None,
    ) -> RunResult[OutT_co]:
        """Run it to the end.

        `model` says what the intents mean in this run (a `Model`, a string such as `"openai/gpt-5-mini"`, or a
        mapping of both intents); `seed` makes all that is drawn by chance repeat; `limits` bounds what the run may
        take. Exceptions of the application's code are raised as they are; the library's own are
        `flowdebate.errors.FlowDebateError`, whose `run` shows what there was when it ended.
        """
        return await run_block(self, value, make_run(session=session, model=model, seed=seed, limits=limits))

    def start(
        self,
        value: InT_contra,
        *,
        session: SessionLike = None,
        model: ModelChoice = None,
        seed: int | None = None,
        limits: Limits | None = None,
    ) -> RunHandle[OutT_co]:
        """Start it in the background: a handle to follow, await, cancel and read. Needs a running event loop."""
        return start_block(self, value, make_run(session=session, model=model, seed=seed, limits=limits))

    def run_sync(
        self,
        value: InT_contra,
        *,
        session: SessionLike = None,
        model: ModelChoice = None,
        seed: int | None = None,
        limits: Limits | None = None,
    ) -> RunResult[OutT_co]:
        """`run`, for scripts and notebooks."""
        return run_sync(lambda: self.run(value, session=session, model=model, seed=seed, limits=limits))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"


def _note(error: Exception, block: str, path: str) -> None:
    notes = getattr(error, "__notes__", None)
    if not isinstance(notes, list) or not any(str(note).startswith("in block ") for note in notes):
        # else the innermost block has said it
        add_note(error, f"in block {block!r} (at {path})")


AnyBlock = Block[Any, Any]
"""A block whatever it takes and gives."""
