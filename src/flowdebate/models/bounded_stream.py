"""A response body that ends in an error once it is longer than it may be."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx2

from flowdebate.errors import ResponseTooLarge

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ("bounded_stream",)


def bounded_stream(stream: object, limit: int) -> httpx2.AsyncByteStream:
    """`stream`, up to `limit` bytes; ResponseTooLarge then."""
    if not isinstance(stream, httpx2.AsyncByteStream):
        raise TypeError(stream)
    return _Bounded(stream, limit)


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, limit: int) -> None:
        self._stream = stream
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = 0
        async for part in self._stream:
            read += len(part)
            if read > self._limit:
                raise ResponseTooLarge(self._limit, "bytes")
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()
