"""A real server on the loopback interface that implements the parts of the chat completions API used by the tests.

It uses raw sockets, because a web framework cannot send half a body, a reset or nonsense. A request's `model` selects
the scenario.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self, TypeAlias

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Iterable, Mapping

Json: TypeAlias = Any
Handler: TypeAlias = "Callable[[Exchange], Awaitable[None]]"
Greeter: TypeAlias = "Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[bool]]"
"""Function called with a connection before anything is read from it; it returns True if the connection is finished."""


def completion(content: Json = "fine", *, finish: Json = "stop", **message: Json) -> dict[str, Json]:
    """Return a chat completion with known usage."""
    return {
        "id": "c1",
        "object": "chat.completion",
        "created": 1,
        "model": "served",
        "choices": [
            {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": content, **message}}
        ],
        "usage": {
            "prompt_tokens": 10,
            "completion_tokens": 3,
            "total_tokens": 13,
            "prompt_tokens_details": {"cached_tokens": 4},
        },
    }


def tool_call(name: str, arguments: str, call_id: str = "call_a") -> dict[str, Json]:
    """Return a tool call as it appears in a completion."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def chunk(content: Json = None, *, finish: str | None = None, **delta: Json) -> dict[str, Json]:
    """Return one event of a streamed completion."""
    delta = delta if content is None else {"content": content, **delta}
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "served", "choices": [choice]}


def usage_chunk() -> dict[str, Json]:
    """Return the last event, which contains the usage."""
    return {**chunk(), "choices": [], "usage": completion()["usage"]}


@dataclass(eq=False)
class Exchange:
    """A request, and the methods that answer it."""

    body: dict[str, Json]
    headers: dict[str, str]
    path: str
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    close: bool = False

    async def raw(self, data: bytes) -> None:
        """Send raw bytes."""
        self.writer.write(data)
        await self.writer.drain()

    async def answer(
        self,
        body: bytes,
        *,
        status: int = 200,
        kind: str = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Send a complete response."""
        await self.raw(
            _head(status, {"Content-Type": kind, "Content-Length": str(len(body)), **(headers or {})}) + body
        )

    async def json(self, value: Json, *, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        """Send JSON."""
        await self.answer(json.dumps(value).encode(), status=status, headers=headers)

    async def events(self, events: Iterable[Json], *, done: bool = True) -> None:
        """Send server-sent events, then close the connection."""
        await self.begin_events()
        for event in events:
            await self.event(event)
        if done:
            await self.raw(b"data: [DONE]\n\n")
        self.close = True

    async def begin_events(self) -> None:
        """Send the response head of an event stream."""
        await self.raw(_head(200, {"Content-Type": "text/event-stream", "Connection": "close"}))

    async def event(self, event: Json) -> None:
        """Send one event."""
        await self.raw(self.encode(event))

    def encode(self, event: Json) -> bytes:
        """Encode one event."""
        return f"data: {json.dumps(event)}\n\n".encode()

    async def until_gone(self) -> None:
        """Wait until the client has disconnected."""
        with contextlib.suppress(ConnectionError):
            while await self.reader.read(1024):
                pass
        self.close = True

    def reset(self) -> None:
        """Abort the connection so that the client sees a reset."""
        break_off(self.writer)
        self.close = True


def break_off(writer: asyncio.StreamWriter) -> None:
    """Abort a connection so that the client sees a reset."""
    linger = struct.pack("ii", 1, 0)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    writer.transport.abort()


async def fine(exchange: Exchange) -> None:
    """Answer any request, and stream the answer if asked to."""
    if exchange.body.get("stream"):
        await exchange.events([chunk("fi"), chunk("ne"), chunk(finish="stop"), usage_chunk()])
    else:
        await exchange.json(completion())


@dataclass(eq=False)
class ChatServer:
    """Server to be used as `async with ChatServer({"some-model": handler}) as server:`."""

    scenarios: Mapping[str, Handler] = field(default_factory=dict)
    otherwise: Handler = fine
    """Handler for models without a scenario."""
    exchange: type[Exchange] = Exchange
    """Class of the exchanges passed to handlers."""
    bodies: list[dict[str, Json]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    accepted: int = 0
    """Number of connections accepted so far."""
    greet: Greeter | None = None
    tls: ssl.SSLContext | None = None
    arrived: asyncio.Condition = field(default_factory=asyncio.Condition)
    _open: set[asyncio.StreamWriter] = field(default_factory=set)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _server: asyncio.Server | None = None
    port: int = 0

    @property
    def posts(self) -> int:
        """Return the number of requests received."""
        return len(self.bodies)

    @property
    def base_url(self) -> str:
        """Return the base URL for clients."""
        return f"http{'' if self.tls is None else 's'}://127.0.0.1:{self.port}/v1"

    @property
    def open_connections(self) -> int:
        """Return the number of open connections."""
        return len(self._open)

    async def wait_for_posts(self, count: int) -> None:
        """Wait until `count` requests have arrived."""
        async with self.arrived:
            await self.arrived.wait_for(lambda: self.posts >= count)

    async def wait_until_left(self) -> None:
        """Wait until all clients have disconnected."""
        async with self.arrived:
            await self.arrived.wait_for(lambda: not self._open)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=1024, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._open.add(writer)
        self.accepted += 1
        try:
            if self.greet is not None and await self.greet(reader, writer):
                return
            while not await self._one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client or the test has ended
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()
            self._tasks.discard(task)
            self._open.discard(writer)
            with contextlib.suppress(asyncio.CancelledError):
                async with self.arrived:
                    self.arrived.notify_all()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        begin = await reader.readexactly(1)
        if begin == b"\x16":  # this server does not speak TLS
            return True
        head = (begin + await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines) if name}
        body = json.loads(await reader.readexactly(int(headers.get("content-length", "0"))) or b"{}")
        async with self.arrived:
            self.bodies.append(body)
            self.headers.append(headers)
            self.paths.append(first.split(" ")[1])
            self.arrived.notify_all()
        exchange = self.exchange(body, headers, self.paths[-1], reader, writer)
        await self.scenarios.get(body.get("model", ""), self.otherwise)(exchange)
        return exchange.close


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} Status\r\n{lines}\r\n".encode()
