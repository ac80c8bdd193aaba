"""Signed links: each lets one person answer one request, or play one role, of one run, until it expires."""

from __future__ import annotations

import base64
import hmac
import json
import time
from dataclasses import astuple, dataclass, field, fields
from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, kw_only=True)
class Link:
    """What a link gives access to."""

    run_id: str
    began: float
    """When the run began, in seconds since the epoch: a later one of the same id is another run."""
    place: str | None = None
    """Of the one request that it is for; None for all those of `role`."""
    role: str | None = None
    """The name of the block that asks; None for one request."""
    expires_at: float
    """Seconds since the epoch."""

    def covers(self, *, block: str, place: str) -> bool:
        """Whether it is for the request at `place`, which `block` asks."""
        return place == self.place if self.role is None else block == self.role


_FIELDS = tuple(each.name for each in fields(Link))


@dataclass(frozen=True)
class Links:
    """Signs links and reads them, with one secret.

    >>> links = Links("secret", clock=lambda: 0.0)
    >>> code = links.sign(Link(run_id="city", began=0.0, place="debate/ann", expires_at=60.0))
    >>> links.read(code).place
    'debate/ann'
    >>> links.read(code[:-1] + "x") is None
    True
    """

    secret: str = field(repr=False)
    clock: Callable[[], float] = time.time

    def sign(self, link: Link) -> str:
        """The code of a link, which is safe in a URL."""
        text = json.dumps(astuple(link), separators=(",", ":")).encode()
        return f"{_encoded(text)}.{_encoded(self._mac(text))}"

    def read(self, code: str) -> Link | None:
        """The link of a code; None for one that was not signed here, or has expired."""
        body, _, mac = code.partition(".")
        text = _decoded(body)
        if text is None or not hmac.compare_digest(_encoded(self._mac(text)), mac.encode("ascii", "replace").decode()):
            return None
        link = Link(**dict(zip(_FIELDS, json.loads(text), strict=True)))
        return link if self.clock() < link.expires_at else None

    def _mac(self, text: bytes) -> bytes:
        return hmac.new(self.secret.encode(), b"link 2\n" + text, sha256).digest()


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _decoded(text: str) -> bytes | None:
    """The data of `text`; None if it is not exactly what `_encoded` writes."""
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError:
        return None
    return data if _encoded(data) == text else None
