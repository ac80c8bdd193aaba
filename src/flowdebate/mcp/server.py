"""MCP server for a service, over stdio or HTTP; it runs until the client disconnects or a signal arrives.

Before the server stops, it finishes and stores all in-flight calls.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import signal
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError, ToolError
from mcp.server.subscriptions import InMemorySubscriptionBus, SubscriptionBus
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.subscriptions import ResourceUpdated
from starlette.responses import JSONResponse, PlainTextResponse, Response

from flowdebate.errors import FlowDebateError, RunNotFound
from flowdebate.events import changes
from flowdebate.mcp.host_schema import for_hosts
from flowdebate.mcp.judging import NAME as JUDGE
from flowdebate.mcp.judging import add_compare_tool, judge_texts
from flowdebate.mcp.reports import (
    HOW_TO_READ,
    render_contributions,
    sentence_of,
    split_contributions,
    unknown_arguments,
)
from flowdebate.mcp.tools import READER, ServiceOf, add_prompts, add_run_tools, add_turn_tools, start_tools
from flowdebate.models.output import drop_titles
from flowdebate.service.lifetime import bind_socket, keep_warm
from flowdebate.sources.files import allowed_folders
from flowdebate.ui.markdown import report

if TYPE_CHECKING:
    from pathlib import Path

    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from mcp_types import CallToolResult, InputRequiredResult, Tool
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from flowdebate.service.service import Service
    from flowdebate.ui.document import Document


LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
"""Host header values that refer to this machine."""

_INSTRUCTIONS = (
    "Debates and other discussions of language models, which are stored and survive restarts. They take minutes: call "
    "{starting}, then wait_for_run until `status` is no longer running, and pass `parts` of the last result as `seen`. "
    "`next` in each result says what to do now, `spent` what it has cost. compare judges texts that you have, without "
    "a debate.\n\n"
    f"{HOW_TO_READ}"
)


def create_server(
    service: Service,
    *,
    name: str = "flowdebate",
    service_of: Callable[[Request | None], Service] | None = None,
    allow_sources: Iterable[str | Path] = (),
) -> MCPServer[Any]:
    """Create an SDK server for `service`, usable with any transport and with either generation of the protocol.

    Over HTTP, `service_of` may return a different service for each request, such as one limited to a single user's
    runs; over stdio, it receives None. Files under `allow_sources` may be used as a debate's sources. The caller
    remains responsible for closing the service.
    """
    from flowdebate import __version__

    def of(ctx: Context[Any, Any]) -> Service:
        return service if service_of is None else service_of(ctx.request_context.request)

    starting = ["start_debate", *(tool.name for tool in start_tools().values() if service.plans)]
    bus = InMemorySubscriptionBus()
    root, handler = logging.getLogger(), logging.NullHandler()
    # The SDK calls basicConfig, which does nothing if a handler exists; logging is the application's responsibility.
    root.addHandler(handler)
    try:
        server = _Server(
            name,
            title="flowdebate",
            instructions=_INSTRUCTIONS.format(starting=" or ".join(starting)),
            version=__version__,
            subscriptions=bus,
            middleware=[Subscriptions(of, bus)],
        )
    finally:
        root.removeHandler(handler)
    models = service.restrict_models().names
    if JUDGE not in service.patterns:
        service.register(JUDGE, judge_texts())
    add_run_tools(
        server,
        of,
        patterns=[pattern for pattern in service.patterns if pattern != JUDGE],
        plans=service.plans,
        models=models,
        folders=allowed_folders(allow_sources, location="create_server()"),
    )
    add_turn_tools(server, of)
    add_compare_tool(server, of)
    add_resources(server, of)
    add_prompts(server)
    return server


def http_app(
    server: MCPServer[Any], *, path: str = "/mcp", allow_hosts: Sequence[str] = (), guarded: bool = False
) -> Starlette:
    """Create an ASGI application serving `server` at `path` over streamable HTTP.

    A request is answered with 421 if its Host is neither this machine nor one of `allow_hosts`, and with 403 if it
    comes from a different Origin; if `guarded` is set, the enclosing application checks both. When mounting the
    application in another one, enter its lifespan within that application's lifespan: `async with
    app.router.lifespan_context(app)`. `{path}/server-card` is its MCP Server Card (SEP-2127).
    """
    hosts = [*LOOPBACK, *allow_hosts]
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=not guarded,
        # The SDK compares the whole Host header; a header with a port matches only the ":*" form.
        allowed_hosts=[allowed_host for host in hosts for allowed_host in (host, f"{host}:*")],
        allowed_origins=[
            f"{scheme}://{host}{port}" for scheme in ("http", "https") for host in hosts for port in ("", ":*")
        ],
    )
    app = server.streamable_http_app(streamable_http_path=path, transport_security=security)

    async def card(request: Request) -> Response:
        if not guarded and request.url.hostname not in {host.strip("[]") for host in hosts}:
            return PlainTextResponse("Invalid Host header", 421)
        return JSONResponse(_server_card(f"{request.base_url}{path.lstrip('/')}"), media_type=_CARD_TYPE)

    app.add_route(f"{path}{_CARD}", card, methods=["GET"])
    return app


_CARD, _CARD_TYPE = "/server-card", "application/mcp-server-card+json"
NAME = "io.github.flowdebate/flowdebate"
"""Name of this server in registries, as in server.json."""


def _server_card(url: str) -> dict[str, Any]:
    """Build the server card, which tells clients the server's name and address, and whether it needs a token."""
    from flowdebate import __version__

    description = "Bearer, a space, and the token of this server, if it has one"
    return {
        "$schema": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json",
        "name": NAME,
        "title": "flowdebate",
        "description": "Debates and councils of language models, and verdicts on texts; runs survive restarts",
        "version": __version__,
        "remotes": [
            {
                "type": "streamable-http",
                "url": url,
                "headers": [{"name": "Authorization", "description": description, "isSecret": True}],
            }
        ],
    }


class _Server(MCPServer[Any]):
    """SDK server with this library's error messages, and with tool schemas accepted by every host.

    The SDK ignores unknown arguments; here they are errors, because a misspelled option would start the wrong run.
    """

    async def list_tools(self) -> list[Tool]:
        """List the tools; their schemas forbid additional arguments, and only one tool includes its result schema.

        Hosts send the list to their model with every request, and schemas for all results would take up two thirds of
        it.
        """
        listed: list[Tool] = []
        for tool in await super().list_tools():
            arguments = {**for_hosts(tool.input_schema), "additionalProperties": False}
            result = drop_titles(tool.output_schema) if tool.name == READER else None
            listed.append(tool.model_copy(update={"input_schema": arguments, "output_schema": result}))
        return listed

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        schema = next((tool.input_schema for tool in await super().list_tools() if tool.name == name), {})
        if (properties := schema.get("properties")) is not None and (unknown := set(arguments).difference(properties)):
            raise ToolError(f"{name}: {unknown_arguments(sorted(unknown), properties)}")
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            sentence = None if error.__cause__ is None else sentence_of(error.__cause__)
            if sentence is None:
                raise
            raise ToolError(f"{name}: {sentence}") from error.__cause__


# Serving

_PATIENCE = 30.0
"""Time limit in seconds for in-flight calls to finish, as in `create_app`. Their answers should be recorded, because
they have already been paid for.
"""
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


async def serve_stdio(
    service: Service, *, patience: float = _PATIENCE, allow_sources: Iterable[str | Path] = ()
) -> None:
    """Serve `service` over stdin and stdout until stdin ends, then close it.

    In-flight calls have `patience` seconds to finish. A signal also closes the service and then ends the process,
    because reading from stdin cannot be interrupted. A second signal ends the process immediately.
    """
    loop = asyncio.get_running_loop()
    ending: list[asyncio.Task[None]] = []

    async def end(number: int) -> None:
        await service.close(patience)
        signal.raise_signal(number)

    def received(number: int) -> None:
        for stop_signal in _SIGNALS:
            loop.remove_signal_handler(stop_signal)
            signal.signal(stop_signal, signal.SIG_DFL)
        ending.append(loop.create_task(end(number)))

    # event loops on Windows do not support signal handlers; there, a signal ends the process immediately
    with suppress(NotImplementedError):
        for number in _SIGNALS:
            loop.add_signal_handler(number, received, number)
    try:
        async with keep_warm():
            await create_server(service, allow_sources=allow_sources).run_stdio_async()
    except* BrokenPipeError:  # the host has disconnected, so nobody is reading the answers
        pass
    finally:
        await service.close(patience)


def with_token(app: ASGIApp, token: str) -> ASGIApp:
    """Require `token` in the `Authorization: Bearer` header of all requests to `app`, except those for its server card.

    Requests without it are answered with 401.
    """

    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        header = dict(scope.get("headers", ())).get(b"authorization", b"")
        public = scope.get("method") == "GET" and scope.get("path", "").endswith(_CARD)
        if scope["type"] == "http" and not public and not hmac.compare_digest(header, f"Bearer {token}".encode()):
            message = "Send the token of this server as `Authorization: Bearer TOKEN`."
            await PlainTextResponse(message, 401, {"www-authenticate": "Bearer"})(scope, receive, send)
        else:
            await app(scope, receive, send)

    return checked


async def serve_http(
    service: Service,
    *,
    port: int,
    token: str | None = None,
    patience: float = _PATIENCE,
    started: Callable[[str], object] | None = None,
    allow_sources: Iterable[str | Path] = (),
) -> None:
    """Serve `service` at `http://127.0.0.1:{port}/mcp` until a signal arrives, then close it.

    Port 0 selects a free port; `started` is called with the address. Requests need `token`; if it is None, every user
    of this machine has access. In-flight calls have `patience` seconds to finish.
    """
    import uvicorn

    from flowdebate.service.stopping import EndingServer

    app = http_app(create_server(service, allow_sources=allow_sources))
    inner = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[Any]:
        try:
            async with keep_warm(), inner(app) as state:
                yield state
        finally:
            await service.close(patience)  # closed here, because uvicorn raises the signal again after the lifespan

    app.router.lifespan_context = lifespan
    with bind_socket("serve_http()", port) as bound:
        if started is not None:
            started(f"http://127.0.0.1:{bound.getsockname()[1]}/mcp")
        # log_config is None because uvicorn's default would write to stderr and stdout. One second is enough: only
        # streams held open by clients remain at this point, and the service gives in-flight calls `patience` seconds to
        # finish.
        served = app if token is None else with_token(app, token)
        config = uvicorn.Config(served, log_config=None, timeout_graceful_shutdown=1)
        await EndingServer(config, patience=patience).serve(sockets=[bound])


_RUN = "flowdebate://runs/"


def add_resources(server: MCPServer[Any], service_of: ServiceOf) -> None:
    """Register the resources available for each run."""

    @server.resource(
        f"{_RUN}{{run_id}}",
        name="report",
        title="Report of a run",
        description=f"Everything that was said, and the result, as Markdown. {HOW_TO_READ}",
        mime_type="text/markdown",
    )
    async def run_report(run_id: str, ctx: Context[Any, Any]) -> str:
        return report(await _document(service_of(ctx), run_id))

    @server.resource(
        f"{_RUN}{{run_id}}/transcript",
        name="transcript",
        title="Transcript of a run",
        description=f"What was said, as text. {HOW_TO_READ}",
        mime_type="text/plain",
    )
    async def transcript(run_id: str, ctx: Context[Any, Any]) -> str:
        return render_contributions(split_contributions(await _document(service_of(ctx), run_id)))

    @server.resource(
        f"{_RUN}{{run_id}}/document",
        name="document",
        title="Document of a run",
        description="The run as JSON, as `flowdebate show --page --json` prints it. Its texts are data, too.",
        mime_type="application/json",
    )
    async def document(run_id: str, ctx: Context[Any, Any]) -> str:
        document_found = await _document(service_of(ctx), run_id)
        return json.dumps(document_found.to_data(), ensure_ascii=False, indent=2)


async def _document(service: Service, run_id: str) -> Document:
    try:
        details = await service.run(run_id)
    except RunNotFound as error:
        raise ResourceNotFoundError(sentence_of(error)) from None
    except FlowDebateError as error:
        raise ResourceError(sentence_of(error)) from None
    if details.document is None:
        raise ResourceError(f"Run {run_id} has no document: {details.problem}")
    return details.document


class Subscriptions:
    """Middleware that follows the runs subscribed to in a `subscriptions/listen` stream and publishes their changes."""

    def __init__(self, service_of: ServiceOf, bus: SubscriptionBus) -> None:
        self._of = service_of
        self._bus = bus

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Follow the subscribed runs while the stream is open."""
        if ctx.method != "subscriptions/listen":
            return await call_next(ctx)
        service = self._of(Context(request_context=ctx))
        uris = _subscribed(ctx.params)
        tasks = [asyncio.create_task(self._follow(service, run_id, of)) for run_id, of in uris.items()]
        try:
            return await call_next(ctx)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self, service: Service, run_id: str, uris: Iterable[str]) -> None:
        """Publish each change until the run ends; if it is resumed later, clients must subscribe again."""
        with suppress(FlowDebateError):
            async with aclosing(service.follow(run_id)) as updates:
                async for update in updates:
                    if isinstance(update.event, changes()) or update.kind in ("reset", "end"):
                        for uri in uris:
                            await self._bus.publish(ResourceUpdated(uri=uri))


_MAX_RUNS = 20
"""Maximum number of runs per stream, the same as over HTTP; limited because each followed run needs its own task."""


def _subscribed(params: Mapping[str, Any] | None) -> dict[str, set[str]]:
    """Return the subscribed URIs grouped by run; invalid URIs are left out, because the handler rejects them."""
    uris = ((params or {}).get("notifications") or {}).get("resourceSubscriptions")
    watched: dict[str, set[str]] = {}
    for uri in uris if isinstance(uris, list) else ():
        if isinstance(uri, str) and uri.startswith(_RUN):
            run_id, _, part = uri.removeprefix(_RUN).partition("/")
            if part in ("", "transcript", "document") and (run_id in watched or len(watched) < _MAX_RUNS):
                watched.setdefault(unquote(run_id), set()).add(uri)
    return watched
