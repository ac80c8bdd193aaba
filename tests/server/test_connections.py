"""Connections without a token: however many there are and however slow, they must never block other clients."""

from __future__ import annotations

import http.client
import select
import socket
import time
from contextlib import ExitStack, closing, suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from flowdebate.server import app as serving
from flowdebate.service.lifetime import bind_socket
from tests.server.stage import TOKEN

if TYPE_CHECKING:
    from tests.server.stage import Stage

HALF_A_HEAD = b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\n"
WHOLE_HEAD = HALF_A_HEAD + b"\r\n"
HALF_A_BODY = (
    b'POST /api/v1/links/x HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"'
)


def open_connection(stage: Stage, *pieces: bytes) -> socket.socket:
    """Open a connection and send `pieces`."""
    address = urlsplit(stage.url)
    connection = socket.create_connection((address.hostname, address.port), timeout=20)
    for data in pieces:
        connection.sendall(data)
    return connection


def is_ended(connection: socket.socket) -> bool:
    """Return whether the server closes the connection before the timeout, ignoring further output."""
    try:
        while connection.recv(65_536):
            pass
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True


def is_gone(connection: socket.socket) -> bool:
    """Return whether the server has closed the connection."""
    connection.settimeout(0)
    try:
        return is_ended(connection)
    except BlockingIOError:
        return False


def test_response_never_waits_for_the_client() -> None:
    """The head and the body are sent as two packets.

    By default, the body would be held back for 40 ms, until the head is acknowledged.
    """
    with bind_socket("test", 0) as bound, socket.create_connection(bound.getsockname()):
        accepted, _ = bound.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize("data", [b"", b"G", HALF_A_HEAD, HALF_A_BODY, WHOLE_HEAD], ids=repr)
def test_idle_connections_do_not_block_other_clients(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    """The server answers immediately even with more idle connections than request slots."""
    monkeypatch.setattr(serving, "_MAX_REQUESTS", 20)
    monkeypatch.setattr(serving, "_MAX_WAITING", 40)
    with ExitStack() as crowd:
        connections = [crowd.enter_context(closing(open_connection(stage, data))) for _ in range(80)]
        for connection in connections if data == WHOLE_HEAD else ():
            select.select([connection], [], [], 20)  # idle only once the request has been answered
        time.sleep(0.5)
        assert stage.get("/health").status_code == 200
        assert stage.finished()
        # the half that had been idle longest was closed, and new clients do not wait for the rest
        until = time.monotonic() + 20
        while sum(map(is_gone, connections)) < 40:
            assert time.monotonic() < until
            time.sleep(0.05)
        # after a complete request, the idle time starts with the response
        assert data == WHOLE_HEAD or is_gone(connections[0])


def test_connection_with_an_incomplete_request_is_closed(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sending data slowly does not extend the timeout. Earlier requests on the connection are still answered."""
    import h11

    monkeypatch.setattr(serving, "_PATIENCE", {h11.IDLE: 1.0, h11.SEND_BODY: 2.0})
    for data, minimum, maximum in ((b"", 0.8, 6), (HALF_A_HEAD, 0.8, 6), (HALF_A_BODY, 1.8, 8)):
        with closing(open_connection(stage, data)) as connection:
            start = time.monotonic()
            assert is_ended(connection)
            assert minimum < time.monotonic() - start < maximum, data
    with closing(open_connection(stage, WHOLE_HEAD)) as connection:
        assert b"200 OK" in connection.recv(65_536)
        connection.settimeout(0.3)
        start = time.monotonic()
        with suppress(BrokenPipeError, ConnectionResetError):
            for letter in HALF_A_HEAD * 100:
                connection.sendall(bytes([letter]))
                time.sleep(0.1)
        assert 0.8 < time.monotonic() - start < 3


def test_connections_with_long_requests_stay_open(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams, pauses between requests and slow bodies that arrive in time must not cause a connection to be closed."""
    import h11

    monkeypatch.setattr(serving, "_PATIENCE", {h11.IDLE: 0.5, h11.SEND_BODY: 5.0})
    address = urlsplit(stage.url)
    with closing(http.client.HTTPConnection(address.netloc, timeout=20)) as connection:
        for _ in range(3):
            connection.request("GET", "/api/v1/health")
            assert connection.getresponse().read()
            time.sleep(0.8)  # idle connections stay open here: uvicorn has a separate timeout for them
    body = b'{"answer": 1}'
    head = HALF_A_BODY.partition(b"Content-Length")[0] + f"Content-Length: {len(body)}\r\n\r\n".encode()
    with closing(open_connection(stage, head)) as connection:
        for letter in body:
            time.sleep(0.08)
            connection.sendall(bytes([letter]))
        assert b"404" in connection.recv(65_536).splitlines()[0]


def test_too_many_simultaneous_requests_are_rejected(gated: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests that are still being answered count toward the limit."""
    monkeypatch.setattr(serving, "_MAX_REQUESTS", 5)
    run_id = gated.begin()
    gated.http.close()
    request = f"GET /api/v1/runs/{run_id}/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    with ExitStack() as crowd:
        streams = [crowd.enter_context(closing(open_connection(gated, request.encode()))) for _ in range(5)]
        assert all(b"200 OK" in stream.recv(1_000) for stream in streams)
        with closing(open_connection(gated, WHOLE_HEAD)) as another:
            assert b"503" in another.recv(1_000)
    time.sleep(0.3)
    with closing(open_connection(gated, WHOLE_HEAD)) as another:
        assert b"200" in another.recv(1_000)
