"""Error mapping: converts exceptions from openai, aiohttp and httpx2 to flowdebate errors.

The most specific class is tried first. An exception of any other class becomes a MalformedResponse, because openai lets
TypeError, IndexError, AttributeError, RecursionError, JSONDecodeError and others through when it fails to parse an
answer. No third-party exception escapes from this package.
"""

from __future__ import annotations

import inspect
import json
import math
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from flowdebate._text import one_line, redact, short_repr
from flowdebate.errors import (
    AuthenticationFailed,
    ConnectionLost,
    ContentFiltered,
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

# Maximum wait in seconds; a longer `retry-after`, such as 1e308, is garbage and is ignored.
_MAX_WAIT = 7 * 24 * 3600.0

_OVERLOADED = frozenset({429, 529})  # Anthropic uses 529 for "overloaded"
# Providers report "credit balance" and the like with any of these statuses; further requests would be futile.
_SPENT = frozenset({400, 402, 403, 429})
_TRANSIENT = frozenset({408, 409, 425})
_CODES: Mapping[int, tuple[str, ...]] = {
    400: ("invalid_request_error", "invalid_argument", "context_length_exceeded", "exceed_context_size_error"),
    401: ("invalid_api_key", "incorrect_api_key", "authentication_error", "unauthenticated", "unauthorized"),
    402: ("billing_hard_limit_reached", "billing_not_active", "insufficient_credits", "billing_error"),
    403: ("permission_error", "permission_denied", "access_denied", "forbidden"),
    404: ("model_not_found", "not_found_error", "not_found"),
    413: ("request_too_large",),
    429: ("insufficient_quota", "rate_limit_exceeded", "rate_limit_error", "too_many_requests", "resource_exhausted"),
    529: ("overloaded_error",),
}
# HTTP statuses, keyed by the error codes and types that proxies send inside a 200 response or a stream.
_STATUSES = {code: status for status, codes in _CODES.items() for code in codes}

# Wording in refusals that concern the account, the prompt or the model, where no other form of the request would help.
# All other refused requests are retried in other forms (`optional.py`), so a missing pattern costs requests, not
# answers.
_MONEY = re.compile(
    r"insufficient[ _](quota|credit|balance|funds)|credit balance|billing_|out of credits|payment required"
    r"|(key|spend(ing)?|total|usage) limit (exceeded|reached)"
)
_QUOTA = re.compile(r"billing|exceeded your (current )?quota|quota exceeded")
_DAILY = re.compile(r"per[ _-]?(day|month|week)|daily|monthly|weekly|\b[rt]pd\b")
_BY_MINUTE = re.compile(r"per[ _-]?(min(ute)?|sec(ond)?)|\b[rt]pm\b")
_THROTTLED = re.compile(r"rate[ _-]?limit|too many requests|throttl")
_NEVER_FITS = re.compile(r"request (is )?too large|must be reduced|reduce your (message|prompt|request|input)")
_REQUESTED = re.compile(r"limit:? (\d+)\D.{0,60}?requested:? (\d+)")
_CONTENT = re.compile(
    r"content[ _-]?(filter|management|polic|violat|moderat)|moderation|responsible_?ai|safety|prohibited[ _]content"
    r"|content.{0,40}prohibited|blocklist|usage (guideline|polic)|acceptable use|harmful|inappropriate content"
    r"|(prompt|input|content|message)s? ((is|was|were|has been|have been|got) )?(flagged|filtered|blocked)"
    r"|violat\w* .{0,30}(guideline|polic)|content (exists )?risk|unsafe"
    r"|data_?inspection|sensitive (content|words|information)|recitation"
)
_KEY = re.compile(
    r"(invalid|incorrect|wrong|missing|expired|revoked|no|bad|unknown)[ _]([a-z]+[ _]){0,2}(api|access|auth)[ _-]?"
    r"(key|token)|(api|access|auth)[ _-]?(key|token)\b.{0,40}(invalid|not valid|incorrect|expired|missing|revoked)"
    r"|unauthori[sz]ed|unauthenticated|authentication|invalid credentials"
)
# A 403 can have many reasons; this wording points to the key.
_DENIED = re.compile(
    r"\bkeys?\b|api_?key|\bauth|credential|permission|access[ _]denied|\btoken (is|has|was)\b|country|\bregion\b"
    r"|territor|account|subscription"
)
_CONTEXT = re.compile(
    r"context_length|exceed_context|context (length|size|window|limit)|maximum (context|model|sequence|input|prompt)"
    r"|(prompt|input|messages?|conversation|query|text|document)s?\b.{0,60}(too long|too large|exceed|longer than)"
    r"|too many (input |prompt )?tokens|(exceed|longer than|over)\w*.{0,40}(max|token)\w*.{0,20}(input|prompt)"
    r"|token limit|range of input length|inputs?`? (tokens|length) .{0,40}must be|string[ _](too long|above_max)"
    r"|max_(model|seq|input)\w*len|reduce the length"
)
_NO_MODEL = re.compile(
    r"model_not_found|not_found_error|not a valid model"
    r"|(no such|unknown|invalid|unrecognized) model\b|no (allowed )?(endpoint|provider)s? "
    r"(found )?(for|are)|\bmodels?\b.{0,100}(not found|not exist|n't exist|not available|unavailable|no longer"
    r"|deprecated|decommissioned|not have access)|access to (the )?model|(not find|find no|no) (the )?model\b"
)
_POLICY = re.compile(r"\bpolic(y|ies)\b|guardrail|terms of (service|use)")
_NO_PATH = re.compile(
    r"page not found|(invalid|unknown( request)?) url"
    r"|an html page|unexpected (endpoint|path|url)|cannot (post|get) |method not allowed"
    r"|no (route|handler)|(path|url|endpoint|route|resource)\b.{0,80}not (found|exist|known|supported)"
    r"|unknown (path|url)|^(404 )?not found\.?$"
)
# Wording in a 5xx indicating that the prompt template or a parameter does not support part of the request.
_TEMPLATE = re.compile(
    r"jinja|chat.?template|roles? must|must alternate|system (role|message)"
    r"|(not|n't|un) ?(yet )?(support|implement|recogni[sz]e)\w*.{0,60}"
    r"(param|argument|field|option|stream|tool|format|schema|temperature|grammar|log_?prob)"
    r"|(param|argument|field|option|stream|tool|format|schema|temperature|grammar|log_?prob)\w*.{0,60}"
    r"(not|n't|un) ?(yet )?(support|implement|recogni[sz]e)"
)

_UNITS = {
    **dict.fromkeys(("ms", "millisecond"), 0.001),
    **dict.fromkeys(("s", "sec", "second"), 1.0),
    **dict.fromkeys(("m", "min", "minute"), 60.0),
    **dict.fromkeys(("h", "hour"), 3600.0),
}
_PART = rf"(\d{{1,9}}(?:\.\d{{1,9}})?) ?({'|'.join(_UNITS)})s?(?![a-z])"
_TIME = re.compile(_PART)
_TRY_AGAIN = re.compile(rf"\b(?:try again|retry|wait)(?: in| after| for)? ((?:{_PART} ?)+)")
# Waits of up to this many seconds do not indicate an exhausted quota.
_SHORT_WAIT = 300.0

# Headers of this task's last response, kept because openai does not pass them on for an error inside a 200 response.
answered: ContextVar[Mapping[str, str]] = ContextVar("flowdebate_answered", default=MappingProxyType({}))


def map_error(
    error: Exception, *, base_url: str = "", secrets: Sequence[str] = (), during: BaseException | None = None
) -> FlowDebateError:
    """Map `error` to one of this library's errors, with `error` as its cause unless that could reveal one of `secrets`.

    `during` is the exception that the application was handling at the time of the call: Python chains it to `error`
    although the two are unrelated. Raise the result outside the `except` block for `error`; otherwise, Python chains
    the two.
    """
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, FlowDebateError):
        cause = cause.__cause__
    if cause is not None:  # raised by one of our hooks and wrapped by openai
        return cause
    links = tuple(_chain(error, during))
    # only an imported SDK can have raised it
    sdks: list[Any] = [sdk for name in ("openai", "anthropic") if (sdk := sys.modules.get(name)) is not None]
    by_sdk = [sdk_error for sdk in sdks if (sdk_error := _of_sdk(sdk, error, links, base_url, secrets)) is not None]
    mapped = by_sdk[0] if by_sdk else _transport(links, base_url, secrets)
    if mapped is None:
        if isinstance(error, UnicodeEncodeError):
            mapped = RequestRejected("the prompt is not valid Unicode, so it cannot be sent")
        else:
            text = one_line(f"{type(error).__name__}: {_safe_str(error)}", secrets=secrets)
            mapped = MalformedResponse(f"the answer could not be read ({text})")
    chain_text = "".join(f"{_safe_str(link)}{_safe_str(link, repr)}" for link in _chain(error, None))
    if not any(secret in chain_text for secret in secrets if secret):
        mapped.__cause__ = error
    return mapped


def find_unsendable(
    error: Exception, create: Callable[..., object], parameters: Mapping[str, Any]
) -> RequestRejected | None:
    """Return the error for a request that `create` cannot send; None if the request did not cause `error`."""
    if not isinstance(error, (TypeError, ValueError, RecursionError)):
        return None
    problem = ""
    try:
        problem = "flowdebate is incompatible with the installed SDK ({}): please report it with both versions"
        inspect.signature(create).bind(**parameters)
        problem = "a parameter of the request cannot be encoded as JSON ({}): check ModelSettings.extra"
        json.dumps(parameters, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as reason:
        rejected = RequestRejected(f"the request was not sent: {problem.format(one_line(_safe_str(reason)))}")
        rejected.certain = True
        rejected.providers_fault = False  # fallbacks and policies must not hide a mistake in this process
        return rejected
    return None


def inner_error(error: object, *, secrets: Sequence[str] = (), base_url: str = "") -> ModelError:
    """Convert `error`, found in a stream or in a response with status 200, to a ModelError.

    The HTTP status is taken from the error's code, type or status field, or from `error` itself if it is not an object;
    if no status is recognized, it is 500.
    """
    codes = [error.get(key) for key in ("code", "type", "status")] if isinstance(error, dict) else [error]
    code_text, status = "with an error", 500
    for code in reversed(codes):  # reversed, because the first known code takes precedence
        word = str(code).strip().lower()
        if word.isdecimal() and len(word) == 3 and word[0] in "345":  # noqa: PLR2004 - a status as a text
            code_text, status = str(code), int(word)
        elif word in _STATUSES:
            code_text, status = str(code), _STATUSES[word]
    return status_error(
        status, {"error": error}, explanation=code_text, headers=answered.get(), secrets=secrets, base_url=base_url
    )


def status_error(
    status: int,
    body: object,
    *,
    headers: Mapping[str, str],
    explanation: str = "",
    secrets: Sequence[str] = (),
    base_url: str = "",
) -> ModelError:
    """Map an HTTP `status` and its decoded `body` to an error; `x-should-retry` decides whether the error is transient.

    `explanation` replaces the status in the message; it is set if the error did not arrive as an HTTP error response.
    """
    reason = _Reason.of(body, secrets)
    wait = retry_after(headers)
    wait = reason.wait if wait is None else wait
    text = f"the endpoint answered {explanation or status}{reason.message and ': '}{reason.message}"
    error = _error_of_status(status, text, reason, wait, base_url=base_url, inside=bool(explanation))
    if isinstance(error, RequestRejected):
        error.words = reason.words
    should_retry = headers.get("x-should-retry")
    if should_retry in ("true", "false"):
        error.transient = should_retry == "true"
        error.retry_after = wait
    return error


def _error_of_status(
    status: int, text: str, reason: _Reason, wait: float | None, *, base_url: str, inside: bool
) -> ModelError:
    if status < 300:  # noqa: PLR2004 - 101 and the like
        return MalformedResponse(f"{text}, which is not a valid response")
    if status < 400:  # noqa: PLR2004 - redirects are not followed: they could carry the key elsewhere
        return RequestRejected(f"{text}. Redirects are not followed: set base_url to the final address", status=status)
    return (
        _limited(status, text, reason.words, wait)
        or _certain(status, text, reason, base_url=base_url, inside=inside)
        or _uncertain(status, text, reason.words, wait, base_url)
    )


def _certain(status: int, text: str, reason: _Reason, *, base_url: str, inside: bool) -> ModelError | None:
    """Return the error for a rejection that blames the key, the prompt, the address or the model.

    Returns None for any other rejection.
    """
    words, final, callers = reason.words, text.rstrip("."), status < 500 or inside  # noqa: PLR2004
    filtered = callers and status not in _TRANSIENT and _CONTENT.search(words)
    no_path = (inside or status in (404, 405)) and _NO_PATH.search(reason.message.lower())
    error: ModelError | None = None
    if status == 401 or (callers and _KEY.search(words) and not filtered):  # noqa: PLR2004
        error = AuthenticationFailed(f"{final}. Check the API key", status=status)
    elif _CONTEXT.search(words):
        error = ContextTooLong(text, status=status)
    elif filtered:
        error = ContentFiltered(reason.message or text)
        error.status = status
    elif no_path:
        error = RequestRejected(f"{final}. {_address_advice(base_url)}", status=status)
    elif callers and _NO_MODEL.search(words):
        error = ModelNotFound(f"{final}. Check the model's name{_at(base_url, ' at')}", status=status)
    elif status == 403 and _DENIED.search(words):  # noqa: PLR2004
        error = AuthenticationFailed(f"{final}. Check the API key", status=status)
    return error


def _uncertain(status: int, text: str, words: str, wait: float | None, base_url: str) -> ModelError:
    """Choose the error for a rejection, mainly by its status.

    The server may still accept another form of the request.
    """
    if status in _TRANSIENT or (status >= 500 and status != 501 and not _TEMPLATE.search(words)):  # noqa: PLR2004
        return ProviderFailed(text, status=status, retry_after=wait)
    error = RequestRejected(text, status=status)
    if status == 404:  # noqa: PLR2004 - Not Found
        advice = f"Check the model's name{_at(base_url, ' at')}. {_address_advice(base_url)}"
        error = ModelNotFound(f"{text.rstrip('.')}. {advice}", status=status)
    elif status == 413:  # noqa: PLR2004 - Content Too Large
        error = ContextTooLong(text, status=status)
    error.certain = status in (403, 404) and _POLICY.search(words) is not None
    return error


def _limited(status: int, text: str, words: str, wait: float | None) -> ModelError | None:
    """Return the error for a rejection caused by a limit or quota; return None for any other rejection."""
    money = status == 402 or (status in _SPENT and _MONEY.search(words) is not None)  # noqa: PLR2004
    quota = status in _SPENT and _QUOTA.search(words) is not None
    if not (money or quota or status in _OVERLOADED or (status < 500 and _THROTTLED.search(words))):  # noqa: PLR2004
        return None
    sizes = _REQUESTED.search(words)
    if _NEVER_FITS.search(words) or (sizes and int(sizes[2]) > int(sizes[1])):
        hint = ". The request is larger than the account's limit: shorten the prompt, or raise the limit"
        return ContextTooLong(text.rstrip(".") + hint, status=status)
    daily = status in _SPENT and _DAILY.search(words) is not None
    short = (wait is not None and wait <= _SHORT_WAIT) or _BY_MINUTE.search(words) is not None
    spent = money or daily or (quota and not short)
    hint = ". The quota is used up, so waiting does not help: check your plan and billing" if spent else ""
    return RateLimited(text + hint, retry_after=wait, status=status, quota_exhausted=spent)


def _address_advice(base_url: str) -> str:
    """Suggest a correction for an address that does not serve an API."""
    path = urlsplit(base_url).path.rstrip("/")
    if not base_url or re.search(r"/v\d", path):
        return f"Check base_url{_at(base_url)}: it must be the address to which /chat/completions is appended"
    return f"Check base_url{_at(base_url)}: most end in /v1, such as {address_of(base_url).rstrip('/')}/v1"


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the number of seconds to wait, as stated in `headers`; None if the value is missing or invalid.

    >>> retry_after({"retry-after": "2.5"}), retry_after({"retry-after": "nan"}), retry_after({"retry-after": "-5"})
    (2.5, None, None)
    """
    millis, seconds = headers.get("retry-after-ms"), headers.get("retry-after")
    wait = math.nan
    try:
        wait = float(millis) / 1000 if millis else float(seconds or "")
    except ValueError:
        from email.utils import parsedate_to_datetime

        with suppress(TypeError, ValueError, OverflowError):  # HTTP also allows a date in this header
            wait = parsedate_to_datetime(seconds or "").timestamp() - time.time()
    return wait if math.isfinite(wait) and 0 <= wait <= _MAX_WAIT else None


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
    if isinstance(error, sdk.APIConnectionError):  # includes timeouts
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
    """Return the error for a connection failure; return None if `links` contains no connection error.

    aiohttp's exceptions are more precise than the httpx2 exceptions that wrap them.
    """
    import ssl

    import aiohttp

    def httpx2(*names: str) -> tuple[type[BaseException], ...]:  # only an imported library can have raised it
        library = sys.modules.get("httpx2")
        return () if library is None else tuple(getattr(library, name) for name in names)

    at = _at(base_url)
    reason = one_line(_safe_str(links[-1]), secrets=secrets) if links else ""
    if _any(links, ssl.SSLCertVerificationError, aiohttp.ClientConnectorCertificateError):
        return ModelUnavailable(f"the endpoint{at} has no trusted certificate ({reason})")
    if _any(links, aiohttp.ClientProxyConnectionError, aiohttp.ClientHttpProxyError, *httpx2("ProxyError")):
        message = f"no connection to the endpoint{at} through the proxy set in the environment ({reason})"
        hint = "is it running? Check HTTPS_PROXY, HTTP_PROXY and ALL_PROXY; NO_PROXY lists the hosts to reach directly"
        return ModelUnavailable(f"{message}: {hint}", transient=True)
    connecting = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, *httpx2("ConnectError"))
    # the aiohttp transport also raises ConnectTimeout for broken connections
    timed_out = _any(links, *httpx2("ConnectTimeout")) and not _any(links, aiohttp.ClientError)
    if timed_out or _any(links, *connecting, ConnectionRefusedError):
        # an unsupported TLS version remains unsupported, but a broken handshake may succeed later
        broken = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError, ssl.SSLWantReadError)
        hopeless = _any(links, ssl.SSLError) and not _any(links, *broken)
        message = f"no connection to the endpoint{at} ({reason or 'no answer'}): is it running?"
        return ModelUnavailable(message, transient=not hopeless)
    if _any(links, aiohttp.InvalidURL, *httpx2("InvalidURL", "UnsupportedProtocol")):
        return ModelUnavailable(f"base_url{at} is not a valid endpoint address ({reason})")
    if _any(links, aiohttp.ServerTimeoutError, *httpx2("ReadTimeout", "WriteTimeout", "PoolTimeout")):
        return ConnectionLost(f"the endpoint{at} went silent")
    ended = any(_ENDED.search(_safe_str(link)) for link in links)
    if not ended and _any(links, aiohttp.ClientResponseError, *httpx2("RemoteProtocolError", "DecodingError")):
        return MalformedResponse(f"the response of the endpoint{at} is not HTTP ({reason})")
    if _any(links, aiohttp.ClientError, *httpx2("TransportError", "StreamError"), ConnectionError):
        return ConnectionLost(f"the connection{at} broke before the answer was complete ({reason or 'closed'})")
    if _any(links, OSError):
        return ModelUnavailable(f"no connection to the endpoint{at} ({reason})", transient=True)
    return None


# httpx2's message for a connection closed prematurely.
_ENDED = re.compile("disconnected without|closed connection without")


def _any(links: Sequence[BaseException], *classes: type[BaseException]) -> bool:
    return any(isinstance(link, classes) for link in links)


def _chain(error: BaseException | None, during: BaseException | None) -> Iterator[BaseException]:
    """Yield `error` and its causes, stopping at `during`."""
    seen: set[int] = set()
    while error is not None and error is not during and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


@dataclass(frozen=True, slots=True)
class _Reason:
    """Reason for a rejection, extracted from the response body."""

    message: str
    """Message from the endpoint, followed by the message from any endpoint behind it, on one line."""
    words: str
    """All text in the body, including codes and parameters, in lowercase."""
    wait: float | None
    """Wait time in seconds, taken from a sentence or a field in the body."""

    @classmethod
    def of(cls, body: object, secrets: Sequence[str]) -> _Reason:
        """Parse the body of a rejection; each provider puts the reason in a different place."""
        fields = list(islice(_fields(body), _MAX_FIELDS))
        message = _message(body)
        behind = [text for name, text in fields if name in _SENTENCES and " " in text and text not in message]
        vendor = next((text for name, text in fields if name == "provider_name"), "")
        inner = ": ".join(text for text in (vendor, behind[-1] if behind else "") if text)
        words = " ".join(text for _, text in fields).lower()[:_MAX_LENGTH]
        wait = next((seconds for field in fields if (seconds := _wait_in(*field)) is not None), None)
        if wait is None and (sentence := _TRY_AGAIN.search(words)):  # for example "try again in 1m2.5s"
            wait = sum(float(number) * _UNITS[unit] for number, unit in _TIME.findall(sentence[1]))
        return cls(
            message=one_line(f"{message}{': ' if message and inner else ''}{inner}", secrets=secrets),
            words=redact(words, secrets),
            wait=None if wait is None or wait > _MAX_WAIT else wait,
        )


_MAX_FIELDS = 200
_MAX_LENGTH = 20_000  # maximum length, in characters, of the text to search
_DEEPEST = 8
# Fields that endpoints use to forward another endpoint's message.
_SENTENCES = frozenset({"message", "detail", "error", "raw", "reason", "msg"})
_WAITS = frozenset({"retrydelay", "retry_delay", "retryafter", "retry_after", "retry_after_seconds"})


def _message(body: object) -> str:
    inner = body
    if isinstance(body, list) and body and isinstance(body[0], dict):  # Gemini sends a list
        inner = body[0]
    if isinstance(inner, dict):
        inner = inner.get("error", inner)
    if not isinstance(inner, dict):
        return inner if isinstance(inner, str) else short_repr(inner) if inner else ""
    message = inner.get("message") or inner.get("detail") or ""
    return (message if isinstance(message, str) else short_repr(message)) or json.dumps(inner, default=repr)


def _fields(value: object, name: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield each string and number in a body with its field name, including those in JSON embedded in a string."""
    if isinstance(value, str):
        inner = None
        if value.lstrip()[:1] in ("{", "["):
            with suppress(ValueError, RecursionError):
                inner = json.loads(value)
        if inner is None:
            yield name, value[:_MAX_LENGTH]
            return
        value = inner
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        yield name, str(value)
    elif depth < _DEEPEST and isinstance(value, dict):
        for key, item in value.items():
            yield from _fields(item, str(key).lower(), depth + 1)
    elif depth < _DEEPEST and isinstance(value, list):
        for item in value:
            yield from _fields(item, name, depth + 1)


def _wait_in(name: str, text: str) -> float | None:
    """Parse a wait time from a field such as `"retryDelay": "23s"`."""
    if name not in _WAITS:
        return None
    seconds = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)s?", text.strip())
    return float(seconds[1]) if seconds else None


def _safe_str(error: BaseException, form: Callable[[object], str] = str) -> str:
    try:
        return form(error)
    except Exception:  # noqa: BLE001 - a foreign __str__ must not hide the error itself
        return type(error).__name__


def _at(base_url: str, before: str = "") -> str:
    return f"{before} {address_of(base_url)}" if base_url else ""
