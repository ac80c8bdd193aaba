"""openai clients: one for each event loop and endpoint, open as long as it is in use."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakKeyDictionary

from flowdebate._util.text import redact
from flowdebate.errors import ConfigurationError, OutputTruncated, ResponseTooLarge
from flowdebate.models.base import ModelSettings
from flowdebate.models.call import check_real_calls_allowed, is_loopback, within
from flowdebate.models.openai.endpoint import ADDRESS
from flowdebate.models.openai.error_mapping import answered

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Callable, Iterator
    from http.cookiejar import CookieJar
    from typing import Self

    import httpx2
    from openai import AsyncOpenAI

    from flowdebate.models.base import ModelRequest, ModelResponse
    from flowdebate.models.openai.endpoint import Endpoint


Transport = Literal["aiohttp", "httpx2"]
"""HTTP library below openai."""

# Concurrent calls per model and loop; others wait for a connection. aiohttp keeps this many open without searching
# them one by one, as httpx2's pool does, which gets slower with each.
_CONNECTIONS = 5_000
# Seconds to establish a connection; everything after that is up to the call's deadline.
_CONNECT_SECONDS = 30.0
# Bytes of a response body, so that a body that never ends does not fill the memory.
_LONGEST_BODY = 16_000_000


@dataclass(slots=True, eq=False)
class _LoopClients:
    """Clients of one event loop (a second one if the endpoint has moved), and how many use them."""

    users: int = 0
    clients: dict[Endpoint, Any] = field(default_factory=dict)
    closing: AsyncExitStack = field(default_factory=AsyncExitStack)


class Clients:
    """The clients of one model.

    `keep_open` keeps connections open inside its block, where `client` returns the running loop's client. Event loops,
    and so threads, do not share clients. They are those of the library `sdk`, made by `connect`, openai's by default.
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
        self._contexts: dict[bool, ssl.SSLContext] = {}

    @asynccontextmanager
    async def keep_open(self) -> AsyncIterator[None]:
        """Keep the running loop's connections open until the last block like this one has ended."""
        self.acquire()
        try:
            yield
        finally:
            await self.release()

    def acquire(self) -> None:
        """Start using the connections."""
        with self._lock:
            self._loops.setdefault(asyncio.get_running_loop(), _LoopClients()).users += 1

    async def release(self) -> None:
        """Stop using the connections; the last user closes them."""
        loop = asyncio.get_running_loop()
        with self._lock:
            own = self._loops[loop]
            own.users -= 1
            if own.users:
                return
            del self._loops[loop]
        # a client closes its sockets before its first await, so a cancellation that comes now leaves none open
        await own.closing.aclose()

    async def client(self, endpoint: Endpoint) -> Any:  # noqa: ANN401 - that of `connect`
        """Return the running loop's client for `endpoint`; call it inside `keep_open`."""
        secure = endpoint.base_url.startswith("https")
        if self._sdk not in sys.modules or secure not in self._contexts:

            def prepare() -> None:  # in a thread: `import openai` takes half a second and more
                import httpx2
                import openai.resources.chat.completions  # noqa: F401 - `import openai` leaves it for the first call

                import_module(self._sdk)

                self._contexts[secure] = httpx2.create_ssl_context(verify=secure)

            await load(prepare)
        own = self._loops[asyncio.get_running_loop()]
        found = own.clients.get(endpoint)
        if found is None:
            found = own.clients[endpoint] = self._connect(endpoint)
            for secret in endpoint.secrets:
                own.closing.enter_context(redact_in_logs(secret))
            own.closing.push_async_callback(found.close)
        return found

    def _connect(self, endpoint: Endpoint) -> Any:  # noqa: ANN401 - that of `connect`
        import httpx2
        import openai

        try:
            httpx2.URL(endpoint.base_url)
        except (httpx2.InvalidURL, ValueError):
            raise ConfigurationError("OpenAIModel", "base_url", endpoint.base_url, ADDRESS) from None
        timeout = httpx2.Timeout(None, connect=_CONNECT_SECONDS)
        context = self._contexts[endpoint.base_url.startswith("https")]
        aiohttp = self._transport == "aiohttp"
        make = openai.DefaultAioHttpClient if aiohttp else openai.DefaultAsyncHttpxClient
        http = make(
            # httpx2 reads stray bytes on a pooled connection as the next call's answer, so that one debater would get
            # another's: it may not pool connections
            limits=httpx2.Limits(
                max_connections=_CONNECTIONS, max_keepalive_connections=_CONNECTIONS if aiohttp else 0
            ),
            timeout=timeout,
            follow_redirects=False,
            # proxies of the environment are not used for this machine
            trust_env=not is_loopback(endpoint.base_url),
            verify=context,
            # anthropic wants the names of events, and openai makes errors of some
            event_hooks={"response": [partial(_bound_body, names=self._sdk != "openai")]},
            cookies=_no_cookies(),
            params=endpoint.query or None,
        )
        if aiohttp:
            from flowdebate.models.openai.transport import use_clean_connections

            use_clean_connections(http, limit=_CONNECTIONS, context=context)
        options = {
            "api_key": endpoint.api_key,
            "base_url": endpoint.base_url,
            # packed bodies cost time, and could unpack to more than the memory holds
            "default_headers": {"Accept-Encoding": "identity", **dict(endpoint.headers)},
            "http_client": http,
            "max_retries": 0,  # a library's own retries are paid calls that nobody counts
            "timeout": timeout,
        }
        return self._connect_sdk(endpoint, options)


def _connect_openai(_: Endpoint, options: dict[str, Any]) -> AsyncOpenAI:
    import openai

    return openai.AsyncOpenAI(**options)


def _no_cookies() -> CookieJar:
    """Make a cookie jar that stays empty: one malformed cookie would fail every later call of the client."""
    from http.cookiejar import CookieJar

    class NoCookies(CookieJar):
        def extract_cookies(self, *_: object) -> None:
            return

    return NoCookies()


async def _bound_body(response: httpx2.Response, *, names: bool = False) -> None:
    """Note the headers of `response`, and bound its body: reject it at once where they announce more."""
    from flowdebate.models.openai.transport import bound_stream, encoding_of

    answered.set(response.headers)
    announced = response.headers.get("content-length", "")
    if announced.isdecimal() and int(announced[:20]) > _LONGEST_BODY:
        await response.aclose()
        raise ResponseTooLarge(_LONGEST_BODY, "bytes")
    encoding = encoding_of(response.headers)
    if encoding is not None:
        # httpx2 would unpack each piece, however large, before its size can be checked
        del response.headers["content-encoding"]
    events = "event-stream" in response.headers.get("content-type", "").lower()
    response.stream = bound_stream(response.stream, _LONGEST_BODY, encoding=encoding, events=events, names=names)


async def load(function: Callable[..., object], *arguments: object) -> None:
    """Run a slow function, such as a first import, in a thread."""
    await asyncio.get_running_loop().run_in_executor(None, function, *arguments)


class PooledModel:
    """Base class of models with `Clients`: runs keep the connections open, `async with model:` does so for longer."""

    tells_attempts = True
    """Tells the call boundary that the model records its attempts."""
    takes_effort: bool = False
    """Whether it can be told how much to think."""
    _settings: ModelSettings
    _clients: Clients

    if TYPE_CHECKING:

        @property
        def name(self) -> str: ...
        @property
        def base_url(self) -> str: ...
        async def _answer(self, request: ModelRequest) -> ModelResponse: ...

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Answer once; `retry` applies to calls through the call boundary, as runs make them."""
        check_real_calls_allowed(self.name, base_url=self.base_url)
        timeout = self._settings.timeout
        response = await within(None if timeout == ModelSettings().timeout else timeout, self._answer(request))
        if request.output is not None and response.finish == "length":
            raise OutputTruncated("the answer was cut off before its end: give it more room (max_tokens)")
        return response

    @asynccontextmanager
    async def open_connections(self) -> AsyncIterator[Self]:
        """Keep the running loop's connections open until the last block like this one has ended."""
        async with self._clients.keep_open():
            yield self

    async def __aenter__(self) -> Self:
        self._clients.acquire()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._clients.release()


# Loggers of openai and what is below it, which may show a key in headers, addresses and tracebacks.
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
    """Log filter that redacts `secrets`; each is active as often as it was added."""

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
    """Redact `secret` in all logs of connections inside the block."""
    if not _REDACTING.secrets:
        for name in _LOGGERS:
            logging.getLogger(name).addFilter(_REDACTING)
    _REDACTING.secrets.append(secret)
    try:
        yield
    finally:
        _REDACTING.secrets.remove(secret)
