"""Endpoints and exchanges. An endpoint is a server's address, key and headers; its secrets are never shown."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import SplitResult, parse_qsl, unquote, unquote_plus, urlencode, urlsplit

from flowdebate._text import hide_credentials
from flowdebate.errors import AuthenticationFailed, ConfigurationError

NO_KEY = "no-key"  # sent to servers that need no key, because the header must not be empty

ADDRESS = "must begin with http:// or https:// and name a server"

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A server to connect to. `Endpoint.of` splits off the query, and turns the user and password into a header."""

    base_url: str
    api_key: str = field(repr=False)
    query: str = field(default="", repr=False)
    """Query string sent with each request."""
    headers: Headers = field(default=(), repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False, compare=False)
    """Strings that must never be shown."""

    @classmethod
    @lru_cache(maxsize=256)
    def of(cls, base_url: str, api_key: str = NO_KEY, headers: Headers = ()) -> Endpoint:
        """Parse a valid address. Its user and password override `api_key`; an Authorization header overrides both."""
        parts = urlsplit(base_url)
        if parts.username or parts.password:
            user = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
            basic = f"Basic {base64.b64encode(user.encode()).decode()}"
            headers = (("Authorization", basic), *headers)
        headers = tuple({_canonical(name): (_canonical(name), value) for name, value in headers}.values())
        values = dict.fromkeys((api_key, *_secrets_of(parts, headers)))
        # longest first: if a part of a secret were redacted first, the rest would remain readable
        secrets = sorted((secret for secret in values if secret and secret != NO_KEY), key=len, reverse=True)
        return cls(
            base_url=address_of(base_url),
            api_key=api_key,
            query=parts.query,
            headers=headers,
            secrets=tuple(secrets),
        )


@dataclass(slots=True, kw_only=True)
class Exchange:
    """An HTTP request and the response to it, without headers."""

    sent: bytes
    status: int
    kind: str
    """Content type of the response."""
    received: bytearray = field(default_factory=bytearray)
    """The part of the response body read so far."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Secrets of the endpoint that must not appear in errors or logs."""

    @property
    def body(self) -> str:
        """Response body as text."""
        return self.received.decode(errors="replace")


_ERROR = re.compile(r"\s*(?:event: *error\s+)?(?:data: *)?\[?\{\s*(?:\"type\"\s*:\s*\"error\"|\"error\"\s*:\s*[{\"\[])")


def is_refusal(status: int, body: str) -> bool:
    """Return whether a response rejects the request, judging by its status or, for some servers, its body.

    >>> is_refusal(400, ""), is_refusal(200, '{"error": "Unexpected endpoint"}'), is_refusal(200, '{"choices": []}')
    (True, True, False)
    """
    return status >= _REFUSED or _ERROR.match(body) is not None


_REFUSED = 400

exchanges: ContextVar[list[Exchange] | None] = ContextVar("flowdebate_exchanges", default=None)
"""HTTP exchanges made by the current call; None if exchanges are not being recorded."""


@contextmanager
def record_exchanges() -> Iterator[list[Exchange]]:
    """Collect the exchanges of all calls inside the block, including those in nested blocks."""
    recorded: list[Exchange] = []
    outer = exchanges.get()
    token = exchanges.set(recorded)
    try:
        yield recorded
    finally:
        exchanges.reset(token)
        if outer is not None:
            outer += recorded


def note_exchange(sent: bytes, status: int, headers: Mapping[str, str], *, secrets: tuple[str, ...]) -> None:
    """Record an exchange once its response starts to arrive, if exchanges are being recorded."""
    recorded = exchanges.get()
    if recorded is not None:
        recorded.append(Exchange(sent=sent, status=status, kind=headers.get("content-type", ""), secrets=secrets))


def _canonical(name: str) -> str:
    """Spell a header name the way openai does, so that the header is not sent twice."""
    return "Authorization" if name.lower() == "authorization" else name


def _secrets_of(parts: SplitResult, headers: Headers) -> Iterator[str]:
    """Yield the secrets in an address and headers: as written, as decoded, and as sent to a server."""
    secret = parts.password or parts.username or ""
    yield from (secret, unquote(secret))
    yield from (parts.query, urlencode(parse_qsl(parts.query, keep_blank_values=True)))
    for pair in parts.query.split("&"):
        name, _, value = pair.partition("=")
        if _is_secret(unquote_plus(name), unquote_plus(value)):
            yield from (value, unquote_plus(value))
    for name, value in headers:
        if _is_secret(name, value):
            # yield it without its scheme (such as Bearer) as well, because the scheme is not secret
            yield from (value, value.rpartition(" ")[2])
        yield from (part for part in re.split(r"[\s;,=]+", value) if _RANDOM.search(part))


# Suffixes of the names of secret headers and parameters; entries in `_SHORT` must match the whole name, because
# "zipcode" is harmless.
_SECRETS = ("key", "token", "secret", "auth", "authorization", "password", "signature", "credential", "cookie")
_SHORT = frozenset({"sig", "code", "pwd", "pass"})
# At least 12 mixed letters and digits, typical of keys but not of words.
_RANDOM = re.compile(r"(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z0-9]{12,}")


def _is_secret(name: str, value: str) -> bool:
    """Return whether a header or parameter is secret, judging by its name or by a random-looking value.

    >>> _is_secret("x-api-key", "hunter2"), _is_secret("api-version", "2024-10-21"), _is_secret("X-Title", "Debates")
    (True, False, False)
    """
    word = re.split(r"[^a-z0-9]+", name.lower())[-1]
    return word in _SHORT or word.endswith(_SECRETS) or _RANDOM.search(value) is not None


def clean_key(key: str | None, source: str) -> str | None:
    r"""Remove a trailing newline from `key`, in case it was read from a file.

    Raises AuthenticationFailed for an invalid key; the error does not show the key.

    >>> clean_key("sk-1\n", "in OPENAI_API_KEY")
    'sk-1'
    """
    cleaned = (key or "").strip("\ufeff \t\r\n")
    if not (cleaned.isascii() and cleaned.isprintable()):
        problem = "has a line break or another character that cannot be sent"
        raise AuthenticationFailed(f"the API key {source} {problem}: copy it again")
    return cleaned or None


def check_address(location: str, name: str, address: object) -> None:
    """Raise ConfigurationError unless `address` is valid; the error shows neither the password nor the query."""
    if not isinstance(address, str):
        raise ConfigurationError(location, name, type(address), "must be text")
    if _parts(address) is None:
        hint = "Write / ? # @ in a user name or password as %2F %3F %23 %40"
        raise ConfigurationError(location, name, address_of(address), ADDRESS, hint=hint if "@" in address else "")


def _parts(address: str) -> SplitResult | None:
    """Split `address` into its parts; return None if it is not a valid address."""
    try:
        parts = urlsplit(address)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    plain = address.isprintable() and not any(char.isspace() or char in '"<>\\^`{|}' for char in address)
    # as in http://me:12/34@example.com, with an unescaped slash in the password
    cut = "@" in f"{parts.path}{parts.query}{parts.fragment}"
    return parts if valid and plain and not cut else None


def address_of(address: str) -> str:
    """Remove the user name, the password and the query from `address`, because they may be secret.

    >>> address_of("https://me:hunter2@example.com/v1?key=hunter2")
    'https://example.com/v1'
    >>> address_of("htps//me:hunter2@example.com/v1"), address_of("http://me:hun/ter2@[::1/v1")
    ('example.com/v1', 'http://[::1/v1')
    """
    parts = _parts(address)
    if parts is not None:
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    return hide_credentials(address)  # an invalid address cannot be split


def check_headers(location: str, headers: object) -> Headers:
    """Return `headers` as pairs. If they cannot be sent, raise ConfigurationError without showing any values."""
    if headers is None:
        return ()
    if not isinstance(headers, Mapping):
        raise ConfigurationError(
            location, "default_headers", type(headers), "must be a mapping of header names to values"
        )
    pairs: Iterable[tuple[object, object]] = headers.items()
    for name, value in pairs:
        if not (isinstance(name, str) and re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name)):
            raise ConfigurationError(location, "default_headers", name, "must have valid header names")
        if not (isinstance(value, str) and value.isascii() and value.isprintable()):
            problem = "must be printable ASCII text"
            raise ConfigurationError(location, f"default_headers.{name}", type(value), problem)
    return tuple((str(name), str(value)) for name, value in pairs)
