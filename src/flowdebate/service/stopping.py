"""Servers that end when they are told to, also if their event loop is stuck."""

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
"""Seconds in which a server begins to stop: the longest validation takes two."""
_TO_END = 15.0
"""Seconds for what a server does beside waiting, which has times of its own."""


class EndingServer(uvicorn.Server):
    """A uvicorn server whose process ends after a signal, whatever keeps its event loop: runs continue from the store.

    `patience` is the number of seconds for which it waits while it stops.
    """

    def __init__(self, config: uvicorn.Config, *, patience: float) -> None:
        super().__init__(config)
        self._patience = patience
        self._deadline: threading.Timer | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop, as uvicorn does, and no later than in five seconds."""
        self._end_after(_TO_BEGIN, sig)
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop as uvicorn does, in bounded time."""
        if self._deadline is not None:
            self._end_after(self._patience + _TO_END, signal.SIGTERM)
        try:
            await super().shutdown(sockets)
        finally:
            if self._deadline is not None:  # an application around the server may go on
                self._deadline.cancel()

    def _end_after(self, seconds: float, number: int) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = threading.Timer(seconds, os._exit, (128 + number,))  # as shells show a signal
        self._deadline.daemon = True
        self._deadline.start()
