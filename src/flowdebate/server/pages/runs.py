"""Pages for a browser, rendered by `flowdebate.web`; a script only adds what goes on right now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, get_args
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Query, Response
from starlette.exceptions import HTTPException
from starlette.requests import Request  # noqa: TC002 - FastAPI reads it
from starlette.responses import HTMLResponse

from flowdebate.errors import FlowDebateError
from flowdebate.patterns import PATTERNS
from flowdebate.server.front import API, Front, FrontOf, ServiceOf, root_of
from flowdebate.server.requests import RunsQuery  # noqa: TC001 - FastAPI reads it
from flowdebate.service.statuses import OVER, State
from flowdebate.service.steps import StepState
from flowdebate.web.run.sheet import Sheet
from flowdebate.web.templates import assets, render

if TYPE_CHECKING:
    from flowdebate.service.owned import OwnedService
    from flowdebate.service.service import Service
    from flowdebate.service.state import RunDetails


_MOST_WAITING = 20
"""Runs above the list that wait for a person; the list itself has all of them."""
_KINDS = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}

router: APIRouter = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)


@router.get("/static/{name}")
async def static(name: str) -> Response:
    """A style sheet, a script or a picture of the pages."""
    contents = assets().get(name)
    if contents is None:
        raise HTTPException(404, "There is no such file.")
    headers = {"cache-control": "max-age=600"}  # names have no version: a new one is seen ten minutes later
    return Response(contents, media_type=_KINDS[name.rpartition(".")[2]], headers=headers)


@router.get("/")
async def runs(query: Annotated[RunsQuery, Query()], request: Request, front: FrontOf, service: ServiceOf) -> Response:
    """The list of runs: those that wait for an answer, and all."""
    found = await service.runs(**query.filters, limit=query.limit, before=query.before)
    filtered = any(query.filters.values())
    waiting = () if filtered or query.before else (await service.runs(status="awaiting", limit=_MOST_WAITING)).runs
    given = query.model_dump(exclude_defaults=True, exclude={"before"}, by_alias=True)
    return page(
        "runs",
        request,
        front,
        here="/",
        runs=found.runs,
        waiting=waiting,
        filtered=filtered,
        query=query,
        older=urlencode({**given, "before": found.next}, doseq=True) if found.next else "",
        statuses=get_args(State),
        patterns=sorted({*PATTERNS, *service.patterns}) if front.service.plans else sorted(service.patterns),
    )


@router.get("/runs/{run_id}")
async def run(run_id: str, request: Request, front: FrontOf, service: ServiceOf) -> Response:
    """A run: what was said, what came out, and the record of it."""
    details = await service.run(run_id)
    sheet = await sheet_of(details, front, service)
    asked = {each.block for each in details.pending}
    people = [] if front.read_only or details.status in OVER else await service.people(run_id)
    address = quote(run_id, safe="")
    return page(
        "run",
        request,
        front,
        run=details,
        sheet=sheet,
        kicker=() if sheet is None else sheet.kicker,
        people=[each for each in people if each not in asked],
        live=details.status in ("queued", "running"),
        api=f"{root_of(request)}{API}/runs/{address}",
        step_link=f"{root_of(request)}/runs/{address}/travel",
    )


async def sheet_of(details: RunDetails, front: Front, service: Service | OwnedService) -> Sheet | None:
    """The sheet of a run; None where it has no document."""
    if details.document is None:
        return None
    steps = [StepState.of(step) for step in await front.service.store.steps(details.run_id)]
    try:
        events = await service.events(details.run_id)
    except FlowDebateError:  # a pattern that is not known here: the document is all that there is
        events = ()
    votes = await service.votes(details.run_id)
    return Sheet.of(details.document, details=details, steps=steps, events=events, votes=votes)


def page(
    name: str,
    request: Request,
    front: Front,
    *,
    status: int = 200,
    here: str = "",
    menu: bool = True,
    **data: Any,  # noqa: ANN401 - what the template shows
) -> Response:
    """The response with a page; `here` is the path of its entry in the menu, which pages of links do not have."""
    writable = not front.read_only
    new = [("New", "/new")] if writable else []
    entries = [("Runs", "/"), *new, ("Audit", "/audit")] if menu else []
    html = render(name, root=root_of(request), menu=entries, here=here, writable=writable, **data)
    return HTMLResponse(html.encode(errors="replace"), status)  # half a surrogate pair of a model is no reason to fail
