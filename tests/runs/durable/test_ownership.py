"""Ownership of durable runs: a run has one owner at a time, whatever fails and however the store's path is written."""

# ruff: noqa: ASYNC240 - nothing else runs on the loop

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

from flowdebate import generator, handler, sequencer
from flowdebate.errors import FlowDebateWarning, RunConflict, StoreError, StoreLost
from flowdebate.store import MemoryStore, SqliteStore
from flowdebate.store.postgres.store import PostgresStore
from flowdebate.testing import FunctionModel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from flowdebate.blocks.base import Block
    from tests.store.postgres import Server

pytestmark = pytest.mark.anyio

CALLS = 5


class CountingModel:
    """A model that counts its calls and performs an action at a chosen call."""

    def __init__(self, at: int = 0, act: Callable[[], Any] = bool) -> None:
        self.calls = 0
        self._at = at
        self._act = act
        self.model = FunctionModel(self._answer)

    def _answer(self, _: object) -> str:
        self.calls += 1
        if self.calls == self._at:
            self._act()
        return f"answer {self.calls}"


def make_calls(last: Callable[[], Any] = bool) -> Block[Any, Any]:
    """Make five calls in a row, then run `last` outside any step."""
    block: Any = sequencer(name="talk")
    for number in range(CALLS):
        block = block.then(generator(name=f"say-{number}"))

    def end(value: str) -> str:
        last()
        return value

    return block.then(handler(end, name="end"))  # type: ignore[no-any-return]  # the builder's own type


@contextmanager
def lock_file(path: Path) -> Iterator[None]:
    """Lock the file as another program would."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    yield
    connection.execute("ROLLBACK")
    connection.close()


@contextmanager
def fill_disk(_: Path) -> Iterator[None]:
    """Simulate a full disk by preventing this process from extending any file."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


# Runs whose end cannot be written


@pytest.mark.skipif(sys.platform == "win32", reason="limits as Unix has them")
@pytest.mark.parametrize("trouble", [lock_file, fill_disk])
@pytest.mark.parametrize("then", ["resume", "delete"])
async def test_run_whose_end_was_not_written_can_be_resumed(tmp_path: Path, trouble: Any, then: str) -> None:
    """Once the file is writable again, the same store object can resume the run without making a call, or delete it."""
    path = tmp_path / "runs.sqlite3"
    store, counter, second_store = SqliteStore(path, patience=0.2), CountingModel(), SqliteStore(path)
    holding = trouble(path)
    with pytest.warns(FlowDebateWarning, match="could not be recorded"):
        result = await make_calls(holding.__enter__).run("q", model=counter.model, store=store, run_id="it")
    with suppress(StopIteration):
        holding.__exit__(None, None, None)
    assert (result.status, counter.calls) == ("complete", CALLS)
    assert (await store.run("it")).status == "running"
    if then == "delete":
        await store.delete("it")
        assert not await store.runs()
    else:
        resumed = await make_calls().resume("it", model=counter.model, store=store)
        assert (resumed.output, counter.calls) == (result.output, CALLS)
        stored = await second_store.run("it")
        assert (stored.status, stored.owned, stored.steps) == ("complete", False, CALLS)
    await store.close()
    await second_store.close()


async def test_run_whose_end_did_not_reach_the_server_can_be_resumed(postgres_server: Server) -> None:
    # a busy server takes a while to come back
    store, counter = PostgresStore(postgres_server.url, schema="ownership", patience=2.0, grace=0.0), CountingModel()
    try:
        with pytest.warns(FlowDebateWarning, match="could not be recorded"):
            await make_calls(postgres_server.stop).run("q", model=counter.model, store=store, run_id="it")
    finally:
        postgres_server.start()
    resumed = await make_calls().resume("it", model=counter.model, store=store)
    assert (resumed.status, counter.calls) == ("complete", CALLS)
    assert not (await store.run("it")).owned
    await store.delete("it")
    await store.close()


async def test_run_in_progress_cannot_be_resumed_by_its_own_process(tmp_path: Path) -> None:
    """Resuming the same run twice at once would pay for its calls twice.

    The test uses a run whose end could not be recorded.
    """
    path = tmp_path / "runs.sqlite3"
    store = SqliteStore(path, patience=0.2)
    holding = lock_file(path)
    with pytest.warns(FlowDebateWarning, match="could not be recorded"):
        await make_calls(holding.__enter__).run("q", model=CountingModel().model, store=store, run_id="it")
    with suppress(StopIteration):
        holding.__exit__(None, None, None)
    outcomes = [await capture(store.take("it")) for _ in range(3)]
    assert [type(one).__name__ for one in outcomes] == ["StoredRun", "RunConflict", "RunConflict"]
    await store.release("it")
    outcomes = await asyncio.gather(*(capture(store.take("it")) for _ in range(3)))
    assert sorted(type(one).__name__ for one in outcomes) == ["RunConflict", "RunConflict", "StoredRun"]
    await store.close()


async def capture(call: Any) -> Any:
    """Return the result of the call or its exception."""
    try:
        return await call
    except StoreError as error:
        return error


# Several names for one file


@pytest.mark.skipif(sys.platform == "win32", reason="links and folders as Unix has them")
@pytest.mark.parametrize("name", ["link.sqlite3", "folder/runs.sqlite3", "relative"])
async def test_file_aliases_refer_to_the_same_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A symbolic link, a linked folder or a relative path must not give access to a run whose owner is alive."""
    path = tmp_path / "real" / "runs.sqlite3"
    path.parent.mkdir()
    (tmp_path / "link.sqlite3").symlink_to(path)
    (tmp_path / "folder").symlink_to(path.parent)
    monkeypatch.chdir(path.parent)
    first, second = SqliteStore(path), SqliteStore("runs.sqlite3" if name == "relative" else tmp_path / name)
    monkeypatch.chdir(tmp_path)
    refused: list[Any] = []
    waiting = asyncio.Event()
    counter = CountingModel()

    async def answer(request: Any) -> str:
        if counter.calls == 2:
            refused.append(await capture(make_calls().resume("it", model=counter.model, store=second)))
        waiting.set()
        return counter._answer(request)

    result = await make_calls().run("q", model=FunctionModel(answer), store=first, run_id="it")
    assert [type(one) for one in refused] == [RunConflict]
    assert (result.status, counter.calls) == ("complete", CALLS)
    assert (await second.run("it")).status == "complete"
    await first.close()
    await second.close()
    assert [one.name for one in tmp_path.rglob("*-owners")] == ["runs.sqlite3-owners"]


async def test_file_with_two_hard_links_is_rejected(tmp_path: Path) -> None:
    """SQLite would write a separate log next to each name, and the contents of one of them would be lost."""
    path = tmp_path / "runs.sqlite3"
    store = SqliteStore(path)
    await make_calls().run("q", model=CountingModel().model, store=store, run_id="it")
    await store.close()
    os.link(path, tmp_path / "other.sqlite3")
    for one in (path, tmp_path / "other.sqlite3"):
        store = SqliteStore(one)
        with pytest.raises(StoreError, match=r"has 2 hard links"):
            await store.runs()
        await store.close()
    assert not list(tmp_path.glob("*-owners/*"))


# Missing files


def unlink(path: Path) -> None:
    """Delete the file."""
    path.unlink()


def move(path: Path) -> None:
    """Rename the file."""
    path.rename(path.with_name("moved"))


def replace(path: Path) -> None:
    """Replace the file with a copy."""
    path.with_name("new").write_bytes(path.read_bytes())
    path.with_name("new").replace(path)


@pytest.mark.skipif(sys.platform == "win32", reason="an open file cannot be removed there")
@pytest.mark.filterwarnings("ignore:run it ended as 'failed', which could not be recorded")
@pytest.mark.parametrize("remove", [unlink, move, replace])
@pytest.mark.parametrize("at", [1, 3, CALLS, None], ids=["first call", "third call", "last call", "after all calls"])
async def test_run_whose_file_was_deleted_is_not_complete(
    tmp_path: Path, remove: Callable[[Path], None], at: int | None
) -> None:
    """The record is lost, so the run raises `StoreLost`.

    Later runs get a new store at the same path.
    """
    path = tmp_path / "runs.sqlite3"
    store = SqliteStore(path)
    await store.runs()
    counter = CountingModel(at or 0, lambda: remove(path))
    block = make_calls(lambda: None if at else remove(path))
    with pytest.raises(StoreLost, match="was deleted, moved or replaced while it was in use"):
        await block.run("q", model=counter.model, store=store, run_id="it")
    assert counter.calls == (at or CALLS)
    for call in (store.run("it"), store.documents("x"), store.take("it")):
        with pytest.raises(StoreLost):
            await call
    await store.close()


async def test_path_of_a_deleted_file_opens_a_new_store(tmp_path: Path) -> None:
    """If the path is used again, a new store is opened instead of reusing the one whose file was deleted."""
    path = tmp_path / "runs.sqlite3"
    with pytest.raises(StoreLost):
        await make_calls(path.unlink).run("q", model=CountingModel().model, store=path, run_id="it")
    result = await make_calls().run("q", model=CountingModel().model, store=path, run_id="it")
    assert result.status == "complete"


# Readers


async def test_readers_of_a_complete_run_do_not_block_each_other(tmp_path: Path) -> None:
    """Each reader resumes the run with a separate store object, as another process would.

    No call is made, and nothing is written.
    """
    path, counter = tmp_path / "runs.sqlite3", CountingModel()
    store = SqliteStore(path)
    result = await make_calls().run("q", model=counter.model, store=store, run_id="it")
    before = await store.run("it")
    stores = [SqliteStore(path) for _ in range(20)]
    read = await asyncio.gather(*(make_calls().resume("it", model=counter.model, store=one) for one in stores))
    assert {one.output for one in read} == {result.output}
    assert {str(one.usage) for one in read} == {str(result.usage)}
    assert counter.calls == CALLS
    assert await store.run("it") == before
    for one in (store, *stores):
        await one.close()


async def test_complete_run_is_owned_from_its_first_new_step() -> None:
    """A step has been added to the block since the run completed.

    If two processes resume the run, only one of them makes the new call.
    """
    store, counter = MemoryStore(), CountingModel()
    await make_calls().run("q", model=counter.model, store=store, run_id="it")
    arrived = asyncio.Barrier(2)

    class Slow(MemoryStore):
        async def steps(self, run_id: str, *, after: int = 0) -> Any:
            rows = await store.steps(run_id, after=after)
            await arrived.wait()
            return rows

        def __getattribute__(self, name: str) -> Any:
            return object.__getattribute__(self, name) if name == "steps" else getattr(store, name)

    block: Any = sequencer(name="talk")
    for number in range(CALLS):
        block = block.then(generator(name=f"say-{number}"))
    longer: Any = block.then(handler(str, name="end")).then(generator(name="more"))
    calls = [longer.resume("it", model=counter.model, store=Slow(), allow_changes=True) for _ in range(2)]
    ends = await asyncio.gather(*calls, return_exceptions=True)
    assert sorted(type(end).__name__ for end in ends) == ["RunConflict", "RunResult"]
    assert counter.calls == CALLS + 1
    stored = await store.run("it")
    assert (stored.status, stored.steps, stored.owned) == ("complete", CALLS + 1, False)


async def test_complete_run_whose_replay_fails_stays_complete() -> None:
    store = MemoryStore()
    await make_calls().run("q", model=CountingModel().model, store=store, run_id="it")
    before = await store.run("it")
    with pytest.raises(ZeroDivisionError):
        await make_calls(lambda: 1 / 0).resume("it", model=CountingModel().model, store=store)
    assert await store.run("it") == before
