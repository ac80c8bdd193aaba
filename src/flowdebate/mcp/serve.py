"""Serving over stdio or HTTP until the client leaves or a signal arrives; calls in flight then end, and are stored."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from flowdebate.errors import ConfigurationError
from flowdebate.mcp.server import create_server, http_app

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.applications import Starlette

    from flowdebate.service.service import Service


_PATIENCE = 30.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


async def serve_stdio(service: Service, *, patience: float = _PATIENCE) -> None:
    """Serve `service` over stdin and stdout until stdin ends; then close it.

    Calls in flight have `patience` seconds to end. A signal closes the service likewise and then ends the process: the
    reading of stdin cannot be interrupted. A second signal ends it at once.
    """
    loop = asyncio.get_running_loop()
    ending: list[asyncio.Task[None]] = []

    async def end(number: int) -> None:
        await service.close(patience)
        signal.raise_signal(number)

    def received(number: int) -> None:
        for each in _SIGNALS:
            loop.remove_signal_handler(each)
            signal.signal(each, signal.SIG_DFL)
        ending.append(loop.create_task(end(number)))

    with suppress(NotImplementedError):  # Windows: there a signal ends the process at once
        for number in _SIGNALS:
            loop.add_signal_handler(number, received, number)
    try:
        await create_server(service).run_stdio_async()
    except* BrokenPipeError:  # nobody reads the answers any more: the host has left
        pass
    finally:
        await service.close(patience)


async def serve_http(
    service: Service, *, port: int, patience: float = _PATIENCE, started: Callable[[str], object] | None = None
) -> None:
    """Serve `service` at `http://127.0.0.1:{port}/mcp` until a signal arrives; then close it.

    Port 0 takes a free one; `started` is called with the address. Calls in flight have `patience` seconds to end.
    """
    import uvicorn

    app = http_app(create_server(service))
    app.router.lifespan_context = _closing(app, service, patience)
    try:
        bound = socket.create_server(("127.0.0.1", port))
    except OSError as error:
        allowed = f"one that can be bound ({os.strerror(error.errno or 0)})"
        raise ConfigurationError("serve_http()", "port", port, allowed) from None
    with bound:
        if started is not None:
            started(f"http://127.0.0.1:{bound.getsockname()[1]}/mcp")
        config = uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1)
        await uvicorn.Server(config).serve(sockets=[bound])


def _closing(app: Starlette, service: Service, patience: float) -> Any:  # noqa: ANN401 - a lifespan of Starlette
    """The lifespan of `app`, which closes `service` at its end: uvicorn raises the signal again after that."""
    inner = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[Any]:
        try:
            async with inner(app) as state:
                yield state
        finally:
            await service.close(patience)

    return lifespan
