"""Fast processes, forked from a process that has imported the requirements of commands.

A command takes two seconds of CPU time to import the library and the OpenAI SDK, and more than a hundred tests start
one. Here each command is forked from a process with these imports. It then behaves like any other process, with its own
session, streams, environment, signals and exit code. Tests of process startup use a new Python (`tests.processes`).

All pytest-xdist workers share the process to fork from, and their controller starts it (`tests.processes`). Its imports
run when the first process is requested.
"""

from __future__ import annotations

import atexit
import ctypes
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

__all__ = ("Warm", "run_module", "run_path", "run_warm", "server", "share", "stub_command")

_LEFT_OUT = ("__main__", "adapters", "notebook", "telemetry", "testing", "workers")
"""Library modules that no command imports."""
_servers: dict[int, str] = {}
"""Address of the process to fork from, keyed by the process that requests it."""
_starting = threading.Lock()
"""Lock for tests that start processes concurrently."""

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
"""Code of a small process that represents a forked one, for programs that start commands themselves."""


def run_module(name: str) -> str:
    """Return code equivalent to `python -m name`."""
    return f"import runpy; runpy.run_module({name!r}, run_name='__main__', alter_sys=True)"


def run_path(path: str) -> str:
    """Return code equivalent to `python path`."""
    return f"import runpy; runpy.run_path({path!r}, run_name='__main__')"


def stub_command(code: str, *arguments: str) -> list[str]:
    """Return a command that starts quickly and represents a process forked here to run `code`."""
    return [sys.executable, "-S", "-E", "-c", _STUB, server(), code, *arguments]


class Warm:
    """A process that runs `code`, with the interface of `subprocess.Popen`."""

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
        for name, target in (("stdout", stdout), ("stderr", stderr)):
            if target == subprocess.PIPE:
                reading, writing = os.pipe()
                close.append(writing)
                setattr(self, name, os.fdopen(reading, "rb"))
            else:
                writing = {"stdout": 1, "stderr": 2}[name] if target is None else target
            streams.append(writing)
        self._status, remote = socket.socketpair()
        request = {"code": code, "arguments": arguments, "env": dict(os.environ if env is None else env)}
        data = json.dumps({**request, "cwd": str(Path.cwd() if cwd is None else cwd)}).encode()
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(f"\0{server()}")
            socket.send_fds(connection, [len(data).to_bytes(4, "big")], [*streams, remote.fileno()])
            connection.sendall(data)
        remote.close()
        for descriptor in close:
            os.close(descriptor)
        self._status.settimeout(60)  # the first process has to wait for all imports
        self.pid = self._read()

    def _read(self) -> int:
        data = self._status.recv(4)
        assert len(data) == 4, "the process that others are forked from is gone"
        # missing data would become 0, and process id 0 stands for this whole process group
        return int.from_bytes(data, "big")

    def wait(self, timeout: float) -> int:
        """Wait for the process to end and return its exit code, or raise TimeoutExpired if it does not end in time."""
        if self.returncode is None:
            self._status.settimeout(timeout)
            try:
                self.returncode = os.waitstatus_to_exitcode(self._read())
            except TimeoutError:
                raise subprocess.TimeoutExpired(str(self.pid), timeout) from None
            self._status.close()
        return self.returncode

    def communicate(self, timeout: float) -> tuple[bytes, bytes]:
        """Return all output until the process ends, or raise TimeoutExpired if it does not end in time."""
        with ThreadPoolExecutor(2) as readers:  # read both concurrently, since a full pipe would block the other
            written = [pipe and readers.submit(pipe.read) for pipe in (self.stdout, self.stderr)]
            try:
                self.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()  # this closes its pipes, so the readers end
                raise
            stdout, stderr = (future.result() if future else b"" for future in written)
        self._close()
        return stdout, stderr

    def poll(self) -> int | None:
        """Return the exit code, or None if the process is still running."""
        try:
            return self.wait(0.001)
        except subprocess.TimeoutExpired:
            return None

    def send_signal(self, number: int) -> None:
        """Send a signal unless the process has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has ended, and its exit code is about to arrive
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
        self._close()

    def _close(self) -> None:
        for stream in (self.stdout, self.stderr):
            if stream is not None:
                stream.close()


def run_warm(
    code: str,
    *arguments: str,
    timeout: float = 60,
    env: Mapping[str, str] | None = None,
    cwd: object = None,
    check: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Run `code` in a process until it ends, like `subprocess.run(…, capture_output=True, text=True)`."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Warm(code, *arguments, env=env, cwd=cwd, **pipes) as process:
        stdout, stderr = (written.decode() for written in process.communicate(timeout))
    done = subprocess.CompletedProcess([code, *arguments], process.wait(timeout), stdout, stderr)
    if check:
        assert done.returncode == 0, stderr
    return done


def share(address: str) -> None:
    """Make this process fork from one that another process has started."""
    _servers[os.getpid()] = address


def server() -> str:
    """Return the address of the process to fork from, starting it if necessary; it ends with its parent."""
    with _starting:
        if os.getpid() not in _servers:
            _servers[os.getpid()] = _start()
        return _servers[os.getpid()]


def _start() -> str:
    local, remote = socket.socketpair()
    process = subprocess.Popen(  # noqa: S603 - this file
        [sys.executable, "-m", "tests.warm", str(remote.fileno())],
        pass_fds=[remote.fileno()],
        cwd=Path(__file__).parents[1],  # the test may have changed the working directory
        start_new_session=True,  # Ctrl-C in a test must not reach this process
    )
    remote.close()
    local.recv(1)  # wait until it listens

    def stop() -> None:
        local.close()  # closing the socket ends the process
        process.wait(30)

    atexit.register(stop)
    return _address(process.pid)


def _address(process: int) -> str:
    return f"flowdebate.tests.warm.{process}"


# Server


def _warm_up() -> None:
    import flowdebate

    for module in pkgutil.walk_packages(flowdebate.__path__, "flowdebate."):
        if not any(part in _LEFT_OUT for part in module.name.split(".")):
            importlib.import_module(module.name)
    for name in ("openai.resources.chat.completions", "uvicorn", "rich.live", "httpx2"):
        importlib.import_module(name)
    for name in ("dbos", "instructor"):  # used by workers and some commands; `make test-newest` runs without them
        with suppress(ModuleNotFoundError):
            importlib.import_module(name)
    _debate_once()
    gc.freeze()  # freeze objects so that children share the memory pages


def _debate_once() -> None:
    """Run a debate to build validators and trigger imports that happen on first use."""
    from openai.types.chat import ChatCompletion, ChatCompletionChunk

    from flowdebate import Debater, debate
    from flowdebate.testing import FunctionModel

    verdict = {"reasoning": "-", "winner": None, "verdict": "-"}
    sides = [Debater("ann", "for"), Debater("bob", "against")]
    first = debate(name="first", debaters=sides, max_rounds=1, moderator=False)
    first.run_sync("?", model=FunctionModel(lambda request: verdict if request.output_schema else "-"), store=False)
    for answer in (ChatCompletion, ChatCompletionChunk):
        answer.model_rebuild()
    assert threading.active_count() == 1, "a process with threads must not be forked"


def _serve(owner: socket.socket) -> str:
    """Fork for each request until `owner` is closed. Only the child returns, with the code to run."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"\0{_address(os.getpid())}")
    listener.listen()
    owner.send(b"!")
    running: dict[int, tuple[int, int]] = {}
    while True:
        watched: list[socket.socket | int] = [owner, listener, *running]
        ready, _, _ = select.select(watched, [], [])
        for ended in running.keys() & set(ready):
            _tell_end(*running.pop(ended))
            os.close(ended)
        if owner in ready:
            for child, status in running.values():  # the resource usage of children is added to that of this process
                _tell_end(child, status)
            os._exit(0)
        if listener not in ready:
            continue
        if "flowdebate" not in sys.modules:
            _warm_up()
        data, descriptors = _request(listener)
        if not data:
            continue
        child = os.fork()
        if child == 0:
            owner.close()
            listener.close()
            return _become(json.loads(data), descriptors)
        for descriptor in descriptors[:3]:
            os.close(descriptor)
        _tell(descriptors[3], child)
        running[os.pidfd_open(child)] = child, descriptors[3]


def _request(listener: socket.socket) -> tuple[bytes, list[int]]:
    """Read a request and its streams, or return empty data if the caller has been killed in the meantime."""
    with listener.accept()[0] as source:
        head, descriptors, _, _ = socket.recv_fds(source, 4, 4)
        data, size = b"", int.from_bytes(head, "big")
        while len(data) < size and (more := source.recv(size - len(data))):
            data += more
    if head and len(data) == size:
        return data, descriptors
    for descriptor in descriptors:
        os.close(descriptor)
    return b"", []


def _tell_end(child: int, status: int) -> None:
    """Report how a child process ended."""
    _tell(status, os.waitpid(child, 0)[1])
    os.close(status)


def _tell(status: int, number: int) -> None:
    with suppress(BrokenPipeError):  # nobody is listening anymore
        os.write(status, number.to_bytes(4, "big"))


def _become(request: dict[str, Any], descriptors: Sequence[int]) -> str:
    """Set up this process as Python sets up a new one."""
    os.setsid()
    for target, descriptor in enumerate(descriptors[:3]):
        os.dup2(descriptor, target)
    os.closerange(3, 256)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    random.seed()
    sys.argv = ["-c", *request["arguments"]]
    sys.path[0] = ""
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - open to the end
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(  # noqa: SIM115
        2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False
    )
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return str(request["code"])


def _leave_modules() -> None:
    """Skip the teardown of inherited modules at exit, since it would copy every memory page."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(dict(sys.modules)))  # keep a reference forever
    sys.modules.clear()


if __name__ == "__main__":
    atexit.register(_leave_modules)  # registered first, so it is called last
    exec(_serve(socket.socket(fileno=int(sys.argv[1]))), {"__name__": "__main__"})  # noqa: S102 - what a test asks for
