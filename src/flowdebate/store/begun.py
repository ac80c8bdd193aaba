"""Steps that are begun and not finished, in a file beside the database: they are written often, and read rarely."""

from __future__ import annotations

import errno
import json
import os
import threading
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from flowdebate.store.port import StepKind

__all__ = ("Attempt", "Begun", "begun_in")

_LONG = 1 << 20
"""Bytes: how long a file gets before what is finished is left out of it."""


class Attempt(NamedTuple):
    """The last attempt at an open step."""

    kind: StepKind
    request: str | None
    number: int


class Begun:
    """What one owner has begun and not finished, of all runs that it carries out.

    Each attempt is a line in the file `path`, which outlives the process, for those who take its runs over.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._size = 0
        self._long = _LONG
        self._lock = threading.Lock()
        self._open: dict[str, dict[str, Attempt]] = {}
        self._finished: dict[str, set[str]] = {}

    @property
    def runs(self) -> tuple[str, ...]:
        """Those that it carries out."""
        return tuple(self._open)

    def carries_out(self, run_id: str) -> bool:
        """Whether it is one of them."""
        return run_id in self._open

    def carry_out(self, run_id: str, attempts: Mapping[str, Attempt], finished: Iterable[str]) -> None:
        """Begin to carry out a run, of which these steps are open and finished."""
        self._finished[run_id] = set(finished)
        self._open[run_id] = dict(attempts)

    def leave(self, run_id: str) -> None:
        """Carry it out no more."""
        self._open.pop(run_id, None)
        self._finished.pop(run_id, None)

    def attempt(self, run_id: str, key: str, kind: StepKind, request: str | None) -> int | None:
        """Write down that a step is begun: the attempt's number; None, and nothing written, for one that is finished.

        Nor for a run that is not carried out here. OSError where it cannot be written.
        """
        run = self._open.get(run_id)
        if run is None or key in self._finished[run_id]:
            return None
        before = run.get(key)
        attempt = Attempt(kind, request, 1 if before is None else before.number + 1)
        line = _line(run_id, key, attempt)
        with self._lock:
            if self._size > self._long:
                self._shorten()
            written = os.write(self._opened(), line)
            self._size += written
        if written < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
        run[key] = attempt
        return attempt.number

    def attempts(self, run_id: str) -> Mapping[str, Attempt]:
        """The run's open steps, by their keys."""
        return self._open.get(run_id, {})

    def finish(self, run_id: str, key: str) -> None:
        """A step is open no more."""
        if run_id in self._open:
            self._open[run_id].pop(key, None)
            self._finished[run_id].add(key)

    def close(self) -> None:
        """Remove the file: what is open is in the database."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
            self._path.unlink(missing_ok=True)

    def _opened(self) -> int:
        if self._file is None:
            self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        return self._file

    def _shorten(self) -> None:
        """Write the file anew, with no more than what is open."""
        open_now = [(run_id, *each) for run_id, run in list(self._open.items()) for each in list(run.items())]
        lines = b"".join(_line(*each) for each in open_now)
        part = self._path.with_suffix(".part")
        part.write_bytes(lines)
        part.replace(self._path)
        if self._file is not None:
            os.close(self._file)
            self._file = None
        self._size = len(lines)
        self._long = self._size + _LONG


def begun_in(path: Path, run_id: str) -> dict[str, Attempt]:
    """The last attempts at steps of a run that stand in the file at `path`, if it is there; finished or not."""
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return {}
    start = f"[{json.dumps(run_id)}, ".encode()
    found: dict[str, Attempt] = {}
    for line in lines:
        if line.startswith(start):
            try:
                _, key, kind, request, number = json.loads(line)
            except ValueError:  # the disk was full in the midst of it
                continue
            found[key] = Attempt(kind, request, number)
    return found


def _line(run_id: str, key: str, attempt: Attempt) -> bytes:
    """An attempt as a line, which begins with its end: what stands before it may have been cut off."""
    return f"\n{json.dumps([run_id, key, *attempt])}".encode()
