"""Pages of what others see and judge: runs to present, public links, blind votes, and the audit of judges."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable
from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Query, Response
from starlette.exceptions import HTTPException
from starlette.requests import Request  # noqa: TC002 - FastAPI reads it
from starlette.responses import HTMLResponse, RedirectResponse

from flowdebate.patterns.debate.judging.views import BlindReading, blind_views
from flowdebate.server.front import Front, FrontOf, ServiceOf, root_of
from flowdebate.server.links import share_of
from flowdebate.server.pages.runs import page, sheet_of
from flowdebate.server.requests import AuditQuery  # noqa: TC001 - FastAPI reads it
from flowdebate.service.audit import audit_of, has_intervals, rows_of
from flowdebate.service.documents.sections import Fact, Group, Section
from flowdebate.service.readers import Share, sides_of
from flowdebate.web.plots import plot_of
from flowdebate.web.run.sheet import Sheet

if TYPE_CHECKING:
    from flowdebate.service.owned import OwnedService
    from flowdebate.service.service import Service
    from flowdebate.service.state import RunDetails


_MOST_RUNS = 1_000
"""Runs of an audit; the page says so, and the command has no such bound."""
_PLACES = ("slot", "label", "speaker", "last word")
"""Beginnings of the names of figures about places."""

router: APIRouter = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)


@router.get("/runs/{run_id}/blind")
async def blind(
    run_id: str,
    request: Request,
    front: FrontOf,
    service: ServiceOf,
    view: Annotated[int | None, Query(ge=0)] = None,
    reader: Annotated[str, Query(max_length=64)] = "",
) -> Response:
    """A debate without names, to vote on before the verdict is seen."""
    return await blind_page(run_id, request, front, service, view=view, reader=reader)


async def blind_page(
    run_id: str,
    request: Request,
    front: Front,
    service: Service | OwnedService,
    *,
    view: int | None,
    reader: str,
    share: Share | None = None,
    code: str = "",
) -> Response:
    """The blind reading of a run for its `reader`; by a public link, it leads to no other page of the run."""
    details = await service.run(run_id)
    stored = await front.service.store.run(run_id)
    address = quote(run_id, safe="")
    shown: dict[str, Any] = {
        "run": details,
        "share": share,
        "address": f"runs/{address}",
        "to": f"/links/{code}/votes" if share else f"/runs/{address}/votes",
    }
    if not sides_of(stored) or details.document is None:
        return page("blind", request, front, menu=share is None, **shown, reading=None)
    sheet = await sheet_of(details, front, service)
    assert sheet is not None  # noqa: S101 - it has a document
    raw = sheet.document.raw
    if view is None:  # drawn once, and then in the address: a reload must not show the sides in another order
        query = urlencode({"view": secrets.randbelow(len(blind_views(raw))), **({"reader": reader} if reader else {})})
        return RedirectResponse(f"?{query}", HTTPStatus.SEE_OTHER)
    models = {call.model for call in sheet.trace.calls if call.model is not None}
    return page(
        "blind",
        request,
        front,
        menu=share is None,
        **shown,
        reading=BlindReading.of(raw, view=view, names=[party.name for party in sheet.parties], models=sorted(models)),
        sheet=sheet,
        vote=await service.vote_of(run_id, f"{share.id}-{reader}" if share else reader),
        votes=sheet.votes,
        parties={getattr(each, "stance", ""): sheet.names[each.name] for each in sheet.document.speakers},
    )


@router.get("/audit")
async def audit(
    query: Annotated[AuditQuery, Query()], request: Request, front: FrontOf, service: ServiceOf
) -> Response:
    """The judges of the runs that match the filters."""
    items = await service.audited(**query.filters, limit=_MOST_RUNS)
    audited = await asyncio.to_thread(audit_of, items)  # resampling keeps a core busy, and streams must go on
    rows = rows_of(audited, items.readers)
    every = [row for row in rows if row.judge == "all"]
    return page(
        "audit",
        request,
        front,
        here="/audit",
        query=query,
        items=items,
        audited=audited,
        rows=rows,
        places=plot_of([row for row in every if row.name.startswith(_PLACES)]),
        holding=plot_of([row for row in every if not row.name.startswith((*_PLACES, "preference", "first"))]),
        most=_MOST_RUNS,
        intervals=has_intervals(),
    )


T = TypeVar("T")


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
