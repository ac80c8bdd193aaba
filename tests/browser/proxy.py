"""TCP proxy in front of a server. Tests can cut its connections."""

from __future__ import annotations

import re
import socket
import socketserver
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

__all__ = ("Proxy",)

_MARK = re.compile(rb"^last-event-id: *(\S+)", re.IGNORECASE | re.MULTILINE)


class Proxy(socketserver.ThreadingTCPServer):
    """Proxy that forwards a local port to `url`."""

    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.to = port
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.open: set[socket.socket] = set()
        self._sent = bytearray()
        self._passes = threading.Event()
        self._passes.set()
        self._generation = 0

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()
        self.cut()
        self.server_close()

    def cut(self) -> None:
        """Close all connections on both ends."""
        for end in list(self.open):
            with suppress(OSError):  # the connection has already been closed
                end.shutdown(socket.SHUT_RDWR)

    def freeze(self) -> None:
        """Keep all connections open without forwarding anything, as if the network were lost."""
        self._passes.clear()
        self._generation += 1

    def thaw(self) -> None:
        """Forward new connections; existing ones stay dead."""
        self._passes.set()

    @property
    def requests(self) -> bytes:
        """Return all data sent by clients."""
        return bytes(self._sent)

    @property
    def marks(self) -> list[str]:
        """Return every Last-Event-ID sent by clients."""
        return [mark.decode() for mark in _MARK.findall(self._sent)]

    def pass_on(self, client: socket.socket) -> None:
        """Forward data between a client and the server until one of them disconnects."""
        with socket.create_connection(("127.0.0.1", self.to)) as server:
            ends, generation = {client, server}, self._generation
            self.open |= ends
            answers = threading.Thread(target=self._answer, args=(server, client, generation), daemon=True)
            answers.start()
            for data in _read(client):
                if self._is_dead(generation):
                    continue
                self._sent += data
                server.sendall(data)
            _end(server)
            answers.join(60)
            self.open -= ends

    def _is_dead(self, generation: int) -> bool:
        return generation < self._generation or not self._passes.is_set()

    def _answer(self, server: socket.socket, client: socket.socket, generation: int) -> None:
        with suppress(OSError):
            for data in _read(server):
                if not self._is_dead(generation):
                    client.sendall(data)
        _end(client)


class _Connection(socketserver.BaseRequestHandler):
    server: Proxy

    def handle(self) -> None:
        with suppress(OSError):
            self.server.pass_on(self.request)


def _read(end: socket.socket) -> Iterator[bytes]:
    with suppress(OSError):
        while data := end.recv(65_536):
            yield data


def _end(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
