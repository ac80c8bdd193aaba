"""Cost of storing and listing runs: 1,000 debates at once, the loop of 13 calls, and pages of 10,000 runs."""

from __future__ import annotations

import asyncio
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from flowdebate import Debater, debate
from flowdebate.service.runs import list_runs
from flowdebate.store import MemoryStore, SqliteStore
from flowdebate.testing import FunctionModel
from overhead import DEBATES, flowdebate_loop, langgraph_loop
from report import alternating, print_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.store import StoreChoice
    from flowdebate.store.base import StepKind
    from flowdebate.testing import ModelRequest, Reply

CALLS = 13
AT_ONCE = 1_000
TURNS = 10
SECONDS = 0.2
LISTED = 10_000
PAGE = 20


class PausingStore(MemoryStore):
    """In-memory store that waits as long as a disk would, to measure the cost of waiting alone, such as cold caches."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    async def commit(self, run_id: str, key: str, kind: StepKind, body: str, at: float) -> None:
        await super().commit(run_id, key, kind, body, at)
        await asyncio.sleep(self._seconds)


def seconds_of_a_commit(store: SqliteStore) -> float:
    """Measure how long a commit takes when nothing else is written, as the loop's waiting time per call."""
    loop = flowdebate_loop(store=store)
    loop()
    started, cpu = time.perf_counter(), time.process_time()
    loop()
    waited = (time.perf_counter() - started) - (time.process_time() - cpu)
    return max(waited, 0.0) / (DEBATES * CALLS)


def max_concurrency(store: StoreChoice) -> tuple[float, float]:
    """Measure wall time and CPU time of all debates, each with ten calls of 0.2 s."""

    async def answer(request: ModelRequest) -> Reply:
        await asyncio.sleep(SECONDS)
        if request.output is None:
            return "An argument of some length, as a model would give it in two or three sentences. " * 4
        return {"reasoning": "Better argued.", "winner": "for", "verdict": "For."}

    pattern = debate(
        name="many",
        debaters=[Debater("a", "for"), Debater("b", "against"), Debater("c", "neither")],
        max_rounds=3,
        synthesizer=False,
    )
    model = FunctionModel(answer)

    async def all_of_them() -> None:
        results = await asyncio.gather(
            *(pattern.run("Is it so?", model=model, seed=seed, store=store) for seed in range(AT_ONCE))
        )
        assert all(result.usage.calls == TURNS for result in results)  # noqa: S101 - the figure is for ten calls

    cpu, wall = time.process_time(), time.perf_counter()
    asyncio.run(all_of_them())
    return time.perf_counter() - wall, time.process_time() - cpu


async def fill(store: SqliteStore) -> None:
    """Add copies of the newest run, and leave one in fifty of them unfinished."""
    (like,) = await store.runs(limit=1)
    for number in range(LISTED):
        header = replace(like.header, run_id=f"{number:032x}", created_at=float(number))
        await store.add(replace(like, header=header, status="complete" if number % 50 else "running"), [])


def pages(store: SqliteStore) -> dict[str, Callable[[], object]]:
    """Return the read operations to measure, keyed by description."""
    middle = (LISTED / 2, "")
    return {
        "the newest": lambda: asyncio.run(list_runs(store, limit=PAGE)),
        "from the middle": lambda: asyncio.run(list_runs(store, limit=PAGE, before=middle)),
        "left behind, from the middle": lambda: asyncio.run(
            list_runs(store, state="left_behind", limit=PAGE, before=middle)
        ),
        "all runs at once": lambda: asyncio.run(_whole(store)),
    }


async def _whole(store: SqliteStore) -> int:
    return len(await store.runs())


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        rows = []
        for name, store in (("no store", False), ("SQLite", SqliteStore(place / "many.sqlite3"))):
            wall, cpu = max_concurrency(store)
            rows.append([name, f"{wall:.2f}", f"{cpu:.2f}"])
        print_table(
            f"{AT_ONCE:,} debates of {TURNS} calls of {SECONDS} s at once",
            ["", "s", "CPU s"],
            rows,
            note=f"The calls alone take {TURNS * SECONDS:.1f} s.",
        )
        pause = seconds_of_a_commit(SqliteStore(place / "pause.sqlite3"))
        medians = alternating(
            {
                "flowdebate, no store": flowdebate_loop(),
                "flowdebate, in memory": flowdebate_loop(store=MemoryStore()),
                f"flowdebate, in memory, waiting {pause * 1e3:.1f} ms a call": flowdebate_loop(
                    store=PausingStore(pause)
                ),
                "flowdebate, SQLite": flowdebate_loop(store=SqliteStore(place / "loop.sqlite3")),
                "langgraph, no saver": langgraph_loop(),
                "langgraph, SQLite saver": langgraph_loop(str(place / "graph.sqlite3")),
            },
            repeats=5,
        )
        base = medians["flowdebate, no store"]
        print_table(
            "CPU of a kept debate: 13 calls, instant in-process model",
            ["", "ms a debate", "more than without, µs a call"],
            [
                [name, f"{seconds * 10:.2f}", f"{(seconds - base) * 1e4 / CALLS:.0f}"]
                for name, seconds in medians.items()
            ],
            note="flowdebate: each answer is on the disk (synchronous=FULL) before it is used. The third row writes "
            "nothing: it waits as long as the disk does, and shows what a processor pays for having waited.",
        )
        listed = SqliteStore(place / "listed.sqlite3")
        flowdebate_loop(store=listed, debates=1)()
        asyncio.run(fill(listed))
        print_table(
            f"CPU of {PAGE} of {LISTED:,} runs in SQLite",
            ["", "ms"],
            [[name, f"{seconds * 1e3:.1f}"] for name, seconds in alternating(pages(listed), repeats=5).items()],
        )


if __name__ == "__main__":
    main()
