"""The live page of a run: rendering work, and late or slow readers."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections import Counter
from typing import Any

import pytest

from flowdebate.server.sse import Readers
from flowdebate.service import Service
from flowdebate.testing import FunctionModel
from flowdebate.web import templates
from flowdebate.web.run import live
from tests.server.stage import QUESTION

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore:debate 'debate'")]

SIDES = [{"name": f"side {number}", "stance": f"answer {number}"} for number in range(5)]
FINISHED = ("live_round", "turn", "part", "step")
"""Macros rendered once per event, unlike `sum` (rendered for each message) and `task` (after each change)."""


@pytest.fixture
def render_counts(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count how often each macro is rendered."""
    counts: Counter[str] = Counter()
    macro = templates.macro

    def counting(name: str, *args: Any) -> str:
        counts[name] += 1
        return macro(name, *args)

    monkeypatch.setattr(live, "macro", counting)
    return counts


async def read_page(readers: Readers, service: Service, run_id: str, *, pause: float = 0.0) -> list[dict[str, Any]]:
    """Read all messages of a page until the run ends."""
    chunks = b""
    async for chunk in readers.page(service, run_id).body_iterator:
        chunks += bytes(chunk) if not isinstance(chunk, str) else chunk.encode()
        await asyncio.sleep(pause)
    assert b"event: end" in chunks
    return [json.loads(data) for data in re.findall(rb"^data: (\{.*\"kind\":\"page\".*\})$", chunks, re.MULTILINE)]


def final_texts(messages: list[dict[str, Any]]) -> list[str]:
    """Return the contributions that a reader has at the end, in order."""
    pieces: dict[str, str] = {}
    for message in messages:
        pieces = {} if message["whole"] else pieces
        pieces |= {piece["id"]: piece["html"] for piece in message["pieces"] if piece["id"].startswith("turn-")}
    return [match[1] for html in pieces.values() if (match := re.search("<p>(.*?)</p>", html))]


async def start_debate(service: Service, rounds: int) -> str:
    """Start a debate and return its id."""
    options = {"max_rounds": rounds, "debaters": SIDES, "synthesizer": False}
    return (await service.begin("debate", QUESTION, options=options)).run_id


async def answer_slowly(request: Any) -> Any:
    """Return a verdict or an argument after a moment."""
    await asyncio.sleep(0.001)
    return {"reasoning": "-", "winner": None, "verdict": "Wait."} if request.output_schema else f"By {request.block}."


async def follow_page(rounds: int, readers: int, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Return the messages for the given number of readers, failing if the journal is read."""
    async with Service(store="memory:", model=FunctionModel(answer_slowly)) as service:
        everybody, run_id = Readers(), await start_debate(service, rounds)
        monkeypatch.setattr(service.store, "steps", None)
        return [
            final_texts(page)
            for page in await asyncio.gather(*(read_page(everybody, service, run_id) for _ in range(readers)))
        ]


async def test_rendering_work_does_not_grow_with_the_number_of_readers(
    render_counts: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each piece is rendered once for all readers, so the work depends only on the number of turns.

    No journal is read.
    """
    numbers = []
    for rounds, readers in ((4, 1), (4, 12), (8, 1)):
        render_counts.clear()
        pages = await follow_page(rounds, readers, monkeypatch)
        assert pages == [[f"By debate-debater-side {n}." for n in range(5)] * rounds] * readers
        assert render_counts["turn"] == 5 * rounds
        assert render_counts["task"] <= 3 * 5 * rounds
        numbers.append({name: render_counts[name] for name in FINISHED})
    one, many, long = numbers
    assert one == many
    assert sum(long.values()) <= 2 * sum(one.values())


async def test_late_and_slow_readers_get_the_whole_page() -> None:
    """A single message replaces all those that a late or slow reader has missed."""
    halfway, go_on, calls = asyncio.Event(), asyncio.Event(), itertools.count(1)

    async def gated_answer(request: Any) -> Any:
        """Return an answer, but wait for the late reader from the 25th answer on."""
        if next(calls) >= 25:
            halfway.set()
            await go_on.wait()
        return await answer_slowly(request)

    async with Service(store="memory:", model=FunctionModel(gated_answer)) as service:
        everybody, run_id = Readers(), await start_debate(service, 10)
        first = asyncio.create_task(read_page(everybody, service, run_id))
        slow = asyncio.create_task(read_page(everybody, service, run_id, pause=0.2))
        await halfway.wait()
        late = asyncio.create_task(read_page(everybody, service, run_id))
        while len(everybody._pages[run_id].readers) < 3:  # noqa: ASYNC110 - it says nothing of who has joined
            await asyncio.sleep(0.01)
        go_on.set()
        views = await asyncio.gather(first, slow, late)
        assert {tuple(final_texts(view)) for view in views} == {
            tuple(f"By debate-debater-side {n}." for n in range(5)) * 10
        }
        assert [view[0]["whole"] for view in views] == [True] * 3


async def test_renderer_stops_when_the_last_reader_leaves() -> None:
    """The renderer keeps no state, and the next reader starts it again."""
    async with Service(store="memory:", model=FunctionModel(answer_slowly)) as service:
        everybody, run_id = Readers(), await start_debate(service, 2)
        stream = everybody.page(service, run_id).body_iterator
        assert await anext(aiter(stream)) == b"retry: 1000\n\n"
        await stream.aclose()  # type: ignore[attr-defined]  # a generator
        assert everybody._pages == {}
        assert final_texts(await read_page(everybody, service, run_id))
        assert everybody._pages == {}
