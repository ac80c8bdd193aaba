"""Concurrent blocks: order, limits, failures, and cancellation of siblings."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import handler, sequencer
from flowdebate.blocks.concurrency import in_order
from tests.blocks.pipelines import Boom, Journal, Pipeline, pipelines

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.runs.context import Context

pytestmark = pytest.mark.anyio


@dataclass
class Stage:
    """Blocks that wait at gates, which the test opens in a random order."""

    running: list[int] = field(default_factory=list)
    most: int = 0
    ended: list[int] = field(default_factory=list)
    gates: dict[int, asyncio.Event] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def act(self, item: int) -> int:
        """Wait for the gate and return ten times the item."""
        self.running.append(item)
        self.most = max(self.most, len(self.running))
        self.gates[item] = asyncio.Event()
        self.changed.set()
        try:
            await self.gates[item].wait()
        finally:
            self.running.remove(item)
            self.changed.set()
        self.ended.append(item)
        self.changed.set()
        return item * 10

    async def wait_until(self, holds: Callable[[], bool]) -> None:
        """Wait until `holds()` is true."""
        while not holds():
            self.changed.clear()
            await self.changed.wait()

    async def until_run(self, count: int) -> None:
        """Wait until `count` blocks are running."""
        await self.wait_until(lambda: len(self.running) == count)

    def open_gate(self, choice: int) -> int:
        """Open the gate of a waiting block."""
        waiting = sorted(item for item in self.running if not self.gates[item].is_set())
        waiter = waiting[choice % len(waiting)]
        self.gates[waiter].set()
        return waiter


@given(
    st.integers(0, 6), st.none() | st.integers(1, 7), st.lists(st.integers(0, 5), min_size=6, max_size=6), st.booleans()
)
def test_results_keep_their_order_and_no_slot_stays_idle(
    count: int,
    limit: int | None,
    choices: list[int],
    as_branches: bool,  # noqa: FBT001
) -> None:
    async def scenario() -> None:
        stage = Stage()
        act = handler(stage.act, name="act")
        many: Sequencer[Any, Any] = sequencer(name="many")
        if as_branches:
            branches = {
                str(item): sequencer(name="one").map(lambda _, item=item: item).then(act) for item in range(count)
            }
            many = many.parallel(branches, max_concurrency=limit)
        else:
            many = many.for_each(act, max_concurrency=limit)
        handle = many.start(list(range(count)))
        order = []
        for remaining in range(count, 0, -1):
            await stage.until_run(min(remaining, limit or count))
            order.append(stage.open_gate(choices[remaining - 1]))
            await stage.wait_until(lambda: stage.ended == order)
        output = (await handle).output
        expected = [item * 10 for item in range(count)]
        assert output == ({str(item): item * 10 for item in range(count)} if as_branches else expected)
        assert stage.ended == order
        assert stage.most <= (count if limit is None else limit)

    asyncio.run(scenario())


@given(st.integers(2, 5), st.data())
def test_first_failure_cancels_the_other_blocks_and_is_raised_unchanged(count: int, data: st.DataObject) -> None:
    failing = data.draw(st.integers(0, count - 1))
    error = RuntimeError("boom")

    async def scenario() -> None:
        stage = Stage()

        async def act(item: int) -> int:
            if item != failing:
                return await stage.act(item)
            await stage.until_run(count - 1)
            raise error

        before = asyncio.all_tasks()
        many: Sequencer[Any, Any] = sequencer(name="many").for_each(handler(act, name="act"))
        with pytest.raises(RuntimeError, match="boom") as caught:
            await many.run(range(count))
        assert caught.value is error
        assert error.__notes__ == [f"in block 'act' (at many/act[{failing}])"]
        assert (stage.running, stage.ended) == ([], [])
        assert asyncio.all_tasks() == before
        del error.__notes__

    asyncio.run(scenario())


async def test_first_failure_in_declared_order_is_raised() -> None:
    """The raised exception must not depend on which failure happens first.

    The other failures are attached as notes.
    """
    names = ("first", "second", "third")
    all_here = asyncio.Barrier(len(names))

    async def fail(name: str) -> None:
        try:
            await all_here.wait()
        finally:
            if name == names[-1]:
                raise RuntimeError("third")
        raise ValueError(name)

    many: Sequencer[Any, Any] = sequencer(name="many").for_each(handler(fail, name="fail"))
    with pytest.raises(ValueError, match="first") as caught:
        await many.run(names)
    assert caught.value.__notes__ == [
        "in block 'fail' (at many/fail[0])",
        "at the same time, call 1 failed: ValueError: second",
        "at the same time, call 2 failed: RuntimeError: third",
    ]


async def test_exception_groups_from_a_block_are_raised_unchanged() -> None:
    group = ExceptionGroup("mine", [ValueError("a"), TypeError("b")])

    async def fail(_: object) -> None:
        raise group

    many: Sequencer[Any, Any] = sequencer(name="many").parallel({"a": fail, "b": lambda _: 1})
    with pytest.raises(ExceptionGroup) as caught:
        await many.run(0)
    assert caught.value is group


async def test_blocks_that_cancel_themselves_cancel_the_run() -> None:
    """A cancelled block has no result to continue with, so its siblings end too."""
    stage = Stage()

    async def cancelled(_: object) -> None:
        await stage.until_run(1)
        raise asyncio.CancelledError

    many: Sequencer[Any, Any] = (
        sequencer(name="many").parallel({"a": cancelled, "b": stage.act}).then(lambda _: "went on")
    )
    handle = many.start(7)
    with pytest.raises(asyncio.CancelledError):
        await handle
    assert handle.status == "interrupted"
    assert stage.running == stage.ended == []


@given(pipelines(failing=False, pauses=4), st.integers(0, 25), st.integers(1, 3), st.booleans())
def test_cancelling_a_run_ends_every_child_block(
    recipe: Pipeline,
    after: int,
    times: int,
    max_concurrency: bool,  # noqa: FBT001
) -> None:
    async def scenario() -> None:
        journal = Journal()
        before = asyncio.all_tasks()
        handle = recipe.build(journal).start(1)
        for _ in range(after):
            await asyncio.sleep(0)
        was_over = handle.done()
        for _ in range(times):
            handle.cancel()
            if not max_concurrency:
                await asyncio.sleep(0)
        if was_over:
            assert (await handle).output == recipe.expected(1)
        else:
            with pytest.raises(asyncio.CancelledError):
                await handle
        assert handle.status == ("complete" if was_over else "interrupted")
        assert +journal.inside == {}
        assert asyncio.all_tasks() == before

    asyncio.run(scenario())


@pytest.mark.parametrize("limit", [None, 1, 2])
async def test_caller_timeouts_end_the_blocks(limit: int | None) -> None:
    """A caller using `asyncio.timeout` gets a `TimeoutError` once the blocks have ended."""
    stage = Stage()
    many: Sequencer[Any, Any] = sequencer(name="many").for_each(handler(stage.act, name="act"), max_concurrency=limit)
    before = asyncio.all_tasks()
    with pytest.raises(TimeoutError):  # noqa: PT012 - the timeout is around all of it
        async with asyncio.timeout(None) as deadline:
            run = asyncio.ensure_future(expire_when_running(stage, limit or 3, deadline))
            await many.run([1, 2, 3])
    await run
    assert stage.running == stage.ended == []
    assert asyncio.all_tasks() == before


async def expire_when_running(stage: Stage, count: int, deadline: asyncio.Timeout) -> None:
    """Expire the deadline as soon as `count` blocks are running."""
    await stage.until_run(count)
    deadline.reschedule(asyncio.get_running_loop().time())


async def test_second_cancellation_still_waits_for_child_blocks() -> None:
    waiting, cleaning, cleaned, allowed = (asyncio.Event() for _ in range(4))

    async def slow_to_end(_: object) -> None:
        waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaning.set()
            waiter = asyncio.ensure_future(allowed.wait())
            while not waiter.done():
                try:
                    await asyncio.shield(waiter)
                except asyncio.CancelledError:
                    continue
            cleaned.set()

    many: Sequencer[Any, Any] = sequencer(name="many").parallel({"a": slow_to_end, "b": lambda _: 1})
    handle = many.start(0)
    await waiting.wait()
    handle.cancel()
    await cleaning.wait()
    handle.cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not handle.done()
    allowed.set()
    with pytest.raises(asyncio.CancelledError):
        await handle
    assert cleaned.is_set()


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("max_concurrency", [False, True])
def test_exit_exceptions_are_not_wrapped(kind: type[BaseException], max_concurrency: bool) -> None:  # noqa: FBT001
    """Exceptions such as `SystemExit` are neither grouped nor rescued, and they end the sibling blocks."""
    stage = Stage()
    runs: list[Any] = []

    async def end(_: object, ctx: Context) -> None:
        runs.append(ctx.run)
        if max_concurrency:
            await stage.until_run(1)
        raise kind

    branches: dict[str, Any] = {"a": end, "b": stage.act} if max_concurrency else {"a": end}
    many: Sequencer[Any, Any] = sequencer(name="many").parallel(branches).rescue(lambda _: "rescued")
    with pytest.raises(kind):
        many.run_sync(1)
    assert stage.running == []
    assert runs[0].status in {"failed", "interrupted"}
    assert runs[0].records.events[-1].kind == "run_finished"


@given(st.lists(st.integers(), max_size=5), st.none() | st.integers(1, 6))
def test_in_order_returns_results_in_the_order_of_the_calls(values: list[int], limit: int | None) -> None:
    def call(value: int) -> Any:
        async def answer() -> int:
            await asyncio.sleep(0)
            return value

        return answer

    calls: Coroutine[Any, Any, list[int]] = in_order([call(value) for value in values], limit=limit)
    assert asyncio.run(calls) == values


async def test_failures_during_cancellation_are_not_rescued() -> None:
    """An error raised by a block during its cancellation must not allow the run to continue."""
    started = asyncio.Event()

    async def stubborn(_: object) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise Boom

    went_on: list[object] = []
    block: Sequencer[Any, Any] = sequencer(name="all").then(stubborn).rescue(lambda _: "rescued").tap(went_on.append)
    handle = block.start(0)
    await started.wait()
    handle.cancel()
    with pytest.raises(Boom):
        await handle
    assert went_on == []
