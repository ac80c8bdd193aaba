"""Accuracy of call deadlines when servers send one byte at a time: 1,000 calls, 50 of them concurrently."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from flowdebate.errors import ModelTimeout
from flowdebate.models import ModelRequest, ModelSettings, OpenAIModel
from flowdebate.models.call import ask
from report import print_table

if TYPE_CHECKING:
    from collections.abc import Iterator

CALLS = 1_000
AT_ONCE = 50
DEADLINE = 0.5
DRIPS = {"a byte every 20 ms": "bytes", "a comment every 20 ms in a stream": "comments"}


@contextmanager
def dripping() -> Iterator[str]:
    """Start a server in a separate process, and yield its address."""
    command = [sys.executable, str(Path(__file__).with_name("dripping_server.py"))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        try:
            assert process.stdout is not None  # noqa: S101 - opened as a pipe
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        finally:
            process.kill()


_TIMERS = f"""
import asyncio, sys, time

async def lane(number, late):
    await asyncio.sleep(number * {DEADLINE} / {AT_ONCE})
    while True:
        began = time.perf_counter()
        await asyncio.sleep({DEADLINE})
        late.append(time.perf_counter() - began - {DEADLINE})

async def main():
    late = []
    lanes = [asyncio.create_task(lane(number, late)) for number in range({AT_ONCE})]
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    print(*late)

asyncio.run(main())
"""
"""Program that measures timer accuracy in an idle process on the same machine."""


async def overshoots(model: OpenAIModel, *, streams: bool) -> list[float]:
    """Measure by how many seconds each call overran its deadline."""

    async def one() -> float:
        request = ModelRequest(
            messages=[{"role": "user", "content": "x"}],
            block="b",
            on_text=(lambda _: None) if streams else None,
            settings=ModelSettings(timeout=DEADLINE),
        )
        start = time.perf_counter()
        try:
            await ask(model, request)
        except ModelTimeout:
            return time.perf_counter() - start - DEADLINE
        raise AssertionError

    async def one_after_another(number: int) -> list[float]:
        await asyncio.sleep(number * DEADLINE / AT_ONCE)  # spread the deadlines, which would otherwise coincide
        return [await one() for _ in range(CALLS // AT_ONCE)]

    async with model.open_connections():
        await asyncio.gather(*(one() for _ in range(AT_ONCE)))  # warm up imports and bytecode
        gc.collect()  # the first collections after importing openai take 150 ms, but only once per process
        lanes = await asyncio.gather(*map(one_after_another, range(AT_ONCE)))
        return sorted(late for lane in lanes for late in lane)


def figures(late: list[float]) -> list[str]:
    """Format the median, the 99th percentile and the maximum in milliseconds."""
    return [f"{seconds * 1e3:.1f}" for seconds in (late[len(late) // 2], late[len(late) * 99 // 100], late[-1])]


def main() -> None:
    rows = []
    load = os.getloadavg()[0]
    timers = subprocess.Popen(  # noqa: S603 - our own code
        [sys.executable, "-c", _TIMERS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with dripping() as url, timers:
        for transport in ("aiohttp", "openai"):
            for name, drip in DRIPS.items():
                model = OpenAIModel(drip, base_url=url, api_key="none", transport=transport, retry=None)
                cpu = time.process_time()
                late = asyncio.run(overshoots(model, streams=drip == "comments"))
                cpu = time.process_time() - cpu
                rows.append([f"{transport}, {name}", *figures(late), f"{cpu:.1f}"])
        output, _ = timers.communicate("")
    rows.append(["timers of an idle process, meanwhile", *figures(sorted(map(float, output.split()))), ""])
    print_table(
        f"{CALLS:,} calls with a deadline of {DEADLINE} s, {AT_ONCE} at once",
        ["overshoot, ms", "median", "p99", "max", "CPU s"],
        rows,
        note=f"load average before: {load:.1f} on {os.cpu_count()} processors; the server has a process of its own.",
    )


if __name__ == "__main__":
    main()
