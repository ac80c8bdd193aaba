"""Cost of following a run: the CPU time of a debate with 0, 1 and 100 readers, as events and as pages.

As events, the debate has 13 calls. Each argument has 640 characters and is streamed in pieces of six, one every two
milliseconds, which is faster than models write. As pages, it has 5 debaters and 20 or 40 rounds with distinct Markdown
arguments. They arrive either in pieces, or whole and slowly enough to be sent one by one. A reader behaves like a tab
in a browser: it loads the page, follows the run to its end, and loads the page of the finished run.
"""

from __future__ import annotations

import asyncio
import time
import warnings
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any

from flowdebate import Debater, debate
from flowdebate.models.base import ModelResponse
from flowdebate.server import create_app
from flowdebate.service import Service
from flowdebate.web import prose
from overhead import BRIEFING, NAMES, QUESTION, STANCES, VERDICT, distinct
from report import print_table

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from fastapi import FastAPI

    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.models.base import ModelRequest

READERS = (0, 1, 100)
REPEATS = 5
PIECE = 6
PAUSE = 0.002
TABS = ((100, 0), (100, 1), (100, 10), (100, 100), (200, 0), (200, 1))
"""Numbers of turns and page readers."""
GATHERED = 0.055
"""Seconds per answer; longer than the interval in which the pieces of a page are collected."""


class Writing:
    """Model that writes arguments piece by piece."""

    name = "writing"

    def __init__(self) -> None:
        self._arguments = distinct()

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Return the answer; arguments are streamed."""
        if request.block.endswith("moderator"):
            decision = {"nextSpeakers": list(NAMES), "briefing": BRIEFING, "newAngle": None, "done": False}
            return ModelResponse(data=decision)
        if request.output is not None:
            return ModelResponse(data=VERDICT)
        text = next(self._arguments)
        for start in range(0, len(text), PIECE):
            if request.on_text is not None:
                request.on_text(text[start : start + PIECE])
            await asyncio.sleep(PAUSE)
        return ModelResponse(text=text)


def power() -> Sequencer[Any, Any]:
    """Build a debate of 13 calls, with three debaters, three rounds, a moderator and a judge."""
    sides = [Debater(name, STANCES[name]) for name in NAMES]
    return debate(name="power", debaters=sides, max_rounds=3, moderator=True, synthesizer=False)


async def _read(service: Service, run_id: str) -> int:
    return sum([1 async for _ in service.follow(run_id)])


async def cpu_of(readers: int) -> tuple[float, int]:
    """Return the CPU seconds of one debate, and the number of updates that a reader gets."""
    async with Service({"power": power()}, store="memory:", model=Writing()) as service:
        start = time.process_time()
        run = await service.begin("power", QUESTION, seed=1)
        updates = await asyncio.gather(*(_read(service, run.run_id) for _ in range(readers)))
        await service.wait(run.run_id)
        return time.process_time() - start, max(updates, default=0)


class Answering:
    """Model with answers that arrive whole or in pieces."""

    name = "answering"

    def __init__(self, *, in_pieces: bool) -> None:
        self._in_pieces = in_pieces
        replies = enumerate(islice(cycle(list(islice(distinct(), 50))), 250))
        self._arguments = (
            f"Turn {n}. **{t[:40]}** {t[40:300]}\n\n- {t[300:400]}\n- `code` {t[400:500]}\n\n> {t[500:]}"
            for n, t in replies
        )

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Answer after a moment, or pause briefly before each piece."""
        if request.output is not None:
            return ModelResponse(data=VERDICT)
        text = next(self._arguments)
        if not self._in_pieces or request.on_text is None:
            await asyncio.sleep(GATHERED)
            return ModelResponse(text=text)
        for start in range(0, len(text), 24):
            request.on_text(text[start : start + 24])
            await asyncio.sleep(GATHERED / 5)
        return ModelResponse(text=text)


async def _get(app: FastAPI, path: str) -> int:
    """Request a page from the application without a socket; return its size in bytes."""
    path, _, query = path.partition("?")
    messages: list[dict[str, object]] = [{"type": "http.request", "body": b"", "more_body": False}]
    size = 0

    async def receive() -> dict[str, object]:
        if not messages:
            await asyncio.Event().wait()  # never disconnects
        return messages.pop()

    async def send(message: MutableMapping[str, Any]) -> None:
        nonlocal size
        size += len(message.get("body", b""))

    scope = {"type": "http", "method": "GET", "http_version": "1.1", "scheme": "http", "root_path": ""}
    address = {"path": path, "raw_path": path.encode(), "query_string": query.encode(), "client": ("127.0.0.1", 1)}
    headers = [(b"host", b"localhost")]
    await app({**scope, **address, "headers": headers, "server": ("localhost", 80)}, receive, send)
    return size


def _addresses(run_id: str) -> tuple[str, ...]:
    """Return the paths that a tab loads: the page, the run's news until it ends, and the finished page."""
    page = f"/runs/{run_id}"
    return page, f"/api/v1{page}/events?page=1", page


async def _look(app: FastAPI, run_id: str) -> int:
    return sum([await _get(app, path) for path in _addresses(run_id)])


async def cpu_of_pages(turns: int, readers: int, *, in_pieces: bool = False) -> tuple[float, int]:
    """Return the CPU seconds of one debate with this many turns, and the bytes that a reader of its page gets."""
    sides = [{"name": f"side {number}", "stance": f"answer {number}"} for number in range(5)]
    options = {"max_rounds": turns // 5, "debaters": sides, "synthesizer": False}
    async with Service(store="memory:", model=Answering(in_pieces=in_pieces)) as service:
        app = create_app(service, token=False, close_service=False)
        app.state.front.readers._most = max(readers, 1)  # noqa: SLF001 - the usual bound is 64
        for path in ("/", *_addresses("none")):  # A server creates routes and loads templates on its first requests.
            await _get(app, path)
        start = time.process_time()
        run = await service.begin("debate", QUESTION, seed=1, options=options)
        sizes = await asyncio.gather(*(_look(app, run.run_id) for _ in range(readers)))
        await service.wait(run.run_id)
        return time.process_time() - start, max(sizes, default=0)


def _measured(turns: int, readers: int, in_pieces: bool) -> tuple[float, int]:  # noqa: FBT001 - a column of the table
    prose._prose.cache_clear()  # noqa: SLF001 - what an earlier debate said would cost nothing
    return asyncio.run(cpu_of_pages(turns, readers, in_pieces=in_pieces))


def print_pages() -> None:
    """Print the table of pages."""
    warnings.simplefilter("ignore")  # suppress warnings about the number of rounds
    tabs = [(turns, readers, False) for turns, readers in TABS] + [(100, 0, True), (100, 1, True)]
    times = {tab: min(_measured(*tab) for _ in range(2)) for tab in tabs}
    rows = [
        [
            str(turns),
            "in pieces" if in_pieces else "whole",
            str(readers),
            f"{1000 * seconds:.0f} ms",
            f"{seconds / times[turns, 0, in_pieces][0]:.2f}",
            f"{size / 1024:,.0f} KB",
        ]
        for (turns, readers, in_pieces), (seconds, size) in times.items()
    ]
    head = ["turns", "said", "readers", "CPU of the debate", "to that without readers", "bytes of each"]
    print_table("Readers of a page", head, rows)


def main() -> None:
    """Print the table."""
    measured: dict[int, list[tuple[float, int]]] = {readers: [] for readers in READERS}
    for _ in range(REPEATS):
        for readers in READERS:
            measured[readers].append(asyncio.run(cpu_of(readers)))
    best = {readers: min(seconds for seconds, _ in runs) for readers, runs in measured.items()}
    rows = [
        [
            str(readers),
            f"{1000 * best[readers]:.0f} ms",
            f"{best[readers] / best[1]:.2f}",
            str(measured[readers][0][1]),
        ]
        for readers in READERS
    ]
    print_table("Readers of a run", ["readers", "CPU of the debate", "of one reader", "updates of each"], rows)
    print_pages()


if __name__ == "__main__":
    main()
