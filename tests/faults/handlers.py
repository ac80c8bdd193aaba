"""Handlers that misbehave like the servers in the rows of the table."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from tests.models.server import break_off, completion, fine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.models.server import Exchange, Handler

__all__ = (
    "EVENT_STREAM",
    "JSON_CHUNKED",
    "answer",
    "broken",
    "called",
    "chunked",
    "close_afterwards",
    "end_at_once",
    "endless",
    "error_body",
    "event",
    "events",
    "greet_with_reset",
    "half",
    "never_read",
    "piece",
    "raw",
    "refuse_with",
    "reply",
    "reset_at_once",
    "silent",
    "speak_http",
    "whole",
)


def error_body(message: str = "no", **more: Any) -> dict[str, Any]:
    """Return the body of an error response."""
    return {"error": {"message": message, **more}}


def refuse_with(status: int, body: Any = None, **headers: str) -> Handler:
    """Respond with an HTTP status; options such as `retry_after` become headers."""

    async def refuse(exchange: Exchange) -> None:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        await exchange.json(error_body() if body is None else body, status=status, headers=names)

    return refuse


def reply(value: Any, *, status: int = 200) -> Handler:
    """Respond with JSON."""

    async def send(exchange: Exchange) -> None:
        await exchange.json(value, status=status)

    return send


def answer(
    body: bytes, kind: str = "application/json", *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Handler:
    """Respond with the given bytes."""

    async def send(exchange: Exchange) -> None:
        await exchange.answer(body, kind=kind, status=status, headers=headers)

    return send


def called(*calls: dict[str, Any], content: str | None = None, finish: str = "tool_calls") -> Handler:
    """Respond with tool calls."""
    return reply(completion(content, finish=finish, tool_calls=list(calls)))


def events(*items: Any, done: bool = True) -> Handler:
    """Respond with a stream."""

    async def send(exchange: Exchange) -> None:
        await exchange.events(items, done=done)

    return send


def raw(*parts: bytes, close: bool = True, pause: float = 0.0) -> Handler:
    """Send the given bytes in order; by default, close the connection afterwards."""

    async def send(exchange: Exchange) -> None:
        for number, part in enumerate(parts):
            if number:
                await asyncio.sleep(pause)
            await exchange.raw(part)
        exchange.close = close

    return send


def whole(body: bytes | None = None, *, headers: str = "", version: str = "1.1") -> bytes:
    """Return a complete response as bytes."""
    body = json.dumps(completion()).encode() if body is None else body
    head = f"HTTP/{version} 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
    return head.encode("latin-1") + body


EVENT_STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
JSON_CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


def piece(data: bytes) -> bytes:
    """Encode `data` as a chunk of a chunked body."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def event(value: Any) -> bytes:
    """Encode one server-sent event."""
    return f"data: {json.dumps(value)}\n\n".encode()


def chunked(*parts: bytes, head: bytes = JSON_CHUNKED, end: bytes = b"0\r\n\r\n", close: bool = False) -> Handler:
    """Send a chunked body."""
    return raw(head + b"".join(map(piece, parts)) + end, close=close)


def half(data: bytes = b'{"choices": [', *, reset: bool, kind: str = "application/json") -> Handler:
    """Send less data than announced, then reset or close the connection."""

    async def send(exchange: Exchange) -> None:
        await exchange.raw(f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: 5000\r\n\r\n".encode() + data)
        if reset:
            exchange.reset()
        exchange.close = True

    return send


def broken(*items: Any, reset: bool) -> Handler:
    """Start a stream, send the given events, then reset or close the connection."""

    async def send(exchange: Exchange) -> None:
        await exchange.raw(EVENT_STREAM)
        for item in items:
            await exchange.raw(piece(exchange.encode(item)))
        if reset:
            await asyncio.sleep(0.02)  # otherwise the reset overtakes the data sent before it
            exchange.reset()
        exchange.close = True

    return send


def endless(
    part: bytes, *, head: bytes = b"", every: float | None = None, sent_sizes: list[int] | None = None
) -> Handler:
    """Send `head`, then `part` forever, as fast as possible or once every `every` seconds."""

    async def send(exchange: Exchange) -> None:
        await exchange.raw(head)
        exchange.close = True
        try:
            while True:
                await exchange.raw(part)
                if sent_sizes is not None:
                    sent_sizes.append(len(part))
                await asyncio.sleep(every or 0)
        except ConnectionError:
            pass

    return send


async def silent(exchange: Exchange) -> None:
    """Accept the request and never answer."""
    await exchange.until_gone()


async def reset_at_once(exchange: Exchange) -> None:
    """Reset the connection before sending a byte."""
    exchange.reset()


async def end_at_once(exchange: Exchange) -> None:
    """Close the connection before sending a byte."""
    exchange.close = True


async def close_afterwards(exchange: Exchange) -> None:
    """Answer, then close the connection without announcing it."""
    await fine(exchange)
    exchange.close = True


async def greet_with_reset(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Reset a connection as soon as it is established."""
    break_off(writer)
    return True


async def speak_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Answer with an HTTP response regardless of the request."""
    await reader.read(1)
    writer.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
    await writer.drain()
    return True


async def never_read(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> bool:
    """Read nothing from the connection until the row's deadline has passed."""
    await asyncio.sleep(1)
    while await reader.read(1 << 20):
        pass
    return True
