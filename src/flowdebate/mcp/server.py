"""The MCP server: runs, turns of people and verdicts as tools, runs as resources, and prompts."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.subscriptions import InMemorySubscriptionBus
from mcp.server.transport_security import TransportSecuritySettings

from flowdebate.mcp.errors import sentence_of
from flowdebate.mcp.judging import NAME as JUDGE
from flowdebate.mcp.judging import add_judge_tool, judge_texts
from flowdebate.mcp.prompts import add_prompts
from flowdebate.mcp.reports import HOW_TO_READ
from flowdebate.mcp.resources import Subscriptions, add_resources
from flowdebate.mcp.tools import add_run_tools
from flowdebate.mcp.turns import add_turn_tools

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mcp_types import CallToolResult, InputRequiredResult
    from starlette.applications import Starlette
    from starlette.requests import Request

    from flowdebate.service.service import Service


LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
"""Names of this machine, as the Host header of a request has them."""

_INSTRUCTIONS = (
    "Debates between language models, which are stored and survive restarts. A debate takes minutes: call "
    "start_debate, then wait_for_run until `status` is no longer running, and pass `parts` of the last result as "
    "`seen`. `next` in each result says what to do now. judge compares texts that you have, without a debate.\n\n"
    f"{HOW_TO_READ}"
)


def create_server(
    service: Service, *, name: str = "flowdebate", service_of: Callable[[Request | None], Service] | None = None
) -> MCPServer[Any]:
    """The SDK's server object in front of `service`, for any transport and for both protocol eras.

    Over HTTP, `service_of` may give another service for each request, such as one that knows the runs of one user only;
    over stdio its argument is None. Closing the service is left to whoever made it.
    """
    from flowdebate import __version__

    def of(ctx: Context[Any, Any]) -> Service:
        return service if service_of is None else service_of(ctx.request_context.request)

    bus = InMemorySubscriptionBus()
    with _logging_unchanged():
        server = _Server(
            name,
            title="flowdebate",
            instructions=_INSTRUCTIONS,
            version=__version__,
            subscriptions=bus,
            middleware=[Subscriptions(of, bus)],
        )
    if JUDGE not in service.patterns:
        service.register(JUDGE, judge_texts())
    add_run_tools(server, of, patterns=[each for each in service.patterns if each != JUDGE], plans=service.plans)
    add_turn_tools(server, of)
    add_judge_tool(server, of)
    add_resources(server, of)
    add_prompts(server)
    return server


def http_app(
    server: MCPServer[Any], *, path: str = "/mcp", allow_hosts: Sequence[str] = (), guarded: bool = False
) -> Starlette:
    """The ASGI application that serves `server` at `path` by streamable HTTP.

    Requests whose Host is not this machine or among `allow_hosts` get a 421, those of another Origin a 403; `guarded`
    says that the application around it checks both. Mounted in another application, its lifespan has to be entered
    there: `async with app.router.lifespan_context(app)`.
    """
    hosts = [*LOOPBACK, *allow_hosts]
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=not guarded,
        allowed_hosts=[each for host in hosts for each in (host, f"{host}:*")],
        allowed_origins=[
            f"{scheme}://{host}{port}" for scheme in ("http", "https") for host in hosts for port in ("", ":*")
        ],
    )
    return server.streamable_http_app(streamable_http_path=path, transport_security=security)


class _Server(MCPServer[Any]):
    """The SDK's server, with this library's sentences for what a caller can mend."""

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            sentence = None if error.__cause__ is None else sentence_of(error.__cause__)
            if sentence is None:
                raise
            raise ToolError(f"{name}: {sentence}") from error.__cause__


@contextmanager
def _logging_unchanged() -> Iterator[None]:
    """Inside, the SDK finds a handler at the root logger, and installs none of its own."""
    root, handler = logging.getLogger(), logging.NullHandler()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
