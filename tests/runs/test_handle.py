"""Handles for runs in progress: ways to follow, await, cancel and read them."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate import generator, handler, sequencer
from flowdebate.errors import ConfigurationError
from flowdebate.runs.events import CallStarted, ModelCalled, RunFinished, RunStarted, TextDelta
from flowdebate.testing import FunctionModel, ScriptedModel

if TYPE_CHECKING:
    from flowdebate.runs.context import Context
    from flowdebate.runs.result import RunHandle
    from flowdebate.testing import ModelRequest

pytestmark = pytest.mark.anyio


def counting_block(steps: int, *, fails: bool = False) -> Any:
    """Return a block that emits 0, 1, 2, …, one at a time."""

    async def count(_: object, ctx: Context) -> int:
        for step in range(steps):
            await asyncio.sleep(0)
            ctx.emit(step)
        if fails:
            raise RuntimeError("boom")
        return steps

    return handler(count)


@given(st.integers(0, 4), st.booleans(), st.lists(st.integers(0, 8), min_size=1, max_size=3))
def test_every_reader_gets_every_event(steps: int, fails: bool, late: list[int]) -> None:  # noqa: FBT001
    async def scenario() -> None:
        handle = counting_block(steps, fails=fails).start(0)

        async def read(after: int) -> list[object]:
            for _ in range(after):
                await asyncio.sleep(0)
            return [event async for event in handle]

        readers = [asyncio.create_task(read(after)) for after in late]
        for reader in readers:
            events = await reader
            assert events == handle.events
            assert events[1:-1] == list(range(steps))
            assert isinstance(events[0], RunStarted)
            assert isinstance(events[-1], RunFinished)
            assert handle.done()
        if fails:
            with pytest.raises(RuntimeError, match="boom"):
                await handle
        else:
            assert (await handle).output == steps

    asyncio.run(scenario())


async def test_events_can_be_read_during_a_run_and_after_its_failure() -> None:
    """A failure must not discard the events that precede it."""
    go = asyncio.Event()

    async def wait(_: object, ctx: Context) -> None:
        ctx.emit("before")
        await go.wait()
        raise RuntimeError("boom")

    handle = handler(wait).start(0, seed=5)
    reader = aiter(handle)
    assert isinstance(await anext(reader), RunStarted)
    assert await anext(reader) == "before"
    assert (handle.status, handle.done(), handle.seed) == ("running", False, 5)
    go.set()
    with pytest.raises(RuntimeError, match="boom"):
        await handle
    assert (handle.status, handle.done()) == ("failed", True)
    assert handle.events[1] == "before"
    (finished,) = [event async for event in reader]
    assert isinstance(finished, RunFinished)
    assert (finished.status, finished.error) == ("failed", "RuntimeError: boom")


async def test_run_has_started_when_start_returns() -> None:
    """The id, the status and the first event are available immediately."""
    handle = counting_block(1).start(0)
    assert [type(event) for event in handle.events] == [RunStarted]
    assert handle.status == "running"
    await handle


@pytest.mark.parametrize("steps", range(8))
async def test_cancelled_run_ends_at_once_with_its_status(steps: int) -> None:
    """A run that has not started yet can be cancelled.

    Iteration ends, awaiting raises `CancelledError`, and the events show the same status.
    """
    handle = counting_block(5).start(0)
    for _ in range(steps):
        await asyncio.sleep(0)
    over = handle.done()
    handle.cancel()
    events = [event async for event in handle]
    assert isinstance(events[0], RunStarted)
    assert isinstance(events[-1], RunFinished)
    assert handle.status == events[-1].status == ("complete" if over else "interrupted")
    if over:
        assert (await handle).output == 5
    else:
        with pytest.raises(asyncio.CancelledError):
            await handle


async def test_cancelling_a_finished_run_changes_nothing() -> None:
    handle = counting_block(1).start(0)
    result = await handle
    handle.cancel()
    assert handle.status == "complete"
    assert (await handle) is result


async def test_cancelling_the_only_waiter_cancels_the_run() -> None:
    """Nothing else is waiting for the run, so `asyncio.timeout` around `await handle` ends it."""
    started, ended = asyncio.Event(), asyncio.Event()

    async def hang(_: object) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    handle = handler(hang).start(0)
    with pytest.raises(TimeoutError):  # noqa: PT012 - the timeout is around all of it
        async with asyncio.timeout(None) as deadline:
            await started.wait()
            deadline.reschedule(asyncio.get_running_loop().time())
            await handle
    assert ended.is_set()
    assert handle.status == "interrupted"


async def test_reader_that_stops_reading_does_not_stop_the_run() -> None:
    handle = counting_block(3).start(0)
    reader = aiter(handle)
    await anext(reader)
    assert len(handle._run.records.listeners) == 1
    await reader.aclose()
    assert handle._run.records.listeners == []
    assert (await handle).output == 3


async def test_model_streams_only_while_there_are_readers() -> None:
    """Only current readers receive chunks, while a late reader receives complete answers."""
    streamed: list[bool] = []

    def answer(request: ModelRequest) -> str:
        streamed.append(request.on_text is not None)
        return "a\nb\n"

    two = sequencer(name="two").tap(generator(name="one")).then(generator(name="two"))
    handle = two.start("?", model=FunctionModel(answer))
    pieces = [event async for event in handle if isinstance(event, TextDelta)]
    assert [piece.block for piece in pieces] == ["one", "one", "two", "two"]
    assert not [event async for event in handle if isinstance(event, TextDelta)]
    await two.start("?", model=FunctionModel(answer))
    assert streamed == [True, True, False, False]


def test_start_requires_a_running_loop() -> None:
    with pytest.raises(ConfigurationError, match=r"count.start\(\): .*Call it from async code, or use run_sync"):
        counting_block(1).start(0)


async def test_run_is_cancelled_when_its_loop_closes() -> None:
    def other_loop() -> RunHandle[Any]:
        async def leave() -> RunHandle[Any]:
            handle = handler(hang).start(0)
            await asyncio.sleep(0)
            return handle

        return asyncio.run(leave())

    async def hang(_: object) -> None:
        await asyncio.Event().wait()

    handle = await asyncio.to_thread(other_loop)
    assert handle.status == "interrupted"
    assert isinstance(handle.events[-1], RunFinished)


# Concurrent starts


@pytest.mark.parametrize("begin", ["run", "start", "batch"])
async def test_runs_that_start_together_do_not_block_the_loop(begin: str) -> None:
    turns = 0
    prepared: list[int] = []
    answering = asyncio.Event()

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def answer(_: ModelRequest) -> str:
        prepared.append(turns)
        await answering.wait()
        return "yes"

    block, model = generator(name="ask"), FunctionModel(answer)
    counting = asyncio.ensure_future(count())
    if begin == "batch":
        ends: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(block.batch(range(50), model=model, max_concurrency=50).all())
        ]
    elif begin == "run":
        ends = [asyncio.ensure_future(block.run("?", model=model)) for _ in range(50)]
    else:
        ends = [asyncio.ensure_future(await_run(block.start("?", model=model))) for _ in range(50)]
    while len(prepared) < 50:  # noqa: ASYNC110 - turns of the loop are counted
        await asyncio.sleep(0)
    answering.set()
    await asyncio.gather(*ends)
    counting.cancel()
    assert len(set(prepared)) == 50


async def await_run(handle: RunHandle[Any]) -> Any:
    """Await the result of the run."""
    return await handle


async def test_run_cancelled_before_it_starts_does_not_block_other_runs() -> None:
    block = generator(name="ask")
    handles = [block.start("?", model=ScriptedModel("yes")) for _ in range(5)]
    await asyncio.sleep(0)
    for handle in handles[1:4]:
        handle.cancel()
    assert (await handles[0]).output == (await handles[4]).output == "yes"
    for handle in handles[1:4]:
        with pytest.raises(asyncio.CancelledError):
            await handle
        assert (handle.status, handle.usage.calls) == ("interrupted", 0)


async def test_current_readers_see_the_start_of_a_call() -> None:
    """Readers who join during a call are sent its start, although the start is not recorded."""
    called, go = asyncio.Event(), asyncio.Event()

    async def answer(_: ModelRequest) -> str:
        called.set()
        await go.wait()
        return "Yes."

    twice = sequencer(name="all")
    for name in ("one", "two"):
        twice = twice.then(generator(name=name, prompt="Say it."))
    handle = twice.start("?", model=FunctionModel(answer))

    async def read() -> list[Any]:
        return [event async for event in handle]

    early = asyncio.create_task(read())
    await called.wait()
    late = asyncio.create_task(read())
    await asyncio.sleep(0)
    go.set()
    await handle
    for events in (await early, await late):
        calls = [event for event in events if isinstance(event, (CallStarted, ModelCalled))]
        assert [(event.kind, event.block, event.model, event.path) for event in calls] == [
            (kind, name, "function", f"all/{name}")
            for name in ("one", "two")
            for kind in ("call_started", "model_called")
        ]
        assert [event.at for event in calls] == sorted(event.at for event in calls)
        assert [event for event in events if not isinstance(event, (CallStarted, TextDelta))] == handle.events


@pytest.mark.parametrize("fails", [False, True])
async def test_late_reader_sees_only_the_end_of_a_call(fails: bool) -> None:  # noqa: FBT001
    def answer(_: ModelRequest) -> str:
        if fails:
            raise RuntimeError("boom")
        return "Yes."

    handle = generator(name="one", prompt="Say it.").start("?", model=FunctionModel(answer))
    with contextlib.suppress(RuntimeError):
        await handle
    assert [event async for event in handle] == handle.events
