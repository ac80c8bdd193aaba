"""Makes the stored runs that later versions must be able to read: `python -m tests.stored.make`.

The data were made by the first edition of version 0.1.0, and must NOT be made again: what a later version writes says
nothing about what an earlier one has written. So this refuses to run where they are there already.

`python -m tests.stored.make shown` writes down anew how the command shows them, and `… prompts` what models are told;
for changes that are meant.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import signal
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest.mock import patch

from flowdebate import StoreOptions
from flowdebate.errors import FlowDebateError
from flowdebate.store import SqliteStore, stored_archive, write_export
from tests.cli.stage import PATIENCE, environment

from .command import BEGUN, PARKED, UNTIL, command, stage
from .patterns import CASES, QUESTION, WHOLE
from .stores import (
    ARCHIVE,
    DATA,
    EXPECTED,
    EXPORT,
    PROMPTS,
    SHOWN,
    STORE,
    archived,
    carried_on,
    carried_on_by_command,
    copied,
    ids_of,
    listed,
    of_store,
    prompts_of,
    read,
    shown,
    told,
)

_BEGIN = 1_735_689_600
"""The first of January 2025."""


def stand_still(start: int = _BEGIN) -> None:
    """Let this process's clock tick at each look, and draw its ids from a sequence."""
    ticks, tocks, draws = itertools.count(), itertools.count(), itertools.count(start)
    patch("time.time", lambda: start + next(ticks) * 0.125).start()
    patch("time.time_ns", lambda: start * 10**9 + next(ticks) * 125_000_000).start()
    patch("time.perf_counter", lambda: next(tocks) * 0.125).start()
    patch("os.urandom", lambda count: sha256(f"{next(draws)}".encode()).digest()[:count]).start()


def make() -> None:
    """Make the store, the export, and what is expected of them."""
    if STORE.exists() or EXPORT.exists():
        sys.exit(f"{STORE} and {EXPORT} were made by the first edition, and are not made again")
    stand_still()
    DATA.mkdir(exist_ok=True)
    asyncio.run(_runs_of_programs())
    names = _runs_of_the_command()
    with sqlite3.connect(STORE, isolation_level=None) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("VACUUM")
        connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        of_store(copied(folder), _export)
        ids = of_store(copied(folder), ids_of)
        runs = {run_id: _expected(run_id, names.get(run_id, run_id), folder) for run_id in ids}
        expected = {"runs": runs, "archive": of_store(copied(folder), archived)}
    _write(EXPECTED, expected)
    patch.stopall()
    write_shown()
    write_prompts()


async def _runs_of_programs() -> None:
    store = SqliteStore(STORE)
    for run_id, case in CASES.items():
        spoken = case.speaker()
        spoken.archive = stored_archive(store, name=ARCHIVE)
        keeping = StoreOptions(store=store, labels={"edition": "first", "pattern": case.pattern})
        call = case.made(spoken).run(QUESTION, model=spoken.model(), seed=case.seed, store=keeping, run_id=run_id)
        spoken.task = asyncio.ensure_future(call)
        with suppress(asyncio.CancelledError, FlowDebateError):
            await spoken.task
    await store.close()


def _runs_of_the_command() -> dict[str, str]:
    """By their ids, what the runs of the command are called."""
    names: dict[str, str] = {}
    for name, (verb, options) in BEGUN.items():
        ends: dict[str, list[str]] = {"complete": [], "limit": ["--max-calls", str(UNTIL.get(name, 2))]}
        for end, more in ends.items():
            with stage() as on:
                command(*on.options(*options, "--seed", "5", *more, verb=verb), store=STORE)
            names[_newest(names)] = f"cli-{name}-{end}"
    with stage() as on:
        command(*on.options(*PARKED, "--seed", "5"), store=STORE)
    names[_newest(names)] = "cli-run-awaiting"
    with stage(broken=range(1, 99)) as on:
        command(*on.options(*BEGUN["deliberate"][1], "--seed", "5", "--attempts", "1", verb="deliberate"), store=STORE)
    names[_newest(names)] = "cli-deliberate-failed"
    with stage(hold=(1, 0)) as on:
        start = f"stand_still({_BEGIN + 86_400})"
        script = f"from tests.stored.make import stand_still; {start}; from flowdebate.cli import main; main()"
        arguments = on.options(*BEGUN["run"][1], "--seed", "5")
        env = {**environment(), "FLOWDEBATE_STORE": str(STORE)}
        with subprocess.Popen([sys.executable, "-c", script, *arguments], env=env, stdout=subprocess.PIPE) as process:  # noqa: S603
            on.wait_for_turn(2)
            process.send_signal(signal.SIGKILL)
            process.wait(PATIENCE)
    names[_newest(names)] = "cli-run-left-behind"
    return names


def _newest(names: dict[str, str]) -> str:
    found = [name for name in of_store(STORE, ids_of) if name not in names and name not in CASES]
    assert len(found) == 1, found
    return str(found[0])


async def _export(store: Any) -> None:
    await write_export(EXPORT, store, await ids_of(store))


def _expected(run_id: str, name: str, folder: Path) -> dict[str, Any]:
    stored = of_store(copied(folder), lambda store: told(store, run_id))
    if run_id in CASES:
        end = of_store(copied(folder), lambda store: carried_on(CASES[run_id], run_id, store))
    else:
        end = carried_on_by_command(run_id, copied(folder), awaiting=name.endswith("awaiting"))
    return {"name": name, "stored": stored, "end": end}


def write_shown() -> None:
    """Write down how the command lists and shows the runs."""
    with tempfile.TemporaryDirectory() as folder:
        path = copied(Path(folder))
        runs = {run_id: shown(run_id, path) for run_id in read(EXPECTED)["runs"]}
        _write(SHOWN, {"list": listed(path), "runs": runs})


def write_prompts() -> None:
    """Write down what models are told."""
    _write(PROMPTS, {profile: {name: prompts_of(name, profile) for name in WHOLE} for profile in ("full", "concise")})


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    {"": make, "shown": write_shown, "prompts": write_prompts}["".join(sys.argv[1:])]()
