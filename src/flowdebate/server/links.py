"""Endpoints for signed links; each link only grants the right to answer one run's requests or to read the run."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from http import HTTPStatus
from typing import Annotated, ClassVar

from fastapi import APIRouter, Body, Response
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from starlette.exceptions import HTTPException
from starlette.requests import Request  # noqa: TC002 - FastAPI reads it

from flowdebate.errors import ConfigurationError, NotAwaited, RunNotFound
from flowdebate.evaluation.readers import Share, Shown, Votes, shares_of, votes_in
from flowdebate.server.front import API, Front, FrontOf, ServiceOf, data, stored_run
from flowdebate.server.guard import Link, shared_root_of
from flowdebate.server.problems import JSONData, responses
from flowdebate.server.requests import LinkAnswerBody, LinkBody, VoteBody
from flowdebate.service.owned import OwnedService
from flowdebate.service.service import Service
from flowdebate.service.state import PendingInput
from flowdebate.store.base import StoredRun

MAX_VOTES = 1_000
"""Maximum number of votes cast through one public link; without a limit, the link's holder could invent any number of
readers.
"""

router: APIRouter = APIRouter(tags=["links"])


class CreatedLink(BaseModel):
    """A new link: either a public one, or one for answering requests."""

    model_config: ClassVar[ConfigDict] = ConfigDict(alias_generator=to_camel, validate_by_name=True)
    path: str = Field(description="Path of the endpoint, to be appended to the server's public address.")
    page: str = Field(description="Path of the page for a browser: send this one.")
    place: str | None
    role: str | None
    shows: Shown | None = Field(None, description="What a public link shows.")
    id: str | None = Field(None, description="ID of a public link, which is needed to revoke it.")
    expires_at: float = Field(description="Seconds since the epoch.")


@router.post(
    "/runs/{run_id}/links",
    status_code=HTTPStatus.CREATED,
    response_model=CreatedLink,
    responses=responses(404, 409),
)
async def make_link(
    run_id: str,
    front: FrontOf,
    service: ServiceOf,
    request: Request,
    body: Annotated[LinkBody | None, Body()] = None,
) -> Response:
    """Create a link that needs no token.

    The link allows answering one request or all requests to a role. If `shows` is set, it is a public link for reading
    the run or voting on it.
    """
    front.check_writable()
    body = body or LinkBody()
    created_at = (await stored_run(service, run_id)).header.created_at
    if body.shows is not None:
        for field, target in (("role", body.role), ("place", body.place)):
            if target is not None:
                raise ConfigurationError("POST /runs/{id}/links", "shows", None, f"cannot be combined with `{field}`")
        shared = created_link(await service.share(run_id, body.shows, seconds=body.seconds), run_id, front, request)
        return JSONData(shared.model_dump(by_alias=True), HTTPStatus.CREATED, {"location": shared.page})
    place = None if body.role is not None else await _find_request_path(run_id, body.place, front, service)
    if body.role is not None and body.role not in (roles := await service.people(run_id)):
        raise ConfigurationError(
            "POST /runs/{id}/links",
            "role",
            body.role,
            "must be the role of a human in the run",
            choices=roles,
        )
    expires_at = front.links.clock() + body.seconds
    link = Link(run_id=run_id, started_at=created_at, place=place, role=body.role, expires_at=expires_at)
    root, code = shared_root_of(request), front.links.sign(link)
    path = f"{root}{API}/links/{code}"
    link_made = CreatedLink(path=path, page=f"{root}/answer/{code}", place=place, role=link.role, expires_at=expires_at)
    return JSONData(link_made.model_dump(by_alias=True), HTTPStatus.CREATED, {"location": path})


def created_link(share: Share, run_id: str, front: Front, request: Request) -> CreatedLink:
    """Build the `CreatedLink` for a public link."""
    root = shared_root_of(request)
    link = Link(run_id=run_id, started_at=share.begun_at, expires_at=share.expires_at, share=share.id)
    code = front.links.sign(link)
    page = f"{root}/shared/{code}"
    path = f"{root}{API}/links/{code}/votes" if share.shows == "vote" else page
    expires_at = share.expires_at
    return CreatedLink(
        path=path, page=page, place=None, role=None, shows=share.shows, id=share.id, expires_at=expires_at
    )


@router.get("/runs/{run_id}/links", response_model=list[CreatedLink], responses=responses(404))
async def public_links(run_id: str, front: FrontOf, service: ServiceOf, request: Request) -> Response:
    """List a run's valid public links."""
    links = [created_link(share, run_id, front, request) for share in await service.shares(run_id)]
    return JSONData([link.model_dump(by_alias=True) for link in links])


@router.delete("/runs/{run_id}/links/{link_id}", status_code=HTTPStatus.NO_CONTENT, responses=responses(404))
async def revoke_link(run_id: str, link_id: str, front: FrontOf, service: ServiceOf) -> Response:
    """Revoke a public link, so that it no longer shows anything."""
    front.check_writable()
    if not await service.unshare(run_id, link_id):
        raise HTTPException(HTTPStatus.NOT_FOUND, "The run has no such public link, or the link was revoked.")
    return Response(status_code=HTTPStatus.NO_CONTENT)


@router.post(
    "/links/{code}/votes", status_code=HTTPStatus.CREATED, response_model=Votes, responses=responses(404, 409, 410)
)
async def vote_by_link(code: str, body: VoteBody, front: FrontOf) -> Response:
    """Vote through a public link. Only the first vote of each `reader` counts. Needs no token."""
    front.check_writable()
    share, stored = await share_of(front, code)
    if share.shows != "vote":
        raise HTTPException(HTTPStatus.NOT_FOUND, "This link does not accept votes.")
    if body.reader is None:
        raise ConfigurationError(
            "POST /links/{code}/votes",
            "reader",
            None,
            "is required: pass a random ID to identify the reader",
        )
    run_id = stored.header.run_id
    # without this lock, several simultaneous votes could each be accepted as the last one allowed
    async with front.beginning(share.id):
        cast = await votes_in(front.service.store, stored)
        if sum(reader.startswith(share.id) for reader in cast) >= MAX_VOTES:
            problem = f"already has {MAX_VOTES:,} votes from this link, the maximum"
            raise NotAwaited(front.service.store.name, run_id, problem)
        reader = f"{share.id}-{body.reader}"
        votes = await front.service.vote(run_id, reader, body.winner, why=body.why, order=body.order)
    return data(votes, HTTPStatus.CREATED)


@router.get(
    "/links/{code}/events",
    response_class=Response,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}, **responses(404, 410, 429)},
)
async def events_of_link(code: str, front: FrontOf) -> Response:
    """Stream page fragments for the run behind a public link. Needs no token."""
    share, stored = await share_of(front, code)
    if share.shows != "run":
        raise HTTPException(HTTPStatus.NOT_FOUND, "This link does not point to a run.")

    async def is_valid() -> bool:
        try:
            await share_of(front, code)
        except HTTPException:
            return False
        return True

    return front.readers.page(front.service, stored.header.run_id, public=True, is_valid=is_valid)


async def _find_request_path(run_id: str, place: str | None, front: Front, service: Service | OwnedService) -> str:
    """Return the path of the pending request at `place` or, if `place` is None, of the run's only pending request.

    Raises NotAwaited if there is no such request.
    """
    places = [request_pending.place for request_pending in (await service.run(run_id)).pending]
    if place in places or (place is None and len(places) == 1):
        return place or places[0]
    location = f"is not waiting at {place}" if place else "is waiting in several places; specify one"
    raise NotAwaited(front.service.store.name, run_id, location if places else "is not waiting for an answer", places)


@router.get("/links/{code}", response_model=PendingInput, responses=responses(404, 409))
async def request_of_link(code: str, front: FrontOf) -> Response:
    """Return the request that a link covers, or the pending request for the link's role. Needs no token."""
    link, _ = await link_of(front, code)
    return data(await _awaited(front, link))


@router.post("/links/{code}", status_code=HTTPStatus.NO_CONTENT, responses=responses(404, 409))
async def answer_by_link(code: str, body: LinkAnswerBody, front: FrontOf) -> Response:
    """Answer the request that a link covers, or the pending request for the link's role. Needs no token."""
    front.check_writable()
    link, _ = await link_of(front, code)
    place = link.place or (await _awaited(front, link)).place
    if body.place not in (None, place):
        raise NotAwaited(
            front.service.store.name, link.run_id, f"is no longer waiting for an answer at {body.place}", [place]
        )
    await front.service.answer(link.run_id, body.answer, place=place, by=f"a link for {link.role or place}")
    return Response(status_code=HTTPStatus.NO_CONTENT)


async def _awaited(front: Front, link: Link) -> PendingInput:
    """Return the pending request covered by the link; raise NotAwaited if there is none."""
    pending = request_for((await front.service.run(link.run_id)).pending, link)
    if pending is None:
        problem = "already has this answer, or is not waiting for it"
        raise NotAwaited(front.service.store.name, link.run_id, problem)
    return pending


def request_for(pending: Iterable[PendingInput], link: Link) -> PendingInput | None:
    """Find the pending request covered by a link; return None if there is none."""
    return next((request for request in pending if link.covers(block=request.block, place=request.place)), None)


async def share_of(front: Front, code: str) -> tuple[Share, StoredRun]:
    """Return the public link with this code, and its run.

    Responds with 404 if the code is invalid, or with 410 if the link has been revoked.
    """
    link, stored = await link_of(front, code, public=True)
    share = (await shares_of(front.service.store, stored)).get(link.share or "")
    if share is None:
        raise HTTPException(HTTPStatus.GONE, "This link was revoked.")
    return share, stored


async def link_of(front: Front, code: str, *, public: bool = False) -> tuple[Link, StoredRun]:
    """Return the link with this code, and its run.

    Responds with 404 if the code is invalid, the link is of a different kind, or the run has been deleted.
    """
    link = front.links.read(code)
    if link is not None and (link.share is not None) is public:
        with suppress(RunNotFound):
            stored = await front.service.store.run(link.run_id)
            # A new run may have the same id as the deleted run for which the link was made.
            if stored.header.created_at == link.started_at:
                return link, stored
    raise HTTPException(HTTPStatus.NOT_FOUND, "This link is invalid or no longer valid.")
