"""The elapsed time of a run, as blocks see it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from flowdebate import sequencer
from flowdebate.store.memory import MemoryStore

if TYPE_CHECKING:
    from flowdebate.runs.context import Context

pytestmark = pytest.mark.anyio


async def slow_step() -> int:
    """Run a side effect that takes a moment."""
    await asyncio.sleep(0.02)
    return 1


async def test_block_sees_the_elapsed_time_of_the_run() -> None:
    times: list[float] = []

    async def wait(_: object, ctx: Context) -> None:
        times.append(ctx.elapsed)
        await slow_step()
        times.append(ctx.elapsed)

    await sequencer(name="s").tap(wait).tap(wait).run(None)
    assert times == sorted(times)
    assert times[0] >= 0.0
    assert times[1] > times[0]


async def test_elapsed_time_of_a_resumed_run_counts_from_its_first_start() -> None:
    """A replayed step keeps its recorded time. The times of later steps include the gap between the executions."""
    store, times = MemoryStore(), list[float]()
    failing = True

    async def look(_: object, ctx: Context) -> None:
        await ctx.step(slow_step)
        times.append(ctx.elapsed)

    def fail(_: object) -> None:
        if failing:
            message = "once"
            raise ValueError(message)

    block = sequencer(name="s").tap(look).tap(fail).tap(look)
    with pytest.raises(ValueError, match="once"):
        await block.run(None, store=store, run_id="it")
    failing = False
    await asyncio.sleep(0.05)
    await block.resume("it", store=store)
    first, repeated, later = times
    assert first == repeated > 0.0
    assert later >= first + 0.05
