"""Faults that are not in the catalog but have occurred on real servers."""

from __future__ import annotations

import gzip
import json
import time
import zlib
from email.utils import formatdate
from typing import TYPE_CHECKING, Any

from flowdebate.errors import MalformedResponse, ModelTimeout, ModelUnavailable, ResponseTooLarge
from flowdebate.models import ToolCall
from tests.models.server import chunk, completion, fine, tool_call

from .fault import Fault
from .handlers import (
    EVENT_STREAM,
    JSON_CHUNKED,
    answer,
    called,
    endless,
    error_body,
    event,
    events,
    greet_with_reset,
    piece,
    raw,
    refuse_with,
    reply,
    speak_http,
    whole,
)

if TYPE_CHECKING:
    from tests.models.server import Exchange

__all__ = ("FURTHER",)

_BODY = json.dumps(completion()).encode()
_PACKED = gzip.compress(_BODY)


def _bomb(blocks: int) -> bytes:
    """Return compressed blocks of two million blanks each, all identical and each compressed separately."""
    packer = zlib.compressobj(wbits=31)
    first, second = (packer.compress(b" " * 2_000_000) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    # the end is missing, so only a client that has decompressed everything notices
    return first + second * (blocks - 1)


def _good(row: str, title: str, *handlers: Any, **more: Any) -> Fault:
    return Fault(
        id=row,
        title=title,
        handlers=handlers,
        description=more.pop("description", "The answer"),
        attempts=(None,),
        facts={"text": "fine", **more.pop("facts", {})},
        **more,
    )


def _again(row: str, title: str, error: str, handler: Any, **more: Any) -> Fault:
    return Fault(
        id=row,
        title=title,
        handlers=(handler, fine),
        description="Retried after the backoff, then the answer",
        attempts=(error, None),
        facts={"text": "fine"},
        **more,
    )


async def _ahead(exchange: Exchange) -> None:
    """Respond with a retry-after date thirty seconds ahead."""
    await refuse_with(429, retry_after=formatdate(time.time() + 30, usegmt=True))(exchange)


def _with_more(value: Any) -> Any:
    """Return `value` with an extra field in each object."""
    if isinstance(value, dict):
        return {**{name: _with_more(inner) for name, inner in value.items()}, "x_vendor": {"a": [None]}}
    return [_with_more(inner) for inner in value] if isinstance(value, list) else value


FURTHER: tuple[Fault, ...] = (
    _good(
        "packing-gzip",
        "A body packed with gzip, though none was to be",
        answer(_PACKED, headers={"Content-Encoding": "gzip"}),
    ),
    _good(
        "packing-deflate",
        "A body packed with deflate, though none was to be",
        answer(zlib.compress(_BODY), headers={"Content-Encoding": "deflate"}),
    ),
    _good(
        "packing-stream",
        "A stream packed with gzip",
        raw(
            EVENT_STREAM.replace(b"\r\n\r\n", b"\r\nContent-Encoding: gzip\r\n\r\n")
            + piece(gzip.compress(event(chunk("fine")) + event(chunk(finish="stop"))))
            + b"0\r\n\r\n"
        ),
        mode="stream",
        flags=frozenset({"usage_unknown"}),
    ),
    Fault(
        id="packing-bomb",
        title="200 KB of gzip that unpack to 200 MB",
        handlers=(answer(_bomb(100), headers={"Content-Encoding": "gzip"}),),
        description="`ResponseTooLarge` after 16 MB; memory stays bounded",
        attempts=("ResponseTooLarge",),
        error=ResponseTooLarge,
    ),
    _again(
        "packing-broken", "Gzip that is none", "MalformedResponse", answer(_BODY, headers={"Content-Encoding": "gzip"})
    ),
    _again(
        "packing-half",
        "Gzip that ends too early",
        "MalformedResponse",
        answer(_PACKED[:-20], headers={"Content-Encoding": "gzip"}),
    ),
    Fault(
        id="packing-unknown",
        title="A body with an unknown encoding",
        handlers=(answer(_BODY, headers={"Content-Encoding": "zpaq"}),),
        description="`MalformedResponse` after all attempts",
        attempts=("MalformedResponse",) * 3,
        error=MalformedResponse,
        says="encoded as 'zpaq'",
    ),
    _again(
        "chunks-length",
        "A chunk whose length is no number",
        "MalformedResponse",
        raw(JSON_CHUNKED + b"xyz\r\n{}\r\n0\r\n\r\n"),
    ),
    _again(
        "chunks-short",
        "A chunk that is longer than it says",
        "MalformedResponse",
        raw(JSON_CHUNKED + b"5\r\n{12345678}\r\n0\r\n\r\n"),
    ),
    _again(
        "headers-lengths",
        "Two `Content-Length` headers that differ",
        "MalformedResponse",
        raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\nContent-Length: 900\r\n\r\n{}"),
    ),
    _again(
        "headers-negative",
        "A `Content-Length` that is negative",
        "MalformedResponse",
        raw(b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n{}"),
    ),
    _again(
        "headers-broken", "A header that is none", "MalformedResponse", raw(b"HTTP/1.1 200 OK\r\nno header\r\n\r\n{}")
    ),
    _good("headers-long", "A header of 20,000 bytes", raw(whole(headers=f"X-Long: {'x' * 20_000}\r\n"), close=False)),
    _again(
        "headers-endless",
        "A header of 300,000 bytes",
        "MalformedResponse",
        raw(whole(headers=f"X-Long: {'x' * 300_000}\r\n")),
    ),
    _good("headers-type", "JSON that says it is text", answer(_BODY, "text/plain")),
    _good(
        "headers-no-type",
        "JSON without a `Content-Type`",
        raw(whole().replace(b"Content-Type: application/json\r\n", b""), close=False),
    ),
    _good(
        "headers-cookie",
        "A cookie that could not be sent back",
        raw(whole(headers="Set-Cookie: a=\xff\r\n"), close=False),
        description="The answer; cookies are not stored",
    ),
    _again("not-http", "Another protocol", "MalformedResponse", raw(b"220 mail.example ESMTP\r\n\r\n")),
    _good(
        "http-1.0",
        "HTTP/1.0, ended by closing",
        raw(b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n" + _BODY),
    ),
    _good(
        "100",
        "`100 Continue` and `103 Early Hints` first",
        raw(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n" + whole(), close=False),
    ),
    _good(
        "100-many", "500 times `100 Continue` first", raw(b"HTTP/1.1 100 Continue\r\n\r\n" * 500 + whole(), close=False)
    ),
    Fault(
        id="100-endless",
        title="`100 Continue` for ever",
        handlers=(endless(b"HTTP/1.1 100 Continue\r\n\r\n", every=0.005),),
        description="`ModelTimeout` at the deadline",
        attempts=("ModelTimeout",),
        error=ModelTimeout,
        timeout=1.0,
    ),
    Fault(
        id="101",
        title="`101 Switching Protocols`",
        handlers=(raw(b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n", close=True),),
        description="An error after all attempts",
        attempts=("MalformedResponse",) * 3,
        error=MalformedResponse,
    ),
    _good("bom", "A byte order mark before the JSON", answer(b"\xef\xbb\xbf" + _BODY)),
    _good(
        "keys-twice",
        "A key of the completion twice",
        answer(_BODY[:-1] + b', "model": "served"}'),
        description="The answer; the last one counts",
    ),
    Fault(
        id="events-unasked",
        title="A stream where none was asked for",
        handlers=(events(chunk("fine"), chunk(finish="stop")),),
        description="`MalformedResponse` at once: it would be sent again",
        attempts=("MalformedResponse",),
        error=MalformedResponse,
        facts={"transient": False},
    ),
    Fault(
        id="retry-date",
        title="429 with a `Retry-After` date 30 seconds ahead",
        handlers=(_ahead, fine),
        description="Waits until then, then the answer",
        attempts=("RateLimited", None),
        waits=((25.0, 30.0),),
        timeout=60,
    ),
    _good(
        "extra-fields",
        "Unknown fields everywhere",
        reply(_with_more(completion(reasoning_content="hm", refusal=None))),
    ),
    _good("tools-null", "`tool_calls: null` beside the text", reply(completion(tool_calls=None))),
    _good("tools-empty", "`tool_calls: []` beside the text", reply(completion(tool_calls=[]))),
    _good(
        "tools-unasked",
        "Text beside the call of a tool that was never offered",
        called(tool_call("admin", "{}"), content="fine"),
        description="The text; the call is left out",
        facts={"tool_calls": (), "finish": "stop"},
    ),
    _again(
        "tools-alone",
        "The call of a tool that was never offered, and no text",
        "MalformedResponse",
        called(tool_call("admin", "{}")),
    ),
    _good(
        "tools-null-content",
        "Content that is null beside the call of a tool that was offered",
        called(tool_call("lookup", "{}")),
        tools=True,
        description="The call",
        facts={"text": "", "tool_calls": (ToolCall(id="call_a", name="lookup", arguments="{}"),)},
    ),
    _again("tools-shape", "Calls that are text", "MalformedResponse", reply(completion("x", tool_calls="f()"))),
    _again("tools-name", "A call whose name is a number", "MalformedResponse", called(tool_call(5, "{}"))),  # type: ignore[arg-type]
    _good(
        "tools-index",
        "Pieces of calls without an index, with text as index, and with one left out",
        events(
            chunk(tool_calls=[{"index": 7, "id": "a", "function": {"name": "lookup", "arguments": "{"}}]),
            chunk(tool_calls=[{"index": 7, "function": {"arguments": "}"}}]),
            chunk(finish="tool_calls"),
        ),
        mode="stream",
        tools=True,
        description="The call",
        flags=frozenset({"usage_unknown"}),
        facts={"text": "", "tool_calls": (ToolCall(id="a", name="lookup", arguments="{}"),)},
    ),
    Fault(
        id="tls-spoken",
        title="An `https` address of a server that speaks no TLS, and answers",
        base_url="https",
        greet=speak_http,
        description="`ModelUnavailable` at once",
        attempts=("ModelUnavailable",),
        error=ModelUnavailable,
        facts={"transient": False},
        counted="connections",
        works_again=False,
    ),
    Fault(
        id="tls-closed",
        title="An `https` address of a server that speaks no TLS, and ends the connection",
        base_url="https",
        greet=greet_with_reset,
        description="`ModelUnavailable` or `ConnectionLost` after all attempts",
        attempts=("ModelUnavailable",) * 3,
        error=ModelUnavailable,
        counted="connections",
        works_again=False,
    ),
    Fault(
        id="echo",
        title="A server that repeats the key in a page, in an error, in the text",
        handlers=(
            answer(b'{"error": {"message": "bad sk-canary-0123456789abcdef"}}', status=500),
            refuse_with(429, error_body("sk-canary-0123456789abcdef is too fast")),
            reply(completion("the key is sk-canary-0123456789abcdef")),
        ),
        description="The key is in no error, and taken out of the text",
        attempts=("ProviderFailed", "RateLimited", None),
        facts={"text": "the key is [redacted]"},
    ),
)
