"""ASGI application providing the HTTP interface to a service; it can be mounted or served."""

from __future__ import annotations

import gc
import secrets
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import h11
import uvicorn
from fastapi import APIRouter, FastAPI
from starlette.middleware.gzip import GZipMiddleware
from uvicorn.protocols.http.h11_impl import H11Protocol

from flowdebate import __version__
from flowdebate._util.validation import check_count, check_library
from flowdebate.errors import ConfigurationError
from flowdebate.models.openai.endpoint import check_address
from flowdebate.server import links, routes, views
from flowdebate.server.front import API, Front
from flowdebate.server.guard import LOOPBACK, Authenticate, Guard, GuardOptions, Links, is_prefix
from flowdebate.server.pages import forms as form_pages
from flowdebate.server.pages import runs as pages
from flowdebate.server.problems import FieldProblem, Problem, handle_problems
from flowdebate.server.protocols.streams import Audience
from flowdebate.server.sse import Readers
from flowdebate.service.lifetime import bind_socket, keep_warm
from flowdebate.service.stopping import EndingServer
from flowdebate.sources.files import allowed_folders

if TYPE_CHECKING:
    import asyncio
    from pathlib import Path

    from starlette.responses import Response
    from starlette.types import ASGIApp
    from uvicorn.server import ServerState

    from flowdebate.service.service import Service


_WHERE = "create_app()"
_PUBLIC = (f"{API}/health", f"{API}/ready", "/static/", f"{API}/links/", "/answer/", "/shared/")
"""Path prefixes that need no token: the first three reveal nothing, and URLs under the others contain a signature."""
_MIN_TOKEN_LENGTH = 16
"""Minimum length of a token, in characters; shorter tokens could be guessed, because failed attempts are
not limited.
"""


def create_app(  # noqa: PLR0913 - keyword-only
    service: Service,
    *,
    token: str | Literal[False] | None = None,
    authenticate: Authenticate | None = None,
    allow_hosts: Iterable[str] = (),
    allow_base_urls: Iterable[str] = (),
    allow_sources: Iterable[str | Path] = (),
    own_machine: bool = False,
    read_only: bool = False,
    openai: bool = False,
    ag_ui: bool = False,
    secret: str | None = None,
    root_path: str = "",
    ping: float = 15.0,
    max_readers: int = 64,
    patience: float = 30.0,
    close_service: bool = True,
) -> FastAPI:
    """Create the HTTP interface to `service` as an ASGI application.

    Every request must carry `token`; by default, a random token is generated and stored in `app.state.token`. Pass
    False if something in front of the application authenticates requests instead. Alternatively,
    `authenticate(request)` identifies the user, who sees only their own runs. The application accepts only requests for
    this machine's host names and those in `allow_hosts`. A run's options may refer to base URLs at or below
    `allow_base_urls`, and to sources below a folder in `allow_sources`; the application reads no other files and
    connects to no other addresses. The options may name the models allowed by the service: its `allow_models`, or
    otherwise the configured models. For a server that only its own user can reach, `own_machine` allows all models of
    the configured providers. `openai` adds the OpenAI-compatible endpoint, with the token as its API key; `ag_ui` adds
    the AG-UI endpoint (`ag-ui` extra). `secret` signs links for humans; None uses the token or, if there is none, a new
    secret at each start. `root_path` is the path under which a proxy serves the application, such as "/debates";
    without it, the X-Forwarded-Prefix header is used if the host is one of `allow_hosts`. `ping` is the number of
    seconds between keep-alive messages on quiet streams; each run may have at most `max_readers` streams.

    When its lifespan ends, the application closes the service, unless `close_service` is False; in-flight calls then
    have `patience` seconds to finish.
    """
    if authenticate is not None and token:
        raise ConfigurationError(_WHERE, "token", None, "cannot be combined with `authenticate`")
    if token is None and authenticate is None:
        # By default, each start creates a new token, so that an old token that was pasted somewhere stops working.
        token = secrets.token_urlsafe(32)
    if token and len(token) < _MIN_TOKEN_LENGTH:
        raise ConfigurationError(_WHERE, "token", len(token), f"must have at least {_MIN_TOKEN_LENGTH} characters")
    root = root_path.rstrip("/")
    if root and not is_prefix(root):
        raise ConfigurationError(_WHERE, "root_path", root_path, 'must be a path such as "/debates"')
    check_count(_WHERE, max_readers=max_readers)
    hosts = LOOPBACK | frozenset(map(str.lower, allow_hosts))
    front = Front(
        service=service,
        readers=Readers(ping=ping, maximum=max_readers),
        audience=Audience(pause=ping),
        links=Links(secret or token or secrets.token_urlsafe(32)),
        read_only=read_only,
        base_urls=tuple(allow_base_urls),
        sources=allowed_folders(allow_sources, location=_WHERE),
    )
    service.restrict_models(providers=own_machine)
    for url in front.base_urls:
        check_address(_WHERE, "allow_base_urls", url)
    protocols, refusals = _other_protocols(openai=openai, ag_ui=ag_ui)
    app = _Application(
        guard=GuardOptions(
            hosts=hosts,
            token=token or None,
            authenticate=authenticate,
            public=_PUBLIC,
            refusals=refusals,
            signed_out=front.signed_out,
            root=root,
            paths=frozenset(
                str(getattr(route, "path", "/")).split("/")[1]
                for router in (pages.router, form_pages.router, *protocols)
                for route in router.routes
            )
            | {API.split("/")[1]},
        ),
        front=front,
        patience=patience if close_service else None,
    )
    for router in (routes.router, routes.changes, views.router, links.router, routes.catalog):
        app.include_router(router, prefix=API)
    for router in (pages.router, form_pages.router, *protocols):
        app.include_router(router)
    handle_problems(app)
    # Event streams are not compressed.
    app.add_middleware(GZipMiddleware, minimum_size=_MIN_COMPRESSED_SIZE, compresslevel=_LEVEL)
    return app


def _other_protocols(
    *, openai: bool, ag_ui: bool
) -> tuple[list[APIRouter], dict[str, Callable[[Exception], Response]]]:
    """Return the routers for the other protocols, and their error formats keyed by path."""
    routers: list[APIRouter] = []
    refusals: dict[str, Callable[[Exception], Response]] = {}
    if openai:
        from flowdebate.server.protocols import openai as chat

        routers.append(chat.router)
        refusals["/v1/"] = chat.error_response
    if ag_ui:
        # Without this check, a failed import would name the missing module but not the extra that provides it.
        check_library(_WHERE, "ag_ui", library="ag-ui-protocol", extra="ag-ui")
        from flowdebate.server.protocols import agui

        routers.append(agui.router)
    return routers, refusals


_MIN_COMPRESSED_SIZE = 1_000
"""Minimum size, in bytes, for a response to be compressed."""
_LEVEL = 5


class _Application(FastAPI):
    """FastAPI application protected by the guard."""

    def __init__(self, *, guard: GuardOptions, front: Front, patience: float | None) -> None:
        super().__init__(
            title="flowdebate",
            version=__version__,
            summary="Debates between language models: begin, follow, answer, cancel, resume and fork runs.",
            openapi_url=f"{API}/openapi.json",
            docs_url=None,  # FastAPI's documentation pages load scripts from other hosts
            redoc_url=None,
            # by default, FastAPI adds the path and method to operation ids, which client generators turn into function
            # names
            generate_unique_id_function=lambda route: route.name,
            lifespan=_lifespan,
        )
        self._guard = guard
        self.state.front = front
        self.state.token = guard.token
        self.state.patience = patience

    def openapi(self) -> dict[str, Any]:
        """Build the OpenAPI document, including every endpoint's problem responses."""
        if self.openapi_schema is None:
            document = super().openapi()
            schemas = document["components"]["schemas"]
            for kind in (FieldProblem, Problem):
                schemas[kind.__name__] = kind.model_json_schema(ref_template="#/components/schemas/{model}")
            # Make fields refer to the document's schemas instead of containing copies.
            del schemas[Problem.__name__]["$defs"]
            for name, schema in schemas.items():
                if not name.endswith("Body"):  # later versions may add fields to responses
                    schema.pop("additionalProperties", None)
        return super().openapi()

    def build_middleware_stack(self) -> ASGIApp:
        return Guard(super().build_middleware_stack(), self._guard)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    front: Front = app.state.front
    async with AsyncExitStack() as stack:
        # A read-only server must not continue another process's runs and pay for them.
        if not front.read_only:
            await stack.enter_async_context(keep_warm())
            await front.service.recover()
        yield
        front.close()
        if app.state.patience is not None:
            await front.service.close(app.state.patience)


_MAX_REQUESTS = 2_000
"""Maximum number of concurrent requests; any further request gets a 503 response. The limit is twice the 1,000 debates
in scripts/benchmarks/http_runs.py.
"""
_MAX_WAITING = 500
"""Maximum number of connections waiting for data from their clients: half of 1,024, a common limit on open files per
process.
"""
_PATIENCE: Mapping[object, float] = {h11.IDLE: 10.0, h11.SEND_BODY: 60.0}
"""Time limits, in seconds, for receiving a request's head and its body. For the largest body, 14 MB by default, the
client has to send about 2 Mbit/s.
"""
_MAX_HEADERS_SIZE = 32_768
"""Maximum size of the headers, in bytes. It is twice h11's default, because browsers send the cookies of every server
on this host.
"""
_KEEP_ALIVE = 75
"""Time, in seconds, that an idle connection stays open. It is longer than the maximum `?wait=`, so that clients can
reuse the connection.
"""
_GRACE = 5
"""Time limit, in seconds, for finishing responses on shutdown. By then, all streams have ended. In-flight calls have
their own limit.
"""


class _Connection(H11Protocol):
    """Connection that counts toward the limit on requests only while one of its requests is being answered.

    It is closed if its client is too slow. Uvicorn would wait forever for the rest of a request and count the
    connection all that time, so a few thousand silent connections, which need no token, would lock everyone else out.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        waiting: dict[_Connection, None],
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._waiting = waiting
        """Connections whose clients the server is waiting for, longest wait first."""
        self._expected: object = None
        """The part of a request that the server is waiting for, as a key of `_PATIENCE`; None if it is not waiting."""
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        self._wait_for_client()

    def data_received(self, data: bytes) -> None:
        self.limit_concurrency = sys.maxsize if len(self.connections) - len(self._waiting) < _MAX_REQUESTS else 0
        super().data_received(data)
        self._wait_for_client()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        # while the client sends nothing more, uvicorn's own timeout for idle connections applies
        if self.conn.their_state is h11.IDLE:
            self._expect(None)
            self._add_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._expect(None)
        self._waiting.pop(self, None)

    def _wait_for_client(self) -> None:
        """Start the time limit for the next part of a request, unless that part's limit is already running."""
        state = self.conn.their_state
        self._expect(state if state in _PATIENCE else None)
        if self._expected is None:
            self._waiting.pop(self, None)
        elif self not in self._waiting:
            self._add_waiting()

    def _expect(self, part: object) -> None:
        if part is self._expected:
            return
        if self._deadline is not None:
            self._deadline.cancel()
        self._expected = part
        self._deadline = None if part is None else self.loop.call_later(_PATIENCE[part], self.transport.abort)

    def _add_waiting(self) -> None:
        self._waiting[self] = None
        # An honest client sends its request long before its connection becomes the oldest.
        if len(self._waiting) > _MAX_WAITING:
            first = next(iter(self._waiting))
            del self._waiting[first]
            first.transport.abort()


class Server(EndingServer):
    """Uvicorn server that ends its streams before it stops; uvicorn itself would wait for the streams to finish."""

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
    """Serve an application created by `create_app` until a signal arrives; then end its runs and close its service.

    Port 0 selects a free port. `started` is called with the address and the server; to stop the server, set
    `server.should_exit = True`. Raises ConfigurationError for an unusable address.
    """
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        ws="none",
        server_header=False,
        proxy_headers=False,
        http=partial(_Connection, waiting={}),  # type: ignore[arg-type]  # it is called like the class
        h11_max_incomplete_event_size=_MAX_HEADERS_SIZE,
        timeout_graceful_shutdown=_GRACE,
        timeout_keep_alive=_KEEP_ALIVE,
    )
    bound = bind_socket("serve()", port, host=host)
    server = Server(config, patience=(app.state.patience or 0.0) + _GRACE)
    with bound:
        if started is not None:
            name = f"[{host}]" if bound.family is socket.AF_INET6 else host
            started(f"http://{name}:{bound.getsockname()[1]}/", server)
        # A full collection would block the event loop, and objects that are already loaded never become garbage.
        gc.collect()
        gc.freeze()
        await server.serve(sockets=[bound])
