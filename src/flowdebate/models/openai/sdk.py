"""Clients built on SDKs from OpenAI and other vendors, with safe connections, bounded responses and no retries."""

from __future__ import annotations

import re
import ssl
from collections.abc import AsyncIterator
from functools import partial
from http.cookiejar import CookieJar
from typing import Any

import httpx2
import openai
import openai.resources.chat.completions  # imported here, because `import openai` defers this import to the first call

from flowdebate.errors import ConfigurationError
from flowdebate.models.call import is_loopback
from flowdebate.models.openai.endpoint import ADDRESS, Endpoint, note_exchange
from flowdebate.models.openai.error_mapping import answered
from flowdebate.models.openai.transport import (
    CONNECT_SECONDS,
    CONNECTIONS,
    MAX_BODY_SIZE,
    bound_parts,
    check_length,
    encoding_of,
    open_session,
)


def options_of(endpoint: Endpoint, *, names: bool, context: ssl.SSLContext) -> dict[str, Any]:
    """Build the options for an SDK client connecting to `endpoint` over aiohttp.

    If `names` is true, event names in streams are kept: anthropic needs them, but openai turns some into errors.
    """
    try:
        httpx2.URL(endpoint.base_url)
    except (httpx2.InvalidURL, ValueError):
        raise ConfigurationError("OpenAIModel", "base_url", endpoint.base_url, ADDRESS) from None
    timeout = httpx2.Timeout(None, connect=CONNECT_SECONDS)
    http = openai.DefaultAioHttpClient(
        limits=httpx2.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS),
        timeout=timeout,
        follow_redirects=False,
        # bypass proxies for requests to this machine
        trust_env=not is_loopback(endpoint.base_url),
        verify=context,
        event_hooks={"response": [partial(_bound_body, names=names, secrets=endpoint.secrets)]},
        cookies=_NoCookies(),
        params=endpoint.query or None,
    )
    transport: Any
    for transport in (http._transport, *http._mounts.values()):  # noqa: SLF001 - there is no public access to them
        if transport is not None:
            transport.client = partial(open_session, limit=CONNECTIONS, context=context)
    return {
        "api_key": endpoint.api_key,
        "base_url": endpoint.base_url,
        # compressed bodies take time to unpack and could exhaust memory
        "default_headers": {"Accept-Encoding": "identity", **dict(endpoint.headers)},
        "http_client": http,
        "max_retries": 0,  # the SDK's retries would be paid for but not counted
        "timeout": timeout,
    }


class _NoCookies(CookieJar):
    """A cookie jar that stays empty, because one malformed cookie would make every later call fail."""

    def extract_cookies(self, *_: object) -> None:
        return


async def _bound_body(response: httpx2.Response, *, names: bool, secrets: tuple[str, ...]) -> None:
    """Record the headers of `response` and limit its body; reject the response if its Content-Length is too large."""
    answered.set(response.headers)
    note_exchange(response.request.content, response.status_code, response.headers, secrets=secrets)
    try:
        check_length(response.headers)
    except BaseException:
        await response.aclose()
        raise
    encoding = encoding_of(response.headers)
    if encoding is not None:
        # httpx2 would unpack each chunk, however large, before its size could be checked
        del response.headers["content-encoding"]
    events = "event-stream" in response.headers.get("content-type", "").lower()
    if not isinstance(response.stream, httpx2.AsyncByteStream):
        raise TypeError(response.stream)
    response.stream = _Bounded(response.stream, encoding, events=events, names=names)


_DONE = re.compile(rb"^data: ?\[DONE\]", re.MULTILINE)


class _Bounded(httpx2.AsyncByteStream):
    """Stream of byte chunks with a maximum total size."""

    def __init__(self, stream: httpx2.AsyncByteStream, encoding: str | None, *, events: bool, names: bool) -> None:
        self._stream = stream
        self._options: Any = {"encoding": encoding, "events": events, "names": names}
        self.ended = False
        """True once an event stream has sent its end marker."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in bound_parts(aiter(self._stream), MAX_BODY_SIZE, **self._options):
            self.ended = self.ended or _DONE.search(part) is not None
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()
