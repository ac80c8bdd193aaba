"""Owner of runs in a SQLite store: its lock file, and its log of open steps.

Both files are in a folder next to the database. The lock shows that the owner's process is alive, and disappears with
that process. The log is written on every attempt at a step, but read only when another process takes over a run.
"""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from json.encoder import encode_basestring_ascii as _text
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from filelock import FileLock, Timeout

from flowdebate._util.files import make_private_folder, open_private

if TYPE_CHECKING:
    from flowdebate.store.base import StepKind


class Owner:
    """Owner of runs: alive until `end` is called or its process exits for any reason."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        make_private_folder(folder)
        self.id: str = os.urandom(8).hex()
        # Not bound to a thread: the first thread that writes acquires it, but any thread may close the store and
        # release it.
        self._lock = FileLock(folder / self.id, mode=0o600, thread_local=False)
        self._lock.acquire(blocking=False)

    def is_alive(self, owner: str) -> bool:
        """Return whether the owner with this id is alive; if it is dead, remove its lock file."""
        if owner == self.id:
            return True
        # Use only the last component, because the id comes from a file that anyone may have written.
        path = self._folder / Path(owner).name
        if not path.exists():
            return False
        lock = FileLock(path, mode=0o600, thread_local=False)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            return True
        with suppress(OSError):
            path.unlink()
        lock.release(force=True)
        return False

    def log_of(self, owner: str) -> Path:
        """Return the path of an owner's log of open steps."""
        return self._folder / f"{Path(owner).name}.begun"

    def end(self) -> None:
        """Release the lock and remove its file."""
        self._lock.release(force=True)
        with suppress(OSError):
            (self._folder / self.id).unlink()


_LONG = 1 << 20
"""Number of bytes by which a log may grow before it is rewritten without the finished steps."""


class Attempt(NamedTuple):
    """The latest attempt at an open step."""

    kind: StepKind
    request: str | None
    number: int


_NONE = Attempt("call", None, 0)


class OpenSteps:
    """Open steps of all runs that belong to one owner.

    Each attempt is a line in the log at `path`. The log outlives the process, so that other processes can read it when
    they take over the owner's runs.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._size = 0
        self._long = _LONG
        self._lock = threading.Lock()
        self._runs: dict[str, dict[str, Attempt | None]] = {}
        """The latest attempt at each step of each run being executed; None for a finished step."""

    @property
    def runs(self) -> tuple[str, ...]:
        return tuple(self._runs)

    def has_run(self, run_id: str) -> bool:
        return run_id in self._runs

    def add_run(self, run_id: str, attempts: Mapping[str, Attempt], finished: Iterable[str]) -> None:
        """Start tracking a run with the given open and finished steps; raise OSError if the log cannot be written.

        From then on, earlier lines about the run are ignored, because they may belong to a deleted run with the same
        id.
        """
        self._write(f"\n[{_text(run_id)}, null]".encode())
        self._runs[run_id] = {**attempts, **dict.fromkeys(finished)}

    def remove_run(self, run_id: str) -> None:
        self._runs.pop(run_id, None)

    def begin(self, run_id: str, key: str, kind: StepKind, request: str | None) -> int | None:
        """Log an attempt at a step, and return its number; raise OSError if the log cannot be written.

        If the step is finished, or if this owner is not executing the run, write nothing and return None.
        """
        run = self._runs.get(run_id)
        if run is None:
            return None
        before = run.get(key, _NONE)
        if before is None:
            return None
        attempt = Attempt(kind, request, before.number + 1)
        # Write to the log first, because every request must be on record before it is sent.
        self._write(_line(run_id, key, attempt))
        run[key] = attempt
        return attempt.number

    def last(self, run_id: str, key: str) -> Attempt | None:
        """Return the latest attempt at a step; None if the step is not open."""
        return self._runs.get(run_id, {}).get(key)

    def attempts(self, run_id: str) -> dict[str, Attempt]:
        """Return the latest attempts at the run's open steps, keyed by step."""
        steps = list(self._runs.get(run_id, {}).items())  # copied immediately because another thread may begin a step
        return {key: attempt for key, attempt in steps if attempt is not None}

    def finish(self, run_id: str, key: str) -> None:
        if run_id in self._runs:
            self._runs[run_id][key] = None

    def close(self, *, remove: bool) -> None:
        """Close the log. With `remove`, also delete it, which is safe once all open steps are in the database."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
            if remove:
                self._path.unlink(missing_ok=True)

    def _write(self, line: bytes) -> None:
        with self._lock:
            if self._size > self._long:
                self._shorten()
            if self._file is None:
                self._file = open_private(self._path, os.O_WRONLY | os.O_APPEND)
            written = os.write(self._file, line)
            self._size += written
        if written < len(line):  # on a nearly full disk, part of a line may be written without an error
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))

    def _shorten(self) -> None:
        """Rewrite the log, keeping only the open steps."""
        open_now = [(run_id, *attempt) for run_id in self.runs for attempt in self.attempts(run_id).items()]
        lines = b"".join(_line(*attempt) for attempt in open_now)
        part = self._path.with_suffix(".part")
        with os.fdopen(open_private(part, os.O_WRONLY | os.O_TRUNC), "wb") as file:
            file.write(lines)
        # This is atomic: if the process dies here, either the old or the new log remains, and each is complete.
        part.replace(self._path)
        if self._file is not None:
            os.close(self._file)
            self._file = None
        self._size = len(lines)
        self._long = self._size + _LONG


def read_open_steps(path: Path, run_id: str) -> dict[str, Attempt]:
    """Read the latest attempt at each step of a run, whether open or finished.

    Lines written before the run was last added to the log at `path` are ignored.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return {}
    start = f"[{_text(run_id)}, ".encode()
    steps: dict[str, Attempt] = {}
    for line in lines:
        if line.startswith(start):
            try:
                _, key, *attempt = json.loads(line)
            except ValueError:  # the disk filled up in the middle of this line
                continue
            if key is None:  # from this line on, the run is tracked anew
                steps = {}
            else:
                steps[key] = Attempt(*attempt)
    return steps


def _line(run_id: str, key: str, attempt: Attempt) -> bytes:
    """Format an attempt as a log line; it starts with a line break, because the previous line may have been cut off."""
    request = "null" if attempt.request is None else _text(attempt.request)
    return f"\n[{_text(run_id)}, {_text(key)}, {_text(attempt.kind)}, {request}, {attempt.number}]".encode()
