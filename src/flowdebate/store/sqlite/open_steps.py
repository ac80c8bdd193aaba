"""Steps that are begun and not finished, in a file beside the database: they are written often, and read rarely."""

from __future__ import annotations

import errno
import json
import os
import threading
from json.encoder import encode_basestring_ascii as _text
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from flowdebate.store.base import StepKind

__all__ = (
    "Attempt",
    "Begun",
    "begun_in",
)

_LONG = 1 << 20
"""Bytes: how long a file gets before what is finished is left out of it."""


class Attempt(NamedTuple):
    """The last attempt at an open step."""

    kind: StepKind
    request: str | None
    number: int


_NONE = Attempt("call", None, 0)


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
        self._runs: dict[str, dict[str, Attempt | None]] = {}
        """The steps of each run that it carries out: the last attempt, None for a step that is finished."""

    @property
    def runs(self) -> tuple[str, ...]:
        """Those that it carries out."""
        return tuple(self._runs)

    def carries_out(self, run_id: str) -> bool:
        """Whether it is one of them."""
        return run_id in self._runs

    def carry_out(self, run_id: str, attempts: Mapping[str, Attempt], finished: Iterable[str]) -> None:
        """Begin to carry out a run, of which these steps are open and finished; OSError where that cannot be written.

        What the file says of the run so far is true no more: it may be of another one that was deleted.
        """
        self._write(f"\n[{_text(run_id)}, null]".encode())
        self._runs[run_id] = {**attempts, **dict.fromkeys(finished)}

    def leave(self, run_id: str) -> None:
        """Carry it out no more."""
        self._runs.pop(run_id, None)

    def attempt(self, run_id: str, key: str, kind: StepKind, request: str | None) -> int | None:
        """Write down that a step is begun: the attempt's number; None, and nothing written, for one that is finished.

        Nor for a run that is not carried out here. OSError where it cannot be written.
        """
        run = self._runs.get(run_id)
        if run is None:
            return None
        before = run.get(key, _NONE)
        if before is None:
            return None
        attempt = Attempt(kind, request, before.number + 1)
        self._write(_line(run_id, key, attempt))
        run[key] = attempt
        return attempt.number

    def last(self, run_id: str, key: str) -> Attempt | None:
        """The last attempt at a step, if that is open."""
        return self._runs.get(run_id, {}).get(key)

    def attempts(self, run_id: str) -> dict[str, Attempt]:
        """The last attempts at the run's open steps, by their keys."""
        steps = list(self._runs.get(run_id, {}).items())  # at once, since another thread may begin one
        return {key: attempt for key, attempt in steps if attempt is not None}

    def finish(self, run_id: str, key: str) -> None:
        """A step is open no more."""
        if run_id in self._runs:
            self._runs[run_id][key] = None

    def close(self, *, remove: bool) -> None:
        """Write no more; `remove` the file where all that is open is in the database."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
            if remove:
                self._path.unlink(missing_ok=True)

    def _write(self, line: bytes) -> None:
        with self._lock:
            if self._size > self._long:
                self._shorten()
            written = os.write(self._opened(), line)
            self._size += written
        if written < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))

    def _opened(self) -> int:
        if self._file is None:
            self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        return self._file

    def _shorten(self) -> None:
        """Write the file anew, with no more than what is open."""
        open_now = [(run_id, *each) for run_id in self.runs for each in self.attempts(run_id).items()]
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
    """The last attempts at a run's steps since it is carried out, as the file at `path` has them; finished or not."""
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return {}
    start = f"[{_text(run_id)}, ".encode()
    found: dict[str, Attempt] = {}
    for line in lines:
        if line.startswith(start):
            try:
                _, key, *attempt = json.loads(line)
            except ValueError:  # the disk was full in the midst of it
                continue
            if key is None:  # it is carried out anew
                found = {}
            else:
                found[key] = Attempt(*attempt)
    return found


def _line(run_id: str, key: str, attempt: Attempt) -> bytes:
    """An attempt as a line, which begins with its end: what stands before it may have been cut off."""
    request = "null" if attempt.request is None else _text(attempt.request)
    return f"\n[{_text(run_id)}, {_text(key)}, {_text(attempt.kind)}, {request}, {attempt.number}]".encode()
