"""Behavior of a SQLite store when the disk, the file or the process actually fails."""

# ruff: noqa: ASYNC221, ASYNC240, S603 - nothing else runs on the loop, and the processes are the test's own

from __future__ import annotations

import asyncio
import errno
import os
import random
import re
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import textwrap
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pytest

from flowdebate.errors import RunConflict, StoreError, StoreLost
from flowdebate.store.base import RunHeader
from flowdebate.store.sqlite import file as disk
from flowdebate.store.sqlite import writer
from flowdebate.store.sqlite.store import SqliteStore
from tests import warm

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="limits, users and signals as Unix has them"),
]

QUIET = """
import warnings
warnings.filterwarnings("ignore", "This process", DeprecationWarning)
"""
COMMON = """
import asyncio, os, sys, sqlite3, signal
from flowdebate.errors import StoreError
from flowdebate.store.base import RunHeader
from flowdebate.store.sqlite.store import SqliteStore

path = sys.argv[1]

def header(run_id="r1"):
    return RunHeader(run_id=run_id, block="b", seed=1, created_at=1.0, question="Q", input="Q", fingerprint={})

async def refused(call):
    try:
        await call
    except StoreError as error:
        assert str(error).startswith(f"store {path}: "), error
        return str(error)
    raise AssertionError("nothing was refused")
"""


def make_header(run_id: str = "r1") -> RunHeader:
    """Return a run's header."""
    return RunHeader(run_id=run_id, block="b", seed=1, created_at=1.0, question="Q", input="Q", fingerprint={})


def run_code(code: str, path: Path) -> str:
    """Run code in another process, check that it succeeds, and return its output."""
    done = warm.run_warm(QUIET + COMMON + textwrap.dedent(code) + "\nasyncio.run(main())\n", str(path))
    assert done.stderr == ""
    return done.stdout


async def read_keys(path: Path, run_id: str = "r1") -> list[str]:
    """Return the keys of a run's finished steps, as read by a new process."""
    store = SqliteStore(path)
    rows = await store.steps(run_id)
    await store.close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    return [row.key for row in rows if row.seq is not None]


# Disk space


async def test_full_disk_is_reported_and_loses_nothing(tmp_path: Path) -> None:
    code = """
    import resource
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]

    async def main():
        store, kept = SqliteStore(path), 0
        await store.create(header())
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
        try:
            while True:
                await store.commit("r1", f"k{kept}", "call", '"' + "x" * 3000 + '"', 1.0)
                kept += 1
        except StoreError as error:
            assert str(error).startswith(f"store {path}: cannot be used: "), error
        await refused(store.commit("r1", "late", "call", '"' + "x" * 30000 + '"', 1.0))
        assert len(await store.steps("r1")) == kept > 10
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        await store.commit("r1", "after", "call", "1", 1.0)
        await store.close()
        print(kept)
    """
    committed = int(run_code(code, tmp_path / "runs.sqlite3"))
    assert await read_keys(tmp_path / "runs.sqlite3") == [*(f"k{number}" for number in range(committed)), "after"]


async def test_full_mounted_disk_is_reported_and_loses_nothing(tmp_path: Path) -> None:
    """The test mounts a 256 kB file system and is skipped if the user may not mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount, unmount = shutil.which("mount"), shutil.which("umount")
    if os.geteuid() != 0 or mount is None or unmount is None:
        pytest.skip("may not mount a file system")
    mounted = [mount, "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)]
    if subprocess.run(mounted, timeout=60, capture_output=True, check=False).returncode:
        pytest.skip("may not mount a file system here")
    store, committed = SqliteStore(disk / "runs.sqlite3"), 0
    try:
        (disk / "ballast").write_bytes(b"x" * 60_000)
        await store.create(make_header())
        with pytest.raises(StoreError, match=r"cannot be used: .*(full|I/O)"):  # noqa: PT012 - until it is full
            while True:
                await store.commit("r1", f"k{committed}", "call", '"' + "x" * 3000 + '"', 1.0)
                committed += 1
        assert len(await store.steps("r1")) == committed > 3
        (disk / "ballast").unlink()
        await store.commit("r1", "after", "call", "1", 1.0)
        await store.close()
        assert await read_keys(disk / "runs.sqlite3") == [*(f"k{number}" for number in range(committed)), "after"]
    finally:
        await store.close()
        subprocess.run([unmount, "--lazy", str(disk)], timeout=60, check=True)


async def test_shortage_of_file_handles_is_reported_and_recoverable(tmp_path: Path) -> None:
    code = """
    import resource
    from contextlib import suppress

    async def main():
        store = SqliteStore(path)
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        taken = []
        try:
            while True:
                taken.append(os.dup(0))
        except OSError:
            pass
        await refused(store.create(header()))
        for number in range(6):  # with some, it gets further, and may fail elsewhere
            os.close(taken.pop())
            with suppress(StoreError):
                await store.create(header(f"some-{number}"))
        for handle in taken:
            os.close(handle)
        await store.create(header())
        await store.commit("r1", "k", "call", "1", 1.0)
        await store.close()
    """
    run_code(code, tmp_path / "runs.sqlite3")
    assert await read_keys(tmp_path / "runs.sqlite3") == ["k"]


async def test_processes_can_create_the_file_simultaneously(tmp_path: Path) -> None:
    """In this test, one process creates the file while all others wait for it."""
    for number in range(5):
        stores = [SqliteStore(tmp_path / f"{number}.sqlite3") for _ in range(8)]
        await asyncio.gather(*(store.create(make_header(f"r{index}")) for index, store in enumerate(stores)))
        assert len(await stores[0].runs()) == len(stores)
        await asyncio.gather(*(store.close() for store in stores))


async def test_writes_by_other_objects_and_processes_are_preserved(tmp_path: Path) -> None:
    """On POSIX, closing any handle to a file releases all locks that the process has on it.

    Even so, no write may be lost.
    """
    path = tmp_path / "runs.sqlite3"
    store, second = SqliteStore(path), SqliteStore(path)
    await store.create(make_header("r1"))
    await store.create(make_header("r2"))  # uses the store's other connection
    await second.runs()
    assert await asyncio.to_thread(read_ids, path) == ["r1", "r2"]
    await store.create(make_header("r3"))
    assert await asyncio.to_thread(read_ids, path) == ["r1", "r2", "r3"]
    await asyncio.gather(store.close(), second.close())


def read_ids(path: Path) -> list[str]:
    """Return the ids of the runs, as read by another process."""
    code = "import sqlite3, sys; print(*sqlite3.connect(sys.argv[1]).execute('SELECT run_id FROM runs').fetchall())"
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], timeout=60, check=True, capture_output=True, text=True
    )
    return sorted(re.findall(r"r\d+", done.stdout))


# Permissions


def list_modes(folder: Path) -> set[str]:
    """Return the modes of the folder and of everything in it."""
    return {stat.filemode(path.stat().st_mode) for path in (folder, *folder.rglob("*"))}


async def test_new_store_is_private_to_its_owner(tmp_path: Path, open_umask: None) -> None:
    """The file, the log, locks, lists of open steps and new folders are private, whatever the umask is."""
    store = SqliteStore(tmp_path / "new" / "deep" / "runs.sqlite3")
    await store.create(make_header())
    await store.intend("r1", "a", "call", "x" * 2_000_000)
    await store.intend("r1", "b", "call", "x")  # the list of open steps is rewritten
    await store.commit("r1", "a", "call", "1", 1.0)
    files = {path.name for path in (tmp_path / "new" / "deep").iterdir()}
    assert {"runs.sqlite3", "runs.sqlite3-wal", "runs.sqlite3-shm", "runs.sqlite3-owners"} <= files
    assert list_modes(tmp_path / "new") == {"-rw-------", "drwx------"}
    await store.close()


async def test_existing_store_keeps_its_mode(tmp_path: Path, open_umask: None) -> None:
    """The owner may have granted access to others on purpose."""
    path = tmp_path / "runs.sqlite3"
    await open_and_close(path)
    path.chmod(0o640)
    await open_and_close(path)
    assert stat.filemode(path.stat().st_mode) == "-rw-r-----"


async def open_and_close(path: Path) -> None:
    """Open the store at `path`, which creates it if necessary, and close it."""
    store = SqliteStore(path)
    await store.runs()
    await store.close()


@pytest.mark.parametrize("target", ["file", "folder"])
async def test_read_only_store_is_reported_and_unchanged(target: str) -> None:
    """The user has permission to read the file or the folder, but not to write to it."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        path = Path(folder, "runs.sqlite3")
        if target == "file":
            store = SqliteStore(path)
            await store.create(make_header("r0"))
            await store.close()
            path.chmod(0o444)
        before = path.read_bytes() if path.exists() else None
        Path(folder).chmod(0o555)
        code = """
        import concurrent.futures.thread, filelock
        if os.geteuid() == 0:
            os.setuid(65534)

        async def main():
            store = SqliteStore(path)
            print(await refused(store.create(header())))
            print(await refused(store.runs()))
            await store.close()
        """
        messages = run_code(code, path).splitlines()
        Path(folder).chmod(0o755)
        assert len(messages) == 2
        assert all("runs.sqlite3: is read-only: " in line for line in messages)
        assert (path.read_bytes() if path.exists() else None) == before


# Locks


async def test_lock_held_by_another_program_is_awaited_and_then_reported(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite3"
    store = SqliteStore(path, patience=0.3)
    await store.create(make_header())
    code = f"""
import sqlite3, sys
connection = sqlite3.connect({str(path)!r}, isolation_level=None)
connection.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.read()
"""
    lock_holder = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert lock_holder.stdin is not None
    assert lock_holder.stdout is not None
    assert await lock_holder.stdout.readline() == b"locked\n"
    late = SqliteStore(path, patience=0.3)
    for one in (store, late):
        waiting = asyncio.ensure_future(one.commit("r1", "early", "call", "1", 1.0))
        for _ in range(200):
            await asyncio.sleep(0)
        assert not waiting.done()
        with pytest.raises(StoreError, match=r"runs\.sqlite3: has been locked by another program for 0\.3 s"):
            await waiting
    start = asyncio.get_running_loop().time()
    calls = [store.commit("r1", f"early-{number}", "call", "1", 1.0) for number in range(20)]
    assert {type(error) for error in await asyncio.gather(*calls, return_exceptions=True)} == {StoreError}
    assert asyncio.get_running_loop().time() - start < 20 * 0.3 / 2, "they waited one after the other"
    lock_holder.stdin.close()
    await lock_holder.wait()
    await store.commit("r1", "k", "call", "1", 1.0)
    with pytest.raises(RunConflict):
        await late.commit("r1", "early", "call", "1", 1.0)
    await late.close()
    await store.close()
    assert await read_keys(path) == ["k"]


# Invalid store files


async def closed_store(path: Path) -> bytes:
    """Return the file of a closed store that is large enough to be truncated."""
    store = SqliteStore(path)
    await store.create(make_header())
    for number in range(20):
        await store.commit("r1", f"k{number}", "call", '"' + "x" * 3000 + '"', 1.0)
    await store.close()
    return path.read_bytes()


async def assert_unusable(path: Path, problem: str) -> None:
    """Check that every access to the file is rejected and leaves the file unchanged."""
    before = path.read_bytes()
    store = SqliteStore(path)
    for call in (store.create(make_header("new")), store.run("r1"), store.runs(), store.put("c", "k", "1")):
        with pytest.raises(StoreError, match=problem) as caught:
            await call
        assert str(caught.value).startswith(f"store {path}: ")
    await store.close()
    assert path.read_bytes() == before


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
async def test_truncated_file_is_reported(tmp_path: Path, share: float) -> None:
    """Nothing is written to a truncated file."""
    path = tmp_path / "runs.sqlite3"
    content = await closed_store(path)
    path.write_bytes(content[: int(len(content) * share)])
    await assert_unusable(path, "cannot be used: ")


@pytest.mark.parametrize("content", [random.Random(7).randbytes(50_000), b"rents", b"[runs]\ncap = 3\n" * 999])
async def test_file_that_is_not_a_database_is_reported(tmp_path: Path, content: bytes) -> None:
    """The file may be valuable, so it is not changed."""
    path = tmp_path / "runs.sqlite3"
    path.write_bytes(content)
    await assert_unusable(path, "cannot be used: file is not a database")


@pytest.mark.parametrize("application", [0, 7])
async def test_database_belonging_to_another_program_is_reported(tmp_path: Path, application: int) -> None:
    """A foreign database has different tables or a different application id."""
    path = tmp_path / "runs.sqlite3"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA application_id = {application}")
        connection.execute("CREATE TABLE runs (name)")
        connection.commit()
    await assert_unusable(path, "belongs to another program")
    assert [one.name for one in tmp_path.iterdir()] == ["runs.sqlite3"]


@pytest.mark.parametrize("version", [0, 2, 99])
async def test_store_of_another_version_is_rejected(version: int, tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite3"
    await closed_store(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    problem = rf"by another version of flowdebate \(schema {version}; this version supports 1\): open it with that"
    await assert_unusable(path, problem)


async def test_no_run_starts_in_a_file_changed_by_another_version(tmp_path: Path) -> None:
    """Runs that are already in progress are still recorded until they end."""
    store = SqliteStore(tmp_path / "runs.sqlite3")
    await store.create(make_header("r"))
    with closing(sqlite3.connect(tmp_path / "runs.sqlite3")) as connection:
        connection.execute("PRAGMA user_version = 99")
    for operation in (store.create(make_header("s")), store.take("r")):
        with pytest.raises(StoreError, match=r"schema 99; this version supports 1\): open it with that version"):
            await operation
    await store.commit("r", "k", "call", "{}", 1.0)
    await store.finish("r", "complete", None)
    assert (await store.run("r")).status == "complete"
    await store.close()


async def test_overwritten_database_pages_are_reported(tmp_path: Path) -> None:
    """The process continues, and whatever can still be read is correct."""
    path = tmp_path / "runs.sqlite3"
    content = await closed_store(path)
    path.write_bytes(content[:12_288] + random.Random(7).randbytes(20_000) + content[32_288:])
    store = SqliteStore(path)
    with pytest.raises(StoreError, match=r"cannot be used: .*malformed"):
        await store.steps("r1")
    await store.close()


@pytest.mark.parametrize("path", ["folder", "file/runs.sqlite3", "x" * 300])
async def test_impossible_path_is_reported(tmp_path: Path, path: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    store = SqliteStore(tmp_path / path)
    with pytest.raises(StoreError, match="cannot be used: "):
        await store.create(make_header())
    await store.close()


async def test_empty_file_becomes_a_store(tmp_path: Path) -> None:
    (tmp_path / "runs.sqlite3").touch()
    assert await closed_store(tmp_path / "runs.sqlite3")
    assert len(await read_keys(tmp_path / "runs.sqlite3")) == 20


# Process

KILLED = """
async def main():
    store = SqliteStore(path)
    mine = sys.argv[2]
    if mine == "0":
        await store.create(header())
    else:
        await store.take("r1")
    number = 0
    while True:
        await store.intend("r1", f"{mine}-{number}", "call", "h")
        await store.commit("r1", f"{mine}-{number}", "call", "1", 1.0)
        os.write(1, f"{mine}-{number}\\n".encode())
        number += 1

asyncio.run(main())
"""


async def test_answers_survive_killed_processes(tmp_path: Path) -> None:
    """Twenty processes resume one run. Each is killed at a different moment, and the next one takes over at once."""
    path = tmp_path / "runs.sqlite3"
    moments = random.Random(7)
    printed: list[str] = []
    for generation in range(20):
        with warm.Warm(COMMON + KILLED, str(path), str(generation), stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            printed += [process.stdout.readline().decode().strip() for _ in range(moments.randint(1, 25))]
            process.send_signal(signal.SIGKILL)
            printed += process.stdout.read().decode().split()
            assert process.wait(60) == -signal.SIGKILL
    keys = await read_keys(path)
    assert len(set(keys)) == len(keys)
    # each process may have committed one answer that it could not report
    acknowledged = set(printed)
    assert [key for key in keys if key in acknowledged] == printed
    assert len(keys) - len(printed) <= 20


async def test_commit_survives_double_cancellation(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite3"
    store = SqliteStore(path)
    await store.create(make_header())
    with closing(sqlite3.connect(path, isolation_level=None)) as lock:
        lock.execute("BEGIN IMMEDIATE")
        task = asyncio.ensure_future(store.commit("r1", "k", "call", "1", 1.0))
        await asyncio.sleep(0)
        task.cancel()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        lock.execute("COMMIT")
    await store.close()
    assert await read_keys(path) == ["k"]


@pytest.mark.parametrize("end", ["", "sys.exit(0)", "os.kill(os.getpid(), signal.SIGINT)"])
async def test_pending_writes_finish_before_the_process_ends(tmp_path: Path, end: str) -> None:
    """The tasks that requested the writes have been cancelled, and the event loop is closed."""
    code = f"""
    signal.signal(signal.SIGINT, lambda *_: sys.exit(0))

    async def main():
        store = SqliteStore(path)
        await store.create(header())
        tasks = [asyncio.ensure_future(store.commit("r1", f"k{{number}}", "call", "1", 1.0)) for number in range(50)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        {end or "pass"}
    """
    run_code(code, tmp_path / "runs.sqlite3")
    assert await read_keys(tmp_path / "runs.sqlite3") == [f"k{number}" for number in range(50)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
async def test_store_does_not_follow_its_process_into_a_fork(tmp_path: Path) -> None:
    """The store's thread and connection stay with the parent.

    The child can use any store that was not in use at the time of the fork.
    """
    code = """
    fresh = SqliteStore(path)

    async def used():
        global store
        store = SqliteStore(path)
        await store.create(header())

    async def main():
        await store.commit("r1", "parent", "call", "1", 1.0)
        await store.close()

    async def in_child():
        told = await refused(store.commit("r1", "child", "call", "1", 1.0))
        assert "belongs to the parent process" in told, told
        await store.close()
        await fresh.create(header("r2"))
        await fresh.commit("r2", "child", "call", "1", 1.0)
        await fresh.close()

    asyncio.run(used())
    forked = os.fork()
    if not forked:
        asyncio.run(in_child())
        sys.exit(0)
    assert os.waitpid(forked, 0)[1] == 0
    other = SqliteStore(path)

    async def still_owned():
        assert (await other.run("r1")).owned
        await other.close()

    asyncio.run(still_owned())
    """
    run_code(code, tmp_path / "runs.sqlite3")
    assert await read_keys(tmp_path / "runs.sqlite3") == ["parent"]
    assert await read_keys(tmp_path / "runs.sqlite3", "r2") == ["child"]


def test_pending_writes_of_a_closed_loop_are_finished(tmp_path: Path) -> None:
    """The event loop stops before the writes are complete, so they are finished when the store is next used."""
    store = SqliteStore(tmp_path / "runs.sqlite3")
    asyncio.run(store.create(make_header()))
    loop = asyncio.new_event_loop()
    tasks = [loop.create_task(store.commit("r1", f"k{number}", "call", "1", 1.0)) for number in range(5)]
    loop.call_soon(loop.stop)
    loop.run_forever()
    for task in tasks:
        task.get_coro().close()
        task._log_destroy_pending = False  # type: ignore[attr-defined]
    loop.close()
    assert [row.key for row in asyncio.run(store.steps("r1"))] == [f"k{number}" for number in range(5)]
    asyncio.run(store.close())


# Disk errors


async def test_failed_write_is_reported_and_stops_later_ones(tmp_path: Path) -> None:
    """A failed sync is not retried: a second one may report success although the first one's data is lost."""
    store = SqliteStore(tmp_path / "runs.sqlite3")
    await store.create(make_header())
    broken = OSError(errno.EIO, "Input/output error")

    async def commits(names: str) -> list[object]:
        calls = [store.commit("r1", name, "call", "1", 1.0) for name in names]
        return list(await asyncio.gather(*calls, return_exceptions=True))

    assert await commits("abc") == [None, None, None]
    with patch.object(disk, "_sync", side_effect=broken) as sync:
        assert {type(error) for error in await commits("defgh")} == {StoreLost}
    for call in (store.commit("r1", "late", "call", "1", 1.0), store.intend("r1", "late", "call", None), store.runs()):
        with pytest.raises(
            StoreError,
            match=r"could not be written to disk \(.*Input/output error\), so this store can no longer be used",
        ):
            await call
    await store.close()
    assert sync.call_count == 1
    assert set(await read_keys(tmp_path / "runs.sqlite3")) >= {*"abc"}
    second_store = SqliteStore(tmp_path / "runs.sqlite3")
    await second_store.take("r1")
    await second_store.commit("r1", "late", "call", "1", 1.0)
    await second_store.close()


async def test_log_size_is_bounded(tmp_path: Path) -> None:
    """SQLite's write-ahead log must stay small even if many tasks write concurrently."""
    path = tmp_path / "runs.sqlite3"
    store, longest = SqliteStore(path), 0
    with patch.object(writer, "_LOG_JOBS", 50):
        await store.create(make_header())
        for turn in range(200):
            body = '"' + "x" * 3000 + '"'
            await asyncio.gather(*(store.commit("r1", f"{turn}-{n}", "call", body, 1.0) for n in range(10)))
            longest = max(longest, path.with_name("runs.sqlite3-wal").stat().st_size)
    assert longest < 6_000_000, "14 MB, were it never begun anew"
    await store.close()
    assert len(await read_keys(path)) == 2_000
