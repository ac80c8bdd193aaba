"""Servers that stop on a signal even if their event loop is stuck."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING

import uvicorn

if TYPE_CHECKING:
    import socket
    from types import FrameType

_TO_BEGIN = 5.0
"""Time limit in seconds for a server to begin its shutdown, longer than the two seconds that validating an answer can
take.
"""
_TO_END = 15.0
"""Time limit in seconds for a server's shutdown, not counting waits, each of which has its own limit."""


class EndingServer(uvicorn.Server):
    """Uvicorn server that exits on a signal even if its event loop is stuck; the runs can be resumed from the store.

    `patience` is the maximum time in seconds that the server may spend waiting during its shutdown.
    """

    def __init__(self, config: uvicorn.Config, *, patience: float) -> None:
        super().__init__(config)
        self._patience = patience
        self._deadline: threading.Timer | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Start the shutdown as uvicorn does; force an exit unless the shutdown starts within five seconds."""
        self._end_after(_TO_BEGIN, sig)
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Shut down as uvicorn does, and force the process to exit if the shutdown takes too long."""
        if self._deadline is not None:
            self._end_after(self._patience + _TO_END, signal.SIGTERM)
        try:
            await super().shutdown(sockets)
        finally:
            # a host application may keep running after the server stops, so do not force an exit
            if self._deadline is not None:
                self._deadline.cancel()

    def _end_after(self, seconds: float, number: int) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        # The exit code that shells use to report a signal.
        self._deadline = threading.Timer(seconds, os._exit, (128 + number,))
        self._deadline.daemon = True
        self._deadline.start()
