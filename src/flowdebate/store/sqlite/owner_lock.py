"""Who carries out runs: a process shows that it lives by holding a lock on a file, which dies with it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

__all__ = ("Owner",)


class Owner:
    """One owner of runs; alive until it is let go of, or its process ends in whatever way."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.id = os.urandom(8).hex()
        self._lock = FileLock(folder / self.id, thread_local=False)
        self._lock.acquire(blocking=False)

    def lives(self, owner: str) -> bool:
        """Whether the owner with this id is alive; what a dead one left is cleared away."""
        if owner == self.id:
            return True
        path = self._folder / Path(owner).name
        if not path.exists():
            return False
        lock = FileLock(path, thread_local=False)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            return True
        with suppress(OSError):
            path.unlink()
        lock.release(force=True)
        return False

    def begun(self, owner: str) -> Path:
        """Where that owner writes down what it begins."""
        return self._folder / f"{Path(owner).name}.begun"

    def end(self) -> None:
        """Be no owner any more."""
        self._lock.release(force=True)
        with suppress(OSError):
            (self._folder / self.id).unlink()
