"""Code shared by all endpoints: access to the user's service, and the server's checks on requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, TypeAlias
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from fastapi import Depends
from starlette.exceptions import HTTPException
from starlette.requests import Request  # noqa: TC002 - FastAPI reads it

from flowdebate._util.wire import WireModel
from flowdebate.errors import ConfigurationError
from flowdebate.runs.limits import Limits
from flowdebate.server.guard import Links, owner_of
from flowdebate.server.problems import JSONData
from flowdebate.server.protocols.streams import Audience
from flowdebate.service.owned import OwnedService
from flowdebate.service.service import Service
from flowdebate.sources.files import outside_of

if TYPE_CHECKING:
    from pathlib import Path

    from starlette.responses import Response

    from flowdebate.server.requests import LimitsBody
    from flowdebate.server.sse import Readers
    from flowdebate.store.base import StoredRun
    from flowdebate.ui.options import PlanOptions


API = "/api/v1"
_SESSIONS, _SIGNED_OUT = "flowdebate/browsers", "signed out"
"""Collection and id of the stored document that records when all browsers were last signed out.

The document is kept in the store, because tokens outlive a server and may be shared by several servers.
"""


@dataclass(frozen=True, kw_only=True)
class Front:
    """State shared by the endpoints of one server."""

    service: Service
    readers: Readers
    links: Links
    read_only: bool
    base_urls: tuple[str, ...]
    """URLs allowed in a request's options, along with all URLs below them."""
    sources: tuple[Path, ...] = ()
    """Folders whose files may be used as sources; empty if requests must include the text of their sources."""
    audience: Audience = field(default_factory=Audience)
    """Readers on whose behalf runs were started: clients of the OpenAI-compatible endpoint and of AG-UI."""

    _locks: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)
    at_end: list[Callable[[], object]] = field(default_factory=list)
    """Functions to call while the server is stopping. Calling them after it has stopped would be too late, because a
    signal then ends the process.
    """

    def close(self) -> None:
        """End all streams."""
        for call in self.at_end:
            call()
        self.readers.close()
        self.audience.close()

    async def signed_out(self) -> float:
        """Return the time of the last sign-out of all browsers, in seconds since the epoch."""
        return float((await self.service.store.documents(_SESSIONS)).get(_SIGNED_OUT, "0"))

    async def sign_out(self) -> None:
        """Sign out all browsers on every server that shares this store."""
        store, now = self.service.store, repr(time.time())
        before = (await store.documents(_SESSIONS)).get(_SIGNED_OUT)
        # fails if another request has just signed out all browsers
        await store.put(_SESSIONS, _SIGNED_OUT, now, expected=before)

    def check_writable(self) -> None:
        """Reject the request with status 403 if the server is read-only."""
        if self.read_only:
            raise HTTPException(
                HTTPStatus.FORBIDDEN, "This server is read-only: it shows runs, but cannot start or change them."
            )

    def check_options(self, options: PlanOptions) -> None:
        """Raise ConfigurationError for options that would access files or addresses not allowed by this server."""
        for name, paths in options.reached("file").items():  # files on this machine, whose contents models would see
            folders = self.sources if name == "sources" else ()
            if refused := outside_of(folders, paths) if folders else paths:
                got = refused[0] if name == "sources" else None  # other values may be secrets
                allowed = f"refer to files outside {' and '.join(map(str, folders))}" if folders else "refer to files"
                problem = f"cannot {allowed} over HTTP; send the content itself"
                raise ConfigurationError("options", name, got, problem)
        for name, addresses in options.reached("server").items():
            if not all(any(_is_below(address, allowed) for allowed in self.base_urls) for address in addresses):
                urls = " or ".join(self.base_urls)
                problem = f"must be at or below {urls} for requests over HTTP" if urls else "cannot be set over HTTP"
                raise ConfigurationError("options", name, None, problem)

    def beginning(self, run_id: str | None) -> asyncio.Lock:
        """Return the lock for starting a run, so that concurrent requests with the same `runId` start only one run."""
        return asyncio.Lock() if run_id is None else self._locks.setdefault(run_id, asyncio.Lock())

    def is_option_allowed(self, options: type[PlanOptions], name: str) -> bool:
        """Return whether a request may set this option; `check_options` checks its value."""
        reaches = options.reaches(name)
        return not reaches.isdisjoint({"nothing", "model"}) or ("server" in reaches and bool(self.base_urls))


def _is_below(url: str, allowed: str) -> bool:
    """Return whether `url` is at or below `allowed` on the same server.

    A URL that contains `..` is rejected, because it could lead outside the allowed path.
    """
    url_parts, base = urlsplit(url), urlsplit(allowed)
    if (
        (url_parts.scheme, url_parts.netloc.lower()) != (base.scheme, base.netloc.lower())
        or url_parts.query
        or url_parts.fragment
    ):
        return False
    root = base.path.rstrip("/")
    return (url_parts.path.rstrip("/") == root or url_parts.path.startswith(f"{root}/")) and ".." not in url_parts.path


async def _front(request: Request) -> Front:
    front: Front = request.app.state.front
    return front


async def _service(request: Request) -> Service | OwnedService:
    service, owner = request.app.state.front.service, owner_of(request.scope)
    # Endpoints use this service, so they find only the requesting user's runs.
    return service if owner is None else OwnedService(service, owner)


FrontOf: TypeAlias = Annotated[Front, Depends(_front)]
ServiceOf: TypeAlias = Annotated[Service | OwnedService, Depends(_service)]


async def check_writable(front: FrontOf) -> None:
    """Reject the request with status 403 if the server is read-only."""
    front.check_writable()


async def stored_run(service: Service | OwnedService, run_id: str) -> StoredRun:
    """Return a stored run; raise RunNotFound if it does not exist or belongs to another user."""
    return await (service.stored(run_id) if isinstance(service, OwnedService) else service.store.run(run_id))


def data(value: WireModel | Sequence[WireModel], status: int = 200, **headers: str) -> Response:
    """Build a JSON response from a value or a list of values."""
    if isinstance(value, WireModel):
        plain: object = value.model_dump(mode="json", by_alias=True)
    else:
        plain = [item.model_dump(mode="json", by_alias=True) for item in value]
    return JSONData(plain, status_code=status, headers=headers)


def limits_of(body: LimitsBody | None) -> Limits | None:
    """Convert limits from a request body to `Limits`."""
    return None if body is None else Limits(**body.model_dump())


def root_of(request: Request) -> str:
    """Return the application's mount path."""
    root: str = request.scope.get("root_path", "")
    return root.rstrip("/")
