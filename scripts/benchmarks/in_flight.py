"""1,000 concurrent debates in one process, against an HTTP server that answers after 50 ms."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flowdebate import Debater, OpenAIModel, debate
from report import print_table

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

DEBATES = 1_000
LATENCY_MS = 50
CALLS = 5
"""Number of calls per debate, with two sides, two rounds and a judge."""


class Server:
    """Server process and its statistics."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.url = f"http://127.0.0.1:{self._answer()}/v1"

    def ask(self, figure: str) -> int:
        """Return the current number of open `connections`, or of `requests` so far."""
        stdin = self._process.stdin
        assert stdin is not None  # noqa: S101 - opened as a pipe
        stdin.write(f"{figure}\n")
        stdin.flush()
        return self._answer()

    def _answer(self) -> int:
        stdout = self._process.stdout
        assert stdout is not None  # noqa: S101 - opened as a pipe
        return int(stdout.readline())


@contextmanager
def server() -> Iterator[Server]:
    command = [sys.executable, str(Path(__file__).with_name("latency_server.py")), str(LATENCY_MS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        try:
            yield Server(process)
        finally:
            process.kill()


async def debates(url: str) -> None:
    """Run all debates at once; every argument must be about its own debate's question."""
    model = OpenAIModel("latency", base_url=url, api_key="none")
    pattern = debate(
        name="flight", debaters=[Debater("a", "for"), Debater("b", "against")], max_rounds=2, synthesizer=False
    )
    results = await asyncio.gather(*(pattern.run(f"Question number {n}?", model=model) for n in range(DEBATES)))
    for number, result in enumerate(results):
        texts = [entry.text for entry in result.raw.transcript]
        assert texts == [f"About Question number {number}."] * 4, texts  # noqa: S101 - none mixed up
        assert result.raw.verdict  # noqa: S101
        assert result.raw.verdict.winner == "for"  # noqa: S101


async def bare(url: str, http_client: Any) -> None:  # noqa: ANN401 - one of two unrelated classes
    """Make the same calls, in the same order of dependence, with only the openai client."""
    from openai import AsyncOpenAI

    async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0, http_client=http_client, timeout=300) as client:

        async def chain(number: int) -> None:
            for _ in range(CALLS):
                await client.chat.completions.create(
                    model="latency", messages=[{"role": "user", "content": f"Question number {number}?"}]
                )

        await asyncio.gather(*(chain(number) for number in range(DEBATES)))


def measured(work: Callable[[], Awaitable[None]]) -> tuple[float, float]:
    """Return CPU and wall seconds, after checking that no task remains."""

    async def watched() -> tuple[float, float]:
        before = asyncio.all_tasks()
        cpu, wall = time.process_time(), time.perf_counter()
        await work()
        figures = time.process_time() - cpu, time.perf_counter() - wall
        assert asyncio.all_tasks() == before, "a task is left over"  # noqa: S101
        return figures

    return asyncio.run(watched())


def main() -> None:
    import httpx2
    import openai

    limits = httpx2.Limits(max_connections=5000, max_keepalive_connections=5000)
    rows = []
    with server() as stub:
        pairs: dict[str, Callable[[], Awaitable[None]]] = {
            "openai client alone (default transport)": lambda: bare(
                stub.url, openai.DefaultAsyncHttpxClient(limits=limits)
            ),
            "openai client alone (aiohttp)": lambda: bare(stub.url, openai.DefaultAioHttpClient(limits=limits)),
            "flowdebate": lambda: debates(stub.url),
        }
        for work in pairs.values():
            measured(work)  # warm up imports, connections and bytecode
        for name, work in pairs.items():
            calls = stub.ask("requests")
            cpu, wall = measured(work)
            calls = stub.ask("requests") - calls
            assert calls == DEBATES * CALLS, calls  # noqa: S101
            deadline = time.monotonic() + 10
            while (remaining := stub.ask("connections")) and time.monotonic() < deadline:
                time.sleep(0.05)
            rows.append([name, f"{cpu / calls * 1e3:.2f}", f"{wall:.1f}", calls, remaining])
    print_table(
        f"{DEBATES:,} debates in flight, server latency {LATENCY_MS} ms",
        ["", "CPU ms a call", "wall s", "calls", "connections left"],
        rows,
        note="flowdebate: one call in five is a structured verdict; all texts checked against their debate.",
    )


if __name__ == "__main__":
    main()
