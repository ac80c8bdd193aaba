"""Cost of audits and leaderboards over stored runs: memory per run, store reads, and imports."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import Debater, debate
from flowdebate.evaluation.leaderboard import Standings
from flowdebate.evaluation.readers import cast_vote
from flowdebate.evaluation.stored_audit import audited_runs
from flowdebate.service.runs import each_run
from flowdebate.store import MemoryStore
from flowdebate.testing import FunctionModel
from tests.cases import slow_but_first
from tests.server.test_page_costs import CountingReads

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from flowdebate.store.base import StoredRun
    from flowdebate.testing import ModelRequest

SIDES = ("rents should be capped", "rents should be free")


def judged_run() -> StoredRun:
    """Create a complete debate between two models, judged in two orders."""

    def answer(request: ModelRequest) -> Any:
        return "Homes." if request.output is None else {"reasoning": "-", "winner": SIDES[0], "verdict": "-"}

    large, small = (FunctionModel(answer, name=name) for name in ("large", "small"))
    sides = [Debater("tenant", SIDES[0], model=large), Debater("owner", SIDES[1], model=small)]
    rent = debate(name="rent", debaters=sides, max_rounds=1, judge="swap", synthesizer=False)
    store = MemoryStore()
    asyncio.run(rent.run("Cap rents?", model=large, store=store, run_id="r", seed=1))
    return asyncio.run(store.run("r"))


def similar_runs(run: StoredRun) -> Iterator[StoredRun]:
    """Yield debates like `run`, each with a different question, argument and log-odds."""
    assert run.outcome is not None
    for number in count():
        question, raw = f"Cap the rents of street {number}?", dict(run.outcome["raw"])
        raw["question"] = question
        raw["transcript"] = [{**entry, "text": f"{entry['text']} {number}"} for entry in raw["transcript"]]
        judging = raw["verdict"]["judging"]
        ballots = [
            {**ballot, "log_odds": {SIDES[0]: number / 7, SIDES[1]: -number / 7}} for ballot in judging["ballots"]
        ]
        raw["verdict"] = {**raw["verdict"], "judging": {**judging, "ballots": ballots}}
        header = replace(run.header, run_id=f"r{number}", question=question, created_at=1e9 + number)
        yield replace(run, header=header, outcome={**run.outcome, "raw": raw, "output": raw})


def test_each_run_adds_little_memory() -> None:
    """Each of 1,000 additional, distinct debates takes only a tenth of a kilobyte of memory."""
    runs, standings = similar_runs(judged_run()), Standings()
    memory = []
    tracemalloc.start()
    try:
        for _ in range(2):
            for _ in range(1_000):
                standings.add(next(runs))
            memory.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert (memory[1] - memory[0]) / 1_000 < 100
    board = standings.leaderboard()
    assert [(model.model, model.games, model.wins) for model in board.models] == [
        ("large", 2_000, 2_000),
        ("small", 2_000, 0),
    ]
    assert board.judges[0].ballots == 4_000


def test_votes_are_read_with_one_query_per_page_of_runs() -> None:
    store, runs = CountingReads(), similar_runs(judged_run())

    async def audited() -> tuple[int, int]:
        for run, _ in zip(runs, range(120), strict=False):
            await store.add(run, [])
            await cast_vote(store, run, "a reader", SIDES[1])
        store.reads.clear()
        items = await audited_runs(store, each_run(store))
        assert items.readers is not None
        return len(items.items), items.readers.votes

    assert asyncio.run(audited()) == (120, 120)
    assert store.reads == {"runs": 3, "documents_in": 3}


@pytest.mark.parametrize("command", slow_but_first(["audit", "leaderboard"]))
def test_large_parts_of_scipy_are_not_imported(command: str, tmp_path: Path) -> None:
    """Importing `scipy.stats` and `scipy.signal` would take 25 MB, and `scipy.optimize` another 24 MB."""
    script = """
import asyncio, sys
from flowdebate import Debater, debate
from flowdebate.store import SqliteStore
from flowdebate.testing import FunctionModel
def answer(request):
    winner = "tea" if any(f"one, {n}?" in str(request.messages) for n in (0, 1, 6, 7)) else "rum"
    return "Good." if request.output is None else {"reasoning": "-", "winner": winner, "verdict": "-"}
async def fill():
    store = SqliteStore(sys.argv[2])
    models = [FunctionModel(answer, name=name) for name in ("large", "small")]
    for number in range(12):
        one, other = models if number % 2 else models[::-1]
        sides = [Debater("ann", "tea", model=one), Debater("bob", "rum", model=other)]
        block = debate(name="drinks", debaters=sides, max_rounds=1, judge="swap", synthesizer=False)
        await block.run(f"Which one, {number}?", model=one, store=store, seed=number)
    await store.close()
asyncio.run(fill())
from typer.testing import CliRunner
from flowdebate.cli.app import app
done = CliRunner().invoke(app, ["eval", sys.argv[1], "--store", sys.argv[2]])
print(done.exit_code, done.output)
print(*sorted(name for name in sys.modules if name.startswith("scipy.") and name.count(".") == 1))
"""
    done = subprocess.run(  # noqa: S603 - our own script
        [sys.executable, "-c", script, command, str(tmp_path / "runs.sqlite3")],
        capture_output=True, timeout=120, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.startswith("0 ")
    imported = set(done.stdout.splitlines()[-1].split())
    assert "scipy.special" in imported
    assert not imported & {"scipy.stats", "scipy.signal", "scipy.optimize", "scipy.sparse"}
