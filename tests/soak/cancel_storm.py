"""Cancel calls at random moments and check that nothing leaks: `python -m tests.soak.cancel_storm`."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
import time
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, get_args

from flowdebate.models import ModelRequest, ModelSettings, OpenAIModel, OutputSchema
from flowdebate.models.call import ask
from flowdebate.models.openai.clients import Transport
from tests.models.server import ChatServer, chunk, completion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.models.server import Exchange

__all__ = ("Leaks", "storm")

_AT_ONCE = 50
_LATEST = 0.2
"""Maximum delay in seconds before an unfinished call is cancelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaks:
    """Resources left over after a storm of cancellations."""

    transport: Transport
    calls: int
    cancelled: int
    answered: int
    tasks: int
    """Number of leaked tasks."""
    descriptors: int
    """Number of leaked file descriptors."""
    connections: int
    """Number of connections that are still open on the server."""
    work_again: int
    """Number of successful calls among the 20 made afterwards."""
    seconds: float


async def _slow(exchange: Exchange) -> None:
    """Answer byte by byte, so that some calls are cancelled midway and others finish."""
    exchange.close = True
    with contextlib.suppress(ConnectionError):
        if exchange.body.get("stream"):
            await exchange.begin_events()
            for item in [*(chunk("x") for _ in range(8)), chunk(finish="stop")]:
                await asyncio.sleep(0.002)
                await exchange.event(item)
            return
        await asyncio.sleep(0.01)
        await exchange.json(completion('{"value": [1]}'), headers={"Connection": "close"})


async def _silent(exchange: Exchange) -> None:
    await exchange.until_gone()


def _request(draw: Random) -> ModelRequest:
    kind = draw.randrange(3)
    return ModelRequest(
        messages=[{"role": "user", "content": "x" * draw.choice((10, 100_000))}],
        block="storm",
        on_text=(lambda _: None) if kind == 1 else None,
        output=OutputSchema.of(list[int]) if kind == 2 else None,
        settings=ModelSettings(timeout=60),
    )


async def _wave(models: Sequence[OpenAIModel], draw: Random, count: int) -> tuple[int, int]:
    """Make `count` concurrent calls, and cancel each at a random moment.

    Return how many were cancelled and how many were answered.
    """
    calls = [asyncio.create_task(ask(draw.choice(models), _request(draw))) for _ in range(count)]
    loop = asyncio.get_running_loop()
    for call in calls:
        loop.call_later(draw.random() * _LATEST, call.cancel)
    ends = await asyncio.gather(*calls, return_exceptions=True)
    for end in ends:
        if isinstance(end, Exception):
            raise end
    cancelled = sum(isinstance(end, BaseException) for end in ends)
    return cancelled, count - cancelled


async def storm(calls: int, transport: Transport, *, seed: int = 1) -> Leaks:
    """Cancel `calls` calls and count what they leave behind."""
    draw = Random(seed)
    start = time.perf_counter()
    async with ChatServer({"slow": _slow, "silent": _silent}) as server:

        def model(name: str) -> OpenAIModel:
            return OpenAIModel(name, base_url=server.base_url, api_key="none", retry=None, transport=transport)

        await ask(model("fine"), _request(Random(0)))  # warm up imports, which keep files open
        await server.wait_until_left()
        descriptors, tasks = _open_files(), asyncio.all_tasks()
        cancelled = answered = work_again = 0
        models = [model("slow"), model("silent")]
        async with contextlib.AsyncExitStack() as stack:
            for opened in models:
                await stack.enter_async_context(opened.open_connections())
            for first in range(0, calls, _AT_ONCE):
                cancelled_calls, through = await _wave(models, draw, min(_AT_ONCE, calls - first))
                cancelled, answered = cancelled + cancelled_calls, answered + through
            server.scenarios = {}
            for number in range(20):
                response = await ask(models[number % 2], ModelRequest(messages=[], block="storm"))
                work_again += response.text == "fine"
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(10):
                await server.wait_until_left()
                while asyncio.all_tasks() - tasks:  # noqa: ASYNC110 - whatever they are
                    await asyncio.sleep(0.01)
        return Leaks(
            transport=transport,
            calls=calls,
            cancelled=cancelled,
            answered=answered,
            tasks=len(asyncio.all_tasks() - tasks),
            descriptors=_open_files() - descriptors,
            connections=server.open_connections,
            work_again=work_again,
            seconds=time.perf_counter() - start,
        )


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a count of entries that come and go


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the storm, and return exit code 1 if anything leaked."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak.cancel_storm", description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="calls with each transport")
    parser.add_argument("--seed", type=int, default=1, help="another one draws other moments")
    options = parser.parse_args(arguments)
    failed = False
    for transport in get_args(Transport):
        result = asyncio.run(storm(options.count, transport, seed=options.seed))
        print(  # noqa: T201 - a command
            f"{transport}: {result.cancelled:,} of {result.calls:,} calls cancelled, {result.answered:,} answered, "
            f"in {result.seconds:.0f} s; left over: {result.tasks} tasks, {result.descriptors} descriptors, "
            f"{result.connections} connections; {result.work_again} of 20 calls work"
        )
        failed = failed or bool(result.tasks or result.descriptors > 0 or result.connections or result.work_again != 20)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
