"""Files in which a SQLite store lists open steps, for processes that take over from a dead one."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdebate.errors import StoreError
from flowdebate.store.base import StepRow
from flowdebate.store.sqlite import owner as module
from flowdebate.store.sqlite.owner import Attempt, OpenSteps, read_open_steps
from flowdebate.store.sqlite.store import SqliteStore
from flowdebate.testing.store import TRICKY_TEXTS, header

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

RUNS = st.sampled_from(("r", "r2", *TRICKY_TEXTS))
KEYS = st.sampled_from(("k", "k2", *TRICKY_TEXTS)) | st.text(max_size=3)
ACTIONS = st.one_of(
    st.tuples(st.just("attempt"), RUNS, KEYS, st.none() | st.text(max_size=3)),
    st.tuples(st.just("finish"), RUNS, KEYS, st.none()),
    st.tuples(st.just("leave"), RUNS, st.just(""), st.none()),
)


@given(actions=st.lists(ACTIONS, max_size=40), long=st.sampled_from((0, 60, 1 << 20)))
def test_open_steps_are_written_to_the_file(
    tmp_path_factory: pytest.TempPathFactory, actions: list[tuple[str, str, str, str | None]], long: int
) -> None:
    """The file lists every open call, whatever the order of starts, ends and rewrites."""
    path = tmp_path_factory.mktemp("begun") / "owner.begun"
    open_now: dict[str, dict[str, Attempt]] = {}
    finished: dict[str, set[str]] = {}
    with patch.object(module, "_LONG", long):
        open_steps = OpenSteps(path)
        for action, run_id, key, request in actions:
            if not open_steps.has_run(run_id):
                open_steps.add_run(run_id, {"old": Attempt("effect", None, 4)}, ("older",))
                open_now[run_id], finished[run_id] = {"old": Attempt("effect", None, 4)}, {"older"}
            if action == "attempt":
                number = open_steps.begin(run_id, key, "call", request)
                before = open_now[run_id].get(key)
                expected = None if key in finished[run_id] else 1 + (before.number if before else 0)
                assert number == expected
                if number is not None:
                    open_now[run_id][key] = Attempt("call", request, number)
            elif action == "finish":
                open_steps.finish(run_id, key)
                open_now[run_id].pop(key, None)
                finished[run_id].add(key)
            else:
                open_steps.remove_run(run_id)
                del open_now[run_id]
            for open_run, attempts in open_now.items():
                assert open_steps.attempts(open_run) == attempts
                written = {name: attempt for name, attempt in attempts.items() if attempt.kind == "call"}
                stored = {
                    name: attempt for name, attempt in read_open_steps(path, open_run).items() if attempt.kind == "call"
                }
                assert {name: attempt for name, attempt in stored.items() if name not in finished[open_run]} == written
        open_steps.close(remove=True)
    assert not path.exists()


def test_file_size_is_bounded(tmp_path: Path) -> None:
    """Finished steps are removed periodically, whereas open steps are always kept."""
    path = tmp_path / "owner.begun"
    with patch.object(module, "_LONG", 5_000):
        open_steps = OpenSteps(path)
        open_steps.add_run("r", {}, ())
        open_steps.begin("r", "open", "call", "hash")
        for number in range(1_000):
            open_steps.begin("r", f"k{number}", "call", "hash")
            open_steps.finish("r", f"k{number}")
    assert path.stat().st_size < 12_000
    assert read_open_steps(path, "r")["open"] == Attempt("call", "hash", 1)
    open_steps.close(remove=True)


def test_truncated_line_does_not_affect_others(tmp_path: Path) -> None:
    """A line may be truncated because the disk was full. The run to which the line belongs is reported."""
    path = tmp_path / "owner.begun"
    open_steps = OpenSteps(path)
    open_steps.add_run("r", {}, ())
    assert open_steps.begin("r", "a", "call", None) == 1
    write = os.write
    with (
        patch.object(os, "write", lambda handle, line: write(handle, line[:9])),
        pytest.raises(OSError, match="No space left"),
    ):
        open_steps.begin("r", "b", "call", None)
    assert open_steps.begin("r", "c", "call", None) == 1
    assert open_steps.begin("r", "b", "call", None) == 1
    assert list(read_open_steps(path, "r")) == ["a", "c", "b"]
    open_steps.close(remove=True)


async def test_store_reports_that_it_cannot_record_open_steps(tmp_path: Path) -> None:
    """A step that could not be recorded counts as not started.

    The next attempt succeeds once the disk has space again.
    """
    store = SqliteStore(tmp_path / "runs.sqlite3")
    await store.create(header("r"))
    with (
        patch.object(os, "write", lambda *_: 0),
        pytest.raises(StoreError, match=r"runs\.sqlite3: cannot be used: .*No space left"),
    ):
        await store.intend("r", "k", "call", None)
    assert list(await store.steps("r")) == []
    assert await store.intend("r", "k", "call", None) == 1
    await store.close()


DIES = """
import asyncio, os, signal, sys
from flowdebate.store.sqlite.store import SqliteStore
from flowdebate.testing.store import header

async def main():
    store = SqliteStore(sys.argv[1])
    for name in ("r", "s"):
        await store.create(header(name))
        await store.intend(name, "kept", "call", "hash")
        await store.commit(name, "kept", "call", "1", 1.0)
    for _ in range(3):
        await store.intend("r", "open", "effect", "asked")
        await store.fail("r", "open", "no")
    await store.intend("r", "open", "effect", "asked")
    await store.intend("r", "new", "call", None)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


async def test_open_steps_of_a_killed_process_are_known(tmp_path: Path) -> None:
    """Observers and the run's next owner see which steps were open.

    This holds even after the files of the killed process have been removed.
    """
    path = tmp_path / "runs.sqlite3"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", DIES, str(path))
    assert await asyncio.wait_for(process.wait(), 60) == -signal.SIGKILL
    names = [
        StepRow(key="kept", kind="call", request="hash", seq=1, at=1.0, body="1"),
        StepRow(key="new", kind="call"),
        StepRow(key="open", kind="effect", request="asked", attempts=4, failures=("no", "no", "no")),
    ]
    store = SqliteStore(path)
    assert list(await store.steps("r")) == names
    await store.take("r")
    assert list(await store.steps("r")) == names
    assert await store.intend("r", "open", "effect", "again") == 5
    assert await store.intend("r", "new", "call", None) == 2
    await store.commit("r", "new", "call", "2", 2.0)
    folder = tmp_path / "runs.sqlite3-owners"
    assert len(list(folder.glob("*.begun"))) == 2, "the other run of the dead process may need it"
    await store.take("s")
    assert len(list(folder.glob("*.begun"))) == 1
    await store.close()
    assert list(folder.iterdir()) == []
    reopened = SqliteStore(path)
    rows = {row.key: (row.attempts, row.request) for row in await reopened.steps("r")}
    assert rows == {"kept": (1, "hash"), "new": (2, None), "open": (5, "again")}
    await reopened.close()
