"""The programs from docs/workers.md and examples/workers."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import shlex
import signal
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING

import psycopg
import pytest
import yaml
from psycopg import sql
from typer.main import get_command

from flowdebate.cli.app import app
from flowdebate.errors import RunNotFound
from flowdebate.store.postgres.store import PostgresStore
from tests.warm import Warm, run_module, run_path
from tests.workers.conftest import ROOT, poll_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.store.postgres import Server

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

PAGE = ROOT / "docs" / "workers.md"
MODEL = """
import os

from flowdebate.testing import FunctionModel


def answer(request):
    with open("asked", "a") as file:
        file.write(request.block + "\\n")
    if os.path.exists("die") and len(open("asked").readlines()) == 3:
        os.remove("die")
        os.kill(os.getpid(), 9)
    if request.block.endswith("-judge"):
        return {"reasoning": "Nobody answered it.", "winner": "build trams", "verdict": "Build trams."}
    return f"What {request.block} says."


model = FunctionModel(answer)
"""
SERVED = 'model = "openai/gpt-5-mini"\n'


def read_program(name: str) -> str:
    """Read a program from the page or from the examples that it links to."""
    example = ROOT / "examples" / "workers" / name
    if example.exists():
        return example.read_text("utf-8")
    (code,) = re.findall(rf"^```py\n(# {re.escape(name)}.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return str(code)


class ProgramFolder:
    """A folder with the programs, and a separate database."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.url = url
        self.more: dict[str, str] = {}
        """Further variables of the programs' environment."""
        debates = read_program("my_debates.py")
        assert SERVED in debates
        (folder / "my_debates.py").write_text(debates.replace(SERVED, MODEL))

    def start(self, code: str, *arguments: str) -> Warm:
        """Start Python in the folder."""
        environment = os.environ | {"FLOWDEBATE_STORE": self.url, **self.more}
        return Warm(code, *arguments, cwd=self.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run(self, code: str, *arguments: str) -> str:
        """Run a program until it ends, and return its output."""
        done = self.start(code, *arguments)
        out, errors = done.communicate(timeout=40)
        assert done.returncode == 0, errors.decode()
        return out.decode()

    def call_count(self) -> int:
        """Return how many calls have been made."""
        return len((self.folder / "asked").read_text().splitlines())


@pytest.fixture
def program_folder(postgres_server: Server, tmp_path: Path) -> Iterator[ProgramFolder]:
    """Provide a folder and a database for one test."""
    name = f"recipe_{secrets.token_hex(6)}"
    with psycopg.connect(postgres_server.url, autocommit=True) as session:
        session.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    yield ProgramFolder(tmp_path, postgres_server.url.rpartition("/")[0] + f"/{name}")
    with psycopg.connect(postgres_server.url, autocommit=True) as session:
        session.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


async def run_dbos(program_folder: ProgramFolder) -> None:
    """Submit a run and start a worker as documented, then end the worker with SIGTERM."""
    (program_folder.folder / "fleet.py").write_text(read_program("fleet.py"))
    assert await asyncio.to_thread(program_folder.run, run_path("fleet.py")) == "queued\n"
    worker = program_folder.start(run_module("flowdebate.workers"), "fleet:workers")
    store = PostgresStore(program_folder.url)

    async def complete() -> bool:
        return (await store.run("city-1")).status == "complete"

    try:
        await poll_until(complete)
        await store.close()
        with psycopg.connect(program_folder.url) as session:
            counted = session.execute("SELECT count(*) - 1 FROM pg_stat_activity WHERE datname = current_database()")
            assert next(counted)[0] <= 15  # the pool sizes on the page and in compose.yaml assume this number
    finally:
        await store.close()
        worker.send_signal(signal.SIGTERM)
        await asyncio.to_thread(worker.communicate, 40)
    assert worker.returncode == 0


async def run_procrastinate(program_folder: ProgramFolder) -> None:
    """Defer a run, deliver it twice, and start a worker."""
    (program_folder.folder / "on_procrastinate.py").write_text(read_program("on_procrastinate.py"))
    await asyncio.to_thread(program_folder.run, run_path("on_procrastinate.py"), "submit", "it-1", "How?")
    with psycopg.connect(program_folder.url, autocommit=True) as session:
        session.execute(
            "INSERT INTO procrastinate_jobs (queue_name, task_name, args) "
            "SELECT queue_name, task_name, args FROM procrastinate_jobs"
        )
    worker = program_folder.start(run_path("on_procrastinate.py"), "work")
    assert worker.stdout is not None
    try:
        assert [await asyncio.to_thread(worker.stdout.readline) for _ in range(2)] == [b"it-1 complete\n"] * 2
    finally:
        worker.send_signal(signal.SIGTERM)
        await asyncio.to_thread(worker.communicate, 40)


async def test_documented_programs_run(program_folder: ProgramFolder) -> None:
    """Each program executes its run with five calls, although Procrastinate delivers its run twice."""
    await asyncio.gather(run_dbos(program_folder), run_procrastinate(program_folder))
    assert program_folder.call_count() == 2 * 5


async def test_step_of_a_custom_dbos_workflow_resumes_its_run(program_folder: ProgramFolder) -> None:
    """The process is killed at the third call, and only that call is repeated after the restart."""
    (program_folder.folder / "with_dbos.py").write_text(read_program("with_dbos.py"))
    (program_folder.folder / "die").touch()
    killed = program_folder.start(run_path("with_dbos.py"), "4711", "How?")
    await asyncio.to_thread(killed.communicate, 40)
    assert killed.returncode == -signal.SIGKILL
    assert await asyncio.to_thread(program_folder.run, run_path("with_dbos.py"), "4711", "How?") == "complete\n"
    assert program_folder.call_count() == 5 + 1


@pytest.mark.slow
async def test_killed_celery_task_resumes_its_run(program_folder: ProgramFolder) -> None:
    """Another process of the same worker receives the task after the kill."""
    (program_folder.folder / "with_celery.py").write_text(read_program("with_celery.py"))
    (program_folder.folder / "die").touch()
    program_folder.more["CELERY_BROKER"] = "sqla+sqlite:///broker.sqlite3"
    ask = "from with_celery import hold; hold.delay('order-4711', 'How?')"
    await asyncio.to_thread(program_folder.run, ask)
    options = ("--app", "with_celery", "worker", "--concurrency", "1", "--loglevel", "ERROR")
    worker = program_folder.start(run_module("celery"), *options)
    store = PostgresStore(program_folder.url)

    async def complete() -> bool:
        with suppress(RunNotFound):
            return (await store.run("order-4711")).status == "complete"
        return False

    try:
        await poll_until(complete, within=40)
    finally:
        await store.close()
        worker.send_signal(signal.SIGTERM)
        await asyncio.to_thread(worker.communicate, 40)
    assert program_folder.call_count() == 5 + 1


def test_documented_job_uses_existing_command_options() -> None:
    page = PAGE.read_text("utf-8")
    (job,) = (yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    (container,) = job["spec"]["template"]["spec"]["containers"]
    (line,) = re.findall(r"^0 6 \* \* \* (.*)$", page, re.MULTILINE)
    for words in (container["args"], shlex.split(line)):
        group = get_command(app)
        context = group.make_context(words[0], words[1:2], resilient_parsing=True)
        command = group.get_command(context, words[1])  # type: ignore[attr-defined]
        params = command.make_context(words[1], words[2:]).params
        assert params["resume"]
        assert params["run_id"]
