"""Pages about judges: a vote on a debate that is read blind, and the audit of what judges and readers found."""

from __future__ import annotations

import asyncio
import secrets
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Query, Response
from starlette.requests import Request  # noqa: TC002 - FastAPI reads it
from starlette.responses import HTMLResponse, RedirectResponse

from flowdebate.patterns.debate.judging.views import BlindReading, blind_views
from flowdebate.server.front import FrontOf, ServiceOf  # noqa: TC001 - FastAPI reads them
from flowdebate.server.pages.runs import page, sheet_of
from flowdebate.server.requests import AuditQuery  # noqa: TC001 - FastAPI reads it
from flowdebate.service.audit import audit_of, has_intervals, rows_of
from flowdebate.service.votes import sides_of
from flowdebate.web.plot import plot_of

if TYPE_CHECKING:
    from flowdebate.server.front import Front
    from flowdebate.service.owned import OwnedService
    from flowdebate.service.service import Service
    from flowdebate.service.shares import Share


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
