"""Growth of cost with the amount of work: each row at three sizes, the fitted exponent, and the expected exponent.

0 is constant, 1 linear, 2 quadratic. The exit code is 1 if a row exceeds its expected exponent by .3. Models are
scripted, and stores are SQLite files or in memory. CPU is the minimum of three rounds, and memory the peak of Python's
objects; both exclude what a process needs at startup.
"""

from __future__ import annotations

import asyncio
import io
import logging
import math
import sys
import tempfile
import time
import tracemalloc
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2

from flowdebate import Debater, FlowDebateWarning, Persona, consensus, council, debate
from flowdebate.errors import ConfigurationError
from flowdebate.evaluation.leaderboard import Standings
from flowdebate.evaluation.stored_audit import audit_of, audited_runs
from flowdebate.runs.durable.replay import Follower
from flowdebate.server import create_app
from flowdebate.service import Service
from flowdebate.service.runs import each_run, last_resumable, list_runs
from flowdebate.store import MemoryStore, SqliteStore
from flowdebate.store.export import export_run
from flowdebate.testing import FunctionModel
from report import print_table

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator

    from flowdebate.blocks.sequencer import Sequencer
    from flowdebate.store import Store
    from flowdebate.store.base import StoredRun
    from flowdebate.testing import ModelRequest

_TOO_MUCH = 0.3
_TIMES = 3
_SMALLEST = {"ms": 2.0, "MB": 0.5, "KB": 0.0, "µs": 0.0, "calls": 0.0}
"""Threshold below which measurements are noise and count as zero."""
_SAID = ("rivers run at night as well and what they give can be stored without a battery so a dam answers " * 50)[
    :4_000
]
_SIDES = [Debater("tenant", "rents should be capped"), Debater("owner", "rents should be free")]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One measurement."""

    title: str
    of: str
    """Quantity that grows."""
    sizes: tuple[int, int, int]
    measure: Callable[[int], Coroutine[Any, Any, float]]
    unit: str
    right: float

    def fit(self, values: list[float]) -> float:
        """Fit the exponent as the slope of a line through the logarithms."""
        smallest = _SMALLEST[self.unit]
        points = [
            (math.log(size), math.log(max(value, smallest, 1e-9)))
            for size, value in zip(self.sizes, values, strict=True)
        ]
        middle = [sum(part) / len(points) for part in zip(*points, strict=True)]
        rise = sum((x - middle[0]) * (y - middle[1]) for x, y in points)
        return float(rise / sum((x - middle[0]) ** 2 for x, _ in points))


async def cpu(work: Callable[[], Awaitable[object]]) -> float:
    """Return the minimum processor time that `work` takes, in milliseconds."""
    times = []
    for _ in range(_TIMES):
        started = time.process_time()
        await work()
        times.append((time.process_time() - started) * 1e3)
    return min(times)


async def memory(work: Callable[[], Awaitable[object]]) -> float:
    """Return the peak memory of the objects that `work` creates, in megabytes."""
    await work()
    tracemalloc.start()
    try:
        await work()
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


# Long debates


def answer(request: ModelRequest) -> Any:  # noqa: ANN401 - whatever the schema asks for
    if request.output is None:
        return _SAID
    return {"reasoning": "-", "winner": None, "verdict": "-"}


MODEL = FunctionModel(answer)


def pattern(turns: int) -> Sequencer[Any, Any, Any]:
    return debate(name="rent", debaters=_SIDES, max_rounds=turns // 2, judge="single", synthesizer=False)


async def debated(turns: int) -> MemoryStore:
    """Return a store with a debate of this many turns."""
    store = MemoryStore()
    await pattern(turns).run("Cap rents?", model=MODEL, store=store, run_id="r", seed=1)
    return store


async def turn(turns: int) -> float:
    """Return the time per turn in the last quarter of a stored debate."""
    at: list[float] = []

    def timed(request: ModelRequest) -> Any:  # noqa: ANN401 - as of `answer`
        at.append(time.process_time())
        return answer(request)

    async def work() -> None:
        at.clear()
        await pattern(turns).run("Cap rents?", model=FunctionModel(timed), store=MemoryStore())

    microseconds = []
    for _ in range(_TIMES):
        await work()
        microseconds.append((at[turns - 1] - at[turns * 3 // 4]) / (turns - 1 - turns * 3 // 4) * 1e6)
    return min(microseconds)


async def resume(turns: int) -> float:
    store = await debated(turns)
    return await cpu(lambda: pattern(turns).resume("r", model=MODEL, store=store))


async def forked(turns: int) -> Callable[[], Awaitable[object]]:
    store = await debated(turns)
    steps = [step.key for step in await store.steps("r") if step.kind == "call"]
    return lambda: pattern(turns).fork("r", model=MODEL, store=store, edits={steps[-2]: "I have changed my mind."})


async def fork(turns: int) -> float:
    return await cpu(await forked(turns))


async def fork_memory(turns: int) -> float:
    return await memory(await forked(turns))


async def followed(turns: int) -> Callable[[], Awaitable[object]]:
    """Follow a debate in another process, step by step."""
    store = await debated(turns)
    run = replace(await store.run("r"), status="running", owned=True, outcome=None)
    steps = await store.steps("r")

    async def work() -> None:
        follower = Follower(pattern(turns))
        for number in range(1, turns):
            await follower.read(run, steps[number - 1 : number])
        follower.close()

    return work


async def follow(turns: int) -> float:
    return await cpu(await followed(turns))


async def follow_memory(turns: int) -> float:
    return await memory(await followed(turns))


class _OfOther(MemoryStore):
    """Store in which all runs are in progress in another process."""

    async def run(self, run_id: str) -> StoredRun:
        return replace(await super().run(run_id), status="running", owned=True, outcome=None)


async def opened(turns: int, *, live: bool) -> tuple[float, float]:
    """Open a run's page in a server; return the longest turn of the event loop in ms, and the kilobytes sent."""
    finished = await debated(turns)
    steps = await finished.steps("r")
    store = _OfOther() if live else MemoryStore()
    await store.add(await finished.run("r"), steps[:turns] if live else steps)
    token = "a-token-for-one-benchmark"  # noqa: S105 - of this process
    service = Service({"rent": pattern(turns)}, store=store, model=MODEL)
    web = httpx2.ASGITransport(create_app(service, token=token))
    turns_of_loop: list[float] = []

    async def watch() -> None:
        while True:
            before = time.thread_time()  # excludes the time of other threads
            await asyncio.sleep(0)
            turns_of_loop.append(time.thread_time() - before)

    async with httpx2.AsyncClient(
        transport=web, base_url="http://localhost", headers={"authorization": f"Bearer {token}"}
    ) as client:
        await client.get("/runs/r")  # compiles the templates
        longest = []
        for _ in range(_TIMES):
            turns_of_loop.clear()
            watching = asyncio.create_task(watch())
            async with client.stream("GET", "/runs/r") as page:
                size = sum([len(chunk) async for chunk in page.aiter_raw()])
            watching.cancel()
            longest.append(max(turns_of_loop))
    await service.close()
    return min(longest) * 1e3, size / 1e3


async def stall(turns: int) -> float:
    return (await opened(turns, live=True))[0]


async def page_bytes(turns: int) -> float:
    return (await opened(turns, live=False))[1]


async def show(turns: int) -> float:
    """Return the time of `flowdebate show --page` with its output piped."""
    from flowdebate.cli.terminal.page import Page, render
    from flowdebate.service.runs import document_of_run

    store = await debated(turns)
    document = await document_of_run(await store.run("r"), await store.steps("r"))

    async def work() -> None:
        render(document, Page(io.StringIO(), document.speakers))

    return await cpu(work)


async def disk(turns: int) -> float:
    """Return the kilobytes of an export per kilobyte of arguments."""
    store = await debated(turns)
    lines = [len(line) async for line in export_run(store, "r")]
    return sum(lines) / (turns * len(_SAID))


# Large stores


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


async def with_runs(count: int, work: Callable[[Store], Awaitable[float]]) -> float:
    """Measure in a file with this many runs: copies of ten debates with other ids and different questions."""
    filled = MemoryStore()
    models = {"chat": FunctionModel(answer, name="a"), "synthesize": FunctionModel(answer, name="b")}
    short = debate(name="rent", debaters=_SIDES, max_rounds=1, judge="swap", synthesizer=False)
    for number in range(10):
        await short.run(f"Cap the rents of town {number}?", model=models, store=filled, run_id=f"m{number}")
    with folder() as path:
        store = SqliteStore(path / "runs.sqlite3")
        try:
            for number in range(count):
                like = await filled.run(f"m{number % 10}")
                header = replace(like.header, run_id=f"r{number:06}", created_at=1e9 + number)
                outcome = dict(like.outcome or {})
                outcome["output"] = outcome["raw"] = {
                    **outcome["raw"],
                    "question": f"Cap the rents of street {number}?",
                }
                await store.add(replace(like, header=header, outcome=outcome), await filled.steps(like.header.run_id))
            return await work(store)
        finally:
            await store.close()


def listing(**filters: Any) -> Callable[[int], Coroutine[Any, Any, float]]:  # noqa: ANN401 - those of `list_runs`
    """Measure a page of 50 matching runs."""

    async def measure(count: int) -> float:
        async def work(store: Store) -> float:
            async def ten() -> None:
                for _ in range(10):
                    await list_runs(store, limit=50, brief=True, **filters)

            return await cpu(ten) / 10

        return await with_runs(count, work)

    return measure


async def resume_last(count: int) -> float:
    async def work(store: Store) -> float:
        async def look() -> None:
            try:
                await last_resumable(store)
            except ConfigurationError:
                return

        return await cpu(look)

    return await with_runs(count, work)


async def leaderboard(count: int) -> float:
    async def work(store: Store) -> float:
        async def rank() -> None:
            standings = Standings()
            async for run in each_run(store):
                standings.add(run)
                standings.count_answers(await store.steps(run.header.run_id))
            standings.leaderboard()

        return await memory(rank)

    return await with_runs(count, work)


async def audit(count: int) -> float:
    async def work(store: Store) -> float:
        async def judge() -> None:
            audit_of(await audited_runs(store, each_run(store)))

        return await memory(judge)

    return await with_runs(count, work)


async def export(count: int) -> float:
    async def work(store: Store) -> float:
        async def write() -> None:
            for number in range(count):
                async for _ in export_run(store, f"r{number:06}"):
                    pass

        return await cpu(write)

    return await with_runs(count, work)


# Many debates


async def at_once(count: int) -> float:
    """Return the time per call with this many concurrent debates."""

    async def work() -> None:
        short = debate(name="rent", debaters=_SIDES, max_rounds=2, judge="single", synthesizer=False)
        await asyncio.gather(*(short.run("Cap rents?", model=MODEL) for _ in range(count)))

    return await cpu(work) / (count * 5) * 1e3


async def readers(count: int) -> float:
    """Return the time to follow a debate of 20 turns with this many readers of its events."""

    async def work() -> None:
        service = Service({"rent": pattern(20)}, store=MemoryStore(), model=MODEL)
        run = await service.begin("rent", "Cap rents?")

        async def read() -> int:
            return sum([1 async for _ in service.follow(run.run_id)])

        await asyncio.gather(*(read() for _ in range(count)))
        await service.close()

    return await cpu(work)


# Panels


def fill(schema: Any, definitions: Any) -> Any:  # noqa: ANN401 - JSON
    """Build a minimal answer for a schema: lists are as short as possible, and enumeration items are used in order."""
    schema = definitions[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    match schema.get("type"):
        case "object":
            return {name: fill(schema["properties"][name], definitions) for name in schema.get("required", ())}
        case "array":
            items = [fill(schema["items"], definitions) for _ in range(schema.get("minItems", 0))]
            enumerated = definitions.get(schema["items"].get("$ref", "").rpartition("/")[2], {}).get("properties", {})
            for name, part in enumerated.items():
                for item, value in zip(items, part.get("enum", ()), strict=False):
                    item[name] = value
            return items
        case "number" | "integer":
            return schema.get("minimum", 0)
        case "boolean":
            return False
        case _:
            return schema["enum"][0] if "enum" in schema else "-"


class Panel:
    """Model that counts the requests of panel members."""

    name = "panel"

    def __init__(self) -> None:
        self.prompts: dict[str, int] = {}
        """Characters of the longest prompt by role."""
        self.calls = self.characters = 0

    async def request(self, request: ModelRequest, /) -> Any:  # noqa: ANN401 - whatever the schema asks for
        length = sum(len(str(message["content"])) for message in request.messages)
        self.calls += 1
        self.characters += length
        role = request.role or ""
        self.prompts[role] = max(self.prompts.get(role, 0), length)
        if request.output_schema is None:
            return await FunctionModel(lambda _: _SAID[:1_000]).request(request)
        schema = dict(request.output_schema)
        return await FunctionModel(lambda _: fill(schema, schema.get("$defs", {}))).request(request)


def panel(figure: Callable[[Panel], float], of: str = "council") -> Callable[[int], Coroutine[Any, Any, float]]:
    """Measure a council or a consensus with this many members."""

    async def measure(count: int) -> float:
        model, members = Panel(), [Persona(f"member {number}") for number in range(count)]
        if of == "council":
            await council(name="panel", members=members).run("Cap rents?", model=model)
        else:
            await consensus(name="panel", agents=members, max_rounds=1, archive=None).run("Cap rents?", model=model)
        return figure(model)

    return measure


TURNS = "turns of 4,000 characters"
ROWS = [
    Row(title="a turn of a stored debate", of=TURNS, sizes=(100, 200, 400), measure=turn, unit="µs", right=1),
    Row(title="resuming a complete run", of=TURNS, sizes=(100, 200, 400), measure=resume, unit="ms", right=1),
    Row(title="a fork with an edit", of=TURNS, sizes=(100, 200, 400), measure=fork, unit="ms", right=2),
    Row(title="its memory", of=TURNS, sizes=(100, 200, 400), measure=fork_memory, unit="MB", right=1),
    Row(title="following another process's run", of=TURNS, sizes=(100, 200, 400), measure=follow, unit="ms", right=1),
    Row(title="its memory", of=TURNS, sizes=(100, 200, 400), measure=follow_memory, unit="MB", right=1),
    Row(
        title="longest stall of a server that opens another process's run",
        of=TURNS,
        sizes=(100, 200, 400),
        measure=stall,
        unit="ms",
        right=1,
    ),
    Row(title="bytes of a run's page", of=TURNS, sizes=(50, 100, 200), measure=page_bytes, unit="KB", right=1),
    Row(title="showing a run in a pipe", of=TURNS, sizes=(50, 100, 200), measure=show, unit="ms", right=1),
    Row(title="an export for each KB of text", of=TURNS, sizes=(25, 50, 100), measure=disk, unit="KB", right=0),
    Row(title="listing the newest runs", of="runs", sizes=(500, 1_000, 2_000), measure=listing(), unit="ms", right=0),
    Row(
        title="listing a pattern's runs of a status that none has",
        of="runs",
        sizes=(500, 1_000, 2_000),
        measure=listing(block="rent", state="limit"),
        unit="ms",
        right=0,
    ),
    Row(
        title="resuming the last run where none is left",
        of="runs",
        sizes=(500, 1_000, 2_000),
        measure=resume_last,
        unit="ms",
        right=0,
    ),
    Row(title="exporting all runs", of="runs", sizes=(250, 500, 1_000), measure=export, unit="ms", right=1),
    Row(title="memory of a leaderboard", of="runs", sizes=(250, 500, 1_000), measure=leaderboard, unit="MB", right=0),
    Row(title="memory of an audit", of="runs", sizes=(250, 500, 1_000), measure=audit, unit="MB", right=0),
    Row(title="readers of one run", of="readers", sizes=(25, 50, 100), measure=readers, unit="ms", right=1),
    Row(
        title="calls of a council",
        of="members",
        sizes=(5, 10, 20),
        measure=panel(lambda model: model.calls),
        unit="calls",
        right=1,
    ),
    Row(
        title="its prompts together",
        of="members",
        sizes=(5, 10, 20),
        measure=panel(lambda model: model.characters / 1e3),
        unit="KB",
        right=2,
    ),
    Row(
        title="its chair's prompt",
        of="members",
        sizes=(5, 10, 20),
        measure=panel(lambda model: model.prompts["chair"] / 1e3),
        unit="KB",
        right=1,
    ),
    Row(
        title="calls of a consensus",
        of="agents",
        sizes=(5, 10, 20),
        measure=panel(lambda model: model.calls, "consensus"),
        unit="calls",
        right=2,
    ),
    Row(
        title="its prompts together",
        of="agents",
        sizes=(5, 10, 20),
        measure=panel(lambda model: model.characters / 1e3, "consensus"),
        unit="KB",
        right=2,
    ),
    Row(title="a call of debates at once", of="debates", sizes=(10, 50, 250), measure=at_once, unit="µs", right=0),
]


def main() -> int:
    """Measure all rows, or only rows with a name that contains an argument."""
    warnings.simplefilter("ignore", FlowDebateWarning)
    logging.disable()
    rows, worse = [], []
    for row in ROWS:
        if sys.argv[1:] and not any(word in row.title for word in sys.argv[1:]):
            continue
        values = [asyncio.run(row.measure(size)) for size in row.sizes]
        exponent = row.fit(values)
        figures = [f"{value:,.{0 if value >= 100 else 1}f}" for value in values]
        sizes = ", ".join(f"{size:,}" for size in row.sizes)
        mark = " !" if exponent > row.right + _TOO_MUCH else ""
        rows.append(
            [row.title, f"{sizes} {row.of}", f"{', '.join(figures)} {row.unit}", f"{exponent:.1f}{mark}", row.right]
        )
        if mark:
            worse.append(row.title)
    print_table("How cost grows", ["what", "with", "figures", "exponent", "should be"], rows)
    if worse:
        sys.stderr.write(f"Grows faster than it should: {'; '.join(worse)}\n")
    return 1 if worse else 0


if __name__ == "__main__":
    raise SystemExit(main())
