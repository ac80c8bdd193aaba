"""Pages for a browser, rendered by `flowdebate.web`; a script only adds what goes on right now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Query, Response
from starlette.exceptions import HTTPException
from starlette.requests import Request  # noqa: TC002 - FastAPI reads it
from starlette.responses import HTMLResponse

from flowdebate.errors import ConfigurationError, FlowDebateError
from flowdebate.patterns import PATTERNS
from flowdebate.server.front import API, Front, FrontOf, ServiceOf, root_of
from flowdebate.server.guard import shared_root_of
from flowdebate.server.links import made_of
from flowdebate.server.requests import RunsQuery  # noqa: TC001 - FastAPI reads it
from flowdebate.service.statuses import OVER, State
from flowdebate.service.steps import StepState
from flowdebate.web.run.sheet import Sheet
from flowdebate.web.run.travel import ForkLine, compared, fork_line, moment_at
from flowdebate.web.templates import assets, render

if TYPE_CHECKING:
    from flowdebate.service.owned import OwnedService
    from flowdebate.service.service import Service
    from flowdebate.service.state import RunDetails, RunState
    from flowdebate.web.run.record import Call


_MOST_WAITING = 20
"""Runs above the list that wait for a person; the list itself has all of them."""
_MOST_DEBATES = 100
"""Debates of the archive on its page; the command lists all."""
_KINDS = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml", "png": "image/png"}

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
    samples = [(info.name, info.load_page().sample.get(info.subject)) for info in PATTERNS.values()]
    return page(
        "runs",
        request,
        front,
        here="/",
        samples=[(name, question) for name, question in samples if question][:3] if front.service.plans else [],
        notes={each.run_id: await service.note(each.run_id) for each in found.runs},
        runs=found.runs,
        waiting=waiting,
        filtered=filtered,
        query=query,
        older=urlencode({**given, "before": found.next}, doseq=True) if found.next else "",
        statuses=get_args(State),
        patterns=sorted({*PATTERNS, *service.patterns}) if front.service.plans else sorted(service.patterns),
    )


@router.get("/archive")
async def archive(request: Request, front: FrontOf, service: ServiceOf) -> Response:
    """What later debates are shown, and what turned out since."""
    debates = (await service.archive().debates())[:_MOST_DEBATES]
    return page("archive", request, front, here="/archive", debates=debates, most=_MOST_DEBATES)


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
        note=await service.note(run_id),
        people=[each for each in people if each not in asked],
        shares=[made_of(each, run_id, front, request) for each in await service.shares(run_id)],
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
    entries = [("Runs", "/"), *new, ("Archive", "/archive"), ("Audit", "/audit")] if menu else []
    root, signed_in = root_of(request), menu and root_of(request) != shared_root_of(request)
    card = request.url.replace(path=f"{root}/static/card.png", query="")
    html = render(name, root=root, menu=entries, here=here, writable=writable, signed_in=signed_in, card=card, **data)
    return HTMLResponse(html.encode(errors="replace"), status)  # half a surrogate pair of a model is no reason to fail


_MOST_FORKS = 20
"""Forks that a page lists, each with its own sheet."""
_PAGE, _MOST_PAGES = 200, 10
"""Runs that are read at once while forks are looked for, and how often at most: the store has no index of parents."""

_RunId = Annotated[str, Query(max_length=200)]


@router.get("/runs/{run_id}/travel")
async def travel(
    run_id: str, request: Request, front: FrontOf, service: ServiceOf, step: Annotated[int, Query(ge=1)] = 1
) -> Response:
    """A run at one of its steps, from where it can be forked."""
    details = await service.run(run_id)
    sheet = await sheet_of(details, front, service)
    moment = None if sheet is None else moment_at(sheet, step)
    sent = None
    if moment is not None:
        try:
            sent = await service.call(run_id, moment.call.place)
        except ConfigurationError:  # its pattern is not known here
            sent = None
    steps = {} if sheet is None else {call.place: call for call in sheet.trace.calls}
    forks, more = await _forks_of(details, steps, service)
    return page(
        "travel",
        request,
        front,
        run=details,
        sheet=sheet,
        moment=moment,
        sent=sent,
        forks=forks,
        more=more,
        address=f"runs/{quote(run_id, safe='')}",
    )


@router.get("/compare")
async def compare(
    request: Request,
    front: FrontOf,
    service: ServiceOf,
    run: Annotated[list[str] | None, Query(max_length=10)] = None,
    a: _RunId = "",
    b: _RunId = "",
) -> Response:
    """Two runs side by side: `a` and `b`, or those chosen in the list."""
    chosen = list(filter(None, (a, b))) or run or []
    if len(chosen) != 2:  # noqa: PLR2004 - side by side
        raise HTTPException(422, f"Choose two runs to compare, not {len(chosen) or 'none'}.")
    a, b = reversed(chosen) if run else chosen  # the list has the older one below
    runs = [await service.run(run_id) for run_id in (a, b)]
    sheets = [await sheet_of(run, front, service) for run in runs]
    one, other = (() if sheet is None else sheet.trace.calls for sheet in sheets)
    fork: Literal["one", "other"] | None = "other" if runs[1].parent == a else "one" if runs[0].parent == b else None
    return page(
        "compare",
        request,
        front,
        runs=runs,
        sheets=sheets,
        fork=fork,
        steps=compared(one, other, fork=fork),
        addresses=[f"runs/{quote(run.run_id, safe='')}" for run in runs],
    )


async def _forks_of(
    run: RunDetails, steps: dict[str, Call], service: Service | OwnedService
) -> tuple[list[ForkLine], bool]:
    """The newest forks of a run, and whether there may be more. They are younger than it, and have its question."""
    found: list[RunState] = []
    before: str | None = None
    for _ in range(_MOST_PAGES):
        listed = await service.runs(text=run.question or None, limit=_PAGE, before=before)
        found += [each for each in listed.runs if each.parent == run.run_id]
        before = listed.next
        if before is None or len(found) > _MOST_FORKS or listed.runs[-1].created_at < run.created_at:
            break
    is_older = before is None or listed.runs[-1].created_at < run.created_at
    lines: list[ForkLine] = []
    for each in found[:_MOST_FORKS]:
        details = await service.run(each.run_id)
        at, edited = (None, ()) if details.fork is None else (details.fork.at, details.fork.edited)
        sheet = None if details.document is None else Sheet.of(details.document, details=details)
        lines.append(fork_line(details, at=at, edited=edited, steps=steps, sheet=sheet))
    return lines, len(found) > _MOST_FORKS or not is_older
