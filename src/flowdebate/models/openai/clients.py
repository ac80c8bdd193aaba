"""Pooled clients for model servers: one per event loop and endpoint, kept open while in use."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from flowdebate._text import error_text, hide_credentials, redact
from flowdebate.errors import ConfigurationError, OutputTruncated
from flowdebate.models.base import ModelRequest, ModelResponse, ModelSettings
from flowdebate.models.call import check_real_calls_allowed, is_loopback, timeout_of, within
from flowdebate.models.openai.endpoint import Endpoint, address_of
from flowdebate.models.openai.optional import Learned, learned_of
from flowdebate.models.providers import StructuredMode

if TYPE_CHECKING:
    import ssl

    from openai import AsyncOpenAI


Transport = Literal["aiohttp", "openai"]
"""Client library: "aiohttp" for aiohttp itself, or "openai" for the SDK, which also runs on aiohttp."""


@dataclass(slots=True, eq=False)
class _Shared:
    """A client and the number of models that share it."""

    client: Any
    closing: AsyncExitStack
    users: int = 0


@dataclass(slots=True, eq=False)
class _Pool:
    """An event loop's open clients.

    Unused clients stay open while at least one `keep_connections` block is active; `keepers` counts these blocks.
    """

    keepers: int = 0
    clients: dict[object, _Shared] = field(default_factory=dict)

    async def close_unused(self) -> None:
        """Close the unused clients."""
        loop = asyncio.get_running_loop()
        async with AsyncExitStack() as closing:
            for key, shared in list(self.clients.items()):
                if not (shared.users or self.keepers):
                    del self.clients[key]
                    # a client closes its sockets before its first await, so a cancellation leaves none open
                    closing.push_async_callback(shared.closing.aclose)
            with _lock:
                if not (self.clients or self.keepers):
                    _pools.pop(loop, None)


_pools: WeakKeyDictionary[asyncio.AbstractEventLoop, _Pool] = WeakKeyDictionary()
_lock = threading.Lock()


def _pool() -> _Pool:
    with _lock:
        return _pools.setdefault(asyncio.get_running_loop(), _Pool())


@asynccontextmanager
async def keep_connections() -> AsyncIterator[None]:
    """Keep connections to providers open between runs in this event loop, until the block ends.

    A run closes its connections when it ends, unless the run is inside this block or another run in the loop is using
    them. The HTTP server, the MCP server and batches wrap all their runs this way; `async with model:` does the same
    for one model.

    >>> async def debates(pattern, questions):
    ...     async with keep_connections():
    ...         return [await pattern.run(question, model="openai/gpt-5-mini") for question in questions]
    """
    pool = _pool()
    pool.keepers += 1
    try:
        yield
    finally:
        pool.keepers -= 1
        await pool.close_unused()


@dataclass(slots=True, eq=False)
class _LoopClients:
    """A model's clients in one event loop, with a count of their current users.

    There are several clients if the model's endpoint has changed.
    """

    users: int = 0
    clients: dict[Endpoint, _Shared] = field(default_factory=dict)


class Clients:
    """A model's clients.

    Inside a `keep_open` block, connections stay open, and `client` returns the running loop's client. Models with the
    same endpoint share a client, but only within one event loop and therefore within one thread. `sdk` names the client
    library, and `connect` creates its clients; by default, both are openai's.
    """

    def __init__(
        self,
        *,
        transport: Transport = "aiohttp",
        sdk: str = "openai",
        connect: Callable[[Endpoint, dict[str, Any]], Any] | None = None,
    ) -> None:
        self._transport = transport
        self._sdk = sdk
        self._connect_sdk = connect or _connect_openai
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopClients] = WeakKeyDictionary()
        self._lock = threading.Lock()

    @asynccontextmanager
    async def keep_open(self) -> AsyncIterator[None]:
        """Keep the running event loop's connections open inside the block.

        They are closed when the last of several concurrent blocks ends.
        """
        self.acquire()
        try:
            yield
        finally:
            await self.release()

    def acquire(self) -> None:
        """Register a user of the connections."""
        with self._lock:
            self._loops.setdefault(asyncio.get_running_loop(), _LoopClients()).users += 1

    async def release(self) -> None:
        """Unregister a user of the connections; they are closed when the last user leaves."""
        loop = asyncio.get_running_loop()
        with self._lock:
            loop_clients = self._loops[loop]
            loop_clients.users -= 1
            if loop_clients.users:
                return
            del self._loops[loop]
        for shared in loop_clients.clients.values():
            shared.users -= 1
        await _pool().close_unused()

    async def client(self, endpoint: Endpoint) -> Any:  # noqa: ANN401 - that of `connect`
        """Return the running loop's client for `endpoint`; must be called inside `keep_open`."""
        loop_clients = self._loops[asyncio.get_running_loop()]
        if (existing := loop_clients.clients.get(endpoint)) is not None:
            return existing.client
        clients, key = _pool().clients, (type(self), self._sdk, self._transport, endpoint)
        if key not in clients:
            # in a thread: `import openai` takes a second, and certificates are read from files
            library = self._sdk if self._requires_sdk(endpoint) else "aiohttp"
            module = f"flowdebate.models.openai.{'http' if library == 'aiohttp' else 'sdk'}"
            if not sys.modules.keys() >= {module, library}:
                await load(warm_up, library)
            if endpoint.base_url.startswith("https"):
                await load(_trusted, *map(os.environ.get, ("SSL_CERT_FILE", "SSL_CERT_DIR")))
            clients = _pool().clients  # another client may have been created in the meantime
            if key not in clients:
                connection = self._connect(endpoint)
                closing = AsyncExitStack()
                for secret in endpoint.secrets:
                    closing.enter_context(redact_in_logs(secret))
                closing.push_async_callback(connection.close)
                clients[key] = _Shared(connection, closing)
        if endpoint not in loop_clients.clients:
            loop_clients.clients[endpoint] = clients[key]
            clients[key].users += 1
        return loop_clients.clients[endpoint].client

    def _connect(self, endpoint: Endpoint) -> Any:  # noqa: ANN401 - that of the library
        _check_proxies()
        secure = endpoint.base_url.startswith("https")
        context = _trusted(*map(os.environ.get, ("SSL_CERT_FILE", "SSL_CERT_DIR"))) if secure else None
        if not self._requires_sdk(endpoint):
            from flowdebate.models.openai.http import HttpClient

            return HttpClient(endpoint, context)
        import httpx2

        from flowdebate.models.openai.sdk import options_of

        context = context or httpx2.create_ssl_context(verify=False)
        return self._connect_sdk(endpoint, options_of(endpoint, names=self._sdk != "openai", context=context))

    def _requires_sdk(self, endpoint: Endpoint) -> bool:
        """Return whether an SDK client was requested or is needed because aiohttp does not support the proxy."""
        if self._sdk != "openai" or self._transport != "aiohttp":
            return True
        from urllib.request import getproxies

        scheme = urlsplit(endpoint.base_url).scheme
        return not is_loopback(endpoint.base_url) and not getproxies().keys().isdisjoint((scheme, "all"))


_PROXIES = ("http", "https", "socks5", "socks5h")
"""Supported URL schemes for proxies."""


def _check_proxies() -> None:
    """Raise ConfigurationError for an unusable proxy in the environment; the error does not show the password."""
    from urllib.request import getproxies

    for kind, address in getproxies().items():
        scheme, sign, _ = address.partition("://")
        if kind in ("http", "https", "all") and sign and scheme.lower() not in _PROXIES:
            name = next((name for name in os.environ if name.lower() == f"{kind}_proxy"), f"{kind}_proxy")
            problem = "must be a proxy address starting with http://, https:// or socks5://"
            raise ConfigurationError("environment", name, hide_credentials(address), problem)


@lru_cache(maxsize=8)
def _trusted(file: str | None, folder: str | None) -> ssl.SSLContext:
    """Load the trusted certificates specified by environment variables; this is slow.

    Raises ConfigurationError, naming the variable, if the certificates cannot be read.
    """
    import httpcore2

    if file and not os.access(file, os.R_OK):
        raise ConfigurationError("environment", "SSL_CERT_FILE", file, "must be a readable certificate file")
    if folder and not Path(folder).is_dir():
        raise ConfigurationError("environment", "SSL_CERT_DIR", folder, "must be a readable folder of certificates")
    try:
        return httpcore2.default_ssl_context()
    except OSError as error:  # the file contains no certificates, and the library's error does not name the file
        problem = f"must be a certificate file in PEM format ({error_text(error)})"
        raise ConfigurationError("environment", "SSL_CERT_FILE", file, problem) from None


def _connect_openai(_: Endpoint, options: dict[str, Any]) -> AsyncOpenAI:
    import openai

    return openai.AsyncOpenAI(**options)


def warm_up(library: str = "aiohttp") -> None:
    """Import the modules needed by `library` ahead of the first call, because importing them is slow."""
    if library == "aiohttp":
        import flowdebate.models.openai.http
    else:
        import flowdebate.models.openai.sdk  # noqa: F401

        import_module(library)


async def load(function: Callable[..., object], *arguments: object) -> None:
    """Run a slow function, such as a first import, in a thread."""
    await asyncio.get_running_loop().run_in_executor(None, function, *arguments)


class PooledModel:
    """Base class for models that make their calls through `Clients`.

    A run keeps connections open until it ends; `async with model:` keeps them open between runs.
    """

    tells_attempts = True
    """Always true: these models record their own attempts."""
    takes_effort: bool = False
    """True if the amount of thinking can be set."""
    _name: str
    _label: str
    _modes: Sequence[StructuredMode]
    _settings: ModelSettings
    _clients: Clients

    if TYPE_CHECKING:

        @property
        def _address(self) -> str: ...
        async def _answer(self, request: ModelRequest) -> ModelResponse: ...
        def _endpoint(self) -> object: ...

    @property
    def name(self) -> str:
        """Name of the model in errors, events and usage."""
        return self._label

    @property
    def base_url(self) -> str:
        """Address currently used for calls, without the user name, password or query."""
        return address_of(self._address)

    @property
    def structured_modes(self) -> Sequence[StructuredMode]:
        """The model's structured modes, in order of preference."""
        return self._modes

    @property
    def timeout(self) -> float | None:
        """The model's own time limit in seconds for all attempts at a call; None to use the request's deadline."""
        return timeout_of(self._settings)

    @property
    def learned(self) -> Learned:
        """Record of what the model at this address has rejected in this process."""
        return learned_of(self.base_url, self._name)

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Make a single request without retrying; `flowdebate.models.call` applies `retry`."""
        request.attempts.server = self.base_url
        check_real_calls_allowed(self.name, base_url=self.base_url)
        response = await within(self.timeout, self._answer(request))
        if request.output is not None and response.finish == "length":
            raise OutputTruncated("the answer was cut off: raise max_tokens")
        return response

    async def check_ready(self) -> None:
        """Raise the error that a first call would raise if the key is missing or real models are forbidden."""
        check_real_calls_allowed(self.name, base_url=self.base_url)
        self._endpoint()

    @asynccontextmanager
    async def open_connections(self) -> AsyncIterator[Self]:
        """Keep the running event loop's connections open inside the block.

        They are closed when the last of several concurrent blocks ends.
        """
        async with self._clients.keep_open():
            yield self

    async def __aenter__(self) -> Self:
        self._clients.acquire()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._clients.release()


# Loggers of openai and its underlying libraries; they may log a key in headers, addresses and tracebacks.
_LOGGERS = (
    "aiohttp.client",
    "anthropic",
    "anthropic._base_client",
    "anthropic._response",
    "httpcore2.connection",
    "httpcore2.http11",
    "httpcore2.http2",
    "httpcore2.proxy",
    "httpx2",
    "openai",
    "openai._base_client",
    "openai._response",
)


class _Redacting(logging.Filter):
    """Log filter that redacts `secrets`; a secret must be removed as many times as it was added."""

    def __init__(self) -> None:
        super().__init__()
        self.secrets: list[str] = []

    def filter(self, record: logging.LogRecord) -> bool:
        message = record.getMessage()
        if record.exc_info and not record.exc_text:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        trace = record.exc_text or ""
        if any(secret in message or secret in trace for secret in self.secrets):
            record.msg, record.args = redact(message, self.secrets), None
            record.exc_info, record.exc_text = None, redact(trace, self.secrets) or None
        return True


_REDACTING = _Redacting()


@contextmanager
def redact_in_logs(secret: str) -> Iterator[None]:
    """Redact `secret` in all connection logs inside the block."""
    if not _REDACTING.secrets:
        for name in _LOGGERS:
            logging.getLogger(name).addFilter(_REDACTING)
    _REDACTING.secrets.append(secret)
    try:
        yield
    finally:
        _REDACTING.secrets.remove(secret)
