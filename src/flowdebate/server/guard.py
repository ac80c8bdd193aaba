"""Guard for the HTTP server: it checks the host, origin, token and body before anything else runs, and signs links."""

from __future__ import annotations

import base64
import hmac
import json
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import astuple, dataclass, field, fields
from hashlib import sha256
from http import HTTPStatus
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from flowdebate.errors import StoreError
from flowdebate.server.problems import refusal as refused
from flowdebate.ui.models import FORWARDED

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


Authenticate: TypeAlias = "Callable[[Request], str | Awaitable[str | None] | None]"
"""Function that returns the name of the user who sent a request, or None to reject it."""

LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
"""Host names of this machine."""

_OWNER = "flowdebate.owner"
_BROWSER = "flowdebate.browser"
SESSION = 7 * 24 * 3600
"""Time in seconds for which a browser stays signed in."""
_TOKEN = "token"  # noqa: S105 - the name of a parameter
_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::(?P<port>\d{1,5}))?", re.ASCII)
_DIGITS = 16
"""Maximum number of digits to parse as a number. This is enough for milliseconds since the epoch, whereas parsing a
million digits would be slow.
"""
# Maximum size in bytes of a request that starts a run; it may contain 10 MB of images encoded as base64.
_MAX_SOURCES_SIZE = 14_000_000
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_HEADERS: Mapping[str, str] = {
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


@dataclass(frozen=True, kw_only=True)
class GuardOptions:
    """Rules for a `Guard`."""

    hosts: frozenset[str] = LOOPBACK
    """Host names allowed in a request's Host header."""
    token: str | None = field(default=None, repr=False)
    """Token required on every request, as a cookie or as `Authorization: Bearer`; None if no token is required."""
    authenticate: Authenticate | None = None
    """Function that identifies the user who sent a request."""
    public: tuple[str, ...] = ()
    """Prefixes of paths that do not require a token or a user, because they check other credentials or
    reveal nothing.
    """
    refusals: Mapping[str, Callable[[Exception], Response]] = field(default_factory=dict)
    """Functions for building error responses in other protocols' formats, keyed by path prefix."""
    signed_out: Callable[[], Awaitable[float]] | None = None
    """Function that returns the time when all browsers were last signed out, in seconds since the epoch."""
    root: str = ""
    """The application's path behind a proxy, such as "/debates"; if empty, X-Forwarded-Prefix is used."""
    paths: frozenset[str] = frozenset()
    """First path segments that belong to the application itself."""
    max_body: int = 1_000_000
    """Maximum size of a request body, in bytes. The default is fifty times the longest question, yet too small to
    exhaust memory.
    """


def owner_of(scope: Mapping[str, Any]) -> str | None:
    """Return the user who sent the request; None on a single-user server."""
    owner: str | None = scope.get(_OWNER)
    return owner


def path_of(scope: Mapping[str, Any]) -> str:
    """Return a request's path within the application, even if the application is mounted inside another one."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", "").rstrip("/")) or "/"


_FORWARDS = re.compile(
    r"x-forwarded-.+|forwarded|via|x-real-ip|(x|cf|true|fly)-(client|connecting|cluster-client)-ip|cf-ray"
)
"""Headers added by proxies and tunnels."""
_PREFIX = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._-][A-Za-z0-9._~-]*){1,8}", re.ASCII)


def is_prefix(root: str) -> bool:
    """Return whether `root` is a valid mount path for an application behind a proxy.

    >>> is_prefix("/debates"), is_prefix("/a/b"), is_prefix("//evil.example"), is_prefix("/..")
    (True, True, False, False)
    """
    return len(root) <= _MAX_PREFIX_LENGTH and _PREFIX.fullmatch(root) is not None


_MAX_PREFIX_LENGTH = 200


def browser_root(token: str) -> str:
    """Return the browser path, a secret path segment derived from the token.

    Browsers send a cookie to all ports on a host, including those of other users' servers, but only for URLs below the
    cookie's path. Nobody can guess this path without the token, and no other server can forge such a cookie.
    """
    return f"/~{_encode(hmac.new(token.encode(), b'path', sha256).digest()[:16])}"


def shared_root_of(request: Request) -> str:
    """Return the application's mount path for use in shared URLs, without the secret browser path."""
    root: str = request.scope.get("root_path", "")
    return root.removesuffix(request.scope.get(_BROWSER, "")).rstrip("/")


class Guard:
    """ASGI middleware that rejects invalid requests to `app` and adds security headers to all responses.

    Requests are checked in the following order: the host must be allowed (421), any page making the request must have
    the same origin (403), the token must be correct (401), and the body must be JSON (415) and not too large (413, even
    without a declared length). Rejections are sent as problem details (RFC 9457), as a page to browsers, or in the
    format that `options.refusals` defines for the path. A correct `?token=` in a URL is exchanged for a cookie by
    redirecting to the URL without it, below `browser_root`.
    """

    def __init__(self, app: ASGIApp, options: GuardOptions) -> None:
        self.app = app
        self.options = options

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            # No endpoint uses WebSockets, which browsers let any page open.
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        send = _add_headers(send)
        request = Request(scope)
        FORWARDED.set(any(map(_FORWARDS.fullmatch, request.headers)))
        try:
            # The host is checked first because the origin is compared with it.
            _check_host(request.headers, self.options.hosts)
            _check_origin(request)
            self._enter_prefix(scope, request.headers)
            self._enter(scope)
            if (exchanged := self._exchange(request)) is not None:
                await exchanged(scope, receive, send)
                return
            await self._authenticate(request)
            _check_type(request)
            receive = self._limit(request.headers, receive, runs=request.url.path.endswith("/runs"))
        except (HTTPException, StoreError) as refusal:
            path = path_of(scope)
            respond_found = (respond for start, respond in self.options.refusals.items() if path.startswith(start))
            respond = next(respond_found, None)
            response = refused(request, refusal) if respond is None else respond(refusal)
            await response(scope, receive, send)
            return
        await self.app(scope, receive, send)

    # Authentication

    def _enter_prefix(self, scope: Scope, headers: Headers) -> None:
        """Mount the application under its proxy's prefix, even if the proxy strips the prefix from requests.

        The X-Forwarded-Prefix header is trusted only for explicitly allowed hosts, because clients connecting directly
        to this machine do not use these names.
        """
        root = self.options.root
        if not root and headers["host"].lower().partition(":")[0] in self.options.hosts - LOOPBACK:
            root = headers.get("x-forwarded-prefix", "").rstrip("/")
            if not is_prefix(root):
                root = ""
        if not root:
            return
        path: str = scope["path"]
        is_whole = f"{path}/".startswith(f"{root}/") and root.split("/")[1] not in self.options.paths
        if not is_whole:
            scope["path"] = root + path
            if scope.get("raw_path") is not None:
                scope["raw_path"] = root.encode() + scope["raw_path"]
        scope["root_path"] = root + scope.get("root_path", "")

    def _enter(self, scope: Scope) -> None:
        """Treat the browser path as part of the application's mount path."""
        token = self.options.token
        name, _, _ = path_of(scope).removeprefix("/").partition("/")
        if token is not None and name.startswith("~") and are_secrets_equal(f"/{name}", root := browser_root(token)):
            scope["root_path"] = scope.get("root_path", "").rstrip("/") + root
            scope[_BROWSER] = root

    def _exchange(self, request: Request) -> RedirectResponse | None:
        """Redirect to the same URL without its token, and set the cookie; return None if the URL has no token."""
        token, scope = self.options.token, request.scope
        if token is None or request.method != "GET" or _TOKEN not in request.query_params:
            return None
        token_given = request.query_params[_TOKEN]
        rest = [pair for pair in parse_qsl(scope["query_string"].decode("latin-1")) if pair[0] != _TOKEN]
        scope["query_string"] = urlencode(rest).encode()  # so that the token does not appear in the server's access log
        if not are_secrets_equal(token_given, token):
            raise _unauthorized("The token in this URL is invalid or no longer valid.")
        root = f"{shared_root_of(request)}{browser_root(token)}"
        clean = f"{root}{path_of(scope)}{'?' if rest else ''}{urlencode(rest)}"
        # A path beginning with two slashes would lead to a different host.
        response = RedirectResponse(f"/{clean.lstrip('/')}", HTTPStatus.SEE_OTHER)
        response.set_cookie(
            _cookie_name(token),
            _cookie_value(token, time.time()),
            max_age=SESSION,
            path=root,
            httponly=True,
            # a link in an email may open a page, but other sites cannot use the cookie in any other way
            samesite="lax",
            # Over plain HTTP, for example on this machine, browsers would not send a secure cookie back.
            secure=scope["scheme"] == "https",
        )
        return response

    async def _authenticate(self, request: Request) -> None:
        """Record the user who sent the request; respond with 401 if the user is unknown."""
        if path_of(request.scope).startswith(self.options.public):
            return
        authenticate, token = self.options.authenticate, self.options.token
        if authenticate is not None:
            identity = authenticate(request)
            owner = await identity if isawaitable(identity) else identity
            if not owner:
                raise _unauthorized("The user is unknown to this server.")
            request.scope[_OWNER] = owner
        elif token is not None:
            scheme, _, token_given = request.headers.get("authorization", "").partition(" ")
            if scheme.lower() == "bearer":
                right = are_secrets_equal(token_given.strip(), token)
            else:
                right = await self._is_signed_in(request, token)
            if not right:
                raise _unauthorized(
                    "Open the URL that the server printed at startup, "
                    "or send its token as `Authorization: Bearer TOKEN`."
                )

    async def _is_signed_in(self, request: Request, token: str) -> bool:
        """Return whether the request carries a valid cookie for this token, and its path is under the browser path."""
        cookie = request.cookies.get(_cookie_name(token), "")
        issued, _, _ = cookie.partition(".")
        if _BROWSER not in request.scope or not (issued.isascii() and issued.isdigit() and len(issued) <= _DIGITS):
            return False
        at = int(issued) / 1000
        if not are_secrets_equal(cookie, _cookie_value(token, at)) or at + SESSION < time.time():
            return False
        signed_out = self.options.signed_out
        return signed_out is None or at > await signed_out()

    # Request bodies

    def _limit(self, headers: Headers, receive: Receive, *, runs: bool) -> Receive:
        """Wrap `receive` to raise 413 if the body exceeds the maximum size."""
        maximum, read = max(self.options.max_body, _MAX_SOURCES_SIZE if runs else 0), 0
        too_large = HTTPException(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"The body is larger than {maximum:,} bytes.", {"connection": "close"}
        )
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length[:20]) > maximum:  # parsing a number with a million digits is slow
            raise too_large

        async def limited() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > maximum:
                raise too_large
            return message

        return limited


def _add_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.update(_HEADERS)
            # Set only if missing, because a report's policy is stricter.
            headers.setdefault("content-security-policy", _CSP)
            headers.setdefault("cache-control", "no-store")
        await send(message)

    return sending


def _check_host(headers: Headers, allowed: frozenset[str]) -> None:
    """Respond with 421 to unknown host names.

    Another site's name may resolve to this address (DNS rebinding).
    """
    match = _HOST.fullmatch(headers.get("host", "").lower())
    if match is None or match["name"] not in allowed:
        raise HTTPException(HTTPStatus.MISDIRECTED_REQUEST, "This server does not answer to that host name.")


def _check_origin(request: Request) -> None:
    """Respond with 403 to requests from pages on a different origin.

    Following a link to one of this server's pages is allowed.
    """
    headers = request.headers
    origin = headers.get("origin")
    # Browsers send "null" as the origin of a sandboxed page or a file. Because "null" has no host, it is rejected too.
    if origin is not None and not _is_same_origin(origin.lower(), headers):
        raise HTTPException(HTTPStatus.FORBIDDEN, "Pages from other origins may not use this server.")
    # A link in an email or chat may open a run's page, but a frame, image or script on another site may not.
    follows = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    if headers.get("sec-fetch-site") in ("cross-site", "same-site") and not (request.method == "GET" and follows):
        raise HTTPException(HTTPStatus.FORBIDDEN, "Pages from other origins may not use this server.")


def _is_same_origin(origin: str, headers: Headers) -> bool:
    """Return whether `origin` refers to this server, even if a proxy has dropped the port from the Host header."""
    parts, host = urlsplit(origin), headers["host"].lower()
    return parts.netloc == host or (parts.hostname == host and headers.get("sec-fetch-site") == "same-origin")


def _check_type(request: Request) -> None:
    """Respond with 415 to a body that is not JSON.

    Forms on other sites can send other types without a preflight.
    """
    headers = request.headers
    kind = headers.get("content-type")
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    if request.method in _SAFE or (kind is None and not has_body):
        return
    if (kind or "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Send the body as application/json.")


def _cookie_name(token: str) -> str:
    # A server on a different port can set cookies for this host, but cannot guess this cookie's name.
    return f"flowdebate-{browser_root(token)[2:]}"


def _cookie_value(token: str, at: float) -> str:
    """Compute the cookie for a browser that signed in at time `at`, without revealing the token."""
    issued = str(round(at * 1000))
    return f"{issued}.{hmac.new(token.encode(), f'cookie {issued}'.encode(), sha256).hexdigest()}"


def are_secrets_equal(value: str, expected: str) -> bool:
    """Compare two secrets in constant time, so that timing does not reveal where they differ."""
    return hmac.compare_digest(value.encode(errors="replace"), expected.encode())


def _unauthorized(detail: str) -> HTTPException:
    return HTTPException(HTTPStatus.UNAUTHORIZED, detail, {"www-authenticate": "Bearer"})


# Signed links


@dataclass(frozen=True, kw_only=True)
class Link:
    """Access granted by a signed link."""

    run_id: str
    started_at: float
    """Start time of the run, in seconds since the epoch; needed because a later run may have the same id."""
    place: str | None = None
    """Path of the only request that the link covers; None if the link covers all requests to `role`."""
    role: str | None = None
    """Name of the block whose requests the link covers; None if the link covers a single request."""
    expires_at: float
    """Expiry time, in seconds since the epoch."""
    share: str | None = None
    """Id of the public link; None for a link that lets a person answer requests."""

    def covers(self, *, block: str, place: str) -> bool:
        """Return whether the link covers the request at `place`, made by `block`."""
        return place == self.place if self.role is None else block == self.role


@dataclass(frozen=True)
class Links:
    """Codec for links signed with a shared secret.

    >>> links = Links("secret", clock=lambda: 0.0)
    >>> code = links.sign(Link(run_id="city", started_at=0.0, place="debate/ann", expires_at=60.0))
    >>> links.read(code).place
    'debate/ann'
    >>> links.read(code[:-1] + "x") is None
    True
    """

    secret: str = field(repr=False)
    clock: Callable[[], float] = time.time

    def sign(self, link: Link) -> str:
        """Sign a link and return its URL-safe code."""
        # The codes omit field names to shorten the URLs that people paste.
        values = astuple(link)[: None if link.share else -1]  # the format stays unchanged for links already in use
        text = json.dumps(values, separators=(",", ":")).encode()
        return f"{_encode(text)}.{self._mac(text)}"

    def read(self, code: str) -> Link | None:
        """Decode a link from its code; return None if the code has expired or its signature is wrong."""
        body, _, mac = code.partition(".")
        try:
            text = base64.b64decode(body + "=" * (-len(body) % 4), altchars=b"-_", validate=True)
        except ValueError:
            return None
        # Base64 can encode some bytes in several ways; only the encoding produced by this library is accepted, so each
        # link has exactly one code.
        if _encode(text) != body or not are_secrets_equal(mac, self._mac(text)):
            return None
        link = Link(**dict(zip((link_field.name for link_field in fields(Link)), json.loads(text), strict=False)))
        return link if self.clock() < link.expires_at else None

    def _mac(self, text: bytes) -> str:
        # The secret may be the token, which also signs cookies; the prefix keeps the two signatures apart.
        return _encode(hmac.new(self.secret.encode(), b"link 2\n" + text, sha256).digest())


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
