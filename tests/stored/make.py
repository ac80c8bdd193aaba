"""Makes the stored runs that later versions must be able to read: `python -m tests.stored.make`.

The data were made by the first edition of version 0.1.0, and must NOT be made anew: what a later version writes says
nothing about what an earlier one has written. So this refuses to run where they are there already.

Those of the second edition (`data/second`), which knows councils, and of the third (`data/third`), whose prompts say
each rule once, were made by `python -m tests.stored.make second` and `… third`, to which the same applies. So were
those of reviews, by `… fourth`, and those of debates with shorter prompts, by `… fifth`.

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
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from flowdebate import StoreOptions
from flowdebate.errors import FlowDebateError
from flowdebate.store import SqliteStore, stored_archive, write_export
from tests.cli.stage import PATIENCE, environment

from .command import (
    BEGUN,
    BEGUN_FIFTH,
    BEGUN_FOURTH,
    BEGUN_SECOND,
    BEGUN_THIRD,
    PARKED,
    UNTIL,
    UNTIL_LATER,
    command,
    stage,
)
from .patterns import CASES, FIFTH, FOURTH, QUESTION, SECOND, THIRD, WHOLE
from .stores import (
    ARCHIVE,
    DATA,
    EXPECTED,
    EXPORT,
    FIFTH_DATA,
    FOURTH_DATA,
    PROMPTS,
    SECOND_DATA,
    SHOWN,
    STORE,
    THIRD_DATA,
    archived,
    copied,
    ids_of,
    listed,
    of_store,
    prompts_of,
    read,
    resume,
    resume_by_command,
    shown,
    told,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from .patterns import Case

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
    _close(STORE)
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


def make_later(data: Path, cases: dict[str, Case], begun_by: dict[str, Any]) -> None:
    """Make the store, the export, and what is expected of them, with the patterns and texts of a later edition."""
    store = data / STORE.name
    if store.exists():
        sys.exit(f"{store} was made by the {data.name} edition, and is not made again")
    stand_still()
    data.mkdir()
    asyncio.run(_runs_of_programs(store, cases, edition=data.name))
    names: dict[str, str] = {}
    for name, (verb, options) in begun_by.items():
        for end, more in {"complete": [], "limit": ["--max-calls", str(UNTIL_LATER.get(name, 3))]}.items():
            with stage() as on:
                begun = command(*on.options(*options, "--seed", "5", *more, verb=verb), store=store)
            assert begun.exit_code in (0, 3), begun.stderr
            names[_newest(names, store, cases)] = f"cli-{name}-{end}"
    _close(store)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        ids = of_store(copied(folder, data=data), ids_of)
        of_store(copied(folder, data=data), partial(write_export, data / EXPORT.name, run_ids=ids))
        runs = {run_id: _expected(run_id, names.get(run_id, run_id), folder, data, cases) for run_id in ids}
    _write(data / EXPECTED.name, {"runs": runs})
    patch.stopall()
    write_shown(data)


def _close(store: Path) -> None:
    """Leave one file, without what a store writes beside it while it is open."""
    with sqlite3.connect(store, isolation_level=None) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("VACUUM")
        connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()


async def _runs_of_programs(path: Path = STORE, cases: dict[str, Case] = CASES, edition: str = "first") -> None:
    store = SqliteStore(path)
    for run_id, case in cases.items():
        spoken = case.speaker()
        spoken.archive = stored_archive(store, name=ARCHIVE)
        keeping = StoreOptions(store=store, labels={"edition": edition, "pattern": case.pattern})
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


def _newest(names: dict[str, str], store: Path = STORE, cases: dict[str, Case] = CASES) -> str:
    found = [name for name in of_store(store, ids_of) if name not in names and name not in cases]
    assert len(found) == 1, found
    return str(found[0])


async def _export(store: Any) -> None:
    await write_export(EXPORT, store, await ids_of(store))


def _expected(
    run_id: str, name: str, folder: Path, data: Path = DATA, cases: dict[str, Case] = CASES
) -> dict[str, Any]:
    stored = of_store(copied(folder, data=data), lambda store: told(store, run_id))
    if run_id in cases:
        end = of_store(copied(folder, data=data), lambda store: resume(cases[run_id], run_id, store))
    else:
        end = resume_by_command(run_id, copied(folder, data=data), awaiting=name.endswith("awaiting"))
    return {"name": name, "stored": stored, "end": end}


def write_shown(data: Path = DATA) -> None:
    """Write down how the command lists and shows the runs."""
    with tempfile.TemporaryDirectory() as folder:
        path = copied(Path(folder), data=data)
        runs = {run_id: shown(run_id, path) for run_id in read(data / EXPECTED.name)["runs"]}
        _write(data / SHOWN.name, {"list": listed(path), "runs": runs})


def write_prompts(data: Path = DATA, patterns: tuple[str, ...] = WHOLE) -> None:
    """Write down what models are told."""
    told_by = {profile: {name: prompts_of(name, profile) for name in patterns} for profile in ("full", "concise")}
    _write(data / PROMPTS.name, told_by)


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    ways: dict[str, Callable[[], None]] = {
        "": make,
        "shown": write_shown,
        "prompts": write_prompts,
        "second": lambda: make_later(SECOND_DATA, SECOND, BEGUN_SECOND),
        "third": lambda: make_later(THIRD_DATA, THIRD, BEGUN_THIRD),
        "fourth": lambda: make_later(FOURTH_DATA, FOURTH, BEGUN_FOURTH),
        "fifth": lambda: make_later(FIFTH_DATA, FIFTH, BEGUN_FIFTH),
    }
    ways["".join(sys.argv[1:])]()
