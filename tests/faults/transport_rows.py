"""Faults 1 to 30: connections and HTTP."""

from __future__ import annotations

from dataclasses import replace
from email.utils import formatdate
from typing import TYPE_CHECKING, Any

from flowdebate.errors import (
    AuthenticationFailed,
    ConnectionLost,
    ContextTooLong,
    MalformedResponse,
    ModelNotFound,
    ModelTimeout,
    ModelUnavailable,
    ProviderFailed,
    RateLimited,
    RequestRejected,
    ResponseTooLarge,
)
from flowdebate.models import Fallback, Timeout
from tests.models.server import chunk, fine

from .fault import Fault
from .handlers import (
    EVENT_STREAM,
    JSON_CHUNKED,
    answer,
    close_afterwards,
    end_at_once,
    endless,
    error_body,
    event,
    greet_with_reset,
    half,
    never_read,
    piece,
    raw,
    refuse_with,
    reset_at_once,
    silent,
    whole,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowdebate.models import Model, Retry

    from .fault import Played

__all__ = ("TRANSPORT",)

_CONTEXT = error_body("maximum context length is 8192 tokens", code="context_length_exceeded")
_QUOTA = error_body("You exceeded your current quota", code="insufficient_quota")
_SHORT = 0.4
"""Deadline in seconds for rows that test deadlines."""
_EACH = 0.8
"""Deadline in seconds per request, for rows whose next request has to succeed."""
_HALF_MEGABYTE = b"x" * 500_000
_MAX_SIZE = 40_000_000
"""Limit in bytes: a 16 MB answer plus the buffers on both ends."""


def _again(attempts: int) -> Callable[[Retry], Retry]:
    return lambda retry: replace(retry, attempts=attempts)


def _limited(handler_headers: dict[str, str], description: str, variant: str, **more: Any) -> Fault:
    return Fault(
        id=f"3-{variant}",
        title=f"429 with `Retry-After` {description}",
        handlers=(refuse_with(429, **handler_headers), fine),
        description="Ignored: retried after the usual backoff",
        attempts=("RateLimited", None),
        **more,
    )


def _refused(
    status: int, error: type[Any], description: str, variant: str = "", body: Any = None, **more: Any
) -> Fault:
    return Fault(
        id=f"{more.pop('row', '11')}-{status}{variant}",
        title=more.pop("title", f"{status}"),
        handlers=(refuse_with(status, body),),
        description=description,
        attempts=(error.__name__,),
        error=error,
        facts={"status": status, "transient": False, **more.pop("facts", {})},
        **more,
    )


class _Sent:
    """A counter for the bytes that a server sends."""

    def __init__(self) -> None:
        self.parts: list[int] = []

    def check(self, _: Played) -> None:
        """Check that the client stopped the download early."""
        assert 0 < sum(self.parts) < _MAX_SIZE
        self.parts.clear()


_first, _second, _third = _Sent(), _Sent(), _Sent()


def _first_text(model: Model) -> Model:
    return Timeout(model, first_text=_EACH)


def _each(model: Model) -> Model:
    return Timeout(model, _EACH)


_SLOW_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9000000\r\n\r\n"


def _unknown_tokens(played: Played) -> None:
    assert all(attempt.usage.total_tokens is None for attempt in played.request.attempts.made)


TRANSPORT: tuple[Fault, ...] = (
    Fault(
        id="1",
        title="429 with `Retry-After: 1`, then well",
        handlers=(refuse_with(429, retry_after="1"), fine),
        description="Waits the second that was asked for, then the answer",
        attempts=("RateLimited", None),
        waits=((1.0, 1.0),),
    ),
    Fault(
        id="1-milliseconds",
        title="429 with `Retry-After-Ms: 1500`, then well",
        handlers=(refuse_with(429, retry_after_ms="1500"), fine),
        description="Waits the 1.5 seconds, then the answer",
        attempts=("RateLimited", None),
        waits=((1.5, 1.5),),
    ),
    Fault(
        id="1-for-ever",
        title="429 at every request",
        handlers=(refuse_with(429),),
        description="`RateLimited` after all attempts",
        attempts=("RateLimited",) * 3,
        error=RateLimited,
        facts={"retry_after": None, "quota_exhausted": False, "status": 429},
    ),
    Fault(
        id="2",
        title="429 with `Retry-After: 130`, more than is waited at all",
        handlers=(refuse_with(429, retry_after="130"),),
        description="`RateLimited` at once, with the 130 seconds",
        attempts=("RateLimited",),
        error=RateLimited,
        facts={"retry_after": 130.0},
    ),
    Fault(
        id="2-deadline",
        title="429 with `Retry-After: 30`, which is after the call's deadline",
        handlers=(refuse_with(429, retry_after="30"),),
        description="`RateLimited` at once, while there is time for another model",
        attempts=("RateLimited",),
        error=RateLimited,
        facts={"retry_after": 30.0},
        timeout=10,
    ),
    _limited({"retry_after": formatdate(0, usegmt=True)}, "with a date long past", "past"),
    _limited({"retry_after": "nan"}, "of `nan`", "nan"),
    _limited({"retry_after": "-5"}, "of `-5`", "negative"),
    _limited({"retry_after": "1e308"}, "of `1e308`", "enormous"),
    _limited({"retry_after": "soon"}, "of `soon`", "garbage"),
    _limited({"retry_after": "9" * 5_000}, "of 5,000 digits", "digits"),
    Fault(
        id="3-twice",
        title="429 with two `Retry-After` headers",
        handlers=(
            raw(b"HTTP/1.1 429 No\r\nRetry-After: 1\r\nRetry-After: 7\r\nContent-Length: 2\r\n\r\n{}", close=False),
            fine,
        ),
        description="Ignored: retried after the usual backoff",
        attempts=("RateLimited", None),
    ),
    Fault(
        id="3-words",
        title="429 with “please try again in 1m2.5s”, more than is waited at all",
        handlers=(refuse_with(429, error_body("Rate limit reached. Please try again in 1m2.5s.")),),
        description="`RateLimited` at once, with the 62.5 seconds",
        attempts=("RateLimited",),
        error=RateLimited,
        facts={"retry_after": 62.5},
    ),
    Fault(
        id="3-should-not",
        title="503 with `x-should-retry: false`",
        handlers=(refuse_with(503, x_should_retry="false"),),
        description="`ProviderFailed` at once",
        attempts=("ProviderFailed",),
        error=ProviderFailed,
        facts={"status": 503, "transient": False},
    ),
    Fault(
        id="3-should",
        title="400 with `x-should-retry: true` and `Retry-After: 2`, then well",
        handlers=(refuse_with(400, x_should_retry="true", retry_after="2"), fine),
        description="Waits the two seconds, then the answer",
        attempts=("RequestRejected", None),
        waits=((2.0, 2.0),),
    ),
    _refused(
        429,
        RateLimited,
        "`RateLimited` at once, with `quota_exhausted`: waiting does not help",
        "-quota",
        _QUOTA,
        row="4",
        title="429 `insufficient_quota`",
        facts={"quota_exhausted": True},
        says="waiting does not help",
    ),
    *(
        _refused(
            status,
            RateLimited,
            "`RateLimited` at once, with `quota_exhausted`",
            "-balance",
            error_body("Your credit balance is too low to access the API"),
            row="4",
            title=f"{status} “your credit balance is too low”",
            facts={"quota_exhausted": True},
        )
        for status in (400, 402, 403)
    ),
    Fault(
        id="6",
        title="500 once",
        handlers=(refuse_with(500), fine),
        description="Retried after the backoff, then the answer",
        attempts=("ProviderFailed", None),
    ),
    Fault(
        id="7",
        title="503 in plain text five times, with three attempts",
        handlers=(answer(b"upstream is down", "text/plain", status=503),),
        description="`ProviderFailed` after all attempts, with the server's text",
        attempts=("ProviderFailed",) * 3,
        error=ProviderFailed,
        says="503: upstream is down",
        facts={"status": 503, "transient": True},
    ),
    Fault(
        id="7-more",
        title="503 five times, with six attempts",
        handlers=(*(answer(b"upstream is down", "text/plain", status=503),) * 5, fine),
        description="The answer, after five growing waits",
        attempts=(*("ProviderFailed",) * 5, None),
        retry=_again(6),
    ),
    Fault(
        id="7-retry-after",
        title="503 with `Retry-After: 7`, then well",
        handlers=(refuse_with(503, retry_after="7"), fine),
        description="Waits the seven seconds, then the answer",
        attempts=("ProviderFailed", None),
        waits=((7.0, 7.0),),
    ),
    Fault(
        id="8-502",
        title="502 with a page of 2 MB",
        handlers=(answer(b"<html>\x1b[2J" + b"x" * 2_000_000, "text/html", status=502),),
        description="`ProviderFailed` after all attempts; the page is not repeated",
        attempts=("ProviderFailed",) * 3,
        error=ProviderFailed,
        says="an HTML page",
        facts={"status": 502},
    ),
    Fault(
        id="8-529",
        title="529 with 2 MB of text",
        handlers=(answer(b"\x1b]0;x\x07" + b"overloaded " * 200_000, "text/plain", status=529), fine),
        description="Retried after the backoff; an error shows 500 characters of it, escaped",
        attempts=("RateLimited", None),
    ),
    *(
        Fault(
            id=f"9-{status}",
            title=f"{status} once",
            handlers=(refuse_with(status), fine),
            description="Retried after the backoff, then the answer",
            attempts=("ProviderFailed", None),
        )
        for status in (408, 409, 425)
    ),
    _refused(
        401,
        AuthenticationFailed,
        "`AuthenticationFailed` at once; the key is nowhere shown, though the server repeats it",
        body=error_body("Incorrect API key provided: sk-canary-0123456789abcdef. See https://example.test"),
        row="10",
        says="Check the API key",
    ),
    _refused(
        403,
        AuthenticationFailed,
        "`AuthenticationFailed` at once",
        body=error_body("The project has no permission for this model"),
        title="403 that speaks of rights",
        says="Check the API key",
    ),
    _refused(403, RequestRejected, "`RequestRejected` at once: no word about the key", "-other", title="403"),
    _refused(
        404,
        ModelNotFound,
        "`ModelNotFound` at once",
        body=error_body("no such model"),
        says="Check the model's name at http",
    ),
    _refused(413, ContextTooLong, "`ContextTooLong` at once"),
    _refused(418, RequestRejected, "`RequestRejected` at once"),
    _refused(
        422, RequestRejected, "`RequestRejected` at once", body={"detail": "field required"}, says="field required"
    ),
    _refused(
        307,
        RequestRejected,
        "`RequestRejected` at once: a redirect is not followed, since it could carry the key elsewhere",
        title="A redirect, in a loop",
        says="Redirects are not followed",
    ),
    _refused(
        400,
        ContextTooLong,
        "`ContextTooLong` at once",
        "-context",
        _CONTEXT,
        row="12",
        title="400 `context_length_exceeded`",
    ),
    Fault(
        id="12-longer",
        title="400 `context_length_exceeded`, with a model of a longer context behind a `Fallback`",
        handlers=(refuse_with(400, _CONTEXT), fine),
        description="The other model's answer",
        attempts=("ContextTooLong", None),
        wrapped=lambda model: Fallback(model, model),
        waits=(),
    ),
    Fault(
        id="15-refused",
        title="Nothing listens at the address",
        base_url="http://127.0.0.1:9/v1",
        description="`ModelUnavailable` after all attempts, naming the address",
        attempts=("ModelUnavailable",) * 3,
        error=ModelUnavailable,
        says="http://127.0.0.1:9/v1",
        facts={"transient": True},
        counted="nothing",
        works_again=False,
    ),
    Fault(
        id="15-name",
        title="A host name that does not exist",
        base_url="http://host.invalid/v1",
        description="`ModelUnavailable` after all attempts",
        attempts=("ModelUnavailable",) * 3,
        error=ModelUnavailable,
        says="http://host.invalid/v1",
        facts={"transient": True},
        counted="nothing",
        works_again=False,
    ),
    Fault(
        id="15-certificate",
        title="A certificate that cannot be trusted",
        tls=True,
        description="`ModelUnavailable` at once: it would be no better later",
        attempts=("ModelUnavailable",),
        error=ModelUnavailable,
        says="certificate",
        facts={"transient": False},
        counted="nothing",
        works_again=False,
    ),
    Fault(
        id="16",
        title="The connection is reset right after it is established",
        greet=greet_with_reset,
        description="`ConnectionLost` after all attempts",
        attempts=("ConnectionLost",) * 3,
        error=ConnectionLost,
        counted="connections",
    ),
    Fault(
        id="16-request",
        title="The connection is reset once the request is there",
        handlers=(reset_at_once,),
        description="`ConnectionLost` after all attempts",
        attempts=("ConnectionLost",) * 3,
        error=ConnectionLost,
    ),
    Fault(
        id="16-end",
        title="The connection is closed once the request is there",
        handlers=(end_at_once, fine),
        description="Retried after the backoff, then the answer",
        attempts=("ConnectionLost", None),
    ),
    Fault(
        id="17",
        title="The connection is reset in the middle of the answer",
        handlers=(half(reset=True),),
        description="`ConnectionLost` after all attempts; their tokens are unknown, so estimates count",
        attempts=("ConnectionLost",) * 3,
        error=ConnectionLost,
        check=_unknown_tokens,
    ),
    Fault(
        id="18",
        title="The connection is closed in the middle of the answer",
        handlers=(half(reset=False), fine),
        description="Retried after the backoff, then the answer",
        attempts=("ConnectionLost", None),
    ),
    Fault(
        id="18-chunked",
        title="The connection is closed before the last chunk of the answer",
        handlers=(raw(JSON_CHUNKED + piece(b'{"choices": [')), fine),
        description="Retried after the backoff, then the answer",
        attempts=("ConnectionLost", None),
    ),
    Fault(
        id="19",
        title="The request is taken, and never answered",
        handlers=(silent,),
        description="`ModelTimeout` at the call's deadline, which all attempts share",
        attempts=("ModelTimeout",),
        error=ModelTimeout,
        timeout=_SHORT,
    ),
    Fault(
        id="19-each",
        title="The first request is never answered, with a `Timeout` for each",
        handlers=(silent, fine),
        description="Retried after the backoff, then the answer",
        attempts=("ModelTimeout", None),
        wrapped=_each,
    ),
    Fault(
        id="20",
        title="The answer drips, a byte every 20 ms",
        handlers=(endless(b" ", head=_SLOW_HEAD, every=0.02),),
        description="`ModelTimeout` at the deadline; the connection is closed",
        attempts=("ModelTimeout",),
        error=ModelTimeout,
        timeout=_SHORT,
    ),
    Fault(
        id="20-head",
        title="The head of the answer drips",
        handlers=(endless(b"x", head=b"HTTP/1.1 200 OK\r\nX-Slow: ", every=0.02),),
        description="`ModelTimeout` at the deadline; the connection is closed",
        attempts=("ModelTimeout",),
        error=ModelTimeout,
        timeout=_SHORT,
    ),
    Fault(
        id="21",
        title="A stream of nothing but keep-alive comments",
        handlers=(endless(piece(b": keep-alive\n\n"), head=EVENT_STREAM, every=0.02),),
        mode="stream",
        description="`ModelTimeout` at the deadline",
        attempts=("ModelTimeout",),
        error=ModelTimeout,
        timeout=_SHORT,
    ),
    Fault(
        id="21-first-text",
        title="A stream of nothing but keep-alive comments, with `Timeout(first_text=…)`",
        handlers=(endless(piece(b": keep-alive\n\n"), head=EVENT_STREAM, every=0.02), fine),
        mode="stream",
        description="The request is cancelled at that time and retried",
        attempts=("ModelTimeout", None),
        wrapped=_first_text,
    ),
    Fault(
        id="22-told",
        title="A body of 200 MB, as its head tells",
        handlers=(
            endless(
                _HALF_MEGABYTE,
                head=b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 200000000\r\n\r\n",
                sent_sizes=_first.parts,
            ),
        ),
        description="`ResponseTooLarge` before its body is read",
        attempts=("ResponseTooLarge",),
        error=ResponseTooLarge,
        facts={"limit": 16_000_000, "unit": "bytes"},
        check=_first.check,
    ),
    Fault(
        id="22-chunked",
        title="A body that never ends",
        handlers=(endless(piece(_HALF_MEGABYTE), head=JSON_CHUNKED, sent_sizes=_second.parts),),
        description="`ResponseTooLarge` after 16 MB; memory stays bounded",
        attempts=("ResponseTooLarge",),
        error=ResponseTooLarge,
        facts={"limit": 16_000_000, "unit": "bytes"},
        check=_second.check,
    ),
    Fault(
        id="22-stream",
        title="A stream of text that never ends",
        handlers=(endless(piece(event(chunk("x" * 1_000))), head=EVENT_STREAM),),
        mode="stream",
        description="`ResponseTooLarge` after 200,000 characters",
        attempts=("ResponseTooLarge",),
        error=ResponseTooLarge,
        facts={"limit": 200_000, "unit": "characters"},
    ),
    Fault(
        id="22-line",
        title="A stream whose one line never ends",
        handlers=(endless(piece(_HALF_MEGABYTE), head=EVENT_STREAM + piece(b"data: "), sent_sizes=_third.parts),),
        mode="stream",
        description="`ResponseTooLarge` after 16 MB",
        attempts=("ResponseTooLarge",),
        error=ResponseTooLarge,
        facts={"limit": 16_000_000, "unit": "bytes"},
        check=_third.check,
    ),
    Fault(
        id="25-204",
        title="204, and nothing more",
        handlers=(raw(b"HTTP/1.1 204 No Content\r\n\r\n", close=False), fine),
        description="Retried after the backoff, then the answer",
        attempts=("MalformedResponse", None),
    ),
    Fault(
        id="25-empty",
        title="200 with an empty body, every time",
        handlers=(answer(b""),),
        description="`MalformedResponse` after all attempts",
        attempts=("MalformedResponse",) * 3,
        error=MalformedResponse,
    ),
    Fault(
        id="25-empty-text",
        title="200 with an empty body that says it is text, then well",
        handlers=(answer(b"", "text/plain"), fine),
        description="Retried after the backoff, then the answer",
        attempts=("MalformedResponse", None),
    ),
    Fault(
        id="26",
        title="The server never reads a prompt of 6 MB",
        greet=never_read,
        messages=({"role": "user", "content": "x" * 6_000_000},),
        description="`ModelTimeout` at the deadline",
        attempts=("ModelTimeout",),
        error=ModelTimeout,
        timeout=_EACH,
        counted="connections",
    ),
    Fault(
        id="28",
        title="The server closes a pooled connection between two calls",
        handlers=(close_afterwards,),
        description="The next call uses a new connection, and is sent once",
        attempts=(None,),
    ),
    Fault(
        id="27",
        title="Stray bytes follow the answer on a pooled connection",
        handlers=(
            raw(
                whole() + whole(b'{"choices": [{"message": {"content": "STRAY"}, "finish_reason": "stop"}]}'),
                close=False,
            ),
        ),
        description="The answer; no call ever gets the stray one",
        attempts=(None,),
        facts={"text": "fine"},
    ),
    Fault(
        id="27-late",
        title="Stray bytes arrive on an idle pooled connection",
        handlers=(
            raw(
                whole(),
                whole(b'{"choices": [{"message": {"content": "STRAY"}, "finish_reason": "stop"}]}'),
                close=False,
                pause=0.05,
            ),
        ),
        description="The answer; no call ever gets the stray one",
        attempts=(None,),
        facts={"text": "fine"},
        pause=0.1,
    ),
)
