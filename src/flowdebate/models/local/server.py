"""Engine processes for local models: one per model file, started on first use and stopped along with this process."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import importlib.util
import json
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast
from weakref import WeakKeyDictionary

from flowdebate._text import one_line
from flowdebate.errors import ModelUnavailable
from flowdebate.models.call import in_queue, within
from flowdebate.models.local.gguf import WAYS_OUT, find_local_model
from flowdebate.models.openai.endpoint import Endpoint

if TYPE_CHECKING:
    from flowdebate.models.base import ModelRequest
    from flowdebate.models.local.engine import Config


CONTEXT = 8192  # maximum number of tokens in the prompt and answer combined; models of this size handle that many well
_START = 300.0  # maximum time in seconds for joining, verifying and loading the file from a slow disk
_PATIENCE = 5.0  # time in seconds allowed for an engine to exit on its own

# Engines, keyed by process and file (None for the model "local"), so that a fork does not use or stop its parent's
# engines.
_servers: dict[tuple[int, Path | None], LocalServer] = {}
_lock = threading.Lock()


def running_server(path: Path | None) -> LocalServer:
    """Return the engine for the model file at `path` (None means the model "local"), starting it if necessary."""
    key = (os.getpid(), path)
    with _lock:
        if not _servers:
            atexit.register(stop_local_servers)
        server = _servers.get(key)
        if server is None or server.ended:
            server = _servers[key] = LocalServer(path)
        return server


def engine_is_starting() -> bool:
    """Return whether any of this process's engines is currently being unpacked or loaded."""
    with _lock:
        return any(key[0] == os.getpid() and server.is_starting for key, server in _servers.items())


def stop_local_servers() -> None:
    """Stop all of this process's engines; the next call starts a new one. In-flight calls fail with ConnectionLost."""
    with _lock:
        keys = [key for key in _servers if key[0] == os.getpid()]
        stopped = [_servers.pop(key) for key in keys]
    for server in stopped:
        server.stop()


class LocalServer:
    """Engine process, started immediately in a separate thread to avoid blocking the event loop."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = False
        self._lock = threading.Lock()
        self._turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
        self._ready: Future[Endpoint] = Future()
        # one caller's cancellation must not cancel the startup for other callers
        self._ready.set_running_or_notify_cancel()
        threading.Thread(target=self._start, name="flowdebate-local-model", daemon=True).start()

    async def endpoint(self) -> Endpoint:
        """Wait until the engine is listening and return its endpoint; raise ModelUnavailable if it fails to start."""
        return await asyncio.wrap_future(self._ready)

    @property
    def is_starting(self) -> bool:
        """True until the engine is listening or has failed."""
        return not self._ready.done()

    @asynccontextmanager
    async def turn(self, request: ModelRequest) -> AsyncIterator[Endpoint]:
        """Reserve the engine, which has only one slot, for a single call.

        Waiting calls are served in order and may be cancelled. Raises ModelUnavailable if the engine failed to start.
        """
        lock = self._turns.setdefault(asyncio.get_running_loop(), asyncio.Lock())
        with in_queue(request):
            endpoint = await within(_START, self.endpoint())
            await lock.acquire()
        try:
            yield endpoint
        finally:
            lock.release()

    @property
    def ended(self) -> bool:
        """True if the engine failed to start, was stopped, or has died."""
        if self._stopping or (self._ready.done() and self._ready.exception() is not None):
            return True
        return self._process is not None and self._process.poll() is not None

    def stop(self) -> None:
        """Stop the engine and wait until it has exited."""
        with self._lock:
            self._stopping = True
            process = self._process
        if process is None:
            return
        with contextlib.suppress(OSError):  # the process may have exited while its input is still buffered
            _input(process).close()
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _start(self) -> None:
        try:
            endpoint = self._launch()
        except Exception as error:  # noqa: BLE001 - every failure must reach the waiting calls
            self.stop()
            failure = error
            if not isinstance(error, ModelUnavailable):
                failure = ModelUnavailable(f"the local model could not be started ({type(error).__name__}: {error})")
                failure.__cause__ = error
            self._ready.set_exception(failure)
        else:
            self._ready.set_result(endpoint)

    def _launch(self) -> Endpoint:
        library = importlib.util.find_spec("xllamacpp")
        if library is None or not library.origin:
            raise ModelUnavailable(f"the local model's engine is not installed: {WAYS_OUT}")
        key = secrets.token_urlsafe(32)
        config: Config = {
            "model": str((self._path or find_local_model()).resolve()),
            "api_key": key,
            "context": CONTEXT,
            "threads": _usable_cores(),
            "library": str(Path(library.origin).parent.parent),
        }
        script = Path(__file__).with_name("engine.py")
        with self._lock:
            if self._stopping:
                raise ModelUnavailable("the local model was stopped while it was starting")
            process = self._process = subprocess.Popen(  # noqa: S603 - our own script
                [sys.executable, "-P", str(script)],  # -P: modules in this folder must not shadow others
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        try:
            _input(process).write(json.dumps(config).encode() + b"\n")
            _input(process).flush()
        except OSError:
            line = b""  # the engine has already died; this is reported below
        else:
            line = _output(process).readline()
        _output(process).close()
        if not line:
            code = process.wait(_PATIENCE)
            raise ModelUnavailable(f"the local model's engine exited with code {code} while it was starting")
        report = json.loads(line)
        if "address" not in report:
            raise ModelUnavailable(f"the local model could not be loaded: {one_line(report['error'])}")
        return Endpoint.of(f"{report['address']}/v1", key)


def _usable_cores() -> int:
    """Count the cores available to this process, which may be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _input(process: subprocess.Popen[bytes]) -> IO[bytes]:
    return cast("IO[bytes]", process.stdin)


def _output(process: subprocess.Popen[bytes]) -> IO[bytes]:
    return cast("IO[bytes]", process.stdout)
