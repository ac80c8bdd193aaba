"""Waiting for the disk in a thread, once for all that was written meanwhile."""

from __future__ import annotations

import os
import queue
import threading
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ("Disk",)

_Told: TypeAlias = "Callable[[OSError | None], None]"


class Disk:
    """Puts on the disk what SQLite has written to the log of the database at `path`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle: int | None = None
        self._waiting: queue.SimpleQueue[_Told | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self.lost: OSError | None = None
        """Why the disk did not take what was written. What it has of it nobody knows: nothing more may follow."""

    def sync(self, told: _Told) -> None:
        """Call `told` from the thread, once all that has been written is on the disk, or with why it may not be."""
        if self._thread is None:
            with self._lock:  # two loops may come to it at once
                if self._thread is None:
                    self._thread = threading.Thread(target=self._work, name="flowdebate-disk", daemon=True)
                    self._thread.start()
        self._waiting.put(told)

    def close(self) -> None:
        """End the thread when all were told, and wait for it."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._waiting.put(None)
            thread.join()
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)

    def _work(self) -> None:
        while (told := self._waiting.get()) is not None:
            if self.lost is None:
                try:
                    if self._handle is None:
                        self._handle = os.open(f"{os.path.realpath(self._path)}-wal", os.O_RDWR)
                    _sync(self._handle)
                except OSError as error:
                    self.lost = error
            told(self.lost)


_sync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)
