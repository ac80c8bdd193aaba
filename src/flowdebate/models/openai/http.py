"""`HttpClient`: chat completions over aiohttp, which avoids the second it takes to import openai's client.

It implements the part of openai's client interface used by `Chat`, and returns answers in the same format: objects with
fields as attributes.
"""

from __future__ import annotations

import json
import logging
import ssl
from collections.abc import AsyncIterator
from io import BytesIO
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl, urlencode

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from flowdebate.errors import ConfigurationError
from flowdebate.models.openai.endpoint import ADDRESS, Endpoint, note_exchange
from flowdebate.models.openai.error_mapping import answered, inner_error, status_error
from flowdebate.models.openai.transport import (
    CONNECT_SECONDS,
    CONNECTIONS,
    MAX_BODY_SIZE,
    bound_parts,
    check_length,
    encoding_of,
    open_session,
)

_LOGGER = logging.getLogger("flowdebate.models")

_WHOLE = 1_000_000  # maximum request size, in bytes, that aiohttp sends from memory without issuing a warning


class _Fields(dict[str, Any]):
    """JSON object whose fields are also available as attributes; missing fields are None."""

    __getattr__ = dict.get


class HttpClient:
    """Client for one endpoint; `close` closes its sockets immediately, before awaiting anything.

    Raises flowdebate errors for answers from the server, and aiohttp errors for network failures.
    """

    def __init__(self, endpoint: Endpoint, context: ssl.SSLContext | None) -> None:
        query = urlencode(parse_qsl(endpoint.query, keep_blank_values=True))
        try:
            url = URL(f"{endpoint.base_url.rstrip('/')}/chat/completions")
            self._url = url.with_query(query) if query else url
        except ValueError:
            raise ConfigurationError("OpenAIModel", "base_url", endpoint.base_url, ADDRESS) from None
        self._endpoint = endpoint
        self._headers = CIMultiDict(
            {
                "Accept": "application/json",
                # compressed bodies take time to unpack and could exhaust memory
                "Accept-Encoding": "identity",
                "Authorization": f"Bearer {endpoint.api_key}",
                "Content-Type": "application/json",
                "User-Agent": "flowdebate",
            }
        )
        self._headers.update(endpoint.headers)
        self._session = open_session(limit=CONNECTIONS, context=context)
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
        self.chat: Any = SimpleNamespace(completions=self)

    async def close(self) -> None:
        await self._session.close()

    async def create(self, *, extra_body: Any = (), **parameters: object) -> object:  # noqa: ANN401 - a mapping, or none
        """Request a completion, or a stream of chunks if `stream` is set."""
        body = json.dumps({**parameters, **dict(extra_body)}, ensure_ascii=False, allow_nan=False).encode()
        response = await self._session.post(
            self._url,
            data=body if len(body) < _WHOLE else BytesIO(body),
            headers=self._headers,
            allow_redirects=False,
            timeout=self._timeout,
        )
        _LOGGER.debug("POST %s: %s", self._url.with_query(None), response.status)
        try:
            answered.set(_headers_of(response))
            note_exchange(body, response.status, response.headers, secrets=self._endpoint.secrets)
            check_length(response.headers)
            if not 200 <= response.status < 300:  # noqa: PLR2004
                raise await self._refusal(response)  # noqa: TRY301 - the response is closed here
            if parameters.get("stream"):
                return _Chunks(response, self._endpoint)
            return _completion(await _read(response), response)
        except BaseException:
            response.close()
            raise

    async def _refusal(self, response: aiohttp.ClientResponse) -> Exception:
        body = (await _read(response)).decode(errors="replace").strip()
        if "html" in response.headers.get("content-type", ""):
            body = f"an HTML page; is base_url {self._endpoint.base_url} an API?"
        try:
            body = json.loads(body)
        except (ValueError, RecursionError):
            body = body or f"Error code: {response.status}"
        secrets, base_url = self._endpoint.secrets, self._endpoint.base_url
        return status_error(response.status, body, headers=_headers_of(response), secrets=secrets, base_url=base_url)


def _headers_of(response: aiohttp.ClientResponse) -> CIMultiDict[str]:
    """Return the headers of `response`, combining repeated headers as HTTP prescribes."""
    headers: CIMultiDict[str] = CIMultiDict()
    for name, value in response.headers.items():
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


class _Chunks:
    """Chunks of a streamed answer."""

    def __init__(self, response: aiohttp.ClientResponse, endpoint: Endpoint) -> None:
        self._response = response
        self._endpoint = endpoint
        self.ended = False
        """True once the server has ended the stream."""
        self.response: Any = SimpleNamespace(headers=response.headers, aread=lambda: _read(response))

    async def close(self) -> None:
        self._response.close()

    def whole(self, body: bytes) -> object:
        """Parse the complete answer from a server that does not stream."""
        return json.loads(body, object_hook=_Fields)

    async def __aiter__(self) -> AsyncIterator[Any]:
        async for data in _events(self._response):
            if data.startswith(b"[DONE]"):
                self.ended = True
                return
            chunk = json.loads(data, object_hook=_Fields)
            error = chunk.get("error") if isinstance(chunk, dict) else None
            if error:
                raise inner_error(error, secrets=self._endpoint.secrets, base_url=self._endpoint.base_url)
            yield chunk


async def _events(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Yield the data of each event in a stream, skipping events without data."""
    data: list[bytes] = []
    async for lines in _parts(response, events="event-stream" in response.headers.get("content-type", "").lower()):
        for line in lines.splitlines():
            if line.startswith(b"data:"):
                data.append(line[5:].removeprefix(b" "))
            elif not line and data:
                yield b"\n".join(data)
                data.clear()


async def _read(response: aiohttp.ClientResponse) -> bytes:
    return b"".join([part async for part in _parts(response)])


def _parts(response: aiohttp.ClientResponse, *, events: bool = False) -> AsyncIterator[bytes]:
    arriving = response.content.iter_any()
    return bound_parts(arriving, MAX_BODY_SIZE, encoding=encoding_of(response.headers), events=events)


def _completion(body: bytes, response: aiohttp.ClientResponse) -> object:
    """Parse a completion; return the body as text if it is neither JSON nor labeled as JSON."""
    try:
        return json.loads(body, object_hook=_Fields)
    except (ValueError, RecursionError):
        if response.headers.get("content-type", "").partition(";")[0].endswith("json"):
            raise
        return body.decode(errors="replace")
