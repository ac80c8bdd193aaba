"""Sequencer block: an immutable builder for blocks that run one after another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, overload

from typing_extensions import TypeVar

from flowdebate._text import join_choices
from flowdebate._util.validation import check_count, check_text
from flowdebate.blocks.base import Block, Outline, merge_resources
from flowdebate.blocks.concurrency import in_order
from flowdebate.blocks.functions import (
    BlockLike,
    Function,
    Invocation,
    as_block,
    check_resources,
    function_name,
    invocation,
)
from flowdebate.blocks.steps import Beside, Branch, DoLoop, ForEach, LoopBack, Map, Parallel, Rescue, Step, Tap, Then
from flowdebate.errors import ConfigurationError, ModelError
from flowdebate.models.resolve import ModelChoice, check_model
from flowdebate.resources.resource import Protectable, Resource, StateHandle, StateResource
from flowdebate.runs.context import Context, Scope, SequencerHandle, escape_path_segment, lost_key
from flowdebate.runs.execute import Seat

InT = TypeVar("InT")
OutT = TypeVar("OutT")
NewT = TypeVar("NewT")
RawT = TypeVar("RawT", default=Any)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SequencerSetup:
    """Options for a sequencer; see `sequencer`."""

    state: Callable[[], Any] | None = None
    declared: Mapping[str, Resource] | None = None
    owned: tuple[Resource, ...] = ()
    isolated: tuple[StateResource[Any], ...] = ()
    accepts: Callable[[Any], Any] | None = None
    model: ModelChoice = None
    protected: bool = False


class Sequencer(Block[InT, OutT, RawT]):
    """Steps that run one after another, each on the output of the previous step.

    If there are no steps, the output is the input. Every builder method returns a new sequencer and leaves this one
    unchanged. Wherever a block is expected, a function of `(input)` or `(input, ctx)` is accepted.
    """

    def __init__(self, name: str, setup: SequencerSetup, steps: tuple[Step, ...] = ()) -> None:
        location = f"sequencer {name!r}"
        blocks = [block for step in steps for block in step.blocks()]
        shared, hidden = merge_resources(location, blocks, declared=setup.declared, owned=setup.owned)
        super().__init__(name, resources=shared, hidden=hidden)
        self.steps = steps
        self._setup = setup
        self._loops: list[LoopBack | None] = [None] * len(steps)  # the loop that contains each step, or None
        for index, step in enumerate(steps):
            if isinstance(step, LoopBack):
                self._loops[step.target : index] = [step] * (index - step.target)
        self._rescues = any(isinstance(step, Rescue) for step in steps)
        self._beside = next((index for index, step in enumerate(steps) if isinstance(step, Beside)), None)
        own_resources = {key: resource for key, resource in hidden.items() if resource in setup.owned}
        self._reach: Mapping[str, Resource] = {**shared, **own_resources}
        self._anew = frozenset([*own_resources.values(), *setup.isolated])

    def seats(self, around: tuple[ModelChoice, ...] = ()) -> list[Seat]:
        inside = (self._setup.model, *around)
        return [seat for step in self.steps for block in step.blocks() for seat in block.seats(inside)]

    # Builder methods

    @overload
    def then(self, block: Block[Any, NewT]) -> Sequencer[InT, NewT]: ...
    @overload
    def then(self, block: Function) -> Sequencer[InT, Any, RawT]: ...
    def then(self, block: BlockLike) -> Sequencer[InT, Any]:
        """Append a step that replaces the value with the output of `block`."""
        return self._with(Then(block=self._block(block, "then")))

    def then_if(self, condition: Function, block: BlockLike) -> Sequencer[InT, Any]:
        """Append a `then` step that runs only if `condition` holds; otherwise, the value is left unchanged."""
        return self._with(Then(block=self._block(block, "then_if"), when=self._function(condition, "condition")))

    def tap(self, block: BlockLike) -> Sequencer[InT, OutT, RawT]:
        """Append a step that runs `block` on the value but discards its output."""
        return self._with(Tap(block=self._block(block, "tap")))

    def tap_if(self, condition: Function, block: BlockLike) -> Sequencer[InT, OutT, RawT]:
        """Append a `tap` step that runs only if `condition` holds."""
        return self._with(Tap(block=self._block(block, "tap_if"), when=self._function(condition, "condition")))

    def map(self, function: Function) -> Sequencer[InT, Any, RawT]:
        """Append a step that applies `function` to the value."""
        return self._with(Map(function=self._function(function, "map"), name=function_name(function)))

    def parallel(
        self,
        branches: Mapping[str, BlockLike] | Sequence[BlockLike],
        *,
        max_concurrency: int | None = None,
        finish: bool = False,
    ) -> Sequencer[InT, dict[str, Any]]:
        """Run all `branches` concurrently on the value; the new value maps branch or block names to outputs.

        By default, the first failure cancels the other branches. If `finish` is set, the others run to the end, so that
        answers already paid for are still recorded.
        """
        if not isinstance(branches, Mapping):
            blocks = [self._block(branch, "parallel") for branch in branches]
            branches = {block.name: block for block in blocks}
            if len(branches) != len(blocks):
                raise self._error("parallel", [block.name for block in blocks], "must have blocks with unique names")
        elif not all(isinstance(key, str) for key in branches):
            raise self._error("parallel", list(branches), "must be a mapping with string keys")
        return self._with(
            Parallel(
                branches={key: self._block(block, f"parallel-{key}") for key, block in branches.items()},
                max_concurrency=self._count(max_concurrency, "max_concurrency"),
                finish=finish,
            )
        )

    @overload
    def for_each(
        self, block: Block[Any, NewT], *, over: Function | None = None, max_concurrency: int | None = None
    ) -> Sequencer[InT, list[NewT]]: ...
    @overload
    def for_each(
        self, block: Function, *, over: Function | None = None, max_concurrency: int | None = None
    ) -> Sequencer[InT, list[Any]]: ...
    def for_each(
        self,
        block: BlockLike,
        *,
        over: Function | None = None,
        max_concurrency: int | None = None,
    ) -> Sequencer[InT, list[Any]]:
        """Run `block` on each item of the value (or of `over(value, ctx)`); the new value is the list of outputs.

        All items are processed concurrently, or at most `max_concurrency` at a time.
        """
        return self._with(self._for_each(block, over, max_concurrency, tapped=False))

    def tap_each(
        self,
        block: BlockLike,
        *,
        over: Function | None = None,
        max_concurrency: int | None = None,
    ) -> Sequencer[InT, OutT, RawT]:
        """Append a step that runs `block` on each item, as `for_each` does, but discards the outputs."""
        return self._with(self._for_each(block, over, max_concurrency, tapped=True))

    def branch(self, *cases: tuple[Function, BlockLike], otherwise: BlockLike | None = None) -> Sequencer[InT, Any]:
        """Run the block of the first `(condition, block)` pair whose condition holds; if none does, run `otherwise`.

        If there is no `otherwise` either, the value is left unchanged.
        """
        if not cases:
            raise self._error("branch", cases, "needs at least one (condition, block) pair")
        return self._with(
            Branch(
                cases=[
                    (self._function(condition, "branch"), self._block(block, f"branch-{index}"))
                    for index, (condition, block) in enumerate(cases)
                ],
                otherwise=None if otherwise is None else self._block(otherwise, "otherwise"),
            )
        )

    def loop_back(
        self, to: str, *, when: Function, max_iterations: int, label: str = "loop", note: str = ""
    ) -> Sequencer[InT, OutT, RawT]:
        """Go back to the step `to` while `when` holds, for at most `max_iterations` passes.

        `to` is the name of an earlier block in this sequencer; `label` names the passes in block paths, and `note` is
        shown in the outline to say when the loop ends.
        """
        index = next((i for i, step in enumerate(self.steps) if step.key == to), None)
        if index is None:
            raise self._error(
                "loop_back to", to, f"must be an earlier step: {join_choices(step.key for step in self.steps)}"
            )
        if any(isinstance(step, LoopBack) for step in self.steps[index:]):
            raise self._error(
                "loop_back to", to, "must come after the previous loop_back; nest sequencers to nest loops"
            )
        check_text(self._location, label=label)
        bound = self._count(max_iterations, "max_iterations", optional=False)
        return self._with(
            LoopBack(
                target=index,
                target_name=to,
                when=self._function(when, "when"),
                max_iterations=bound or 1,
                label=self._free(label),
                note=note,
            )
        )

    def do_while(self, body: BlockLike, condition: Function, *, max_iterations: int) -> Sequencer[InT, Any]:
        """Apply `body` to the value once, then repeat it on its output while `condition` holds for that output.

        Raises LoopLimitExceeded if the condition still holds after `max_iterations`.
        """
        return self._with(self._loop(body, condition, max_iterations, until=False))

    def do_until(self, body: BlockLike, condition: Function, *, max_iterations: int) -> Sequencer[InT, Any]:
        """Apply `body` to the value once, then repeat it on its output until `condition` holds for that output.

        Raises LoopLimitExceeded if the condition does not hold after `max_iterations`.
        """
        return self._with(self._loop(body, condition, max_iterations, until=True))

    def rescue(
        self,
        block: BlockLike,
        *,
        on: type[Exception] | tuple[type[Exception], ...] = Exception,
    ) -> Sequencer[InT, Any]:
        """Run `block` on the exception if an earlier step raises `on`, and continue with the block's output.

        Cancellation is never rescued.
        """
        kinds = on if isinstance(on, tuple) else (on,)
        if not kinds or not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds):
            raise self._error("rescue", on, "must be a subclass of Exception or a tuple of such classes")
        return self._with(Rescue(block=self._block(block, "rescue"), on=kinds))

    # Execution

    async def act(self, value: InT, ctx: Context, /) -> Any:  # noqa: ANN401 - the output of the last step
        accepts = self._setup.accepts
        current: object = value if accepts is None else accepts(value)
        inner, at = self._inner(ctx), self._beside
        if at is None:
            return await self._run_steps(current, inner, ctx, 0, len(self.steps))
        step, place = self.steps[at], self._path(at, 1, ctx)
        assert isinstance(step, Beside)  # noqa: S101 - see `_beside`
        current = await self._run_steps(current, inner, ctx, 0, step.since)
        halves = [
            partial(self._run_steps, current, inner, ctx, step.since, at + 2),
            partial(step.run, current, inner, place),
        ]
        with ctx.run.records.hold(place):
            current, _ = await in_order(halves)
        return await self._run_steps(current, inner, ctx, at + 2, len(self.steps))

    async def _run_steps(self, current: object, inner: Context, ctx: Context, index: int, stop: int) -> object:
        """Run the steps from `index` up to (but not including) `stop`, and return the resulting value."""
        cancels = _count_cancellations() if self._rescues else 0
        passes = 1
        while index < stop:
            step = self.steps[index]
            try:
                if isinstance(step, LoopBack):
                    if await step.repeats(current, inner, self._path(index, passes, ctx), passes):
                        passes, index = passes + 1, step.target
                        continue
                    passes = 1  # a later loop in this sequencer starts counting from 1 again
                elif isinstance(step, Beside):
                    ctx.run.records.release(self._path(index, passes, ctx))
                elif not isinstance(step, Rescue):
                    place = self._path(index, passes, ctx)
                    run = partial(self._run_rescued, index) if self._rescues else step.run
                    current = await run(current, inner, place)
            except Exception as error:
                if not self._rescues or _count_cancellations() > cancels:
                    # a rescue must not swallow a cancellation, even one that a block has turned into another error
                    raise
                index, passes, current = await self._rescued(error, index, passes, inner)
            index += 1
        return current

    async def _run_rescued(self, index: int, current: object, ctx: Context, place: str) -> object:
        """Run a step; a provider failure that a later rescue handles is recorded, so that a resumed run reuses it."""
        step, run, key = self.steps[index], ctx.run, lost_key(place, self.name)
        rescued = tuple(kind for later in self.steps[index + 1 :] if isinstance(later, Rescue) for kind in later.on)
        if run.journal is None or not rescued:
            return await step.run(current, ctx, place)
        lost = run.recorded_loss(key, place)
        if lost is not None:
            raise lost
        try:
            return await step.run(current, ctx, place)
        except ModelError as error:
            if isinstance(error, rescued):
                await run.record_loss(key, error, place)
            raise

    async def _rescued(self, error: Exception, index: int, passes: int, ctx: Context) -> tuple[int, int, object]:
        """Run the next rescue that handles `error`; return the rescue's index, its loop pass, and its output.

        Raises the error if no rescue handles it.
        """
        for number in range(index + 1, len(self.steps)):
            step = self.steps[number]
            if isinstance(step, Rescue) and isinstance(error, step.on):
                loop = self._loops[number]
                if loop is None or loop is not self._loops[index]:
                    passes = 1  # a rescue outside the loop ends the loop; a rescue inside it runs in the current pass
                try:
                    block = step.block
                    return number, passes, await block(error, ctx.child(block.name, self._path(number, passes, ctx)))
                except Exception as another:  # noqa: BLE001 - a later rescue may take it
                    return await self._rescued(another, number, passes, ctx)
        raise error

    def _path(self, index: int, passes: int, ctx: Context) -> str:
        loop = self._loops[index]
        place = ctx.path if loop is None else f"{ctx.path}/{escape_path_segment(loop.label)}[{passes}]"
        return f"{place}/{self.steps[index].place}"

    def _inner(self, ctx: Context) -> Context:
        """Return the context for the steps, with this sequencer's state and the resources it has opened."""
        opened, setup = ctx.scope.opened, self._setup
        fresh = [resource for resource in self._reach.values() if resource in self._anew or resource not in opened]
        if not fresh and setup.state is None and setup.model is None:
            return ctx
        if fresh:
            opened = {**opened, **{resource: self._open(resource, ctx) for resource in fresh}}
        visible = {**ctx.scope.handles, **{key: opened[resource] for key, resource in self._reach.items()}}
        state = ctx.scope.sequencer
        if setup.state is not None:
            state = SequencerHandle(self.name, setup.state(), ctx.path, protected=setup.protected)
        models = ctx.scope.models if setup.model is None else (setup.model, *ctx.scope.models)
        return ctx.child(self.name, ctx.path, Scope(visible, opened, state, models))

    def _open(self, resource: Resource, ctx: Context) -> object:
        if resource not in self._anew:
            return ctx.run.open_shared(resource, ctx.path)
        if resource in self._setup.isolated:
            around = ctx.scope.opened.get(resource)
            if around is None:  # changes are passed on through the enclosing handle, so it must be open too
                around = ctx.run.open_shared(resource, ctx.path)
            assert isinstance(around, StateHandle)  # noqa: S101 - only state resources are isolated
            handle: object = ctx.run.open_within(resource, around, ctx.path)
        else:
            handle = ctx.run.open(resource, ctx.path)
        if self._setup.protected and isinstance(handle, Protectable):
            handle.protected = True
        return handle

    # Outlines

    def outline(self) -> Outline:
        return Outline(text=self.name, kind="sequencer", children=[step.outline() for step in self.steps])

    # Helpers for building

    def _with(self, step: Step) -> Sequencer[Any, Any]:
        blocks = step.blocks()
        if isinstance(step, Map):
            key = self._free(step.name)
        else:
            key = self._free(blocks[0].name if len(blocks) == 1 else type(step).__name__.lower())
        return Sequencer(self.name, self._setup, (*self.steps, replace(step, key=key, place=escape_path_segment(key))))

    def _free(self, wish: str) -> str:
        """Return `wish`, with "~2" or a higher number appended if the name is taken; names in paths must be unique."""
        used_keys = {step.key for step in self.steps} | {
            step.label for step in self.steps if isinstance(step, LoopBack)
        }
        number = 2
        key = wish
        while key in used_keys:
            key, number = f"{wish}~{number}", number + 1
        return key

    def _for_each(self, block: BlockLike, over: Function | None, limit: int | None, *, tapped: bool) -> ForEach:
        return ForEach(
            block=self._block(block, "for_each"),
            over=None if over is None else self._function(over, "over"),
            max_concurrency=self._count(limit, "max_concurrency"),
            tapped=tapped,
        )

    def _loop(self, body: BlockLike, condition: Function, limit: int, *, until: bool) -> DoLoop:
        return DoLoop(
            body=self._block(body, "loop"),
            condition=self._function(condition, "condition"),
            until=until,
            max_iterations=self._count(limit, "max_iterations", optional=False) or 1,
        )

    def _block(self, value: BlockLike, verb: str) -> Block[Any, Any]:
        if isinstance(value, Block):
            return value
        name = function_name(value) if callable(value) else verb
        return as_block(value, name=name, location=self._location, field=verb)

    def _function(self, value: Function, field: str) -> Invocation:
        return invocation(value, location=self._location, field=field)

    def _count(self, value: int | None, field: str, *, optional: bool = True) -> int | None:
        check_count(self._location, {field: value}, optional=optional)
        return value

    @property
    def _location(self) -> str:
        return f"sequencer {self.name!r}"

    def _error(self, field: str, got: object, problem: str) -> ConfigurationError:
        return ConfigurationError(self._location, field, got, problem)


def beside(pipeline: Sequencer[Any, Any], block: Block[Any, Any], since: str) -> Sequencer[Any, Any]:
    """Append to `pipeline` a tap that runs `block` concurrently with several other steps.

    These are the steps from `since` up to and including the one after the tap. Use `beside` only in patterns without a
    rescue. The outline, all paths and the order of events are the same as with a `tap`.
    """
    index = next(index for index, step in enumerate(pipeline.steps) if step.key == since)
    return pipeline._with(Beside(block=block, since=index))  # noqa: SLF001 - a builder method that is not public


def _count_cancellations() -> int:
    """Return the number of pending cancellations of the current task."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


def sequencer(
    *,
    name: str,
    state: Callable[[], Any] | None = None,
    resources: Mapping[str, Resource] | None = None,
    owns: Sequence[Resource] = (),
    isolates: Sequence[StateResource[Any]] = (),
    accepts: Callable[[Any], Any] | None = None,
    model: ModelChoice = None,
    protected: bool = False,
) -> Sequencer[Any, Any]:
    """Create an empty sequencer; add steps with `then`, `tap`, `map`, `parallel`, `for_each`, `loop_back`, and so on.

    `state()` is called each time the sequencer runs, and creates the value that its blocks share as
    `ctx.sequencer.state`; without `state`, its blocks see the enclosing sequencer's state. The resources declared by
    its blocks are collected; `resources` declares additional ones. Resources in `owns` are opened anew for each run of
    the sequencer and hidden from enclosing blocks. Resources in `isolates` are opened anew as well, but changes to them
    are passed on to the enclosing blocks. `accepts` converts the input for the first step. `model` is the default for
    inner blocks that have no model of their own: one model, or one per intent. If `protected` is set, as it is in all
    patterns, inner blocks can read the state (a dict or a frozen pydantic model) and newly opened resources, but
    changes are possible only in steps that write through `ctx.scope.handle` and `ctx.scope`.

    >>> sequencer(name="sum").map(lambda n: n + 1).then(str).run_sync(1).output
    '2'
    """
    if state is not None and not callable(state):
        raise ConfigurationError(f"sequencer {name!r}", "state", state, "must be a function that returns a new state")
    declared = check_resources(resources, location=f"sequencer {name!r}")
    for resource in (*owns, *isolates):
        check_resources({getattr(resource, "key", type(resource).__name__): resource}, location=f"sequencer {name!r}")
    check_model(model, location=f"sequencer {name!r}")
    setup = SequencerSetup(
        state=state,
        declared=declared,
        owned=tuple(owns),
        isolated=tuple(isolates),
        accepts=accepts,
        model=model,
        protected=protected,
    )
    return Sequencer(name, setup)
