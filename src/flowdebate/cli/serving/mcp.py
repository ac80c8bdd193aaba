"""`flowdebate mcp`: debates as tools of an MCP host, over stdio or HTTP."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

from flowdebate._util.validation import check_library
from flowdebate.cli import options as opt
from flowdebate.cli.serving.services import App, check_app, service_of
from flowdebate.cli.terminal.process import tell
from flowdebate.service.plans.options import Option, misuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


Port = Annotated[int | None, Option(metavar="N", help="Port of --http. Default: 8378.")]
_PORT = 8378
_MOST = 65535


@opt.command("model", "max_calls", "max_tokens", "max_seconds", "price")
def mcp(
    *,
    app: App = None,
    http: Annotated[bool, Option(help="Serve http://127.0.0.1:PORT/mcp, not stdin and stdout.")] = False,
    port: Port = None,
    store: opt.StoreName = None,
    **given: object,
) -> None:
    """Serve debates to an MCP host: start, wait for, read and judge them, or take part.

    Over stdio, as hosts start it, stdout belongs to the protocol; warnings go to stderr. Limits are those of each run.
    """
    check_library("flowdebate mcp", "mcp", library="the MCP SDK", extra="mcp")
    if port is not None and not http:
        raise misuse("--port", port, "--port is the port of --http: add --http.")
    opt.check(port is None or 0 <= port <= _MOST, "--port", port, f"an int from 0 to {_MOST}")
    check_app(app, given)
    asyncio.run(_serve(app, store, given, http=http, port=_PORT if port is None else port))


async def _serve(app: str | None, store: str | None, given: Mapping[str, Any], *, http: bool, port: int) -> None:
    from flowdebate.mcp import serve_http, serve_stdio

    with _stdout_kept():
        service = service_of(app, store, given, recover=False)
    if http:
        await serve_http(service, port=port, started=lambda url: tell(f"Serving {url}"))
    else:
        await serve_stdio(service)


@contextmanager
def _stdout_kept() -> Iterator[None]:
    """Inside, what anything writes to stdout, which is the protocol's, goes to stderr."""
    sys.stdout.flush()
    wire = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(wire, 1)
        os.close(wire)
