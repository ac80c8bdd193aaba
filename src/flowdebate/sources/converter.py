"""Conversion of documents in child processes with limited memory and time."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from threading import BoundedSemaphore, Event, Lock, Thread
from time import monotonic
from typing import Literal, TypeAlias

from pydantic import ValidationError

from flowdebate._util.wire import WireModel
from flowdebate.errors import BadFile
from flowdebate.sources.documents import Text, resident_memory

_ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TEMP", "SYSTEMROOT", "LD_LIBRARY_PATH",
                "DYLD_LIBRARY_PATH", "VIRTUAL_ENV", "PYTHONHOME")  # fmt: skip
"""Environment variables passed on to a child process. API keys are left out, because a document may take control of the
parser.
"""
_ROOT = Path(__file__).parents[2]
_MAX_ANSWER_SIZE = 40_000_000
"""Maximum size of an answer, in bytes. Text can grow to six times its size when it is encoded as JSON."""


_LOOK = 0.02
"""Interval in seconds between checks on a busy child process."""
_QUICK = 1.0
"""Time in seconds after which a document must yield its slot to waiting documents."""
_PATIENCE = 60.0
"""Maximum time, in seconds, that a document waits for a free slot."""


class _Answer(WireModel):
    """A child process's answer for the document it was sent.

    It is untrusted, because the document may have taken control of the process.
    """

    parts: tuple[tuple[str, str], ...] = ()
    unread: tuple[str, ...] = ()
    problem: str | None = None
    is_full: bool = False
    """True if converting the document took too much memory."""


_Reason: TypeAlias = Literal["time", "memory", "turn"]
"""Reason for killing a busy child process: it took too long, it grew too large, or other documents are waiting."""


class _Child:
    """Child process that converts documents."""

    def __init__(self, memory: int, seconds: float) -> None:
        path = [str(_ROOT), *(str(Path(entry).absolute()) for entry in sys.path if entry)]
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter
            # -P: do not import modules from the current folder, which may contain untrusted documents
            [sys.executable, "-P", "-c", f"from flowdebate.sources.documents import serve; serve({memory}, {seconds})"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={
                **{name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
                **dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1"),
                "PYTHONPATH": os.pathsep.join(dict.fromkeys(path)),
            },
            start_new_session=True,  # only the parent handles Ctrl-C
        )
        self.is_new = True

    def ask(self, head: bytes, data: bytes) -> bytes:
        """Send a document to the child process and return the answer; return b"" if it exits without answering."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None  # noqa: S101 - they are pipes
        assert stdout is not None  # noqa: S101
        try:
            stdin.write(head)
            stdin.write(data)
            stdin.flush()
            answer = stdout.readline(_MAX_ANSWER_SIZE)
        except OSError:
            return b""
        self.is_new = False
        return answer if answer.endswith(b"\n") else b""

    @property
    def resident(self) -> int:
        """Memory used by the process, in bytes; 0 if the system does not report it."""
        return resident_memory(self._process.pid)

    @property
    def is_alive(self) -> bool:
        """Return whether the process is still running."""
        return self._process.poll() is None

    def kill(self) -> None:
        """Kill the process immediately, even if it is busy."""
        self._process.kill()

    def close(self) -> None:
        """Stop the process and wait until it has exited."""
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):  # closing flushes unsent data, which may fail
                    pipe.close()
        self._process.wait()


class Converter:
    """Pool of child processes, each converting one document at a time.

    A slow document yields to waiting documents and joins the queue for slow documents, where its conversion starts
    over.
    """

    def __init__(self, *, memory: int = 400, seconds: float = 15.0) -> None:
        self.memory = memory
        """Memory limit per child process, in megabytes."""
        self.seconds = seconds
        """Time limit per document, in seconds."""
        self._idle: list[_Child] = []
        self._lock = Lock()
        self._quick, self._slow = BoundedSemaphore(4), BoundedSemaphore(2)
        self._waiting = 0

    def convert(self, path: str, data: bytes, kind: str) -> Text:
        """Convert a document of one of the `KINDS`.

        Raises BadFile, naming the `path`, if the document contains no text, or if the conversion takes too long or uses
        too much memory.
        """
        try:
            with self._slot(path, self._quick):
                answer = self._answer(data, kind, gives_way=True)
            if answer == "turn":
                with self._slot(path, self._slow):
                    answer = self._answer(data, kind, gives_way=False)
        except OSError as error:
            raise BadFile(
                path, f"cannot be read: could not start the process that reads it ({error.strerror})"
            ) from None
        if answer == "time":
            problem: str | None = f"takes more than {self.seconds:g} s to read: split it, or save it as text"
        elif not isinstance(answer, _Answer) or answer.is_full:
            problem = f"takes more than {self.memory} MB of memory to read: split it, or save it as text"
        else:
            problem = answer.problem
            text = Text(parts=[*answer.parts], unread=[*answer.unread])
        if problem is not None:
            raise BadFile(path, problem)
        return text

    def close(self) -> None:
        """Stop all idle child processes."""
        with self._lock:
            idle, self._idle = self._idle, []
        for child in idle:
            child.close()

    @contextmanager
    def _slot(self, path: str, places: BoundedSemaphore) -> Iterator[None]:
        """Reserve a slot for a document for the duration of the context; raise BadFile if none becomes free in time."""
        if not places.acquire(blocking=False):
            with self._lock:
                self._waiting += places is self._quick
            free = places.acquire(timeout=_PATIENCE)
            with self._lock:
                self._waiting -= places is self._quick
            if not free:
                raise BadFile(
                    path, "cannot be read now because too many other files are being read: try again in a minute"
                )
        try:
            yield
        finally:
            places.release()

    def _answer(self, data: bytes, kind: str, *, gives_way: bool) -> _Answer | _Reason:
        """Return a child's answer, or the reason why the child was killed.

        A child is killed to make room for waiting documents ("turn") only if `gives_way` is True.
        """
        head = json.dumps({"kind": kind, "size": len(data)}).encode() + b"\n"
        child = self._take()
        while True:
            was_idle, answer = not child.is_new, None
            ended: list[_Reason] = []
            try:
                with self._watch(child, ended, gives_way=gives_way):
                    line = child.ask(head, data)
                with suppress(ValidationError):
                    answer = _Answer.model_validate_json(line)
            finally:
                if answer is None or answer.is_full or ended:
                    child.close()
                else:
                    with self._lock:
                        self._idle.append(child)
            if answer is not None:
                return answer
            if ended:
                return ended[0]
            if not was_idle:
                why = f"it is damaged, or takes more than {self.memory} MB of memory"
                return _Answer(problem=f"crashes the process that reads it: {why}")
            child = _Child(self.memory, self.seconds)  # an idle child may have exited since its last request

    def _take(self) -> _Child:
        """Take an idle child process, or start a new one."""
        while True:
            with self._lock:
                child = self._idle.pop() if self._idle else None
            if child is None:
                return _Child(self.memory, self.seconds)
            if child.is_alive:
                return child
            child.close()

    @contextmanager
    def _watch(self, child: _Child, ended: list[_Reason], *, gives_way: bool) -> Iterator[None]:
        """Kill a child process that takes too long or uses too much memory, and append the reason to `ended`."""
        done, start = Event(), monotonic()

        def watch() -> None:
            while not done.wait(_LOOK):
                spent = monotonic() - start
                if spent > self.seconds:
                    ended.append("time")
                elif child.resident > self.memory * 1_000_000:
                    ended.append("memory")
                elif gives_way and spent > _QUICK and self._waiting:
                    ended.append("turn")
                else:
                    continue
                child.kill()
                return

        watcher = Thread(target=watch, name="flowdebate-document", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()


@lru_cache(maxsize=1)
def shared_converter() -> Converter:
    """Return the converter shared by this process."""
    return Converter()


@atexit.register
def _close_shared() -> None:
    if shared_converter.cache_info().currsize:
        shared_converter().close()


if hasattr(os, "register_at_fork"):  # a forked process needs a new converter, because processes cannot share a child
    os.register_at_fork(after_in_child=shared_converter.cache_clear)
