"""Sequencer steps, one class for each kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flowdebate._text import short_repr
from flowdebate.blocks.base import Block, Outline
from flowdebate.blocks.concurrency import in_order
from flowdebate.blocks.functions import Invocation, decision, result_of
from flowdebate.errors import LoopLimitExceeded, OutputError
from flowdebate.runs.context import Context, escape_path_segment


@dataclass(frozen=True, kw_only=True, eq=False)
class Step:
    """Step of a sequencer."""

    key: str = ""
    """Name of the step, unique within its sequencer."""
    place: str = ""
    """`key` escaped for use in paths."""

    def blocks(self) -> Sequence[Block[Any, Any]]:
        """List the blocks that the step may run."""
        return ()

    async def run(self, value: object, ctx: Context, path: str) -> object:
        """Run the step and return the resulting value; `path` is the step's path in the run."""
        raise AssertionError(value, ctx, path)  # pragma: no cover - the sequencer itself executes jumps

    def outline(self) -> Outline:
        raise AssertionError(self)  # pragma: no cover - every step draws itself


@dataclass(frozen=True, kw_only=True, eq=False)
class Then(Step):
    """Step that replaces the value with a block's output, but only if the condition `when`, if any, holds."""

    block: Block[Any, Any]
    when: Invocation | None = None

    def blocks(self) -> Sequence[Block[Any, Any]]:
        return (self.block,)

    async def run(self, value: object, ctx: Context, path: str) -> object:
        if self.when is not None and not await _holds(self.when, value, ctx, path):
            return value
        return await self.block(value, ctx.child(self.block.name, path))

    def outline(self) -> Outline:
        return _prefixed("then_if" if self.when else "", self.block)


@dataclass(frozen=True, kw_only=True, eq=False)
class Tap(Then):
    """Step that runs a block as `Then` does, but discards its output."""

    async def run(self, value: object, ctx: Context, path: str) -> object:
        await super().run(value, ctx, path)
        return value

    def outline(self) -> Outline:
        return _prefixed("tap_if" if self.when else "tap", self.block)


@dataclass(frozen=True, kw_only=True, eq=False)
class Beside(Tap):
    """Tap that runs concurrently with the steps from `since` up to and including the step after the tap."""

    since: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Map(Step):
    """Step that applies a function to the value."""

    function: Invocation
    name: str

    async def run(self, value: object, ctx: Context, path: str) -> object:
        return await result_of(self.function(value, ctx.child(self.name, path)))

    def outline(self) -> Outline:
        return Outline(text=f"map {self.name}", kind="map")


@dataclass(frozen=True, kw_only=True, eq=False)
class Parallel(Step):
    """Step that runs several blocks on the value concurrently; the new value is a dict of their outputs."""

    branches: Mapping[str, Block[Any, Any]]
    max_concurrency: int | None = None
    finish: bool = False
    """True to let the other blocks finish if one block fails."""

    def blocks(self) -> Sequence[Block[Any, Any]]:
        return tuple(self.branches.values())

    async def run(self, value: object, ctx: Context, path: str) -> object:
        outputs = await in_order(
            [
                # the path includes the branch's key, because two branches may run the same block
                _call(block, value, ctx.child(block.name, f"{path}[{escape_path_segment(name)}]/{block.place}"))
                for name, block in self.branches.items()
            ],
            limit=self.max_concurrency,
            finish=self.finish,
        )
        return dict(zip(self.branches, outputs, strict=True))

    def outline(self) -> Outline:
        children = [_named(name, block) for name, block in self.branches.items()]
        return Outline(text="parallel", kind="parallel", children=children)


@dataclass(frozen=True, kw_only=True, eq=False)
class ForEach(Step):
    """Step that runs a block on each item; the new value is the list of outputs, in item order."""

    block: Block[Any, Any]
    over: Invocation | None = None
    max_concurrency: int | None = None
    tapped: bool = False
    """True to discard the outputs and leave the value unchanged."""

    def blocks(self) -> Sequence[Block[Any, Any]]:
        return (self.block,)

    async def run(self, value: object, ctx: Context, path: str) -> object:
        items = value if self.over is None else await result_of(self.over(value, ctx))
        if not isinstance(items, Iterable):
            raise OutputError(f"{ctx.block} for_each", "items to iterate over", [("", f"got {short_repr(items)}")])
        outputs = await in_order(
            [
                _call(self.block, item, ctx.child(self.block.name, f"{path}[{index}]"))
                for index, item in enumerate(items)
            ],
            limit=self.max_concurrency,
        )
        return value if self.tapped else outputs

    def outline(self) -> Outline:
        limit = "" if self.max_concurrency is None else f" (max_concurrency {self.max_concurrency})"
        verb = "tap_each" if self.tapped else "for_each"
        return Outline(text=f"{verb}{limit}", kind=verb, children=(self.block.outline(),))


@dataclass(frozen=True, kw_only=True, eq=False)
class Branch(Step):
    """Step that runs the first block whose condition holds."""

    cases: Sequence[tuple[Invocation, Block[Any, Any]]]
    otherwise: Block[Any, Any] | None

    def blocks(self) -> Sequence[Block[Any, Any]]:
        rest = () if self.otherwise is None else (self.otherwise,)
        return (*(block for _, block in self.cases), *rest)

    async def run(self, value: object, ctx: Context, path: str) -> object:
        branch = self.otherwise
        for number, (condition, block) in enumerate(self.cases):
            if await _holds(condition, value, ctx, f"{path}[{number}]"):
                branch = block
                break
        if branch is None:
            return value
        return await branch(value, ctx.child(branch.name, f"{path}/{branch.place}"))

    def outline(self) -> Outline:
        children = [_named("if", block) for _, block in self.cases]
        if self.otherwise is not None:
            children.append(_named("otherwise", self.otherwise))
        return Outline(text="branch", kind="branch", children=children)


@dataclass(frozen=True, kw_only=True, eq=False)
class DoLoop(Step):
    """Step that runs a block, and repeats it on its own output while (or until) a condition holds."""

    body: Block[Any, Any]
    condition: Invocation
    until: bool
    max_iterations: int

    def blocks(self) -> Sequence[Block[Any, Any]]:
        return (self.body,)

    async def run(self, value: object, ctx: Context, path: str) -> object:
        for iteration in range(self.max_iterations):
            value = await self.body(value, ctx.child(self.body.name, f"{path}[{iteration + 1}]"))
            if await _holds(self.condition, value, ctx, f"{path}[{iteration + 1}]") is self.until:
                return value
        raise LoopLimitExceeded(ctx.block, self.max_iterations)

    def outline(self) -> Outline:
        verb = "do_until" if self.until else "do_while"
        return Outline(text=f"{verb} (at most {self.max_iterations})", kind=verb, children=(self.body.outline(),))


@dataclass(frozen=True, kw_only=True, eq=False)
class LoopBack(Step):
    """Step that goes back to an earlier step while a condition holds, for at most `max_iterations` passes."""

    target: int
    """Index of the step to go back to."""
    target_name: str
    when: Invocation
    max_iterations: int
    label: str
    note: str = ""
    """Description of the condition that ends the loop, shown in the outline."""

    async def repeats(self, value: object, ctx: Context, path: str, passes: int) -> bool:
        """Return whether to start another pass after the given number of passes."""
        return await _holds(self.when, value, ctx, f"{path}[{passes}]") and passes < self.max_iterations

    def outline(self) -> Outline:
        return Outline(
            text=f"loop_back (at most {self.max_iterations} passes)",
            kind="loop_back",
            target=self.target_name,
            target_index=self.target,
            note=self.note,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Rescue(Step):
    """Step that passes an earlier step's exception to a block, and continues with the block's output."""

    block: Block[Any, Any]
    on: tuple[type[Exception], ...] = (Exception,)  # excludes cancellation, which is not a failure and ends the run

    def blocks(self) -> Sequence[Block[Any, Any]]:
        return (self.block,)

    def outline(self) -> Outline:
        names = "" if self.on == (Exception,) else f" {' | '.join(error.__name__ for error in self.on)}"
        return _prefixed(f"rescue{names}", self.block)


async def _holds(condition: Invocation, value: object, ctx: Context, place: str) -> bool:
    return await decision(condition, value, ctx, f"{place}#when", read=bool, returns=bool)


def _call(block: Block[Any, Any], value: object, ctx: Context) -> Callable[[], Any]:
    return lambda: block(value, ctx)


def _prefixed(verb: str, block: Block[Any, Any]) -> Outline:
    inner = block.outline()
    return replace(inner, text=f"{verb} {inner.text}".lstrip())


def _named(name: str, block: Block[Any, Any]) -> Outline:
    inner = block.outline()
    return replace(inner, text=f"{name}: {inner.text}")
