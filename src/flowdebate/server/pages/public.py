"""Pages to show: a run turn by turn, and what a public link opens."""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, TypeVar
from urllib.parse import quote

from fastapi import APIRouter, Query, Response
from starlette.exceptions import HTTPException
from starlette.requests import Request  # noqa: TC002 - FastAPI reads it
from starlette.responses import HTMLResponse

from flowdebate.server.front import Front, FrontOf, ServiceOf, root_of
from flowdebate.server.links import share_of
from flowdebate.server.pages.judging import blind_page
from flowdebate.server.pages.runs import page
from flowdebate.service.documents.sections import Fact, Group
from flowdebate.web.run.sheet import Sheet

if TYPE_CHECKING:
    from collections.abc import Iterable

    from flowdebate.service.documents.sections import Section
    from flowdebate.service.state import RunDetails


T = TypeVar("T")

router: APIRouter = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)


@router.get("/runs/{run_id}/present")
async def present(run_id: str, request: Request, front: FrontOf, service: ServiceOf) -> Response:
    """A run turn by turn, in large type."""
    details = await service.run(run_id)
    back = f"{root_of(request)}/runs/{quote(run_id, safe='')}"
    return page("present", request, front, menu=False, run=details, sheet=_sheet(details), back=back, public=False)


@router.get("/shared/{code}")
async def shared(
    code: str,
    request: Request,
    front: FrontOf,
    view: Annotated[int | None, Query(ge=0)] = None,
    reader: Annotated[str, Query(max_length=64)] = "",
) -> Response:
    """What a public link shows: a run, or its blind reading."""
    return await _public(code, request, front, view=view, reader=reader)


@router.get("/shared/{code}/present")
async def present_shared(code: str, request: Request, front: FrontOf) -> Response:
    """The run of a public link, turn by turn."""
    return await _public(code, request, front, presented=True)


async def _public(
    code: str,
    request: Request,
    front: Front,
    *,
    presented: bool = False,
    view: int | None = None,
    reader: str = "",
) -> Response:
    """The page of a public link, which no search engine may list."""
    back = f"{root_of(request)}/shared/{code}"
    try:
        share, stored = await share_of(front, code)
    except HTTPException as error:
        revoked = error.status_code == HTTPStatus.GONE
        response = page("no-link", request, front, status=error.status_code, menu=False, revoked=revoked)
    else:
        run_id, service = stored.header.run_id, front.service
        if share.shows == "vote" and presented:  # it would show who spoke, and who won
            response = page("no-link", request, front, status=404, menu=False)
        elif share.shows == "vote":
            response = await blind_page(
                run_id, request, front, service, view=view, reader=reader, share=share, code=code
            )
        else:
            details = await service.run(run_id)
            name, sheet = "present" if presented else "shared", _sheet(details, public=True)
            response = page(name, request, front, menu=False, run=details, sheet=sheet, back=back, public=True)
    response.headers["x-robots-tag"] = "noindex, nofollow"
    return response


def _sheet(details: RunDetails, *, public: bool = False) -> Sheet | None:
    """What was said in a run, and what came out, without the record of its calls.

    In public also without what failed: the words of an error may have the addresses of servers.
    """
    document = details.document
    if document is None:
        return None
    sections: Iterable[Section] = document.sections()
    if public:
        whole = (replace(each, facts=_told(each.facts)) if isinstance(each, Group) else each for each in sections)
        sections = _told(whole)
    return Sheet.of(document, details=details, sections=sections)


def _told(parts: Iterable[T]) -> tuple[T, ...]:
    """Those that are no warnings."""
    return tuple(each for each in parts if not (isinstance(each, Fact) and each.tone == "warning"))
