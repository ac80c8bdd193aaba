"""Transport layer below the clients: connections that are safe to reuse, and bounded response bodies.

A pooled connection is reused only if nothing has arrived on it since the last answer. Otherwise a server's stray bytes
would be read as the answer to the next call, and one debater would receive another debater's answer.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import aiohttp
from aiohttp.client_proto import ResponseHandler

from flowdebate.errors import MalformedResponse, ResponseTooLarge
from flowdebate.models.openai.endpoint import Exchange, exchanges

if TYPE_CHECKING:
    import ssl

    from aiohttp.client_reqrep import ClientRequest
    from aiohttp.connector import Connection
    from aiohttp.tracing import Trace


# Maximum number of concurrent calls per endpoint and loop; further calls wait for a connection. aiohttp handles this
# many open connections, whereas httpx2's pool searches them one by one and slows down with each.
CONNECTIONS = 5_000
# Time in seconds allowed to establish a connection; after that, the call's deadline applies.
CONNECT_SECONDS = 30.0
# Maximum size of a response body in bytes, to keep an endless body from exhausting memory.
MAX_BODY_SIZE = 16_000_000

# Messages without data that keep a connection open: `: OPENROUTER PROCESSING`, `[ping]`, `keep-alive`.
_KEEP_ALIVE = re.compile(
    rb"data:\s*(:.*|[\W_]*((\w+ )?processing|ping|pong|keep[\W_]?alive|heart[\W_]?beat|waiting|alive|no-?op)[\W_]*)",
    re.IGNORECASE,
)
_LINES = 100  # maximum number of lines per event; most events have one


async def event_lines(parts: AsyncIterator[bytes], *, names: bool = False) -> AsyncIterator[bytes]:
    """Split the `parts` of an event stream into whole lines; raise MalformedResponse for an endless event.

    The openai library copies the whole event whenever another line or part of a line arrives, so a server could keep a
    process busy with an endless event. Lines without data are dropped, because openai creates empty events from
    comments, ids and the like. Comments sent as data are dropped as well. If `names` is true, event names are kept.
    """
    rest: list[bytes] = []
    lines = 0
    async for part in parts:
        cut = part.rfind(b"\n") + 1
        if not cut:
            rest.append(part)
            continue
        event_line = b"".join((*rest, part[:cut]))
        rest = [part[cut:]] if cut < len(part) else []
        whole_lines = []
        for line in event_line.split(b"\n")[:-1]:
            blank = not line.strip()
            is_event_name = names and line.startswith(b"event:")
            if not (blank or is_event_name or (line.startswith(b"data:") and line[5:].strip())):
                continue
            if not lines and _KEEP_ALIVE.fullmatch(line):
                continue
            lines = 0 if blank else lines + 1
            if lines > _LINES:
                raise MalformedResponse("an event in the stream is too long")
            whole_lines.append(line)
        if whole_lines:
            yield b"\n".join((*whole_lines, b""))
    if rest:
        yield b"".join(rest)


_BOM = b"\xef\xbb\xbf"  # openai would treat a byte order mark as part of the first JSON token or event field
# zlib's window bits, keyed by content encoding.
_WINDOWS = {"gzip": zlib.MAX_WBITS | 16, "x-gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}
_SENT = 1_000_000  # maximum decompressed size of a chunk in bytes: 200 KB of gzip can unpack to 200 MB


def check_length(headers: Mapping[str, str]) -> None:
    """Raise ResponseTooLarge if `headers` announce a body larger than MAX_BODY_SIZE."""
    announced = headers.get("content-length", "")
    if announced.isdecimal() and int(announced[:20]) > MAX_BODY_SIZE:
        raise ResponseTooLarge(MAX_BODY_SIZE, "bytes")


def encoding_of(headers: Mapping[str, str]) -> str | None:
    """Return a body's content encoding if the server ignored the request for `identity`; otherwise None."""
    encoding = headers.get("content-encoding", "").strip().lower()
    return None if encoding in ("", "identity") else encoding


async def bound_parts(
    parts: AsyncIterator[bytes], limit: int, *, encoding: str | None = None, events: bool = False, names: bool = False
) -> AsyncIterator[bytes]:
    """Limit `parts` to `limit` decompressed bytes.

    Raises ResponseTooLarge above the limit, and MalformedResponse for unknown encodings. A byte order mark at the
    beginning is dropped. If `events` is true, the stream is split into whole lines (`event_lines`).
    """
    bounded = _bounded(parts if encoding is None else _unpacked(parts, encoding), limit)
    if recorded := exchanges.get():
        bounded = _record_parts(bounded, recorded[-1])
    async for part in event_lines(bounded, names=names) if events else bounded:
        yield part


async def _record_parts(parts: AsyncIterator[bytes], exchange: Exchange) -> AsyncIterator[bytes]:
    async for part in parts:
        exchange.received += part
        yield part


async def _bounded(parts: AsyncIterator[bytes], limit: int) -> AsyncIterator[bytes]:
    read = 0
    begin: bytes | None = b""
    async for part in parts:
        read += len(part)
        if read > limit:
            raise ResponseTooLarge(limit, "bytes")
        if begin is None:
            yield part
            continue
        begin += part
        if len(begin) >= len(_BOM) or not _BOM.startswith(begin):
            yield begin.removeprefix(_BOM)
            begin = None
    if begin:
        yield begin


async def _unpacked(parts: AsyncIterator[bytes], encoding: str) -> AsyncIterator[bytes]:
    window = _WINDOWS.get(encoding)
    if window is None:
        raise MalformedResponse(f"the response is encoded as {encoding[:40]!a}, which was not requested")
    unpacking = zlib.decompressobj(window)
    async for packed in parts:
        rest = packed
        while rest:
            try:
                part = unpacking.decompress(rest, _SENT)
            except zlib.error as error:
                raise MalformedResponse(f"the {encoding}-encoded response cannot be decoded ({error})") from None
            rest = unpacking.unconsumed_tail
            yield part
    if not unpacking.eof:
        raise MalformedResponse(f"the {encoding}-encoded response is truncated")


_HEADER = 65_536  # maximum size of a header in bytes; headers from some proxies exceed aiohttp's default of 8,190


def open_session(*, limit: int, context: ssl.SSLContext | None) -> aiohttp.ClientSession:
    """Open a session with at most `limit` connections; it reuses only clean connections."""
    return aiohttp.ClientSession(
        connector=_CleanConnector(limit=limit, context=context),
        # stores no cookies, because one malformed cookie would break every later call
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        max_line_size=_HEADER,
        max_field_size=_HEADER,
    )


class _AbortingHandler(ResponseHandler):
    """Response handler that drops unsent data when it is closed, instead of waiting for the other side to read it."""

    def close(self) -> None:
        transport = self.transport
        if transport is not None and transport.get_write_buffer_size():
            self.abort()
        else:
            super().close()


class _CleanConnector(aiohttp.TCPConnector):
    def __init__(self, *, limit: int, context: ssl.SSLContext | None) -> None:
        super().__init__(limit=limit, ssl=context or True)
        self._factory: Any = partial(_AbortingHandler, loop=asyncio.get_running_loop())

    async def connect(
        self,
        req: ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's own
    ) -> Connection:
        while True:
            connection = await super().connect(req, traces, timeout)
            try:
                # one iteration of the event loop to notice stray bytes, and another to read them
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            except BaseException:
                connection.close()
                raise
            protocol = connection.protocol
            if protocol is None or not protocol.should_close:
                return connection
            connection.close()
