"""Processes that begin at once: forked from one that has imported what commands need.

A command imports the library and the OpenAI SDK in two seconds of CPU, and more than a hundred tests start one. Here
each is forked from a process that has done so, and from then on is a process like any: with its own session, streams,
environment, signals and exit code. Tests of the start itself begin with Python's own (`tests.processes.started`).
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import random
import select
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ("Warm", "stand_in")

_LEFT_OUT = ("__main__", "adapters", "notebook", "telemetry", "testing", "workers")
"""Modules of the library that no command imports."""
_servers: dict[int, tuple[socket.socket, int]] = {}
"""The process to fork from, its connection and its id, by the process that started it."""
_asking = threading.Lock()
"""Tests start processes at once: two requests must not mingle."""

_STUB = """
import json, os, signal, socket, sys

server, code, *arguments = sys.argv[1:]
about = {"code": code, "arguments": arguments, "env": dict(os.environ), "cwd": os.getcwd()}
data, (status, theirs) = json.dumps(about).encode(), socket.socketpair()
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect("\\0" + server)
    socket.send_fds(connection, [len(data).to_bytes(4, "big")], [0, 1, 2, theirs.fileno()])
    connection.sendall(data)
    theirs.close()
    child = int.from_bytes(status.recv(4), "big")
signal.signal(signal.SIGTERM, lambda number, _: os.kill(child, number))
ended = os.waitstatus_to_exitcode(int.from_bytes(status.recv(4), "big"))
if ended < 0:
    signal.signal(-ended, signal.SIG_DFL)
    os.kill(os.getpid(), -ended)
sys.exit(ended)
"""
"""A small process that stands for a forked one: a program that starts commands by itself starts this one."""


def stand_in(code: str, *arguments: str) -> list[str]:
    """A command that is started in no time, and is the code `code` in a process forked here: its streams and end."""
    return [sys.executable, "-S", "-E", "-c", _STUB, _address(_server()[1]), code, *arguments]


class Warm:
    """The code `code` in a process, as `subprocess.Popen([sys.executable, "-c", code, *arguments])` has it."""

    def __init__(
        self,
        code: str,
        *arguments: str,
        stdin: int = subprocess.DEVNULL,
        stdout: int | None = None,
        stderr: int | None = None,
        env: Mapping[str, str] | None = None,
        cwd: object = None,
    ) -> None:
        self.returncode: int | None = None
        self.stdout: IO[bytes] | None = None
        self.stderr: IO[bytes] | None = None
        streams, close = [], []
        if stdin == subprocess.DEVNULL:
            stdin = os.open(os.devnull, os.O_RDONLY)
            close.append(stdin)
        streams.append(stdin)
        for name, given in (("stdout", stdout), ("stderr", stderr)):
            if given == subprocess.PIPE:
                reading, writing = os.pipe()
                close.append(writing)
                setattr(self, name, os.fdopen(reading, "rb"))
            else:
                writing = {"stdout": 1, "stderr": 2}[name] if given is None else given
            streams.append(writing)
        self._status, theirs = socket.socketpair()
        asked = {"code": code, "arguments": arguments, "env": dict(os.environ if env is None else env)}
        data = json.dumps({**asked, "cwd": str(Path.cwd() if cwd is None else cwd)}).encode()
        with _asking:
            server, _ = _server()
            socket.send_fds(server, [len(data).to_bytes(4, "big")], [*streams, theirs.fileno()])
            server.sendall(data)
        theirs.close()
        for descriptor in close:
            os.close(descriptor)
        self._status.settimeout(60)  # the first one waits for all the imports
        self.pid = self._read()

    def _read(self) -> int:
        told = self._status.recv(4)
        assert len(told) == 4, "the process that others are forked from is gone"
        return int.from_bytes(told, "big")  # of nothing it would be 0: as a process id, all of this group

    def wait(self, timeout: float) -> int:
        """Its exit code, once it has ended; TimeoutExpired."""
        if self.returncode is None:
            self._status.settimeout(timeout)
            try:
                self.returncode = os.waitstatus_to_exitcode(self._read())
            except TimeoutError:
                raise subprocess.TimeoutExpired(str(self.pid), timeout) from None
            self._status.close()
        return self.returncode

    def communicate(self, timeout: float) -> tuple[bytes, bytes]:
        """All that it writes to its pipes, until it ends; TimeoutExpired."""
        with ThreadPoolExecutor(2) as readers:  # together: a full pipe would hold up the other
            written = [pipe and readers.submit(pipe.read) for pipe in (self.stdout, self.stderr)]
            try:
                self.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()  # its pipes are closed, and the readers come to an end
                raise
            stdout, stderr = (each.result() if each else b"" for each in written)
        return stdout, stderr

    def poll(self) -> int | None:
        """Its exit code, None while it goes on."""
        try:
            return self.wait(0.001)
        except subprocess.TimeoutExpired:
            return None

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has ended, and its exit code is on its way here
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.wait(30)
        for stream in (self.stdout, self.stderr):
            if stream is not None:
                stream.close()


def _address(server: int) -> str:
    return f"flowdebate.tests.warm.{server}"


def _server() -> tuple[socket.socket, int]:
    """The connection to this process's own server, and the server's id."""
    if os.getpid() not in _servers:
        ours, theirs = socket.socketpair()
        process = subprocess.Popen(  # noqa: S603 - this file
            [sys.executable, "-m", "tests.warm", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            cwd=Path(__file__).parents[1],  # the test may be in a folder of its own
            start_new_session=True,  # a test's Ctrl-C is not for it
        )
        theirs.close()
        ours.recv(1)  # it listens
        _servers[os.getpid()] = ours, process.pid

        def stop() -> None:
            ours.close()  # at which it ends
            process.wait(30)

        atexit.register(stop)
    return _servers[os.getpid()]


# The server


def _import_all() -> None:
    import flowdebate

    for module in pkgutil.walk_packages(flowdebate.__path__, "flowdebate."):
        if not any(part in _LEFT_OUT for part in module.name.split(".")):
            importlib.import_module(module.name)
    for name in ("openai.resources.chat.completions", "uvicorn", "rich.live", "httpx2"):
        importlib.import_module(name)
    with suppress(ModuleNotFoundError):  # `make test-newest` does without it
        importlib.import_module("instructor")
    gc.freeze()  # so that children share the pages


def _serve(server: socket.socket) -> str:
    """Fork for each request; comes back in the child alone, with the code that is to run."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"\0{_address(os.getpid())}")
    listener.listen()
    server.send(b"!")
    while True:
        ready, _, _ = select.select([server, listener], [], [])
        source = server if server in ready else listener.accept()[0]
        head, descriptors, _, _ = socket.recv_fds(source, 4, 4)
        with suppress(ChildProcessError):  # what they took counts as this process's
            while os.waitpid(-1, os.WNOHANG if head or source is not server else 0)[0]:
                pass
        if not head and source is server:
            os._exit(0)
        data, size = b"", int.from_bytes(head, "big")
        while len(data) < size:
            data += source.recv(size - len(data))
        if os.fork() == 0:
            server.close()
            listener.close()
            _keep(descriptors[-1])
            return _become(json.loads(data), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        if source is not server:
            source.close()


def _keep(status: int) -> None:
    """Fork once more: the child comes back, its parent tells its process id, and how it ended."""
    child = os.fork()
    if child == 0:
        return
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    os.closerange(0, status)
    os.write(status, child.to_bytes(4, "big"))
    os.write(status, os.waitpid(child, 0)[1].to_bytes(4, "big"))
    os._exit(0)


def _become(asked: dict[str, Any], descriptors: Sequence[int]) -> str:
    """Make this process what Python makes of a new one."""
    os.setsid()
    for target, descriptor in enumerate(descriptors[:3]):
        os.dup2(descriptor, target)
    os.closerange(3, 256)
    os.environ.clear()
    os.environ.update(asked["env"])
    os.chdir(asked["cwd"])
    random.seed()
    sys.argv = ["-c", *asked["arguments"]]
    sys.path[0] = ""
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - open to the end
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(  # noqa: SIM115
        2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False
    )
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return str(asked["code"])


if __name__ == "__main__":
    _import_all()
    exec(_serve(socket.socket(fileno=int(sys.argv[1]))), {"__name__": "__main__"})  # noqa: S102 - what a test asks for
