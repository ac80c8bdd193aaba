"""Fixtures for the worker tests."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pytest

from tests.store.postgres import postgres_server
from tests.warm import Warm, run_module
from tests.workers.fleet import ModelServer, make_workers, model_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from flowdebate.workers import Workers
    from tests.store.postgres import Server

__all__ = ("Fleet", "fleet", "postgres_server")

ROOT = Path(__file__).resolve().parents[2]


class Fleet:
    """A separate queue, a model server, and any number of workers."""

    def __init__(self, url: str, models: ModelServer) -> None:
        self.models = models
        self.given: dict[str, Any] = {"url": url, "schema": "fleet", "port": models.port, "name": secrets.token_hex(6)}
        self._made: list[Workers] = []
        self._processes: list[Warm] = []
        self._logs: dict[int, IO[bytes]] = {}

    def workers(self, **options: Any) -> Workers:
        """Return the workers object of one process."""
        self._made.append(make_workers(**{**self.given, **options}))
        return self._made[-1]

    def process(self, *options: str, **overrides: Any) -> Warm:
        """Start a worker in a separate process."""
        environment = os.environ | {"FLEET": json.dumps(self.given | overrides)}
        log = tempfile.TemporaryFile()  # noqa: SIM115 - read when the process has ended
        command = (run_module("flowdebate.workers"), "tests.workers.fleet:workers", *options)
        self._processes.append(Warm(*command, cwd=ROOT, env=environment, stderr=log.fileno()))
        self._logs[self._processes[-1].pid] = log
        return self._processes[-1]

    def logs(self, process: Warm) -> list[str]:
        """Return the lines logged by a process."""
        log = self._logs[process.pid]
        log.seek(0)
        return log.read().decode().splitlines()

    async def client(self, program: str) -> int:
        """Run a client in a separate process and return its exit status."""
        environment = os.environ | {"FLEET": json.dumps(self.given)}
        with Warm(program, cwd=ROOT, env=environment) as process:
            return await asyncio.to_thread(process.wait, 60)

    @asynccontextmanager
    async def working(self, workers: Workers, *, patience: float = 10.0) -> AsyncIterator[asyncio.Event]:
        """Run a worker in this process, and yield the event that stops it."""
        stop = asyncio.Event()
        working = asyncio.create_task(workers.work(stop, patience=patience))
        try:
            yield stop
        finally:
            stop.set()
            await working

    async def close(self) -> None:
        """Stop the remaining processes."""
        for process in self._processes:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            await asyncio.to_thread(process.wait, 30)
            self._logs[process.pid].close()
        for workers in self._made:
            await workers.close()


@pytest.fixture
async def fleet(postgres_server: Server) -> AsyncIterator[Fleet]:
    """Provide a fleet for a single test."""
    async with model_server(0.0) as models:
        instance = Fleet(postgres_server.url, models)
        try:
            yield instance
        finally:
            models.answering.set()
            await instance.close()


async def poll_until(true: Callable[[], Any], *, within: float = 20.0) -> Any:
    """Poll `true()`, which reads the database, until it returns a true value, and return that value."""
    async with asyncio.timeout(within):
        while not (value := await true()):  # noqa: ASYNC110 - nothing tells when a row of a database has changed
            await asyncio.sleep(0.1)
        return value
