"""Error mapping: exceptions of openai, aiohttp and httpx2 as errors of flowdebate.

The most specific class comes first. Anything else was raised while an answer was being read (openai lets TypeError,
IndexError, AttributeError, RecursionError, JSONDecodeError and more through), so it becomes a MalformedResponse: no
exception of a library leaves this package.
"""

from __future__ import annotations

import json
import math
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

from flowdebate._text import one_line, shown
from flowdebate.errors import (
    AuthenticationFailed,
    ConnectionLost,
    ContextTooLong,
    FlowDebateError,
    MalformedResponse,
    ModelError,
    ModelNotFound,
    ModelUnavailable,
    ProviderFailed,
    RateLimited,
    RequestRejected,
)
from flowdebate.models.openai.endpoint import address_of

# Seconds; a longer `retry-after` is garbage, such as 1e308, and counts as none.
_LONGEST_WAIT = 7 * 24 * 3600.0

_UNAUTHORIZED = frozenset({401, 403})
_OVERLOADED = frozenset({429, 529})  # 529 is Anthropic's "overloaded"
# Providers say "credit balance" and the like with any of these; another request is wasted then.
_SPENT = frozenset({400, 402, 403, 429})
_TRANSIENT = frozenset({408, 409, 425})
_CONTEXT = ("context_length_exceeded", "exceed_context_size", "context length", "context size", "context window",
            "maximum context", "prompt is too long", "too many tokens")  # fmt: skip
_QUOTA = ("insufficient_quota", "credit balance", "billing", "exceeded your current quota", "insufficient credit")
_WORDS: Mapping[int, tuple[str, ...]] = {
    400: ("invalid_request_error", "invalid_argument", "context_length_exceeded", "exceed_context_size_error"),
    401: ("invalid_api_key", "incorrect_api_key", "authentication_error", "unauthenticated", "unauthorized"),
    402: ("billing_hard_limit_reached", "billing_not_active", "insufficient_credits", "billing_error"),
    403: ("permission_error", "permission_denied", "access_denied", "forbidden"),
    404: ("model_not_found", "not_found_error", "not_found"),
    413: ("request_too_large",),
    429: ("insufficient_quota", "rate_limit_exceeded", "rate_limit_error", "too_many_requests", "resource_exhausted"),
    529: ("overloaded_error",),
}
# Statuses that endpoints mean by these codes and types of errors: proxies send them inside a 200 or a stream.
_STATUSES = {word: status for status, words in _WORDS.items() for word in words}

_UNITS = {
    **dict.fromkeys(("ms", "millisecond"), 0.001),
    **dict.fromkeys(("s", "sec", "second"), 1.0),
    **dict.fromkeys(("m", "min", "minute"), 60.0),
    **dict.fromkeys(("h", "hour"), 3600.0),
}
_PART = rf"(\d{{1,9}}(?:\.\d{{1,9}})?) ?({'|'.join(_UNITS)})s?(?![a-z])"
_TIME = re.compile(_PART)
_TRY_AGAIN = re.compile(rf"\b(?:try again|retry) (?:in|after) ((?:{_PART} ?)+)")

# Headers of the last response in this task: where an error is inside a 200, openai does not pass them on.
answered: ContextVar[Mapping[str, str]] = ContextVar("flowdebate_answered", default=MappingProxyType({}))


def map_error(
    error: Exception, *, base_url: str = "", secrets: Sequence[str] = (), during: BaseException | None = None
) -> FlowDebateError:
    """Map `error` to one of the library's own, with `error` as its cause unless that could show one of `secrets`.

    `during` is the exception that the application was handling when it called: Python chains it to `error`, and it
    explains nothing. Raise the result outside the `except` block that caught `error`, or Python chains the two.
    """
    own: BaseException | None = error
    while own is not None and not isinstance(own, FlowDebateError):
        own = own.__cause__
    if own is not None:  # raised by a hook of ours, and wrapped by openai
        return own
    links = tuple(_chain(error, during))
    # an SDK that was not imported has raised nothing
    sdks: list[Any] = [sdk for name in ("openai", "anthropic") if (sdk := sys.modules.get(name)) is not None]
    by_sdk = [found for sdk in sdks if (found := _of_sdk(sdk, error, links, base_url, secrets)) is not None]
    mapped = by_sdk[0] if by_sdk else _transport(links, base_url, secrets)
    if mapped is None:
        if isinstance(error, UnicodeEncodeError):
            mapped = RequestRejected("the prompt is not valid Unicode, so it cannot be sent")
        else:
            text = one_line(f"{type(error).__name__}: {_safe_str(error)}", secrets=secrets)
            mapped = MalformedResponse(f"the answer could not be read ({text})")
    told = "".join(f"{_safe_str(link)}{_safe_str(link, repr)}" for link in _chain(error, None))
    if not any(secret in told for secret in secrets if secret):
        mapped.__cause__ = error
    return mapped


def inner_error(error: object, *, secrets: Sequence[str] = (), base_url: str = "") -> ModelError:
    """Map an `error` inside a stream or a 200, whose code may be a status or a word; without one it is a 500."""
    codes = [error.get(key) for key in ("code", "type", "status")] if isinstance(error, dict) else [error]
    said, status = "with an error", 500
    for code in reversed(codes):  # the first that is known counts
        word = str(code).strip().lower()
        if word.isdecimal() and len(word) == 3 and word[0] in "345":  # noqa: PLR2004 - a status as a text
            said, status = str(code), int(word)
        elif word in _STATUSES:
            said, status = str(code), _STATUSES[word]
    return status_error(status, {"error": error}, said=said, headers=answered.get(), secrets=secrets, base_url=base_url)


def status_error(
    status: int,
    body: object,
    *,
    headers: Mapping[str, str],
    said: str = "",
    secrets: Sequence[str] = (),
    base_url: str = "",
) -> ModelError:
    """Map an HTTP `status` with its decoded `body` to an error; `x-should-retry` decides whether it is transient.

    `said` is what the endpoint sent in place of the status.
    """
    message, code = _message_and_code(body, secrets)
    wait = retry_after(headers)
    if wait is None and (asked := _TRY_AGAIN.search(message.lower())):
        wait = sum(float(number) * _UNITS[unit] for number, unit in _TIME.findall(asked[1]))  # "try again in 1m2.5s"
        wait = wait if wait <= _LONGEST_WAIT else None
    text = f"the endpoint answered {said or status}{message and ': '}{message}"
    error = _error_of_status(status, text, f"{code} {message}".lower(), wait, _at(base_url))
    should_retry = headers.get("x-should-retry")
    if should_retry in ("true", "false"):
        error.transient = should_retry == "true"
        error.retry_after = wait
    return error


def _error_of_status(status: int, text: str, searched: str, wait: float | None, at: str) -> ModelError:  # noqa: PLR0911
    spent = status == 402 or (status in _SPENT and any(word in searched for word in _QUOTA))  # noqa: PLR2004
    if spent or status in _OVERLOADED:
        hint = ". The quota is used up: waiting does not help, check plan and billing" if spent else ""
        return RateLimited(text + hint, retry_after=wait, status=status, quota_exhausted=spent)
    if status in _UNAUTHORIZED or "api key not valid" in searched:  # which is a 400 of Gemini
        return AuthenticationFailed(f"{text.rstrip('.')}. Check the API key", status=status)
    if status == 413 or (400 <= status < 500 and any(word in searched for word in _CONTEXT)):  # noqa: PLR2004
        return ContextTooLong(text, status=status)
    if status == 404:  # noqa: PLR2004 - Not Found
        return ModelNotFound(f"{text.rstrip('.')}. Check the model's name{at and f' at{at}'}", status=status)
    if 300 <= status < 400:  # noqa: PLR2004 - redirects are not followed: they could carry the key elsewhere
        return RequestRejected(f"{text}. Redirects are not followed: write the final base_url", status=status)
    if status < 300:  # noqa: PLR2004 - 101 and the like
        return MalformedResponse(f"{text}, which is no answer")
    if status in _TRANSIENT or status >= 500:  # noqa: PLR2004
        return ProviderFailed(text, status=status, retry_after=wait)
    return RequestRejected(text, status=status)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Read the seconds that `headers` ask to wait; None for missing or invalid values.

    >>> retry_after({"retry-after": "2.5"}), retry_after({"retry-after": "nan"}), retry_after({"retry-after": "-5"})
    (2.5, None, None)
    """
    millis, seconds = headers.get("retry-after-ms"), headers.get("retry-after")
    wait = math.nan
    try:
        wait = float(millis) / 1000 if millis else float(seconds or "")
    except ValueError:
        from email.utils import parsedate_to_datetime

        with suppress(TypeError, ValueError, OverflowError):  # HTTP allows a date, too
            wait = parsedate_to_datetime(seconds or "").timestamp() - time.time()
    return wait if math.isfinite(wait) and 0 <= wait <= _LONGEST_WAIT else None


def _of_sdk(  # noqa: PLR0911 - a table
    sdk: Any,  # noqa: ANN401 - openai, or anthropic, whose errors have the same names
    error: Exception,
    links: Sequence[BaseException],
    base_url: str,
    secrets: Sequence[str],
) -> ModelError | None:
    if isinstance(error, sdk.APIStatusError):
        if error.status_code < 300 and isinstance(error.body, dict):  # noqa: PLR2004 - an error event of anthropic's
            return inner_error(error.body.get("error"), secrets=secrets, base_url=base_url)
        headers = error.response.headers
        body = error.body if error.body is not None else error.message
        if "html" in headers.get("content-type", ""):
            body = f"an HTML page; is base_url{_at(base_url)} an API?"
        return status_error(error.status_code, body, headers=headers, secrets=secrets, base_url=base_url)
    if isinstance(error, sdk.APIConnectionError):  # timeouts are a subclass
        return _transport(links[1:], base_url, secrets) or ConnectionLost(f"the connection{_at(base_url)} broke")
    if isinstance(error, sdk.APIResponseValidationError):
        return MalformedResponse(f"the answer is not a chat completion ({one_line(error.message, secrets=secrets)})")
    if isinstance(error, sdk.APIError):  # an error event inside a stream
        return inner_error(error.body or error.message, secrets=secrets, base_url=base_url)
    if isinstance(error, getattr(sdk, "OpenAIError", None) or sdk.AnthropicError):
        return RequestRejected(one_line(_safe_str(error), secrets=secrets))
    return None


def _transport(  # noqa: PLR0911 - a table
    links: Sequence[BaseException], base_url: str, secrets: Sequence[str]
) -> ModelError | None:
    """Map connection errors; the transport below httpx2 is aiohttp, whose own errors are more exact."""
    import ssl

    import aiohttp

    def httpx2(*names: str) -> tuple[type[BaseException], ...]:  # one that was not imported has raised nothing
        library = sys.modules.get("httpx2")
        return () if library is None else tuple(getattr(library, name) for name in names)

    at = _at(base_url)
    reason = one_line(_safe_str(links[-1]), secrets=secrets) if links else ""
    if _any(links, ssl.SSLCertVerificationError, aiohttp.ClientConnectorCertificateError):
        return ModelUnavailable(f"the endpoint{at} has no certificate that can be trusted ({reason})")
    connecting = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, *httpx2("ConnectError"))
    # the aiohttp transport says ConnectTimeout for every broken connection, too
    timed_out = _any(links, *httpx2("ConnectTimeout")) and not _any(links, aiohttp.ClientError)
    if timed_out or _any(links, *connecting, ConnectionRefusedError):
        # an unsupported TLS version stays unsupported; a broken handshake may succeed later
        broken = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError, ssl.SSLWantReadError)
        hopeless = _any(links, ssl.SSLError) and not _any(links, *broken)
        message = f"no connection to the endpoint{at} ({reason or 'no answer'}): is it running?"
        return ModelUnavailable(message, transient=not hopeless)
    if _any(links, aiohttp.InvalidURL, *httpx2("InvalidURL", "UnsupportedProtocol")):
        return ModelUnavailable(f"base_url{at} is not an address of an endpoint ({reason})")
    if _any(links, aiohttp.ServerTimeoutError, *httpx2("ReadTimeout", "WriteTimeout", "PoolTimeout")):
        return ConnectionLost(f"the endpoint{at} went silent")
    ended = any(_ENDED.search(_safe_str(link)) for link in links)
    if not ended and _any(links, aiohttp.ClientResponseError, *httpx2("RemoteProtocolError", "DecodingError")):
        return MalformedResponse(f"the response of the endpoint{at} is not HTTP ({reason})")
    if _any(links, aiohttp.ClientError, *httpx2("TransportError", "StreamError"), ConnectionError):
        return ConnectionLost(f"the connection{at} broke before the answer was whole ({reason or 'closed'})")
    if _any(links, OSError):
        return ModelUnavailable(f"no connection to the endpoint{at} ({reason})", transient=True)
    return None


# httpx2's words for a connection that was closed too early, which it reports as a protocol error.
_ENDED = re.compile("disconnected without|closed connection without")


def _any(links: Sequence[BaseException], *classes: type[BaseException]) -> bool:
    return any(isinstance(link, classes) for link in links)


def _chain(error: BaseException | None, during: BaseException | None) -> Iterator[BaseException]:
    """Yield `error` and its causes, up to `during`."""
    seen: set[int] = set()
    while error is not None and error is not during and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _message_and_code(body: object, secrets: Sequence[str]) -> tuple[str, str]:
    """Read message and code of an error body; every provider nests them in its own way."""
    inner = body
    if isinstance(body, list) and body and isinstance(body[0], dict):  # Gemini sends a list
        inner = body[0]
    if isinstance(inner, dict):
        inner = inner.get("error", inner)
    if not isinstance(inner, dict):
        return one_line(inner if isinstance(inner, str) else shown(inner), secrets=secrets) if inner else "", ""
    message = inner.get("message") or inner.get("detail") or ""
    if not isinstance(message, str):
        message = shown(message)
    code = " ".join(str(inner[key])[:100] for key in ("code", "type") if isinstance(inner.get(key), (str, int)))
    return one_line(message or json.dumps(inner, default=repr), secrets=secrets), code


def _safe_str(error: BaseException, form: Callable[[object], str] = str) -> str:
    try:
        return form(error)
    except Exception:  # noqa: BLE001 - a foreign __str__ must not hide the error itself
        return type(error).__name__


def _at(base_url: str) -> str:
    return f" {address_of(base_url)}" if base_url else ""
