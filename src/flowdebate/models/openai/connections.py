"""Connections that are kept from one call to the next, over aiohttp: only those on which nothing has come in between.

What a server sends after its answer would be read as the answer to the next call, so that one debater would be given
what was said to another.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

import aiohttp
from aiohttp.client_proto import ResponseHandler

if TYPE_CHECKING:
    import ssl

    import httpx2
    from aiohttp.client_reqrep import ClientRequest
    from aiohttp.connector import Connection
    from aiohttp.tracing import Trace

__all__ = ("keep_only_clean",)

_HEADER = 65_536
"""Bytes that one header may have; aiohttp's own limit is below what proxies are seen to send."""


def keep_only_clean(client: httpx2.AsyncClient, *, limit: int, context: ssl.SSLContext) -> None:
    """Have `client`, an `openai.DefaultAioHttpClient` that was not used yet, open its connections in this way."""

    def session() -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=_Clean(limit=limit, context=context),
            cookie_jar=aiohttp.DummyCookieJar(),
            max_line_size=_HEADER,
            max_field_size=_HEADER,
        )

    transport: Any
    for transport in (client._transport, *client._mounts.values()):  # noqa: SLF001 - there is no other way to them
        if transport is not None:
            transport.client = session


class _Ending(ResponseHandler):
    """Ends when it is closed, and not when the other side has taken what was to be sent, which may be never."""

    def close(self) -> None:
        transport = self.transport
        if transport is not None and transport.get_write_buffer_size():
            self.abort()
        else:
            super().close()


class _Clean(aiohttp.TCPConnector):
    def __init__(self, *, limit: int, context: ssl.SSLContext) -> None:
        super().__init__(limit=limit, ssl=context)
        self._factory: Any = partial(_Ending, loop=asyncio.get_running_loop())

    async def connect(
        self,
        req: ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's own
    ) -> Connection:
        while True:
            connection = await super().connect(req, traces, timeout)
            try:
                # one turn of the loop to see what has come in, another to have it read
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            except BaseException:
                connection.close()
                raise
            protocol = connection.protocol
            if protocol is None or not protocol.should_close:
                return connection
            connection.close()
