"""Serving of the HTTP interface by uvicorn, which stops within seconds although readers follow runs."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import uvicorn

from flowdebate.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastapi import FastAPI

    from flowdebate.server.front import Front


_CONNECTIONS = 2_000
"""Twice the 1,000 debates at once that benchmarks/http_runs.py holds; more are answered with 503."""
_LONGEST_HEADERS = 32_768
"""Twice what h11 allows by itself: a browser sends the cookies of all servers on this host."""
_KEEP_ALIVE = 75
"""Seconds for which an idle connection stays open: longer than `?wait=`, so that clients can use it again."""
_GRACE = 5
"""Seconds that responses have to end: streams have ended before, and calls in flight have their own patience."""


class Server(uvicorn.Server):
    """A uvicorn server that ends its readers first when it stops: uvicorn itself waits for them."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End all streams, then stop as uvicorn does."""
        front: Front = self.config.app.state.front  # type: ignore[union-attr]  # made by create_app
        front.close()
        await super().shutdown(sockets)


async def serve(
    app: FastAPI,
    *,
    host: str = "127.0.0.1",
    port: int = 8377,
    started: Callable[[str, Server], object] | None = None,
) -> None:
    """Serve an application of `create_app` until a signal arrives; then end its runs and close its service.

    Port 0 takes a free one. `started` is called with the address, and with the server, which ends when it is told to:
    `server.should_exit = True`. ConfigurationError for an address that cannot be used.
    """
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        ws="none",
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_CONNECTIONS,
        h11_max_incomplete_event_size=_LONGEST_HEADERS,
        timeout_graceful_shutdown=_GRACE,
        timeout_keep_alive=_KEEP_ALIVE,
    )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        bound = socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigurationError("serve()", "port", port, f"a free port of {host} ({reason})") from None
    server = Server(config)
    with bound:
        if started is not None:
            name = f"[{host}]" if family is socket.AF_INET6 else host
            started(f"http://{name}:{bound.getsockname()[1]}/", server)
        await server.serve(sockets=[bound])
