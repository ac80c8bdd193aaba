"""PostgreSQL stores whose server is stopped, whose sessions are closed, and whose owners are killed."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from flowdebate.errors import ConfigurationError, RunConflict, StoreError
from flowdebate.store.postgres.database import _FOLDER, KNOWN
from flowdebate.store.postgres.store import PostgresStore
from flowdebate.testing.store import header
from tests.warm import Warm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from flowdebate.store.base import StoredRun
    from tests.store.postgres import Server

pytestmark = pytest.mark.anyio

END_ALL = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'flowdebate'"
HOLDER = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND (classid::bigint << 32) | objid::bigint = %s"


@pytest.fixture
def own_schema() -> str:
    """Return a schema for this test."""
    return f"t{secrets.token_hex(8)}"


def execute_as_admin(server: Server, statement: str, *values: object) -> list[tuple[Any, ...]]:
    """Run a statement as an administrator and return the rows."""
    with psycopg.connect(server.url, autocommit=True) as session:
        return session.execute(statement.encode(), values or None).fetchall()


async def write_steps(store: PostgresStore, *numbers: int) -> None:
    """Write steps of run r one after another."""
    for number in range(*numbers):
        await store.intend("r", f"k{number}", "call", None)
        await store.commit("r", f"k{number}", "call", str(number), 1.0)


async def take_run(store: PostgresStore, run_id: str, within: float) -> StoredRun:
    """Take the run as soon as it is available."""
    end = time.monotonic() + within
    while True:
        try:
            return await store.take(run_id)
        except RunConflict:
            if time.monotonic() > end:
                raise


async def test_restarted_server_loses_nothing(postgres_server: Server, own_schema: str) -> None:
    """Steps written while the server is down are stored later, each exactly once and in order.

    The run keeps its owner.
    """
    store, second_store = (PostgresStore(postgres_server.url, schema=own_schema) for _ in range(2))
    await store.create(header("r"))
    await write_steps(store, 10)
    writing = asyncio.create_task(write_steps(store, 300))
    await asyncio.to_thread(postgres_server.stop)
    assert not writing.done()
    await asyncio.to_thread(postgres_server.start)
    await writing
    assert [(row.seq, row.body) for row in await store.steps("r")] == [(n + 1, str(n)) for n in range(300)]
    with pytest.raises(RunConflict):
        await second_store.take("r")
    await store.close()
    await second_store.close()


async def test_closed_sessions_are_reopened(postgres_server: Server, own_schema: str) -> None:
    """While steps are being written, an administrator repeatedly closes all sessions."""
    store, second_store = (PostgresStore(postgres_server.url, schema=own_schema) for _ in range(2))
    await store.create(header("r"))
    ended = 0
    for first in range(0, 200, 40):
        writing = asyncio.create_task(write_steps(store, first, first + 40))
        ended += len(await asyncio.to_thread(execute_as_admin, postgres_server, END_ALL))
        await writing
    assert ended >= 5
    assert [row.body for row in await store.steps("r")] == [str(number) for number in range(200)]
    with pytest.raises(RunConflict):
        await second_store.take("r")
    await store.close()
    await second_store.close()


async def test_owner_reconnects_automatically(postgres_server: Server, own_schema: str) -> None:
    """If the owner loses its session during a long call without any writes, it soon regains the lock in a new one."""
    store = PostgresStore(postgres_server.url, schema=own_schema)
    await store.create(header("r"))
    (before,) = execute_as_admin(postgres_server, HOLDER, store._owner.id)
    execute_as_admin(postgres_server, END_ALL)
    end = time.monotonic() + 10
    while execute_as_admin(postgres_server, HOLDER, store._owner.id) in ([], [before]):
        assert time.monotonic() < end
    await store.commit("r", "k", "call", "1", 1.0)
    await store.close()


async def test_owner_that_is_absent_too_long_loses_its_run(postgres_server: Server, own_schema: str) -> None:
    """Once another owner has taken the run, writes by the first owner are rejected, although earlier ones succeeded."""
    old, new = (PostgresStore(postgres_server.url, schema=own_schema, grace=0) for _ in range(2))
    await old.create(header("r"))
    old._owner.end()
    await new.take("r")
    for writing in (old.commit("r", "k", "call", "1", 1.0), old.finish("r", "complete", None)):
        with pytest.raises(RunConflict):
            await writing
    await old.release("r")
    await new.commit("r", "k", "call", "2", 1.0)
    await old.close()
    await new.close()


DYING = """
import asyncio, sys
from flowdebate.store.postgres.store import PostgresStore
from flowdebate.testing.store import header
async def main():
    store = PostgresStore(sys.argv[1], schema=sys.argv[2])
    await store.create(header("r"))
    await store.intend("r", "k", "call", None)
    print("ready", flush=True)
    sys.stdin.read()
asyncio.run(main())
"""


async def test_runs_of_a_killed_process_are_released_within_seconds(postgres_server: Server, own_schema: str) -> None:
    """The lock is released when the process ends, and until then the run is not available."""
    store = PostgresStore(postgres_server.url, schema=own_schema)
    with launch(DYING, postgres_server.url, own_schema) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        with pytest.raises(RunConflict):
            await store.take("r")
        process.send_signal(signal.SIGKILL)
        process.wait(60)
    run = await take_run(store, "r", within=3)
    assert (run.status, run.recoveries) == ("running", 1)
    assert await store.intend("r", "k", "call", None) == 2
    await store.close()


FIRST = """
import asyncio, sys
from flowdebate.store.postgres.store import PostgresStore
from flowdebate.testing.store import header
async def main():
    store = PostgresStore(sys.argv[1], schema=sys.argv[2])
    sys.stdin.read()
    await store.create(header(sys.argv[3]))
    await store.close()
asyncio.run(main())
"""


LEAVING = """
import asyncio, sys
from flowdebate.store.postgres.store import PostgresStore
from flowdebate.testing.store import header
store = PostgresStore(sys.argv[1], schema=sys.argv[2])
async def main():
    await store.create(header("r"))
    tasks = [asyncio.create_task(store.commit("r", f"k{n}", "call", "{}", 1.0)) for n in range(50)]
    await asyncio.sleep(0)
asyncio.run(main())
"""


async def test_process_that_exits_without_closing_has_written_everything(
    postgres_server: Server, own_schema: str
) -> None:
    """Pending writes are stored even though the event loop is gone, and the process prints nothing as it exits."""
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", LEAVING, postgres_server.url, own_schema]
    done = subprocess.run(command, capture_output=True, timeout=60, text=True, check=True)  # noqa: S603, ASYNC221
    assert (done.stdout, [line for line in done.stderr.splitlines() if "Executing <" not in line]) == ("", [])
    store = PostgresStore(postgres_server.url, schema=own_schema)
    assert (await store.run("r")).steps == 50
    await store.close()


async def test_four_processes_can_create_the_schema_at_once(postgres_server: Server, own_schema: str) -> None:
    waiting, go = os.pipe()
    processes = [Warm(FIRST, postgres_server.url, own_schema, name, stdin=waiting) for name in "abcd"]
    os.close(waiting)
    os.close(go)
    assert [process.wait(60) for process in processes] == [0] * 4
    store = PostgresStore(postgres_server.url, schema=own_schema)
    assert {run.header.run_id for run in await store.runs()} == set("abcd")
    assert execute_as_admin(postgres_server, f"SELECT version_num FROM {own_schema}.migrations") == [(KNOWN,)]  # noqa: S608
    await store.close()


async def test_process_works_with_a_compatible_newer_schema(postgres_server: Server, own_schema: str) -> None:
    """An incompatible schema is rejected with advice on what to do, even while the store is in use."""
    running = PostgresStore(postgres_server.url, schema=own_schema)
    await running.create(header("r"))
    change = f"UPDATE {own_schema}.migrations SET version_num = '0999', oldest = '{{}}' RETURNING 1"  # noqa: S608
    execute_as_admin(postgres_server, change.format(KNOWN))
    opened = PostgresStore(postgres_server.url, schema=own_schema)
    running._checked -= 31
    for store in (running, opened):
        assert (await store.run("r")).status == "running"
    execute_as_admin(postgres_server, change.format("0999"))
    for store in (running, opened):
        store._checked -= 31
        with pytest.raises(StoreError, match=rf"schema 0999; this version supports {KNOWN}\).*update flowdebate"):
            await store.run("r")
        await store.close()


HALFWAY = """
import asyncio, sys, threading, time
import psycopg
from flowdebate.store.postgres.database import _ONE_AT_A_TIME
from flowdebate.store.postgres.store import PostgresStore
from flowdebate.workers.queue import driver
holder, watcher = (psycopg.connect(sys.argv[1], autocommit=True) for _ in range(2))
holder.execute("SELECT pg_advisory_lock(%s)", (_ONE_AT_A_TIME,))
halfway = threading.Event()
class Pause:
    def find_spec(self, name, path=None, target=None):
        hooked = name.startswith("sqlalchemy.orm.") and object in sys.modules["sqlalchemy.inspection"]._registrars
        if hooked and not halfway.is_set():
            halfway.set()
            holder.close()
            time.sleep(0.5)
sys.meta_path.insert(0, Pause())
async def main():
    store = PostgresStore(sys.argv[1], schema=sys.argv[2])
    using = asyncio.create_task(store.runs())
    waiting = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    while not halfway.is_set() and not watcher.execute(waiting).fetchone():
        await asyncio.sleep(0.02)
    await asyncio.to_thread(driver)
    await using
    await store.close()
asyncio.run(main())
"""


async def test_tables_can_be_created_while_another_thread_imports_sqlalchemy(
    postgres_server: Server, own_schema: str
) -> None:
    """A service may create the tables for its first run while its worker's thread is still starting."""
    pytest.importorskip("dbos")
    command = [sys.executable, "-c", HALFWAY, postgres_server.url, own_schema]
    done = subprocess.run(command, capture_output=True, timeout=60, text=True, check=False)  # noqa: S603, ASYNC221
    assert (done.returncode, done.stderr) == (0, "")
    assert execute_as_admin(postgres_server, f"SELECT version_num FROM {own_schema}.migrations") == [(KNOWN,)]  # noqa: S608


class LosesFirstAnswer(PostgresStore):
    """Store that loses the first answer. Before the retry, another client changes the document."""

    def __init__(self, url: str, *, schema: str, ends: bool) -> None:
        super().__init__(url, schema=schema)
        self._ends = ends
        self._heard = False

    async def _do(self, operation: str, work: Callable[[psycopg.Connection[tuple[Any, ...]]], Any]) -> Any:
        def again(session: psycopg.Connection[tuple[Any, ...]]) -> Any:
            if self._heard:
                return work(session)
            self._heard = True
            if not self._ends:  # the answer is lost before the operation is done
                with suppress(ZeroDivisionError), session.transaction():
                    work(session)
                    raise ZeroDivisionError
            else:
                work(session)
            session.execute("UPDATE documents SET body = '3' WHERE body = '2' OR NOT %s", (self._ends,))
            raise psycopg.errors.SerializationFailure

        return await super()._do(operation, again)


@pytest.mark.parametrize("ends", [True, False])
async def test_unconfirmed_document_change_is_applied_once(
    postgres_server: Server, own_schema: str, *, ends: bool
) -> None:
    """A committed change is not applied again, even if another client has changed the document since.

    An uncommitted change is rejected if another client has changed the document.
    """
    store = PostgresStore(postgres_server.url, schema=own_schema)
    assert await store.put("c", "n", "1")
    unheard = LosesFirstAnswer(postgres_server.url, schema=own_schema, ends=ends)
    assert await unheard.put("c", "n", "2", expected="1") is ends
    assert await store.documents("c") == {"n": "3"}
    for target in (store, unheard):
        await target.close()


async def test_statements_have_a_time_limit(postgres_server: Server, own_schema: str) -> None:
    store = PostgresStore(postgres_server.url, schema=own_schema, timeout=0.2)
    await store.create(header("r"))
    with psycopg.connect(postgres_server.url) as session:
        session.execute(f"LOCK TABLE {own_schema}.runs".encode())
        with pytest.raises(StoreError, match=r"did not answer within 0\.2 s"):
            await store.create(header("s"))
    await store.create(header("s"))
    await store.close()


async def test_waiting_stops_when_the_configured_patience_runs_out(postgres_server: Server, own_schema: str) -> None:
    store = PostgresStore(postgres_server.url, schema=own_schema, patience=0.3)
    await store.create(header("r"))
    await asyncio.to_thread(postgres_server.stop)
    start = time.monotonic()
    with pytest.raises(StoreError, match="cannot be used"):
        await store.commit("r", "k", "call", "1", 1.0)
    assert 0.3 <= time.monotonic() - start < 5
    await asyncio.to_thread(postgres_server.start)
    await store.commit("r", "k", "call", "1", 1.0)
    await store.close()


async def test_newer_schema_is_not_modified(postgres_server: Server, own_schema: str) -> None:
    store = PostgresStore(postgres_server.url, schema=own_schema)
    await store.create(header("r"))
    await store.close()
    statement = f"UPDATE {own_schema}.migrations SET version_num = '0999', oldest = '0999' RETURNING 1"  # noqa: S608
    execute_as_admin(postgres_server, statement)
    store = PostgresStore(postgres_server.url, schema=own_schema)
    with pytest.raises(StoreError, match="newer version of flowdebate"):
        await store.release("r")
    await store.close()
    assert execute_as_admin(postgres_server, f"SELECT owner IS NOT NULL FROM {own_schema}.runs") == [(True,)]  # noqa: S608


async def test_unusable_database_is_reported_clearly(postgres_server: Server) -> None:
    """The `StoreError` shows the database's address without the password.

    The password may be wrong, the database may not exist, or the address may belong to no server or to one that is not
    PostgreSQL.
    """
    right = f"127.0.0.1:{postgres_server.port}"
    with closing(socket.create_server(("127.0.0.1", 0))) as listening, closing(socket.socket()) as unused:
        unused.bind(("127.0.0.1", 0))
        threading.Thread(target=serve_page, args=(listening,), daemon=True).start()
        places = (
            (f"{right}/postgres", "password authentication failed"),
            (f"127.0.0.1:{unused.getsockname()[1]}/runs", "refused"),
            (f"127.0.0.1:{listening.getsockname()[1]}/runs", "cannot be used"),
        )
        for place, problem in places:
            store = PostgresStore(f"postgresql://postgres:s3cret@{place}", patience=0.5)
            assert store.name == f"postgresql://{place}"
            with pytest.raises(StoreError, match=problem) as caught:
                await store.runs()
            assert store.name in str(caught.value)
            assert "s3cret" not in "".join(traceback.format_exception(caught.value))
            await store.close()
    store = PostgresStore(postgres_server.url.replace("/postgres", "/nowhere").replace("//nowhere", "//postgres"))
    with pytest.raises(StoreError, match="nowhere"):
        await store.runs()
    await store.close()


def serve_page(listening: socket.socket) -> None:
    """Serve a page for any request, as a different kind of server would."""
    while True:
        try:
            client, _ = listening.accept()
        except OSError:
            return
        with client:
            client.recv(1000)
            client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


@pytest.mark.parametrize(
    "url", ["postgresql://me:s3cret@host:port/x", "postgresql://me:s3cret%@host", "postgresql://me:s3@cret@[::1/x"]
)
def test_invalid_address_is_not_repeated_in_the_error(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        PostgresStore(url)
    assert "cret" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("options", "field"),
    [({"connections": 0}, "connections"), ({"timeout": -1}, "timeout"), ({"patience": float("nan")}, "patience")],
)
def test_invalid_options_are_rejected(options: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigurationError, match=field):
        PostgresStore("postgresql://localhost/x", **options)


def test_missing_driver_error_shows_the_install_command() -> None:
    code = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from flowdebate.store.postgres.store import PostgresStore\n"
        "try: PostgresStore('postgresql://localhost/x')\n"
        "except ValueError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, text=True, check=True)  # noqa: S603
    assert "pip install 'flowdebate[postgres]'" in done.stdout


def test_last_migration_is_the_current_schema() -> None:
    """Migrations are numbered without gaps."""
    names = sorted(path.name for path in (_FOLDER / "versions").glob("v*.py"))
    assert [name[1:5] for name in names] == [f"{number:04d}" for number in range(1, len(names) + 1)]
    assert names[-1][1:5] == KNOWN


@contextmanager
def launch(code: str, *arguments: str) -> Iterator[Warm]:
    """Start a process whose stdin stays open, and make sure that the process is stopped at the end of the block."""
    reading, writing = os.pipe()
    try:
        with Warm(code, *arguments, stdin=reading, stdout=subprocess.PIPE) as process:
            yield process
    finally:
        os.close(reading)
        os.close(writing)
