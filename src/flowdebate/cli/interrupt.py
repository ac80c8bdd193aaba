"""Signal handling: the first Ctrl-C or SIGTERM ends the run, the second the process."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

__all__ = ("Interrupts",)


class Interrupts:
    """While it is entered, the first SIGINT or SIGTERM calls `stop`, and leaves the next one to the system.

    That next one then ends the process even where Python is busy. Signals that the caller had ignored stay ignored
    (`nohup`, background jobs); outside the main thread nothing is changed.
    """

    def __init__(self, stop: Callable[[], object]) -> None:
        self.received: signal.Signals | None = None
        """The signal received, or None."""
        self._stop = stop
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                before = signal.getsignal(number)
                if before not in (signal.SIG_IGN, None):
                    self._before[number] = before
                    signal.signal(number, self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        if self.received is None:
            for number, before in self._before.items():
                signal.signal(number, before)

    def _receive(self, number: int, _: object) -> None:
        self.received = signal.Signals(number)
        for each in self._before:
            signal.signal(each, signal.SIG_DFL)
        self._stop()
