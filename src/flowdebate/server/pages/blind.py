"""Page of a vote: a debate without names, read blind."""

from __future__ import annotations

import secrets
from http import HTTPStatus
from typing import Annotated
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Query, Response
from starlette.requests import Request  # noqa: TC002 - FastAPI reads it
from starlette.responses import HTMLResponse, RedirectResponse

from flowdebate.patterns.debate.blind import BlindReading, blind_views
from flowdebate.server.front import FrontOf, ServiceOf  # noqa: TC001 - FastAPI reads them
from flowdebate.server.pages.runs import page, sheet_of
from flowdebate.service.votes import sides_of

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
    details = await service.run(run_id)
    stored = await front.service.store.run(run_id)
    address = f"runs/{quote(run_id, safe='')}"
    if not sides_of(stored) or details.document is None:
        return page("blind", request, front, run=details, reading=None, address=address)
    sheet = await sheet_of(details, front, service)
    assert sheet is not None  # noqa: S101 - it has a document
    raw = sheet.document.raw
    if view is None:
        query = urlencode({"view": secrets.randbelow(len(blind_views(raw))), **({"reader": reader} if reader else {})})
        return RedirectResponse(f"?{query}", HTTPStatus.SEE_OTHER)
    models = {call.model for call in sheet.trace.calls if call.model is not None}
    parties = {getattr(each, "stance", ""): sheet.names[each.name] for each in sheet.document.speakers}
    vote = await service.vote_of(run_id, reader)
    return page(
        "blind",
        request,
        front,
        run=details,
        reading=BlindReading.of(raw, view=view, names=[party.name for party in sheet.parties], models=sorted(models)),
        address=address,
        sheet=sheet,
        vote=vote,
        votes=sheet.votes,
        parties=parties,
    )
