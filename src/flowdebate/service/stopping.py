"""Servers that stop on a signal, even with a stuck event loop."""

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
"""Seconds for a server to begin to stop: the longest validation takes two."""
_TO_END = 15.0
"""Seconds for stopping a server, apart from its waits, which have separate times."""


class EndingServer(uvicorn.Server):
    """A uvicorn server whose process ends after a signal, even with a stuck event loop; runs continue from the store.

    `patience` is the number of seconds for its waits while it stops.
    """

    def __init__(self, config: uvicorn.Config, *, patience: float) -> None:
        super().__init__(config)
        self._patience = patience
        self._deadline: threading.Timer | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop like uvicorn, within five seconds."""
        self._end_after(_TO_BEGIN, sig)
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop like uvicorn, in bounded time."""
        if self._deadline is not None:
            self._end_after(self._patience + _TO_END, signal.SIGTERM)
        try:
            await super().shutdown(sockets)
        finally:
            if self._deadline is not None:  # a surrounding application may continue
                self._deadline.cancel()

    def _end_after(self, seconds: float, number: int) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        # the exit code that shells use for a signal
        self._deadline = threading.Timer(seconds, os._exit, (128 + number,))
        self._deadline.daemon = True
        self._deadline.start()
