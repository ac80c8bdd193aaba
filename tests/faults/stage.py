"""Run a row against the real client, and check its outcome and side effects."""

from __future__ import annotations

import asyncio
import ssl
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flowdebate.errors import ModelError, ModelTimeout
from flowdebate.models import AnthropicModel, ModelRequest, ModelSettings, OpenAIModel, OutputSchema, Retry, ToolSpec
from flowdebate.models.call import ask
from tests.models.server import ChatServer, Exchange, fine

from .as_messages import MessagesExchange
from .fault import Fault, Played, Verdict

if TYPE_CHECKING:
    from flowdebate.models.openai.clients import Transport

__all__ = ("KEY", "Stage", "play", "self_signed")

KEY = "sk-canary-0123456789abcdef"
LOOKUP = ToolSpec(name="lookup", description="Look a fact up", parameters={"type": "object", "properties": {}})
LATE = 3.0
"""The tolerance in seconds for deadlines under load; `scripts/benchmarks/` measures their precision."""


@dataclass(eq=False)
class Stage:
    """A server that plays the row until `calm` is set."""

    fault: Fault
    kind: type[OpenAIModel | AnthropicModel] = OpenAIModel
    calm: bool = False
    _played: int = 0
    waits: list[float] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)

    async def serve(self, exchange: Exchange) -> None:
        """Run the row's next handler."""
        if self.calm or not self.fault.handlers:
            await fine(exchange)
            return
        handler = self.fault.handlers[min(self._played, len(self.fault.handlers) - 1)]
        self._played += 1
        await handler(exchange)

    async def greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Apply the row's fault to a new connection."""
        return not self.calm and self.fault.greet is not None and await self.fault.greet(reader, writer)

    async def sleep(self, seconds: float) -> None:
        """Record a wait without actually waiting."""
        self.waits.append(seconds)

    def server(self) -> ChatServer:
        exchange = Exchange if self.kind is OpenAIModel else MessagesExchange
        tls = self_signed() if self.fault.tls else None
        return ChatServer({"m": self.serve}, exchange=exchange, greet=self.greet, tls=tls)

    def model(self, server: ChatServer, transport: Transport) -> OpenAIModel | AnthropicModel:
        """Return the model with its own retries."""
        retry = Retry(sleep=self.sleep)
        retry = retry if self.fault.retry is None else self.fault.retry(retry)
        base_url = self.fault.base_url or server.base_url
        if base_url == "https":
            base_url = server.base_url.replace("http:", "https:")
        return self.kind("m", base_url=base_url, api_key=KEY, transport=transport, retry=retry, **self.fault.options)

    def request(self) -> ModelRequest:
        fault = self.fault
        return ModelRequest(
            messages=list(fault.messages),
            block="judge",
            output=OutputSchema.of(Verdict) if fault.mode == "structured" else None,
            on_text=self.pieces.append if fault.mode == "stream" else None,
            tools=[LOOKUP] if fault.tools else (),
            settings=ModelSettings(timeout=fault.timeout, max_tokens=fault.max_tokens),
        )


async def play(fault: Fault, transport: Transport, kind: type[OpenAIModel | AnthropicModel] = OpenAIModel) -> None:
    """Play `fault` against a model of `kind`; raise AssertionError if the outcome differs from the row."""
    stage = Stage(fault, kind)
    async with stage.server() as server:
        tasks = asyncio.all_tasks()
        inner = stage.model(server, transport)
        model = inner if fault.wrapped is None else fault.wrapped(inner)
        async with inner.open_connections():
            request = stage.request()
            start = asyncio.get_running_loop().time()
            response, error = None, None
            try:
                response = await ask(model, request)
            except ModelError as raised:
                error = raised
            seconds = asyncio.get_running_loop().time() - start
            played = Played(
                server=server,
                request=request,
                response=response,
                error=error,
                waits=tuple(stage.waits),
                pieces=tuple(stage.pieces),
            )
            _check_outcome(fault, played)
            _check_count(fault, played)
            _check_waits(fault, played)
            _check_time(fault, played, seconds)
            _check_secrets(inner, played)
            if fault.check is not None:
                fault.check(played)
            stage.calm = True
            if fault.works_again:
                await asyncio.sleep(fault.pause)
                next_request = ModelRequest(messages=[{"role": "user", "content": "x"}], block="b")
                assert (await ask(model, next_request)).text == "fine"
                assert len(next_request.attempts.made) == 1
        async with asyncio.timeout(5):
            await server.wait_until_left()
            # a connection's task ends shortly after the disconnect is reported
            await asyncio.gather(*(asyncio.all_tasks() - tasks), return_exceptions=True)


def _check_outcome(fault: Fault, played: Played) -> None:
    outcome: Any = played.error
    if fault.error is None:
        if played.error is not None:
            raise AssertionError(repr(played.error)) from played.error
        assert played.response is not None
        outcome = played.response
        assert set(outcome.flags) - {"other_model"} == fault.flags
        outcome.text.encode()
    else:
        assert type(outcome) is fault.error, (played.error, played.response)
        assert fault.says in str(outcome)
        assert (outcome.model, outcome.block) == ("m", "judge")
        assert len(str(outcome)) < 1_000
        assert str(outcome).isprintable()
    assert {name: getattr(outcome, name) for name in fault.facts} == fault.facts


def _check_count(fault: Fault, played: Played) -> None:
    errors = [attempt.error for attempt in played.request.attempts.made]
    assert errors == list(fault.attempts)
    counted = {"posts": played.server.posts, "connections": played.server.accepted, "nothing": len(errors)}
    assert counted[fault.counted] == len(errors)


def _check_waits(fault: Fault, played: Played) -> None:
    waits = fault.waits
    if waits is None:
        retried = [error for error in fault.attempts[:-1] if error not in _AT_ONCE]
        waits = tuple((0.25 * 2**i, 0.5 * 2**i) for i in range(len(retried)))
    assert len(played.waits) == len(waits), played.waits
    for wait, (low, high) in zip(played.waits, waits, strict=True):
        assert low <= wait <= high, played.waits
    assert all(attempt.seconds >= 0 and 0 <= attempt.waited < LATE for attempt in played.request.attempts.made)


def _check_time(fault: Fault, played: Played, seconds: float) -> None:
    if isinstance(played.error, ModelTimeout):
        assert played.error.seconds <= seconds + 0.01 < played.error.seconds + LATE


def _check_secrets(model: OpenAIModel | AnthropicModel, played: Played) -> None:
    output = repr(model) + repr(played.response) + repr(played.request.attempts.made) + "".join(played.pieces)
    if played.error is not None:
        output += "".join(traceback.format_exception(played.error))
        output += repr(played.error) + str(played.error) + repr(vars(played.error))
    assert KEY not in output
    assert all(headers["authorization"] == f"Bearer {KEY}" for headers in played.server.headers)


def self_signed() -> ssl.SSLContext:
    """Return a self-signed certificate for another host name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(Path(__file__).with_name("untrusted.pem"))
    return context


_AT_ONCE = {"SchemaViolation", "EmptyResponse", "OutputTruncated"}
