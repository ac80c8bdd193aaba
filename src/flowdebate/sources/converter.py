"""Conversion of documents in child processes, whose memory and time are limited."""

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
"""Variables that a child needs: no keys, whatever a document makes of its parser."""
_ROOT = Path(__file__).parents[2]
_LONGEST_ANSWER = 40_000_000
"""Bytes of an answer: a text as JSON may take six times its size."""


_LOOK = 0.02
"""Seconds between two looks at a child that works."""
_QUICK = 1.0
"""Seconds after which a document gives way to others that wait."""
_PATIENCE = 60.0
"""Seconds that a document waits for its turn."""


class _Answer(WireModel):
    """What a child says of a document; it may be anything, if a document has taken the child over."""

    parts: tuple[tuple[str, str], ...] = ()
    unread: tuple[str, ...] = ()
    problem: str | None = None
    is_full: bool = False
    """Whether it took too much memory."""


_Reason: TypeAlias = Literal["time", "memory", "turn"]
"""Why a child was ended while it worked: too long, too large, or others wait."""


class _Child:
    """A process that converts documents."""

    def __init__(self, memory: int, seconds: float) -> None:
        path = [str(_ROOT), *(str(Path(entry).absolute()) for entry in sys.path if entry)]
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter
            # -P: without the modules of the folder in which somebody reads documents of others
            [sys.executable, "-P", "-c", f"from flowdebate.sources.documents import serve; serve({memory}, {seconds})"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={
                **{name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
                **dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1"),
                "PYTHONPATH": os.pathsep.join(dict.fromkeys(path)),
            },
            start_new_session=True,  # Ctrl-C is for the parent
        )
        self.is_new = True

    def ask(self, head: bytes, data: bytes) -> bytes:
        """Send a document, and return the answer; b"" from a child that ended without one."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None  # noqa: S101 - they are pipes
        assert stdout is not None  # noqa: S101
        try:
            stdin.write(head)
            stdin.write(data)
            stdin.flush()
            answer = stdout.readline(_LONGEST_ANSWER)
        except OSError:
            return b""
        self.is_new = False
        return answer if answer.endswith(b"\n") else b""

    @property
    def resident(self) -> int:
        """Memory in bytes; 0 where the system does not say."""
        return resident_memory(self._process.pid)

    @property
    def is_alive(self) -> bool:
        """Whether the process can still be asked."""
        return self._process.poll() is None

    def kill(self) -> None:
        """End it at once, whatever it does."""
        self._process.kill()

    def close(self) -> None:
        """End it, and wait until it is gone."""
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):  # what was not sent
                    pipe.close()
        self._process.wait()


class Converter:
    """Children that convert documents: a few at once, and each one document after the other.

    A document that takes long gives way to others that wait, and is converted anew among those that take long.
    """

    def __init__(self, *, memory: int = 400, seconds: float = 15.0) -> None:
        self.memory = memory
        """Megabytes that the child of a document may take."""
        self.seconds = seconds
        """Seconds that a document may take."""
        self._idle: list[_Child] = []
        self._lock = Lock()
        self._quick, self._slow = BoundedSemaphore(4), BoundedSemaphore(2)
        self._waiting = 0

    def convert(self, path: str, data: bytes, kind: str) -> Text:
        """Convert a document of one of the `KINDS`.

        BadFile, about its `path`, for one without text, and for one that takes too long or too much memory.
        """
        try:
            with self._place(path, self._quick):
                answer = self._answer(data, kind, gives_way=True)
            if answer == "turn":
                with self._place(path, self._slow):
                    answer = self._answer(data, kind, gives_way=False)
        except OSError as error:
            raise BadFile(path, f"cannot be read: no process can be started to read it ({error.strerror})") from None
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
        """End the children that wait for work."""
        with self._lock:
            idle, self._idle = self._idle, []
        for child in idle:
            child.close()

    @contextmanager
    def _place(self, path: str, places: BoundedSemaphore) -> Iterator[None]:
        """Hold one of the places for documents. BadFile where none gets free for long."""
        if not places.acquire(blocking=False):
            with self._lock:
                self._waiting += places is self._quick
            free = places.acquire(timeout=_PATIENCE)
            with self._lock:
                self._waiting -= places is self._quick
            if not free:
                raise BadFile(path, "cannot be read now, since others are being read: try again in a minute")
        try:
            yield
        finally:
            places.release()

    def _answer(self, data: bytes, kind: str, *, gives_way: bool) -> _Answer | _Reason:
        """Ask a child, and say why it was ended where it was; where the document `gives_way`, also for its turn."""
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
                return _Answer(problem=f"ends the process that reads it: {why}")
            child = _Child(self.memory, self.seconds)  # the other one may have ended before it was asked

    def _take(self) -> _Child:
        """Take an idle child, or start one."""
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
        """Inside, kill a child that takes too long or too much, and say so in `ended`."""
        done, began = Event(), monotonic()

        def watch() -> None:
            while not done.wait(_LOOK):
                spent = monotonic() - began
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
    """Return the converter of this process."""
    return Converter()


@atexit.register
def _close_shared() -> None:
    if shared_converter.cache_info().currsize:
        shared_converter().close()


if hasattr(os, "register_at_fork"):  # a fork has its own: two processes cannot ask one child
    os.register_at_fork(after_in_child=shared_converter.cache_clear)
