"""Faults 68 to 75: streams and their listeners."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from flowdebate.errors import (
    ConnectionLost,
    ContentFiltered,
    EmptyResponse,
    MalformedResponse,
    ModelTimeout,
    OutputTruncated,
    ProviderFailed,
    Refused,
)
from flowdebate.models import Timeout, ToolCall, Usage
from tests.models.server import chunk, completion, fine, usage_chunk

from .content_rows import worded_errors
from .fault import Fault
from .handlers import EVENT_STREAM, answer, broken, chunked, error_body, event, events, piece, raw, reply

if TYPE_CHECKING:
    from tests.models.server import Exchange, Handler

    from .fault import Played

__all__ = ("STREAMING",)

_UNTOLD = frozenset({"usage_unknown"})
_ALL = Usage(calls=1, prompt_tokens=10, cached_tokens=4, completion_tokens=3)


def _good(row: str, title: str, handler: Handler, text: str = "fine", **more: Any) -> Fault:
    return Fault(
        id=row,
        title=title,
        handlers=(handler,),
        mode="stream",
        description=more.pop("description", "The answer"),
        attempts=(None,),
        facts={"text": text, **more.pop("facts", {})},
        flags=more.pop("flags", _UNTOLD),
        check=more.pop("check", lambda played: _heard(played, text)),
        **more,
    )


def _heard(played: Played, text: str) -> None:
    """Check that the listener received the whole text once."""
    assert "".join(played.pieces) == text


def _again(row: str, title: str, error: str, handler: Handler, discarded: str, **more: Any) -> Fault:
    """Send a useless stream, then a complete one; the answer must not contain text from the first."""
    return Fault(
        id=row,
        title=title,
        handlers=(handler, fine),
        mode="stream",
        description="Retried, then the answer; the first text is discarded",
        attempts=(error, None),
        facts={"text": "fine"},
        check=lambda played: _heard(played, f"{discarded}fine"),
        **more,
    )


def _piece(index: Any, **call: Any) -> Any:
    return chunk(tool_calls=[{"index": index, **call}])


async def _byte_by_byte(exchange: Exchange) -> None:
    await exchange.begin_events()
    for item in (chunk("é🙂\u2028x"), {**chunk(), "choices": []}, chunk(finish="stop")):
        for byte in f"data: {json.dumps(item, ensure_ascii=False)}\r\n\r\n".encode():
            await exchange.raw(bytes([byte]))
    exchange.close = True


async def _stalls(exchange: Exchange) -> None:
    await exchange.begin_events()
    for text in ("ha", "lf"):
        await exchange.event(chunk(text))
        await asyncio.sleep(0)
    await exchange.until_gone()


_WORDS = [chunk("fi"), chunk("ne"), chunk(finish="stop")]
_CALL = {"id": "a", "function": {"name": "lookup", "arguments": '{"q"'}}


def _paid(played: Played) -> None:
    assert [attempt.usage for attempt in played.request.attempts.made] == [_ALL]


STREAMING: tuple[Fault, ...] = (
    Fault(
        id="68-reset",
        title="A reset in the middle of a stream, every time",
        handlers=(broken(chunk("ha"), chunk("lf"), reset=True),),
        mode="stream",
        description="`ConnectionLost` after all attempts; the halves were heard, and are no answer",
        attempts=("ConnectionLost",) * 3,
        error=ConnectionLost,
        check=lambda played: _heard(played, "half" * 3),
    ),
    _again("68-end", "A stream that ends in the middle", "ConnectionLost", broken(chunk("half"), reset=False), "half"),
    _good("69", "A stream that ends properly, but without a reason", events(*_WORDS[:2])),
    _again(
        "69-closed",
        "A stream whose connection closes without a reason",
        "OutputTruncated",
        events(chunk("half"), done=False),
        "half",
        waits=(),
    ),
    Fault(
        id="69-twice",
        title="A stream whose connection closes without a reason, every time",
        handlers=(events(chunk("half"), done=False),),
        mode="stream",
        description="`OutputTruncated` after one more request",
        attempts=("OutputTruncated",) * 2,
        error=OutputTruncated,
        waits=(),
    ),
    _again("70", "A stream of `[DONE]` alone", "MalformedResponse", events(), ""),
    _again("70-empty", "An empty stream", "MalformedResponse", events(done=False), ""),
    _good(
        "71",
        "JSON where a stream was asked for",
        reply(completion()),
        description="The answer, heard in one piece",
        flags=frozenset(),
    ),
    _again("71-half", "Half a JSON where a stream was asked for", "MalformedResponse", answer(b'{"choices": ['), ""),
    _again("71-null", "`null` where a stream was asked for", "MalformedResponse", answer(b"null"), ""),
    _again(
        "71-429",
        "JSON with an error inside where a stream was asked for",
        "RateLimited",
        reply(error_body(code=429)),
        "",
    ),
    Fault(
        id="71-refused",
        title="JSON with a refusal where a stream was asked for",
        handlers=(reply(completion(None, refusal="no")),),
        mode="stream",
        description="`Refused` at once",
        attempts=("Refused",),
        error=Refused,
    ),
    _again(
        "72",
        "An error with code 503 inside of a stream",
        "ProviderFailed",
        events(chunk("ha"), error_body("overloaded", code=503)),
        "ha",
    ),
    Fault(
        id="72-words",
        title="An error without a code inside of a stream, every time",
        handlers=(events(chunk("ha"), error_body("it broke", code="server_error")),),
        mode="stream",
        description="`ProviderFailed` after all attempts",
        attempts=("ProviderFailed",) * 3,
        error=ProviderFailed,
        says="it broke",
    ),
    *worded_errors("72", "inside of a stream", "stream", events),
    Fault(
        id="73",
        title="A stream that stalls",
        handlers=(_stalls,),
        mode="stream",
        description="`ModelTimeout` at the deadline",
        attempts=("ModelTimeout",),
        error=ModelTimeout,
        timeout=1.0,
    ),
    _again(
        "73-between",
        "A stream that stalls, with `Timeout(between=…)`",
        "ModelTimeout",
        _stalls,
        "half",
        wrapped=lambda model: Timeout(model, between=0.8),
    ),
    _good(
        "74-bytes", "A stream byte by byte, with characters of several bytes and U+2028", _byte_by_byte, "é🙂\u2028x"
    ),
    _good("74-role", "Pieces that hold a role alone", events(chunk(role="assistant"), chunk(), *_WORDS)),
    _good("74-null", "Pieces whose content is null", events(chunk(content=None, role="assistant"), *_WORDS)),
    _good(
        "74-finish",
        "Pieces without a delta",
        events(*_WORDS[:2], {**chunk(finish="stop"), "choices": [{"index": 0, "finish_reason": "stop"}]}),
    ),
    _good(
        "74-usage",
        "Usage in every piece",
        events(
            *({**item, "usage": {**usage_chunk()["usage"], "completion_tokens": n}} for n, item in enumerate(_WORDS)),
            usage_chunk(),
        ),
        description="The answer; the last usage counts",
        flags=frozenset(),
        facts={"usage": _ALL},
    ),
    _good(
        "74-after",
        "Pieces after `[DONE]`",
        raw(
            EVENT_STREAM
            + piece(b"".join(map(event, _WORDS)) + b"data: [DONE]\n\n" + event(chunk("STRAY")))
            + b"0\r\n\r\n",
            close=False,
        ),
        description="The answer, without them",
    ),
    _good(
        "74-reasoning",
        "`reasoning_content` beside the content",
        events(chunk(reasoning_content="let me think"), *_WORDS),
        description="The answer, which is the content alone",
    ),
    _good(
        "74-bom",
        "A byte order mark before the first event",
        chunked(b"\xef\xbb", b"\xbf", b"".join(map(event, _WORDS)), head=EVENT_STREAM),
    ),
    _good(
        "74-crlf",
        "Lines that end in CR LF, and comments between",
        chunked(
            b": hi\r\n\r\n", *(event(item).replace(b"\n", b"\r\n") + b":\r\n\r\n" for item in _WORDS), head=EVENT_STREAM
        ),
    ),
    _good(
        "74-choices",
        "Pieces of two answers, one after the other",
        events(chunk("fi"), {**chunk("STRAY"), "choices": [{"index": 1, "delta": {"content": "STRAY"}}]}, *_WORDS[1:]),
        description="The first one, marked `more_choices`",
        flags=_UNTOLD | {"more_choices"},
    ),
    _good(
        "74-tools",
        "A tool call in pieces",
        events(_piece(0, **_CALL), _piece(0, function={"arguments": ': "x"}'}), chunk(finish="tool_calls")),
        "",
        description="The call, put together",
        tools=True,
        facts={"tool_calls": (ToolCall(id="a", name="lookup", arguments='{"q": "x"}'),)},
    ),
    _again(
        "74-json",
        "A piece that is no JSON",
        "MalformedResponse",
        raw(EVENT_STREAM + piece(event(chunk("ha")) + b"data: {oops\n\n") + b"0\r\n\r\n"),
        "ha",
    ),
    _again("74-shape", "A piece that is a list", "EmptyResponse", events([1, 2]), "", waits=()),
    _again(
        "74-utf8",
        "A piece that is no UTF-8",
        "MalformedResponse",
        raw(EVENT_STREAM + piece(event(chunk("ha")) + b"data: \xff\xfe\n\n") + b"0\r\n\r\n"),
        "ha",
    ),
    _good(
        "74-ids",
        "Events with ids, and keep-alive comments between",
        raw(
            EVENT_STREAM
            + b"".join(piece(b"id: 1\n" + event(item) + b": keep-alive\n\n") for item in _WORDS)
            + b"0\r\n\r\n",
            close=False,
        ),
    ),
    _good(
        "74-ping",
        "Events of other kinds between",
        raw(
            EVENT_STREAM
            + b"".join(piece(b"event: ping\ndata: {}\n\nretry: 5\n\n" + event(item)) for item in _WORDS)
            + b"0\r\n\r\n",
            close=False,
        ),
    ),
    Fault(
        id="74-lines",
        title="An event of 200,000 lines",
        handlers=(raw(EVENT_STREAM + piece(b"data: x\n" * 200_000) + b"0\r\n\r\n"),),
        mode="stream",
        description="`MalformedResponse` after all attempts, before it takes time",
        attempts=("MalformedResponse",) * 3,
        error=MalformedResponse,
        says="too long",
    ),
    Fault(
        id="74-refusal",
        title="A refusal in pieces",
        handlers=(events(chunk(refusal="I will "), chunk(refusal="not"), chunk(finish="stop"), usage_chunk()),),
        mode="stream",
        description="`Refused` at once, with the model's words; its tokens count",
        attempts=("Refused",),
        error=Refused,
        facts={"reason": "I will not"},
        check=_paid,
    ),
    Fault(
        id="74-filter",
        title="A content filter in the middle of a stream",
        handlers=(events(chunk("ha"), chunk(finish="content_filter"), usage_chunk()),),
        mode="stream",
        description="`ContentFiltered` at once; its tokens count",
        attempts=("ContentFiltered",),
        error=ContentFiltered,
        check=_paid,
    ),
    Fault(
        id="74-blank",
        title="A stream without text, every time",
        handlers=(events(chunk(" "), chunk(finish="stop")),),
        mode="stream",
        description="`EmptyResponse` after one more request",
        attempts=("EmptyResponse",) * 2,
        error=EmptyResponse,
        waits=(),
    ),
    Fault(
        id="74-page",
        title="Text that is no events, where a stream was asked for",
        handlers=(answer(b"hello\nworld", "text/plain"),),
        mode="stream",
        description="`MalformedResponse` after all attempts",
        attempts=("MalformedResponse",) * 3,
        error=MalformedResponse,
        says="not an event stream",
    ),
)
