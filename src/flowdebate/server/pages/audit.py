"""Page of the judge audit: what stored ballots and votes of readers say about the judges."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Response
from starlette.requests import Request  # noqa: TC002 - FastAPI reads it
from starlette.responses import HTMLResponse

from flowdebate.server.front import FrontOf, ServiceOf  # noqa: TC001 - FastAPI reads them
from flowdebate.server.pages.runs import page
from flowdebate.server.requests import AuditQuery  # noqa: TC001 - FastAPI reads it
from flowdebate.service.audit import audit_of, has_intervals, rows_of
from flowdebate.web.plot import plot_of

_MOST_RUNS = 1_000
_PLACES = ("slot", "label", "speaker", "last word")

router: APIRouter = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)


@router.get("/audit")
async def audit(
    query: Annotated[AuditQuery, Query()], request: Request, front: FrontOf, service: ServiceOf
) -> Response:
    """The judges of the runs that match the filters."""
    items = await service.audited(pattern=query.pattern, text=query.text, labels=query.labels, limit=_MOST_RUNS)
    audited = await asyncio.to_thread(audit_of, items)
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
