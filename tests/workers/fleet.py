"""The workers of the test processes, and a model server that records its requests."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flowdebate import Debater, debate, human
from flowdebate.errors import ProviderFailed
from flowdebate.models.base import ModelRequest, ModelResponse
from flowdebate.models.codec import digest_of
from flowdebate.workers import Workers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ("ModelServer", "ReceivedRequest", "RemoteModel", "make_workers", "model_server", "workers")


class RemoteModel:
    """Model called over HTTP, without the slow imports of a real client."""

    name = "test/remote"

    def __init__(self, port: int) -> None:
        self.port = port

    async def request(self, request: ModelRequest, /) -> ModelResponse:
        """Send the request to the model server."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            body = json.dumps([digest_of(request), request.block, os.getpid()]).encode()
            writer.write(b"POST / HTTP/1.1\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body)
            head, _, text = (await reader.read()).partition(b"\r\n\r\n")
            if head.startswith(b"HTTP/1.1 503"):
                raise ProviderFailed("it is away", status=503, model=self.name)
            assert head.startswith(b"HTTP/1.1 200"), head
        finally:
            writer.close()
        return ModelResponse(text=text.decode())


@dataclass(frozen=True)
class ReceivedRequest:
    """A request received by the server."""

    at: float
    digest: str
    block: str
    process: int


@dataclass
class ModelServer:
    """Server that answers each request after `seconds` and records it."""

    seconds: float = 0.1
    port: int = 0
    open: int = 0
    """Number of unanswered requests."""
    requests: list[ReceivedRequest] = field(default_factory=list)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    answering: asyncio.Event = field(default_factory=asyncio.Event)
    """Event that delays answers until it is set."""
    away: bool = False
    """True while all requests are rejected."""
    poison: bool = True
    """True if the run "poison" kills the worker that executes it."""
    free: int = 0
    """Number of requests that are answered unconditionally."""

    async def until(self, number: int) -> None:
        """Wait until `number` requests have arrived."""
        async with asyncio.timeout(20), self.changed:
            await self.changed.wait_for(lambda: len(self.requests) >= number)

    async def answered(self) -> None:
        """Wait until all requests are answered."""
        async with asyncio.timeout(20), self.changed:
            await self.changed.wait_for(lambda: not self.open)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        counted = 0
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
            digest, block, process = json.loads(await reader.readexactly(length))
            async with self.changed:
                self.requests.append(ReceivedRequest(time.time(), digest, block, process))
                self.open += 1
                number = len(self.requests)
                counted = 1
                self.changed.notify_all()
            if self.poison and block.startswith("poison"):
                os.kill(process, signal.SIGKILL)
            if self.away:
                writer.write(b"HTTP/1.1 503 Away\r\n\r\n")
                return
            await asyncio.sleep(self.seconds)
            if number > self.free:
                await self.answering.wait()
            text = f"What {block} says."
            if block.endswith("-judge"):
                text = json.dumps({"reasoning": "Nobody answered it.", "winner": "trams", "verdict": "Build trams."})
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + text.encode())
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the worker was killed
        finally:
            writer.close()
            async with self.changed:
                self.open -= counted
                self.changed.notify_all()


@asynccontextmanager
async def model_server(seconds: float = 0.1) -> AsyncIterator[ModelServer]:
    """Run a model server on a free local port."""
    server = ModelServer(seconds)
    server.answering.set()
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    async with listening:
        server.port = listening.sockets[0].getsockname()[1]
        yield server


def make_workers(url: str, *, schema: str, port: int, **options: Any) -> Workers:
    """Build the workers for the tests.

    They know a debate that makes five calls, a debate opened by a human, and a debate that kills its worker.
    """
    ann, bob = Debater("ann", "trams"), Debater("bob", "roads")
    city = debate(name="city", debaters=[ann, bob], synthesizer=False)
    person = Debater("ann", "trams", block=human(name="ann"))
    mixed = debate(name="mixed", debaters=[person, bob], max_rounds=1, synthesizer=False)
    poison = debate(name="poison", debaters=[ann, bob], synthesizer=False)
    patterns = {"city": city, "mixed": mixed, "poison": poison}
    settings: dict[str, Any] = {"patterns": patterns, "max_concurrency": 4, "poll": 0.05, **options}
    return Workers(url, model=RemoteModel(port), schema=schema, **settings)


def workers() -> Workers:
    """Build the same workers in a worker process, with settings from the environment."""
    return make_workers(**json.loads(os.environ["FLEET"]))
